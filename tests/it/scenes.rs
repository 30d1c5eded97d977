//! Short histories in virtual time: the shipped engine on a disk in RAM, receivers that answer
//! by a script, and hours that take no time.

mod audit;
mod bulk;
mod classes;
mod clock;
mod configure;
mod erase;
mod fair;
mod found;
mod gate;
mod life;
mod quota;
mod retention;
mod standing;

use std::collections::BTreeMap;

use duehook::delivery::{Delivery, State};
use duehook::engine::command::{Accepted, Batch, Command, Dispatch, Expect, Query, Rejected, Report, Step};
use duehook::engine::command::{Answer, CommandError, Done};
use duehook::engine::{ClassSettings, Engine, Limits, Retention, Seed, TenantWeights};
use duehook::model::{
    DeliveryId, DestNo, Destination, HoldScope, IdempotencyKey, Name, NewBody, NewDelivery,
};
use duehook::outcome::{Ending, MaybeSent, NotSent, Outcome, RetryHeaders};
use duehook::policy::Policy;
use duehook::schedule::GateView;
use duehook::store::{DeliveryView, Opening, StoreError, open};
use duehook::time::{Millis, Mono, Now, Timestamp};

use crate::sim::disk::Disk;

/// 2026-01-15T12:00:00Z.
const NOON: u64 = 1_768_478_400_000;
const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// A request as a receiver sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sent {
    /// Milliseconds since the scene began.
    at: u64,
    id: DeliveryId,
    attempt: u32,
    place: u32,
    /// Its number among the requests to this destination, from 1.
    nth: u32,
    /// The first byte of its body.
    body: u8,
}

/// The report on a request, and the milliseconds until it is made; None: it never is.
type Reply = Option<(Outcome, u64)>;
type Script = fn(&Sent) -> Reply;

/// One server, its destinations, and what happened.
struct Scene {
    disk: Disk,
    engine: Option<Engine>,
    policy: Policy,
    classes: Vec<ClassSettings>,
    slots: u32,
    retention: Millis,
    max_terminal: u64,
    script: Script,
    mono: u64,
    wall_ahead: u64,
    reports: BTreeMap<(u64, u64), Report>,
    numbered: u64,
    requests: BTreeMap<u32, u32>,
    sent: Vec<Sent>,
    /// The most requests in flight at once, by destination.
    peak: BTreeMap<u32, u32>,
    in_flight: BTreeMap<DeliveryId, u32>,
    /// Leases that ended without a report.
    cut: u32,
}

/// How a scene is set; the rest is as API.md has it.
struct Setting {
    destinations: u32,
    concurrency: u32,
    slots: u32,
    timeout: Millis,
    retention: Millis,
    max_terminal: u64,
    policy: Policy,
}

impl Default for Setting {
    fn default() -> Setting {
        Setting {
            destinations: 1,
            concurrency: 8,
            slots: 64,
            timeout: Millis(15_000),
            retention: Millis(30 * 24 * HOUR),
            max_terminal: 1_000_000,
            policy: Policy::default(),
        }
    }
}

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

fn destination(place: u32) -> Name {
    name(&format!("d{place}"))
}

/// An answer with this status, and a `Retry-After` if there is one.
fn answered(status: u16, retry_after: Option<&str>) -> Outcome {
    let retry_after = retry_after.into_iter().map(|text| text.as_bytes().to_vec()).collect();
    Outcome::Answered { status, headers: RetryHeaders { retry_after, date: None } }
}

/// That answer after 5 ms.
fn soon(status: u16, retry_after: Option<&str>) -> Reply {
    Some((answered(status, retry_after), 5))
}

impl Scene {
    fn new(setting: Setting, script: Script) -> Scene {
        let Setting { destinations, concurrency, slots, timeout, retention, max_terminal, policy } = setting;
        let mut scene = Scene {
            disk: Disk::default(),
            engine: None,
            policy,
            classes: ClassSettings::first(),
            slots,
            retention,
            max_terminal,
            script,
            mono: 0,
            wall_ahead: 0,
            reports: BTreeMap::new(),
            numbered: 0,
            requests: BTreeMap::new(),
            sent: Vec::new(),
            peak: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            cut: 0,
        };
        scene.open();
        for place in 0..destinations {
            let settings = Box::new(settings(concurrency, timeout));
            let (name, expect) = (destination(place), Expect::Anything);
            scene
                .command(Command::PutDestination { name, settings, keep_secrets: true, expect })
                .expect("a new name");
        }
        scene
    }

