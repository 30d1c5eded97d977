//! Why a delivery has not been sent yet, in words an operator can act on.
//!
//! Pure: it looks at what was read and decides nothing. Where the scheduler holds something back,
//! it says so under the name that the API has for it.

use crate::delivery::{Attempt, Lease, State};
use crate::model::DestinationState;
use crate::outcome::{Ending, HoldReason, NextReason};
use crate::schedule::{BreakerState, GateView, Standing};
use crate::store::{Claims, DeliveryView, DestinationView};
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
    Rate,
    Breaker,
    Paused,
    Disabled,
    TenantShare,
    ClassReserve,
    ClaimsStopped,
    /// Drained, for another server to take over.
    Draining,
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
            BlockKind::Rate => "rate",
            BlockKind::Breaker => "breaker",
            BlockKind::Paused => "paused",
            BlockKind::Disabled => "disabled",
            BlockKind::TenantShare => "tenant_share",
            BlockKind::ClassReserve => "class_reserve",
            BlockKind::ClaimsStopped => "claims_stopped",
            BlockKind::Draining => "draining",
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

/// What is known of a delivery's surroundings.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// Its destination unless that was deleted.
    pub destination: Option<&'a DestinationView>,
    /// The live side of that.
    pub gate: Option<&'a GateView>,
    /// What of the server keeps its lane back.
    pub standing: Standing,
    /// Who stopped all claims, if they are.
    pub claims: Claims,
    /// What waits in front of it.
    pub ahead: usize,
}

