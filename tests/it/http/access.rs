//! Tokens, scopes, tenants, TLS and unix sockets, as those meet them who knock.

use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use reqwest::{Client, Method};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::Answer;
use crate::TestServer;
use crate::cli::duehook;

/// Name, scopes and tenants of the tokens; each one's text is its name.
const TOKENS: [(&str, &str, &str); 6] = [
    ("ingest", "\"ingest\"", ""),
    ("setup", "\"destinations\"", ""),
    ("read", "\"read\"", ""),
    ("admin", "\"admin\"", ""),
    ("acme", "\"ingest\", \"destinations\", \"read\"", "tenants = [\"acme\"]"),
    ("acme-admin", "\"admin\"", "tenants = [\"acme\"]"),
];

/// A config file in `folder` with the tokens in it; its path.
pub(super) fn config(folder: &Path, more: &str) -> String {
    let token = |(id, scopes, tenants): (&str, &str, &str)| {
        let digest: String = Sha256::digest(id).iter().map(|byte| format!("{byte:02x}")).collect();
        format!("[[token]]\nid = \"{id}\"\nsha256 = \"{digest}\"\nscopes = [{scopes}]\n{tenants}\n")
    };
    let text = format!("{more}\n{}", TOKENS.map(token).concat());
    let path = folder.join("duehook.toml");
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

pub(super) struct Guarded {
    pub(super) server: TestServer,
    pub(super) client: Client,
}

impl Guarded {
    pub(super) fn start(more: &str) -> Guarded {
        Guarded::start_in(Arc::new(TempDir::new().unwrap()), more)
    }

    /// The same with its files in `folder`.
    pub(super) fn start_in(folder: Arc<TempDir>, more: &str) -> Guarded {
        let config = config(folder.path(), more);
        let server = TestServer::start(folder, &[("DUEHOOK_CONFIG", &config)]);
        let client = Client::builder().no_proxy().build().unwrap();
        Guarded { server, client }
    }

    /// One request under a token; an empty one is none.
    pub(super) async fn ask(&self, token: &str, method: &str, path: &str, body: &Value) -> Answer {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let mut request = self.client.request(method, format!("{}{path}", self.server.admin));
        if !token.is_empty() {
            request = request.bearer_auth(token);
        }
        if !body.is_null() {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        Answer::of(request).await
    }

    pub(super) async fn status(&self, token: &str, method: &str, path: &str) -> (u16, Option<String>) {
        let answer = self.ask(token, method, path, &Value::Null).await;
        let code = answer.json()["code"].as_str().map(str::to_owned);
        (answer.status, code)
    }
}

pub(super) const BOTH: &str = "[ingest]\nauth = \"token\"\n[admin]\nauth = \"token\"";

#[tokio::test]
async fn t60_who_has_no_known_token_learns_nothing() {
    let it = Guarded::start(BOTH);
    for (token, path) in [
        ("", "/v1/stats"),
        ("nobody", "/v1/stats"),
        ("", "/v1/stats?access_token=admin"),
        ("", "/metrics"),
        ("", "/"),
    ] {
        let answer = it.ask(token, "GET", path, &Value::Null).await;
        assert_eq!((answer.status, answer.header("www-authenticate")), (401, Some("Bearer")), "{path}");
        answer.refused(401, "token_required", &[]);
    }
    // A browser gets the page that asks for a token, and nothing of the server's in it.
    let page = Answer::of(it.client.get(it.server.admin.clone()).header("accept", "text/html,*/*")).await;
    assert_eq!((page.status, page.header("www-authenticate")), (401, Some("Bearer")));
    let open = Answer::of(it.client.get(it.server.admin.clone()).bearer_auth("read")).await;
    assert_eq!((open.status, &open.text), (200, &page.text));
    assert!(page.header("content-security-policy").is_some());
    for path in ["/healthz", "/readyz"] {
        assert_eq!(it.status("", "GET", path).await.0, 200, "{path}");
    }
    let ingest = format!("{}/v1/deliveries/dlv_0", it.server.ingest);
    assert_eq!(it.client.get(ingest).send().await.unwrap().status(), 401);
}

#[tokio::test]
async fn a_scope_opens_its_routes_and_no_others() {
    let it = Guarded::start(BOTH);
    let check = async |token: &str, method: &str, path: &str, want: u16| {
        let (got, code) = it.status(token, method, path).await;
        assert_eq!(got, want, "{token}: {method} {path}: {code:?}");
        assert!(got != 403 || method == "HEAD" || code.as_deref() == Some("scope_missing"), "{code:?}");
    };
    // 4xx other than 401 and 403 are the route's own answers.
    for (token, post, dest, stats, retry) in [
        ("ingest", 422, 403, 403, 403),
        ("setup", 403, 404, 403, 403),
        ("read", 403, 404, 200, 403),
        ("admin", 422, 404, 200, 404),
    ] {
        check(token, "POST", "/v1/deliveries", post).await;
        check(token, "GET", "/v1/destinations/shop", dest).await;
        check(token, "GET", "/v1/stats", stats).await;
        check(token, "POST", "/v1/deliveries/dlv_0/retry", retry).await;
    }
    check("read", "DELETE", "/v1/destinations/shop", 403).await;
    check("ingest", "GET", "/v1/deliveries/dlv_0", 404).await;
    // Who brings deliveries looks them up by id or key; a list is for who reads.
    check("ingest", "GET", "/v1/deliveries?tenant=acme&idempotency_key=k", 200).await;
    check("ingest", "GET", "/v1/deliveries", 403).await;
    check("ingest", "HEAD", "/v1/deliveries?state=ready", 403).await;
    check("read", "GET", "/v1/deliveries?state=ready", 200).await;
    // A path that is no text is told so, as a problem, and only to who may ask.
    check("", "GET", "/v1/deliveries/%ff", 401).await;
    check("read", "GET", "/v1/deliveries/%ff", 400).await;
    check("setup", "GET", "/v1/deliveries/dlv_0", 403).await;
    check("read", "GET", "/metrics", 200).await;
    check("read", "POST", "/v1/claims/stop", 403).await;
}

fn destination(tenant: &str, url: &str) -> Value {
    json!({"tenant": tenant, "url": url, "allow_cidrs": ["127.0.0.1/32"]})
}

/// A server with a destination of each of two tenants.
async fn two_tenants() -> Guarded {
    let it = Guarded::start(BOTH);
    for (name, tenant) in [("shop", "acme"), ("bank", "other")] {
        let path = format!("/v1/destinations/{name}");
        it.ask("admin", "PUT", &path, &destination(tenant, "http://127.0.0.1:1/")).await.expect(201);
    }
    it
}

#[tokio::test]
async fn a_pinned_producer_posts_for_its_tenants_alone() {
    let it = two_tenants().await;
    let check = async |body: Value, status: u16, code: &str, fields: &[&str]| {
        it.ask("acme", "POST", "/v1/deliveries", &body).await.refused(status, code, fields);
    };
    let unknown = "destination_unknown";
    check(json!({"destination": "bank", "payload": 1}), 403, "tenant_not_allowed", &[]).await;
    let said = json!({"destination": "bank", "tenant": "other", "payload": 1});
    check(said, 403, "tenant_not_allowed", &[]).await;
    check(json!({"destination": "none", "payload": 1}), 404, unknown, &["destination"]).await;
    let wrong = json!({"destination": "bank", "tenant": "acme", "payload": 1});
    check(wrong, 404, unknown, &["destination"]).await;
    let batch = json!([{"destination": "shop", "payload": 2}, {"destination": "bank", "payload": 3}]);
    let results = it.ask("acme", "POST", "/v1/batch", &batch).await.expect(200);
    let statuses = [&results["results"][0]["status"], &results["results"][1]["status"]];
    assert_eq!(statuses, [&json!(202), &json!(403)]);
}

#[tokio::test]
async fn t60_what_is_anothers_is_not_there_to_read_and_not_allowed_to_change() {
    const NOTHING: &str = "dlv_00000000000000000000000000";
    let it = two_tenants().await;
    let body = json!({"destination": "bank", "payload": 1});
    let theirs = it.ask("admin", "POST", "/v1/deliveries", &body).await.expect(202);
    let id = theirs["id"].as_str().unwrap();
    let delivery = format!("/v1/deliveries/{id}");
    let read = ["", "/attempts", "/explain"].map(|more| format!("{delivery}{more}"));
    for path in read.iter().map(String::as_str).chain(["/v1/destinations/bank"]) {
        let none = path.replace(id, NOTHING).replace("bank", "none");
        let unknown = it.ask("acme", "GET", &none, &Value::Null).await;
        let other = it.ask("acme", "GET", path, &Value::Null).await;
        assert_eq!((other.status, &other.text), (404, &unknown.text), "{path}");
        // Nothing else of the answer tells one from the other either.
        let told = |answer: &Answer| answer.header("connection").map(str::to_owned);
        assert_eq!(told(&other), told(&unknown), "{path}");
        it.ask("admin", "GET", path, &Value::Null).await.expect(200);
    }
    let refused = async |token: &str, method: &str, path: &str, body: Value| {
        it.ask(token, method, path, &body).await.refused(403, "tenant_not_allowed", &[]);
    };
    let url = "http://127.0.0.1:1/";
    refused("acme-admin", "POST", &format!("{delivery}/cancel"), Value::Null).await;
    refused("acme", "PUT", "/v1/destinations/bank", destination("acme", url)).await;
    refused("acme", "PUT", "/v1/destinations/new", destination("other", url)).await;
    refused("acme", "POST", "/v1/destinations/bank/pause", Value::Null).await;
    refused("acme-admin", "POST", "/v1/claims/stop", Value::Null).await;
    refused("acme-admin", "POST", "/v1/backup/hold", Value::Null).await;
    refused("acme-admin", "GET", "/metrics", Value::Null).await;
    refused("acme-admin", "GET", "/v1/stats", Value::Null).await;
    refused("acme", "POST", "/v1/destinations/bank/test", Value::Null).await;
    refused("acme", "POST", "/v1/destinations/bank/secrets/rotate", Value::Null).await;
}

#[tokio::test]
async fn lists_of_a_pinned_token_have_its_tenants_alone() {
    let it = two_tenants().await;
    for name in ["shop", "bank"] {
        let body = json!({"destination": name, "payload": 1});
        it.ask("admin", "POST", "/v1/deliveries", &body).await.expect(202);
    }
    let all = async |path: &str| it.ask("acme", "GET", path, &Value::Null).await.expect(200)["data"].clone();
    let listed = all("/v1/deliveries").await;
    let tenants: Vec<_> = listed.as_array().unwrap().iter().map(|one| one["tenant"].clone()).collect();
    assert_eq!(tenants, [json!("acme")]);
    assert_eq!(all("/v1/deliveries?tenant=other").await, json!([]));
    assert_eq!(all("/v1/deliveries?tenant=other&idempotency_key=k").await, json!([]));
    assert_eq!(all("/v1/destinations").await.as_array().unwrap().len(), 1);
    for ranking in ["tenants", "destinations"] {
        let path = format!("/v1/stats/{ranking}?limit=1");
        let part = it.ask("acme", "GET", &path, &Value::Null).await.expect(200);
        let rows = part["data"].as_array().unwrap();
        assert!(rows.len() == 1 && !part["data"].to_string().contains("other"), "{part}");
        assert_eq!(part["next_cursor"], Value::Null, "it does not say how many others there are");
        let whole = it.ask("admin", "GET", &path, &Value::Null).await.expect(200);
        assert_eq!(whole["next_cursor"], "1");
    }
}

/// A job is about the tenants of whoever ordered it, and is shown to those who deal with all of them.
#[tokio::test]
async fn a_bulk_job_keeps_to_the_tenants_of_its_token() {
    let it = Guarded::start(BOTH);
    for (name, tenant) in [("shop", "acme"), ("bank", "other")] {
        let path = format!("/v1/destinations/{name}");
        it.ask("admin", "PUT", &path, &destination(tenant, "http://127.0.0.1:9/")).await.expect(201);
        it.ask("admin", "POST", &format!("{path}/pause"), &Value::Null).await.expect(200);
        let body = json!({"destination": name, "payload": 1});
        it.ask("admin", "POST", "/v1/deliveries", &body).await.expect(202);
    }
    let order = async |token: &str, filter: Value, dry_run: bool| {
        let body = json!({"action": "cancel", "filter": filter, "dry_run": dry_run});
        it.ask(token, "POST", "/v1/bulk", &body).await
    };
    for token in ["ingest", "setup", "read", "acme"] {
        order(token, json!({"state": "ready"}), true).await.refused(403, "scope_missing", &[]);
    }
    order("acme-admin", json!({"tenant": "other"}), true).await.refused(403, "tenant_not_allowed", &[]);
    order("acme-admin", json!({}), true).await.refused(422, "invalid", &["filter"]);
    let both = json!({"tenant": ["other", "acme"]});
    order("acme-admin", both.clone(), true).await.refused(403, "tenant_not_allowed", &[]);
    assert_eq!(order("admin", both, true).await.expect(200)["count"], 2);
    for filter in [json!({"state": "ready"}), json!({"tenant": ["acme"], "state": "ready"})] {
        assert_eq!(order("acme-admin", filter.clone(), true).await.expect(200)["count"], 1, "{filter}");
    }
    let ours = order("acme-admin", json!({"state": "ready"}), false).await.expect(202);
    assert_eq!((&ours["filter"]["tenant"], &ours["by"]), (&json!(["acme"]), &json!("token:acme-admin")));
    let theirs = order("admin", json!({"tenant": "other"}), false).await.expect(202);
    let list = it.ask("acme", "GET", "/v1/bulk", &Value::Null).await.expect(200);
    assert_eq!((list["data"].as_array().unwrap().len(), &list["data"][0]["id"]), (1, &ours["id"]));
    let path = |job: &Value| format!("/v1/bulk/{}", job["id"].as_str().unwrap());
    it.ask("acme", "GET", &path(&ours), &Value::Null).await.expect(200);
    it.ask("acme", "GET", &path(&theirs), &Value::Null).await.refused(404, "not_found", &[]);
    it.ask("acme-admin", "DELETE", &path(&theirs), &Value::Null).await.refused(
        403,
        "tenant_not_allowed",
        &[],
    );
    it.ask("acme-admin", "DELETE", &path(&ours), &Value::Null).await.expect(200);
    it.ask("admin", "DELETE", &path(&theirs), &Value::Null).await.expect(200);
}

/// C192: a URL may be a secret, and `read` is for those who only look.
#[tokio::test]
async fn c192_who_only_reads_sees_scheme_and_host() {
    let it = Guarded::start(BOTH);
    let whole = "https://hooks.example.com/t0ken?k=1";
    it.ask("admin", "PUT", "/v1/destinations/shop", &json!({"tenant": "acme", "url": whole}))
        .await
        .expect(201);
    let check = async |token: &str, want: &str| {
        let one = it.ask(token, "GET", "/v1/destinations/shop", &Value::Null).await.expect(200);
        assert_eq!(one["url"], want, "{token}");
        let all = it.ask(token, "GET", "/v1/destinations", &Value::Null).await.expect(200);
        assert_eq!(all["data"][0]["url"], want, "{token}");
    };
    check("read", "https://hooks.example.com").await;
    check("setup", whole).await;
    check("acme", whole).await;
    check("admin", whole).await;
}

#[tokio::test]
async fn who_changes_something_is_named() {
    let it = Guarded::start(BOTH);
    it.ask("setup", "PUT", "/v1/destinations/shop", &destination("acme", "http://127.0.0.1:1/"))
        .await
        .expect(201);
    let paused = it.ask("setup", "POST", "/v1/destinations/shop/pause", &Value::Null).await.expect(200);
    assert_eq!(paused["state_by"], "token:setup");
}

#[tokio::test]
async fn a_certificate_of_ours_is_shown() {
    let folder = TempDir::new().unwrap();
    let own = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        path.display().to_string()
    };
    let (cert, key) = (file("cert.pem", &own.cert.pem()), file("key.pem", &own.signing_key.serialize_pem()));
    let it = Guarded::start(&format!("{BOTH}\ntls_cert = \"{cert}\"\ntls_key = \"{key}\""));
    assert!(it.server.admin.starts_with("https://"), "{}", it.server.admin);
    let trusted = reqwest::Certificate::from_pem(own.cert.pem().as_bytes()).unwrap();
    let client = Client::builder().no_proxy().tls_certs_only([trusted]).build().unwrap();
    let it = Guarded { client, ..it };
    it.ask("read", "GET", "/v1/stats", &Value::Null).await.expect(200);
    assert_eq!(it.status("", "GET", "/v1/stats").await.0, 401);
    let own_page = it.client.post(format!("{}/v1/claims/stop", it.server.admin)).bearer_auth("admin");
    let origin = Answer::of(own_page.header("origin", "https://evil.example")).await;
    origin.refused(403, "origin_not_allowed", &[]);
    let plain = it.server.admin.replace("https://", "http://");
    assert!(Client::builder().no_proxy().build().unwrap().get(plain).send().await.is_err());
}

#[tokio::test]
async fn a_unix_socket_says_who_asks() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("admin.sock");
    let listen = format!("unix:{}", path.display());
    let data = Arc::new(TempDir::new().unwrap());
    let server = TestServer::start(data, &[("DUEHOOK_ADMIN__LISTEN", &listen)]);
    assert_eq!(server.admin, listen);
    let about = std::fs::metadata(&path).unwrap();
    assert!(about.file_type().is_socket() && about.permissions().mode() & 0o777 == 0o660, "{about:?}");
    let client = Client::builder().unix_socket(path.clone()).build().unwrap();
    let put = client
        .put("http://localhost/v1/destinations/shop")
        .header("content-type", "application/json")
        .body(json!({"tenant": "a", "url": "https://a.example.com/"}).to_string());
    Answer::of(put).await.expect(201);
    let paused = Answer::of(client.post("http://localhost/v1/destinations/shop/pause")).await.expect(200);
    let by = format!("uid:{}", rustix::process::getuid().as_raw());
    assert_eq!(paused["state_by"], by);
    let log = Answer::of(client.get("http://localhost/v1/audit?limit=1")).await.expect(200);
    assert_eq!((&log["data"][0]["by"], &log["data"][0]["action"]), (&json!(by), &json!("destination.pause")));
    let run = duehook(&["--admin", &listen, "dest", "get", "shop"], &[], b"");
    assert!(run.code == 0 && run.stdout.contains("paused"), "{}{}", run.stdout, run.stderr);
    let other = Answer::of(client.get("http://evil.example/v1/stats")).await;
    other.refused(421, "host_not_allowed", &[]);
    let (code, _) = server.stop();
    assert_eq!((code, path.exists()), (Some(0), false));
}

