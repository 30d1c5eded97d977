//! A destination in trouble: what an operator corrects, what is kept, and what is refused.

use std::sync::Arc;

use duehook::drill::receiver::{Answer as Said, Receiver as Drill, Record, Script};
use reqwest::Client;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::World;
use super::receiver::{Received, Receiver};
use super::signing::{FIRST, SECOND, is_signed_by, signed_shop};
use crate::TestServer;
use crate::api::{Api, until};

const SHOP: &str = "/v1/destinations/shop";

async fn saying(answers: Vec<Said>) -> Drill {
    Drill::start(Script::List(answers), Record::Bodies).await.unwrap()
}

async fn attempts(world: &World, id: &str) -> Vec<Value> {
    let read = world.admin("GET", &format!("/v1/deliveries/{id}/attempts"), "").await.expect(200);
    read["data"].as_array().unwrap().clone()
}

async fn is_delayed(world: &World, id: &str) {
    until("it waits", async || world.get(id).await["state"] == "delayed").await;
}

/// C184: the URL and the secrets of now are those of the next attempt, and each attempt tells where
/// it went. A hold is the destination's: with another URL it goes on until it is ended.
#[tokio::test]
async fn c184_the_next_attempt_goes_where_the_destination_is_now() {
    let world = World::start().await;
    let old = saying(vec![Said::status(503), Said::refuse("600")]).await;
    let mut new = Receiver::start().await;
    signed_shop(&world, &old.url("/secret-path"), &[FIRST]).await;
    let id = world.deliver("shop", "").await;
    is_delayed(&world, &id).await;
    let moved = json!({"url": new.url, "secrets": [SECOND]}).to_string();
    world.admin("PATCH", SHOP, &moved).await.expect(200);
    world.admin("POST", &format!("/v1/deliveries/{id}/retry"), "").await.expect(200);
    let got: Received = new.next().await;
    assert!(is_signed_by(SECOND, &got) && !is_signed_by(FIRST, &got));
    assert_eq!(got.header("webhook-id"), Some(&*id));
    assert_eq!(world.ended(&id).await["outcome"], "delivered");
    let mut where_to: Vec<(u64, String)> = attempts(&world, &id)
        .await
        .iter()
        .map(|one| (one["n"].as_u64().unwrap(), one["address"].as_str().unwrap().to_owned()))
        .collect();
    where_to.sort();
    let there = new.url.trim_start_matches("http://").trim_end_matches("/hook").to_owned();
    assert_eq!(where_to, [(1, old.address().to_string()), (2, there)]);
    // Held by what the old URL said.
    world.admin("PATCH", SHOP, &json!({"url": old.url("/secret-path")}).to_string()).await.expect(200);
    let held = world.deliver("shop", "").await;
    is_delayed(&world, &held).await;
    world.admin("PATCH", SHOP, &json!({"url": new.url}).to_string()).await.expect(200);
    let retried = world.admin("POST", &format!("/v1/deliveries/{held}/retry"), "").await.expect(200);
    assert!(retried["held_until"].is_string(), "{retried}");
    world.admin("DELETE", &format!("{SHOP}/hold"), "").await.expect(200);
    assert_eq!(new.next().await.header("webhook-id"), Some(&*held));
    assert_eq!(old.count(), 2);
}

