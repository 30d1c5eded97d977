//! The delivery, its attempts and its explanation, as they are shown.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use crate::delivery::{AskedKind, AskedWait, Attempt, Delivery, Payload, Source, State};
use crate::engine::explain::{Blocked, Explanation};
use crate::http::dto::{Hex, Text, time};
use crate::http::openapi::{patterns, words};
use crate::model::{DeliveryId, IdempotencyKey, Name};
use crate::outcome::Clamped;
use crate::store::{DeliveryView, Shown};
use crate::time::{Millis, Timestamp};

/// The delivery object.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Delivery")]
pub struct DeliveryObject<'a> {
    id: Text<DeliveryId>,
    tenant: &'a str,
    destination: &'a str,
    class: &'a str,
    region: &'a str,
    #[schemars(schema_with = "key")]
    idempotency_key: Key<'a>,
    #[schemars(schema_with = "words::delivery_state")]
    state: &'static str,
    #[schemars(schema_with = "words::outcome")]
    outcome: Option<&'static str>,
    cancelling: bool,
    attempts: u32,
    throttles: u32,
    failures: u32,
    created_at: Text<Timestamp>,
    first_attempt_at: Option<Text<Timestamp>>,
    next_attempt_at: Option<Text<Timestamp>>,
    #[schemars(schema_with = "words::next_reason")]
    next_reason: Option<&'static str>,
    expires_at: Text<Timestamp>,
    held_until: Option<Text<Timestamp>>,
    finished_at: Option<Text<Timestamp>>,
    lease: Option<LeaseObject>,
    last: Option<LastObject<'a>>,
    payload: PayloadObject<'a>,
    #[schemars(with = "BTreeMap<&str, &str>")]
    labels: Labels<'a>,
    /// Only in the answer to a delivery that was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    duplicate: Option<bool>,
}

impl<'a> DeliveryObject<'a> {
    /// The delivery as it stands at `now`.
    #[must_use]
    pub fn of(view: &'a DeliveryView, now: Timestamp) -> DeliveryObject<'a> {
        let delivery = &view.delivery;
        let standing = Standing::of(view, now);
        let first = view.lease.map(|lease| lease.claimed_at);
        DeliveryObject {
            id: Text(delivery.id),
            tenant: view.tenant.as_str(),
            destination: view.destination.as_str(),
            class: view.class.as_str(),
            region: delivery.region.as_str(),
            idempotency_key: Key::of(delivery),
            state: Shown::of(view, now).as_str(),
            outcome: standing.outcome,
            cancelling: delivery.cancelling,
            attempts: claims(view),
            throttles: delivery.throttles,
            failures: delivery.failures,
            created_at: Text(delivery.created_at),
            first_attempt_at: time(delivery.first_attempt_at.or(first)),
            next_attempt_at: time(standing.due),
            next_reason: standing.reason,
            expires_at: Text(delivery.expires_at),
            held_until: time(standing.held_until),
            finished_at: time(standing.finished_at),
            lease: view.lease.map(|lease| LeaseObject { until: Text(lease.until) }),
            last: delivery.log.last().map(LastObject::of),
            payload: PayloadObject::of(delivery),
            labels: Labels(&delivery.labels),
            duplicate: None,
        }
    }

    /// The same, as the answer to the request that brought it.
    #[must_use]
    pub fn accepted(self, duplicate: bool) -> DeliveryObject<'a> {
        DeliveryObject { duplicate: Some(duplicate), ..self }
    }
}

/// Every claim counts, the one in flight too.
fn claims(view: &DeliveryView) -> u32 {
    let known = view.delivery.attempts;
    view.lease.map_or(known, |lease| lease.attempt.max(known))
}

/// What of a delivery depends on whether it waits, is leased or has ended.
#[derive(Default)]
struct Standing {
    outcome: Option<&'static str>,
    due: Option<Timestamp>,
    reason: Option<&'static str>,
    held_until: Option<Timestamp>,
    finished_at: Option<Timestamp>,
}

