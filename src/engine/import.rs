//! Import: what another server handed over, a page of lines in one commit.
//!
//! A line names everything by name, and gets this file's numbers here. What comes a second time
//! changes nothing; what is here already is replaced only by something that has changed more often.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::InStep;
use super::command::{CommandError, Done};
use crate::delivery::{Delivery, NO_DIGEST, Source, State};
use crate::model::Action;
use crate::model::destination::StateNote;
use crate::model::{ClassNo, DeliveryId, DestNo, Destination, Lane, Name, TenantNo};
use crate::outcome::{Ending, GateMemory, Hold};
use crate::store::{Before, Found, Identity, Place, StoreError, StoredDestination};
use crate::time::Timestamp;

/// Lines of one command (DESIGN.md: pages of at most 256).
pub const PAGE_ITEMS: usize = 256;

/// Some lines of an export, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub items: Vec<Item>,
    /// Nothing is written. These destinations and their tenants are taken to be there, because
    /// lines before would have made them.
    pub dry_run: Option<Arc<BTreeMap<Name, Name>>>,
    /// What comes after the first line that is refused is left.
    pub stop_on_error: bool,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    Destination(Box<DestinationLine>),
    Delivery(Box<DeliveryLine>),
}

/// A destination as another server had it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DestinationLine {
    pub name: Name,
    pub settings: Destination,
    pub note: StateNote,
    pub created_at: Timestamp,
    pub revision: u32,
    /// What was learnt of it, its hold included.
    pub memory: GateMemory,
}

/// A delivery as another server had it. The numbers in its record, its lane and its step are not
/// looked at.
#[derive(Clone, PartialEq, Eq)]
pub struct DeliveryLine {
    pub tenant: Name,
    pub destination: Name,
    pub class: Name,
    pub delivery: Delivery,
    /// Empty when it was erased.
    pub body: Bytes,
}

impl fmt::Debug for DeliveryLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeliveryLine").field("delivery", &self.delivery).finish_non_exhaustive()
    }
}

/// What became of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Imported {
    New,
    Updated,
    Unchanged,
}

/// Why a line was left; nothing of it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Left {
    #[error("its destination is neither here nor on a line before, or belongs to another tenant here")]
    DestinationUnknown,
    #[error("its class is not configured here")]
    ClassUnknown,
    #[error("the destination belongs to another tenant here")]
    TenantFixed,
    #[error("the server has as many destinations as it can hold")]
    TooManyDestinations,
    #[error("its key belongs to {existing} here")]
    KeyReused { existing: DeliveryId },
    #[error("its id belongs to another delivery here")]
    IdTaken,
    #[error("an attempt of it is in flight here")]
    Leased,
    #[error("what is on disk for it here is damaged")]
    Damaged,
    #[error("{waiting} deliveries wait here already")]
    QueueFull { waiting: u64 },
}

/// What is here under the id of a line, as far as it decides.
#[derive(Clone, Copy, Debug)]
struct Here {
    revision: u32,
    leased: bool,
    /// Tenant, destination, key and body are those of the line.
    same: bool,
}

/// What is to be done with a line of this revision; `rival` has its key under another id.
fn decide(revision: u32, here: Option<Here>, rival: Option<DeliveryId>) -> Result<Imported, Left> {
    match (here, rival) {
        (Some(here), _) if !here.same => Err(Left::IdTaken),
        (Some(here), _) if revision <= here.revision => Ok(Imported::Unchanged),
        (Some(here), _) if here.leased => Err(Left::Leased),
        (Some(_), _) => Ok(Imported::Updated),
        (None, Some(existing)) => Err(Left::KeyReused { existing }),
        (None, None) => Ok(Imported::New),
    }
}

/// An operator's erasure leaves no digest: what is left of the body is then its length.
fn is_same_body(here: &Source, line: &Source) -> bool {
    match (here, line) {
        (Source::Inline { bytes, sha256 }, Source::Inline { bytes: length, sha256: digest }) => {
            bytes == length && (sha256 == digest || [sha256, digest].contains(&&NO_DIGEST))
        }
        (here, line) => here == line,
    }
}

/// The hold that a destination which is here takes over: the one of the line, if it ends later.
fn later_hold(line: Option<Hold>, here: Option<Timestamp>, now: Timestamp) -> Option<Hold> {
    line.filter(|hold| hold.until > now && here.is_none_or(|until| until < hold.until))
}

/// Where a line goes: the numbers that its names have here.
#[derive(Clone, Copy)]
struct Numbers {
    destination: DestNo,
    tenant: TenantNo,
    class: ClassNo,
}

type Line = Result<Result<Imported, Left>, StoreError>;

