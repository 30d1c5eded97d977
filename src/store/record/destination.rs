//! Version 1 of a destination's record and of its gate's.

use bincode::{BorrowDecode, Encode};

use super::{Damaged, code, coded, seal, unseal};
use crate::model::destination::StateNote;
use crate::model::secret::SEED_BYTES;
use crate::model::{
    Certificates, ClientCertificate, DestNo, Destination, DestinationState, Header, HoldScope, LiveSecret,
    Name, Rate, Secret,
};
use crate::outcome::{GateMemory, Hold, HoldReason};
use crate::time::{Millis, Timestamp};

const STATES: [DestinationState; 4] = [
    DestinationState::Active,
    DestinationState::Paused,
    DestinationState::Disabled,
    DestinationState::Deleted,
];
const SCOPES: [HoldScope; 2] = [HoldScope::Destination, HoldScope::Delivery];
const HOLDS: [HoldReason; 3] = [HoldReason::RateLimited, HoldReason::Unavailable, HoldReason::Operator];

/// A destination as it is stored under its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredDestination {
    pub(crate) name: Name,
    pub(crate) settings: Destination,
    pub(crate) note: StateNote,
    pub(crate) created_at: Timestamp,
    pub(crate) revision: u32,
}

#[derive(Encode, BorrowDecode)]
struct DestinationV1<'a> {
    name: &'a str,
    tenant: &'a str,
    url: &'a str,
    concurrency_max: u32,
    adaptive: bool,
    /// Requests in a million seconds, and burst.
    rate: Option<(u64, u32)>,
    policy: &'a str,
    timeout: u64,
    connect_timeout: u64,
    headers: Vec<(&'a str, &'a str)>,
    secrets: Vec<SecretV1<'a>>,
    tls: Option<TlsV1<'a>>,
    allow_cidrs: Vec<String>,
    hold_scope: u8,
    state: u8,
    reason: &'a str,
    since: u64,
    by: &'a str,
    created_at: u64,
    revision: u32,
}

#[derive(Encode, BorrowDecode)]
struct SecretV1<'a> {
    kind: KindV1<'a>,
    until: Option<u64>,
}

#[derive(Encode, BorrowDecode)]
enum KindV1<'a> {
    Symmetric(&'a [u8]),
    Ed25519([u8; SEED_BYTES]),
}

#[derive(Encode, BorrowDecode)]
struct TlsV1<'a> {
    ca: Option<&'a str>,
    /// Chain and key.
    client: Option<(&'a str, &'a str)>,
}

#[derive(Encode, BorrowDecode)]
struct GateV1 {
    hold: Option<(u64, u8)>,
    refusals: u32,
    last_success_at: Option<u64>,
    failing_since: Option<u64>,
    failure_streak: u32,
    latency: Option<u64>,
    limit: u32,
    learnt: Option<(u64, u64)>,
    breaker_opened: u32,
    breaker_until: Option<u64>,
    paced_until: Option<u64>,
}

/// The value stored for a destination.
pub(crate) fn encode_destination(no: DestNo, it: &StoredDestination) -> Vec<u8> {
    seal(&no.0.to_be_bytes(), &DestinationV1::of(it))
}

/// The destination stored under `no`.
pub(crate) fn decode_destination(no: DestNo, value: &[u8]) -> Result<StoredDestination, Damaged> {
    unseal::<DestinationV1<'_>>(&no.0.to_be_bytes(), value)?.into_stored()
}

/// The value stored for a gate.
pub(crate) fn encode_gate(no: DestNo, it: &GateMemory) -> Vec<u8> {
    let row = GateV1 {
        hold: it.hold.map(|hold| (hold.until.0, code(&HOLDS, &hold.reason))),
        refusals: it.refusals,
        last_success_at: it.last_success_at.map(|time| time.0),
        failing_since: it.failing_since.map(|time| time.0),
        failure_streak: it.failure_streak,
        latency: it.latency.map(|latency| latency.0),
        limit: it.limit,
        learnt: it.learnt,
        breaker_opened: it.breaker_opened,
        breaker_until: it.breaker_until.map(|time| time.0),
        paced_until: it.paced_until.map(|time| time.0),
    };
    seal(&no.0.to_be_bytes(), &row)
}

