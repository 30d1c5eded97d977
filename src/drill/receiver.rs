//! The scripted receiver: a small HTTP server that answers as it is told to, and can tell what
//! it was sent. Drills, tests and the benchmark run against it, and `duehook receiver` is it.
//!
//! Paths script it for people with curl ([`paths`]); programs give it answers or a closure
//! ([`Script`]). Without a record and an observer a request takes no lock and is not copied.
//! It must never be more than a test's receiver: it has no limits against a hostile sender.

pub mod answer;
mod console;
pub mod paths;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::HeaderMap;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::Instant;

pub use answer::Answer;
use answer::Content;
pub use console::{ReceiverOptions, serve};
use paths::Paths;

/// Requests kept in a record; later ones are counted only. 200,000 digests take about 100 MB.
pub const MAX_RECORDED: usize = 200_000;
/// How long the accept loop rests when the process has no descriptor left.
const ACCEPT_REST: Duration = Duration::from_millis(50);

/// One request, as it arrived.
#[derive(Clone, Debug)]
pub struct Received {
    /// Its number, from 1.
    pub n: u64,
    /// Since the receiver started, when the head had been read.
    pub at: Duration,
    pub method: String,
    /// With the query.
    pub path: String,
    pub headers: HeaderMap,
    /// Empty when only digests are kept.
    pub body: Bytes,
    pub length: usize,
    pub sha256: [u8; 32],
}

impl Received {
    /// The value of a header, if it is there and is text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The `Idempotency-Key`.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.header("idempotency-key")
    }

    /// The `Duehook-Attempt`.
    #[must_use]
    pub fn attempt(&self) -> Option<u32> {
        self.header("duehook-attempt").and_then(|text| text.parse().ok())
    }
}

/// What answers a request.
pub type Decide = dyn Fn(&Received) -> Answer + Send + Sync;
/// What is told of a request and its answer, before the answer leaves.
pub type Observe = dyn Fn(&Received, &Answer) + Send + Sync;

/// How requests are answered.
pub enum Script {
    /// By path: see [`paths`].
    Paths,
    /// In order, whatever the request; the last one repeats. None at all: 204.
    List(Vec<Answer>),
    /// By what is asked.
    Decide(Box<Decide>),
}

/// What is kept of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// Only their number.
    Count,
    /// All but the body, of which length and SHA-256 are kept.
    Digests,
    Bodies,
}

/// A running receiver. It stops when this is dropped, with all its connections.
pub struct Receiver {
    address: SocketAddr,
    desk: Arc<Desk>,
    /// The accept loop, which owns the connections.
    tasks: JoinSet<()>,
}

/// What all connections share.
struct Desk {
    started: Instant,
    script: Script,
    paths: Paths,
    record: Record,
    observe: Option<Box<Observe>>,
    count: AtomicU64,
    received: Mutex<Vec<Received>>,
}

impl Receiver {
    /// Listens on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// The port could not be opened.
    pub async fn start(script: Script, record: Record) -> io::Result<Receiver> {
        let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await?;
        Receiver::on(listener, script, record, None)
    }

    /// Serves `listener`; `observe` is told of each request.
    ///
    /// # Errors
    /// The listener has no address.
    pub fn on(
        listener: TcpListener,
        script: Script,
        record: Record,
        observe: Option<Box<Observe>>,
    ) -> io::Result<Receiver> {
        let address = listener.local_addr()?;
        let desk = Arc::new(Desk::new(script, record, observe));
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::clone(&desk)));
        Ok(Receiver { address, desk, tasks })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A URL of it; `path` begins with a slash.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The instant that [`Received::at`] counts from.
    #[must_use]
    pub fn started(&self) -> Instant {
        self.desk.started
    }

    /// Requests that were read so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.desk.count.load(Ordering::Acquire)
    }

    /// What was recorded so far, in order of arrival.
    #[must_use]
    pub fn received(&self) -> Vec<Received> {
        self.desk.received.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Closes the listener and cuts all connections.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
    }
}

