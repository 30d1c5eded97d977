//! Every way on which a request can come to be: they all look alike.
#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::collections::BTreeSet;
use std::sync::Arc;

use duehook::drill::receiver::{Answer, Received, Receiver, Record, Script};
use serde_json::{Value, json};
use standardwebhooks::Webhook;
use tempfile::TempDir;

use crate::TestServer;
use crate::api::{Api, until};
use crate::crash::SOON;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const SETTINGS: &str =
    r#","secrets":["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],"headers":{"x-api-key":"s3cret"}"#;

/// The names of the headers, but for that which says whether the connection is kept.
fn names(one: &Received) -> BTreeSet<String> {
    one.headers.keys().map(|name| name.as_str().to_owned()).filter(|name| name != "connection").collect()
}

async fn post(api: &Api, path: &str) -> Value {
    api.admin("POST", path, "").await.expect(200)
}

async fn taken(api: &Api, key: &str) -> String {
    let taken = api.send("shop", Some(key), b"{}".to_vec()).await.unwrap().expect(202);
    taken["id"].as_str().unwrap().to_owned()
}

/// C167: first attempts, those after a 503, a 429 and a restart, an operator's retries of what waits
/// and of what had ended, what was imported, and a test send.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c167_the_same_headers_on_every_way() {
    let answers = vec![Answer::status(503), Answer::refuse("0"), Answer::status(404), Answer::status(204)];
    let receiver = Receiver::start(Script::List(answers), Record::Bodies).await.unwrap();
    let mut server = TestServer::start(Arc::new(TempDir::new().unwrap()), &SOON);
    let mut api = Api::of(&server);
    api.destination("shop", &receiver.url("/"), SETTINGS).await;
    let mut ways = vec!["first", "after a 503", "after a 429"];
    let dead = taken(&api, "dead").await;
    api.quiet().await;
    assert_eq!(api.results(&dead).await, ["server_error", "rate_limited", "client_error"]);
    ways.push("retry of what had ended");
    post(&api, &format!("/v1/deliveries/{dead}/retry")).await;
    api.quiet().await;
    ways.push("retry of what waits");
    let later = r#"{"destination":"shop","payload":{},"not_before":"NOON"}"#;
    let noon = duehook::driver::clock::Clock::start().now().wall.plus(duehook::time::Millis::seconds(3_600));
    let later = api.batch(later.replace("NOON", &noon.to_string())).await.unwrap().expect(200);
    post(&api, &format!("/v1/deliveries/{}/retry", later["results"][0]["id"].as_str().unwrap())).await;
    api.quiet().await;
    ways.push("test send");
    let tried = api.admin("POST", "/v1/destinations/shop/test", r#"{"payload":{}}"#).await.expect(200);
    assert_eq!(tried["result"], "success");
    ways.push("after a restart");
    post(&api, "/v1/destinations/shop/pause").await;
    taken(&api, "over-a-restart").await;
    server = TestServer::start(server.kill(), &SOON);
    api = Api::of(&server);
    post(&api, "/v1/destinations/shop/resume").await;
    api.quiet().await;
    ways.push("imported");
    post(&api, "/v1/destinations/shop/pause").await;
    taken(&api, "moved").await;
    post(&api, "/v1/drain").await;
    let exported = api.text("/v1/export").await;
    let other = TestServer::start(Arc::new(TempDir::new().unwrap()), &SOON);
    let there = Api::of(&other);
    there.import("", exported).await.expect(200);
    post(&there, "/v1/destinations/shop/resume").await;
    until("it has arrived", async || receiver.count() >= ways.len() as u64).await;
    let received = receiver.received();
    assert_eq!(received.len(), ways.len());
    for (one, way) in received.iter().zip(&ways) {
        assert_eq!(names(one), names(&received[0]), "{way}");
        assert!(Webhook::new(SECRET).unwrap().verify(&one.body, &one.headers).is_ok(), "{way}");
    }
    let all = names(&received[0]);
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature", "idempotency-key", "duehook-attempt"]
    {
        assert!(all.contains(name), "{name} of {all:?}");
    }
    assert_eq!(json!(received[0].header("x-api-key")), json!("s3cret"));
}
