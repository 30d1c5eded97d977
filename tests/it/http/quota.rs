//! Quotas of tenants, as producers meet them.

use serde_json::{Value, json};

use super::access::Guarded;

const QUOTA: &str = "[tenant.acme]\nquota_per_second = 1\n[tenant.slow]\nmax_waiting = 2";

async fn paused(it: &Guarded, name: &str, tenant: &str) {
    let path = format!("/v1/destinations/{name}");
    let body = json!({"tenant": tenant, "url": "https://shop.example.com/"});
    it.ask("", "PUT", &path, &body).await.expect(201);
    it.ask("", "POST", &format!("{path}/pause"), &Value::Null).await.expect(200);
}

#[tokio::test]
async fn who_brings_too_much_is_told_when_to_come_back() {
    let it = Guarded::start(QUOTA);
    paused(&it, "shop", "acme").await;
    paused(&it, "bank", "other").await;
    let post = async |name: &str, key: &str| {
        let body = json!({"destination": name, "payload": 1, "idempotency_key": key});
        it.ask("", "POST", "/v1/deliveries", &body).await
    };
    // Whatever the clock does between two requests: of so many most are beyond a quota of one a second.
    let mut refused = Vec::new();
    for n in 0..20 {
        let answer = post("shop", &format!("k{n}")).await;
        match answer.status {
            202 => {}
            _ => refused.push(answer),
        }
    }
    assert!(refused.len() > 5, "{}", refused.len());
    for answer in &refused {
        answer.refused(429, "tenant_quota", &[]);
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
    post("shop", "k0").await.expect(200);
    for n in 0..5 {
        post("bank", &format!("k{n}")).await.expect(202);
    }
    let stored = it.ask("", "GET", "/v1/deliveries?tenant=acme&limit=1000", &Value::Null).await.expect(200);
    assert_eq!(
        stored["data"].as_array().unwrap().len(),
        20 - refused.len(),
        "nothing of a refusal is stored"
    );
    let metrics = it.ask("", "GET", "/metrics", &Value::Null).await.text;
    let line = format!("duehook_ingest_total{{result=\"tenant_quota\"}} {}", refused.len());
    assert!(metrics.contains(&line), "{metrics}");
}

#[tokio::test]
async fn in_a_batch_each_item_counts() {
    let it = Guarded::start(QUOTA);
    paused(&it, "dam", "slow").await;
    paused(&it, "bank", "other").await;
    let item = |name: &str| json!({"destination": name, "payload": 1});
    let batch = json!([item("dam"), item("dam"), item("dam"), item("bank"), item("dam")]);
    let results = it.ask("", "POST", "/v1/batch", &batch).await.expect(200)["results"].clone();
    let statuses: Vec<_> = results.as_array().unwrap().iter().map(|one| one["status"].clone()).collect();
    assert_eq!(statuses, [202, 202, 429, 202, 429]);
    assert_eq!(results[2]["problem"]["code"], "tenant_quota");
    let alone = it.ask("", "POST", "/v1/deliveries", &item("dam")).await;
    alone.refused(429, "tenant_quota", &[]);
    assert_eq!(alone.header("retry-after"), Some("5"));
}