    fn now(&self) -> Now {
        Now { wall: Timestamp(NOON + self.mono + self.wall_ahead), mono: Mono(self.mono) }
    }

    /// A wall time, as milliseconds since the scene began.
    fn after(&self, time: Timestamp) -> u64 {
        time.0 - NOON
    }

    fn open(&mut self) {
        self.engine = Some(self.try_open().expect("it opens"));
    }

    fn try_open(&mut self) -> Result<Engine, StoreError> {
        let (now, region) = (self.now(), name("local"));
        let opening = Opening { region: &region, now: now.wall, uuid: [7; 16] };
        let opened = open::open_backend(self.disk.clone(), &opening).expect("it opens");
        let limits = self.limits();
        self.numbered += 1;
        let seed = Seed { run: self.numbered };
        Engine::open(opened, limits, seed, now)
    }

    /// What the engine is opened with.
    fn limits(&self) -> Limits {
        let retention = Retention {
            terminal: self.retention,
            max_terminal: self.max_terminal,
            delivered_payload: Millis(0),
            failed_payload: Millis(7 * 24 * HOUR),
            audit: Millis(90 * 24 * 3_600_000),
        };
        let policies = BTreeMap::from([(name("default"), self.policy.clone())]);
        Limits {
            payload_timeout: Millis(0),
            slots: self.slots,
            max_deliveries: 1_000_000,
            policies,
            retention,
            classes: self.classes.clone(),
            reserve_permille: 300,
            tenant_weights: TenantWeights::default(),
            tenant_quotas: duehook::engine::TenantQuotas::default(),
        }
    }

    /// The process dies here; what it left is opened `later`.
    fn restart(&mut self, later: u64) {
        self.disk = Disk::of(&self.disk.image());
        self.engine = None;
        self.reports.clear();
        self.in_flight.clear();
        self.mono += later;
        self.open();
    }

    fn engine(&self) -> &Engine {
        self.engine.as_ref().expect("it is open")
    }

    fn step(&mut self, batch: Batch) -> Step {
        let now = self.now();
        for report in &batch.reports {
            self.in_flight.remove(&report.id);
        }
        let mut step = self.engine.as_mut().expect("it is open").step(now, batch).expect("this disk is good");
        for (id, _) in &step.cuts {
            self.cut += 1;
            self.in_flight.remove(id);
        }
        std::mem::take(&mut step.dispatches).into_iter().for_each(|it| self.send(&it));
        step
    }

    fn send(&mut self, dispatch: &Dispatch) {
        let lease = dispatch.lease;
        let place = lease.destination.0;
        let nth = *self.requests.entry(place).and_modify(|n| *n += 1).or_insert(1);
        let body = self.body(dispatch);
        let sent = Sent { at: self.mono, id: lease.id, attempt: lease.attempt, place, nth, body };
        self.sent.push(sent);
        self.in_flight.insert(lease.id, place);
        let out = self.in_flight.values().filter(|other| **other == place).count();
        let peak = self.peak.entry(place).or_default();
        *peak = (*peak).max(u32::try_from(out).expect("few"));
        if let Some((outcome, after)) = (self.script)(&sent) {
            self.report(dispatch, outcome, after);
        }
    }

    fn body(&self, dispatch: &Dispatch) -> u8 {
        match &dispatch.fresh {
            Some(fresh) => fresh.body.first().copied().unwrap_or_default(),
            None => {
                let snapshot = self.engine().reader().snapshot().expect("readable");
                crate::sim::oracle::loaded(snapshot.load(&dispatch.lease).expect("readable")).1[0]
            }
        }
    }

    fn report(&mut self, dispatch: &Dispatch, outcome: Outcome, after: u64) {
        let lease = dispatch.lease;
        let report = Report {
            id: lease.id,
            nonce: lease.nonce,
            attempt: lease.attempt,
            started_at: self.now().wall,
            ended_at: Some(self.now().wall.plus(Millis(after))),
            outcome,
            error: None,
            host: None,
            address: None,
            response_excerpt: None,
            digest: None,
        };
        self.numbered += 1;
        self.reports.insert((self.mono + after, self.numbered), report);
    }

