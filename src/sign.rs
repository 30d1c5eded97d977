//! The header set of an outbound request: what a receiver sees besides the body.
//!
//! Pure: a request gives the same headers every time. Nothing here reads a clock or sends
//! anything, and no value of a header is ever logged.

mod signature;

use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};

use crate::model::{DeliveryId, Header};
use crate::time::Timestamp;

pub use signature::Signers;

/// What a request says it comes from unless its destination says otherwise.
pub const USER_AGENT: &str = concat!("duehook/", env!("CARGO_PKG_VERSION"));
/// The content type of a body whose own cannot stand in a header.
pub const CONTENT_TYPE_FALLBACK: &str = "application/octet-stream";

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const ATTEMPT: HeaderName = HeaderName::from_static("duehook-attempt");
const CREATED_AT: HeaderName = HeaderName::from_static("duehook-created-at");
const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
/// Headers of ours in one request.
const OURS: usize = 9;

/// What the headers of one attempt are made from.
#[derive(Clone, Copy)]
pub struct Letterhead<'a> {
    pub delivery: DeliveryId,
    pub attempt: u32,
    /// The same in every attempt.
    pub key: &'a str,
    pub created_at: Timestamp,
    /// Of this attempt.
    pub sent_at: Timestamp,
    pub content_type: &'a str,
    /// What signs, and the bytes that are sent.
    pub signers: &'a Signers,
    pub body: &'a [u8],
    /// Those of every request to this destination.
    pub destination: &'a [Header],
    /// The delivery's own.
    pub own: &'a [Header],
    /// False: the receiver is told that nothing more comes on this connection.
    pub keep_alive: bool,
}

/// The headers of a request (API.md, *What a receiver sees*). The destination's own come
/// first, the delivery's replace them, and nothing replaces ours but a `User-Agent`.
#[must_use]
pub fn headers(of: &Letterhead<'_>) -> HeaderMap {
    let mut map = HeaderMap::with_capacity(OURS + of.destination.len() + of.own.len());
    map.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
    of.destination.iter().chain(of.own).for_each(|header| add(&mut map, header));
    map.insert(header::CONTENT_TYPE, content_type(of.content_type));
    map.insert(ATTEMPT, of.attempt.into());
    map.insert(WEBHOOK_TIMESTAMP, (of.sent_at.0 / 1000).into());
    set(&mut map, IDEMPOTENCY_KEY, of.key);
    set(&mut map, CREATED_AT, &of.created_at.to_string());
    let id = of.delivery.to_string();
    set(&mut map, WEBHOOK_ID, &id);
    if let Some(signature) = of.signers.sign(&id, of.sent_at, of.body) {
        set(&mut map, WEBHOOK_SIGNATURE, &signature);
    }
    if !of.keep_alive {
        map.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    map
}

/// Adds a header of a destination or a delivery. Its value may be a secret, so it is marked
/// as one: it is not printed, and HTTP/2 keeps it out of its tables.
fn add(map: &mut HeaderMap, header: &Header) {
    let name = HeaderName::from_bytes(header.name().as_bytes());
    let value = HeaderValue::from_str(header.value());
    if let (Ok(name), Ok(mut value)) = (name, value) {
        value.set_sensitive(true);
        map.insert(name, value);
    }
}

/// Sets one of ours. All of them are visible ASCII by their types; what is not is left out.
fn set(map: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        map.insert(name, value);
    }
}

fn content_type(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(CONTENT_TYPE_FALLBACK))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(pairs: &[(&str, &str)]) -> Vec<Header> {
        pairs.iter().map(|(name, value)| Header::new(name, value).unwrap()).collect()
    }

    static NONE: std::sync::OnceLock<Signers> = std::sync::OnceLock::new();

    fn letterhead<'a>(destination: &'a [Header], own: &'a [Header]) -> Letterhead<'a> {
        Letterhead {
            delivery: DeliveryId(7),
            attempt: 3,
            key: "shipment.updated:shp_4821:v7",
            created_at: "2026-01-15T12:00:00Z".parse().unwrap(),
            sent_at: Timestamp(1_768_478_401_999),
            content_type: "application/json; charset=utf-8",
            signers: NONE.get_or_init(Signers::default),
            body: b"{}",
            destination,
            own,
            keep_alive: true,
        }
    }

    fn check(of: &Letterhead<'_>, name: &str, want: Option<&str>) {
        let map = headers(of);
        assert!(map.get_all(name).iter().count() <= 1, "{name} once");
        assert_eq!(map.get(name).map(|value| value.to_str().unwrap()), want, "{name}");
    }

    #[test]
    fn what_a_receiver_sees() {
        let plain = letterhead(&[], &[]);
        check(&plain, "content-type", Some("application/json; charset=utf-8"));
        check(&plain, "idempotency-key", Some("shipment.updated:shp_4821:v7"));
        check(&plain, "user-agent", Some(USER_AGENT));
        check(&plain, "duehook-attempt", Some("3"));
        check(&plain, "duehook-created-at", Some("2026-01-15T12:00:00.000Z"));
        check(&plain, "webhook-id", Some("dlv_00000000000000000000000007"));
        check(&plain, "webhook-timestamp", Some("1768478401"));
        for absent in ["connection", "expect", "accept-encoding", "webhook-signature"] {
            check(&plain, absent, None);
        }
        let last = Letterhead { keep_alive: false, ..plain };
        check(&last, "connection", Some("close"));
    }

    #[test]
    fn c072_a_user_agent_is_always_there_and_may_be_replaced() {
        let (first, second) = (own(&[("User-Agent", "shop/1")]), own(&[("USER-AGENT", "shop/2")]));
        check(&letterhead(&first, &[]), "user-agent", Some("shop/1"));
        check(&letterhead(&first, &second), "user-agent", Some("shop/2"));
    }

    #[test]
    fn the_deliverys_own_headers_win_over_the_destinations() {
        let destination = own(&[("x-api-key", "s3cret"), ("x-a", "1")]);
        let delivery = own(&[("X-A", "2"), ("x-b", "3")]);
        let both = letterhead(&destination, &delivery);
        check(&both, "x-api-key", Some("s3cret"));
        check(&both, "x-a", Some("2"));
        check(&both, "x-b", Some("3"));
        assert!(!format!("{:?}", headers(&both)).contains("s3cret"), "a secret is not printed");
    }

    #[test]
    fn a_content_type_that_cannot_be_sent_is_bytes() {
        let broken = Letterhead { content_type: "text/plain\r\nx: y", ..letterhead(&[], &[]) };
        check(&broken, "content-type", Some(CONTENT_TYPE_FALLBACK));
    }
}
