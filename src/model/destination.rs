//! A destination: where deliveries go, and the settings its gate and its requests follow.

use ipnet::IpNet;
use url::Url;

use crate::model::{Header, Name};
use crate::time::{Millis, Timestamp};

/// Requests in flight to one destination unless it says otherwise (`send.destination_concurrency`).
pub const CONCURRENCY_DEFAULT: u32 = 8;
/// The most requests in flight that one destination may be given: all slots of a default server.
pub const CONCURRENCY_MAX: u32 = 4096;
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    pub tenant: Name,
    pub url: Url,
    pub concurrency_max: u32,
    pub policy: Name,
    pub timeout: Millis,
    pub connect_timeout: Millis,
    pub headers: Vec<Header>,
    pub allow_cidrs: Vec<IpNet>,
    pub hold_scope: HoldScope,
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
