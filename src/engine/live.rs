//! The figures that the engine publishes after a commit, for stats, the status page and metrics.
//!
//! Ages are given as times, so that a reader works them out and a stuck engine shows.

use std::collections::VecDeque;
use std::sync::Arc;

use super::pressure::Pressure;
use crate::delivery::{Attempt, Delivery, Lease, State};
use crate::model::{ClassNo, MAX_CLASSES, Name};
use crate::outcome::{Asked, AttemptResult, Clamped, Ending, RetryAfter};
use crate::schedule::Recovered;
use crate::store::Claims;
use crate::time::{Millis, Mono, Now, Timestamp};

/// Rates are over the last ten seconds, sampled once a second.
const RATE_SAMPLES: usize = 10;
const SAMPLE_EVERY: Millis = Millis(1_000);
/// The 95th percentile is over the last one to two of these.
const RECENT: Millis = Millis(30_000);

/// Bounds of times in seconds. Those of ages have every class window besides ([`age_bounds`]).
pub const TIME_BOUNDS: [f64; 14] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 300.0, 3_600.0];
/// What a 429 or a failure may bring along, in the order of the counts.
pub const RETRY_AFTER: [&str; 4] = ["seconds", "date", "invalid", "absent"];
/// Which end of the policy's range moved it.
pub const CLAMPED: [&str; 3] = ["none", "min", "max"];

/// Bounds of attempts a delivery took.
pub const ATTEMPT_BOUNDS: [f64; 8] = [1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 34.0, 100.0];

/// One picture of the engine, immutable once published.
#[derive(Clone, Debug, PartialEq)]
pub struct Live {
    /// The wall time of the step that published it.
    pub at: Timestamp,
    pub step: u64,
    pub counting: bool,
    /// False once a stop has begun, and while claims are stopped.
    pub claiming: bool,
    pub claims: Claims,
    /// Of the newest drain; 0: there was none.
    pub fence: u64,
    pub slots: u32,
    pub in_flight: u32,
    pub accepted_per_second: f64,
    pub finished_per_second: f64,
    pub quarantined: u64,
    /// It holds as many deliveries as it may: nothing new is taken.
    pub full: bool,
    /// In the order of their numbers.
    pub classes: Vec<ClassLive>,
    /// Due in each of the next 60 minutes, the current one first.
    pub forecast: Vec<u64>,
    pub destinations: DestinationsLive,
    /// Those with most waiting, as far as there are places for them.
    pub watched: Vec<WatchedLive>,
    pub figures: Figures,
    pub disk: DiskLive,
}

#[cfg(test)]
impl Live {
    /// Nothing at all, for tests that need only a part.
    pub(crate) fn empty() -> Live {
        Live {
            at: Timestamp(0),
            step: 0,
            counting: true,
            claiming: false,
            claims: Claims::Running,
            fence: 0,
            slots: 0,
            in_flight: 0,
            accepted_per_second: 0.0,
            finished_per_second: 0.0,
            quarantined: 0,
            full: false,
            classes: Vec::new(),
            forecast: vec![0; crate::schedule::FORECAST_MINUTES],
            destinations: DestinationsLive::default(),
            watched: Vec::new(),
            disk: DiskLive::default(),
            figures: Figures::new(&age_bounds(&[])),
        }
    }
}

/// The figures of one latency class.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassLive {
    pub name: Name,
    pub window: Millis,
    pub ready: u64,
    pub held: u64,
    pub delayed: u64,
    pub leased: u64,
    pub oldest_ready_at: Option<Timestamp>,
    pub oldest_held_at: Option<Timestamp>,
    pub claims_per_second: f64,
    pub first_attempt_p95: Option<Millis>,
}

/// How many destinations are in which state; held ones are active ones that let nothing through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DestinationsLive {
    pub active: u64,
    pub held: u64,
    pub paused: u64,
    pub disabled: u64,
}

/// The room on the disk of the file, as of this picture: an idle server looks at it seldom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskLive {
    pub free_bytes: u64,
    /// What is to stay free; 0: it is not looked at.
    pub kept_bytes: u64,
    /// Nothing new is taken.
    pub low: bool,
}

/// A destination that is shown one by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedLive {
    pub name: Name,
    pub in_flight: u32,
    pub limit: u32,
    pub hold_until: Option<Timestamp>,
    pub waiting: u64,
}

