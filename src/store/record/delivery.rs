//! Version 1 of a delivery's record and of an attempt's.

use bincode::{BorrowDecode, Encode};

use super::{Damaged, code, coded, seal, unseal};
use crate::delivery::{AskedKind, AskedWait, Attempt, Delivery, Payload, Source, State};
use crate::model::{ClassNo, DeliveryId, DestNo, Excerpt, Header, Lane, TenantNo};
use crate::outcome::{AttemptResult, Clamped, Ending, NextReason};
use crate::time::{Millis, Timestamp};

const ASKED: [AskedKind; 3] = [AskedKind::Seconds, AskedKind::Date, AskedKind::Invalid];
const CLAMPED: [Clamped; 2] = [Clamped::Min, Clamped::Max];

#[derive(Encode, BorrowDecode)]
struct DeliveryV1<'a> {
    tenant: u32,
    destination: u32,
    class: u8,
    region: &'a str,
    key: Option<&'a str>,
    created_at: u64,
    not_before: Option<u64>,
    max_age: u64,
    expires_at: u64,
    max_failures: u32,
    state: StateV1,
    attempts: u32,
    failures: u32,
    throttles: u32,
    interrupted: u32,
    revision: u32,
    cancelling: bool,
    first_attempt_at: Option<u64>,
    source: SourceV1<'a>,
    erased_at: Option<u64>,
    content_type: &'a str,
    headers: Vec<(&'a str, &'a str)>,
    labels: Vec<(&'a str, &'a str)>,
    log: Vec<AttemptV1<'a>>,
}

#[derive(Encode, BorrowDecode)]
enum StateV1 {
    Waiting { due: u64, lane: u8, reason: u8 },
    Terminal { outcome: u8, at: u64, step: u64 },
}

#[derive(Encode, BorrowDecode)]
enum SourceV1<'a> {
    Inline { bytes: u32, sha256: [u8; 32] },
    Reference { uri: &'a str, sha256: Option<[u8; 32]> },
}

#[derive(Encode, BorrowDecode)]
struct AttemptV1<'a> {
    n: u32,
    started_at: u64,
    ended_at: Option<u64>,
    result: u8,
    status: Option<u16>,
    error: Option<&'a str>,
    host: Option<&'a str>,
    address: Option<&'a str>,
    late: bool,
    retry_after: Option<AskedV1<'a>>,
    next_attempt_at: Option<u64>,
    response_excerpt: Option<&'a [u8]>,
}

#[derive(Encode, BorrowDecode)]
struct AskedV1<'a> {
    raw: Option<&'a str>,
    kind: u8,
    asked: Option<u64>,
    applied: Option<u64>,
    clamped: Option<u8>,
}

/// The value stored for a delivery.
pub(crate) fn encode_delivery(delivery: &Delivery) -> Vec<u8> {
    seal(&delivery.id.0.to_be_bytes(), &DeliveryV1::of(delivery))
}

/// The delivery that `value` was stored for under `id`.
pub(crate) fn decode_delivery(id: DeliveryId, value: &[u8]) -> Result<Delivery, Damaged> {
    unseal::<DeliveryV1<'_>>(&id.0.to_be_bytes(), value)?.into_delivery(id)
}

/// The value stored for an attempt that no longer fits in its record.
pub(crate) fn encode_attempt(id: DeliveryId, attempt: &Attempt) -> Vec<u8> {
    seal(&attempt_key(id, attempt.n), &AttemptV1::of(attempt))
}

/// The attempt stored under `(id, n)`.
pub(crate) fn decode_attempt(id: DeliveryId, n: u32, value: &[u8]) -> Result<Attempt, Damaged> {
    unseal::<AttemptV1<'_>>(&attempt_key(id, n), value)?.into_attempt()
}

pub(super) fn attempt_key(id: DeliveryId, n: u32) -> [u8; 20] {
    let mut key = [0; 20];
    key[..16].copy_from_slice(&id.0.to_be_bytes());
    key[16..].copy_from_slice(&n.to_be_bytes());
    key
}