/// The gate stored under `no`.
pub(crate) fn decode_gate(no: DestNo, value: &[u8]) -> Result<GateMemory, Damaged> {
    let row = unseal::<GateV1>(&no.0.to_be_bytes(), value)?;
    let hold = |(until, reason)| Ok(Hold { until: Timestamp(until), reason: coded(&HOLDS, reason)? });
    Ok(GateMemory {
        hold: row.hold.map(hold).transpose()?,
        refusals: row.refusals,
        last_success_at: row.last_success_at.map(Timestamp),
        failing_since: row.failing_since.map(Timestamp),
        failure_streak: row.failure_streak,
        latency: row.latency.map(Millis),
        limit: row.limit,
        learnt: row.learnt,
        breaker_opened: row.breaker_opened,
        breaker_until: row.breaker_until.map(Timestamp),
        paced_until: row.paced_until.map(Timestamp),
    })
}

impl<'a> DestinationV1<'a> {
    fn of(it: &'a StoredDestination) -> DestinationV1<'a> {
        let set = &it.settings;
        DestinationV1 {
            name: it.name.as_str(),
            tenant: set.tenant.as_str(),
            url: set.url.as_str(),
            concurrency_max: set.concurrency_max,
            adaptive: set.adaptive,
            rate: set.rate.map(|rate| (rate.per_million_seconds, rate.burst)),
            policy: set.policy.as_str(),
            timeout: set.timeout.0,
            connect_timeout: set.connect_timeout.0,
            headers: set.headers.iter().map(|header| (header.name(), header.value())).collect(),
            secrets: set.secrets.iter().map(SecretV1::of).collect(),
            tls: set.tls.as_ref().map(TlsV1::of),
            allow_cidrs: set.allow_cidrs.iter().map(ToString::to_string).collect(),
            hold_scope: code(&SCOPES, &set.hold_scope),
            state: code(&STATES, &it.note.state),
            reason: &it.note.reason,
            since: it.note.since.0,
            by: &it.note.by,
            created_at: it.created_at.0,
            revision: it.revision,
        }
    }

    fn into_stored(self) -> Result<StoredDestination, Damaged> {
        let header = |(name, value): (&str, &str)| Header::new(name, value).map_err(|_| Damaged);
        let rate = |(rate, burst)| Rate::in_bounds(rate, burst).ok_or(Damaged);
        let note = StateNote {
            state: coded(&STATES, self.state)?,
            reason: self.reason.to_owned(),
            since: Timestamp(self.since),
            by: self.by.to_owned(),
        };
        let settings = Destination {
            tenant: self.tenant.parse().map_err(|_| Damaged)?,
            url: self.url.parse().map_err(|_| Damaged)?,
            concurrency_max: self.concurrency_max,
            adaptive: self.adaptive,
            rate: self.rate.map(rate).transpose()?,
            policy: self.policy.parse().map_err(|_| Damaged)?,
            timeout: Millis(self.timeout),
            connect_timeout: Millis(self.connect_timeout),
            headers: self.headers.into_iter().map(header).collect::<Result<_, _>>()?,
            secrets: self.secrets.into_iter().map(SecretV1::into_live).collect::<Result<_, _>>()?,
            tls: self.tls.map(TlsV1::into_certificates),
            allow_cidrs: parse_all(&self.allow_cidrs)?,
            hold_scope: coded(&SCOPES, self.hold_scope)?,
        };
        Ok(StoredDestination {
            name: self.name.parse().map_err(|_| Damaged)?,
            settings,
            note,
            created_at: Timestamp(self.created_at),
            revision: self.revision,
        })
    }
}

impl<'a> SecretV1<'a> {
    fn of(it: &'a LiveSecret) -> SecretV1<'a> {
        let kind = match &it.secret {
            Secret::Symmetric(bytes) => KindV1::Symmetric(bytes),
            Secret::Ed25519(seed) => KindV1::Ed25519(*seed),
        };
        SecretV1 { kind, until: it.until.map(|until| until.0) }
    }

    fn into_live(self) -> Result<LiveSecret, Damaged> {
        let secret = match self.kind {
            KindV1::Symmetric(bytes) => Secret::symmetric(bytes).ok_or(Damaged)?,
            KindV1::Ed25519(seed) => Secret::Ed25519(seed),
        };
        Ok(LiveSecret { secret, until: self.until.map(Timestamp) })
    }
}

impl<'a> TlsV1<'a> {
    fn of(it: &'a Certificates) -> TlsV1<'a> {
        let client = it.client.as_ref().map(|client| (&*client.chain, &*client.key));
        TlsV1 { ca: it.ca.as_deref(), client }
    }

    fn into_certificates(self) -> Certificates {
        let client = |(chain, key): (&str, &str)| ClientCertificate { chain: chain.into(), key: key.into() };
        Certificates { ca: self.ca.map(Into::into), client: self.client.map(client) }
    }
}

fn parse_all<T: std::str::FromStr>(texts: &[String]) -> Result<Vec<T>, Damaged> {
    texts.iter().map(|text| text.parse().map_err(|_| Damaged)).collect()
}
