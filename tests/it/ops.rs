//! What an operator relies on: secrets stay out of what is shown, a server that cannot work ends,
//! and settings that cannot be meant are refused before anything is touched.
#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::fs::{self, File};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use duehook::drill::receiver::{Answer, Receiver, Record, Script};
use redb::StorageBackend;
use redb::backends::InMemoryBackend;
use tempfile::TempDir;
use tokio::net::TcpListener;

use crate::TestServer;
use crate::api::{Api, until};
use crate::cli::duehook;
use crate::storage::{engine as start, held, parked};

const SECRET: &str = "XXXXSECRET";

/// Where each class of errors comes from; none of them may show the path.
async fn unlucky(api: &Api) -> Vec<Receiver> {
    let answers = [
        Answer::status(404),
        Answer::status(410),
        Answer::status(503),
        Answer::redirect(&format!("http://127.0.0.1:9/{SECRET}/moved")),
        Answer::Drop,
        Answer::status(204).after(Duration::from_secs(60)),
    ];
    let mut receivers = Vec::new();
    for (no, answer) in answers.into_iter().enumerate() {
        let receiver = Receiver::start(Script::List(vec![answer]), Record::Count).await.unwrap();
        let url = receiver.url(&format!("/services/T000/{SECRET}?key={SECRET}"));
        api.destination(&format!("d{no}"), &url, r#","timeout_ms":1000"#).await;
        receivers.push(receiver);
    }
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let plain = receivers[0].url("").replace("http://", "https://");
    let others = ["https://no-such-host.invalid".to_owned(), format!("http://{closed}"), plain];
    for (no, base) in others.into_iter().enumerate() {
        api.destination(&format!("e{no}"), &format!("{base}/{SECRET}"), r#","timeout_ms":1000"#).await;
    }
    receivers
}

/// C192: the path of a destination is a secret. Whatever goes wrong there, it is in no log, figure,
/// list or explanation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c192_the_path_of_a_url_is_shown_nowhere() {
    let folder = Arc::new(TempDir::new().unwrap());
    let log = folder.path().join("log");
    let variables = [("DUEHOOK_LOG__LEVEL", "debug"), ("DUEHOOK_BACKUP__EVERY", "1s")];
    let to = Stdio::from(File::create(&log).unwrap());
    let server = TestServer::logging_to(Arc::clone(&folder), &variables, to);
    let api = Api::of(&server);
    let receivers = unlucky(&api).await;
    let names: Vec<String> =
        (0..receivers.len()).map(|no| format!("d{no}")).chain((0..3).map(|no| format!("e{no}"))).collect();
    let mut shown = String::new();
    for name in &names {
        let id = api.send(name, None, b"1".to_vec()).await.unwrap().expect(202);
        let id = id["id"].as_str().unwrap().to_owned();
        until("it was tried", async || !api.results(&id).await.is_empty()).await;
        for more in ["", "/attempts", "/explain"] {
            shown += &api.text(&format!("/v1/deliveries/{id}{more}")).await;
        }
    }
    for path in ["/metrics", "/", "/v1/stats", "/v1/stats/destinations", "/v1/deliveries", "/readyz"] {
        shown += &api.text(path).await;
    }
    let bad = format!(r#"{{"tenant":"acme","url":"ftp://shop.example/{SECRET}"}}"#);
    shown += &api.admin("PUT", "/v1/destinations/bad", &bad).await.expect(422).to_string();
    let latest = server.data().with_file_name("backup").join("latest.redb");
    until("there is a snapshot", async || latest.exists()).await;
    assert_eq!(server.stop().0, Some(0));
    let log = fs::read_to_string(log).unwrap();
    assert!(shown.contains("no-such-host.invalid"), "what is shown names the host: {shown}");
    assert!(log.contains("backup"), "the log says what happened: {log}");
    for (where_it_is, text) in [("shown", &shown), ("logged", &log)] {
        let at = text.find(SECRET);
        assert_eq!(at, None, "{where_it_is}: {}", &text[at.unwrap_or(0).saturating_sub(200)..]);
    }
}

/// A disk whose reads and writes panic once it is told to.
#[derive(Clone, Debug)]
struct Panicking {
    disk: Arc<InMemoryBackend>,
    armed: Arc<AtomicBool>,
    /// The engine's thread, or every other.
    engine: bool,
}

impl Panicking {
    fn work(&self) {
        let ours = (std::thread::current().name() == Some("engine")) == self.engine;
        assert!(!(self.armed.load(Ordering::SeqCst) && ours), "told to panic");
    }
}

impl StorageBackend for Panicking {
    fn len(&self) -> io::Result<u64> {
        self.disk.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.work();
        self.disk.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.work();
        self.disk.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.work();
        self.disk.write(offset, data)
    }
}

/// Which part is to panic in the process that this is said to.
const PANICS: &str = "PART_THAT_PANICS";

/// This test again, in a process of its own.
fn run(part: &str) -> ExitStatus {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "ops::c193_a_part_that_dies_takes_the_process_with_it"]).env(PANICS, part);
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap()
}

