//! The accept loop of one listener: hyper with our own limits and timers around a router.
//!
//! It owns its connections and ends them; a request's panic is that request's 500. It decides
//! nothing about what is asked.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tower::Service as _;

use crate::http::auth::Peer;
use crate::http::door::Door;
use crate::http::error::{Code, Problem};
use crate::http::linger::Lingering;
use crate::http::room::{Followed, Place, Pressed, Room};
use crate::http::socket::{Accepted, Certificate, Socket};

/// Header lines of one request; more are 431.
const MAX_HEADERS: usize = 64;
/// Bytes of one request's head; more are 431. Also what a connection reads ahead.
const MAX_HEAD: usize = 32 * 1024;
/// A head must be whole within this time, and a kept connection must be used again within it.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Requests may go on for this long after the listener has been told to stop.
const GRACE: Duration = Duration::from_secs(2);
/// How often it is said, at most, that there are too many connections.
const SAYING: Duration = Duration::from_secs(10);
/// How long accepting rests after it failed (as when descriptors run out).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What a listener allows.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Beyond it a new connection takes the seat of one that keeps the listener waiting.
    pub max_connections: usize,
    pub door: Door,
    /// None: what comes is not encrypted.
    pub certificate: Option<Arc<Certificate>>,
    pub header_timeout: Duration,
    pub grace: Duration,
}

impl Limits {
    /// The limits of a listener that answers to loopback names and `allowed_hosts`.
    #[must_use]
    pub fn new(max_connections: usize, allowed_hosts: Vec<String>) -> Limits {
        let door = Door { allowed_hosts, ..Door::default() };
        let (header_timeout, grace) = (HEADER_TIMEOUT, GRACE);
        Limits { max_connections, door, certificate: None, header_timeout, grace }
    }
}

/// The limits of a listener, as they are now.
#[derive(Clone, Debug)]
pub struct Shared(Arc<RwLock<Arc<Limits>>>);

impl Shared {
    /// The limits of now.
    #[must_use]
    pub fn now(&self) -> Arc<Limits> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// These hold from now on; a connection that stands keeps the certificate that it has seen.
    pub fn replace(&self, limits: Limits) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(limits);
    }
}

impl From<Limits> for Shared {
    fn from(limits: Limits) -> Shared {
        Shared(Arc::new(RwLock::new(Arc::new(limits))))
    }
}

/// Serves `router` until `shutdown` ends. Then nothing more is accepted, requests under way have
/// [`Limits::grace`] to end, and what is left is dropped: afterwards no connection is open.
pub async fn serve(
    socket: impl Into<Socket>,
    router: Router,
    limits: impl Into<Shared>,
    shutdown: impl Future<Output = ()>,
) {
    let mut shutdown = pin!(shutdown);
    let (stopping, stop) = watch::channel(());
    let mut open = JoinSet::new();
    let socket = socket.into();
    let limits = limits.into();
    let front = Arc::new(Front { router, limits: limits.clone() });
    let room = Room::default();
    let mut saying = tokio::time::interval(SAYING);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            accepted = socket.accept() => match accepted {
                Ok(accepted) => {
                    // None: it is closed at once.
                    let Some(place) = room.enter(limits.now().max_connections) else { continue };
                    let no = place.no();
                    room.seat(no, open.spawn(greet(accepted, place, front.clone(), stop.clone())));
                }
                Err(error) => rest(&error).await,
            },
            Some(_) = open.join_next() => {}
            _ = saying.tick() => say(room.pressed()),
        }
    }
    drop(socket);
    drop(stopping);
    let ended = async { while open.join_next().await.is_some() {} };
    if tokio::time::timeout(limits.now().grace, ended).await.is_err() {
        tracing::warn!("requests were cut off at shutdown");
    }
}

fn say(pressed: Pressed) {
    let Pressed { closed, refused } = pressed;
    if pressed != Pressed::default() {
        tracing::warn!(closed, refused, "too many connections: those that wait longest make room");
    }
}

#[expect(clippy::disallowed_methods, reason = "an accept that fails must not be tried in a busy loop")]
async fn rest(error: &std::io::Error) {
    tracing::warn!(%error, "accept failed");
    tokio::time::sleep(ACCEPT_PAUSE).await;
}

/// Serves what was accepted, inside TLS where that is set.
async fn greet(accepted: Accepted, place: Place, front: Arc<Front>, stop: watch::Receiver<()>) {
    let limits = front.limits.now();
    match (accepted, &limits.certificate) {
        (Accepted::Tcp(stream), None) => connection(prompt(stream), place, front, None, stop).await,
        (Accepted::Tcp(stream), Some(certificate)) => {
            let acceptor = TlsAcceptor::from(certificate.now());
            let shaken = tokio::time::timeout(limits.header_timeout, acceptor.accept(prompt(stream))).await;
            match shaken {
                Ok(Ok(stream)) => connection(stream, place, front, None, stop).await,
                Ok(Err(error)) => tracing::debug!(%error, "no TLS came to stand"),
                Err(_) => tracing::debug!("no TLS came to stand in time"),
            }
        }
        (Accepted::Unix(stream, peer), _) => connection(stream, place, front, peer, stop).await,
    }
}

fn prompt(stream: TcpStream) -> TcpStream {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "nodelay");
    }
    stream
}

/// Serves one connection until it ends, or until its request does once the listener stops.
async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send,
    place: Place,
    front: Arc<Front>,
    peer: Option<Peer>,
    mut stop: watch::Receiver<()>,
) {
    let service = service_fn(|request| place.follow(request, |request| front.answer(request, peer)));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(front.limits.now().header_timeout)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(Lingering::new(stream, stop.clone())), service);
    let mut served = pin!(served);
    let ended = tokio::select! {
        ended = &mut served => ended,
        _ = stop.changed() => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}

/// The door and the routes behind it.
struct Front {
    router: Router,
    limits: Shared,
}

impl Front {
    async fn answer(&self, mut request: Request<Followed<Incoming>>, peer: Option<Peer>) -> Response<Body> {
        peer.map(|peer| request.extensions_mut().insert(peer));
        if let Err(problem) = self.limits.now().door.admit(&request) {
            return problem.response();
        }
        let routed = self.router.clone().call(request);
        let mut routed = pin!(routed);
        poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| routed.as_mut().poll(context))) {
            Ok(Poll::Ready(Ok(response))) => Poll::Ready(response),
            Ok(Poll::Ready(Err(never))) => match never {},
            Ok(Poll::Pending) => Poll::Pending,
            Err(_) => Poll::Ready(panicked()),
        })
        .await
    }
}

/// The 500 of a request whose handler panicked; the panic hook has logged where.
fn panicked() -> Response<Body> {
    tracing::error!("a request's handler panicked");
    Problem::new(Code::Internal, "the request failed inside the server; the log says where")
        .closing()
        .response()
}

#[cfg(test)]
#[path = "server/tests.rs"]
mod tests;
