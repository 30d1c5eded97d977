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

use crate::report::{at_most, verdict};
use crate::world::cpu;

/// Rows of the file unless it is said otherwise.
pub(crate) const ROWS: u64 = 1_000_000;
/// The argument that makes this program open the file that the next one names.
pub(crate) const REOPEN: &str = "--reopen-file";

/// Rows of the files of a series: what is fresh is not to notice which it is.
const SERIES: [u64; 4] = [10_000, 100_000, 1_000_000, 10_000_000];

/// How much a file holds.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) rows: u64,
    pub(crate) destinations: u64,
    pub(crate) tenants: u64,
}

/// Deliveries taken in one step while the file is built.
const STEP: u64 = 20_000;
/// Due at the destination that nothing is wrong with when the file is opened.
const DUE: u64 = 100;
/// What the free disk must have for each row; measured at about half of it.
const ROW_BYTES: u64 = 1_500;
/// Fresh deliveries after the open: so many a second, until all is counted and so long after.
const FRESH_PER_SECOND: u64 = 100;
const FRESH_FOR: Duration = Duration::from_secs(10);
const HOST: &str = "bench";
/// Nothing is wrong with these, and something is due there: they have the first number, whose
/// lane is the first to be found, and the last.
const FIRST: &str = "first";
const VICTIM: &str = "victim";

/// One file after the other, of the same destinations and more and more rows.
pub(crate) fn series(size: Size) -> usize {
    let runs: Vec<(usize, Vec<f64>)> = SERIES.iter().map(|rows| run(Size { rows: *rows, ..size })).collect();
    println!("\nFiles of {SERIES:?} rows");
    let names = ["first dispatch, s", "all heads, s", "MB over the cache", "fresh p50, ms", "fresh p95, ms"];
    let more = ["fresh max, ms", "us of CPU a fresh delivery", "rows examined a claim"];
    for (place, what) in names.into_iter().chain(more).enumerate() {
        let figures = runs.iter().map(|(_, run)| run.get(place).copied().unwrap_or(f64::NAN));
        let figures: String = figures.map(|figure| format!("{figure:>12.3}")).collect();
        println!("      {what:<28}{figures}");
    }
    runs.iter().map(|(missed, _)| missed).sum()
}

