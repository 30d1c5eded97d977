//! Slots: how many requests may be out, and of which kind.
//!
//! Three pools (SCHEDULER.md 3.5): *cold* for destinations of which nothing is known, *slow* for
//! those that take long, *fast* for the rest, which may borrow what the others do not use because
//! it gives it back soon. *Cold* may borrow what nobody waits for, as far as *slow* could take it
//! over. In each, retries and lower classes leave a part to the others.

use std::collections::{BTreeMap, VecDeque};

use super::permit::{Permit, Slot};
use crate::model::{Lane, MAX_CLASSES, TenantNo};
use crate::time::{Millis, Mono};

/// A request that is out for longer is slow.
pub(super) const AGE: Millis = Millis(2_000);
/// Below so many slots there is one pool: parts of them would be too small to be of use.
const POOLED_FROM: u32 = 64;
/// Bands: one for each lane a destination can have.
pub(super) const BANDS: usize = MAX_CLASSES * 2;
/// What classes of less weight leave free of each pool, in thousandths: one of at least half the
/// heaviest's weight, and one of less (SCHEDULER.md 3.6).
const TRUNK_MIDDLE: u32 = 50;
const TRUNK_LIGHT: u32 = 200;

/// Where a request's slot comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pool {
    Cold,
    Slow,
    Fast,
}

impl Pool {
    /// In the order in which they are served: what is small and kept apart first.
    pub const ALL: [Pool; 3] = [Pool::Cold, Pool::Slow, Pool::Fast];

    pub(super) fn index(self) -> usize {
        match self {
            Pool::Cold => 0,
            Pool::Slow => 1,
            Pool::Fast => 2,
        }
    }
}

/// Parts of the slots, by pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parts {
    cold: u32,
    slow: u32,
    /// What slow requests may hold in all, those that turned slow while out included.
    slow_most: u32,
    /// The last part of that, for tenants with nothing slow out.
    clean: u32,
    /// What fast requests leave to cold ones.
    guard: u32,
}

/// Slots of one pool that are out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Total {
    all: u32,
    retries: u32,
}

/// Why a band may have no slot of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Barred {
    /// The pool has none.
    Full,
    /// What is left is kept for first attempts or for heavier classes.
    Reserved,
}

/// All slots.
#[derive(Debug)]
pub(super) struct Pools {
    slots: u32,
    parts: Option<Parts>,
    /// Thousandths of each pool that retries leave free.
    reserve: u32,
    /// Thousandths of each pool that a band leaves free.
    trunks: [u32; BANDS],
    /// Something may be out that was let out when there were other slots.
    over: bool,
    used: [[u32; BANDS]; 3],
    /// Sums of that: of all bands, and of retries.
    totals: [Total; 3],
    permits: Vec<Option<Permit>>,
    free: Vec<usize>,
    /// When each permit turns slow; entries of what came back are skipped.
    ageing: VecDeque<(Mono, usize, u64)>,
    /// Slow requests out, by tenant.
    slow_by_tenant: BTreeMap<TenantNo, u32>,
    serial: u64,
}

impl Pools {
    /// `weights` are those of the classes, by number.
    pub(super) fn new(slots: u32, reserve_permille: u32, weights: &[u32]) -> Pools {
        Pools {
            slots,
            parts: parts(slots),
            reserve: reserve_permille.min(1_000),
            trunks: trunks(weights),
            over: false,
            used: [[0; BANDS]; 3],
            totals: [Total::default(); 3],
            permits: Vec::new(),
            free: Vec::new(),
            ageing: VecDeque::new(),
            slow_by_tenant: BTreeMap::new(),
            serial: 0,
        }
    }

    /// So many slots and such weights from now on; what is out stays out.
    pub(super) fn set(&mut self, slots: u32, reserve_permille: u32, weights: &[u32]) {
        (self.slots, self.parts) = (slots, parts(slots));
        (self.reserve, self.trunks) = (reserve_permille.min(1_000), trunks(weights));
        self.over = self.in_flight() > 0;
    }

