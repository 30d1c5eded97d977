//! The record of one attempt: what was seen, and what was decided. Never a URL or a body.

use crate::outcome::{AttemptResult, Clamped};
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
    pub response_excerpt: Option<Vec<u8>>,
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

/// See [`AskedWait::kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskedKind {
    Seconds,
    Date,
    Invalid,
}
