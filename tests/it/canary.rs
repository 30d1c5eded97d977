//! S15, T67: words that must stay inside go in by every way there is, and everything that comes out is
//! searched for them, as they are and encoded. Where one may be is said once, by [`Word::may_be`].
#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

mod cage;
mod panic;
mod printed;

use std::fs;

use serde_json::{Value, json};

use crate::api::until;
use cage::{Cage, OPS, PRODUCER, READER};

/// What must stay inside: each is a text that occurs nowhere else.
pub(crate) mod words {
    /// Of the settings: what opens the listeners.
    pub(crate) const OPS: &str = "KnrTokenOfOps4417";
    pub(crate) const READER: &str = "KnrTokenOfReader4417";
    pub(crate) const PRODUCER: &str = "KnrTokenOfProducer4417";
    pub(crate) const STRANGER: &str = "KnrTokenOfNobody4417";
    /// Of a destination.
    pub(crate) const PATH: &str = "KnrUrlPath4417";
    pub(crate) const QUERY: &str = "KnrUrlQuery4417";
    pub(crate) const HEADER: &str = "KnrHeaderValue4417";
    /// The bytes of two secrets, of the lengths that they have.
    pub(crate) const SYMMETRIC: &str = "KnrSymmetricSecret4417ab";
    pub(crate) const SEED: &str = "KnrEd25519Seed4417abcdefghijklmn";
    /// Of a delivery.
    pub(crate) const OWN_HEADER: &str = "KnrOwnHeader4417";
    pub(crate) const INLINE: &str = "KnrInlineBody4417";
    pub(crate) const BASE64: &str = "KnrBase64Body4417";
    pub(crate) const RAW: &str = "KnrRawBody4417";
    pub(crate) const BATCH: &str = "KnrBatchBody4417";
    pub(crate) const REFERRED: &str = "KnrReferredBody4417";
    pub(crate) const TRIAL: &str = "KnrTestBody4417";
    /// Of what receivers say.
    pub(crate) const ANSWER: &str = "KnrAnswerBody4417";
    pub(crate) const ANSWER_HEADER: &str = "KnrAnswerHeader4417";
    pub(crate) const LOCATION: &str = "KnrLocation4417";
    /// Of what is refused.
    pub(crate) const REFUSED: &str = "KnrRefused4417";

    pub(crate) const ALL: [&str; 20] = [
        OPS,
        READER,
        PRODUCER,
        STRANGER,
        PATH,
        QUERY,
        HEADER,
        SYMMETRIC,
        SEED,
        OWN_HEADER,
        INLINE,
        BASE64,
        RAW,
        BATCH,
        REFERRED,
        TRIAL,
        ANSWER,
        ANSWER_HEADER,
        LOCATION,
        REFUSED,
    ];
    /// What a destination has.
    pub(crate) const OF_DESTINATIONS: [&str; 5] = [PATH, QUERY, HEADER, SYMMETRIC, SEED];
    /// What a delivery has.
    pub(crate) const OF_DELIVERIES: [&str; 5] = [OWN_HEADER, INLINE, BASE64, RAW, BATCH];
}

/// Something that must not come out but in its places.
#[derive(Debug)]
struct Word {
    text: String,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Url,
    /// A secret, a header or a body: an export has it.
    Stored,
    /// The secret that was made: its answer has it, once.
    Made,
    /// What nobody is shown.
    Never,
}

impl Word {
    /// Whether what came out there may hold it.
    fn may_be(&self, place: &str) -> bool {
        let owners = place.starts_with("ops ") && place.contains(" /v1/destinations");
        match self.kind {
            Kind::Url => owners || place.starts_with("cli ops dest ") || place == EXPORT,
            Kind::Stored => place == EXPORT,
            Kind::Made => place == ROTATED || place == EXPORT,
            Kind::Never => false,
        }
    }
}

const EXPORT: &str = "ops GET /v1/export";
const ROTATED: &str = "ops POST /v1/destinations/d0/secrets/rotate";

fn kind(word: &str) -> Kind {
    match word {
        words::PATH | words::QUERY => Kind::Url,
        words::HEADER | words::SYMMETRIC | words::SEED => Kind::Stored,
        word if words::OF_DELIVERIES.contains(&word) => Kind::Stored,
        _ => Kind::Never,
    }
}

