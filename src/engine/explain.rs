//! Why a delivery has not been sent yet, in words an operator can act on.
//!
//! Pure: it looks at what was read and decides nothing. Where the scheduler holds something back,
//! it says so under the name that the API has for it.

use crate::delivery::{Attempt, Lease, State};
use crate::model::DestinationState;
use crate::outcome::{Ending, HoldReason, NextReason};
use crate::schedule::GateView;
use crate::store::{DeliveryView, DestinationView};
use crate::time::Timestamp;

/// Where the delivery stands, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Terminal,
    InFlight,
    /// Nothing holds it back.
    Starting,
    Waiting,
    /// It will end before it may be sent.
    ExpiresFirst,
}

impl Verdict {
    /// The word for it in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Terminal => "terminal",
            Verdict::InFlight => "in_flight",
            Verdict::Starting => "starting",
            Verdict::Waiting => "waiting",
            Verdict::ExpiresFirst => "expires_first",
        }
    }
}

/// What can hold a delivery back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    NotDue,
    DestinationHold,
    Concurrency,
    Paused,
    Disabled,
    Slots,
}

impl BlockKind {
    /// The word for it in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            BlockKind::NotDue => "not_due",
            BlockKind::DestinationHold => "destination_hold",
            BlockKind::Concurrency => "concurrency",
            BlockKind::Paused => "paused",
            BlockKind::Disabled => "disabled",
            BlockKind::Slots => "slots",
        }
    }
}

/// One thing that holds a delivery back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    pub kind: BlockKind,
    /// None: until someone or something else acts.
    pub until: Option<Timestamp>,
    pub detail: String,
}

/// The whole explanation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    pub verdict: Verdict,
    /// One sentence.
    pub summary: String,
    pub blocked_by: Vec<Blocked>,
    /// When it may be sent at the earliest; None where no time can be said.
    pub earliest: Option<Timestamp>,
    /// Waiting deliveries in front of it in its lane.
    pub ahead: usize,
}

/// Explains `view`. `destination` is its destination unless that was deleted, `gate` its live side,
/// `slots_free` whether the server can start another request, `ahead` what waits in front of it.
#[must_use]
pub fn explain(
    view: &DeliveryView,
    destination: Option<&DestinationView>,
    gate: Option<&GateView>,
    slots_free: bool,
    ahead: usize,
    now: Timestamp,
) -> Explanation {
    match (view.delivery.state, view.lease) {
        (State::Terminal { outcome, at, step: _ }, _) => ended(view, outcome, at),
        (State::Waiting { .. }, Some(lease)) => in_flight(view, lease),
        (State::Waiting { due, reason, lane: _ }, None) => {
            let mut blocked_by = Vec::new();
            blocked_by.extend(not_due(view, due, reason, now));
            blocked_by.extend(stopped(destination));
            blocked_by.extend(held(view, gate, now));
            blocked_by.extend(at_limit(gate));
            blocked_by.extend(no_slot(slots_free));
            waiting(view, blocked_by, ahead, now)
        }
    }
}

fn ended(view: &DeliveryView, outcome: Ending, at: Timestamp) -> Explanation {
    let last = view.delivery.log.last().map_or("no attempt was made".to_owned(), seen);
    let summary = match outcome {
        Ending::Delivered => format!("It was delivered at {at} ({last})."),
        Ending::Rejected => format!("It ended at {at}: the receiver refused it for good ({last})."),
        Ending::Exhausted => {
            format!("It ended at {at}: it had failed as often as max_failures allows ({last}).")
        }
        Ending::Expired => format!("It expired at {at} before it could be delivered ({last})."),
        Ending::Cancelled => format!("It was cancelled at {at} ({last})."),
        Ending::PayloadGone => format!("It ended at {at}: its body was gone ({last})."),
        Ending::DestinationGone => {
            format!("It ended at {at}: the receiver said that the address is gone ({last}).")
        }
        Ending::Quarantined => {
            format!("It was quarantined at {at} and is not sent until an operator retries it ({last}).")
        }
    };
    Explanation { verdict: Verdict::Terminal, summary, blocked_by: Vec::new(), earliest: None, ahead: 0 }
}

