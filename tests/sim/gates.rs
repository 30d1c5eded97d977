//! An independent model of the schedule alone: what waits, as on disk, what is out, and until
//! when each destination is to be left alone. It asks for picks and checks each against the
//! invariants of SCHEDULER.md 4.1, from the outside.

use std::collections::BTreeMap;

use duehook::model::{DeliveryId, DestNo, DestinationState, DueEntry, Lane, TenantNo};
use duehook::outcome::{AttemptResult, GateMemory, Hold, HoldReason};
use duehook::schedule::{
    BUFFER, BreakerState, GateSettings, GateView, Pick, Pool, Schedule, Seen, Slot, Terms,
};
use duehook::time::{Millis, Mono, Now, Timestamp};

use crate::sim::fairness::{Fairness, Served};
use crate::sim::rng::Rng;

/// Lanes of three classes.
pub(crate) const LANES: u8 = 6;
/// What a request that turns slow costs, and the range of all others (SCHEDULER.md 3.4).
const MOST: u64 = 30_000;
const LEAST: u64 = 10;
/// What a request costs while nothing is known of its destination.
const UNKNOWN: u64 = 50;
/// A request that is out for longer is slow.
const AGE: u64 = 2_000;
/// No breaker is open for longer.
const LONGEST_OPEN: Millis = Millis(300_000);
/// Bound of I20: a destination at its limit is looked at once for each of its lanes that is due.
const VISITS_PER_CLAIM: u64 = LANES as u64;

/// A destination as the model has it.
pub(crate) struct Gate {
    pub(crate) settings: GateSettings,
    /// Rows that wait, as they are on disk.
    pub(crate) disk: BTreeMap<Lane, BTreeMap<(Timestamp, DeliveryId), DueEntry>>,
    /// Left alone until then, on both clocks; `loaded` when it was there at the start.
    hold: Option<(Timestamp, Mono)>,
    loaded: bool,
    /// How long each of its requests takes, in a world where that is known; 0 where it is not.
    pub(crate) takes: u64,
    /// When an answer last closed it.
    fell: u64,
    /// When an answer last halved its limit.
    halved: u64,
    /// When requests went out, while its rate is what it is.
    starts: Vec<Mono>,
}

/// A request that is out.
struct Out {
    slot: Slot,
    no: DestNo,
    lane: Lane,
    charged: u64,
    /// Its pool when it was last looked at.
    pool: Pool,
    started: Mono,
    /// The number of the operation in which it went out.
    op: u64,
    suspect: bool,
}

/// The schedule and its model.
pub(crate) struct Gates {
    pub(crate) rng: Rng,
    pub(crate) schedule: Schedule,
    terms: Terms,
    pub(crate) gates: Vec<Gate>,
    out: Vec<Out>,
    pub(crate) mono: u64,
    wall: u64,
    op: u64,
    next_id: u128,
    /// Every request takes as long as its destination is known to.
    exact: bool,
    pub(crate) fairness: Fairness,
    pub(crate) pages: u64,
    pub(crate) rows_read: u64,
    /// Lanes that were on disk and are to be told of.
    unfound: Vec<(DestNo, Lane)>,
    pub(crate) fired: BTreeMap<&'static str, u64>,
}

/// How a world of gates is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Requests take as long as they are known to, and all the same.
    Equal,
    /// Requests take as long as they are known to.
    Known,
    /// Anything happens.
    Wild,
}

impl Gates {
    pub(crate) fn new(seed: u64, kind: Kind) -> Gates {
        let mut rng = Rng::new(seed);
        let slots = if rng.percent(50) { 1 + rng.below(63) } else { 64 + rng.below(140) } as u32;
        let terms = Terms {
            slots,
            suspect_slots: if rng.percent(50) { slots } else { 1 + rng.below(4) as u32 },
            reserve_permille: 300,
            weights: vec![4, 2, 1],
        };
        let mut it = Gates {
            schedule: Schedule::new(&terms),
            terms,
            gates: Vec::new(),
            out: Vec::new(),
            mono: 5,
            wall: 1_000_000_000,
            op: 0,
            next_id: 1,
            exact: kind != Kind::Wild,
            fairness: Fairness::default(),
            pages: 0,
            rows_read: 0,
            unfound: Vec::new(),
            fired: BTreeMap::new(),
            rng,
        };
        it.populate(kind);
        it
    }

