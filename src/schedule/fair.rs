//! Turns: start-time fair queueing over the tenants of one pool and band.
//!
//! Goyal, Vin and Cheng (1996): each tenant is served at its start tag, which is the later of the
//! virtual time and the finish tag of what it had before. A tenant that cannot use its turn earns
//! nothing by waiting, and between two that both wait all the time, what they were charged by
//! weight differs by at most one charge of each (F1).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use super::bits;
use super::pool::BANDS;
use crate::model::{DestNo, TenantNo};

/// Virtual time: slot-milliseconds by [`TAG_UNIT`] over the weight.
pub(super) type Tag = u64;

/// Tag units of a slot-millisecond at weight 1, so that weights up to a thousand divide well.
const TAG_UNIT: u64 = 1_024;
/// Tenants that wait for nothing and owe nothing are forgotten once there are so many tenants,
/// and twice as many as were left the last time: each is looked at a bounded number of times.
const FORGET_FROM: usize = 64;

/// A destination in a ring, and how often it had changed its pool when it came there.
pub(super) type Entry = (DestNo, u32);

/// What `cost` slot-milliseconds are at a weight.
pub(super) fn tags(cost: u64, weight: u32) -> Tag {
    cost.saturating_mul(TAG_UNIT) / u64::from(weight.max(1))
}

/// How far each band of a pool has been served, by its weight.
#[derive(Debug, Default)]
pub(super) struct Passes {
    /// Of the band that was served last: who comes anew begins there.
    now: Tag,
    pub(super) bands: [Tag; BANDS],
    /// Bands with something to serve, as bits.
    pub(super) ready: u16,
}

impl Passes {
    /// A band has something to serve. Nothing is earned by having had nothing.
    pub(super) fn enter(&mut self, band: usize) {
        if self.ready & (1 << band) == 0 {
            self.bands[band] = self.bands[band].max(self.now);
            self.ready |= 1 << band;
        }
    }

    /// A band is served at this cost. Those that come before it and may have no slot now earn
    /// nothing by that either: they go on from here.
    pub(super) fn serve(&mut self, band: usize, cost: Tag) {
        self.now = self.bands[band];
        for barred in bits(self.ready) {
            self.bands[barred] = self.bands[barred].max(self.now);
        }
        self.bands[band] = self.bands[band].saturating_add(cost);
    }
}

/// The tenants of one pool and band.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// The start tag of what was served last.
    virtual_time: Tag,
    /// Tenants in the order of their start tags, then of their coming; each at most once.
    order: BinaryHeap<Reverse<(Tag, u64, TenantNo)>>,
    tenants: BTreeMap<TenantNo, Queue>,
    /// Tenants that wait for room that is kept from them.
    aside: BTreeMap<u64, (Tag, TenantNo)>,
    /// Numbers those that come.
    serial: u64,
    /// Tenants that were left when some were last forgotten.
    left: usize,
}

/// A tenant's destinations, in turn.
#[derive(Debug, Default)]
struct Queue {
    finish: Tag,
    ring: VecDeque<Entry>,
    place: Place,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// Nothing waits, or it is being served.
    #[default]
    Out,
    InOrder,
    Aside(u64),
}

/// A tenant whose turn it is. It goes back by [`Turns::served`] or [`Turns::passed`].
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) tenant: TenantNo,
    start: Tag,
}

impl Turns {
    /// True when no tenant can have a turn.
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// A destination of a tenant has something to send.
    pub(super) fn join(&mut self, tenant: TenantNo, no: Entry) {
        let queue = self.tenants.entry(tenant).or_insert_with(|| Queue::new(self.virtual_time));
        queue.ring.push_back(no);
        if queue.place == Place::Out {
            let start = self.virtual_time.max(queue.finish);
            self.enter(tenant, start);
        }
    }

    fn enter(&mut self, tenant: TenantNo, start: Tag) {
        self.serial += 1;
        self.order.push(Reverse((start, self.serial, tenant)));
        if let Some(queue) = self.tenants.get_mut(&tenant) {
            queue.place = Place::InOrder;
        }
    }

