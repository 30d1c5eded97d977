//! Bulk jobs as they stand in the file, and the search for what is theirs.
//!
//! A search reads on from a cursor in short snapshots and changes nothing; what it finds is looked
//! at again by the engine, which stores the cursor with the changes.

use redb::ReadableTable;

use super::list::{ASK_EVERY, PAGE_RECORDS};
use super::record::{decode_job, encode_job};
use super::rows::entry;
use super::{DeliveryView, Filter, Snapshot, StoreError, Writing};
use crate::delivery::State;
use crate::model::{BulkAction, DeliveryId, DestNo, DueEntry, JobId, JobState, Lane};
use crate::outcome::Ending;
use crate::time::Timestamp;

/// Jobs that are kept after their end: a few months of an operator's.
pub const MAX_ENDED_JOBS: usize = 100;

/// One bulk job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    pub id: JobId,
    pub action: BulkAction,
    pub filter: Filter,
    /// The destination that is deleted once nothing waits for it or is in flight. Its work is found
    /// in its lanes rather than by the filter.
    pub removes: Option<DestNo>,
    /// Nothing is changed: what matches is counted.
    pub dry_run: bool,
    pub rate_per_second: Option<u32>,
    pub state: JobState,
    /// The last delivery that was looked at.
    pub come: Option<DeliveryId>,
    /// Deliveries that were found so far.
    pub matched: u64,
    /// Of these, those that were changed.
    pub changed: u64,
    /// Of these, those that were left as they were when it was their turn.
    pub skipped: u64,
    pub created_at: Timestamp,
    /// The step in which it began.
    pub step: u64,
    pub finished_at: Option<Timestamp>,
    pub by: String,
}

impl Job {
    /// A search for what such a job would take if it began now.
    #[must_use]
    pub fn search(action: BulkAction, filter: Filter, now: Timestamp) -> Job {
        Job {
            id: JobId::LAST,
            action,
            filter,
            removes: None,
            dry_run: true,
            rate_per_second: None,
            state: JobState::Running,
            come: None,
            matched: 0,
            changed: 0,
            skipped: 0,
            created_at: now,
            step: u64::MAX,
            finished_at: None,
            by: String::new(),
        }
    }

    /// True when the delivery is one of its own: it was there when the job began, and matches. Ready
    /// and delayed are as of the beginning. What has ended since is its own unless the filter asks for
    /// what an end changes: then it did not match when the job began.
    #[must_use]
    pub fn takes(&self, view: &DeliveryView) -> bool {
        let it = &view.delivery;
        let ended_since = matches!(it.state, State::Terminal { step, .. } if step > self.step);
        self.id.is_after(it.id)
            && !(ended_since && self.filter.asks_for_an_end())
            && self.concerns(it.state)
            && self.filter.matches(view, self.created_at)
    }

    /// True when the action could do something for a delivery in this state: a cancel has nothing
    /// to do with what has ended, and a retry only with what was delivered if that was asked for.
    fn concerns(&self, state: State) -> bool {
        match (self.action, state) {
            (BulkAction::Retry, State::Terminal { outcome: Ending::Delivered, .. }) => {
                self.filter.outcomes.contains(&Ending::Delivered)
            }
            (BulkAction::Cancel, State::Terminal { .. }) => false,
            (BulkAction::Retry | BulkAction::Cancel | BulkAction::Erase, _) => true,
        }
    }

    /// It goes no further.
    pub fn end(&mut self, state: JobState, at: Timestamp) {
        self.state = state;
        self.finished_at = Some(at);
    }
}

/// What a search has found, and how far it has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turns {
    pub ids: Vec<DeliveryId>,
    /// The last delivery that it looked at, if there was one.
    pub come: Option<DeliveryId>,
    /// There are no more.
    pub end: bool,
}

