//! The destination with its live side, as it is shown.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::http::dto::{Text, rounded, time};
use crate::http::openapi::words;
use crate::model::{Certificates, Destination, Rate};
use crate::outcome::AttemptResult;
use crate::schedule::{BreakerState, GateView, Times};
use crate::store::DestinationView;
use crate::time::Timestamp;

/// What stands in place of a header's value.
pub const MASK: &str = "***";

/// The destination object.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Destination")]
pub struct DestinationObject<'a> {
    id: &'a str,
    tenant: &'a str,
    url: Cow<'a, str>,
    concurrency: ConcurrencyObject,
    rate: Option<RateObject>,
    policy: &'a str,
    timeout_ms: u64,
    connect_timeout_ms: u64,
    headers: BTreeMap<&'a str, &'static str>,
    tls: Option<TlsObject<'a>>,
    allow_cidrs: Vec<String>,
    #[schemars(schema_with = "words::hold_scope")]
    hold_scope: &'static str,
    #[schemars(schema_with = "words::destination_state")]
    state: &'static str,
    state_reason: Option<&'a str>,
    state_since: Text<Timestamp>,
    state_by: Option<&'a str>,
    #[serde(flatten)]
    live: LiveObject,
}

/// Certificates are public; a key never leaves.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Tls")]
struct TlsObject<'a> {
    ca_pem: Option<&'a str>,
    client_cert_pem: Option<&'a str>,
    client_key_pem: Option<&'static str>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Concurrency")]
pub(super) struct ConcurrencyObject {
    max: u32,
    adaptive: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Rate")]
pub(super) struct RateObject {
    #[serde(serialize_with = "as_given")]
    #[schemars(with = "f64")]
    per_second: Rate,
    burst: u32,
}

impl ConcurrencyObject {
    pub(super) fn of(settings: &Destination) -> ConcurrencyObject {
        ConcurrencyObject { max: settings.concurrency_max, adaptive: settings.adaptive }
    }
}

impl RateObject {
    pub(super) fn of(rate: Rate) -> RateObject {
        RateObject { per_second: rate, burst: rate.burst }
    }
}

/// A whole number as one, as it will have been given.
fn as_given<S: Serializer>(rate: &Rate, serializer: S) -> Result<S::Ok, S::Error> {
    let per_second = rate.as_per_second();
    match per_second.fract() == 0.0 {
        true => serializer.serialize_u64(per_second as u64),
        false => serializer.serialize_f64(per_second),
    }
}

/// What the engine knows of a destination now.
#[derive(Debug, Serialize, JsonSchema)]
struct LiveObject {
    in_flight: u32,
    limit: u32,
    waiting: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    delayed: Option<usize>,
    oldest_due_at: Option<Text<Timestamp>>,
    hold_until: Option<Text<Timestamp>>,
    #[schemars(schema_with = "words::hold_reason")]
    hold_reason: Option<&'static str>,
    #[schemars(schema_with = "words::breaker")]
    breaker: &'static str,
    last_success_at: Option<Text<Timestamp>>,
    failing_since: Option<Text<Timestamp>>,
    failure_streak: u32,
    /// Requests a second that it was seen to take; only while it is held to them.
    #[serde(skip_serializing_if = "Option::is_none")]
    learnt_rate: Option<f64>,
    observed_retry_after: Option<AskedObject>,
    recovery: Option<RecoveryObject>,
}

/// The times that the receiver named.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ObservedRetryAfter")]
struct AskedObject {
    count: u64,
    p50_ms: u64,
    p95_ms: u64,
    max_ms: u64,
}

/// How long it took to work again, from the first failure, and what each began with.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Recovery")]
struct RecoveryObject {
    count: u64,
    p50_ms: u64,
    p95_ms: u64,
    by_result: BTreeMap<&'static str, u32>,
}

impl<'a> TlsObject<'a> {
    fn of(it: &'a Certificates) -> TlsObject<'a> {
        TlsObject {
            ca_pem: it.ca.as_deref(),
            client_cert_pem: it.client.as_ref().map(|client| &*client.chain),
            client_key_pem: it.client.is_some().then_some(MASK),
        }
    }
}

impl AskedObject {
    fn of(times: &Times) -> AskedObject {
        let Times { count, p50, p95, max } = *times;
        AskedObject { count, p50_ms: p50.0, p95_ms: p95.0, max_ms: max.0 }
    }
}

impl RecoveryObject {
    fn of((times, by_result): &(Times, Vec<(AttemptResult, u32)>)) -> RecoveryObject {
        let by_result = by_result.iter().map(|(result, count)| (result.as_str(), *count)).collect();
        RecoveryObject { count: times.count, p50_ms: times.p50.0, p95_ms: times.p95.0, by_result }
    }
}

impl<'a> DestinationObject<'a> {
    /// A destination and its live side; None: nothing was ever queued for it.
    #[must_use]
    pub fn of(view: &'a DestinationView, gate: Option<&GateView>) -> DestinationObject<'a> {
        let settings = &view.settings;
        let said = |text: &'a str| (!text.is_empty()).then_some(text);
        DestinationObject {
            id: view.name.as_str(),
            tenant: settings.tenant.as_str(),
            url: settings.url.as_str().into(),
            concurrency: ConcurrencyObject::of(settings),
            rate: settings.rate.map(RateObject::of),
            policy: settings.policy.as_str(),
            timeout_ms: settings.timeout.0,
            connect_timeout_ms: settings.connect_timeout.0,
            headers: settings.headers.iter().map(|header| (header.name(), MASK)).collect(),
            tls: settings.tls.as_ref().map(TlsObject::of),
            allow_cidrs: settings.allow_cidrs.iter().map(ToString::to_string).collect(),
            hold_scope: settings.hold_scope.as_str(),
            state: view.note.state.as_str(),
            state_reason: said(&view.note.reason),
            state_since: Text(view.note.since),
            state_by: said(&view.note.by),
            live: LiveObject::of(settings, gate),
        }
    }

    /// The same for one who is not to see the whole URL, which may be a secret: scheme and host.
    #[must_use]
    pub fn hiding_url(mut self, view: &DestinationView) -> DestinationObject<'a> {
        let url = &view.settings.url;
        self.url = format!("{}://{}", url.scheme(), url.host_str().unwrap_or_default()).into();
        self
    }

