//! Every operation is asked for something that it does, and answers as the document says.

use std::collections::BTreeSet;

use duehook::drill::receiver::{Receiver, Record, Script};
use duehook::http::openapi::operation::On;
use duehook::http::openapi::operations;
use reqwest::{Client, Method};
use serde_json::{Value, json};

use super::{judge, operation};
use crate::TestServer;

const JSON: &str = "application/json";

struct Tour {
    server: TestServer,
    client: Client,
    /// What was answered well so far.
    seen: BTreeSet<(String, String)>,
}

impl Tour {
    /// One request; the answer is a good one, and as documented.
    async fn ask(&mut self, method: &str, path: &str, body: impl ToString, status: u16) -> Value {
        self.bring(method, path, JSON, body.to_string(), status).await
    }

    async fn bring(&mut self, method: &str, path: &str, media: &str, body: String, status: u16) -> Value {
        let verb = Method::from_bytes(method.as_bytes()).unwrap();
        let request = self.client.request(verb, format!("{}{path}", self.server.admin));
        let answer = request.header("content-type", media).body(body).send().await.unwrap();
        let (got, media) = (answer.status().as_u16(), crate::http::media(answer.headers()));
        let text = answer.text().await.unwrap();
        assert_eq!(got, status, "{method} {path}: {text}");
        judge(method, path, got, media.as_deref(), &text);
        let pattern = operation(method, path.split('?').next().unwrap()).expect("an operation");
        self.seen.insert((method.to_owned(), pattern.to_owned()));
        serde_json::from_str(&text).unwrap_or(Value::String(text))
    }
}

#[tokio::test]
async fn every_operation_does_what_the_document_says() {
    let client = Client::builder().no_proxy().build().unwrap();
    let mut tour = Tour { server: crate::server().await, client, seen: BTreeSet::new() };
    let receiver = Receiver::start(Script::Paths, Record::Count).await.unwrap();
    for path in ["/", "/metrics", "/openapi.json", "/healthz", "/readyz", "/v1/version", "/v1/stats"] {
        tour.ask("GET", path, "", 200).await;
    }
    destinations(&mut tour, &receiver.url("/ok")).await;
    deliveries(&mut tour).await;
    whole_server(&mut tour).await;
    let all: BTreeSet<_> =
        operations(On::Admin).map(|one| (one.method.to_owned(), one.path.to_owned())).collect();
    let missing: Vec<_> = all.difference(&tour.seen).collect();
    assert!(missing.is_empty(), "never asked for anything good: {missing:?}");
}

async fn destinations(tour: &mut Tour, url: &str) {
    let body = json!({"tenant": "acme", "url": url, "allow_cidrs": ["127.0.0.1/32"], "headers": {"x-a": "1"},
        "rate": {"per_second": 2.5, "burst": 2}});
    tour.ask("PUT", "/v1/destinations/shop", &body, 201).await;
    tour.ask("PUT", "/v1/destinations/shop", &body, 200).await;
    tour.ask("PATCH", "/v1/destinations/shop", json!({"rate": null}), 200).await;
    tour.ask("GET", "/v1/destinations/shop", "", 200).await;
    tour.ask("POST", "/v1/destinations/shop/secrets/rotate", "", 200).await;
    tour.ask("POST", "/v1/destinations/shop/test", "", 200).await;
    tour.ask("PUT", "/v1/destinations/shop/hold", json!({"until": "2999-01-01T00:00:00Z"}), 200).await;
    tour.ask("GET", "/v1/destinations", "", 200).await;
    tour.ask("DELETE", "/v1/destinations/shop/hold", "", 200).await;
    for verb in ["disable", "enable", "pause"] {
        tour.ask("POST", &format!("/v1/destinations/shop/{verb}"), json!({"reason": "a tour"}), 200).await;
    }
    tour.ask("PUT", "/v1/destinations/other", &body, 201).await;
    tour.ask("DELETE", "/v1/destinations/other", "", 204).await;
}

