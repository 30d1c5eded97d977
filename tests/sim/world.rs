//! The world: clock, producers, operators, receivers and crashes, all by the seed.

use std::collections::BTreeMap;

use duehook::engine::command::{Answer, Batch, Command, Dispatch, Expect, Query, Report, StateVerb, Step};
use duehook::engine::{ClassSettings, Engine, Limits, Retention, Seed, TenantWeights};
use duehook::model::{DestNo, Destination, HoldScope, IdempotencyKey, Name, NewBody, NewDelivery};
use duehook::policy::{Jitter, Policy};
use duehook::schedule::GateView;
use duehook::store::{Opening, open};
use duehook::time::{Millis, Mono, Now, Timestamp};

use crate::sim::disk::Disk;
use crate::sim::oracle::{Oracle, Reported, Sent, loaded};
use crate::sim::receivers::Mood;
use crate::sim::rng::Rng;

const START: Timestamp = Timestamp(1_768_478_400_000);
/// Requests in flight to a destination: few, or more than a lane keeps in RAM.
const CONCURRENCY: [u32; 2] = [4, 100];
/// Producers and faults stop after this much virtual time.
const BUSY: u64 = 600_000;

/// What a run is made of; drawn from the seed.
pub(crate) struct World {
    rng: Rng,
    disk: Disk,
    engine: Option<Engine>,
    mono: u64,
    wall_offset: u64,
    moods: Vec<Mood>,
    events: BTreeMap<(u64, u64), Event>,
    sequence: u64,
    slots: u32,
    concurrency: u32,
    steps: u64,
    pub(crate) oracle: Oracle,
    pub(crate) trace: u64,
    faults: Faults,
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

fn settings(place: usize, concurrency_max: u32) -> Destination {
    Destination {
        tenant: name(&format!("t{}", place % 2)),
        url: "https://receiver.example/hook".parse().expect("a URL"),
        concurrency_max,
        adaptive: false,
        rate: None,
        policy: name("default"),
        timeout: Millis(15_000),
        connect_timeout: Millis(5_000),
        headers: vec![],
        allow_cidrs: vec![],
        hold_scope: HoldScope::Destination,
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
        let posts = 20 + world.rng.below(60);
        world.plan(posts);
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
        let mut rng = Rng::new(seed);
        let destinations = 1 + rng.below(5) as usize;
        let concurrency = CONCURRENCY[usize::from(rng.percent(25))];
        let slots = 2 + rng.below(u64::from(concurrency) * 3) as u32;
        let moods = (0..destinations).map(|_| Mood::any(&mut rng)).collect();
        let mut world = World {
            rng,
            disk: Disk::default(),
            engine: None,
            mono: 0,
            wall_offset: START.0,
            moods,
            events: BTreeMap::new(),
            sequence: 0,
            slots,
            concurrency,
            steps: 0,
            oracle: Oracle::default(),
            trace: seed,
            faults,
            crashed: false,
        };
        world.open();
        world
    }

    fn now(&self) -> Now {
        Now { wall: Timestamp(self.wall_offset + self.mono), mono: Mono(self.mono) }
    }

    fn open(&mut self) {
        let now = self.now();
        let region = name("local");
        let opening = Opening { region: &region, now: now.wall, uuid: [7; 16] };
        let opened = open::open_backend(self.disk.clone(), &opening).expect("it opens");
        let retention = Retention {
            terminal: Millis::seconds(30 * 86_400),
            max_terminal: 1_000_000,
            delivered_payload: Millis(0),
            failed_payload: Millis::seconds(7 * 86_400),
        };
        let policies = BTreeMap::from([(name("default"), policy())]);
        let limits = Limits {
            slots: self.slots,
            max_deliveries: 10_000,
            policies,
            retention,
            classes: ClassSettings::first(),
            reserve_permille: 300,
            tenant_weights: TenantWeights::default(),
        };
        let run = self.rng.next();
        self.engine = Some(Engine::open(opened, limits, Seed { run }, now).expect("it opens"));
    }

    /// Everything that producers and operators will do.
    fn plan(&mut self, posts: u64) {
        let destinations = self.moods.len();
        for place in 0..destinations {
            let (name, settings) = (destination_name(place), Box::new(settings(place, self.concurrency)));
            self.at(1, Event::Command(Command::PutDestination { name, settings, expect: Expect::Anything }));
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
                let later = self.mono + self.rng.below(BUSY);
                self.at(later, Event::Post(vec![again.clone()]));
                batch.push(again);
            }
            let when = 2 + self.rng.below(BUSY);
            self.at(when, Event::Post(batch));
        }
        for place in 0..destinations {
            for _ in 0..4 {
                let when = self.rng.below(BUSY);
                self.at(when, Event::Mood(place));
            }
            self.plan_operator(place);
        }
    }

