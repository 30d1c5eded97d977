//! The world: clock, producers, operators, receivers and crashes, all by the seed.

mod crash;
mod perils;
mod script;

use std::collections::BTreeMap;

use duehook::delivery::Lease;
use duehook::engine::Engine;
use duehook::engine::command::{
    Answer, Batch, Command, Dispatch, Expect, Query, Rejected, Report, StateVerb, Step,
};
use duehook::model::{
    DeliveryId, DestNo, Destination, HoldScope, IdempotencyKey, Lane, Name, NewBody, NewDelivery, Rate,
};
use duehook::policy::{Jitter, Policy};
use duehook::schedule::{BreakerState, GateView, Pool, Standing};
use duehook::time::{Millis, Mono, Now, Timestamp};

use crate::sim::disk::{Disk, Struck};
use crate::sim::oracle::{Oracle, Reported, Sent, all, loaded};
use crate::sim::receivers::Mood;
use crate::sim::rng::Rng;
use crash::Unanswered;
use perils::Perils;
pub(crate) use perils::{Incident, Peril, Restart};

const START: Timestamp = Timestamp(1_768_478_400_000);
/// Requests in flight to a destination: few, or more than a lane keeps in RAM.
const CONCURRENCY: [u32; 2] = [4, 100];
/// Producers and faults stop after this much virtual time.
const BUSY: u64 = 200_000;
/// The same where the disk fails.
const SHORT: u64 = 30_000;
/// What is planned after a number of commits is waited for so many times as long.
const PATIENCE: u64 = 4;
/// The label that says which planned delivery it is.
const LABEL: &str = "n";
/// The seed of the history that everything happens to in turn.
const FIXED: u64 = 3;
const HOUR: u64 = 3_600_000;
/// A step of the wall clock that must prove itself.
const CLOCK_STEP: u64 = 600_000;
/// More steps in one moment than any has work for.
const STANDS: u64 = 10_000;
/// A lease: the timeouts of every destination here, and the margin.
const LEASE: u64 = 25_000;
/// What is added to a time that was named: a tenth of it, and at most this.
const JITTER: u64 = 30_000;

/// What a run is made of; drawn from the seed.
pub(crate) struct World {
    rng: Rng,
    /// Chance of what happens to the disk, so that it leaves the rest of a seed as it is.
    chance: Rng,
    /// Bytes of pages that the database keeps in RAM.
    cache: usize,
    disk: Disk,
    engine: Option<Engine>,
    mono: u64,
    /// Producers and faults stop then.
    busy: u64,
    wall_offset: u64,
    moods: Vec<Mood>,
    events: BTreeMap<(u64, u64), Event>,
    sequence: u64,
    slots: u32,
    concurrency: u32,
    tenants: u64,
    /// As they were set last.
    settings: Vec<Destination>,
    /// What each receiver's bucket has left, in thousandths, and since when.
    buckets: Vec<(u64, u64)>,
    /// When each request of this run went out, for destinations with a rate.
    starts: BTreeMap<usize, Vec<u64>>,
    /// Leases out, and when they were given.
    leases: BTreeMap<DeliveryId, (Lease, u64)>,
    /// What gates looked like after the last step.
    gates: Vec<GateView>,
    /// The wall clock's furthest, from its beginning.
    furthest: u64,
    pub(crate) steps: u64,
    /// Steps in which time did not pass.
    stood: u64,
    /// Visits and claims of runs that have ended.
    pub(crate) visits: (u64, u64),
    pub(crate) oracle: Oracle,
    pub(crate) trace: u64,
    faults: Faults,
    perils: Perils,
    crashed: bool,
}

/// What goes wrong besides what receivers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Faults {
    Never,
    /// Crashes and steps of the wall clock, by chance.
    Random,
    /// One crash, after so many steps.
    CrashAfter(u64),
    /// What was planned of the disk and the process, and nothing else.
    Planned,
}

enum Event {
    Report { report: Report, place: usize, asks: Option<u64> },
    Post(Vec<NewDelivery>),
    Command(Command),
    Mood(usize),
}

/// What one step is given, and what the oracle is to be told if it succeeds.
#[derive(Default)]
struct Given {
    batch: Batch,
    reports: Vec<Reported>,
}

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

fn destination_name(place: usize) -> Name {
    name(&format!("d{place}"))
}

