//! The lines of an export. Only these carry bodies, header values and secrets, and only to the
//! operator who asked for an export.

use std::collections::BTreeMap;
use std::fmt;

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use schemars::{JsonSchema, Schema, json_schema};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use crate::delivery::Source;
use crate::http::dto::delivery::DeliveryObject;
use crate::http::dto::destination::{ConcurrencyObject, RateObject};
use crate::http::dto::{Hex, Looks, Text, time};
use crate::http::openapi::words;
use crate::model::{Certificates, Header, Name};
use crate::outcome::{GateMemory, Hold};
use crate::store::{DestinationView, Handed, Identity};
use crate::time::Timestamp;

/// The format of the lines; a newer one is refused.
pub const FORMAT: u64 = 1;

/// The first line: whose export it is.
#[derive(Debug, Serialize, JsonSchema)]
pub struct HeaderLine<'a> {
    #[schemars(schema_with = "words::header_line")]
    kind: &'static str,
    format: u64,
    server: String,
    region: &'a str,
    fence: u64,
    created_at: Text<Timestamp>,
}

impl<'a> HeaderLine<'a> {
    /// The header of an export that begins now.
    #[must_use]
    pub fn of(who: Identity, region: &'a Name, now: Timestamp) -> HeaderLine<'a> {
        let server = Hex(&who.server).to_string();
        let region = region.as_str();
        HeaderLine { kind: "header", format: FORMAT, server, region, fence: who.fence, created_at: Text(now) }
    }
}

/// The last line: without it an export is not whole.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct EndLine {
    kind: End,
    pub destinations: u64,
    pub deliveries: u64,
    pub left_behind: LeftObject,
}

/// What cannot be handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "LeftBehind")]
pub struct LeftObject {
    pub damaged: u64,
    pub destination_deleted: u64,
}

#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum End {
    #[default]
    End,
}

/// A destination with everything that is stored of it.
#[derive(Serialize, JsonSchema)]
pub struct DestinationLine<'a> {
    #[schemars(schema_with = "words::destination_line")]
    kind: &'static str,
    id: &'a str,
    tenant: &'a str,
    url: &'a str,
    concurrency: ConcurrencyObject,
    rate: Option<RateObject>,
    policy: &'a str,
    timeout_ms: u64,
    connect_timeout_ms: u64,
    #[schemars(with = "BTreeMap<&str, &str>")]
    headers: Values<'a>,
    secrets: Vec<String>,
    /// When each of them ends.
    secrets_until: Vec<Option<Text<Timestamp>>>,
    tls: Option<TlsObject<'a>>,
    allow_cidrs: Vec<String>,
    #[schemars(schema_with = "words::hold_scope")]
    hold_scope: &'static str,
    #[schemars(schema_with = "words::destination_state")]
    state: &'static str,
    state_reason: &'a str,
    state_since: Text<Timestamp>,
    state_by: &'a str,
    created_at: Text<Timestamp>,
    revision: u32,
    hold: Option<HoldObject>,
    learnt: LearntObject,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TlsWithKey")]
struct TlsObject<'a> {
    ca_pem: Option<&'a str>,
    client_cert_pem: Option<&'a str>,
    client_key_pem: Option<&'a str>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Hold")]
struct HoldObject {
    until: Text<Timestamp>,
    #[schemars(schema_with = "words::some_hold_reason")]
    reason: &'static str,
}

/// What was learnt of a destination and is worth having elsewhere.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Learnt")]
struct LearntObject {
    refusals: u32,
    last_success_at: Option<Text<Timestamp>>,
    failing_since: Option<Text<Timestamp>>,
    failure_streak: u32,
    latency_ms: Option<u64>,
    limit: u32,
    /// Requests in a million seconds that it was seen to take, and the least it is paced to.
    rate: Option<u64>,
    rate_floor: Option<u64>,
    breaker_opened: u32,
    breaker_until: Option<Text<Timestamp>>,
    paced_until: Option<Text<Timestamp>>,
}

