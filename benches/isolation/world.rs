//! A world in virtual milliseconds: arrivals, receivers, slots and clocks around an [`Order`].
//!
//! Deterministic. It sees what every receiver sees and holds the order to nothing but that; the
//! processor's time is taken around the order's calls alone. There is no commit in it: a real
//! server adds one (2 to 5 ms) to every lag.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use duehook::time::{Millis, Mono, Now, Timestamp};
use rustix::time::{ClockId, clock_gettime};

use crate::order::{Answer, Claim, Effort, Order, Record, Reply};
use crate::scene::{Jolt, QUICK, Receiver, Scene};

/// An attempt that is out for longer is slow.
pub(crate) const AGE: u64 = 2_000;
/// The wall time at which a run begins.
pub(crate) const START: Timestamp = Timestamp(1_700_000_000_000);
/// Starts are counted in bins of this length.
pub(crate) const BIN: u64 = 100;

/// What was seen of one group of receivers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Of first attempts of what arrived while it was watched: start minus due. What never
    /// started counts with its wait so far.
    pub(crate) lags: Vec<u64>,
    pub(crate) never: u64,
    pub(crate) starts: u64,
    pub(crate) delivered: u64,
    pub(crate) refused: u64,
    pub(crate) last_start: u64,
    pub(crate) last_delivered: u64,
    /// Of what was sent after the trouble began.
    pub(crate) retries: u64,
}

/// What came of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    pub(crate) groups: Vec<Seen>,
    pub(crate) claims: u64,
    pub(crate) refused: u64,
    /// Cooldowns that receivers asked for; more than one refusal in each is one too many.
    pub(crate) cooldowns: u64,
    /// Starts before the destination's cooldown was over, or before the record's own time.
    pub(crate) early: u64,
    pub(crate) effort: Effort,
    pub(crate) cpu: Duration,
    /// Where the run ended, in virtual time; earlier than planned when it took too long.
    pub(crate) ended: u64,
    pub(crate) cut: bool,
    /// Starts by [`BIN`].
    pub(crate) starts: Vec<u32>,
    /// The largest difference in sends between two tenants over any time in which both had work.
    pub(crate) gap: u64,
    /// Starts by destination and when the last two were, for the watched few.
    pub(crate) first_refusal: Option<u64>,
    pub(crate) after_refusal: Option<u64>,
}

/// Time that this process has had of its processors.
pub(crate) fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Runs `scene` under `order`, or as far as `budget` of processor time brings it.
pub(crate) fn run(scene: &Scene, order: &mut dyn Order, budget: Duration) -> Measured {
    let mut world = World::new(scene, order);
    let waiting = &mut rows(scene);
    world.order.load(waiting, world.now());
    let began = cpu();
    let mut turns = 0_u32;
    while let Some(at) = world.next_instant().filter(|at| *at <= scene.until) {
        world.instant(at);
        turns = turns.wrapping_add(1);
        if turns.is_multiple_of(256) && cpu() - began > budget {
            world.seen.cut = true;
            break;
        }
    }
    world.end()
}

/// The rows that wait when the run begins, in the order of their destinations.
fn rows(scene: &Scene) -> impl Iterator<Item = Record> {
    let rows = scene.backlog.iter().flat_map(|it| {
        let each = (0..it.destinations).flat_map(move |n| (0..it.each).map(move |_| it.first + n));
        each.map(move |destination| (destination, it.class, it.attempts, it.due))
    });
    (0..).zip(rows).map(|(id, (destination, class, attempts, due))| Record {
        id,
        destination,
        class,
        attempts,
        due: Timestamp(START.0 + due),
    })
}

/// An attempt that is out.
#[derive(Clone, Copy)]
struct Flight {
    claim: Claim,
    answer: Answer,
    number: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Done(u32),
    Age(u32, u64),
}

/// What a receiver remembers.
#[derive(Clone, Copy, Default)]
struct Memory {
    tokens: f64,
    counted_at: u64,
    /// It asked to be left alone until then.
    quiet_until: u64,
}

struct World<'a> {
    scene: &'a Scene,
    order: &'a mut dyn Order,
    mono: u64,
    /// Wall time minus the time of the run.
    offset: i64,
    jolts: usize,
    arrived: usize,
    /// Which arrivals have been started.
    started: Vec<bool>,
    base: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    flights: Vec<Flight>,
    free: Vec<u32>,
    memory: Vec<Memory>,
    /// Sends by tenant, of those that are compared; and the range of each pair's difference.
    sends: Vec<i64>,
    ranges: Vec<(i64, i64)>,
    seen: Measured,
}