fn settings(place: usize, tenants: u64, most: u32, rng: &mut Rng) -> Destination {
    let rates = [(1.0 / 60.0, 1), (0.5, 2), (5.0, 5), (200.0, 10)];
    let (per_second, burst) = rates[rng.below(4) as usize];
    let rate = Rate::per_second(per_second, burst).filter(|_| rng.percent(20));
    let scope = if rng.percent(20) { HoldScope::Delivery } else { HoldScope::Destination };
    Destination {
        tenant: name(&format!("t{}", place as u64 % tenants)),
        url: "https://receiver.example/hook".parse().expect("a URL"),
        concurrency_max: if rng.percent(50) { most } else { 1 + rng.below(u64::from(most)) as u32 },
        adaptive: rng.percent(40),
        rate,
        policy: name("default"),
        timeout: Millis(15_000),
        connect_timeout: Millis(5_000),
        headers: vec![],
        secrets: vec![],
        tls: None,
        allow_cidrs: vec![],
        hold_scope: scope,
    }
}

fn policy() -> Policy {
    Policy {
        schedule: [1, 5, 30].map(Millis::seconds).to_vec(),
        jitter: Jitter::Half,
        max_age: Millis::seconds(3_600),
        ..Policy::default()
    }
}

impl World {
    /// A whole history by chance.
    pub(crate) fn new(seed: u64) -> World {
        let mut world = World::empty(seed, Faults::Random);
        let posts = 15 + world.rng.below(40);
        world.plan(posts);
        world
    }

    /// A short history in which these things happen, one after the other.
    pub(crate) fn suffering(seed: u64, incidents: Vec<Incident>) -> World {
        let mut world = World::planned(seed, incidents);
        let posts = 3 + world.rng.below(8);
        world.plan(posts);
        world
    }

    /// The same short history for every incident.
    pub(crate) fn fixed(incidents: Vec<Incident>) -> World {
        let mut world = World::planned(FIXED, incidents);
        world.plan(2);
        world
    }

    fn planned(seed: u64, incidents: Vec<Incident>) -> World {
        let mut world = World::closed(seed, Faults::Planned);
        world.busy = SHORT;
        world.perils.plan(incidents);
        world.begin();
        world
    }

    /// A short history that crashes once, after so many steps.
    pub(crate) fn crashing_after(seed: u64, steps: u64) -> World {
        let mut world = World::empty(seed, Faults::CrashAfter(steps));
        world.plan(2);
        world
    }

    /// True when the crash it was to have has happened.
    pub(crate) fn has_crashed(&self) -> bool {
        self.crashed
    }

    fn empty(seed: u64, faults: Faults) -> World {
        let mut world = World::closed(seed, faults);
        world.begin();
        world
    }

    fn closed(seed: u64, faults: Faults) -> World {
        World { trace: seed, ..World::by(Rng::new(seed), Rng::new(!seed), faults) }
    }

    fn by(mut rng: Rng, mut chance: Rng, faults: Faults) -> World {
        let many = faults == Faults::Random && rng.percent(20);
        let few = if faults == Faults::Planned { 3 } else { 5 };
        let destinations = 1 + rng.below(if many { 40 } else { few }) as usize;
        let concurrency = CONCURRENCY[usize::from(rng.percent(25) && faults != Faults::Planned)];
        let slots = match rng.below(3) {
            0 => 1 + rng.below(8),
            1 => 2 + rng.below(61),
            _ => 64 + rng.below(137),
        } as u32;
        let tenants = 1 + rng.below(4);
        let moods = (0..destinations).map(|_| Mood::any(&mut rng)).collect();
        let settings =
            (0..destinations).map(|place| settings(place, tenants, concurrency, &mut rng)).collect();
        // With few pages in RAM most of what a step needs is read, and much is written early.
        let cache = if faults == Faults::Planned { 1 << (13 + chance.below(8)) } else { 1 << 20 };
        World {
            rng,
            chance,
            cache,
            disk: Disk::default(),
            engine: None,
            mono: 0,
            busy: BUSY,
            wall_offset: START.0,
            moods,
            events: BTreeMap::new(),
            sequence: 0,
            slots,
            concurrency,
            tenants,
            settings,
            buckets: vec![(1_000, 0); destinations],
            starts: BTreeMap::new(),
            leases: BTreeMap::new(),
            gates: Vec::new(),
            furthest: START.0,
            steps: 0,
            stood: 0,
            visits: (0, 0),
            oracle: Oracle::default(),
            trace: 0,
            faults,
            perils: Perils::default(),
            crashed: false,
        }
    }

