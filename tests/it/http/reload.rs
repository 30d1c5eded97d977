//! The settings in force, and how they are read again while the server runs.

use std::sync::Arc;

use reqwest::Client;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::Answer;
use super::access::{Guarded, config};
use crate::TestServer;
use crate::api::until;
use crate::cli::duehook;

/// A server whose config file can be changed.
struct Live {
    it: Guarded,
    folder: Arc<TempDir>,
}

impl Live {
    fn start(more: &str) -> Live {
        let folder = Arc::new(TempDir::new().unwrap());
        let it = Guarded::start_in(Arc::clone(&folder), more);
        Live { it, folder }
    }

    /// Writes the config file anew.
    fn write(&self, more: &str) {
        config(self.folder.path(), more);
    }

    async fn reload(&self, token: &str, more: &str) -> Answer {
        self.write(more);
        self.it.ask(token, "POST", "/v1/config/reload", &Value::Null).await
    }

    /// The value of a setting and where it was set.
    async fn shown(&self, token: &str, table: &str, key: &str) -> (Value, String) {
        let all = self.it.ask(token, "GET", "/v1/config", &Value::Null).await.expect(200);
        let it = if table.is_empty() { &all[key] } else { &all[table][key] };
        (it["value"].clone(), it["origin"].as_str().unwrap_or_default().to_owned())
    }

    async fn slots(&self) -> Value {
        self.it.ask("", "GET", "/v1/stats", &Value::Null).await.expect(200)["slots"]["total"].clone()
    }

    async fn succeeded(&self) -> bool {
        let metrics = self.it.ask("", "GET", "/metrics", &Value::Null).await.text;
        let line = metrics.lines().find(|line| line.starts_with("duehook_config_last_reload_successful "));
        line.unwrap().ends_with(" 1") || line.unwrap().ends_with(" 1.0")
    }
}

#[tokio::test]
async fn what_is_in_force_is_shown_with_its_origin() {
    let live = Live::start("region = \"eu\"\n[send]\nslots = 9");
    let check = async |table: &str, key: &str, value: Value, origin: &str| {
        assert_eq!(live.shown("", table, key).await, (value, origin.to_owned()), "{table}.{key}");
    };
    check("", "region", "eu".into(), "config file, line 1").await;
    check("send", "slots", 9.into(), "config file, line 3").await;
    check("send", "timeout", "15s".into(), "default").await;
    check("log", "level", "warn".into(), "environment, DUEHOOK_LOG__LEVEL").await;
    check("ingest", "min_free_disk", "1MiB".into(), "environment, DUEHOOK_INGEST__MIN_FREE_DISK").await;
    let all = live.it.ask("", "GET", "/v1/config", &Value::Null).await.expect(200);
    assert_eq!(all["policy"]["default"]["jitter"]["value"], "half");
    assert_eq!(
        (&all["token"][0]["id"]["value"], &all["token"][0]["sha256"]["value"]),
        (&"ingest".into(), &"***".into())
    );
    let run = duehook(&["--admin", &live.it.server.admin, "config", "show", "--set"], &[], b"");
    let row = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = run.stdout.lines().map(row).collect();
    assert!(lines.contains(&"send.slots 9 config file, line 3".to_owned()), "{lines:?}");
    assert!(!run.stdout.contains("send.timeout"), "{lines:?}");
    let run = duehook(&["--admin", &live.it.server.admin, "--json", "config", "show"], &[], b"");
    assert_eq!(serde_json::from_str::<Value>(&run.stdout).unwrap(), all);
}

