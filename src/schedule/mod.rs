//! Who is next: a gate for each destination, its lanes, one timer a gate, slots, and counts.
//!
//! Touches neither the store nor a clock. A claim (see [`Schedule::pick`]) goes from a pool of
//! slots to a band (class, and first attempt or not), from there to a tenant by start-time fair
//! queueing, to one of its destinations in turn, and takes the head of its lane. A gate that lets
//! nothing through is in no ring until a timer or an event brings it back: no record of a blocked
//! destination is ever read, however many there are.

mod audit;
mod breaker;
mod counts;
mod fair;
mod gate;
mod health;
mod join;
mod lane;
mod limit;
mod permit;
mod pick;
mod pool;
mod rate;
mod record;
mod standing;
mod terms;
mod view;

use std::collections::{BTreeSet, VecDeque};

use crate::model::{DeliveryId, DestNo, DueEntry, Lane};
use crate::time::{Millis, Mono, Now, Timestamp};

use counts::Counts;
use fair::{Passes, Turns};
use gate::{Gate, Shut};
use permit::Permit;
use pool::{BANDS, Pools};

pub use crate::outcome::GateMemory;
pub use breaker::BreakerState;
pub use counts::{FORECAST_MINUTES, Waiting};
pub use gate::GateSettings;
pub use health::{Admission, Seen};
pub use lane::BUFFER;
pub use permit::Slot;
pub use pick::Pick;
pub use pool::Pool;
pub use record::{Recovered, Times};
pub use standing::Standing;
pub use terms::Terms;
pub use view::{GateLine, GateView, Survey};

/// A step of the wall clock after which what is due is let out slowly: less is drift or a pause.
const WAVE: Millis = Millis(60_000);

/// Gates, turns and timers.
#[derive(Debug)]
pub struct Schedule {
    /// By number; dense, because numbers are given in order.
    gates: Vec<Gate>,
    pools: Pools,
    /// By pool and band.
    turns: [[Turns; BANDS]; 3],
    passes: [Passes; 3],
    timers: BTreeSet<(Mono, DestNo)>,
    weights: Vec<u32>,
    /// Classes whose first attempts come late, as bits: their weight is doubled.
    pressed: u16,
    /// Slots that interrupted work may hold, and holds.
    suspect_slots: u32,
    suspects: u32,
    /// Lanes that wait for one of those, each once.
    suspended: VecDeque<(DestNo, Lane)>,
    /// Not all lanes that were on disk at the open are known yet.
    finding: bool,
    /// Not all rows that were on disk at the open are counted yet.
    counting: bool,
    /// Nothing more is claimed.
    stopped: bool,
    /// Gates whose slots came back: looked at by the next pick, once what came is learnt, so that
    /// nothing gets a turn that a refusal has just shut.
    returned: Vec<DestNo>,
    counts: Counts,
    /// Gates whose memory is to be stored.
    changed: BTreeSet<DestNo>,
    /// Turns that were looked at, and claims that came of them.
    visits: u64,
    claims: u64,
}