    /// The pool of a destination that answers in about this time.
    pub(super) fn of(&self, latency: Option<Millis>, before: Pool) -> Pool {
        match latency {
            _ if self.parts.is_none() => Pool::Fast,
            None => Pool::Cold,
            Some(latency) if latency > AGE => Pool::Slow,
            // Out of it only when well below, so that it does not go to and fro.
            Some(latency) if before == Pool::Slow && latency.0 * 2 >= AGE.0 => Pool::Slow,
            Some(_) => Pool::Fast,
        }
    }

    pub(super) fn slots(&self) -> u32 {
        self.slots
    }

    pub(super) fn in_flight(&self) -> u32 {
        self.totals.iter().map(|total| total.all).sum()
    }

    pub(super) fn used(&self, pool: Pool) -> u32 {
        self.totals[pool.index()].all
    }

    /// Slots that the other pools do not have.
    fn left(&self, pool: Pool) -> u32 {
        self.slots.saturating_sub(self.in_flight() - self.used(pool))
    }

    /// Requests that a pool may have out, given what the others have.
    pub(super) fn capacity(&self, pool: Pool) -> u32 {
        let free = self.left(pool);
        match (&self.parts, pool) {
            (None, Pool::Fast) => self.slots,
            (None, Pool::Cold | Pool::Slow) => 0,
            (Some(parts), Pool::Cold) => parts.cold.min(free),
            (Some(parts), Pool::Slow) => parts.slow.min(free),
            (Some(parts), Pool::Fast) => {
                free.saturating_sub(parts.guard.saturating_sub(self.used(Pool::Cold)))
            }
        }
    }

    /// Of that, what a band may have with all others: it leaves the last part to heavier classes.
    /// In the fast pool what is left for cold requests is of that part, not besides it.
    fn most(&self, pool: Pool, band: usize, capacity: u32) -> u32 {
        let whole = if pool == Pool::Fast { self.left(pool) } else { capacity };
        capacity.min(whole - share(whole, self.trunks[band]))
    }

    /// Cold requests that may be out while nobody waits for another pool: no more than *slow*
    /// could take over, should none be answered, without the part that it keeps for tenants with
    /// nothing slow out.
    fn lent(&self) -> u32 {
        let capacity = self.capacity(Pool::Cold);
        let Some(parts) = &self.parts else { return capacity };
        let spare = (parts.slow_most - parts.clean).saturating_sub(self.used(Pool::Slow));
        spare.min(self.left(Pool::Cold)).max(capacity)
    }

    /// Cold requests beyond their own part.
    fn borrowed(&self) -> u32 {
        self.parts.as_ref().map_or(0, |parts| self.used(Pool::Cold).saturating_sub(parts.cold))
    }

    /// Whether a band may have another slot of a pool; `lending` while nobody waits for another.
    pub(super) fn admits(&self, pool: Pool, lane: Lane, lending: bool) -> Result<(), Barred> {
        let lends = lending && pool == Pool::Cold;
        let (used, capacity) = (self.used(pool), if lends { self.lent() } else { self.capacity(pool) });
        let band = usize::from(lane.0);
        if used >= capacity {
            return Err(Barred::Full);
        }
        if self.used[pool.index()][band] == 0 {
            // Every band may hold one slot of each pool, so that none starves.
            return Ok(());
        }
        let retries = self.totals[pool.index()].retries;
        let reserved = !lane.is_first() && retries >= part(capacity, self.reserve);
        if reserved || used >= self.most(pool, band, capacity) {
            return Err(Barred::Reserved);
        }
        Ok(())
    }

    /// True when a tenant with something slow out may have a cold slot.
    pub(super) fn has_clean_room(&self) -> bool {
        let Some(parts) = &self.parts else { return true };
        self.used(Pool::Slow) + self.used(Pool::Cold) < parts.slow_most - parts.clean
    }

    /// True when the tenant has something slow out.
    pub(super) fn is_slow(&self, tenant: TenantNo) -> bool {
        self.slow_by_tenant.contains_key(&tenant)
    }

    /// Gives a slot out.
    pub(super) fn take(&mut self, permit: Permit) -> Slot {
        self.serial += 1;
        let permit = Permit { serial: self.serial, ..permit };
        self.enter(&permit);
        let place = self.free.pop().unwrap_or_else(|| {
            self.permits.push(None);
            self.permits.len() - 1
        });
        self.permits[place] = Some(permit);
        self.ageing.push_back((permit.started.plus(AGE), place, self.serial));
        Slot { place, serial: self.serial }
    }

