//! What was seen of an attempt, and what to do about it.
//!
//! [`decide()`] is the one place where an answer becomes a decision. It is pure: the same
//! standing, policy, time and outcome always give the same [`Decision`].

mod decide;
mod memory;
pub mod retry_after;
mod words;

pub use decide::{
    Asked, Clamped, Counted, Decision, Hold, MAX_INTERRUPTED, Standing, Verdict, decide,
    decide_after_restart, decide_after_stop,
};
pub use memory::GateMemory;
pub use retry_after::{RetryAfter, RetryHeaders};
pub use words::{AttemptResult, Ending, HoldReason, NextReason};

/// What the sender saw. Three at bottom: not sent, maybe sent, answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Not a byte of the request left.
    NotSent(NotSent),
    /// The receiver may have acted on it.
    MaybeSent(MaybeSent),
    /// A whole response head came back.
    Answered { status: u16, headers: RetryHeaders },
    /// What was read from disk failed its checksum or does not match its index row: nothing
    /// was sent and nothing ever will be.
    Damaged,
}

/// Why nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSent {
    Connect,
    Tls,
    Dns,
    /// Refused by the egress rules.
    Blocked,
    /// HTTP/2 said that the stream was not processed (RFC 9113 section 8.7).
    NotProcessed,
    /// A payload reference could not be read.
    Payload,
    /// It leads to nothing, or to other bytes than it did.
    PayloadGone,
}

/// Why it is not known whether it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaybeSent {
    Timeout,
    /// The connection was lost after the first byte of the request.
    Ambiguous,
    InvalidResponse,
    /// The process or the task died, or the lease ended without a report.
    Interrupted,
}

impl Outcome {
    /// True for a 2xx, whatever came after its head.
    #[must_use]
    pub fn is_success(&self) -> bool {
        matches!(self, Outcome::Answered { status: 200..=299, .. })
    }

    /// The status of the answer, if there was one.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self {
            Outcome::Answered { status, .. } => Some(*status),
            Outcome::NotSent(_) | Outcome::MaybeSent(_) | Outcome::Damaged => None,
        }
    }

    /// The outcome in one word. A damaged record is an attempt that could not read its payload.
    #[must_use]
    pub fn result(&self) -> AttemptResult {
        match self {
            Outcome::NotSent(NotSent::Connect) => AttemptResult::Connect,
            Outcome::NotSent(NotSent::Tls) => AttemptResult::Tls,
            Outcome::NotSent(NotSent::Dns) => AttemptResult::Dns,
            Outcome::NotSent(NotSent::Blocked) => AttemptResult::Blocked,
            Outcome::NotSent(NotSent::NotProcessed) => AttemptResult::NotProcessed,
            Outcome::NotSent(NotSent::Payload | NotSent::PayloadGone) | Outcome::Damaged => {
                AttemptResult::Payload
            }
            Outcome::MaybeSent(MaybeSent::Timeout) => AttemptResult::Timeout,
            Outcome::MaybeSent(MaybeSent::Ambiguous) => AttemptResult::Ambiguous,
            Outcome::MaybeSent(MaybeSent::InvalidResponse) => AttemptResult::InvalidResponse,
            Outcome::MaybeSent(MaybeSent::Interrupted) => AttemptResult::Interrupted,
            Outcome::Answered { status, .. } => match status {
                200..=299 => AttemptResult::Success,
                300..=399 => AttemptResult::Redirect,
                429 => AttemptResult::RateLimited,
                400..=499 => AttemptResult::ClientError,
                500..=599 => AttemptResult::ServerError,
                0..=199 | 600.. => AttemptResult::InvalidResponse,
            },
        }
    }
}

#[cfg(test)]
#[path = "outcome/tests.rs"]
mod tests;
