//! Figures: rankings of destinations and tenants, explanations, and the metrics by name.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::World;
use super::receiver::Receiver;
use crate::api::until;

/// A place that nothing answers at: the discard port of this machine.
const NOBODY: &str = "http://127.0.0.1:9/";

impl World {
    /// A destination of this tenant that is paused, with so many deliveries waiting.
    async fn waiting(&self, name: &str, tenant: &str, deliveries: usize) {
        let body = format!(r#"{{"tenant":"{tenant}","url":"https://shop.example.com/hook"}}"#);
        self.admin("PUT", &format!("/v1/destinations/{name}"), &body).await.expect(201);
        self.admin("POST", &format!("/v1/destinations/{name}/pause"), "").await.expect(200);
        for _ in 0..deliveries {
            self.deliver(name, "").await;
        }
    }

    /// The names in a ranking, and its next cursor.
    async fn ranking(&self, of: &str, field: &str, query: &str) -> (Vec<String>, Value) {
        let page = self.admin("GET", &format!("/v1/stats/{of}?{query}"), "").await.expect(200);
        let rows = page["data"].as_array().unwrap().iter();
        let names = rows.map(|row| row[field].as_str().unwrap().to_owned()).collect();
        (names, page["next_cursor"].clone())
    }

    async fn explain(&self, id: &str) -> Value {
        self.admin("GET", &format!("/v1/deliveries/{id}/explain"), "").await.expect(200)
    }

    async fn metrics(&self) -> String {
        self.admin("GET", "/metrics", "").await.text
    }
}

fn fields(object: &Value) -> Vec<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

#[tokio::test]
async fn destinations_and_tenants_among_each_other() {
    let world = World::start().await;
    world.waiting("few", "b", 1).await;
    world.waiting("most", "a", 3).await;
    world.waiting("none", "c", 0).await;
    let paused = world.waiting("some", "b", 2);
    paused.await;
    world
        .admin("PUT", "/v1/destinations/held", r#"{"tenant":"c","url":"https://shop.example.com/"}"#)
        .await
        .expect(201);
    let hold = r#"{"until":"2999-01-01T00:00:00Z"}"#;
    world.admin("PUT", "/v1/destinations/held/hold", hold).await.expect(200);
    until("the rankings have it", async || {
        world.ranking("destinations", "destination", "").await.0 == ["most", "some", "few", "none", "held"]
    })
    .await;
    let page = world.admin("GET", "/v1/stats/destinations", "").await.expect(200);
    let (most, held) = (&page["data"][0], &page["data"][4]);
    let want = [
        "destination",
        "failing_since",
        "held",
        "hold_until",
        "in_flight",
        "oldest_due_at",
        "state",
        "tenant",
        "waiting",
    ];
    let mut got = fields(most);
    got.sort_unstable();
    assert_eq!(got, want);
    assert_eq!((&most["waiting"], &most["held"], &most["state"]), (&json!(3), &json!(3), &json!("paused")));
    assert_eq!((&held["hold_until"], &held["waiting"]), (&json!("2999-01-01T00:00:00.000Z"), &json!(0)));
    let (first, next) = world.ranking("destinations", "destination", "sort=waiting&limit=2").await;
    assert_eq!((first, &next), (vec!["most".into(), "some".into()], &json!("2")));
    let rest = world.ranking("destinations", "destination", "sort=waiting&limit=3&cursor=2").await;
    assert_eq!(rest, (vec!["few".into(), "none".into(), "held".into()], Value::Null));
    let oldest = world.ranking("destinations", "destination", "sort=oldest").await.0;
    assert_eq!(oldest, ["few", "most", "some", "none", "held"]);
    let tenants = world.admin("GET", "/v1/stats/tenants", "").await.expect(200);
    assert_eq!(world.ranking("tenants", "tenant", "sort=oldest").await.0, ["b", "a", "c"]);
    let second = &tenants["data"][1];
    let due = second["oldest_due_at"].clone();
    let want = json!({"tenant":"b","destinations":2,"waiting":3,"held":3,"in_flight":0,"oldest_due_at":due});
    let first = &tenants["data"][0];
    assert!(*second == want || first["tenant"] == "b", "{tenants}");
    assert_eq!(tenants["data"].as_array().unwrap().len(), 3);
    let check = async |path: &str, field: &str| {
        world.admin("GET", path, "").await.refused(422, "invalid", &[field]);
    };
    check("/v1/stats/destinations?sort=in_flight", "sort").await;
    check("/v1/stats/tenants?sort=held", "sort").await;
    check("/v1/stats/tenants?limit=1001", "limit").await;
    check("/v1/stats/tenants?cursor=x", "cursor").await;
    check("/v1/stats/tenants?tenant=a", "tenant").await;
}

/// What holds a delivery back is told under the name that API.md has for it, with its end.
#[tokio::test]
async fn every_block_that_a_receiver_causes_is_explained() {
    let world = World::start().await;
    let mut receiver = Receiver::start().await;
    world.leading_to("rated", &receiver.url).await;
    let rate = r#"{"rate":{"per_second":0.01,"burst":1}}"#;
    world.admin("PATCH", "/v1/destinations/rated", rate).await.expect(200);
    let first = world.deliver("rated", "").await;
    receiver.next().await;
    world.ended(&first).await;
    let second = world.deliver("rated", "").await;
    let rated = world.explain(&second).await;
    assert_eq!((&rated["verdict"], &rated["blocked_by"][0]["kind"]), (&json!("waiting"), &json!("rate")));
    assert!(rated["blocked_by"][0]["until"].is_string() && rated["earliest"].is_string(), "{rated}");
    world.leading_to("dead", NOBODY).await;
    let mut last = String::new();
    for _ in 0..4 {
        last = world.deliver("dead", "").await;
    }
    until("its breaker has opened", async || {
        let why = world.explain(&last).await;
        let kinds = why["blocked_by"].as_array().unwrap();
        kinds.iter().any(|one| one["kind"] == "breaker" && one["until"].is_string())
    })
    .await;
    let dead = world.admin("GET", "/v1/destinations/dead", "").await.expect(200);
    assert_ne!(dead["breaker"], "closed", "{dead}");
}

/// API.md: the figures of a fresh server, under their names, and few enough of them.
#[tokio::test]
async fn metrics_have_their_names_and_a_bound() {
    let world = World::start().await;
    for place in 0..25 {
        world.waiting(&format!("shop-{place}"), "acme", 1).await;
    }
    world.post(r#"{"destination":"nobody","payload":1}"#).await.refused(
        404,
        "destination_unknown",
        &["destination"],
    );
    let lines = "{\"destination\":\"nobody\",\"payload\":1}\nnonsense\n";
    let batch = world.ask("POST", &world.server.ingest, "/v1/batch");
    let batch = batch.header("content-type", "application/x-ndjson").body(lines);
    super::Answer::of(batch).await.expect(200);
    let places = |text: &str| text.matches("\nduehook_destination_waiting{").count();
    until("every place is taken", async || places(&world.metrics().await) == 20).await;
    let text = world.metrics().await;
    let series = text.lines().filter(|line| !line.starts_with('#')).count();
    assert!(series < 500, "{series} series");
    let families: BTreeSet<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    for family in [
        "duehook_scheduler_lag_seconds histogram",
        "duehook_gate_wait_seconds histogram",
        "duehook_recovery_seconds histogram",
        "duehook_commit_seconds histogram",
        "duehook_commit_operations histogram",
        "duehook_due_unclaimed_oldest_seconds gauge",
        "duehook_destination_in_flight gauge",
        "duehook_destination_limit gauge",
        "duehook_destination_hold_until_timestamp_seconds gauge",
        "duehook_destination_waiting gauge",
        "duehook_retry_after counter",
        "duehook_ingest counter",
    ] {
        assert!(families.contains(family), "no {family} in {families:?}");
    }
    for line in [
        "duehook_ingest_total{result=\"accepted\"} 25",
        "duehook_ingest_total{result=\"duplicate\"} 0",
        "duehook_ingest_total{result=\"destination_unknown\"} 2",
        "duehook_ingest_total{result=\"malformed\"} 1",
        "duehook_ingest_total{result=\"queue_full\"} 0",
    ] {
        assert!(text.lines().any(|found| found == line), "no {line} in {text}");
    }
}

/// C190: whatever is asked for, by whom and how, the series stay few, and name nobody.
#[tokio::test]
async fn c190_what_is_asked_for_makes_no_series() {
    let world = World::start().await;
    for place in 0..60 {
        world.waiting(&format!("shop-{place}"), &format!("tenant-{place}"), 1).await;
    }
    for n in 0..150 {
        let method = ["GET", "POST", "PUT", "DELETE", "PATCH", "BREW", "OPTIONS"][n % 7];
        let path = format!("/hooks/SECRET-{n}/x?token=SECRET-{n}");
        let base = if n % 2 == 0 { &world.server.ingest } else { &world.server.admin };
        assert!(super::Answer::of(world.ask(method, base, &path)).await.status >= 400);
    }
    let text = world.metrics().await;
    let series = text.lines().filter(|line| !line.starts_with('#')).count();
    assert!(series < 500, "{series} series");
    for private in ["SECRET", "hooks", "tenant-", "dlv_", "shop.example", "BREW"] {
        assert!(!text.contains(private), "{private} is in the figures");
    }
}
