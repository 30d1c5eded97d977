//! From a producer's POST to the receiver's answer, against a bare loop of requests to the same
//! receiver, in one run: `cargo bench --bench pipeline`. Only ratios travel between machines.
//!
//! Producer, server and receiver share this machine; each has a runtime of its own, as in a
//! process of its own, and the server a file on a real disk. `PIPELINE_TOTAL` sets the deliveries of a round; an argument picks
//! the rounds whose names contain it.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![expect(clippy::unwrap_used, reason = "what fails here ends the benchmark")]

use std::future::pending;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use duehook::config::Settings;
use duehook::driver::clock::Clock;
use duehook::driver::{self, Custody};
use duehook::engine::{Engine, Limits, Retention, Seed};
use duehook::http::{self, App, Build};
use duehook::sender::{Config, Sender};
use duehook::store::{Disk, Opening, Owner};
use duehook::time::Millis;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::JoinSet;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Requests in flight of the bare loop, of the producer, and of the server to the receiver.
const IN_FLIGHT: usize = 64;
const BATCH: usize = 100;
const BODY: usize = 1_024;
const TOTAL: usize = 60_000;
/// POSTs one after the other, for the accept time of an idle server.
const ALONE: usize = 2_000;

fn main() {
    let total = std::env::var("PIPELINE_TOTAL").ok().and_then(|n| n.parse().ok()).unwrap_or(TOTAL);
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    let runtime = runtime();
    let theirs = self::runtime();
    let receiver = theirs.block_on(Receiver::start());
    let bare = runtime.block_on(bare(&receiver, total));
    say("bare loop", &format!("{bare:>9.0} deliveries/s"));
    for (retention, named) in [(false, ""), (true, ", with retention")] {
        for batch in [1, BATCH] {
            let kind = if batch == 1 { "single POST".to_owned() } else { format!("batches of {batch}") };
            let name = format!("{kind}, {} in flight{named}", in_flight(batch));
            if !name.contains(&wanted) {
                continue;
            }
            let server = Server::start(retention);
            let round = runtime.block_on(server.round(&receiver, total, batch));
            round.tell(&name, bare, total);
        }
    }
    let server = Server::start(false);
    let (p50, p99) = runtime.block_on(server.alone(&receiver));
    say("single POST, 1 in flight", &format!("accept p50 {p50:.2} ms, p99 {p99:.2} ms"));
    let again = runtime.block_on(self::bare(&receiver, total));
    say("bare loop again", &format!("{again:>9.0} deliveries/s"));
}

fn say(name: &str, figures: &str) {
    println!("{name:<44} {figures}");
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Answers 204 and counts.
struct Receiver {
    inner: duehook::drill::receiver::Receiver,
}

impl Receiver {
    async fn start() -> Receiver {
        use duehook::drill::receiver::{Record, Script};
        let inner = duehook::drill::receiver::Receiver::start(Script::Paths, Record::Count).await.unwrap();
        Receiver { inner }
    }

    fn url(&self) -> String {
        self.inner.url("/ok")
    }

    fn count(&self) -> usize {
        usize::try_from(self.inner.count()).unwrap()
    }

    /// Waits until so many requests have come.
    async fn until(&self, count: usize) {
        let mut tick = tokio::time::interval(Duration::from_millis(1));
        while self.count() < count {
            tick.tick().await;
        }
    }
}

/// Runs `one` for each of `total` numbers, so many at once.
async fn at_once<F: Future<Output = ()> + Send + 'static>(
    total: usize,
    in_flight: usize,
    one: impl Fn(usize) -> F + Clone + Send + Sync + 'static,
) {
    let next = Arc::new(AtomicUsize::new(0));
    let mut workers = JoinSet::new();
    for _ in 0..in_flight {
        let (next, one) = (Arc::clone(&next), one.clone());
        workers.spawn(async move {
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= total {
                    break;
                }
                one(n).await;
            }
        });
    }
    while let Some(done) = workers.join_next().await {
        done.unwrap();
    }
}

/// Requests at once: of batches no more than the queue into the engine holds.
fn in_flight(batch: usize) -> usize {
    if batch == 1 { IN_FLIGHT } else { 1_600 / batch }
}

fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().pool_max_idle_per_host(IN_FLIGHT).build().unwrap()
}

async fn bare(receiver: &Receiver, total: usize) -> f64 {
    let (client, url) = (client(), reqwest::Url::parse(&receiver.url()).unwrap());
    let body = bytes::Bytes::from(vec![b'x'; BODY]);
    let start = Instant::now();
    at_once(total, IN_FLIGHT, move |_| {
        let request = client.post(url.clone()).body(body.clone());
        async move {
            let answer = request.send().await.unwrap();
            assert_eq!(answer.status().as_u16(), 204);
        }
    })
    .await;
    total as f64 / start.elapsed().as_secs_f64()
}

struct Round {
    per_second: f64,
    p50: f64,
    p99: f64,
    file_bytes: u64,
}

impl Round {
    fn tell(&self, name: &str, bare: f64, total: usize) {
        let Round { per_second, p50, p99, file_bytes } = self;
        let ratio = per_second / bare;
        say(name, &format!("{per_second:>9.0} deliveries/s, {ratio:.2} of bare"));
        let file = file_bytes / total as u64;
        say("", &format!("accept p50 {p50:.2} ms, p99 {p99:.2} ms; {file} bytes of file a delivery"));
    }
}

/// A whole server in this process.
struct Server {
    ingest: String,
    admin: String,
    data: PathBuf,
    driver: Option<driver::Driver>,
    _runtime: Runtime,
    _folder: tempfile::TempDir,
}

