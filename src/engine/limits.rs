//! What the engine is set to. Other settings may take its place while it runs.

use std::collections::BTreeMap;

use crate::model::{ClassSettings, Name, TenantQuotas, TenantWeights};
use crate::policy::Policy;
use crate::time::Millis;

/// What the engine is set to; resolved once for each reading of the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    pub slots: u32,
    /// Deliveries that have not ended.
    pub max_deliveries: u64,
    pub policies: BTreeMap<Name, Policy>,
    /// At most [`crate::model::MAX_CLASSES`]; what has no number yet gets one in this order.
    pub classes: Vec<ClassSettings>,
    /// Thousandths of the slots that only first attempts may take.
    pub reserve_permille: u32,
    pub tenant_weights: TenantWeights,
    pub tenant_quotas: TenantQuotas,
    pub retention: Retention,
    /// How long an attempt may read its payload before it begins; leases last so much longer.
    pub payload_timeout: Millis,
}

/// How long what has ended is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    pub terminal: Millis,
    pub max_terminal: u64,
    pub delivered_payload: Millis,
    pub failed_payload: Millis,
    /// Entries of the audit log.
    pub audit: Millis,
}