impl<'a> DeliveryV1<'a> {
    fn of(it: &'a Delivery) -> DeliveryV1<'a> {
        DeliveryV1 {
            tenant: it.tenant.0,
            destination: it.destination.0,
            class: it.class.0,
            region: it.region.as_str(),
            key: it.key.as_ref().map(|key| key.as_str()),
            created_at: it.created_at.0,
            not_before: it.not_before.map(|time| time.0),
            max_age: it.max_age.0,
            expires_at: it.expires_at.0,
            max_failures: it.max_failures,
            state: StateV1::of(&it.state),
            attempts: it.attempts,
            failures: it.failures,
            throttles: it.throttles,
            interrupted: it.interrupted,
            revision: it.revision,
            cancelling: it.cancelling,
            first_attempt_at: it.first_attempt_at.map(|time| time.0),
            source: SourceV1::of(&it.payload.source),
            erased_at: it.payload.erased_at.map(|time| time.0),
            content_type: &it.content_type,
            headers: it.headers.iter().map(|header| (header.name(), header.value())).collect(),
            labels: it.labels.iter().map(|(name, value)| (&**name, &**value)).collect(),
            log: it.log.iter().map(AttemptV1::of).collect(),
        }
    }

    fn into_delivery(self, id: DeliveryId) -> Result<Delivery, Damaged> {
        let header = |(name, value): (&str, &str)| Header::new(name, value).map_err(|_| Damaged);
        let label = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        Ok(Delivery {
            id,
            tenant: TenantNo(self.tenant),
            destination: DestNo(self.destination),
            class: ClassNo(self.class),
            region: self.region.parse().map_err(|_| Damaged)?,
            key: self.key.map(str::parse).transpose().map_err(|_| Damaged)?,
            created_at: Timestamp(self.created_at),
            not_before: self.not_before.map(Timestamp),
            max_age: Millis(self.max_age),
            expires_at: Timestamp(self.expires_at),
            max_failures: self.max_failures,
            state: self.state.into_state()?,
            attempts: self.attempts,
            failures: self.failures,
            throttles: self.throttles,
            interrupted: self.interrupted,
            revision: self.revision,
            cancelling: self.cancelling,
            first_attempt_at: self.first_attempt_at.map(Timestamp),
            payload: Payload { source: self.source.into_source(), erased_at: self.erased_at.map(Timestamp) },
            content_type: self.content_type.to_owned(),
            headers: self.headers.into_iter().map(header).collect::<Result<_, _>>()?,
            labels: self.labels.into_iter().map(label).collect(),
            log: self.log.into_iter().map(AttemptV1::into_attempt).collect::<Result<_, _>>()?,
        })
    }
}

impl StateV1 {
    fn of(state: &State) -> StateV1 {
        match state {
            State::Waiting { due, lane, reason } => {
                StateV1::Waiting { due: due.0, lane: lane.0, reason: code(&NextReason::ALL, reason) }
            }
            State::Terminal { outcome, at, step } => {
                StateV1::Terminal { outcome: code(&Ending::ALL, outcome), at: at.0, step: *step }
            }
        }
    }

    fn into_state(self) -> Result<State, Damaged> {
        Ok(match self {
            StateV1::Waiting { due, lane, reason } => State::Waiting {
                due: Timestamp(due),
                lane: Lane(lane),
                reason: coded(&NextReason::ALL, reason)?,
            },
            StateV1::Terminal { outcome, at, step } => {
                State::Terminal { outcome: coded(&Ending::ALL, outcome)?, at: Timestamp(at), step }
            }
        })
    }
}

impl<'a> SourceV1<'a> {
    fn of(source: &'a Source) -> SourceV1<'a> {
        match source {
            Source::Inline { bytes, sha256 } => SourceV1::Inline { bytes: *bytes, sha256: *sha256 },
            Source::Reference { uri, sha256 } => SourceV1::Reference { uri, sha256: *sha256 },
        }
    }

    fn into_source(self) -> Source {
        match self {
            SourceV1::Inline { bytes, sha256 } => Source::Inline { bytes, sha256 },
            SourceV1::Reference { uri, sha256 } => Source::Reference { uri: uri.to_owned(), sha256 },
        }
    }
}

impl<'a> AttemptV1<'a> {
    fn of(it: &'a Attempt) -> AttemptV1<'a> {
        AttemptV1 {
            n: it.n,
            started_at: it.started_at.0,
            ended_at: it.ended_at.map(|time| time.0),
            result: code(&AttemptResult::ALL, &it.result),
            status: it.status,
            error: it.error.as_deref(),
            host: it.host.as_deref(),
            address: it.address.as_deref(),
            late: it.late,
            retry_after: it.retry_after.as_ref().map(AskedV1::of),
            next_attempt_at: it.next_attempt_at.map(|time| time.0),
            response_excerpt: it.response_excerpt.as_ref().map(|excerpt| &*excerpt.0),
        }
    }

    fn into_attempt(self) -> Result<Attempt, Damaged> {
        Ok(Attempt {
            n: self.n,
            started_at: Timestamp(self.started_at),
            ended_at: self.ended_at.map(Timestamp),
            result: coded(&AttemptResult::ALL, self.result)?,
            status: self.status,
            error: self.error.map(str::to_owned),
            host: self.host.map(str::to_owned),
            address: self.address.map(str::to_owned),
            late: self.late,
            retry_after: self.retry_after.map(AskedV1::into_asked).transpose()?,
            next_attempt_at: self.next_attempt_at.map(Timestamp),
            response_excerpt: self.response_excerpt.map(|bytes| Excerpt(bytes.to_vec())),
        })
    }
}

impl<'a> AskedV1<'a> {
    fn of(it: &'a AskedWait) -> AskedV1<'a> {
        AskedV1 {
            raw: it.raw.as_deref(),
            kind: code(&ASKED, &it.kind),
            asked: it.asked.map(|wait| wait.0),
            applied: it.applied.map(|wait| wait.0),
            clamped: it.clamped.as_ref().map(|end| code(&CLAMPED, end)),
        }
    }

    fn into_asked(self) -> Result<AskedWait, Damaged> {
        Ok(AskedWait {
            raw: self.raw.map(str::to_owned),
            kind: coded(&ASKED, self.kind)?,
            asked: self.asked.map(Millis),
            applied: self.applied.map(Millis),
            clamped: self.clamped.map(|end| coded(&CLAMPED, end)).transpose()?,
        })
    }
}