/// Explains `view`.
#[must_use]
pub fn explain(view: &DeliveryView, around: &Surroundings<'_>, now: Timestamp) -> Explanation {
    match (view.delivery.state, view.lease) {
        (State::Terminal { outcome, at, step: _ }, _) => ended(view, outcome, at),
        (State::Waiting { .. }, Some(lease)) => in_flight(view, lease),
        (State::Waiting { due, reason, lane: _ }, None) => {
            let mut blocked_by = Vec::new();
            blocked_by.extend(not_due(view, due, reason, now));
            blocked_by.extend(stopped(around.destination));
            blocked_by.extend(held(view, around.gate, now));
            blocked_by.extend(around.gate.and_then(|gate| gated(around.destination, gate, now)));
            // Whose turn it is matters only to what could go out.
            blocked_by.extend(kept_back(around.standing, around.claims, blocked_by.is_empty()));
            waiting(view, blocked_by, around.ahead, now)
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

/// What of an open destination keeps the next request back, the longest of it: what is shut for
/// longer by a hold is not told again.
fn gated(destination: Option<&DestinationView>, gate: &GateView, now: Timestamp) -> Option<Blocked> {
    let held = gate.hold.map_or(now, |hold| hold.until);
    tripped(gate, held).or_else(|| paced(destination, gate, held)).or_else(|| at_limit(destination, gate))
}

fn tripped(gate: &GateView, held: Timestamp) -> Option<Blocked> {
    let kind = BlockKind::Breaker;
    match (gate.breaker, gate.breaker_until) {
        (BreakerState::Open { .. }, Some(until)) if until > held => {
            let failed = gate.failure_streak;
            let detail = format!(
                "the destination could not be reached ({failed} failures in a row); then one request is sent to \
                 see whether it can"
            );
            Some(Blocked { kind, until: Some(until), detail })
        }
        (BreakerState::HalfOpen, _) if gate.in_flight > 0 => {
            let detail = "the destination could not be reached, and one request is out to see whether it can";
            Some(Blocked { kind, until: None, detail: detail.to_owned() })
        }
        (BreakerState::Open { .. } | BreakerState::HalfOpen | BreakerState::Closed, _) => None,
    }
}

/// The slower of two rates is the one that it waits for.
fn paced(destination: Option<&DestinationView>, gate: &GateView, held: Timestamp) -> Option<Blocked> {
    let until = gate.paced_until.filter(|until| *until > held)?;
    let set = destination.and_then(|it| it.settings.rate).map(|rate| rate.as_per_second());
    let detail = match (set, gate.learnt_rate) {
        (Some(set), Some(learnt)) if learnt >= set => of_rate(set),
        (Some(set), None) => of_rate(set),
        (_, Some(learnt)) => {
            format!("the receiver refused more than about {learnt:.1} requests a second, and is sent no more")
        }
        (None, None) => "the destination is sent no more than its rate".to_owned(),
    };
    Some(Blocked { kind: BlockKind::Rate, until: Some(until), detail })
}

fn of_rate(per_second: f64) -> String {
    format!("the destination's rate is {per_second} a second")
}

fn at_limit(destination: Option<&DestinationView>, gate: &GateView) -> Option<Blocked> {
    if gate.in_flight < gate.limit {
        return None;
    }
    let max = destination.map_or(gate.limit, |it| it.settings.concurrency_max);
    let lower =
        if gate.limit < max { format!("; with good answers it grows to {max}") } else { String::new() };
    let detail =
        format!("{} of {} requests to this destination are in flight{lower}", gate.in_flight, gate.limit);
    Some(Blocked { kind: BlockKind::Concurrency, until: None, detail })
}

/// What of the server keeps it back, if nothing else does; stopped claims do so in any case.
fn kept_back(standing: Standing, claims: Claims, is_next: bool) -> Option<Blocked> {
    let (kind, detail) = match standing {
        Standing::Stopped if claims == Claims::Drained => (BlockKind::Draining, claims.detail().to_owned()),
        Standing::Stopped => (BlockKind::ClaimsStopped, claims.detail().to_owned()),
        _ if !is_next => return None,
        Standing::Free => return None,
        Standing::TenantShare { ahead } => (BlockKind::TenantShare, tenants_ahead(ahead)),
        Standing::Reserved => {
            let detail = "the send slots that are left are kept for first attempts, for classes of more weight, \
                          or for tenants with nothing slow in flight";
            (BlockKind::ClassReserve, detail.to_owned())
        }
        Standing::Slots => {
            (BlockKind::Slots, "every send slot that its kind of work may use is in use".to_owned())
        }
        Standing::Bodies => {
            (BlockKind::Slots, "the bodies in flight fill the memory that there is for them".to_owned())
        }
    };
    Some(Blocked { kind, until: None, detail })
}

fn tenants_ahead(ahead: usize) -> String {
    let others =
        if ahead == 1 { "one other tenant is".to_owned() } else { format!("{ahead} other tenants are") };
    format!("{others} served before its own, which has had its share of the send slots")
}

fn waiting(view: &DeliveryView, blocked_by: Vec<Blocked>, ahead: usize, now: Timestamp) -> Explanation {
    let earliest = earliest(&blocked_by, now);
    let expires = view.delivery.expires_at;
    let last = blocked_by.iter().max_by_key(|one| (is_open_ended(one), one.until));
    let (verdict, summary) = match (last, earliest) {
        (None, _) => (Verdict::Starting, starting(ahead)),
        (Some(one), Some(at)) if at >= expires => {
            let why = format!("it may not be sent before {at} because {}", one.detail);
            (Verdict::ExpiresFirst, format!("It will expire at {expires} undelivered: {why}."))
        }
        (Some(one), at) => (Verdict::Waiting, waits(one, at, expires)),
    };
    Explanation { verdict, summary, blocked_by, earliest, ahead }
}

/// What waits for someone to act; a slot or a limit frees itself.
fn is_open_ended(blocked: &Blocked) -> bool {
    match blocked.kind {
        BlockKind::Paused | BlockKind::Disabled | BlockKind::ClaimsStopped | BlockKind::Draining => true,
        BlockKind::NotDue
        | BlockKind::DestinationHold
        | BlockKind::Concurrency
        | BlockKind::Rate
        | BlockKind::Breaker
        | BlockKind::TenantShare
        | BlockKind::ClassReserve
        | BlockKind::Slots => false,
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
        BlockKind::ClaimsStopped => "once someone starts claims again",
        BlockKind::Draining => "once another server has taken over",
        BlockKind::NotDue
        | BlockKind::DestinationHold
        | BlockKind::Concurrency
        | BlockKind::Rate
        | BlockKind::Breaker
        | BlockKind::TenantShare
        | BlockKind::ClassReserve
        | BlockKind::Slots => "by itself",
    }
}

#[cfg(test)]
#[path = "explain/samples.rs"]
pub(crate) mod samples;
#[cfg(test)]
#[path = "explain/tests.rs"]
mod tests;
