//! Bulk jobs: one order for many deliveries, done page by page, each page with its cursor in one
//! commit. A job is what stands in the file and nothing else, so it goes on after any crash where
//! it was, and no delivery has its turn twice.
//!
//! What is a job's is found outside, by [`crate::store::Snapshot::find`], and looked at again here.

use std::sync::Arc;

use super::InStep;
use super::audit::reasoned;
use super::command::{CommandError, Done, Expect};
use super::operate::Answer;
use crate::delivery::State;
use crate::model::destination::StateNote;
use crate::model::{
    Action, BulkAction, DeliveryId, DestNo, DestinationState, DueEntry, JobId, JobState, Lane, Name,
};
use crate::store::{Claims, DeliveryView, Filter, Found, Job, Shown, StoreError};
use crate::time::Millis;

/// Jobs at once: each takes its turn, and more would only wait for each other.
pub const MAX_RUNNING: usize = 8;
/// Deliveries of one page (DESIGN.md, *Bounds*).
pub const PAGE_IDS: usize = 256;
/// Pages of a paced job in a second: it neither bursts nor commits for each delivery.
const PAGES_PER_SECOND: u32 = 4;
/// Between two looks at a destination that is removed once its attempts have come back.
const LOOK_AGAIN: Millis = Millis(250);

/// What can be ordered of jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobOrder {
    Start(Box<NewJob>),
    /// Disables a destination, cancels what waits for it, and deletes it.
    Remove {
        name: Name,
        expect: Expect,
        by: String,
    },
    /// What was found of a job has its turn.
    Turn(JobPage),
    Stop {
        id: JobId,
    },
}

/// A job that is to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewJob {
    pub action: BulkAction,
    pub filter: Filter,
    /// Nothing is changed: what matches is counted.
    pub dry_run: bool,
    pub rate_per_second: Option<u32>,
    pub by: String,
}

/// Deliveries that were found for a job, at most [`PAGE_IDS`] unless it only counts. Of one that
/// removes a destination nothing is found: its work stands in order in its lanes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobPage {
    pub id: JobId,
    /// How far the job had come when they were looked for. A page that was found from elsewhere is
    /// not taken.
    pub from: Option<DeliveryId>,
    pub ids: Vec<DeliveryId>,
    /// How far it has come with them.
    pub come: Option<DeliveryId>,
    /// There are no more.
    pub end: bool,
}

/// How many deliveries the next page of a job may have.
#[must_use]
pub fn page_size(job: &Job) -> usize {
    let paced = |rate: u32| usize::try_from(rate.div_ceil(PAGES_PER_SECOND)).unwrap_or(PAGE_IDS);
    job.rate_per_second.map_or(PAGE_IDS, paced).clamp(1, PAGE_IDS)
}

/// How long after a page with so many deliveries began the next one may begin; `before` is how many
/// the job had found before it. What only counts is not paced.
#[must_use]
pub fn pause(job: &Job, ids: usize, before: u64) -> Millis {
    match (job.removes, job.rate_per_second) {
        (Some(_), _) if job.matched == before => LOOK_AGAIN,
        (None, Some(rate)) if !job.dry_run => Millis((ids as u64 * 1_000).div_ceil(u64::from(rate.max(1)))),
        (Some(_) | None, _) => Millis(0),
    }
}

/// Whether another job may begin beside those that run.
fn admit(running: &[Job], is_same: impl Fn(&Job) -> bool) -> Result<(), CommandError> {
    match running.iter().find(|job| is_same(job)) {
        Some(job) => Err(CommandError::JobRunning { id: job.id }),
        None if running.len() >= MAX_RUNNING => Err(CommandError::TooManyJobs),
        None => Ok(()),
    }
}

