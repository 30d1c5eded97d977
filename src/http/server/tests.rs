//! The accept loop on a real socket: framing, limits, deadlines and panics.

use super::*;
use crate::http::body::{self, Bound};
use axum::routing::{get, post};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{Notify, oneshot};

/// A listener with three routes; dropping it stops it.
struct Running {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    served: JoinSet<()>,
}

fn routes() -> Router {
    Router::new()
        .route("/", get(async || "ok"))
        .route("/panic", get(async || -> &'static str { panic!("in a handler") }))
        .route("/body", post(take))
        .route("/never", get(never))
        .route("/early", post(early))
        .route(
            "/stuck",
            get(async || {
                STUCK.notify_one();
                never().await
            }),
        )
}

/// A request has come to `/stuck`; one test alone asks for it.
static STUCK: Notify = Notify::const_new();

/// A request to `/early` has begun; one test alone asks for it.
static EARLY: Notify = Notify::const_new();

/// Begins before its body is whole.
async fn early(request: axum::extract::Request) -> &'static str {
    request.extensions().get::<crate::http::room::AtWork>().unwrap().begin();
    EARLY.notify_one();
    never().await
}

async fn never() -> &'static str {
    std::future::pending().await
}

async fn take(request: axum::extract::Request) -> Result<String, Problem> {
    let (parts, body) = request.into_parts();
    let bound = Bound { bytes: 1024, wait: Duration::from_millis(50) };
    Ok(body::read(&parts.headers, body, bound).await?.len().to_string())
}

async fn start(change: impl FnOnce(&mut Limits)) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut limits = Limits::new(8, Vec::new());
    change(&mut limits);
    let (stop, stopped) = oneshot::channel();
    let mut served = JoinSet::new();
    served.spawn(serve(listener, routes(), limits, async { drop(stopped.await) }));
    Running { address, stop, served }
}

/// Writes `text` and reads until the server closes.
async fn talk(running: &Running, text: &str) -> String {
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    // The server may answer and close before all is written.
    drop(stream.write_all(text.as_bytes()).await);
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer).await);
    String::from_utf8(answer).unwrap()
}

fn get_once(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
}

async fn check(text: &str, status: &str) {
    let running = start(|_| {}).await;
    let answer = talk(&running, text).await;
    let shown: String = text.chars().take(200).collect();
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{shown}: {answer}");
}

#[tokio::test]
async fn a_panic_is_the_500_of_its_request_alone() {
    let running = start(|_| {}).await;
    let answer = talk(&running, &get_once("/panic")).await;
    assert!(
        answer.starts_with("HTTP/1.1 500 ") && answer.contains("urn:duehook:problem:internal"),
        "{answer}"
    );
    assert!(talk(&running, &get_once("/")).await.ends_with("ok"));
}

#[tokio::test]
async fn c207_a_head_that_is_too_large_is_431() {
    let many: String = (0..300).map(|n| format!("x-{n}: 1\r\n")).collect();
    check(&format!("GET / HTTP/1.1\r\nhost: localhost\r\n{many}\r\n"), "431").await;
    let long = "v".repeat(64 * 1024);
    check(&format!("GET / HTTP/1.1\r\nhost: localhost\r\nx: {long}\r\n\r\n"), "431").await;
}

#[tokio::test]
async fn c096_lengths_that_lie() {
    let check = async |head: &str, body: &str, status: &str| {
        let text = format!("POST /body HTTP/1.1\r\nhost: localhost\r\n{head}\r\n\r\n{body}");
        check(&text, status).await;
    };
    check("content-length: 10737418240", "few", "413").await;
    check("content-length: 1025", &"x".repeat(1025), "413").await;
    check("content-length: -1", "", "400").await;
    check("content-length: 5, 6", "hello!", "400").await;
    check("content-length: 5\r\ncontent-length: 6", "hello!", "400").await;
    check("content-length: 5\r\nconnection: close", "hello", "200").await;
}

