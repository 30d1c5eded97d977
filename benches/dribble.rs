//! A healthy producer beside 2,000 connections that send a byte a second, half of them a head
//! without end, half of them a body: `cargo bench --bench dribble`. Who is closed comes back within
//! the second. Then the same at the admin listener, for the operator who wants to see why.
//!
//! Prints how long a request takes until it has its answer, tried again for as long as it has none,
//! with the crowd and without it, in turns, and their ratio; and the memory and descriptors of the
//! server, which is a process of its own. An argument is the program of another server to measure.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock and waits")]
#![expect(clippy::unwrap_used, reason = "what fails here ends the benchmark")]

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use reqwest::{Client, RequestBuilder};
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};

/// Connections that dribble: about twice the seats of a listener.
const CROWD: usize = 2_000;
/// How often each says a byte, or comes back.
const DRIBBLE: Duration = Duration::from_secs(1);
/// How long one figure is measured: longer than any bound of a connection.
const SPAN: Duration = Duration::from_secs(20);
/// From the first of the crowd until all are there.
const GATHERING: Duration = Duration::from_secs(3);
/// What is compared is measured in turns: what else the machine does comes and goes.
const TURNS: usize = 2;
/// From an answer to the next request.
const PACE: Duration = Duration::from_millis(5);
/// A request without an answer is made again after this time.
const AGAIN: Duration = Duration::from_millis(10);
const DELIVERY: &str = r#"{"destination":"shop","payload":"a payload of a few bytes"}"#;

/// The server, with a file of its own.
struct Server {
    child: Child,
    ingest: String,
    admin: String,
    _folder: tempfile::TempDir,
}

impl Server {
    fn start(program: &str) -> Server {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let mut command = Command::new(program);
        command.arg("serve").env("DUEHOOK_DATA", folder.path().join("duehook.redb"));
        command.env("DUEHOOK_INGEST__LISTEN", "127.0.0.1:0").env("DUEHOOK_ADMIN__LISTEN", "127.0.0.1:0");
        command.env("DUEHOOK_INGEST__MIN_FREE_DISK", "1MiB").env("DUEHOOK_LOG__LEVEL", "error");
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut address = || lines.next().unwrap().unwrap().split_once(' ').unwrap().1.trim().to_owned();
        let (ingest, admin) = (address(), address());
        Server { child, ingest, admin, _folder: folder }
    }