    /// Whose turn it is. One that was charged meanwhile goes back to its place, at most once for
    /// each charge.
    pub(super) fn next(&mut self) -> Option<Turn> {
        while let Some(Reverse((start, _, tenant))) = self.order.pop() {
            let queue = self.tenants.get_mut(&tenant)?;
            if queue.finish > start {
                let finish = queue.finish;
                self.enter(tenant, finish);
                continue;
            }
            queue.place = Place::Out;
            return Some(Turn { tenant, start });
        }
        None
    }

    /// The destination whose turn it is among the tenant's.
    pub(super) fn destination(&mut self, turn: &Turn) -> Option<Entry> {
        self.tenants.get_mut(&turn.tenant)?.ring.pop_front()
    }

    /// The destination keeps its turn: its page is being read.
    pub(super) fn keep(&mut self, turn: Turn, no: Entry) {
        if let Some(queue) = self.tenants.get_mut(&turn.tenant) {
            queue.ring.push_front(no);
        }
        self.passed(turn);
    }

    /// Something of the tenant was sent, for this charge.
    pub(super) fn served(&mut self, turn: Turn, charge: Tag) {
        self.virtual_time = self.virtual_time.max(turn.start);
        let finish = turn.start.saturating_add(charge);
        if let Some(queue) = self.tenants.get_mut(&turn.tenant) {
            queue.finish = finish;
        }
        self.passed(Turn { start: finish, ..turn });
    }

    /// Nothing of the tenant could be sent: it comes again in its place, if it has more.
    pub(super) fn passed(&mut self, turn: Turn) {
        let more = self.tenants.get(&turn.tenant).is_some_and(|queue| !queue.ring.is_empty());
        if more {
            self.enter(turn.tenant, turn.start);
        } else {
            self.forget();
        }
    }

    /// The tenant is to wait until there is room for it.
    pub(super) fn put_aside(&mut self, turn: Turn) {
        self.serial += 1;
        self.aside.insert(self.serial, (turn.start, turn.tenant));
        if let Some(queue) = self.tenants.get_mut(&turn.tenant) {
            queue.place = Place::Aside(self.serial);
        }
    }

    /// There is room: the tenant that was put aside first comes back, and nothing is earned by
    /// having waited for that. False without one.
    pub(super) fn bring_back(&mut self) -> bool {
        let Some((_, (start, tenant))) = self.aside.pop_first() else { return false };
        self.enter(tenant, start.max(self.virtual_time));
        true
    }

    /// There is room for this one, if it was put aside.
    pub(super) fn bring_back_tenant(&mut self, tenant: TenantNo) {
        let place = self.tenants.get(&tenant).map(|queue| queue.place);
        if let Some(Place::Aside(serial)) = place
            && let Some((start, tenant)) = self.aside.remove(&serial)
        {
            self.enter(tenant, start.max(self.virtual_time));
        }
    }

    /// What was sent before cost more than it was charged.
    pub(super) fn charge(&mut self, tenant: TenantNo, more: Tag) {
        let queue = self.tenants.entry(tenant).or_insert_with(|| Queue::new(self.virtual_time));
        queue.finish = queue.finish.saturating_add(more);
    }

    /// Tenants that are served before this one; None when it does not wait for a turn.
    pub(super) fn ahead(&self, tenant: TenantNo) -> Option<usize> {
        let queue = self.tenants.get(&tenant).filter(|queue| queue.place == Place::InOrder)?;
        let own = self.order.iter().find(|Reverse((_, _, of))| *of == tenant)?;
        let start = own.0.0.max(queue.finish);
        Some(self.order.iter().filter(|other| other.0.2 != tenant && other.0.0 < start).count())
    }

    /// True when the tenant waits for room that is kept from it.
    pub(super) fn is_aside(&self, tenant: TenantNo) -> bool {
        self.tenants.get(&tenant).is_some_and(|queue| matches!(queue.place, Place::Aside(_)))
    }

    /// Everything that could be sent was sent: the busy period is over, and all are square.
    pub(super) fn settle(&mut self) {
        if self.order.is_empty() && self.aside.is_empty() && !self.tenants.is_empty() {
            self.tenants.clear();
            self.left = 0;
        }
    }

