//! Fairness as it is measured from the outside: what each tenant and each band was charged while
//! others waited beside it (SCHEDULER.md 3.12, F1 and F3).

use std::collections::{BTreeMap, BTreeSet};

use duehook::model::{Lane, TenantNo};
use duehook::schedule::Pool;

/// Charges are compared in slot-milliseconds times this over a weight, as whole numbers.
const UNIT: i128 = 5_040;

type Place = (Pool, Lane);

/// A request that went out, and what for.
pub(crate) struct Served {
    pub(crate) pool: Pool,
    pub(crate) lane: Lane,
    pub(crate) tenant: TenantNo,
    pub(crate) weight: u32,
    pub(crate) by_band: u32,
    pub(crate) cost: u64,
}

/// How far two tenants that both wait have come apart.
#[derive(Clone, Copy, Default)]
struct Apart {
    now: i128,
    least: i128,
    most: i128,
}

/// A band that may be served, since it last was.
#[derive(Default)]
struct Waiting {
    /// What each other band was charged, and how often, meanwhile.
    others: BTreeMap<Lane, (u64, u64)>,
}

#[derive(Default)]
pub(crate) struct Fairness {
    waits: BTreeMap<Place, BTreeSet<u32>>,
    apart: BTreeMap<(Place, u32, u32), Apart>,
    /// The largest charge by weight of each tenant.
    largest: BTreeMap<(Place, u32), i128>,
    bands: BTreeMap<Place, Waiting>,
    costliest: u64,
    cheapest: Option<u64>,
    weights: BTreeMap<Lane, u32>,
    /// The largest F1 gap as a share of its bound, in thousandths; pairs that were compared.
    pub(crate) gap: i128,
    pub(crate) compared: u64,
    /// The most dispatches of a pool that a band waited, over what I24 allows, in thousandths.
    pub(crate) wait: u64,
}

impl Fairness {
    /// Who waits now in a band of a pool, and whether the band may be served.
    pub(crate) fn look(&mut self, pool: Pool, lane: Lane, tenants: &[u32], serves: bool) {
        let place = (pool, lane);
        let now: BTreeSet<u32> = tenants.iter().copied().collect();
        let before = self.waits.entry(place).or_default();
        let left: Vec<u32> = before.difference(&now).copied().collect();
        *before = now;
        if !left.is_empty() {
            let gone = |tenant: &u32| left.contains(tenant);
            self.apart.retain(|(at, one, other), _| *at != place || !(gone(one) || gone(other)));
        }
        if serves {
            self.bands.entry(place).or_default();
        } else {
            self.bands.remove(&place);
        }
        self.check_tenants(place);
        self.check_band(place);
    }

    /// F1: those that still wait beside each other.
    fn check_tenants(&mut self, place: Place) {
        let most = i128::from(self.costliest) * UNIT;
        for ((_, one, two), apart) in self.apart.range((place, 0, 0)..=(place, u32::MAX, u32::MAX)) {
            let largest = |tenant: u32| self.largest.get(&(place, tenant)).copied();
            // Until one was served its largest charge is not known: then any of this history.
            let bound = largest(*one).unwrap_or(most) + largest(*two).unwrap_or(most) + 2;
            let gap = apart.most - apart.least;
            assert!(
                gap <= bound,
                "I11: tenants {one} and {two} are {gap} apart in {place:?}, at most {bound}"
            );
            self.gap = self.gap.max(gap * 1_000 / bound);
        }
    }

    /// I24, F3: a band that still waits for its turn.
    fn check_band(&mut self, place: Place) {
        let (Some(waiting), most) = (self.bands.get(&place), self.costliest) else { return };
        let (pool, lane) = place;
        let own = self.weights.get(&lane).copied().unwrap_or(1);
        for (other, (charge, _)) in &waiting.others {
            // One charge of its own at its weight, and one more of the other's.
            let bound = most * u64::from(self.weights[other]) / u64::from(own) + most;
            assert!(
                *charge <= bound,
                "I24: {lane:?} waits in {pool:?} while {other:?} is charged {charge}, at most {bound}"
            );
        }
        if Some(most) == self.cheapest {
            let all: u64 = waiting.others.values().map(|(_, times)| times).sum();
            let sum: u64 = self.weights.values().map(|weight| u64::from(*weight)).sum();
            let allowed = sum.div_ceil(u64::from(own)) + self.weights.len() as u64;
            self.wait = self.wait.max(all * 1_000 / allowed);
            assert!(
                all <= allowed,
                "I24: {lane:?} waits in {pool:?} for {all} dispatches, at most {allowed}"
            );
        }
    }

    /// Something of a tenant cost more than was thought: what it is charged for is not what it is
    /// compared by until it has paid.
    pub(crate) fn late_charge(&mut self, pool: Pool, lane: Lane, tenant: TenantNo) {
        let place = (pool, lane);
        self.apart.retain(|(at, one, other), _| *at != place || (*one != tenant.0 && *other != tenant.0));
    }

    /// Counts a request that goes out.
    pub(crate) fn served(&mut self, it: &Served) {
        self.costliest = self.costliest.max(it.cost);
        self.cheapest = Some(self.cheapest.map_or(it.cost, |cheapest| cheapest.min(it.cost)));
        self.weights.insert(it.lane, it.by_band);
        self.tenants(it);
        self.band(it);
    }

    fn tenants(&mut self, it: &Served) {
        let place = (it.pool, it.lane);
        let charge = i128::from(it.cost) * UNIT / i128::from(it.weight);
        let largest = self.largest.entry((place, it.tenant.0)).or_default();
        *largest = (*largest).max(charge);
        let waits = self.waits.get(&place).cloned().unwrap_or_default();
        if !waits.contains(&it.tenant.0) {
            return;
        }
        for other in waits.iter().copied().filter(|other| *other != it.tenant.0) {
            let (one, two) = (it.tenant.0.min(other), it.tenant.0.max(other));
            let apart = self.apart.entry((place, one, two)).or_default();
            apart.now += if it.tenant.0 == one { charge } else { -charge };
            apart.least = apart.least.min(apart.now);
            apart.most = apart.most.max(apart.now);
            self.compared += 1;
        }
    }

    fn band(&mut self, it: &Served) {
        self.bands.remove(&(it.pool, it.lane));
        for (_, waiting) in self.bands.iter_mut().filter(|((pool, _), _)| *pool == it.pool) {
            let (charge, times) = waiting.others.entry(it.lane).or_default();
            (*charge, *times) = (*charge + it.cost, *times + 1);
        }
    }
}