    /// Takes a slot back, and says what it was given for.
    pub(super) fn release(&mut self, slot: Slot) -> Permit {
        let permit = self.permits[slot.place].take().filter(|permit| permit.serial == slot.serial);
        let permit = permit.expect("a slot comes back once");
        self.free.push(slot.place);
        self.leave(&permit);
        self.skip_returned();
        permit
    }

    fn enter(&mut self, permit: &Permit) {
        let total = &mut self.totals[permit.pool.index()];
        total.all += 1;
        total.retries += u32::from(!permit.lane.is_first());
        self.used[permit.pool.index()][usize::from(permit.lane.0)] += 1;
        if permit.pool == Pool::Slow {
            *self.slow_by_tenant.entry(permit.tenant).or_default() += 1;
        }
    }

    fn leave(&mut self, permit: &Permit) {
        let total = &mut self.totals[permit.pool.index()];
        total.all -= 1;
        total.retries -= u32::from(!permit.lane.is_first());
        self.used[permit.pool.index()][usize::from(permit.lane.0)] -= 1;
        if permit.pool != Pool::Slow {
            return;
        }
        if let Some(slow) = self.slow_by_tenant.get_mut(&permit.tenant) {
            *slow -= 1;
            if *slow == 0 {
                self.slow_by_tenant.remove(&permit.tenant);
            }
        }
    }

    /// The next request that turns slow by now, as it was. Its slot moves to the slow pool while
    /// that has room for it, and `charged` is what it has been charged from now on.
    pub(super) fn age(&mut self, now: Mono, charged: impl FnOnce(&Permit) -> u64) -> Option<Permit> {
        self.skip_returned();
        let (_, place, _) = self.ageing.front().filter(|(at, _, _)| *at <= now).copied()?;
        self.ageing.pop_front();
        let before = self.permits[place]?;
        let mut after = Permit { charged: charged(&before), ..before };
        // A cold request that moves gives back what it borrowed.
        let taken = self.used(Pool::Slow) + self.borrowed() - u32::from(self.gives_back(&before));
        let room = self.parts.as_ref().is_some_and(|parts| taken < parts.slow_most);
        if before.pool != Pool::Slow && room {
            after.pool = Pool::Slow;
            self.leave(&before);
            self.enter(&after);
        }
        self.permits[place] = Some(after);
        Some(before)
    }

    fn gives_back(&self, permit: &Permit) -> bool {
        permit.pool == Pool::Cold && self.borrowed() > 0
    }

    /// When the next request turns slow.
    pub(super) fn next_age(&self) -> Option<Mono> {
        self.ageing.front().map(|(at, _, _)| *at)
    }

    fn skip_returned(&mut self) {
        while let Some((_, place, serial)) = self.ageing.front().copied() {
            if self.permits[place].is_some_and(|permit| permit.serial == serial) {
                return;
            }
            self.ageing.pop_front();
        }
    }

    /// I7: true when the counts are what they come to, worked out again from what is out.
    pub(super) fn is_sound(&self) -> bool {
        let mut used = [[0; BANDS]; 3];
        let mut slow = BTreeMap::new();
        for permit in self.permits.iter().flatten() {
            used[permit.pool.index()][usize::from(permit.lane.0)] += 1;
            if permit.pool == Pool::Slow {
                *slow.entry(permit.tenant).or_default() += 1;
            }
        }
        let total = |bands: &[u32; BANDS]| Total {
            all: bands.iter().sum(),
            retries: bands.iter().skip(1).step_by(2).sum(),
        };
        let totals = used.each_ref().map(total);
        used == self.used && totals == self.totals && slow == self.slow_by_tenant
    }

    /// I5: true when no pool holds more than it ever may.
    pub(super) fn fits(&self) -> bool {
        if self.over {
            return true;
        }
        let parts = self.parts.as_ref().is_none_or(|parts| {
            // F4: what is proven to be fast has the rest.
            self.used(Pool::Slow) + self.borrowed() <= parts.slow_most
        });
        parts && self.in_flight() <= self.slots
    }