    fn fire(&mut self, what: &'static str) {
        *self.fired.entry(what).or_default() += 1;
    }

    pub(crate) fn now(&self) -> Now {
        Now { wall: Timestamp(self.wall), mono: Mono(self.mono) }
    }

    fn populate(&mut self, kind: Kind) {
        let tenants = 1 + self.rng.below(6);
        let weights: Vec<u32> = (0..tenants).map(|_| 1 + self.rng.below(9) as u32).collect();
        let gates = 1 + self.rng.below(if self.rng.clone().percent(20) { 300 } else { 40 });
        let same = 10 + self.rng.below(400);
        let finding = kind == Kind::Wild && self.rng.percent(40);
        if finding {
            self.schedule.find();
        }
        for _ in 0..gates {
            let tenant = self.rng.below(tenants);
            let takes = match kind {
                Kind::Equal => same,
                Kind::Known => 10 + self.rng.below(1_500),
                Kind::Wild => 0,
            };
            let settings = GateSettings {
                tenant: TenantNo(tenant as u32),
                weight: weights[tenant as usize],
                ..self.settings(kind)
            };
            self.add(settings, takes, kind);
        }
        if finding {
            self.put_on_disk();
        }
    }

    fn settings(&mut self, kind: Kind) -> GateSettings {
        let wild = kind == Kind::Wild;
        let rates = [(1.0 / 60.0, 1), (0.5, 2), (5.0, 5), (200.0, 10)];
        let (per_second, burst) = rates[self.rng.below(4) as usize];
        let rate = duehook::model::Rate::per_second(per_second, burst);
        GateSettings {
            tenant: TenantNo(0),
            weight: 1,
            state: DestinationState::Active,
            max: 1 + self.rng.below(if self.rng.clone().percent(20) { 100 } else { 8 }) as u32,
            adaptive: wild && self.rng.percent(40),
            rate: rate.filter(|_| wild && self.rng.percent(20)),
        }
    }

    fn add(&mut self, settings: GateSettings, takes: u64, kind: Kind) {
        let now = self.now();
        let mut memory = GateMemory::default();
        if takes > 0 {
            memory.latency = Some(Millis(takes));
            memory.limit = 4;
        }
        if kind == Kind::Wild && self.rng.percent(10) {
            let until = now.wall.plus(Millis(1 + self.rng.below(60_000)));
            memory.hold = Some(Hold { until, reason: HoldReason::RateLimited });
            memory.refusals = 1;
        }
        if kind == Kind::Wild && self.rng.percent(10) {
            memory.breaker_opened = 1 + self.rng.below(12) as u32;
            memory.breaker_until = Some(now.wall.plus(Millis(self.rng.below(400_000))));
        }
        let hold = memory.hold.map(|hold| (hold.until, now.mono_at(hold.until)));
        self.schedule.add(settings, memory, now);
        let disk = BTreeMap::new();
        let (fell, halved, starts) = (0, 0, Vec::new());
        let loaded = hold.is_some();
        self.gates.push(Gate { settings, disk, hold, loaded, takes, fell, halved, starts });
    }

    /// Rows that were there before the start: the schedule learns of them one by one.
    fn put_on_disk(&mut self) {
        for no in 0..self.gates.len() {
            for lane in (0..LANES).map(Lane) {
                if !self.rng.percent(30) {
                    continue;
                }
                for _ in 0..1 + self.rng.below(150) {
                    let entry = self.entry(lane);
                    self.row(no, lane).insert((entry.due, entry.id), entry);
                }
                self.unfound.push((DestNo(no as u32), lane));
            }
        }
    }

    fn row(&mut self, no: usize, lane: Lane) -> &mut BTreeMap<(Timestamp, DeliveryId), DueEntry> {
        self.gates[no].disk.entry(lane).or_default()
    }

    fn entry(&mut self, lane: Lane) -> DueEntry {
        self.next_id += 1;
        let id = DeliveryId(u128::from(self.rng.below(1 << 20)) << 64 | self.next_id);
        let wait = match self.rng.below(10) {
            _ if self.exact => 0,
            0..=5 => 0,
            6 | 7 => self.rng.below(2_000),
            _ => self.rng.below(60_000),
        };
        let interrupted = !self.exact && !lane.is_first() && self.rng.percent(15);
        let due = Timestamp(self.wall - self.rng.below(500) + wait);
        DueEntry { due, id, attempts: u32::from(!lane.is_first()), interrupted, bytes: 0 }
    }

