//! What readers see: one short read transaction, and records with names instead of numbers.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use redb::ReadTransaction;

use super::StoreError;
use super::list::{ASK_EVERY, PAGE_RECORDS};
use super::record::{self, StoredDestination};
use super::rows::{self, name_of};
use super::tables::ReadTables;
use crate::delivery::{Attempt, Delivery, Lease, State};
use crate::model::destination::StateNote;
use crate::model::{ClassNo, DeliveryId, DestNo, Destination, DestinationState, IdempotencyKey, Name};
use crate::model::{MAX_CLASSES, TenantNo};
use crate::outcome::Ending;
use crate::store::Page;
use crate::time::Timestamp;

/// Attempts that are shown (API.md).
const SHOWN_ATTEMPTS: usize = 100;

/// A delivery with everything a reader wants to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryView {
    pub delivery: Arc<Delivery>,
    /// The live lease, if an attempt is in flight.
    pub lease: Option<Lease>,
    pub tenant: Name,
    pub destination: Name,
    pub class: Name,
    /// When its destination lets anything through again, as stored; it may have passed.
    pub held_until: Option<Timestamp>,
}

/// A destination as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DestinationView {
    pub no: DestNo,
    pub name: Name,
    pub settings: Destination,
    pub note: StateNote,
    pub created_at: Timestamp,
    /// Counts changes: the ETag.
    pub revision: u32,
}

impl DestinationView {
    pub(crate) fn of(no: DestNo, it: StoredDestination) -> DestinationView {
        let StoredDestination { name, settings, note, created_at, revision } = it;
        DestinationView { no, name, settings, note, created_at, revision }
    }
}

/// One read transaction. Short: at most one page is read in it.
pub struct Snapshot {
    pub(super) tables: ReadTables,
    names: RefCell<BTreeMap<DestNo, Known>>,
}

/// What a delivery's view takes from its destination.
#[derive(Clone)]
struct Known {
    name: Name,
    tenant: Name,
    held_until: Option<Timestamp>,
    deleted: bool,
}

impl Snapshot {
    pub(super) fn new(txn: &ReadTransaction) -> Result<Snapshot, StoreError> {
        Ok(Snapshot { tables: ReadTables::open(txn)?, names: RefCell::default() })
    }

    /// The delivery, if there is one whose record can be read. A damaged one is shown as
    /// quarantined with nothing but its id.
    ///
    /// # Errors
    /// [`StoreError`] when the file cannot be read.
    pub fn delivery(&self, id: DeliveryId) -> Result<Option<DeliveryView>, StoreError> {
        match self.tables.deliveries.get(id.0)? {
            Some(value) => self.view(id, value.value()).map(Some),
            None => Ok(None),
        }
    }

    /// The deliveries that a key names: one a destination. With a name, only at the destination
    /// that has it now: a deleted one of the same name is another.
    ///
    /// # Errors
    /// [`StoreError`] when the file cannot be read.
    pub fn by_key(
        &self,
        tenant: &Name,
        key: &IdempotencyKey,
        destination: Option<&Name>,
    ) -> Result<Vec<DeliveryView>, StoreError> {
        let Some(tenant) = self.tables.tenants.get(tenant.as_str().as_bytes())? else { return Ok(vec![]) };
        let tenant = TenantNo(tenant.value());
        let mut at = DestNo(0)..=DestNo(u32::MAX);
        if let Some(name) = destination {
            let Some(no) = self.tables.destination_names.get(name.as_str().as_bytes())? else {
                return Ok(vec![]);
            };
            at = DestNo(no.value())..=DestNo(no.value());
        }
        let from = rows::key_row(tenant, key, *at.start());
        let to = rows::key_row(tenant, key, *at.end());
        let mut found = Vec::new();
        for row in self.tables.keys.range::<&[u8]>(&*from..=&*to)? {
            let id = DeliveryId(row?.1.value());
            found.extend(self.delivery(id)?);
        }
        Ok(found)
    }

