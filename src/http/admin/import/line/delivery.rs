//! The line of a delivery: its record, its counters and its body.

use base64::Engine as _;
use bytes::Bytes;
use sha2::Digest as _;

use super::{Checks, at, count, flag, needed, number, other_region, short, up_to, word};
use crate::delivery::{Attempt, Delivery, NO_DIGEST, Payload, Source, State};
use crate::engine::import::DeliveryLine;
use crate::http::dto::delivery::REFERENCE;
use crate::http::error::Problem;
use crate::http::fields::{Fields, digits, read_text};
use crate::http::ingest::item::{BASE64, headers, is_content_type, labels, reference};
use crate::model::reference::BadReference;
use crate::model::{
    ClassNo, DeliveryId, DestNo, Digest, IdempotencyKey, Lane, MAX_PAYLOAD_LIMIT, Name, Reference, TenantNo,
};
use crate::outcome::{AttemptResult, Ending, NextReason};
use crate::sender::MAX_ERROR;
use crate::store::open::UNSET_REGION;
use crate::time::{Millis, Timestamp};

/// The names in a line, which get their numbers when it is stored.
struct Names {
    tenant: Option<Name>,
    destination: Option<Name>,
    class: Option<Name>,
    region: Option<Name>,
}

pub(super) fn read(mut fields: Fields<'_>, checks: &Checks<'_>) -> Result<DeliveryLine, Problem> {
    let id: Option<DeliveryId> = needed(&mut fields, "id");
    let names = Names {
        tenant: needed(&mut fields, "tenant"),
        destination: needed(&mut fields, "destination"),
        class: needed(&mut fields, "class"),
        region: needed(&mut fields, "region"),
    };
    let key = key(&mut fields, id);
    let reference = fields.text("payload_ref").map(std::borrow::Cow::into_owned);
    let (payload, content_type) = payload(&mut fields, reference.as_deref()).unzip();
    let body = body(&mut fields, payload.as_ref());
    // By the clock of who wrote it: not looked at.
    fields.given("held_until");
    let delivery = record(&mut fields, id.unwrap_or(DeliveryId(0)), key, payload, content_type);
    fields.finish(&[])?;
    let mut delivery = delivery;
    if let Some(text) = &reference {
        delivery.payload.source = referred(text, &delivery, checks)?;
    }
    let Names {
        tenant: Some(tenant),
        destination: Some(destination),
        class: Some(class),
        region: Some(region),
    } = names
    else {
        return Err(Problem::invalid(Vec::new()));
    };
    // What was taken before its file was given a region says so for ever.
    if region != *checks.region && region.as_str() != UNSET_REGION {
        return Err(other_region(checks.region));
    }
    let delivery = Delivery { region, ..delivery };
    Ok(DeliveryLine { tenant, destination, class, delivery, body })
}

/// Its numbers, its lane and its region are not those of the line yet.
fn record(
    fields: &mut Fields<'_>,
    id: DeliveryId,
    key: Option<IdempotencyKey>,
    payload: Option<Payload>,
    content_type: Option<String>,
) -> Delivery {
    let gone = Payload { source: Source::Inline { bytes: 0, sha256: NO_DIGEST }, erased_at: None };
    Delivery {
        id,
        tenant: TenantNo(0),
        destination: DestNo(0),
        class: ClassNo(0),
        region: UNSET_REGION.parse().expect("it is a name"),
        key,
        created_at: at(fields, "created_at"),
        not_before: fields.parsed("not_before"),
        max_age: Millis(number(fields, "max_age_ms")),
        expires_at: at(fields, "expires_at"),
        max_failures: up_to(fields, "max_failures", u32::MAX),
        state: state(fields, payload.as_ref()),
        attempts: count(fields, "attempts"),
        failures: count(fields, "failures"),
        throttles: count(fields, "throttles"),
        interrupted: count(fields, "interrupted"),
        revision: count(fields, "revision"),
        cancelling: flag(fields, "cancelling"),
        first_attempt_at: fields.parsed("first_attempt_at"),
        payload: payload.unwrap_or(gone),
        content_type: content_type.unwrap_or_default(),
        headers: headers(fields),
        labels: labels(fields),
        log: last(fields).into_iter().collect(),
    }
}

/// The producer's key; the id stands in for one that was not given.
fn key(fields: &mut Fields<'_>, id: Option<DeliveryId>) -> Option<IdempotencyKey> {
    let key: IdempotencyKey = needed(fields, "idempotency_key")?;
    Some(key).filter(|key| id.is_none_or(|id| id.to_string() != key.as_str()))
}

/// `ready` and `delayed` are the same by another clock. What is in flight cannot be handed over.
fn state(fields: &mut Fields<'_>, payload: Option<&Payload>) -> State {
    let outcome = word(fields, "outcome", &Ending::ALL, Ending::as_str);
    let finished_at: Option<Timestamp> = fields.parsed("finished_at");
    let due: Option<Timestamp> = fields.parsed("next_attempt_at");
    let reason = word(fields, "next_reason", &NextReason::ALL, NextReason::as_str);
    let leased = fields.given("lease").is_some();
    let state = fields.text("state").unwrap_or_default();
    let nothing = State::Terminal { outcome: Ending::Quarantined, at: Timestamp(0), step: 0 };
    match (&*state, outcome, finished_at, due, reason) {
        ("terminal", Some(outcome), Some(at), None, None) if !leased => {
            State::Terminal { outcome, at, step: 0 }
        }
        ("ready" | "delayed", None, None, Some(due), Some(reason)) if !leased => {
            if payload.is_some_and(|payload| payload.erased_at.is_some()) {
                fields.fault("payload.erased_at", "what waits has its body");
            }
            State::Waiting { due, lane: Lane(0), reason }
        }
        _ => {
            let detail = "ready and delayed have next_attempt_at and next_reason, terminal has outcome and \
                          finished_at, and nothing has a lease";
            fields.fault("state", detail);
            nothing
        }
    }
}