/// What has happened since the start, for metrics: only ever more.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    pub accepted: [u64; MAX_CLASSES],
    pub duplicates: u64,
    /// By class and, in the order of [`Ending::ALL`], by end.
    pub finished: [[u64; Ending::ALL.len()]; MAX_CLASSES],
    /// By class: first attempts, and others.
    pub claims: [[u64; 2]; MAX_CLASSES],
    /// In the order of [`AttemptResult::ALL`].
    pub attempts: [u64; AttemptResult::ALL.len()],
    pub first_attempt_age: [Histogram; MAX_CLASSES],
    /// From the moment a claim could be made to the claim: ours alone.
    pub scheduler_lag: [Histogram; MAX_CLASSES],
    /// From due to that moment: theirs.
    pub gate_wait: [Histogram; MAX_CLASSES],
    /// After a refusal, and after another failure.
    pub recovery: [Histogram; 2],
    /// By [`RETRY_AFTER`] and, within, by [`CLAMPED`].
    pub retry_after: [[u64; CLAMPED.len()]; RETRY_AFTER.len()],
    /// Rows of lanes that were read.
    pub rows_examined: u64,
    pub attempt_duration: Histogram,
    pub attempts_per_delivery: Histogram,
    pub leases_expired: u64,
    pub clock_steps: u64,
    /// Until then nothing is ended because of its time: the wall clock has leapt forward.
    pub clock_proven_at: Mono,
}

/// The bounds of a histogram in ascending order, shared by all that have the same.
pub type Bounds = Arc<[f64]>;

/// Bounds of ages in seconds: [`TIME_BOUNDS`] and every window, each once.
#[must_use]
pub fn age_bounds(windows: &[Millis]) -> Bounds {
    let windows = windows.iter().map(|window| window.0 as f64 / 1_000.0);
    let mut bounds: Vec<f64> = TIME_BOUNDS.into_iter().chain(windows).collect();
    bounds.sort_by(f64::total_cmp);
    bounds.dedup();
    bounds.into()
}

impl Figures {
    fn new(age_bounds: &Bounds) -> Figures {
        Figures {
            accepted: [0; MAX_CLASSES],
            duplicates: 0,
            finished: [[0; Ending::ALL.len()]; MAX_CLASSES],
            claims: [[0; 2]; MAX_CLASSES],
            attempts: [0; AttemptResult::ALL.len()],
            first_attempt_age: ages(age_bounds),
            scheduler_lag: ages(age_bounds),
            gate_wait: ages(age_bounds),
            recovery: std::array::from_fn(|_| Histogram::new(age_bounds)),
            retry_after: [[0; CLAMPED.len()]; RETRY_AFTER.len()],
            rows_examined: 0,
            attempt_duration: Histogram::new(&TIME_BOUNDS.into()),
            attempts_per_delivery: Histogram::new(&ATTEMPT_BOUNDS.into()),
            leases_expired: 0,
            clock_steps: 0,
            clock_proven_at: Mono(0),
        }
    }
}

/// Counts by bucket, with the sum of what was counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    pub bounds: Bounds,
    /// One for each bound, and one for what is beyond the last.
    pub buckets: Vec<u64>,
    pub sum: f64,
}