    /// One operation by chance, all picks that it allows, and every check.
    pub(crate) fn turn(&mut self) {
        self.op += 1;
        match self.rng.below(100) {
            0..=34 => self.put(),
            35..=69 => self.pass_time(),
            70..=84 if !self.exact => self.end_any(),
            85..=87 if !self.exact => self.remove(),
            88..=90 if !self.exact => self.set(),
            91..=93 if !self.exact => self.operator(),
            94..=95 if !self.exact => self.step_clock(),
            96..=97 => self.find_some(),
            _ => self.refuse_some(),
        }
        self.picks();
        self.settled();
    }

    fn put(&mut self) {
        let no = self.rng.below(self.gates.len() as u64) as usize;
        let many = if self.rng.percent(15) { 150 } else { 12 };
        let now = self.now();
        for _ in 0..1 + self.rng.below(many) {
            let lane = Lane(self.rng.below(u64::from(LANES)) as u8);
            let entry = self.entry(lane);
            self.row(no, lane).insert((entry.due, entry.id), entry);
            self.schedule.insert(DestNo(no as u32), lane, entry, now);
        }
    }

    fn remove(&mut self) {
        let no = self.rng.below(self.gates.len() as u64) as usize;
        let lane = Lane(self.rng.below(u64::from(LANES)) as u8);
        let many = self.row(no, lane).len() as u64;
        if many == 0 {
            return;
        }
        let place = self.rng.below(many) as usize;
        let key = *self.row(no, lane).keys().nth(place).expect("it is one of them");
        self.row(no, lane).remove(&key);
        let now = self.now();
        self.schedule.remove(DestNo(no as u32), lane, key.0, key.1, now);
    }

    fn find_some(&mut self) {
        let now = self.now();
        for _ in 0..1 + self.rng.below(20) {
            let Some((no, lane)) = self.unfound.pop() else { break };
            let head = self.row(no.0 as usize, lane).first_key_value().map(|(_, entry)| *entry);
            if let Some(head) = head {
                self.schedule.found(no, lane, head, now);
            }
        }
        if self.unfound.is_empty() && self.schedule.is_finding() {
            self.schedule.found_all();
            self.fire("found");
        }
    }

    fn pass_time(&mut self) {
        let step = match self.rng.below(10) {
            0..=4 => self.rng.below(50),
            5..=7 => self.rng.below(1_000),
            _ => self.rng.below(20_000),
        };
        let end = self.mono + step;
        // To each moment at which something happens on the way.
        while let Some(at) = self.next_moment().filter(|at| *at <= end) {
            self.move_to(at.max(self.mono));
            self.picks();
        }
        self.move_to(end);
    }

    fn next_moment(&self) -> Option<u64> {
        let timer = self.schedule.next_timer().map(|at| at.0.max(self.mono));
        let ends = self.out.iter().filter_map(|out| self.end_of(out)).min();
        [timer, ends].into_iter().flatten().min()
    }

    /// When a request ends, where that is known.
    fn end_of(&self, out: &Out) -> Option<u64> {
        let takes = self.gates[out.no.0 as usize].takes;
        (takes > 0).then(|| out.started.0 + takes)
    }

    fn move_to(&mut self, mono: u64) {
        self.wall += mono - self.mono;
        self.mono = mono;
        let now = self.now();
        self.schedule.wake(now);
        self.aged();
        while let Some(place) = self.out.iter().position(|out| self.end_of(out) == Some(mono)) {
            self.end(place, AttemptResult::Success, None);
        }
    }

    /// What has turned slow was charged for it, once, and its slot may have moved.
    fn aged(&mut self) {
        for out in &mut self.out {
            let (pool, charged) = self.schedule.charged(&out.slot).expect("it is out");
            let late = Millis(AGE) <= Millis(self.mono - out.started.0);
            assert!(!late || charged == MOST, "I7: {:?} is out for long and was charged {charged}", out.no);
            assert!(
                late || (pool == out.pool && charged == out.charged),
                "I7: {:?} was charged again",
                out.no
            );
            if pool != out.pool {
                *self.fired.entry("aged to slow").or_default() += 1;
                assert!(pool == Pool::Slow, "I5: {:?} went from {:?} to {pool:?}", out.no, out.pool);
            }
            if charged != out.charged {
                let settings = self.gates[out.no.0 as usize].settings;
                self.fairness.late_charge(out.pool, out.lane, settings.tenant);
            }
            (out.pool, out.charged) = (pool, charged);
        }
    }

