//! What is read once, at open, and then kept in RAM.

use redb::{ReadableTable, ReadableTableMetadata};

use super::record::{self, StoredDestination};
use super::rows::{damaged, name_of};
use super::tables::Meta;
use super::{StoreError, Writing};
use crate::model::{ClassNo, DeliveryId, DestNo, Name, TenantNo};
use crate::outcome::GateMemory;

/// Everything the engine keeps in RAM, as it was found at open; destinations come one by one
/// ([`Writing::each_destination`]), because what is stored of them is more than what is kept.
#[derive(Debug, Default)]
pub(crate) struct Inventory {
    pub(crate) tenants: Vec<(Name, TenantNo)>,
    pub(crate) classes: Vec<(Name, ClassNo)>,
    pub(crate) gates: Vec<(DestNo, GateMemory)>,
    pub(crate) quarantined: u64,
    pub(crate) terminal: u64,
}

impl Writing<'_> {
    /// Everything that is kept in RAM.
    pub(crate) fn inventory(&self) -> Result<Inventory, StoreError> {
        let mut found = Inventory::default();
        for row in self.tables.gates.iter()? {
            let (no, value) = row?;
            let no = DestNo(no.value());
            let gate = record::decode_gate(no, value.value());
            found.gates.push((no, gate.map_err(|_| damaged("gate", no.0))?));
        }
        for row in self.tables.tenants.iter()? {
            let (name, no) = row?;
            found.tenants.push((name_of(name.value())?, TenantNo(no.value())));
        }
        for row in self.tables.classes.iter()? {
            let (name, no) = row?;
            found.classes.push((name_of(name.value())?, ClassNo(no.value())));
        }
        found.quarantined = self.tables.quarantine.len()?;
        found.terminal = self.tables.finished.len()?;
        Ok(found)
    }

    /// The highest id of a delivery or a job: not the last that was made, where clocks differed.
    pub(crate) fn newest_id(&self) -> Result<Option<DeliveryId>, StoreError> {
        let delivery = self.tables.deliveries.last()?.map(|(id, _)| id.value());
        let job = self.tables.jobs.last()?.map(|(id, _)| id.value());
        Ok(delivery.max(job).map(DeliveryId))
    }

    /// Every destination, in the order of their numbers.
    pub(crate) fn each_destination(
        &self,
        mut each: impl FnMut(DestNo, StoredDestination) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        for row in self.tables.destinations.iter()? {
            let (no, value) = row?;
            let no = DestNo(no.value());
            let stored = record::decode_destination(no, value.value());
            each(no, stored.map_err(|_| damaged("destination", no.0))?)?;
        }
        Ok(())
    }
}

/// Whose bodies a sweep removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyKind {
    Delivered,
    Failed,
}

impl BodyKind {
    fn word(self) -> Meta {
        match self {
            BodyKind::Delivered => Meta::DeliveredBodies,
            BodyKind::Failed => Meta::FailedBodies,
        }
    }
}

impl Writing<'_> {
    /// How far the sweep of such bodies has come in `finished`.
    pub(crate) fn body_sweep(&self, kind: BodyKind) -> Result<Option<(u64, DeliveryId)>, StoreError> {
        self.sweep_cursor(kind.word())
    }

    /// See [`Writing::body_sweep`].
    pub(crate) fn put_body_sweep(
        &mut self,
        kind: BodyKind,
        come: Option<(u64, DeliveryId)>,
    ) -> Result<(), StoreError> {
        self.put_sweep_cursor(kind.word(), come)
    }
}
