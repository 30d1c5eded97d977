//! Quotas of tenants: how many deliveries each has waiting, and how fast it may bring new ones.
//!
//! Knows no clock: it is given the time. A rate is kept by one number a tenant, the time at which
//! its next second's worth would be whole again.

use std::collections::BTreeMap;

use crate::model::TenantNo;
use crate::time::{Millis, Mono};

/// Of a second: finer than any rate there can be.
const NANOS: u64 = 1_000_000_000;
/// Of a millisecond.
const MILLI: u64 = 1_000_000;

/// What tenants have waiting, and what they have brought lately.
#[derive(Debug, Default)]
pub(super) struct Quotas {
    /// By number: deliveries in `due`, as far as they are counted.
    waiting: Vec<u64>,
    /// Tenants with a rate that have brought something: when each has all of its burst again.
    whole_at: BTreeMap<TenantNo, u64>,
}

impl Quotas {
    /// A delivery of a tenant waits.
    pub(super) fn waits(&mut self, tenant: TenantNo) {
        let place = index(tenant);
        if self.waiting.len() <= place {
            self.waiting.resize(place + 1, 0);
        }
        self.waiting[place] += 1;
    }

    /// One that waited does so no longer.
    pub(super) fn leaves(&mut self, tenant: TenantNo) {
        if let Some(waiting) = self.waiting.get_mut(index(tenant)) {
            *waiting = waiting.saturating_sub(1);
        }
    }

    /// Deliveries of a tenant that wait, as far as they are counted.
    pub(super) fn waiting(&self, tenant: TenantNo) -> u64 {
        self.waiting.get(index(tenant)).copied().unwrap_or(0)
    }

    /// Takes one of a tenant's deliveries a second, of which it may use a whole second's worth at once;
    /// or says when there is one again.
    pub(super) fn take(&mut self, tenant: TenantNo, per_second: u32, now: Mono) -> Result<(), Millis> {
        if per_second == 0 {
            self.whole_at.remove(&tenant);
            return Ok(());
        }
        let each = NANOS.div_ceil(u64::from(per_second));
        let now = now.0.saturating_mul(MILLI);
        let whole_at = self.whole_at.entry(tenant).or_insert(now);
        let next = (*whole_at).max(now) + each;
        let room = now + each * u64::from(per_second);
        if next > room {
            return Err(Millis((next - room).div_ceil(MILLI)));
        }
        *whole_at = next;
        Ok(())
    }
}

fn index(tenant: TenantNo) -> usize {
    usize::try_from(tenant.0).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACME: TenantNo = TenantNo(3);

    #[test]
    fn a_second_s_worth_at_once_and_then_as_the_rate_says() {
        let check = |per_second: u32, brought: &[(u64, Result<(), u64>)]| {
            let mut quotas = Quotas::default();
            for (n, (at, want)) in brought.iter().enumerate() {
                let got = quotas.take(ACME, per_second, Mono(*at)).map_err(|wait| wait.0);
                assert_eq!(got, *want, "{per_second} a second, number {n} at {at}");
            }
        };
        check(0, &[(5, Ok(())); 1_000]);
        check(1, &[(5, Ok(())), (5, Err(1_000)), (1_004, Err(1)), (1_005, Ok(())), (1_005, Err(1_000))]);
        check(2, &[(0, Ok(())), (0, Ok(())), (0, Err(500)), (499, Err(1)), (500, Ok(())), (500, Err(500))]);
        // Nothing is saved up beyond a second's worth.
        check(2, &[(0, Ok(())), (9_000, Ok(())), (9_000, Ok(())), (9_000, Err(500))]);
    }

    #[test]
    fn a_rate_is_kept_over_any_second() {
        for per_second in [1, 3, 7, 1_000, 999_999] {
            let mut quotas = Quotas::default();
            let mut taken = vec![0_u64; 10];
            for at in 0..10_000 {
                while quotas.take(ACME, per_second, Mono(at)).is_ok() {
                    taken[usize::try_from(at / 1_000).unwrap()] += 1;
                }
            }
            assert!(taken[0] < u64::from(per_second) * 2 + 1, "{taken:?}");
            let steady = &taken[1..];
            let near = |sum: &u64| sum.abs_diff(per_second.into()) <= u64::from(per_second) / 500 + 1;
            assert!(steady.iter().all(near), "{per_second}: {taken:?}");
        }
    }

    #[test]
    fn tenants_do_not_share_and_a_new_rate_counts_at_once() {
        let mut quotas = Quotas::default();
        assert_eq!(quotas.take(ACME, 1, Mono(0)), Ok(()));
        assert_eq!(quotas.take(TenantNo(0), 1, Mono(0)), Ok(()));
        assert!(quotas.take(ACME, 1, Mono(0)).is_err());
        assert_eq!(quotas.take(ACME, 0, Mono(0)), Ok(()));
        assert_eq!(quotas.take(ACME, 1, Mono(0)), Ok(()));
    }

    #[test]
    fn what_waits_is_counted_by_tenant() {
        let mut quotas = Quotas::default();
        quotas.leaves(ACME);
        (0..3).for_each(|_| quotas.waits(ACME));
        quotas.waits(TenantNo(0));
        quotas.leaves(ACME);
        assert_eq!([0, 1, 3, 9].map(|no| quotas.waiting(TenantNo(no))), [1, 0, 2, 0]);
    }
}
