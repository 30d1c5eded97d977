//! What a gate learns of its destination: settings, holds, refusals in a row, and how it has
//! answered. It says when a gate opens and how far, and never who is next.

use super::breaker::{Breaker, BreakerState};
use super::gate::{Gate, GateSettings};
use super::limit::Limit;
use super::record::Recovered;
use super::{Schedule, index};
use crate::model::{DestNo, DestinationState};
use crate::outcome::{AttemptResult, GateMemory, Hold, HoldReason};
use crate::time::{Millis, Mono, Now, Timestamp};

/// Share of the newest answer in the smoothed one, in tenths (SCHEDULER.md 5: 0.3).
const NEWEST: u64 = 3;
/// A receiver's hold that was stored is never longer from now: `max_delay`'s limit and the
/// jitter. What is longer was written by a wrong clock.
const LONGEST_HOLD: Millis = Millis(7 * 24 * 3_600_000 + 30_000);

/// What a slot was given for, as it comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    pub destination: DestNo,
    /// Of the gate when the request went out.
    pub epoch: u32,
    /// To the destination, this request included.
    pub in_flight: u32,
    pub started: Mono,
}

/// What was seen of a request, as far as its destination is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub result: AttemptResult,
    /// How long it took; None: it is not known, or says nothing.
    pub latency: Option<Millis>,
    /// The destination refused, and everything for it waits so long.
    pub hold: Option<Hold>,
    /// It refused this delivery or all.
    pub refused: bool,
    /// The time that it named.
    pub asked: Option<Millis>,
}

/// What an answer says of its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Success,
    /// It answered and will not have this one.
    Answered,
    /// It answered that it cannot.
    Failed,
    /// It refused for a time.
    Refused,
    /// The connection broke, or what came was no answer.
    Broken,
    /// There was no connection, or no answer in time.
    Unreachable,
    /// Our rules forbid it.
    Forbidden,
    /// Not its doing.
    Unknown,
}

fn health(seen: &Seen) -> Health {
    match seen.result {
        AttemptResult::Success => Health::Success,
        _ if seen.refused => Health::Refused,
        AttemptResult::RateLimited => Health::Refused,
        AttemptResult::Redirect | AttemptResult::ClientError => Health::Answered,
        AttemptResult::ServerError => Health::Failed,
        AttemptResult::Ambiguous | AttemptResult::InvalidResponse => Health::Broken,
        AttemptResult::Timeout | AttemptResult::Connect | AttemptResult::Tls | AttemptResult::Dns => {
            Health::Unreachable
        }
        AttemptResult::Blocked => Health::Forbidden,
        AttemptResult::Interrupted | AttemptResult::NotProcessed | AttemptResult::Payload => Health::Unknown,
    }
}

impl Schedule {
    /// Applies an operator's settings. What was stopped comes back with one request, then 2, 4, …
    pub fn set(&mut self, no: DestNo, settings: GateSettings, now: Now) {
        self.change(no, now, |gate| {
            let before = gate.settings.state;
            if before == DestinationState::Disabled && settings.state == DestinationState::Active {
                gate.record.forgive();
                gate.breaker = Breaker::new();
            }
            if before != DestinationState::Active && settings.state == DestinationState::Active {
                gate.reopen();
            }
            gate.pace.configure(settings.rate, now.mono);
            gate.settings = settings;
        });
        self.changed.insert(no);
    }

    /// Lets nothing through until then, in place of any other hold: an operator's word.
    pub fn hold(&mut self, no: DestNo, hold: Hold, now: Now) {
        self.change(no, now, |gate| {
            gate.hold = Some((hold, now.mono_at(hold.until)));
            gate.hold_loaded = false;
            gate.reopen();
        });
        self.changed.insert(no);
    }

    /// Ends any hold; what waits comes back one request first, then 2, 4, …
    pub fn release_hold(&mut self, no: DestNo, now: Now) {
        self.change(no, now, |gate| {
            gate.hold = None;
            gate.reopen();
        });
        self.changed.insert(no);
    }

    /// Refusals in a row, counting one that has just come from a request of `epoch`: answers to
    /// requests that were out together count once.
    #[must_use]
    pub fn refusals(&self, no: DestNo, epoch: u32) -> u32 {
        let gate = self.gate(no);
        let before = gate.record.refusals;
        if gate.epoch == epoch { before.saturating_add(1) } else { before.max(1) }
    }

