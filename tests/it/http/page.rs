//! What a browser could be used for: markup of a receiver, and requests of another site.

use duehook::http::openapi::document;
use duehook::http::openapi::operation::On;
use reqwest::Client;
use serde_json::Value;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::{Answer, World};
use crate::TestServer;

const MARKUP: &[u8] = b"HTTP/1.1 404 <script>alert(1)</script>\r\nlocation: javascript:alert(1)\r\n\
    retry-after: \"><img src=x onerror=alert(1)>\r\ncontent-length: 23\r\n\r\n<svg onload=alert(1)/>\n";

/// A receiver that answers with markup wherever an answer has room for it; its URL.
async fn attacker(tasks: &mut JoinSet<()>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tasks.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            drop(stream.read(&mut [0; 8192]).await);
            drop(stream.write_all(MARKUP).await);
        }
    });
    url
}

/// C173: the page is one text for everybody, puts what it is told in as text, and lets nothing run
/// but its own script; every other answer says that it is no page.
#[tokio::test]
async fn c173_markup_of_a_receiver_stays_text() {
    let variables = [("DUEHOOK_SEND__KEEP_RESPONSE_EXCERPT", "true")];
    let server = TestServer::start(Arc::new(TempDir::new().unwrap()), &variables);
    let world = World { server, client: Client::builder().no_proxy().build().unwrap() };
    let before = world.admin("GET", "/", "").await.text;
    let mut tasks = JoinSet::new();
    world.leading_to("evil", &attacker(&mut tasks).await).await;
    let reason = r#"{"reason":"<img src=x onerror=alert(1)>"}"#;
    let id = world.deliver("evil", r#","labels":{"l":"<b onclick=alert(1)>"}"#).await;
    assert_eq!(world.ended(&id).await["outcome"], "rejected");
    world.admin("POST", "/v1/destinations/evil/pause", reason).await.expect(200);
    let page = world.admin("GET", "/", "").await;
    assert_eq!(page.text, before, "nothing of it is in the page");
    let sinks =
        ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "srcdoc"];
    for sink in sinks.iter().chain(&["javascript:", "createContextualFragment", "setAttribute", "DOMParser"])
    {
        assert!(!page.text.contains(sink), "{sink}");
    }
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
    assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
    let attempts = format!("/v1/deliveries/{id}/attempts");
    for path in
        [attempts.as_str(), "/v1/deliveries", "/v1/destinations", "/v1/audit", "/v1/none", "/", "/metrics"]
    {
        let answer = world.admin("GET", path, "").await;
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        let kind = answer.header("content-type").unwrap();
        assert!(path == "/" || !kind.contains("html"), "{path} is {kind}");
    }
    let read = world.admin("GET", &attempts, "").await;
    assert!(
        !read.text.contains("<script>") && !read.text.contains("javascript:"),
        "no reason phrase, no Location"
    );
    let attempt = &read.json()["data"][0];
    assert_eq!(attempt["response_excerpt"], "<svg onload=alert(1)/>\n", "text, to whoever reads JSON");
    assert_eq!(attempt["retry_after"]["kind"], "invalid");
    let refused = world.ask("GET", &world.server.admin, "/").header("host", "evil.example");
    assert_eq!(Answer::of(refused).await.header("x-content-type-options"), Some("nosniff"));
}

/// Everything that a change would change.
async fn state(world: &World) -> Vec<Value> {
    let mut all = Vec::new();
    for path in ["/v1/deliveries", "/v1/destinations", "/v1/audit", "/v1/bulk", "/v1/config"] {
        all.push(world.admin("GET", path, "").await.expect(200));
    }
    all.push(world.admin("GET", "/v1/stats", "").await.expect(200)["claims"].clone());
    all
}

/// Every operation there is: its path with its places filled, and its method.
fn operations(id: &str) -> Vec<(String, String)> {
    let document = document(On::Admin);
    let mut all = Vec::new();
    for (pattern, item) in document["paths"].as_object().unwrap() {
        let path = match pattern.as_str() {
            deliveries if deliveries.starts_with("/v1/deliveries/") => deliveries.replace("{id}", id),
            other => other.replace("{id}", "shop").replace("{destination}", "shop"),
        };
        let methods = item.as_object().unwrap().keys().map(|method| method.to_ascii_uppercase());
        let known = ["GET", "PUT", "POST", "PATCH", "DELETE"];
        all.extend(
            methods.filter(|method| known.contains(&method.as_str())).map(|method| (path.clone(), method)),
        );
    }
    assert!(all.len() > 40, "{all:?}");
    all
}

/// C176: no GET changes anything, and no page of another site can.
#[tokio::test]
async fn c176_no_other_site_changes_anything() {
    let world = World::start().await;
    world.paused("shop").await;
    let id = world.deliver("shop", "").await;
    let before = state(&world).await;
    let operations = operations(&id);
    for (path, method) in &operations {
        let read = world.ask("GET", &world.server.admin, path);
        let read = Answer::of(read).await.status;
        let reads = operations.contains(&(path.clone(), "GET".to_owned()));
        assert!(if reads { read != 405 } else { read == 405 }, "GET {path} is {read}");
        if method == "GET" {
            continue;
        }
        for (name, value) in [
            ("origin", "https://evil.example.com"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            for kind in ["application/x-www-form-urlencoded", "text/plain", "application/json"] {
                let ask = world.ask(method, &world.server.admin, path).header(name, value);
                let answer = Answer::of(ask.header("content-type", kind).body("{}")).await;
                answer.refused(403, "origin_not_allowed", &[]);
                assert!(answer.headers.keys().all(|name| !name.as_str().starts_with("access-control")));
            }
        }
        let rebound = world.ask(method, &world.server.admin, path).header("host", "evil.example.com");
        Answer::of(rebound.body("{}")).await.refused(421, "host_not_allowed", &[]);
    }
    assert_eq!(state(&world).await, before);
    // What a form can send without any of these headers is no JSON.
    for path in ["/v1/deliveries", "/v1/bulk"] {
        let form = world.ask("POST", &world.server.admin, path).header("content-type", "text/plain");
        Answer::of(form.body(r#"{"destination":"shop","payload":1}"#)).await.refused(
            415,
            "content_type",
            &[],
        );
    }
    assert_eq!(state(&world).await, before);
}
