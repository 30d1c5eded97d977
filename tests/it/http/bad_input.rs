//! Bad input of every kind: the named status and code, the field named, nothing stored.

use super::{Answer, World};

const JSON: (&str, &str) = ("content-type", "application/json");

/// One request and what it is refused with.
struct Case {
    method: &'static str,
    path: &'static str,
    headers: &'static [(&'static str, &'static str)],
    body: String,
    status: u16,
    code: &'static str,
    fields: &'static [&'static str],
}

async fn check(world: &World, case: Case) {
    for base in [&world.server.ingest, &world.server.admin] {
        let mut request = world.ask(case.method, base, case.path).body(case.body.clone());
        for (name, value) in case.headers {
            request = request.header(*name, *value);
        }
        let answer = Answer::of(request).await;
        let shown: String = case.body.chars().take(80).collect();
        println!("{} {} {shown}", case.method, case.path);
        answer.refused(case.status, case.code, case.fields);
    }
}

fn deliveries(body: &str, status: u16, code: &'static str, fields: &'static [&'static str]) -> Case {
    let (method, path) = ("POST", "/v1/deliveries");
    Case { method, path, headers: &[JSON], body: body.to_owned(), status, code, fields }
}

fn send(
    headers: &'static [(&'static str, &'static str)],
    status: u16,
    code: &'static str,
    fields: &'static [&'static str],
) -> Case {
    Case { method: "POST", path: "/v1/send/kept", headers, body: "x".to_owned(), status, code, fields }
}

fn batch(
    headers: &'static [(&'static str, &'static str)],
    body: String,
    status: u16,
    code: &'static str,
    fields: &'static [&'static str],
) -> Case {
    Case { method: "POST", path: "/v1/batch", headers, body, status, code, fields }
}

#[tokio::test]
async fn every_kind_of_bad_input_is_named_and_stores_nothing() {
    let world = World::start().await;
    world.paused("kept").await;
    for case in json_cases().into_iter().chain(send_cases()).chain(batch_cases()).chain(other_cases()) {
        check(&world, case).await;
    }
    assert_eq!(world.stored().await, Vec::<serde_json::Value>::new());
}

