//! Bulk jobs at work: one task finds what is theirs, page by page and job by job, and hands it to
//! the engine. It decides nothing and keeps nothing: after a start it goes on with what the file
//! says is running.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::runtime;
use tokio::time::timeout;

use super::handle::{Handle, Unavailable};
use crate::engine::command::{Command, CommandError, Done, Order};
use crate::engine::jobs::{JobOrder, JobPage, page_size, pause};
use crate::model::{JobId, JobState};
use crate::store::{Claims, Job, Snapshot, StoreError};
use crate::time::{Millis, Mono};

/// When a page is tried again that the inbox had no room for, or that stands still in a drain.
const TRY_AGAIN: Millis = Millis(1_000);
/// With no job at all it looks again after this long; whoever begins one rings before.
const IDLE: Millis = Millis(600_000);
/// A dry run only counts: its pages are as long as the time of a page allows.
const COUNT_IDS: usize = usize::MAX;

/// Starts the task. It ends with the engine or with the runtime, and what is left undone is in the
/// file.
pub(super) fn start(handle: Handle, runtime: &runtime::Handle) {
    runtime.spawn(async move {
        let Err(ended) = Desk { handle, turns: BTreeMap::new() }.work().await else { return };
        tracing::debug!(%ended, "bulk jobs stand still");
    });
}

impl Handle {
    /// Gives an order about bulk jobs; answered after its commit.
    ///
    /// # Errors
    /// [`Unavailable`] when nothing was done.
    pub async fn order_job(&self, order: Order<JobOrder>) -> Result<Result<Done, CommandError>, Unavailable> {
        let done = self.command(order.map(Command::Job)).await;
        self.jobs.notify_one();
        done
    }
}

/// The jobs that are running, and when each may go on.
struct Desk {
    handle: Handle,
    turns: BTreeMap<JobId, Mono>,
}

impl Desk {
    /// Goes on until the engine takes nothing more.
    async fn work(mut self) -> Result<(), Unavailable> {
        self.look().await?;
        loop {
            let (now, next) = (self.handle.clock.now().mono, self.next());
            let wait = next.map_or(IDLE, |(_, at)| at.since(now));
            let bell = Arc::clone(&self.handle.jobs);
            if timeout(wait.duration(), bell.notified()).await.is_ok() {
                self.look().await?;
            } else if let Some((id, _)) = next {
                self.page(id).await?;
            }
        }
    }

    /// The job that is first to go on.
    fn next(&self) -> Option<(JobId, Mono)> {
        self.turns.iter().map(|(id, at)| (*id, *at)).min_by_key(|(_, at)| *at)
    }

    /// Notes the jobs that have begun.
    async fn look(&mut self) -> Result<(), Unavailable> {
        let now = self.handle.clock.now().mono;
        for job in self.handle.read(|file, _| file.jobs()).await? {
            if job.state == JobState::Running {
                self.turns.entry(job.id).or_insert(now);
            }
        }
        Ok(())
    }

    /// One page of one job, and when its next one may begin.
    async fn page(&mut self, id: JobId) -> Result<(), Unavailable> {
        let begun = self.handle.clock.now().mono;
        if self.handle.live().claims == Claims::Drained {
            self.turns.insert(id, begun.plus(TRY_AGAIN));
            return Ok(());
        }
        let found = self.handle.read(move |file, stop| found(file, id, stop)).await?;
        let Some((page, before)) = found else {
            self.turns.remove(&id);
            return Ok(());
        };
        let (ids, ordered) = (page.ids.len(), self.handle.clock.now().mono);
        let done = match self.handle.carry_on(Command::Job(JobOrder::Turn(page))).await {
            Err(Unavailable::QueueFull { .. }) => {
                self.turns.insert(id, begun.plus(TRY_AGAIN));
                return Ok(());
            }
            done => done?,
        };
        match done {
            Ok(Done::Job(job)) if job.state == JobState::Running => {
                let now = self.handle.clock.now().mono;
                // Half of the engine's time at least is for everything else.
                let rested = now.plus(now.since(ordered));
                self.turns.insert(id, begun.plus(pause(&job, ids, before)).max(rested));
            }
            Ok(Done::Job(job)) => {
                self.turns.remove(&id);
                tell(&job);
            }
            Ok(_) | Err(_) => drop(self.turns.remove(&id)),
        }
        Ok(())
    }
}

/// The next page of a job and how many it has found so far, unless it has ended. What stands in the lanes of a destination that is
/// removed is found by the engine itself.
fn found(file: &Snapshot, id: JobId, stop: &dyn Fn() -> bool) -> Result<Option<(JobPage, u64)>, StoreError> {
    let Some(job) = file.job(id)?.filter(|job| job.state == JobState::Running) else { return Ok(None) };
    let (from, before) = (job.come, job.matched);
    if job.removes.is_some() {
        return Ok(Some((JobPage { id, from, ids: Vec::new(), come: from, end: false }, before)));
    }
    let most = if job.dry_run { COUNT_IDS } else { page_size(&job) };
    let turns = file.find(&job, from, most, stop)?;
    Ok(Some((JobPage { id, from, ids: turns.ids, come: turns.come, end: turns.end }, before)))
}

fn tell(job: &Job) {
    let Job { id, action, state, matched, changed, skipped, dry_run, .. } = job;
    let (action, state) = (action.as_str(), state.as_str());
    tracing::info!(job = %id, action, state, matched, changed, skipped, dry_run, "bulk job ended");
}
