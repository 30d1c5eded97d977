//! How often a gate lets something through: a configured rate and a learnt one.
//!
//! Both are the generic cell rate algorithm (ITU-T I.371): one number says when the next request
//! conforms, so a gate that waits for its rate waits on a timer and is never asked again before.

use crate::model::destination::Rate;
use crate::time::{Millis, Mono};

/// A learnt rate is this share of what was taken for long before the refusal.
const SAFETY: f64 = 0.8;
/// What each success adds to a learnt rate, in requests a second: about a hundredth a second.
const GROWTH: f64 = 0.01;
/// No learnt rate is lower: below it the hold itself is what paces.
const SLOWEST: f64 = 1.0;
/// A learnt rate is forgotten when nothing was refused for so long.
const FORGET: Millis = Millis(600_000);
/// Requests that must have been taken for their rate to mean something.
const TELLING: u32 = 5;
/// After a shorter hold, sending until it refuses again costs less than pacing could save.
const SHORT: Millis = Millis(1_000);
/// The burst of a learnt rate: what it lets through in this time.
const BURST_SECONDS: f64 = 0.1;
/// What was taken is measured over at least this time.
const MEASURED: Millis = Millis(100);
/// Where a claim is stored to keep its rate over a restart: two requests at least this far apart.
const KEPT_FROM: u64 = 1_000_000;

const MICROS: f64 = 1_000_000.0;

/// One rate. Times are microseconds of the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cells {
    interval: u64,
    burst: u64,
    /// The theoretical arrival time: when the bucket is full again but for one request.
    arrival: u64,
}

impl Cells {
    /// When the next request conforms.
    fn earliest(&self) -> u64 {
        self.arrival.saturating_sub((self.burst - 1).saturating_mul(self.interval))
    }

    fn take(&mut self, now: u64) {
        self.arrival = self.arrival.max(now).saturating_add(self.interval);
    }

    /// As after a burst: what was sent before is not known.
    fn drained(interval: u64, burst: u64, now: u64) -> Cells {
        Cells { interval, burst, arrival: now.saturating_add(burst.saturating_mul(interval)) }
    }
}

/// The rates of one gate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Pace {
    configured: Option<Cells>,
    learnt: Option<Learnt>,
    /// What has been taken since this moment, while something always waited.
    since: Option<Mono>,
    taken: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Learnt {
    per_second: f64,
    /// What it took in the first interval and the hold after it: as much can be had by sending
    /// until it refuses, so pacing is never to give less. Without it a receiver that refuses a
    /// few requests by chance would be paced down a fifth each time, to next to nothing.
    floor: f64,
    refused_at: Mono,
    cells: Cells,
}

/// What a destination took from when it opened to its next refusal, and the hold that followed.
#[derive(Clone, Copy, Debug)]
struct Interval {
    taken: f64,
    open: Millis,
    hold: Millis,
}

impl Interval {
    /// Requests a second while it was open.
    fn open_rate(&self) -> f64 {
        self.taken * 1_000.0 / self.open.0.max(MEASURED.0) as f64
    }

    /// Requests a second, the hold included: what sending until it refuses gives.
    fn whole(&self) -> f64 {
        self.taken * 1_000.0 / (self.open.0.max(MEASURED.0) + self.hold.0) as f64
    }

    /// What it is taken to bear. Refused before it was open for as long as it then was closed, it
    /// took what it had saved up: the truth lies between both rates, and their geometric mean
    /// comes near it in a few rounds where a fifth less each time would take a dozen.
    fn rate(&self) -> f64 {
        if self.open < self.hold {
            (self.open_rate() * self.whole()).sqrt()
        } else {
            SAFETY * self.open_rate()
        }
    }
}

fn micros(at: Mono) -> u64 {
    at.0.saturating_mul(1_000)
}

impl Pace {
    /// Follows a changed setting. A new rate begins full; one that was changed keeps its place, but
    /// never waits longer than after a burst of its own.
    pub(super) fn configure(&mut self, rate: Option<Rate>, now: Mono) {
        let before = self.configured.map_or(0, |cells| cells.arrival);
        self.configured = rate.map(|rate| {
            let most = Cells::drained(rate.interval_micros(), u64::from(rate.burst), micros(now));
            Cells { arrival: before.min(most.arrival), ..most }
        });
    }

    /// After a start: what was sent just before is known only where it was stored.
    pub(super) fn resume(&mut self, arrival: Option<Mono>, learnt: Option<(f64, f64)>, now: Mono) {
        if let Some(cells) = &mut self.configured {
            *cells = Cells::drained(cells.interval, cells.burst, micros(now));
            if let Some(arrival) = arrival {
                cells.arrival = cells.arrival.min(micros(arrival));
            }
        }
        let learnt = learnt.filter(|(per_second, _)| *per_second > 0.0);
        self.learnt = learnt.map(|(per_second, floor)| Learnt { floor, ..Learnt::at(per_second, now) });
    }