async fn deliveries(tour: &mut Tour) {
    let body = json!({"destination": "shop", "payload": 1, "labels": {"a": "b"}, "idempotency_key": "k"});
    let taken = tour.ask("POST", "/v1/deliveries", &body, 202).await;
    tour.ask("POST", "/v1/deliveries", &body, 200).await;
    tour.ask("POST", "/v1/send/shop", "{}", 202).await;
    tour.ask("POST", "/v1/batch", json!([body, {"destination": "nowhere", "payload": 1}, 7]), 200).await;
    let id = taken["id"].as_str().unwrap().to_owned();
    let of = |what: &str| format!("/v1/deliveries/{id}{what}");
    tour.ask("GET", &of("/explain"), "", 200).await;
    tour.ask("POST", "/v1/destinations/shop/resume", "", 200).await;
    while tour.ask("GET", &of(""), "", 200).await["state"] != "terminal" {}
    tour.ask("GET", &of("/attempts"), "", 200).await;
    tour.ask("GET", &of("/explain"), "", 200).await;
    tour.ask("GET", "/v1/deliveries?state=terminal&outcome=delivered&label=a:b&order=-finished", "", 200)
        .await;
    tour.ask("GET", "/v1/deliveries?tenant=acme&idempotency_key=k", "", 200).await;
    tour.ask("POST", "/v1/destinations/shop/pause", "", 200).await;
    let later = json!({"destination": "shop", "payload": 1});
    let later = tour.ask("POST", "/v1/deliveries", later, 202).await;
    let later = |what: &str| format!("/v1/deliveries/{}{what}", later["id"].as_str().unwrap());
    tour.ask("POST", &later("/retry"), "", 200).await;
    tour.ask("DELETE", &later("/payload"), "", 204).await;
    let waiting = tour.ask("POST", "/v1/send/shop", "{}", 202).await;
    let waiting = waiting["id"].as_str().unwrap();
    tour.ask("POST", &format!("/v1/deliveries/{waiting}/cancel"), "", 200).await;
}

async fn jobs(tour: &mut Tour) {
    let all = json!({"action": "cancel", "filter": {"destination": "shop", "state": ["ready", "delayed"]}});
    let dry = json!({"action": "retry", "filter": {"outcome": "cancelled"}, "dry_run": true});
    tour.ask("POST", "/v1/bulk", &dry, 200).await;
    let job = tour.ask("POST", "/v1/bulk", &all, 202).await;
    let job = format!("/v1/bulk/{}", job["id"].as_str().unwrap());
    tour.ask("GET", &job, "", 200).await;
    tour.ask("GET", "/v1/bulk?limit=5", "", 200).await;
    tour.ask("DELETE", &job, "", 200).await;
    let body = json!({"tenant": "acme", "url": "https://gone.example.com/"});
    tour.ask("PUT", "/v1/destinations/gone", &body, 201).await;
    tour.ask("POST", "/v1/destinations/gone/pause", "", 200).await;
    tour.ask("POST", "/v1/send/gone", "{}", 202).await;
    tour.ask("DELETE", "/v1/destinations/gone?waiting=cancel", "", 202).await;
}

async fn whole_server(tour: &mut Tour) {
    for path in ["/v1/stats", "/v1/stats/tenants", "/v1/stats/destinations", "/metrics"] {
        tour.ask("GET", path, "", 200).await;
    }
    jobs(tour).await;
    for path in ["/v1/config", "/v1/audit?action=destination.create&limit=2"] {
        tour.ask("GET", path, "", 200).await;
    }
    tour.ask("POST", "/v1/config/reload", "", 200).await;
    tour.ask("POST", "/v1/claims/stop", "", 200).await;
    tour.ask("POST", "/v1/claims/start", "", 200).await;
    let copy = tour.server.data().with_file_name("copy.redb");
    tour.ask("POST", "/v1/backup", json!({"path": copy}), 201).await;
    tour.ask("POST", "/v1/backup/hold", json!({"ttl_ms": 1_000}), 200).await;
    tour.ask("DELETE", "/v1/backup/hold", "", 204).await;
    let drained = tour.ask("POST", "/v1/drain", "", 200).await;
    let Value::String(lines) = tour.ask("GET", "/v1/export", "", 200).await else { panic!("lines") };
    tour.bring("POST", "/v1/import", "application/x-ndjson", lines, 200).await;
    tour.ask("GET", "/readyz", "", 503).await;
    tour.ask("POST", "/v1/claims/start", json!({"fence": drained["fence"]}), 200).await;
}