    /// True when a tenant waits for room that is kept from it.
    pub(super) fn has_aside(&self) -> bool {
        !self.aside.is_empty()
    }

    /// True when the tenant waits for its turn.
    pub(super) fn has(&self, tenant: TenantNo) -> bool {
        self.tenants.get(&tenant).is_some_and(|queue| queue.place == Place::InOrder)
    }

    /// Every destination that is in a ring.
    pub(super) fn waiting(&self) -> impl Iterator<Item = Entry> {
        self.tenants.values().flat_map(|queue| queue.ring.iter().copied())
    }

    /// Who has something in its ring is in order or put aside, once, and nobody else is.
    pub(super) fn audit(&self) -> Result<(), String> {
        let mut placed: Vec<TenantNo> = self.order.iter().map(|Reverse((_, _, tenant))| *tenant).collect();
        placed.extend(self.aside.values().map(|(_, tenant)| *tenant));
        placed.sort_unstable();
        let waits = |(_, queue): &(&TenantNo, &Queue)| !queue.ring.is_empty();
        let waiting: Vec<TenantNo> = self.tenants.iter().filter(waits).map(|(tenant, _)| *tenant).collect();
        if placed == waiting { Ok(()) } else { Err(format!("{placed:?} have turns, {waiting:?} wait")) }
    }

    /// Forgets tenants that wait for nothing and owe nothing, when they are many.
    fn forget(&mut self) {
        if self.tenants.len() > FORGET_FROM.max(2 * self.left) {
            let now = self.virtual_time;
            self.tenants.retain(|_, queue| !queue.ring.is_empty() || queue.finish > now);
            self.left = self.tenants.len();
        }
    }
}