impl InStep<'_, '_> {
    /// Carries out one order.
    pub(super) fn job(&mut self, order: JobOrder) -> Answer {
        match order {
            JobOrder::Start(new) => self.start_job(*new),
            JobOrder::Remove { name, expect, by } => self.remove_with_work(&name, expect, by),
            JobOrder::Turn(page) => self.turn(&page),
            JobOrder::Stop { id } => self.stop_job(id),
        }
    }

    fn start_job(&mut self, new: NewJob) -> Answer {
        let NewJob { action, filter, dry_run, rate_per_second, by } = new;
        let same = |job: &Job| {
            (job.action, &job.filter, job.dry_run, job.removes) == (action, &filter, dry_run, None)
        };
        if let Err(refused) = admit(&self.file.running_jobs()?, same) {
            return Ok(Err(refused));
        }
        let job = Job { dry_run, rate_per_second, by, ..Job::search(action, filter, self.now.wall) };
        self.begin_job(job)
    }

    /// Stores a job under its id. All that is there has a lower one, what an import brought included,
    /// and what is made from here on a higher one.
    fn begin_job(&mut self, mut job: Job) -> Answer {
        if let Some(newest) = self.file.newest_id()? {
            self.core.mint.pass(newest);
        }
        job.id = JobId(self.core.mint.id(self.now.wall).0);
        job.step = self.number;
        self.file.put_job(&job)?;
        self.file.forget_jobs()?;
        let dry = if job.dry_run { ", dry run" } else { "" };
        self.note(Action::BulkStart, Some(job.id.to_string()), format!("{}{dry}", job.action.as_str()))?;
        Ok(Ok(Done::Job(Box::new(job))))
    }

    /// From here on the destination takes nothing new and sends nothing; the job ends with it.
    fn remove_with_work(&mut self, name: &Name, expect: Expect, by: String) -> Answer {
        let Some((no, facts)) = self.core.directory.find(name) else {
            return Ok(Err(CommandError::DestinationUnknown));
        };
        if !expect.holds(no, facts.revision) {
            return Ok(Err(CommandError::RevisionMismatch));
        }
        let filter = Filter {
            states: vec![Shown::Ready, Shown::Leased, Shown::Delayed],
            tenants: vec![facts.tenant.clone()],
            destinations: vec![name.clone()],
            ..Filter::default()
        };
        if let Err(refused) = admit(&self.file.running_jobs()?, |job| job.removes == Some(no)) {
            return Ok(Err(refused));
        }
        self.close_for_removal(no, name, &by)?;
        let job = Job::search(BulkAction::Cancel, filter, self.now.wall);
        self.begin_job(Job { removes: Some(no), dry_run: false, by, ..job })
    }

    fn close_for_removal(&mut self, no: DestNo, name: &Name, by: &str) -> Result<(), StoreError> {
        let mut stored = self.file.destination(no)?;
        let (before, reason) = (stored.note.state, "it is being removed".to_owned());
        if before != DestinationState::Disabled {
            let detail = reasoned(format!("was {}", before.as_str()), &reason);
            self.note(Action::DestinationDisable, Some(name.to_string()), detail)?;
        }
        let (state, since, by) = (DestinationState::Disabled, self.now.wall, by.to_owned());
        stored.note = StateNote { state, reason, since, by };
        stored.revision += 1;
        self.put_destination(no, &stored)
    }

    fn stop_job(&mut self, id: JobId) -> Answer {
        let Some(mut job) = self.file.job(id)? else { return Ok(Err(CommandError::JobUnknown)) };
        if job.state == JobState::Running {
            self.end_job(&mut job, JobState::Stopped)?;
            self.note(Action::BulkStop, Some(id.to_string()), format!("changed {}", job.changed))?;
        }
        Ok(Ok(Done::Job(Box::new(job))))
    }

    fn end_job(&mut self, job: &mut Job, state: JobState) -> Result<(), StoreError> {
        job.end(state, self.now.wall);
        self.file.put_job(job)?;
        self.file.forget_jobs()
    }

