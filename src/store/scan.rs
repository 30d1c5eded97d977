//! Bounded reads in key order, inside the engine's own transaction: pages of lanes, what has
//! expired, what has ended. Nothing here writes.

use std::ops::Bound::{Excluded, Unbounded};

use redb::ReadableTable;

use super::StoreError;
use super::rows::{entry, lease};
use super::tables::DueRow;
use super::write::Writing;
use crate::delivery::Lease;
use crate::model::{DeliveryId, DestNo, DueEntry, Lane};
use crate::time::Timestamp;

impl Writing<'_> {
    /// Rows of one lane in order, at most `most`, after `after`.
    pub(crate) fn lane_page(
        &self,
        destination: DestNo,
        lane: Lane,
        after: Option<(Timestamp, DeliveryId)>,
        most: usize,
    ) -> Result<Vec<DueEntry>, StoreError> {
        let (d, l) = (destination.0, lane.0);
        let from = after.map_or((d, l, 0, 0), |(due, id)| (d, l, due.0, id.0.saturating_add(1)));
        let rows = self.tables.due.range(from..=(d, l, u64::MAX, u128::MAX))?;
        rows.take(most)
            .map(|row| row.map(|(key, value)| entry(key.value(), value.value())))
            .map(|r| Ok(r?))
            .collect()
    }

    /// The rows of `due` in key order after `after`, at most `most`.
    pub(crate) fn due_page(
        &self,
        after: Option<DueRow>,
        most: usize,
    ) -> Result<Vec<(DueRow, DueEntry)>, StoreError> {
        let from = after.map_or(Unbounded, Excluded);
        let rows = self.tables.due.range::<DueRow>((from, Unbounded))?;
        rows.take(most)
            .map(|row| {
                let (key, value) = row?;
                Ok((key.value(), entry(key.value(), value.value())))
            })
            .collect()
    }

    /// The first row of the first lane at or after `(destination, lane)`: a skip-scan's step.
    pub(crate) fn next_lane(
        &self,
        destination: DestNo,
        lane: u8,
    ) -> Result<Option<(DestNo, Lane, DueEntry)>, StoreError> {
        let mut rows = self.tables.due.range((destination.0, lane, 0, 0)..)?;
        let Some(row) = rows.next() else { return Ok(None) };
        let (key, value) = row?;
        let key = key.value();
        Ok(Some((DestNo(key.0), Lane(key.1), entry(key, value.value()))))
    }

    /// Rows of `ends` up to and including `until`, at most `most`.
    pub(crate) fn expired(
        &self,
        until: Timestamp,
        most: usize,
    ) -> Result<Vec<(Timestamp, DeliveryId)>, StoreError> {
        let rows = self.tables.ends.range(..=(until.0, u128::MAX))?;
        rows.take(most)
            .map(|row| {
                let key = row?.0.value();
                Ok((Timestamp(key.0), DeliveryId(key.1)))
            })
            .collect()
    }

    /// When the next delivery expires.
    pub(crate) fn first_end(&self) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.tables.ends.first()?.map(|row| Timestamp(row.0.value().0)))
    }

    /// Rows of `finished` after `after`, oldest first, at most `most`: step, id, when.
    pub(crate) fn finished(
        &self,
        after: Option<(u64, DeliveryId)>,
        most: usize,
    ) -> Result<Vec<(u64, DeliveryId, Timestamp)>, StoreError> {
        let from = after.map_or(Unbounded, |(step, id)| Excluded((step, id.0)));
        let rows = self.tables.finished.range::<(u64, u128)>((from, Unbounded))?;
        rows.take(most)
            .map(|row| {
                let (key, at) = row?;
                let (step, id) = key.value();
                Ok((step, DeliveryId(id), Timestamp(at.value())))
            })
            .collect()
    }

    /// Every lease row, for the first commit after an open.
    pub(crate) fn leases(&self) -> Result<Vec<Lease>, StoreError> {
        let rows = self.tables.leases.iter()?;
        rows.map(|row| {
            let (id, value) = row?;
            Ok(lease(id.value(), value.value()))
        })
        .collect()
    }
}
