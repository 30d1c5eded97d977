//! Where a lane stands: what keeps its head from going out, besides its destination's gate.

use super::pool::{Barred, Pool};
use super::{Schedule, index};
use crate::model::{DestNo, Lane};

/// What of the server, rather than of the destination, a lane waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing: it is not its turn to wait for anything of ours.
    Free,
    /// So many other tenants are served before its own.
    TenantShare {
        ahead: usize,
    },
    /// The slots that are left are kept for first attempts, heavier classes, or tenants with
    /// nothing slow in flight.
    Reserved,
    /// Every slot that its kind of work may use is in use.
    Slots,
    /// The bodies in flight fill the memory there is for them. The engine's word, not the
    /// schedule's.
    Bodies,
    Stopped,
}

impl Schedule {
    /// Why the head of a lane has not gone out, though its destination would let it through.
    #[must_use]
    pub fn standing(&self, no: DestNo, lane: Lane) -> Standing {
        if self.stopped {
            return Standing::Stopped;
        }
        let Some(gate) = self.gates.get(index(no)) else { return Standing::Free };
        let (pool, tenant) = (gate.pool, gate.settings.tenant);
        let suspended = gate.lanes().any(|(of, queue)| *of == lane && queue.suspended);
        if suspended && self.suspects >= self.suspect_slots {
            return Standing::Slots;
        }
        let turns = &self.turns[pool.index()][usize::from(lane.0)];
        if pool == Pool::Cold && turns.is_aside(tenant) {
            return Standing::Reserved;
        }
        match (self.admits(pool, lane), turns.ahead(tenant)) {
            (Err(Barred::Reserved), _) => Standing::Reserved,
            (_, Some(ahead)) if ahead > 0 => Standing::TenantShare { ahead },
            (Err(Barred::Full), _) => Standing::Slots,
            (Ok(()), _) => Standing::Free,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{DeliveryId, DestinationState, DueEntry, TenantNo};
    use crate::outcome::GateMemory;
    use crate::schedule::{GateSettings, Pick, Slot, Terms};
    use crate::time::{Mono, Now, Timestamp};

    const NOW: Now = Now { wall: Timestamp(1_000), mono: Mono(0) };
    const URGENT: Lane = Lane(0);
    const ROUTINE_RETRY: Lane = Lane(3);
    const BULK: Lane = Lane(4);

    /// The destination of the second tenant; the first has all before it.
    const OTHER: u32 = 6;

    /// Ten slots, and the destinations of two tenants, which bear four requests each at first.
    fn schedule() -> Schedule {
        let (slots, suspect_slots) = (10, 1);
        let terms = Terms { slots, suspect_slots, reserve_permille: 300, weights: vec![4, 2, 1] };
        let mut schedule = Schedule::new(&terms);
        for no in 0..=OTHER {
            let tenant = u32::from(no == OTHER);
            let settings = GateSettings {
                tenant: TenantNo(tenant),
                weight: 1,
                state: DestinationState::Active,
                max: 100,
                adaptive: false,
                rate: None,
            };
            schedule.add(settings, known(), NOW);
        }
        schedule
    }

    /// It has answered before: its limit is wide.
    fn known() -> GateMemory {
        GateMemory { latency: Some(crate::time::Millis(50)), limit: 100, ..GateMemory::default() }
    }

    fn put(schedule: &mut Schedule, no: u32, lane: Lane, many: u128, interrupted: bool) {
        for id in 0..many {
            let id = DeliveryId(id + u128::from(lane.0) * 100 + u128::from(no) * 10_000);
            let entry = DueEntry { due: NOW.wall, id, attempts: 0, interrupted, bytes: 0 };
            schedule.insert(DestNo(no), lane, entry, NOW);
        }
    }

    /// More than there are slots, for every destination of the first tenant.
    fn put_all(schedule: &mut Schedule, lane: Lane) {
        (0..OTHER).for_each(|no| put(schedule, no, lane, 10, false));
    }

    /// Everything that may go out, as the slots it takes.
    fn claim(schedule: &mut Schedule) -> Vec<Slot> {
        let mut out = Vec::new();
        loop {
            match schedule.pick(NOW) {
                Pick::Claim { slot, .. } => out.push(slot),
                Pick::Page { destination, lane, .. } => {
                    schedule.page(destination, lane, Vec::new(), true, NOW);
                }
                Pick::Nothing => return out,
            }
        }
    }

    #[track_caller]
    fn check(schedule: &Schedule, no: u32, lane: Lane, want: Standing) {
        assert_eq!(schedule.standing(DestNo(no), lane), want);
    }

    #[test]
    fn nothing_of_ours_keeps_it_back_until_claims_stop() {
        let mut schedule = schedule();
        put(&mut schedule, 0, URGENT, 1, false);
        check(&schedule, 0, URGENT, Standing::Free);
        check(&schedule, 9, URGENT, Standing::Free);
        schedule.stop();
        check(&schedule, 0, URGENT, Standing::Stopped);
    }

    #[test]
    fn slots_go_round_the_tenants() {
        let mut schedule = schedule();
        put_all(&mut schedule, URGENT);
        assert_eq!(claim(&mut schedule).len(), 10);
        check(&schedule, 0, URGENT, Standing::Slots);
        put(&mut schedule, OTHER, URGENT, 1, false);
        check(&schedule, OTHER, URGENT, Standing::Slots);
        check(&schedule, 0, URGENT, Standing::TenantShare { ahead: 1 });
    }

    #[test]
    fn what_is_kept_for_others_is_told_from_what_is_full() {
        for (lane, most) in [(BULK, 8), (ROUTINE_RETRY, 7)] {
            let mut schedule = schedule();
            put_all(&mut schedule, lane);
            assert_eq!(claim(&mut schedule).len(), most, "{lane:?}");
            check(&schedule, 0, lane, Standing::Reserved);
            check(&schedule, 0, URGENT, Standing::Free);
        }
    }

    #[test]
    fn interrupted_work_waits_for_slots_of_its_own() {
        let mut schedule = schedule();
        put(&mut schedule, 0, URGENT, 2, true);
        assert_eq!(claim(&mut schedule).len(), 1);
        check(&schedule, 0, URGENT, Standing::Slots);
        check(&schedule, 1, URGENT, Standing::Free);
    }
}
