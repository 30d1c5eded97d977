//! Names and numbers, and what of each destination a step needs without reading the file.

use std::collections::{BTreeMap, BTreeSet};

use crate::delivery::Lease;
use crate::engine::LEASE_MARGIN;
use crate::engine::classes::Numbered;
use crate::model::{
    ClassNo, ClassSettings, DestNo, DestinationState, HoldScope, Name, Rate, TenantNo, TenantWeights, digest,
};
use crate::schedule::GateSettings;
use crate::store::StoredDestination;
use crate::time::Millis;

/// Everything that has a name.
#[derive(Debug, Default)]
pub(super) struct Directory {
    by_name: BTreeMap<Name, DestNo>,
    /// Those that were deleted, by name and tenant: made again they have their number again, and with it
    /// the keys of what was delivered to them.
    buried: BTreeMap<(Name, Name), DestNo>,
    /// By number.
    facts: Vec<Facts>,
    tenants: BTreeMap<Name, TenantNo>,
    /// Those that a destination has named.
    policies: BTreeSet<Name>,
    /// By number.
    classes: Vec<Numbered>,
}

/// A destination, as far as the engine keeps it.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) name: Name,
    pub(super) tenant: Name,
    pub(super) tenant_no: TenantNo,
    pub(super) policy: Name,
    /// Deadline of an attempt and the lease's margin.
    pub(super) lease: Millis,
    pub(super) hold_scope: HoldScope,
    pub(super) state: DestinationState,
    pub(super) reason: String,
    pub(super) revision: u32,
    /// Counts, in this run, what makes it another to its answers: another URL, or an enable. What was
    /// claimed before says nothing of what is there now.
    pub(super) era: u32,
    url: Mark,
    max: u32,
    adaptive: bool,
    rate: Option<Rate>,
}

/// Tells a URL from another without keeping it.
type Mark = [u8; 8];

fn mark(url: &str) -> Mark {
    *digest(url.as_bytes()).first_chunk().expect("a digest is longer")
}

impl Facts {
    /// What of a stored destination is kept.
    pub(super) fn of(it: &StoredDestination, tenant_no: TenantNo) -> Facts {
        let set = &it.settings;
        Facts {
            name: it.name.clone(),
            tenant: set.tenant.clone(),
            tenant_no,
            policy: set.policy.clone(),
            lease: Millis(set.timeout.0 + set.connect_timeout.0 + LEASE_MARGIN.0),
            hold_scope: set.hold_scope,
            state: it.note.state,
            reason: it.note.reason.clone(),
            revision: it.revision,
            era: 0,
            url: mark(set.url.as_str()),
            max: set.concurrency_max,
            adaptive: set.adaptive,
            rate: set.rate,
        }
    }

    /// True when answers to requests of before say nothing of what is there `now`.
    fn is_another(&self, now: &Facts) -> bool {
        let enabled = self.state == DestinationState::Disabled && now.state == DestinationState::Active;
        self.url != now.url || enabled
    }

    /// What its gate follows.
    pub(super) fn gate(&self, weights: &TenantWeights) -> GateSettings {
        GateSettings {
            tenant: self.tenant_no,
            weight: weights.of(&self.tenant),
            state: self.state,
            max: self.max,
            adaptive: self.adaptive,
            rate: self.rate,
        }
    }
}

impl Directory {
    /// Notes a destination under its number, which is the next one or one that is known.
    pub(super) fn put(&mut self, no: DestNo, mut facts: Facts) {
        self.share(&mut facts);
        let place = usize::try_from(no.0).unwrap_or(usize::MAX);
        let of_tenant = (facts.name.clone(), facts.tenant.clone());
        match facts.state {
            DestinationState::Deleted => {
                // The name may be another tenant's by now.
                if self.by_name.get(&facts.name) == Some(&no) {
                    self.by_name.remove(&facts.name);
                }
                self.buried.insert(of_tenant, no);
            }
            DestinationState::Active | DestinationState::Paused | DestinationState::Disabled => {
                self.buried.remove(&of_tenant);
                self.by_name.insert(facts.name.clone(), no);
            }
        }
        match self.facts.get_mut(place) {
            Some(known) => {
                facts.era = known.era + u32::from(known.is_another(&facts));
                *known = facts;
            }
            None => self.facts.push(facts),
        }
    }