#[tokio::test]
async fn what_is_read_again_takes_effect_at_once() {
    let live = Live::start("[admin]\nauth = \"token\"");
    let it = &live.it;
    let shop = "/v1/destinations/shop";
    let body = json!({"tenant": "acme", "url": "https://shop.example.com:9443/", "policy": "slow"});
    it.ask("admin", "PUT", shop, &body).await.refused(422, "invalid", &["policy", "url"]);
    let more = "[admin]\nauth = \"none\"\nallowed_hosts = [\"box.internal\"]\n[send]\nslots = 7\nports = [443, 9443]\n\
                [policy.slow]\nmax_age = \"1h\"\n[class.night]\nweight = 1\n[ingest]\nmax_payload = 9\n[retention]\n\
                audit = \"1d\"\n[metrics]\ndestinations = 1";
    let told = live.reload("admin", more).await.expect(200);
    let want = [
        "admin.allowed_hosts",
        "admin.auth",
        "class.night.weight",
        "class.night.window",
        "ingest.max_payload",
        "metrics.destinations",
        "policy.slow.jitter",
        "policy.slow.max_age",
        "policy.slow.max_delay",
        "policy.slow.max_failures",
        "policy.slow.min_delay",
        "policy.slow.retry_statuses",
        "policy.slow.schedule",
        "retention.audit",
        "send.ports",
        "send.slots",
    ];
    assert_eq!(told["changed"], json!(want));
    assert_eq!(told["config"]["send"]["slots"]["value"], 7);
    assert_eq!(live.slots().await, 7);
    it.ask("", "PUT", shop, &body).await.expect(201);
    it.ask("", "POST", &format!("{shop}/pause"), &Value::Null).await.expect(200);
    let post = |payload: &str| json!({"destination": "shop", "class": "night", "payload": payload});
    it.ask("", "POST", "/v1/deliveries", &post("short")).await.expect(202);
    it.ask("", "POST", "/v1/deliveries", &post("longer than that")).await.refused(
        413,
        "payload_too_large",
        &[],
    );
    let host = |host: &str| {
        let request = it.client.get(format!("{}/v1/stats", it.server.admin)).header("host", host);
        async move { request.send().await.unwrap().status().as_u16() }
    };
    assert_eq!((host("box.internal").await, host("other").await), (200, 421));
    let log = it.ask("", "GET", "/v1/audit?action=config.reload", &Value::Null).await.expect(200);
    assert_eq!(log["data"].as_array().unwrap().len(), 1);
    assert_eq!(log["data"][0]["by"], "token:admin");
    assert!(
        log["data"][0]["detail"].as_str().unwrap().starts_with("changed admin.allowed_hosts, admin.auth")
    );
    // And back: the token is asked for again, and nothing else differs from the start.
    it.ask("", "DELETE", &format!("{shop}?x"), &Value::Null).await.refused(422, "invalid", &["x"]);
    live.reload("", more).await.expect(200);
    assert_eq!(
        live.reload("", &format!("{more}\n[backup]\ndir = \"\"")).await.expect(200)["changed"][0],
        "backup.dir"
    );
    live.reload("", &more.replace("none", "token")).await.expect(200);
    assert_eq!(it.status("", "GET", "/v1/stats").await.0, 401);
    assert_eq!(it.status("read", "GET", "/v1/stats").await.0, 200);
}

/// Whatever is wrong: it is named, and nothing has changed, not even what was right.
#[tokio::test]
async fn c195_what_is_refused_changes_nothing() {
    let live = Live::start("");
    let it = &live.it;
    live.reload("", "[policy.slow]\nmax_age = \"1h\"").await.expect(200);
    let body = json!({"tenant": "acme", "url": "https://shop.example.com/", "policy": "slow"});
    it.ask("", "PUT", "/v1/destinations/shop", &body).await.expect(201);
    let check = async |text: &str, fields: &[&str]| {
        live.reload("", &format!("{text}\n[send]\nslots = 7")).await.refused(422, "invalid", fields);
        assert_eq!(live.slots().await, 4096, "{text}");
        assert!(!live.succeeded().await, "{text}");
        assert_eq!(live.shown("", "policy", "slow").await.0, Value::Null, "a table is no value");
    };
    check("regio = \"eu\"", &["regio"]).await;
    check("x", &["config"]).await;
    check("[send]\nslots = 0\n[policy.slow]", &["config"]).await;
    check("[policy.slow]\nmax_age = 1", &["policy.slow.max_age"]).await;
    check("region = \"eu\"\nhost_id = \"x\"\n[policy.slow]", &["region"]).await;
    check("[metrics]\nlisten = \"127.0.0.1:0\"\n[policy.slow]", &["metrics.listen"]).await;
    check("", &["policy.slow"]).await;
    let classes: String = (0..6).map(|n| format!("[class.c{n}]\n")).collect();
    check(&format!("{classes}[policy.slow]"), &["class"]).await;
    check(
        "[admin]\ntls_cert = \"/nowhere/a.pem\"\ntls_key = \"/nowhere/k.pem\"\n[policy.slow]",
        &["admin.tls_cert"],
    )
    .await;
    live.reload("", "[policy.slow]\n[send]\nslots = 7\nca_file = \"/nowhere\"").await.refused(
        422,
        "invalid",
        &["send.ca_file"],
    );
    live.reload("", "[policy.slow]\n[send]\nslots = 1000000000").await.refused(
        422,
        "invalid",
        &["send.slots"],
    );
    live.reload("", "[policy.slow]\n[send]\nslots = 7").await.expect(200);
    assert!(live.succeeded().await);
    assert_eq!(live.slots().await, 7);
    let body = it.ask("", "POST", "/v1/config/reload", &json!({"x": 1})).await;
    body.refused(422, "invalid", &["x"]);
}