impl InStep<'_, '_> {
    /// An export of this server and fence begins. One that is older than what was imported before
    /// is refused: it would bring back what has since been changed.
    pub(super) fn begin_import(
        &mut self,
        source: Identity,
        dry_run: bool,
    ) -> Result<Result<Done, CommandError>, StoreError> {
        let known = self.file.known_fence(source.server)?;
        if let Some(known) = known.filter(|known| *known > source.fence) {
            return Ok(Err(CommandError::StaleExport { known, given: source.fence }));
        }
        if known != Some(source.fence) && !dry_run {
            self.file.put_source(source)?;
        }
        if !dry_run {
            let Identity { server, fence, .. } = source;
            let detail = format!("server {:032x}, fence {fence}", u128::from_be_bytes(server));
            self.note(Action::ImportBegin, None, detail)?;
        }
        Ok(Ok(Done::ImportBegun))
    }

    /// Takes the lines of a page in order; each has its answer, unless it was not looked at.
    pub(super) fn import(&mut self, page: Page) -> Result<Result<Done, CommandError>, StoreError> {
        let mut done = Vec::with_capacity(page.items.len());
        for item in page.items {
            let line = match item {
                Item::Destination(line) => self.import_destination(*line, page.dry_run.is_some())?,
                Item::Delivery(line) => self.import_delivery(*line, page.dry_run.as_deref())?,
            };
            done.push(line);
            if page.stop_on_error && line.is_err() {
                break;
            }
        }
        Ok(Ok(Done::Imported(done)))
    }

    /// One that is here keeps its settings and takes the later hold.
    fn import_destination(&mut self, line: DestinationLine, dry_run: bool) -> Line {
        if let Some((no, facts)) = self.core.directory.find(&line.name) {
            if facts.tenant != line.settings.tenant {
                return Ok(Err(Left::TenantFixed));
            }
            let here = self.core.schedule.held_until(no);
            let Some(hold) = later_hold(line.memory.hold, here, self.now.wall) else {
                return Ok(Ok(Imported::Unchanged));
            };
            if !dry_run {
                self.core.schedule.hold(no, hold, self.now);
            }
            return Ok(Ok(Imported::Updated));
        }
        if !self.has_room_for_destination(&line.name, &line.settings.tenant) {
            return Ok(Err(Left::TooManyDestinations));
        }
        if !dry_run {
            let DestinationLine { name, settings, note, created_at, revision, memory } = line;
            let stored = StoredDestination { name, settings, note, created_at, revision };
            let made = self.add_destination(stored, memory)?;
            self.file.put_gate(made.no, &memory)?;
        }
        Ok(Ok(Imported::New))
    }

    fn import_delivery(&mut self, line: DeliveryLine, assumed: Option<&BTreeMap<Name, Name>>) -> Line {
        let Some(class) = self.core.directory.class(line.class.as_str()) else {
            return Ok(Err(Left::ClassUnknown));
        };
        let found = self.core.directory.find(&line.destination);
        let Some((destination, facts)) = found.filter(|(_, facts)| facts.tenant == line.tenant) else {
            let made = found.is_none()
                && assumed.is_some_and(|all| all.get(&line.destination) == Some(&line.tenant));
            return Ok(if made { Ok(Imported::New) } else { Err(Left::DestinationUnknown) });
        };
        let numbers = Numbers { destination, tenant: facts.tenant_no, class };
        let it = self.numbered(line.delivery, numbers);
        let here = match self.file.delivery(it.id)? {
            Found::Delivery(here) => Some(*here),
            Found::Damaged => return Ok(Err(Left::Damaged)),
            Found::Nothing => None,
        };
        let known = here.as_ref().map(|here| self.here(here, &it));
        let imported = decide(it.revision, known, self.rival(&it)?);
        if assumed.is_some() {
            return Ok(imported);
        }
        match (imported, here) {
            (Ok(Imported::New), _) if self.is_full_for(&it) => {
                return Ok(Err(Left::QueueFull { waiting: self.core.unended() }));
            }
            (Ok(Imported::New), _) => self.take_over(it, &line.body)?,
            (Ok(Imported::Updated), Some(here)) => self.catch_up(here, it, &line.body)?,
            (Ok(Imported::Updated | Imported::Unchanged) | Err(_), _) => {}
        }
        Ok(imported)
    }

    /// The record with the numbers of this file.
    fn numbered(&self, mut it: Delivery, numbers: Numbers) -> Delivery {
        (it.destination, it.tenant, it.class) = (numbers.destination, numbers.tenant, numbers.class);
        it.state = match it.state {
            State::Waiting { due, reason, lane: _ } => {
                State::Waiting { due, lane: Lane::of(it.class, it.attempts), reason }
            }
            State::Terminal { outcome, at, step: _ } => State::Terminal { outcome, at, step: self.number },
        };
        it
    }