    /// Lets time pass to `end`, with everything that happens on the way.
    fn run_to(&mut self, end: u64) {
        loop {
            let report = self.reports.first_key_value().map_or(u64::MAX, |((at, _), _)| *at);
            let next = report.min(self.engine().next_wakeup().0).max(self.mono);
            if next > end {
                self.mono = end;
                return;
            }
            self.mono = next;
            let mut batch = Batch::default();
            while let Some(entry) = self.reports.first_entry().filter(|entry| entry.key().0 <= next) {
                batch.reports.push(entry.remove());
            }
            self.step(batch);
        }
    }

    fn post(&mut self, place: u32, change: impl FnOnce(&mut NewDelivery)) -> Result<Accepted, Rejected> {
        let mut new = plain(place);
        change(&mut new);
        let mut step = self.step(Batch { accepts: vec![vec![new]], ..Batch::default() });
        step.accepts.remove(0).remove(0)
    }

    /// A delivery to a destination; its id.
    fn deliver(&mut self, place: u32) -> DeliveryId {
        self.post(place, |_| {}).expect("it is taken").delivery.delivery.id
    }

    /// What this one orders.
    fn order(&mut self, by: &str, what: Command) -> Result<Done, CommandError> {
        let order = duehook::engine::command::Order::of(&by.into(), what);
        self.step(Batch { commands: vec![order], ..Batch::default() }).commands.remove(0)
    }

    fn command(&mut self, command: Command) -> Result<Done, CommandError> {
        self.step(Batch { commands: vec![command.into()], ..Batch::default() }).commands.remove(0)
    }

    fn gate(&mut self, place: u32) -> GateView {
        let queries = vec![Query::Gates(vec![DestNo(place)])];
        let answer = self.step(Batch { queries, ..Batch::default() }).answers.remove(0);
        let Answer::Gates(mut gates) = answer else { panic!("{answer:?}") };
        gates.remove(0).expect("it has one")
    }

    fn view(&self, id: DeliveryId) -> Option<DeliveryView> {
        self.engine().reader().snapshot().expect("readable").delivery(id).expect("readable")
    }

    fn record(&self, id: DeliveryId) -> Delivery {
        Delivery::clone(&self.view(id).expect("it is there").delivery)
    }

    /// How it ended, once it has.
    fn ending(&self, id: DeliveryId) -> Option<Ending> {
        match self.record(id).state {
            State::Terminal { outcome, .. } => Some(outcome),
            State::Waiting { .. } => None,
        }
    }

    /// Milliseconds from the scene's beginning at which it is due.
    fn due(&self, id: DeliveryId) -> u64 {
        match self.record(id).state {
            State::Waiting { due, .. } => self.after(due),
            State::Terminal { outcome, .. } => panic!("it ended as {outcome:?}"),
        }
    }

    fn times(&self, id: DeliveryId) -> Vec<u64> {
        self.sent.iter().filter(|sent| sent.id == id).map(|sent| sent.at).collect()
    }
}

/// A delivery of one byte.
fn plain(place: u32) -> NewDelivery {
    NewDelivery {
        destination: destination(place),
        tenant: None,
        class: None,
        key: None,
        not_before: None,
        max_age: None,
        max_failures: None,
        headers: vec![],
        labels: vec![],
        content_type: "text/plain".into(),
        body: NewBody::new(vec![b'x'].into()),
    }
}

pub(crate) fn settings(concurrency: u32, timeout: Millis) -> Destination {
    Destination {
        tenant: name("acme"),
        url: "https://receiver.example/hook".parse().expect("a URL"),
        concurrency_max: concurrency,
        adaptive: false,
        rate: None,
        policy: name("default"),
        timeout,
        connect_timeout: Millis(5_000),
        headers: vec![],
        secrets: vec![],
        tls: None,
        allow_cidrs: vec![],
        hold_scope: HoldScope::Destination,
    }
}

fn key(text: &str) -> IdempotencyKey {
    text.parse().expect("a key")
}

/// The outcomes that an attempt can have, in turn; None: its task vanishes.
fn any(n: u32) -> Option<Outcome> {
    Some(match n % 9 {
        0 => answered(200, None),
        1 => answered(500, None),
        2 => answered(429, Some("1")),
        3 => Outcome::MaybeSent(MaybeSent::Timeout),
        4 => Outcome::MaybeSent(MaybeSent::Interrupted),
        5 => Outcome::NotSent(NotSent::Connect),
        6 => Outcome::MaybeSent(MaybeSent::Ambiguous),
        7 => return None,
        _ => answered(404, None),
    })
}
