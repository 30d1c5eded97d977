//! One attempt: an [`OutboundRequest`] becomes a request on the network, and what came of it
//! becomes a [`Seen`]. Never an error, never a second request, never early or late by itself.
//!
//! The sender decides nothing about the delivery and does not see the store or the engine.
//! What may be dialled is [`egress`]'s to say, at every send; what an error means is said by
//! [`failure`]. A payload that is kept elsewhere is read by [`payload`] first. Nothing here logs a
//! URL, a header value or a body.

pub mod egress;
pub mod failure;
pub mod letter;
pub mod payload;
pub mod profile;
pub mod proxy;
pub mod trust;

pub use crate::sign::Signers;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ipnet::IpNet;
use reqwest::header::{self, HeaderMap};
use reqwest::{Client, Method, Request, Response};
use rustls::pki_types::CertificateDer;
use tokio::time::{Instant, timeout_at};
use url::Url;

use crate::model::{Certificates, DeliveryId, Digest, Excerpt, Header};
use crate::outcome::retry_after::{MAX_VALUE, MAX_VALUES};
use crate::outcome::{MaybeSent, NotSent, Outcome, RetryHeaders};
use crate::sign::{self, Letterhead};
use crate::time::{Millis, Timestamp};

use egress::resolver::{Names, SystemNames};
use failure::Failure;
use letter::{Letter, Touched};
use payload::{Payloads, Referred};
use profile::{Grounds, Profiles};
use proxy::Route;
use trust::{NoCertificates, Trust};

/// Bytes of an answer's body that are read, so that its connection can be used again. What is
/// longer costs the connection.
pub const MAX_RESPONSE_BODY: usize = 64 * 1024;
/// How long an answer's body may take: a body is of no use but to free its connection.
pub const BODY_WAIT: Duration = Duration::from_secs(1);
/// Bytes of an answer that are kept where excerpts are kept (API.md, `response_excerpt`).
pub const MAX_EXCERPT: usize = 1024;
/// Characters of an error's text.
pub const MAX_ERROR: usize = 200;

/// What a request needs to know of its destination.
pub struct Endpoint {
    pub url: Url,
    /// The whole attempt.
    pub timeout: Millis,
    pub connect_timeout: Millis,
    pub allow_cidrs: Vec<IpNet>,
    pub headers: Vec<Header>,
    /// What signs its requests.
    pub signers: Signers,
    pub tls: Option<Certificates>,
}

/// One attempt, ready to be sent.
#[derive(Clone, Debug)]
pub struct OutboundRequest {
    pub delivery: DeliveryId,
    pub attempt: u32,
    /// The same in every attempt.
    pub key: String,
    pub created_at: Timestamp,
    /// Of this attempt: `webhook-timestamp`.
    pub sent_at: Timestamp,
    pub content_type: String,
    /// The delivery's own; they win over the destination's.
    pub headers: Vec<Header>,
    pub body: Body,
    pub endpoint: Arc<Endpoint>,
    /// False: the connection is not to be kept for a next request.
    pub keep_alive: bool,
}

/// What is sent.
#[derive(Clone, PartialEq, Eq)]
pub enum Body {
    Bytes(Bytes),
    /// What is read there before the request; the time for that is not the endpoint's.
    Reference(Referred),
}

impl fmt::Debug for Endpoint {
    /// Its URL may be a secret: the host alone is shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("host", &self.url.host_str()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Body {
    /// How long it is, and nothing of it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Body::Bytes(bytes) => write!(f, "Bytes({})", bytes.len()),
            Body::Reference(_) => f.write_str("Reference"),
        }
    }
}

impl Body {
    /// Where the digest of what is read stands as soon as it is; of bytes that are here nothing is read.
    #[must_use]
    pub fn read(&self) -> payload::Read {
        match self {
            Body::Bytes(_) => payload::Read::default(),
            Body::Reference(referred) => Arc::clone(&referred.read),
        }
    }
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub outcome: Outcome,
    /// Never a URL, header value or body.
    pub error: Option<String>,
    pub address: Option<SocketAddr>,
    pub response_excerpt: Option<Excerpt>,
    /// What a reference led to, whether or not it was sent.
    pub fetched: Option<Fetched>,
}

/// A payload was read where it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetched {
    pub digest: Digest,
    /// Before the attempt began: the receiver has no part in it.
    pub took: Millis,
}