    /// The same, with what waits and is not yet due.
    #[must_use]
    pub fn with_delayed(mut self, delayed: usize) -> DestinationObject<'a> {
        self.live.delayed = Some(delayed);
        self
    }
}

impl LiveObject {
    fn of(settings: &Destination, gate: Option<&GateView>) -> LiveObject {
        let hold = gate.and_then(|gate| gate.hold);
        LiveObject {
            in_flight: gate.map_or(0, |gate| gate.in_flight),
            limit: gate.map_or(settings.concurrency_max, |gate| gate.limit),
            waiting: gate.map_or(0, |gate| gate.waiting),
            delayed: None,
            oldest_due_at: time(gate.and_then(|gate| gate.oldest_due_at)),
            hold_until: time(hold.map(|hold| hold.until)),
            hold_reason: hold.map(|hold| hold.reason.as_str()),
            breaker: gate.map_or(BreakerState::Closed, |gate| gate.breaker).as_str(),
            last_success_at: time(gate.and_then(|gate| gate.last_success_at)),
            failing_since: time(gate.and_then(|gate| gate.failing_since)),
            failure_streak: gate.map_or(0, |gate| gate.failure_streak),
            learnt_rate: gate.and_then(|gate| gate.learnt_rate).map(rounded),
            observed_retry_after: gate.and_then(|gate| gate.asked.as_ref()).map(AskedObject::of),
            recovery: gate.and_then(|gate| gate.recovery.as_ref()).map(RecoveryObject::of),
        }
    }
}

#[cfg(test)]
#[path = "destination/tests.rs"]
mod tests;
