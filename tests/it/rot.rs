//! Bit rot and bad copies under a server: what is sent is right or is not sent, what is hidden is
//! found, and no end comes a second time.
#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duehook::drill::receiver::{Answer, Received, Receiver, Record, Script};
use duehook::model::digest;
use duehook::store::{self, Owner};
use duehook::time::Timestamp;
use serde_json::json;
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::TestServer;
use crate::api::{Api, until};
use crate::backup::{count, damage};
use crate::server::{data, serve};
use crate::storage::body;
use crate::verify::flip;

/// Bodies are kept after the end, so that there is more to be damaged.
const KEPT: [(&str, &str); 1] = [("DUEHOOK_RETENTION__DELIVERED_PAYLOAD", "1h")];
/// Deliveries that wait in the file that rots, and such as have ended.
const WAITING: usize = 60;
const ENDED: usize = 20;
/// A server that has so long had nothing to do but is not done is stuck.
const STUCK: Duration = Duration::from_secs(20);
/// Flips at a time.
const WORKERS: usize = 2;

fn folder() -> Arc<TempDir> {
    Arc::new(TempDir::new().unwrap())
}

fn private(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
}

/// Lets the note beside a closed file agree with it, whatever was done to it.
fn ours(path: &Path) {
    let host = fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let owner = Owner::beside(path, &"local".parse().unwrap());
    owner.closed(path, host.trim(), Timestamp(1)).unwrap();
}

/// Every tenth has a body of several parts.
fn length(n: usize) -> usize {
    if n.is_multiple_of(10) { 40_000 } else { 2_000 }
}

/// A receiver that takes everything, and remembers what was not as it was sent.
struct Strict {
    receiver: Receiver,
    wrong: Arc<Mutex<Vec<String>>>,
}

impl Strict {
    /// `length` of a key's body; the path is the destination's.
    async fn start(length: fn(&str) -> usize) -> Strict {
        let wrong = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&wrong);
        let decide = move |it: &Received| {
            let right =
                it.key().filter(|key| digest(&body(key, length(key))) == it.sha256 && it.path == place(key));
            if right.is_none() {
                heard.lock().unwrap().push(format!("{:?} at {}", it.key(), it.path));
            }
            Answer::status(204)
        };
        let receiver = Receiver::start(Script::Decide(Box::new(decide)), Record::Count).await.unwrap();
        Strict { receiver, wrong }
    }

    #[track_caller]
    fn was_sent_nothing_wrong(&self) {
        let wrong = self.wrong.lock().unwrap();
        assert!(wrong.is_empty(), "{wrong:?}");
    }
}

/// Keys end with their number; every third goes to the same destination.
fn number(key: &str) -> usize {
    key.rsplit('-').next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

fn place(key: &str) -> String {
    format!("/{}", number(key) % 3)
}

async fn destinations(api: &Api, strict: &Strict) {
    for no in 0..3 {
        api.destination(&format!("d{no}"), &strict.receiver.url(&format!("/{no}")), "").await;
    }
}

async fn post(api: &Api, key: &str) {
    let to = format!("d{}", number(key) % 3);
    api.send(&to, Some(key), body(key, length(number(key)))).await.unwrap().expect(202);
}

/// A closed and small file in which some have ended and others wait, as bytes.
async fn at_rest(strict: &Strict) -> Vec<u8> {
    let server = TestServer::start(folder(), &KEPT);
    let api = Api::of(&server);
    destinations(&api, strict).await;
    for n in 0..ENDED {
        post(&api, &format!("ended-{n}")).await;
    }
    api.quiet().await;
    api.admin("POST", "/v1/claims/stop", "").await.expect(200);
    for n in 0..WAITING {
        post(&api, &format!("waits-{n}")).await;
    }
    let folder = server.stop().1;
    store::compact(&data(folder.path()), |_| {}).unwrap();
    fs::read(data(folder.path())).unwrap()
}

/// What came of a flipped bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    /// Nothing is wrong, not even for `verify`.
    Harmless,
    /// All went out or was quarantined, and `verify` says that there is damage.
    FoundByVerify,
    RefusedAtOpen,
    /// The process ended with 78 while it served, and the next start refused.
    FoundWhileServing,
    /// The process ended in another way, and the next start refused.
    EndedThenRefused,
}

