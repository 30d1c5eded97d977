//! What is taken: one key one delivery, batches, look-ups, and bodies that lie about their length.

use std::sync::Arc;

use duehook::drill::receiver::{Answer as Said, Receiver as Drill, Record, Script};
use serde_json::Value;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::{Answer, World};
use crate::api::until;

#[tokio::test]
async fn a_delivery_is_answered_as_it_is_stored() {
    let world = World::start().await;
    world.paused("kept").await;
    let more = r#","class":"urgent","idempotency_key":"k","labels":{"a":"b"},"max_age_ms":60000"#;
    let body = format!(r#"{{"destination":"kept","payload":{{"a": 1}}{more}}}"#);
    let answer = world.post(&body).await;
    let location = answer.header("location").unwrap().to_owned();
    let mut taken = answer.expect(202);
    assert_eq!(location, format!("/v1/deliveries/{}", taken["id"].as_str().unwrap()));
    assert_eq!(taken.as_object_mut().unwrap().remove("duplicate"), Some(Value::Bool(false)));
    assert_eq!((&taken["tenant"], &taken["class"]), (&"acme".into(), &"urgent".into()));
    assert_eq!((&taken["state"], &taken["next_reason"]), (&"ready".into(), &"new".into()));
    assert_eq!((&taken["payload"]["bytes"], &taken["labels"]["a"]), (&8.into(), &"b".into()));
    assert_eq!(world.admin("GET", &location, "").await.expect(200), taken);
    let same = Answer::of(world.ask("GET", &world.server.ingest, &location)).await.expect(200);
    assert_eq!(same, taken);
}

#[tokio::test]
async fn c101_one_key_other_body() {
    let world = World::start().await;
    world.paused("kept").await;
    let send = async |body: &str, content_type: &str| {
        let request = world.ask("POST", &world.server.ingest, "/v1/send/kept");
        let request = request.header("idempotency-key", "\"k\"").header("content-type", content_type);
        Answer::of(request.body(body.to_owned())).await
    };
    let first = send("a", "text/plain").await.expect(202);
    let again = send("a", "text/plain").await.expect(200);
    assert_eq!((&again["id"], &again["duplicate"]), (&first["id"], &true.into()));
    send("b", "text/plain").await.refused(409, "key_reused", &["idempotency_key"]);
    send("a", "text/html").await.refused(409, "key_reused", &["idempotency_key"]);
    let cancel = format!("/v1/deliveries/{}/cancel", first["id"].as_str().unwrap());
    world.admin("POST", &cancel, "").await.expect(200);
    send("b", "text/plain").await.refused(409, "key_reused", &["idempotency_key"]);
    assert_eq!(send("a", "text/plain").await.expect(200)["outcome"], "cancelled");
    assert_eq!(world.stored().await.len(), 1);
}

/// C101: while it is in flight, and once it was delivered.
#[tokio::test]
async fn c101_one_key_other_body_in_every_state() {
    let world = World::start().await;
    let late = Said::status(204).after(std::time::Duration::from_secs(1));
    let receiver = Drill::start(Script::List(vec![late]), Record::Count).await.unwrap();
    world.leading_to("shop", &receiver.url("/")).await;
    let send = async |payload: u8| {
        let body = format!(r#"{{"destination":"shop","payload":{payload},"idempotency_key":"k"}}"#);
        world.post(&body).await
    };
    let first = send(1).await.expect(202);
    let id = first["id"].as_str().unwrap();
    until("it is in flight", async || receiver.count() == 1).await;
    for state in ["leased", "terminal"] {
        if state == "terminal" {
            assert_eq!(world.ended(id).await["outcome"], "delivered");
        }
        send(2).await.refused(409, "key_reused", &["idempotency_key"]);
        let again = send(1).await.expect(200);
        assert_eq!((&again["id"], &again["duplicate"]), (&first["id"], &true.into()));
        assert_eq!(again["state"], state);
    }
    assert_eq!((world.stored().await.len(), receiver.count()), (1, 1));
}

/// 50 clients, one key, one moment: one id, one delivery.
#[tokio::test]
async fn c102_fifty_posts_of_one_key_at_once() {
    let world = Arc::new(World::start().await);
    world.paused("kept").await;
    let barrier = Arc::new(Barrier::new(50));
    let mut posts = JoinSet::new();
    for _ in 0..50 {
        let (world, barrier) = (world.clone(), barrier.clone());
        posts.spawn(async move {
            barrier.wait().await;
            let answer = world.post(r#"{"destination":"kept","payload":1,"idempotency_key":"k"}"#).await;
            (answer.status, answer.json()["id"].as_str().map(str::to_owned))
        });
    }
    let mut answers = posts.join_all().await;
    answers.sort();
    assert!(answers.iter().all(|(_, id)| id.is_some() && *id == answers[0].1), "{answers:?}");
    assert_eq!(answers.iter().filter(|(status, _)| *status == 202).count(), 1);
    assert_eq!(answers.iter().filter(|(status, _)| *status == 200).count(), 49);
    assert_eq!(world.stored().await.len(), 1);
}

#[tokio::test]
async fn a_key_belongs_to_a_destination() {
    let world = World::start().await;
    world.paused("one").await;
    world.paused("two").await;
    let key = r#","idempotency_key":"k""#;
    let (one, two) = (world.deliver("one", key).await, world.deliver("two", key).await);
    assert_ne!(one, two);
    let look_up = async |more: &str| -> Vec<String> {
        let path = format!("/v1/deliveries?tenant=acme&idempotency_key=k{more}");
        let page = Answer::of(world.ask("GET", &world.server.ingest, &path)).await.expect(200);
        assert_eq!(page["next_cursor"], Value::Null);
        let data = page["data"].as_array().unwrap();
        data.iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
    };
    let mut both = look_up("").await;
    both.sort();
    assert_eq!(both, [one, two.clone()]);
    assert_eq!(look_up("&destination=two").await, [two]);
    assert_eq!(look_up("&destination=none").await, Vec::<String>::new());
}

#[tokio::test]
async fn a_batch_keeps_the_good_items_whatever_the_others_are() {
    let world = World::start().await;
    world.paused("kept").await;
    let good = r#"{"destination":"kept","payload":1,"idempotency_key":"k"}"#;
    let lines = format!(
        "{good}\nnot json\n\n{good}\n{}\n{}\n",
        r#"{"destination":"none","payload":1}"#,
        r#"{"destination":"kept","payload":2,"idempotency_key":"k"}"#
    );
    let request = world.ask("POST", &world.server.ingest, "/v1/batch");
    let answer =
        Answer::of(request.header("content-type", "application/x-ndjson").body(lines)).await.expect(200);
    let results = answer["results"].as_array().unwrap();
    let shown: Vec<(u64, Option<&str>)> = results
        .iter()
        .map(|one| (one["status"].as_u64().unwrap(), one["problem"]["code"].as_str()))
        .collect();
    let want = [
        (202, None),
        (400, Some("malformed")),
        (200, None),
        (404, Some("destination_unknown")),
        (409, Some("key_reused")),
    ];
    assert_eq!(shown, want);
    assert_eq!(results[0]["id"], results[2]["id"]);
    assert_eq!((&results[0]["duplicate"], &results[2]["duplicate"]), (&false.into(), &true.into()));
    assert_eq!(world.stored().await.len(), 1);
}

#[tokio::test]
async fn a_batch_as_an_array_of_a_thousand() {
    let world = World::start().await;
    world.paused("kept").await;
    let items = vec![r#"{"destination":"kept","payload":1}"#; 1_000];
    let request = world.ask("POST", &world.server.ingest, "/v1/batch");
    let request = request.header("content-type", "application/json").body(format!("[{}]", items.join(",")));
    let answer = Answer::of(request).await.expect(200);
    let results = answer["results"].as_array().unwrap();
    assert!(results.len() == 1_000 && results.iter().all(|one| one["status"] == 202));
    assert_eq!(world.stored().await.len(), 1_000);
}

fn post(head: &str, body: &str) -> Vec<u8> {
    format!("POST /v1/send/kept HTTP/1.1\r\nhost: localhost\r\n{head}\r\n\r\n{body}").into_bytes()
}

#[tokio::test]
async fn c096_c097_lengths_that_lie_store_nothing() {
    let world = World::start().await;
    world.paused("kept").await;
    let check = async |text: Vec<u8>, status: &str| {
        let answer = World::raw(&world.server.ingest, &text).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    };
    check(post("content-length: 10737418240", "few"), "413").await;
    check(post("content-length: 262145", &"x".repeat(262_145)), "413").await;
    check(post("content-length: -1", ""), "400").await;
    check(post("content-length: 5, 6", "hello!"), "400").await;
    check(post("content-length: 5, 5", "hello"), "400").await;
    let chunks = format!("400\r\n{}\r\n", "x".repeat(1024)).repeat(257);
    check(post("transfer-encoding: chunked", &format!("{chunks}0\r\n\r\n")), "413").await;
    check(post("transfer-encoding: chunked", "FFFFFFFFFFFFFFFFF\r\n"), "400").await;
    assert_eq!(world.stored().await.len(), 0);
}

/// Five bytes are the body, the rest is a next request, and a bad one.
#[tokio::test]
async fn c096_more_bytes_than_announced() {
    let world = World::start().await;
    world.paused("kept").await;
    let answer = World::raw(&world.server.ingest, &post("content-length: 5", "hellohello\r\n\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 202 ") && answer.contains("HTTP/1.1 400 "), "{answer}");
    assert_eq!(world.stored().await[0]["payload"]["bytes"], 5);
}

#[tokio::test]
async fn c207_a_head_that_is_too_large_is_431() {
    let world = World::start().await;
    let many: String = (0..300).map(|n| format!("x-{n}: 1\r\n")).collect();
    let long = format!("x: {}\r\n", "v".repeat(64 * 1024));
    for lines in [many, long] {
        let answer = World::raw(&world.server.ingest, &post(&format!("{lines}content-length: 0"), "")).await;
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }
}
