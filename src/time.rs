//! Time as a value: wall-clock milliseconds, monotonic milliseconds, and the pair of both
//! that every decision is given.
//!
//! This module never reads a clock. Disk holds wall time ([`Timestamp`]); what lives in RAM
//! (holds, leases out, timers) is monotonic ([`Mono`]). [`Now::mono_at`] is the only place
//! where one becomes the other.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Wall-clock time in milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

/// Milliseconds on a clock that never steps; its zero is the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mono(pub u64);

/// A length of time in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub u64);

/// The last millisecond that RFC 3339 can write: 9999-12-31T23:59:59.999Z.
const LAST: u64 = 253_402_300_799_999;

impl Timestamp {
    /// The latest time that can be shown; sums saturate here.
    pub const MAX: Timestamp = Timestamp(LAST);

    /// The instant `wait` after this one, at most [`Timestamp::MAX`].
    #[must_use]
    pub fn plus(self, wait: Millis) -> Timestamp {
        Timestamp(self.0.saturating_add(wait.0).min(LAST))
    }

    /// How long after `earlier` this is; zero when it is not after it.
    #[must_use]
    pub fn since(self, earlier: Timestamp) -> Millis {
        Millis(self.0.saturating_sub(earlier.0))
    }

    /// The whole minute this instant lies in, counted from 1970.
    #[must_use]
    pub fn minute(self) -> u64 {
        self.0 / 60_000
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Timestamp {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(u64::try_from(since.as_millis()).unwrap_or(LAST).min(LAST))
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339, UTC, always three digits of milliseconds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = i64::try_from(self.0.min(LAST)).unwrap_or(i64::MAX);
        match jiff::Timestamp::from_millisecond(millis) {
            Ok(time) => write!(f, "{time:.3}"),
            Err(_) => f.write_str("9999-12-31T23:59:59.999Z"),
        }
    }
}

impl FromStr for Timestamp {
    type Err = NotATime;

    /// Reads RFC 3339 with any offset; what lies before 1970 is refused.
    fn from_str(text: &str) -> Result<Timestamp, NotATime> {
        let time: jiff::Timestamp = text.parse().map_err(|_| NotATime)?;
        let millis = u64::try_from(time.as_millisecond()).map_err(|_| NotATime)?;
        Ok(Timestamp(millis.min(LAST)))
    }
}

/// The text is not an RFC 3339 time at or after 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an RFC 3339 time such as 2026-01-15T12:00:00Z")]
pub struct NotATime;

impl Mono {
    /// The instant `wait` after this one.
    #[must_use]
    pub fn plus(self, wait: Millis) -> Mono {
        Mono(self.0.saturating_add(wait.0))
    }

    /// How long after `earlier` this is; zero when it is not after it.
    #[must_use]
    pub fn since(self, earlier: Mono) -> Millis {
        Millis(self.0.saturating_sub(earlier.0))
    }
}

impl Millis {
    /// `seconds` whole seconds, saturating.
    #[must_use]
    pub fn seconds(seconds: u64) -> Millis {
        Millis(seconds.saturating_mul(1000))
    }

    /// The same length as the standard library's type.
    #[must_use]
    pub fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

impl From<Duration> for Millis {
    /// Rounds up, so that a wait is never shorter than it was asked to be.
    fn from(length: Duration) -> Millis {
        let up = length.as_nanos().div_ceil(1_000_000);
        Millis(u64::try_from(up).unwrap_or(u64::MAX))
    }
}

/// What a length of time is written in: as the config file has it, and no month of thirty days and a bit.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = self.0;
        let mut between = "";
        for (unit, millis) in UNITS {
            let count = left / millis;
            if count > 0 || (unit == "s" && self.0 == 0) {
                write!(f, "{between}{count}{unit}")?;
                between = " ";
            }
            left %= millis;
        }
        Ok(())
    }
}

/// The one reading of both clocks that a step of the engine is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Wall time: what is written to disk and shown.
    pub wall: Timestamp,
    /// Monotonic time: what timers in RAM are compared with.
    pub mono: Mono,
}

impl Now {
    /// The monotonic instant at which the wall clock will show `at` if it does not step.
    /// A time that has passed is now.
    #[must_use]
    pub fn mono_at(self, at: Timestamp) -> Mono {
        self.mono.plus(at.since(self.wall))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_3339_both_ways() {
        let check = |text: &str, want: Option<&str>| {
            let got = text.parse::<Timestamp>().ok().map(|t| t.to_string());
            assert_eq!(got.as_deref(), want, "{text}");
        };
        check("2026-01-15T12:00:00Z", Some("2026-01-15T12:00:00.000Z"));
        check("2026-01-15T12:00:00.1239Z", Some("2026-01-15T12:00:00.123Z"));
        check("2026-01-15T14:00:00+02:00", Some("2026-01-15T12:00:00.000Z"));
        check("1970-01-01T00:00:00Z", Some("1970-01-01T00:00:00.000Z"));
        check("1969-12-31T23:59:59Z", None);
        check("2026-01-15", None);
        check("2026-01-15T12:00:00", None);
        check("", None);
        check("tomorrow", None);
    }

    #[test]
    fn sums_saturate_where_the_calendar_ends() {
        assert_eq!(Timestamp(5).plus(Millis(u64::MAX)), Timestamp::MAX);
        assert_eq!(Timestamp::MAX.to_string(), "9999-12-31T23:59:59.999Z");
        assert_eq!(Timestamp(5).since(Timestamp(9)), Millis(0));
        assert_eq!(Millis::from(Duration::from_micros(1)), Millis(1));
    }

    /// What is shown is what the config file may say.
    #[test]
    fn lengths_are_written_as_they_are_read() {
        let check = |length: u64, want: &str| {
            assert_eq!(Millis(length).to_string(), want);
            let read = humantime::parse_duration(want).map(Millis::from);
            assert_eq!(read.ok(), Some(Millis(length)), "{want}");
        };
        check(0, "0s");
        check(5, "5ms");
        check(90_000, "1m 30s");
        check(600_000, "10m");
        check(72 * 3_600_000, "3d");
        check(90 * 86_400_000, "90d");
        check(3_650 * 86_400_000, "3650d");
        check(86_400_000 + 61_001, "1d 1m 1s 1ms");
    }

    #[test]
    fn a_wall_time_becomes_a_monotonic_one_only_through_now() {
        let now = Now { wall: Timestamp(1_000), mono: Mono(50) };
        assert_eq!(now.mono_at(Timestamp(1_200)), Mono(250));
        assert_eq!(now.mono_at(Timestamp(900)), Mono(50));
    }
}
