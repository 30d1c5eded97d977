//! Moving an owner, with the real program: drain, fence, export and import.
#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

mod bytes;
mod left;
mod rejected;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use duehook::drill::receiver::{Answer, Receiver, Record, Script};
use hyper::body::{Body, Bytes, Frame};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::TestServer;
use crate::api::{Api, until};
use crate::cli::{Run, duehook};
use crate::server::data;
use crate::verify::{json as read, verify};

async fn fresh() -> TestServer {
    TestServer::start(Arc::new(TempDir::new().unwrap()), &[])
}

async fn receiver(answers: Vec<Answer>) -> Receiver {
    Receiver::start(Script::List(answers), Record::Count).await.unwrap()
}

/// Drains, and waits for what is in flight.
async fn drain(api: &Api) -> Value {
    let drained = api.admin("POST", "/v1/drain", "").await.expect(200);
    assert_eq!((&drained["claims"], &drained["leases_held"]), (&json!("drained"), &json!(0)));
    drained
}

/// The lines of an export, the header first.
async fn export(api: &Api) -> Vec<String> {
    api.text("/v1/export").await.lines().map(str::to_owned).collect()
}

/// The same but for what is of this server and moment: its header, and what goes by the clock.
fn lasting(lines: &[String]) -> Vec<String> {
    lines[1..].iter().map(|line| line.replace("\"state\":\"delayed\"", "\"state\":\"ready\"")).collect()
}

