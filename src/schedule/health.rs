//! What a gate learns of its destination: settings, holds, refusals in a row, and how it has
//! answered. It says when a gate opens, and never who is next.

use super::{GateSettings, Schedule};
use crate::model::{DestNo, DestinationState};
use crate::outcome::Hold;
use crate::time::{Mono, Now, Timestamp};

/// What of a gate outlives the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GateMemory {
    pub hold: Option<Hold>,
    pub refusals: u32,
    pub last_success_at: Option<Timestamp>,
    pub failing_since: Option<Timestamp>,
    pub failure_streak: u32,
}

/// What an answer says about a destination, besides what it says about its delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    Success,
    /// It answered, though not well: it is there.
    Answered,
    /// It did not answer.
    Silent,
    /// Nothing was learnt: not its doing.
    Unknown,
}

impl Schedule {
    /// Applies an operator's settings.
    pub fn set(&mut self, no: DestNo, settings: GateSettings, now: Now) {
        self.change(no, now, |gate| {
            let enabled = gate.settings.state == DestinationState::Disabled
                && settings.state == DestinationState::Active;
            if enabled {
                (gate.refusals, gate.failing_since, gate.failure_streak) = (0, None, 0);
            }
            gate.settings = settings;
        });
    }

    /// Lets nothing through until the hold's end, if that is later than it already is; an
    /// operator's hold (`replace`) takes the place of any other.
    pub fn hold(&mut self, no: DestNo, hold: Hold, replace: bool, now: Now) {
        self.change(no, now, |gate| {
            let new = (hold, now.mono_at(hold.until));
            let old = gate.hold.filter(|_| !replace);
            gate.hold = Some(old.map_or(new, |old| longer(old, new)));
            gate.limit = 1;
            gate.hold_loaded = false;
            gate.epoch += u32::from(replace);
        });
    }

    /// Ends any hold; what waits comes back one request first, then 2, 4, …
    pub fn release_hold(&mut self, no: DestNo, now: Now) {
        self.change(no, now, |gate| {
            gate.hold = None;
            gate.limit = 1;
            gate.epoch += 1;
        });
    }

    /// The epoch of requests admitted now.
    #[must_use]
    pub fn epoch(&self, no: DestNo) -> u32 {
        self.gate(no).epoch
    }

    /// Refusals in a row, counting one that has just come from a request of `epoch`: answers to
    /// requests that were out together count once.
    #[must_use]
    pub fn refusals(&self, no: DestNo, epoch: u32) -> u32 {
        let gate = self.gate(no);
        if gate.epoch == epoch { gate.refusals.saturating_add(1) } else { gate.refusals.max(1) }
    }

    /// Notes a refusal of a request of `epoch`; see [`Schedule::refusals`].
    pub fn refused(&mut self, no: DestNo, epoch: u32) {
        let refusals = self.refusals(no, epoch);
        let gate = self.gate_mut(no);
        gate.refusals = refusals;
        if gate.epoch == epoch {
            gate.epoch += 1;
        }
    }

    /// Notes what an answer to a request of `epoch` says about the destination. True when that
    /// is to be remembered on disk.
    pub fn learn(&mut self, no: DestNo, epoch: u32, health: Health, at: Timestamp) -> bool {
        let gate = self.gate_mut(no);
        let before = (gate.refusals, gate.failing_since);
        match health {
            Health::Success => {
                gate.last_success_at = Some(at);
                (gate.failing_since, gate.failure_streak) = (None, 0);
                if gate.epoch == epoch {
                    gate.refusals = 0;
                }
            }
            Health::Answered | Health::Silent => {
                gate.failing_since.get_or_insert(at);
                gate.failure_streak = gate.failure_streak.saturating_add(1);
            }
            Health::Unknown => {}
        }
        let there = matches!(health, Health::Success | Health::Answered);
        if there && gate.epoch == epoch {
            gate.limit = gate.limit.saturating_add(1).min(gate.settings.max.max(1));
        }
        before != (gate.refusals, gate.failing_since)
    }

    /// What of the gate is to be stored.
    #[must_use]
    pub fn memory(&self, no: DestNo) -> GateMemory {
        let gate = self.gate(no);
        GateMemory {
            hold: gate.hold.map(|(hold, _)| hold),
            refusals: gate.refusals,
            last_success_at: gate.last_success_at,
            failing_since: gate.failing_since,
            failure_streak: gate.failure_streak,
        }
    }
}

/// The hold that ends later on both clocks: after a step of the wall clock the two may differ,
/// and after a restart only the wall time is left.
fn longer(old: (Hold, Mono), new: (Hold, Mono)) -> (Hold, Mono) {
    let reason = if new.1 > old.1 { new.0.reason } else { old.0.reason };
    (Hold { until: old.0.until.max(new.0.until), reason }, old.1.max(new.1))
}
