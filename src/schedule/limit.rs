//! How many requests may be in flight to a destination at once.
//!
//! Slow start after every beginning (1, 2, 4, …); for a destination that is set to adapt, then
//! one more a round while the limit is used, and half of it when it fails, once an epoch
//! (additive increase, multiplicative decrease: Chiu and Jain 1989; RFC 5681 for the start).

/// Of a destination that was known before the start (SCHEDULER.md 3.10).
const KNOWN: u32 = 4;

/// The limit of one gate. It is at least 1, and the destination's own `max` is above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    now: u32,
    /// Slow start goes on to here.
    threshold: u32,
    /// Successes at this limit.
    credit: u32,
}

impl Limit {
    /// One request, until somebody answers.
    pub(super) fn new() -> Limit {
        Limit { now: 1, threshold: u32::MAX, credit: 0 }
    }

    /// Of a destination that has answered before: a few.
    pub(super) fn known(before: u32) -> Limit {
        Limit { now: before.clamp(1, KNOWN), ..Limit::new() }
    }

    pub(super) fn now(self, max: u32) -> u32 {
        self.now.min(max).max(1)
    }

    /// A request was answered while `in_flight` were out, itself included.
    pub(super) fn answered(&mut self, max: u32, adaptive: bool, in_flight: u32) {
        if self.now >= max {
            self.now = max.max(1);
            return;
        }
        if adaptive && in_flight.saturating_mul(2) < self.now {
            return;
        }
        if !adaptive || self.now < self.threshold {
            self.now += 1;
            return;
        }
        self.credit += 1;
        if self.credit >= self.now {
            (self.now, self.credit) = (self.now + 1, 0);
        }
    }

    /// It fails: half as many, for a destination that adapts. The caller sees to once an epoch.
    pub(super) fn halve(&mut self) {
        self.now = (self.now / 2).max(1);
        (self.threshold, self.credit) = (self.now, 0);
    }

    /// It is closed; it opens with one request. `adaptive` keeps in mind where it went wrong.
    pub(super) fn restart(&mut self, adaptive: bool) {
        if adaptive && self.now > 1 {
            self.threshold = (self.now / 2).max(1);
        }
        (self.now, self.credit) = (1, 0);
    }

    /// No more than a few at once: the clock has jumped, and much is due.
    pub(super) fn calm(&mut self) {
        self.now = self.now.min(KNOWN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of as many answers as the limit lets out.
    fn rounds(limit: &mut Limit, max: u32, adaptive: bool, rounds: u32) -> Vec<u32> {
        let round = |_| {
            let out = limit.now(max);
            (0..out).for_each(|_| limit.answered(max, adaptive, out));
            out
        };
        (0..rounds).map(round).collect()
    }

    #[test]
    fn it_doubles_to_the_most() {
        assert_eq!(rounds(&mut Limit::new(), 10, false, 6), [1, 2, 4, 8, 10, 10]);
        assert_eq!(rounds(&mut Limit::new(), 10, true, 6), [1, 2, 4, 8, 10, 10]);
        assert_eq!(rounds(&mut Limit::known(100), 10, false, 3), [4, 8, 10]);
    }

    #[test]
    fn what_adapts_halves_and_creeps() {
        let mut limit = Limit::new();
        rounds(&mut limit, 64, true, 6);
        limit.halve();
        assert_eq!(rounds(&mut limit, 64, true, 4), [32, 33, 34, 35]);
        limit.restart(true);
        assert_eq!(rounds(&mut limit, 64, true, 7), [1, 2, 4, 8, 16, 18, 19]);
    }

    #[test]
    fn what_is_not_used_does_not_grow() {
        let mut limit = Limit { now: 8, ..Limit::new() };
        limit.answered(64, true, 3);
        assert_eq!(limit.now(64), 8);
        limit.answered(64, true, 4);
        assert_eq!(limit.now(64), 9);
        limit.answered(64, false, 1);
        assert_eq!(limit.now(64), 10, "only what adapts is asked to use it");
    }

    #[test]
    fn a_lower_setting_holds_at_once() {
        let mut limit = Limit { now: 50, ..Limit::new() };
        assert_eq!(limit.now(8), 8);
        limit.answered(8, false, 8);
        assert_eq!(limit.now(100), 8);
    }
}
