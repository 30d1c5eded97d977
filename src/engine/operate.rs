//! Operator commands: destinations and single deliveries.

use std::sync::Arc;

use super::audit::{differences, reasoned, standing};
use super::command::{Command, CommandError, Done, Expect, Order, StateVerb};
use super::directory::Facts;
use super::{InStep, MAX_DESTINATIONS, MAX_NUMBERS};
use crate::delivery::{Delivery, Next, State};
use crate::model::Action;
use crate::model::destination::StateNote;
use crate::model::secret::rotated;
use crate::model::{DeliveryId, DestNo, Destination, DestinationState, Name, Secret, TenantNo};
use crate::outcome::{Ending, Hold, HoldReason};
use crate::schedule::GateMemory;
use crate::store::{Before, DestinationView, Found, StoreError, StoredDestination};
use crate::time::{Millis, Timestamp};

/// What a command comes to: the outer error ends the process, the inner one is an answer.
pub(super) type Answer = Result<Result<Done, CommandError>, StoreError>;

impl InStep<'_, '_> {
    /// Carries out what one is ordered, unless it is about what is not his.
    pub(super) fn obey(&mut self, order: Order<Command>) -> Answer {
        let found = order.what.destination().and_then(|name| self.core.directory.find(name));
        if found.is_some_and(|(_, facts)| !order.may_change(&facts.tenant)) {
            return Ok(Err(CommandError::TenantNotAllowed));
        }
        self.log.by(order.by);
        self.command(order.what)
    }

    /// Carries out one command, or says why not.
    fn command(&mut self, command: Command) -> Answer {
        match command {
            Command::PutDestination { name, settings, keep_secrets, expect } => {
                self.put_settings(name, *settings, keep_secrets, expect)
            }
            Command::RotateSecret { name, secret, overlap } => self.rotate(&name, secret, overlap),
            Command::DeleteDestination { name, expect } => self.delete(&name, expect),
            Command::SetState { name, verb, reason } => self.set_state(&name, verb, reason),
            Command::Hold { name, until, reason } => self.hold(&name, until, &reason),
            Command::Release { name } => self.release(&name),
            Command::Retry { id } => self.retry(id),
            Command::Cancel { id } => self.cancel(id),
            Command::Erase { id } => self.erase(id),
            Command::BeginImport { source, dry_run } => self.begin_import(source, dry_run),
            Command::Import(page) => self.import(page),
            Command::Job(order) => self.job(order),
            Command::Configure(it) => self.configure(*it),
            Command::Note { action, object, detail } => {
                self.note(action, object, detail)?;
                Ok(Ok(Done::Noted))
            }
        }
    }

    fn put_settings(
        &mut self,
        name: Name,
        mut settings: Destination,
        keep_secrets: bool,
        expect: Expect,
    ) -> Answer {
        let Some((no, facts)) = self.core.directory.find(&name) else {
            return match expect {
                Expect::Anything | Expect::New => self.create(name, settings),
                Expect::Version(..) => Ok(Err(CommandError::RevisionMismatch)),
            };
        };
        if !expect.holds(no, facts.revision) {
            return Ok(Err(CommandError::RevisionMismatch));
        }
        if facts.tenant != settings.tenant {
            return Ok(Err(CommandError::TenantFixed));
        }
        let mut stored = self.file.destination(no)?;
        if keep_secrets {
            settings.secrets.clone_from(&stored.settings.secrets);
        }
        let detail = differences(&stored.settings, &settings);
        self.note(Action::DestinationUpdate, Some(name.to_string()), detail)?;
        stored.settings = settings;
        stored.revision += 1;
        self.put_destination(no, &stored)?;
        Ok(Ok(Done::Changed(Box::new(DestinationView::of(no, stored)))))
    }

