//! Ids of deliveries and nonces of leases: chance comes in once, at the open, and then it is counted.

use crate::model::DeliveryId;
use crate::time::Timestamp;

/// Where new ids and nonces come from.
pub(super) struct Mint {
    pub(super) run: u64,
    pub(super) counter: u64,
    pub(super) last: Timestamp,
}

/// The last millisecond that an id can name.
const END_OF_TIME: Timestamp = Timestamp((1 << 48) - 1);

impl Mint {
    /// What is made from now on is later than this one, whichever run made that, and by whatever clock.
    pub(super) fn pass(&mut self, newest: DeliveryId) {
        // Beyond the calendar, too: an import may have brought any id.
        let after = Timestamp(newest.made_at().0.saturating_add(1)).min(END_OF_TIME);
        self.last = self.last.max(after);
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_later_than_every_one_that_was_passed() {
        let check = |newest: DeliveryId, now: u64| {
            let mut mint = Mint { run: 3, counter: 0, last: Timestamp(0) };
            mint.pass(newest);
            let (one, two) = (mint.id(Timestamp(now)), mint.id(Timestamp(now)));
            assert!(newest < one && one < two, "{newest:?} {now}");
        };
        check(DeliveryId::new(Timestamp(1_000), 9, 9), 1_000);
        check(DeliveryId::new(Timestamp(9_000), u64::MAX, u64::MAX), 1_000);
        check(DeliveryId::new(Timestamp(1_000), 9, 9), 9_000);
        check(DeliveryId::new(END_OF_TIME, 1, 9), 1_000);
    }
}
