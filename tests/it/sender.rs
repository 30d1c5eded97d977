//! The sender against receivers that behave badly, over real sockets.
//!
//! Not here: C059 (a name that moves: the pool keeps a connection for 15 s, and every new one
//! asks the resolver anew, but no resolver can be set from outside), C066-C068 (decided by
//! `outcome::decide`), C071 (descriptors are those of the whole test process).
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod guard;
mod raw;
mod tls;
mod vectors;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use duehook::drill::receiver::{Answer, Receiver, Record, Script};
use duehook::model::{DeliveryId, Header};
use duehook::outcome::{MaybeSent, NotSent, Outcome};
use duehook::sender::egress::Rules;
use duehook::sender::{Body, Config, Endpoint, MAX_EXCERPT, OutboundRequest, Seen, Sender, Signers};
use duehook::time::{Millis, Timestamp};
use tokio::time::Instant;

use raw::{Act, Raw};

/// No test here takes longer; one that hangs fails.
const DEADLINE: Duration = Duration::from_secs(20);
const LOOPBACK: &str = "127.0.0.1/32";

async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.expect("the test ends in time")
}

fn rules() -> Rules {
    Rules { allow_http: false, ports: vec![443, 8443], allow_cidrs: Vec::new() }
}

fn sender() -> Sender {
    Sender::new(Config { rules: rules(), ..Config::default() }).unwrap()
}

fn endpoint(url: &str, cidrs: &[&str]) -> Endpoint {
    Endpoint {
        url: url.parse().unwrap(),
        timeout: Millis(5_000),
        connect_timeout: Millis(2_000),
        allow_cidrs: cidrs.iter().map(|text| text.parse().unwrap()).collect(),
        headers: Vec::new(),
        signers: Signers::default(),
        tls: None,
    }
}

fn request(endpoint: Endpoint, body: impl Into<Bytes>) -> OutboundRequest {
    OutboundRequest {
        delivery: DeliveryId(7),
        attempt: 1,
        key: "shp_4821:v7".into(),
        created_at: Timestamp(1_768_478_400_000),
        sent_at: Timestamp(1_768_478_401_000),
        content_type: "application/json".into(),
        headers: Vec::new(),
        body: Body::Bytes(body.into()),
        endpoint: Arc::new(endpoint),
        keep_alive: true,
    }
}

async fn send(sender: &Sender, url: &str) -> Seen {
    in_time(sender.send(request(endpoint(url, &[LOOPBACK]), "{}"))).await
}

fn ambiguous() -> Outcome {
    Outcome::MaybeSent(MaybeSent::Ambiguous)
}

fn invalid() -> Outcome {
    Outcome::MaybeSent(MaybeSent::InvalidResponse)
}

/// C042: the receiver closes each connection as soon as it has answered, while the pool still
/// holds it. Every attempt is at most one request, and none disappears.
#[tokio::test]
async fn c042_an_idle_connection_that_closes_is_never_a_hidden_retry() {
    let raw = Raw::start(|_| vec![Act::Say(b"HTTP/1.1 204 No Content\r\n\r\n"), Act::Close]).await;
    let sender = sender();
    let mut answered = 0;
    for _ in 0..200 {
        let seen = send(&sender, &raw.url()).await;
        let known = seen.outcome.is_success() || seen.outcome == ambiguous();
        assert!(known, "{seen:?}");
        answered += u64::from(seen.outcome.is_success());
    }
    assert!((answered..=200).contains(&raw.requests()), "{answered} answered of {}", raw.requests());
    assert!(answered >= 100, "{answered}");
}

/// C043, C044: on a fresh connection and on one that was used before.
#[tokio::test]
async fn c043_c044_dropped_after_reading_is_ambiguous_and_one_request() {
    let raw = Raw::start(|n| match n {
        2 => vec![Act::Say(b"HTTP/1.1 204 No Content\r\n\r\n")],
        _ => vec![Act::Close],
    });
    let (raw, sender) = (raw.await, sender());
    assert_eq!(send(&sender, &raw.url()).await.outcome, ambiguous());
    assert_eq!(raw.requests(), 1);
    assert!(send(&sender, &raw.url()).await.outcome.is_success());
    let seen = send(&sender, &raw.url()).await;
    assert_eq!((seen.outcome, raw.requests()), (ambiguous(), 3));
    let text = seen.error.unwrap();
    assert!(text.starts_with("127.0.0.1: ") && !text.contains("t0ken"), "{text}");
    let bodies = raw.bodies();
    assert!(bodies.iter().all(|body| body == b"{}"), "{bodies:?}");
}