impl Desk {
    fn new(script: Script, record: Record, observe: Option<Box<Observe>>) -> Desk {
        Desk {
            started: Instant::now(),
            script,
            paths: Paths::default(),
            record,
            observe,
            count: AtomicU64::new(0),
            received: Mutex::new(Vec::new()),
        }
    }

    /// Reads the whole request and answers it. `Err` closes the connection without a byte.
    async fn serve(&self, request: Request<Incoming>) -> Result<Response<Content>, Dropped> {
        let at = self.started.elapsed();
        let (head, mut body) = request.into_parts();
        if !self.looks() {
            drain(&mut body).await?;
            self.count.fetch_add(1, Ordering::AcqRel);
            let key = head.headers.get("idempotency-key").map_or(&b""[..], |key| key.as_bytes());
            return self.paths.answer(head.uri.path(), key).respond().await;
        }
        let body = body.collect().await.map_err(|_| Dropped)?.to_bytes();
        let n = self.count.fetch_add(1, Ordering::AcqRel) + 1;
        let received = received(n, at, head, body);
        let answer = self.decide(&received);
        // What an observer was told of is in the record.
        match &self.observe {
            Some(observe) => {
                self.keep(received.clone());
                observe(&received, &answer);
            }
            None => self.keep(received),
        }
        answer.respond().await
    }

    /// True when a request must be copied: someone wants to see it.
    fn looks(&self) -> bool {
        self.record != Record::Count || self.observe.is_some() || !matches!(self.script, Script::Paths)
    }

    fn decide(&self, received: &Received) -> Answer {
        match &self.script {
            Script::Paths => {
                let path = received.path.split('?').next().unwrap_or_default();
                self.paths.answer(path, received.key().unwrap_or_default().as_bytes())
            }
            Script::List(answers) => {
                let index = usize::try_from(received.n - 1).unwrap_or(usize::MAX);
                answers.get(index).or(answers.last()).cloned().unwrap_or(Answer::status(204))
            }
            Script::Decide(decide) => decide(received),
        }
    }

    fn keep(&self, mut received: Received) {
        match self.record {
            Record::Count => return,
            Record::Digests => received.body = Bytes::new(),
            Record::Bodies => {}
        }
        let mut all = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < MAX_RECORDED {
            all.push(received);
        }
    }
}

/// The connection is to be closed without an answer.
#[derive(Debug, thiserror::Error)]
#[error("closed without an answer")]
struct Dropped;

fn received(n: u64, at: Duration, head: hyper::http::request::Parts, body: Bytes) -> Received {
    use sha2::Digest as _;
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let (length, sha256) = (body.len(), sha2::Sha256::digest(&body).into());
    Received { n, at, method: head.method.to_string(), path, headers: head.headers, body, length, sha256 }
}

async fn drain(body: &mut Incoming) -> Result<(), Dropped> {
    while let Some(frame) = body.frame().await {
        frame.map_err(|_| Dropped)?;
    }
    Ok(())
}

/// Accepts for ever; its connections end with it.
async fn accept(listener: TcpListener, desk: Arc<Desk>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            taken = listener.accept() => match taken {
                Ok((stream, _)) => {
                    connections.spawn(connection(stream, Arc::clone(&desk)));
                }
                Err(_) => rest(ACCEPT_REST).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(stream: TcpStream, desk: Arc<Desk>) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| desk.serve(request));
    // It ends with the sender's close or with an answer that was to be dropped: both as meant.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

/// Waits. Only here does a receiver wait by the clock.
#[expect(clippy::disallowed_methods, reason = "a scripted receiver is slow on purpose")]
async fn rest(time: Duration) {
    tokio::time::sleep(time).await;
}

#[cfg(test)]
#[path = "receiver/tests.rs"]
mod tests;