    /// Notes what an answer says about the destination, and says if it works again.
    pub fn learn(&mut self, admission: &Admission, seen: &Seen, now: Now) -> Option<Recovered> {
        let no = admission.destination;
        let refusals = self.refusals(no, admission.epoch);
        let gate = &mut self.gates[index(no)];
        let before = kept(gate);
        let mut recovered = None;
        if let Some(asked) = seen.asked {
            gate.record.asked(asked);
        }
        match health(seen) {
            Health::Success => recovered = success(gate, admission, now),
            Health::Refused => {
                gate.record.failure(seen.result, now.wall);
                gate.record.refusals = refusals;
                self.refuse(admission, seen.hold, now);
            }
            Health::Unknown => {}
            health @ (Health::Answered
            | Health::Failed
            | Health::Broken
            | Health::Unreachable
            | Health::Forbidden) => failure(gate, admission, seen.result, health, now),
        }
        if let Some(latency) = seen.latency {
            let gate = &mut self.gates[index(no)];
            gate.latency = Some(smoothed(gate.latency, latency));
            gate.move_to(self.pools.of(gate.latency, gate.pool));
        }
        if before != kept(self.gate(no)) || seen.refused {
            self.changed.insert(no);
        }
        self.change(no, now, |_| {});
        recovered
    }

    /// A refusal closes the gate. One that answers a request of before that only makes it longer.
    fn refuse(&mut self, admission: &Admission, hold: Option<Hold>, now: Now) {
        let gate = &mut self.gates[index(admission.destination)];
        let first = gate.epoch == admission.epoch;
        let Some(hold) = hold else {
            // The delivery waits, and the others do not: but it has answered, and takes less.
            if first {
                gate.breaker.answered();
                shrink(gate, admission, now.mono);
                gate.epoch += u32::from(!gate.settings.adaptive);
            }
            return;
        };
        let new = (hold, now.mono_at(hold.until));
        if first || gate.shut_until(now.mono).is_none() {
            gate.pace.refused(new.1, now.mono);
            close(gate);
            // The hold is what it waits for now, not the breaker.
            gate.breaker.answered();
        } else {
            gate.pace.shut(new.1);
        }
        // One that is over on its own clock may be ahead on the wall's, after a step back.
        let old = gate.hold.filter(|(_, until)| *until > now.mono);
        gate.hold = Some(old.map_or(new, |old| longer(old, new)));
        gate.hold_loaded = false;
    }

    /// What of the gate is to be stored.
    #[must_use]
    pub fn memory(&self, no: DestNo, now: Now) -> GateMemory {
        let gate = self.gate(no);
        let wall = |at: Mono| now.wall.plus(at.since(now.mono));
        GateMemory {
            hold: gate.hold.map(|(hold, _)| hold),
            refusals: gate.record.refusals,
            last_success_at: gate.record.last_success_at,
            failing_since: gate.record.failing_since,
            failure_streak: gate.record.failure_streak,
            latency: gate.latency,
            limit: gate.limit.now(gate.settings.max),
            learnt: gate.pace.memory().map(|(rate, floor)| ((rate * 1e6) as u64, (floor * 1e6) as u64)),
            breaker_opened: gate.breaker.opened(),
            breaker_until: gate.breaker.shut_until().map(wall),
            paced_until: gate.pace.arrival().map(wall),
        }
    }

    /// The gates whose memory has changed since this was last asked.
    pub fn take_changed(&mut self) -> Vec<DestNo> {
        std::mem::take(&mut self.changed).into_iter().collect()
    }
}

