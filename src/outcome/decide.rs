//! From an outcome to a decision, as a pure function. Nothing here reads a clock, and what it
//! decides is carried out elsewhere.

use super::{Ending, HoldReason, MaybeSent, NextReason, NotSent, Outcome, RetryAfter};
use crate::policy::{self, Policy};
use crate::time::{Millis, Timestamp};

/// Which counter an attempt that is to be repeated raises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    Failure,
    Throttle,
    /// Our own doing, not the receiver's.
    Nothing,
    /// As `Nothing`, and one more interruption in a row.
    Interruption,
}

/// What happens to the delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    End(Ending),
    Again { due: Timestamp, reason: NextReason, counted: Counted },
}

/// A destination is to be left alone until `until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    pub until: Timestamp,
    pub reason: HoldReason,
}

/// Which end of the policy's range moved the wait that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clamped {
    Min,
    Max,
}

/// A `Retry-After` as it was asked for and as it was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    pub retry_after: RetryAfter,
    pub applied: Option<Millis>,
    pub clamped: Option<Clamped>,
}

/// Everything that follows from one attempt's outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    pub verdict: Verdict,
    /// For the whole destination, where the answer was about it.
    pub hold: Option<Hold>,
    /// 410: the destination is to be disabled.
    pub gone: bool,
    pub asked: Asked,
}

/// What of a delivery and its destination a decision depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    pub id: u128,
    /// The number of the attempt that ended.
    pub attempt: u32,
    /// Failures counted before it.
    pub failures: u32,
    /// Interruptions in a row before it.
    pub interrupted: u32,
    /// Attempts in a row before it that sent nothing and were not the receiver's doing.
    pub unsent: u32,
    /// 0: no limit.
    pub max_failures: u32,
    pub expires_at: Timestamp,
    pub cancelling: bool,
    /// Its body was erased meanwhile: it cannot go out again.
    pub erased: bool,
    /// Times in a row that the destination has refused, this one included if it did.
    pub refusals: u32,
}

/// Attempts in a row that were in flight when the process died, before a delivery is held to
/// be the cause (API.md, `quarantined`).
pub const MAX_INTERRUPTED: u32 = 5;

/// What to do after an attempt ended as `outcome` at `now`.
///
/// A 2xx is a delivery whatever else is true. Otherwise an end that was already decided wins
/// over a repeat: a cancel, an erased body, then the destination's verdict, then `expires_at`.
#[must_use]
pub fn decide(policy: &Policy, seen: &Standing, now: Timestamp, outcome: &Outcome) -> Decision {
    let asked = match outcome {
        Outcome::Answered { headers, .. } => headers.read(now),
        Outcome::NotSent(_) | Outcome::MaybeSent(_) | Outcome::Damaged => RetryAfter::Absent,
    };
    let first = verdict(policy, seen, now, outcome, asked);
    let verdict = ended(seen).map_or_else(|| bounded(first, seen, now), |ending| overruled(first, ending));
    let hold = hold(policy, seen, now, outcome, asked);
    let gone = matches!(first, Verdict::End(Ending::DestinationGone));
    Decision { verdict, hold, gone, asked: describe(policy, seen, asked, first) }
}

fn verdict(
    policy: &Policy,
    seen: &Standing,
    now: Timestamp,
    outcome: &Outcome,
    asked: RetryAfter,
) -> Verdict {
    match outcome {
        Outcome::Damaged => Verdict::End(Ending::Quarantined),
        Outcome::Answered { status: 200..=299, .. } => Verdict::End(Ending::Delivered),
        Outcome::Answered { status: 429, .. } => {
            let due = now.plus(refused_wait(policy, seen, asked));
            Verdict::Again { due, reason: NextReason::RateLimited, counted: Counted::Throttle }
        }
        Outcome::Answered { status, .. } if policy.retry_statuses.contains(status) => {
            failed(policy, seen, now, asked)
        }
        Outcome::Answered { status: 410, .. } => Verdict::End(Ending::DestinationGone),
        Outcome::Answered { status: 400..=499, .. } => Verdict::End(Ending::Rejected),
        Outcome::Answered { .. } => failed(policy, seen, now, asked),
        Outcome::MaybeSent(MaybeSent::Interrupted) => interrupted(policy, seen, now),
        Outcome::MaybeSent(MaybeSent::Timeout | MaybeSent::Ambiguous | MaybeSent::InvalidResponse) => {
            failed(policy, seen, now, asked)
        }
        Outcome::NotSent(NotSent::Payload) => unread(policy, seen, now),
        Outcome::NotSent(NotSent::PayloadGone) => Verdict::End(Ending::PayloadGone),
        Outcome::NotSent(NotSent::NotProcessed) => not_processed(policy, seen, now),
        Outcome::NotSent(NotSent::Connect | NotSent::Tls | NotSent::Dns | NotSent::Blocked) => {
            failed(policy, seen, now, asked)
        }
    }
}

fn failed(policy: &Policy, seen: &Standing, now: Timestamp, asked: RetryAfter) -> Verdict {
    let failures = seen.failures.saturating_add(1);
    if seen.max_failures != 0 && failures >= seen.max_failures {
        return Verdict::End(Ending::Exhausted);
    }
    let backoff = policy.backoff(failures, policy::seed(seen.id, seen.attempt));
    let floor = asked.wait().map_or(Millis(0), |wait| named_wait(policy, seen, wait));
    let due = now.plus(backoff.max(floor));
    Verdict::Again { due, reason: NextReason::Backoff, counted: Counted::Failure }
}

