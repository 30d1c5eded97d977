//! Retry policy: how long to wait after a failure, how often, and for how long in all.
//!
//! Pure: jitter is a hash of what is being retried, so the same delivery and attempt always
//! wait the same time and no random source is needed.

use crate::time::Millis;

/// No wait is ever longer (API.md: `max_delay` at most 7 d).
pub const MAX_DELAY_LIMIT: Millis = Millis(7 * 24 * 3_600_000);
/// A 429 that names no time waits at most this long, whatever the schedule (API.md).
pub const UNNAMED_WAIT_LIMIT: Millis = Millis(3_600_000);
/// Steps a schedule may have: far more than anyone writes, few enough to print.
pub const MAX_STEPS: usize = 64;

/// How a waiting time is spread, so that what failed together does not come back together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jitter {
    /// Anywhere from nothing to the whole step.
    Full,
    /// From half the step to the step.
    Half,
    /// The step.
    None,
}

impl Jitter {
    /// The word for it in the configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Jitter::Full => "full",
            Jitter::Half => "half",
            Jitter::None => "none",
        }
    }
}

/// A named set of retry rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The wait after the first, second, … failure; the last one repeats. Never empty.
    pub schedule: Vec<Millis>,
    pub jitter: Jitter,
    pub min_delay: Millis,
    pub max_delay: Millis,
    /// 0: no limit, `max_age` decides.
    pub max_failures: u32,
    pub max_age: Millis,
    /// 4xx to treat as failures, besides 429.
    pub retry_statuses: Vec<u16>,
}

impl Default for Policy {
    /// The values of API.md's `[policy.default]`.
    fn default() -> Policy {
        let schedule = [5, 30, 120, 600, 1_800, 3_600, 7_200, 18_000, 36_000];
        Policy {
            schedule: schedule.map(Millis::seconds).to_vec(),
            jitter: Jitter::Half,
            min_delay: Millis::seconds(1),
            max_delay: Millis::seconds(24 * 3_600),
            max_failures: 0,
            max_age: Millis::seconds(72 * 3_600),
            retry_statuses: vec![408, 421, 425],
        }
    }
}

impl Policy {
    /// The wait before the next attempt when `step` failures have been counted (from 1).
    /// Inside `[min_delay, max_delay]`; the same for the same `seed`.
    #[must_use]
    pub fn backoff(&self, step: u32, seed: u64) -> Millis {
        let last = self.schedule.len().saturating_sub(1);
        let index = usize::try_from(step.saturating_sub(1)).unwrap_or(usize::MAX).min(last);
        let whole = self.schedule.get(index).copied().unwrap_or(self.min_delay);
        self.clamp(match self.jitter {
            Jitter::None => whole,
            Jitter::Full => Millis(share(whole.0, seed)),
            Jitter::Half => Millis(whole.0 / 2 + share(whole.0 - whole.0 / 2, seed)),
        })
    }

    /// `wait`, but not under `min_delay` nor over `max_delay`.
    #[must_use]
    pub fn clamp(&self, wait: Millis) -> Millis {
        wait.max(self.min_delay).min(self.max_delay)
    }
}

/// What is added to a time the receiver named: at most a tenth of it and at most 30 s, so that
/// everyone told the same second does not come in the same millisecond. Never negative.
#[must_use]
pub fn added_jitter(wait: Millis, seed: u64) -> Millis {
    Millis(share((wait.0 / 10).min(30_000), seed))
}

/// An evenly spread number in `0..=most`, the same for the same seed.
fn share(most: u64, seed: u64) -> u64 {
    let wide = u128::from(splitmix64(seed)) * (u128::from(most) + 1);
    u64::try_from(wide >> 64).unwrap_or(most)
}

/// One seed from a delivery's id (or a destination's number) and the attempt (or refusal).
#[must_use]
pub fn seed(id: u128, attempt: u32) -> u64 {
    let halves = (id >> 64) as u64 ^ (id as u64).rotate_left(32);
    splitmix64(halves ^ u64::from(attempt).wrapping_mul(0xD6E8_FEB8_6659_FD93))
}

/// The finaliser of `SplitMix64` (Steele, Lea, Flood: Fast splittable pseudorandom number
/// generators, OOPSLA 2014).
#[must_use]
pub fn splitmix64(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_schedule_and_its_last_step() {
        let policy = Policy { jitter: Jitter::None, ..Policy::default() };
        let check = |step: u32, seconds: u64| {
            assert_eq!(policy.backoff(step, 0), Millis::seconds(seconds), "step {step}");
        };
        check(0, 5);
        check(1, 5);
        check(2, 30);
        check(9, 36_000);
        check(10, 36_000);
        for step in [31, 32, 63, 64, 65, 1_000, u32::MAX] {
            check(step, 36_000);
        }
    }

    /// C118: what failed in the same second must not come back in the same second.
    #[test]
    fn c118_a_thousand_failures_spread_out() {
        let policy = Policy::default();
        for step in 2..=4_u32 {
            let waits: Vec<u64> =
                (0..1_000_u128).map(|id| policy.backoff(step, seed(id << 80, step)).0).collect();
            let (low, high) = (waits.iter().min().unwrap(), waits.iter().max().unwrap());
            assert!(*high - *low >= policy.schedule[step as usize - 1].0 * 2 / 5, "spread at step {step}");
            let fullest =
                waits.iter().map(|w| waits.iter().filter(|v| *v / 1_000 == w / 1_000).count()).max();
            assert!(step < 2 || fullest.unwrap() < 100, "largest second at step {step}: {fullest:?}");
        }
    }

    proptest! {
        /// C117: monotone in range for every step, never a panic.
        #[test]
        fn c117_backoff_stays_inside_its_step(step: u32, seed: u64) {
            let whole = Policy { jitter: Jitter::None, ..Policy::default() }.backoff(step, seed);
            let half = Policy::default().backoff(step, seed);
            let full = Policy { jitter: Jitter::Full, ..Policy::default() }.backoff(step, seed);
            prop_assert!(half >= Millis(whole.0 / 2) && half <= whole);
            prop_assert!(full >= Millis::seconds(1) && full <= whole);
        }

        #[test]
        fn added_jitter_is_a_tenth_and_thirty_seconds_at_most(wait: u64, seed: u64) {
            let added = added_jitter(Millis(wait), seed);
            prop_assert!(added.0 <= wait / 10 && added.0 <= 30_000);
        }
    }
}