    fn create(&mut self, name: Name, settings: Destination) -> Answer {
        if !self.has_room_for_destination(&name, &settings.tenant) {
            return Ok(Err(CommandError::TooManyDestinations));
        }
        let note = StateNote {
            state: DestinationState::Active,
            reason: String::new(),
            since: self.now.wall,
            by: self.log.name().to_owned(),
        };
        let detail = format!("tenant {}, host {}", settings.tenant, settings.url.host_str().unwrap_or("-"));
        self.note(Action::DestinationCreate, Some(name.to_string()), detail)?;
        let stored = StoredDestination { name, settings, note, created_at: self.now.wall, revision: 1 };
        let view = self.add_destination(stored, GateMemory::default())?;
        Ok(Ok(Done::Created(Box::new(view))))
    }

    /// True when one more destination can be had; one that is made again needs no number.
    pub(super) fn has_room_for_destination(&self, name: &Name, tenant: &Name) -> bool {
        let directory = &self.core.directory;
        let numbered = directory.len() < MAX_NUMBERS || directory.buried(name, tenant).is_some();
        directory.living() < MAX_DESTINATIONS && numbered
    }

    /// Stores a new destination, with what its gate is to know. It has the next number, or the one that
    /// its tenant gave up under this name: a key belongs to tenant and destination as long as the record
    /// of its delivery lives, whatever happens to the destination meanwhile.
    pub(super) fn add_destination(
        &mut self,
        mut stored: StoredDestination,
        memory: GateMemory,
    ) -> Result<DestinationView, StoreError> {
        let tenant = self.tenant(&stored.settings.tenant)?;
        let buried = self.core.directory.buried(&stored.name, &stored.settings.tenant);
        let again = buried.map(|(no, facts)| (no, facts.revision));
        if let Some((_, before)) = again {
            stored.revision = stored.revision.max(before + 1);
        }
        let facts = Facts::of(&stored, tenant);
        let gate = facts.gate(&self.core.limits.tenant_weights);
        let no = match again {
            Some((no, _)) => self.core.schedule.add_again(no, gate, memory, self.now),
            None => self.core.schedule.add(gate, memory, self.now),
        };
        self.core.directory.put(no, facts);
        self.file.put_destination(no, &stored)?;
        Ok(DestinationView::of(no, stored))
    }

    fn tenant(&mut self, name: &Name) -> Result<TenantNo, StoreError> {
        if let Some(no) = self.core.directory.tenant(name) {
            return Ok(no);
        }
        let no = self.core.directory.next_tenant();
        self.file.put_tenant(name, no)?;
        self.core.directory.put_tenant(name.clone(), no);
        Ok(no)
    }

    /// Stores a changed destination and lets gate and directory follow.
    pub(super) fn put_destination(
        &mut self,
        no: DestNo,
        stored: &StoredDestination,
    ) -> Result<(), StoreError> {
        self.file.put_destination(no, stored)?;
        let facts = Facts::of(stored, self.core.directory.facts(no).tenant_no);
        self.core.schedule.set(no, facts.gate(&self.core.limits.tenant_weights), self.now);
        self.core.directory.put(no, facts);
        Ok(())
    }

    pub(super) fn delete(&mut self, name: &Name, expect: Expect) -> Answer {
        let Some((no, facts)) = self.core.directory.find(name) else {
            return Ok(Err(CommandError::DestinationUnknown));
        };
        if !expect.holds(no, facts.revision) {
            return Ok(Err(CommandError::RevisionMismatch));
        }
        let gate = self.core.schedule.view(no, self.now);
        let waiting = gate.map_or(0, |gate| gate.waiting + u64::from(gate.in_flight));
        let more = self.file.next_lane(no, 0)?.is_some_and(|(found, _, _)| found == no);
        if waiting > 0 || more {
            return Ok(Err(CommandError::WorkWaiting { waiting: waiting.max(1) }));
        }
        let mut stored = self.file.destination(no)?;
        stored.note.state = DestinationState::Deleted;
        stored.note.since = self.now.wall;
        stored.revision += 1;
        self.put_destination(no, &stored)?;
        let detail = format!("tenant {}", stored.settings.tenant);
        self.note(Action::DestinationDelete, Some(name.to_string()), detail)?;
        Ok(Ok(Done::Deleted))
    }