/// The answers of receivers, and what comes of one that is not there, has no certificate or no name.
const PATHS: [&str; 10] =
    ["ok", "busy", "broken", "moved", "gone", "no", "silent", "closed", "plain", "unknown"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s15_t67_what_is_secret_comes_out_nowhere() {
    let mut cage = Cage::start().await;
    destinations(&cage).await;
    deliveries(&cage).await;
    refused(&cage).await;
    operators(&cage).await;
    listings(&cage).await;
    command_line(&cage);
    let made = rotated(&cage).await;
    erased_and_exported(&cage).await;
    cage.stop();
    let mut all: Vec<Word> =
        words::ALL.iter().map(|word| Word { text: (*word).to_owned(), kind: kind(word) }).collect();
    all.push(Word { text: made, kind: Kind::Made });
    all.push(Word { text: cage.key_line.clone(), kind: Kind::Stored });
    cage.judge(&all);
}

/// One destination for each thing that can go wrong, with secrets in every place that has room for one.
async fn destinations(cage: &Cage) {
    for (place, path) in PATHS.iter().enumerate() {
        let url = cage.url(path);
        let settings = json!({
            "tenant": "acme", "url": url, "allow_cidrs": ["127.0.0.1/32"], "timeout_ms": 2_000,
            "headers": {"x-key": words::HEADER, "authorization": format!("Bearer {}", words::HEADER)},
            "secrets": [cage.secret(words::SYMMETRIC), cage.seed(words::SEED)],
            "tls": {"client_cert_pem": cage.certificate, "client_key_pem": cage.key},
        });
        cage.ask(OPS, "PUT", &format!("/v1/destinations/d{place}"), &settings).await.expect(201);
    }
}

/// Bodies of every kind to every destination, and what came of them.
async fn deliveries(cage: &Cage) {
    for place in 0..PATHS.len() {
        let to = format!("d{place}");
        let headers = json!({"x-own": words::OWN_HEADER});
        let inline = json!({"destination": to, "idempotency_key": format!("k{place}"), "headers": headers,
                            "payload": {"text": words::INLINE}});
        let id = cage.ask(PRODUCER, "POST", "/v1/deliveries", &inline).await.expect(202);
        let id = id["id"].as_str().unwrap().to_owned();
        until("it was tried", async || cage.tried(&id).await).await;
        for more in ["", "/attempts", "/explain"] {
            cage.ask(READER, "GET", &format!("/v1/deliveries/{id}{more}"), &Value::Null).await.expect(200);
        }
    }
    for place in [0, 1, 4] {
        cage.ask(OPS, "GET", &format!("/v1/destinations/d{place}"), &Value::Null).await.expect(200);
    }
    let base64 = json!({"destination": "d0", "payload_base64": cage::base64(words::BASE64)});
    cage.ask(PRODUCER, "POST", "/v1/deliveries", &base64).await.expect(202);
    let referred = json!({"destination": "d0", "payload_ref": cage.reference("body")});
    cage.ask(PRODUCER, "POST", "/v1/deliveries", &referred).await.expect(202);
    cage.send(PRODUCER, "/v1/send/d0", "text/plain", words::RAW.into()).await.expect(202);
    let lines = format!("{}\n{{\"{}\n", json!({"destination": "d0", "payload": words::BATCH}), words::BATCH);
    cage.send(PRODUCER, "/v1/batch", "application/x-ndjson", lines.into()).await.expect(200);
    let missing = json!({"destination": "d0", "payload_ref": cage.reference("missing")});
    cage.ask(PRODUCER, "POST", "/v1/deliveries", &missing).await.expect(202);
    until("all that can has arrived", async || cage.arrived(5)).await;
    cage.went_out();
}

/// What is not taken is not repeated in the refusal.
async fn refused(cage: &Cage) {
    let word = words::REFUSED;
    let refused = async |method: &str, path: &str, body: Value, want: u16| {
        cage.ask(OPS, method, path, &body).await.expect(want);
    };
    let send = async |path: &str, kind: &str, body: String, want: u16| {
        cage.send(OPS, path, kind, body.into()).await.expect(want);
    };
    let json = "application/json";
    send("/v1/deliveries", json, format!(r#"{{"destination":"d0","payload":"{word}"#), 400).await;
    send("/v1/deliveries", json, format!("\"{word}\""), 400).await;
    send("/v1/deliveries", json, format!(r#"{{"destination":"d0","payload":{word}}}"#), 400).await;
    send("/v1/batch", json, format!(r#"[{{"payload":"{word}"}}, {word}]"#), 400).await;
    send("/v1/deliveries", &format!("text/{word}"), "{}".to_owned(), 415).await;
    let to = |more: Value| {
        let mut body = json!({"destination": "d0", "payload": 1});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    for more in [
        json!({"payload_base64": format!("!{word}")}),
        json!({"payload": null, "payload_base64": word}),
        json!({"headers": {"x": format!("{word}\n")}}),
        json!({"headers": {"host": word}}),
        json!({"not_before": word}),
        json!({"class": format!("/{word}")}),
        json!({"tenant": format!("/{word}")}),
        json!({"idempotency_key": format!("{word}\"")}),
        json!({"content_type": format!("{word}\r\n")}),
        json!({"max_age_ms": word}),
        json!({"labels": {"a": [word]}}),
    ] {
        refused("POST", "/v1/deliveries", to(more), 422).await;
    }
    for uri in ["file:///srv/outbox/{}", "https://store.example/a?key={}", "{}", "file://{}@host/a"] {
        let body = json!({"destination": "d0", "payload_ref": uri.replace("{}", word)});
        refused("POST", "/v1/deliveries", body, 422).await;
    }
    refused("POST", "/v1/deliveries", json!({"destination": format!("/{word}"), "payload": 1}), 422).await;
    let reused = json!({"destination": "d0", "idempotency_key": "k0", "payload": word});
    refused("POST", "/v1/deliveries", reused, 409).await;
    settings_refused(cage, word).await;
}

async fn settings_refused(cage: &Cage, word: &str) {
    let put = async |more: Value| {
        let mut body = json!({"tenant": "acme", "url": "https://shop.example/"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        cage.ask(OPS, "PUT", "/v1/destinations/bad", &body).await.expect(422);
    };
    for url in [
        format!("ftp://shop.example/{word}"),
        format!("https://user:{word}@shop.example/"),
        format!("https://10.0.0.1/{word}"),
        format!("http://shop.example/{word}"),
        format!("https://shop.example:99/?{word}"),
        format!("https://shop.example/#{word}"),
        format!("//{word}"),
    ] {
        put(json!({"url": url})).await;
    }
    for more in [
        json!({"secrets": [format!("whsec_{word}")]}),
        json!({"secrets": [word, word]}),
        json!({"secrets": word}),
        json!({"headers": {"x": format!("{word}\n")}}),
        json!({"tls": {"client_cert_pem": word, "client_key_pem": word}}),
        json!({"tls": {"ca_pem": word}}),
        json!({"tls": word}),
        json!({"allow_cidrs": [word]}),
        json!({"timeout_ms": word}),
    ] {
        put(more).await;
    }
    let rotate = "/v1/destinations/d0/secrets/rotate";
    cage.ask(OPS, "POST", rotate, &json!({"secret": format!("whsec_{word}")})).await.expect(422);
    let line = format!("{{\"kind\":\"delivery\",\"payload_base64\":\"{word}\"}}\n{word}\n");
    for body in [line.clone(), format!("{}\n{line}", cage.header())] {
        let answer = cage.send(OPS, "/v1/import", "application/x-ndjson", body.into()).await;
        assert!((200..500).contains(&answer.status), "{answer:?}");
    }
    cage.ask(OPS, "POST", "/v1/backup", &json!({"path": word})).await.expect(422);
    cage.ask(OPS, "GET", &format!("/v1/deliveries?cursor={word}&state={word}"), &Value::Null)
        .await
        .expect(422);
    for path in ["/v1/stats", "/v1/destinations/d0", "/metrics", "/v1/no/such/route"] {
        let answer = cage.ask(words::STRANGER, "GET", path, &Value::Null).await;
        assert!(matches!(answer.status, 401 | 404), "{answer:?}");
        cage.ask(OPS, "GET", &format!("{path}/{word}?access_token={word}"), &Value::Null).await;
    }
}

/// What operators do, with secrets in it where they can have any.
async fn operators(cage: &Cage) {
    for place in [0, 2, 3, 5, 7, 8, 9] {
        let body = json!({"payload": words::TRIAL});
        let path = format!("/v1/destinations/d{place}");
        // Held, where the receiver asked for it.
        let answer = cage.ask(OPS, "POST", &format!("{path}/test"), &body).await;
        assert!(matches!(answer.status, 200 | 409), "{answer:?}");
        cage.ask(OPS, "PATCH", &path, &json!({"timeout_ms": 3_000})).await.expect(200);
    }
    cage.ask(OPS, "POST", "/v1/destinations/d2/pause", &json!({"reason": "a reason"})).await.expect(200);
    let dry = json!({"action": "cancel", "filter": {"destination": "d2"}, "dry_run": true});
    cage.ask(OPS, "POST", "/v1/bulk", &dry).await;
    cage.ask(OPS, "POST", "/v1/config/reload", &Value::Null).await.expect(200);
    cage.ask(OPS, "POST", "/v1/backup", &json!({"path": cage.path("copy.redb")})).await.expect(201);
    cage.ask(OPS, "POST", "/v1/backup", &json!({"path": cage.path("copy.redb")})).await.expect(409);
    cage.ask(OPS, "POST", "/v1/backup", &json!({"path": cage.path("none/copy.redb")})).await;
}

/// Every list and page, as those see it who may only read, and as those who may do all.
async fn listings(cage: &Cage) {
    for who in [OPS, READER] {
        for path in [
            "/",
            "/metrics",
            "/openapi.json",
            "/readyz",
            "/healthz",
            "/v1/audit?limit=1000",
            "/v1/bulk",
            "/v1/config",
            "/v1/deliveries?limit=1000",
            "/v1/destinations",
            "/v1/destinations/d0",
            "/v1/stats",
            "/v1/stats/destinations",
            "/v1/stats/tenants",
            "/v1/version",
        ] {
            cage.ask(who, "GET", path, &Value::Null).await.expect(200);
        }
    }
    let host = cage.said("reader GET /v1/destinations/d0");
    assert!(host.contains("http://127.0.0.1\""), "scheme and host, and no more: {host}");
}

/// The same by the command line, and settings that are refused.
fn command_line(cage: &Cage) {
    for (who, arguments) in [
        (OPS, &["dest", "ls"][..]),
        (OPS, &["dest", "get", "d0"]),
        (OPS, &["dest", "test", "d8", "--json"]),
        (READER, &["dest", "get", "d0", "--json"]),
        (READER, &["ls", "--json"]),
        (READER, &["ls"]),
        (READER, &["audit"]),
        (READER, &["stats", "--destinations"]),
        (READER, &["top", "--once"]),
        (READER, &["config", "show"]),
        (READER, &["export", "--json"]),
        (words::STRANGER, &["ls", "--json"]),
    ] {
        cage.run(who, arguments, b"");
    }
    let word = words::REFUSED;
    for arguments in [
        &["dest", "test", "d0", "--data", &format!("{{{word}"), "--json"][..],
        &["dest", "set", "d0", "--header", word],
        &["dest", "set", "d0", "--url", &format!("ftp://a/{word}"), "--json"],
        &["--admin", &format!("http://user:{word}@127.0.0.1:9"), "ls"],
    ] {
        assert_ne!(cage.run(OPS, arguments, b""), 0, "{arguments:?}");
    }
    for text in [
        format!("[send]\nproxy = \"http://user:{word}@proxy.example:80\""),
        format!("[send]\nproxy = \"{word}\""),
        format!("[[token]]\nid = \"a\"\nsha256 = \"{word}\"\nscopes = [\"admin\"]"),
        format!("[[token]]\nid = \"a\"\ntoken = \"{word}\""),
        format!("[[token]]\nid = \"a\"\nsha256 = {word}"),
        format!("[send]\nca_file = \"\"\"{word}"),
        format!("[payload_refs]\nallow = [\"https://user:{word}@store.example/\"]"),
        format!("host_id = \"{word}\"\nhost_id = \"{word}\""),
        format!("data = [\"{word}\"]"),
    ] {
        assert_eq!(cage.check_config(&text), 78, "{text}");
    }
}

/// The secret that a rotation makes: shown in its answer.
async fn rotated(cage: &Cage) -> String {
    let path = "/v1/destinations/d0/secrets/rotate";
    let answer = cage.ask(OPS, "POST", path, &json!({})).await.expect(200);
    cage.ask(OPS, "GET", "/v1/destinations/d0", &Value::Null).await.expect(200);
    cage.ask(OPS, "GET", "/v1/audit?limit=1000", &Value::Null).await.expect(200);
    answer["secret"].as_str().unwrap().strip_prefix("whsec_").unwrap().to_owned()
}

/// What was erased is in no export; everything else is, so that this test can find it.
async fn erased_and_exported(cage: &Cage) {
    cage.ask(OPS, "POST", "/v1/drain", &json!({"wait_ms": 10_000})).await.expect(200);
    until("no attempt is out", async || {
        cage.ask(OPS, "POST", "/v1/drain", &json!({"wait_ms": 1_000})).await.expect(200)["leases_held"] == 0
    })
    .await;
    cage.ask(OPS, "GET", "/v1/export", &Value::Null).await.expect(200);
    let export = cage.said(EXPORT);
    for word in words::OF_DESTINATIONS.iter().chain([&words::OWN_HEADER, &words::INLINE]) {
        assert!(cage::forms(word).iter().any(|form| export.contains(form)), "{word} is not stored");
    }
    assert!(export.contains(&cage.key_line), "the key is not stored");
    let left = cage.ask(OPS, "GET", "/v1/deliveries?limit=1000", &Value::Null).await.expect(200);
    for delivery in left["data"].as_array().unwrap() {
        let path = format!("/v1/deliveries/{}/payload", delivery["id"].as_str().unwrap());
        cage.ask(OPS, "DELETE", &path, &Value::Null).await.expect(204);
    }
    let after = cage.ask(OPS, "GET", "/v1/export", &Value::Null).await;
    for word in words::OF_DELIVERIES {
        let found = cage::forms(word).into_iter().find(|form| after.text.contains(form));
        assert_eq!(found, None, "{word} was erased");
    }
    assert!(fs::read_to_string(cage.path("log")).unwrap().lines().count() > 10, "the log says what happened");
}