    fn now(&self) -> Now {
        Now { wall: Timestamp(self.wall_offset + self.mono), mono: Mono(self.mono) }
    }

    /// Everything that producers and operators will do.
    fn plan(&mut self, posts: u64) {
        let destinations = self.moods.len();
        for place in 0..destinations {
            let (name, settings) = (destination_name(place), Box::new(self.settings[place].clone()));
            self.at(
                1,
                Event::Command(Command::PutDestination {
                    name,
                    settings,
                    keep_secrets: true,
                    expect: Expect::Anything,
                }),
            );
        }
        for n in 0..posts {
            let many = self.concurrency > 4 && self.rng.percent(10);
            let items = if many { 60 + self.rng.below(60) } else { 1 + self.rng.below(4) };
            let mut batch: Vec<_> =
                (0..items).map(|item| self.new_delivery(n * 200 + item, destinations)).collect();
            if many {
                // All in one lane: more than it keeps in RAM.
                batch.iter_mut().for_each(|it| {
                    it.destination = destination_name(0);
                    it.class = None;
                    it.key = None;
                });
            }
            if self.rng.percent(20) {
                let again = batch[self.rng.below(items) as usize].clone();
                let later = self.mono + self.rng.below(self.busy);
                self.at(later, Event::Post(vec![again.clone()]));
                batch.push(again);
            }
            let when = 2 + self.rng.below(self.busy);
            self.at(when, Event::Post(batch));
        }
        for place in 0..destinations {
            for _ in 0..4 {
                let when = self.rng.below(self.busy);
                self.at(when, Event::Mood(place));
            }
            self.plan_operator(place);
        }
    }

    fn plan_operator(&mut self, place: usize) {
        if self.rng.percent(40) {
            let when = self.rng.below(self.busy);
            let pause = self.rng.below(60_000);
            self.at(when, Event::Command(state(place, StateVerb::Pause)));
            self.at(when + pause, Event::Command(state(place, StateVerb::Resume)));
        }
        if self.rng.percent(10) {
            let when = self.rng.below(self.busy);
            self.at(when, Event::Command(state(place, StateVerb::Disable)));
            let then = when + self.rng.below(60_000);
            self.at(then, Event::Command(state(place, StateVerb::Enable)));
        }
        if self.rng.percent(30) {
            let when = self.rng.below(self.busy);
            self.at(when, Event::Command(Command::Release { name: destination_name(place) }));
        }
        if self.rng.percent(30) {
            let when = self.rng.below(self.busy);
            let until = Timestamp(START.0 + when + self.rng.below(60_000));
            self.at(
                when,
                Event::Command(Command::Hold { name: destination_name(place), until, reason: String::new() }),
            );
        }
        if self.rng.percent(30) {
            let when = self.rng.below(self.busy);
            let settings = settings(place, self.tenants, self.concurrency, &mut self.rng);
            let (name, settings) = (destination_name(place), Box::new(settings));
            self.at(
                when,
                Event::Command(Command::PutDestination {
                    name,
                    settings,
                    keep_secrets: true,
                    expect: Expect::Anything,
                }),
            );
        }
    }

    fn new_delivery(&mut self, n: u64, destinations: usize) -> NewDelivery {
        let place = self.rng.below(destinations as u64) as usize;
        let size = if self.rng.percent(5) { 40_000 } else { self.rng.below(50) as usize };
        let body: Vec<u8> = (0..size).map(|i| (i as u64 ^ n) as u8).collect();
        let key = self.rng.percent(40).then(|| {
            let n = if self.rng.percent(20) { n / 7 } else { n };
            format!("d{place}:{n}").parse::<IdempotencyKey>().expect("a key")
        });
        let later = self.rng.percent(10).then(|| Timestamp(START.0 + self.rng.below(2 * self.busy)));
        let classes = ["urgent", "routine", "bulk"];
        NewDelivery {
            destination: destination_name(place),
            tenant: None,
            class: Some(name(classes[self.rng.below(3) as usize])),
            key,
            not_before: later,
            max_age: self.rng.percent(20).then(|| Millis::seconds(1 + self.rng.below(300))),
            max_failures: self.rng.percent(20).then(|| 1 + self.rng.below(4) as u32),
            headers: vec![],
            // Names it where its id was not told.
            labels: vec![(LABEL.to_owned(), n.to_string())],
            content_type: "application/octet-stream".into(),
            body: NewBody::new(body.into()),
        }
    }