/// C193: what a server cannot do without ends the process when it dies: the thread of the engine,
/// and the task that sends. A panic of one request or one send ends no other: `http::server` and
/// `driver::courier` have those.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c193_a_part_that_dies_takes_the_process_with_it() {
    if let Some(part) = std::env::var_os(PANICS) {
        return serve_until(part != "none", part == "engine").await;
    }
    for part in ["engine", "courier"] {
        let status = run(part);
        assert_eq!(status.signal(), Some(6), "{part}: {status}");
    }
    assert_eq!(run("none").code(), Some(0), "it is the panic that ends it");
}

async fn serve_until(armed: bool, engine: bool) {
    let folder = TempDir::new().unwrap();
    let disk = InMemoryBackend::new();
    let disk = Panicking { disk: Arc::new(disk), armed: Arc::default(), engine };
    let (driver, handle) = start(disk.clone(), &folder);
    held(&handle).await;
    parked(&handle, 300).await;
    driver.stop();
    driver.join();
    // Opened anew, its pages are in no cache.
    let (mut driver, handle) = start(disk.clone(), &folder);
    until("it is counted", async || !handle.live().counting).await;
    disk.armed.store(armed, Ordering::SeqCst);
    let release = duehook::engine::command::Command::Release { name: "shop".parse().unwrap() };
    drop(handle.command(release).await);
    if armed {
        drop(driver.ended().await);
        panic!("it goes on without its engine");
    }
    driver.stop();
    driver.join();
}

/// C195: each is refused with its key, its line and what may stand there, by `serve` as by `check-config`,
/// before there is a file.
#[test]
fn c195_settings_that_cannot_be_meant_are_refused_at_the_start() {
    let folder = TempDir::new().unwrap();
    let (path, data) = (folder.path().join("duehook.toml"), folder.path().join("data.redb"));
    let check = |text: &str, parts: &[&str]| {
        fs::write(&path, text).unwrap();
        for command in ["check-config", "serve"] {
            let (path, data) = (path.to_str().unwrap(), data.to_str().unwrap());
            let run = duehook(&[command, "--config", path, "--data", data], &[], b"");
            let says = run.stdout + &run.stderr;
            assert_eq!(run.code, 78, "{command} {text}: {says}");
            assert!(parts.iter().all(|part| says.contains(part)), "{command} {text}: {says}");
        }
        assert!(!data.exists(), "{text}: there is a file");
    };
    check("[policy.default]\nmax_atempts = 3", &["policy.default.max_atempts", "line 2"]);
    check("[send]\ntimeout = \"30\"", &["send.timeout", "line 2"]);
    check(
        "[policy.default]\nmin_delay = \"2h\"\nmax_delay = \"1h\"",
        &["policy.default.min_delay", "line 2"],
    );
    check("[send]\ndestination_concurrency = 0", &["send.destination_concurrency", "line 2"]);
    check("shutdown_timeout = \"2d\"", &["shutdown_timeout", "line 1"]);
    let twice = "[ingest]\nlisten = \"127.0.0.1:8460\"\n[admin]\nlisten = \"127.0.0.1:8460\"";
    check(twice, &["listen"]);
    check("[send]\nallow_cidrs = [\"10.0.0.0/33\"]", &["send.allow_cidrs", "line 2"]);
}