impl Server {
    fn start(retention: bool) -> Server {
        let folder = tempfile::tempdir_in(target()).unwrap();
        let data = folder.path().join("bench.redb");
        let runtime = runtime();
        let (ingest, admin, driver) = runtime.block_on(serve(&data, retention));
        Server { ingest, admin, data, driver: Some(driver), _runtime: runtime, _folder: folder }
    }

    /// The destination that everything goes to.
    async fn aim(&self, receiver: &Receiver) {
        let body = serde_json::json!({
            "tenant": "bench", "url": receiver.url(), "allow_cidrs": ["127.0.0.1/32"],
            "concurrency": {"max": IN_FLIGHT},
        });
        let url = format!("{}/v1/destinations/bench", self.admin);
        let answer = client().put(url).header("content-type", "application/json").body(body.to_string());
        assert_eq!(answer.send().await.unwrap().status().as_u16(), 201);
    }

    async fn round(&self, receiver: &Receiver, total: usize, batch: usize) -> Round {
        self.aim(receiver).await;
        let before = receiver.count();
        let times = Arc::new(std::sync::Mutex::new(Vec::with_capacity(total)));
        let (client, kept) = (client(), Arc::clone(&times));
        let (url, body) = self.request(batch);
        let kind = if batch == 1 { "application/json" } else { "application/x-ndjson" };
        let start = Instant::now();
        let posts = total / batch;
        at_once(posts, in_flight(batch), move |_| {
            let request = client.post(url.clone()).header("content-type", kind).body(body.clone());
            let kept = Arc::clone(&kept);
            async move {
                let began = Instant::now();
                let answer = request.send().await.unwrap();
                assert!(answer.status().is_success(), "{}", answer.status());
                answer.bytes().await.unwrap();
                kept.lock().unwrap().push(began.elapsed());
            }
        })
        .await;
        receiver.until(before + total).await;
        let per_second = total as f64 / start.elapsed().as_secs_f64();
        let (p50, p99) = percentiles(&mut times.lock().unwrap());
        let file_bytes = std::fs::metadata(&self.data).unwrap().len();
        Round { per_second, p50, p99, file_bytes }
    }

    fn request(&self, batch: usize) -> (reqwest::Url, bytes::Bytes) {
        let payload = "x".repeat(BODY - 2);
        let item = format!("{{\"destination\":\"bench\",\"payload\":\"{payload}\"}}");
        if batch == 1 {
            return (format!("{}/v1/deliveries", self.ingest).parse().unwrap(), item.into());
        }
        let lines = format!("{item}\n").repeat(batch);
        (format!("{}/v1/batch", self.ingest).parse().unwrap(), lines.into())
    }

    async fn alone(&self, receiver: &Receiver) -> (f64, f64) {
        self.aim(receiver).await;
        let (client, (url, body)) = (client(), self.request(1));
        let mut times = Vec::new();
        for _ in 0..ALONE {
            let request =
                client.post(url.clone()).header("content-type", "application/json").body(body.clone());
            let began = Instant::now();
            assert_eq!(request.send().await.unwrap().status().as_u16(), 202);
            times.push(began.elapsed());
        }
        percentiles(&mut times)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(driver) = self.driver.take() {
            driver.stop();
            driver.cut();
            driver.join();
        }
    }
}

fn percentiles(times: &mut [Duration]) -> (f64, f64) {
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1_000.0;
    (at(0.50), at(0.99))
}

/// A folder on a real disk: where the build is.
fn target() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

async fn serve(data: &Path, retention: bool) -> (String, String, driver::Driver) {
    let settings = Settings::default();
    let clock = Clock::start();
    let now = clock.now();
    let opening = Opening { region: &settings.region, now: now.wall, uuid: [7; 16] };
    let opened = duehook::store::open(data, "bench", &opening, |_| {}).unwrap();
    let engine = Engine::open(opened, limits(&settings, retention), Seed { run: 7 }, now).unwrap();
    let disk = Disk::of(data, 0);
    let owner = Owner::beside(data, &settings.region);
    let (path, host) = (data.to_owned(), watch::channel("bench".to_owned()).1);
    let custody = Custody { path, host, owner, disk, run: now.wall, last_words: |_| {}, backups: None };
    let sender = Sender::new(Config::default()).unwrap();
    let handle = tokio::runtime::Handle::current();
    let (driver, handle) = driver::start(engine, sender, custody, clock, &handle);
    let app = App::new(handle, &settings, Build { version: "bench", commit: "bench", format: 1 });
    let mut addresses = Vec::new();
    for router in [http::ingest_router(Arc::clone(&app)), http::admin_router(app)] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        addresses.push(format!("http://{}", listener.local_addr().unwrap()));
        let limits = http::Limits::new(1_024, vec![]);
        tokio::spawn(http::serve(listener, router, limits, pending()));
    }
    (addresses[0].clone(), addresses[1].clone(), driver)
}

fn limits(settings: &Settings, retention: bool) -> Limits {
    let kept = &settings.retention;
    Limits {
        payload_timeout: Millis(0),
        slots: settings.send.slots,
        max_deliveries: settings.ingest.max_deliveries,
        policies: settings.policies.clone(),
        classes: settings.classes.clone(),
        reserve_permille: settings.reserve_permille,
        tenant_weights: settings.tenant_weights.clone(),
        tenant_quotas: settings.tenant_quotas.clone(),
        retention: Retention {
            terminal: if retention { Millis(1_000) } else { kept.terminal },
            max_terminal: kept.max_terminal,
            delivered_payload: kept.delivered_payload,
            failed_payload: kept.failed_payload,
            audit: kept.audit,
        },
    }
}
