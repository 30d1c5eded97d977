//! How long deliveries took from POST to receipt, those that never arrived included.

use std::time::Duration;

/// One post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::drill) enum Wait {
    /// It arrived after so long.
    Over(Duration),
    /// It has not arrived, and waits for so long already.
    Lasts(Duration),
}

impl Wait {
    /// That of a post at `from`, which arrived then or, at `now`, has not.
    pub(in crate::drill) fn new(from: Duration, arrived: Option<Duration>, now: Duration) -> Wait {
        match arrived {
            Some(at) => Wait::Over(at.saturating_sub(from)),
            None => Wait::Lasts(now.saturating_sub(from)),
        }
    }
}

/// The waits of some posts. What has not arrived counts as longer than any that has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::drill) struct Waits {
    /// Of those that arrived, the shortest first.
    arrived: Vec<Duration>,
    missing: usize,
    /// How long the oldest of these waits.
    oldest: Duration,
}

impl Waits {
    pub(in crate::drill) fn new(waits: impl IntoIterator<Item = Wait>) -> Waits {
        let mut all = Waits::default();
        for wait in waits {
            match wait {
                Wait::Over(wait) => all.arrived.push(wait),
                Wait::Lasts(wait) => {
                    all.missing += 1;
                    all.oldest = all.oldest.max(wait);
                }
            }
        }
        all.arrived.sort_unstable();
        all
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
        let mut text = format!("{} arrived", self.arrived.len());
        if !self.arrived.is_empty() {
            let arrived = Waits { arrived: self.arrived.clone(), ..Waits::default() };
            text += &format!(
                ", p{percent} {}, worst {}",
                told(arrived.percentile(percent)),
                told(arrived.worst())
            );
        }
        if self.missing > 0 {
            text += &format!(", {} under way for up to {}", self.missing, told(Some(self.oldest)));
        }
        text
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
        let arrived = millis.rev().map(|n| Wait::Over(Duration::from_millis(n)));
        let missing = (1..=missing as u64).map(|n| Wait::Lasts(Duration::from_secs(n)));
        Waits::new(arrived.chain(missing))
    }

    #[test]
    fn a_wait_ends_with_the_first_receipt() {
        let check = |from: u64, arrived: Option<u64>, now: u64, want: Wait| {
            let millis = Duration::from_millis;
            assert_eq!(Wait::new(millis(from), arrived.map(millis), millis(now)), want);
        };
        check(10, Some(25), 99, Wait::Over(Duration::from_millis(15)));
        check(10, None, 99, Wait::Lasts(Duration::from_millis(89)));
        check(10, Some(9), 99, Wait::Over(Duration::ZERO));
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
        let some = waits(1_500..=1_500, 2);
        check(
            &some,
            "1 of 3 arrived, p50 never, p95 never, worst never",
            "1 arrived, p95 1.50 s, worst 1.50 s, 2 under way for up to 2.00 s",
        );
        let none = Waits::new([Wait::Lasts(Duration::from_millis(5))]);
        check(
            &none,
            "0 of 1 arrived, p50 never, p95 never, worst never",
            "0 arrived, 1 under way for up to 5.0 ms",
        );
    }
}
