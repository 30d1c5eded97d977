//! Accepting: checked, deduplicated, and put into its lane in RAM. Where it ends up on disk,
//! in `due` or in `leases`, is known when the claims are made; record and row are written then.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::command::{AcceptBatch, Accepted, Fresh, Rejected};
use super::live::DiskLive;
use super::{Core, InStep};
use crate::delivery::{Delivery, Lease, Payload, Source, State};
use crate::model::{ClassNo, DeliveryId, DestNo, DestinationState, DueEntry, IdempotencyKey, Lane, Name};
use crate::model::{NewDelivery, TenantNo};
use crate::outcome::NextReason;
use crate::policy::Policy;
use crate::store::{Claims, Found, Place, StoreError};
use crate::time::{Millis, Timestamp};

/// How long a producer is to wait when there is no room for more deliveries: by then some ended.
const FULL_RETRY_AFTER: Millis = Millis(5_000);
/// The same when the disk is nearly full: somebody has to make room first.
const LOW_RETRY_AFTER: Millis = Millis(30_000);
/// The same while another server is to take over: producers are to be pointed there.
const DRAINED_RETRY_AFTER: Millis = Millis(30_000);

/// The class of a delivery that names none (API.md).
const DEFAULT_CLASS: &str = "routine";
/// The policy that every server has.
const DEFAULT_POLICY: &str = "default";

/// What this step has accepted so far.
#[derive(Default)]
pub(super) struct Accepting {
    fresh: BTreeMap<DeliveryId, Placed>,
    /// Those of them that are nowhere on disk yet, by lane.
    unplaced: BTreeSet<(DestNo, Lane, DeliveryId)>,
    keys: BTreeMap<(TenantNo, IdempotencyKey, DestNo), DeliveryId>,
    /// Answers in order, once it is known where everything went.
    pending: Vec<Vec<Pending>>,
    /// How many of each tenant's are nowhere on disk yet.
    by_tenant: BTreeMap<TenantNo, u64>,
    /// The request that is being taken fits.
    room: bool,
}

/// A fresh delivery and, once it is known, where it went.
struct Placed {
    work: Fresh,
    went: Went,
}

#[derive(Clone, Copy)]
enum Went {
    Undecided,
    Due,
    Leased(Lease),
}

impl Accepting {
    /// A fresh delivery of a tenant is on disk, or about to be.
    fn placed(&mut self, tenant: TenantNo) {
        if let Some(fresh) = self.by_tenant.get_mut(&tenant) {
            *fresh = fresh.saturating_sub(1);
        }
    }
}

/// An answer to be.
enum Pending {
    New(DeliveryId),
    Known(Arc<Delivery>),
    Rejected(Rejected),
}

impl InStep<'_, '_> {
    /// Takes every item of every request, in order.
    pub(super) fn accept_all(&mut self, batches: Vec<AcceptBatch>) -> Result<(), StoreError> {
        for batch in batches {
            let mut answers = Vec::with_capacity(batch.len());
            self.accepting.room = self.has_room_for(batch.len());
            for new in batch {
                answers.push(self.accept(new)?);
            }
            self.accepting.pending.push(answers);
        }
        Ok(())
    }

    /// True when a whole request fits: one that does not is refused whole, but for its repeats.
    fn has_room_for(&self, items: usize) -> bool {
        let here = self.core.unended() + self.accepting.fresh.len() as u64;
        here + items as u64 <= self.core.limits.max_deliveries
    }

    fn accept(&mut self, new: NewDelivery) -> Result<Pending, StoreError> {
        let directory = &self.core.directory;
        let found = directory.find(&new.destination);
        let own = |tenant: &Name| new.tenant.as_ref().is_none_or(|asked| asked == tenant);
        let Some((no, facts)) = found.filter(|(_, facts)| own(&facts.tenant)) else {
            return Ok(Pending::Rejected(Rejected::DestinationUnknown));
        };
        let (tenant, state) = (facts.tenant_no, facts.state);
        if let Some(key) = &new.key
            && let Some(known) = self.known(tenant, key, no)?
        {
            let answer = repeated(known, &new);
            self.core.tally.figures.duplicates += u64::from(matches!(answer, Pending::Known(_)));
            return Ok(answer);
        }
        let class = new.class.as_ref().map_or(DEFAULT_CLASS, Name::as_str);
        let Some(class) = self.core.directory.class(class) else {
            return Ok(Pending::Rejected(Rejected::ClassUnknown));
        };
        if state == DestinationState::Disabled {
            let reason = self.core.directory.facts(no).reason.clone();
            return Ok(Pending::Rejected(Rejected::DestinationDisabled { reason }));
        }
        if let Some(full) = self.refusal() {
            return Ok(Pending::Rejected(full));
        }
        if let Some(beyond) = self.beyond_quota(no, tenant) {
            return Ok(Pending::Rejected(beyond));
        }
        self.take(new, no, tenant, class).map(Pending::New)
    }

