//! What a running server costs: RAM for a great backlog, descriptors for what went wrong.
#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use duehook::drill::receiver::{Answer, Received, Receiver, Record, Script};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::TestServer;
use crate::api::{Api, until};

/// Deliveries that wait in a plain `cargo test`; `BACKLOG` asks for more.
const BACKLOG: usize = 100_000;
const HELD: usize = 20;
const BATCH: usize = 1_000;
const LOOKS: usize = 11;
const RESIDENT: u64 = 300_000_000;
const STARTS: Duration = Duration::from_millis(100);
const ANSWERS: Duration = Duration::from_millis(200);
/// A page of a list that has to look far (C175).
const PAGE: Duration = Duration::from_millis(300);

/// What the page at `/` asks for, and what an operator does, in lists where little or nothing fits.
const PAGES: [&str; 6] = [
    "/v1/destinations?limit=1000",
    "/v1/deliveries?outcome=rejected,exhausted,expired,payload_gone,destination_gone,quarantined&order=-finished&limit=5",
    "/v1/deliveries",
    "/v1/deliveries?order=created&state=leased",
    "/v1/deliveries?destination=open&limit=1000",
    "/v1/stats/destinations?sort=oldest",
];

fn backlog() -> usize {
    #[expect(clippy::disallowed_methods, reason = "a test's own knob, not a setting of the program")]
    let asked = std::env::var("BACKLOG");
    asked.ok().and_then(|text| text.parse().ok()).unwrap_or(BACKLOG)
}

/// A line of `/proc/<pid>/status`, in bytes.
fn memory(pid: u32, line: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let found = status.lines().find_map(|text| text.strip_prefix(line)).unwrap();
    found.trim_matches(|c: char| !c.is_ascii_digit()).parse::<u64>().unwrap() << 10
}

async fn fill(api: &Api, count: usize) {
    for no in 0..HELD {
        let name = format!("held-{no}");
        api.destination(&name, "http://127.0.0.1:9/", "").await;
        let hold = r#"{"until":"2999-01-01T00:00:00Z","reason":"a test"}"#;
        api.admin("PUT", &format!("/v1/destinations/{name}/hold"), hold).await.expect(200);
    }
    let body = "x".repeat(1_000);
    for batch in 0..count / BATCH {
        let to = batch % HELD;
        let line = format!("{{\"destination\":\"held-{to}\",\"payload\":\"{body}\"}}\n");
        let answer = api.batch(line.repeat(BATCH)).await.unwrap().expect(200);
        let results = answer["results"].as_array().unwrap();
        assert!(results.iter().all(|one| one["status"] == 202), "{:?}", results.first());
    }
}

/// The middle and the greatest of many times.
fn middle(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort();
    (times[times.len() / 2], times[times.len() - 1])
}

/// Times from a POST to its receipt.
async fn starts(api: &Api, receiver: &Receiver) -> (Duration, Duration) {
    let mut times = Vec::new();
    for _ in 0..LOOKS {
        let (before, began) = (receiver.count(), Instant::now());
        api.send("open", None, b"1".to_vec()).await.unwrap().expect(202);
        until("it arrives", async || receiver.count() > before).await;
        times.push(began.elapsed());
    }
    middle(times)
}

async fn answers(api: &Api, path: &str) -> (Duration, Duration) {
    let mut times = Vec::new();
    for _ in 0..LOOKS {
        let began = Instant::now();
        api.admin("GET", path, "").await.expect(200);
        times.push(began.elapsed());
    }
    middle(times)
}

async fn check(server: &TestServer, receiver: &Receiver, count: usize) {
    let api = Api::of(server);
    let held = async || {
        let stats = api.admin("GET", "/v1/stats", "").await.expect(200);
        (stats["classes"]["routine"]["held"].as_u64(), stats["counting"].as_bool())
    };
    let began = Instant::now();
    until("all are counted", async || held().await == (Some(count as u64), Some(false))).await;
    let counted = began.elapsed();
    let (start, stats) = (starts(&api, receiver).await, answers(&api, "/v1/stats").await);
    let explain = answers(&api, "/v1/destinations/held-0").await;
    for path in PAGES {
        let took = answers(&api, path).await;
        println!("{path}: {took:?}");
        assert!(took.0 < PAGE, "{path}: {took:?}");
    }
    let (now, most) = (memory(server.pid(), "VmRSS:"), memory(server.pid(), "VmHWM:"));
    println!(
        "{count} held, counted after {counted:?}: resident {} MiB (most {} MiB); (middle, most) POST to receipt {start:?}, \
         stats {stats:?}, one destination {explain:?}",
        now >> 20,
        most >> 20
    );
    assert!(most < RESIDENT, "{} MiB", most >> 20);
    assert!(start.0 < STARTS && stats.0 < ANSWERS, "{start:?} {stats:?}");
}

/// C175: nor does it make a page of the lists slow, however many there are: none is counted out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c175_a_held_backlog_delays_nobody_else() {
    let count = backlog();
    let receiver = Receiver::start(Script::List(vec![Answer::status(204)]), Record::Count).await.unwrap();
    let server = TestServer::start(Arc::new(TempDir::new().unwrap()), &[]);
    let api = Api::of(&server);
    api.destination("open", &receiver.url("/"), "").await;
    let began = Instant::now();
    fill(&api, count).await;
    let filled = began.elapsed();
    check(&server, &receiver, count).await;
    let bytes = fs::metadata(server.data()).unwrap().len();
    let folder = server.kill();
    let began = Instant::now();
    let server = TestServer::start(folder, &[]);
    println!("filled in {filled:?}, {} MiB; restarted after a kill in {:?}", bytes >> 20, began.elapsed());
    check(&server, &receiver, count).await;
}

fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// C071: half of the attempts time out, half are cut off; no descriptor stays behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c071_descriptors_come_back() {
    let answer = |received: &Received| match received.path.as_str() {
        _ if received.length == 2 => Answer::status(204),
        "/hangs" => Answer::status(204).after(Duration::from_secs(60)),
        _ => Answer::Drop,
    };
    let receiver = Receiver::start(Script::Decide(Box::new(answer)), Record::Count).await.unwrap();
    let server = TestServer::start(Arc::new(TempDir::new().unwrap()), &[]);
    let api = Api::of(&server);
    let quick = r#","timeout_ms":1000,"connect_timeout_ms":500,"concurrency":{"max":200}"#;
    for path in ["hangs", "drops"] {
        api.destination(path, &receiver.url(&format!("/{path}")), quick).await;
        let line = format!("{{\"destination\":\"{path}\",\"payload\":42}}\n");
        api.batch(line.repeat(300)).await.unwrap().expect(200);
    }
    api.quiet().await; // what was answered has opened the gates
    let before = descriptors(server.pid());
    for path in ["hangs", "drops"] {
        let line = format!("{{\"destination\":\"{path}\",\"payload\":1,\"max_failures\":1}}\n");
        api.batch(line.repeat(400)).await.unwrap().expect(200);
    }
    until("some are open", async || descriptors(server.pid()) > before + 20).await;
    api.quiet().await;
    let all = api.list("outcome=exhausted").await.len();
    println!("{before} descriptors before, {} after {all} attempts", descriptors(server.pid()));
    assert_eq!(all, 800);
    until("they are closed", async || descriptors(server.pid()) <= before + 20).await;
    api.send("drops", None, b"1".to_vec()).await.unwrap().expect(202);
}
