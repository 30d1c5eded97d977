//! The schedule's own invariants, worked out again from what it holds, and views of it that an
//! independent model is compared with. For tests and drills: it looks at everything, and changes
//! nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::fair::Entry;
use super::gate::{Gate, PARK_BEYOND, Shut};
use super::lane::{BUFFER, Head, LaneQueue};
use super::permit::Slot;
use super::pool::Pool;
use super::{Schedule, bits, index};
use crate::model::{DestNo, DueEntry, Lane, MAX_CLASSES, TenantNo};
use crate::time::{Millis, Mono, Now};

/// The wall clock may differ so much from the monotonic one before timers follow it.
const SLACK: Millis = Millis(1_000);

/// Views for an independent model.
impl Schedule {
    /// Slots of a pool that are out, by band.
    #[must_use]
    pub fn used(&self, pool: Pool) -> [u32; MAX_CLASSES * 2] {
        self.pools.by_band(pool)
    }

    /// The pool in which a slot that is out counts, and the slot-milliseconds charged for it.
    #[must_use]
    pub fn charged(&self, slot: &Slot) -> Option<(Pool, u64)> {
        self.pools.permit(slot).map(|permit| (permit.pool, permit.charged))
    }

    /// True when the tenant waits for its turn in a band of a pool.
    #[must_use]
    pub fn waits(&self, pool: Pool, lane: Lane, tenant: TenantNo) -> bool {
        self.turns[pool.index()][usize::from(lane.0)].has(tenant)
    }

    /// True when a band of a pool has something to serve and may have a slot for it.
    #[must_use]
    pub fn may_serve(&self, pool: Pool, lane: Lane) -> bool {
        let ready = self.passes[pool.index()].ready & (1 << lane.0) != 0;
        ready && self.admits(pool, lane).is_ok()
    }

    /// The rows of a lane that are kept, from its head on, and whether there may be more on disk.
    #[must_use]
    pub fn front(&self, no: DestNo, lane: Lane) -> (Vec<DueEntry>, bool) {
        let gate = self.gates.get(index(no));
        let queue = gate.and_then(|gate| gate.lanes().find(|(of, _)| *of == lane));
        let Some((_, queue)) = queue else { return (Vec::new(), self.finding) };
        let (rows, more) = queue.kept();
        (rows.copied().collect(), more)
    }

    /// Rows kept of all lanes, and timers.
    #[must_use]
    pub fn kept(&self) -> (usize, usize) {
        let lanes = self.gates.iter().flat_map(Gate::lanes);
        (lanes.map(|(_, queue)| queue.kept().0.count()).sum(), self.timers.len())
    }

    /// The pool that a destination's requests come from.
    #[must_use]
    pub fn pool(&self, no: DestNo) -> Pool {
        self.gate(no).pool
    }

    /// True when a lane waits for its turn, or for a slot for interrupted work.
    #[must_use]
    pub fn has_turn(&self, no: DestNo, lane: Lane) -> bool {
        self.gate(no).lanes().any(|(of, queue)| *of == lane && (queue.in_ring || queue.suspended))
    }
}

impl Schedule {
    /// Checks, after a pick that came to nothing, that counts are what they come to (I7) and
    /// inside their limits (I5), that whatever could go out is waited for: each due lane of an
    /// open gate is in one ring, each other gate with work has its timer, and what waits in a
    /// ring is kept from a slot by its pool alone (I12); and that what waits for a time or an
    /// event keeps its heads only (I19).
    ///
    /// # Errors
    /// What does not hold, in words.
    pub fn audit(&self, now: Now) -> Result<(), String> {
        if !self.is_sound() {
            return Err("I7: the counts of slots are not what is out".to_owned());
        }
        if !self.pools.fits() {
            return Err("I5: a pool holds more than it may".to_owned());
        }
        self.all_timers()?;
        let rings = self.rings()?;
        for (no, gate) in (0..).map(DestNo).zip(&self.gates) {
            waits(no, gate, &rings, now)?;
            small(no, gate, now)?;
        }
        self.idle()
    }