    /// Why a tenant may not bring another delivery now. The last thing that is asked: what is not
    /// taken for another reason costs nothing of a quota.
    fn beyond_quota(&mut self, no: DestNo, tenant: TenantNo) -> Option<Rejected> {
        let core = &mut *self.core;
        let name = &core.directory.facts(no).tenant;
        let quota = core.limits.tenant_quotas.of(name);
        let fresh = self.accepting.by_tenant.get(&tenant).copied().unwrap_or(0);
        let waiting = core.quotas.waiting(tenant) + fresh;
        if waiting >= quota.most_waiting(core.limits.max_deliveries) {
            let tenant = name.clone();
            return Some(Rejected::TenantFull { tenant, waiting, retry_after: FULL_RETRY_AFTER });
        }
        let retry_after = core.quotas.take(tenant, quota.per_second, self.now.mono).err()?;
        let (tenant, per_second) = (name.clone(), quota.per_second);
        Some(Rejected::TenantRate { tenant, per_second, retry_after })
    }

    /// Why nothing new is taken of this request.
    fn refusal(&self) -> Option<Rejected> {
        let core = &self.core;
        if core.claims == Claims::Drained {
            return Some(Rejected::Draining { retry_after: DRAINED_RETRY_AFTER });
        }
        if core.floor.is_low() {
            let DiskLive { free_bytes, kept_bytes, .. } = core.floor.live();
            return Some(Rejected::DiskLow { free_bytes, kept_bytes, retry_after: LOW_RETRY_AFTER });
        }
        let full = Rejected::QueueFull { waiting: core.unended(), retry_after: FULL_RETRY_AFTER };
        (!self.accepting.room).then_some(full)
    }

    /// What a key leads to: in this step, or on disk.
    fn known(&self, tenant: TenantNo, key: &IdempotencyKey, no: DestNo) -> Result<Option<Known>, StoreError> {
        if let Some(id) = self.accepting.keys.get(&(tenant, key.clone(), no)) {
            let placed = self.accepting.fresh.get(id).expect("its key was noted with it");
            return Ok(Some(Known::Fresh(Arc::clone(&placed.work.delivery))));
        }
        let Some(id) = self.file.key_owner(tenant, key, no)? else { return Ok(None) };
        Ok(match self.file.delivery(id)? {
            Found::Delivery(delivery) => Some(Known::Stored(Arc::new(*delivery))),
            Found::Damaged => Some(Known::Damaged),
            Found::Nothing => None,
        })
    }

    /// Makes the delivery and puts it into its lane.
    fn take(
        &mut self,
        new: NewDelivery,
        no: DestNo,
        tenant: TenantNo,
        class: ClassNo,
    ) -> Result<DeliveryId, StoreError> {
        let now = self.now;
        let id = self.core.mint.id(now.wall);
        let made = self.core.made(id, &new, no, tenant, class, now.wall);
        let delivery = Arc::new(made);
        if let Some(key) = new.key {
            self.accepting.keys.insert((tenant, key, no), id);
        }
        let State::Waiting { due, lane, .. } = delivery.state else { unreachable!("it has just begun") };
        let bytes = delivery.body_bytes();
        let work = Fresh { delivery, body: new.body.bytes() };
        self.accepting.fresh.insert(id, Placed { work, went: Went::Undecided });
        self.accepting.unplaced.insert((no, lane, id));
        *self.accepting.by_tenant.entry(tenant).or_default() += 1;
        self.core.tally.accepted(class);
        let entry = DueEntry { due, id, attempts: 0, interrupted: false, bytes };
        if let Some(evicted) = self.core.schedule.insert(no, lane, entry, now) {
            self.place(evicted.id)?;
        }
        Ok(id)
    }

    /// True when `id` was accepted in this step and has not been placed yet; then it is leased.
    pub(super) fn lease_fresh(&mut self, lease: Lease) -> Result<Option<Fresh>, StoreError> {
        let Some(placed) = self.accepting.fresh.get_mut(&lease.id) else { return Ok(None) };
        if !matches!(placed.went, Went::Undecided) {
            placed.went = Went::Leased(lease);
            return Ok(None);
        }
        let lease = Lease { fresh: true, ..lease };
        placed.went = Went::Leased(lease);
        self.accepting.unplaced.remove(&(lease.destination, lease.lane, lease.id));
        let work = placed.work.clone();
        self.accepting.placed(work.delivery.tenant);
        self.file.accept(&work.delivery, &work.body, Place::Leased(&lease))?;
        Ok(Some(work))
    }

    /// Writes every fresh delivery that was not claimed, and answers.
    pub(super) fn place_fresh(&mut self) -> Result<(), StoreError> {
        let left: Vec<DeliveryId> = self.accepting.fresh.keys().copied().collect();
        for id in left {
            self.place(id)?;
        }
        let pending = std::mem::take(&mut self.accepting.pending);
        for answers in pending {
            let answers = answers.into_iter().map(|answer| self.answer(answer)).collect();
            self.out.accepts.push(answers);
        }
        Ok(())
    }