impl Standing {
    fn of(view: &DeliveryView, now: Timestamp) -> Standing {
        match view.delivery.state {
            State::Terminal { outcome, at, step: _ } => {
                Standing { outcome: Some(outcome.as_str()), finished_at: Some(at), ..Standing::default() }
            }
            State::Waiting { .. } if view.lease.is_some() => Standing::default(),
            State::Waiting { due, reason, lane: _ } => Standing {
                due: Some(due),
                reason: Some(reason.as_str()),
                held_until: view.held_until.filter(|until| *until > now && *until > due),
                ..Standing::default()
            },
        }
    }
}

fn key(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "pattern": patterns::KEY})
}

/// The producer's key, or the id that stands in for it.
#[derive(Debug)]
enum Key<'a> {
    Given(&'a IdempotencyKey),
    Id(DeliveryId),
}

impl<'a> Key<'a> {
    fn of(delivery: &'a Delivery) -> Key<'a> {
        delivery.key.as_ref().map_or(Key::Id(delivery.id), Key::Given)
    }
}

impl Serialize for Key<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Key::Given(key) => serializer.serialize_str(key.as_str()),
            Key::Id(id) => serializer.collect_str(id),
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Lease")]
struct LeaseObject {
    until: Text<Timestamp>,
}

/// The newest attempt in short.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LastAttempt")]
struct LastObject<'a> {
    n: u32,
    #[schemars(schema_with = "words::result")]
    result: &'static str,
    status: Option<u16>,
    error: Option<&'a str>,
    at: Text<Timestamp>,
}

impl<'a> LastObject<'a> {
    fn of(attempt: &'a Attempt) -> LastObject<'a> {
        LastObject {
            n: attempt.n,
            result: attempt.result.as_str(),
            status: attempt.status,
            error: attempt.error.as_deref(),
            at: Text(attempt.ended_at.unwrap_or(attempt.started_at)),
        }
    }
}

/// The kind of a payload that is read at each attempt.
pub const REFERENCE: &str = "ref";

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Payload")]
struct PayloadObject<'a> {
    #[schemars(schema_with = "words::payload_kind")]
    kind: &'static str,
    /// Where it is read, unless it is inline or was erased.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    reference: Option<&'a str>,
    /// Null for a reference: its length is not known before it is read.
    bytes: Option<u32>,
    sha256: Option<Text<Hex<'a>>>,
    content_type: &'a str,
    erased_at: Option<Text<Timestamp>>,
}

impl<'a> PayloadObject<'a> {
    fn of(delivery: &'a Delivery) -> PayloadObject<'a> {
        let Payload { source, erased_at } = &delivery.payload;
        let (kind, reference, bytes) = match source {
            Source::Inline { bytes, sha256: _ } => ("inline", None, Some(*bytes)),
            Source::Reference { uri, sha256: _ } => (REFERENCE, Some(&**uri), None),
        };
        PayloadObject {
            kind,
            reference: reference.filter(|uri| !uri.is_empty()),
            bytes,
            sha256: delivery.payload.digest().map(|digest| Text(Hex(digest))),
            content_type: &delivery.content_type,
            erased_at: time(*erased_at),
        }
    }
}

/// Names and values, written as an object.
#[derive(Debug)]
struct Labels<'a>(&'a [(String, String)]);

impl Serialize for Labels<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// One attempt.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Attempt")]
pub struct AttemptObject<'a> {
    n: u32,
    started_at: Text<Timestamp>,
    ended_at: Option<Text<Timestamp>>,
    #[schemars(schema_with = "words::result")]
    result: &'static str,
    #[schemars(schema_with = "words::sent")]
    sent: &'static str,
    status: Option<u16>,
    error: Option<&'a str>,
    host: Option<&'a str>,
    address: Option<&'a str>,
    late: bool,
    retry_after: RetryAfterObject<'a>,
    next_attempt_at: Option<Text<Timestamp>>,
    response_excerpt: Option<Cow<'a, str>>,
}