    /// When the next request conforms to both, rounded up.
    pub(super) fn earliest(&self) -> Mono {
        let learnt = self.learnt.map(|learnt| learnt.cells);
        let cells = [self.configured, learnt].into_iter().flatten();
        Mono(cells.map(|cells| cells.earliest()).max().unwrap_or(0).div_ceil(1_000))
    }

    /// A request goes out. True when that is to be stored.
    pub(super) fn take(&mut self, now: Mono) -> bool {
        if self.since.is_none() {
            (self.since, self.taken) = (Some(now), 0);
        }
        if let Some(learnt) = &mut self.learnt {
            learnt.cells.take(micros(now));
        }
        let Some(cells) = &mut self.configured else { return false };
        cells.take(micros(now));
        cells.interval >= KEPT_FROM
    }

    /// A request was taken. True when the learnt rate has been forgotten.
    pub(super) fn success(&mut self, now: Mono) -> bool {
        self.taken = self.taken.saturating_add(1);
        let Some(learnt) = &mut self.learnt else { return false };
        if now.since(learnt.refused_at) >= FORGET {
            self.learnt = None;
            return true;
        }
        learnt.set(learnt.per_second + GROWTH);
        false
    }

    /// A request was refused, for the first time since the gate opened, and the gate is closed
    /// until `until`: what was taken until now says what it takes.
    pub(super) fn refused(&mut self, until: Mono, now: Mono) {
        let telling = self.taken >= TELLING && until.since(now) >= SHORT;
        if let Some(since) = self.since.filter(|_| telling) {
            let seen = Interval { taken: self.taken.into(), open: now.since(since), hold: until.since(now) };
            self.learn(seen, until, now);
        } else if let Some(learnt) = &mut self.learnt {
            learnt.refused_at = now;
        }
        (self.since, self.taken) = (Some(until), 0);
    }

    /// After the hold it goes on from nothing: a burst would be taken as well, and teach as little.
    fn learn(&mut self, seen: Interval, until: Mono, now: Mono) {
        let before = self.learnt.filter(|learnt| learnt.floor > 0.0);
        let floor = before.map_or(seen.whole(), |learnt| learnt.floor);
        let mut learnt = Learnt { floor, ..Learnt::at(seen.rate().max(floor).max(SLOWEST), now) };
        let cells = &mut learnt.cells;
        cells.arrival = micros(until).saturating_add((cells.burst - 1).saturating_mul(cells.interval));
        self.learnt = Some(learnt);
    }

    /// It is closed until then: what it takes is measured from there on.
    pub(super) fn shut(&mut self, until: Mono) {
        self.since = self.since.map(|since| since.max(until));
    }

    /// Nothing waits and nothing is out, or it was closed for another reason: what was taken until now was not all it could take.
    pub(super) fn idle(&mut self) {
        (self.since, self.taken) = (None, 0);
    }

    /// The learnt rate, in requests a second.
    pub(super) fn learnt(&self) -> Option<f64> {
        self.learnt.map(|learnt| learnt.per_second)
    }

    /// The learnt rate and the least that is kept of it.
    pub(super) fn memory(&self) -> Option<(f64, f64)> {
        self.learnt.map(|learnt| (learnt.per_second, learnt.floor))
    }

    /// Where the configured rate stands, if that is worth keeping.
    pub(super) fn arrival(&self) -> Option<Mono> {
        let cells = self.configured.filter(|cells| cells.interval >= KEPT_FROM)?;
        Some(Mono(cells.arrival.div_ceil(1_000)))
    }
}

impl Learnt {
    fn at(per_second: f64, refused_at: Mono) -> Learnt {
        let cells = Cells { interval: 0, burst: 1, arrival: 0 };
        let mut learnt = Learnt { per_second, floor: 0.0, refused_at, cells };
        learnt.set(per_second);
        learnt
    }

