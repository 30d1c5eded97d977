//! The engine on a real file of millions of rows: how fast they are taken, how long a restart
//! takes to its first dispatch, and whether fresh work notices what waits.
//!
//! The file is built by this process and opened again by a fresh one, so that its memory is a
//! server's after a start. No network: a dispatch is answered at once. Half of the rows are due
//! at destinations that are held for a day, half are due in an hour. Only an optimised build's
//! times count: with debug assertions redb walks the whole file at every open.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command as Process;
use std::time::{Duration, Instant};

use duehook::driver::clock::Clock;
use duehook::engine::command::{Batch, Command, Dispatch, Expect, Report};
use duehook::engine::{ClassSettings, Engine, Limits, Retention, Seed, TenantWeights};
use duehook::model::{Destination, HoldScope, Name, NewBody, NewDelivery};
use duehook::outcome::{Outcome, RetryHeaders};
use duehook::policy::Policy;
use duehook::store::{self, Opening, Owner};
use duehook::time::{Millis, Now, Timestamp};

use crate::report::{Check, at_most, verdict};
use crate::world::cpu;

/// Rows of the file unless it is said otherwise.
pub(crate) const ROWS: u64 = 1_000_000;
/// The argument that makes this program open the file that the next one names.
pub(crate) const REOPEN: &str = "--reopen-file";

const DESTINATIONS: u64 = 10_000;
const TENANTS: u64 = 1_000;
/// Deliveries taken in one step while the file is built.
const STEP: u64 = 20_000;
/// Due at the destination that nothing is wrong with when the file is opened.
const DUE: u64 = 100;
/// What the free disk must have for each row; measured at about half of it.
const ROW_BYTES: u64 = 1_500;
/// Fresh deliveries after the open: so many a second, for so long.
const FRESH_PER_SECOND: u64 = 100;
const FRESH_FOR: Duration = Duration::from_secs(10);
const HOST: &str = "bench";
const VICTIM: &str = "victim";