#[tokio::test]
async fn c044_closed_after_the_headers_is_one_request() {
    let raw = Raw::reading_heads(|_| vec![Act::Close]).await;
    let big = request(endpoint(&raw.url(), &[LOOPBACK]), vec![b'x'; 1 << 20]);
    assert_eq!(in_time(sender().send(big)).await.outcome, ambiguous());
    assert_eq!(raw.requests(), 1);
}

#[tokio::test]
async fn c049_a_continue_that_nobody_asked_for() {
    let raw = Raw::start(|n| match n {
        1 => vec![Act::Say(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n")],
        _ => vec![Act::Say(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")],
    })
    .await;
    let sender = sender();
    assert_eq!(send(&sender, &raw.url()).await.outcome.status(), Some(204));
    assert_eq!(send(&sender, &raw.url()).await.outcome.status(), Some(202));
    assert_eq!(raw.connections(), 1);
}

#[tokio::test]
async fn c050_c055_nothing_is_expected_and_no_encoding_offered() {
    let raw = Raw::start(|_| vec![Act::Say(b"HTTP/1.1 204 No Content\r\n\r\n")]).await;
    let began = Instant::now();
    let body = Bytes::from(vec![b' '; 2_000_000]);
    let seen = in_time(sender().send(request(endpoint(&raw.url(), &[LOOPBACK]), body.clone()))).await;
    assert!(seen.outcome.is_success() && began.elapsed() < Duration::from_secs(1), "{seen:?}");
    let head = raw.heads()[0].to_ascii_lowercase();
    for absent in ["expect:", "accept-encoding:", "transfer-encoding:", "referer:", "connection:"] {
        assert!(!head.contains(absent), "{absent} {head}");
    }
    assert!(head.starts_with("post /t0ken?q=s3cret http/1.1\r\n"), "{head}");
    assert!(head.contains("\r\nuser-agent: duehook/") && head.contains("content-length: 2000000"), "{head}");
    assert_eq!(raw.bodies()[0], body);
}

#[tokio::test]
async fn an_empty_body_has_a_length() {
    let raw = Raw::start(|_| vec![Act::Say(b"HTTP/1.1 204 No Content\r\n\r\n")]).await;
    let sender = sender();
    for _ in 0..2 {
        let seen = in_time(sender.send(request(endpoint(&raw.url(), &[LOOPBACK]), ""))).await;
        assert!(seen.outcome.is_success());
    }
    assert!(raw.heads()[0].to_ascii_lowercase().contains("content-length: 0\r\n"));
    assert_eq!(raw.connections(), 1);
}

/// C054: the head decides. What follows it is read to a limit and for a while, and then cut.
#[tokio::test]
async fn c054_whatever_follows_a_2xx_head_it_is_delivered() {
    let chunk = b"ffff\r\n";
    let bodies: [(&str, Vec<Act>); 5] = [
        ("endless", vec![Act::Flood(chunk)]),
        ("broken", vec![Act::Say(b"5\r\nhel"), Act::Close]),
        ("no chunk", vec![Act::Say(b"zzz\r\n")]),
        ("stalled", vec![Act::Hang]),
        ("closed", vec![Act::Close]),
    ];
    for (case, body) in bodies {
        let head = Act::Say(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
        let acts = [vec![head], body].concat();
        let raw = Raw::start(move |_| acts.clone()).await;
        let began = Instant::now();
        let seen = send(&sender(), &raw.url()).await;
        assert_eq!(seen.outcome.status(), Some(200), "{case}: {seen:?}");
        assert!(began.elapsed() < Duration::from_secs(3), "{case}: the slot is free soon");
    }
}

#[tokio::test]
async fn c055_an_encoded_answer_stays_encoded() {
    let raw = Raw::start(|_| {
        vec![
            Act::Say(
                b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 3000\r\n\r\n\x1f\x8b\x08",
            ),
            Act::Say(&[0xff; 2997]),
        ]
    })
    .await;
    let config = Config { rules: rules(), keep_response_excerpt: true, ..Config::default() };
    let seen = send(&Sender::new(config).unwrap(), &raw.url()).await;
    let excerpt = seen.response_excerpt.unwrap();
    assert_eq!((excerpt.0.len(), &excerpt.0[..4]), (MAX_EXCERPT, &b"\x1f\x8b\x08\xff"[..]));
    assert_eq!(send(&sender(), &raw.url()).await.response_excerpt, None);
}

async fn check_head(head: &'static [u8], want: Result<u16, Outcome>) {
    let raw = Raw::start(move |_| vec![Act::Say(head), Act::Close]).await;
    let seen = send(&sender(), &raw.url()).await;
    let name = String::from_utf8_lossy(&head[..head.len().min(60)]);
    match want {
        Ok(status) => assert_eq!(seen.outcome.status(), Some(status), "{name}: {seen:?}"),
        Err(outcome) => assert_eq!(seen.outcome, outcome, "{name}: {seen:?}"),
    }
    assert_eq!(raw.requests(), 1, "{name}");
}

/// C061: the status line says what is to be known; header lines that are none are passed over.
#[tokio::test]
async fn c061_bad_header_lines_do_not_undo_a_delivery() {
    check_head(b"HTTP/1.1 200 OK\r\nX-Bad Header: 1\r\nno-colon-line\r\nContent-Length: 0\r\n\r\n", Ok(200))
        .await;
    check_head(b"HTTP/1.1 503 No\r\n: x\r\n\xff\xfe: y\r\nContent-Length: 0\r\n\r\n", Ok(503)).await;
}

#[tokio::test]
async fn c076_status_codes_outside_the_known_range() {
    check_head(b"HTTP/1.1 299 \r\ncontent-length: 0\r\n\r\n", Ok(299)).await;
    check_head(b"HTTP/1.1 499 x\r\ncontent-length: 0\r\n\r\n", Ok(499)).await;
    check_head(b"HTTP/1.1 599 x\r\ncontent-length: 0\r\n\r\n", Ok(599)).await;
    for head in [
        &b"HTTP/1.1 700 x\r\ncontent-length: 0\r\n\r\n"[..],
        b"HTTP/1.1 099 x\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n",
        b"ICY 200 OK\r\n\r\n",
        b"HTTP/0.9\r\n\r\n",
        b"<html>hello</html>\r\n\r\n",
        b"\0\0\0\0\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
    ] {
        check_head(head, Err(invalid())).await;
    }
    check_head(b"HTTP/1.1 20", Err(ambiguous())).await;
    check_head(b"HTTP/1.1 200 OK\r\nx: y\r\n", Err(ambiguous())).await;
}

#[tokio::test]
async fn t48_a_head_without_end_is_cut_off() {
    let raw = Raw::start(|_| vec![Act::Say(b"HTTP/1.1 200 OK\r\n"), Act::Flood(b"x: y\r\n")]).await;
    assert_eq!(send(&sender(), &raw.url()).await.outcome, invalid());
}

#[tokio::test]
async fn t48_continues_without_end_end_by_the_deadline() {
    let raw = Raw::start(|_| vec![Act::Flood(b"HTTP/1.1 100 Continue\r\n\r\n")]).await;
    let short = Endpoint { timeout: Millis(300), ..endpoint(&raw.url(), &[LOOPBACK]) };
    let seen = in_time(sender().send(request(short, "{}"))).await;
    assert_eq!(seen.outcome, Outcome::MaybeSent(MaybeSent::Timeout));
}

#[tokio::test]
async fn c063_c064_t43_t54_redirects_are_answers() {
    let other = Receiver::start(Script::Paths, Record::Digests).await.unwrap();
    for code in [301, 302, 303, 307, 308] {
        for location in ["/ok".to_owned(), other.url("/ok"), "http://169.254.169.254/".to_owned()] {
            let redirect = Answer::status(code).with(reqwest::header::LOCATION, &location);
            let first = Receiver::start(Script::List(vec![redirect]), Record::Digests).await.unwrap();
            let secret = Header::new("x-api-key", "s3cret").unwrap();
            let to = Endpoint { headers: vec![secret], ..endpoint(&first.url("/hook"), &[LOOPBACK]) };
            let seen = in_time(sender().send(request(to, "{}"))).await;
            assert_eq!(seen.outcome.status(), Some(code));
            assert_eq!((first.count(), other.count()), (1, 0), "{code} {location}");
        }
    }
}

#[tokio::test]
async fn c069_a_name_that_does_not_resolve_is_dns() {
    let seen = send(&sender(), "http://hooks.duehook.invalid/t0ken?q=s3cret").await;
    assert_eq!(seen.outcome, Outcome::NotSent(NotSent::Dns), "{seen:?}");
    let text = seen.error.unwrap();
    assert!(text.contains("hooks.duehook.invalid") && !text.contains("t0ken"), "{text}");
}

#[tokio::test]
async fn c073_which_codes_are_success() {
    let receiver = Receiver::start(Script::Paths, Record::Digests).await.unwrap();
    let sender = sender();
    for code in [200, 201, 202, 204, 207, 226, 299] {
        let seen = send(&sender, &receiver.url(&format!("/status/{code}"))).await;
        assert_eq!(
            (seen.outcome.status(), seen.error, seen.address),
            (Some(code), None, Some(receiver.address()))
        );
    }
    for code in [304, 400, 410, 429, 500, 503] {
        let seen = send(&sender, &receiver.url(&format!("/status/{code}"))).await;
        assert_eq!((seen.outcome.status(), seen.outcome.is_success()), (Some(code), false));
    }
    assert_eq!(receiver.received()[0].header("user-agent"), Some(duehook::sign::USER_AGENT));
}

#[tokio::test]
async fn c077_closing_answers() {
    let raw = Raw::start(|n| match n {
        1 => vec![Act::Say(b"HTTP/1.0 200 OK\r\n\r\nhello"), Act::Close],
        2 => vec![
            Act::Say(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 5\r\n\r\nhello"),
            Act::Hang,
        ],
        _ => vec![Act::Say(b"HTTP/1.1 204 No Content\r\n\r\n")],
    })
    .await;
    let sender = sender();
    for n in 1..=3 {
        let began = Instant::now();
        assert!(send(&sender, &raw.url()).await.outcome.is_success(), "{n}");
        assert!(began.elapsed() < Duration::from_millis(900), "{n}: free at once");
        assert_eq!(raw.connections(), n, "{n}: a connection of its own");
    }
}

#[tokio::test]
async fn the_lines_of_a_retry_after_come_through_as_bytes() {
    let head =
        b"HTTP/1.1 429 x\r\nretry-after: 5\r\nRetry-After: \xff\r\ndate: now\r\ncontent-length: 0\r\n\r\n";
    let raw = Raw::start(move |_| vec![Act::Say(head)]).await;
    let Outcome::Answered { status: 429, headers } = send(&sender(), &raw.url()).await.outcome else {
        panic!("a 429")
    };
    assert_eq!(headers.retry_after, [b"5".to_vec(), b"\xff".to_vec()]);
    assert_eq!(headers.date.as_deref(), Some(&b"now"[..]));
}

#[tokio::test]
async fn timeouts_before_and_after_the_connection_stands() {
    let raw = Raw::start(|_| vec![Act::Hang]).await;
    let cases = [
        ("connected", raw.url(), 300, 2_000, Outcome::MaybeSent(MaybeSent::Timeout)),
        (
            "no handshake",
            raw.url().replace("http:", "https:"),
            5_000,
            200,
            Outcome::NotSent(NotSent::Connect),
        ),
        ("no time", raw.url().replace("http:", "https:"), 200, 5_000, Outcome::NotSent(NotSent::Connect)),
    ];
    for (case, url, timeout, connect, want) in cases {
        let (timeout, connect_timeout) = (Millis(timeout), Millis(connect));
        let to = Endpoint { timeout, connect_timeout, ..endpoint(&url, &[LOOPBACK]) };
        let began = Instant::now();
        let seen = in_time(sender().send(request(to, "{}"))).await;
        assert_eq!(seen.outcome, want, "{case}: {seen:?}");
        assert!(began.elapsed() < Duration::from_secs(2), "{case}");
    }
    assert_eq!(raw.requests(), 1);
}

#[tokio::test]
async fn a_closed_port_is_connect() {
    let receiver = Receiver::start(Script::Paths, Record::Count).await.unwrap();
    let url = receiver.url("/ok");
    receiver.stop().await;
    let seen = send(&sender(), &url).await;
    assert_eq!(seen.outcome, Outcome::NotSent(NotSent::Connect));
    assert_eq!(seen.error.as_deref(), Some("127.0.0.1: connect: connection refused"));
}

async fn check_blocked(url: &str, cidrs: &[&str], want: bool) {
    let seen = in_time(sender().send(request(endpoint(url, cidrs), "{}"))).await;
    let blocked = seen.outcome == Outcome::NotSent(NotSent::Blocked);
    assert_eq!(blocked, want, "{url} {cidrs:?}: {seen:?}");
}

/// T50, T52, T59: nothing is dialled that the rules of now do not allow, whatever was admitted.
#[tokio::test]
async fn t50_t52_t59_addresses_are_checked_at_every_send() {
    let receiver = Receiver::start(Script::Paths, Record::Count).await.unwrap();
    let port = receiver.address().port();
    for url in [receiver.url("/ok"), format!("http://localhost:{port}/ok")] {
        check_blocked(&url, &[], true).await;
        check_blocked(&url, &["10.0.0.0/8"], true).await;
        check_blocked(&url.replace("http:", "https:"), &["10.0.0.0/8"], true).await;
    }
    check_blocked("http://169.254.169.254/", &["0.0.0.0/0"], true).await;
    assert_eq!(receiver.count(), 0);
    for url in [receiver.url("/ok"), format!("http://localhost:{port}/ok")] {
        check_blocked(&url, &[LOOPBACK], false).await;
    }
    assert_eq!(receiver.count(), 2);
}

/// A connection opened for one destination is not used for another under other rules.
#[tokio::test]
async fn connections_belong_to_the_rules_they_were_opened_under() {
    let raw = Raw::start(|_| vec![Act::Say(b"HTTP/1.1 204 No Content\r\n\r\n")]).await;
    let sender = sender();
    for (cidrs, connections) in [(["127.0.0.1/32"], 1), (["127.0.0.1/32"], 1), (["127.0.0.0/8"], 2)] {
        let seen = in_time(sender.send(request(endpoint(&raw.url(), &cidrs), "{}"))).await;
        assert!(seen.outcome.is_success());
        assert_eq!(raw.connections(), connections, "{cidrs:?}");
    }
}

#[tokio::test]
async fn a_connection_that_is_not_to_be_kept_is_not() {
    let raw = Raw::start(|_| vec![Act::Say(b"HTTP/1.1 204 No Content\r\n\r\n")]).await;
    let sender = sender();
    for n in 1..=2 {
        let last = OutboundRequest { keep_alive: false, ..request(endpoint(&raw.url(), &[LOOPBACK]), "{}") };
        assert!(in_time(sender.send(last)).await.outcome.is_success());
        assert_eq!(raw.connections(), n);
    }
    assert!(raw.heads()[0].to_ascii_lowercase().contains("connection: close"));
}

/// T53: the requests of another test, in a process whose environment names a proxy.
#[tokio::test]
async fn t53_proxies_of_the_environment_are_ignored() {
    let proxy = Raw::start(|_| vec![Act::Say(b"HTTP/1.1 500 x\r\ncontent-length: 0\r\n\r\n")]).await;
    let test = ["--exact", "sender::c073_which_codes_are_success"];
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(test).env_remove("NO_PROXY").env_remove("no_proxy");
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        child.env(name, format!("http://{}", proxy.address()));
    }
    let output = in_time(tokio::task::spawn_blocking(move || child.output())).await.unwrap().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    assert_eq!(proxy.connections(), 0);
}
