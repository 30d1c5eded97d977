//! A disk that fails: nothing of the failed step is answered, the process ends with 75, and what
//! was answered before is there after the next start.
#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::collections::BTreeSet;
use std::io;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use duehook::drill::receiver::{Answer, Receiver, Record, Script};
use duehook::driver::clock::Clock;
use duehook::driver::{self, Custody, Driver, Handle};
use duehook::engine::command::{Command as Order, Expect, Query};
use duehook::engine::{Engine, Limits, Retention, Seed};
use duehook::model::{ClassSettings, Name, NewBody, NewDelivery, TenantWeights};
use duehook::policy::Policy;
use duehook::sender::{self, Sender, egress};
use duehook::store::{BackupError, Disk, Opening, Owner, open};
use duehook::time::Millis;
use redb::StorageBackend;
use redb::backends::InMemoryBackend;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::TestServer;
use crate::api::{Api, until};
use crate::scenes::settings;
use crate::server;

/// Whoever is not answered within this time after the end of the engine is not answered.
const SILENCE: Duration = Duration::from_millis(20);

/// Bytes of a body that costs little.
const SMALL: usize = 16;

/// A disk that fails at one operation and at every one after it.
#[derive(Clone, Debug)]
struct Failing {
    disk: Arc<InMemoryBackend>,
    left: Arc<AtomicU64>,
}

impl Failing {
    fn new() -> Failing {
        Failing { disk: Arc::new(InMemoryBackend::new()), left: Arc::new(AtomicU64::new(u64::MAX)) }
    }

    fn fail_after(&self, operations: u64) {
        self.left.store(operations, Ordering::SeqCst);
    }

    fn work(&self) -> io::Result<()> {
        let take = |left: u64| left.checked_sub(1);
        let taken = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take);
        taken.map(|_| ()).map_err(|_| io::Error::from(io::ErrorKind::StorageFull))
    }
}

impl StorageBackend for Failing {
    fn len(&self) -> io::Result<u64> {
        self.disk.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.disk.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.work()?;
        self.disk.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.work()?;
        self.disk.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.work()?;
        self.disk.write(offset, data)
    }
}