impl Snapshot {
    /// The next deliveries that a job takes after `after`, the oldest first, at most `most`. `stop`
    /// is asked now and then; true ends the search early, with what was found.
    ///
    /// # Errors
    /// [`StoreError`] when the file cannot be read.
    pub fn find(
        &self,
        job: &Job,
        after: Option<DeliveryId>,
        most: usize,
        stop: &dyn Fn() -> bool,
    ) -> Result<Turns, StoreError> {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = after.map_or(Unbounded, |id| Excluded(id.0));
        let mut turns = Turns { come: after, ..Turns::default() };
        if after.is_some_and(|id| !job.id.is_after(id)) {
            return Ok(Turns { end: true, ..turns });
        }
        let rows = self.tables.deliveries.range::<u128>((from, Excluded(job.id.0)))?;
        for (looked_at, row) in (1..).zip(rows) {
            let (id, value) = row?;
            let id = DeliveryId(id.value());
            if job.takes(&self.view(id, value.value())?) {
                turns.ids.push(id);
            }
            turns.come = Some(id);
            let over = looked_at % ASK_EVERY == 0 && stop();
            if turns.ids.len() == most || looked_at == PAGE_RECORDS || over {
                return Ok(turns);
            }
        }
        Ok(Turns { end: true, ..turns })
    }

    /// The job of this id, if it can be read.
    ///
    /// # Errors
    /// [`StoreError`] when the file cannot be read.
    pub fn job(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        let value = self.tables.jobs.get(id.0)?;
        Ok(value.and_then(|value| decode_job(id, value.value()).ok()))
    }

    /// Every job that can be read, the oldest first. There are few.
    ///
    /// # Errors
    /// [`StoreError`] when the file cannot be read.
    pub fn jobs(&self) -> Result<Vec<Job>, StoreError> {
        all(&self.tables.jobs)
    }
}

/// Every job of the table that can be read.
fn all(table: &impl ReadableTable<u128, &'static [u8]>) -> Result<Vec<Job>, StoreError> {
    let mut found = Vec::new();
    for row in table.iter()? {
        let (id, value) = row?;
        found.extend(decode_job(JobId(id.value()), value.value()));
    }
    Ok(found)
}

impl Writing<'_> {
    /// The job of this id, if it can be read.
    pub(crate) fn job(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        let value = self.tables.jobs.get(id.0)?;
        Ok(value.and_then(|value| decode_job(id, value.value()).ok()))
    }

    /// Every job that has not ended.
    pub(crate) fn running_jobs(&self) -> Result<Vec<Job>, StoreError> {
        let mut found = all(&self.tables.jobs)?;
        found.retain(|job| job.state == JobState::Running);
        Ok(found)
    }

    /// Stores a job as it stands.
    pub(crate) fn put_job(&mut self, it: &Job) -> Result<(), StoreError> {
        self.wrote = true;
        self.tables.jobs.insert(it.id.0, &*encode_job(it))?;
        Ok(())
    }

    /// Forgets the oldest jobs that have ended, and those that cannot be read, where there are too
    /// many.
    pub(crate) fn forget_jobs(&mut self) -> Result<(), StoreError> {
        let mut ended = Vec::new();
        for row in self.tables.jobs.iter()? {
            let (id, value) = row?;
            let id = JobId(id.value());
            let runs = decode_job(id, value.value()).is_ok_and(|job| job.state == JobState::Running);
            ended.extend((!runs).then_some(id));
        }
        let surplus = ended.len().saturating_sub(MAX_ENDED_JOBS);
        for id in ended.into_iter().take(surplus) {
            self.wrote = true;
            self.tables.jobs.remove(id.0)?;
        }
        Ok(())
    }

    /// The first rows of all lanes of a destination, at most `most`.
    pub(crate) fn waiting_at(&self, no: DestNo, most: usize) -> Result<Vec<(Lane, DueEntry)>, StoreError> {
        let rows = self.tables.due.range((no.0, 0, 0, 0)..=(no.0, u8::MAX, u64::MAX, u128::MAX))?;
        let mut found = Vec::new();
        for row in rows.take(most) {
            let (key, value) = row?;
            let key = key.value();
            found.push((Lane(key.1), entry(key, value.value())));
        }
        Ok(found)
    }

    /// Takes what waits out of its lane because its record cannot be read: it is never sent, and is
    /// listed as quarantined.
    pub(crate) fn quarantine_waiting(
        &mut self,
        no: DestNo,
        lane: Lane,
        row: &DueEntry,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.wrote = true;
        self.tables.due.remove((no.0, lane.0, row.due.0, row.id.0))?;
        self.quarantine_damaged(row.id, at)
    }
}
