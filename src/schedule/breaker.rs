//! The breaker: a destination that cannot be reached is left alone, then asked once.
//!
//! Failures are counted in cohorts (Postfix, `default_destination_concurrency_failed_cohort_limit`):
//! each weighs one over the limit, so that about one bad round opens it at any limit.

use crate::time::{Millis, Mono};

/// A whole cohort of failures.
const COHORT: u32 = 1_000;
/// How long it stays open the first time, and at most; doubled in between.
const FIRST_OPEN: Millis = Millis(1_000);
const LONGEST_OPEN: Millis = Millis(300_000);

/// What a breaker lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    Closed,
    /// Nothing until then.
    Open {
        until: Mono,
    },
    /// One request at a time, until one is answered.
    HalfOpen,
}

impl BreakerState {
    /// The word for it in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            BreakerState::Closed => "closed",
            BreakerState::Open { .. } => "open",
            BreakerState::HalfOpen => "half_open",
        }
    }
}

/// The breaker of one gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Breaker {
    state: BreakerState,
    /// Thousandths of a cohort that failed since the last answer.
    failed: u32,
    /// Times in a row that it has opened.
    opened: u32,
}

impl Breaker {
    pub(super) fn new() -> Breaker {
        Breaker { state: BreakerState::Closed, failed: 0, opened: 0 }
    }

    /// As it was stored: how often it had opened, and until when.
    pub(super) fn resume(opened: u32, until: Option<Mono>, now: Mono) -> Breaker {
        let last = now.plus(LONGEST_OPEN);
        let state = match until {
            _ if opened == 0 => BreakerState::Closed,
            Some(until) if until > now => BreakerState::Open { until: until.min(last) },
            Some(_) | None => BreakerState::HalfOpen,
        };
        Breaker { state, failed: 0, opened }
    }

    pub(super) fn state(&self) -> BreakerState {
        self.state
    }

    pub(super) fn opened(&self) -> u32 {
        self.opened
    }

    /// Until when it lets nothing through.
    pub(super) fn shut_until(&self) -> Option<Mono> {
        match self.state {
            BreakerState::Open { until } => Some(until),
            BreakerState::Closed | BreakerState::HalfOpen => None,
        }
    }

    /// An open breaker's time may be over: then one request goes out.
    pub(super) fn wake(&mut self, now: Mono) {
        if self.shut_until().is_some_and(|until| until <= now) {
            self.state = BreakerState::HalfOpen;
        }
    }

    /// Somebody answered: it is closed. True when it was not.
    pub(super) fn answered(&mut self) -> bool {
        let changed = self.opened > 0;
        *self = Breaker::new();
        changed
    }

    /// Nobody answered, at this limit. True when it has opened; `chance` spreads what opened
    /// together.
    pub(super) fn failed(&mut self, limit: u32, chance: u64, now: Mono) -> bool {
        self.failed = self.failed.saturating_add(COHORT / limit.max(1));
        match self.state {
            BreakerState::Open { .. } => return false,
            BreakerState::Closed if self.failed <= COHORT => return false,
            BreakerState::Closed | BreakerState::HalfOpen => {}
        }
        let step = FIRST_OPEN.0.saturating_mul(1 << self.opened.min(20)).min(LONGEST_OPEN.0);
        let wait = Millis(step / 2 + chance % (step / 2 + 1));
        self.state = BreakerState::Open { until: now.plus(wait) };
        (self.failed, self.opened) = (0, self.opened.saturating_add(1));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn about_one_bad_cohort_opens_it() {
        for limit in [1, 2, 8, 100] {
            let mut breaker = Breaker::new();
            let failures = (1..).find(|_| breaker.failed(limit, 0, Mono(0))).unwrap();
            assert_eq!(failures, limit + 1, "at {limit}");
        }
    }

    #[test]
    fn an_answer_in_between_forgives() {
        let mut breaker = Breaker::new();
        assert!(!breaker.failed(1, 0, Mono(0)));
        assert!(!breaker.answered());
        assert!(!breaker.failed(1, 0, Mono(0)));
        assert!(breaker.failed(1, 0, Mono(0)));
        assert!(breaker.answered());
    }

    #[test]
    fn it_opens_for_longer_each_time_and_asks_once() {
        let mut breaker = Breaker::new();
        breaker.failed(1, 0, Mono(0));
        let (mut now, mut waits) = (Mono(0), Vec::new());
        for _ in 0..12 {
            assert!(breaker.failed(1, 0, now));
            assert!(!breaker.failed(1, 0, now), "late failures change nothing");
            let until = breaker.shut_until().unwrap();
            waits.push(until.since(now).0);
            breaker.wake(Mono(until.0 - 1));
            assert!(matches!(breaker.state(), BreakerState::Open { .. }));
            breaker.wake(until);
            assert_eq!(breaker.state(), BreakerState::HalfOpen);
            now = until;
        }
        assert_eq!(waits[..4], [500, 1_000, 2_000, 4_000]);
        assert_eq!(waits[11], 150_000, "half of five minutes, and up to all of it by chance");
        breaker.failed(1, u64::MAX, now);
        assert!(breaker.shut_until().unwrap().since(now) <= LONGEST_OPEN);
    }

    #[test]
    fn a_stored_time_is_not_trusted_beyond_the_longest() {
        let check = |opened, until, want: BreakerState| {
            assert_eq!(Breaker::resume(opened, until, Mono(10)).state(), want);
        };
        check(0, None, BreakerState::Closed);
        check(2, None, BreakerState::HalfOpen);
        check(2, Some(Mono(10)), BreakerState::HalfOpen);
        check(2, Some(Mono(20)), BreakerState::Open { until: Mono(20) });
        check(2, Some(Mono(u64::MAX)), BreakerState::Open { until: Mono(300_010) });
    }
}