    fn end_any(&mut self) {
        for _ in 0..1 + self.rng.below(6) {
            if self.out.is_empty() {
                return;
            }
            let place = self.rng.below(self.out.len() as u64) as usize;
            let no = self.out[place].no.0;
            // A destination keeps to its ways for a while.
            let mood = (u64::from(no) * 7 + self.mono / 40_000) % 9;
            let result = match mood {
                0..=3 => AttemptResult::Success,
                4 => AttemptResult::ServerError,
                5 => AttemptResult::Connect,
                6 => AttemptResult::Timeout,
                7 => AttemptResult::RateLimited,
                _ => AttemptResult::Interrupted,
            };
            let wait = (mood == 7).then(|| Millis(1 + self.rng.below(30_000)));
            self.end(place, result, wait);
        }
    }

    /// In a world where all is known, some are refused: the gate closes and opens slowly.
    fn refuse_some(&mut self) {
        if self.out.is_empty() {
            return;
        }
        let place = self.rng.below(self.out.len() as u64) as usize;
        let wait = Millis(1 + self.rng.below(3_000));
        if self.exact {
            // At the time it would have ended: it costs what it was charged.
            self.out.sort_by_key(|out| out.started);
            return;
        }
        self.end(place, AttemptResult::RateLimited, Some(wait));
    }

    /// A request ends so; I7, I16, I15 are checked of what follows.
    fn end(&mut self, place: usize, result: AttemptResult, wait: Option<Millis>) {
        let Out { slot, no, lane, charged, pool, started, op, suspect: _ } = self.out.swap_remove(place);
        let now = self.now();
        let before = self.view(no);
        let took = now.mono.since(started);
        let cost = took.0.clamp(LEAST, MOST).max(charged);
        if cost > charged {
            self.fairness.late_charge(pool, lane, self.gates[no.0 as usize].settings.tenant);
        }
        let admission = self.schedule.release(slot, now);
        assert_eq!(admission.destination, no, "I7: the slot came back to another gate");
        assert_eq!(admission.in_flight, before.in_flight, "I7: in flight to {no:?}");
        let hold = wait.map(|wait| Hold { until: now.wall.plus(wait), reason: HoldReason::RateLimited });
        let refused = result == AttemptResult::RateLimited;
        let latency = (result != AttemptResult::Interrupted).then_some(took);
        self.schedule.learn(&admission, &Seen { result, latency, hold, refused, asked: wait }, now);
        self.learnt(no, op, hold, &before, now);
    }

    fn learnt(&mut self, no: DestNo, op: u64, hold: Option<Hold>, before: &GateView, now: Now) {
        let after = self.view(no);
        let current = self.op;
        let gate = &mut self.gates[no.0 as usize];
        if let Some(hold) = hold {
            let new = (hold.until, now.mono_at(hold.until));
            let old = gate.hold.filter(|(_, until)| *until > now.mono);
            gate.hold = Some(old.map_or(new, |old| (old.0.max(new.0), old.1.max(new.1))));
            gate.loaded = false;
        }
        let closed = |view: &GateView| view.breaker == BreakerState::Closed;
        // What shuts an open gate closes it, whenever it was asked.
        let shuts = hold.is_some() && before.hold.is_none() && before.breaker_until.is_none();
        let old = op < gate.fell && !shuts;
        if op < gate.halved && !shuts && closed(before) == closed(&after) && hold.is_none() {
            assert!(after.limit >= before.limit, "I16: {no:?} is halved twice by one cohort: {after:?}");
        }
        if old {
            assert!(after.limit >= before.limit, "I16: {no:?} shrinks by an answer of before: {after:?}");
            assert!(after.limit <= before.limit, "I16: {no:?} widens by an answer of before: {after:?}");
            assert!(
                closed(before) || !closed(&after),
                "I16: an answer of before closes the breaker of {no:?}"
            );
        }
        if !old && (closed(before) != closed(&after) || hold.is_some()) {
            gate.fell = current;
        } else if !old && after.limit < before.limit {
            gate.halved = current;
        }
        self.note(no, before, &after);
    }