    fn at(&mut self, mono: u64, event: Event) {
        self.sequence += 1;
        self.events.insert((mono.max(self.mono), self.sequence), event);
    }

    /// Runs the whole history and checks it.
    pub(crate) fn run(&mut self) {
        while !self.perils.over()
            && (self.mono < self.busy || (self.perils.more() && self.mono < PATIENCE * self.busy))
        {
            self.turn();
        }
        self.faults = Faults::Never;
        self.spare();
        for place in 0..self.moods.len() {
            self.moods[place] = Mood::Well;
            self.at(self.mono, Event::Command(state(place, StateVerb::Enable)));
            self.at(self.mono, Event::Command(state(place, StateVerb::Resume)));
            let settings = Box::new(Destination { rate: None, ..self.settings[place].clone() });
            let (name, expect) = (destination_name(place), Expect::Anything);
            self.at(
                self.mono,
                Event::Command(Command::PutDestination { name, settings, keep_secrets: true, expect }),
            );
        }
        // What waits for a wall time that was stepped away from is due now.
        self.jump(self.furthest);
        let end = self.mono + 4 * 3_600_000;
        while self.mono < end && !(self.events.is_empty() && self.is_drained()) {
            self.turn();
        }
        let snapshot = self.engine().reader().snapshot().expect("it can be read");
        let now = self.now();
        self.oracle.whole(&snapshot, now);
        self.oracle.all_ended(&snapshot);
        self.count_visits();
    }

    /// I20: turns that were looked at, for each claim. A destination at its limit is looked at
    /// once for each of its six lanes.
    fn count_visits(&mut self) {
        let (visits, claims) = self.engine().schedule().visits();
        let events = self.steps * 8 + self.oracle.told.len() as u64;
        assert!(visits <= 6 * claims + events, "I20: {visits} visits for {claims} claims");
        self.visits = (self.visits.0 + visits, self.visits.1 + claims);
    }

    fn engine(&self) -> &Engine {
        self.engine.as_ref().expect("it is open between steps")
    }

    fn is_drained(&self) -> bool {
        let snapshot = self.engine().reader().snapshot().expect("it can be read");
        let checked = duehook::store::check::check(&snapshot).expect("it can be read");
        checked.waiting == 0 && checked.leased == 0
    }

    /// To the next moment at which something happens, and one step there.
    fn turn(&mut self) {
        let event = self.events.keys().next().map_or(u64::MAX, |(at, _)| *at);
        let wakeup = self.engine().next_wakeup().0;
        let to = self.mono.max(event.min(wakeup));
        self.stood = if to > self.mono { 0 } else { self.stood + 1 };
        assert!(self.stood < STANDS, "the engine wakes {STANDS} times and time does not pass");
        self.mono = to;
        if self.faults == Faults::Random && self.rng.percent(1) {
            self.step_clock();
        }
        let given = self.gather();
        let crash = match self.faults {
            Faults::Never | Faults::Planned => false,
            Faults::Random => self.rng.percent(2),
            Faults::CrashAfter(steps) => self.steps == steps,
        };
        if crash {
            self.crash_in(given)
        } else {
            self.step(given)
        }
        self.steps += 1;
        if self.steps.is_multiple_of(16) {
            let snapshot = self.engine().reader().snapshot().expect("it can be read");
            let now = self.now();
            self.oracle.whole(&snapshot, now);
            self.oracle.none_overdue(&snapshot, now);
            self.none_forgotten();
            self.note_standing();
        }
    }

    /// I12: with a slot free, whatever is due at a destination that is open and has nothing in
    /// flight was claimed in this step. Interrupted work may have to wait for a slot of its own.
    fn none_forgotten(&mut self) {
        let now = self.now();
        let numbers: Vec<DestNo> = (0..self.moods.len() as u32).map(DestNo).collect();
        let batch = Batch { queries: vec![Query::Gates(numbers)], ..Batch::default() };
        let Some(step) = self.attempt(now, batch) else { return self.die(Unanswered::default()) };
        let [Answer::Gates(gates)] = &step.answers[..] else { panic!("one question, one answer") };
        let idle: Vec<bool> = gates.iter().map(|gate| gate.as_ref().is_some_and(is_idle)).collect();
        // After a crash nothing has been claimed yet; then the answer is of before this step.
        let answered_after = step.dispatches.is_empty();
        self.told(&step);
        self.sent(step, now);
        let (slots, taken) = self.engine().slots();
        // So few that neither a reserve nor a small pool can be what it waits for.
        if taken * 16 <= slots && answered_after {
            let snapshot = self.engine().reader().snapshot().expect("it can be read");
            self.oracle.none_forgotten(&snapshot, &idle, now.wall);
        }
    }

