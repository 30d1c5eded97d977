//! How much waits: kept at each insert into and removal from `due`, never by walking.
//!
//! By class and the second due, so that what is ready moves with the clock; beyond the next hour
//! by the minute, and by class for what waits at gates that let nothing through. Memory is bounded
//! by the seconds of an hour and the minutes of a month, not by what is due in them.

use std::collections::BTreeMap;

use crate::model::{ClassNo, Lane, MAX_CLASSES};
use crate::time::{Millis, Timestamp};

/// Minutes that the forecast looks ahead (API.md).
pub const FORECAST_MINUTES: usize = 60;
/// Minutes that are counted by the second, this one included: the forecast's and the one it ends in.
const FINE_MINUTES: u64 = FORECAST_MINUTES as u64 + 2;

/// Totals by class.
#[derive(Debug, Default)]
pub(super) struct Counts {
    classes: [ByClass; MAX_CLASSES],
    /// The second up to which rows have been counted as due.
    cursor: u64,
    /// The first minute that is not counted by the second. It never goes back.
    coarse_from: u64,
}

#[derive(Debug, Default)]
struct ByClass {
    /// Rows due in each second. What was counted by the minute is in the minute's last.
    seconds: BTreeMap<u64, u64>,
    /// Rows due in each minute from `coarse_from` on.
    minutes: BTreeMap<u64, u64>,
    /// Rows due at or before the cursor.
    due: u64,
    all: u64,
    /// Rows at closed gates, never attempted and attempted.
    held_first: u64,
    held_retry: u64,
}

/// What waits in one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    pub ready: u64,
    pub held: u64,
    pub delayed: u64,
}

fn second(due: Timestamp) -> u64 {
    due.0 / 1_000
}

/// The last second of a minute.
fn last_second(minute: u64) -> u64 {
    minute * 60 + 59
}

/// Takes one from a bucket, if it has one.
fn take(buckets: &mut BTreeMap<u64, u64>, key: u64) -> bool {
    let Some(rows) = buckets.get_mut(&key) else { return false };
    *rows -= 1;
    if *rows == 0 {
        buckets.remove(&key);
    }
    true
}

impl Counts {
    /// Lets time pass: what became due since is due now.
    pub(super) fn advance(&mut self, now: Timestamp) {
        self.refine(now.minute() + FINE_MINUTES);
        let to = second(now);
        for class in &mut self.classes {
            let moved: u64 = match to.cmp(&self.cursor) {
                std::cmp::Ordering::Equal => continue,
                std::cmp::Ordering::Greater => {
                    class.seconds.range(self.cursor + 1..=to).map(|(_, n)| n).sum()
                }
                std::cmp::Ordering::Less => {
                    class.due = class.seconds.range(..=to).map(|(_, n)| n).sum();
                    0
                }
            };
            class.due += moved;
        }
        self.cursor = to;
    }

    /// Minutes before this one are counted by the second from now on.
    fn refine(&mut self, to: u64) {
        if to <= self.coarse_from {
            return;
        }
        self.coarse_from = to;
        for class in &mut self.classes {
            while let Some(minute) = class.minutes.first_entry().filter(|minute| *minute.key() < to) {
                let (minute, rows) = minute.remove_entry();
                *class.seconds.entry(last_second(minute)).or_default() += rows;
                class.due += if last_second(minute) <= self.cursor { rows } else { 0 };
            }
        }
    }

    pub(super) fn insert(&mut self, lane: Lane, due: Timestamp, closed: bool) {
        let class = &mut self.classes[usize::from(lane.class().0)];
        class.all += 1;
        if due.minute() < self.coarse_from {
            *class.seconds.entry(second(due)).or_default() += 1;
            class.due += u64::from(second(due) <= self.cursor);
        } else {
            *class.minutes.entry(due.minute()).or_default() += 1;
        }
        if closed {
            *class.held(lane) += 1;
        }
    }

    pub(super) fn remove(&mut self, lane: Lane, due: Timestamp, closed: bool) {
        let class = &mut self.classes[usize::from(lane.class().0)];
        class.all -= 1;
        let last = last_second(due.minute());
        if take(&mut class.seconds, second(due)) {
            class.due -= u64::from(second(due) <= self.cursor);
        } else if take(&mut class.seconds, last) {
            class.due -= u64::from(last <= self.cursor);
        } else {
            take(&mut class.minutes, due.minute());
        }
        if closed {
            *class.held(lane) -= 1;
        }
    }

    /// A gate with so many rows in a lane has closed or, `opened`, opened.
    pub(super) fn hold(&mut self, lane: Lane, rows: u32, opened: bool) {
        let held = self.classes[usize::from(lane.class().0)].held(lane);
        *held = if opened { held.saturating_sub(rows.into()) } else { *held + u64::from(rows) };
    }

