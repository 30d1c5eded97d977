//! How long deliveries took from POST to receipt, those that never arrived included.

use std::time::Duration;

/// The waits of some posts. What has not arrived counts as longer than any that has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::drill) struct Waits {
    /// Of those that arrived, the shortest first.
    arrived: Vec<Duration>,
    missing: usize,
}

impl Waits {
    /// One wait for each post; `None` where nothing has arrived.
    pub(in crate::drill) fn new(waits: impl IntoIterator<Item = Option<Duration>>) -> Waits {
        let mut missing = 0;
        let counted = waits.into_iter().inspect(|wait| missing += usize::from(wait.is_none()));
        let mut arrived: Vec<Duration> = counted.flatten().collect();
        arrived.sort_unstable();
        Waits { arrived, missing }
    }

    pub(in crate::drill) fn posted(&self) -> usize {
        self.arrived.len() + self.missing
    }

    pub(in crate::drill) fn missing(&self) -> usize {
        self.missing
    }

    /// The wait that `percent` of the posts do not exceed (nearest rank). `None`: there are no
    /// posts, or so many have not arrived.
    pub(in crate::drill) fn percentile(&self, percent: usize) -> Option<Duration> {
        let rank = (self.posted() * percent).div_ceil(100);
        self.arrived.get(rank.checked_sub(1)?).copied()
    }

    /// The longest; `None` when something has not arrived, or there are no posts.
    pub(in crate::drill) fn worst(&self) -> Option<Duration> {
        self.percentile(100)
    }

    /// Such as `598 of 600 arrived, p50 3.1 ms, p99 never, worst never`.
    pub(in crate::drill) fn told(&self, percent: usize) -> String {
        format!(
            "{} of {} arrived, p50 {}, p{percent} {}, worst {}",
            self.arrived.len(),
            self.posted(),
            told(self.percentile(50)),
            told(self.percentile(percent)),
            told(self.worst())
        )
    }

    /// The same while it goes on: of those that have arrived, and who still waits.
    pub(in crate::drill) fn so_far(&self, percent: usize) -> String {
        let arrived = Waits { arrived: self.arrived.clone(), missing: 0 };
        let (at, worst) = (told(arrived.percentile(percent)), told(arrived.worst()));
        match self.missing {
            0 => format!("{} arrived, p{percent} {at}, worst {worst}", arrived.posted()),
            n => format!("{} arrived, p{percent} {at}, worst {worst}, {n} under way", arrived.posted()),
        }
    }
}

/// True when there is such a wait and it is shorter than `limit`.
pub(in crate::drill) fn under(wait: Option<Duration>, limit: Duration) -> bool {
    wait.is_some_and(|wait| wait < limit)
}

fn told(wait: Option<Duration>) -> String {
    match wait {
        None => "never".into(),
        Some(wait) if wait < Duration::from_secs(1) => format!("{:.1} ms", wait.as_secs_f64() * 1_000.0),
        Some(wait) => format!("{:.2} s", wait.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(millis: std::ops::RangeInclusive<u64>, missing: usize) -> Waits {
        let arrived = millis.rev().map(|n| Some(Duration::from_millis(n)));
        Waits::new(arrived.chain(std::iter::repeat_n(None, missing)))
    }

    #[test]
    fn percentiles_by_nearest_rank() {
        let check = |waits: Waits, percent: usize, want: Option<u64>| {
            assert_eq!(waits.percentile(percent), want.map(Duration::from_millis), "p{percent} of {waits:?}");
        };
        check(waits(1..=100, 0), 50, Some(50));
        check(waits(1..=100, 0), 99, Some(99));
        check(waits(1..=100, 0), 100, Some(100));
        check(waits(1..=3, 0), 99, Some(3));
        check(waits(7..=7, 0), 1, Some(7));
        check(waits(1..=99, 1), 99, Some(99));
        check(waits(1..=98, 2), 99, None);
        check(waits(1..=99, 1), 100, None);
        check(Waits::new([]), 50, None);
    }

    #[test]
    fn what_never_arrived_is_under_no_limit() {
        let limit = Duration::from_millis(10);
        assert!(under(Some(Duration::from_millis(9)), limit));
        assert!(!under(Some(limit), limit));
        assert!(!under(None, limit));
    }

    #[test]
    fn told_as_a_person_reads_it() {
        let check = |waits: &Waits, all: &str, so_far: &str| {
            assert_eq!((waits.told(95).as_str(), waits.so_far(95).as_str()), (all, so_far));
        };
        let all = waits(1..=3, 0);
        check(
            &all,
            "3 of 3 arrived, p50 2.0 ms, p95 3.0 ms, worst 3.0 ms",
            "3 arrived, p95 3.0 ms, worst 3.0 ms",
        );
        let some = waits(1_500..=1_500, 1);
        check(
            &some,
            "1 of 2 arrived, p50 1.50 s, p95 never, worst never",
            "1 arrived, p95 1.50 s, worst 1.50 s, 1 under way",
        );
    }
}
