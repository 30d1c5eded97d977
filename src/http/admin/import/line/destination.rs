//! The line of a destination: its settings as they may be set here, and what was learnt of it.

use super::{Checks, MAX_COUNT, at, count, needed, short, word};
use crate::engine::import::DestinationLine;
use crate::http::admin::input;
use crate::http::error::Problem;
use crate::http::fields::Fields;
use crate::model::destination::{MAX_REASON, RATE_MAX, StateNote, TIMEOUT_RANGE};
use crate::model::{DestinationState, LiveSecret};
use crate::outcome::{GateMemory, Hold, HoldReason};
use crate::time::{Millis, Timestamp};

const STATES: [DestinationState; 3] =
    [DestinationState::Active, DestinationState::Paused, DestinationState::Disabled];
/// Bytes of who put it into its state.
const MAX_BY: usize = 64;
/// Millionths of a request a second: the most that a learnt rate is taken for.
const RATE_MOST: u64 = RATE_MAX as u64 * 1_000_000;

pub(super) fn read(mut fields: Fields<'_>, checks: &Checks<'_>) -> Result<DestinationLine, Problem> {
    let name = needed(&mut fields, "id");
    let settings = input::take(&mut fields, None, &checks.settings);
    let ends = ends(&mut fields);
    let state = word(&mut fields, "state", &STATES, DestinationState::as_str);
    if state.is_none() && !fields.is_at_fault("state") {
        fields.missing("state");
    }
    let note = StateNote {
        state: state.unwrap_or(DestinationState::Paused),
        reason: short(&fields.text("state_reason").unwrap_or_default(), MAX_REASON),
        since: at(&mut fields, "state_since"),
        by: short(&fields.text("state_by").unwrap_or_default(), MAX_BY),
    };
    let created_at = at(&mut fields, "created_at");
    let revision = count(&mut fields, "revision");
    let hold = hold(&mut fields);
    let memory = learnt(&mut fields, hold);
    fields.finish(&[])?;
    let (Some(name), Some(mut settings)) = (name, settings.map(|wanted| wanted.settings)) else {
        return Err(Problem::invalid(Vec::new()));
    };
    for (live, until) in settings.secrets.iter_mut().zip(ends) {
        *live = LiveSecret { until, ..live.clone() };
    }
    Ok(DestinationLine { name, settings, note, created_at, revision, memory })
}

/// When each secret ends, in their order; null is never.
fn ends(fields: &mut Fields<'_>) -> Vec<Option<Timestamp>> {
    let Some(value) = fields.given("secrets_until") else { return Vec::new() };
    let texts: Option<Vec<Option<String>>> = serde_json::from_str(value.get()).ok();
    let read =
        |text: Option<String>| text.map(|text| text.parse().ok()).map_or(Some(None), |at| at.map(Some));
    let times = texts.and_then(|texts| texts.into_iter().map(read).collect());
    times.unwrap_or_else(|| {
        fields.fault("secrets_until", "must be a list of times and nulls");
        Vec::new()
    })
}

fn hold(fields: &mut Fields<'_>) -> Option<Hold> {
    let value = fields.given("hold")?;
    let Ok(mut inner) = Fields::read(value.get().as_bytes()) else {
        return fields.refuse("hold", "must be an object or null");
    };
    let until = inner.parsed("until");
    let reason = word(&mut inner, "reason", &HoldReason::ALL, HoldReason::as_str);
    match (inner.finish(&[]), until, reason) {
        (Ok(()), Some(until), Some(reason)) => Some(Hold { until, reason }),
        _ => fields.refuse("hold", "has until and reason"),
    }
}

/// What is not told is not known.
fn learnt(fields: &mut Fields<'_>, hold: Option<Hold>) -> GateMemory {
    let nothing = GateMemory { hold, ..GateMemory::default() };
    let Some(value) = fields.given("learnt") else { return nothing };
    let Ok(mut inner) = Fields::read(value.get().as_bytes()) else {
        fields.fault("learnt", "must be an object");
        return nothing;
    };
    let small = 0..=u64::from(MAX_COUNT);
    let small = |inner: &mut Fields<'_>, name| {
        inner.integer(name, small.clone()).and_then(|number| u32::try_from(number).ok()).unwrap_or_default()
    };
    let most = |inner: &mut Fields<'_>, name, most: u64| {
        inner.integer(name, 0..=u64::MAX).map(|number| number.min(most))
    };
    let (rate, floor) = (most(&mut inner, "rate", RATE_MOST), most(&mut inner, "rate_floor", RATE_MOST));
    let memory = GateMemory {
        hold,
        refusals: small(&mut inner, "refusals"),
        last_success_at: inner.parsed("last_success_at"),
        failing_since: inner.parsed("failing_since"),
        failure_streak: small(&mut inner, "failure_streak"),
        latency: most(&mut inner, "latency_ms", *TIMEOUT_RANGE.end()).map(Millis),
        limit: small(&mut inner, "limit"),
        learnt: rate.zip(floor),
        breaker_opened: small(&mut inner, "breaker_opened"),
        breaker_until: inner.parsed("breaker_until"),
        paced_until: inner.parsed("paced_until"),
    };
    if inner.finish(&[]).is_err() {
        fields.fault("learnt", "has a field that is unknown or wrong");
    }
    memory
}