    /// Everything that waits.
    pub(super) fn all(&self) -> u64 {
        self.classes.iter().map(|class| class.all).sum()
    }

    /// What waits in a class. How much of what is held is due is not known row by row: work that
    /// was attempted before is taken to be due later, as long as there is that much due later.
    pub(super) fn waiting(&self, class: ClassNo) -> Waiting {
        let class = &self.classes[usize::from(class.0)];
        let later = class.all - class.due;
        let held_later = class.held_retry.min(later);
        let held_due = (class.held_first + class.held_retry - held_later).min(class.due);
        Waiting {
            ready: class.due - held_due,
            held: class.held_first + class.held_retry,
            delayed: (later - held_later).saturating_sub(class.held_first.saturating_sub(class.due)),
        }
    }

    /// Rows due in each of the next minutes, of all classes.
    pub(super) fn forecast(&self, now: Timestamp) -> Vec<u64> {
        let mut minutes = vec![0; FORECAST_MINUTES];
        let end = now.plus(Millis(60_000 * FORECAST_MINUTES as u64));
        for class in &self.classes {
            for (at, rows) in class.seconds.range(second(now) + 1..second(end)) {
                let minute = usize::try_from((at - second(now)) / 60).unwrap_or(usize::MAX);
                minutes[minute.min(FORECAST_MINUTES - 1)] += rows;
            }
        }
        minutes
    }
}

impl ByClass {
    fn held(&mut self, lane: Lane) -> &mut u64 {
        if lane.is_first() { &mut self.held_first } else { &mut self.held_retry }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const URGENT: ClassNo = ClassNo(0);

    fn at(seconds: u64) -> Timestamp {
        Timestamp(seconds * 1_000)
    }

    fn check(counts: &Counts, ready: u64, held: u64, delayed: u64) {
        let Waiting { ready: r, held: h, delayed: d } = counts.waiting(URGENT);
        assert_eq!((r, h, d), (ready, held, delayed));
    }

    #[test]
    fn rows_become_ready_by_the_clock_alone() {
        let mut counts = Counts::default();
        counts.advance(at(100));
        counts.insert(Lane(0), at(99), false);
        counts.insert(Lane(1), at(105), false);
        check(&counts, 1, 0, 1);
        counts.advance(at(105));
        check(&counts, 2, 0, 0);
        counts.advance(at(101));
        check(&counts, 1, 0, 1);
        counts.remove(Lane(0), at(99), false);
        counts.remove(Lane(1), at(105), false);
        check(&counts, 0, 0, 0);
        assert_eq!(counts.all(), 0);
    }

    /// I19: a month of seconds is not a month of counts, and every row is ready once and gone once.
    #[test]
    fn i19_what_is_due_far_ahead_is_counted_by_the_minute() {
        let mut counts = Counts::default();
        counts.advance(at(0));
        let dues: Vec<Timestamp> = (0..40_000).map(|n| at(n * 7)).collect();
        dues.iter().for_each(|due| counts.insert(Lane(0), *due, false));
        let kept = counts.classes[0].seconds.len() + counts.classes[0].minutes.len();
        assert!(kept <= 5_300, "{kept} counts");
        check(&counts, 1, 0, 39_999);
        counts.advance(at(140_000));
        let ready = counts.waiting(URGENT).ready;
        assert!((19_990..=20_001).contains(&ready), "{ready}: to the minute");
        dues.iter().for_each(|due| counts.remove(Lane(0), *due, false));
        check(&counts, 0, 0, 0);
        assert!(counts.classes[0].seconds.is_empty() && counts.classes[0].minutes.is_empty());
    }

    #[test]
    fn what_waits_at_a_closed_gate_is_held_and_not_ready() {
        let mut counts = Counts::default();
        counts.advance(at(100));
        for _ in 0..10 {
            counts.insert(Lane(0), at(99), false);
        }
        counts.insert(Lane(1), at(160), false);
        counts.insert(Lane(0), at(99), false);
        counts.hold(Lane(0), 10, false);
        counts.hold(Lane(1), 1, false);
        check(&counts, 1, 11, 0);
        counts.hold(Lane(0), 10, true);
        counts.hold(Lane(1), 1, true);
        check(&counts, 11, 0, 1);
    }

    #[test]
    fn the_forecast_is_by_minute() {
        let mut counts = Counts::default();
        counts.advance(at(100));
        counts.insert(Lane(1), at(101), false);
        counts.insert(Lane(1), at(165), false);
        counts.insert(Lane(3), at(165), false);
        counts.insert(Lane(3), at(100 + 3_600), false);
        let forecast = counts.forecast(at(100));
        assert_eq!((forecast[0], forecast[1], forecast.iter().sum::<u64>()), (1, 2, 3));
    }
}