/// One flip through the life of a server. How it ended, and how many were quarantined.
async fn live_with(bytes: Vec<u8>, copy_first: bool) -> (Fate, u64) {
    let folder = folder();
    let path = data(folder.path());
    private(&path, &bytes);
    ours(&path);
    let quiet = || {
        let mut command = serve(folder.path(), &KEPT);
        command.stderr(std::process::Stdio::null());
        command
    };
    let (code, served) = match TestServer::or_end(Arc::clone(&folder), quiet()) {
        Err(Some(78)) => return (Fate::RefusedAtOpen, 0),
        Err(code) => (code, Err(())),
        Ok(server) => {
            let served = work(&Api::of(&server), &path, copy_first).await;
            (if served.is_ok() { server.stop().0 } else { server.wait().0 }, served.map_err(|_| ()))
        }
    };
    if code == Some(0) {
        let found = store::verify(&path);
        let whole = found.is_ok_and(|it| it.found.problems.is_empty() && it.found.quarantined == 0);
        return (if whole { Fate::Harmless } else { Fate::FoundByVerify }, served.unwrap_or(0));
    }
    // Whatever it was, it does not come again: the next start looks first.
    let again = TestServer::or_end(Arc::clone(&folder), quiet()).map(|server| server.kill());
    assert_eq!(again.err(), Some(Some(78)), "ended with {code:?} and serves again");
    (if code == Some(78) { Fate::FoundWhileServing } else { Fate::EndedThenRefused }, 0)
}

/// Lets everything out and makes a copy, before it or after it. How many are quarantined then; the
/// error is that of a connection that broke.
async fn work(api: &Api, path: &Path, copy_first: bool) -> reqwest::Result<u64> {
    let copy = json!({"path": path.with_file_name("copy.redb")}).to_string();
    if copy_first {
        api.try_admin("POST", "/v1/backup", &copy).await?;
    }
    api.try_admin("POST", "/v1/claims/start", "{}").await?;
    let mut clock = tokio::time::interval(Duration::from_millis(20));
    let working = async {
        loop {
            let stats = api.try_admin("GET", "/v1/stats", "").await?.expect(200);
            let sum = |name| {
                stats["classes"]
                    .as_object()
                    .unwrap()
                    .values()
                    .map(move |c| c[name].as_u64())
                    .sum::<Option<u64>>()
            };
            let open = ["ready", "held", "leased"].into_iter().map(sum).sum::<Option<u64>>();
            if stats["counting"] == false && open == Some(0) {
                return Ok(stats["quarantined"].as_u64().unwrap());
            }
            clock.tick().await;
        }
    };
    let quarantined = tokio::time::timeout(STUCK, working).await.expect("it is stuck")?;
    if !copy_first {
        api.try_admin("POST", "/v1/backup", &copy).await?;
    }
    Ok(quarantined)
}

/// Where bits are flipped: spread over the file by a fixed seed.
fn places(length: usize, flips: u32) -> impl Iterator<Item = (usize, u8)> {
    let mut seed = 0x9E37_79B9_7F4A_7C15_u64;
    (0..flips).map(move |_| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (usize::try_from(seed >> 20).unwrap() % length, 1 << (seed >> 8 & 7))
    })
}

/// Lives with each of these files, some at a time; what came of them, and how many deliveries were
/// quarantined.
async fn all_fates(files: impl Iterator<Item = (String, Vec<u8>)>) -> (BTreeMap<Fate, u32>, u64) {
    let (mut fates, mut quarantined) = (BTreeMap::new(), 0);
    let mut living = JoinSet::new();
    for (n, (what, bytes)) in files.enumerate() {
        if living.len() == WORKERS {
            note(living.join_next().await.unwrap().unwrap(), &mut fates, &mut quarantined);
        }
        living.spawn(async move {
            let fate = live_with(bytes, n.is_multiple_of(2)).await;
            println!("{what}: {fate:?}");
            fate
        });
    }
    for fate in living.join_all().await {
        note(fate, &mut fates, &mut quarantined);
    }
    (fates, quarantined)
}

