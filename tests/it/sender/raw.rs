//! A receiver below HTTP: it reads requests and says the bytes it is told to.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// What is done after a request was read, in order.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    Say(&'static [u8]),
    /// Says it again and again until the sender has gone. A chunk's head is followed by its chunk.
    Flood(&'static [u8]),
    Hang,
    Close,
}

type Script = dyn Fn(u64) -> Vec<Act> + Send + Sync;

#[derive(Default)]
struct Log {
    connections: AtomicU64,
    requests: AtomicU64,
    heads: Mutex<Vec<String>>,
    bodies: Mutex<Vec<Vec<u8>>>,
}

/// It stops when dropped.
pub(super) struct Raw {
    address: SocketAddr,
    log: Arc<Log>,
    _tasks: JoinSet<()>,
}

impl Raw {
    /// Reads whole requests; `script` is given the request's number, from 1.
    pub(super) async fn start(script: impl Fn(u64) -> Vec<Act> + Send + Sync + 'static) -> Raw {
        Raw::serve(Arc::new(script), true).await
    }

    /// Reads only the heads.
    pub(super) async fn reading_heads(script: impl Fn(u64) -> Vec<Act> + Send + Sync + 'static) -> Raw {
        Raw::serve(Arc::new(script), false).await
    }

    async fn serve(script: Arc<Script>, whole: bool) -> Raw {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, log) = (listener.local_addr().unwrap(), Arc::new(Log::default()));
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, script, whole, Arc::clone(&log)));
        Raw { address, log, _tasks: tasks }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/t0ken?q=s3cret", self.address)
    }

    pub(super) fn connections(&self) -> u64 {
        self.log.connections.load(Ordering::Acquire)
    }

    pub(super) fn requests(&self) -> u64 {
        self.log.requests.load(Ordering::Acquire)
    }

    pub(super) fn heads(&self) -> Vec<String> {
        self.log.heads.lock().unwrap().clone()
    }

    pub(super) fn bodies(&self) -> Vec<Vec<u8>> {
        self.log.bodies.lock().unwrap().clone()
    }
}

async fn accept(listener: TcpListener, script: Arc<Script>, whole: bool, log: Arc<Log>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        log.connections.fetch_add(1, Ordering::AcqRel);
        connections.spawn(talk(stream, Arc::clone(&script), whole, Arc::clone(&log)));
    }
}

/// Requests and answers, until one of both sides has enough.
async fn talk(mut stream: TcpStream, script: Arc<Script>, whole: bool, log: Arc<Log>) {
    let mut buffer = Vec::new();
    while read_request(&mut stream, &mut buffer, whole, &log).await.is_some() {
        let n = log.requests.fetch_add(1, Ordering::AcqRel) + 1;
        for act in script(n) {
            if perform(&mut stream, act).await.is_none() {
                return;
            }
        }
    }
}

async fn perform(stream: &mut TcpStream, act: Act) -> Option<()> {
    match act {
        Act::Say(bytes) => stream.write_all(bytes).await.ok(),
        Act::Flood(bytes) => flood(stream, bytes).await,
        Act::Hang => std::future::pending().await,
        Act::Close => None,
    }
}

async fn flood(stream: &mut TcpStream, bytes: &[u8]) -> Option<()> {
    let chunk = if bytes == b"ffff\r\n" { [&[b'.'; 0xffff][..], b"\r\n"].concat() } else { Vec::new() };
    let round = [bytes, &chunk].concat();
    loop {
        stream.write_all(&round).await.ok()?;
    }
}

async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>, whole: bool, log: &Log) -> Option<()> {
    let end = loop {
        match buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            Some(end) => break end + 4,
            None => more(stream, buffer).await?,
        }
    };
    let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
    let length = if whole { content_length(&head) } else { 0 };
    while buffer.len() < end + length {
        more(stream, buffer).await?;
    }
    log.heads.lock().unwrap().push(head);
    log.bodies.lock().unwrap().push(buffer[end..end + length].to_vec());
    buffer.drain(..end + length);
    Some(())
}

async fn more(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<()> {
    let read = stream.read_buf(buffer).await.ok()?;
    (read > 0).then_some(())
}

fn content_length(head: &str) -> usize {
    let lower = head.to_ascii_lowercase();
    let value = lower.lines().find_map(|line| line.strip_prefix("content-length:"));
    value.map_or(0, |text| text.trim().parse().unwrap())
}
