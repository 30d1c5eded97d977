//! What of the schedule is shown: totals, and a gate as operators see it. Changes nothing.

use super::breaker::BreakerState;
use super::counts::Waiting;
use super::record::Times;
use super::{Schedule, index};
use crate::model::{ClassNo, DestNo, DestinationState, MAX_CLASSES, TenantNo};
use crate::outcome::{AttemptResult, Hold};
use crate::time::{Now, Timestamp};

/// The live side of a destination, as it is shown.
#[derive(Clone, Debug, PartialEq)]
pub struct GateView {
    pub in_flight: u32,
    /// Requests that may be in flight now: 1 after a hold, then 2, 4, … to the destination's own.
    pub limit: u32,
    /// Everything not in flight and not ended, due or not.
    pub waiting: u64,
    pub oldest_due_at: Option<Timestamp>,
    /// Only while it is ahead.
    pub hold: Option<Hold>,
    pub breaker: BreakerState,
    /// When the breaker lets one request through.
    pub breaker_until: Option<Timestamp>,
    /// When its rate lets the next one through, if that is ahead.
    pub paced_until: Option<Timestamp>,
    /// Requests a second that it was seen to take.
    pub learnt_rate: Option<f64>,
    pub last_success_at: Option<Timestamp>,
    pub failing_since: Option<Timestamp>,
    pub failure_streak: u32,
    /// The times it named.
    pub asked: Option<Times>,
    /// How long it took to work again, and what the trouble began with.
    pub recovery: Option<(Times, Vec<(AttemptResult, u32)>)>,
}

/// A destination among others, as lists of them show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateLine {
    pub no: DestNo,
    pub tenant: TenantNo,
    pub waiting: u64,
    /// It lets nothing through: all of that is held.
    pub closed: bool,
    pub in_flight: u32,
    pub oldest_due_at: Option<Timestamp>,
    pub failing_since: Option<Timestamp>,
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
        (self.pools.slots(), self.pools.in_flight())
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
    pub fn view(&self, no: DestNo, now: Now) -> Option<GateView> {
        let gate = self.gates.get(index(no))?;
        let wall = |at: crate::time::Mono| now.wall.plus(at.since(now.mono));
        Some(GateView {
            in_flight: gate.in_flight,
            limit: gate.limit(),
            waiting: rows(&gate.waiting),
            oldest_due_at: gate.oldest_due(),
            hold: gate.hold.filter(|(_, until)| *until > now.mono).map(|(hold, _)| hold),
            breaker: gate.breaker.state(),
            breaker_until: gate.breaker.shut_until().map(wall),
            paced_until: Some(gate.pace.earliest()).filter(|at| *at > now.mono).map(wall),
            learnt_rate: gate.pace.learnt(),
            last_success_at: gate.record.last_success_at,
            failing_since: gate.record.failing_since,
            failure_streak: gate.record.failure_streak,
            asked: gate.record.asked_times(),
            recovery: gate.record.recoveries(),
        })
    }

    /// Until when a hold lets nothing through, in wall time.
    #[must_use]
    pub fn held_until(&self, no: DestNo) -> Option<Timestamp> {
        self.gate(no).hold.map(|(hold, _)| hold.until)
    }

    /// Until when a hold or the breaker lets nothing through, in wall time.
    #[must_use]
    pub fn shut_until(&self, no: DestNo, now: Now) -> Option<Timestamp> {
        self.memory(no, now).shut_until()
    }

    /// Every destination that is not deleted, in one pass over what is in RAM.
    pub fn lines(&self) -> impl Iterator<Item = GateLine> {
        let living = |(_, gate): &(u32, &super::Gate)| gate.settings.state != DestinationState::Deleted;
        (0..).zip(&self.gates).filter(living).map(|(no, gate)| GateLine {
            no: DestNo(no),
            tenant: gate.settings.tenant,
            waiting: rows(&gate.waiting),
            closed: gate.closed,
            in_flight: gate.in_flight,
            oldest_due_at: gate.oldest_due(),
            failing_since: gate.record.failing_since,
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

    /// I7: true when every count is what it comes to, worked out again from what is out.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let out: u32 = self.gates.iter().map(|gate| gate.in_flight).sum();
        self.pools.is_sound() && out == self.pools.in_flight()
    }
}

fn rows(by_lane: &[u32]) -> u64 {
    by_lane.iter().map(|rows| u64::from(*rows)).sum()
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