/// C185: disabled by a 410 or by an operator: what waits is kept and says why, what is new is refused
/// by name, and what was kept goes out once it is enabled.
#[tokio::test]
async fn c185_nothing_is_lost_while_a_destination_is_off() {
    let world = World::start().await;
    let gone = saying(vec![Said::status(410), Said::status(204)]).await;
    for (name, by_hand) in [("gone", false), ("shop", true)] {
        let path = format!("/v1/destinations/{name}");
        world.leading_to(name, &gone.url("/")).await;
        world.admin("PATCH", &path, r#"{"concurrency":{"max":1}}"#).await.expect(200);
        world.admin("POST", &format!("{path}/pause"), "").await.expect(200);
        let mut waiting = Vec::new();
        for _ in 0..if by_hand { 5 } else { 6 } {
            waiting.push(world.deliver(name, "").await);
        }
        let before = world.get(&waiting[5.min(waiting.len() - 1)]).await["expires_at"].clone();
        if by_hand {
            world.admin("POST", &format!("{path}/disable"), r#"{"reason":"moved"}"#).await.expect(200);
        } else {
            world.admin("POST", &format!("{path}/resume"), "").await.expect(200);
            assert_eq!(world.ended(&waiting.remove(0)).await["outcome"], "destination_gone");
        }
        let shown = world.admin("GET", &path, "").await.expect(200);
        assert_eq!((&shown["state"], &shown["waiting"]), (&json!("disabled"), &json!(5)), "{shown}");
        assert!(shown["state_reason"].as_str().is_some_and(|why| !why.is_empty()), "{shown}");
        for _ in 0..5 {
            let new = format!(r#"{{"destination":"{name}","payload":1}}"#);
            let refused = world.post(&new).await;
            refused.refused(409, "destination_disabled", &[]);
        }
        let kept = world.admin("GET", &format!("/v1/deliveries?destination={name}&state=ready"), "").await;
        assert_eq!(kept.expect(200)["data"].as_array().unwrap().len(), 5);
        for id in &waiting {
            let why = world.admin("GET", &format!("/v1/deliveries/{id}/explain"), "").await.expect(200);
            assert_eq!(why["blocked_by"][0]["kind"], "disabled", "{why}");
        }
        assert_eq!(world.get(waiting.last().unwrap()).await["expires_at"], before, "its life runs on");
        world.admin("POST", &format!("{path}/enable"), "").await.expect(200);
        for id in &waiting {
            assert_eq!(world.ended(id).await["outcome"], "delivered", "{name}");
        }
    }
    assert_eq!(gone.count(), 11);
}

/// C093: a refusal says what kind of address it is and which setting admits it; with that it is
/// delivered, and loopback needs an entry of its own.
#[tokio::test]
async fn c093_a_refused_url_says_what_would_admit_it() {
    let world = World::start().await;
    let mut receiver = Receiver::start().await;
    let put = async |url: &str, cidrs: &[&str]| {
        let settings = json!({"tenant": "acme", "url": url, "allow_cidrs": cidrs});
        world.admin("PUT", SHOP, &settings.to_string()).await
    };
    let check = async |url: &str, cidrs: &[&str], kind: &str| {
        let refused = put(url, cidrs).await;
        refused.refused(422, "invalid", &["url"]);
        let detail = refused.json()["errors"][0]["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(kind) && detail.contains("allow_cidrs"), "{url}: {detail}");
    };
    check("https://10.1.2.3/hook", &[], "private").await;
    check("http://10.1.2.3:8080/hook", &["10.9.0.0/16"], "private").await;
    check(&receiver.url, &["10.0.0.0/8", "192.168.0.0/16"], "loopback").await;
    put("http://10.1.2.3:8080/hook", &["10.1.2.0/24"]).await.expect(201);
    put(&receiver.url, &["127.0.0.1/32"]).await.expect(200);
    let id = world.deliver("shop", "").await;
    assert_eq!(receiver.next().await.header("webhook-id"), Some(&*id));
    for wrong in ["10.0.0.0/33", "10.0.0", "hooks.internal", "10.0.0.1:80", ""] {
        let refused = put("https://10.1.2.3/hook", &[wrong]).await;
        assert_eq!((refused.status, &refused.json()["code"]), (422, &json!("invalid")), "{wrong}");
        assert!(refused.text.contains("allow_cidrs"), "{}", refused.text);
    }
}

/// T56: nothing that ends a line gets into a header, a name or an id.
#[tokio::test]
async fn t56_line_ends_are_refused_wherever_they_could_be_sent() {
    let world = World::start().await;
    let url = "https://shop.example.com/hook";
    world.paused("shop").await;
    let put = async |path: &str, settings: Value| {
        let refused = world.admin("PUT", path, &settings.to_string()).await;
        assert_eq!((refused.status, &refused.json()["code"]), (422, &json!("invalid")), "{settings}");
    };
    for bad in ["a\rb", "a\nb", "a\r\nx: y", "a\0b", "\n", "a\u{7f}"] {
        put(SHOP, json!({"tenant": "acme", "url": url, "headers": {"x-own": bad}})).await;
        put(SHOP, json!({"tenant": "acme", "url": url, "headers": {bad: "1"}})).await;
        put(SHOP, json!({"tenant": bad, "url": url})).await;
        put(SHOP, json!({"tenant": "acme", "url": format!("{url}{bad}")})).await;
        let named: String = bad.bytes().map(|byte| format!("%{byte:02x}")).collect();
        put(&format!("/v1/destinations/{named}"), json!({"tenant": "acme", "url": url})).await;
        for field in ["idempotency_key", "content_type", "class", "tenant", "destination"] {
            let mut new = json!({"destination": "shop", "payload": 1});
            new[field] = bad.into();
            let refused = world.post(&new.to_string()).await;
            assert!(refused.status == 422 || refused.status == 404, "{field} {bad:?}: {}", refused.text);
        }
        let new = json!({"destination": "shop", "payload": 1, "headers": {"x-own": bad}}).to_string();
        assert_eq!(world.post(&new).await.status, 422, "{bad:?}");
    }
    assert!(world.stored().await.is_empty());
}

/// T59: a thousand wait, and the destination comes to lead where it may not: an edit is refused, and
/// where the rules have changed since, each of them is refused when it is sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t59_a_thousand_that_wait_are_all_denied() {
    const N: usize = 1_000;
    let canary = saying(vec![Said::status(204)]).await;
    let allowed = [("DUEHOOK_SEND__ALLOW_CIDRS", "127.0.0.1/32")];
    let client = Client::builder().no_proxy().build().unwrap();
    let world = World { server: TestServer::start(Arc::new(TempDir::new().unwrap()), &allowed), client };
    world.paused("shop").await;
    let line = "{\"destination\":\"shop\",\"payload\":1,\"max_failures\":1}\n";
    Api::of(&world.server).batch(line.repeat(N)).await.unwrap().expect(200);
    for url in
        ["https://10.0.0.1/", "https://169.254.169.254/", "https://[fd00::1]/", "https://intranet.local/"]
    {
        let moved = world.admin("PATCH", SHOP, &json!({ "url": url }).to_string()).await;
        assert!(url.contains("intranet") || moved.status == 422, "{url}: {}", moved.text);
    }
    let moved = json!({"url": canary.url("/"), "concurrency": {"max": N}}).to_string();
    world.admin("PATCH", SHOP, &moved).await.expect(200);
    let server = TestServer::start(world.server.kill(), &[]);
    let api = Api::of(&server);
    api.admin("POST", &format!("{SHOP}/resume"), "").await.expect(200);
    api.quiet().await;
    let denied = api.list("outcome=exhausted&last_result=blocked").await;
    assert_eq!((denied.len(), canary.count()), (N, 0));
    assert!(denied.iter().all(|one| one["attempts"] == 1 && one["failures"] == 1));
}
