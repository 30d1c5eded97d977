//! What a drained file hands over: every destination, then every delivery with its body, page by
//! page, each page in a short transaction of its own.

use super::{Body, DeliveryView, DestinationView, Snapshot, StoreError, record, rows};
use crate::delivery::{Delivery, Source};
use crate::model::{DeliveryId, DestNo, DestinationState};
use crate::outcome::GateMemory;

/// Destinations looked at in one page.
const PAGE_DESTINATIONS: usize = 500;

/// A delivery to be handed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handed {
    pub view: DeliveryView,
    /// None: it was erased, or it is a reference.
    pub body: Option<Body>,
}

/// Why a delivery cannot be handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftBehind {
    /// Its record or its body cannot be read.
    Damaged,
    /// It has ended, and its destination was deleted: nothing leads to it by name.
    DestinationDeleted,
}

impl Snapshot {
    /// A page of the destinations from number `from` on that are not deleted, with what was learnt of
    /// each; where the next page begins.
    ///
    /// # Errors
    /// [`StoreError`] when the file cannot be read.
    pub fn hand_over_destinations(
        &self,
        from: DestNo,
        mut each: impl FnMut(&DestinationView, &GateMemory),
    ) -> Result<Option<DestNo>, StoreError> {
        for (looked_at, row) in self.tables.destinations.range(from.0..)?.enumerate() {
            let no = DestNo(row?.0.value());
            if looked_at == PAGE_DESTINATIONS {
                return Ok(Some(no));
            }
            let it = self.stored(no)?;
            if it.note.state != DestinationState::Deleted {
                each(&it, &self.learnt(no)?);
            }
        }
        Ok(None)
    }

    fn learnt(&self, no: DestNo) -> Result<GateMemory, StoreError> {
        let Some(value) = self.tables.gates.get(no.0)? else { return Ok(GateMemory::default()) };
        record::decode_gate(no, value.value()).map_err(|_| rows::damaged("gate", no.0))
    }

    /// Deliveries after `after` in the order of their ids, until `each` says that it has enough; the
    /// last one it was given, unless there are no more.
    ///
    /// # Errors
    /// [`StoreError`] when the file cannot be read.
    pub fn hand_over(
        &self,
        after: Option<DeliveryId>,
        mut each: impl FnMut(DeliveryId, Result<Handed, LeftBehind>) -> bool,
    ) -> Result<Option<DeliveryId>, StoreError> {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = after.map_or(Unbounded, |id| Excluded(id.0));
        for row in self.tables.deliveries.range::<u128>((from, Unbounded))? {
            let (id, value) = row?;
            let id = DeliveryId(id.value());
            let handed = match record::decode_delivery(id, value.value()) {
                Ok(_) => self.handed(self.view(id, value.value())?)?,
                Err(record::Damaged) => Err(LeftBehind::Damaged),
            };
            if each(id, handed) {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    fn handed(&self, view: DeliveryView) -> Result<Result<Handed, LeftBehind>, StoreError> {
        if self.is_deleted(view.delivery.destination)? {
            return Ok(Err(LeftBehind::DestinationDeleted));
        }
        if !has_body(&view.delivery) {
            return Ok(Ok(Handed { view, body: None }));
        }
        let body = self.body(&view.delivery)?;
        Ok(body.map(|body| Handed { view, body: Some(body) }).ok_or(LeftBehind::Damaged))
    }
}

fn has_body(it: &Delivery) -> bool {
    matches!(it.payload.source, Source::Inline { .. }) && it.payload.erased_at.is_none()
}