    fn note(&mut self, no: DestNo, before: &GateView, after: &GateView) {
        let settings = self.gates[no.0 as usize].settings;
        match (before.breaker, after.breaker) {
            (BreakerState::Closed, BreakerState::Open { .. }) => self.fire("breaker opened"),
            (BreakerState::HalfOpen, BreakerState::Closed) => self.fire("breaker closed by its probe"),
            _ => {}
        }
        if settings.adaptive && after.limit < before.limit && after.hold.is_none() {
            self.fire("adaptive halved");
        }
        if before.learnt_rate.is_none() && after.learnt_rate.is_some() {
            self.fire("learnt rate");
        }
    }

    fn set(&mut self) {
        let no = self.rng.below(self.gates.len() as u64) as usize;
        let (now, before) = (self.now(), self.schedule.visits());
        let old = self.gates[no].settings;
        let states = [
            DestinationState::Active,
            DestinationState::Active,
            DestinationState::Paused,
            DestinationState::Disabled,
        ];
        let state = states[self.rng.below(4) as usize];
        let settings =
            GateSettings { tenant: old.tenant, weight: old.weight, state, ..self.settings(Kind::Wild) };
        self.gates[no].settings = settings;
        self.gates[no].starts.clear();
        if old.state != DestinationState::Active && state == DestinationState::Active {
            self.gates[no].fell = self.op;
        }
        self.schedule.set(DestNo(no as u32), settings, now);
        assert_eq!(self.schedule.visits(), before, "I23: to pause or resume looks at no turn");
        self.fire("set");
    }

    fn operator(&mut self) {
        let no = self.rng.below(self.gates.len() as u64) as usize;
        let now = self.now();
        self.gates[no].fell = self.op;
        if self.rng.percent(60) {
            let until = now.wall.plus(Millis(self.rng.below(20_000)));
            self.schedule.hold(DestNo(no as u32), Hold { until, reason: HoldReason::Operator }, now);
            self.gates[no].hold = Some((until, now.mono_at(until)));
        } else {
            self.schedule.release_hold(DestNo(no as u32), now);
            self.gates[no].hold = None;
        }
        self.gates[no].loaded = false;
    }

    /// I18: the wall clock jumps. A hold of this run keeps its length; one that was loaded may only
    /// become shorter.
    fn step_clock(&mut self) {
        let size = [2_000, 20_000, 200_000, 3_600_000][self.rng.below(4) as usize];
        let ahead = if self.rng.percent(50) { size } else { 0 };
        self.wall = self.wall + 2 * ahead - size;
        let now = self.now();
        self.schedule.clock_stepped(Millis(ahead), now);
        for gate in self.gates.iter_mut().filter(|gate| gate.loaded) {
            gate.hold = gate.hold.map(|(wall, mono)| (wall, mono.min(now.mono_at(wall))));
        }
        self.fire(if ahead > 0 { "clock forward" } else { "clock back" });
    }

    fn view(&self, no: DestNo) -> GateView {
        self.schedule.view(no, self.now()).expect("it has a gate")
    }

    /// Every pick that is to be had now.
    fn picks(&mut self) {
        loop {
            let used = Pool::ALL.map(|pool| self.schedule.used(pool));
            self.look();
            let now = self.now();
            match self.schedule.pick(now) {
                Pick::Nothing => break,
                Pick::Page { destination, lane, after, rows } => {
                    self.page(destination, lane, after, rows);
                }
                Pick::Claim { destination, lane, entry, slot, .. } => {
                    self.claimed(destination, lane, entry, slot, &used);
                }
            }
        }
        self.look();
    }

    /// Who waits, and which bands may be served.
    fn look(&mut self) {
        if !self.exact {
            return;
        }
        for pool in Pool::ALL {
            for lane in (0..LANES).map(Lane) {
                let waits = |tenant: u32| self.schedule.waits(pool, lane, TenantNo(tenant));
                let tenants: Vec<u32> = (0..6).filter(|tenant| waits(*tenant)).collect();
                let serves = self.schedule.may_serve(pool, lane);
                self.fairness.look(pool, lane, &tenants, serves);
            }
        }
    }

    fn page(&mut self, no: DestNo, lane: Lane, after: Option<(Timestamp, DeliveryId)>, rows: usize) {
        assert!(rows > 0 && rows <= BUFFER, "I19: a page of {rows} rows");
        let now = self.now();
        self.pages += 1;
        let later = |key: &(Timestamp, DeliveryId)| after.is_none_or(|last| *key > last);
        let disk = self.row(no.0 as usize, lane);
        let page: Vec<DueEntry> =
            disk.iter().filter(|(key, _)| later(key)).map(|(_, entry)| *entry).take(rows).collect();
        self.rows_read += page.len() as u64;
        let ended = page.len() < rows;
        self.schedule.page(no, lane, page, ended, now);
    }