    fn plan_operator(&mut self, place: usize) {
        if self.rng.percent(40) {
            let when = self.rng.below(BUSY);
            let pause = self.rng.below(120_000);
            self.at(when, Event::Command(state(place, StateVerb::Pause)));
            self.at(when + pause, Event::Command(state(place, StateVerb::Resume)));
        }
        if self.rng.percent(30) {
            let when = self.rng.below(BUSY);
            self.at(when, Event::Command(Command::Release { name: destination_name(place) }));
        }
        if self.rng.percent(30) {
            let when = self.rng.below(BUSY);
            let until = Timestamp(START.0 + when + self.rng.below(120_000));
            self.at(when, Event::Command(Command::Hold { name: destination_name(place), until }));
        }
        if self.rng.percent(30) {
            let when = self.rng.below(BUSY);
            let (name, settings) = (destination_name(place), Box::new(settings(place, self.concurrency)));
            self.at(
                when,
                Event::Command(Command::PutDestination { name, settings, expect: Expect::Anything }),
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
        let later = self.rng.percent(10).then(|| Timestamp(START.0 + self.rng.below(2 * BUSY)));
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
            labels: vec![],
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
        while self.mono < BUSY {
            self.turn();
        }
        self.faults = Faults::Never;
        for place in 0..self.moods.len() {
            self.moods[place] = Mood::Well;
            self.at(self.mono, Event::Command(state(place, StateVerb::Enable)));
            self.at(self.mono, Event::Command(state(place, StateVerb::Resume)));
        }
        let end = self.mono + 4 * 3_600_000;
        while self.mono < end && !(self.events.is_empty() && self.is_drained()) {
            self.turn();
        }
        let snapshot = self.engine().reader().snapshot().expect("it can be read");
        self.oracle.whole(&snapshot);
        self.oracle.all_ended(&snapshot);
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
        self.mono = self.mono.max(event.min(wakeup));
        if self.faults == Faults::Random && self.rng.percent(1) {
            self.step_clock();
        }
        let given = self.gather();
        let crash = match self.faults {
            Faults::Never => false,
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
            self.oracle.whole(&snapshot);
            self.oracle.none_overdue(&snapshot, self.now().wall);
            self.none_forgotten();
        }
    }

    /// I12: with a slot free, whatever is due at a destination that is open and has nothing in
    /// flight was claimed in this step. Interrupted work may have to wait for a slot of its own.
    fn none_forgotten(&mut self) {
        let now = self.now();
        let numbers: Vec<DestNo> = (0..self.moods.len() as u32).map(DestNo).collect();
        let batch = Batch { queries: vec![Query::Gates(numbers)], ..Batch::default() };
        let step = self.engine.as_mut().expect("open").step(now, batch).expect("this disk does not fail");
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

    /// The wall clock goes a little ahead. (Back it does not: the driver holds it.)
    fn step_clock(&mut self) {
        self.wall_offset += self.rng.below(30_000);
        self.oracle.fire("clock_step");
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
                Event::Command(command) => given.batch.commands.push(command),
                Event::Mood(place) => self.moods[place] = Mood::any(&mut self.rng),
            }
        }
        given
    }

    fn step(&mut self, given: Given) {
        let Given { batch, reports } = given;
        let commands = batch.commands.clone();
        let now = self.now();
        let step = self.engine.as_mut().expect("open").step(now, batch).expect("this disk does not fail");
        if step.dispatches.len() < duehook::engine::MAX_CLAIMS {
            self.engine().audit(now).unwrap_or_else(|broken| panic!("{broken}"));
        }
        for (id, _) in &step.cuts {
            self.oracle.fire("lease_expired");
            self.oracle.in_flight.values_mut().for_each(|out| _ = out.remove(id));
        }
        for report in &reports {
            self.oracle.reported(report, now.wall);
        }
        for command in &commands {
            self.note(command);
        }
        if step.late > 0 {
            self.oracle.fire("late");
        }
        self.told(&step);
        self.sent(step, now);
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
            Command::PutDestination { .. } | Command::DeleteDestination { .. } | Command::Cancel { .. } => {}
        }
    }

