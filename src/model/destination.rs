//! A destination: where deliveries go, and the settings its gate and its requests follow.

use std::fmt;

use ipnet::IpNet;
use url::Url;

use crate::model::{Certificates, Header, LiveSecret, Name};
use crate::time::{Millis, Timestamp};

/// Requests in flight to one destination unless it says otherwise (`send.destination_concurrency`).
pub const CONCURRENCY_DEFAULT: u32 = 8;
/// The most requests in flight that one destination may be given: all slots of a default server.
pub const CONCURRENCY_MAX: u32 = 4096;
/// The most requests a second that one destination may be given: beyond what one server sends.
pub const RATE_MAX: f64 = 100_000.0;
/// The most requests that may go at once after a rest: a second of the highest rate.
pub const BURST_MAX: u32 = 100_000;
/// The burst of a rate that gives none: one after the other.
pub const BURST_DEFAULT: u32 = 1;
/// Range of `timeout_ms` (API.md).
pub const TIMEOUT_RANGE: std::ops::RangeInclusive<u64> = 1_000..=60_000;
/// Range of `connect_timeout_ms`: never longer than the longest whole attempt.
pub const CONNECT_TIMEOUT_RANGE: std::ops::RangeInclusive<u64> = 100..=60_000;
/// Networks one destination may be allowed.
pub const MAX_CIDRS: usize = 16;
/// Length of a URL; what is longer is refused.
pub const MAX_URL: usize = 2048;
/// Length of the reason an operator gives for a pause, a hold or the like.
pub const MAX_REASON: usize = 200;

/// What a 429 holds back: everything for the destination, or only the delivery it answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldScope {
    Destination,
    Delivery,
}

/// The state that only its verbs change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DestinationState {
    Active,
    /// By an operator: accepts, keeps, sends nothing.
    Paused,
    /// By an operator or a 410: refuses new deliveries, keeps what waits.
    Disabled,
    /// Deleted; its number and name stay while a record names them.
    Deleted,
}

impl DestinationState {
    /// The word for it in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            DestinationState::Active => "active",
            DestinationState::Paused => "paused",
            DestinationState::Disabled => "disabled",
            DestinationState::Deleted => "deleted",
        }
    }
}

impl HoldScope {
    /// The word for it in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            HoldScope::Destination => "destination",
            HoldScope::Delivery => "delivery",
        }
    }
}

/// What an operator sets. The URL is kept in its canonical form and was admitted by the
/// egress rules when it was set; it is checked again at every send.
#[derive(Clone, PartialEq, Eq)]
pub struct Destination {
    pub tenant: Name,
    pub url: Url,
    pub concurrency_max: u32,
    /// The limit of requests in flight follows what the receiver can take, up to that.
    pub adaptive: bool,
    /// None: as often as there is work and room.
    pub rate: Option<Rate>,
    pub policy: Name,
    pub timeout: Millis,
    pub connect_timeout: Millis,
    pub headers: Vec<Header>,
    /// What signs its requests, the newest first; at most [`secret::MAX_SECRETS`](crate::model::secret::MAX_SECRETS).
    pub secrets: Vec<LiveSecret>,
    pub tls: Option<Certificates>,
    pub allow_cidrs: Vec<IpNet>,
    pub hold_scope: HoldScope,
}

impl fmt::Debug for Destination {
    /// Its URL may be a secret: the host alone is shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Destination");
        shown.field("tenant", &self.tenant).field("host", &self.url.host_str());
        shown.field("policy", &self.policy).field("headers", &self.headers).finish_non_exhaustive()
    }
}

/// How often requests may go to a destination. Kept in whole numbers, so that what is worked out
/// from it is the same everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Requests in a million seconds, at least 1.
    pub per_million_seconds: u64,
    /// Requests that may go at once after a rest, at least 1.
    pub burst: u32,
}

impl Rate {
    /// A rate of so many requests a second, to six decimals: a minute apart is 0.016667. None
    /// unless it is from 0.000001 to [`RATE_MAX`], and `burst` from 1 to [`BURST_MAX`].
    #[must_use]
    pub fn per_second(per_second: f64, burst: u32) -> Option<Rate> {
        let inside = per_second > 0.0 && per_second <= RATE_MAX;
        // At most 10^11: every whole number up to there is a double, and the cast is exact.
        let rounded = inside.then(|| (per_second * 1_000_000.0).round() as u64);
        Rate::in_bounds(rounded?, burst)
    }

    /// The rate of these numbers as they are stored; None when they are out of bounds.
    #[must_use]
    pub fn in_bounds(per_million_seconds: u64, burst: u32) -> Option<Rate> {
        let most = RATE_MAX as u64 * 1_000_000;
        let good = (1..=most).contains(&per_million_seconds) && (1..=BURST_MAX).contains(&burst);
        good.then_some(Rate { per_million_seconds, burst })
    }

    /// Requests a second: the very number that was given, if it has at most six decimals.
    #[must_use]
    pub fn as_per_second(self) -> f64 {
        // The nearest double to a decimal fraction, as its text would be read.
        self.per_million_seconds as f64 / 1_000_000.0
    }

    /// Microseconds from one request to the next, rounded up so that the rate is never exceeded.
    #[must_use]
    pub fn interval_micros(self) -> u64 {
        /// Microseconds in a million seconds.
        const MICROS: u64 = 1_000_000_000_000;
        MICROS.div_ceil(self.per_million_seconds)
    }
}

/// Who put a destination into its state, when and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateNote {
    pub state: DestinationState,
    pub reason: String,
    pub since: Timestamp,
    /// `operator` or `receiver` (a 410).
    pub by: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was given comes back, and the gap between two requests is never too short.
    #[test]
    fn rates_come_back_as_they_were_given() {
        let check = |given: f64, per_million_seconds: u64, shown: f64, interval_micros: u64| {
            let rate = Rate::per_second(given, 7).expect("within bounds");
            assert_eq!(rate, Rate { per_million_seconds, burst: 7 }, "{given}");
            assert_eq!(rate.as_per_second(), shown, "{given}");
            assert_eq!(rate.interval_micros(), interval_micros, "{given}");
        };
        check(1.0, 1_000_000, 1.0, 1_000_000);
        check(0.5, 500_000, 0.5, 2_000_000);
        check(10.0, 10_000_000, 10.0, 100_000);
        check(3.0, 3_000_000, 3.0, 333_334);
        check(2.2, 2_200_000, 2.2, 454_546);
        check(0.016_667, 16_667, 0.016_667, 59_998_801);
        check(1.0 / 60.0, 16_667, 0.016_667, 59_998_801);
        check(0.000_001, 1, 0.000_001, 1_000_000_000_000);
        check(99_999.999_999, 99_999_999_999, 99_999.999_999, 11);
        check(100_000.0, 100_000_000_000, 100_000.0, 10);
    }

    #[test]
    fn numbers_that_are_no_rate() {
        for given in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, -0.0, 0.0, 1e-9, 100_000.1, 1e300] {
            assert_eq!(Rate::per_second(given, 1), None, "{given}");
        }
        for burst in [0, 100_001, u32::MAX] {
            assert_eq!(Rate::per_second(1.0, burst), None, "{burst}");
        }
        assert!(Rate::per_second(1.0, 1).is_some() && Rate::per_second(1.0, 100_000).is_some());
        for stored in [0, 100_000_000_001, u64::MAX] {
            assert_eq!(Rate::in_bounds(stored, 1), None, "{stored}");
        }
    }
}
