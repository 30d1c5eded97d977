//! Stopping and starting the whole server: claims, and the drain before a hand-over.
//!
//! What stands in the file is what counts: a drained server is drained after any restart, until it
//! is told the number of that very drain.

use super::InStep;
use super::command::{ClaimsOrder, ClaimsSet, FenceRequired};
use crate::store::{Claims, StoreError};

impl InStep<'_, '_> {
    /// Carries out one order; what is in flight may end.
    pub(super) fn order_claims(
        &mut self,
        order: ClaimsOrder,
    ) -> Result<Result<ClaimsSet, FenceRequired>, StoreError> {
        let (claims, fence) = match ordered(order, self.core.claims, self.core.fence) {
            Ok(set) => set,
            Err(refused) => return Ok(Err(refused)),
        };
        if fence != self.core.fence {
            self.file.put_fence(fence)?;
            self.core.fence = fence;
        }
        if claims != self.core.claims {
            self.note_claims(order, self.core.claims, fence)?;
            self.file.put_claims(claims)?;
            self.core.claims = claims;
            // What is shown follows at once: whoever ordered it looks.
            self.core.last_publish = None;
        }
        let fence = (claims == Claims::Drained).then_some(fence);
        Ok(Ok(ClaimsSet { claims, leases_held: self.core.leases.len(), fence }))
    }
}

/// What an order makes of the state and the fence. Stopping again keeps the reason of the first
/// stop, and draining again the fence of the first drain; a fence that is given must be the newest.
fn ordered(order: ClaimsOrder, now: Claims, fence: u64) -> Result<(Claims, u64), FenceRequired> {
    match (order, now) {
        (ClaimsOrder::Stop, Claims::Running) => Ok((Claims::Stopped, fence)),
        (ClaimsOrder::Stop, stopped) => Ok((stopped, fence)),
        (ClaimsOrder::Drain, Claims::Drained) => Ok((Claims::Drained, fence)),
        (ClaimsOrder::Drain, _) => Ok((Claims::Drained, fence + 1)),
        (ClaimsOrder::Start { fence: None }, Claims::Drained) => Err(FenceRequired::Drained),
        (ClaimsOrder::Start { fence: Some(given) }, _) if given != fence => match now {
            Claims::Drained => Err(FenceRequired::Drained),
            Claims::Running | Claims::Stopped | Claims::Restored | Claims::Moved => Err(FenceRequired::Stale),
        },
        (ClaimsOrder::Start { .. }, _) => Ok((Claims::Running, fence)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newest_fence_ends_a_drain_and_each_drain_has_its_own() {
        use Claims::{Drained, Moved, Restored, Running, Stopped};
        let start = |fence| ClaimsOrder::Start { fence };
        let check = |order: ClaimsOrder, now: Claims, fence: u64, want: Option<(Claims, u64)>| {
            assert_eq!(ordered(order, now, fence).ok(), want, "{order:?} {now:?} {fence}");
        };
        check(ClaimsOrder::Stop, Running, 0, Some((Stopped, 0)));
        check(ClaimsOrder::Stop, Restored, 0, Some((Restored, 0)));
        check(ClaimsOrder::Stop, Drained, 4, Some((Drained, 4)));
        for before in [Running, Stopped, Restored, Moved] {
            check(ClaimsOrder::Drain, before, 0, Some((Drained, 1)));
            check(ClaimsOrder::Drain, before, 7, Some((Drained, 8)));
            check(start(None), before, 7, Some((Running, 7)));
            check(start(Some(7)), before, 7, Some((Running, 7)));
            check(start(Some(6)), before, 7, None);
        }
        check(ClaimsOrder::Drain, Drained, 8, Some((Drained, 8)));
        check(start(None), Drained, 8, None);
        check(start(Some(7)), Drained, 8, None);
        check(start(Some(9)), Drained, 8, None);
        check(start(Some(8)), Drained, 8, Some((Running, 8)));
    }
}
