//! Sweeps: what ends by its time, what is forgotten, and the count after an open. Each looks at
//! a bounded number of rows a step and knows when it is next wanted, so that no step reads a
//! row for nothing.

use super::{Core, InStep, Retention};
use crate::delivery::{Next, State};
use crate::model::{DeliveryId, DestNo, Lane};
use crate::outcome::Ending;
use crate::store::{Before, BodyKind, Found, StoreError};
use crate::time::{Millis, Mono, Now, Timestamp};

/// Rows that sweeps look at in one step (DESIGN.md, *Bounds*).
const MAX_ROWS: usize = 256;
/// Due rows counted in one step after an open: about a millisecond.
const COUNT_ROWS: usize = 2_048;
/// What ended is kept at least this long, however much there is (API.md, `max_terminal`).
pub(super) const KEPT_AT_LEAST: Millis = Millis(24 * 3_600_000);

type DueRow = (u32, u8, u64, u128);
/// A sweep of bodies and where it begins.
type Started = (BodyKind, (u64, DeliveryId));

/// When each sweep is next wanted, and how far it has come.
#[derive(Debug)]
pub(super) struct Sweeps {
    counted: Counted,
    /// No delivery expires before.
    next_end: Option<Timestamp>,
    /// Nothing is to be forgotten before.
    next_forget: Option<Timestamp>,
    /// Bodies of what was delivered, and of what ended otherwise.
    bodies: [Bodies; 2],
    /// No entry of the audit log is to be forgotten before.
    next_audit: Option<Timestamp>,
    /// Deliveries that have ended.
    terminal: u64,
    /// The step of the open.
    opened_at: u64,
}

/// How far the count of due rows has come since the open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counted {
    UpTo(Option<DueRow>),
    All,
}

/// The sweep of one kind of bodies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bodies {
    kind: BodyKind,
    after: Option<(u64, DeliveryId)>,
    /// Nothing is to be done before.
    next: Option<Timestamp>,
}

/// How long bodies of this kind are kept.
fn keep(kind: BodyKind, retention: &Retention) -> Millis {
    match kind {
        BodyKind::Delivered => retention.delivered_payload,
        BodyKind::Failed => retention.failed_payload,
    }
}

/// True when what ended so has a body of this kind.
fn holds(kind: BodyKind, outcome: Ending) -> bool {
    (kind == BodyKind::Delivered) == (outcome == Ending::Delivered)
}

impl Sweeps {
    /// Everything is looked at once after an open.
    pub(super) fn new(terminal: u64, opened_at: u64, cursors: [Option<(u64, DeliveryId)>; 2]) -> Sweeps {
        let start = Some(Timestamp(0));
        let [delivered, failed] = cursors;
        Sweeps {
            counted: Counted::UpTo(None),
            next_end: start,
            next_forget: start,
            next_audit: start,
            bodies: [
                Bodies { kind: BodyKind::Delivered, after: delivered, next: start },
                Bodies { kind: BodyKind::Failed, after: failed, next: start },
            ],
            terminal,
            opened_at,
        }
    }

    /// True until all that waits is counted.
    pub(super) fn counting(&self) -> bool {
        self.counted != Counted::All
    }

    /// A row was written to `ends`.
    pub(super) fn ends_at(&mut self, at: Timestamp) {
        self.next_end = Some(self.next_end.map_or(at, |next| next.min(at)));
    }

    /// A row was written to `finished`.
    pub(super) fn ended(&mut self, at: Timestamp, retention: &Retention) {
        self.terminal += 1;
        let forget_at = self.forget_at(at, retention);
        self.next_forget.get_or_insert(forget_at);
        if self.terminal == retention.max_terminal.saturating_add(1) {
            // From now on the oldest may go sooner than they were to go.
            self.next_forget = Some(Timestamp(0));
        }
        for bodies in &mut self.bodies {
            let keep = keep(bodies.kind, retention);
            if keep.0 > 0 {
                bodies.next.get_or_insert(at.plus(keep));
            }
        }
    }

    /// An entry was written to the audit log.
    pub(super) fn noted(&mut self, at: Timestamp, retention: &Retention) {
        let forget_at = at.plus(retention.audit);
        self.next_audit = Some(self.next_audit.map_or(forget_at, |next| next.min(forget_at)));
    }