    /// The newest hundred attempts, oldest first; None when there is no such delivery.
    ///
    /// # Errors
    /// [`StoreError`] when the file cannot be read.
    pub fn attempts(&self, id: DeliveryId) -> Result<Option<Vec<Attempt>>, StoreError> {
        let Some(view) = self.delivery(id)? else { return Ok(None) };
        let mut all = Vec::new();
        for row in self.tables.attempts.range((id.0, 0)..=(id.0, u32::MAX))? {
            let (key, value) = row?;
            all.extend(record::decode_attempt(id, key.value().1, value.value()));
        }
        all.extend(view.delivery.log.iter().cloned());
        let surplus = all.len().saturating_sub(SHOWN_ATTEMPTS);
        all.drain(..surplus);
        Ok(Some(all))
    }

    /// The destination that has this name now.
    ///
    /// # Errors
    /// [`StoreError`] when the file cannot be read.
    pub fn destination(&self, name: &Name) -> Result<Option<DestinationView>, StoreError> {
        match self.tables.destination_names.get(name.as_str().as_bytes())? {
            Some(no) => self.stored(DestNo(no.value())).map(Some),
            None => Ok(None),
        }
    }

    /// Destinations in order of name, after `from`; an empty list of tenants or states matches all.
    ///
    /// # Errors
    /// [`StoreError`] when the file cannot be read.
    pub fn destinations(
        &self,
        tenants: &[Name],
        states: &[DestinationState],
        from: Option<&Name>,
        limit: usize,
        stop: &dyn Fn() -> bool,
    ) -> Result<Page<DestinationView, Name>, StoreError> {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = from.map_or(Unbounded, |name| Excluded(name.as_str().as_bytes()));
        let mut page = Page { items: Vec::new(), next: None };
        let mut rows = self.tables.destination_names.range::<&[u8]>((from, Unbounded))?;
        for looked_at in 1.. {
            let Some(row) = rows.next() else { break };
            let it = self.stored(DestNo(row?.1.value()))?;
            let name = it.name.clone();
            let tenant = tenants.is_empty() || tenants.contains(&it.settings.tenant);
            let state = states.is_empty() || states.contains(&it.note.state);
            page.items.extend(Some(it).filter(|_| tenant && state));
            let over = looked_at % ASK_EVERY == 0 && stop();
            if page.items.len() == limit || looked_at == PAGE_RECORDS || over {
                page.next = rows.next().transpose()?.map(|_| name);
                break;
            }
        }
        Ok(page)
    }

    /// Waiting deliveries in front of this one in its lane, counted up to `most`.
    ///
    /// # Errors
    /// [`StoreError`] when the file cannot be read.
    pub fn ahead(&self, view: &DeliveryView, most: usize) -> Result<usize, StoreError> {
        let State::Waiting { due, lane, .. } = view.delivery.state else { return Ok(0) };
        let (dest, id) = (view.delivery.destination.0, view.delivery.id.0);
        let rows = self.tables.due.range((dest, lane.0, 0, 0)..(dest, lane.0, due.0, id))?;
        Ok(rows.take(most).count())
    }

    /// Waiting deliveries of a destination that are not due at `now`, counted up to `most`.
    ///
    /// # Errors
    /// [`StoreError`] when the file cannot be read.
    pub fn delayed(&self, no: DestNo, now: Timestamp, most: usize) -> Result<usize, StoreError> {
        let mut sum = 0;
        for lane in 0..u8::try_from(MAX_CLASSES * 2).unwrap_or(u8::MAX) {
            let later = (no.0, lane, now.0.saturating_add(1), 0)..=(no.0, lane, u64::MAX, u128::MAX);
            sum += self.tables.due.range(later)?.take(most - sum).count();
        }
        Ok(sum)
    }

