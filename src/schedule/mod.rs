//! Who is next: a gate for each destination, its lanes, one timer a gate, slots, and counts.
//!
//! Touches neither the store nor a clock. A gate that lets nothing through is in no ring: no
//! record of a blocked destination is ever read, however many there are. Today's pick is a
//! round robin over gates; what replaces it replaces [`Schedule::pick`] and the ring.

mod counts;
mod gate;
mod health;
mod lane;
mod view;

use std::collections::{BTreeSet, VecDeque};

use crate::model::{DeliveryId, DestNo, DestinationState, DueEntry, Lane};
use crate::time::{Millis, Mono, Now, Timestamp};

use counts::Counts;
use gate::{Gate, LANES, Spot, Turn};

pub use counts::{FORECAST_MINUTES, Waiting};
pub use gate::GateSettings;
pub use health::{GateMemory, Health};
pub use lane::BUFFER;
pub use view::{GateView, Survey};

/// A connection unused for longer is not kept: receivers close theirs at about this age.
const KEEP_ALIVE: Millis = Millis(15_000);

/// What the engine is to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// A slot was taken for it; it comes back by [`Schedule::release`].
    Claim {
        destination: DestNo,
        lane: Lane,
        entry: DueEntry,
        keep_alive: bool,
    },
    /// The lane's head is on disk: read on after `after` and give it to [`Schedule::page`].
    Page {
        destination: DestNo,
        lane: Lane,
        after: Option<(Timestamp, DeliveryId)>,
    },
    Nothing,
}

/// Gates, ring and timers.
#[derive(Debug)]
pub struct Schedule {
    /// By number; dense, because numbers are given in order.
    gates: Vec<Gate>,
    ring: VecDeque<DestNo>,
    timers: BTreeSet<(Mono, DestNo)>,
    slots: u32,
    in_flight: u32,
    /// Slots that interrupted work may hold, and holds.
    suspect_slots: u32,
    suspects: u32,
    /// Gates that wait for one of those, besides whatever else they do; each once.
    suspended: VecDeque<DestNo>,
    /// Nothing more is claimed.
    stopped: bool,
    counts: Counts,
}

impl Schedule {
    /// An empty schedule of `slots`, of which interrupted work may hold `suspect_slots`.
    #[must_use]
    pub fn new(slots: u32, suspect_slots: u32) -> Schedule {
        Schedule {
            gates: Vec::new(),
            ring: VecDeque::new(),
            timers: BTreeSet::new(),
            slots,
            in_flight: 0,
            suspect_slots: suspect_slots.max(1),
            suspects: 0,
            suspended: VecDeque::new(),
            stopped: false,
            counts: Counts::default(),
        }
    }

    /// Adds the gate of the next number, with what it remembers.
    pub fn add(&mut self, settings: GateSettings, memory: GateMemory, now: Now) -> DestNo {
        let no = DestNo(u32::try_from(self.gates.len()).expect("destinations are bounded"));
        let mut gate = Gate::new(settings);
        gate.hold =
            memory.hold.filter(|hold| hold.until > now.wall).map(|hold| (hold, now.mono_at(hold.until)));
        gate.hold_loaded = gate.hold.is_some();
        gate.closed = gate.is_closed(now.mono);
        gate.refusals = memory.refusals;
        gate.last_success_at = memory.last_success_at;
        gate.failing_since = memory.failing_since;
        gate.failure_streak = memory.failure_streak;
        self.gates.push(gate);
        no
    }

    /// Claims nothing more; what is out may come back.
    pub fn stop(&mut self) {
        self.stopped = true;
    }

    /// True when nothing more is claimed.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// A row's head found at open: the rest of its lane is on disk.
    pub fn found(&mut self, no: DestNo, lane: Lane, head: DueEntry, now: Now) {
        *self.gate_mut(no).lane(lane) = lane::LaneQueue::from_head(head);
        self.activate(no, now);
    }

    /// Puts waiting work into its lane. Gives back a row that must now be on disk because it is
    /// no longer in RAM: this one, or one that made room for it.
    pub fn insert(&mut self, no: DestNo, lane: Lane, entry: DueEntry, now: Now) -> Option<DueEntry> {
        let evicted = self.gate_mut(no).lane(lane).insert(entry);
        self.activate(no, now);
        evicted
    }

