//! The audit log's side of a step: every change of an operator, and a 410's, leaves its entry in the
//! commit that makes it.

use std::sync::Arc;

use super::InStep;
use super::command::{ClaimsOrder, OPERATOR};
use crate::delivery::{Delivery, State};
use crate::model::audit::MAX_DETAIL;
use crate::model::{Action, AuditEntry, Destination};
use crate::store::{Claims, MAX_AUDIT_ROWS, StoreError};

/// The bits that a step has for the numbers of its entries. A turn of a removal leaves the most: one for
/// each row of its page, and one for each request that is out.
const STEP_BITS: u32 = 20;

/// Who is being obeyed, and how many entries the step has written.
pub(super) struct Log {
    by: Arc<str>,
    entries: u64,
}

impl Default for Log {
    fn default() -> Log {
        Log { by: OPERATOR.into(), entries: 0 }
    }
}

impl Log {
    /// What is done from now on is this one's word.
    pub(super) fn by(&mut self, by: Arc<str>) {
        self.by = by;
    }

    pub(super) fn name(&self) -> &str {
        &self.by
    }
}

impl InStep<'_, '_> {
    /// Writes an entry for what has just been done; `object` is None where it is the whole server.
    pub(super) fn note(
        &mut self,
        action: Action,
        object: Option<String>,
        detail: String,
    ) -> Result<(), StoreError> {
        self.note_of(self.log.name().to_owned(), action, object, detail)
    }

    /// The same for what nobody ordered: `by` is the receiver.
    pub(super) fn note_of(
        &mut self,
        by: String,
        action: Action,
        object: Option<String>,
        detail: String,
    ) -> Result<(), StoreError> {
        let n = self.number << STEP_BITS | self.log.entries;
        self.log.entries += 1;
        let detail = detail.chars().take(MAX_DETAIL).collect();
        let entry = AuditEntry { at: self.now.wall, by, action, object, detail };
        self.core.sweeps.noted(entry.at, &self.core.limits.retention);
        self.file.put_audit(n, &entry, MAX_AUDIT_ROWS)
    }

    /// The same for an order to the whole server, with what held before.
    pub(super) fn note_claims(
        &mut self,
        order: ClaimsOrder,
        before: Claims,
        fence: u64,
    ) -> Result<(), StoreError> {
        let was = before.word(self.core.leases.len() as u64);
        match order {
            ClaimsOrder::Stop => self.note(Action::ClaimsStop, None, format!("was {was}")),
            ClaimsOrder::Start { .. } => self.note(Action::ClaimsStart, None, format!("was {was}")),
            ClaimsOrder::Drain => self.note(Action::Drain, None, format!("was {was}, fence {fence}")),
        }
    }
}

/// How a delivery stood before it was changed: of one that had ended, how.
pub(super) fn standing(it: &Delivery, leased: bool) -> String {
    let Delivery { attempts, failures, throttles, .. } = it;
    match it.state {
        State::Waiting { .. } if leased => format!("was in flight, attempt {}", attempts + 1),
        State::Waiting { due, .. } => format!("was waiting, due {due}, attempts {attempts}"),
        State::Terminal { outcome, at, .. } => format!(
            "was {} since {at}, attempts {attempts}, failures {failures}, throttles {throttles}",
            outcome.as_str()
        ),
    }
}

/// The settings that differ, by name.
pub(super) fn differences(before: &Destination, after: &Destination) -> String {
    let pairs = [
        ("url", before.url != after.url),
        ("concurrency", (before.concurrency_max, before.adaptive) != (after.concurrency_max, after.adaptive)),
        ("rate", before.rate != after.rate),
        ("policy", before.policy != after.policy),
        ("timeout_ms", before.timeout != after.timeout),
        ("connect_timeout_ms", before.connect_timeout != after.connect_timeout),
        ("headers", before.headers != after.headers),
        ("secrets", before.secrets != after.secrets),
        ("tls", before.tls != after.tls),
        ("allow_cidrs", before.allow_cidrs != after.allow_cidrs),
        ("hold_scope", before.hold_scope != after.hold_scope),
    ];
    let names: Vec<&str> = pairs.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect();
    if names.is_empty() { "nothing differs".to_owned() } else { format!("changed {}", names.join(", ")) }
}

/// A sentence, and the operator's reason if there is one.
pub(super) fn reasoned(says: String, reason: &str) -> String {
    if reason.is_empty() { says } else { format!("{says}: {reason}") }
}