    /// Slots of a pool that are out, by band.
    pub(super) fn by_band(&self, pool: Pool) -> [u32; BANDS] {
        self.used[pool.index()]
    }

    /// What a slot that is out stands for now.
    pub(super) fn permit(&self, slot: &Slot) -> Option<&Permit> {
        self.permits.get(slot.place)?.as_ref().filter(|permit| permit.serial == slot.serial)
    }
}

/// The parts of so many slots.
fn parts(slots: u32) -> Option<Parts> {
    (slots >= POOLED_FROM).then_some(Parts {
        cold: slots / 8,
        slow: slots / 4,
        slow_most: slots / 2,
        clean: slots / 8,
        guard: slots / 32,
    })
}

fn trunks(weights: &[u32]) -> [u32; BANDS] {
    std::array::from_fn(|band| trunk(weights, band / 2))
}

/// What is left of `capacity` when at least so many thousandths are kept free.
fn part(capacity: u32, free: u32) -> u32 {
    share(capacity, 1_000 - free.min(1_000))
}

/// So many thousandths of `capacity`, rounded down.
fn share(capacity: u32, permille: u32) -> u32 {
    let whole = u64::from(capacity) * u64::from(permille) / 1_000;
    u32::try_from(whole).unwrap_or(capacity)
}