    /// Writes every fresh delivery of a lane that is not placed yet: its page is about to be read,
    /// and what the page does not show is taken not to be there.
    pub(super) fn place_lane(&mut self, no: DestNo, lane: Lane) -> Result<(), StoreError> {
        let lane = (no, lane, DeliveryId(0))..=(no, lane, DeliveryId(u128::MAX));
        let ids: Vec<DeliveryId> = self.accepting.unplaced.range(lane).map(|(_, _, id)| *id).collect();
        ids.into_iter().try_for_each(|id| self.place(id))
    }

    /// Writes a fresh delivery into `due`, unless it is somewhere already.
    fn place(&mut self, id: DeliveryId) -> Result<(), StoreError> {
        let Some(placed) = self.accepting.fresh.get_mut(&id) else { return Ok(()) };
        if !matches!(placed.went, Went::Undecided) {
            return Ok(());
        }
        placed.went = Went::Due;
        let work = placed.work.clone();
        self.accepting.placed(work.delivery.tenant);
        self.file.accept(&work.delivery, &work.body, Place::Due)?;
        let State::Waiting { due, lane, .. } = work.delivery.state else { return Ok(()) };
        self.accepting.unplaced.remove(&(work.delivery.destination, lane, id));
        self.core.count_in(work.delivery.destination, lane, due, id);
        self.core.sweeps.ends_at(work.delivery.expires_at);
        Ok(())
    }

    fn answer(&self, answer: Pending) -> Result<Accepted, Rejected> {
        let (delivery, duplicate) = match answer {
            Pending::New(id) => {
                (self.accepting.fresh.get(&id).map(|placed| &placed.work.delivery).cloned(), false)
            }
            Pending::Known(delivery) => (Some(delivery), true),
            Pending::Rejected(rejected) => return Err(rejected),
        };
        let delivery = delivery.ok_or(Rejected::Damaged)?;
        let lease = match self.accepting.fresh.get(&delivery.id).map(|placed| placed.went) {
            Some(Went::Leased(lease)) => Some(lease),
            Some(Went::Undecided | Went::Due) => None,
            None => self.core.leases.get(&delivery.id).map(|out| out.lease),
        };
        Ok(Accepted { delivery: self.core.view(delivery, lease, self.now), duplicate })
    }
}

/// What a key leads to.
enum Known {
    Fresh(Arc<Delivery>),
    Stored(Arc<Delivery>),
    Damaged,
}

/// A repeat is the same delivery; another body under its key is refused (API.md, *One key, one
/// delivery*).
fn repeated(known: Known, new: &NewDelivery) -> Pending {
    let (Known::Fresh(delivery) | Known::Stored(delivery)) = known else {
        return Pending::Rejected(Rejected::Damaged);
    };
    if delivery.repeats(&new.body, &new.content_type) {
        Pending::Known(delivery)
    } else {
        Pending::Rejected(Rejected::KeyReused { existing: delivery.id })
    }
}

impl Core {
    /// Deliveries that have not ended, as far as they are counted.
    pub(super) fn unended(&self) -> u64 {
        self.schedule.waiting() + self.leases.len() as u64
    }

    /// The policy of a destination; one that is no longer configured falls back to `default`.
    pub(super) fn policy(&self, no: DestNo) -> &Policy {
        let policies = &self.limits.policies;
        let named = policies.get(&self.directory.facts(no).policy);
        named
            .or_else(|| {
                policies.iter().find(|(name, _)| name.as_str() == DEFAULT_POLICY).map(|(_, policy)| policy)
            })
            .expect("there is always a default policy")
    }

    fn made(
        &self,
        id: DeliveryId,
        new: &NewDelivery,
        destination: DestNo,
        tenant: TenantNo,
        class: ClassNo,
        now: Timestamp,
    ) -> Delivery {
        let policy = self.policy(destination);
        let later = new.not_before.filter(|time| *time > now);
        let reason = if later.is_some() { NextReason::Scheduled } else { NextReason::New };
        let due = later.unwrap_or(now);
        let max_age = new.max_age.unwrap_or(policy.max_age);
        Delivery {
            id,
            tenant,
            destination,
            class,
            region: self.region.clone(),
            key: new.key.clone(),
            created_at: now,
            not_before: new.not_before,
            max_age,
            expires_at: due.plus(max_age),
            max_failures: new.max_failures.unwrap_or(policy.max_failures),
            state: State::Waiting { due, lane: Lane::of(class, 0), reason },
            attempts: 0,
            failures: 0,
            throttles: 0,
            interrupted: 0,
            revision: 0,
            cancelling: false,
            first_attempt_at: None,
            payload: Payload { source: Source::of(&new.body), erased_at: None },
            content_type: new.content_type.clone(),
            headers: new.headers.clone(),
            labels: new.labels.clone(),
            log: Vec::new(),
        }
    }
}
