//! What comes from outside and means no good (DURABILITY.md T60 to T66): who has no token, lengths
//! that lie, heads and bodies that do not come, browsers, and names without number.

use std::fmt::Write as _;
use std::process::Stdio;
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::access::{BOTH, Guarded};
use super::{Answer, World};
use crate::TestServer;

const SHOP: &str = "/v1/destinations/shop";
const LEAST: &str = r#"{"tenant":"acme","url":"https://shop.example.com/"}"#;

/// What there is and what there is not looks the same to who has no token.
#[tokio::test]
async fn t60_without_a_token_nothing_tells_what_there_is() {
    let it = Guarded::start(BOTH);
    let body = serde_json::from_str(LEAST).unwrap();
    it.ask("admin", "PUT", SHOP, &body).await.expect(201);
    it.ask("admin", "POST", &format!("{SHOP}/pause"), &Value::Null).await.expect(200);
    let delivery = json!({"destination": "shop", "payload": 1, "idempotency_key": "k"});
    let taken = it.ask("admin", "POST", "/v1/deliveries", &delivery).await.expect(202);
    let there = format!("/v1/deliveries/{}", taken["id"].as_str().unwrap());
    let nothing = "/v1/deliveries/dlv_00000000000000000000000000";
    let keyed = |key: &str| format!("/v1/deliveries?tenant=acme&idempotency_key={key}");
    for token in ["", "nobody", "admin2", "admi"] {
        for (method, one, other) in [
            ("GET", there.as_str(), nothing),
            ("POST", &format!("{there}/cancel"), &format!("{nothing}/cancel")),
            ("GET", &keyed("k"), &keyed("none")),
            ("GET", SHOP, "/v1/destinations/none"),
            ("DELETE", SHOP, "/v1/destinations/none"),
        ] {
            let one = it.ask(token, method, one, &Value::Null).await;
            let other = it.ask(token, method, other, &Value::Null).await;
            one.refused(401, "token_required", &[]);
            assert_eq!((one.text, one.headers.len()), (other.text, other.headers.len()), "{token}: {method}");
        }
    }
    let shown = it.ask("admin", "GET", &there, &Value::Null).await.expect(200);
    assert_eq!(shown["state"], json!("ready"), "{shown}");
}

/// A token is taken from its header and from nowhere else, and only whole.
#[tokio::test]
async fn t60_a_token_is_taken_from_one_header_alone() {
    let it = Guarded::start(BOTH);
    let check = async |path: &str, lines: &[(&str, &str)], want: u16| {
        for base in [&it.server.ingest, &it.server.admin] {
            let mut request = it.client.get(format!("{base}{path}"));
            for (name, value) in lines {
                request = request.header(*name, *value);
            }
            let answer = Answer::of(request).await;
            assert_eq!(answer.status, want, "{path} {lines:?}: {}", answer.text);
        }
    };
    let path = "/v1/deliveries?tenant=acme&idempotency_key=k";
    check(path, &[("authorization", "Bearer admin")], 200).await;
    check(path, &[("authorization", "bearer admin")], 200).await;
    check(path, &[("authorization", "Basic admin")], 401).await;
    check(path, &[("authorization", "Bearer")], 401).await;
    check(path, &[("authorization", "Bearer ")], 401).await;
    check(path, &[("authorization", "admin")], 401).await;
    check(path, &[("authorization", "Bearer admin admin")], 401).await;
    check(path, &[("authorization", "Bearer admin"), ("authorization", "Bearer nobody")], 401).await;
    check(path, &[("x-api-key", "admin"), ("cookie", "token=admin")], 401).await;
    for name in ["token", "access_token", "api_key", "authorization"] {
        check(&format!("{path}&{name}=admin"), &[], 401).await;
    }
}