    /// One page of a job, with its cursor in the same commit. A page of a job that has ended, or
    /// that was looked for from another place than it has come to, changes nothing; nor does any
    /// while the server is drained, because what it has is exported.
    fn turn(&mut self, page: &JobPage) -> Answer {
        let Some(mut job) = self.file.job(page.id)? else { return Ok(Err(CommandError::JobUnknown)) };
        let stands = self.core.claims == Claims::Drained;
        if job.state == JobState::Running && job.come == page.from && !stands {
            self.log.by(job.by.as_str().into());
            match job.removes {
                Some(no) => self.clear(&mut job, no)?,
                None => self.take_page(&mut job, page)?,
            }
        }
        Ok(Ok(Done::Job(Box::new(job))))
    }

    fn take_page(&mut self, job: &mut Job, page: &JobPage) -> Result<(), StoreError> {
        job.matched += page.ids.len() as u64;
        for id in page.ids.iter().filter(|_| !job.dry_run) {
            match self.change_one(job, *id)? {
                true => job.changed += 1,
                false => job.skipped += 1,
            }
        }
        job.come = page.come;
        if page.end { self.end_job(job, JobState::Done) } else { self.file.put_job(job) }
    }

    /// True when the delivery was still the job's and is changed now.
    fn change_one(&mut self, job: &Job, id: DeliveryId) -> Result<bool, StoreError> {
        let Found::Delivery(it) = self.file.delivery(id)? else { return Ok(false) };
        let lease = self.core.leases.get(&id).map(|out| out.lease);
        let view = self.core.view(Arc::new(*it), lease, self.now);
        if !job.takes(&view) || !self.may_change(job.action, &view) {
            return Ok(false);
        }
        let done = match job.action {
            BulkAction::Retry => self.retry(id)?,
            BulkAction::Cancel => self.cancel(id)?,
            BulkAction::Erase => self.erase(id)?,
        };
        Ok(matches!(done, Ok(Done::Delivery(after)) if after.delivery.revision != view.delivery.revision))
    }

    /// What is due already would only lose its place by a retry, and what has ended waits again only
    /// where there is room for it.
    fn may_change(&self, action: BulkAction, view: &DeliveryView) -> bool {
        match (action, view.delivery.state) {
            (BulkAction::Retry, State::Waiting { due, .. }) => due > self.now.wall,
            (BulkAction::Retry, State::Terminal { .. }) => {
                self.core.unended() < self.core.limits.max_deliveries
            }
            (BulkAction::Cancel | BulkAction::Erase, _) => true,
        }
    }

    /// Cancels a page of what waits at a destination and all that is in flight; where there is
    /// nothing left it is deleted and the job is done. One that is enabled again stays, with what it
    /// has: that stops the job.
    fn clear(&mut self, job: &mut Job, no: DestNo) -> Result<(), StoreError> {
        match self.core.directory.facts(no).state {
            DestinationState::Disabled | DestinationState::Deleted => {}
            DestinationState::Active | DestinationState::Paused => {
                return self.end_job(job, JobState::Stopped);
            }
        }
        let before = job.clone();
        let rows = self.file.waiting_at(no, PAGE_IDS)?;
        let out: Vec<DeliveryId> = self
            .core
            .leases
            .values()
            .map(|out| out.lease)
            .filter(|it| it.destination == no)
            .map(|it| it.id)
            .collect();
        for (lane, row) in &rows {
            self.cancel_waiting(job, no, *lane, row)?;
        }
        for id in &out {
            self.cancel_leased(job, *id)?;
        }
        if rows.is_empty() && out.is_empty() && self.is_removed(no)? {
            return self.end_job(job, JobState::Done);
        }
        if *job == before { Ok(()) } else { self.file.put_job(job) }
    }

