//! One attempt: an [`OutboundRequest`] becomes a request on the network, and what came of it
//! becomes a [`Seen`]. Never an error, never a second request, never early or late by itself.
//!
//! The sender decides nothing about the delivery and does not see the store or the engine.
//! What may be dialled is [`egress`]'s to say, at every send; what an error means is said by
//! [`failure`]. Nothing here logs a URL, a header value or a body.

pub mod egress;
pub mod failure;
pub mod letter;
pub mod profile;

pub use crate::sign::Signers;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ipnet::IpNet;
use reqwest::header::{self, HeaderMap};
use reqwest::{Body, Certificate, Client, Method, Request, Response};
use tokio::time::{Instant, timeout_at};
use url::Url;

use crate::model::{Certificates, DeliveryId, Header};
use crate::outcome::retry_after::{MAX_VALUE, MAX_VALUES};
use crate::outcome::{MaybeSent, NotSent, Outcome, RetryHeaders};
use crate::sign::{self, Letterhead};
use crate::time::{Millis, Timestamp};

use failure::Failure;
use letter::{Letter, Touched};
use profile::Profiles;

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
#[derive(Debug)]
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
    pub body: Bytes,
    pub endpoint: Arc<Endpoint>,
    /// False: the connection is not to be kept for a next request.
    pub keep_alive: bool,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub outcome: Outcome,
    /// Never a URL, header value or body.
    pub error: Option<String>,
    pub address: Option<SocketAddr>,
    pub response_excerpt: Option<Vec<u8>>,
}

/// What the sender follows besides each request.
#[derive(Clone, Debug, Default)]
pub struct Config {
    pub rules: egress::Rules,
    /// Certificates to trust beside the system's: the bytes of `send.ca_file`.
    pub ca_pem: Option<Vec<u8>>,
    pub keep_response_excerpt: bool,
}

/// The certificates of `send.ca_file` cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("send.ca_file holds no certificates in PEM form")]
pub struct BadCertificates(#[source] Option<reqwest::Error>);

/// Sends requests. One for the process: it owns the connections.
#[derive(Debug)]
pub struct Sender {
    rules: egress::Rules,
    keep_response_excerpt: bool,
    profiles: Profiles,
}

impl Sender {
    /// A sender that has opened nothing yet.
    ///
    /// # Errors
    /// [`BadCertificates`] when the CA file cannot be read as one.
    pub fn new(config: Config) -> Result<Sender, BadCertificates> {
        let roots = config.ca_pem.as_deref().map(certificates).transpose()?;
        let profiles = Profiles::new(&config.rules.allow_cidrs, roots.unwrap_or_default());
        let keep_response_excerpt = config.keep_response_excerpt;
        Ok(Sender { rules: config.rules, keep_response_excerpt, profiles })
    }

    /// Makes the one attempt that `request` stands for. It ends by the endpoint's timeout, and
    /// at the latest [`BODY_WAIT`] after the head of an answer. Whatever happens is an outcome.
    pub async fn send(&self, request: OutboundRequest) -> Seen {
        let deadline = Instant::now() + request.endpoint.timeout.duration();
        let endpoint = Arc::clone(&request.endpoint);
        let client = match self.client(&endpoint) {
            Ok(client) => client,
            Err(failure) => return failed(&endpoint.url, failure),
        };
        let touched = Touched::default();
        let sent = timeout_at(deadline, client.execute(envelope(request, &touched))).await;
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
            .map_err(|refusal| not_sent(NotSent::Blocked, refusal.to_string()))?;
        let client = self.profiles.client(endpoint, reach);
        client.map_err(|_| not_sent(NotSent::Tls, "tls could not be set up".into()))
    }

    /// The head is in. A status that HTTP does not have is no answer.
    async fn answered(&self, url: &Url, mut response: Response, deadline: Instant) -> Seen {
        let address = response.remote_addr();
        let status = response.status().as_u16();
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
        Seen { outcome, error: None, address, response_excerpt: excerpt }
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<Certificate>, BadCertificates> {
    let found = Certificate::from_pem_bundle(pem).map_err(|error| BadCertificates(Some(error)))?;
    if found.is_empty() { Err(BadCertificates(None)) } else { Ok(found) }
}

fn envelope(request: OutboundRequest, touched: &Touched) -> Request {
    let mut envelope = Request::new(Method::POST, request.endpoint.url.clone());
    *envelope.headers_mut() = sign::headers(&letterhead(&request));
    *envelope.body_mut() = Some(Body::wrap(Letter::new(request.body, touched)));
    envelope
}

fn letterhead(request: &OutboundRequest) -> Letterhead<'_> {
    Letterhead {
        delivery: request.delivery,
        attempt: request.attempt,
        key: &request.key,
        created_at: request.created_at,
        sent_at: request.sent_at,
        content_type: &request.content_type,
        signers: &request.endpoint.signers,
        body: &request.body,
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
    Seen { outcome: failure.outcome, error, address: None, response_excerpt: None }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