    fn here(&self, here: &Delivery, line: &Delivery) -> Here {
        let names = |it: &Delivery| (it.tenant, it.destination, it.created_at);
        let same = names(here) == names(line)
            && here.key == line.key
            && is_same_body(&here.payload.source, &line.payload.source)
            && here.content_type == line.content_type;
        Here { revision: here.revision, leased: self.core.leases.contains_key(&here.id), same }
    }

    /// Who has the key of a line under another id; a row that leads to nothing is free.
    fn rival(&self, it: &Delivery) -> Result<Option<DeliveryId>, StoreError> {
        let Some(key) = &it.key else { return Ok(None) };
        let owner = self.file.key_owner(it.tenant, key, it.destination)?;
        let Some(owner) = owner.filter(|owner| *owner != it.id) else { return Ok(None) };
        Ok((!matches!(self.file.delivery(owner)?, Found::Nothing)).then_some(owner))
    }

    fn is_full_for(&self, it: &Delivery) -> bool {
        matches!(it.state, State::Waiting { .. }) && self.core.unended() >= self.core.limits.max_deliveries
    }

    /// Stores what is new here.
    fn take_over(&mut self, mut it: Delivery, body: &Bytes) -> Result<(), StoreError> {
        self.keep_or_erase(&mut it);
        let body = if it.payload.erased_at.is_some() { &[] } else { &**body };
        let place = match it.state {
            State::Waiting { .. } => Place::Due,
            State::Terminal { .. } => Place::Ended,
        };
        self.file.accept(&it, body, place)?;
        self.settled(None, &it);
        Ok(())
    }

    /// Puts what has changed elsewhere in the place of what is here.
    fn catch_up(&mut self, here: Delivery, mut it: Delivery, body: &Bytes) -> Result<(), StoreError> {
        self.keep_or_erase(&mut it);
        match (here.payload.erased_at.is_some(), it.payload.erased_at.is_some()) {
            (false, true) => self.file.remove_body(it.id, here.body_bytes())?,
            (true, false) => self.file.put_body(it.id, body)?,
            (false, false) | (true, true) => {}
        }
        let before = Before::of(&here, None);
        let newest = here.log.last().map_or(0, |attempt| attempt.n);
        let last = std::mem::replace(&mut it.log, here.log).pop();
        let moved = last.filter(|attempt| attempt.n > newest).and_then(|attempt| it.remember(attempt));
        self.reopen(before);
        self.file.replace(before, &it, moved.as_ref())?;
        self.settled(Some(before), &it);
        Ok(())
    }

    /// A body that this server would not keep goes with the end.
    fn keep_or_erase(&self, it: &mut Delivery) {
        if let State::Terminal { outcome, at, .. } = it.state
            && self.core.limits.retention.body(outcome).0 == 0
        {
            it.erase_body(at);
        }
    }

    /// RAM follows what was written. It did not end here: no figure counts it.
    fn settled(&mut self, before: Option<Before>, it: &Delivery) {
        if let State::Terminal { outcome, .. } = it.state {
            self.core.tally.quarantined += u64::from(outcome == Ending::Quarantined);
        }
        self.follow(before, it);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::HoldReason;

    #[test]
    fn a_line_replaces_only_what_has_changed_less_often() {
        let here = |revision, leased, same| Some(Here { revision, leased, same });
        let rival = DeliveryId(7);
        let check =
            |revision: u32, here: Option<Here>, key: Option<DeliveryId>, want: Result<Imported, Left>| {
                assert_eq!(decide(revision, here, key), want, "{revision} {here:?} {key:?}");
            };
        check(0, None, None, Ok(Imported::New));
        check(9, None, None, Ok(Imported::New));
        check(9, None, Some(rival), Err(Left::KeyReused { existing: rival }));
        check(3, here(3, false, true), None, Ok(Imported::Unchanged));
        check(3, here(3, true, true), None, Ok(Imported::Unchanged));
        check(2, here(3, false, true), None, Ok(Imported::Unchanged));
        check(4, here(3, false, true), None, Ok(Imported::Updated));
        check(4, here(3, true, true), None, Err(Left::Leased));
        check(u32::MAX, here(0, false, false), None, Err(Left::IdTaken));
        check(0, here(9, true, false), None, Err(Left::IdTaken));
    }

    #[test]
    fn the_later_hold_stands() {
        let hold = |until| Hold { until: Timestamp(until), reason: HoldReason::RateLimited };
        let check = |line: Option<u64>, here: Option<u64>, want: Option<u64>| {
            let got = later_hold(line.map(hold), here.map(Timestamp), Timestamp(100));
            assert_eq!(got, want.map(hold), "{line:?} {here:?}");
        };
        check(None, None, None);
        check(None, Some(300), None);
        check(Some(200), None, Some(200));
        check(Some(200), Some(150), Some(200));
        check(Some(200), Some(200), None);
        check(Some(200), Some(300), None);
        check(Some(100), None, None);
        check(Some(99), Some(50), None);
    }
}