/// The answer is out long before the body is, and the client may write all of it.
#[tokio::test]
async fn who_is_refused_early_can_finish_and_read_the_answer() {
    for (method, head) in
        [("POST", "content-length: 8388608"), ("GET", "host: twice\r\ncontent-length: 8388608")]
    {
        let running = start(|_| {}).await;
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        let head = format!("{method} /body HTTP/1.1\r\nhost: localhost\r\n{head}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&vec![b'x'; 8 * 1024 * 1024]).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
}

/// Who goes on for ever is cut off.
#[tokio::test]
async fn what_is_read_after_a_refusal_is_bounded() {
    let running = start(|_| {}).await;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    let head = b"POST /body HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10737418240\r\n\r\n";
    stream.write_all(head).await.unwrap();
    let piece = vec![b'x'; 1024 * 1024];
    let mut written = 0;
    while stream.write_all(&piece).await.is_ok() {
        written += 1;
        assert!(written < 1024, "a GiB was taken");
    }
}

/// Five bytes are the body, the rest is the next request: a bad one.
#[tokio::test]
async fn c096_what_follows_a_body_is_the_next_request() {
    let running = start(|_| {}).await;
    let text = "POST /body HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\n\r\nhellohello\r\n\r\n";
    let answer = talk(&running, text).await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("HTTP/1.1 400 "), "{answer}");
}

#[tokio::test]
async fn c097_a_chunked_body_has_the_same_bound() {
    let head = "POST /body HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunk = format!("100\r\n{}\r\n", "x".repeat(256));
    check(&format!("{head}{}0\r\n\r\n", chunk.repeat(5)), "413").await;
    check(&format!("{head}FFFFFFFFFFFFFFFFF\r\n"), "400").await;
    check(&format!("{head}FFFFFFFFFFFFFFFF\r\nxxxx"), "408").await;
}

/// Heads that come a byte at a time, for as long as they may. Clients and server share one thread here,
/// so that one answer may be late; none waits until a slow head has ended.
#[tokio::test]
async fn c099_five_hundred_slow_heads_delay_nobody() {
    let limit = Duration::from_secs(1);
    let running = start(|limits| (limits.max_connections, limits.header_timeout) = (600, limit)).await;
    let mut slow = JoinSet::new();
    for _ in 0..500 {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nx: ").await.unwrap();
        slow.spawn(async move {
            let mut beat = tokio::time::interval(Duration::from_millis(100));
            let (mut reader, mut writer) = stream.split();
            let mut answer = [0; 64];
            tokio::select! {
                _ = reader.read(&mut answer) => {}
                () = async { while writer.write_all(b"v").await.is_ok() { beat.tick().await; } } => {}
            }
        });
    }
    let began = tokio::time::Instant::now();
    let mut times = Vec::new();
    while !slow.is_empty() {
        let (asked, text) = (tokio::time::Instant::now(), get_once("/"));
        assert!(talk(&running, &text).await.ends_with("ok"));
        times.push(asked.elapsed());
        while slow.try_join_next().is_some() {}
    }
    times.sort();
    let (many, most) = (times[times.len() * 95 / 100], times[times.len() - 1]);
    assert!(times.len() > 10, "{} were answered meanwhile", times.len());
    assert!(many < Duration::from_millis(200) && most < limit, "95 % in {many:?}, all in {most:?}");
    assert!(began.elapsed() < 2 * limit, "{:?}", began.elapsed());
}

#[tokio::test]
async fn c099_t62_a_head_that_does_not_come_closes_the_connection() {
    assert_eq!(Limits::new(8, Vec::new()).header_timeout, Duration::from_secs(10));
    let running = start(|limits| limits.header_timeout = Duration::from_millis(20)).await;
    for begun in ["", "G", "GET / HTT", "GET / HTTP/1.1\r\nhost: localhost\r\n"] {
        assert_eq!(talk(&running, begun).await, "", "{begun}");
    }
    let twice = format!("{}GET / HTT", get_once("/").replace("close", "keep-alive"));
    let answer = talk(&running, &twice).await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("ok"), "{answer}");
    assert!(talk(&running, &get_once("/")).await.ends_with("ok"));
}