    fn cancel_waiting(
        &mut self,
        job: &mut Job,
        no: DestNo,
        lane: Lane,
        row: &DueEntry,
    ) -> Result<(), StoreError> {
        job.matched += 1;
        if let Ok(Done::Delivery(_)) = self.cancel(row.id)? {
            job.changed += 1;
            return Ok(());
        }
        // It cannot be read, and nobody will claim it here any more.
        job.skipped += 1;
        self.file.quarantine_waiting(no, lane, row, self.now.wall)?;
        self.core.tally.quarantined += 1;
        self.core.schedule.remove(no, lane, row.due, row.id, self.now);
        self.core.count_out(no, lane, row.due, row.id);
        Ok(())
    }

    /// It ends with its attempt; counted the first time.
    fn cancel_leased(&mut self, job: &mut Job, id: DeliveryId) -> Result<(), StoreError> {
        let Found::Delivery(it) = self.file.delivery(id)? else { return Ok(()) };
        if !it.cancelling && self.cancel(id)?.is_ok() {
            job.matched += 1;
            job.changed += 1;
        }
        Ok(())
    }

    /// True when the destination is no longer there.
    fn is_removed(&mut self, no: DestNo) -> Result<bool, StoreError> {
        let facts = self.core.directory.facts(no);
        if facts.state == DestinationState::Deleted {
            return Ok(true);
        }
        let name = facts.name.clone();
        Ok(self.delete(&name, Expect::Anything)?.is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;

    fn job(rate_per_second: Option<u32>) -> Job {
        let search = Job::search(BulkAction::Retry, Filter::default(), Timestamp(0));
        Job { rate_per_second, dry_run: false, ..search }
    }

    #[test]
    fn a_removal_waits_only_where_there_was_nothing_to_do() {
        let check = |before: u64, after: u64, wait: Millis| {
            let job = Job { removes: Some(DestNo(1)), matched: after, ..job(None) };
            assert_eq!(pause(&job, 0, before), wait, "{before} {after}");
        };
        check(0, 256, Millis(0));
        check(256, 257, Millis(0));
        check(257, 257, LOOK_AGAIN);
    }

    #[test]
    fn a_paced_job_has_small_pages_and_never_more_than_its_rate() {
        let check = |rate: Option<u32>, size: usize, wait: u64| {
            let job = job(rate);
            assert_eq!((page_size(&job), pause(&job, size, 0)), (size, Millis(wait)), "{rate:?}");
            let counts = Job { dry_run: true, ..job.clone() };
            assert_eq!(pause(&counts, 20_000, 0), Millis(0), "{rate:?}");
            // However much a page finds, no second has more than the rate.
            for (ids, rate) in [0, 1, size].into_iter().zip(rate.into_iter().cycle()) {
                assert!(
                    pause(&job, ids, 0).0 * u64::from(rate.max(1)) >= ids as u64 * 1_000,
                    "{rate}: {ids}"
                );
            }
        };
        check(None, 256, 0);
        check(Some(1), 1, 1_000);
        check(Some(3), 1, 334);
        check(Some(10), 3, 300);
        check(Some(100), 25, 250);
        check(Some(1_024), 256, 250);
        check(Some(100_000), 256, 3);
        check(Some(0), 1, 1_000);
    }

    #[test]
    fn one_of_a_kind_and_not_too_many() {
        let same = |job: &Job| job.rate_per_second == Some(7);
        let check = |rates: &[u32], want: Result<(), CommandError>| {
            let running: Vec<Job> = rates.iter().map(|rate| job(Some(*rate))).collect();
            assert_eq!(admit(&running, same), want, "{rates:?}");
        };
        check(&[], Ok(()));
        check(&[1, 2, 3, 4, 5, 6, 8], Ok(()));
        check(&[1, 7], Err(CommandError::JobRunning { id: JobId::LAST }));
        check(&[1; 8], Err(CommandError::TooManyJobs));
        check(&[7; 8], Err(CommandError::JobRunning { id: JobId::LAST }));
    }
}
