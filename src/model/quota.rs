//! What a tenant may bring: so many deliveries a second, and so many that wait.

use std::collections::BTreeMap;

use crate::model::Name;

/// Deliveries a second at most: more than one server takes is no quota.
pub const MAX_PER_SECOND: u64 = 1_000_000;

/// The quota of one tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// 0: as many as come.
    pub per_second: u32,
    /// 0: half of what the server holds.
    pub max_waiting: u64,
}

/// The quotas of all tenants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantQuotas {
    /// Of every tenant that is not named.
    pub default: Quota,
    pub named: BTreeMap<Name, Quota>,
}

impl TenantQuotas {
    /// The quota of `tenant`.
    #[must_use]
    pub fn of(&self, tenant: &Name) -> Quota {
        self.named.get(tenant).copied().unwrap_or(self.default)
    }
}

impl Quota {
    /// How many may wait where the server holds `max_deliveries` in all.
    #[must_use]
    pub fn most_waiting(self, max_deliveries: u64) -> u64 {
        if self.max_waiting == 0 { max_deliveries.div_ceil(2) } else { self.max_waiting }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_all_unless_it_is_set() {
        let quota = |max_waiting| Quota { per_second: 0, max_waiting };
        let got = [(0, 20_000_000), (0, 1), (7, 20_000_000), (30, 10)]
            .map(|(set, all)| quota(set).most_waiting(all));
        assert_eq!(got, [10_000_000, 1, 7, 30]);
    }

    #[test]
    fn a_named_tenant_has_its_own() {
        let own = Quota { per_second: 7, max_waiting: 0 };
        let name = |text: &str| text.parse::<Name>().unwrap();
        let quotas = TenantQuotas { default: Quota::default(), named: BTreeMap::from([(name("acme"), own)]) };
        assert_eq!((quotas.of(&name("acme")), quotas.of(&name("other"))), (own, Quota::default()));
    }
}
