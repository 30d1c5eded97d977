//! Other settings while the server runs: everything that the engine was opened with is replaced in
//! one step, or nothing.

use super::InStep;
use super::classes;
use super::command::{CommandError, Configuration, Done};
use super::open::suspect_slots;
use super::watch::Watch;
use crate::model::{Action, DestNo, DestinationState, Name, TenantWeights};
use crate::schedule::Terms;
use crate::store::StoreError;

type Answer = Result<Result<Done, CommandError>, StoreError>;

impl InStep<'_, '_> {
    /// Takes other settings, unless a destination or the file could not go on under them.
    pub(super) fn configure(&mut self, it: Configuration) -> Answer {
        if let Some(refused) = self.policy_needed(&it) {
            return Ok(Err(refused));
        }
        let mut known = self.core.directory.numbered_classes();
        if let Some(class) = classes::too_many(&known, &it.limits.classes) {
            return Ok(Err(CommandError::ClassesFull { class }));
        }
        let Configuration { limits, min_free_disk, watched, host, changes } = it;
        classes::number(self.file, &mut known, &limits.classes)?;
        self.core.directory.put_classes(classes::numbered(known, &limits.classes));
        let core = &mut *self.core;
        core.tally.set_windows(&core.directory.windows(), self.now);
        core.schedule.set_terms(&Terms {
            slots: limits.slots,
            suspect_slots: suspect_slots(limits.slots, core.streak),
            reserve_permille: limits.reserve_permille,
            weights: core.directory.weights(),
        });
        self.set_weights(&limits.tenant_weights);
        self.set_retention(&limits.retention)?;
        self.core.floor.keep(min_free_disk);
        if self.core.watch.places() != watched {
            self.core.watch = Watch::new(watched);
        }
        self.core.limits = limits;
        // What is shown follows at once: whoever ordered it looks.
        self.core.last_publish = None;
        self.file.put_host(&host)?;
        self.note(Action::ConfigReload, None, changes)?;
        Ok(Ok(Done::Configured))
    }

    /// A destination whose policy would be gone.
    fn policy_needed(&self, it: &Configuration) -> Option<CommandError> {
        let orphan = self.core.directory.all().find(|facts| {
            facts.state != DestinationState::Deleted && !it.limits.policies.contains_key(&facts.policy)
        })?;
        let (policy, destination) = (orphan.policy.clone(), orphan.name.clone());
        Some(CommandError::PolicyNeeded { policy, destination })
    }

    /// Nothing of a gate but its weight depends on the settings.
    fn set_weights(&mut self, weights: &TenantWeights) {
        let weight = |tenant: &Name| weights.of(tenant);
        let all: Vec<u32> = self.core.directory.all().map(|facts| weight(&facts.tenant)).collect();
        for (no, weight) in (0..).zip(all) {
            self.core.schedule.set_weight(DestNo(no), weight);
        }
    }

    fn set_retention(&mut self, retention: &super::Retention) -> Result<(), StoreError> {
        let before = self.core.limits.retention;
        if before == *retention {
            return Ok(());
        }
        for (kind, from) in self.core.sweeps.reset(&before, retention, self.number) {
            self.file.put_body_sweep(kind, Some(from))?;
        }
        Ok(())
    }
}
