//! What of the schedule is shown: totals, and a gate as operators see it. Changes nothing.

use super::counts::Waiting;
use super::{Schedule, index};
use crate::model::{ClassNo, DestNo, DestinationState, MAX_CLASSES};
use crate::outcome::Hold;
use crate::time::{Mono, Now, Timestamp};

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

    /// Looks at every gate once: microseconds for a thousand of them.
    #[must_use]
    pub fn survey(&self, now: Now) -> Survey {
        let mut survey = Survey::default();
        for gate in &self.gates {
            let closed = gate.is_closed(now.mono);
            let state = match gate.settings.state {
                DestinationState::Active if closed => &mut survey.held,
                DestinationState::Active => &mut survey.active,
                DestinationState::Paused => &mut survey.paused,
                DestinationState::Disabled => &mut survey.disabled,
                DestinationState::Deleted => continue,
            };
            *state += 1;
            let oldest = if closed { &mut survey.oldest_held } else { &mut survey.oldest_ready };
            for (lane, due) in gate.heads().filter(|(_, due)| *due <= now.wall) {
                let oldest = &mut oldest[usize::from(lane.class().0)];
                *oldest = Some(oldest.map_or(due, |known| known.min(due)));
            }
        }
        survey
    }

    /// True unless claims were stopped.
    #[must_use]
    pub fn is_claiming(&self) -> bool {
        !self.stopped
    }
}

/// What a look at every gate shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Destinations that are open; the other active ones are held.
    pub active: u64,
    pub held: u64,
    pub paused: u64,
    pub disabled: u64,
    /// By class: the earliest due time that has passed, at destinations that let something
    /// through and at those that do not.
    pub oldest_ready: [Option<Timestamp>; MAX_CLASSES],
    pub oldest_held: [Option<Timestamp>; MAX_CLASSES],
}