#[tokio::test]
async fn a_signal_reads_them_again_and_never_ends_the_server() {
    let live = Live::start("");
    live.write("[send]\nslots = 5");
    live.it.server.signal(rustix::process::Signal::HUP);
    until("they are in force", async || live.slots().await == 5).await;
    live.write("[send]\nslots = 0");
    live.it.server.signal(rustix::process::Signal::HUP);
    until("they are refused", async || !live.succeeded().await).await;
    assert_eq!(live.slots().await, 5);
    let log = live.it.ask("", "GET", "/v1/audit?action=config.reload", &Value::Null).await.expect(200);
    assert_eq!(log["data"].as_array().unwrap().len(), 1);
    assert_eq!(log["data"][0]["by"], "operator");
    live.write("[send]\nslots = 6");
    let run = duehook(&["--admin", &live.it.server.admin, "config", "reload"], &[], b"");
    assert_eq!((run.code, &*run.stdout), (0, "in force: send.slots\n"), "{}", run.stderr);
    live.write("slots = 6");
    let run = duehook(&["--admin", &live.it.server.admin, "config", "reload"], &[], b"");
    assert!(run.code == 1 && run.stderr.contains("slots: unknown key"), "{}{}", run.stdout, run.stderr);
    assert_eq!(live.it.server.stop().0, Some(0));
}

/// A machine that is given another name is at home in its file under it; under one that it was not
/// given while it served, it is a stranger.
#[tokio::test]
async fn another_host_id_is_in_the_file_from_then_on() {
    let live = Live::start("host_id = \"first\"");
    let told = live.reload("", "host_id = \"second\"").await.expect(200);
    assert_eq!(told["changed"], json!(["host_id"]));
    let Live { it, folder } = live;
    let claims = async |server: TestServer, more: &str| {
        assert_eq!(server.stop().0, Some(0));
        let it = Guarded::start_in(Arc::clone(&folder), more);
        let stats = it.ask("", "GET", "/v1/stats", &Value::Null).await.expect(200);
        (it.server, stats["claims"].clone())
    };
    let (server, said) = claims(it.server, "host_id = \"second\"").await;
    assert_eq!(said, "running");
    assert_eq!(claims(server, "host_id = \"first\"").await.1, "stopped");
}

/// A certificate that was renewed is shown to who comes next, and TLS can be turned on and off.
#[tokio::test]
async fn certificates_are_read_again() {
    let folder = TempDir::new().unwrap();
    let renew = || {
        let own = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        std::fs::write(folder.path().join("c.pem"), own.cert.pem()).unwrap();
        std::fs::write(folder.path().join("k.pem"), own.signing_key.serialize_pem()).unwrap();
        let own_alone = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(folder.path().join("k.pem"), own_alone).unwrap();
        let trusted = reqwest::Certificate::from_pem(own.cert.pem().as_bytes()).unwrap();
        Client::builder().no_proxy().tls_certs_only([trusted]).build().unwrap()
    };
    let path = |name: &str| folder.path().join(name).display().to_string();
    let with = format!("[admin]\ntls_cert = \"{}\"\ntls_key = \"{}\"", path("c.pem"), path("k.pem"));
    let live = Live::start("");
    let plain = format!("{}/v1/stats", live.it.server.admin);
    let secure = plain.replace("http://", "https://");
    let works =
        async |client: &Client, url: &str| client.get(url).send().await.is_ok_and(|it| it.status() == 200);
    let first = renew();
    live.reload("", &with).await.expect(200);
    assert!(works(&first, &secure).await);
    assert!(!works(&plain_client(), &plain).await, "nothing is said in the clear any more");
    let second = renew();
    let again = |client: &Client| client.post(secure.replace("stats", "config/reload"));
    Answer::of(again(&first)).await.expect(200);
    assert!(works(&second, &secure).await);
    live.write("");
    Answer::of(again(&second)).await.expect(200);
    assert!(works(&plain_client(), &plain).await);
}

fn plain_client() -> Client {
    Client::builder().no_proxy().build().unwrap()
}