impl<'a> World<'a> {
    fn new(scene: &'a Scene, order: &'a mut dyn Order) -> World<'a> {
        let tenants = scene.fair.map_or(0, |fair| fair.tenants as usize);
        World {
            scene,
            order,
            mono: 0,
            offset: 0,
            jolts: 0,
            arrived: 0,
            started: vec![false; scene.arrivals.len()],
            base: scene.waiting(),
            events: BinaryHeap::new(),
            sequence: 0,
            flights: Vec::new(),
            free: Vec::new(),
            memory: vec![Memory::default(); scene.destinations.len()],
            sends: vec![0; tenants],
            ranges: vec![(0, 0); tenants * tenants],
            seen: Measured { groups: vec![Seen::default(); scene.groups.len()], ..Measured::default() },
        }
    }

    fn now(&self) -> Now {
        let wall = START.0.saturating_add_signed(self.offset) + self.mono;
        Now { wall: Timestamp(wall), mono: Mono(self.mono) }
    }

    /// The next time at which anything happens; a pause moves it to its end.
    fn next_instant(&self) -> Option<u64> {
        let arrival = self.scene.arrivals.get(self.arrived).map(|it| it.at);
        let event = self.events.peek().map(|Reverse((at, ..))| *at);
        let timer = self.order.next_timer(self.now()).map(|at| at.0.max(self.mono + 1));
        let jolt = self.scene.jolts.get(self.jolts);
        let step = jolt.map(|jolt| match jolt {
            Jolt::Step { at, .. } | Jolt::Pause { at, .. } => *at,
        });
        let next = [arrival, event, timer, step].into_iter().flatten().min()?;
        match jolt {
            Some(Jolt::Pause { at, lasts }) if next >= *at => Some(at + lasts),
            Some(_) | None => Some(next),
        }
    }

    fn instant(&mut self, at: u64) {
        self.mono = at;
        self.jolt();
        let now = self.now();
        let ended = self.ended();
        let came = self.came();
        let began = cpu();
        for event in &ended {
            match event {
                Event::Done(flight) => {
                    let Flight { claim, answer, .. } = self.flights[*flight as usize];
                    self.order.done(claim, answer, now);
                }
                Event::Age(flight, number) => {
                    let Flight { claim, number: of, .. } = self.flights[*flight as usize];
                    if of == *number {
                        self.order.age(claim, now);
                    }
                }
            }
        }
        for record in came {
            self.order.add(record, now);
        }
        let mut claims = Vec::new();
        while let Some(claim) = self.order.claim(now) {
            claims.push(claim);
        }
        self.seen.cpu += cpu() - began;
        self.settle(&ended);
        for claim in claims {
            self.start(claim, now);
        }
    }

    fn jolt(&mut self) {
        while let Some(jolt) = self.scene.jolts.get(self.jolts) {
            match jolt {
                Jolt::Step { at, by } if *at <= self.mono => {
                    self.offset += by;
                    self.order.clock_stepped(self.now());
                }
                Jolt::Pause { at, lasts } if at + lasts <= self.mono => {}
                Jolt::Step { .. } | Jolt::Pause { .. } => return,
            }
            self.jolts += 1;
        }
    }

    fn ended(&mut self) -> Vec<Event> {
        let mut all = Vec::new();
        while self.events.peek().is_some_and(|Reverse((at, ..))| *at <= self.mono) {
            all.extend(self.events.pop().map(|Reverse((.., event))| event));
        }
        all
    }

    fn came(&mut self) -> Vec<Record> {
        let now = self.now().wall;
        let mut all = Vec::new();
        while let Some(it) = self.scene.arrivals.get(self.arrived).filter(|it| it.at <= self.mono) {
            let due = now.max(Timestamp(START.0 + it.not_before));
            let id = self.base + self.arrived as u64;
            all.push(Record { id, destination: it.destination, class: it.class, attempts: 0, due });
            self.arrived += 1;
        }
        all
    }

    /// What receivers have said, once they have said it.
    fn settle(&mut self, ended: &[Event]) {
        for event in ended {
            let Event::Done(flight) = event else { continue };
            let Flight { claim, answer, .. } = self.flights[*flight as usize];
            self.free.push(*flight);
            self.flights[*flight as usize].number = u64::MAX;
            let no = claim.record.destination as usize;
            let group = &mut self.seen.groups[usize::from(self.scene.destinations[no].group)];
            match answer.reply {
                Reply::Delivered => {
                    group.delivered += 1;
                    group.last_delivered = self.mono;
                }
                Reply::Refused(wait) => {
                    group.refused += 1;
                    self.seen.refused += 1;
                    self.seen.first_refusal.get_or_insert(self.mono);
                    let quiet = &mut self.memory[no].quiet_until;
                    self.seen.cooldowns += u64::from(self.mono >= *quiet);
                    *quiet = (*quiet).max(self.mono + wait.0);
                }
                Reply::Failed => {}
            }
        }
    }

    fn start(&mut self, claim: Claim, now: Now) {
        let no = claim.record.destination as usize;
        self.watch(&claim, now);
        let answer = self.answer(no);
        let flight = Flight { claim, answer, number: self.sequence };
        let place = self.free.pop().unwrap_or_else(|| {
            self.flights.push(flight);
            (self.flights.len() - 1) as u32
        });
        self.flights[place as usize] = flight;
        let latency = answer.latency.0;
        if latency > AGE {
            self.at(self.mono + AGE, Event::Age(place, flight.number));
        }
        self.at(self.mono + latency, Event::Done(place));
    }

    fn at(&mut self, at: u64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((at, self.sequence, event)));
    }

    /// Notes a start.
    fn watch(&mut self, claim: &Claim, now: Now) {
        let Record { id, destination, attempts, due, .. } = claim.record;
        let it = self.scene.destinations[destination as usize];
        let early = self.memory[destination as usize].quiet_until > self.mono || due > now.wall;
        self.seen.claims += 1;
        self.seen.early += u64::from(early);
        let bin = (self.mono / BIN) as usize;
        if self.seen.starts.len() <= bin {
            self.seen.starts.resize(bin + 1, 0);
        }
        self.seen.starts[bin] += 1;
        if it.group == 0 && self.seen.first_refusal.is_some() {
            self.seen.after_refusal.get_or_insert(self.mono);
        }
        let group = &mut self.seen.groups[usize::from(it.group)];
        group.starts += 1;
        group.retries += u64::from(attempts > 1);
        group.last_start = self.mono;
        let arrival = id.checked_sub(self.base).filter(|_| attempts == 1).map(|n| n as usize);
        if let Some(n) = arrival {
            self.started[n] = true;
            let came = self.scene.arrivals[n].at.max(self.scene.arrivals[n].not_before);
            if came >= self.scene.from && self.scene.groups[usize::from(it.group)].victim {
                group.lags.push(self.mono.saturating_sub(came));
            }
        }
        self.compare(it.tenant);
    }

    /// Follows the differences between tenants that always have work.
    fn compare(&mut self, tenant: u32) {
        let Some(fair) = self.scene.fair else { return };
        if tenant >= fair.tenants || !(fair.from..fair.to).contains(&self.mono) {
            return;
        }
        let mine = tenant as usize;
        self.sends[mine] += 1;
        for other in (0..self.sends.len()).filter(|other| *other != mine) {
            let range = &mut self.ranges[mine * self.sends.len() + other];
            let apart = self.sends[mine] - self.sends[other];
            *range = (range.0.min(apart), range.1.max(apart));
        }
    }

    fn answer(&mut self, no: usize) -> Answer {
        let quick = |reply| Answer { reply, latency: Millis(QUICK) };
        let mono = self.mono;
        match self.scene.destinations[no].receiver {
            Receiver::Healthy(takes) => Answer { reply: Reply::Delivered, latency: Millis(takes) },
            Receiver::SlowFrom { from, takes } if mono >= from => {
                Answer { reply: Reply::Delivered, latency: Millis(takes) }
            }
            Receiver::Limited { wait, until } if mono < until => quick(Reply::Refused(Millis(wait))),
            Receiver::Until(until) if mono + QUICK < until => {
                quick(Reply::Refused(Millis(until - mono - QUICK)))
            }
            Receiver::Broken(until) if mono < until => quick(Reply::Failed),
            Receiver::Allows { per_second, wait } => {
                let memory = &mut self.memory[no];
                let earned = (mono - memory.counted_at) as f64 * per_second as f64 / 1_000.0;
                let full = if memory.counted_at == 0 { per_second as f64 } else { memory.tokens };
                memory.tokens = (full + earned).min(per_second as f64);
                memory.counted_at = mono;
                if memory.tokens < 1.0 {
                    return quick(Reply::Refused(Millis(wait)));
                }
                memory.tokens -= 1.0;
                quick(Reply::Delivered)
            }
            Receiver::SlowFrom { .. }
            | Receiver::Limited { .. }
            | Receiver::Until(_)
            | Receiver::Broken(_) => quick(Reply::Delivered),
        }
    }

    /// Counts what never started, and sorts.
    fn end(mut self) -> Measured {
        let ended = if self.seen.cut { self.mono } else { self.scene.until };
        for (it, started) in self.scene.arrivals.iter().zip(&self.started) {
            let group = self.scene.destinations[it.destination as usize].group;
            let came = it.at.max(it.not_before);
            let watched = self.scene.groups[usize::from(group)].victim && came >= self.scene.from;
            if !started && watched && came < ended {
                let group = &mut self.seen.groups[usize::from(group)];
                group.never += 1;
                group.lags.push(ended - came);
            }
        }
        self.seen.groups.iter_mut().for_each(|group| group.lags.sort_unstable());
        let apart = self.ranges.iter().map(|(low, high)| high - low).max().unwrap_or(0);
        Measured { ended, effort: self.order.effort(), gap: apart.unsigned_abs(), ..self.seen }
    }
}

impl Seen {
    /// The lag that `share` of the watched do not exceed.
    pub(crate) fn lag(&self, share: f64) -> u64 {
        let place = (self.lags.len() as f64 * share) as usize;
        self.lags.get(place.min(self.lags.len().saturating_sub(1))).copied().unwrap_or(0)
    }
}
