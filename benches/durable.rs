//! What being durable costs, and what it buys, by the size of the file: throughput with and without
//! what makes the next open instant, how much a reader that stays open makes the file grow, how fast
//! a backup is and what it costs others, and how long a restart takes after `kill -9`.
//!
//! `cargo bench --bench durable -- 100 900 1500` takes files of so many MiB, one after the other,
//! in the build's folder. The engine alone: no network, every dispatch is answered at once. Only an
//! optimised build's figures count.
#![expect(clippy::unwrap_used, reason = "what fails here ends the measurement")]
#![expect(clippy::disallowed_methods, reason = "a measurement reads the clock and waits")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command as Process, Stdio};
use std::time::{Duration, Instant};

use duehook::driver::clock::Clock;
use duehook::engine::command::{Batch, Command, Dispatch, Expect, Report};
use duehook::engine::{ClassSettings, Engine, Limits, Retention, Seed, TenantWeights};
use duehook::model::{Destination, HoldScope, Name, NewBody, NewDelivery};
use duehook::outcome::{Outcome, RetryHeaders};
use duehook::policy::Policy;
use duehook::store::{self, Opening, Owner, Reader};
use duehook::time::Millis;
use rustix::time::{ClockId, clock_gettime};

const HOST: &str = "bench";
/// The argument that makes this program the one that is killed.
const LOAD: &str = "--load";
/// Deliveries accepted in a step: what gathers while a commit syncs, under load.
const STEP: usize = 64;
const DESTINATIONS: usize = 16;
/// How long one figure is measured.
const SPAN: Duration = Duration::from_secs(2);
/// What is compared is measured in turns: what else the machine does comes and goes.
const TURN: Duration = Duration::from_millis(250);
const TURNS: usize = 24;
/// A backup of a running server copies so much in a second.
const PACE: u64 = 64 << 20;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Commits {
    /// Each makes the next open instant.
    Quick,
    Plain,
}

impl Commits {
    /// The length of file that makes the engine choose so.
    fn length(self) -> u64 {
        match self {
            Commits::Quick => 0,
            Commits::Plain => u64::MAX,
        }
    }
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
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

/// An engine at work on a file.
struct Bench<'a> {
    engine: Engine,
    clock: Clock,
    path: &'a Path,
    out: Vec<Dispatch>,
}

/// What a while at work came to.
#[derive(Clone, Default)]
struct Figures {
    delivered: u64,
    took: Duration,
    grew: u64,
    /// Time of the processors, and bytes given to the disk.
    cpu: Duration,
    wrote: u64,
    /// Of each step, in order of length.
    steps: Vec<Duration>,
}