fn note((fate, held): (Fate, u64), fates: &mut BTreeMap<Fate, u32>, quarantined: &mut u64) {
    *fates.entry(fate).or_default() += 1;
    *quarantined += held;
}

/// The 600 single-bit flips in a closed file that is opened as ours (a few of them, unless asked).
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn flipped_bits_send_nothing_wrong_and_end_no_server_twice() {
    let strict = Strict::start(|key| length(number(key))).await;
    let whole = at_rest(&strict).await;
    let flips = count("TEST_ROT_FLIPS", 12);
    let files = places(whole.len(), flips).map(|(at, bit)| {
        let mut bytes = whole.clone();
        bytes[at] ^= bit;
        (format!("byte {at}, bit {bit}"), bytes)
    });
    let (fates, quarantined) = all_fates(files).await;
    let requests = strict.receiver.count();
    let length = whole.len();
    println!("{flips} flips in {length} bytes: {fates:?}; {quarantined} quarantined, {requests} requests");
    strict.was_sent_nothing_wrong();
    assert_eq!(fates.values().sum::<u32>(), flips);
    assert!(fates.get(&Fate::Harmless).is_none_or(|harmless| *harmless < flips), "they hit nothing");
}

/// Whole pages of zeros, under which redb may panic: at the open, in a step, in a read, in a copy.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn zeroed_pages_end_no_server_twice() {
    let strict = Strict::start(|key| length(number(key))).await;
    let whole = at_rest(&strict).await;
    let pages = whole.len() / PAGE;
    let wanted = usize::try_from(count("TEST_ROT_PAGES", 8)).unwrap();
    let files = (0..pages).step_by((pages / wanted).max(1)).map(|page| {
        let mut bytes = whole.clone();
        bytes[page * PAGE..(page + 1) * PAGE].fill(0);
        (format!("page {page}"), bytes)
    });
    let half = whole.len() / 2;
    let tail =
        std::iter::once_with(|| ("the second half".to_owned(), [&whole[..half], &vec![0; half]].concat()));
    let (fates, quarantined) = all_fates(files.chain(tail)).await;
    println!("zeroed pages of {pages}: {fates:?}; {quarantined} quarantined");
    strict.was_sent_nothing_wrong();
    assert!(fates.len() > 1, "{fates:?}");
}

const PAGE: usize = 4_096;

/// Makes the file large, so that a copy of it takes several commits.
async fn weighty(api: &Api) {
    api.destination("kept", "http://127.0.0.1:9/", "").await;
    api.admin("POST", "/v1/destinations/kept/pause", "").await.expect(200);
    let line = format!("{{\"destination\":\"kept\",\"payload\":\"{}\"}}\n", "y".repeat(240_000));
    for _ in 0..2 {
        api.batch(line.repeat(30)).await.unwrap().expect(200);
    }
}

/// Each posts one after the other.
const PRODUCERS: usize = 8;
/// Bytes of a body under load.
const LOAD: usize = 300;

/// Posts one keyed body after the other, and says which were taken.
async fn produce(api: Api, producer: usize, taken: Arc<Mutex<Vec<String>>>) {
    for n in 0.. {
        let key = format!("load-{producer}-{n}");
        api.send(&format!("d{}", n % 3), Some(&key), body(&key, LOAD)).await.unwrap().expect(202);
        taken.lock().unwrap().push(key);
    }
}

/// A folder in which a server was closed, or was killed just now.
fn left_by(killed: bool) -> Arc<TempDir> {
    let server = TestServer::start(folder(), &[]);
    if killed { server.kill() } else { server.stop().1 }
}

