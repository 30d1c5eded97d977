//! `kill -9` of the real program: nothing that was answered is lost, whatever it was doing, and
//! what comes again comes under the same key with the same bytes.
#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duehook::drill::receiver::{Answer, Received, Receiver, Record, Script};
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::TestServer;
use crate::api::{Api, PATIENCE, until};

/// Failures come back soon, so that a test takes seconds.
pub(crate) const SOON: [(&str, &str); 2] =
    [("DUEHOOK_POLICY__DEFAULT__SCHEDULE", "200ms"), ("DUEHOOK_POLICY__DEFAULT__MIN_DELAY", "50ms")];
/// A restart takes less than a second at these sizes; a busy machine may take longer.
const RESTART: Duration = Duration::from_secs(5);

fn folder() -> Arc<TempDir> {
    Arc::new(TempDir::new().unwrap())
}

fn start(folder: Arc<TempDir>) -> TestServer {
    TestServer::start(folder, &SOON)
}

/// A receiver that also says how many requests it has had, and of which keys.
struct Watched {
    receiver: Receiver,
    seen: watch::Receiver<Vec<String>>,
}

impl Watched {
    async fn start(answer: impl Fn(&Received) -> Answer + Send + Sync + 'static) -> Watched {
        let (tell, seen) = watch::channel(Vec::new());
        let observe = move |received: &Received, _: &Answer| {
            tell.send_modify(|keys: &mut Vec<String>| keys.push(received.key().unwrap().to_owned()));
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let script = Script::Decide(Box::new(answer));
        let receiver = Receiver::on(listener, script, Record::Digests, Some(Box::new(observe))).unwrap();
        Watched { receiver, seen }
    }

    /// Waits for the `n`th request.
    async fn reach(&mut self, n: usize) {
        let reached = self.seen.wait_for(|keys| keys.len() >= n);
        drop(tokio::time::timeout(PATIENCE, reached).await.expect("requests come").unwrap());
    }

    fn count(&self) -> usize {
        self.seen.borrow().len()
    }
}

/// Whatever a receiver saw more than once came under one key with one body, and each attempt
/// number was higher than the one before.
pub(crate) fn check_repeats(received: &[Received]) -> BTreeMap<String, u32> {
    let mut last: BTreeMap<String, (u32, &Received)> = BTreeMap::new();
    for one in received {
        let id = one.header("webhook-id").unwrap();
        let attempt = one.attempt().unwrap();
        if let Some((before, first)) = last.get(id) {
            assert!(attempt > *before, "attempt {attempt} of {id} after {before}");
            assert_eq!((one.key(), one.sha256), (first.key(), first.sha256), "{id}");
            assert_eq!(one.header("content-type"), first.header("content-type"), "{id}");
            assert_eq!(one.header("duehook-created-at"), first.header("duehook-created-at"), "{id}");
        }
        last.insert(id.to_owned(), (attempt, one));
    }
    last.into_iter().map(|(id, (attempt, _))| (id, attempt)).collect()
}

/// What a producer was told.
#[derive(Default)]
struct Told {
    ids: BTreeSet<String>,
    /// Key and destination → id; a key that was told twice has one id.
    by_key: BTreeMap<String, String>,
    repeats: u32,
    broken: u32,
}

impl Told {
    fn note(&mut self, key: Option<&str>, id: &str, duplicate: bool) {
        self.ids.insert(id.to_owned());
        self.repeats += u32::from(duplicate);
        if let Some(key) = key {
            let known = self.by_key.entry(key.to_owned()).or_insert_with(|| id.to_owned());
            assert_eq!(known, id, "the key {key} has two deliveries");
        }
    }
}

/// Producers that post without end to whatever server there is now.
struct Producers {
    at: watch::Sender<Option<Api>>,
    told: Arc<Mutex<Told>>,
    tasks: JoinSet<()>,
}

const DESTINATIONS: usize = 4;
const PRODUCERS: usize = 4;
/// Deliveries of one producer: it ends there, so that the machine's speed does not set the size.
const EACH: u32 = 700;
const BATCH: u32 = 10;

impl Producers {
    fn start(api: Api) -> Producers {
        let (at, listening) = watch::channel(Some(api));
        let told = Arc::default();
        let mut tasks = JoinSet::new();
        for no in 0..PRODUCERS {
            tasks.spawn(produce(no, listening.clone(), Arc::clone(&told)));
        }
        Producers { at, told, tasks }
    }
}

/// Posts keyed and unkeyed deliveries and batches of both. What was not answered and has a key
/// is posted again, as a good producer does.
async fn produce(no: usize, mut at: watch::Receiver<Option<Api>>, told: Arc<Mutex<Told>>) {
    let mut n = 0;
    while n < EACH {
        let Ok(api) = at.wait_for(Option::is_some).await.map(|api| api.clone().unwrap()) else { return };
        let to = format!("d{}", (no + n as usize) % DESTINATIONS);
        let step = if n % 3 == 2 { BATCH } else { 1 };
        let done = if step == 1 {
            single(&api, no, n, &to, &told).await
        } else {
            batch(&api, no, n, &to, &told).await
        };
        if done.is_err() {
            told.lock().unwrap().broken += 1;
            if at.changed().await.is_err() {
                return;
            }
        } else {
            n += step;
        }
    }
}

fn body(no: usize, n: u32) -> String {
    format!("\"{no}:{n}:{}\"", "é".repeat(n as usize % 400))
}

fn key(no: usize, n: u32) -> Option<String> {
    n.is_multiple_of(2).then(|| format!("p{no}-{n}"))
}

async fn single(api: &Api, no: usize, n: u32, to: &str, told: &Mutex<Told>) -> reqwest::Result<()> {
    let key = key(no, n);
    let answer = api.send(to, key.as_deref(), body(no, n).into()).await?;
    if answer.status != 503 {
        let duplicate = answer.status == 200;
        let taken = answer.expect(if duplicate { 200 } else { 202 });
        told.lock().unwrap().note(key.as_deref(), taken["id"].as_str().unwrap(), duplicate);
    }
    Ok(())
}

async fn batch(api: &Api, no: usize, n: u32, to: &str, told: &Mutex<Told>) -> reqwest::Result<()> {
    let line = |n: u32| {
        let key = key(no, n).map(|key| format!(r#""idempotency_key":"{key}","#)).unwrap_or_default();
        format!("{{\"destination\":\"{to}\",{key}\"payload\":{}}}\n", body(no, n))
    };
    let answer = api.batch((n..n + BATCH).map(line).collect()).await?;
    if answer.status != 503 {
        let results = answer.expect(200);
        for (n, one) in (n..).zip(results["results"].as_array().unwrap()) {
            let status = one["status"].as_u64().unwrap();
            assert!(status == 202 || status == 200, "{one}");
            let id = one["id"].as_str().unwrap();
            told.lock().unwrap().note(key(no, n).as_deref(), id, status == 200);
        }
    }
    Ok(())
}

/// 204, 500, 429, or late, by the delivery; from its third attempt on it is taken.
fn moody(received: &Received) -> Answer {
    if received.attempt().unwrap() > 2 {
        return Answer::status(204);
    }
    match received.sha256[0] % 16 {
        0 | 1 => Answer::status(500),
        2 => Answer::refuse("0"),
        3 if received.attempt() == Some(1) => Answer::status(204).after(Duration::from_millis(60)),
        4 => Answer::Drop,
        _ => Answer::status(204),
    }
}

/// C105: eight times killed under load. Every id that was told is there and ends; what was sent
/// again was the same; a restart is quick.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn c105_eight_kills_under_load_lose_nothing() {
    let mut watched = Watched::start(moody).await;
    let mut server = start(folder());
    let api = Api::of(&server);
    for no in 0..DESTINATIONS {
        api.destination(&format!("d{no}"), &watched.receiver.url(&format!("/{no}")), "").await;
    }
    let mut producers = Producers::start(api);
    let mut restarts = Vec::new();
    for receipts in [1, 40, 7, 150, 90, 233, 61, 310] {
        watched.reach(watched.count() + receipts).await;
        producers.at.send_replace(None);
        let folder = server.kill();
        let began = Instant::now();
        server = start(folder);
        restarts.push(began.elapsed());
        producers.at.send_replace(Some(Api::of(&server)));
    }
    let ended = async { while producers.tasks.join_next().await.transpose().unwrap().is_some() {} };
    tokio::time::timeout(PATIENCE, ended).await.expect("producers end");
    let api = Api::of(&server);
    api.quiet().await;
    let stored = api.list("").await;
    check_all_ended(&stored, &producers.told.lock().unwrap());
    let attempts = check_repeats(&watched.receiver.received());
    let told = producers.told.lock().unwrap();
    for id in &told.ids {
        assert!(attempts.contains_key(id), "{id} is delivered and never arrived");
    }
    println!(
        "{} told, {} stored, {} requests, {} posts answered as repeats, {} broken; restarts {restarts:?}",
        told.ids.len(),
        stored.len(),
        watched.count(),
        told.repeats,
        told.broken
    );
    assert!(told.broken > 0 && attempts.values().any(|n| *n > 1), "the kills hit nothing");
    assert!(restarts.iter().all(|took| *took < RESTART), "{restarts:?}");
    assert_eq!(server.stop().0, Some(0));
}

fn check_all_ended(stored: &[Value], told: &Told) {
    let ended: BTreeMap<&str, &str> = stored
        .iter()
        .map(|one| (one["id"].as_str().unwrap(), one["outcome"].as_str().unwrap_or("none")))
        .collect();
    assert_eq!(ended.len(), stored.len(), "an id twice");
    for id in &told.ids {
        assert!(ended.contains_key(id.as_str()), "{id} was told and is lost");
    }
    let other: Vec<_> = ended.iter().filter(|(_, outcome)| **outcome != "delivered").collect();
    assert!(other.is_empty(), "{other:?}");
}

/// C138: one item kills the process each time it arrives. It alone is convicted.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn c138_a_poison_item_is_quarantined_and_harms_no_other() {
    let (tell, mut bitten) = watch::channel(0_u32);
    let poison = move |received: &Received| {
        if received.key() == Some("poison") {
            tell.send_modify(|times| *times += 1);
            return Answer::status(204).after(PATIENCE);
        }
        Answer::status(204).after(Duration::from_millis(20))
    };
    let watched = Watched::start(poison).await;
    let mut server = start(folder());
    let api = Api::of(&server);
    for no in 0..10 {
        api.destination(&format!("d{no}"), &watched.receiver.url("/"), "").await;
    }
    let line = |n: u32| {
        let key = if n == 250 { "poison".to_owned() } else { format!("good-{n}") };
        format!(r#"{{"destination":"d{}","idempotency_key":"{key}","payload":{n}}}"#, n % 10) + "\n"
    };
    let taken = api.batch((0..501).map(line).collect()).await.unwrap().expect(200);
    assert!(taken["results"].as_array().unwrap().iter().all(|one| one["status"] == 202));
    let mut kills = 0;
    loop {
        let api = Api::of(&server);
        tokio::select! {
            bite = bitten.changed() => bite.unwrap(),
            () = api.quiet() => break,
        }
        kills += 1;
        assert!(kills <= 10, "it goes on for ever");
        server = start(server.kill());
    }
    let api = Api::of(&server);
    let count = async |outcome: &str| api.list(&format!("outcome={outcome}")).await;
    let (delivered, quarantined) = (count("delivered").await, count("quarantined").await);
    let most = delivered.iter().map(|one| one["attempts"].as_u64().unwrap()).max();
    println!("{kills} kills; {} delivered, in at most {most:?} attempts", delivered.len());
    assert_eq!((delivered.len(), quarantined.len(), kills), (500, 1, 5));
    assert_eq!(quarantined[0]["idempotency_key"], "poison");
    assert_eq!(quarantined[0]["attempts"], 5);
    let id = quarantined[0]["id"].as_str().unwrap();
    assert_eq!(api.results(id).await, ["interrupted"; 5]);
    check_repeats(&watched.receiver.received());
}

/// C135: killed with five attempts in flight. They go out again at once, under the same key.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn c135_what_was_in_flight_is_sent_again_at_once() {
    let first_hangs = |received: &Received| match received.attempt() {
        Some(1) => Answer::status(204).after(PATIENCE),
        Some(_) | None => Answer::status(204),
    };
    let mut watched = Watched::start(first_hangs).await;
    let server = start(folder());
    let api = Api::of(&server);
    let mut ids = Vec::new();
    for no in 0..5 {
        let name = format!("d{no}");
        api.destination(&name, &watched.receiver.url("/"), "").await;
        let taken = api.send(&name, None, vec![no; 100]).await.unwrap().expect(202);
        ids.push(taken["id"].as_str().unwrap().to_owned());
    }
    watched.reach(5).await;
    let folder = server.kill();
    let began = Instant::now();
    let server = start(folder);
    watched.reach(10).await;
    let took = began.elapsed();
    println!("sent again after {took:?}");
    assert!(took < Duration::from_secs(5), "{took:?}");
    let api = Api::of(&server);
    api.quiet().await;
    for id in &ids {
        let it = api.get(id).await;
        assert_eq!((&it["outcome"], &it["attempts"]), (&"delivered".into(), &2.into()));
        assert_eq!(it["failures"], 0, "it was not the receiver's doing");
        assert_eq!(api.results(id).await, ["interrupted", "success"]);
    }
    let received = watched.receiver.received();
    assert_eq!((received.len(), check_repeats(&received).len()), (10, 5));
}

/// C140: a hundred wait, one start: a hundred requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn c140_nothing_goes_out_twice_after_a_start() {
    let watched = Watched::start(|_| Answer::status(204)).await;
    let server = start(folder());
    let api = Api::of(&server);
    let line = |n: u32| format!(r#"{{"destination":"d{}","payload":{n}}}"#, n % 4) + "\n";
    for no in 0..4 {
        let name = format!("d{no}");
        api.destination(&name, &watched.receiver.url("/"), "").await;
        api.admin("POST", &format!("/v1/destinations/{name}/pause"), "").await.expect(200);
    }
    api.batch((0..100).map(line).collect()).await.unwrap().expect(200);
    let server = start(server.kill());
    let api = Api::of(&server);
    assert_eq!(watched.count(), 0);
    for no in 0..4 {
        api.admin("POST", &format!("/v1/destinations/d{no}/resume"), "").await.expect(200);
    }
    api.quiet().await;
    let server = start(server.kill());
    Api::of(&server).quiet().await;
    assert_eq!(watched.count(), 100);
    assert_eq!(check_repeats(&watched.receiver.received()).len(), 100);
}

/// C130: what waits behind a 429 takes no slot, survives a restart, and goes out when the hold
/// ends and not before.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn c130_what_waits_survives_a_restart_and_goes_out_on_time() {
    let once = |received: &Received| if received.n == 1 { Answer::refuse("3") } else { Answer::status(204) };
    let (mut held, healthy) = (Watched::start(once).await, Watched::start(|_| Answer::status(204)).await);
    let server = start(folder());
    let api = Api::of(&server);
    api.destination("held", &held.receiver.url("/"), "").await;
    api.destination("healthy", &healthy.receiver.url("/"), "").await;
    api.send("held", None, b"first".to_vec()).await.unwrap().expect(202);
    held.reach(1).await;
    until("it is held", async || {
        api.admin("GET", "/v1/destinations/held", "").await.json["hold_until"].is_string()
    })
    .await;
    let lines = (0..49).map(|n| format!(r#"{{"destination":"held","payload":{n}}}"#) + "\n").collect();
    api.batch(lines).await.unwrap().expect(200);
    let began = Instant::now();
    let other = api.send("healthy", None, b"other".to_vec()).await.unwrap().expect(202);
    until("the healthy one has it", async || healthy.count() == 1).await;
    assert!(began.elapsed() < Duration::from_secs(1));
    // Killed before its outcome is on disk, it would go out again.
    let other = other["id"].as_str().unwrap();
    until("that is recorded", async || api.get(other).await["state"] == "terminal").await;
    let server = start(server.kill());
    let api = Api::of(&server);
    assert_eq!(api.admin("GET", "/v1/stats", "").await.expect(200)["slots"]["in_flight"], 0);
    assert_eq!(held.count(), 1, "nothing went out during the hold");
    api.quiet().await;
    let received = held.receiver.received();
    let arrived = received[0].at;
    let (second, last) = (received[1].at - arrived, received[received.len() - 1].at - arrived);
    println!("the hold of 3 s ended after {second:?}; the last of 50 came after {last:?}");
    assert_eq!(received.len(), 51);
    assert!(second >= Duration::from_secs(3), "{second:?}");
    assert!(last < Duration::from_secs(8), "{last:?}");
}

/// C204, C206: what is fixed for a delivery is the same in each attempt, over an operator's retry
/// too; what belongs to an attempt is its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c204_c206_a_receiver_can_tell_attempts_apart() {
    let answers = vec![Answer::status(503), Answer::refuse("0"), Answer::status(200)];
    let receiver = Receiver::start(Script::List(answers), Record::Bodies).await.unwrap();
    let kept = [SOON[0], SOON[1], ("DUEHOOK_RETENTION__DELIVERED_PAYLOAD", "1h")];
    let server = TestServer::start(folder(), &kept);
    let api = Api::of(&server);
    let signed = r#","secrets":["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]"#;
    api.destination("shop", &receiver.url("/"), signed).await;
    let body = b"{ \"a\" : 1e2 }\r\n".to_vec();
    let taken = api.send("shop", Some("k"), body.clone()).await.unwrap().expect(202);
    let id = taken["id"].as_str().unwrap();
    api.quiet().await;
    let server = TestServer::start(server.kill(), &kept);
    let api = Api::of(&server);
    api.admin("POST", &format!("/v1/deliveries/{id}/retry"), "").await.expect(200);
    api.quiet().await;
    let second = api.send("shop", Some("other"), body.clone()).await.unwrap().expect(202);
    api.quiet().await;
    let received = receiver.received();
    let (first, last) = received.split_at(4);
    let attempts: Vec<_> = first.iter().map(|one| one.attempt().unwrap()).collect();
    assert_eq!(attempts, [1, 2, 3, 4]);
    let own = ["duehook-attempt", "webhook-timestamp", "webhook-signature", "connection"];
    let fixed = |one: &Received| {
        let mut headers = one.headers.clone();
        own.iter().for_each(|name| drop(headers.remove(*name)));
        headers
    };
    let readme = include_str!("../../README.md");
    assert!(own[..3].iter().all(|name| readme.to_ascii_lowercase().contains(&format!("`{name}`"))));
    for one in first {
        assert_eq!((one.key(), one.header("webhook-id")), (Some("k"), Some(id)));
        assert_eq!(one.header("duehook-created-at"), taken["created_at"].as_str());
        assert!(one.header("webhook-timestamp").unwrap().parse::<u64>().unwrap() > 1_700_000_000);
        assert_eq!(one.body, body);
        assert_eq!(fixed(one), fixed(&first[0]), "the rest is the same in each attempt");
    }
    assert_eq!((last.len(), last[0].attempt()), (1, Some(1)));
    assert_eq!(last[0].header("webhook-id"), second["id"].as_str());
}