    fn set_state(&mut self, name: &Name, verb: StateVerb, reason: String) -> Answer {
        let Some((no, _)) = self.core.directory.find(name) else {
            return Ok(Err(CommandError::DestinationUnknown));
        };
        let mut stored = self.file.destination(no)?;
        let state = verb.applied(stored.note.state);
        if state != stored.note.state {
            let detail = reasoned(format!("was {}", stored.note.state.as_str()), &reason);
            self.note(verb.action(), Some(name.to_string()), detail)?;
            let by = self.log.name().to_owned();
            stored.note = StateNote { state, reason, since: self.now.wall, by };
            stored.revision += 1;
            self.put_destination(no, &stored)?;
        }
        Ok(Ok(Done::Changed(Box::new(DestinationView::of(no, stored)))))
    }

    fn rotate(&mut self, name: &Name, secret: Secret, overlap: Millis) -> Answer {
        let Some((no, _)) = self.core.directory.find(name) else {
            return Ok(Err(CommandError::DestinationUnknown));
        };
        let mut stored = self.file.destination(no)?;
        let Some(secrets) = rotated(&stored.settings.secrets, secret, overlap, self.now.wall) else {
            return Ok(Err(CommandError::TooManySecrets));
        };
        stored.settings.secrets = secrets;
        stored.revision += 1;
        self.put_destination(no, &stored)?;
        self.note(Action::SecretRotate, Some(name.to_string()), format!("overlap {overlap}"))?;
        Ok(Ok(Done::Changed(Box::new(DestinationView::of(no, stored)))))
    }

    fn hold(&mut self, name: &Name, until: Timestamp, reason: &str) -> Answer {
        let hold = Hold { until, reason: HoldReason::Operator };
        let detail = reasoned(format!("until {until}"), reason);
        self.with_gate(name, |work, no| {
            work.core.schedule.hold(no, hold, work.now);
            work.note(Action::DestinationHold, Some(name.to_string()), detail)
        })
    }

    /// Ends a hold; where there is none, nothing changes and nothing is noted.
    fn release(&mut self, name: &Name) -> Answer {
        self.with_gate(name, |work, no| {
            let Some(until) = work.core.schedule.held_until(no) else { return Ok(()) };
            work.core.schedule.release_hold(no, work.now);
            let detail = format!("was held until {until}");
            work.note(Action::DestinationRelease, Some(name.to_string()), detail)
        })
    }

    fn with_gate(
        &mut self,
        name: &Name,
        change: impl FnOnce(&mut Self, DestNo) -> Result<(), StoreError>,
    ) -> Answer {
        let Some((no, _)) = self.core.directory.find(name) else {
            return Ok(Err(CommandError::DestinationUnknown));
        };
        change(self, no)?;
        let stored = self.file.destination(no)?;
        Ok(Ok(Done::Changed(Box::new(DestinationView::of(no, stored)))))
    }

    /// Writes every gate that changed, once.
    pub(super) fn write_gates(&mut self) -> Result<(), StoreError> {
        for no in self.core.schedule.take_changed() {
            let memory = self.core.schedule.memory(no, self.now);
            self.file.put_gate(no, &memory)?;
        }
        Ok(())
    }

    /// What is damaged on disk cannot be retried: it would only be quarantined again.
    pub(super) fn retry(&mut self, id: DeliveryId) -> Answer {
        if let Found::Delivery(it) = self.file.delivery(id)? {
            let quarantined = matches!(it.state, State::Terminal { outcome: Ending::Quarantined, .. });
            let kept = it.payload.erased_at.is_none();
            if quarantined && kept && !self.file.has_whole_body(&it)? {
                return Ok(Err(CommandError::Damaged));
            }
        }
        self.change(id, Action::DeliveryRetry, |it, leased, _, now| {
            it.retry(leased, now).map(|()| Next::Waiting)
        })
    }

    pub(super) fn cancel(&mut self, id: DeliveryId) -> Answer {
        self.change(id, Action::DeliveryCancel, |it, leased, end, _| it.cancel(leased, end))
    }