fn joined(lines: &[String]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

async fn claims(api: &Api) -> Value {
    api.admin("GET", "/v1/stats", "").await.expect(200)["claims"].clone()
}

async fn start(api: &Api, fence: &Value) -> crate::api::Answer {
    api.admin("POST", "/v1/claims/start", &json!({ "fence": fence }).to_string()).await
}

/// A file whose server has ended must be whole.
#[track_caller]
fn whole(server: TestServer) {
    let folder = server.stop().1;
    let run = verify(&data(folder.path()));
    assert_eq!(run.code, 0, "{} {}", run.stdout, run.stderr);
}

fn run(server: &TestServer, arguments: &[&str], input: &[u8]) -> Run {
    duehook(&[&["--admin", server.admin.as_str()], arguments].concat(), &[], input)
}

/// Under load: what is in flight ends, nothing new begins, nothing new is taken but repeats are
/// answered; it holds over a restart and ends only by its fence.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drained_server_stays_drained_until_its_fence_is_named() {
    let slow = Answer::status(204).after(Duration::from_millis(700));
    let receiver = receiver(vec![slow]).await;
    let server = fresh().await;
    let api = Api::of(&server);
    api.destination("shop", &receiver.url("/"), "").await;
    assert_eq!(api.admin("GET", "/v1/export", "").await.expect(409)["code"], "not_drained");
    for n in 0..5 {
        api.send("shop", Some(&format!("k{n}")), b"x".to_vec()).await.unwrap().expect(202);
    }
    until("one is in flight", async || {
        api.admin("GET", "/v1/stats", "").await.expect(200)["slots"]["in_flight"] == 1
    })
    .await;
    let first = api.admin("POST", "/v1/drain", r#"{"wait_ms":0}"#).await.expect(200);
    assert_eq!(first, json!({"claims": "draining", "leases_held": 1, "fence": 1}));
    assert_eq!((claims(&api).await, api.ready().await), (json!("draining"), 503));
    assert_eq!(api.admin("GET", "/v1/export", "").await.expect(409)["code"], "not_drained");
    let refused = api.send("shop", Some("new"), b"x".to_vec()).await.unwrap().expect(503);
    assert_eq!(refused["code"], "draining");
    let repeat = api.send("shop", Some("k4"), b"x".to_vec()).await.unwrap().expect(200);
    assert_eq!(repeat["duplicate"], true, "a repeat is answered first");
    let reused = api.send("shop", Some("k4"), b"y".to_vec()).await.unwrap().expect(409);
    assert_eq!(reused["code"], "key_reused");
    let line =
        |key: &str| format!(r#"{{"destination":"shop","idempotency_key":"{key}","payload_base64":"eA=="}}"#);
    let batch = api.batch(format!("{}\n{}\n", line("k1"), line("new"))).await.unwrap().expect(503);
    assert_eq!(batch["code"], "draining", "the whole batch");
    let drained = drain(&api).await;
    assert_eq!((&drained["fence"], receiver.count()), (&json!(1), 1), "the same drain, and no more was sent");
    let path = format!("/v1/deliveries/{}/explain", repeat["id"].as_str().unwrap());
    let why = api.admin("GET", &path, "").await.expect(200);
    assert_eq!(
        (&why["blocked_by"][0]["kind"], &why["earliest"]),
        (&json!("draining"), &Value::Null),
        "{why}"
    );
    assert!(api.text("/metrics").await.contains("duehook_claims_running 0"));

    let server = TestServer::start(server.kill(), &[]);
    let api = Api::of(&server);
    assert_eq!((claims(&api).await, api.ready().await), (json!("drained"), 503));
    assert_eq!(api.admin("POST", "/v1/claims/stop", "").await.expect(200)["claims"], "drained");
    for fence in [Value::Null, json!(0), json!(2)] {
        assert_eq!(start(&api, &fence).await.expect(409)["code"], "fence_required", "{fence}");
    }
    assert_eq!(start(&api, &json!("1")).await.expect(422)["code"], "invalid");
    let started = start(&api, &json!(1)).await.expect(200);
    assert_eq!((&started["claims"], &started["fence"]), (&json!("running"), &Value::Null));
    api.quiet().await;
    assert_eq!(receiver.count(), 5);
    assert_eq!(drain(&api).await["fence"], 2, "each drain has a fence of its own");
    assert_eq!(
        start(&api, &json!(1)).await.expect(409)["code"],
        "fence_required",
        "that of before is used up"
    );
    start(&api, &json!(2)).await.expect(200);
    assert_eq!(api.ready().await, 200);
    whole(server);
}

/// A copy of a drained file is drained wherever it is put.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_copy_of_a_drained_file_is_drained() {
    let server = fresh().await;
    let api = Api::of(&server);
    let fence = drain(&api).await["fence"].clone();
    let copy = server.data().with_file_name("copy.redb");
    api.admin("POST", "/v1/backup", &json!({ "path": copy }).to_string()).await.expect(201);
    let folder = server.stop().1;
    let to = data(folder.path());
    let restored =
        duehook(&["--yes", "restore", copy.to_str().unwrap(), "--data", to.to_str().unwrap()], &[], b"");
    assert_eq!(restored.code, 0, "{}", restored.stderr);
    let server = TestServer::start(folder, &[]);
    let api = Api::of(&server);
    assert_eq!(claims(&api).await, "drained");
    api.admin("POST", "/v1/claims/start", "").await.expect(409);
    fs::copy(&copy, to.with_file_name("moved.redb")).unwrap();
    let moved = [("DUEHOOK_DATA", to.with_file_name("moved.redb").to_str().unwrap().to_owned())];
    let moved = TestServer::start(Arc::new(TempDir::new().unwrap()), &[("DUEHOOK_DATA", &moved[0].1)]);
    let other = Api::of(&moved);
    assert_eq!(claims(&other).await, "drained");
    start(&other, &fence).await.expect(200);
    assert_eq!(claims(&other).await, "running");
}

/// Everything that an export can hold: a body of every kind, every state, holds and keys.
async fn busy() -> (TestServer, Receiver) {
    let receiver = receiver(vec![Answer::status(204), Answer::status(404), Answer::status(503)]).await;
    let server = fresh().await;
    let api = Api::of(&server);
    api.destination("shop", &receiver.url("/"), "").await;
    let more = r#","concurrency":{"max":3,"adaptive":true},"rate":{"per_second":0.016667,"burst":2},
        "headers":{"z-own":"secret","a-own":"1"},"secrets":["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
        "timeout_ms":9000,"hold_scope":"delivery""#;
    api.destination("kept", "http://127.0.0.1:9/", more).await;
    api.admin("POST", "/v1/destinations/kept/pause", r#"{"reason":"a \"pause\""}"#).await.expect(200);
    api.destination("held", "http://127.0.0.1:9/", "").await;
    api.admin("PUT", "/v1/destinations/held/hold", r#"{"until":"2100-01-01T00:00:00Z"}"#).await.expect(200);
    api.destination("gone", "http://127.0.0.1:9/", "").await;
    for (body, key) in [(&b"1"[..], "first"), (b"2", "second"), (b"3", "third")] {
        let sent = api.send("shop", Some(key), body.to_vec()).await.unwrap().expect(202);
        let id = sent["id"].as_str().unwrap().to_owned();
        until("it was tried", async || api.get(&id).await["last"] != Value::Null).await;
    }
    api.send("kept", None, vec![]).await.unwrap().expect(202);
    api.send("kept", Some("binary"), (0..=255).collect()).await.unwrap().expect(202);
    api.send("held", Some("large"), vec![0xff; 100_000]).await.unwrap().expect(202);
    let lines = r#"{"destination":"kept","idempotency_key":"same","payload":{"n":9007199254740993,"e":1e-7,"n0":null}}
        {"destination":"held","idempotency_key":"same","payload":null,"class":"urgent","labels":{"z":"1","a":"ä\u0000"}}
        {"destination":"kept","payload":"later","not_before":"NOT_BEFORE","max_age_ms":86400000,"max_failures":3,
         "headers":{"z-own":"its own","b":"2"},"class":"bulk"}"#;
    let later = jiff(3_600);
    let lines = lines.replace(",\n         ", ",").replace("NOT_BEFORE", &later);
    let taken = api.batch(lines).await.unwrap().expect(200);
    assert!(taken["results"].as_array().unwrap().iter().all(|one| one["status"] == 202), "{taken}");
    let cancelled = api.send("kept", Some("cancelled"), b"c".to_vec()).await.unwrap().expect(202);
    let path = format!("/v1/deliveries/{}/cancel", cancelled["id"].as_str().unwrap());
    api.admin("POST", &path, "").await.expect(200);
    api.admin("DELETE", "/v1/destinations/gone", "").await;
    (server, receiver)
}

/// So many seconds from now.
fn jiff(seconds: u64) -> String {
    let clock = duehook::driver::clock::Clock::start();
    clock.now().wall.plus(duehook::time::Millis::seconds(seconds)).to_string()
}

/// What a reader sees of every delivery, without what the clock changes.
async fn rows(api: &Api) -> Vec<Value> {
    let mut all = api.list("").await;
    for row in &mut all {
        if row["state"] == "delayed" {
            row["state"] = "ready".into();
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c159_an_import_is_what_was_exported() {
    let (server, _receiver) = busy().await;
    let api = Api::of(&server);
    drain(&api).await;
    let exported = export(&api).await;
    let end = read(exported.last().unwrap());
    assert_eq!((&end["destinations"], &end["deliveries"]), (&json!(3), &json!(10)), "{end}");
    assert_eq!(end["left_behind"], json!({"damaged": 0, "destination_deleted": 0}));

    let other = fresh().await;
    let there = Api::of(&other);
    there.admin("POST", "/v1/claims/stop", "").await.expect(200);
    let counts =
        |imported: u64, unchanged: u64| json!({"imported": imported, "updated": 0, "unchanged": unchanged});
    let dry = there.import("?dry_run=true", joined(&exported)).await.expect(200);
    assert_eq!(
        (&dry["imported"], &dry["rejected"], &dry["dry_run"]),
        (&json!(10), &json!([]), &json!(true)),
        "{dry}"
    );
    assert_eq!(
        (
            there.list("").await.len(),
            there.admin("GET", "/v1/destinations", "").await.expect(200)["data"].clone()
        ),
        (0, json!([]))
    );
    let told = there.import("", joined(&exported)).await.expect(200);
    assert_eq!((&told["imported"], &told["destinations"]), (&json!(10), &counts(3, 0)), "{told}");
    assert_eq!(rows(&there).await, rows(&api).await);
    for name in ["shop", "kept", "held"] {
        let path = format!("/v1/destinations/{name}");
        let (mut here, mut new) =
            (api.admin("GET", &path, "").await.expect(200), there.admin("GET", &path, "").await.expect(200));
        // What a restart does not keep, an export does not either.
        for live in ["limit", "failure_streak", "observed_retry_after", "recovery", "delayed"] {
            (here[live], new[live]) = (Value::Null, Value::Null);
        }
        assert_eq!(new, here);
    }
    let again = there.import("", joined(&exported)).await.expect(200);
    assert_eq!((&again["unchanged"], &again["destinations"]), (&json!(10), &counts(0, 3)), "{again}");

    // One key, one delivery: there too.
    let repeat = there.send("kept", Some("binary"), (0..=255).collect()).await.unwrap().expect(200);
    assert_eq!(repeat["duplicate"], true);
    there.send("kept", Some("binary"), b"other".to_vec()).await.unwrap().expect(409);
    let delivered = there.send("shop", Some("first"), b"1".to_vec()).await.unwrap().expect(200);
    assert_eq!(delivered["outcome"], "delivered", "what has ended keeps its key");

    drain(&there).await;
    let exported_there = export(&there).await;
    assert_eq!(lasting(&exported_there), lasting(&exported), "byte by byte");
    let folder = other.kill();
    let other = TestServer::start(folder, &[]);
    assert_eq!(lasting(&export(&Api::of(&other)).await), lasting(&exported), "after a crash, too");
    whole(other);
    whole(server);
}

/// Half of an export, and then nothing more: a client that hangs.
struct Half(Option<Bytes>);

impl Body for Half {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<std::io::Result<Frame<Bytes>>>> {
        self.0.take().map_or(Poll::Pending, |bytes| Poll::Ready(Some(Ok(Frame::data(bytes)))))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_that_was_killed_is_run_again_and_makes_no_duplicates() {
    const COUNT: usize = 2_000;
    let server = fresh().await;
    let api = Api::of(&server);
    api.destination("kept", "http://127.0.0.1:9/", "").await;
    api.admin("POST", "/v1/destinations/kept/pause", "").await.expect(200);
    for from in (0..COUNT).step_by(1_000) {
        let line =
            |n: usize| format!("{{\"destination\":\"kept\",\"idempotency_key\":\"k{n}\",\"payload\":{n}}}\n");
        api.batch((from..from + 1_000).map(line).collect()).await.unwrap().expect(200);
    }
    drain(&api).await;
    let exported = export(&api).await;
    let mut other = fresh().await;
    for (round, sent) in [600, 1_500].into_iter().enumerate() {
        let there = Api::of(&other);
        let half = Bytes::from(joined(&exported[..sent]));
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let request = client.post(format!("{}/v1/import", other.admin));
        let request = request.header("content-type", "application/x-ndjson");
        let sending = request.body(reqwest::Body::wrap(Half(Some(half)))).send();
        tokio::select! {
            answer = sending => panic!("it was not whole: {answer:?}"),
            () = until("some of it is there", async || !there.list("").await.is_empty()) => {}
        }
        let folder = other.kill();
        other = TestServer::start(folder, &[]);
        let here = Api::of(&other).list("").await.len();
        assert!((1..COUNT).contains(&here), "{here} after round {round}");
    }
    let there = Api::of(&other);
    let told = there.import("", joined(&exported)).await.expect(200);
    let sum = told["imported"].as_u64().unwrap() + told["unchanged"].as_u64().unwrap();
    assert_eq!((sum, &told["rejected"]), (COUNT as u64, &json!([])), "{told}");
    assert!(told["unchanged"].as_u64().unwrap() > 0, "{told}");
    drain(&there).await;
    assert_eq!(lasting(&export(&there).await), lasting(&exported));
    whole(other);
}

/// There and back: what the new owner did is known to the old one when it takes over again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_and_its_way_back_send_everything_once() {
    let receiver = receiver(vec![Answer::status(204)]).await;
    let (a, b) = (fresh().await, fresh().await);
    let (old, new) = (Api::of(&a), Api::of(&b));
    old.destination("shop", &receiver.url("/"), "").await;
    old.admin("POST", "/v1/claims/stop", "").await.expect(200);
    for n in 0..6 {
        old.send("shop", Some(&format!("k{n}")), b"x".to_vec()).await.unwrap().expect(202);
    }
    let fence = drain(&old).await["fence"].clone();
    let there = export(&old).await;
    new.import("", joined(&there)).await.expect(200);
    new.quiet().await;
    assert_eq!(receiver.count(), 6);
    new.admin("POST", "/v1/claims/stop", "").await.expect(200);
    new.send("shop", Some("k6"), b"x".to_vec()).await.unwrap().expect(202);
    let second = drain(&new).await;
    let back = export(&new).await;
    let told = old.import("", joined(&back)).await.expect(200);
    assert_eq!((&told["imported"], &told["updated"]), (&json!(1), &json!(6)), "{told}");
    assert_eq!(claims(&old).await, "drained", "an import starts nothing");
    let stale = new.import("", joined(&there)).await.expect(200);
    assert_eq!(stale["unchanged"], 6, "the same export again changes nothing back: {stale}");
    start(&old, &fence).await.expect(200);
    old.quiet().await;
    assert_eq!(receiver.count(), 7);
    let rows = old.list("outcome=delivered").await;
    assert_eq!(rows.len(), 7);
    // Moved once more: now the first export is an old one.
    drain(&old).await;
    new.import("", joined(&export(&old).await)).await.expect(200);
    assert_eq!(new.import("", joined(&there)).await.expect(409)["code"], "stale_export");
    assert_eq!(start(&new, &second["fence"]).await.expect(200)["claims"], "running");
    whole(a);
    whole(b);
}

/// The commands as the README has them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn moving_an_owner_on_the_command_line() {
    let (server, _receiver) = busy().await;
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("hand-over.ndjson");
    let name = file.to_str().unwrap();
    let early = run(&server, &["export", "--output", name], b"");
    assert!(early.code == 1 && early.stderr.contains("not_drained"), "{}", early.stderr);
    assert!(!file.exists(), "no half file is left");
    let drained = run(&server, &["drain", "--wait", "60s"], b"");
    assert_eq!(drained.code, 0, "{}", drained.stderr);
    assert!(
        drained.stdout.contains("claims drained, fence 1") && drained.stdout.contains("--fence 1"),
        "{}",
        drained.stdout
    );
    let exported = run(&server, &["export", "--output", name], b"");
    assert!(exported.code == 0 && exported.stdout.contains("bodies and secrets"), "{}", exported.stderr);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let twice = run(&server, &["export", "--output", name], b"");
    assert_eq!(twice.code, 1, "a file that is there is not replaced");
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(run(&server, &["export"], b"").stdout.lines().count(), text.lines().count());

    let other = fresh().await;
    run(&other, &["claims", "stop"], b"");
    let dry = run(&other, &["import", name, "--dry-run"], b"");
    assert!(dry.code == 0 && dry.stdout.contains("deliveries: 10 imported"), "{} {}", dry.stdout, dry.stderr);
    let spoilt = text.replacen("\"class\":\"bulk\"", "\"class\":\"unheard-of\"", 1);
    let bad = run(&other, &["import", "-"], spoilt.as_bytes());
    assert!(bad.code == 1 && bad.stdout.contains("9 imported"), "{} {}", bad.stdout, bad.stderr);
    assert!(
        bad.stdout.contains("422 class_unknown") && bad.stderr.contains("1 line was rejected"),
        "{}",
        bad.stdout
    );
    let good = run(&other, &["--json", "import", name], b"");
    assert_eq!((good.code, &read(&good.stdout)["unchanged"]), (0, &json!(9)), "{}", good.stderr);
    let refused = run(&server, &["claims", "start"], b"");
    assert!(refused.code == 1 && refused.stderr.contains("fence_required"), "{}", refused.stderr);
    let back = run(&server, &["claims", "start", "--fence", "1"], b"");
    assert_eq!((back.code, back.stdout.as_str()), (0, "claims running, 0 in flight\n"), "{}", back.stderr);
}
