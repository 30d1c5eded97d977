//! `kill -9` again and again under load, at moments that a seed chooses: `CRASH_ROUNDS=100` for a
//! long run, `CRASH_SEED` for the same choices again.
#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duehook::drill::receiver::{Answer, Received, Receiver, Record, Script};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::TestServer;
use crate::api::{Api, PATIENCE};
use crate::crash::{SOON, check_repeats};
use crate::sim::rng::Rng;

const ROUNDS: u64 = 8;
const DESTINATIONS: u64 = 6;
/// What may be in flight at once: each destination's concurrency.
const IN_FLIGHT: u64 = DESTINATIONS * 8;
const PRODUCERS: u64 = 4;
const BATCH: u64 = 20;
/// Deliveries that may wait.
const AHEAD: u64 = 400;
/// Receipts between two orders: most deliveries are to live.
const ORDER_EVERY: usize = 6;
/// Receipts between two kills, at most.
const RECEIPTS: u64 = 250;
/// After the last kill everything ends within this; with so many deaths what was interrupted goes
/// out one by one, until the process has lived for a minute.
const END: Duration = Duration::from_secs(240);
/// The shortest timeout there is: some answers never come.
const HANGING: &str = r#","timeout_ms":1000"#;

#[expect(clippy::disallowed_methods, reason = "how long a run is to be is said from outside")]
fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

/// What producers and operators were told, and did.
#[derive(Default)]
struct Told {
    /// Id → digest of the body that was posted.
    taken: BTreeMap<String, String>,
    by_key: BTreeMap<String, String>,
    repeats: u64,
    broken: u64,
    /// Ordered to end, whether or not the order was answered.
    ordered: BTreeSet<String>,
    orders: u64,
    copies: u64,
    given_up: u64,
}