    /// Forgets waiting work that ended, or that waits elsewhere now.
    pub fn remove(&mut self, no: DestNo, lane: Lane, due: Timestamp, id: DeliveryId) {
        self.gate_mut(no).lane(lane).remove(due, id);
    }

    /// Appends a page to a lane; `ended` says that the lane has no more.
    pub fn page(&mut self, no: DestNo, lane: Lane, rows: Vec<DueEntry>, ended: bool, now: Now) {
        self.gate_mut(no).lane(lane).append(rows, ended);
        self.activate(no, now);
    }

    /// A row was written to `due`.
    pub fn counted_in(&mut self, no: DestNo, lane: Lane, due: Timestamp) {
        let gate = &mut self.gates[index(no)];
        gate.waiting[usize::from(lane.0)] += 1;
        self.counts.insert(lane, due, gate.closed);
    }

    /// A row was removed from `due`.
    pub fn counted_out(&mut self, no: DestNo, lane: Lane, due: Timestamp) {
        let gate = &mut self.gates[index(no)];
        gate.waiting[usize::from(lane.0)] -= 1;
        self.counts.remove(lane, due, gate.closed);
    }

    /// When something is to be looked at again, if time alone brings it.
    #[must_use]
    pub fn next_timer(&self) -> Option<Mono> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// True when a claim could be made now.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let suspended = !self.suspended.is_empty() && self.suspects < self.suspect_slots;
        (suspended || !self.ring.is_empty()) && self.in_flight < self.slots && !self.stopped
    }

    /// Lets time pass: gates whose time has come are looked at again.
    pub fn wake(&mut self, now: Now) {
        self.counts.advance(now.wall);
        while let Some((at, no)) = self.timers.first().copied().filter(|(at, _)| *at <= now.mono) {
            self.timers.remove(&(at, no));
            self.gate_mut(no).spot = Spot::Idle;
            self.change(no, now, |_| {});
        }
    }

    /// The wall clock has stepped: every timer that stands for a wall time is set anew.
    ///
    /// A hold of this run is a length of time and stays. One that was loaded is a wall time, and
    /// the clock may have been wrong when it was: it is worked out again, but never made longer.
    pub fn clock_stepped(&mut self, now: Now) {
        for gate in self.gates.iter_mut().filter(|gate| gate.hold_loaded) {
            gate.hold = gate.hold.map(|(hold, until)| (hold, until.min(now.mono_at(hold.until))));
        }
        let parked: Vec<DestNo> = self.timers.iter().map(|(_, no)| *no).collect();
        for no in parked {
            self.activate(no, now);
        }
    }

    /// The next claim: a round robin over the gates that have work, room and no hold.
    pub fn pick(&mut self, now: Now) -> Pick {
        while self.in_flight < self.slots && !self.stopped {
            let suspects = self.suspects < self.suspect_slots;
            let Some(no) = self.ring.pop_front() else {
                if !suspects || !self.resume(now) {
                    break;
                }
                continue;
            };
            let gate = self.gate_mut(no);
            gate.spot = Spot::Idle;
            if gate.is_closed(now.mono) != gate.closed {
                self.change(no, now, |_| {});
                continue;
            }
            if gate.closed || !gate.has_room() {
                self.activate(no, now);
                continue;
            }
            match gate.take(now.wall, suspects) {
                Turn::Take(lane, entry) => {
                    let keep_alive = self.admit(no, entry.interrupted, now);
                    return Pick::Claim { destination: no, lane, entry, keep_alive };
                }
                Turn::Page(lane) => {
                    let after = gate.lane(lane).last();
                    return Pick::Page { destination: no, lane, after };
                }
                Turn::Suspects => self.suspend(no, now),
                Turn::NotYet => self.activate(no, now),
            }
        }
        Pick::Nothing
    }

    /// Only interrupted work is due here, and it may have no more slots: the gate waits for one,
    /// and for whatever else of it becomes due meanwhile.
    fn suspend(&mut self, no: DestNo, now: Now) {
        let gate = &mut self.gates[index(no)];
        if !gate.suspended {
            gate.suspended = true;
            self.suspended.push_back(no);
        }
        if let Some(due) = gate.next_unsuspected(now.wall) {
            gate.spot = Spot::Timer(now.mono_at(due));
            self.timers.insert((now.mono_at(due), no));
        }
    }

    /// Looks again at the gate that has waited longest for a slot for interrupted work.
    fn resume(&mut self, now: Now) -> bool {
        let Some(next) = self.suspended.pop_front() else { return false };
        self.gate_mut(next).suspended = false;
        self.activate(next, now);
        true
    }

    /// Puts a picked gate back: its page could not be read in this step.
    pub fn put_back(&mut self, no: DestNo, now: Now) {
        self.activate(no, now);
    }

    /// Takes a slot. True when the connection is worth keeping: the gate has more to send, or
    /// was used a moment ago.
    fn admit(&mut self, no: DestNo, suspect: bool, now: Now) -> bool {
        self.in_flight += 1;
        self.suspects += u32::from(suspect);
        let gate = self.gate_mut(no);
        gate.in_flight += 1;
        let recent = gate.last_claim.is_some_and(|last| now.mono.since(last) < KEEP_ALIVE);
        gate.last_claim = Some(now.mono);
        let more = gate.ready_at(now).is_some_and(|at| at <= now.mono);
        self.activate(no, now);
        recent || more
    }

    /// A slot comes back. Each claim's does, exactly once.
    pub fn release(&mut self, no: DestNo, suspect: bool, now: Now) {
        self.in_flight = self.in_flight.checked_sub(1).expect("a slot comes back once");
        let gate = self.gate_mut(no);
        gate.in_flight = gate.in_flight.checked_sub(1).expect("a slot comes back to its gate");
        self.activate(no, now);
        if suspect {
            self.suspects = self.suspects.checked_sub(1).expect("a suspect's slot comes back once");
        }
    }

    /// Changes a gate, keeps the counts of what is held right, and looks at it again.
    fn change(&mut self, no: DestNo, now: Now, change: impl FnOnce(&mut Gate)) {
        let gate = &mut self.gates[index(no)];
        let before = gate.closed;
        change(gate);
        if gate.hold.is_some_and(|(_, until)| until <= now.mono) {
            gate.hold = None;
        }
        gate.closed = gate.is_closed(now.mono);
        if before != gate.closed {
            for lane in (0..LANES).filter(|lane| gate.waiting[*lane] > 0) {
                let no = Lane(u8::try_from(lane).expect("lanes are few"));
                self.counts.hold(no, gate.waiting[lane], before);
            }
        }
        self.activate(no, now);
    }

    /// Puts a gate where it belongs: the only way into ring and timers.
    fn activate(&mut self, no: DestNo, now: Now) {
        let gate = &mut self.gates[index(no)];
        match gate.spot {
            Spot::Ring => return,
            Spot::Timer(at) => {
                self.timers.remove(&(at, no));
            }
            Spot::Idle => {}
        }
        gate.spot = place(gate, now);
        match gate.spot {
            Spot::Ring => self.ring.push_back(no),
            Spot::Timer(at) => {
                gate.park();
                self.timers.insert((at, no));
            }
            Spot::Idle => {}
        }
    }

    fn gate(&self, no: DestNo) -> &Gate {
        &self.gates[index(no)]
    }

    fn gate_mut(&mut self, no: DestNo) -> &mut Gate {
        &mut self.gates[index(no)]
    }
}

/// Where a gate belongs now.
fn place(gate: &Gate, now: Now) -> Spot {
    if let Some((_, until)) = gate.hold.filter(|(_, until)| *until > now.mono) {
        return Spot::Timer(until);
    }
    if gate.settings.state != DestinationState::Active || !gate.has_room() {
        return Spot::Idle;
    }
    match gate.ready_at(now) {
        None => Spot::Idle,
        Some(at) if at > now.mono => Spot::Timer(at),
        Some(_) => Spot::Ring,
    }
}

fn index(no: DestNo) -> usize {
    usize::try_from(no.0).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