    /// Retention is another from now on: everything is looked at once. Where bodies were kept and no
    /// longer are, those that are there are looked for: the sweeps for which that is to be noted.
    pub(super) fn reset(&mut self, before: &Retention, now: &Retention, step: u64) -> Vec<Started> {
        let (start, mut started) = (Some(Timestamp(0)), Vec::new());
        (self.next_forget, self.next_audit) = (start, start);
        self.opened_at = step;
        for bodies in &mut self.bodies {
            bodies.next = start;
            if keep(bodies.kind, before).0 > 0 && keep(bodies.kind, now).0 == 0 {
                started.push((bodies.kind, *bodies.after.get_or_insert((0, DeliveryId(0)))));
            }
        }
        started
    }

    /// A row was removed from `finished` because its delivery waits again.
    pub(super) fn reopened(&mut self) {
        self.terminal = self.terminal.saturating_sub(1);
    }

    /// When the next sweep is wanted; those that go by the wall clock wait until it is proven.
    pub(super) fn next(&self, now: Now, proven_at: Mono) -> Option<Mono> {
        let bodies = self.bodies.iter().filter_map(|bodies| bodies.next);
        let next =
            [self.next_end, self.next_forget, self.next_audit].into_iter().flatten().chain(bodies).min()?;
        Some(now.mono_at(next).max(proven_at))
    }

    fn forget_at(&self, ended: Timestamp, retention: &Retention) -> Timestamp {
        let crowded = self.terminal > retention.max_terminal;
        ended.plus(if crowded { KEPT_AT_LEAST.min(retention.terminal) } else { retention.terminal })
    }
}

impl Core {
    /// A row was written to `due`: count it, if the count has come that far.
    pub(super) fn count_in(&mut self, no: DestNo, lane: Lane, due: Timestamp, id: DeliveryId) {
        if self.sweeps.counted.covers((no.0, lane.0, due.0, id.0)) {
            self.schedule.counted_in(no, lane, due);
            self.quotas.waits(self.directory.facts(no).tenant_no);
        }
    }

    /// A row was removed from `due`.
    pub(super) fn count_out(&mut self, no: DestNo, lane: Lane, due: Timestamp, id: DeliveryId) {
        if self.sweeps.counted.covers((no.0, lane.0, due.0, id.0)) {
            self.schedule.counted_out(no, lane, due);
            self.quotas.leaves(self.directory.facts(no).tenant_no);
        }
    }
}

impl Counted {
    fn covers(self, row: DueRow) -> bool {
        match self {
            Counted::All => true,
            Counted::UpTo(None) => false,
            Counted::UpTo(Some(last)) => row <= last,
        }
    }
}

impl InStep<'_, '_> {
    /// One page of each sweep that is wanted.
    pub(super) fn sweep(&mut self) -> Result<(), StoreError> {
        self.count()?;
        if !self.core.is_clock_proven(self.now) {
            return Ok(());
        }
        if self.wanted(self.core.sweeps.next_end) {
            self.sweep_ends()?;
        }
        if self.wanted(self.core.sweeps.next_forget) {
            self.forget()?;
        }
        if self.wanted(self.core.sweeps.next_audit) {
            self.forget_audit()?;
        }
        for place in 0..self.core.sweeps.bodies.len() {
            if self.wanted(self.core.sweeps.bodies[place].next) {
                self.sweep_bodies(place)?;
            }
        }
        Ok(())
    }

    fn wanted(&self, next: Option<Timestamp>) -> bool {
        next.is_some_and(|next| next <= self.now.wall)
    }

    /// Counts one page of the rows that were there at open.
    fn count(&mut self) -> Result<(), StoreError> {
        let Counted::UpTo(after) = self.core.sweeps.counted else { return Ok(()) };
        let page = self.file.due_page(after, COUNT_ROWS)?;
        for (row, entry) in &page {
            let no = DestNo(row.0);
            self.core.schedule.counted_in(no, Lane(row.1), entry.due);
            self.core.quotas.waits(self.core.directory.facts(no).tenant_no);
        }
        let ended = page.len() < COUNT_ROWS;
        let last = page.last().map(|(row, _)| *row).or(after);
        self.core.sweeps.counted = if ended { Counted::All } else { Counted::UpTo(last) };
        if ended {
            self.core.schedule.counted_all();
        }
        Ok(())
    }