/// An attempt in a few words: `attempt 2: server_error 503`.
fn seen(attempt: &Attempt) -> String {
    let status = attempt.status.map(|status| format!(" {status}")).unwrap_or_default();
    format!("attempt {}: {}{status}", attempt.n, attempt.result.as_str())
}

fn in_flight(view: &DeliveryView, lease: Lease) -> Explanation {
    let (attempt, since, until) = (lease.attempt, lease.claimed_at, lease.until);
    let then =
        if view.delivery.cancelling { "; it is cancelled unless this attempt delivers it" } else { "" };
    let summary = format!(
        "Attempt {attempt} has been in flight since {since} and ends by {until} at the latest{then}."
    );
    Explanation { verdict: Verdict::InFlight, summary, blocked_by: Vec::new(), earliest: None, ahead: 0 }
}

fn not_due(view: &DeliveryView, due: Timestamp, reason: NextReason, now: Timestamp) -> Option<Blocked> {
    let last = view.delivery.log.last();
    let detail = match reason {
        NextReason::New => "it is new".to_owned(),
        NextReason::Scheduled => "the producer asked for this time (not_before)".to_owned(),
        NextReason::RateLimited => rate_limited(last),
        NextReason::Backoff => {
            let last = last.map(|last| format!(" ({})", seen(last))).unwrap_or_default();
            format!("the last attempt failed{last} and the policy's backoff runs")
        }
        NextReason::Payload => "its payload reference could not be read".to_owned(),
        NextReason::LeaseExpired => "its last attempt ended without a report".to_owned(),
        NextReason::SenderRestart => "its last attempt was in flight when the server stopped".to_owned(),
        NextReason::Operator => "an operator set this time".to_owned(),
    };
    (due > now).then_some(Blocked { kind: BlockKind::NotDue, until: Some(due), detail })
}

/// What the receiver asked for is told as it stood in the answer.
fn rate_limited(last: Option<&Attempt>) -> String {
    let asked = last.and_then(|last| last.retry_after.as_ref());
    match asked.map(|asked| (asked.asked, asked.raw.as_deref())) {
        Some((Some(_), Some(raw))) => format!("the receiver answered 429 with Retry-After: {raw}"),
        Some((None, Some(_))) => {
            "the receiver answered 429 with a Retry-After that names no time, so the backoff runs".to_owned()
        }
        Some((_, None)) | None => "the receiver answered 429".to_owned(),
    }
}

fn stopped(destination: Option<&DestinationView>) -> Option<Blocked> {
    let Some(destination) = destination else {
        let detail = "the destination was deleted".to_owned();
        return Some(Blocked { kind: BlockKind::Disabled, until: None, detail });
    };
    let (kind, verb) = match destination.note.state {
        DestinationState::Active => return None,
        DestinationState::Paused => (BlockKind::Paused, "paused"),
        DestinationState::Disabled => (BlockKind::Disabled, "disabled"),
        DestinationState::Deleted => (BlockKind::Disabled, "deleted"),
    };
    let note = &destination.note;
    let by = if note.by.is_empty() { String::new() } else { format!(" by {}", note.by) };
    let why = if note.reason.is_empty() { String::new() } else { format!(": {}", note.reason) };
    let detail = format!("the destination was {verb}{by} at {}{why}", note.since);
    Some(Blocked { kind, until: None, detail })
}

/// The gate knows the reason; without one, the stored hold still counts.
fn held(view: &DeliveryView, gate: Option<&GateView>, now: Timestamp) -> Option<Blocked> {
    let (until, detail) = match gate {
        Some(gate) => gate.hold.map(|hold| (hold.until, held_for(hold.reason)))?,
        None => (view.held_until?, "the destination lets nothing through"),
    };
    let kind = BlockKind::DestinationHold;
    (until > now).then(|| Blocked { kind, until: Some(until), detail: detail.to_owned() })
}

