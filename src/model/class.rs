//! Latency classes and weights: what an operator sets so that work is shared as it should be.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::model::Name;
use crate::time::Millis;

/// The classes that every server has, in the order of their numbers, each with its weight and
/// its window (API.md).
pub const FIRST_CLASSES: [(&str, u32, Millis); 3] =
    [("urgent", 4, Millis(1_000)), ("routine", 2, Millis(10_000)), ("bulk", 1, Millis(300_000))];
/// Range of a weight, of a class or a tenant: a share of a thousandth is still a share.
pub const WEIGHT_RANGE: RangeInclusive<u64> = 1..=1_000;
/// Range of a window: no step is meant to be shorter, and what may wait a week needs no promise.
pub const WINDOW_RANGE: RangeInclusive<Millis> = Millis(100)..=Millis(7 * 24 * 3_600_000);
/// The most of the slots that may be kept for first attempts: retries must go on as well.
pub const RESERVE_MAX_PERMILLE: u32 = 900;
/// What is kept for them unless it is set (API.md, `reserve.first_attempts`).
pub const RESERVE_DEFAULT_PERMILLE: u32 = 300;

/// A latency class as it is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassSettings {
    pub name: Name,
    /// Its share beside the other classes, in [`WEIGHT_RANGE`].
    pub weight: u32,
    /// 95 % of its first attempts are to begin inside it.
    pub window: Millis,
}

impl ClassSettings {
    /// The classes that every server has, as they are when nothing is set.
    #[must_use]
    pub fn first() -> Vec<ClassSettings> {
        let class = |(name, weight, window): (&str, u32, Millis)| {
            let name = name.parse().expect("the built-in classes have names");
            ClassSettings { name, weight, window }
        };
        FIRST_CLASSES.into_iter().map(class).collect()
    }

    /// A class of which nothing more is set than its name: it has the least weight, and time.
    #[must_use]
    pub fn of(name: Name) -> ClassSettings {
        ClassSettings { name, weight: 1, window: Millis(300_000) }
    }
}

/// How tenants share what a class has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantWeights {
    /// Of every tenant that is not named.
    pub default: u32,
    pub named: BTreeMap<Name, u32>,
}

impl TenantWeights {
    /// The weight of `tenant`, in [`WEIGHT_RANGE`].
    #[must_use]
    pub fn of(&self, tenant: &Name) -> u32 {
        self.named.get(tenant).copied().unwrap_or(self.default)
    }
}

impl Default for TenantWeights {
    /// All alike.
    fn default() -> TenantWeights {
        TenantWeights { default: 1, named: BTreeMap::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_has_its_own_weight_or_that_of_all() {
        let name = |text: &str| text.parse::<Name>().unwrap();
        let weights = TenantWeights { default: 3, named: BTreeMap::from([(name("acme"), 7)]) };
        assert_eq!(weights.of(&name("acme")), 7);
        assert_eq!(weights.of(&name("other")), 3);
        assert_eq!(TenantWeights::default().of(&name("acme")), 1);
    }

    #[test]
    fn the_built_in_classes_are_within_their_ranges() {
        for class in ClassSettings::first() {
            assert!(WEIGHT_RANGE.contains(&class.weight.into()), "{class:?}");
            assert!(WINDOW_RANGE.contains(&class.window), "{class:?}");
        }
    }
}