    fn told(&mut self, step: &Step) {
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
            if self.rng.percent(4) {
                let when = self.mono + self.rng.below(BUSY);
                let id = accepted.delivery.delivery.id;
                self.at(when, Event::Command(Command::Retry { id }));
            }
        }
    }

    fn sent(&mut self, step: Step, now: Now) {
        for dispatch in step.dispatches {
            let (key, body) = self.load(&dispatch);
            let lease = dispatch.lease;
            let place = lease.destination.0 as usize;
            let (id, attempt, at) = (lease.id, lease.attempt, now.wall);
            let sent = Sent { id, attempt, key: &key, body: &body, place, at };
            self.oracle.sent(&sent, self.concurrency as usize, self.slots as usize);
            self.mix(id.0 as u64 ^ u64::from(attempt));
            self.answer(&dispatch, place);
        }
    }

    fn load(&self, dispatch: &Dispatch) -> (String, Vec<u8>) {
        match &dispatch.fresh {
            Some(fresh) => (fresh.delivery.sent_key(), fresh.body.to_vec()),
            None => {
                let snapshot = self.engine().reader().snapshot().expect("it can be read");
                loaded(snapshot.load(&dispatch.lease).expect("it can be read"))
            }
        }
    }

    fn answer(&mut self, dispatch: &Dispatch, place: usize) {
        let mood = self.moods[place];
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
        };
        let asks = mood.asks();
        self.at(self.mono + reply.after, Event::Report { report, place, asks });
    }

    /// The process dies in this step: before it, in its commit, or after it with nothing told.
    fn crash_in(&mut self, given: Given) {
        self.crashed = true;
        let now = self.now();
        let when = self.rng.below(3);
        let opens = |it: &&Command| {
            matches!(it, Command::Release { .. } | Command::Retry { .. } | Command::Hold { .. })
        };
        for command in given.batch.commands.iter().filter(opens) {
            self.note(command); // it may have been committed before the crash
        }
        if when > 0 {
            let fuse = self.rng.below(60);
            self.disk.light(fuse);
            self.engine.as_mut().expect("open").step(now, given.batch).expect("this disk does not fail");
        }
        let in_commit = if when == 1 { self.disk.taken() } else { None };
        self.oracle.fire(match (when, &in_commit) {
            (0, _) => "crash_before",
            (1, Some(_)) => "crash_in_commit",
            (_, _) => "crash_after",
        });
        let image = in_commit.unwrap_or_else(|| self.disk.image());
        self.engine = None;
        self.disk = Disk::of(image);
        self.events.retain(|_, event| !matches!(event, Event::Report { .. }));
        self.oracle.crashed();
        self.mono += 1 + self.rng.below(5_000);
        self.reopen();
    }

    fn reopen(&mut self) {
        self.open();
        self.engine().reader().snapshot().map(|file| self.oracle.whole(&file)).expect("it can be read");
        let states: Vec<_> = (0..self.moods.len()).map(|place| self.is_paused(place)).collect();
        for (place, paused) in states.into_iter().enumerate() {
            if paused {
                self.oracle.paused.insert(place)
            } else {
                self.oracle.paused.remove(&place)
            };
        }
    }

    /// A crash may have swallowed a command: the file says how it is.
    fn is_paused(&self, place: usize) -> bool {
        let file = self.engine().reader().snapshot().expect("it can be read");
        let found = file.destination(&destination_name(place)).expect("it can be read");
        found.is_some_and(|it| it.note.state != duehook::model::DestinationState::Active)
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
    let (reason, by) = ("drill".to_owned(), "operator".to_owned());
    Command::SetState { name: destination_name(place), verb, reason, by }
}