fn json_cases() -> Vec<Case> {
    let large = format!(r#"{{"destination":"kept","payload":"{}"}}"#, "x".repeat(256 * 1024));
    let encoded = "QUFB".repeat(256 * 1024 / 3 + 1);
    let large_base64 = format!(r#"{{"destination":"kept","payload_base64":"{encoded}"}}"#);
    vec![
        deliveries("", 422, "invalid", &["destination", "payload"]),
        deliveries("{", 400, "malformed", &[]),
        deliveries("[]", 400, "malformed", &[]),
        deliveries("{}", 422, "invalid", &["destination", "payload"]),
        deliveries(r#"{"destination":"kept"}"#, 422, "invalid", &["payload"]),
        deliveries(r#"{"destination":"kept","payload":1,"colour":2}"#, 422, "invalid", &["colour"]),
        deliveries(r#"{"destination":"kept","payload":1,"payload_ref":"a"}"#, 422, "invalid", &["payload"]),
        deliveries(r#"{"destination":"kept","payload_base64":"%"}"#, 422, "invalid", &["payload_base64"]),
        deliveries(r#"{"destination":"kept","payload":1,"max_age_ms":1}"#, 422, "invalid", &["max_age_ms"]),
        deliveries(
            r#"{"destination":"kept","payload":1,"not_before":"9999-01-01T00:00:00Z"}"#,
            422,
            "invalid",
            &["not_before"],
        ),
        deliveries(
            r#"{"destination":"kept","payload":1,"headers":{"Host":"x"}}"#,
            422,
            "invalid",
            &["headers.Host"],
        ),
        deliveries(
            r#"{"destination":"kept","payload":1,"region":"nowhere"}"#,
            422,
            "wrong_region",
            &["region"],
        ),
        deliveries(r#"{"destination":"kept","payload":1,"class":"none"}"#, 422, "class_unknown", &["class"]),
        deliveries(
            r#"{"destination":"kept","payload_ref":"file:///x"}"#,
            422,
            "ref_not_allowed",
            &["payload_ref"],
        ),
        deliveries(r#"{"destination":"none","payload":1}"#, 404, "destination_unknown", &["destination"]),
        deliveries(
            r#"{"destination":"kept","tenant":"other","payload":1}"#,
            404,
            "destination_unknown",
            &["destination"],
        ),
        deliveries(&large, 413, "payload_too_large", &[]),
        deliveries(&large_base64, 413, "payload_too_large", &[]),
        deliveries(&"x".repeat(2 * 1024 * 1024), 413, "payload_too_large", &[]),
    ]
}

fn send_cases() -> Vec<Case> {
    let mut large = send(&[], 413, "payload_too_large", &[]);
    large.body = "x".repeat(256 * 1024 + 1);
    let mut unknown = send(&[], 404, "destination_unknown", &["destination"]);
    unknown.path = "/v1/send/none";
    vec![
        send(&[("idempotency-key", "a b")], 422, "invalid", &["idempotency-key"]),
        send(&[("duehook-tenent", "acme")], 422, "invalid", &["duehook-tenent"]),
        send(&[("duehook-max-age-ms", "1")], 422, "invalid", &["duehook-max-age-ms"]),
        send(&[("duehook-class", "none")], 422, "class_unknown", &["class"]),
        send(&[("duehook-region", "nowhere")], 422, "wrong_region", &["region"]),
        send(&[("content-encoding", "gzip")], 415, "content_type", &[]),
        large,
        unknown,
    ]
}

fn batch_cases() -> Vec<Case> {
    const KEYED: [(&str, &str); 2] = [JSON, ("idempotency-key", "k")];
    const LINES: [(&str, &str); 1] = [("content-type", "application/x-ndjson")];
    let many = "{\"destination\":\"kept\",\"payload\":1}\n".repeat(1_001);
    vec![
        batch(&[JSON], "[{\"destination\":\"kept\",\"payload\":1}".into(), 400, "malformed", &[]),
        batch(&[JSON], "{}".into(), 400, "malformed", &[]),
        batch(&KEYED, "[]".into(), 422, "invalid", &["idempotency-key"]),
        batch(&LINES, many, 413, "payload_too_large", &[]),
        batch(&[JSON], " ".repeat(8 * 1024 * 1024 + 1), 413, "payload_too_large", &[]),
        batch(&[("content-type", "text/csv")], "a".into(), 415, "content_type", &[]),
    ]
}

fn other_cases() -> Vec<Case> {
    const GOOD: &str = r#"{"destination":"kept","payload":1}"#;
    let with = |headers, status, code, fields| Case { headers, ..deliveries(GOOD, status, code, fields) };
    let get = |path, status, code, fields| {
        let (method, headers, body) = ("GET", &[][..], String::new());
        Case { method, path, headers, body, status, code, fields }
    };
    vec![
        with(&[], 415, "content_type", &[]),
        with(&[("content-type", "application/x-www-form-urlencoded")], 415, "content_type", &[]),
        with(&[JSON, ("content-encoding", "gzip")], 415, "content_type", &[]),
        with(&[JSON, ("duehook-tenant", "acme")], 422, "invalid", &["duehook-tenant"]),
        with(&[JSON, ("host", "evil.example")], 421, "host_not_allowed", &[]),
        with(&[JSON, ("origin", "http://evil.example")], 403, "origin_not_allowed", &[]),
        Case { path: "/v1/deliveries?dry_run=1", ..deliveries(GOOD, 422, "invalid", &["dry_run"]) },
        Case { method: "PUT", ..deliveries(GOOD, 405, "method_not_allowed", &[]) },
        Case { path: "/v1/delivery", ..deliveries(GOOD, 404, "not_found", &[]) },
        get("/v1/deliveries/dlv_0", 404, "not_found", &[]),
        get("/v1/deliveries/dlv_00000000000000000000000000", 404, "not_found", &[]),
        get("/v1/deliveries/dlv_00000000000000000000000000?full=1", 422, "invalid", &["full"]),
        get("/v1/deliveries?idempotency_key=k", 422, "invalid", &["tenant"]),
        get("/v1/deliveries?tenant=acme&idempotency_key=k&colour=1", 422, "invalid", &["colour"]),
        get("/v1/nothing", 404, "not_found", &[]),
    ]
}

#[tokio::test]
async fn a_key_that_was_used_and_a_destination_that_is_disabled() {
    let world = World::start().await;
    world.paused("kept").await;
    world.deliver("kept", r#","idempotency_key":"k""#).await;
    let other = world.post(r#"{"destination":"kept","payload":2,"idempotency_key":"k"}"#).await;
    other.refused(409, "key_reused", &["idempotency_key"]);
    world.admin("POST", "/v1/destinations/kept/disable", r#"{"reason":"moved"}"#).await.expect(200);
    let refused = world.post(r#"{"destination":"kept","payload":1}"#).await;
    refused.refused(409, "destination_disabled", &[]);
    assert_eq!(world.stored().await.len(), 1);
}

#[tokio::test]
async fn a_method_that_a_route_has_not_is_told_those_it_has() {
    let world = World::start().await;
    let answer = world.admin("DELETE", "/v1/stats", "").await;
    answer.refused(405, "method_not_allowed", &[]);
    assert_eq!(answer.header("allow"), Some("GET,HEAD"));
}

/// Admin routes and figures are not on the ingest listener.
#[tokio::test]
async fn the_ingest_listener_has_the_ingest_routes_only() {
    let world = World::start().await;
    for path in ["/", "/metrics", "/v1/stats", "/v1/destinations", "/v1/version"] {
        let answer = Answer::of(world.ask("GET", &world.server.ingest, path)).await;
        answer.refused(404, "not_found", &[]);
    }
    let answer = Answer::of(world.ask("GET", &world.server.ingest, "/v1/deliveries")).await;
    answer.refused(422, "invalid", &["tenant", "idempotency_key"]);
    for path in ["/healthz", "/readyz"] {
        Answer::of(world.ask("GET", &world.server.ingest, path)).await.expect(200);
    }
}