    /// Ends what waits beyond its `expires_at`.
    fn sweep_ends(&mut self) -> Result<(), StoreError> {
        for (expires_at, id) in self.file.expired(self.now.wall, MAX_ROWS)? {
            let leased = self.core.leases.contains_key(&id);
            match self.file.delivery(id)? {
                Found::Delivery(delivery) if !leased => self.expire(*delivery, expires_at)?,
                Found::Delivery(_) | Found::Nothing | Found::Damaged => self.file.drop_end(expires_at, id)?,
            }
        }
        self.core.sweeps.next_end = self.file.first_end()?;
        Ok(())
    }

    fn expire(&mut self, mut it: crate::delivery::Delivery, row: Timestamp) -> Result<(), StoreError> {
        let before = Before::of(&it, None);
        match it.expire(false, self.end()) {
            Ok(Next::End(_)) => self.put(before, it, None),
            Ok(_) | Err(_) => self.file.drop_end(row, it.id),
        }
    }

    /// Forgets what ended long enough ago.
    fn forget(&mut self) -> Result<(), StoreError> {
        let retention = self.core.limits.retention;
        let rows = self.file.finished(None, MAX_ROWS)?;
        let full = rows.len() == MAX_ROWS;
        for (step, id, at) in rows {
            let due = self.core.sweeps.forget_at(at, &retention);
            if due > self.now.wall {
                self.core.sweeps.next_forget = Some(due);
                return Ok(());
            }
            match self.file.delivery(id)? {
                Found::Delivery(delivery) => {
                    self.core.tally.forgotten(&delivery);
                    self.file.forget(&delivery)?;
                }
                Found::Damaged | Found::Nothing => self.file.forget_damaged(step, id)?,
            }
            self.core.sweeps.terminal = self.core.sweeps.terminal.saturating_sub(1);
        }
        self.core.sweeps.next_forget = full.then_some(self.now.wall);
        Ok(())
    }

    /// Forgets what was done long enough ago.
    fn forget_audit(&mut self) -> Result<(), StoreError> {
        let keep = self.core.limits.retention.audit;
        let until = Timestamp(self.now.wall.0.saturating_sub(keep.0).saturating_add(1));
        let next = self.file.forget_audit(until, MAX_ROWS)?;
        self.core.sweeps.next_audit = next.map(|at| at.plus(keep));
        Ok(())
    }

    /// Removes the bodies whose time is over, in the order in which their deliveries ended. Where
    /// none are kept they go with the end itself; a cursor then says that they once were kept,
    /// and the sweep goes on to the open and is done.
    fn sweep_bodies(&mut self, place: usize) -> Result<(), StoreError> {
        let Bodies { kind, after, .. } = self.core.sweeps.bodies[place];
        let keep = keep(kind, &self.core.limits.retention);
        if keep.0 == 0 && after.is_none() {
            self.core.sweeps.bodies[place].next = None;
            return Ok(());
        }
        let rows = self.file.finished(after, MAX_ROWS)?;
        let mut next = (rows.len() == MAX_ROWS).then_some(self.now.wall);
        let mut come = after.unwrap_or((0, DeliveryId(0)));
        for (step, id, at) in rows {
            if keep.0 == 0 && step > self.core.sweeps.opened_at {
                next = None;
                break;
            }
            if at.plus(keep) > self.now.wall {
                next = Some(at.plus(keep));
                break;
            }
            self.remove_body(kind, id)?;
            come = (step, id);
        }
        let done = keep.0 == 0 && next.is_none();
        let come = (!done).then_some(come);
        if come != after {
            self.file.put_body_sweep(kind, come)?;
        }
        self.core.sweeps.bodies[place] = Bodies { kind, after: come, next };
        Ok(())
    }

    fn remove_body(&mut self, kind: BodyKind, id: DeliveryId) -> Result<(), StoreError> {
        let Found::Delivery(mut it) = self.file.delivery(id)? else { return Ok(()) };
        let State::Terminal { outcome, .. } = it.state else { return Ok(()) };
        if !holds(kind, outcome) || it.payload.erased_at.is_some() {
            return Ok(());
        }
        self.file.remove_body(id, it.body_bytes())?;
        it.erase_body(self.now.wall);
        self.file.rewrite(&it)
    }
}
