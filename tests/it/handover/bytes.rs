//! The bytes of a payload on their way through an export.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use duehook::drill::receiver::{Receiver, Record, Script};

use super::*;

/// What a pass through floating point, or through any JSON library, would change.
const NUMBERS: &str = r#"{"id":9007199254740993,"x":12345678901234567890,"d":0.1000,"e":1E400,"z":-0}"#;

/// C198: taken, exported, imported and delivered: the same bytes at each step. The page at `/` is
/// told of no body.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c198_numbers_are_moved_as_they_stood() {
    let receiver = Receiver::start(Script::List(vec![Answer::status(204)]), Record::Bodies).await.unwrap();
    let server = fresh().await;
    let api = Api::of(&server);
    api.destination("shop", &receiver.url("/"), "").await;
    api.admin("POST", "/v1/destinations/shop/pause", "").await.expect(200);
    let line = format!("{{\"destination\":\"shop\",\"payload\":{NUMBERS}}}");
    let taken = api.batch(line).await.unwrap().expect(200);
    let id = taken["results"][0]["id"].as_str().unwrap().to_owned();
    let raw = api.send("shop", None, NUMBERS.into()).await.unwrap().expect(202);
    let digest = api.get(&id).await["payload"]["sha256"].clone();
    assert_eq!(raw["payload"]["sha256"], digest);
    drain(&api).await;
    let exported = export(&api).await;
    let bodies: Vec<Vec<u8>> = exported
        .iter()
        .filter_map(|line| read(line)["payload_base64"].as_str().map(|text| STANDARD.decode(text).unwrap()))
        .collect();
    assert_eq!(bodies, [NUMBERS.as_bytes(); 2]);
    let other = fresh().await;
    let there = Api::of(&other);
    there.import("", joined(&exported)).await.expect(200);
    assert_eq!(there.get(&id).await["payload"]["sha256"], digest);
    there.admin("POST", "/v1/destinations/shop/resume", "").await.expect(200);
    there.quiet().await;
    let arrived: Vec<_> = receiver.received().into_iter().map(|one| one.body).collect();
    assert_eq!(arrived, [NUMBERS.as_bytes(); 2]);
}
