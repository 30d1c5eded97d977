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
        match (self.pools.admits(pool, lane), turns.ahead(tenant)) {
            (Err(Barred::Reserved), _) => Standing::Reserved,
            (_, Some(ahead)) if ahead > 0 => Standing::TenantShare { ahead },
            (Err(Barred::Full), _) => Standing::Slots,
            (Ok(()), _) => Standing::Free,
        }
    }
}
