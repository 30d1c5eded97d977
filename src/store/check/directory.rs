//! The part of the check that is not deliveries: destinations and their names, tenants, classes,
//! gates, and the attempts that have rows of their own.

use redb::ReadableTable;

use super::Walk;
use crate::model::{AuditKey, DeliveryId, DestNo, DestinationState, JobId};
use crate::store::record;
use crate::store::rows::name_of;
use crate::store::{DestinationView, StoreError};
use crate::time::Timestamp;

impl Walk<'_> {
    /// Everything that a server needs before it can look at a delivery.
    pub(super) fn directory(&mut self) -> Result<(), StoreError> {
        self.names()?;
        self.destinations()?;
        self.destination_names()?;
        self.gates()?;
        self.attempts()?;
        self.jobs()?;
        self.audit()
    }

    fn names(&mut self) -> Result<(), StoreError> {
        for row in self.file.tables.tenants.iter()? {
            let good = name_of(row?.0.value()).is_ok();
            self.demand(good, || "the name of a tenant cannot be read".to_owned());
        }
        for row in self.file.tables.classes.iter()? {
            let good = name_of(row?.0.value()).is_ok();
            self.demand(good, || "the name of a class cannot be read".to_owned());
        }
        Ok(())
    }

    /// Their numbers are 0, 1, 2, …; each has a tenant, and its name unless it is deleted.
    fn destinations(&mut self) -> Result<(), StoreError> {
        for (expected, row) in (0..).zip(self.file.tables.destinations.iter()?) {
            let (no, value) = row?;
            let no = DestNo(no.value());
            self.found.destinations += 1;
            self.demand(no.0 == expected, || format!("destination {expected} is missing"));
            match record::decode_destination(no, value.value()) {
                Ok(stored) => self.destination(&DestinationView::of(no, stored))?,
                Err(record::Damaged) => self.demand(false, || format!("destination {} cannot be read", no.0)),
            }
        }
        Ok(())
    }

    fn destination(&mut self, it: &DestinationView) -> Result<(), StoreError> {
        let tables = &self.file.tables;
        let tenant = tables.tenants.get(it.settings.tenant.as_str().as_bytes())?.is_some();
        let named = tables.destination_names.get(it.name.as_str().as_bytes())?;
        let named = named.is_some_and(|no| no.value() == it.no.0);
        let living = it.note.state != DestinationState::Deleted;
        self.demand(tenant, || format!("the tenant of destination {} is missing", it.name));
        self.demand(named == living, || format!("the name {} does not lead to its destination", it.name));
        Ok(())
    }

    /// No name leads to where nothing is.
    fn destination_names(&mut self) -> Result<(), StoreError> {
        for row in self.file.tables.destination_names.iter()? {
            let no = row?.1.value();
            let there = self.file.tables.destinations.get(no)?.is_some();
            self.demand(there, || format!("a name leads to destination {no}, which is missing"));
        }
        Ok(())
    }

    fn gates(&mut self) -> Result<(), StoreError> {
        for row in self.file.tables.gates.iter()? {
            let (no, value) = row?;
            let no = DestNo(no.value());
            let good = record::decode_gate(no, value.value()).is_ok();
            let there = self.file.tables.destinations.get(no.0)?.is_some();
            self.demand(good && there, || format!("the gate of destination {} cannot be read", no.0));
        }
        Ok(())
    }

    /// No delivery hangs on a job: one that is damaged does nothing, and goes in its time.
    fn jobs(&mut self) -> Result<(), StoreError> {
        for row in self.file.tables.jobs.iter()? {
            let (id, value) = row?;
            let id = JobId(id.value());
            let good = record::decode_job(id, value.value()).is_ok();
            self.spare(good, || format!("{id} cannot be read"));
        }
        Ok(())
    }

    /// Nothing hangs on an entry of the log: one that is damaged is left out of a list.
    fn audit(&mut self) -> Result<(), StoreError> {
        let tables = &self.file.tables;
        for row in tables.audit.iter()?.chain(tables.audit_deliveries.iter()?) {
            let (key, value) = row?;
            let (at, n) = key.value();
            let key = AuditKey { at: Timestamp(at), n };
            self.found.audit += 1;
            let good = record::decode_audit(key, value.value()).is_ok();
            self.spare(good, || format!("entry {key} of the audit log cannot be read"));
        }
        Ok(())
    }

    /// An attempt's row is never read to send by: one that is damaged is left out of a list.
    fn attempts(&mut self) -> Result<(), StoreError> {
        for row in self.file.tables.attempts.iter()? {
            let (key, value) = row?;
            let (id, n) = key.value();
            let id = DeliveryId(id);
            self.found.attempts += 1;
            let good = record::decode_attempt(id, n, value.value()).is_ok();
            let there = self.file.tables.deliveries.get(id.0)?.is_some();
            self.spare(good, || format!("attempt {n} of {id} cannot be read"));
            self.demand(there, || format!("attempt {n} is of {id}, which is missing"));
        }
        Ok(())
    }
}
