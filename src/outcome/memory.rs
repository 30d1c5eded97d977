//! What was learnt of a destination and outlives the process.

use super::Hold;
use crate::time::{Millis, Timestamp};

/// What of a gate is stored: written when it changes, at most once a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GateMemory {
    /// In wall time.
    pub hold: Option<Hold>,
    /// Times in a row that the destination has refused.
    pub refusals: u32,
    pub last_success_at: Option<Timestamp>,
    pub failing_since: Option<Timestamp>,
    pub failure_streak: u32,
    /// How long it takes to answer; None: nothing is known of it.
    pub latency: Option<Millis>,
    /// Requests that were allowed in flight.
    pub limit: u32,
    /// A rate that it was seen to take, and the least that it is paced to, in requests in a
    /// million seconds.
    pub learnt: Option<(u64, u64)>,
    /// Times in a row that the breaker has opened, and until when it is open.
    pub breaker_opened: u32,
    pub breaker_until: Option<Timestamp>,
    /// Where a slow configured rate stands.
    pub paced_until: Option<Timestamp>,
}

impl GateMemory {
    /// When the destination lets anything through again, if a hold or its breaker shuts it.
    #[must_use]
    pub fn shut_until(&self) -> Option<Timestamp> {
        self.hold.map(|hold| hold.until).max(self.breaker_until)
    }
}
