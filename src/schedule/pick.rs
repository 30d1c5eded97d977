//! The pick: pool, band, tenant, destination, lane (SCHEDULER.md 3.4).

use super::fair::{Turn, Turns, tags};
use super::gate::Taken;
use super::permit::{Permit, Slot};
use super::pool::{BANDS, Barred, Pool};
use super::{Schedule, bits, index};
use crate::model::{DeliveryId, DestNo, DueEntry, Lane, TenantNo};
use crate::time::{Millis, Now, Timestamp};

/// A connection unused for longer is not kept: receivers close theirs at about this age.
const KEEP_ALIVE: Millis = Millis(15_000);
/// What a band weighs against others of its class (SCHEDULER.md 3.6).
const FIRST_WEIGHT: u32 = 4;
const RETRY_WEIGHT: u32 = 1;

/// What the engine is to do next.
#[derive(Debug, PartialEq, Eq)]
pub enum Pick {
    /// A slot was taken for it; it comes back by [`Schedule::release`].
    Claim {
        destination: DestNo,
        lane: Lane,
        entry: DueEntry,
        slot: Slot,
        keep_alive: bool,
        /// Since it could have gone out, for all that its destination does: ours alone.
        lag: Millis,
    },
    /// The lane's head is on disk: read so many rows after `after` and give them to
    /// [`Schedule::page`]. Asked again, it is the same page.
    Page {
        destination: DestNo,
        lane: Lane,
        after: Option<(Timestamp, DeliveryId)>,
        rows: usize,
    },
    Nothing,
}