impl Histogram {
    /// An empty one.
    #[must_use]
    pub fn new(bounds: &Bounds) -> Histogram {
        Histogram { bounds: Arc::clone(bounds), buckets: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    /// Counts one.
    pub fn observe(&mut self, value: f64) {
        let place = self.bounds.partition_point(|bound| *bound < value);
        self.buckets[place] += 1;
        self.sum += value;
    }

    /// How many were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

/// The bound under which `share` of the counts of both lie; None without counts.
fn percentile(one: &Histogram, other: &Histogram, share: f64) -> Option<Millis> {
    let wanted = (one.count() + other.count()) as f64 * share;
    if wanted <= 0.0 {
        return None;
    }
    let mut sum = 0;
    for (place, bound) in one.bounds.iter().enumerate() {
        sum += one.buckets[place] + other.buckets[place];
        if sum as f64 >= wanted {
            return Some(in_millis(*bound));
        }
    }
    one.bounds.last().map(|bound| in_millis(*bound))
}

fn in_millis(seconds: f64) -> Millis {
    Millis((seconds * 1_000.0).round() as u64)
}

/// The counting side: what the engine tells as it goes.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) figures: Figures,
    pub(super) quarantined: u64,
    /// Attempts out, by class.
    pub(super) leased: [u64; MAX_CLASSES],
    samples: VecDeque<Sample>,
    /// Ages of first attempts, in this half of the recent past and the one before.
    recent: [[Histogram; MAX_CLASSES]; 2],
    turned: Mono,
    pub(super) pressure: Pressure,
    age_bounds: Bounds,
    classes: usize,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Mono,
    accepted: u64,
    finished: u64,
    claims: [u64; MAX_CLASSES],
}

/// What happens a second, over the recent past.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rates {
    pub(super) accepted: f64,
    pub(super) finished: f64,
    pub(super) claims: [f64; MAX_CLASSES],
}

fn seconds(length: Millis) -> f64 {
    length.0 as f64 / 1_000.0
}

fn ages(bounds: &Bounds) -> [Histogram; MAX_CLASSES] {
    std::array::from_fn(|_| Histogram::new(bounds))
}

impl Tally {
    /// Counts for classes of these windows, in the order of their numbers.
    pub(super) fn new(windows: &[Millis], quarantined: u64, now: Now) -> Tally {
        let age_bounds = age_bounds(windows);
        Tally {
            figures: Figures::new(&age_bounds),
            quarantined,
            leased: [0; MAX_CLASSES],
            samples: VecDeque::new(),
            recent: [ages(&age_bounds), ages(&age_bounds)],
            turned: now.mono,
            pressure: Pressure::new(windows, now.mono),
            age_bounds,
            classes: windows.len(),
        }
    }

    /// Classes have these windows from now on. A histogram of ages whose buckets are others begins
    /// anew: what was counted cannot be told apart by them.
    pub(super) fn set_windows(&mut self, windows: &[Millis], now: Now) {
        self.classes = windows.len();
        self.pressure = Pressure::new(windows, now.mono);
        let bounds = age_bounds(windows);
        if bounds == self.age_bounds {
            return;
        }
        let figures = &mut self.figures;
        (figures.first_attempt_age, figures.scheduler_lag, figures.gate_wait) =
            (ages(&bounds), ages(&bounds), ages(&bounds));
        self.recent = [ages(&bounds), ages(&bounds)];
        self.age_bounds = bounds;
    }

    pub(super) fn accepted(&mut self, class: ClassNo) {
        self.figures.accepted[usize::from(class.0)] += 1;
    }

    /// A claim of work that was due at `lease.due`: for a first attempt that is when it was
    /// accepted, or its `not_before`.
    pub(super) fn claimed(&mut self, lease: &Lease, lag: Millis, now: Timestamp) {
        let class = usize::from(lease.lane.class().0);
        let waited = now.since(lease.due);
        self.figures.scheduler_lag[class].observe(seconds(lag));
        self.figures.gate_wait[class].observe(seconds(Millis(waited.0.saturating_sub(lag.0))));
        self.leased[class] += 1;
        self.figures.claims[class][usize::from(!lease.lane.is_first())] += 1;
        if lease.lane.is_first() {
            let age = seconds(waited);
            self.figures.first_attempt_age[class].observe(age);
            self.recent[0][class].observe(age);
            self.pressure.observe(class, lag);
        }
    }

    pub(super) fn returned(&mut self, lease: &Lease) {
        self.leased[usize::from(lease.lane.class().0)] -= 1;
    }

    /// An attempt has ended, after `took` where that is known.
    pub(super) fn attempted(&mut self, attempt: &Attempt, took: Option<Millis>) {
        let place = AttemptResult::ALL.iter().position(|result| *result == attempt.result);
        self.figures.attempts[place.expect("every result is listed")] += 1;
        if let Some(took) = took {
            self.figures.attempt_duration.observe(seconds(took));
        }
    }

    /// A destination works again.
    pub(super) fn recovered(&mut self, it: Recovered) {
        // What began before the start is not known to be the one or the other.
        let Some(began_with) = it.began_with else { return };
        let failure = began_with != AttemptResult::RateLimited;
        self.figures.recovery[usize::from(failure)].observe(seconds(it.after));
    }

    /// What a receiver named, if its answer was one that may name a time.
    pub(super) fn asked(&mut self, result: AttemptResult, asked: &Asked) {
        let kind = match asked.retry_after {
            RetryAfter::Seconds(_) => 0,
            RetryAfter::Date(_) => 1,
            RetryAfter::Invalid => 2,
            RetryAfter::Absent if result == AttemptResult::RateLimited => 3,
            RetryAfter::Absent => return,
        };
        let clamped = match asked.clamped {
            None => 0,
            Some(Clamped::Min) => 1,
            Some(Clamped::Max) => 2,
        };
        self.figures.retry_after[kind][clamped] += 1;
    }