    /// A number of kB in the server's `/proc/…/status`, in MiB.
    fn mebibytes(&self, of: &str) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(of)).unwrap();
        line.trim_matches([':', '\t', ' ', 'k', 'B']).parse::<u64>().unwrap() / 1024
    }

    fn descriptors(&self) -> usize {
        std::fs::read_dir(Path::new("/proc").join(self.child.id().to_string()).join("fd")).unwrap().count()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// What came of one kind of request.
#[derive(Default)]
struct Figures {
    took: Vec<Duration>,
    /// Tries without an answer.
    failed: usize,
}

impl Figures {
    fn add(&mut self, other: Figures) {
        self.took.extend(other.took);
        self.failed += other.failed;
        self.took.sort();
    }

    fn percentile(&self, share: f64) -> f64 {
        self.took[((self.took.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3
    }

    fn say(&self, what: &str) {
        let [p50, p99, most] = [0.5, 0.99, 1.0].map(|share| self.percentile(share));
        let (count, failed) = (self.took.len(), self.failed);
        println!(
            "  {what:<38}p50 {p50:>6.2} ms  p99 {p99:>6.2} ms  most {most:>7.1} ms  of {count}, {failed} tries failed"
        );
    }
}

/// One request after the other, each until it is answered.
async fn ask(request: RequestBuilder) -> Figures {
    let (began, mut figures) = (Instant::now(), Figures::default());
    while began.elapsed() < SPAN {
        let at = Instant::now();
        while let Err(_) | Ok(false) = answered(&request).await {
            figures.failed += 1;
            sleep(AGAIN).await;
        }
        figures.took.push(at.elapsed());
        sleep(PACE).await;
    }
    figures
}

async fn answered(request: &RequestBuilder) -> reqwest::Result<bool> {
    let response = request.try_clone().unwrap().send().await?;
    let good = response.status().is_success();
    response.bytes().await.map(|_| good)
}

/// Connects, says a byte a second, and connects again once it is closed.
async fn dribble(to: SocketAddr, place: usize) {
    let begin = if place.is_multiple_of(2) {
        "GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: "
    } else {
        "POST /v1/deliveries HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 200000\r\n\r\n"
    };
    sleep(DRIBBLE.mul_f64(place as f64 / CROWD as f64)).await;
    let mut ticks = interval(DRIBBLE);
    loop {
        ticks.tick().await;
        let Ok(mut stream) = TcpStream::connect(to).await else { continue };
        let mut says = begin.as_bytes();
        while stream.write_all(says).await.is_ok() && !is_closed(&stream) {
            says = b"x";
            ticks.tick().await;
        }
    }
}

/// True when the other side has said all that it will say.
fn is_closed(stream: &TcpStream) -> bool {
    loop {
        match stream.try_read(&mut [0; 512]) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != std::io::ErrorKind::WouldBlock,
        }
    }
}

/// The most that the server had of memory and descriptors, while `others` are at work.
async fn watched<T>(server: &Server, others: impl Future<Output = T>) -> (T, u64, usize) {
    let (mut memory, mut descriptors) = (0, 0);
    let mut ticks = interval(Duration::from_millis(200));
    let mut others = std::pin::pin!(others);
    loop {
        tokio::select! {
            done = &mut others => return (done, memory, descriptors),
            _ = ticks.tick() => {
                memory = memory.max(server.mebibytes("VmRSS"));
                descriptors = descriptors.max(server.descriptors());
            }
        }
    }
}

/// Clients that keep their connection, and that make a new one for each request.
fn clients() -> [Client; 2] {
    let builder = || Client::builder().no_proxy().timeout(Duration::from_secs(60));
    [builder().build().unwrap(), builder().pool_max_idle_per_host(0).build().unwrap()]
}

async fn round(server: &Server, what: &str, base: &str, request: impl Fn(&Client) -> RequestBuilder) {
    let to = base.strip_prefix("http://").unwrap().parse().unwrap();
    let mut all: [[Figures; 2]; 2] = Default::default();
    println!("{what}");
    for _ in 0..TURNS {
        for (crowd, figures) in all.iter_mut().enumerate() {
            let mut dribblers = JoinSet::new();
            (0..CROWD * crowd).for_each(|place| _ = dribblers.spawn(dribble(to, place)));
            sleep(GATHERING).await;
            let [kept, new] = clients();
            let both = async { tokio::join!(ask(request(&kept)), ask(request(&new))) };
            let ((kept, new), memory, descriptors) = watched(server, both).await;
            println!("  {} others: {memory} MiB resident, {descriptors} descriptors", CROWD * crowd);
            figures[0].add(kept);
            figures[1].add(new);
            dribblers.shutdown().await;
        }
    }
    let [alone, beside] = &all;
    for (place, kind) in ["on a kept connection", "on new connections"].iter().enumerate() {
        alone[place].say(&format!("{kind}, alone"));
        beside[place].say(&format!("{kind}, beside {CROWD}"));
        let ratio = |share| beside[place].percentile(share) / alone[place].percentile(share);
        println!("  {kind}: p50 × {:.2}, p99 × {:.2}", ratio(0.5), ratio(0.99));
    }
}

async fn prepare(server: &Server) {
    let [client, _] = clients();
    let shop = format!("{}/v1/destinations/shop", server.admin);
    let body = r#"{"tenant":"acme","url":"https://shop.example.com/hook"}"#;
    let put = client.put(&shop).header("content-type", "application/json").body(body);
    assert!(put.send().await.unwrap().status().is_success());
    assert!(client.post(format!("{shop}/pause")).send().await.unwrap().status().is_success());
}

fn main() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
    let other = std::env::args().skip(1).find(|it| !it.starts_with("--"));
    let server = Server::start(other.as_deref().unwrap_or(env!("CARGO_BIN_EXE_duehook")));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        prepare(&server).await;
        round(&server, "A producer's POST /v1/deliveries", &server.ingest, |client| {
            let url = format!("{}/v1/deliveries", server.ingest);
            client.post(url).header("content-type", "application/json").body(DELIVERY)
        })
        .await;
        round(&server, "An operator's GET /v1/stats", &server.admin, |client| {
            client.get(format!("{}/v1/stats", server.admin))
        })
        .await;
    });
    println!("at most {} MiB resident", server.mebibytes("VmHWM"));
}