/// T26: copies of the live file by plain `cp`, under load: to another place, over a file that was
/// closed, over one that its server died with. Each is whole, with all that was answered before it
/// was begun, or refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn t26_a_copy_of_the_live_file_is_whole_or_refused() {
    let strict = Strict::start(|_| LOAD).await;
    let server = TestServer::start(folder(), &[]);
    let api = Api::of(&server);
    destinations(&api, &strict).await;
    weighty(&api).await;
    let taken = Arc::new(Mutex::new(Vec::new()));
    let mut producers = JoinSet::new();
    for producer in 0..PRODUCERS {
        producers.spawn(produce(api.clone(), producer, Arc::clone(&taken)));
    }
    until("there is some load", async || taken.lock().unwrap().len() > 100).await;
    let copies = count("TEST_LIVE_COPIES", 6);
    let (mut whole, mut refused) = (0, 0);
    for round in 0..copies {
        let to = match round % 3 {
            0 => folder(),
            kind => left_by(kind == 2),
        };
        let before: Vec<String> = taken.lock().unwrap().clone();
        fs::copy(server.data(), data(to.path())).unwrap();
        let mut command = serve(to.path(), &[]);
        command.stderr(std::process::Stdio::null());
        match TestServer::or_end(Arc::clone(&to), command) {
            Err(code) => {
                assert_eq!(code, Some(78), "copy {round}");
                refused += 1;
            }
            Ok(copy) => {
                all_there(&Api::of(&copy), &before).await;
                assert_eq!(copy.stop().0, Some(0), "copy {round}");
                let found = store::verify(&data(to.path())).unwrap().found;
                assert!(found.problems.is_empty(), "copy {round}: {:?}", found.problems);
                whole += 1;
            }
        }
    }
    producers.shutdown().await;
    println!(
        "{copies} copies under load: {whole} whole, {refused} refused; {} posts",
        taken.lock().unwrap().len()
    );
    strict.was_sent_nothing_wrong();
    until("all is sent", async || {
        api.list("state=ready,delayed,leased&destination=d0,d1,d2").await.is_empty()
    })
    .await;
    assert_eq!(server.stop().0, Some(0));
}

/// A hundred of them and the newest are repeats, each under its own body.
async fn all_there(api: &Api, keys: &[String]) {
    let some = keys.iter().step_by((keys.len() / 100).max(1)).chain(keys.iter().rev().take(4));
    for key in some {
        let to = format!("d{}", number(key) % 3);
        let again = api.send(&to, Some(key), body(key, LOAD)).await.unwrap().expect(200);
        assert_eq!(again["duplicate"], true, "{key}");
    }
}

type DueRow = (u32, u8, u64, u128);

/// T13: what of one delivery is damaged, in whatever row, keeps this one back and no other.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn t13_damage_of_one_keeps_back_that_one_only() {
    let strict = Strict::start(|key| length(number(key))).await;
    let whole = at_rest(&strict).await;
    let check = async |what: &str, readable: bool, how: &dyn Fn(&redb::WriteTransaction)| {
        let folder = folder();
        private(&data(folder.path()), &whole);
        ours(&data(folder.path()));
        damage(&data(folder.path()), |txn| how(txn));
        let (server, before) = (TestServer::start(folder, &KEPT), strict.receiver.count());
        let api = Api::of(&server);
        assert_eq!(work(&api, &server.data(), false).await.unwrap(), 1, "{what}");
        assert_eq!(strict.receiver.count() - before, WAITING as u64 - 1, "{what}");
        let list = api.list("outcome=quarantined").await;
        assert_eq!(list.len(), 1, "{what}");
        assert!(api.text("/metrics").await.contains("\nduehook_quarantined_deliveries 1"), "{what}");
        let id = list[0]["id"].as_str().unwrap();
        let one = api.get(id).await;
        assert_eq!((&one["state"], &one["outcome"]), (&json!("terminal"), &json!("quarantined")), "{one}");
        assert_eq!(one["tenant"] == "acme", readable, "{what}: {one}");
        // What is damaged itself cannot be retried; what only lost its row can.
        let retried = api.admin("POST", &format!("/v1/deliveries/{id}/retry"), "").await;
        let whole = readable && !what.contains("body");
        assert_eq!(retried.status, if whole { 200 } else { 500 }, "{what}: {}", retried.json);
        api.admin("GET", &format!("/v1/deliveries/{id}/attempts"), "").await.expect(200);
        assert_eq!(server.stop().0, Some(0), "{what}");
    };
    check("the record", false, &|txn| flip::<u128>(txn, "deliveries", false)).await;
    check("the last part of a body", true, &|txn| flip::<(u128, u16)>(txn, "payloads", false)).await;
    check("the value of a due row", true, &|txn| {
        let name: redb::TableDefinition<DueRow, (u32, u32)> = redb::TableDefinition::new("due");
        let mut due = txn.open_table(name).unwrap();
        let (key, value) = due.pop_last().unwrap().map(|row| (row.0.value(), row.1.value())).unwrap();
        due.insert(key, (value.0 ^ 4, value.1)).unwrap();
    })
    .await;
    check("the time in a due row", true, &|txn| {
        let name: redb::TableDefinition<DueRow, (u32, u32)> = redb::TableDefinition::new("due");
        let mut due = txn.open_table(name).unwrap();
        let (key, value) = due.pop_last().unwrap().map(|row| (row.0.value(), row.1.value())).unwrap();
        due.insert((key.0, key.1, key.2 ^ 4, key.3), value).unwrap();
    })
    .await;
    strict.was_sent_nothing_wrong();
}