    fn set(&mut self, per_second: f64) {
        self.per_second = per_second;
        self.cells.interval = (MICROS / per_second) as u64;
        self.cells.burst = ((per_second * BURST_SECONDS) as u64).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paced(per_second: f64, burst: u32) -> Pace {
        let mut pace = Pace::default();
        pace.configure(Rate::per_second(per_second, burst), Mono(0));
        pace
    }

    /// When each of `many` requests goes out, if each goes as soon as it may.
    fn starts(pace: &mut Pace, many: u64) -> Vec<u64> {
        let mut now = Mono(1_000_000);
        let mut starts = Vec::new();
        for _ in 0..many {
            now = now.max(pace.earliest());
            pace.take(now);
            starts.push(now.0 - 1_000_000);
        }
        starts
    }

    /// C123: one a minute is one a minute, the first at once.
    #[test]
    fn c123_requests_are_as_far_apart_as_the_rate_says() {
        assert_eq!(starts(&mut paced(2.0, 1), 4), [0, 500, 1_000, 1_500]);
        assert_eq!(starts(&mut paced(10.0, 3), 5), [0, 0, 0, 100, 200]);
        let minute = starts(&mut paced(1.0 / 60.0, 1), 5);
        for (n, start) in minute.iter().enumerate() {
            assert!(start.abs_diff(n as u64 * 60_000) < 1_000, "{minute:?}");
        }
    }

    /// C123: after a start the bucket is taken to be empty, unless it was stored.
    #[test]
    fn c123_a_restart_gives_no_second_burst() {
        let mut pace = paced(10.0, 3);
        pace.resume(None, None, Mono(0));
        assert_eq!(pace.earliest(), Mono(100));
        let mut slow = paced(0.1, 1);
        assert!(slow.take(Mono(4_000)), "so slow a rate is stored");
        let stored = slow.arrival();
        slow.resume(stored, None, Mono(5_000));
        assert_eq!(slow.earliest(), Mono(14_000));
    }

    #[test]
    fn a_rate_is_learnt_from_what_was_taken_and_grows() {
        let mut pace = Pace::default();
        pace.take(Mono(0));
        for _ in 0..100 {
            pace.success(Mono(500));
        }
        pace.refused(Mono(4_000), Mono(2_000));
        assert_eq!(pace.learnt(), Some(40.0));
        assert_eq!(pace.earliest(), Mono(4_000), "and no burst at its end");
        pace.success(Mono(4_100));
        assert_eq!(pace.learnt(), Some(40.01));
        assert!(pace.success(Mono(602_000)), "ten minutes without a refusal");
        assert_eq!(pace.learnt(), None);
    }

    /// A bucket of 50 that is filled by 50 a second, behind a receiver that answers in a
    /// millisecond: found in a few rounds.
    #[test]
    fn a_bucket_is_seen_through_in_a_few_rounds() {
        let mut pace = Pace::default();
        let (mut now, mut tokens, mut taken, mut refused) = (Mono(0), 50.0_f64, 0, 0);
        while taken < 1_500 {
            let at = now.plus(Millis(1)).max(pace.earliest());
            tokens = (tokens + at.since(now).0 as f64 * 0.05).min(50.0);
            now = at;
            pace.take(now);
            if tokens >= 1.0 {
                tokens -= 1.0;
                taken += 1;
                pace.success(now);
            } else {
                refused += 1;
                let until = now.plus(Millis(2_000));
                pace.refused(until, now);
                tokens = (tokens + 100.0).min(50.0);
                now = until;
            }
        }
        assert!(refused <= 8 && now.0 <= 40_000, "{refused} refused, {} ms", now.0);
    }

    /// Refusals by chance do not pace it down to nothing.
    #[test]
    fn what_sending_until_it_refuses_gives_is_never_undercut() {
        let mut pace = Pace::default();
        let (mut now, mut taken) = (Mono(0), 0);
        for _ in 0..50 {
            for _ in 0..16 {
                now = now.max(pace.earliest());
                pace.take(now);
                pace.success(now);
                taken += 1;
            }
            let until = now.plus(Millis(1_000));
            pace.refused(until, now);
            now = until;
        }
        let rate = f64::from(taken) / (now.0 as f64 / 1_000.0);
        assert!(rate > 7.0, "{rate} a second, of 16 that sending at once would give");
    }

    #[test]
    fn a_raised_rate_does_not_wait_for_the_old_one() {
        let mut pace = paced(1.0 / 3_600.0, 1);
        pace.take(Mono(0));
        pace.configure(Rate::per_second(100.0, 1), Mono(1_000));
        assert_eq!(pace.earliest(), Mono(1_010));
    }

    #[test]
    fn a_short_hold_teaches_nothing() {
        let mut pace = Pace::default();
        pace.take(Mono(0));
        (0..50).for_each(|_| _ = pace.success(Mono(500)));
        pace.refused(Mono(1_999), Mono(1_000));
        assert_eq!(pace.learnt(), None);
    }

    #[test]
    fn a_refused_probe_teaches_nothing() {
        let mut pace = Pace::default();
        pace.take(Mono(0));
        pace.refused(Mono(3_000), Mono(1_000));
        assert_eq!(pace.learnt(), None);
        pace.success(Mono(3_500));
        pace.idle();
        pace.refused(Mono(9_000), Mono(5_000));
        assert_eq!(pace.learnt(), None, "it had nothing to send in between");
    }
}
