//! The bytes of a payload arrive as they stood.

use std::sync::Arc;

use duehook::drill::receiver::{Answer as Said, Receiver as Drill, Record, Script};
use duehook::sender::MAX_EXCERPT;
use reqwest::{Client, StatusCode};
use tempfile::TempDir;

use super::receiver::Receiver;
use super::{Answer, World};
use crate::TestServer;

/// Sends `body` raw and takes what arrives.
async fn check_sent(world: &World, receiver: &mut Receiver, body: &[u8]) {
    let request = world.ask("POST", &world.server.ingest, "/v1/send/shop");
    let request = request.header("content-type", "application/json; charset=utf-8").body(body.to_vec());
    let taken = Answer::of(request).await.expect(202);
    let received = receiver.next().await;
    assert!(received.body == body, "{} bytes sent, {} arrived", body.len(), received.body.len());
    assert_eq!(received.header("content-length").unwrap(), body.len().to_string());
    assert_eq!(received.header("content-type"), Some("application/json; charset=utf-8"));
    assert_eq!(received.header("webhook-id"), taken["id"].as_str());
    assert_eq!(received.header("idempotency-key"), taken["id"].as_str());
    assert_eq!(received.header("duehook-attempt"), Some("1"));
}

/// Sends `payload` inside a delivery object and takes what arrives.
async fn check_json(world: &World, receiver: &mut Receiver, payload: &str) {
    let body = format!("{{\"destination\":\"shop\", \"payload\" :  {payload} \r\n}}");
    world.post(&body).await.expect(202);
    let received = receiver.next().await;
    assert!(
        received.body == payload.as_bytes(),
        "{} bytes sent, {} arrived",
        payload.len(),
        received.body.len()
    );
    assert_eq!(received.header("content-type"), Some("application/json"));
}

/// A world whose server has this variable set.
fn set_to(name: &str, value: &str) -> World {
    let server = TestServer::start(Arc::new(TempDir::new().unwrap()), &[(name, value)]);
    World { server, client: Client::builder().no_proxy().build().unwrap() }
}

async fn world() -> (World, Receiver) {
    let (world, receiver) = (World::start().await, Receiver::start().await);
    world.leading_to("shop", &receiver.url).await;
    (world, receiver)
}

const NUMBERS: &str = r#"{"id":9007199254740993,"x":12345678901234567890,"d":0.1000,"e":1E400,"z":-0}"#;
const RAW_UNICODE: &str = r#"{"n":"Zoë 😀 日本"}"#;
const ESCAPED: &str = r#"{"n":"Zo\u00eb \ud83d\ude00 \/ \ud800"}"#;
const DOUBLED: &str = "{ \"a\" : 1,\r\n\t\"a\":2 }";

#[tokio::test]
async fn c198_c199_c200_payloads_arrive_byte_for_byte() {
    let (world, mut receiver) = world().await;
    for payload in [NUMBERS, RAW_UNICODE, ESCAPED, DOUBLED, "null", "\"\u{2028}\u{2029}\"", "[ ]"] {
        check_json(&world, &mut receiver, payload).await;
        check_sent(&world, &mut receiver, payload.as_bytes()).await;
    }
    let odd: [&[u8]; 4] =
        [b"\xef\xbb\xbf{\"a\":1}  \r\n", b"\xff\xfe\x00invalid utf-8\x80", b"{\"a\":", b"\0"];
    for body in odd {
        check_sent(&world, &mut receiver, body).await;
    }
    assert!(receiver.is_empty());
}

#[tokio::test]
async fn c207_sizes_at_the_edges() {
    for (most, set) in [(256 * 1024, ""), (1024 * 1024, "1MiB")] {
        let (world, mut receiver) = match set {
            "" => world().await,
            set => (set_to("DUEHOOK_INGEST__MAX_PAYLOAD", set), Receiver::start().await),
        };
        if !set.is_empty() {
            world.leading_to("shop", &receiver.url).await;
        }
        for size in [0, 1, 20_000, most] {
            check_sent(&world, &mut receiver, &vec![b'x'; size]).await;
        }
        let request = world.ask("POST", &world.server.ingest, "/v1/send/shop").body(vec![b'x'; most + 1]);
        Answer::of(request).await.refused(413, "payload_too_large", &[]);
        assert_eq!(world.stored().await.len(), 4);
    }
}