    /// The wall clock steps: a little, or an hour, either way.
    fn step_clock(&mut self) {
        let to = match self.rng.below(12) {
            0..=4 => self.wall_offset + self.rng.below(30_000),
            5..=8 => self.wall_offset - self.rng.below(30_000),
            9 => self.wall_offset + 720_000,
            10 => self.wall_offset + HOUR,
            _ => self.wall_offset - HOUR,
        };
        self.jump(to);
    }

    fn jump(&mut self, to: u64) {
        let ahead = to.saturating_sub(self.wall_offset);
        let snapshot = self.engine().reader().snapshot().expect("it can be read");
        let now = self.now();
        self.oracle.whole(&snapshot, now); // what has ended until now is known
        self.oracle.fire(match (ahead, self.wall_offset.saturating_sub(to)) {
            (HOUR.., _) => "clock forward 1 h",
            (1.., _) => "clock forward",
            (_, HOUR..) => "clock back 1 h",
            (_, _) => "clock back",
        });
        self.wall_offset = to;
        self.furthest = self.furthest.max(to);
        self.starts.clear();
        let now = self.now();
        self.oracle.jumped(ahead > CLOCK_STEP, now);
    }

    fn gather(&mut self) -> Given {
        let mut given = Given::default();
        while let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= self.mono) {
            match entry.remove() {
                Event::Report { report, place, asks } => {
                    let (id, attempt, outcome) = (report.id, report.attempt, report.outcome.clone());
                    given.reports.push(Reported { id, attempt, place, outcome, asks });
                    given.batch.reports.push(report);
                }
                Event::Post(batch) => given.batch.accepts.push(batch),
                Event::Command(command) => given.batch.commands.push(command.into()),
                Event::Mood(place) => self.moods[place] = Mood::any(&mut self.rng),
            }
        }
        given
    }

    fn step(&mut self, given: Given) {
        self.arm_next();
        let unanswered = self.unanswered(&given);
        let Given { batch, reports } = given;
        let commands: Vec<Command> = batch.commands.iter().map(|order| order.what.clone()).collect();
        let now = self.now();
        let alone = batch.accepts.is_empty() && commands.is_empty() && reports.len() == 1;
        let limited = alone && reports[0].outcome.status() == Some(429) && self.rng.percent(25);
        let before = limited.then(|| self.everything());
        let Some(step) = self.attempt(now, batch) else { return self.die(unanswered) };
        if self.dies_untold(&step) {
            return self.die(unanswered);
        }
        if step.dispatches.len() < duehook::engine::MAX_CLAIMS {
            self.engine().audit(now).unwrap_or_else(|broken| panic!("{broken}"));
        }
        if let Some(before) = before {
            self.few_changed(&before, &reports[0], &step);
        }
        self.cut(&step, now);
        for report in &reports {
            self.durable(report);
            let scope = self.settings[report.place].hold_scope;
            self.oracle.reported(report, scope == HoldScope::Destination, now);
        }
        for (command, _) in commands.iter().zip(&step.commands).filter(|(_, done)| done.is_ok()) {
            self.note(command);
            self.note_hold(command, now);
        }
        if step.late > 0 {
            self.oracle.fire("late");
        }
        self.told(&step);
        if self.dies_unsent(&step) {
            return self.die(Unanswered::default());
        }
        self.admitted(&step);
        self.holds(&reports, &commands, now);
        self.sent(step, now);
    }

    fn everything(&self) -> BTreeMap<DeliveryId, duehook::store::DeliveryView> {
        let file = self.engine().reader().snapshot().expect("it can be read");
        all(&file, self.now().wall).into_iter().map(|view| (view.delivery.id, view)).collect()
    }

    /// I8: a 429 changes its own delivery, and what went out in the same step.
    fn few_changed(
        &mut self,
        before: &BTreeMap<DeliveryId, duehook::store::DeliveryView>,
        report: &Reported,
        step: &Step,
    ) {
        let named = |id: &DeliveryId| {
            let sent = step.dispatches.iter().any(|dispatch| dispatch.lease.id == *id);
            *id == report.id || sent || step.cuts.iter().any(|(cut, _)| cut == id)
        };
        for (id, view) in self.everything() {
            let old = &before[&id];
            let ended = matches!(view.delivery.state, duehook::delivery::State::Terminal { .. });
            let same = old.delivery == view.delivery && old.lease == view.lease;
            assert!(same || named(&id) || ended, "I8: a 429 for {} has changed {id}", report.id);
        }
        self.oracle.fire("429 alone");
    }

    /// I18: no lease ends before its time on the monotonic clock.
    fn cut(&mut self, step: &Step, now: Now) {
        for (id, _) in &step.cuts {
            self.oracle.fire("lease_expired");
            if let Some((lease, at)) = self.leases.remove(id) {
                let late = step.late > 0; // a late 2xx ends a newer lease
                let age = now.mono.0 - at;
                assert!(late || age >= LEASE, "I18: the lease {lease:?} was cut after {age} ms");
            }
            self.oracle.in_flight.values_mut().for_each(|out| _ = out.remove(id));
        }
    }

    /// I10: once the lease is gone, what came of it is on disk.
    fn durable(&mut self, report: &Reported) {
        let live = self.leases.get(&report.id).is_some_and(|(lease, _)| lease.attempt == report.attempt);
        if !live {
            return;
        }
        self.leases.remove(&report.id);
        let file = self.engine().reader().snapshot().expect("it can be read");
        let view = file.delivery(report.id).expect("readable").expect("it was there");
        let out = view.lease.is_some_and(|lease| lease.attempt == report.attempt);
        let noted = view.delivery.attempts >= report.attempt;
        assert!(!out && noted, "I10: attempt {} of {} was reported: {view:?}", report.attempt, report.id);
    }

    /// I4, I9: what goes out has its attempt on disk, and its destination had room for it.
    fn admitted(&mut self, step: &Step) {
        if step.dispatches.is_empty() {
            return;
        }
        let now = self.now();
        let file = self.engine().reader().snapshot().expect("it can be read");
        for dispatch in &step.dispatches {
            let lease = dispatch.lease;
            let stored = file.delivery(lease.id).expect("readable").expect("it is there").lease;
            let durable = stored.is_some_and(|it| (it.attempt, it.nonce) == (lease.attempt, lease.nonce));
            assert!(durable, "I9: the lease {lease:?} is not on disk: {stored:?}");
            let gate = self.engine().schedule().view(lease.destination, now).expect("it has a gate");
            assert!(gate.in_flight <= gate.limit, "I4: {gate:?}");
            let half = gate.breaker == BreakerState::HalfOpen;
            assert!(!half || gate.in_flight == 1, "I4: half open, and {gate:?}");
            self.leases.insert(lease.id, (lease, now.mono.0));
        }
        if self.steps.is_multiple_of(4) {
            let key = |lease: Lease| (lease.destination.0, lease.lane, lease.due, lease.id);
            let sent: Vec<_> = step.dispatches.iter().map(|dispatch| key(dispatch.lease)).collect();
            self.oracle.lanes(&file, self.engine().schedule(), &sent, now.wall);
        }
    }

    /// I15, I16: what each gate was told to wait, and no more than the jitter beyond it.
    fn holds(&mut self, reports: &[Reported], commands: &[Command], now: Now) {
        let view = |no| self.engine().schedule().view(DestNo(no), now);
        let gates: Vec<GateView> = (0..self.moods.len() as u32).map_while(view).collect();
        for (place, gate) in gates.iter().enumerate() {
            let until = gate.hold.map(|hold| hold.until);
            let held = self.oracle.held(place, now.mono);
            assert!(held.is_none() || until.is_some(), "I16: the hold of {place} until {held:?} is gone");
            let here = |report: &&Reported| report.place == place;
            let named = |report: &Reported| report.asks.filter(|seconds| *seconds > 0);
            let refusals =
                || reports.iter().filter(here).filter(|it| matches!(it.outcome.status(), Some(429 | 503)));
            let ordered = commands.iter().any(|it| matches!(it, Command::Hold { .. }));
            let vague = refusals().any(|report| named(report).is_none());
            let before = self.gates.get(place).and_then(|gate| gate.hold).map(|hold| hold.until);
            let wait = |seconds: u64| seconds * 1_000 + (seconds * 100).min(JITTER);
            let asked = refusals().filter_map(named).map(|seconds| now.wall.plus(Millis(wait(seconds))));
            let most = asked.chain(before).max();
            let known = self.gates.len() > place; // the first look after a start finds what is there
            let fits = ordered || vague || !known || until <= most;
            assert!(fits, "I15: {place} is held until {until:?}, at most {most:?}");
        }
        self.note_gates(&gates);
        self.gates = gates;
    }

    fn note_gates(&mut self, gates: &[GateView]) {
        let mut fire = |what| self.oracle.fire(what);
        for (before, after) in self.gates.iter().zip(gates) {
            match (before.breaker, after.breaker) {
                (BreakerState::Closed, BreakerState::Open { .. }) => fire("breaker opened"),
                (BreakerState::Open { .. }, BreakerState::HalfOpen) => fire("breaker half open"),
                (BreakerState::HalfOpen, BreakerState::Closed) => fire("breaker closed"),
                _ => {}
            }
            if after.limit < before.limit && after.hold == before.hold && after.limit > 1 {
                fire("adaptive halved");
            }
            if after.paced_until.is_some() {
                fire("rate-paced");
            }
            if after.learnt_rate.is_some() && before.learnt_rate.is_none() {
                fire("learnt rate");
            }
        }
    }

    /// What of the server work waits for.
    fn note_standing(&mut self) {
        let schedule = self.engine.as_ref().expect("open").schedule();
        let aged: u32 = schedule.used(Pool::Slow).iter().sum();
        let mut seen = Vec::new();
        for (no, lane) in
            (0..self.moods.len() as u32).flat_map(|no| (0..6).map(move |lane| (DestNo(no), Lane(lane))))
        {
            let waits = schedule.front(no, lane).0.first().is_some_and(|head| head.due <= self.now().wall);
            match schedule.standing(no, lane) {
                _ if !waits => {}
                Standing::Reserved if lane.is_first() => seen.push("trunk barred"),
                Standing::Reserved => seen.push("reserve barred"),
                Standing::TenantShare { .. } => seen.push("tenant's share"),
                Standing::Slots => seen.push("slots"),
                Standing::Free | Standing::Stopped | Standing::Bodies => {}
            }
        }
        if aged > 0 {
            seen.push("slow pool");
        }
        seen.into_iter().for_each(|what| self.oracle.fire(what));
    }

    fn note_hold(&mut self, command: &Command, now: Now) {
        if let Command::Hold { name, until, .. } = command {
            let place: usize = name.as_str()[1..].parse().expect("d and a number");
            self.oracle.operator_holds(place, *until, now);
        }
    }

    fn note(&mut self, command: &Command) {
        match command {
            Command::SetState { name, verb, .. } => {
                let place: usize = name.as_str()[1..].parse().expect("d and a number");
                match verb {
                    StateVerb::Pause | StateVerb::Disable => self.oracle.paused.insert(place),
                    StateVerb::Resume | StateVerb::Enable => self.oracle.paused.remove(&place),
                };
            }
            // An operator's hold takes the place of the receiver's.
            Command::Release { name } | Command::Hold { name, .. } => {
                let place: usize = name.as_str()[1..].parse().expect("d and a number");
                self.oracle.opened(place);
            }
            Command::Retry { id } => self.oracle.retried(*id),
            Command::PutDestination { name, settings, .. } => {
                let place: usize = name.as_str()[1..].parse().expect("d and a number");
                self.settings[place] = Destination::clone(settings);
                self.starts.remove(&place);
            }
            Command::Cancel { id } | Command::Erase { id } => self.oracle.cancelled(*id),
            Command::Job(order) => self.note_job(order),
            Command::DeleteDestination { .. }
            | Command::RotateSecret { .. }
            | Command::BeginImport { .. }
            | Command::Import(_)
            | Command::Configure(_)
            | Command::Note { .. } => {}
        }
    }

    fn told(&mut self, step: &Step) {
        if step.accepts.iter().flatten().any(|it| matches!(it, Err(Rejected::DiskLow { .. }))) {
            self.oracle.fire("disk low");
            assert_ne!(self.disk.free(), u64::MAX, "L4: a disk with room is called full");
        }
        for accepted in step.accepts.iter().flatten().flatten() {
            self.oracle.tell(accepted);
            self.mix(accepted.delivery.delivery.id.0 as u64);
            if accepted.delivery.lease.is_some() {
                self.oracle.fire("accepted_and_leased");
            }
            if self.rng.percent(4) {
                let when = self.mono + self.rng.below(60_000);
                let id = accepted.delivery.delivery.id;
                self.at(when, Event::Command(Command::Cancel { id }));
            }
            if self.faults == Faults::Planned && self.chance.percent(10) {
                // Soon enough to find it in flight.
                let when = self.mono + self.chance.below(2_000);
                let id = accepted.delivery.delivery.id;
                self.at(when, Event::Command(Command::Cancel { id }));
            }
            if self.rng.percent(4) {
                let when = self.mono + self.rng.below(self.busy);
                let id = accepted.delivery.delivery.id;
                self.at(when, Event::Command(Command::Retry { id }));
            }
        }
    }

    fn sent(&mut self, step: Step, now: Now) {
        for dispatch in step.dispatches {
            let Some((key, body)) = self.load(&dispatch) else {
                // Those before it went out.
                return self.die(Unanswered::default());
            };
            let lease = dispatch.lease;
            let place = lease.destination.0 as usize;
            let (id, attempt, at) = (lease.id, lease.attempt, now);
            let sent = Sent { id, attempt, key: &key, body: &body, place, at };
            let most = self.settings[place].concurrency_max;
            self.oracle.sent(&sent, most as usize, self.slots as usize);
            self.paced(place, now.mono.0);
            self.mix(id.0 as u64 ^ u64::from(attempt));
            self.answer(&dispatch, place);
        }
    }

    /// C123: no more than the rate and its burst.
    fn paced(&mut self, place: usize, at: u64) {
        let Some(rate) = self.settings[place].rate else { return };
        let starts = self.starts.entry(place).or_default();
        starts.push(at);
        if let Some(first) = starts.len().checked_sub(rate.burst as usize + 1) {
            let apart = (at - starts[first] + 1) * 1_000;
            assert!(apart >= rate.interval_micros(), "C123: {place} sent too many within {apart} us");
        }
    }

    /// How a receiver takes a request now: one with a bucket goes by what is left in it.
    fn mood(&mut self, place: usize) -> Mood {
        let Mood::Bucket(rate) = self.moods[place] else { return self.moods[place] };
        let (left, since) = self.buckets[place];
        let left = (left + (self.mono - since) * rate).min(rate * 1_000);
        let taken = left >= 1_000;
        self.buckets[place] = (left - if taken { 1_000 } else { 0 }, self.mono);
        if taken { Mood::Well } else { Mood::Limits(2) }
    }

    /// None: the disk failed, and the process ends.
    fn load(&self, dispatch: &Dispatch) -> Option<(String, Vec<u8>)> {
        if let Some(fresh) = &dispatch.fresh {
            return Some((fresh.delivery.sent_key(), fresh.body.to_vec()));
        }
        self.disk.watch(true);
        let snapshot = self.engine().reader().snapshot();
        let found = snapshot.and_then(|snapshot| snapshot.load(&dispatch.lease));
        self.disk.watch(false);
        match found {
            // Killed in a write of the cache that the read did not need (crash seed 304).
            Ok(_) if self.disk.struck() == Some(Struck::Stopped) => None,
            Ok(found) => Some(loaded(found)),
            Err(error) => {
                assert!(self.disk.struck().is_some(), "it can be read: {error}");
                None
            }
        }
    }

    fn answer(&mut self, dispatch: &Dispatch, place: usize) {
        let mood = self.mood(place);
        let reply = mood.reply(&mut self.rng);
        let lease = dispatch.lease;
        if reply.outcome.is_success() {
            self.oracle.succeeded.insert(lease.id);
        }
        let started_at = self.now().wall;
        let report = Report {
            id: lease.id,
            nonce: lease.nonce,
            attempt: lease.attempt,
            started_at,
            ended_at: Some(started_at.plus(Millis(reply.after))),
            outcome: reply.outcome,
            error: None,
            host: Some("receiver.example".into()),
            address: None,
            response_excerpt: None,
            digest: None,
        };
        let asks = mood.asks();
        self.at(self.mono + reply.after, Event::Report { report, place, asks });
    }

    fn mix(&mut self, value: u64) {
        self.trace = duehook::policy::splitmix64(self.trace ^ value ^ self.mono.rotate_left(17));
    }
}

/// True when nothing of the destination's own keeps a request back.
fn is_idle(gate: &GateView) -> bool {
    let open = gate.hold.is_none() && gate.breaker_until.is_none() && gate.paced_until.is_none();
    gate.in_flight == 0 && open
}

fn state(place: usize, verb: StateVerb) -> Command {
    Command::SetState { name: destination_name(place), verb, reason: "drill".to_owned() }
}