    /// How often each lane is in a ring.
    fn rings(&self) -> Result<BTreeMap<(DestNo, Lane), u32>, String> {
        let mut rings = BTreeMap::new();
        for (pool, turns) in self.turns.iter().enumerate() {
            for (band, turns) in turns.iter().enumerate() {
                let lane = Lane(u8::try_from(band).expect("lanes are few"));
                turns.audit().map_err(|what| format!("pool {pool} band {band}: {what}"))?;
                let ready = self.passes[pool].ready & (1 << band) != 0;
                if ready == turns.is_empty() {
                    return Err(format!("pool {pool} band {band}: ready is {ready}"));
                }
                let here = |(no, moves): &Entry| {
                    let gate = self.gate(*no);
                    gate.moves == *moves && gate.pool.index() == pool
                };
                for (no, _) in turns.waiting().filter(here) {
                    *rings.entry((no, lane)).or_default() += 1;
                }
            }
        }
        Ok(rings)
    }

    /// A gate's timer is among the timers, and nothing else is.
    fn all_timers(&self) -> Result<(), String> {
        let of = |(no, gate): (u32, &Gate)| Some((gate.timer?, DestNo(no)));
        let kept: BTreeSet<_> = (0..).zip(&self.gates).filter_map(of).collect();
        if kept == self.timers { Ok(()) } else { Err("I12: gates and timers do not agree".to_owned()) }
    }

    /// Where a pool has a slot for a band, nothing waits in it.
    fn idle(&self) -> Result<(), String> {
        for pool in Pool::ALL.into_iter().filter(|_| !self.stopped) {
            for band in bits(self.passes[pool.index()].ready) {
                let lane = Lane(u8::try_from(band).expect("lanes are few"));
                if self.admits(pool, lane).is_ok() {
                    return Err(format!("I12: {pool:?} has a slot for {lane:?}, and something waits for it"));
                }
            }
        }
        let cold = &self.turns[Pool::Cold.index()];
        if self.pools.has_clean_room() && !self.stopped && cold.iter().any(super::Turns::has_aside) {
            return Err("I12: there is room in the cold pool for who was put aside".to_owned());
        }
        Ok(())
    }
}

/// Every lane with work is in a ring, or its gate is woken in time, or an event brings it back.
fn waits(no: DestNo, gate: &Gate, rings: &BTreeMap<(DestNo, Lane), u32>, now: Now) -> Result<(), String> {
    let shut = gate.shut(now.mono);
    for (lane, queue) in gate.lanes() {
        let times = rings.get(&(no, *lane)).copied().unwrap_or(0);
        if times != u32::from(queue.in_ring) {
            return Err(format!(
                "I12: {no:?} {lane:?} is in {times} rings, and in_ring is {}",
                queue.in_ring
            ));
        }
        let Some(due) = queue.due().map(|due| now.mono_at(due)) else { continue };
        let timed = |at: Mono| gate.timer.is_some_and(|timer| timer <= at.plus(SLACK));
        let waited_for = match shut {
            Some(Shut::Event) => true,
            Some(Shut::Until(at)) => timed(at),
            Some(Shut::Paced(at)) => timed(at.max(due)),
            None => queue.in_ring || queue.suspended || timed(due),
        };
        if !waited_for {
            return Err(format!(
                "I12: {no:?} {lane:?} is due at {due:?}, and nothing brings it back: {gate:?}"
            ));
        }
    }
    Ok(())
}

/// I19: a lane keeps no more than its page, and its head only where nothing of it is wanted soon.
fn small(no: DestNo, gate: &Gate, now: Now) -> Result<(), String> {
    let parked = match gate.shut(now.mono) {
        Some(Shut::Until(_)) => true,
        Some(Shut::Event) => gate.in_flight == 0,
        Some(Shut::Paced(_)) | None => false,
    };
    let later = |queue: &LaneQueue| match queue.head() {
        Head::At(head) => now.mono_at(head.due).since(now.mono) > PARK_BEYOND,
        Head::Empty | Head::OnDisk => false,
    };
    let asleep = gate.timer.is_none_or(|timer| timer.since(now.mono) > PARK_BEYOND);
    for (lane, queue) in gate.lanes() {
        let waits = parked || (asleep && gate.shut(now.mono).is_none() && !queue.suspended && later(queue));
        let most = if waits && !queue.in_ring { 1 } else { BUFFER };
        let rows = queue.kept().0.count();
        if rows > most {
            return Err(format!("I19: {no:?} {lane:?} keeps {rows} rows in RAM: {gate:?}"));
        }
    }
    Ok(())
}
