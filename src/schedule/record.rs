//! What a destination has done: since when it fails, how it asked for time, how it came back.

use std::collections::VecDeque;

use crate::outcome::AttemptResult;
use crate::time::{Millis, Timestamp};

/// Samples that percentiles are taken of: the newest.
const SAMPLES: usize = 32;

/// The history of one gate, as far as it is kept.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    /// Refusals in a row; answers to requests that were out together count once.
    pub(super) refusals: u32,
    pub(super) last_success_at: Option<Timestamp>,
    pub(super) failing_since: Option<Timestamp>,
    pub(super) failure_streak: u32,
    /// What the present trouble began with; None after a start.
    began_with: Option<AttemptResult>,
    /// Only of destinations that ever had trouble.
    seen: Option<Box<Seen>>,
}

#[derive(Clone, Debug, Default)]
struct Seen {
    asked: Spread,
    recovered: Spread,
    /// In the order of [`AttemptResult::ALL`].
    by_result: [u32; AttemptResult::ALL.len()],
}

/// How many, and how the newest of them lie.
#[derive(Clone, Debug, Default)]
struct Spread {
    count: u64,
    newest: VecDeque<Millis>,
}

/// A number of times, and how long they were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    pub count: u64,
    /// Of the newest 32.
    pub p50: Millis,
    pub p95: Millis,
    pub max: Millis,
}

/// A destination works again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// From its first failure to its success.
    pub after: Millis,
    /// What the trouble began with; None where that was before the start.
    pub began_with: Option<AttemptResult>,
}

impl Spread {
    fn add(&mut self, one: Millis) {
        self.count += 1;
        if self.newest.len() == SAMPLES {
            self.newest.pop_front();
        }
        self.newest.push_back(one);
    }

    fn times(&self) -> Option<Times> {
        let mut sorted: Vec<Millis> = self.newest.iter().copied().collect();
        sorted.sort_unstable();
        let at = |share: usize| sorted[(sorted.len() * share).div_ceil(100).max(1) - 1];
        (!sorted.is_empty()).then(|| Times { count: self.count, p50: at(50), p95: at(95), max: at(100) })
    }
}

impl Record {
    /// It delivered.
    pub(super) fn success(&mut self, at: Timestamp) -> Option<Recovered> {
        self.last_success_at = Some(at);
        self.failure_streak = 0;
        let since = self.failing_since.take()?;
        let recovered = Recovered { after: at.since(since), began_with: self.began_with.take() };
        let seen = self.seen.get_or_insert_default();
        seen.recovered.add(recovered.after);
        if let Some(place) = recovered.began_with.and_then(place) {
            seen.by_result[place] += 1;
        }
        Some(recovered)
    }

    /// It did not.
    pub(super) fn failure(&mut self, result: AttemptResult, at: Timestamp) {
        if self.failing_since.is_none() {
            (self.failing_since, self.began_with) = (Some(at), Some(result));
        }
        self.failure_streak = self.failure_streak.saturating_add(1);
    }

    /// It named a time.
    pub(super) fn asked(&mut self, wait: Millis) {
        self.seen.get_or_insert_default().asked.add(wait);
    }

    /// An operator has enabled it: nothing counts against it.
    pub(super) fn forgive(&mut self) {
        (self.refusals, self.failing_since, self.failure_streak) = (0, None, 0);
    }

    /// The times it named; None when it never did.
    pub(super) fn asked_times(&self) -> Option<Times> {
        self.seen.as_ref()?.asked.times()
    }

    /// How long it took to come back; None when it never had to.
    pub(super) fn recoveries(&self) -> Option<(Times, Vec<(AttemptResult, u32)>)> {
        let seen = self.seen.as_ref()?;
        let counts = AttemptResult::ALL.into_iter().zip(seen.by_result);
        Some((seen.recovered.times()?, counts.filter(|(_, count)| *count > 0).collect()))
    }
}

fn place(result: AttemptResult) -> Option<usize> {
    AttemptResult::ALL.iter().position(|one| *one == result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recovery_is_counted_from_the_first_failure() {
        let mut record = Record::default();
        assert_eq!(record.success(Timestamp(1)), None);
        record.failure(AttemptResult::RateLimited, Timestamp(1_000));
        record.failure(AttemptResult::ServerError, Timestamp(3_000));
        assert_eq!(record.failure_streak, 2);
        let after = Millis(9_000);
        let began_with = Some(AttemptResult::RateLimited);
        assert_eq!(record.success(Timestamp(10_000)), Some(Recovered { after, began_with }));
        assert_eq!(record.success(Timestamp(11_000)), None);
        let times = Times { count: 1, p50: after, p95: after, max: after };
        assert_eq!(record.recoveries(), Some((times, vec![(AttemptResult::RateLimited, 1)])));
    }

    #[test]
    fn percentiles_are_of_the_newest() {
        let mut record = Record::default();
        assert_eq!(record.asked_times(), None);
        (1..=100).for_each(|n| record.asked(Millis(n)));
        let times = Times { count: 100, p50: Millis(84), p95: Millis(99), max: Millis(100) };
        assert_eq!(record.asked_times(), Some(times));
    }
}