impl<'a> Bench<'a> {
    fn open(path: &'a Path) -> Bench<'a> {
        let clock = Clock::start();
        let (now, region) = (clock.now(), name("local"));
        let opening = Opening { region: &region, now: now.wall, uuid: [7; 16] };
        let opened = store::open(path, HOST, &opening, |_| {}).unwrap();
        let engine = Engine::open(opened, limits(), Seed { run: now.wall.0 }, now).unwrap();
        Bench { engine, clock, path, out: Vec::new() }
    }

    fn close(self) {
        let now = self.clock.now();
        self.engine.close(now).unwrap();
        Owner::beside(self.path, &name("local")).closed(self.path, HOST, now.wall).unwrap();
    }

    fn length(&self) -> u64 {
        std::fs::metadata(self.path).unwrap().len()
    }

    fn destinations(&mut self) {
        let put = |no| Command::PutDestination {
            name: name(&format!("d{no}")),
            settings: Box::new(settings()),
            keep_secrets: true,
            expect: Expect::Anything,
        };
        let commands = (0..DESTINATIONS).map(put).map(Into::into).collect();
        self.engine.step(self.clock.now(), Batch { commands, ..Batch::default() }).unwrap();
    }

    /// Takes deliveries that are due much later until the file has this length.
    fn grow(&mut self, bytes: u64) {
        while self.length() < bytes {
            let now = self.clock.now();
            let not_before = Some(now.wall.plus(Millis::seconds(86_400)));
            let items = (0..256).map(|n| NewDelivery { not_before, ..delivery(n, 16_000) }).collect();
            let batch = Batch { accepts: vec![items], file_bytes: u64::MAX, ..Batch::default() };
            self.engine.step(now, batch).unwrap();
        }
    }

    /// One step: what was sent in the last one is delivered, and as many come in.
    fn step(&mut self, commits: Commits) -> u64 {
        let now = self.clock.now();
        let reports: Vec<Report> = self.out.drain(..).map(|it| success(&it, &self.clock)).collect();
        let delivered = reports.len() as u64;
        let accepts = vec![(0..STEP).map(|n| delivery(n, 1_000)).collect()];
        let batch = Batch { reports, accepts, file_bytes: commits.length(), ..Batch::default() };
        self.out = self.engine.step(now, batch).unwrap().dispatches;
        delivered
    }

    fn work(&mut self, commits: Commits, mut goes_on: impl FnMut(Duration) -> bool) -> Figures {
        let (before, began) = (self.length(), Instant::now());
        let (cpu_before, wrote_before) = (cpu(), written());
        let mut figures = Figures::default();
        while goes_on(began.elapsed()) {
            let step = Instant::now();
            figures.delivered += self.step(commits);
            figures.steps.push(step.elapsed());
        }
        figures.took = began.elapsed();
        (figures.cpu, figures.wrote) = (cpu() - cpu_before, written() - wrote_before);
        figures.grew = self.length() - before;
        figures.steps.sort();
        figures
    }
}

/// Time that this process has had of its processors.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Bytes that this process has given to the disk.
fn written() -> u64 {
    let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

impl Figures {
    fn add(&mut self, other: Figures) {
        let Figures { delivered, took, grew, cpu, wrote, steps } = other;
        self.delivered += delivered;
        self.took += took;
        self.grew += grew;
        self.cpu += cpu;
        self.wrote += wrote;
        self.steps.extend(steps);
        self.steps.sort();
    }

    fn micros(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.delivered.max(1) as f64
    }

    fn rate(&self) -> f64 {
        self.delivered as f64 / self.took.as_secs_f64()
    }

    fn percentile(&self, share: f64) -> f64 {
        self.steps[((self.steps.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3
    }

    fn say(&self, what: &str) {
        println!(
            "  {what:<34}{:>8.0}/s   step p50 {:>6.2} ms p99 {:>6.2} ms   file +{} MiB, {} bytes a delivery",
            self.rate(),
            self.percentile(0.5),
            self.percentile(0.99),
            self.grew >> 20,
            self.grew / self.delivered.max(1),
        );
    }
}

fn settings() -> Destination {
    Destination {
        tenant: name("acme"),
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

fn delivery(n: usize, bytes: usize) -> NewDelivery {
    NewDelivery {
        destination: name(&format!("d{}", n % DESTINATIONS)),
        tenant: None,
        class: None,
        key: None,
        not_before: None,
        max_age: None,
        max_failures: None,
        headers: vec![],
        labels: vec![],
        content_type: "text/plain".into(),
        body: NewBody::new(vec![7; bytes].into()),
    }
}

fn success(dispatch: &Dispatch, clock: &Clock) -> Report {
    let now = clock.now().wall;
    let headers = RetryHeaders { retry_after: vec![], date: None };
    Report {
        id: dispatch.lease.id,
        nonce: dispatch.lease.nonce,
        attempt: dispatch.lease.attempt,
        started_at: now,
        ended_at: Some(now),
        outcome: Outcome::Answered { status: 200, headers },
        error: None,
        host: None,
        address: None,
        response_excerpt: None,
        digest: None,
    }
}

/// Quick-repair's cost: both ways in turn, and the sums of each.
fn quick_repair(bench: &mut Bench<'_>) {
    let (mut quick, mut plain) = (Figures::default(), Figures::default());
    for _ in 0..TURNS {
        quick.add(bench.work(Commits::Quick, |passed| passed < TURN));
        plain.add(bench.work(Commits::Plain, |passed| passed < TURN));
    }
    quick.say("quick-repair on every commit");
    plain.say("on none");
    println!(
        "  quick-repair costs {:.1} % of throughput; {:.1} and {:.1} us of processor, {} and {} bytes written a delivery",
        (1.0 - quick.rate() / plain.rate()) * 100.0,
        quick.micros(),
        plain.micros(),
        quick.wrote / quick.delivered.max(1),
        plain.wrote / plain.delivered.max(1),
    );
}

/// A reader that stays open: nothing that is freed meanwhile is used again.
fn open_reader(bench: &mut Bench<'_>) {
    for (commits, what) in
        [(Commits::Quick, "a reader open, quick-repair"), (Commits::Plain, "a reader open")]
    {
        let reader = bench.engine.reader().snapshot().unwrap();
        let figures = bench.work(commits, |passed| passed < SPAN);
        figures.say(what);
        println!("    {} bytes of file a commit", figures.grew / figures.steps.len().max(1) as u64);
        drop(reader);
        bench.work(commits, |passed| passed < SPAN / 4);
    }
}

/// Copies with the pace that it is given; how long it took, and how much it wrote.
fn copy(reader: &Reader, path: &Path, clock: &Clock, pace: u64) -> (Duration, u64) {
    drop(std::fs::remove_file(path));
    let began = Instant::now();
    let mut wait = |copied: u64| {
        let due = Duration::from_secs_f64(copied as f64 / pace as f64);
        std::thread::sleep(due.saturating_sub(began.elapsed()));
        Ok(())
    };
    let copied = reader.backup(path, clock.now().wall, &mut wait).unwrap();
    (began.elapsed(), copied.bytes)
}

fn backups(bench: &mut Bench<'_>) {
    let to = bench.path.with_extension("copy");
    let say = |what: &str, (took, bytes): (Duration, u64)| {
        let rate = bytes as f64 / took.as_secs_f64() / 1e6;
        println!("  {what:<34}{} MiB in {took:.2?}, read back and synced: {rate:.0} MB/s", bytes >> 20);
    };
    say("backup, idle, without a pace", copy(&bench.engine.reader(), &to, &bench.clock, u64::MAX));
    say("backup, idle, paced", copy(&bench.engine.reader(), &to, &bench.clock, PACE));
    let commits = if bench.length() < store::QUICK_REPAIR_BELOW { Commits::Quick } else { Commits::Plain };
    bench.work(commits, |passed| passed < SPAN).say("no backup");
    let (reader, clock) = (bench.engine.reader(), bench.clock.clone());
    std::thread::scope(|scope| {
        let made = scope.spawn(|| copy(&reader, &to, &clock, PACE));
        bench.work(commits, |_| !made.is_finished()).say("during a paced backup");
        say("backup, under load, paced", made.join().unwrap());
    });
    drop(std::fs::remove_file(&to));
}

/// The one that is killed: works, or works and rests, and says when it does.
fn load(path: &Path, rests: bool, commits: Commits) -> ! {
    let mut bench = Bench::open(path);
    let owner = Owner::beside(path, &name("local"));
    let (run, mut beat) = (bench.clock.now().wall, Instant::now() - SPAN);
    let began = Instant::now();
    loop {
        if beat.elapsed() > Duration::from_secs(1) {
            beat = Instant::now();
            owner.heartbeat(path, HOST, run, bench.clock.now().wall).unwrap();
        }
        let warm = began.elapsed() > SPAN;
        if warm && rests {
            std::thread::sleep(Duration::from_millis(1_100));
        }
        bench.step(commits);
        if warm {
            println!("warm");
            std::io::stdout().flush().unwrap();
        }
        if warm && rests {
            loop {
                std::thread::park();
            }
        }
    }
}

fn start(path: &Path, rests: bool, commits: Commits) -> Child {
    let mut program = Process::new(std::env::current_exe().unwrap());
    let commits = if commits == Commits::Quick { "quick" } else { "plain" };
    program.arg(LOAD).arg(path).arg(if rests { "rests" } else { "works" }).arg(commits);
    let mut child = program.stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "warm\n");
    child
}

/// From the kill of a process to an engine that could step.
fn restarts(path: &Path) {
    let length = std::fs::metadata(path).unwrap().len();
    let own = if length < store::QUICK_REPAIR_BELOW { Commits::Quick } else { Commits::Plain };
    for (what, rests, commits) in [
        ("killed under load", false, own),
        ("killed after a pause", true, own),
        ("killed under load, no quick-repair", false, Commits::Plain),
    ] {
        let mut child = start(path, rests, commits);
        child.kill().unwrap();
        child.wait().unwrap();
        let length = std::fs::metadata(path).unwrap().len() as f64;
        let began = Instant::now();
        let bench = Bench::open(path);
        let took = began.elapsed();
        bench.close();
        let share = took.as_secs_f64() / (length / f64::from(1 << 30));
        println!(
            "  {what:<34}open again after {took:.3?}, {share:.2} s a GiB of {:.0} MiB",
            length / 1048576.0
        );
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|it| it != "--bench").collect();
    if let [first, path, rests, commits] = &arguments[..]
        && first == LOAD
    {
        let commits = if commits == "quick" { Commits::Quick } else { Commits::Plain };
        load(Path::new(path), rests == "rests", commits);
    }
    let sizes: Vec<u64> = arguments.iter().filter_map(|it| it.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![100, 900] } else { sizes };
    for mib in sizes {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let path = folder.path().join("durable.redb");
        let mut bench = Bench::open(&path);
        bench.destinations();
        bench.grow(mib << 20);
        println!("\nA file of {} MiB, {STEP} deliveries a step", bench.length() >> 20);
        quick_repair(&mut bench);
        open_reader(&mut bench);
        backups(&mut bench);
        bench.close();
        restarts(&path);
    }
}