/// What a new gate knows from before the start.
pub(super) fn recall(gate: &mut Gate, memory: &GateMemory, now: Now) {
    let mono = |at: Timestamp| now.mono_at(at);
    let last = |hold: Hold| match hold.reason {
        HoldReason::Operator => hold,
        HoldReason::RateLimited | HoldReason::Unavailable => {
            Hold { until: hold.until.min(now.wall.plus(LONGEST_HOLD)), ..hold }
        }
    };
    gate.hold =
        memory.hold.map(last).filter(|hold| hold.until > now.wall).map(|hold| (hold, mono(hold.until)));
    gate.hold_loaded = gate.hold.is_some();
    gate.record.refusals = memory.refusals;
    gate.record.last_success_at = memory.last_success_at;
    gate.record.failing_since = memory.failing_since;
    gate.record.failure_streak = memory.failure_streak;
    gate.latency = memory.latency;
    if memory.hold.is_none() && memory.latency.is_some() {
        let before = if gate.settings.adaptive { memory.limit } else { gate.settings.max };
        gate.limit = Limit::known(before);
    }
    gate.breaker = Breaker::resume(memory.breaker_opened, memory.breaker_until.map(mono), now.mono);
    let learnt = memory.learnt.map(|(rate, floor)| (rate as f64 / 1e6, floor as f64 / 1e6));
    if *memory != GateMemory::default() {
        gate.pace.resume(memory.paced_until.map(mono), learnt, now.mono);
    }
}

/// By what was seen: nothing of before counts any more, and it opens with one request.
fn close(gate: &mut Gate) {
    gate.limit.restart(gate.settings.adaptive);
    gate.epoch += 1;
}

/// It bears less: half as much, for one that adapts. What was out when that was seen before says
/// nothing new.
fn shrink(gate: &mut Gate, admission: &Admission, now: Mono) {
    let known = gate.halved_at.is_some_and(|at| admission.started <= at);
    if gate.settings.adaptive && !known {
        gate.limit.halve();
        gate.halved_at = Some(now);
    }
}

/// An answer to a request of before the last closing does not say that it works again.
fn success(gate: &mut Gate, admission: &Admission, now: Now) -> Option<Recovered> {
    if gate.epoch != admission.epoch {
        gate.record.last_success_at = Some(now.wall);
        return None;
    }
    gate.record.refusals = 0;
    gate.breaker.answered();
    gate.pace.success(now.mono);
    if gate.halved_at.is_none_or(|at| admission.started > at) {
        gate.limit.answered(gate.settings.max, gate.settings.adaptive, admission.in_flight);
    }
    gate.record.success(now.wall)
}

fn failure(gate: &mut Gate, admission: &Admission, result: AttemptResult, health: Health, now: Now) {
    gate.record.failure(result, now.wall);
    if gate.epoch != admission.epoch {
        return;
    }
    let (max, adaptive) = (gate.settings.max, gate.settings.adaptive);
    let answered = matches!(health, Health::Answered | Health::Failed);
    if answered {
        gate.breaker.answered();
    }
    // Any answer widens a new gate: somebody is there. One that adapts goes by successes.
    if answered && !(adaptive && health == Health::Failed) {
        gate.limit.answered(max, adaptive, admission.in_flight);
    }
    let chance = crate::policy::seed(u128::from(admission.destination.0), gate.epoch);
    // What is asked once and breaks the connection is not there either.
    let asked = gate.breaker.state() == BreakerState::HalfOpen;
    let absent = health == Health::Unreachable || (asked && health == Health::Broken);
    if absent && gate.breaker.failed(gate.cohort(admission), chance, now.mono) {
        close(gate);
        gate.pace.idle();
    } else if matches!(health, Health::Failed | Health::Broken | Health::Unreachable) {
        shrink(gate, admission, now.mono);
    }
}

/// What of a gate is written when it changes; the rest is written along with it.
fn kept(gate: &Gate) -> (u32, Option<Timestamp>, bool, bool, u32, bool) {
    let record = &gate.record;
    let slow = gate.latency.is_some_and(|latency| latency > super::pool::AGE);
    let learnt = gate.pace.learnt().is_some();
    (record.refusals, record.failing_since, gate.latency.is_some(), slow, gate.breaker.opened(), learnt)
}

fn smoothed(before: Option<Millis>, newest: Millis) -> Millis {
    before.map_or(newest, |before| Millis((before.0 * (10 - NEWEST) + newest.0 * NEWEST) / 10))
}

/// The hold that ends later on both clocks: after a step of the wall clock the two may differ,
/// and after a restart only the wall time is left.
fn longer(old: (Hold, Mono), new: (Hold, Mono)) -> (Hold, Mono) {
    let reason = if new.1 > old.1 { new.0.reason } else { old.0.reason };
    (Hold { until: old.0.until.max(new.0.until), reason }, old.1.max(new.1))
}
