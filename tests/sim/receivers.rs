//! Receivers: each has a mood that changes by the seed, and answers by it.

use duehook::outcome::{MaybeSent, NotSent, Outcome, RetryHeaders};

use crate::sim::rng::Rng;

/// How a receiver behaves for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    Well,
    /// 429 with so many seconds.
    Limits(u64),
    /// 429 without a time.
    LimitsVaguely,
    /// 503 with so many seconds.
    Unavailable(u64),
    Fails,
    Drops,
    TimesOut,
    /// The report comes only after the lease is over.
    Vanishes,
    Rejects,
    Gone,
    /// A 204 after so many milliseconds.
    Slow(u64),
    /// No connection.
    Unreachable,
    /// So many a second, and 429 with two seconds beyond: the bucket is the world's.
    Bucket(u64),
}

/// What a receiver does with one request.
pub(crate) struct Reply {
    pub(crate) outcome: Outcome,
    /// Milliseconds from the request to its report.
    pub(crate) after: u64,
}

impl Mood {
    /// Another mood, more often a good one.
    pub(crate) fn any(rng: &mut Rng) -> Mood {
        match rng.below(20) {
            0..=5 => Mood::Well,
            6 | 7 => Mood::Limits(rng.below(60)),
            8 => Mood::LimitsVaguely,
            9 => Mood::Unavailable(1 + rng.below(40)),
            10 => Mood::Fails,
            11 => Mood::Drops,
            12 => Mood::TimesOut,
            13 => Mood::Vanishes,
            14 => Mood::Rejects,
            15 | 16 => Mood::Slow(3_000 + rng.below(11_000)),
            17 => Mood::Unreachable,
            18 => Mood::Bucket(1 + rng.below(5)),
            _ if rng.percent(20) => Mood::Gone,
            _ => Mood::Well,
        }
    }

    /// The seconds that it asks for, if it asks.
    pub(crate) fn asks(self) -> Option<u64> {
        match self {
            Mood::Limits(seconds) | Mood::Unavailable(seconds) => Some(seconds),
            Mood::Well
            | Mood::LimitsVaguely
            | Mood::Fails
            | Mood::Drops
            | Mood::TimesOut
            | Mood::Vanishes
            | Mood::Rejects
            | Mood::Gone
            | Mood::Slow(_)
            | Mood::Unreachable
            | Mood::Bucket(_) => None,
        }
    }

    pub(crate) fn reply(self, rng: &mut Rng) -> Reply {
        let quick = 1 + rng.below(300);
        let (outcome, after) = match self {
            Mood::Well => (answered(204, None), quick),
            Mood::Limits(seconds) => (answered(429, Some(seconds)), quick),
            Mood::LimitsVaguely => (answered(429, None), quick),
            Mood::Unavailable(seconds) => (answered(503, Some(seconds)), quick),
            Mood::Fails => (answered(500, None), quick),
            Mood::Drops => (Outcome::MaybeSent(MaybeSent::Ambiguous), quick),
            Mood::TimesOut => (Outcome::MaybeSent(MaybeSent::Timeout), 15_000),
            Mood::Vanishes if rng.percent(50) => (answered(200, None), 60_000 + quick),
            Mood::Vanishes => (Outcome::NotSent(NotSent::Connect), 60_000 + quick),
            Mood::Rejects => (answered(422, None), quick),
            Mood::Gone => (answered(410, None), quick),
            Mood::Slow(after) => (answered(204, None), after),
            Mood::Unreachable => (Outcome::NotSent(NotSent::Connect), quick),
            Mood::Bucket(_) => (answered(204, None), quick),
        };
        Reply { outcome, after }
    }
}

fn answered(status: u16, retry_after: Option<u64>) -> Outcome {
    let lines = retry_after.map(|seconds| seconds.to_string().into_bytes());
    let headers = RetryHeaders { retry_after: lines.into_iter().collect(), date: None };
    Outcome::Answered { status, headers }
}
