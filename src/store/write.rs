//! What the engine does to the file, named by intent. A record and its index rows change
//! together, in [`Writing::accept`], [`Writing::replace`] and [`Writing::forget`], and nowhere else.

use redb::ReadableTable;

use super::StoreError;
use super::record::{self, StoredDestination};
use super::rows::{self, damaged, key_row, part_key, parts};
use super::tables::{DueRow, MAX_ATTEMPT_ROWS, Meta, PART_BYTES, Tables, meta};
use crate::delivery::{Attempt, Delivery, Lease, State};
use crate::model::{ClassNo, DeliveryId, DestNo, DestinationState, IdempotencyKey, Lane, Name, TenantNo};
use crate::outcome::Ending;
use crate::outcome::GateMemory;
use crate::time::Timestamp;

/// One write transaction, in the engine's words.
pub(crate) struct Writing<'txn> {
    pub(super) tables: Tables<'txn>,
    pub(super) wrote: bool,
}

/// What a look-up of a record found.
#[derive(Debug)]
pub(crate) enum Found {
    Delivery(Box<Delivery>),
    Damaged,
    Nothing,
}

/// Where a new delivery goes: to its lane, or out at once; or it has ended elsewhere.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'a> {
    Due,
    Leased(&'a Lease),
    Ended,
}

/// The index rows a delivery had before a change.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Before {
    Waiting { lane: Lane, due: Timestamp, expires_at: Timestamp },
    Leased { fresh: bool, expires_at: Timestamp },
    Terminal { step: u64, outcome: Ending },
}

impl Before {
    /// The rows of `delivery` as it stands; `lease` is its lease, if it has one.
    pub(crate) fn of(delivery: &Delivery, lease: Option<&Lease>) -> Before {
        let expires_at = delivery.expires_at;
        match (delivery.state, lease) {
            (State::Terminal { outcome, step, .. }, _) => Before::Terminal { step, outcome },
            (State::Waiting { .. }, Some(lease)) => Before::Leased { fresh: lease.fresh, expires_at },
            (State::Waiting { due, lane, .. }, None) => Before::Waiting { lane, due, expires_at },
        }
    }
}