#[tokio::test]
async fn c100_a_body_that_does_not_come_is_408_and_closed() {
    check("POST /body HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\nab", "408").await;
}

/// Writes `text` and keeps the connection.
async fn begin(running: &Running, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    stream
}

/// A request on a connection that stays; true when it was answered with 200.
async fn ask(stream: &mut TcpStream) -> bool {
    drop(stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await);
    let mut answer = Vec::new();
    while !answer.ends_with(b"ok") {
        match stream.read_buf(&mut answer).await {
            Ok(0) | Err(_) => return false,
            Ok(_) => {}
        }
    }
    answer.starts_with(b"HTTP/1.1 200 ")
}

async fn is_closed(mut stream: TcpStream) -> bool {
    stream.read(&mut [0]).await.unwrap_or(0) == 0
}

/// A byte of a head, or of a body, and no more.
const DRIBBLES: [&str; 2] = ["G", "POST /body HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\nx"];

#[tokio::test]
async fn t62_who_dribbles_keeps_nobody_out() {
    let running = start(|limits| limits.max_connections = 4).await;
    let mut known = begin(&running, "").await;
    assert!(ask(&mut known).await);
    let mut dribblers = Vec::new();
    for n in 0..12 {
        dribblers.push(begin(&running, DRIBBLES[n % 2]).await);
        assert!(talk(&running, &get_once("/")).await.ends_with("ok"), "after {n} of them");
        assert!(ask(&mut known).await, "after {n} of them");
    }
    let newest = dribblers.split_off(10);
    for (n, dribbler) in dribblers.into_iter().enumerate() {
        assert!(is_closed(dribbler).await, "{n}");
    }
    drop(newest);
}

#[tokio::test]
async fn who_is_at_work_is_not_closed_and_room_comes_back() {
    let running = start(|limits| limits.max_connections = 1).await;
    let mut idle = begin(&running, "").await;
    assert!(ask(&mut idle).await);
    let mut working = begin(&running, &get_once("/stuck")).await;
    STUCK.notified().await;
    assert!(is_closed(idle).await);
    assert_eq!(talk(&running, &get_once("/")).await, "");
    working.shutdown().await.unwrap();
    drop(working);
    while talk(&running, &get_once("/")).await.is_empty() {}
}

/// An import stores pages while the rest of it comes.
#[tokio::test]
async fn who_began_before_his_body_was_whole_is_at_work() {
    let running = start(|limits| limits.max_connections = 1).await;
    let half = "POST /early HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\nx";
    let mut importing = begin(&running, half).await;
    EARLY.notified().await;
    assert_eq!(talk(&running, &get_once("/")).await, "", "the newer one is refused");
    assert!(importing.write_all(b"x").await.is_ok());
    let quiet = tokio::time::timeout(Duration::from_millis(20), importing.read(&mut [0])).await;
    assert!(quiet.is_err(), "and the older one goes on");
}

#[tokio::test]
async fn it_ends_when_told_though_a_request_does_not() {
    let mut running = start(|limits| limits.grace = Duration::from_millis(20)).await;
    let mut idle = TcpStream::connect(running.address).await.unwrap();
    idle.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    idle.read_exact(&mut [0; 12]).await.unwrap();
    let mut stuck = TcpStream::connect(running.address).await.unwrap();
    stuck.write_all(get_once("/never").as_bytes()).await.unwrap();
    running.stop.send(()).unwrap();
    running.served.join_next().await.unwrap().unwrap();
    assert_eq!(stuck.read(&mut [0]).await.unwrap_or(0), 0);
}

#[tokio::test]
async fn the_door_stands_in_front() {
    check("GET / HTTP/1.1\r\nhost: evil.example\r\n\r\n", "421").await;
    check("GET / HTTP/1.1\r\n\r\n", "400").await;
    check(
        "POST /body HTTP/1.1\r\nhost: localhost\r\norigin: http://evil.example\r\ncontent-length: 0\r\n\r\n",
        "403",
    )
    .await;
    check("GET / HTTP/1.1\r\nhost: localhost\r\nduehook-x: 1\r\n\r\n", "422").await;
}