    /// A hundred thousand destinations have few tenants and fewer policies: one text for each.
    fn share(&mut self, facts: &mut Facts) {
        if let Some((name, _)) = self.tenants.get_key_value(&facts.tenant) {
            facts.tenant = name.clone();
        }
        match self.policies.get(&facts.policy) {
            Some(name) => facts.policy = name.clone(),
            None => _ = self.policies.insert(facts.policy.clone()),
        }
    }

    /// The destination that has this name now.
    pub(super) fn find(&self, name: &Name) -> Option<(DestNo, &Facts)> {
        let no = *self.by_name.get(name)?;
        Some((no, self.facts(no)))
    }

    /// The destination that the tenant deleted under this name, the newest of them.
    pub(super) fn buried(&self, name: &Name, tenant: &Name) -> Option<(DestNo, &Facts)> {
        let no = *self.buried.get(&(name.clone(), tenant.clone()))?;
        Some((no, self.facts(no)))
    }

    /// The destination of a number.
    pub(super) fn facts(&self, no: DestNo) -> &Facts {
        &self.facts[usize::try_from(no.0).unwrap_or(usize::MAX)]
    }

    /// Destinations that are not deleted.
    pub(super) fn living(&self) -> usize {
        self.by_name.len()
    }

    /// Numbers given so far.
    pub(super) fn len(&self) -> usize {
        self.facts.len()
    }

    pub(super) fn put_tenant(&mut self, name: Name, no: TenantNo) {
        self.tenants.insert(name, no);
    }

    pub(super) fn tenant(&self, name: &Name) -> Option<TenantNo> {
        self.tenants.get(name).copied()
    }

    /// The number that the next tenant gets.
    pub(super) fn next_tenant(&self) -> TenantNo {
        TenantNo(u32::try_from(self.tenants.len()).expect("tenants are fewer than destinations"))
    }

    /// Takes the classes in the order of their numbers.
    pub(super) fn put_classes(&mut self, classes: Vec<Numbered>) {
        self.classes = classes;
    }

    /// Every class that has a number, configured or not.
    pub(super) fn numbered_classes(&self) -> Vec<(Name, ClassNo)> {
        let numbers = (0..).map(ClassNo);
        self.classes.iter().map(|class| class.settings.name.clone()).zip(numbers).collect()
    }

    /// Every destination in the order of their numbers, deleted ones included.
    pub(super) fn all(&self) -> impl Iterator<Item = &Facts> {
        self.facts.iter()
    }

    /// The class of this name, if it is configured: nothing new goes into another.
    pub(super) fn class(&self, name: &str) -> Option<ClassNo> {
        let named = |class: &Numbered| class.configured && class.settings.name.as_str() == name;
        let place = self.classes.iter().position(named)?;
        Some(ClassNo(u8::try_from(place).expect("classes are few")))
    }

    /// Name, weight and window of a class, configured or not.
    pub(super) fn class_settings(&self, no: ClassNo) -> &ClassSettings {
        &self.classes[usize::from(no.0)].settings
    }

    /// The weight of every class, in the order of their numbers.
    pub(super) fn weights(&self) -> Vec<u32> {
        self.classes.iter().map(|class| class.settings.weight).collect()
    }

    /// The window of every class, in the order of their numbers.
    pub(super) fn windows(&self) -> Vec<Millis> {
        self.classes.iter().map(|class| class.settings.window).collect()
    }

    /// How long a lease of this destination lasts, from its claim.
    pub(super) fn lease_length(&self, no: DestNo) -> Millis {
        self.facts(no).lease
    }
}

/// The key under which a lease is cut.
pub(super) fn cut(lease: &Lease) -> (crate::model::DeliveryId, u64) {
    (lease.id, lease.nonce)
}