fn post(path: &str, head: &str, body: &str) -> Vec<u8> {
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{head}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// However a length lies, the answer says so, the connection ends with it, and nothing is stored.
#[tokio::test]
async fn t61_lengths_that_lie_end_the_connection() {
    let world = World::start().await;
    world.paused("kept").await;
    let check = async |text: &[u8], status: &str| {
        for base in [&world.server.ingest, &world.server.admin] {
            let answer = World::raw(base, text).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{status}: {answer}");
            assert!(answer.contains("\r\nconnection: close\r\n"), "{status}: {answer}");
            assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
        }
    };
    let send = |head: &str, body: &str| post("/v1/send/kept", head, body);
    let most = 256 * 1024;
    check(&send(&format!("content-length: {}", most + 1), &"x".repeat(most + 1)), "413").await;
    // What is too long is known before any of it has come.
    for path in ["/v1/send/kept", "/v1/deliveries", "/v1/batch"] {
        check(&post(path, "content-length: 9223372036854775807", "{"), "413").await;
    }
    check(&send("content-length: 18446744073709551616", ""), "400").await;
    check(&send("content-length: 5\r\ncontent-length: 6", "hello!"), "400").await;
    check(&send("content-length: +5", "hello"), "400").await;
    check(&send("content-length: 0x5", "hello"), "400").await;
    check(&send("transfer-encoding: gzip", "hello"), "400").await;
    check(&send("transfer-encoding: chunked, gzip", "hello"), "400").await;
    let chunked = |body: &str| send("transfer-encoding: chunked", body);
    let chunks = format!("400\r\n{}\r\n", "x".repeat(1024)).repeat(2 * 1024);
    check(&chunked(&chunks), "413").await;
    check(&chunked("5\r\nhello\r\n5;x\r\nhello\r\nnonsense\r\n"), "400").await;
    check(&chunked("FFFFFFFFFFFFFFFFF\r\n"), "400").await;
    check(&chunked("-5\r\nhello\r\n0\r\n\r\n"), "400").await;
    assert_eq!(world.stored().await.len(), 0);
}

/// RFC 9112, section 6.3: of two framings the chunks count, and the connection ends with the answer,
/// so that what a proxy in front took for one body is never looked at as a request.
#[tokio::test]
async fn t61_two_framings_smuggle_nothing() {
    let world = World::start().await;
    world.paused("kept").await;
    let hidden = "POST /v1/send/kept HTTP/1.1\r\nhost: localhost\r\ncontent-length: 6\r\n\r\nhidden";
    for both in [
        "content-length: 300\r\ntransfer-encoding: chunked",
        "transfer-encoding: chunked\r\ncontent-length: 300",
        "content-length: 0\r\ntransfer-encoding: chunked",
    ] {
        let before = world.stored().await.len();
        let text = post("/v1/send/kept", both, &format!("4\r\nseen\r\n0\r\n\r\n{hidden}"));
        let answer = World::raw(&world.server.ingest, &text).await;
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{both}: {answer}");
        assert!(answer.contains("\r\nconnection: close\r\n"), "{both}: {answer}");
        let stored = world.stored().await;
        assert!(stored.len() <= before + 1 && stored.iter().all(|one| one["payload"]["bytes"] == 4));
    }
}

/// The producer and the operator get in past any number that say nothing, new connections included.
#[tokio::test]
async fn t62_who_says_nothing_keeps_nobody_out() {
    let folder = Arc::new(TempDir::new().unwrap());
    let server = TestServer::start(folder, &[("DUEHOOK_INGEST__MAX_CONNECTIONS", "8")]);
    let world = World { server, client: reqwest::Client::builder().no_proxy().build().unwrap() };
    world.paused("kept").await;
    let begun = post("/v1/deliveries", "content-length: 9", "{");
    let mut silent = Vec::new();
    for n in 0..32 {
        for base in [&world.server.ingest, &world.server.admin] {
            let mut stream = TcpStream::connect(base.strip_prefix("http://").unwrap()).await.unwrap();
            stream.write_all(if n % 2 == 0 { b"G" } else { &begun }).await.unwrap();
            silent.push(stream);
        }
        let text = post("/v1/send/kept", "content-length: 1\r\nconnection: close", "1");
        let fresh = World::raw(&world.server.ingest, &text).await;
        assert!(fresh.starts_with("HTTP/1.1 202 "), "after {n}: {fresh}");
        let text = b"GET /v1/stats HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        let fresh = World::raw(&world.server.admin, text).await;
        assert!(fresh.starts_with("HTTP/1.1 200 "), "after {n}: {fresh}");
        // On the connections that this client keeps.
        world.deliver("kept", "").await;
        world.admin("GET", "/v1/stats", "").await.expect(200);
    }
    drop(silent);
    assert_eq!(world.stored().await.len(), 64);
}

/// A page that has its own name lead to this machine names itself, and gets nothing.
#[tokio::test]
async fn t63_another_host_is_misdirected() {
    let world = World::start().await;
    let ask = async |method: &str, path: &str, host: &str| {
        let request = world.ask(method, &world.server.admin, path).header("host", host);
        Answer::of(request.header("content-type", "application/json").body(LEAST)).await
    };
    for host in ["evil.example", "evil.example:8461", "localhost.evil.example", "127.0.0.1.evil.example"] {
        for (method, path) in [
            ("GET", "/"),
            ("GET", "/v1/stats"),
            ("GET", "/metrics"),
            ("GET", "/healthz"),
            ("GET", "/openapi.json"),
            ("PUT", SHOP),
            ("POST", "/v1/claims/stop"),
        ] {
            let answer = ask(method, path, host).await;
            answer.refused(421, "host_not_allowed", &[]);
            assert_eq!(answer.header("connection"), Some("close"), "{host}: {path}");
        }
    }
    ask("GET", SHOP, "localhost:1").await.refused(404, "not_found", &[]);
    let live = world.admin("GET", "/readyz", "").await;
    assert_eq!(live.status, 200, "claims were not stopped: {}", live.text);
}

/// Whatever a page of another site makes a browser send changes nothing, and is read by nobody.
#[tokio::test]
async fn t64_another_site_changes_nothing_and_reads_nothing() {
    let world = World::start().await;
    world.paused("shop").await;
    let before = world.admin("GET", SHOP, "").await.expect(200);
    let form = ("application/x-www-form-urlencoded", "tenant=acme&url=https%3A%2F%2Fevil.example%2F");
    let plain = ("text/plain", LEAST);
    let json = ("application/json", LEAST);
    for origin in ["http://evil.example", "null", "http://localhost:1", "https://127.0.0.1", ""] {
        for (method, path, (media, body)) in [
            ("POST", "/v1/destinations/shop/resume", form),
            ("POST", "/v1/destinations/shop/resume", ("multipart/form-data; boundary=x", "--x--")),
            ("POST", "/v1/claims/stop", plain),
            ("POST", "/v1/deliveries", plain),
            ("PUT", SHOP, json),
            ("PATCH", SHOP, json),
            ("DELETE", SHOP, json),
            ("OPTIONS", SHOP, json),
        ] {
            let request = world.ask(method, &world.server.admin, path).header("origin", origin);
            let answer = Answer::of(request.header("content-type", media).body(body)).await;
            answer.refused(403, "origin_not_allowed", &[]);
            tells_no_site(&answer);
        }
    }
    // A form without an origin is still no JSON, and a page may not read what it gets.
    let form = world.ask("POST", &world.server.admin, "/v1/bulk").header("content-type", form.0).body(form.1);
    Answer::of(form).await.refused(415, "content_type", &[]);
    let read = world.ask("GET", &world.server.admin, "/v1/stats").header("origin", "http://evil.example");
    tells_no_site(&Answer::of(read).await);
    assert_eq!(world.admin("GET", SHOP, "").await.expect(200), before);
    assert_eq!((world.stored().await.len(), world.admin("GET", "/readyz", "").await.status), (0, 200));
    let own = world.ask("PUT", &world.server.admin, SHOP).header("origin", &world.server.admin);
    let own = Answer::of(own.header("content-type", "application/json").body(LEAST)).await;
    tells_no_site(&own);
    own.expect(200);
}

/// No header lets a page of another site read the answer.
fn tells_no_site(answer: &Answer) {
    let mut names = answer.headers.keys();
    assert!(names.all(|name| !name.as_str().starts_with("access-control-")), "{answer:?}");
}

/// Off loopback a server starts with a token, and with TLS or the word that a proxy has it; it
/// refuses before it makes a file.
#[test]
fn t65_an_open_listener_is_refused_before_anything_is_made() {
    let token = format!("[[token]]\nid = \"a\"\nsha256 = \"{}\"\nscopes = [\"admin\"]\n", "0".repeat(64));
    let check = |table: &str, says: &str| {
        let folder = TempDir::new().unwrap();
        let config = folder.path().join("c.toml");
        std::fs::write(&config, table).unwrap();
        let mut command = crate::server::serve(folder.path(), &[]);
        command.env_remove("DUEHOOK_ADMIN__LISTEN").env_remove("DUEHOOK_INGEST__LISTEN");
        let ended = command.env("DUEHOOK_CONFIG", &config).stderr(Stdio::piped()).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(78), "{table}: {said}");
        assert!(said.contains(says), "{table}: {said}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "{table}");
    };
    for (name, port) in [("ingest", 8460), ("admin", 8461), ("metrics", 9464)] {
        for address in ["0.0.0.0", "[::]", "192.0.2.1"] {
            let open = format!("[{name}]\nlisten = \"{address}:{port}\"\n");
            check(&open, &format!("{name}."));
            check(&format!("{open}auth = \"none\"\n"), &format!("{name}."));
            check(&format!("{open}\n{token}"), &format!("{name}.listen"));
            check(&format!("{open}plaintext = true\n"), "[[token]]");
            check(&format!("{open}tls_cert = \"c.pem\"\ntls_key = \"k.pem\"\n"), "[[token]]");
        }
    }
}

/// Ten thousand keys and as many names of tenants leave nothing behind but the deliveries.
#[tokio::test]
async fn t66_names_without_number_take_no_series_and_no_memory() {
    let world = World::start().await;
    world.paused("kept").await;
    let series = async || {
        let text = world.admin("GET", "/metrics", "").await.text;
        assert!(!text.contains("nobody-") && !text.contains("key-"), "{text}");
        text.lines().filter(|line| !line.starts_with('#')).count()
    };
    let brought = async |from: usize, more: &dyn Fn(usize) -> String, status: u64| {
        for first in (from..from + 10_000).step_by(1_000) {
            let mut lines = String::new();
            for n in first..first + 1_000 {
                writeln!(lines, r#"{{"destination":"kept","payload":1{}}}"#, more(n)).unwrap();
            }
            let request = world.ask("POST", &world.server.ingest, "/v1/batch");
            let request = request.header("content-type", "application/x-ndjson").body(lines);
            let answer = Answer::of(request).await.expect(200);
            assert!(answer["results"].as_array().unwrap().iter().all(|one| one["status"] == status));
        }
    };
    let key = |n: usize| format!(r#","idempotency_key":"key-{n}""#);
    let tenant = |n: usize| format!(r#","tenant":"nobody-{n}""#);
    brought(0, &key, 202).await;
    let (before, memory) = (series().await, resident(&world));
    brought(10_000, &key, 202).await;
    brought(0, &tenant, 404).await;
    let (after, more) = (series().await, resident(&world).saturating_sub(memory));
    assert!(after <= before && after < 500, "{before} series, and then {after}");
    assert!(more < 48 << 10, "{more} kB more for ten thousand keys");
    let tenants = world.admin("GET", "/v1/stats/tenants", "").await.expect(200);
    assert_eq!(tenants["data"].as_array().unwrap().len(), 1, "{tenants}");
}

/// What the server has in memory, in kB.
fn resident(world: &World) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/status", world.server.pid())).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