/// T65, and a token from its making to its use.
#[test]
fn t65_a_token_from_its_making_to_its_use() {
    let made = duehook(&["token", "new", "on-call", "--scope", "admin", "--json"], &[], b"");
    let made: Value = serde_json::from_str(&made.stdout).unwrap();
    let folder = Arc::new(TempDir::new().unwrap());
    let file = folder.path().join("token");
    std::fs::write(&file, format!("{}\n", made["token"].as_str().unwrap())).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
    let config = folder.path().join("c.toml");
    let table = format!("[[token]]\nid = \"on-call\"\nsha256 = {}\nscopes = [\"admin\"]\n", made["sha256"]);
    std::fs::write(&config, format!("[admin]\nauth = \"token\"\n{table}")).unwrap();
    let server = TestServer::start(Arc::clone(&folder), &[("DUEHOOK_CONFIG", &config.display().to_string())]);
    let file = file.display().to_string();
    let ask = |arguments: &[&str]| duehook(&[&["--admin", &server.admin], arguments].concat(), &[], b"");
    let open = ask(&["--token-file", &file, "stats"]);
    let says = format!("{file} is open to others (its mode is 0644): chmod 600 {file}");
    assert!(open.code == 1 && open.stderr.contains(&says), "{}", open.stderr);
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    assert_eq!(ask(&["--token-file", &file, "stats"]).code, 0);
    let without = ask(&["stats"]);
    assert!(without.code == 1 && without.stderr.contains("--token-file"), "{}", without.stderr);
}