    pub(super) fn finished(&mut self, class: ClassNo, outcome: Ending, attempts: u32) {
        let place = Ending::ALL.iter().position(|end| *end == outcome).expect("every end is listed");
        self.figures.finished[usize::from(class.0)][place] += 1;
        self.figures.attempts_per_delivery.observe(f64::from(attempts));
        self.quarantined += u64::from(outcome == Ending::Quarantined);
    }

    /// A delivery that had ended is no longer there.
    pub(super) fn forgotten(&mut self, it: &Delivery) {
        let quarantined = matches!(it.state, State::Terminal { outcome: Ending::Quarantined, .. });
        self.quarantined = self.quarantined.saturating_sub(u64::from(quarantined));
    }

    /// Takes a sample when it is time, and says how fast things go.
    pub(super) fn rates(&mut self, now: Mono) -> Rates {
        let sum = |all: &[[u64; 2]; MAX_CLASSES]| all.map(|[first, retry]| first + retry);
        let sample = Sample {
            at: now,
            accepted: self.figures.accepted.iter().sum(),
            finished: self.figures.finished.iter().flatten().sum(),
            claims: sum(&self.figures.claims),
        };
        if self.samples.back().is_none_or(|last| now.since(last.at) >= SAMPLE_EVERY) {
            self.samples.push_back(sample);
        }
        if self.samples.len() > RATE_SAMPLES {
            self.samples.pop_front();
        }
        self.turn(now);
        let Some(first) = self.samples.front().filter(|first| first.at < now) else {
            return Rates::default();
        };
        let seconds = now.since(first.at).0 as f64 / 1_000.0;
        let rate = |now: u64, then: u64| (now - then) as f64 / seconds;
        Rates {
            accepted: rate(sample.accepted, first.accepted),
            finished: rate(sample.finished, first.finished),
            claims: std::array::from_fn(|class| rate(sample.claims[class], first.claims[class])),
        }
    }

    /// The time under which 95 % of the recent first attempts of a class began.
    pub(super) fn p95(&self, class: usize) -> Option<Millis> {
        percentile(&self.recent[0][class], &self.recent[1][class], 0.95)
    }

    pub(super) fn classes(&self) -> usize {
        self.classes
    }

    fn turn(&mut self, now: Mono) {
        if now.since(self.turned) >= RECENT {
            self.recent.swap(0, 1);
            self.recent[0] = ages(&self.age_bounds);
            self.turned = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_bound_of_its_bucket() {
        let bounds = age_bounds(&[]);
        let (mut one, mut other) = (Histogram::new(&bounds), Histogram::new(&bounds));
        assert_eq!(percentile(&one, &other, 0.95), None);
        for _ in 0..95 {
            one.observe(0.004);
        }
        for _ in 0..5 {
            other.observe(7.0);
        }
        assert_eq!(percentile(&one, &other, 0.95), Some(Millis(5)));
        other.observe(7.0);
        assert_eq!(percentile(&one, &other, 0.95), Some(Millis(10_000)));
        assert_eq!((one.count(), other.count()), (95, 6));
    }

    /// A percentile inside a window is told from one beyond it, whatever the window.
    #[test]
    fn every_window_is_a_bound_once() {
        let check = |windows: &[u64], more: &[f64]| {
            let windows: Vec<Millis> = windows.iter().copied().map(Millis).collect();
            let got = age_bounds(&windows);
            assert!(got.is_sorted_by(|a, b| a < b), "{got:?}");
            assert_eq!(got.len(), TIME_BOUNDS.len() + more.len(), "{got:?}");
            assert!(TIME_BOUNDS.iter().chain(more).all(|bound| got.contains(bound)), "{got:?}");
            for window in windows {
                let mut ages = Histogram::new(&got);
                ages.observe(window.0 as f64 / 1_000.0);
                assert_eq!(percentile(&ages, &Histogram::new(&got), 0.95), Some(window));
            }
        };
        check(&[], &[]);
        check(&[1_000, 10_000, 300_000], &[]);
        check(&[100, 2_000, 2_000, 333, 604_800_000], &[2.0, 0.333, 604_800.0]);
    }
}
