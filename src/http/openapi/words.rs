//! Closed sets of words, as the answers have them.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::http::admin::{deliveries, destinations};
use crate::model::{Action, BulkAction, DestinationState, JobState};
use crate::outcome::{AttemptResult, Ending, HoldReason, NextReason};
use crate::store::Shown;

/// A `schema_with` of one of these words.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident = $words:expr;)*) => {
        $($(#[$doc])* pub fn $name(_: &mut SchemaGenerator) -> Schema { one_of(&$words) })*
    };
}

/// A `schema_with` of one of these words, or null.
macro_rules! words_or_null {
    ($($(#[$doc:meta])* $name:ident = $words:expr;)*) => {
        $($(#[$doc])* pub fn $name(_: &mut SchemaGenerator) -> Schema { one_of_or_null(&$words) })*
    };
}

words! {
    /// `state` of a delivery.
    delivery_state = deliveries::STATES.map(Shown::as_str);
    /// `state` of a destination.
    destination_state = destinations::STATES.map(DestinationState::as_str);
    /// `result` of an attempt.
    result = AttemptResult::ALL.map(AttemptResult::as_str);
    /// Whether a request left.
    sent = ["no", "maybe", "yes"];
    /// Where a body is.
    payload_kind = ["inline", "ref"];
    /// How a `Retry-After` was written.
    retry_after_kind = ["seconds", "date", "invalid", "absent"];
    /// What an explanation comes to.
    verdict = ["terminal", "in_flight", "starting", "waiting", "expires_first"];
    /// What can hold a delivery back.
    block = [
        "not_due", "destination_hold", "concurrency", "rate", "breaker", "paused", "disabled",
        "tenant_share", "class_reserve", "claims_stopped", "draining", "slots",
    ];
    /// Whether the server sends.
    claims = ["running", "stopped", "draining", "drained"];
    /// What a 429 holds back.
    hold_scope = ["destination", "delivery"];
    /// Whether a destination can be reached.
    breaker = ["closed", "open", "half_open"];
    /// Why a destination is held.
    some_hold_reason = HoldReason::ALL.map(HoldReason::as_str);
    /// What a bulk job does.
    bulk_action = BulkAction::ALL.map(BulkAction::as_str);
    /// How a bulk job stands.
    job_state = JobState::ALL.map(JobState::as_str);
    /// What can be done with the work of a destination that is removed.
    waiting = ["cancel"];
    /// What can stand in the audit log.
    action = Action::ALL.map(Action::as_str);
    /// The first line of an export.
    header_line = ["header"];
    /// A destination's line of an export.
    destination_line = ["destination"];
    /// A delivery's line of an export.
    delivery_line = ["delivery"];
}

words_or_null! {
    /// How a delivery ended.
    outcome = Ending::ALL.map(Ending::as_str);
    /// Why a delivery waits.
    next_reason = NextReason::ALL.map(NextReason::as_str);
    /// Why a destination is held, if it is.
    hold_reason = HoldReason::ALL.map(HoldReason::as_str);
    /// Which end of a policy's range moved a wait.
    clamped = ["min", "max"];
}

/// One of these words.
#[must_use]
pub fn one_of(words: &[&str]) -> Schema {
    json_schema!({"type": "string", "enum": words})
}

fn one_of_or_null(words: &[&str]) -> Schema {
    let all: Vec<Value> = words.iter().map(|word| json!(word)).chain([Value::Null]).collect();
    json_schema!({"type": ["string", "null"], "enum": all})
}