impl<'a> AttemptObject<'a> {
    /// The attempt as it was recorded; an excerpt is shown as text, what is not UTF-8 replaced.
    #[must_use]
    pub fn of(attempt: &'a Attempt) -> AttemptObject<'a> {
        AttemptObject {
            n: attempt.n,
            started_at: Text(attempt.started_at),
            ended_at: time(attempt.ended_at),
            result: attempt.result.as_str(),
            sent: attempt.result.sent(),
            status: attempt.status,
            error: attempt.error.as_deref(),
            host: attempt.host.as_deref(),
            address: attempt.address.as_deref(),
            late: attempt.late,
            retry_after: RetryAfterObject::of(attempt.retry_after.as_ref()),
            next_attempt_at: time(attempt.next_attempt_at),
            response_excerpt: attempt.response_excerpt.as_ref().map(|it| String::from_utf8_lossy(&it.0)),
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "RetryAfter")]
struct RetryAfterObject<'a> {
    raw: Option<&'a str>,
    #[schemars(schema_with = "words::retry_after_kind")]
    kind: &'static str,
    asked_ms: Option<u64>,
    applied_ms: Option<u64>,
    #[schemars(schema_with = "words::clamped")]
    clamped: Option<&'static str>,
}

impl<'a> RetryAfterObject<'a> {
    fn of(asked: Option<&'a AskedWait>) -> RetryAfterObject<'a> {
        let Some(asked) = asked else {
            return RetryAfterObject {
                raw: None,
                kind: "absent",
                asked_ms: None,
                applied_ms: None,
                clamped: None,
            };
        };
        let ms = |wait: Option<Millis>| wait.map(|wait| wait.0);
        RetryAfterObject {
            raw: asked.raw.as_deref(),
            kind: match asked.kind {
                AskedKind::Seconds => "seconds",
                AskedKind::Date => "date",
                AskedKind::Invalid => "invalid",
            },
            asked_ms: ms(asked.asked),
            applied_ms: ms(asked.applied),
            clamped: asked.clamped.map(|end| match end {
                Clamped::Min => "min",
                Clamped::Max => "max",
            }),
        }
    }
}

/// Why a delivery has not been sent yet.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Explanation")]
pub struct ExplanationObject<'a> {
    #[schemars(schema_with = "words::verdict")]
    verdict: &'static str,
    summary: &'a str,
    blocked_by: Vec<BlockedObject<'a>>,
    earliest: Option<Text<Timestamp>>,
    ahead: usize,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Blocked")]
struct BlockedObject<'a> {
    #[schemars(schema_with = "words::block")]
    kind: &'static str,
    until: Option<Text<Timestamp>>,
    detail: &'a str,
}

impl<'a> ExplanationObject<'a> {
    /// The explanation, as it is shown.
    #[must_use]
    pub fn of(explanation: &'a Explanation) -> ExplanationObject<'a> {
        let blocked = |one: &'a Blocked| BlockedObject {
            kind: one.kind.as_str(),
            until: time(one.until),
            detail: &one.detail,
        };
        ExplanationObject {
            verdict: explanation.verdict.as_str(),
            summary: &explanation.summary,
            blocked_by: explanation.blocked_by.iter().map(blocked).collect(),
            earliest: time(explanation.earliest),
            ahead: explanation.ahead,
        }
    }
}

/// One item of a batch's answer.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "BatchResult")]
pub enum ItemObject<P> {
    Taken { status: u16, id: Text<DeliveryId>, duplicate: bool },
    Refused { status: u16, problem: P },
}

/// The answer to a batch, in the order of its items.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "BatchResults")]
pub struct BatchObject<P> {
    pub results: Vec<ItemObject<P>>,
}

/// The path of a delivery, for `Location`.
#[must_use]
pub fn location(id: DeliveryId) -> String {
    format!("/v1/deliveries/{id}")
}

/// The path of a destination, for `Location`.
#[must_use]
pub fn destination_location(name: &Name) -> String {
    format!("/v1/destinations/{name}")
}

#[cfg(test)]
#[path = "delivery/tests.rs"]
mod tests;