fn held_for(reason: HoldReason) -> &'static str {
    match reason {
        HoldReason::RateLimited => "the receiver answered 429, and everything for this destination waits",
        HoldReason::Unavailable => {
            "the receiver answered 503 and named a time, and everything for this destination waits"
        }
        HoldReason::Operator => "an operator holds this destination (release ends that)",
    }
}

fn at_limit(gate: Option<&GateView>) -> Option<Blocked> {
    let gate = gate.filter(|gate| gate.in_flight >= gate.limit)?;
    let detail = format!("{} of {} requests to this destination are in flight", gate.in_flight, gate.limit);
    Some(Blocked { kind: BlockKind::Concurrency, until: None, detail })
}

fn no_slot(slots_free: bool) -> Option<Blocked> {
    let detail = || "every send slot of the server is in use".to_owned();
    (!slots_free).then(|| Blocked { kind: BlockKind::Slots, until: None, detail: detail() })
}

fn waiting(view: &DeliveryView, blocked_by: Vec<Blocked>, ahead: usize, now: Timestamp) -> Explanation {
    let earliest = earliest(&blocked_by, now);
    let expires = view.delivery.expires_at;
    let last = blocked_by.iter().max_by_key(|one| (is_open_ended(one), one.until));
    let (verdict, summary) = match (last, earliest) {
        (None, _) => (Verdict::Starting, starting(ahead)),
        (Some(one), Some(at)) if at >= expires => {
            let why = format!("it may not be sent before {at} because {}", one.detail);
            (Verdict::ExpiresFirst, format!("It will expire at {expires} unsent: {why}."))
        }
        (Some(one), at) => (Verdict::Waiting, waits(one, at, expires)),
    };
    Explanation { verdict, summary, blocked_by, earliest, ahead }
}

/// Only a paused or disabled destination waits for someone; a slot or a limit frees itself.
fn is_open_ended(blocked: &Blocked) -> bool {
    match blocked.kind {
        BlockKind::Paused | BlockKind::Disabled => true,
        BlockKind::NotDue | BlockKind::DestinationHold | BlockKind::Concurrency | BlockKind::Slots => false,
    }
}

fn earliest(blocked_by: &[Blocked], now: Timestamp) -> Option<Timestamp> {
    if blocked_by.iter().any(is_open_ended) {
        return None;
    }
    Some(blocked_by.iter().filter_map(|one| one.until).fold(now, Timestamp::max))
}

fn starting(ahead: usize) -> String {
    match ahead {
        0 => "It is due, nothing holds it back, and it starts now.".to_owned(),
        1 => "It is due and nothing holds it back but the one delivery ahead of it.".to_owned(),
        _ => format!("It is due and nothing holds it back but the {ahead} deliveries ahead of it."),
    }
}

fn waits(blocked: &Blocked, earliest: Option<Timestamp>, expires: Timestamp) -> String {
    let detail = &blocked.detail;
    match (blocked.until, earliest) {
        (Some(until), _) => format!("It waits until {until} because {detail}."),
        (None, Some(_)) => format!("It is due and waits because {detail}."),
        (None, None) => {
            format!("It waits because {detail}. It goes on {}, and expires at {expires}.", next_step(blocked))
        }
    }
}

/// What ends a wait that has no time of its own.
fn next_step(blocked: &Blocked) -> &'static str {
    match blocked.kind {
        BlockKind::Paused => "once someone resumes the destination",
        BlockKind::Disabled => "once someone enables or makes the destination again",
        BlockKind::NotDue | BlockKind::DestinationHold | BlockKind::Concurrency | BlockKind::Slots => {
            "by itself"
        }
    }
}

#[cfg(test)]
#[path = "explain/samples.rs"]
pub(crate) mod samples;
#[cfg(test)]
#[path = "explain/tests.rs"]
mod tests;