impl Schedule {
    /// An empty schedule.
    #[must_use]
    pub fn new(terms: &Terms) -> Schedule {
        Schedule {
            gates: Vec::new(),
            pools: Pools::new(terms.slots, terms.reserve_permille, &terms.weights),
            turns: Default::default(),
            passes: Default::default(),
            timers: BTreeSet::new(),
            weights: terms.weights.clone(),
            pressed: 0,
            suspect_slots: terms.suspect_slots.max(1),
            suspects: 0,
            suspended: VecDeque::new(),
            finding: false,
            counting: true,
            stopped: false,
            returned: Vec::new(),
            counts: Counts::default(),
            changed: BTreeSet::new(),
            visits: 0,
            claims: 0,
        }
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

    /// The lanes on disk are about to be found, one by one. Until [`Schedule::found_all`] a lane
    /// that is not known may have rows there.
    pub fn find(&mut self) {
        self.finding = true;
    }

    /// A lane's head as it is on disk: the rest of it is there too.
    pub fn found(&mut self, no: DestNo, lane: Lane, head: DueEntry, now: Now) {
        self.gate_mut(no).lane(lane, true).found(head);
        self.activate(no, now);
    }

    /// Every lane on disk is known.
    pub fn found_all(&mut self) {
        self.finding = false;
    }

    /// True until every lane on disk is known.
    #[must_use]
    pub fn is_finding(&self) -> bool {
        self.finding
    }

    /// Puts waiting work into its lane. Gives back a row that must now be on disk because it is
    /// no longer in RAM: this one, or one that made room for it.
    pub fn insert(&mut self, no: DestNo, lane: Lane, entry: DueEntry, now: Now) -> Option<DueEntry> {
        let finding = self.finding;
        let queue = self.gate_mut(no).lane(lane, finding);
        let evicted = queue.insert(entry);
        self.activate(no, now);
        evicted
    }

    /// Forgets waiting work that ended, or that waits elsewhere now.
    pub fn remove(&mut self, no: DestNo, lane: Lane, due: Timestamp, id: DeliveryId, now: Now) {
        if let Some(queue) = self.gate_mut(no).known_lane(lane) {
            queue.remove(due, id);
            self.activate(no, now);
        }
    }

    /// Appends a page to a lane; `ended` says that the lane has no more.
    pub fn page(&mut self, no: DestNo, lane: Lane, rows: Vec<DueEntry>, ended: bool, now: Now) {
        self.gate_mut(no).lane(lane, false).append(rows, ended);
        self.activate(no, now);
    }

    /// A row was written to `due`.
    pub fn counted_in(&mut self, no: DestNo, lane: Lane, due: Timestamp) {
        let gate = &mut self.gates[index(no)];
        gate.waiting[usize::from(lane.0)] += 1;
        self.counts.insert(lane, due, gate.closed);
    }

    /// A row was removed from `due`. With the last one of a lane nothing of it is on disk: none is
    /// looked for there, and it has no age.
    pub fn counted_out(&mut self, no: DestNo, lane: Lane, due: Timestamp) {
        let gate = &mut self.gates[index(no)];
        let waiting = &mut gate.waiting[usize::from(lane.0)];
        *waiting -= 1;
        let emptied = *waiting == 0 && !self.counting;
        self.counts.remove(lane, due, gate.closed);
        if let Some(queue) = gate.known_lane(lane).filter(|_| emptied) {
            queue.whole();
        }
    }

    /// Every row that was on disk at the open is counted: a lane without one has none there.
    pub fn counted_all(&mut self) {
        self.counting = false;
        self.gates.iter_mut().for_each(Gate::forget_empty);
    }

    /// When something is to be looked at again, if time alone brings it.
    #[must_use]
    pub fn next_timer(&self) -> Option<Mono> {
        let gate = self.timers.first().map(|(at, _)| *at);
        [gate, self.pools.next_age()].into_iter().flatten().min()
    }

    /// Lets time pass: requests that are out for long turn slow, and gates whose time has come
    /// are looked at again.
    pub fn wake(&mut self, now: Now) {
        self.counts.advance(now.wall);
        self.age(now.mono);
        while let Some((at, no)) = self.timers.first().copied().filter(|(at, _)| *at <= now.mono) {
            self.timers.remove(&(at, no));
            self.gate_mut(no).timer = None;
            self.change(no, now, |_| {});
        }
    }

    /// A request that turns slow costs its tenant and band as much as any may, now: when it ends
    /// would be too late to leave the others their turns. Its destination is a slow one.
    fn age(&mut self, now: Mono) {
        let most = gate::cost(Some(Millis(u64::MAX)));
        while let Some(before) = self.pools.age(now, |_| most) {
            self.charge(&before, most.saturating_sub(before.charged));
            let gate = &mut self.gates[index(before.no)];
            gate.move_to(self.pools.of(Some(Millis(u64::MAX)), gate.pool));
            self.returned.push(before.no);
        }
    }

    /// What a request cost beyond what was charged for it.
    fn charge(&mut self, permit: &Permit, more: u64) {
        if more == 0 {
            return;
        }
        let (pool, band) = (permit.pool.index(), usize::from(permit.lane.0));
        let weight = self.gate(permit.no).settings.weight;
        self.turns[pool][band].charge(permit.tenant, fair::tags(more, weight));
        let by_band = fair::tags(more, self.band_weight(permit.lane));
        let pass = &mut self.passes[pool].bands[band];
        *pass = pass.saturating_add(by_band);
    }

    /// The wall clock has stepped: every timer that stands for a wall time is set anew.
    ///
    /// A hold of this run is a length of time and stays. One that was loaded is a wall time, and
    /// the clock may have been wrong when it was: it is worked out again, but never made longer.
    /// After a large step forward much is due at once, and each gate lets out a few at first.
    pub fn clock_stepped(&mut self, ahead: Millis, now: Now) {
        for gate in &mut self.gates {
            if gate.hold_loaded {
                gate.hold = gate.hold.map(|(hold, until)| (hold, until.min(now.mono_at(hold.until))));
            }
            if ahead >= WAVE {
                gate.limit.calm();
            }
        }
        let parked: Vec<DestNo> = self.timers.iter().map(|(_, no)| *no).collect();
        for no in parked {
            self.change(no, now, |_| {});
        }
    }

    /// A slot comes back. Each claim's does, exactly once. Says what it was given for.
    pub fn release(&mut self, slot: Slot, now: Now) -> Admission {
        let permit = self.pools.release(slot);
        let gate = self.gate_mut(permit.no);
        let in_flight = gate.in_flight;
        gate.in_flight = in_flight.checked_sub(1).expect("a slot comes back to its gate");
        let cost = gate::cost(Some(now.mono.since(permit.started)));
        self.charge(&permit, cost.saturating_sub(permit.charged));
        if permit.suspect {
            self.suspects = self.suspects.checked_sub(1).expect("a suspect's slot comes back once");
        }
        if permit.pool == Pool::Slow && !self.pools.is_slow(permit.tenant) {
            self.cleared(permit.tenant);
        }
        self.returned.push(permit.no);
        Admission { destination: permit.no, epoch: permit.epoch, in_flight, started: permit.started }
    }

    /// Changes a gate, keeps the counts of what is held right, and looks at it again.
    fn change(&mut self, no: DestNo, now: Now, change: impl FnOnce(&mut Gate)) {
        let gate = &mut self.gates[index(no)];
        let before = gate.closed;
        change(gate);
        if gate.hold.is_some_and(|(_, until)| until <= now.mono) {
            gate.hold = None;
        }
        gate.breaker.wake(now.mono);
        gate.closed = gate.is_closed(now.mono);
        if before != gate.closed {
            for band in (0..BANDS).filter(|band| gate.waiting[*band] > 0) {
                let lane = Lane(u8::try_from(band).expect("lanes are few"));
                self.counts.hold(lane, gate.waiting[band], before);
            }
        }
        self.activate(no, now);
    }

    /// Puts a gate where it belongs: the only way into rings and timers.
    fn activate(&mut self, no: DestNo, now: Now) {
        let gate = &mut self.gates[index(no)];
        let (ready, timer) = place(gate, now);
        if timer != gate.timer {
            let old = std::mem::replace(&mut gate.timer, timer);
            old.map(|at| self.timers.remove(&(at, no)));
            timer.map(|at| self.timers.insert((at, no)));
        }
        for band in bits(ready) {
            self.join(no, band);
        }
    }

    fn join(&mut self, no: DestNo, band: usize) {
        let gate = &mut self.gates[index(no)];
        let (pool, tenant) = (gate.pool.index(), gate.settings.tenant);
        let lane = Lane(u8::try_from(band).expect("lanes are few"));
        gate.lane(lane, false).in_ring = true;
        self.turns[pool][band].join(tenant, (no, gate.moves));
        // A tenant that was put aside stays there, with this one too.
        if !self.turns[pool][band].is_empty() {
            self.passes[pool].enter(band);
        }
    }

    fn gate(&self, no: DestNo) -> &Gate {
        &self.gates[index(no)]
    }

    fn gate_mut(&mut self, no: DestNo) -> &mut Gate {
        &mut self.gates[index(no)]
    }
}

/// The lanes of a gate that go into their rings, and when it is to be looked at again.
fn place(gate: &mut Gate, now: Now) -> (u16, Option<Mono>) {
    match gate.shut(now.mono) {
        Some(Shut::Until(at)) => {
            gate.free_at = Some(at);
            gate.park();
            (0, Some(at))
        }
        Some(Shut::Paced(at)) => {
            gate.free_at = Some(at);
            let next = gate.ready_at(now).map(|due| due.max(at));
            if next.is_none_or(|next| next.since(now.mono) > gate::PARK_BEYOND) {
                gate.park();
            }
            (0, next)
        }
        Some(Shut::Event) => {
            gate.free_at = None;
            if gate.in_flight == 0 {
                gate.park();
            }
            (0, None)
        }
        None => {
            gate.free_at = Some(gate.free_at.map_or(now.mono, |at| at.min(now.mono)));
            let (ready, next) = gate.due(now);
            if ready == 0 && gate.in_flight == 0 && !gate.lanes().any(|(_, queue)| queue.in_ring) {
                gate.pace.idle();
            }
            (ready, next)
        }
    }
}

/// The numbers of the bits that are set.
fn bits(set: u16) -> impl Iterator<Item = usize> {
    (0..BANDS).filter(move |bit| set & (1 << bit) != 0)
}

fn index(no: DestNo) -> usize {
    usize::try_from(no.0).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