/// Builds the file, opens it in a fresh process, and gives how many targets were missed and what
/// was measured.
pub(crate) fn run(size: Size) -> (usize, Vec<f64>) {
    let Size { rows, destinations, tenants } = size;
    println!("\nA real file: {rows} rows over {destinations} destinations of {tenants} tenants");
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let disk = rustix::fs::statvfs(folder.path()).unwrap();
    let free = disk.f_bavail * disk.f_frsize;
    if free < rows * ROW_BYTES {
        println!("      not run: {} MB free, {} wanted", free >> 20, (rows * ROW_BYTES) >> 20);
        return (1, Vec::new());
    }
    let path = folder.path().join("bench.redb");
    build(&path, size);
    let program = std::env::current_exe().unwrap();
    let status = Process::new(program).arg(REOPEN).arg(&path).status().unwrap();
    let figures = std::fs::read_to_string(path.with_extension("figures")).unwrap();
    let figures = figures.split_whitespace().map(|figure| figure.parse().unwrap()).collect();
    (usize::try_from(status.code().expect("the fresh process ended by itself")).unwrap(), figures)
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn region() -> Name {
    name("local")
}

fn limits() -> Limits {
    Limits {
        payload_timeout: Millis(0),
        slots: 4_096,
        max_deliveries: 100_000_000,
        policies: BTreeMap::from([(name("default"), Policy::default())]),
        classes: ClassSettings::first(),
        reserve_permille: 300,
        tenant_weights: TenantWeights::default(),
        tenant_quotas: duehook::engine::TenantQuotas::default(),
        retention: Retention {
            terminal: Millis::seconds(30 * 86_400),
            max_terminal: 10_000_000,
            delivered_payload: Millis(0),
            failed_payload: Millis::seconds(7 * 86_400),
            audit: Millis(90 * 24 * 3_600_000),
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
fn build(path: &Path, size: Size) {
    let rows = size.rows;
    let clock = Clock::start();
    let (mut engine, _) = open(path, clock.now(), 1);
    engine.stop_claims();
    let began = Instant::now();
    for commands in destinations(size, clock.now().wall).chunks(1_000) {
        let batch =
            Batch { commands: commands.iter().cloned().map(Into::into).collect(), ..Batch::default() };
        let step = engine.step(clock.now(), batch).unwrap();
        assert!(step.commands.iter().all(Result::is_ok), "{:?}", step.commands.first());
    }
    say("destinations put and half of them held", began.elapsed());
    let began = Instant::now();
    for from in (0..rows + DUE).step_by(STEP as usize) {
        let now = clock.now();
        let items = (from..(from + STEP).min(rows + DUE)).map(|n| row(n, size, now.wall)).collect();
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

fn destinations(size: Size, now: Timestamp) -> Vec<Command> {
    let until = now.plus(Millis::seconds(86_400));
    let put = |it: Name, tenant: u64| Command::PutDestination {
        name: it,
        settings: Box::new(settings(tenant)),
        keep_secrets: true,
        expect: Expect::Anything,
    };
    let mut all = vec![put(name(FIRST), size.tenants)];
    all.extend((0..size.destinations).map(|no| put(destination(no), no % size.tenants)));
    all.push(put(name(VICTIM), size.tenants));
    let held = (0..size.destinations).step_by(2);
    all.extend(held.map(|no| Command::Hold { name: destination(no), until, reason: String::new() }));
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
        secrets: vec![],
        tls: None,
        allow_cidrs: vec![],
        hold_scope: HoldScope::Destination,
    }
}

/// The `n`th row: of every two destinations the first is held, and the second's are due later.
/// The last rows are due at once.
fn row(n: u64, size: Size, now: Timestamp) -> NewDelivery {
    if n >= size.rows {
        return fresh(name(if n == size.rows { FIRST } else { VICTIM }));
    }
    let no = n * size.destinations / size.rows;
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
    let mut server = Server { engine, clock, dispatched: Vec::new(), claims: 0, counting: true };
    while server.dispatched.is_empty() {
        server.step(vec![]);
    }
    let first = began.elapsed();
    let last = server.until_it_is_last(began);
    let heads = server.until_heads_are_known(began);
    let at_heads = memory();
    say("file open", store);
    say("engine open", engine_open);
    say("first dispatch", first);
    say("dispatch to the last destination", last);
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
        "      {:.1} us of processor time a fresh delivery, {:.2} rows examined",
        live.micros(),
        live.rows()
    );
    close(server.engine, path, server.clock.now());
    let over = (after.0.saturating_sub(store::open::CACHE_BYTES as u64) >> 20) as f64;
    let (first, heads) = (first.as_secs_f64(), heads.as_secs_f64());
    let figures =
        [first, heads, over, live.lag(0.5), live.lag(0.95), live.lag(1.0), live.micros(), live.rows()];
    std::fs::write(path.with_extension("figures"), figures.map(|it| it.to_string()).join(" ")).unwrap();
    let missed = verdict(&[
        at_most("first dispatch, s after open", first, 1.0),
        at_most("all heads, s after open", heads, 5.0),
        at_most("resident, MB over the cache", over, 100.0),
        at_most("fresh p95, ms to its dispatch", live.lag(0.95), 50.0),
        at_most("fresh max, ms to its dispatch", live.lag(1.0), 250.0),
    ]);
    std::process::exit(i32::try_from(missed).unwrap());
}

/// An engine whose dispatches are all answered with a 204 in the step after.
struct Server {
    engine: Engine,
    clock: Clock,
    dispatched: Vec<Dispatch>,
    claims: u64,
    /// As was last published.
    counting: bool,
}

/// What came of fresh work.
#[derive(Default)]
struct LiveRun {
    lags: Vec<Duration>,
    /// When all rows had been counted.
    counted: Duration,
    /// Of what was measured after that.
    cpu: Duration,
    claims: u64,
    examined: u64,
}

impl LiveRun {
    fn lag(&self, share: f64) -> f64 {
        self.lags[((self.lags.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3
    }

    fn micros(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.claims as f64
    }

    fn rows(&self) -> f64 {
        self.examined as f64 / self.claims as f64
    }
}

impl Server {
    fn step(&mut self, accepts: Vec<NewDelivery>) {
        let now = self.clock.now();
        let reports = std::mem::take(&mut self.dispatched).iter().map(|it| report(it, now.wall)).collect();
        let accepts = if accepts.is_empty() { vec![] } else { vec![accepts] };
        let batch = Batch { reports, accepts, file_bytes: u64::MAX, ..Batch::default() };
        let step = self.engine.step(now, batch).unwrap();
        self.claims += step.dispatches.len() as u64;
        self.counting = step.live.map_or(self.counting, |live| live.counting);
        self.dispatched = step.dispatches;
    }

    /// Steps until something is dispatched besides the first.
    fn until_it_is_last(&mut self, began: Instant) -> Duration {
        while self.claims < 2 {
            self.step(vec![]);
        }
        began.elapsed()
    }

    /// Steps until the engine says that it knows the head of every lane.
    fn until_heads_are_known(&mut self, began: Instant) -> Duration {
        while self.engine.is_finding() {
            self.step(vec![]);
        }
        began.elapsed()
    }

    /// Takes fresh work at its rate and says how long each waited for its dispatch.
    fn live(&mut self) -> LiveRun {
        let mut run = LiveRun::default();
        // What was due at the open has widened the limit once it is through.
        while !self.dispatched.is_empty() {
            self.step(vec![]);
        }
        let began = Instant::now();
        self.take_fresh(&mut run, |it| it.counting);
        run.counted = began.elapsed();
        let (before, claims, examined, began) = (cpu(), self.claims, self.examined(), Instant::now());
        self.take_fresh(&mut run, |_| began.elapsed() < FRESH_FOR);
        run.lags.sort();
        let (claims, examined) = (self.claims - claims, self.examined() - examined);
        LiveRun { cpu: cpu() - before, claims, examined, ..run }
    }

    fn examined(&mut self) -> u64 {
        self.engine.live(self.clock.now()).figures.rows_examined
    }

    fn take_fresh(&mut self, run: &mut LiveRun, more: impl Fn(&Server) -> bool) {
        let began = Instant::now();
        let every = Duration::from_secs(1) / FRESH_PER_SECOND as u32;
        let mut next = Duration::ZERO;
        while more(self) {
            // As the driver does it: whatever has come in goes into one step.
            let mut came = Vec::new();
            while began.elapsed() >= next {
                came.push(next);
                next += every;
            }
            let claims = self.claims;
            self.step(came.iter().map(|_| fresh(name(VICTIM))).collect());
            let claims = self.claims - claims;
            assert!(claims >= came.len() as u64, "fresh work is dispatched in the step that takes it");
            let ended = began.elapsed();
            run.lags.extend(came.iter().map(|came| ended - *came));
            self.wait(began + next);
        }
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
        digest: None,
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