fn limits() -> Limits {
    let day = Millis::seconds(86_400);
    let retention = Retention {
        terminal: day,
        max_terminal: 1_000,
        delivered_payload: day,
        failed_payload: day,
        audit: day,
    };
    Limits {
        payload_timeout: Millis(0),
        slots: 64,
        max_deliveries: 1_000,
        policies: [(name("default"), Policy::default())].into(),
        classes: ClassSettings::first(),
        reserve_permille: 0,
        tenant_weights: TenantWeights::default(),
        tenant_quotas: duehook::engine::TenantQuotas::default(),
        retention,
    }
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// An engine at work on `disk`.
pub(crate) fn engine(disk: impl StorageBackend, folder: &TempDir) -> (Driver, Handle) {
    let clock = Clock::start();
    let (now, region) = (clock.now(), name("local"));
    let opening = Opening { region: &region, now: now.wall, uuid: [1; 16] };
    let opened = open::open_backend(disk, &opening).unwrap();
    let engine = Engine::open(opened, limits(), Seed { run: 1 }, now).unwrap();
    let rules = egress::Rules { allow_http: true, ports: vec![443], allow_cidrs: Vec::new() };
    let sender = Sender::new(sender::Config { rules, ..sender::Config::default() }).unwrap();
    let path = server::data(folder.path());
    let disk = Disk::of(&path, 0);
    let owner = Owner::beside(&path, &region);
    let host = watch::channel("h".to_owned()).1;
    let custody = Custody { path, host, owner, disk, run: now.wall, last_words: |_| {}, backups: None };
    driver::start(engine, sender, custody, clock, &tokio::runtime::Handle::current())
}

fn delivery() -> NewDelivery {
    NewDelivery {
        destination: name("shop"),
        tenant: None,
        class: None,
        key: None,
        not_before: None,
        max_age: None,
        max_failures: None,
        headers: vec![],
        labels: vec![],
        content_type: "text/plain".into(),
        body: NewBody::new(vec![7; 5_000].into()),
    }
}

/// So many deliveries that wait there.
pub(crate) async fn parked(handle: &Handle, n: usize) {
    for taken in handle.accept(vec![delivery(); n]).await.unwrap() {
        taken.unwrap();
    }
}

/// One destination that lets nothing through.
pub(crate) async fn held(handle: &Handle) {
    let settings = Box::new(settings(1, Millis::seconds(1)));
    let put =
        Order::PutDestination { name: name("shop"), settings, keep_secrets: true, expect: Expect::Anything };
    handle.command(put).await.unwrap().unwrap();
    let until = handle.now().plus(Millis::seconds(86_400));
    handle.command(Order::Hold { name: name("shop"), until, reason: String::new() }).await.unwrap().unwrap();
}

async fn is_silent<T>(ask: impl Future<Output = T>) -> bool {
    tokio::time::timeout(SILENCE, ask).await.is_err()
}

fn waiting(handle: &Handle) -> u64 {
    handle.live().classes.iter().map(|class| class.held + class.ready + class.delayed).sum()
}

/// Whichever operation of a commit fails first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_step_is_not_answered_nor_what_comes_after_it() {
    for operations in 0..40 {
        let folder = TempDir::new().unwrap();
        let disk = Failing::new();
        let (mut driver, handle) = engine(disk.clone(), &folder);
        held(&handle).await;
        disk.fail_after(operations);
        let mut answered = 0;
        let produce = async {
            loop {
                handle.accept(vec![delivery()]).await.unwrap()[0].as_ref().unwrap();
                answered += 1;
            }
        };
        tokio::select! {
            ended = driver.ended() => assert_eq!(ended.unwrap_err().exit_code(), 75),
            () = produce => {}
        }
        let health = handle.health();
        assert!(health.failed, "{health:?}");
        assert!(is_silent(handle.accept(vec![delivery()])).await);
        assert!(is_silent(handle.command(Order::Release { name: name("shop") })).await);
        assert!(is_silent(handle.query(Query::Gates(vec![]))).await);
        assert!(is_silent(handle.read(|_, _| Ok(()))).await);
        let copied = handle.backup(folder.path().join("copy.redb")).await;
        assert!(matches!(copied, Err(BackupError::Stopping)), "{copied:?}");
        disk.fail_after(u64::MAX);
        let (driver, handle) = engine(disk.clone(), &folder);
        until("it is counted", async || !handle.live().counting).await;
        let there = waiting(&handle);
        assert!((answered..=answered + 1).contains(&there), "{operations}: {there} of {answered}");
        driver.stop();
        driver.join();
    }
}

/// C106: whichever operation fails while a delivery, its key and its place in the queue are written,
/// all of them are there after a start, or none: the key posted again makes one that waits, or finds
/// one that does, and never one that nobody would send.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c106_a_key_is_never_taken_by_what_is_not_queued() {
    let keyed = || NewDelivery { key: Some("k".parse().unwrap()), ..delivery() };
    let mut repeats = 0;
    for operations in 0..30 {
        let folder = TempDir::new().unwrap();
        let disk = Failing::new();
        let (mut driver, handle) = engine(disk.clone(), &folder);
        held(&handle).await;
        disk.fail_after(operations);
        tokio::select! {
            ended = driver.ended() => assert_eq!(ended.unwrap_err().exit_code(), 75),
            taken = handle.accept(vec![keyed()]) => assert!(!taken.unwrap()[0].as_ref().unwrap().duplicate),
        }
        driver.stop();
        driver.join();
        disk.fail_after(u64::MAX);
        let (driver, handle) = engine(disk.clone(), &folder);
        until("it is counted", async || !handle.live().counting).await;
        let before = waiting(&handle);
        let again = handle.accept(vec![keyed()]).await.unwrap().remove(0).unwrap();
        assert_eq!((again.duplicate, before), (before == 1, before.min(1)), "{operations}");
        let state = &again.delivery.delivery.state;
        assert!(matches!(state, duehook::delivery::State::Waiting { .. }), "{operations}: {state:?}");
        until("it waits", async || waiting(&handle) == 1).await;
        repeats += u32::from(again.duplicate);
        driver.stop();
        driver.join();
    }
    assert!((1..30).contains(&repeats), "{repeats} of 30 had been written");
}

/// A body that only this key has.
pub(crate) fn body(key: &str, length: usize) -> Vec<u8> {
    key.bytes().cycle().take(length).collect()
}

