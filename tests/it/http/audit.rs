//! The audit log as it is read: who did what, by name.

use serde_json::{Value, json};

use super::access::{BOTH, Guarded};
use crate::cli::duehook;

impl Guarded {
    /// What the log says: who, action, object and detail, the newest first.
    async fn log(&self, query: &str) -> Vec<(String, String, Value, String)> {
        let page = self.ask("read", "GET", &format!("/v1/audit?{query}"), &Value::Null).await.expect(200);
        let text = |it: &Value| it.as_str().unwrap().to_owned();
        let row =
            |it: &Value| (text(&it["by"]), text(&it["action"]), it["object"].clone(), text(&it["detail"]));
        page["data"].as_array().unwrap().iter().map(row).collect()
    }

    async fn actions(&self, query: &str) -> Vec<String> {
        self.log(query).await.into_iter().map(|(_, action, ..)| action).collect()
    }
}

const SHOP: &str = "/v1/destinations/shop";

#[tokio::test]
async fn who_did_what_is_told_by_every_filter() {
    let it = Guarded::start(BOTH);
    let order = async |token: &str, method: &str, path: &str, body: Value| {
        let answer = it.ask(token, method, path, &body).await;
        assert!((200..300).contains(&answer.status), "{method} {path}: {}", answer.text);
        answer.json()
    };
    let secret = "whsec_BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=";
    let put = json!({"tenant": "acme", "url": "https://shop.example.com/t0ken", "headers": {"x-key": "hunter2"},
                     "secrets": [secret]});
    order("setup", "PUT", SHOP, put).await;
    order("acme", "PATCH", SHOP, json!({"timeout_ms": 2000})).await;
    order("setup", "POST", &format!("{SHOP}/pause"), json!({"reason": "upgrade"})).await;
    let until = json!({"until": "2999-01-01T00:00:00Z", "reason": "they asked"});
    order("setup", "PUT", &format!("{SHOP}/hold"), until).await;
    order("setup", "DELETE", &format!("{SHOP}/hold"), Value::Null).await;
    order("setup", "POST", &format!("{SHOP}/secrets/rotate"), json!({})).await;
    order("setup", "POST", &format!("{SHOP}/test"), json!({"payload": "a body"})).await;
    let taken = order("ingest", "POST", "/v1/deliveries", json!({"destination": "shop", "payload": 1})).await;
    let id = taken["id"].as_str().unwrap().to_owned();
    for verb in ["cancel", "retry", "cancel"] {
        order("admin", "POST", &format!("/v1/deliveries/{id}/{verb}"), Value::Null).await;
    }
    order("admin", "DELETE", &format!("/v1/deliveries/{id}/payload"), Value::Null).await;
    order("admin", "POST", "/v1/claims/stop", Value::Null).await;
    order("admin", "POST", "/v1/backup/hold", json!({"ttl_ms": 1000})).await;
    order("admin", "DELETE", "/v1/backup/hold", Value::Null).await;
    let backup = it.server.data().with_file_name("copy.redb");
    order("admin", "POST", "/v1/backup", json!({"path": backup})).await;

    let all = it.log("limit=1000").await;
    let actions: Vec<&str> = all.iter().rev().map(|(_, action, ..)| &**action).collect();
    let want = [
        "destination.create",
        "destination.update",
        "destination.pause",
        "destination.hold",
        "destination.release",
        "destination.rotate",
        "destination.test",
        "delivery.cancel",
        "delivery.retry",
        "delivery.cancel",
        "delivery.erase",
        "claims.stop",
        "backup.hold",
        "backup.release",
        "backup",
    ];
    assert_eq!(actions, want);
    let whole = format!("{all:?}");
    for hidden in ["hunter2", secret, "t0ken", "a body"] {
        assert!(!whole.contains(hidden), "{whole}");
    }
    by_filter(&it, &id).await;
    page_by_page(&it, &want).await;
}