    fn claimed(&mut self, no: DestNo, lane: Lane, entry: DueEntry, slot: Slot, used: &[[u32; 16]; 3]) {
        let (now, place) = (self.now(), no.0 as usize);
        let (pool, charged) = self.schedule.charged(&slot).expect("it was just given");
        self.open(no, &entry, now);
        self.in_order(place, lane, &entry);
        self.room(pool, lane, used);
        let (tenant, weight) = (self.gates[place].settings.tenant, self.gates[place].settings.weight);
        if self.exact {
            let takes = self.gates[place].takes;
            assert_eq!(charged, takes, "I11: what {no:?} is expected to cost");
        } else {
            assert!((LEAST..=MOST).contains(&charged), "I11: {no:?} was charged {charged}");
            assert!(pool != Pool::Cold || charged == UNKNOWN, "I11: nothing is known of {no:?}");
        }
        let by_band = self.terms.weights[usize::from(lane.class().0)] * if lane.is_first() { 4 } else { 1 };
        self.fairness.served(&Served { pool, lane, tenant, weight, by_band, cost: charged });
        let (op, suspect) = (self.op, entry.interrupted);
        self.out.push(Out { slot, no, lane, charged, pool, started: now.mono, op, suspect });
        let suspects = self.out.iter().filter(|out| out.suspect).count();
        assert!(suspects <= self.terms.suspect_slots as usize, "{suspects} interrupted ones are out");
    }

    /// I2, I3, I4, I23: the gate lets it through.
    fn open(&mut self, no: DestNo, entry: &DueEntry, now: Now) {
        let view = self.view(no);
        let gate = &mut self.gates[no.0 as usize];
        let held = gate.hold.filter(|(_, until)| *until > now.mono);
        assert!(held.is_none(), "I2: {no:?} is held until {held:?}, and it is {now:?}");
        let open = matches!(view.breaker, BreakerState::Open { .. });
        assert!(!open, "I2: the breaker of {no:?} is open");
        assert!(entry.due <= now.wall, "I3: {:?} is due at {:?}", entry.id, entry.due);
        assert!(gate.settings.state == DestinationState::Active, "I23: {no:?} is stopped");
        let out = self.out.iter().filter(|out| out.no == no).count() as u32 + 1;
        assert_eq!(view.in_flight, out, "I7: in flight to {no:?}");
        assert!(out <= view.limit, "I4: {out} in flight to {no:?}, and its limit is {}", view.limit);
        assert!(view.limit <= gate.settings.max, "I4: the limit of {no:?} is above its most");
        let half = view.breaker == BreakerState::HalfOpen;
        assert!(!half || out == 1, "I4: {out} in flight to {no:?}, half open");
        if let Some(rate) = gate.settings.rate {
            gate.starts.push(now.mono);
            let burst = rate.burst as usize;
            if let Some(before) = gate.starts.len().checked_sub(burst + 1) {
                let apart = now.mono.since(gate.starts[before]).0 * 1_000;
                let least = rate.interval_micros();
                assert!(apart + 1_000 >= least, "C123: {no:?} sent {burst} + 1 within {apart} us");
            }
        }
        if half {
            self.fire("half open");
        }
        if view.paced_until.is_some() {
            self.fire("rate-paced");
        }
    }

    /// I13: it is the head of its lane, or the first behind interrupted ones.
    fn in_order(&mut self, no: usize, lane: Lane, entry: &DueEntry) {
        let key = (entry.due, entry.id);
        let disk = self.row(no, lane);
        let ahead = disk.range(..key).find(|(_, other)| !other.interrupted || entry.interrupted);
        assert!(ahead.is_none(), "I13: {key:?} went before {ahead:?}");
        let there = disk.remove(&key);
        assert_eq!(there.as_ref(), Some(entry), "I1, I17: what was claimed is not on disk so");
    }