/// A reference that is still to be read must be one that is read here. What has ended keeps it as it
/// is: it decides about repeats.
fn referred(text: &str, it: &Delivery, checks: &Checks<'_>) -> Result<Source, Problem> {
    let sha256 = it.payload.digest().copied();
    let uri = match it.state {
        State::Waiting { .. } => reference(text, checks.references)?.as_str().to_owned(),
        State::Terminal { .. } => {
            let known: Result<Reference, _> = text.parse();
            let bad = |why: BadReference| Problem::field("payload_ref", why.to_string());
            known.map_err(bad)?.as_str().to_owned()
        }
    };
    Ok(Source::Reference { uri, sha256 })
}

/// What is said of the body, and its content type.
fn payload(fields: &mut Fields<'_>, reference: Option<&str>) -> Option<(Payload, String)> {
    let Some(value) = fields.given("payload") else {
        if !fields.is_at_fault("payload") {
            fields.missing("payload");
        }
        return None;
    };
    let Ok(mut inner) = Fields::read(value.get().as_bytes()) else {
        return fields.refuse("payload", "must be an object");
    };
    let kind = inner.text("kind").unwrap_or_default();
    let bytes =
        inner.integer("bytes", 0..=MAX_PAYLOAD_LIMIT as u64).and_then(|bytes| u32::try_from(bytes).ok());
    let sha256 = inner.text("sha256").and_then(|text| digits(&text));
    let content_type = inner.text("content_type").unwrap_or_default().into_owned();
    let erased_at: Option<Timestamp> = inner.parsed("erased_at");
    let named = inner.text("ref");
    let is_reference = kind == REFERENCE;
    let right_kind = kind == "inline" || is_reference;
    if inner.finish(&[]).is_err() || !right_kind || !is_content_type(&content_type) {
        return fields.refuse("payload", "has kind, bytes, sha256, content_type and erased_at");
    }
    // One that was erased is no longer named.
    let is_named = reference.is_some() || (is_reference && erased_at.is_some());
    if named.as_deref() != reference || is_reference != is_named {
        return fields.refuse("payload_ref", "goes with a payload of kind ref, and is its ref");
    }
    if is_reference {
        let source = Source::Reference { uri: String::new(), sha256 };
        return Some((Payload { source, erased_at }, content_type));
    }
    let digest = sha256.or_else(|| erased_at.map(|_| NO_DIGEST));
    let Some((bytes, sha256)) = bytes.zip(digest) else {
        return fields.refuse("payload", "needs bytes and sha256 of a body that is there");
    };
    Some((Payload { source: Source::Inline { bytes, sha256 }, erased_at }, content_type))
}

/// The bytes, which must be those that the digest is of. A reference has none.
fn body(fields: &mut Fields<'_>, payload: Option<&Payload>) -> Bytes {
    let given = fields
        .given("payload_base64")
        .map(|value| read_text(value).and_then(|text| BASE64.decode(text.as_bytes()).ok()).map(Bytes::from));
    let Some(Payload { source, erased_at }) = payload else { return Bytes::new() };
    let good = match (source, &given) {
        (Source::Inline { bytes, sha256 }, Some(Some(body))) => {
            let digest: Digest = sha2::Sha256::digest(body).into();
            erased_at.is_none() && body.len() as u64 == u64::from(*bytes) && digest == *sha256
        }
        (Source::Inline { .. }, Some(None)) | (Source::Reference { .. }, Some(_)) => false,
        (Source::Inline { .. }, None) => erased_at.is_some(),
        (Source::Reference { .. }, None) => true,
    };
    if !good {
        fields.fault(
            "payload_base64",
            "must be the body in base64 that bytes and sha256 are of, if it is there",
        );
    }
    given.flatten().unwrap_or_default()
}

/// The newest attempt, as far as it is told; the others stay behind.
fn last(fields: &mut Fields<'_>) -> Option<Attempt> {
    let value = fields.given("last")?;
    let Ok(mut inner) = Fields::read(value.get().as_bytes()) else {
        return fields.refuse("last", "must be an object or null");
    };
    let n = count(&mut inner, "n");
    let result = word(&mut inner, "result", &AttemptResult::ALL, AttemptResult::as_str);
    let status = inner.integer("status", 0..=999).and_then(|status| u16::try_from(status).ok());
    let error = inner.text("error").map(|text| short(&text, MAX_ERROR * 4));
    let at: Option<Timestamp> = inner.parsed("at");
    let (Ok(()), Some(result), Some(at)) = (inner.finish(&[]), result, at) else {
        return fields.refuse("last", "has n, result, status, error and at");
    };
    Some(Attempt {
        n,
        started_at: at,
        ended_at: Some(at).filter(|_| result != AttemptResult::Interrupted),
        result,
        status,
        error,
        host: None,
        address: None,
        late: false,
        retry_after: None,
        next_attempt_at: None,
        response_excerpt: None,
    })
}