impl<'txn> Writing<'txn> {
    pub(super) fn new(tables: Tables<'txn>) -> Writing<'txn> {
        Writing { tables, wrote: false }
    }

    /// True when there is something to commit.
    pub(crate) fn has_written(&self) -> bool {
        self.wrote
    }

    /// The record of `id`.
    pub(crate) fn delivery(&self, id: DeliveryId) -> Result<Found, StoreError> {
        let Some(value) = self.tables.deliveries.get(id.0)? else { return Ok(Found::Nothing) };
        Ok(match record::decode_delivery(id, value.value()) {
            Ok(delivery) => Found::Delivery(Box::new(delivery)),
            Err(record::Damaged) => Found::Damaged,
        })
    }

    /// The delivery that a producer's key names, if its record is still there.
    pub(crate) fn key_owner(
        &self,
        tenant: TenantNo,
        key: &IdempotencyKey,
        destination: DestNo,
    ) -> Result<Option<DeliveryId>, StoreError> {
        let row = key_row(tenant, key, destination);
        Ok(self.tables.keys.get(&*row)?.map(|id| DeliveryId(id.value())))
    }

    /// Stores a new delivery, its body, its key, and its place. Its id must be new.
    pub(crate) fn accept(&mut self, it: &Delivery, body: &[u8], place: Place<'_>) -> Result<(), StoreError> {
        self.wrote = true;
        let taken = self.tables.deliveries.insert(it.id.0, &*record::encode_delivery(it))?.is_some();
        refuse(taken, || format!("the new id {} is taken", it.id))?;
        self.put_body(it.id, body)?;
        if let Some(key) = &it.key {
            self.tables.keys.insert(&*key_row(it.tenant, key, it.destination), it.id.0)?;
        }
        match place {
            Place::Due => self.insert_waiting(it),
            Place::Leased(lease) => self.insert_lease(lease),
            Place::Ended => self.insert_ended(it),
        }
    }

    /// Stores the bytes of a body; its record says that they are there.
    pub(crate) fn put_body(&mut self, id: DeliveryId, body: &[u8]) -> Result<(), StoreError> {
        self.wrote = true;
        for (n, part) in (0_u16..).zip(body.chunks(PART_BYTES)) {
            let value = record::seal_part(&part_key(id, n), part);
            self.tables.payloads.insert((id.0, n), &*value)?;
        }
        Ok(())
    }

    /// Takes a waiting delivery's due row away and puts its lease there.
    pub(crate) fn claim(&mut self, lease: &Lease) -> Result<(), StoreError> {
        self.wrote = true;
        let row = (lease.destination.0, lease.lane.0, lease.due.0, lease.id.0);
        self.remove_due(row)?;
        self.insert_lease(lease)
    }

    /// Writes the changed record and moves its index rows from where they were to where its
    /// state says. `moved` is the attempt that no longer fits in the record.
    pub(crate) fn replace(
        &mut self,
        before: Before,
        after: &Delivery,
        moved: Option<&Attempt>,
    ) -> Result<(), StoreError> {
        self.remove_rows(before, after)?;
        match after.state {
            State::Waiting { .. } => self.insert_waiting(after)?,
            State::Terminal { .. } => self.insert_ended(after)?,
        }
        if let Some(attempt) = moved {
            self.keep_attempt(after.id, attempt)?;
        }
        self.rewrite(after)
    }

    fn remove_rows(&mut self, before: Before, after: &Delivery) -> Result<(), StoreError> {
        let id = after.id.0;
        match before {
            Before::Waiting { lane, due, expires_at } => {
                self.remove_due((after.destination.0, lane.0, due.0, id))?;
                let gone = self.tables.ends.remove((expires_at.0, id))?.is_none();
                refuse(gone, || format!("{} waits without a row in ends", after.id))
            }
            Before::Leased { fresh, expires_at } => {
                let gone = self.tables.leases.remove(id)?.is_none();
                refuse(gone, || format!("{} has no lease row", after.id))?;
                if !fresh {
                    self.tables.ends.remove((expires_at.0, id))?;
                }
                Ok(())
            }
            Before::Terminal { step, outcome } => {
                if outcome == Ending::Quarantined {
                    self.tables.quarantine.remove(id)?;
                }
                let gone = self.tables.finished.remove((step, id))?.is_none();
                refuse(gone, || format!("{} ended without a row in finished", after.id))
            }
        }
    }

    /// Writes a record whose index rows stay as they are.
    pub(crate) fn rewrite(&mut self, it: &Delivery) -> Result<(), StoreError> {
        self.wrote = true;
        self.tables.deliveries.insert(it.id.0, &*record::encode_delivery(it))?;
        Ok(())
    }

    /// Removes the body's bytes; the record says so itself.
    pub(crate) fn remove_body(&mut self, id: DeliveryId, bytes: u32) -> Result<(), StoreError> {
        self.wrote = true;
        for n in 0..parts(bytes) {
            self.tables.payloads.remove((id.0, n))?;
        }
        Ok(())
    }

    /// Removes what answers said from the attempts that stand outside the record. One that cannot
    /// be read goes whole: what it says is not known.
    pub(crate) fn forget_excerpts(&mut self, id: DeliveryId) -> Result<(), StoreError> {
        let mut changed = Vec::new();
        for row in self.tables.attempts.range((id.0, 0)..=(id.0, u32::MAX))? {
            let (key, value) = row?;
            let n = key.value().1;
            match record::decode_attempt(id, n, value.value()) {
                Ok(attempt) if attempt.response_excerpt.is_none() => {}
                Ok(attempt) => changed.push((n, Some(Attempt { response_excerpt: None, ..attempt }))),
                Err(record::Damaged) => changed.push((n, None)),
            }
        }
        for (n, attempt) in changed {
            self.wrote = true;
            match attempt {
                Some(it) => self.tables.attempts.insert((id.0, n), &*record::encode_attempt(id, &it))?,
                None => self.tables.attempts.remove((id.0, n))?,
            };
        }
        Ok(())
    }

    /// Removes every trace of a delivery that has ended.
    pub(crate) fn forget(&mut self, it: &Delivery) -> Result<(), StoreError> {
        let State::Terminal { step, .. } = it.state else {
            return Err(StoreError::Contradiction(format!("{} is to be forgotten but waits", it.id)));
        };
        self.remove_body(it.id, it.body_bytes())?;
        if let Some(key) = &it.key {
            self.tables.keys.remove(&*key_row(it.tenant, key, it.destination))?;
        }
        self.forget_rows(step, it.id)
    }

    /// Removes what can be found of a delivery whose record cannot be read. The row of its key
    /// stays: it leads to nothing, and finding it would take a walk over all keys.
    pub(crate) fn forget_damaged(&mut self, step: u64, id: DeliveryId) -> Result<(), StoreError> {
        self.tables.payloads.retain_in((id.0, 0)..=(id.0, u16::MAX), |_, _| false)?;
        self.forget_rows(step, id)
    }

    fn forget_rows(&mut self, step: u64, id: DeliveryId) -> Result<(), StoreError> {
        self.wrote = true;
        self.tables.attempts.retain_in((id.0, 0)..=(id.0, u32::MAX), |_, _| false)?;
        self.tables.quarantine.remove(id.0)?;
        self.tables.finished.remove((step, id.0))?;
        self.tables.deliveries.remove(id.0)?;
        Ok(())
    }

    /// Takes the lease of a delivery whose record cannot be read: it is never sent again, and
    /// is listed as quarantined.
    pub(crate) fn quarantine_damaged(&mut self, id: DeliveryId, at: Timestamp) -> Result<(), StoreError> {
        self.wrote = true;
        self.tables.leases.remove(id.0)?;
        self.tables.quarantine.insert(id.0, at.0)?;
        Ok(())
    }

    /// Removes a row of `ends` whose delivery is leased or gone: a report, if any, will look.
    pub(crate) fn drop_end(&mut self, expires_at: Timestamp, id: DeliveryId) -> Result<(), StoreError> {
        self.wrote = true;
        self.tables.ends.remove((expires_at.0, id.0))?;
        Ok(())
    }

    /// Stores a destination; its name leads to it unless it is deleted.
    pub(crate) fn put_destination(&mut self, no: DestNo, it: &StoredDestination) -> Result<(), StoreError> {
        self.wrote = true;
        self.tables.destinations.insert(no.0, &*record::encode_destination(no, it))?;
        let name = it.name.as_str().as_bytes();
        match it.note.state {
            DestinationState::Deleted => self.tables.destination_names.remove(name)?,
            DestinationState::Active | DestinationState::Paused | DestinationState::Disabled => {
                self.tables.destination_names.insert(name, no.0)?
            }
        };
        Ok(())
    }

    /// The destination stored under a number.
    pub(crate) fn destination(&self, no: DestNo) -> Result<StoredDestination, StoreError> {
        let value = self.tables.destinations.get(no.0)?.ok_or_else(|| damaged("destination", no.0))?;
        record::decode_destination(no, value.value()).map_err(|_| damaged("destination", no.0))
    }

    /// Gives a tenant its number.
    pub(crate) fn put_tenant(&mut self, name: &Name, no: TenantNo) -> Result<(), StoreError> {
        self.wrote = true;
        self.tables.tenants.insert(name.as_str().as_bytes(), no.0)?;
        Ok(())
    }

    /// Gives a class its number.
    pub(crate) fn put_class(&mut self, name: &Name, no: ClassNo) -> Result<(), StoreError> {
        self.wrote = true;
        self.tables.classes.insert(name.as_str().as_bytes(), no.0)?;
        Ok(())
    }

    /// Stores what of a gate outlives the process.
    pub(crate) fn put_gate(&mut self, no: DestNo, row: &GateMemory) -> Result<(), StoreError> {
        self.wrote = true;
        self.tables.gates.insert(no.0, &*record::encode_gate(no, row))?;
        Ok(())
    }

    /// Says that this commit is step `step`, made at `wall`.
    pub(crate) fn tick(&mut self, step: u64, wall: Timestamp) -> Result<(), StoreError> {
        let mut value = [0; 16];
        value[..8].copy_from_slice(&step.to_le_bytes());
        value[8..].copy_from_slice(&wall.0.to_le_bytes());
        self.put_meta(Meta::Tick, &value)
    }

    /// How far a sweep of bodies has come in `finished`; `word` says which.
    pub(super) fn sweep_cursor(&self, word: Meta) -> Result<Option<(u64, DeliveryId)>, StoreError> {
        let Some(value) = meta(&self.tables.meta, word)? else { return Ok(None) };
        let wrong = || damaged("meta", word as u32);
        let (step, id) = value.split_at_checked(8).ok_or_else(wrong)?;
        let step = step.try_into().map_err(|_| wrong())?;
        let id = id.try_into().map_err(|_| wrong())?;
        Ok(Some((u64::from_le_bytes(step), DeliveryId(u128::from_le_bytes(id)))))
    }

    /// See [`Writing::sweep_cursor`].
    pub(super) fn put_sweep_cursor(
        &mut self,
        word: Meta,
        come: Option<(u64, DeliveryId)>,
    ) -> Result<(), StoreError> {
        let Some((step, id)) = come else {
            self.wrote = true;
            self.tables.meta.remove(word as u8)?;
            return Ok(());
        };
        let mut value = [0; 24];
        value[..8].copy_from_slice(&step.to_le_bytes());
        value[8..].copy_from_slice(&id.0.to_le_bytes());
        self.put_meta(word, &value)
    }

    pub(super) fn put_meta(&mut self, word: Meta, value: &[u8]) -> Result<(), StoreError> {
        self.wrote = true;
        self.tables.meta.insert(word as u8, value)?;
        Ok(())
    }

    pub(super) fn remove_meta(&mut self, word: Meta) -> Result<(), StoreError> {
        self.wrote |= self.tables.meta.remove(word as u8)?.is_some();
        Ok(())
    }

    pub(super) fn meta(&self, word: Meta) -> Result<Option<Vec<u8>>, StoreError> {
        meta(&self.tables.meta, word)
    }

    fn insert_waiting(&mut self, it: &Delivery) -> Result<(), StoreError> {
        let State::Waiting { due, lane, .. } = it.state else {
            return Err(StoreError::Contradiction(format!("{} has ended and cannot wait", it.id)));
        };
        self.wrote = true;
        let row = (it.destination.0, lane.0, due.0, it.id.0);
        let taken = self.tables.due.insert(row, rows::due_value(it))?.is_some();
        refuse(taken, || format!("{} had a due row already", it.id))?;
        self.tables.ends.insert((it.expires_at.0, it.id.0), ())?;
        Ok(())
    }

    fn insert_ended(&mut self, it: &Delivery) -> Result<(), StoreError> {
        let State::Terminal { outcome, at, step } = it.state else {
            return Err(StoreError::Contradiction(format!("{} waits and has not ended", it.id)));
        };
        self.wrote = true;
        self.tables.finished.insert((step, it.id.0), at.0)?;
        if outcome == Ending::Quarantined {
            self.tables.quarantine.insert(it.id.0, at.0)?;
        }
        Ok(())
    }

    fn insert_lease(&mut self, it: &Lease) -> Result<(), StoreError> {
        self.wrote = true;
        let taken = self.tables.leases.insert(it.id.0, rows::lease_value(it))?.is_some();
        refuse(taken, || format!("{} had a lease already", it.id))
    }

    fn remove_due(&mut self, row: DueRow) -> Result<(), StoreError> {
        self.wrote = true;
        let gone = self.tables.due.remove(row)?.is_none();
        refuse(gone, || format!("{} has no due row", DeliveryId(row.3)))
    }

    /// Stores an attempt that is not in the record; beyond [`MAX_ATTEMPT_ROWS`] the oldest goes.
    pub(crate) fn keep_attempt(&mut self, id: DeliveryId, attempt: &Attempt) -> Result<(), StoreError> {
        self.wrote = true;
        self.tables.attempts.insert((id.0, attempt.n), &*record::encode_attempt(id, attempt))?;
        let rows = self.tables.attempts.range((id.0, 0)..=(id.0, u32::MAX))?;
        if rows.count() > MAX_ATTEMPT_ROWS {
            let oldest = self.tables.attempts.range((id.0, 0)..)?.next().transpose()?;
            let oldest = oldest.map(|row| row.0.value());
            if let Some(key) = oldest {
                self.tables.attempts.remove(key)?;
            }
        }
        Ok(())
    }
}

fn refuse(wrong: bool, says: impl FnOnce() -> String) -> Result<(), StoreError> {
    if wrong { Err(StoreError::Contradiction(says())) } else { Ok(()) }
}