/// What a class leaves free, by its weight against the heaviest.
fn trunk(weights: &[u32], class: usize) -> u32 {
    let heaviest = weights.iter().copied().max().unwrap_or(1);
    match weights.get(class).copied().unwrap_or(1) {
        weight if weight >= heaviest => 0,
        weight if weight.saturating_mul(2) >= heaviest => TRUNK_MIDDLE,
        _ => TRUNK_LIGHT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::DestNo;

    const URGENT: Lane = Lane(0);
    const RETRY: Lane = Lane(3);
    const BULK: Lane = Lane(4);

    fn pools(slots: u32) -> Pools {
        Pools::new(slots, 300, &[4, 2, 1])
    }

    fn permit(pool: Pool, lane: Lane, tenant: u32) -> Permit {
        Permit::new(pool, lane, DestNo(0), TenantNo(tenant), 0, Mono(0)).charging(50, false)
    }

    /// Takes as many slots as are given.
    fn fill(pools: &mut Pools, pool: Pool, lane: Lane) -> Vec<Slot> {
        fill_lending(pools, pool, lane, false)
    }

    fn fill_lending(pools: &mut Pools, pool: Pool, lane: Lane, lending: bool) -> Vec<Slot> {
        let mut slots = Vec::new();
        while pools.admits(pool, lane, lending).is_ok() {
            slots.push(pools.take(permit(pool, lane, 0)));
            assert!(pools.is_sound());
        }
        slots
    }

    #[test]
    fn fast_borrows_what_is_idle_and_leaves_a_guard() {
        let mut pools = pools(128);
        assert_eq!(fill(&mut pools, Pool::Fast, URGENT).len(), 124);
        assert_eq!(fill(&mut pools, Pool::Cold, URGENT).len(), 4);
        assert_eq!(pools.in_flight(), 128);
    }

    #[test]
    fn cold_and_slow_keep_to_their_parts() {
        let mut pools = pools(128);
        assert_eq!(fill(&mut pools, Pool::Cold, URGENT).len(), 16);
        assert_eq!(fill(&mut pools, Pool::Slow, URGENT).len(), 32);
        assert_eq!(fill(&mut pools, Pool::Fast, URGENT).len(), 80);
    }

    /// F4: whatever comes of what was borrowed, three eighths are left to the fast pool.
    #[test]
    fn cold_borrows_what_slow_could_take_over() {
        let mut pools = pools(128);
        assert_eq!(fill_lending(&mut pools, Pool::Cold, URGENT, true).len(), 48);
        assert_eq!(fill(&mut pools, Pool::Slow, URGENT).len(), 32);
        assert_eq!(fill(&mut pools, Pool::Fast, URGENT).len(), 48);
        while pools.age(Mono(2_000), |_| 0).is_some() {
            assert!(pools.is_sound());
        }
        assert_eq!((pools.used(Pool::Cold), pools.used(Pool::Slow), pools.used(Pool::Fast)), (16, 64, 48));
        assert_eq!(pools.admits(Pool::Cold, URGENT, true), Err(Barred::Full));
    }

    #[test]
    fn cold_borrows_nothing_that_slow_has() {
        let mut pools = pools(128);
        assert_eq!(fill(&mut pools, Pool::Slow, URGENT).len(), 32);
        assert_eq!(fill_lending(&mut pools, Pool::Cold, URGENT, true).len(), 16);
    }

    /// I6: retries leave a part of each pool free, and so do lower classes.
    #[test]
    fn i6_retries_and_lower_classes_leave_a_part() {
        let mut pools = pools(1_000);
        assert_eq!(fill(&mut pools, Pool::Cold, RETRY).len(), 87);
        assert_eq!(pools.admits(Pool::Cold, RETRY, false), Err(Barred::Reserved));
        assert_eq!(fill(&mut pools, Pool::Cold, BULK).len(), 13, "100 of 125 are taken then");
        assert_eq!(fill(&mut pools, Pool::Cold, Lane(2)).len(), 19);
        assert_eq!(fill(&mut pools, Pool::Cold, URGENT).len(), 6);
        assert_eq!(pools.admits(Pool::Cold, URGENT, false), Err(Barred::Full));
    }

    #[test]
    fn what_is_left_for_cold_requests_is_left_for_heavier_classes_too() {
        let mut pools = pools(1_000);
        assert_eq!(fill(&mut pools, Pool::Fast, Lane(2)).len(), 950);
        assert_eq!(fill(&mut pools, Pool::Fast, URGENT).len(), 19);
        assert_eq!(fill(&mut pools, Pool::Cold, URGENT).len(), 31);
    }

    #[test]
    fn a_small_server_has_one_pool_and_no_band_starves() {
        let mut pools = pools(2);
        assert_eq!(pools.of(None, Pool::Fast), Pool::Fast);
        assert_eq!(pools.admits(Pool::Cold, URGENT, false), Err(Barred::Full));
        let first = pools.take(permit(Pool::Fast, RETRY, 0));
        assert_eq!(pools.admits(Pool::Fast, RETRY, false), Err(Barred::Reserved));
        assert_eq!(pools.admits(Pool::Fast, BULK, false), Ok(()));
        let _second = pools.take(permit(Pool::Fast, BULK, 0));
        assert_eq!(pools.admits(Pool::Fast, URGENT, false), Err(Barred::Full));
        pools.release(first);
        assert_eq!(pools.admits(Pool::Fast, RETRY, false), Ok(()));
    }

    #[test]
    fn what_is_out_for_long_moves_to_slow_up_to_its_most() {
        let mut pools = pools(128);
        let slots: Vec<Slot> = (0..80).map(|tenant| pools.take(permit(Pool::Fast, URGENT, tenant))).collect();
        assert_eq!(pools.next_age(), Some(Mono(2_000)));
        assert_eq!(pools.age(Mono(1_999), |_| 0), None);
        let mut aged = 0;
        while let Some(before) = pools.age(Mono(2_000), |_| 30_000) {
            assert_eq!((before.pool, before.charged), (Pool::Fast, 50));
            aged += 1;
        }
        assert_eq!((aged, pools.used(Pool::Slow), pools.used(Pool::Fast)), (80, 64, 16));
        assert!(pools.is_slow(TenantNo(63)) && !pools.is_slow(TenantNo(64)) && !pools.has_clean_room());
        for (n, slot) in slots.into_iter().enumerate() {
            assert_eq!((n, pools.release(slot).charged), (n, 30_000));
        }
        assert!(pools.is_sound() && pools.in_flight() == 0 && pools.next_age().is_none());
    }

    #[test]
    fn a_destination_changes_pools_by_how_it_answers() {
        let pools = pools(128);
        let check = |latency: Option<u64>, before, want| {
            assert_eq!(pools.of(latency.map(Millis), before), want, "{latency:?} from {before:?}");
        };
        check(None, Pool::Cold, Pool::Cold);
        check(Some(2_000), Pool::Cold, Pool::Fast);
        check(Some(2_001), Pool::Fast, Pool::Slow);
        check(Some(1_000), Pool::Slow, Pool::Slow);
        check(Some(999), Pool::Slow, Pool::Fast);
    }
}
