//! Claiming: what the pick chooses gets a lease, in the same commit.

use std::sync::Arc;

use super::command::Dispatch;
use super::directory::Facts;
use super::{InStep, MAX_BODIES_OUT, MAX_CLAIMS, MAX_PAGES, Out};
use crate::delivery::Lease;
use crate::model::{DeliveryId, DestNo, DueEntry, Lane};
use crate::schedule::{Pick, Slot};
use crate::store::StoreError;
use crate::time::{Millis, Timestamp};

/// What the pick has chosen.
struct Claim {
    destination: DestNo,
    lane: Lane,
    entry: DueEntry,
    slot: Slot,
    keep_alive: bool,
    lag: Millis,
}

impl InStep<'_, '_> {
    /// Claims until nothing more may go out, or the step is long enough.
    pub(super) fn claim_all(&mut self) -> Result<(), StoreError> {
        let mut pages = 0;
        while self.out.dispatches.len() < MAX_CLAIMS && self.core.bodies_out < MAX_BODIES_OUT {
            match self.core.schedule.pick(self.now) {
                Pick::Nothing => break,
                Pick::Page { .. } if pages == MAX_PAGES => break,
                Pick::Page { destination, lane, after, rows } => {
                    pages += 1;
                    self.page(destination, lane, after, rows)?;
                }
                Pick::Claim { destination, lane, entry, slot, keep_alive, lag } => {
                    let claim = Claim { destination, lane, entry, slot, keep_alive, lag };
                    self.claim(claim)?;
                }
            }
        }
        Ok(())
    }

    fn page(
        &mut self,
        no: DestNo,
        lane: Lane,
        after: Option<(Timestamp, DeliveryId)>,
        most: usize,
    ) -> Result<(), StoreError> {
        // What was accepted in this step and found no room in RAM is not on disk yet.
        self.place_lane(no, lane)?;
        let rows = self.file.lane_page(no, lane, after, most)?;
        self.core.tally.figures.rows_examined += rows.len() as u64;
        let ended = rows.len() < most;
        self.core.schedule.page(no, lane, rows, ended, self.now);
        Ok(())
    }

    /// Moves one delivery from its lane to its lease and hands it out.
    fn claim(&mut self, claim: Claim) -> Result<(), StoreError> {
        let Claim { destination: no, lane, entry, slot, keep_alive, lag } = claim;
        let length = Millis(self.core.directory.lease_length(no).0 + self.core.limits.payload_timeout.0);
        let lease = Lease {
            id: entry.id,
            attempt: entry.attempts + 1,
            nonce: self.core.mint.nonce(),
            claimed_at: self.now.wall,
            until: self.now.wall.plus(length),
            destination: no,
            lane,
            due: entry.due,
            fresh: false,
        };
        let fresh = self.lease_fresh(lease)?;
        let lease = Lease { fresh: fresh.is_some(), ..lease };
        if fresh.is_none() {
            self.file.claim(&lease)?;
            self.core.count_out(no, lane, entry.due, entry.id);
        }
        let record = fresh.as_ref().map(|work| Arc::clone(&work.delivery));
        let deadline = self.now.mono.plus(length);
        let bytes = entry.bytes;
        self.core.bodies_out += u64::from(bytes);
        let Facts { era, revision, .. } = *self.core.directory.facts(no);
        self.core.leases.insert(entry.id, Out { lease, deadline, slot, bytes, era, record });
        self.core.deadlines.insert((deadline, entry.id));
        self.core.tally.claimed(&lease, lag, self.now.wall);
        self.out.dispatches.push(Dispatch { lease, revision, fresh, keep_alive });
        Ok(())
    }
}
