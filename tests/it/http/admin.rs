//! Destinations, the verbs upon deliveries, lists, and the figures.

use serde_json::{Value, json};

use super::{Answer, World};

const SHOP: &str = "/v1/destinations/shop";
const LEAST: &str = r#"{"tenant":"acme","url":"https://shop.example.com/hook"}"#;

#[tokio::test]
async fn a_destination_from_its_creation_to_its_end() {
    let world = World::start().await;
    world.admin("GET", SHOP, "").await.refused(404, "not_found", &[]);
    let created = world.admin("PUT", SHOP, LEAST).await;
    assert_eq!(created.header("location"), Some(SHOP));
    let created = created.expect(201);
    assert_eq!((&created["id"], &created["state"]), (&"shop".into(), &"active".into()));
    assert_eq!(created["concurrency"], json!({"max": 8, "adaptive": false}));
    let changed = r#"{"tenant":"acme","url":"https://shop.example.com/2","headers":{"X-Key":"hunter2"}}"#;
    let changed = world.admin("PUT", SHOP, changed).await.expect(200);
    assert_eq!(
        (&changed["url"], &changed["headers"]["x-key"]),
        (&"https://shop.example.com/2".into(), &"***".into())
    );
    let merged = r#"{"timeout_ms":2000,"headers":{"x-key":null,"x-b":"1"}}"#;
    let merged = world.admin("PATCH", SHOP, merged).await.expect(200);
    assert_eq!((&merged["timeout_ms"], &merged["headers"]), (&2000.into(), &json!({"x-b": "***"})));
    let paced = r#"{"concurrency":{"adaptive":true},"rate":{"per_second":0.5}}"#;
    let paced = world.admin("PATCH", SHOP, paced).await.expect(200);
    assert_eq!(paced["concurrency"], json!({"max": 8, "adaptive": true}));
    assert_eq!(paced["rate"], json!({"per_second": 0.5, "burst": 1}));
    let wider = world.admin("PATCH", SHOP, r#"{"rate":{"burst":5}}"#).await.expect(200);
    assert_eq!(wider["rate"], json!({"per_second": 0.5, "burst": 5}));
    let read = world.admin("GET", SHOP, "").await.expect(200);
    assert_eq!(read["rate"], wider["rate"]);
    let free = world.admin("PATCH", SHOP, r#"{"rate":null}"#).await.expect(200);
    assert_eq!((&free["rate"], &free["concurrency"]["adaptive"]), (&json!(null), &json!(true)));
    assert_eq!((&read["url"], &read["delayed"]), (&"https://shop.example.com/2".into(), &0.into()));
    let deleted = world.admin("DELETE", SHOP, "").await;
    assert_eq!((deleted.status, &*deleted.text), (204, ""));
    world.admin("GET", SHOP, "").await.refused(404, "not_found", &[]);
    world.admin("DELETE", SHOP, "").await.refused(404, "not_found", &[]);
    world.admin("PATCH", SHOP, "{}").await.refused(404, "not_found", &[]);
}

#[tokio::test]
async fn a_destination_that_is_wrong_is_not_made() {
    let world = World::start().await;
    let check = async |body: &str, fields: &[&str]| {
        world.admin("PUT", SHOP, body).await.refused(422, "invalid", fields);
    };
    check("{}", &["tenant", "url"]).await;
    check(r#"{"tenant":"acme","url":"http://shop.example.com/"}"#, &["url"]).await;
    check(r#"{"tenant":"acme","url":"https://127.0.0.1/"}"#, &["url"]).await;
    check(r#"{"tenant":"acme","url":"https://shop.example.com/","state":"paused"}"#, &["state"]).await;
    check(r#"{"tenant":"acme","url":"https://shop.example.com/","secrets":["a"]}"#, &["secrets"]).await;
    check(r#"{"tenant":"acme","url":"https://shop.example.com/","policy":"none"}"#, &["policy"]).await;
    world.admin("PUT", SHOP, "[]").await.refused(400, "malformed", &[]);
    world.admin("PUT", "/v1/destinations/a%20b", LEAST).await.refused(422, "invalid", &["id"]);
    world.admin("GET", SHOP, "").await.refused(404, "not_found", &[]);
}

#[tokio::test]
async fn a_tenant_cannot_change() {
    let world = World::start().await;
    world.admin("PUT", SHOP, LEAST).await.expect(201);
    let other = world.admin("PATCH", SHOP, r#"{"tenant":"other"}"#).await;
    other.refused(409, "tenant_fixed", &["tenant"]);
}

#[tokio::test]
async fn an_etag_guards_a_change() {
    let world = World::start().await;
    let guarded = async |method: &str, tag: &str| {
        let request = world.ask(method, &world.server.admin, SHOP).header("if-match", tag);
        Answer::of(request.header("content-type", "application/json").body(LEAST)).await
    };
    guarded("PUT", "\"1\"").await.refused(412, "revision_mismatch", &[]);
    world.admin("PUT", SHOP, LEAST).await.expect(201);
    let old = world.admin("GET", SHOP, "").await.header("etag").unwrap().to_owned();
    world.admin("PATCH", SHOP, r#"{"timeout_ms":2000}"#).await.expect(200);
    let new = world.admin("GET", SHOP, "").await.header("etag").unwrap().to_owned();
    assert_ne!(old, new);
    for method in ["PUT", "PATCH", "DELETE"] {
        guarded(method, &old).await.refused(412, "revision_mismatch", &[]);
    }
    let changed = guarded("PUT", &new).await;
    let newest = changed.header("etag").unwrap().to_owned();
    changed.expect(200);
    assert_eq!(guarded("DELETE", &newest).await.status, 204);
    // The name is given anew: the tags of the one that is gone are not its own.
    let made = world.admin("PUT", SHOP, LEAST).await;
    let first = made.header("etag").unwrap().to_owned();
    made.expect(201);
    assert_ne!(first, old);
    guarded("PUT", &old).await.refused(412, "revision_mismatch", &[]);
    let only_new = async |path: &str, value: &str| {
        let request = world.ask("PUT", &world.server.admin, path).header("if-none-match", value);
        Answer::of(request.header("content-type", "application/json").body(LEAST)).await
    };
    only_new(SHOP, "*").await.refused(412, "revision_mismatch", &[]);
    only_new(SHOP, &first).await.refused(422, "invalid", &["if-none-match"]);
    only_new("/v1/destinations/another", "*").await.expect(201);
}

#[tokio::test]
async fn verbs_change_the_state_and_only_theirs() {
    let world = World::start().await;
    world.admin("PUT", SHOP, LEAST).await.expect(201);
    let check = async |verb: &str, body: &str, state: &str, reason: Value| {
        let changed = world.admin("POST", &format!("{SHOP}/{verb}"), body).await.expect(200);
        assert_eq!((&changed["state"], &changed["state_reason"]), (&state.into(), &reason), "{verb}");
        assert_eq!(changed["state_by"], "operator");
    };
    check("pause", r#"{"reason":"upgrade"}"#, "paused", "upgrade".into()).await;
    check("resume", "", "active", Value::Null).await;
    check("disable", r#"{"reason":"moved"}"#, "disabled", "moved".into()).await;
    check("resume", "", "disabled", "moved".into()).await;
    check("enable", "{}", "active", Value::Null).await;
    world.admin("POST", &format!("{SHOP}/pause"), r#"{"why":"x"}"#).await.refused(422, "invalid", &["why"]);
    world.admin("POST", "/v1/destinations/none/pause", "").await.refused(404, "not_found", &[]);
}

#[tokio::test]
async fn a_hold_is_set_shown_and_ended() {
    let world = World::start().await;
    world.admin("PUT", SHOP, LEAST).await.expect(201);
    let path = format!("{SHOP}/hold");
    let held =
        world.admin("PUT", &path, r#"{"until":"2999-01-01T00:00:00Z","reason":"x"}"#).await.expect(200);
    assert_eq!(
        (&held["hold_until"], &held["hold_reason"]),
        (&"2999-01-01T00:00:00.000Z".into(), &"operator".into())
    );
    let id = world.deliver("shop", "").await;
    assert_eq!(world.get(&id).await["held_until"], "2999-01-01T00:00:00.000Z");
    let explained = world.admin("GET", &format!("/v1/deliveries/{id}/explain"), "").await.expect(200);
    assert_eq!((&explained["verdict"], &explained["ahead"]), (&"expires_first".into(), &0.into()));
    assert_eq!(explained["blocked_by"][0]["kind"], "destination_hold");
    world.admin("PUT", &path, r#"{"until":"2020-01-01T00:00:00Z"}"#).await.refused(
        422,
        "invalid",
        &["until"],
    );
    world.admin("PUT", &path, "{}").await.refused(422, "invalid", &["until"]);
    world.admin("POST", &format!("{SHOP}/pause"), "").await.expect(200);
    let open = world.admin("DELETE", &path, "").await.expect(200);
    assert_eq!(open["hold_until"], Value::Null);
    world.admin("DELETE", "/v1/destinations/none/hold", "").await.refused(404, "not_found", &[]);
}

#[tokio::test]
async fn cancel_and_retry() {
    let world = World::start().await;
    world.paused("shop").await;
    let id = world.deliver("shop", "").await;
    let order = async |verb: &str| world.admin("POST", &format!("/v1/deliveries/{id}/{verb}"), "").await;
    let explained = world.admin("GET", &format!("/v1/deliveries/{id}/explain"), "").await.expect(200);
    assert_eq!((&explained["verdict"], &explained["earliest"]), (&"waiting".into(), &Value::Null));
    assert_eq!(explained["blocked_by"][0]["kind"], "paused");
    let cancelled = order("cancel").await.expect(200);
    assert_eq!((&cancelled["state"], &cancelled["outcome"]), (&"terminal".into(), &"cancelled".into()));
    assert_eq!(order("cancel").await.expect(200), cancelled);
    let again = order("retry").await.expect(200);
    assert_eq!((&again["state"], &again["next_reason"]), (&"ready".into(), &"operator".into()));
    assert_eq!((&again["outcome"], &again["finished_at"]), (&Value::Null, &Value::Null));
    assert_eq!(again["idempotency_key"], cancelled["idempotency_key"]);
    let unknown = "/v1/deliveries/dlv_00000000000000000000000000";
    for verb in ["retry", "cancel", "attempts", "explain"] {
        let method = if verb.len() > 6 { "GET" } else { "POST" };
        world.admin(method, &format!("{unknown}/{verb}"), "").await.refused(404, "not_found", &[]);
    }
}

#[tokio::test]
async fn erase() {
    let world = World::start().await;
    world.paused("shop").await;
    let more = r#","idempotency_key":"k","labels":{"patient":"7"},"headers":{"x-patient":"7"}"#;
    let id = world.deliver("shop", more).await;
    let erase = async |id: &str| world.admin("DELETE", &format!("/v1/deliveries/{id}/payload"), "").await;
    assert_eq!(erase(&id).await.status, 204);
    let it = world.admin("GET", &format!("/v1/deliveries/{id}"), "").await.expect(200);
    assert_eq!((&it["outcome"], &it["labels"]), (&"payload_gone".into(), &serde_json::json!({})));
    assert_eq!((&it["payload"]["sha256"], &it["idempotency_key"]), (&Value::Null, &"k".into()));
    assert!(it["payload"]["erased_at"].is_string() && it["payload"]["bytes"].is_u64());
    assert_eq!(erase(&id).await.status, 204, "also the second time");
    assert_eq!(world.admin("GET", &format!("/v1/deliveries/{id}"), "").await.expect(200), it);
    let retry = world.admin("POST", &format!("/v1/deliveries/{id}/retry"), "").await;
    retry.refused(409, "payload_erased", &[]);
    erase("dlv_00000000000000000000000000").await.refused(404, "not_found", &[]);
}

#[tokio::test]
async fn a_destination_with_work_is_not_deleted() {
    let world = World::start().await;
    world.paused("shop").await;
    let id = world.deliver("shop", "").await;
    world.admin("DELETE", SHOP, "").await.refused(409, "work_waiting", &[]);
    world.admin("POST", &format!("/v1/deliveries/{id}/cancel"), "").await.expect(200);
    assert_eq!(world.admin("DELETE", SHOP, "").await.status, 204);
    let retry = world.admin("POST", &format!("/v1/deliveries/{id}/retry"), "").await;
    retry.refused(409, "destination_unknown", &[]);
}

/// The ids of a list, page by page.
async fn listed(world: &World, query: &str) -> Vec<String> {
    let (mut ids, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = world.admin("GET", &format!("/v1/deliveries?{query}{cursor}"), "").await.expect(200);
        let data = page["data"].as_array().unwrap();
        ids.extend(data.iter().map(|one| one["id"].as_str().unwrap().to_owned()));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return ids,
        }
    }
}

#[tokio::test]
async fn lists_by_filter_and_order() {
    let world = World::start().await;
    world.paused("one").await;
    world.paused("two").await;
    let mut ids = Vec::new();
    for n in 0..7 {
        let (name, class) = if n % 2 == 0 { ("one", "urgent") } else { ("two", "bulk") };
        let more = format!(r#","class":"{class}","labels":{{"n":"{n}"}}"#);
        ids.push(world.deliver(name, &more).await);
    }
    world.admin("POST", &format!("/v1/deliveries/{}/cancel", ids[6]), "").await.expect(200);
    world.admin("POST", &format!("/v1/deliveries/{}/cancel", ids[3]), "").await.expect(200);
    let check = async |query: &str, places: &[usize]| {
        let want: Vec<String> = places.iter().map(|place| ids[*place].clone()).collect();
        assert_eq!(listed(&world, query).await, want, "{query}");
    };
    check("", &[6, 5, 4, 3, 2, 1, 0]).await;
    check("limit=2", &[6, 5, 4, 3, 2, 1, 0]).await;
    check("limit=3&order=created", &[0, 1, 2, 3, 4, 5, 6]).await;
    check("destination=one", &[6, 4, 2, 0]).await;
    check("destination=one,two&class=bulk&order=created&limit=1", &[1, 3, 5]).await;
    check("tenant=acme&state=ready&order=created", &[0, 1, 2, 4, 5]).await;
    check("tenant=other", &[]).await;
    check("state=terminal&outcome=cancelled", &[6, 3]).await;
    check("outcome=delivered", &[]).await;
    check("label=n:4", &[4]).await;
    check("order=finished&limit=1", &[6, 3]).await;
    check("order=-finished", &[3, 6]).await;
    check("created_after=2999-01-01T00:00:00Z", &[]).await;
    check("created_before=2999-01-01T00:00:00Z&order=created", &[0, 1, 2, 3, 4, 5, 6]).await;
    check("last_status=429", &[]).await;
}

#[tokio::test]
async fn lists_refuse_what_they_do_not_know() {
    let world = World::start().await;
    let check = async |path: &str, field: &str| {
        world.admin("GET", path, "").await.refused(422, "invalid", &[field]);
    };
    check("/v1/deliveries?status=ready", "status").await;
    check("/v1/deliveries?state=waiting", "state").await;
    check("/v1/deliveries?limit=1001", "limit").await;
    check("/v1/deliveries?cursor=x", "cursor").await;
    check("/v1/destinations?state=deleted", "state").await;
    check("/v1/stats?colour=1", "colour").await;
}

#[tokio::test]
async fn destinations_are_listed_in_order_of_name() {
    let world = World::start().await;
    for name in ["c", "a", "b"] {
        world.paused(name).await;
    }
    world.admin("POST", "/v1/destinations/b/resume", "").await.expect(200);
    let names = async |query: &str| -> (Vec<String>, Value) {
        let page = world.admin("GET", &format!("/v1/destinations{query}"), "").await.expect(200);
        let data = page["data"].as_array().unwrap();
        let names = data.iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect();
        (names, page["next_cursor"].clone())
    };
    assert_eq!(names("").await, (vec!["a".into(), "b".into(), "c".into()], Value::Null));
    assert_eq!(names("?state=paused").await.0, ["a", "c"]);
    assert_eq!(names("?tenant=other").await.0, Vec::<String>::new());
    let (first, next) = names("?limit=2").await;
    assert_eq!(first, ["a", "b"]);
    assert_eq!(names(&format!("?limit=2&cursor={}", next.as_str().unwrap())).await.0, ["c"]);
}

#[tokio::test]
async fn figures_health_and_the_page() {
    let world = World::start().await;
    let stats = world.admin("GET", "/v1/stats", "").await.expect(200);
    assert_eq!((&stats["claims"], stats["forecast"].as_array().unwrap().len()), (&"running".into(), 60));
    for class in ["urgent", "routine", "bulk"] {
        assert!(stats["classes"][class]["window_ms"].as_u64().unwrap() >= 1_000, "{stats}");
    }
    let version = world.admin("GET", "/v1/version", "").await.expect(200);
    assert!(version["version"].is_string() && version["format"].is_u64(), "{version}");
    assert_eq!(world.admin("GET", "/healthz", "").await.expect(200)["healthy"], true);
    assert_eq!(world.admin("GET", "/readyz", "").await.expect(200)["ready"], true);
    let metrics = world.admin("GET", "/metrics", "").await;
    assert!(metrics.header("content-type").unwrap().starts_with("application/openmetrics-text"));
    assert!(metrics.text.ends_with("# EOF\n"), "{}", metrics.text);
    let page = world.admin("GET", "/", "").await;
    assert!(page.header("content-security-policy").unwrap().starts_with("default-src 'none'"));
    assert!(page.text.starts_with("<!doctype html>"));
}
