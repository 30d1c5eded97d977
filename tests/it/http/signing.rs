//! Signatures as a receiver checks them, with the library of Standard Webhooks as the judge.

use duehook::model::DeliveryId;
use duehook::time::Timestamp;
use serde_json::json;
use sha2::{Digest, Sha256};
use standardwebhooks::Webhook;

use super::receiver::{Received, Receiver};
use super::{Answer, PATIENCE, World};

pub(super) const FIRST: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
pub(super) const SECOND: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
pub(super) const ROTATE: &str = "/v1/destinations/shop/secrets/rotate";

pub(super) fn is_signed_by(secret: &str, got: &Received) -> bool {
    Webhook::new(secret).unwrap().verify(&got.body, &got.headers).is_ok()
}

pub(super) async fn signed_shop(world: &World, url: &str, secrets: &[&str]) {
    let settings = json!({"tenant": "acme", "url": url, "allow_cidrs": ["127.0.0.1/32"], "secrets": secrets});
    let made = world.admin("PUT", "/v1/destinations/shop", &settings.to_string()).await.expect(201);
    assert_eq!(made["secrets"], serde_json::Value::Null, "they are never read back");
}

/// Bodies that a pass through a JSON library would change, and their like in bytes.
const DELICATE: [&[u8]; 13] = [
    b"{\"b\" :\t1,  \"a\":2 }",
    br#"{"q":"a=b&c<d>"}"#,
    br#"{"e":"\u00e9"}"#,
    "{\"e\":\"\u{e9}\"}".as_bytes(),
    b"1.0",
    b"1e2",
    b"{\"a\":1}\n",
    br#"{"id":9007199254740993,"p":1.10,"a":1,"a":2}"#,
    "\"\u{2028}\u{2029}\"".as_bytes(),
    b"\xef\xbb\xbf{\"a\":1}",
    b"{\r\n\"a\":1\r\n}\r\n",
    b"{\"a\":1}   ",
    b"",
];

/// C164, C200: what is signed is what is sent, and what is sent is what was posted.
#[tokio::test]
async fn c164_c200_signatures_hold_over_the_bytes_that_were_posted() {
    let (world, mut receiver) = (World::start().await, Receiver::start().await);
    signed_shop(&world, &receiver.url, &[FIRST]).await;
    for body in DELICATE {
        let text = String::from_utf8_lossy(body);
        let request = world.ask("POST", &world.server.ingest, "/v1/send/shop").body(body.to_vec());
        Answer::of(request).await.expect(202);
        let mut arrived = vec![receiver.next().await];
        let bare = text.trim_ascii();
        if bare.as_bytes() == body && serde_json::from_slice::<serde_json::Value>(body).is_ok() {
            world.post(&format!(r#"{{"destination":"shop", "payload": {text} }}"#)).await.expect(202);
            arrived.push(receiver.next().await);
        }
        for got in arrived {
            assert_eq!(got.body, body, "{text}");
            assert!(is_signed_by(FIRST, &got) && !is_signed_by(SECOND, &got), "{text}");
            let more = [body, b" "].concat().into();
            assert!(!is_signed_by(FIRST, &Received { body: more, headers: got.headers }), "{text}");
        }
    }
}

/// C165: who computes over something else can see by what: the delivery tells its id, the length
/// and the digest of the body, the attempt its time. The example of the README takes the raw body.
#[tokio::test]
async fn c165_the_delivery_shows_what_a_receiver_compares() {
    let (world, mut receiver) = (World::start().await, Receiver::start().await);
    signed_shop(&world, &receiver.url, &[FIRST]).await;
    let body = "{\"id\":9007199254740993,\"p\":1.10,\"a\":1,\"a\":2,\"n\":\"Zo\u{eb}\"}";
    world.post(&format!(r#"{{"destination":"shop","payload":{body}}}"#)).await.expect(202);
    let got = receiver.next().await;
    assert!(is_signed_by(FIRST, &got));
    let parsed: serde_json::Value = serde_json::from_slice(&got.body).unwrap();
    let rewritten = Received { body: parsed.to_string().into(), headers: got.headers.clone() };
    assert!(!is_signed_by(FIRST, &rewritten), "it is another text");
    let shown = world.ended(got.header("webhook-id").unwrap()).await;
    let digest: String = Sha256::digest(&got.body).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        (&shown["payload"]["sha256"], &shown["payload"]["bytes"]),
        (&json!(digest), &json!(body.len()))
    );
    let path = format!("/v1/deliveries/{}/attempts", shown["id"].as_str().unwrap());
    let attempts = world.admin("GET", &path, "").await;
    let started: Timestamp = attempts.json()["data"][0]["started_at"].as_str().unwrap().parse().unwrap();
    let stamped: u64 = got.header("webhook-timestamp").unwrap().parse().unwrap();
    assert!((started.0 / 1_000).abs_diff(stamped) <= 1, "{started} {stamped}");
    assert!(!attempts.text.contains("whsec_") && !shown.to_string().contains("whsec_"));
    let readme = include_str!("../../../README.md");
    assert!(readme.contains("body = self.rfile.read(") && readme.contains(".verify(body, "), "the raw body");
}

/// C170: what is signed is joined by full stops, so neither the id nor the time has one.
#[tokio::test]
async fn c170_a_key_with_a_full_stop_is_no_webhook_id() {
    let (world, mut receiver) = (World::start().await, Receiver::start().await);
    signed_shop(&world, &receiver.url, &[FIRST]).await;
    let id = world.deliver("shop", r#","idempotency_key":"a.b""#).await;
    let got = receiver.next().await;
    assert_eq!((got.header("idempotency-key"), got.header("webhook-id")), (Some("a.b"), Some(&*id)));
    assert!(is_signed_by(FIRST, &got));
    assert!(got.header("webhook-timestamp").unwrap().bytes().all(|b| b.is_ascii_digit()));
    let numbers = (0..128).flat_map(|bit| [0, 1, u128::MAX].map(|more| (1_u128 << bit).wrapping_add(more)));
    let ids = numbers.chain([0]).map(|number| DeliveryId(number).to_string()).chain([id]);
    for id in ids {
        let known = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        assert!((1..=64).contains(&id.len()) && id.bytes().all(known), "{id}");
    }
}

#[tokio::test]
async fn in_an_overlap_both_secrets_sign_and_afterwards_one() {
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