impl Told {
    fn note(&mut self, key: Option<&str>, one: &Value, status: u64, body: &str) {
        let id = one["id"].as_str().unwrap();
        let digest = hex(&Sha256::digest(body));
        let known = self.taken.entry(id.to_owned()).or_insert_with(|| digest.clone());
        assert_eq!(*known, digest, "{id} has two bodies");
        self.repeats += u64::from(status == 200);
        if let Some(key) = key {
            let known = self.by_key.entry(key.to_owned()).or_insert_with(|| id.to_owned());
            assert_eq!(known, id, "the key {key} has two deliveries");
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What a receiver was asked and answered: id, attempt, and whether it was a success.
type Answers = watch::Sender<Vec<(String, u32, bool)>>;

/// 204 mostly; the first attempts may be refused, fail, be dropped, come late, or never.
fn moody(received: &Received) -> Answer {
    let (attempt, mood) = (received.attempt().unwrap(), received.sha256[1] % 64);
    match (attempt, mood) {
        (1..=2, 0..=3) => Answer::status(500),
        // Rare: each holds its destination back, and all that waits there.
        (1..=2, 4) => Answer::refuse("0"),
        // From a hold of a second on a rate is learnt, by which it is then sent for minutes.
        (1, 5) if received.sha256[2] < 16 => Answer::refuse("1"),
        (1..=2, 6..=7) => Answer::Drop,
        (1, 8..=15) => Answer::status(204).after(Duration::from_millis(60)),
        (1, 16) => Answer::status(204).after(PATIENCE),
        (_, _) => Answer::status(204),
    }
}

fn is_success(answer: &Answer) -> bool {
    match answer {
        Answer::Reply { status, .. } => status.is_success(),
        Answer::After(wait, then) => *wait < HANG && is_success(then),
        Answer::Drop | Answer::Endless => false,
    }
}

const HANG: Duration = Duration::from_secs(1);

async fn receiver() -> (Receiver, watch::Receiver<Vec<(String, u32, bool)>>) {
    let (tell, seen): (Answers, _) = watch::channel(Vec::new());
    let observe = move |received: &Received, answer: &Answer| {
        let id = received.header("webhook-id").unwrap().to_owned();
        let one = (id, received.attempt().unwrap(), is_success(answer));
        tell.send_modify(|all| all.push(one));
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let script = Script::Decide(Box::new(moody));
    (Receiver::on(listener, script, Record::Digests, Some(Box::new(observe))).unwrap(), seen)
}

/// Who works against whatever server there is now, until told to stop.
#[derive(Clone)]
struct Floor {
    at: watch::Receiver<Option<Api>>,
    seen: watch::Receiver<Vec<(String, u32, bool)>>,
    told: Arc<Mutex<Told>>,
    seed: u64,
}

impl Floor {
    /// The server that there is now; None: it is over.
    async fn server(&mut self) -> Option<Api> {
        self.at.wait_for(Option::is_some).await.ok()?.clone()
    }

    /// Waits for some receipts, or for another server.
    async fn a_few_receipts(&mut self) {
        let more = self.seen.borrow().len() + ORDER_EVERY;
        tokio::select! {
            _ = self.seen.wait_for(|all| all.len() >= more) => {}
            _ = self.at.changed() => {}
        }
    }

    /// The server has died: waits for the next one. False: it is over.
    async fn next(&mut self) -> bool {
        self.told.lock().unwrap().broken += 1;
        self.at.changed().await.is_ok()
    }
}

fn body(no: u64, n: u64) -> String {
    format!("\"{no}:{n}:{}\"", "é".repeat((n * 37 % 900) as usize))
}

fn key(no: u64, n: u64) -> Option<String> {
    n.is_multiple_of(2).then(|| format!("p{no}-{n}"))
}

/// Posts single deliveries and batches without end; what was not answered is posted again.
async fn produce(mut floor: Floor, no: u64) {
    let mut n = 0;
    while let Some(api) = floor.server().await {
        let step = if n % 3 == 2 { BATCH } else { 1 };
        let to = format!("d{}", (no + n) % DESTINATIONS);
        let done = match room(&api).await {
            Ok(()) if step == 1 => single(&api, (no, n), &to, &floor.told).await,
            Ok(()) => batch(&api, (no, n), &to, &floor.told).await,
            Err(error) => Err(error),
        };
        match done {
            Ok(()) => n += step,
            Err(_) if floor.next().await => {}
            Err(_) => return,
        }
    }
}

/// Waits until less waits than a kill is to meet: it is work under way that is of interest.
async fn room(api: &Api) -> reqwest::Result<()> {
    let mut clock = tokio::time::interval(Duration::from_millis(50));
    loop {
        clock.tick().await;
        let stats = api.try_admin("GET", "/v1/stats", "").await?.expect(200);
        let waits = |class: &Value| -> u64 {
            ["ready", "held", "delayed"].iter().filter_map(|kind| class[kind].as_u64()).sum()
        };
        if stats["classes"].as_object().unwrap().values().map(waits).sum::<u64>() < AHEAD {
            return Ok(());
        }
    }
}

type Place = (u64, u64);

async fn single(api: &Api, (no, n): Place, to: &str, told: &Mutex<Told>) -> reqwest::Result<()> {
    let (key, body) = (key(no, n), body(no, n));
    let answer = api.send(to, key.as_deref(), body.clone().into()).await?;
    let status = u64::from(answer.status);
    assert!(matches!(status, 200 | 202), "{}", answer.json);
    told.lock().unwrap().note(key.as_deref(), &answer.json, status, &body);
    Ok(())
}

async fn batch(api: &Api, (no, n): Place, to: &str, told: &Mutex<Told>) -> reqwest::Result<()> {
    let line = |n: u64| {
        let key = key(no, n).map(|key| format!(r#""idempotency_key":"{key}","#)).unwrap_or_default();
        format!("{{\"destination\":\"{to}\",{key}\"payload\":{}}}\n", body(no, n))
    };
    let answer = api.batch((n..n + BATCH).map(line).collect()).await?.expect(200);
    for (n, one) in (n..).zip(answer["results"].as_array().unwrap()) {
        let status = one["status"].as_u64().unwrap();
        assert!(matches!(status, 200 | 202), "{one}");
        told.lock().unwrap().note(key(no, n).as_deref(), one, status, &body(no, n));
    }
    Ok(())
}

/// Gives orders of every kind without end, backups among them.
async fn operate(mut floor: Floor, folder: Arc<TempDir>) {
    let mut rng = Rng::new(floor.seed ^ 0x0bad_cafe);
    loop {
        floor.a_few_receipts().await;
        let Some(api) = floor.server().await else { return };
        let it = format!("/v1/destinations/d{}", rng.below(DESTINATIONS));
        let done = match rng.below(40) {
            0 => orders(&api, &[("POST", &format!("{it}/pause")), ("POST", &format!("{it}/resume"))]).await,
            1 => settings(&api, &it).await,
            2 => orders(&api, &[("DELETE", &format!("{it}/hold"))]).await,
            3 => orders(&api, &[("POST", "/v1/claims/stop"), ("POST", "/v1/claims/start")]).await,
            4 => copy(&api, &folder, &floor).await,
            _ => about_one(&api, &mut rng, &floor).await,
        };
        if done.is_err() && !floor.next().await {
            return;
        }
        floor.told.lock().unwrap().orders += 1;
    }
}

/// In order; the last of them undoes what the first did, and is what the next server begins with.
async fn orders(api: &Api, all: &[(&str, &str)]) -> reqwest::Result<()> {
    for (method, path) in all {
        let answer = api.try_admin(method, path, "").await?;
        assert!(answer.status < 300, "{method} {path}: {}", answer.json);
    }
    Ok(())
}

async fn settings(api: &Api, destination: &str) -> reqwest::Result<()> {
    let answer = api.try_admin("PATCH", destination, r#"{"concurrency":{"max":8}}"#).await?;
    assert_eq!(answer.status, 200, "{}", answer.json);
    Ok(())
}

async fn copy(api: &Api, folder: &TempDir, floor: &Floor) -> reqwest::Result<()> {
    // What a kill left unfinished under this name, the next one replaces.
    let path = folder.path().join("copy.redb");
    let asked = format!(r#"{{"path":"{}"}}"#, path.display());
    let answer = api.try_admin("POST", "/v1/backup", &asked).await?;
    // It may give up, and say so: the file grew too much under it.
    let gave_up = answer.json["code"] == "backup_failed";
    assert!(matches!(answer.status, 201 | 409) || gave_up, "{}", answer.json);
    drop(std::fs::remove_file(path));
    let mut told = floor.told.lock().unwrap();
    told.copies += u64::from(answer.status == 201);
    told.given_up += u64::from(gave_up);
    Ok(())
}

/// Cancels, erases or retries one that was taken, some of them while they are out.
async fn about_one(api: &Api, rng: &mut Rng, floor: &Floor) -> reqwest::Result<()> {
    let id = {
        let mut told = floor.told.lock().unwrap();
        let one_of_the_newest = told.taken.keys().nth_back(rng.below(40) as usize).cloned();
        let Some(id) = one_of_the_newest else { return Ok(()) };
        told.ordered.insert(id.clone());
        id
    };
    let (method, word) =
        [("POST", "cancel"), ("DELETE", "payload"), ("POST", "retry")][rng.below(3) as usize];
    let answer = api.try_admin(method, &format!("/v1/deliveries/{id}/{word}"), "").await?;
    assert!(matches!(answer.status, 200 | 204 | 409), "{word} {id}: {}", answer.json);
    Ok(())
}

/// C105: killed at any moment, under everything that a server does. What was told is there with
/// its bytes and ends; what came twice was in flight at a kill; a restart is quick.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn c105_kills_at_any_moment_lose_nothing() {
    let (rounds, seed) = (number("CRASH_ROUNDS", ROUNDS), number("CRASH_SEED", std::process::id().into()));
    println!("{rounds} rounds of CRASH_SEED={seed}");
    let mut rng = Rng::new(seed);
    let (receiver, mut seen) = receiver().await;
    let mut server = TestServer::start(Arc::new(TempDir::new().unwrap()), &variables());
    let api = Api::of(&server);
    for no in 0..DESTINATIONS {
        api.destination(&format!("d{no}"), &receiver.url(&format!("/{no}")), HANGING).await;
    }
    let (at, told, mut tasks) = staff(api, seen.clone(), seed);
    let mut restarts = Vec::new();
    for _ in 0..rounds {
        let more = seen.borrow().len() + rng.below(RECEIPTS) as usize;
        let reached = tokio::time::timeout(PATIENCE, seen.wait_for(|all| all.len() >= more));
        drop(reached.await.expect("requests come").unwrap());
        at.send_replace(None);
        let folder = server.kill();
        let began = Instant::now();
        server = TestServer::start(folder, &variables());
        restarts.push(began.elapsed());
        if restarts.len().is_multiple_of(10) {
            println!("{} rounds, {more} requests", restarts.len());
        }
        let api = Api::of(&server);
        put_right(&api).await;
        at.send_replace(Some(api));
    }
    // There is no server any more for those who look for one.
    at.send_replace(None);
    drop(at);
    let ended = async { while tasks.join_next().await.transpose().unwrap().is_some() {} };
    tokio::time::timeout(PATIENCE, ended).await.expect("they end");
    let api = Api::of(&server);
    put_right(&api).await;
    let began = Instant::now();
    quiet(&api).await;
    println!("everything had ended {:?} after the last kill", began.elapsed());
    restarts.sort();
    let told = Arc::into_inner(told).unwrap().into_inner().unwrap();
    let answers = seen.borrow().clone();
    let kept = check_all_ended(&api, &told).await;
    check_receipts(&told, &receiver.received(), &kept);
    let repeated = check_repeated(&api, &answers, rounds).await;
    println!(
        "{} told, {} stored, {} requests, {} posts answered as repeats, {} broken, {} orders, {} copies and {} given up, \
         {repeated} sent again after a success; a restart takes {:?} at the median, {:?} at most",
        told.taken.len(),
        kept.len(),
        answers.len(),
        told.repeats,
        told.broken,
        told.orders,
        told.copies,
        told.given_up,
        restarts[restarts.len() / 2],
        restarts[restarts.len() - 1],
    );
    assert!(told.broken > 0, "the kills hit nothing");
    assert!(restarts.iter().all(|took| *took < Duration::from_secs(5)), "{restarts:?}");
    assert_eq!(server.stop().0, Some(0));
}

/// Failures come back soon, and a snapshot is made every few seconds: always one at work would keep
/// what is freed from being used again.
fn variables() -> Vec<(&'static str, &'static str)> {
    SOON.iter().copied().chain([("DUEHOOK_BACKUP__EVERY", "5s")]).collect()
}

type Staff = (watch::Sender<Option<Api>>, Arc<Mutex<Told>>, JoinSet<()>);

fn staff(api: Api, seen: watch::Receiver<Vec<(String, u32, bool)>>, seed: u64) -> Staff {
    let (at, listening) = watch::channel(Some(api));
    let told = Arc::default();
    let mut tasks = JoinSet::new();
    let floor = Floor { at: listening, seen, told: Arc::clone(&told), seed };
    for no in 0..PRODUCERS {
        tasks.spawn(produce(floor.clone(), no));
    }
    let copies = Arc::new(TempDir::new().unwrap());
    tasks.spawn(operate(floor, copies));
    (at, told, tasks)
}

/// A kill may have come between an order and the one that undoes it.
async fn put_right(api: &Api) {
    api.admin("POST", "/v1/claims/start", "").await.expect(200);
    for no in 0..DESTINATIONS {
        api.admin("POST", &format!("/v1/destinations/d{no}/resume"), "").await.expect(200);
    }
}

/// Waits until nothing waits and nothing is in flight.
async fn quiet(api: &Api) {
    let mut clock = tokio::time::interval(Duration::from_millis(200));
    let began = Instant::now();
    loop {
        clock.tick().await;
        let stats = api.admin("GET", "/v1/stats", "").await.expect(200);
        let open = |class: &Value| ["ready", "held", "delayed", "leased"].iter().any(|kind| class[kind] != 0);
        if stats["counting"] == false && !stats["classes"].as_object().unwrap().values().any(open) {
            return;
        }
        assert!(began.elapsed() < END, "stuck: {stats} {:?}", api.list("state=ready,delayed,leased").await);
    }
}

/// Everything that was told is there with its bytes, and ended as it may. By id.
async fn check_all_ended(api: &Api, told: &Told) -> BTreeMap<String, Value> {
    let all: BTreeMap<String, Value> =
        api.list("").await.into_iter().map(|one| (one["id"].as_str().unwrap().to_owned(), one)).collect();
    for (id, digest) in &told.taken {
        let one = all.get(id).unwrap_or_else(|| panic!("{id} was told and is lost"));
        assert!(one["payload"]["sha256"] == **digest || told.ordered.contains(id), "{id}: another body");
    }
    let mut ends: BTreeMap<&str, u32> = BTreeMap::new();
    for (id, one) in &all {
        let outcome = one["outcome"].as_str().unwrap_or("none");
        *ends.entry(outcome).or_default() += 1;
        match outcome {
            "delivered" => {}
            "cancelled" | "payload_gone" => assert!(told.ordered.contains(id), "{one}"),
            // In flight at five deaths in a row: that may happen to anything.
            "quarantined" => assert_eq!(
                api.results(id).await.iter().rev().take(5).filter(|it| *it == "interrupted").count(),
                5
            ),
            _ => panic!("{one}"),
        }
    }
    println!("{ends:?}");
    all
}

/// What arrived is what was posted, and what is delivered did arrive.
fn check_receipts(told: &Told, received: &[Received], kept: &BTreeMap<String, Value>) {
    let attempts = check_repeats(received);
    for one in received {
        let id = one.header("webhook-id").unwrap();
        assert!(told.taken.get(id).is_none_or(|digest| *digest == hex(&one.sha256)), "{id}: other bytes");
    }
    for (id, one) in kept {
        assert!(one["outcome"] != "delivered" || attempts.contains_key(id), "{id} never arrived");
    }
}

/// A delivery that had been received is sent again only when its attempt was in flight at a kill.
async fn check_repeated(api: &Api, answers: &[(String, u32, bool)], rounds: u64) -> u64 {
    let mut newest: BTreeMap<&str, u32> = BTreeMap::new();
    for (id, attempt, _) in answers {
        let known = newest.entry(id).or_default();
        *known = (*known).max(*attempt);
    }
    let mut repeated = 0;
    for (id, attempt, _) in
        answers.iter().filter(|(id, attempt, good)| *good && newest[id.as_str()] > *attempt)
    {
        let attempts = api.admin("GET", &format!("/v1/deliveries/{id}/attempts"), "").await.expect(200);
        let all = attempts["data"].as_array().unwrap();
        let one = all.iter().find(|one| one["n"] == *attempt).unwrap();
        assert_eq!(one["result"], "interrupted", "{id} was sent again after a success: {one}");
        repeated += 1;
    }
    assert!(repeated <= rounds * IN_FLIGHT, "{repeated} in {rounds} rounds");
    repeated
}