async fn by_filter(it: &Guarded, id: &str) {
    let mine = it.log("by=token:acme").await;
    let want = ("token:acme".into(), "destination.update".into(), json!("shop"), "changed timeout_ms".into());
    assert_eq!(mine, [want]);
    assert_eq!(it.actions("action=delivery.retry,claims.stop").await, ["claims.stop", "delivery.retry"]);
    assert_eq!(it.actions(&format!("object={id}")).await.len(), 4);
    assert_eq!(it.actions(&format!("object={id},shop&action=delivery.erase")).await, ["delivery.erase"]);
    assert_eq!(it.actions("after=2999-01-01T00:00:00Z").await, [] as [&str; 0]);
    assert_eq!(it.actions("before=2999-01-01T00:00:00Z&limit=1000").await.len(), 15);
    assert!(it.log("action=delivery.retry").await[0].3.starts_with("was cancelled since "));
    assert_eq!(it.log("action=destination.pause").await[0].3, "was active: upgrade");
    let test = ("token:setup".into(), "destination.test".into(), json!("shop"), "8 bytes".into());
    assert_eq!(it.log("action=destination.test").await, [test]);
}

/// Page by page it is the same, though it grows meanwhile.
async fn page_by_page(it: &Guarded, want: &[&str]) {
    let order = async |path: &str| it.ask("admin", "POST", path, &Value::Null).await.expect(200);
    let (mut paged, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("/v1/audit?limit=3{cursor}");
        let page = it.ask("read", "GET", &path, &Value::Null).await.expect(200);
        let rows = page["data"].as_array().unwrap();
        paged.extend(rows.iter().map(|row| row["action"].as_str().unwrap().to_owned()));
        order("/v1/claims/start").await;
        order("/v1/claims/stop").await;
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    paged.reverse();
    assert_eq!(paged, want);
}

#[tokio::test]
async fn the_log_is_for_those_who_may_see_all_of_it() {
    let it = Guarded::start(BOTH);
    let check = async |token: &str, want: u16| {
        assert_eq!(it.status(token, "GET", "/v1/audit").await.0, want, "{token}");
        assert_eq!(it.status(token, "GET", "/v1/config").await.0, want, "{token}");
    };
    check("", 401).await;
    check("ingest", 403).await;
    check("setup", 403).await;
    check("acme", 403).await;
    check("acme-admin", 403).await;
    check("read", 200).await;
    check("admin", 200).await;
    let refused =
        it.ask("read", "GET", "/v1/audit?action=nothing&cursor=x&limit=0&who=1", &Value::Null).await;
    refused.refused(422, "invalid", &["action", "cursor", "limit", "who"]);
}

#[tokio::test]
async fn the_log_on_the_command_line() {
    let it = Guarded::start("");
    it.ask("", "PUT", SHOP, &json!({"tenant": "acme", "url": "https://shop.example.com/"})).await.expect(201);
    it.ask("", "POST", &format!("{SHOP}/pause"), &json!({"reason": "upgrade"})).await.expect(200);
    let ask = |more: &[&str]| {
        let run = duehook(&[&["--admin", &it.server.admin, "audit"], more].concat(), &[], b"");
        assert_eq!(run.code, 0, "{more:?}: {}", run.stderr);
        run.stdout
    };
    let table = ask(&[]);
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["WHEN", "BY", "ACTION", "OBJECT", "DETAIL"]);
    assert!(
        lines[1].ends_with(&["operator", "destination.pause", "shop", "was", "active:", "upgrade"]),
        "{table}"
    );
    assert_eq!(lines.len(), 3, "{table}");
    assert!(ask(&["--limit", "1"]).ends_with("there are more: --limit N or --all\n"));
    let one: Value = serde_json::from_str(ask(&["--action", "destination.create", "--json"]).trim()).unwrap();
    assert_eq!((&one["object"], &one["by"]), (&json!("shop"), &json!("operator")));
    assert_eq!(ask(&["--object", "bank"]), "no entries\n");
}