/// C201: an answer is cut at a byte, wherever in a character that is, and shown all the same.
#[tokio::test]
async fn c201_an_answer_is_cut_in_the_middle_of_a_character() {
    let emoji = "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}";
    let bodies: [Vec<u8>; 5] = [
        [&[b'a'; MAX_EXCERPT - 1][..], "\u{20ac}".repeat(30).as_bytes()].concat(),
        vec![0x80; 2 * MAX_EXCERPT],
        ["a".repeat(MAX_EXCERPT - 9).as_bytes(), emoji.as_bytes()].concat(),
        ["a".repeat(MAX_EXCERPT - 2).as_bytes(), emoji.as_bytes()].concat(),
        "\u{20ac}".into(),
    ];
    for body in bodies {
        let answer =
            Said::Reply { status: StatusCode::NOT_FOUND, headers: vec![], body: body.clone().into() };
        let receiver = Drill::start(Script::List(vec![answer]), Record::Count).await.unwrap();
        let world = set_to("DUEHOOK_SEND__KEEP_RESPONSE_EXCERPT", "true");
        world.leading_to("shop", &receiver.url("/")).await;
        let id = world.deliver("shop", "").await;
        world.ended(&id).await;
        let read = world.admin("GET", &format!("/v1/deliveries/{id}/attempts"), "").await.expect(200);
        let kept = &body[..body.len().min(MAX_EXCERPT)];
        assert_eq!(read["data"][0]["response_excerpt"], String::from_utf8_lossy(kept).into_owned());
    }
}

#[tokio::test]
async fn c109_deep_nesting_is_delivered() {
    let (world, mut receiver) = world().await;
    let arrays = format!("{}{}", "[".repeat(31_000), "]".repeat(31_000));
    let objects = format!("{}1{}", "{\"a\":".repeat(31_000), "}".repeat(31_000));
    for deep in [arrays, objects] {
        check_json(&world, &mut receiver, &deep).await;
        check_sent(&world, &mut receiver, deep.as_bytes()).await;
    }
    check_sent(&world, &mut receiver, "[".repeat(62_000).as_bytes()).await;
    let broken = format!(r#"{{"destination":"shop","payload":{}}}"#, "[".repeat(62_000));
    world.post(&broken).await.refused(400, "malformed", &[]);
}

#[tokio::test]
async fn base64_and_own_headers() {
    let (world, mut receiver) = world().await;
    let body =
        r#"{"destination":"shop","payload_base64":"//4A","headers":{"X-Shop":"7"},"idempotency_key":"k"}"#;
    let id = world.post(body).await.expect(202)["id"].as_str().unwrap().to_owned();
    let received = receiver.next().await;
    assert_eq!(&*received.body, b"\xff\xfe\x00");
    assert_eq!(received.header("content-type"), Some("application/octet-stream"));
    assert_eq!((received.header("x-shop"), received.header("idempotency-key")), (Some("7"), Some("k")));
    assert_eq!(world.ended(&id).await["outcome"], "delivered");
    let attempts = world.admin("GET", &format!("/v1/deliveries/{id}/attempts"), "").await.expect(200);
    let attempt = &attempts["data"][0];
    assert_eq!(
        (&attempt["n"], &attempt["result"], &attempt["sent"]),
        (&1.into(), &"success".into(), &"yes".into())
    );
    assert_eq!((&attempt["status"], &attempt["retry_after"]["kind"]), (&204.into(), &"absent".into()));
    let explained = world.admin("GET", &format!("/v1/deliveries/{id}/explain"), "").await.expect(200);
    assert_eq!(explained["verdict"], "terminal");
}