    /// The destination of a number, deleted ones included.
    ///
    /// # Errors
    /// [`StoreError`] when the file cannot be read, or has no such number.
    pub fn destination_of(&self, no: DestNo) -> Result<DestinationView, StoreError> {
        self.stored(no)
    }

    pub(super) fn stored(&self, no: DestNo) -> Result<DestinationView, StoreError> {
        let value = self.tables.destinations.get(no.0)?.ok_or_else(|| rows::damaged("destination", no.0))?;
        let stored = record::decode_destination(no, value.value());
        Ok(DestinationView::of(no, stored.map_err(|_| rows::damaged("destination", no.0))?))
    }

    /// The view of the record in `value`.
    pub(super) fn view(&self, id: DeliveryId, value: &[u8]) -> Result<DeliveryView, StoreError> {
        let Ok(delivery) = record::decode_delivery(id, value) else { return Ok(damaged_view(id)) };
        let lease = match delivery.state {
            State::Waiting { .. } => self.tables.leases.get(id.0)?.map(|row| rows::lease(id.0, row.value())),
            State::Terminal { .. } => None,
        };
        let known = self.known(delivery.destination)?;
        let class = self.class(delivery.class)?;
        let Known { name: destination, tenant, held_until, deleted: _ } = known;
        let delivery = Arc::new(delivery);
        Ok(DeliveryView { delivery, lease, tenant, destination, class, held_until })
    }

    fn known(&self, no: DestNo) -> Result<Known, StoreError> {
        if let Some(known) = self.names.borrow().get(&no) {
            return Ok(known.clone());
        }
        let it = self.stored(no)?;
        let gate = self.tables.gates.get(no.0)?;
        let gate = gate.map(|value| record::decode_gate(no, value.value())).transpose();
        let gate = gate.map_err(|_| rows::damaged("gate", no.0))?;
        let known = Known {
            name: it.name,
            tenant: it.settings.tenant,
            held_until: gate.and_then(|gate| gate.shut_until()),
            deleted: it.note.state == DestinationState::Deleted,
        };
        self.names.borrow_mut().insert(no, known.clone());
        Ok(known)
    }

    /// True when the destination of this number was deleted.
    pub(super) fn is_deleted(&self, no: DestNo) -> Result<bool, StoreError> {
        Ok(self.known(no)?.deleted)
    }

    fn class(&self, no: ClassNo) -> Result<Name, StoreError> {
        use redb::ReadableTable;
        for row in self.tables.classes.iter()? {
            let (name, found) = row?;
            if found.value() == no.0 {
                return name_of(name.value());
            }
        }
        Err(rows::damaged("class", no.0.into()))
    }
}

/// What can be said of a record that cannot be read: its id, and that it is never sent.
fn damaged_view(id: DeliveryId) -> DeliveryView {
    use crate::delivery::{Payload, Source};
    let unknown: Name = "unknown".parse().expect("it is a name");
    let at = id.made_at();
    let delivery = Delivery {
        id,
        tenant: TenantNo(u32::MAX),
        destination: DestNo(u32::MAX),
        class: ClassNo(u8::MAX),
        region: unknown.clone(),
        key: None,
        created_at: at,
        not_before: None,
        max_age: crate::time::Millis(0),
        expires_at: at,
        max_failures: 0,
        state: State::Terminal { outcome: Ending::Quarantined, at, step: 0 },
        attempts: 0,
        failures: 0,
        throttles: 0,
        interrupted: 0,
        revision: 0,
        cancelling: false,
        first_attempt_at: None,
        payload: Payload { source: Source::Inline { bytes: 0, sha256: [0; 32] }, erased_at: Some(at) },
        content_type: String::new(),
        headers: vec![],
        labels: vec![],
        log: vec![],
    };
    let (tenant, destination, class) = (unknown.clone(), unknown.clone(), unknown);
    let delivery = Arc::new(delivery);
    DeliveryView { delivery, lease: None, tenant, destination, class, held_until: None }
}
