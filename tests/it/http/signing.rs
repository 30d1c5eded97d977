//! Signatures as a receiver checks them, with the library of Standard Webhooks as the judge.

use serde_json::json;
use standardwebhooks::Webhook;

use super::receiver::{Received, Receiver};
use super::{PATIENCE, World};

const FIRST: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const SECOND: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const ROTATE: &str = "/v1/destinations/shop/secrets/rotate";

fn is_signed_by(secret: &str, got: &Received) -> bool {
    Webhook::new(secret).unwrap().verify(&got.body, &got.headers).is_ok()
}

async fn signed_shop(world: &World, url: &str, secrets: &[&str]) {
    let settings = json!({"tenant": "acme", "url": url, "allow_cidrs": ["127.0.0.1/32"], "secrets": secrets});
    let made = world.admin("PUT", "/v1/destinations/shop", &settings.to_string()).await.expect(201);
    assert_eq!(made["secrets"], serde_json::Value::Null, "they are never read back");
}

#[tokio::test]
async fn c198_a_signed_delivery_is_verified_over_the_bytes_that_were_sent() {
    let (world, mut receiver) = (World::start().await, Receiver::start().await);
    signed_shop(&world, &receiver.url, &[FIRST]).await;
    let odd = r#","payload":{"b" : 1.0,"a":"\u00e9"}"#;
    let body = format!(r#"{{"destination":"shop"{odd}}}"#);
    world.post(&body).await.expect(202);
    let got = receiver.next().await;
    assert_eq!(&got.body[..], br#"{"b" : 1.0,"a":"\u00e9"}"#);
    assert!(is_signed_by(FIRST, &got) && !is_signed_by(SECOND, &got), "{got:?}");
    let changed = Received { body: "{}".into(), headers: got.headers.clone() };
    assert!(!is_signed_by(FIRST, &changed));
}

#[tokio::test]
async fn t71_in_an_overlap_both_secrets_sign_and_afterwards_one() {
    let (world, mut receiver) = (World::start().await, Receiver::start().await);
    signed_shop(&world, &receiver.url, &[FIRST]).await;
    let rotated = world.admin("POST", ROTATE, &json!({"secret": SECOND}).to_string()).await.expect(200);
    assert_eq!(rotated.get("secret"), None, "it was given, so it is not shown");
    world.deliver("shop", "").await;
    let got = receiver.next().await;
    assert!(is_signed_by(FIRST, &got) && is_signed_by(SECOND, &got));
    let made = world.admin("POST", ROTATE, r#"{"overlap_ms":0}"#).await.expect(200);
    let third = made["secret"].as_str().expect("one was made");
    world.deliver("shop", "").await;
    let got = receiver.next().await;
    assert!(is_signed_by(third, &got) && !is_signed_by(SECOND, &got) && !is_signed_by(FIRST, &got));
    let read = world.admin("GET", "/v1/destinations/shop", "").await;
    assert!(!read.text.contains("whsec_"), "{}", read.text);
}

#[tokio::test]
async fn secrets_stay_when_a_change_does_not_name_them() {
    let (world, mut receiver) = (World::start().await, Receiver::start().await);
    signed_shop(&world, &receiver.url, &[FIRST]).await;
    let check = async |method: &str, body: serde_json::Value, receiver: &mut Receiver, signed: bool| {
        world.admin(method, "/v1/destinations/shop", &body.to_string()).await.expect(200);
        world.deliver("shop", "").await;
        let got = receiver.next().await;
        assert_eq!(got.header("webhook-signature").is_some(), signed, "{method} {body}");
        assert!(!signed || is_signed_by(FIRST, &got), "{method} {body}");
    };
    let whole = json!({"tenant": "acme", "url": receiver.url, "allow_cidrs": ["127.0.0.1/32"]});
    check("PUT", whole, &mut receiver, true).await;
    check("PATCH", json!({"timeout_ms": 2_000}), &mut receiver, true).await;
    check("PATCH", json!({"secrets": null}), &mut receiver, false).await;
}

#[tokio::test]
async fn a_fifth_secret_is_refused() {
    let world = World::start().await;
    signed_shop(&world, "http://127.0.0.1:1/", &[FIRST]).await;
    for _ in 0..3 {
        world.admin("POST", ROTATE, "").await.expect(200);
    }
    world.admin("POST", ROTATE, "").await.refused(409, "too_many_secrets", &[]);
    world.admin("POST", ROTATE, r#"{"overlap_ms":0}"#).await.expect(200);
    world.admin("POST", ROTATE, r#"{"secret":"x"}"#).await.refused(422, "invalid", &["secret"]);
    world.admin("POST", ROTATE, r#"{"overlap_ms":-1}"#).await.refused(422, "invalid", &["overlap_ms"]);
    let other = "/v1/destinations/other/secrets/rotate";
    world.admin("POST", other, "").await.refused(404, "not_found", &[]);
}

#[tokio::test]
async fn a_test_send_is_like_a_delivery_and_leaves_none() {
    const TEST: &str = "/v1/destinations/shop/test";
    let (world, mut receiver) = (World::start().await, Receiver::start().await);
    signed_shop(&world, &receiver.url, &[FIRST]).await;
    let check = async |body: &str, sent: &[u8], receiver: &mut Receiver| {
        let attempt = world.admin("POST", TEST, body).await.expect(200);
        assert_eq!((&attempt["n"], &attempt["result"]), (&json!(1), &json!("success")));
        assert_eq!((&attempt["status"], &attempt["sent"]), (&json!(204), &json!("yes")));
        let got = receiver.next().await;
        assert_eq!(&got.body[..], sent);
        assert!(is_signed_by(FIRST, &got));
        assert_eq!(got.header("idempotency-key"), got.header("webhook-id"));
    };
    check("", br#"{"test":true}"#, &mut receiver).await;
    check(r#"{"payload":{ "a":1}}"#, br#"{ "a":1}"#, &mut receiver).await;
    for stop in ["pause", "disable"] {
        world.admin("POST", &format!("/v1/destinations/shop/{stop}"), "").await.expect(200);
        check("", br#"{"test":true}"#, &mut receiver).await;
    }
    let until = json!({"until": "2099-01-01T00:00:00Z"}).to_string();
    world.admin("PUT", "/v1/destinations/shop/hold", &until).await.expect(200);
    world.admin("POST", TEST, "").await.refused(409, "destination_held", &[]);
    world.admin("POST", TEST, r#"{"payloads":1}"#).await.refused(422, "invalid", &["payloads"]);
    assert!(receiver.is_empty() && world.stored().await.is_empty());
}

#[tokio::test]
async fn a_test_send_that_fails_says_how() {
    let world = World::start().await;
    signed_shop(&world, "http://127.0.0.1:1/", &[]).await;
    let attempt = tokio::time::timeout(PATIENCE, world.admin("POST", "/v1/destinations/shop/test", ""));
    let attempt = attempt.await.unwrap().expect(200);
    assert_eq!((&attempt["result"], &attempt["sent"]), (&json!("connect"), &json!("no")));
    assert_eq!(attempt["host"], "127.0.0.1");
}
