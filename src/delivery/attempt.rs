//! The record of one attempt: what was seen, and what was decided. Never a URL or a body.

use super::{Delivery, LOG_IN_RECORD};
use crate::model::Excerpt;
use crate::outcome::{Asked, AttemptResult, Clamped, Outcome, RetryAfter};
use crate::time::{Millis, Timestamp};

/// One attempt, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub n: u32,
    pub started_at: Timestamp,
    /// None: interrupted.
    pub ended_at: Option<Timestamp>,
    pub result: AttemptResult,
    pub status: Option<u16>,
    /// Never a URL, a header value or a body.
    pub error: Option<String>,
    pub host: Option<String>,
    pub address: Option<String>,
    /// Reported after its lease had ended.
    pub late: bool,
    pub retry_after: Option<AskedWait>,
    pub next_attempt_at: Option<Timestamp>,
    pub response_excerpt: Option<Excerpt>,
}

/// The `Retry-After` of an answer, in an attempt's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedWait {
    pub raw: Option<String>,
    /// `seconds`, `date` or `invalid`; an absent header has no record.
    pub kind: AskedKind,
    pub asked: Option<Millis>,
    pub applied: Option<Millis>,
    pub clamped: Option<Clamped>,
}

impl AskedWait {
    /// What an answer asked for and what was made of it; None when it asked for nothing.
    #[must_use]
    pub fn of(outcome: &Outcome, asked: &Asked) -> Option<AskedWait> {
        let kind = match asked.retry_after {
            RetryAfter::Absent => return None,
            RetryAfter::Invalid => AskedKind::Invalid,
            RetryAfter::Seconds(_) => AskedKind::Seconds,
            RetryAfter::Date(_) => AskedKind::Date,
        };
        let raw = match outcome {
            Outcome::Answered { headers, .. } => headers.raw(),
            Outcome::NotSent(_) | Outcome::MaybeSent(_) | Outcome::Damaged => None,
        };
        let (applied, clamped) = (asked.applied, asked.clamped);
        Some(AskedWait { raw, kind, asked: asked.retry_after.wait(), applied, clamped })
    }
}

/// See [`AskedWait::kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskedKind {
    Seconds,
    Date,
    Invalid,
}

impl Delivery {
    /// Notes what was reported of an attempt after its lease had ended, in the place of the record that
    /// the end of the lease left: each attempt has one. Gives back what is in the record no more.
    pub fn remember_late(&mut self, mut late: Attempt) -> Option<Attempt> {
        if self.is_erased() {
            late.response_excerpt = None;
        }
        let Some(known) = self.log.iter_mut().find(|known| known.n == late.n) else {
            let older = self.log.first().is_some_and(|first| late.n < first.n);
            return if older { Some(late) } else { self.remember(late) };
        };
        // What its task has reported itself stands.
        if known.ended_at.is_none() {
            late.next_attempt_at = known.next_attempt_at;
            *known = late;
        }
        None
    }

    /// Adds to the log; gives back the oldest when it no longer fits. An answer to what was erased
    /// leaves no excerpt.
    pub fn remember(&mut self, mut attempt: Attempt) -> Option<Attempt> {
        if self.is_erased() {
            attempt.response_excerpt = None;
        }
        self.log.push(attempt);
        (self.log.len() > LOG_IN_RECORD).then(|| self.log.remove(0))
    }
}
