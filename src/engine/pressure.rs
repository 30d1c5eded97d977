//! Pressure: whether the first attempts of a class come late, so that its weight is to be doubled
//! until they do not (SCHEDULER.md 3.6).
//!
//! Only what was ours counts: a class whose destinations hold it back is old when it goes out,
//! and no weight would change that.

use crate::model::MAX_CLASSES;
use crate::time::{Millis, Mono};

/// First attempts are judged over the last one to two of these.
const RECENT: Millis = Millis(30_000);
/// A 95th percentile of fewer is the age of one delivery.
const SAMPLES: u64 = 20;
/// One in so many may be late: the rest are 95 %.
const LATE_ONE_IN: u64 = 20;

/// How late the first attempts of each class were.
#[derive(Debug)]
pub(super) struct Pressure {
    /// Half of each window, by the number of the class.
    bounds: Vec<Millis>,
    /// In this half of the recent past, and the one before.
    recent: [[Lags; MAX_CLASSES]; 2],
    turned: Mono,
}

#[derive(Clone, Copy, Debug, Default)]
struct Lags {
    all: u64,
    /// Beyond half the window.
    late: u64,
}

impl Pressure {
    /// For classes of these windows.
    pub(super) fn new(windows: &[Millis], now: Mono) -> Pressure {
        let bounds = windows.iter().map(|window| Millis(window.0 / 2)).collect();
        Pressure { bounds, recent: Default::default(), turned: now }
    }

    /// A first attempt of a class began so long after it could have.
    pub(super) fn observe(&mut self, class: usize, lag: Millis) {
        let lags = &mut self.recent[0][class];
        lags.all += 1;
        lags.late += u64::from(lag > self.bounds[class]);
    }

    /// Lets time pass.
    pub(super) fn turn(&mut self, now: Mono) {
        if now.since(self.turned) >= RECENT {
            self.recent = [Default::default(), self.recent[0]];
            self.turned = now;
        }
    }

    /// True when 95 % of the recent first attempts of a class took more than half its window.
    pub(super) fn is_late(&self, class: usize) -> bool {
        let [now, before] = [self.recent[0][class], self.recent[1][class]];
        let (all, late) = (now.all + before.all, now.late + before.late);
        all >= SAMPLES && late * LATE_ONE_IN > all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_late_while_one_in_twenty_takes_more_than_half_its_window() {
        let check = |lags: &[(u64, u64)], want: bool| {
            let mut pressure = Pressure::new(&[Millis(1_000), Millis(10_000)], Mono(0));
            for (count, lag) in lags {
                (0..*count).for_each(|_| pressure.observe(1, Millis(*lag)));
            }
            assert_eq!((pressure.is_late(0), pressure.is_late(1)), (false, want), "{lags:?}");
        };
        check(&[], false);
        check(&[(19, 9_000)], false);
        check(&[(20, 9_000)], true);
        check(&[(20, 5_000)], false);
        check(&[(95, 0), (5, 5_001)], false);
        check(&[(94, 0), (6, 5_001)], true);
    }

    #[test]
    fn what_is_no_longer_recent_is_forgotten() {
        let mut pressure = Pressure::new(&[Millis(1_000)], Mono(0));
        (0..20).for_each(|_| pressure.observe(0, Millis(501)));
        let mut check = |at: u64, want: bool| {
            pressure.turn(Mono(at));
            assert_eq!(pressure.is_late(0), want, "at {at}");
        };
        check(29_999, true);
        check(30_000, true);
        check(59_999, true);
        check(60_000, false);
    }
}