/// What the sender follows besides each request.
#[derive(Clone, Debug, Default)]
pub struct Config {
    pub rules: egress::Rules,
    /// Certificates to trust beside the system's: the bytes of `send.ca_file`.
    pub ca_pem: Option<Vec<u8>>,
    pub keep_response_excerpt: bool,
    /// Everything but payloads goes through it.
    pub proxy: Option<Url>,
    pub payloads: payload::Settings,
}

/// A sender cannot be made of its settings.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    #[error(transparent)]
    Certificates(#[from] BadCertificates),
    #[error("send.proxy cannot be used")]
    Proxy(#[source] reqwest::Error),
    #[error(transparent)]
    Payloads(#[from] payload::BadStore),
}

/// The certificates of `send.ca_file` cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("send.ca_file holds no certificates in PEM form")]
pub struct BadCertificates(#[from] NoCertificates);

/// Sends requests. One for the process: it owns the connections.
#[derive(Debug)]
pub struct Sender {
    rules: egress::Rules,
    keep_response_excerpt: bool,
    route: Route,
    profiles: Profiles,
    payloads: Payloads,
}

impl Sender {
    /// A sender that has opened nothing yet.
    ///
    /// # Errors
    /// [`Unusable`] when a setting is not what it is to be.
    pub fn new(config: Config) -> Result<Sender, Unusable> {
        Sender::asking(config, Arc::new(SystemNames))
    }

    /// The same, with somebody else who knows the addresses of destinations.
    ///
    /// # Errors
    /// As [`Sender::new`].
    pub fn asking(config: Config, names: Arc<dyn Names>) -> Result<Sender, Unusable> {
        let trust = Trust::with_system(&config.ca_pem.as_deref().map_or(Ok(Vec::new()), certificates)?);
        let route = Route::by(config.proxy);
        route.proxy().map_err(Unusable::Proxy)?;
        let allowed = config.rules.allow_cidrs.as_slice().into();
        let payloads = Payloads::new(config.payloads, &trust)?;
        let profiles = Profiles::new(Grounds { allowed, trust, names, route: route.clone() });
        let keep_response_excerpt = config.keep_response_excerpt;
        Ok(Sender { rules: config.rules, keep_response_excerpt, route, profiles, payloads })
    }

    /// Makes the one attempt that `request` stands for. It ends by the endpoint's timeout, and
    /// at the latest [`BODY_WAIT`] after the head of an answer; reading a payload comes before that
    /// and has its own time. Whatever happens is an outcome.
    pub async fn send(&self, request: OutboundRequest) -> Seen {
        let client = match self.client(&request.endpoint) {
            Ok(client) => client,
            Err(failure) => return failed(&request.endpoint.url, failure),
        };
        match request.body.clone() {
            Body::Bytes(bytes) => self.post(&client, request, bytes).await,
            Body::Reference(referred) => self.fetch_and_post(&client, request, &referred).await,
        }
    }

    async fn fetch_and_post(
        &self,
        client: &Client,
        mut request: OutboundRequest,
        referred: &Referred,
    ) -> Seen {
        let began = Instant::now();
        let found = match self.payloads.read(referred).await {
            Ok(found) => found,
            Err(fault) => return unsent(&fault.into()),
        };
        referred.read.get_or_init(|| found.sha256);
        let fetched = Fetched { digest: found.sha256, took: began.elapsed().into() };
        request.sent_at = request.sent_at.plus(fetched.took);
        let seen = self.post(client, request, found.bytes.clone()).await;
        Seen { fetched: Some(fetched), ..seen }
    }

    async fn post(&self, client: &Client, request: OutboundRequest, bytes: Bytes) -> Seen {
        let deadline = Instant::now() + request.endpoint.timeout.duration();
        let endpoint = Arc::clone(&request.endpoint);
        let touched = Touched::default();
        let sent = timeout_at(deadline, client.execute(envelope(&request, bytes, &touched))).await;
        match sent {
            Ok(Ok(response)) => self.answered(&endpoint.url, response, deadline).await,
            Ok(Err(error)) => failed(&endpoint.url, failure::read(&error, touched.get())),
            Err(_) => failed(&endpoint.url, failure::deadline(touched.get())),
        }
    }

    /// The client that may call `endpoint` under the rules of now.
    fn client(&self, endpoint: &Endpoint) -> Result<Client, Failure> {
        let not_sent = |why, text| Failure { outcome: Outcome::NotSent(why), text };
        let reach = egress::permit(&self.rules, &endpoint.url, &endpoint.allow_cidrs)
            .and_then(|reach| self.route.permit(&endpoint.url, reach).map(|()| reach))
            .map_err(|refusal| not_sent(NotSent::Blocked, refusal.to_string()))?;
        let client = self.profiles.client(endpoint, reach);
        client.map_err(|_| not_sent(NotSent::Tls, "tls could not be set up".into()))
    }

    /// The head is in. A status that HTTP does not have is no answer.
    async fn answered(&self, url: &Url, mut response: Response, deadline: Instant) -> Seen {
        // The other end of a connection to a proxy is not the receiver.
        let address = response.remote_addr().filter(|_| !self.route.is_proxied());
        let status = response.status().as_u16();
        if status == 407 && self.route.reads(url) {
            let outcome = Outcome::NotSent(NotSent::Connect);
            return failed(url, Failure { outcome, text: "connect: the proxy asks who we are".into() });
        }
        if !(200..=599).contains(&status) {
            let outcome = Outcome::MaybeSent(MaybeSent::InvalidResponse);
            let text = format!("{status} is not the status of an answer");
            return Seen { address, ..failed(url, Failure { outcome, text }) };
        }
        let outcome = Outcome::Answered { status, headers: retry_headers(response.headers()) };
        let mut excerpt = self.keep_response_excerpt.then(Vec::new);
        let until = deadline.min(Instant::now() + BODY_WAIT);
        // However the body ends, the answer stands.
        let _ = timeout_at(until, read_body(&mut response, &mut excerpt)).await;
        let response_excerpt = excerpt.map(Excerpt);
        Seen { outcome, error: None, address, response_excerpt, fetched: None }
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, BadCertificates> {
    Ok(trust::certificates(pem)?)
}

fn envelope(request: &OutboundRequest, bytes: Bytes, touched: &Touched) -> Request {
    let mut envelope = Request::new(Method::POST, request.endpoint.url.clone());
    *envelope.headers_mut() = sign::headers(&letterhead(request, &bytes));
    *envelope.body_mut() = Some(reqwest::Body::wrap(Letter::new(bytes, touched)));
    envelope
}

fn letterhead<'a>(request: &'a OutboundRequest, body: &'a [u8]) -> Letterhead<'a> {
    Letterhead {
        delivery: request.delivery,
        attempt: request.attempt,
        key: &request.key,
        created_at: request.created_at,
        sent_at: request.sent_at,
        content_type: &request.content_type,
        signers: &request.endpoint.signers,
        body,
        destination: &request.endpoint.headers,
        own: &request.headers,
        keep_alive: request.keep_alive,
    }
}

/// Reads to the end or to [`MAX_RESPONSE_BODY`], and keeps the beginning if it is wanted.
async fn read_body(response: &mut Response, excerpt: &mut Option<Vec<u8>>) {
    let mut read = 0;
    while read < MAX_RESPONSE_BODY {
        let Ok(Some(chunk)) = response.chunk().await else { return };
        read += chunk.len();
        if let Some(kept) = excerpt {
            let room = MAX_EXCERPT - kept.len();
            kept.extend_from_slice(&chunk[..chunk.len().min(room)]);
        }
    }
}

/// The lines that a wait is read from. A line too long to be valid is cut, but stays too long.
/// An answer with an `Age` was made earlier than its `Date` can tell.
fn retry_headers(headers: &HeaderMap) -> RetryHeaders {
    let lines = headers.get_all(header::RETRY_AFTER).iter().take(MAX_VALUES);
    let retry_after: Vec<Vec<u8>> = lines.map(|line| cut(line.as_bytes())).collect();
    let dated = !retry_after.is_empty() && !headers.contains_key(header::AGE);
    let date = dated.then(|| headers.get(header::DATE)).flatten();
    RetryHeaders { date: date.map(|line| cut(line.as_bytes())), retry_after }
}

fn cut(line: &[u8]) -> Vec<u8> {
    line[..line.len().min(MAX_VALUE + 1)].to_vec()
}

fn failed(url: &Url, failure: Failure) -> Seen {
    let text = format!("{}: {}", url.host_str().unwrap_or_default(), failure.text);
    let error = Some(text.chars().take(MAX_ERROR).collect());
    Seen { outcome: failure.outcome, error, address: None, response_excerpt: None, fetched: None }
}

/// There was nothing to send: the receiver's host has no part in it.
fn unsent(failure: &Failure) -> Seen {
    let error = Some(format!("payload: {}", failure.text).chars().take(MAX_ERROR).collect());
    Seen { outcome: failure.outcome.clone(), error, address: None, response_excerpt: None, fetched: None }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