/// What all deliveries of a destination need is not guessed: the server does not start.
#[tokio::test]
async fn without_a_destination_or_its_gate_there_is_no_start() {
    let server = TestServer::start(folder(), &[]);
    let api = Api::of(&server);
    api.destination("shop", "http://127.0.0.1:9/", "").await;
    let hold = r#"{"until":"2999-01-01T00:00:00Z"}"#;
    api.admin("PUT", "/v1/destinations/shop/hold", hold).await.expect(200);
    let whole = fs::read(data(server.stop().1.path())).unwrap();
    for (table, part) in [("destinations", "destination 0 is damaged"), ("gates", "gate 0 is damaged")] {
        let folder = folder();
        let path = data(folder.path());
        private(&path, &whole);
        ours(&path);
        damage(&path, |txn| flip::<u32>(txn, table, true));
        // The first start takes it for ours, the second one looks at it.
        for part in [part, "restore the newest backup"] {
            let ended = serve(folder.path(), &[]).output().unwrap();
            let says = String::from_utf8(ended.stderr).unwrap();
            assert_eq!((ended.status.code(), ended.stdout.is_empty()), (Some(78), true), "{says}");
            assert!(says.contains(part), "{part:?} is not in {says}");
        }
    }
}

/// An attempt that cannot be read is left out of the list; the others are there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_attempt_is_left_out() {
    let soon =
        [("DUEHOOK_POLICY__DEFAULT__SCHEDULE", "100ms"), ("DUEHOOK_POLICY__DEFAULT__MIN_DELAY", "50ms")];
    let sixth = |it: &Received| Answer::status(if it.attempt() < Some(6) { 500 } else { 204 });
    let receiver = Receiver::start(Script::Decide(Box::new(sixth)), Record::Count).await.unwrap();
    let server = TestServer::start(folder(), &soon);
    let api = Api::of(&server);
    api.destination("shop", &receiver.url("/"), "").await;
    let taken = api.send("shop", None, b"1".to_vec()).await.unwrap().expect(202);
    let id = taken["id"].as_str().unwrap();
    api.quiet().await;
    assert_eq!(api.results(id).await.len(), 6);
    let folder = server.stop().1;
    damage(&data(folder.path()), |txn| flip::<(u128, u32)>(txn, "attempts", true));
    let server = TestServer::start(folder, &soon);
    let results = Api::of(&server).results(id).await;
    assert_eq!(results, ["server_error", "server_error", "server_error", "server_error", "success"]);
    let found = store::verify(&data(server.stop().1.path())).unwrap().found;
    assert_eq!((found.damaged, found.wrong, found.attempts), (1, 0, 2), "{:?}", found.problems);
}