/// Posts one keyed body after the other until its connection breaks, and says which were taken.
pub(crate) async fn produce(api: Api, producer: usize, length: usize) -> BTreeSet<String> {
    let mut taken = BTreeSet::new();
    loop {
        let key = format!("{producer}-{}", taken.len());
        match api.send("shop", Some(&key), body(&key, length)).await {
            Ok(answer) => drop(answer.expect(202)),
            Err(_) => return taken,
        }
        taken.insert(key);
    }
}

/// Every one of these is a repeat.
pub(crate) async fn all_there(api: &Api, taken: &BTreeSet<String>, length: usize) {
    for key in taken {
        let again = api.send("shop", Some(key), body(key, length)).await.unwrap().expect(200);
        assert_eq!(again["duplicate"], true, "{key}");
    }
}

/// The program that does not die of a file that may not grow, but is told so, as of a full disk.
fn patient(folder: &TempDir) -> Command {
    let serve = server::serve(folder.path(), &[]);
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]).arg(serve.get_program()).args(serve.get_args());
    command.envs(serve.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    // Its log is a file as well, and cannot be written either.
    command.stderr(std::fs::File::create(folder.path().join("log")).unwrap());
    command
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_takes_nothing_more_ends_the_process_and_loses_nothing() {
    let folder = Arc::new(TempDir::new().unwrap());
    let server = TestServer::spawn(Arc::clone(&folder), patient(&folder));
    let api = Api::of(&server);
    api.destination("shop", "http://127.0.0.1:9/", "").await;
    let hold = r#"{"until":"2999-01-01T00:00:00Z"}"#;
    api.admin("PUT", "/v1/destinations/shop/hold", hold).await.expect(200);
    let mut producers = JoinSet::new();
    for producer in 0..8 {
        producers.spawn(produce(api.clone(), producer, SMALL));
    }
    until("there is some load", async || api.list("state=delayed,ready").await.len() > 200).await;
    let none = Rlimit { current: Some(0), maximum: None };
    prlimit(Some(Pid::from_raw(server.pid().cast_signed()).unwrap()), Resource::Fsize, none).unwrap();
    let taken: BTreeSet<String> = producers.join_all().await.into_iter().flatten().collect();
    let (code, folder) = server.wait();
    assert_eq!(code, Some(75));
    assert!(taken.len() > 200, "{}", taken.len());
    let server = TestServer::start(folder, &[]);
    let api = Api::of(&server);
    all_there(&api, &taken, SMALL).await;
    let there = api.list("state=delayed,ready").await.len();
    println!("{} were answered, {there} are there", taken.len());
    assert!((taken.len()..=taken.len() + 8).contains(&there));
}

/// C145: the receiver has it, and its outcome cannot be written. The process ends, and after the
/// start the delivery goes out once more, under the same key, and no more than that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c145_an_outcome_that_cannot_be_written_is_one_more_request() {
    let late = Answer::status(204).after(Duration::from_millis(500));
    let receiver =
        Receiver::start(Script::List(vec![late, Answer::status(204)]), Record::Digests).await.unwrap();
    let folder = Arc::new(TempDir::new().unwrap());
    let server = TestServer::spawn(Arc::clone(&folder), patient(&folder));
    let api = Api::of(&server);
    api.destination("shop", &receiver.url("/"), "").await;
    let taken = api.send("shop", Some("k"), b"1".to_vec()).await.unwrap().expect(202);
    until("it is out", async || receiver.count() == 1).await;
    let none = Rlimit { current: Some(0), maximum: None };
    prlimit(Some(Pid::from_raw(server.pid().cast_signed()).unwrap()), Resource::Fsize, none).unwrap();
    assert_eq!(server.wait().0, Some(75));
    let server = TestServer::start(folder, &[]);
    let api = Api::of(&server);
    api.quiet().await;
    let id = taken["id"].as_str().unwrap();
    assert_eq!(api.get(id).await["outcome"], "delivered");
    assert_eq!(api.results(id).await, ["interrupted", "success"]);
    let received = receiver.received();
    assert_eq!(
        received.iter().map(|one| (one.key(), one.attempt())).collect::<Vec<_>>(),
        [(Some("k"), Some(1)), (Some("k"), Some(2))]
    );
}