/// The payload could not be read: backoff by how often in a row, nothing counted.
fn unread(policy: &Policy, seen: &Standing, now: Timestamp) -> Verdict {
    let wait = unsent_wait(policy, seen, seen.unsent.saturating_add(1));
    Verdict::Again { due: now.plus(wait), reason: NextReason::Payload, counted: Counted::Nothing }
}

/// The receiver did not take the request up. The first time it goes out again at once (C046); one that
/// goes on refusing is not asked by everything that waits in the same second, again and again.
fn not_processed(policy: &Policy, seen: &Standing, now: Timestamp) -> Verdict {
    let wait = match seen.unsent {
        0 => policy.min_delay,
        times => unsent_wait(policy, seen, times),
    };
    Verdict::Again { due: now.plus(wait), reason: NextReason::Backoff, counted: Counted::Nothing }
}

fn unsent_wait(policy: &Policy, seen: &Standing, step: u32) -> Millis {
    policy.backoff(step, policy::seed(seen.id, seen.attempt))
}

fn interrupted(policy: &Policy, seen: &Standing, now: Timestamp) -> Verdict {
    let times = seen.interrupted.saturating_add(1);
    if times >= MAX_INTERRUPTED {
        return Verdict::End(Ending::Quarantined);
    }
    let wait = policy.backoff(times, policy::seed(seen.id, seen.attempt));
    Verdict::Again { due: now.plus(wait), reason: NextReason::LeaseExpired, counted: Counted::Interruption }
}

/// What becomes of an attempt that an earlier process did not survive: due again at its old
/// time, unless it was the fifth in a row, or a cancel was waiting for it.
#[must_use]
pub fn decide_after_restart(seen: &Standing, due: Timestamp) -> Verdict {
    if let Some(ending) = ended(seen) {
        return Verdict::End(ending);
    }
    if seen.interrupted.saturating_add(1) >= MAX_INTERRUPTED {
        return Verdict::End(Ending::Quarantined);
    }
    Verdict::Again { due, reason: NextReason::SenderRestart, counted: Counted::Interruption }
}

/// What becomes of an attempt that a stop cut off: as after a death, but it proves nothing
/// against the delivery, so it is not counted.
#[must_use]
pub fn decide_after_stop(seen: &Standing, due: Timestamp) -> Verdict {
    let again = Verdict::Again { due, reason: NextReason::SenderRestart, counted: Counted::Nothing };
    ended(seen).map_or(again, Verdict::End)
}

/// The wait after a 429: what was named, or a step by the destination's refusals in a row.
/// A time that has passed, or zero, is no reason to come back sooner than that step (C017, C018).
fn refused_wait(policy: &Policy, seen: &Standing, asked: RetryAfter) -> Millis {
    match asked.wait() {
        Some(wait) if wait.0 > 0 => named_wait(policy, seen, wait),
        Some(_) | None => unnamed_wait(policy, seen),
    }
}

fn named_wait(policy: &Policy, seen: &Standing, wait: Millis) -> Millis {
    let wait = policy.clamp(wait);
    Millis(wait.0 + policy::added_jitter(wait, policy::seed(seen.id, seen.attempt)).0)
}

fn unnamed_wait(policy: &Policy, seen: &Standing) -> Millis {
    let wait = policy.backoff(seen.refusals.max(1), policy::seed(seen.id, seen.attempt));
    wait.min(policy::UNNAMED_WAIT_LIMIT)
}

/// A 429 holds the destination for as long as its delivery waits; so does a 503 that names a time.
fn hold(
    policy: &Policy,
    seen: &Standing,
    now: Timestamp,
    outcome: &Outcome,
    asked: RetryAfter,
) -> Option<Hold> {
    let (wait, reason) = match (outcome.status(), asked.wait()) {
        (Some(429), _) => (refused_wait(policy, seen, asked), HoldReason::RateLimited),
        (Some(503), Some(wait)) => (named_wait(policy, seen, wait), HoldReason::Unavailable),
        (Some(_) | None, _) => return None,
    };
    Some(Hold { until: now.plus(wait), reason })
}

/// A cancel that came while the attempt was out: only a delivery wins over it.
/// What an operator's word during the attempt makes of everything but a success.
fn ended(seen: &Standing) -> Option<Ending> {
    match (seen.cancelling, seen.erased) {
        (true, _) => Some(Ending::Cancelled),
        (false, true) => Some(Ending::PayloadGone),
        (false, false) => None,
    }
}

fn overruled(verdict: Verdict, ending: Ending) -> Verdict {
    match verdict {
        Verdict::End(Ending::Delivered | Ending::Quarantined) => verdict,
        Verdict::End(_) | Verdict::Again { .. } => Verdict::End(ending),
    }
}

/// `expires_at` ends what would wait on; an end that the attempt itself brought stays.
fn bounded(verdict: Verdict, seen: &Standing, now: Timestamp) -> Verdict {
    match verdict {
        Verdict::Again { .. } if now >= seen.expires_at => Verdict::End(Ending::Expired),
        Verdict::Again { .. } | Verdict::End(_) => verdict,
    }
}

fn describe(policy: &Policy, seen: &Standing, retry_after: RetryAfter, verdict: Verdict) -> Asked {
    let used = matches!(verdict, Verdict::Again { .. });
    let Some(wait) = retry_after.wait().filter(|wait| used && wait.0 > 0) else {
        return Asked { retry_after, applied: None, clamped: None };
    };
    let clamped = match policy.clamp(wait).cmp(&wait) {
        std::cmp::Ordering::Less => Some(Clamped::Max),
        std::cmp::Ordering::Greater => Some(Clamped::Min),
        std::cmp::Ordering::Equal => None,
    };
    Asked { retry_after, applied: Some(named_wait(policy, seen, wait)), clamped }
}
