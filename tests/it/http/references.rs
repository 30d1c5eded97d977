//! Payloads that are kept elsewhere, from the request to the receiver.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

use duehook::drill::receiver::{Answer, Received, Receiver, Record, Script};
use reqwest::header::{ETAG, HeaderValue, LAST_MODIFIED};
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use standardwebhooks::Webhook;
use tempfile::TempDir;

use super::{World, receiver};
use crate::TestServer;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// What a store has, by path: a status and a body. What it does not have is 404.
type Shelf = Arc<Mutex<BTreeMap<String, (u16, &'static [u8])>>>;

async fn store(shelf: &Shelf) -> Receiver {
    let shelf = Arc::clone(shelf);
    let script = Script::Decide(Box::new(move |request| on_shelf(&shelf, &request.path)));
    Receiver::start(script, Record::Digests).await.unwrap()
}

fn on_shelf(shelf: &Shelf, path: &str) -> Answer {
    let (status, body) = shelf.lock().unwrap().get(path).copied().unwrap_or((404, b""));
    let headers = vec![
        (ETAG, HeaderValue::from_static("\"1\"")),
        (LAST_MODIFIED, HeaderValue::from_static("Sun, 29 Nov 2026 12:00:00 GMT")),
    ];
    Answer::Reply { status: StatusCode::from_u16(status).unwrap(), headers, body: body.into() }
}

/// A server that reads below `allow`, and repeats at once.
fn world(folder: &Arc<TempDir>, allow: &str, more: &[(&str, &str)]) -> World {
    let quick = [
        ("DUEHOOK_PAYLOAD_REFS__ALLOW", allow),
        ("DUEHOOK_POLICY__DEFAULT__SCHEDULE", "20ms"),
        ("DUEHOOK_POLICY__DEFAULT__MIN_DELAY", "10ms"),
        ("DUEHOOK_POLICY__DEFAULT__JITTER", "none"),
    ];
    let variables: Vec<(&str, &str)> = quick.into_iter().chain(more.iter().copied()).collect();
    let client = Client::builder().no_proxy().build().unwrap();
    World { server: TestServer::start(Arc::clone(folder), &variables), client }
}

async fn refer(world: &World, uri: &str, more: Value) -> Value {
    let mut body = json!({"destination": "shop", "payload_ref": uri});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    world.post(&body.to_string()).await.expect(202)
}

fn id_of(taken: &Value) -> &str {
    taken["id"].as_str().unwrap()
}

fn hex(bytes: &[u8]) -> String {
    duehook::model::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// The results of a delivery's attempts, oldest first.
async fn results(world: &World, id: &str) -> Vec<String> {
    crate::api::Api::of(&world.server).results(id).await
}

fn outbox(folder: &TempDir) -> (std::path::PathBuf, String) {
    let out = folder.path().join("out");
    std::fs::create_dir(&out).unwrap();
    let prefix = format!("file://{}/", out.display());
    (out, prefix)
}

#[tokio::test]
async fn a_file_is_read_signed_and_delivered_byte_for_byte() {
    let folder = Arc::new(TempDir::new().unwrap());
    let (out, prefix) = outbox(&folder);
    let bytes = b"{ \"b\" : 1.0,\r\n\"a\":\"\xc3\xa9\"}";
    std::fs::write(out.join("a b.json"), bytes).unwrap();
    let (world, mut to) = (world(&folder, &prefix, &[]), receiver::Receiver::start().await);
    let settings =
        json!({"tenant": "acme", "url": to.url, "allow_cidrs": ["127.0.0.1/32"], "secrets": [SECRET]});
    world.admin("PUT", "/v1/destinations/shop", &settings.to_string()).await.expect(201);
    let uri = format!("{prefix}a%20b.json");
    let taken = refer(&world, &uri, json!({"content_type": "application/fhir+json"})).await;
    assert_eq!((&taken["payload"]["kind"], &taken["payload"]["ref"]), (&json!("ref"), &json!(uri)));
    assert_eq!((&taken["payload"]["bytes"], &taken["payload"]["sha256"]), (&Value::Null, &Value::Null));
    let got = to.next().await;
    assert_eq!((&got.body[..], got.header("content-type")), (&bytes[..], Some("application/fhir+json")));
    assert!(Webhook::new(SECRET).unwrap().verify(&got.body, &got.headers).is_ok());
    let ended = world.ended(id_of(&taken)).await;
    assert_eq!((&ended["outcome"], &ended["payload"]["sha256"]), (&json!("delivered"), &json!(hex(bytes))));
    let listed = world.admin("GET", "/v1/deliveries?destination=shop", "").await.expect(200);
    assert_eq!(listed["data"][0]["payload"]["ref"], uri);
}

#[tokio::test]
async fn a_prefix_is_needed_and_dots_do_not_help() {
    let folder = Arc::new(TempDir::new().unwrap());
    let (out, prefix) = outbox(&folder);
    std::fs::write(out.join("a"), b"1").unwrap();
    let world = world(&folder, &prefix, &[]);
    world.paused("shop").await;
    let check = async |uri: &str| {
        let body = json!({"destination": "shop", "payload_ref": uri}).to_string();
        world.post(&body).await.refused(422, "ref_not_allowed", &["payload_ref"]);
    };
    for uri in ["s3://phi-eu/a", "https://store.internal/a", "file:///etc/passwd", "http://169.254.169.254/a"]
    {
        check(uri).await;
    }
    for end in ["../secret", "%2e%2e/secret", "", "a?x", "a#x", "/a", "x%2f..%2f..%2fsecret"] {
        check(&format!("{prefix}{end}")).await;
    }
    check(prefix.trim_end_matches('/')).await;
    check(&format!("{}er/a", prefix.trim_end_matches('/'))).await;
    let batch = json!([
        {"destination": "shop", "payload_ref": format!("{prefix}a")},
        {"destination": "shop", "payload_ref": "file:///etc/passwd"},
    ]);
    let request = world.ask("POST", &world.server.ingest, "/v1/batch").body(batch.to_string());
    let request = request.header("content-type", "application/json");
    let answer = super::Answer::of(request).await.expect(200);
    let statuses = [&answer["results"][0]["status"], &answer["results"][1]["status"]];
    assert_eq!(statuses, [&json!(202), &json!(422)]);
    assert_eq!(answer["results"][1]["problem"]["code"], "ref_not_allowed");
}

/// C206 for references: other bytes are another event, and never sent under the same key.
#[tokio::test]
async fn c206_what_is_missing_or_has_changed_is_gone() {
    let folder = Arc::new(TempDir::new().unwrap());
    let (out, prefix) = outbox(&folder);
    let world = world(&folder, &prefix, &[]);
    let changing = out.join("a");
    std::fs::write(&changing, b"first").unwrap();
    let change = move |request: &Received| {
        // The first attempt has read it; the second finds other bytes.
        std::fs::write(&changing, b"other").unwrap();
        assert_eq!(request.body, &b"first"[..]);
        Answer::status(503)
    };
    let to = Receiver::start(Script::Decide(Box::new(change)), Record::Bodies).await.unwrap();
    world.leading_to("shop", &to.url("/")).await;
    let taken = refer(&world, &format!("{prefix}a"), json!({})).await;
    let ended = world.ended(id_of(&taken)).await;
    assert_eq!((&ended["outcome"], &ended["failures"]), (&json!("payload_gone"), &json!(1)));
    assert_eq!(ended["payload"]["sha256"], hex(b"first"));
    assert_eq!(results(&world, id_of(&taken)).await, ["server_error", "payload"]);
    assert_eq!(to.count(), 1);
    let missing = refer(&world, &format!("{prefix}missing"), json!({})).await;
    let ended = world.ended(id_of(&missing)).await;
    assert_eq!((&ended["outcome"], &ended["failures"]), (&json!("payload_gone"), &json!(0)));
    let named = refer(&world, &format!("{prefix}a"), json!({"sha256": hex(b"first")})).await;
    assert_eq!(world.ended(id_of(&named)).await["outcome"], "payload_gone");
    assert_eq!(to.count(), 1, "nothing else was sent");
    // What is there again is delivered when an operator says so, and only the same bytes.
    std::fs::write(Path::new(&out).join("missing"), b"late").unwrap();
    let retry = format!("/v1/deliveries/{}/retry", id_of(&named));
    world.admin("POST", &retry, "").await.expect(200);
    assert_eq!(world.ended(id_of(&named)).await["outcome"], "payload_gone");
}

#[tokio::test]
async fn what_cannot_be_read_waits_and_is_no_failure_of_the_receiver() {
    let folder = Arc::new(TempDir::new().unwrap());
    let shelf = Shelf::default();
    shelf.lock().unwrap().insert("/out/a".into(), (503, b""));
    let store = store(&shelf).await;
    let world = world(&folder, &store.url("/out/"), &[]);
    let mut to = receiver::Receiver::start().await;
    world.leading_to("shop", &to.url).await;
    let taken = refer(&world, &store.url("/out/a"), json!({"max_failures": 1})).await;
    let id = id_of(&taken);
    let waits = tokio::time::timeout(super::PATIENCE, async {
        loop {
            let delivery = world.get(id).await;
            if delivery["attempts"].as_u64().unwrap() >= 3 && delivery["state"] == "delayed" {
                return delivery;
            }
        }
    });
    let waiting = waits.await.expect("it is tried again");
    assert_eq!((&waiting["failures"], &waiting["next_reason"]), (&json!(0), &json!("payload")));
    assert_eq!(waiting["last"]["result"], "payload");
    let error = waiting["last"]["error"].as_str().unwrap();
    assert!(error.contains("127.0.0.1 answered 503") && !error.contains("/out/a"), "{error}");
    assert!(to.is_empty());
    shelf.lock().unwrap().insert("/out/a".into(), (200, b"{}"));
    assert_eq!(&to.next().await.body[..], b"{}");
    let ended = world.ended(id).await;
    assert_eq!((&ended["outcome"], &ended["failures"]), (&json!("delivered"), &json!(0)));
}

/// T57: requests of ours are not taken by our own listeners, where whoever reaches them is trusted.
#[tokio::test]
async fn t57_our_own_listeners_are_no_destinations() {
    let folder = Arc::new(TempDir::new().unwrap());
    let world = world(&folder, "s3://phi-eu/", &[]);
    for (name, base, path) in [
        ("stop", &world.server.admin, "/v1/claims/stop"),
        ("self", &world.server.ingest, "/v1/send/stop"),
        ("drain", &world.server.admin, "/v1/drain"),
    ] {
        world.leading_to(name, &format!("{base}{path}")).await;
        let id = world.deliver(name, "").await;
        let ended = world.ended(&id).await;
        assert_eq!(
            (&ended["outcome"], &ended["last"]["status"]),
            (&json!("rejected"), &json!(422)),
            "{name}"
        );
    }
    assert_eq!(world.stored().await.len(), 3);
    assert_eq!(world.admin("GET", "/v1/stats", "").await.expect(200)["claims"], "running");
}

/// The store is on loopback, where no destination may be called; and a destination that is refused is
/// refused though a prefix covers its URL.
#[tokio::test]
async fn stores_and_destinations_have_rules_of_their_own() {
    let folder = Arc::new(TempDir::new().unwrap());
    let shelf = Shelf::default();
    shelf.lock().unwrap().insert("/out/a".into(), (200, b"{}"));
    let store = store(&shelf).await;
    let world = world(&folder, &store.url("/out/"), &[]);
    let settings = json!({"tenant": "acme", "url": store.url("/out/a")}).to_string();
    world.admin("PUT", "/v1/destinations/shop", &settings).await.refused(422, "invalid", &["url"]);
    let mut to = receiver::Receiver::start().await;
    world.leading_to("shop", &to.url).await;
    refer(&world, &store.url("/out/a"), json!({})).await;
    assert_eq!(&to.next().await.body[..], b"{}");
}

#[tokio::test]
async fn a_repeat_names_the_same_place_and_erasing_forgets_it() {
    let folder = Arc::new(TempDir::new().unwrap());
    let (_, prefix) = outbox(&folder);
    let world = world(&folder, &prefix, &[]);
    world.paused("shop").await;
    let first = json!({"idempotency_key": "k", "sha256": "ab".repeat(32)});
    let taken = refer(&world, &format!("{prefix}a"), first).await;
    let uri = format!("{prefix}%61");
    let mut body = json!({"destination": "shop", "payload_ref": uri, "idempotency_key": "k"});
    let again = world.post(&body.to_string()).await.expect(200);
    assert_eq!((&again["id"], &again["duplicate"]), (&taken["id"], &json!(true)));
    body["sha256"] = json!("cd".repeat(32));
    world.post(&body.to_string()).await.refused(409, "key_reused", &["idempotency_key"]);
    let other = json!({"destination": "shop", "payload_ref": format!("{prefix}b"), "idempotency_key": "k"});
    world.post(&other.to_string()).await.refused(409, "key_reused", &["idempotency_key"]);
    let inline = json!({"destination": "shop", "payload": 1, "idempotency_key": "k"});
    world.post(&inline.to_string()).await.refused(409, "key_reused", &["idempotency_key"]);
    let erased = world.admin("DELETE", &format!("/v1/deliveries/{}/payload", id_of(&taken)), "").await;
    assert_eq!(erased.status, 204);
    let ended = world.get(id_of(&taken)).await;
    assert_eq!(ended["outcome"], "payload_gone");
    assert_eq!((&ended["payload"]["ref"], &ended["payload"]["sha256"]), (&Value::Null, &Value::Null));
}

/// An object store that is played by ours: what it is asked is signed, and whoever it does not know
/// waits.
#[tokio::test]
async fn objects_of_a_bucket_are_asked_for_with_the_credentials_of_the_environment() {
    let folder = Arc::new(TempDir::new().unwrap());
    let shelf = Shelf::default();
    shelf.lock().unwrap().insert("/phi-eu/out/a%20b".into(), (200, b"{}"));
    shelf
        .lock()
        .unwrap()
        .insert("/phi-eu/out/closed".into(), (403, b"<Error><Code>AccessDenied</Code></Error>"));
    let missing: &[u8] = b"<Error><Code>NoSuchBucket</Code></Error>";
    shelf.lock().unwrap().insert("/phi-eu/out/bucketless".into(), (404, missing));
    let store = store(&shelf).await;
    let variables = [
        ("AWS_ENDPOINT", &*store.url("")),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_ACCESS_KEY_ID", "AKIATEST"),
        ("AWS_SECRET_ACCESS_KEY", "s3cret"),
        ("AWS_REGION", "eu-central-1"),
    ];
    let world = world(&folder, "s3://phi-eu/out/", &variables);
    let mut to = receiver::Receiver::start().await;
    world.leading_to("shop", &to.url).await;
    let taken = refer(&world, "s3://phi-eu/out/a%20b", json!({})).await;
    assert_eq!(&to.next().await.body[..], b"{}");
    let ended = world.ended(id_of(&taken)).await;
    assert_eq!((&ended["outcome"], &ended["payload"]["sha256"]), (&json!("delivered"), &json!(hex(b"{}"))));
    let asked = store.received();
    let signed = asked[0].header("authorization").unwrap();
    assert!(signed.starts_with("AWS4-HMAC-SHA256 Credential=AKIATEST/"), "{signed}");
    assert!(signed.contains("/eu-central-1/s3/aws4_request") && !signed.contains("s3cret"), "{signed}");
    let gone = refer(&world, "s3://phi-eu/out/gone", json!({})).await;
    assert_eq!(world.ended(id_of(&gone)).await["outcome"], "payload_gone");
    for name in ["closed", "bucketless"] {
        let waits = refer(&world, &format!("s3://phi-eu/out/{name}"), json!({"max_age_ms": 1000})).await;
        let ended = world.ended(id_of(&waits)).await;
        assert_eq!((&ended["outcome"], &ended["failures"]), (&json!("expired"), &json!(0)), "{name}");
        assert_eq!(ended["last"]["result"], "payload", "{name}");
    }
    assert!(to.is_empty());
}
