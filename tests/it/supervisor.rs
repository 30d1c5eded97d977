//! What systemd hears of a server, on a socket of our own.
#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::Instant;

use crate::TestServer;
use crate::api::{Api, PATIENCE};

/// Reads of every kind between two looks at what they fed.
const READS: usize = 300;

struct Systemd {
    socket: UnixDatagram,
    path: String,
}

impl Systemd {
    fn new(folder: &TempDir) -> Systemd {
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Systemd { socket, path: path.to_str().unwrap().to_owned() }
    }

    /// The lines of the next message.
    fn next(&self) -> Option<Vec<String>> {
        let mut text = [0; 4_096];
        let length = loop {
            match self.socket.recv(&mut text) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                heard => break heard.ok()?,
            }
        };
        let text = std::str::from_utf8(&text[..length]).unwrap();
        Some(text.lines().map(str::to_owned).collect())
    }

    /// Reads on until a message has a line that begins so, and gives all of that message.
    #[track_caller]
    fn hear(&self, start: &str) -> Vec<String> {
        loop {
            let message = self.next().unwrap_or_else(|| panic!("never: {start}"));
            if message.iter().any(|line| line.starts_with(start)) {
                return message;
            }
        }
    }

    /// Everything that has been said by now.
    fn rest(&self) -> Vec<String> {
        self.socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let said = std::iter::from_fn(|| self.next()).flatten().collect();
        self.socket.set_read_timeout(Some(PATIENCE)).unwrap();
        said
    }
}

async fn commits(api: &Api) -> u64 {
    let text = api.text("/metrics").await;
    let line = text.lines().find_map(|line| line.strip_prefix("duehook_commit_seconds_count "));
    line.unwrap().parse().unwrap()
}

#[track_caller]
fn has(message: &[String], start: &str) {
    assert!(message.iter().any(|line| line.starts_with(start)), "no {start} in {message:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn systemd_hears_of_the_start_each_life_sign_and_the_stop() {
    let folder = TempDir::new().unwrap();
    let systemd = Systemd::new(&folder);
    let variables = [("NOTIFY_SOCKET", systemd.path.as_str()), ("WATCHDOG_USEC", "60000000")];
    let server = TestServer::start(Arc::new(TempDir::new().unwrap()), &variables);
    let opening = systemd.next().unwrap();
    has(&opening, "STATUS=opening ");
    has(&opening, "EXTEND_TIMEOUT_USEC=30000000");
    has(&systemd.hear("READY=1"), "STATUS=serving: 0 waiting, 0 in flight");
    let api = Api::of(&server);
    api.destination("shop", "http://127.0.0.1:9/", "").await;
    systemd.hear("WATCHDOG=1");
    let before = commits(&api).await;
    systemd.rest();
    for _ in 0..READS {
        assert_eq!(api.ready().await, 200);
        api.list("state=ready").await;
    }
    let fed = systemd.rest().iter().filter(|line| *line == "WATCHDOG=1").count() as u64;
    let made = commits(&api).await - before;
    assert!(fed <= made + 1, "fed {fed} times for {made} commits");
    // Nobody asks for anything any more: the heartbeat feeds it.
    systemd.rest();
    systemd.hear("WATCHDOG=1");
    server.terminate();
    let stopping = systemd.hear("STOPPING=1");
    has(&stopping, "EXTEND_TIMEOUT_USEC=30000000");
    assert_eq!(server.wait().0, Some(0));
    assert!(!systemd.rest().iter().any(|line| line == "READY=1"));
}

/// The unit starts again what may be helped by it, and stops doing so.
#[test]
fn the_unit_tells_exits_apart_and_gives_up() {
    let unit = include_str!("../../packaging/duehook.service");
    let of = |section: &str| {
        let lines = unit.lines().skip_while(move |line| *line != section).skip(1);
        lines.take_while(|line| !line.starts_with('[')).collect::<Vec<_>>()
    };
    let check = |section: &str, line: &str| assert!(of(section).contains(&line), "{section} {line}");
    check("[Unit]", "StartLimitIntervalSec=600");
    check("[Unit]", "StartLimitBurst=10");
    check("[Service]", "Restart=always");
    check("[Service]", "RestartPreventExitStatus=78");
}

/// One that ends while it serves says why, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn systemd_hears_why_it_ended() {
    let folder = TempDir::new().unwrap();
    let systemd = Systemd::new(&folder);
    let data = crate::backup::with_a_hidden_row().await;
    let variables = [("NOTIFY_SOCKET", systemd.path.as_str()), crate::backup::ROLLING[0]];
    let (code, _) = TestServer::start(data, &variables).wait();
    assert_eq!(code, Some(78));
    let said = systemd.rest();
    has(&said, "READY=1");
    let last = said.iter().rev().find(|line| line.starts_with("STATUS=")).unwrap();
    assert!(last.contains("the data file cannot be read: the file contradicts itself"), "{last}");
}

/// One that does not open says why, and never that it is ready.
#[test]
fn systemd_hears_why_it_did_not_start() {
    let folder = TempDir::new().unwrap();
    let systemd = Systemd::new(&folder);
    let data = TempDir::new().unwrap();
    std::fs::write(crate::server::data(data.path()), "").unwrap();
    let mut command = crate::server::serve(data.path(), &[("NOTIFY_SOCKET", &systemd.path)]);
    assert_eq!(command.status().unwrap().code(), Some(78));
    let said = systemd.rest();
    has(&said, "STATUS=cannot open the data file");
    assert!(!said.iter().any(|line| line == "READY=1"), "{said:?}");
}

/// C148: killed under load, and started again: it is ready at once, without a walk of the file, and
/// until then systemd is asked for time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c148_after_a_kill_there_is_nothing_to_wait_for() {
    let folder = TempDir::new().unwrap();
    let systemd = Systemd::new(&folder);
    let server = TestServer::start(Arc::new(TempDir::new().unwrap()), &[]);
    let api = Api::of(&server);
    api.destination("shop", "http://127.0.0.1:9/", "").await;
    let line = format!("{{\"destination\":\"shop\",\"payload\":\"{}\"}}\n", "x".repeat(9_000));
    for _ in 0..4 {
        api.batch(line.repeat(800)).await.unwrap().expect(200);
    }
    let (load, killed) = (api.clone(), server.kill());
    drop(load);
    let began = Instant::now();
    let server = TestServer::start(killed, &[("NOTIFY_SOCKET", systemd.path.as_str())]);
    let took = began.elapsed();
    let said = systemd.hear("READY=1");
    has(&said, "STATUS=serving");
    println!("ready after {took:?}");
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(Api::of(&server).ready().await, 200);
    let rest = systemd.rest();
    assert!(!rest.iter().any(|line| line.contains("checking the data file")), "{rest:?}");
}