impl<'a> DestinationLine<'a> {
    /// The line of a destination.
    #[must_use]
    pub fn of(view: &'a DestinationView, learnt: &GateMemory) -> DestinationLine<'a> {
        let set = &view.settings;
        DestinationLine {
            kind: "destination",
            id: view.name.as_str(),
            tenant: set.tenant.as_str(),
            url: set.url.as_str(),
            concurrency: ConcurrencyObject::of(set),
            rate: set.rate.map(RateObject::of),
            policy: set.policy.as_str(),
            timeout_ms: set.timeout.0,
            connect_timeout_ms: set.connect_timeout.0,
            headers: Values(&set.headers),
            secrets: set.secrets.iter().map(|live| live.secret.reveal()).collect(),
            secrets_until: set.secrets.iter().map(|live| time(live.until)).collect(),
            tls: set.tls.as_ref().map(TlsObject::of),
            allow_cidrs: set.allow_cidrs.iter().map(ToString::to_string).collect(),
            hold_scope: set.hold_scope.as_str(),
            state: view.note.state.as_str(),
            state_reason: &view.note.reason,
            state_since: Text(view.note.since),
            state_by: &view.note.by,
            created_at: Text(view.created_at),
            revision: view.revision,
            hold: learnt
                .hold
                .map(|Hold { until, reason }| HoldObject { until: Text(until), reason: reason.as_str() }),
            learnt: LearntObject::of(learnt),
        }
    }
}

impl<'a> TlsObject<'a> {
    fn of(it: &'a Certificates) -> TlsObject<'a> {
        TlsObject {
            ca_pem: it.ca.as_deref(),
            client_cert_pem: it.client.as_ref().map(|client| &*client.chain),
            client_key_pem: it.client.as_ref().map(|client| &*client.key),
        }
    }
}

impl LearntObject {
    fn of(it: &GateMemory) -> LearntObject {
        LearntObject {
            refusals: it.refusals,
            last_success_at: time(it.last_success_at),
            failing_since: time(it.failing_since),
            failure_streak: it.failure_streak,
            latency_ms: it.latency.map(|latency| latency.0),
            limit: it.limit,
            rate: it.learnt.map(|(rate, _)| rate),
            rate_floor: it.learnt.map(|(_, floor)| floor),
            breaker_opened: it.breaker_opened,
            breaker_until: time(it.breaker_until),
            paced_until: time(it.paced_until),
        }
    }
}

/// A delivery with its body.
#[derive(Serialize, JsonSchema)]
pub struct DeliveryLine<'a> {
    #[schemars(schema_with = "words::delivery_line")]
    kind: &'static str,
    #[serde(flatten)]
    delivery: DeliveryObject<'a>,
    revision: u32,
    max_failures: u32,
    not_before: Option<Text<Timestamp>>,
    max_age_ms: u64,
    /// Attempts in a row that the process did not survive.
    interrupted: u32,
    #[schemars(with = "BTreeMap<&str, &str>")]
    headers: Values<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<Text<Base64<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_ref: Option<&'a str>,
}

impl<'a> DeliveryLine<'a> {
    /// The line of a delivery; what goes by the clock is as of `now`.
    #[must_use]
    pub fn of(handed: &'a Handed, now: Timestamp) -> DeliveryLine<'a> {
        let it = &handed.view.delivery;
        DeliveryLine {
            kind: "delivery",
            delivery: DeliveryObject::of(&handed.view, now),
            revision: it.revision,
            max_failures: it.max_failures,
            not_before: time(it.not_before),
            max_age_ms: it.max_age.0,
            interrupted: it.interrupted,
            headers: Values(&it.headers),
            payload_base64: handed.body.as_ref().map(|body| Text(Base64(&body.0))),
            payload_ref: match &it.payload.source {
                Source::Reference { uri, .. } => Some(&**uri).filter(|uri| !uri.is_empty()),
                Source::Inline { .. } => None,
            },
        }
    }
}

/// A line of an export.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "ExportLine")]
pub enum ExportLine<'a> {
    Header(HeaderLine<'a>),
    Destination(DestinationLine<'a>),
    Delivery(DeliveryLine<'a>),
    End(EndLine),
}

/// Headers with their values.
struct Values<'a>(&'a [Header]);

impl Serialize for Values<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for header in self.0 {
            map.serialize_entry(header.name(), header.value())?;
        }
        map.end()
    }
}

/// Bytes in padded standard base64.
struct Base64<'a>(&'a [u8]);

impl Looks for Base64<'_> {
    fn looks() -> Schema {
        json_schema!({"type": "string", "contentEncoding": "base64"})
    }
}

impl fmt::Display for Base64<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Base64Display::new(self.0, &STANDARD))
    }
}