    /// I5, I6: the pool had a slot for it when it was given.
    fn room(&mut self, pool: Pool, lane: Lane, used: &[[u32; 16]; 3]) {
        let sum = |pool: Pool| -> u32 { used[place(pool)].iter().sum() };
        let (all, own) = (Pool::ALL.into_iter().map(sum).sum::<u32>(), sum(pool));
        let slots = self.terms.slots;
        assert!(all < slots, "I5: {all} of {slots} slots were out");
        let free = slots - (all - own);
        let pooled = slots >= 64;
        let capacity = match pool {
            _ if !pooled => slots,
            // It borrows what nobody waits for, as far as slow could take it over.
            Pool::Cold => {
                let spare = (slots / 2 - slots / 8).saturating_sub(sum(Pool::Slow));
                (slots / 8).max(spare).min(free)
            }
            Pool::Slow => (slots / 4).min(free),
            Pool::Fast => free - (slots / 32).saturating_sub(sum(Pool::Cold)),
        };
        assert!(pooled || pool == Pool::Fast, "I5: there is one pool");
        assert!(own < capacity, "I5: {own} of {capacity} in {pool:?}");
        let band = used[place(pool)][usize::from(lane.0)];
        if band == 0 {
            return;
        }
        let retries: u32 = used[place(pool)].iter().skip(1).step_by(2).sum();
        let most = capacity * 7 / 10;
        assert!(lane.is_first() || retries < most, "I6: {retries} of {most} retries in {pool:?}");
        let whole = if pool == Pool::Fast { free } else { capacity };
        let trunk = [0, whole / 20, whole / 5][usize::from(lane.class().0)];
        assert!(own < whole - trunk, "I6: class {:?} takes what is kept for others", lane.class());
    }

    /// After all picks: I5, I7, I12, I19 by the schedule's own books, I2, I12, I17, I20 by ours.
    fn settled(&mut self) {
        let now = self.now();
        self.schedule.audit(now).unwrap_or_else(|broken| panic!("{broken}"));
        let (rows, timers) = self.schedule.kept();
        assert!(timers <= self.gates.len(), "I19: {timers} timers");
        let active: usize = self.gates.iter().map(|gate| gate.disk.len()).sum();
        assert!(rows <= active * BUFFER, "I19: {rows} rows in RAM of {active} lanes");
        for no in (0..self.gates.len() as u32).map(DestNo) {
            self.gate(no, now);
        }
        let (visits, claims) = self.schedule.visits();
        let most = VISITS_PER_CLAIM * claims + self.pages + 8 * self.op + self.gates.len() as u64;
        assert!(visits <= most, "I20: {visits} visits for {claims} claims and {} pages", self.pages);
    }

    fn gate(&mut self, no: DestNo, now: Now) {
        let view = self.view(no);
        let gate = &self.gates[no.0 as usize];
        let held = gate.hold.is_some_and(|(_, until)| until > now.mono);
        assert_eq!(view.hold.is_some(), held, "I2, I18: {no:?} has the hold {:?} at {now:?}", view.hold);
        let open = view.breaker_until.map(|until| until.since(now.wall));
        assert!(open.is_none_or(|open| open <= LONGEST_OPEN), "{no:?} is shut for {open:?}");
        let shut = held
            || gate.settings.state != DestinationState::Active
            || matches!(view.breaker, BreakerState::Open { .. })
            || view.paced_until.is_some()
            || view.in_flight >= view.limit;
        for (lane, disk) in &gate.disk {
            if !self.unfound.contains(&(no, *lane)) {
                self.front(no, *lane, disk);
            }
            let head = disk.values().next().filter(|head| head.due <= now.wall && !head.interrupted);
            let Some(head) = head.filter(|_| !shut) else { continue };
            // A lane that is not found yet is looked for.
            let sought = self.unfound.contains(&(no, *lane));
            let turn = sought || self.schedule.has_turn(no, *lane);
            assert!(turn, "I12: {:?} of {no:?} is due and waits for no turn", head.id);
        }
    }

    /// I17: what is in RAM is the front of what is on disk, and all of it if there is no more.
    fn front(&self, no: DestNo, lane: Lane, disk: &BTreeMap<(Timestamp, DeliveryId), DueEntry>) {
        let (rows, more) = self.schedule.front(no, lane);
        let same = rows.iter().eq(disk.values().take(rows.len()));
        assert!(same, "I17: {no:?} {lane:?} keeps {rows:?} in RAM");
        assert!(
            more || rows.len() == disk.len(),
            "I17: {no:?} {lane:?} has {} of {}",
            rows.len(),
            disk.len()
        );
    }
}

fn place(pool: Pool) -> usize {
    Pool::ALL.iter().position(|one| *one == pool).expect("it is one of them")
}