impl Queue {
    fn new(virtual_time: Tag) -> Queue {
        Queue { finish: virtual_time, ..Queue::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(no: u32) -> Entry {
        (DestNo(no), 0)
    }

    fn tenant(n: u32) -> TenantNo {
        TenantNo(n)
    }

    /// Serves so many turns of tenants that always have more, and counts what each was charged.
    fn serve(turns: &mut Turns, many: usize, cost: impl Fn(u32) -> Tag) -> BTreeMap<u32, Tag> {
        let mut charged = BTreeMap::new();
        for _ in 0..many {
            let turn = turns.next().expect("somebody waits");
            let of = turn.tenant.0;
            let no = turns.destination(&turn).expect("it has a destination");
            let tenant = turn.tenant;
            turns.served(turn, cost(of));
            turns.join(tenant, no);
            *charged.entry(of).or_default() += cost(of);
        }
        charged
    }

    /// C121: shares are equal, and a hundred destinations are not a hundred shares.
    #[test]
    fn c121_tenants_share_and_destinations_take_turns() {
        let mut turns = Turns::default();
        (0..100).for_each(|no| turns.join(tenant(0), at(no)));
        turns.join(tenant(1), at(100));
        turns.join(tenant(2), at(101));
        let charged = serve(&mut turns, 300, |_| 10);
        assert_eq!(charged.values().copied().collect::<Vec<_>>(), [1_000, 1_000, 1_000]);
    }

    #[test]
    fn weights_divide_the_charge() {
        let mut turns = Turns::default();
        turns.join(tenant(0), at(0));
        turns.join(tenant(1), at(1));
        let charged = serve(&mut turns, 400, |of| tags(50, if of == 0 { 3 } else { 1 }));
        let sent = |of: u32, weight| charged[&of] / tags(50, weight);
        assert_eq!((sent(0, 3), sent(1, 1)), (300, 100));
    }

    /// F6: nothing is earned by being blocked.
    #[test]
    fn who_comes_back_does_not_burst() {
        let mut turns = Turns::default();
        turns.join(tenant(0), at(0));
        turns.join(tenant(1), at(1));
        serve(&mut turns, 100, |_| 10);
        let mut turn = turns.next().unwrap();
        while turn.tenant != tenant(1) {
            let no = turns.destination(&turn).unwrap();
            turns.served(turn, 10);
            turns.join(tenant(0), no);
            turn = turns.next().unwrap();
        }
        turns.destination(&turn).unwrap();
        turns.passed(turn);
        serve(&mut turns, 500, |_| 10);
        turns.join(tenant(1), at(1));
        let charged = serve(&mut turns, 20, |_| 10);
        assert_eq!((charged[&0], charged[&1]), (100, 100));
    }

    /// A charge that comes late puts its tenant behind, once.
    #[test]
    fn a_late_charge_is_paid() {
        let mut turns = Turns::default();
        turns.join(tenant(0), at(0));
        turns.join(tenant(1), at(1));
        serve(&mut turns, 10, |_| 10);
        turns.charge(tenant(0), 100);
        let charged = serve(&mut turns, 20, |_| 10);
        assert_eq!((charged[&0], charged[&1]), (50, 150));
    }

    /// I19: waves of new tenants leave nothing behind, though each owes something when it goes;
    /// and all are looked at only when they have doubled.
    #[test]
    fn who_waits_for_nothing_is_forgotten() {
        let mut turns = Turns::default();
        let mut times = 0;
        for wave in 0..20 {
            (0..1_000).for_each(|n| turns.join(tenant(wave * 1_000 + n), at(n)));
            // One that always comes again, so that virtual time goes on.
            turns.join(tenant(u32::MAX), at(1_000));
            while let Some(turn) = turns.next() {
                turns.destination(&turn).expect("it has a destination");
                let before = turns.left;
                turns.served(turn, 10);
                times += u32::from(turns.left != before);
            }
            assert!(turns.tenants.len() <= 4_000, "{} after {wave}", turns.tenants.len());
        }
        assert!(times <= 60, "looked at all of them {times} times");
    }

    /// F6: nor by having been put aside.
    #[test]
    fn who_was_put_aside_does_not_burst() {
        let mut turns = Turns::default();
        (0..3).for_each(|n| turns.join(tenant(n), at(n)));
        let turn = turns.next().unwrap();
        assert_eq!(turn.tenant, tenant(0));
        turns.put_aside(turn);
        serve(&mut turns, 100, |_| 10);
        turns.bring_back_tenant(tenant(0));
        let charged = serve(&mut turns, 30, |_| 10);
        assert_eq!(charged.values().copied().collect::<Vec<_>>(), [100, 100, 100]);
    }

    #[test]
    fn who_is_put_aside_comes_back_in_order() {
        let mut turns = Turns::default();
        (0..3).for_each(|n| turns.join(tenant(n), at(n)));
        for n in 0..2 {
            let turn = turns.next().unwrap();
            assert_eq!(turn.tenant, tenant(n));
            turns.put_aside(turn);
        }
        assert_eq!(turns.next().map(|turn| turn.tenant), Some(tenant(2)));
        assert!(turns.next().is_none() && turns.is_aside(tenant(1)));
        turns.bring_back_tenant(tenant(1));
        assert!(turns.bring_back() && !turns.bring_back());
        assert_eq!(turns.next().map(|turn| turn.tenant), Some(tenant(1)), "it came back first");
        assert_eq!(turns.next().map(|turn| turn.tenant), Some(tenant(0)));
    }

    proptest! {
        /// F1, I11: over any time in which two tenants both wait, their charges by weight differ by
        /// at most a charge of each, whatever each turn costs.
        #[test]
        fn i11_charges_by_weight_stay_together(
            weights in prop::collection::vec(1_u32..20, 2..6),
            costs in prop::collection::vec(10_u64..30_000, 50..400),
        ) {
            let mut turns = Turns::default();
            for n in 0..weights.len() as u32 {
                turns.join(tenant(n), at(n));
            }
            let most = tags(30_000, 1);
            let mut charged = vec![0_u64; weights.len()];
            for cost in costs {
                let turn = turns.next().unwrap();
                let of = turn.tenant.0 as usize;
                let no = turns.destination(&turn).unwrap();
                let charge = tags(cost, weights[of]);
                turns.served(turn, charge);
                turns.join(tenant(of as u32), no);
                charged[of] += charge;
                let gap = charged.iter().max().unwrap() - charged.iter().min().unwrap();
                prop_assert!(gap <= 2 * most, "{charged:?}");
            }
        }
    }
}