    /// The bytes go at once: an attempt that has not read them yet will find them gone.
    pub(super) fn erase(&mut self, id: DeliveryId) -> Answer {
        let Found::Delivery(found) = self.file.delivery(id)? else {
            return self.change(id, Action::DeliveryErase, |_, _, _, _| Ok(Next::Same));
        };
        if found.is_erased() {
            return self.change(id, Action::DeliveryErase, |_, _, _, _| Ok(Next::Same));
        }
        if found.payload.erased_at.is_none() {
            self.file.remove_body(id, found.body_bytes())?;
        }
        self.file.forget_excerpts(id)?;
        match found.state {
            State::Waiting { .. } => {
                self.change(id, Action::DeliveryErase, |it, leased, end, _| it.erase(leased, end))
            }
            State::Terminal { .. } => self.erase_ended(*found),
        }
    }

    /// What has ended keeps its place in every index.
    fn erase_ended(&mut self, mut it: Delivery) -> Answer {
        let end = self.end();
        self.note(Action::DeliveryErase, Some(it.id.to_string()), standing(&it, false))?;
        it.erase(false, end).map_err(|refused| StoreError::Contradiction(format!("erased: {refused}")))?;
        self.file.rewrite(&it)?;
        Ok(Ok(Done::Delivery(Box::new(self.core.view(Arc::new(it), None, self.now)))))
    }

    /// Changes one delivery by an operator's word.
    fn change(
        &mut self,
        id: DeliveryId,
        action: Action,
        change: impl FnOnce(
            &mut Delivery,
            bool,
            crate::delivery::End,
            Timestamp,
        ) -> Result<Next, crate::delivery::Refused>,
    ) -> Answer {
        let mut it = match self.file.delivery(id)? {
            Found::Delivery(delivery) => *delivery,
            Found::Damaged => return Ok(Err(CommandError::Damaged)),
            Found::Nothing => return Ok(Err(CommandError::DeliveryUnknown)),
        };
        let lease = self.core.leases.get(&id).map(|out| out.lease);
        let before = Before::of(&it, lease.as_ref());
        let was = standing(&it, lease.is_some());
        match change(&mut it, lease.is_some(), self.end(), self.now.wall) {
            Err(refused) => return Ok(Err(CommandError::Refused(refused))),
            Ok(Next::Same) => {}
            Ok(Next::Cancelling | Next::Erasing) => {
                self.note(action, Some(id.to_string()), was)?;
                self.file.rewrite(&it)?;
                self.core.leases.entry(id).and_modify(|out| out.record = None);
            }
            Ok(Next::Waiting) if self.is_gone(it.destination) => {
                return Ok(Err(CommandError::DestinationUnknown));
            }
            Ok(Next::Waiting | Next::Leased | Next::End(_)) => {
                self.note(action, Some(id.to_string()), was)?;
                self.reopen(before);
                self.put(before, it, None)?;
                let Found::Delivery(stored) = self.file.delivery(id)? else {
                    return Ok(Err(CommandError::Damaged));
                };
                it = *stored;
            }
        }
        let view = self.core.view(Arc::new(it), lease, self.now);
        Ok(Ok(Done::Delivery(Box::new(view))))
    }

    /// What ended is about to wait again.
    pub(super) fn reopen(&mut self, before: Before) {
        if let Before::Terminal { outcome, .. } = before {
            self.core.sweeps.reopened();
            self.core.tally.quarantined -= u64::from(outcome == Ending::Quarantined);
        }
    }

    /// True when a delivery's destination was deleted: nothing can be sent there again.
    fn is_gone(&self, no: DestNo) -> bool {
        self.core.directory.facts(no).state == DestinationState::Deleted
    }
}

impl Expect {
    pub(super) fn holds(self, no: DestNo, revision: u32) -> bool {
        match self {
            Expect::Anything => true,
            Expect::New => false,
            Expect::Version(which, expected) => which == no && expected == revision,
        }
    }
}
