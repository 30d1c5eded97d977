//! The schedule's own invariants, worked out again from what it holds. For tests and drills: it
//! looks at everything, and changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::lane::Head;
use super::pool::Pool;
use super::{Schedule, bits, gate::Gate};
use crate::model::{DestNo, Lane};
use crate::time::{Millis, Mono, Now};

/// The wall clock may differ so much from the monotonic one before timers follow it.
const SLACK: Millis = Millis(1_000);

impl Schedule {
    /// Checks, after a pick that came to nothing, that counts are what they come to (I7) and
    /// limits (I5), and that whatever could go out is waited for: each due lane of an
    /// open gate is in one ring, each other gate with work has its timer, and what waits in a
    /// ring is kept from a slot by its pool alone (I12).
    ///
    /// # Errors
    /// What does not hold, in words.
    pub fn audit(&self, now: Now) -> Result<(), String> {
        if !self.is_sound() {
            return Err("I7: the counts of slots are not what is out".to_owned());
        }
        self.all_timers()?;
        let rings = self.rings()?;
        for (no, gate) in (0..).map(DestNo).zip(&self.gates) {
            waits(no, gate, &rings, now)?;
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
                turns.waiting().for_each(|no| *rings.entry((no, lane)).or_default() += 1);
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
                if self.pools.admits(pool, lane).is_ok() {
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
        let due = match queue.head() {
            Head::Empty => continue,
            Head::OnDisk => now.mono,
            Head::At(entry) => now.mono_at(entry.due),
        };
        let timed = |at: Mono| gate.timer.is_some_and(|timer| timer <= at.plus(SLACK));
        let waited_for = match shut {
            Some(super::Shut::Event) => true,
            Some(super::Shut::Until(at)) => timed(at),
            Some(super::Shut::Paced(at)) => timed(at.max(due)),
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
