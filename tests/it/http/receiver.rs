//! A receiver that answers 204 and hands over what it got.

use std::convert::Infallible;

use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use super::PATIENCE;

/// One request as it arrived.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Received {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

/// Listens until it is dropped.
pub(super) struct Receiver {
    pub(super) url: String,
    received: UnboundedReceiver<Received>,
    _listening: JoinSet<()>,
}

impl Receiver {
    pub(super) async fn start() -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let (sender, received) = unbounded_channel();
        let mut listening = JoinSet::new();
        listening.spawn(accept(listener, sender));
        Receiver { url, received, _listening: listening }
    }

    /// The next request.
    pub(super) async fn next(&mut self) -> Received {
        let next = tokio::time::timeout(PATIENCE, self.received.recv()).await;
        next.expect("a request arrives").expect("the receiver runs")
    }

    /// True when nothing has arrived that was not taken.
    pub(super) fn is_empty(&self) -> bool {
        self.received.is_empty()
    }
}

async fn accept(listener: TcpListener, sender: UnboundedSender<Received>) {
    let mut open = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        open.spawn(connection(stream, sender.clone()));
    }
}

async fn connection(stream: TcpStream, sender: UnboundedSender<Received>) {
    let service = service_fn(|request| answer(request, sender.clone()));
    drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
}

async fn answer(
    request: Request<Incoming>,
    sender: UnboundedSender<Received>,
) -> Result<Response<Empty<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    drop(sender.send(Received { headers: parts.headers, body }));
    let mut response = Response::new(Empty::new());
    *response.status_mut() = hyper::StatusCode::NO_CONTENT;
    Ok(response)
}
