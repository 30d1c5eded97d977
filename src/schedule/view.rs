//! What of the schedule is shown: totals, and a gate as operators see it. Changes nothing.

use super::counts::Waiting;
use super::{Schedule, index};
use crate::model::{ClassNo, DestNo, DestinationState};
use crate::outcome::Hold;
use crate::time::{Mono, Timestamp};

/// The live side of a destination, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateView {
    pub in_flight: u32,
    /// Requests that may be in flight now: 1 after a hold, then 2, 4, … to the destination's own.
    pub limit: u32,
    /// Everything not in flight and not ended, due or not.
    pub waiting: u64,
    pub oldest_due_at: Option<Timestamp>,
    /// Only while it is ahead.
    pub hold: Option<Hold>,
    pub last_success_at: Option<Timestamp>,
    pub failing_since: Option<Timestamp>,
    pub failure_streak: u32,
}

impl Schedule {
    /// Gates there are, tombstones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.gates.len()
    }

    /// True before the first destination.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.gates.is_empty()
    }

    /// Slots in all and slots taken.
    #[must_use]
    pub fn slots(&self) -> (u32, u32) {
        (self.slots, self.in_flight)
    }

    /// Everything that waits, as far as it has been counted.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.counts.all()
    }

    /// What waits in a class.
    #[must_use]
    pub fn class(&self, class: ClassNo) -> Waiting {
        self.counts.waiting(class)
    }

    /// What becomes due in each of the next minutes.
    #[must_use]
    pub fn forecast(&self, now: Timestamp) -> Vec<u64> {
        self.counts.forecast(now)
    }

    /// The gate as it is shown.
    #[must_use]
    pub fn view(&self, no: DestNo, now: Mono) -> Option<GateView> {
        let gate = self.gates.get(index(no))?;
        Some(GateView {
            in_flight: gate.in_flight,
            limit: gate.limit.min(gate.settings.max),
            waiting: gate.waiting.iter().map(|rows| u64::from(*rows)).sum(),
            oldest_due_at: gate.oldest_due(),
            hold: gate.hold.filter(|(_, until)| *until > now).map(|(hold, _)| hold),
            last_success_at: gate.last_success_at,
            failing_since: gate.failing_since,
            failure_streak: gate.failure_streak,
        })
    }

    /// The states of all gates: active and open, active and held, paused, disabled.
    #[must_use]
    pub fn states(&self, now: Mono) -> [u64; 4] {
        let mut states = [0; 4];
        for gate in &self.gates {
            let place = match gate.settings.state {
                DestinationState::Active if gate.is_held(now) => 1,
                DestinationState::Active => 0,
                DestinationState::Paused => 2,
                DestinationState::Disabled => 3,
                DestinationState::Deleted => continue,
            };
            states[place] += 1;
        }
        states
    }
}
