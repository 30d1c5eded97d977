//! Who gets how much: classes, what is kept for first attempts, and the weights of tenants.

use std::collections::BTreeMap;

use super::super::error::{ConfigError, Origin};
use super::super::layers::Layers;
use super::super::value::{Reading, Value};
use super::{MAX_DELIVERIES, agree, named_table};
use crate::model::class::{RESERVE_MAX_PERMILLE, WEIGHT_RANGE, WINDOW_RANGE};
use crate::model::quota::MAX_PER_SECOND;
use crate::model::{ClassSettings, MAX_CLASSES, Quota, TenantQuotas, TenantWeights};

/// Tenants with a weight of their own: each is held in RAM.
const MAX_TENANTS: usize = 10_000;
/// The table of the tenants that are not named.
const ALL_TENANTS: &str = "default";

/// The built-in classes, as far as they are not set otherwise, and those that were added.
pub(super) fn classes(layers: &mut Layers) -> Result<Vec<ClassSettings>, ConfigError> {
    let mut all = ClassSettings::first();
    for (text, origin) in layers.named("class") {
        let name = named_table("class", &text, origin.clone())?;
        if all.iter().any(|class| class.name == name) {
            continue;
        }
        all.push(ClassSettings::of(name));
        agree(all.len() <= MAX_CLASSES, "class", origin, || {
            format!("at most {MAX_CLASSES} classes, with urgent, routine and bulk")
        })?;
    }
    all.into_iter().map(|class| read_class(layers, class)).collect()
}

fn read_class(layers: &mut Layers, base: ClassSettings) -> Result<ClassSettings, ConfigError> {
    let key = |key| ["class", base.name.as_str(), key];
    let weight = layers.take(&key("weight"), base.weight, weight)?;
    let window = layers.take(&key("window"), base.window, |value| value.duration(WINDOW_RANGE))?;
    Ok(ClassSettings { weight, window, ..base })
}

/// What is kept for first attempts, in thousandths.
pub(super) fn reserve(layers: &mut Layers, default: u32) -> Result<u32, ConfigError> {
    layers.take(&["reserve", "first_attempts"], default, |value| value.permille(RESERVE_MAX_PERMILLE))
}

/// What tenants weigh and what they may bring. A named tenant has of all what it does not set.
pub(super) fn tenants(layers: &mut Layers) -> Result<(TenantWeights, TenantQuotas), ConfigError> {
    let tables = layers.named("tenant");
    agree(tables.len() <= MAX_TENANTS, "tenant", Origin::Default, || {
        format!("at most {MAX_TENANTS} tables [tenant.<name>]")
    })?;
    let all = TenantWeights::default().default;
    let default = layers.take(&["tenant", ALL_TENANTS, "weight"], all, weight)?;
    let quota = read_quota(layers, ALL_TENANTS, Quota::default())?;
    let (mut weights, mut quotas) = (BTreeMap::new(), BTreeMap::new());
    for (text, origin) in tables.into_iter().filter(|(text, _)| text != ALL_TENANTS) {
        let name = named_table("tenant", &text, origin)?;
        let own = read_quota(layers, &text, quota)?;
        if own != quota {
            quotas.insert(name.clone(), own);
        }
        weights.insert(name, layers.take(&["tenant", &text, "weight"], default, weight)?);
    }
    Ok((TenantWeights { default, named: weights }, TenantQuotas { default: quota, named: quotas }))
}

fn read_quota(layers: &mut Layers, tenant: &str, base: Quota) -> Result<Quota, ConfigError> {
    Ok(Quota {
        per_second: layers.take(&["tenant", tenant, "quota_per_second"], base.per_second, |value| {
            value.whole(0..=MAX_PER_SECOND)
        })?,
        max_waiting: layers.take(&["tenant", tenant, "max_waiting"], base.max_waiting, |value| {
            value.whole(0..=MAX_DELIVERIES)
        })?,
    })
}

fn weight(value: &Value) -> Reading<u32> {
    value.whole(WEIGHT_RANGE)
}