/// Builds the file, opens it in a fresh process, and gives how many targets were missed.
pub(crate) fn run(rows: u64) -> usize {
    println!("\nA real file: {rows} rows over {DESTINATIONS} destinations of {TENANTS} tenants");
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let disk = rustix::fs::statvfs(folder.path()).unwrap();
    let free = disk.f_bavail * disk.f_frsize;
    if free < rows * ROW_BYTES {
        println!("      not run: {} MB free, {} wanted", free >> 20, (rows * ROW_BYTES) >> 20);
        return 0;
    }
    let path = folder.path().join("bench.redb");
    build(&path, rows);
    let program = std::env::current_exe().unwrap();
    let status = Process::new(program).arg(REOPEN).arg(&path).arg(rows.to_string()).status().unwrap();
    usize::try_from(status.code().expect("the fresh process ended by itself")).unwrap()
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn region() -> Name {
    name("local")
}

fn limits() -> Limits {
    Limits {
        slots: 4_096,
        max_deliveries: 100_000_000,
        policies: BTreeMap::from([(name("default"), Policy::default())]),
        classes: ClassSettings::first(),
        reserve_permille: 300,
        tenant_weights: TenantWeights::default(),
        retention: Retention {
            terminal: Millis::seconds(30 * 86_400),
            max_terminal: 10_000_000,
            delivered_payload: Millis(0),
            failed_payload: Millis::seconds(7 * 86_400),
        },
    }
}

fn open(path: &Path, now: Now, run: u64) -> (Engine, Duration) {
    let began = Instant::now();
    let region = region();
    let opening = Opening { region: &region, now: now.wall, uuid: [7; 16] };
    let opened = store::open(path, HOST, &opening, |_| {}).unwrap();
    let store = began.elapsed();
    (Engine::open(opened, limits(), Seed { run }, now).unwrap(), store)
}

fn close(engine: Engine, path: &Path, now: Now) {
    engine.close(now).unwrap();
    Owner::beside(path, &region()).closed(path, HOST, now.wall).unwrap();
}

/// Destinations first, then rows, destination by destination: the quickest way in.
fn build(path: &Path, rows: u64) {
    let clock = Clock::start();
    let (mut engine, _) = open(path, clock.now(), 1);
    engine.stop_claims();
    let began = Instant::now();
    for commands in destinations(clock.now().wall).chunks(1_000) {
        let batch = Batch { commands: commands.to_vec(), ..Batch::default() };
        let step = engine.step(clock.now(), batch).unwrap();
        assert!(step.commands.iter().all(Result::is_ok), "{:?}", step.commands.first());
    }
    say("destinations put and half of them held", began.elapsed());
    let began = Instant::now();
    for from in (0..rows + DUE).step_by(STEP as usize) {
        let now = clock.now();
        let items = (from..(from + STEP).min(rows + DUE)).map(|n| row(n, rows, now.wall)).collect();
        let batch = Batch { accepts: vec![items], file_bytes: u64::MAX, ..Batch::default() };
        let step = engine.step(now, batch).unwrap();
        assert!(step.accepts.iter().flatten().all(Result::is_ok), "taken");
    }
    let took = began.elapsed();
    close(engine, path, clock.now());
    let rate = (rows + DUE) as f64 / took.as_secs_f64();
    let bytes = std::fs::metadata(path).unwrap().len();
    say("rows taken", took);
    println!(
        "      {rate:.0} rows/s (10 M: {:.0} s), {} bytes of file a row",
        1e7 / rate,
        bytes / (rows + DUE)
    );
}

fn destinations(now: Timestamp) -> Vec<Command> {
    let until = now.plus(Millis::seconds(86_400));
    let put = |it: Name, tenant: u64| Command::PutDestination {
        name: it,
        settings: Box::new(settings(tenant)),
        expect: Expect::Anything,
    };
    let mut all = vec![put(name(VICTIM), TENANTS)];
    all.extend((0..DESTINATIONS).map(|no| put(destination(no), no % TENANTS)));
    let held = (0..DESTINATIONS).step_by(2);
    all.extend(held.map(|no| Command::Hold { name: destination(no), until }));
    all
}

fn destination(no: u64) -> Name {
    name(&format!("d{no}"))
}

fn settings(tenant: u64) -> Destination {
    Destination {
        tenant: name(&format!("t{tenant}")),
        url: "https://receiver.example/hook".parse().unwrap(),
        concurrency_max: 64,
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

/// The `n`th row: of every two destinations the first is held, and the second's are due later.
fn row(n: u64, rows: u64, now: Timestamp) -> NewDelivery {
    let Some(no) = (n < rows).then(|| n * DESTINATIONS / rows) else { return fresh(name(VICTIM)) };
    let later = (no % 2 == 1).then(|| now.plus(Millis::seconds(3_600)));
    NewDelivery { not_before: later, ..fresh(destination(no)) }
}

fn fresh(destination: Name) -> NewDelivery {
    NewDelivery {
        destination,
        tenant: None,
        class: None,
        key: None,
        not_before: None,
        max_age: None,
        max_failures: None,
        headers: vec![],
        labels: vec![],
        content_type: "text/plain".into(),
        body: NewBody::new(bytes::Bytes::from_static(b"x")),
    }
}

/// The fresh process: opens the file and takes fresh work. Its exit code is how many targets
/// were missed.
pub(crate) fn reopen(arguments: &[String]) {
    let path = Path::new(&arguments[0]);
    let clock = Clock::start();
    let began = Instant::now();
    let (engine, store) = open(path, clock.now(), 2);
    let engine_open = began.elapsed();
    let mut server = Server { engine, clock, dispatched: Vec::new(), claims: 0 };
    while server.dispatched.is_empty() {
        server.step(vec![]);
    }
    let first = began.elapsed();
    let heads = server.until_heads_are_known(began, engine_open);
    let at_heads = memory();
    say("file open", store);
    say("engine open", engine_open);
    say("first dispatch", first);
    say("all heads known", heads);
    let live = server.live();
    say("all rows counted, after that", live.counted);
    let after = memory();
    println!(
        "      memory {} MB with all heads, {} MB at the end, {} MB at most",
        at_heads.0 >> 20,
        after.0 >> 20,
        after.1 >> 20
    );
    println!(
        "      {:.1} us of processor time a fresh delivery",
        live.cpu.as_secs_f64() * 1e6 / live.lags.len() as f64
    );
    close(server.engine, path, server.clock.now());
    let missed = verdict(&checks(first, heads, after.0, &live));
    std::process::exit(i32::try_from(missed).unwrap());
}

fn checks(first: Duration, heads: Duration, resident: u64, live: &LiveRun) -> Vec<Check> {
    let lag = |share: f64| live.lags[((live.lags.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    let cache = store::open::CACHE_BYTES as u64;
    vec![
        at_most("first dispatch, s after open", first.as_secs_f64(), 1.0),
        at_most("all heads, s after open", heads.as_secs_f64(), 5.0),
        at_most("resident, MB over the cache", (resident.saturating_sub(cache) >> 20) as f64, 100.0),
        at_most("fresh p95, ms to its dispatch", lag(0.95), 50.0),
        at_most("fresh max, ms to its dispatch", lag(1.0), 250.0),
    ]
}

/// An engine whose dispatches are all answered with a 204 in the step after.
struct Server {
    engine: Engine,
    clock: Clock,
    dispatched: Vec<Dispatch>,
    claims: u64,
}

/// What came of fresh work.
struct LiveRun {
    lags: Vec<Duration>,
    cpu: Duration,
    counted: Duration,
}

impl Server {
    fn step(&mut self, accepts: Vec<NewDelivery>) {
        let now = self.clock.now();
        let reports = std::mem::take(&mut self.dispatched).iter().map(|it| report(it, now.wall)).collect();
        let accepts = if accepts.is_empty() { vec![] } else { vec![accepts] };
        let batch = Batch { reports, accepts, file_bytes: u64::MAX, ..Batch::default() };
        let step = self.engine.step(now, batch).unwrap();
        self.claims += step.dispatches.len() as u64;
        self.dispatched = step.dispatches;
    }

    /// Steps until the engine says that it knows the head of every lane. Today they are all
    /// found inside `Engine::open`, so that the time is the engine's own.
    #[expect(clippy::unused_self, reason = "the place to ask the engine once it says so")]
    fn until_heads_are_known(&mut self, _began: Instant, engine_open: Duration) -> Duration {
        engine_open
    }

    /// Takes fresh work at its rate and says how long each waited for its dispatch.
    fn live(&mut self) -> LiveRun {
        let (began, before) = (Instant::now(), cpu());
        let mut run = LiveRun { lags: Vec::new(), cpu: Duration::ZERO, counted: Duration::ZERO };
        let every = Duration::from_secs(1) / FRESH_PER_SECOND as u32;
        let (mut next, mut counting) = (Duration::ZERO, true);
        while began.elapsed() < FRESH_FOR {
            let came = if began.elapsed() >= next { vec![fresh(name(VICTIM))] } else { vec![] };
            let (due, any) = (next, !came.is_empty());
            next += if any { every } else { Duration::ZERO };
            let claims = self.claims;
            self.step(came);
            if counting {
                counting = self.engine.live(self.clock.now()).counting;
                run.counted = began.elapsed();
            }
            if any {
                assert!(self.claims > claims, "fresh work is dispatched in the step that takes it");
                run.lags.push(began.elapsed().saturating_sub(due));
            }
            self.wait(began + next);
        }
        run.lags.sort();
        LiveRun { cpu: cpu() - before, ..run }
    }

    /// Until the next arrival, or until the engine wants a step.
    fn wait(&self, next: Instant) {
        if self.dispatched.is_empty() {
            let wanted = self.clock.until(self.engine.next_wakeup());
            std::thread::sleep(wanted.min(next.saturating_duration_since(Instant::now())));
        }
    }
}

fn report(it: &Dispatch, now: Timestamp) -> Report {
    Report {
        id: it.lease.id,
        nonce: it.lease.nonce,
        attempt: it.lease.attempt,
        started_at: now,
        ended_at: Some(now),
        outcome: Outcome::Answered { status: 204, headers: RetryHeaders::default() },
        error: None,
        host: None,
        address: None,
        response_excerpt: None,
    }
}

/// Resident bytes of this process, now and at most.
fn memory() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0) << 10
    };
    (field("VmRSS:"), field("VmHWM:"))
}

fn say(what: &str, took: Duration) {
    println!("      {what:<40}{:>9.3} s", took.as_secs_f64());
}
