//! Ids of deliveries and nonces of leases: chance comes in once, at the open, and then it is counted.

use crate::model::DeliveryId;
use crate::time::Timestamp;

/// Where new ids and nonces come from.
pub(super) struct Mint {
    pub(super) run: u64,
    pub(super) counter: u64,
    pub(super) last: Timestamp,
}

impl Mint {
    /// A new id, later than every one before it in time or by counter.
    pub(super) fn id(&mut self, now: Timestamp) -> DeliveryId {
        self.last = self.last.max(now);
        self.counter += 1;
        DeliveryId::new(self.last, self.run, self.counter)
    }

    /// A number that no other lease of this run has.
    pub(super) fn nonce(&mut self) -> u64 {
        self.counter += 1;
        self.run.rotate_left(24) ^ self.counter
    }
}