impl Schedule {
    /// True when a claim could be made now.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let free = self.pools.in_flight() < self.pools.slots();
        let suspects = !self.suspended.is_empty() && self.suspects < self.suspect_slots;
        let cold = &self.turns[Pool::Cold.index()];
        let aside = || self.pools.has_clean_room() && cold.iter().any(Turns::has_aside);
        let band = || Pool::ALL.into_iter().any(|pool| self.next_band(pool).is_some());
        let returned = !self.returned.is_empty();
        !self.stopped && (returned || free && (suspects || band() || aside()))
    }

    /// The next claim. Each turn that comes to nothing leaves its ring, until an event brings it
    /// back: turns looked at are bounded by events, never by what waits.
    pub fn pick(&mut self, now: Now) -> Pick {
        for no in std::mem::take(&mut self.returned) {
            self.activate(no, now);
        }
        while !self.stopped {
            let back = self.bring_back_one() | self.resume(now);
            let band = Pool::ALL.into_iter().find_map(|pool| Some((pool, self.next_band(pool)?)));
            match band {
                Some((pool, band)) => {
                    if let Some(pick) = self.turn(pool, band, now) {
                        return pick;
                    }
                }
                None if back => {}
                None => break,
            }
        }
        self.settle();
        Pick::Nothing
    }

    /// Where a pool has room and nobody waits for it, nobody owes anybody anything.
    fn settle(&mut self) {
        for pool in Pool::ALL {
            if self.pools.used(pool) < self.pools.capacity(pool) {
                self.turns[pool.index()].iter_mut().for_each(Turns::settle);
            }
        }
    }

    /// The band of a pool that was served least for its weight, of those that may have a slot.
    fn next_band(&self, pool: Pool) -> Option<usize> {
        let passes = &self.passes[pool.index()];
        let lane = |band: usize| Lane(u8::try_from(band).expect("lanes are few"));
        bits(passes.ready)
            .filter(|band| self.admits(pool, lane(*band)).is_ok())
            .min_by_key(|band| passes.bands[*band])
    }

    /// Whether a band may have another slot of a pool. What nobody waits for is lent.
    pub(super) fn admits(&self, pool: Pool, lane: Lane) -> Result<(), Barred> {
        let waits = |pool: Pool| self.passes[pool.index()].ready != 0;
        self.pools.admits(pool, lane, !waits(Pool::Slow) && !waits(Pool::Fast))
    }

    /// One turn: None when nothing could be sent for it.
    fn turn(&mut self, pool: Pool, band: usize, now: Now) -> Option<Pick> {
        let lane = Lane(u8::try_from(band).expect("lanes are few"));
        let pick = self.next_turn(pool, band).and_then(|turn| self.look(pool, lane, turn, now));
        if self.turns[pool.index()][band].is_empty() {
            self.passes[pool.index()].ready &= !(1 << band);
        }
        pick
    }

    /// Whose turn it is. In the cold pool, who has something slow out leaves the last room to
    /// those who have not.
    fn next_turn(&mut self, pool: Pool, band: usize) -> Option<Turn> {
        let turn = self.turns[pool.index()][band].next()?;
        if pool == Pool::Cold && self.pools.is_slow(turn.tenant) && !self.pools.has_clean_room() {
            self.turns[pool.index()][band].put_aside(turn);
            return None;
        }
        Some(turn)
    }

    fn look(&mut self, pool: Pool, lane: Lane, turn: Turn, now: Now) -> Option<Pick> {
        self.visits += 1;
        let turns = &mut self.turns[pool.index()][usize::from(lane.0)];
        let (no, moves) = turns.destination(&turn)?;
        let suspects = self.suspects < self.suspect_slots;
        let gate = &mut self.gates[index(no)];
        if gate.moves != moves {
            // It has gone to another pool since, and stands in the ring there.
            turns.passed(turn);
            return None;
        }
        gate.lane(lane, false).in_ring = false;
        if gate.shut(now.mono).is_some() {
            turns.passed(turn);
            self.activate(no, now);
            return None;
        }
        match gate.take(lane, now.wall, suspects) {
            Taken::Entry(entry) => Some(self.claim(no, lane, entry, turn, now)),
            Taken::OnDisk => {
                let queue = gate.lane(lane, true);
                queue.in_ring = true;
                let (after, rows) = (queue.last(), queue.page_rows());
                turns.keep(turn, (no, moves));
                Some(Pick::Page { destination: no, lane, after, rows })
            }
            Taken::Suspects => {
                let known = std::mem::replace(&mut gate.lane(lane, false).suspended, true);
                turns.passed(turn);
                if !known {
                    self.suspended.push_back((no, lane));
                }
                self.activate(no, now);
                None
            }
            Taken::NotYet => {
                turns.passed(turn);
                self.activate(no, now);
                None
            }
        }
    }

    /// Takes a slot for the head of a lane, and charges tenant and band for what it will cost.
    fn claim(&mut self, no: DestNo, lane: Lane, entry: DueEntry, turn: Turn, now: Now) -> Pick {
        self.claims += 1;
        self.suspects += u32::from(entry.interrupted);
        let by_band = self.band_weight(lane);
        let gate = &mut self.gates[index(no)];
        gate.in_flight += 1;
        if gate.pace.take(now.mono) {
            self.changed.insert(no);
        }
        let (pool, band, cost) = (gate.pool.index(), usize::from(lane.0), gate.cost());
        let waited = now.wall.since(entry.due);
        let lag = gate.free_at.map_or(Millis(0), |at| now.mono.since(at)).min(waited);
        let recent = gate.last_claim.is_some_and(|last| now.mono.since(last) < KEEP_ALIVE);
        gate.last_claim = Some(now.mono);
        let more = gate.ready_at(now).is_some_and(|at| at <= now.mono);
        let permit = Permit::new(gate.pool, lane, no, turn.tenant, gate.epoch, now.mono);
        let slot = self.pools.take(permit.charging(cost, entry.interrupted));
        self.passes[pool].serve(band, tags(cost, by_band));
        let weight = gate.settings.weight;
        self.turns[pool][band].served(turn, tags(cost, weight));
        self.activate(no, now);
        Pick::Claim { destination: no, lane, entry, slot, keep_alive: recent || more, lag }
    }

    pub(super) fn band_weight(&self, lane: Lane) -> u32 {
        let class = usize::from(lane.class().0);
        let weight = self.weights.get(class).copied().unwrap_or(1);
        let pressed = lane.is_first() && self.pressed & (1 << class) != 0;
        let kind = if lane.is_first() { FIRST_WEIGHT } else { RETRY_WEIGHT };
        weight.saturating_mul(kind) << u32::from(pressed)
    }

    /// A class whose first attempts come late has twice its weight until they do not
    /// (SCHEDULER.md 3.6: bounded, so that no class is starved by it).
    pub fn press(&mut self, class: crate::model::ClassNo, late: bool) {
        let bit = 1 << class.0;
        self.pressed = if late { self.pressed | bit } else { self.pressed & !bit };
    }

    /// A tenant has nothing slow out any more.
    pub(super) fn cleared(&mut self, tenant: TenantNo) {
        for (band, turns) in self.turns[Pool::Cold.index()].iter_mut().enumerate() {
            turns.bring_back_tenant(tenant);
            if !turns.is_empty() {
                self.passes[Pool::Cold.index()].enter(band);
            }
        }
    }

    /// There may be room in the cold pool for a tenant that was put aside.
    fn bring_back_one(&mut self) -> bool {
        let cold = Pool::Cold.index();
        if !self.pools.has_clean_room() {
            return false;
        }
        let aside = (0..BANDS).filter(|band| self.turns[cold][*band].has_aside());
        let Some(band) = aside.min_by_key(|band| self.passes[cold].bands[*band]) else { return false };
        self.turns[cold][band].bring_back();
        self.passes[cold].enter(band);
        true
    }

    /// Looks again at the lane that has waited longest for a slot for interrupted work.
    fn resume(&mut self, now: Now) -> bool {
        if self.suspects >= self.suspect_slots || self.pools.in_flight() >= self.pools.slots() {
            return false;
        }
        let Some((no, lane)) = self.suspended.pop_front() else { return false };
        self.gates[index(no)].lane(lane, false).suspended = false;
        self.activate(no, now);
        true
    }

    /// Turns looked at since the start, and the claims that came of them.
    #[must_use]
    pub fn visits(&self) -> (u64, u64) {
        (self.visits, self.claims)
    }
}
