//! The handle: what HTTP and the status page ask of engine and store. Any number of clones.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Notify, Semaphore, oneshot, watch};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::backup::{BackedUp, Backups, Plan, Reads};
use super::clock::Clock;
use super::commits::{Commits, Measured};
use super::fatal::Fatal;
use super::inbox::{Inbox, NotTaken, Phase, Refusal};
use super::outlet::Outlet;
use super::trial::Trials;
use crate::engine::command::{AcceptBatch, Accepted, Answer, ClaimsSet, Query, Rejected};
use crate::engine::live::{DiskLive, Live};
use crate::metrics::Scrape;
use crate::model::{Name, NewDelivery};
use crate::sender::Sender;
use crate::store::{BackupError, Claims, Disk, Reader, Snapshot, StoreError};
use crate::time::{Millis, Mono, Timestamp};

/// Read transactions at once, each on a blocking thread: what is freed while one is open stays
/// in the file.
pub const READERS: usize = 4;
/// How long one page may take.
const PAGE_TIME: Millis = Millis(1_000);
/// When a producer may try again after the queue was full: a few steps later.
const QUEUE_RETRY_AFTER: Millis = Millis(1_000);

/// A producer or an operator waits so long for the end of a hold (API.md).
pub(super) const HOLD_PATIENCE: Millis = Millis(2_000);

/// The way to a running engine.
#[derive(Clone)]
pub struct Handle {
    pub(super) inbox: Arc<Inbox>,
    pub(super) reader: Reader,
    pub(super) readers: Arc<Semaphore>,
    pub(super) live: watch::Receiver<Arc<Live>>,
    pub(super) committed: Arc<AtomicU64>,
    pub(super) commits: Arc<Commits>,
    pub(super) clock: Clock,
    pub(super) path: Arc<Path>,
    pub(super) backups: Arc<Backups>,
    pub(super) fatal: Fatal,
    pub(super) reads: Arc<Reads>,
    pub(super) trials: Arc<Trials>,
    /// Rung when a bulk job begins.
    pub(super) jobs: Arc<Notify>,
    pub(super) outlet: Arc<Outlet>,
    pub(super) disk: Arc<Disk>,
    pub(super) region: Name,
}

/// The engine cannot take this now; nothing of it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    #[error("the queue into the engine is full")]
    QueueFull { retry_after: Millis },
    #[error("the server is shutting down")]
    ShuttingDown,
    /// An operator copies the file.
    #[error("commits are held back while the data file is copied")]
    BackupHold,
}

/// Never ends: a step has failed, what was asked may or may not have been done, and the process
/// is about to end. The connection then breaks, which is all that can be said truthfully.
pub(super) async fn silence<T>() -> T {
    std::future::pending().await
}

/// The reply of a step, or that there was none for it; silence when the step failed.
pub(super) async fn heard<T>(answer: oneshot::Receiver<Result<T, NotTaken>>) -> Result<T, Unavailable> {
    match answer.await {
        Ok(Ok(reply)) => Ok(reply),
        Ok(Err(NotTaken)) => Err(Unavailable::ShuttingDown),
        Err(_) => silence().await,
    }
}

/// Whether the engine lives, for `/healthz` and `/readyz`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    /// Since the newest commit.
    pub last_commit_age: Millis,
    /// The store has failed: the process is about to end.
    pub failed: bool,
    pub shutting_down: bool,
    /// Whether deliveries are claimed, in the word of the API.
    pub claims: &'static str,
    /// Nothing new is taken, so that another server can take over.
    pub drained: bool,
    /// Of the inbox, or of the server, which holds as many deliveries as it may.
    pub ingest_queue_full: bool,
    /// No commit is made because an operator's copy is to be whole.
    pub held: bool,
    /// Steps of the wall clock since the start.
    pub clock_steps: u64,
    /// For so long nothing is ended because of its time: the wall clock has leapt forward.
    pub clock_unproven: Millis,
    pub disk: DiskLive,
}

type Accepts = Vec<Result<Accepted, Rejected>>;

impl Handle {
    /// The wall clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now().wall
    }

    /// Hands deliveries to the engine as one; answered after the commit that stored them. A
    /// refusal is given only after the keys were looked up: what is a repeat is answered as one.
    ///
    /// # Errors
    /// [`Unavailable`] when nothing was stored.
    pub async fn accept(&self, batch: AcceptBatch) -> Result<Accepts, Unavailable> {
        let (reply, answer) = oneshot::channel();
        match self.inbox.accept(batch, reply) {
            Ok(()) => heard(answer).await,
            Err(Refusal::Held(batch)) => self.accept_held(batch).await,
            Err(Refusal::Full(batch)) => {
                self.repeats(batch, Unavailable::QueueFull { retry_after: QUEUE_RETRY_AFTER }).await
            }
            Err(Refusal::Stopping(batch)) => self.repeats(batch, Unavailable::ShuttingDown).await,
            Err(Refusal::Failed) => silence().await,
        }
    }

    /// Waits for the end of the hold, for a while, and tries once more.
    async fn accept_held(&self, batch: AcceptBatch) -> Result<Accepts, Unavailable> {
        self.hold_over().await;
        let (reply, answer) = oneshot::channel();
        match self.inbox.accept(batch, reply) {
            Ok(()) => heard(answer).await,
            Err(Refusal::Held(batch)) => self.repeats(batch, Unavailable::BackupHold).await,
            Err(Refusal::Full(batch)) => {
                self.repeats(batch, Unavailable::QueueFull { retry_after: QUEUE_RETRY_AFTER }).await
            }
            Err(Refusal::Stopping(batch)) => self.repeats(batch, Unavailable::ShuttingDown).await,
            Err(Refusal::Failed) => silence().await,
        }
    }

    /// Holds all commits back until `ttl` has passed or [`Handle::release`]: whoever is told so may
    /// copy the file. When that ends.
    ///
    /// # Errors
    /// [`Unavailable`] when the server is stopping.
    pub async fn hold(&self, ttl: Millis) -> Result<Timestamp, Unavailable> {
        let now = self.clock.now();
        match self.inbox.hold(now.mono.plus(ttl), now.mono) {
            Ok((until, stands)) => {
                stands.await.map_err(|_| Unavailable::ShuttingDown)?;
                Ok(now.wall.plus(until.since(now.mono)))
            }
            Err(refusal) => Err(refused(refusal).await),
        }
    }

    /// Ends a hold; true when there was one.
    #[must_use]
    pub fn release(&self) -> bool {
        self.inbox.hold.end()
    }

    /// True while a hold keeps commits back.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.inbox.hold.stands(self.clock.now().mono)
    }

    /// The answer to a batch that is all repeats; else the refusal.
    async fn repeats(&self, batch: AcceptBatch, refusal: Unavailable) -> Result<Accepts, Unavailable> {
        if batch.iter().any(|new| new.key.is_none()) {
            return Err(refusal);
        }
        let found = self.read(move |file, _| batch.iter().map(|new| repeat(file, new)).collect());
        let found: Vec<Option<Accepted>> = found.await?;
        let all: Option<Vec<Accepted>> = found.into_iter().collect();
        all.map(|all| all.into_iter().map(Ok).collect()).ok_or(refusal)
    }

    /// Waits until nothing is in flight at a drained server, or it is no longer drained, at the
    /// longest for `wait`; how it stands then.
    pub async fn drained(&self, wait: Millis) -> ClaimsSet {
        let mut live = self.live.clone();
        let over = live.wait_for(|live| live.claims != Claims::Drained || live.in_flight == 0);
        // What is left after that time is what is answered.
        drop(timeout(wait.duration(), over).await);
        let live = self.live();
        let fence = (live.claims == Claims::Drained).then_some(live.fence);
        ClaimsSet { claims: live.claims, leases_held: live.in_flight as usize, fence }
    }

    /// Asks what the engine has in RAM.
    ///
    /// # Errors
    /// [`Unavailable`] when there is no answer.
    pub async fn query(&self, query: Query) -> Result<Answer, Unavailable> {
        let (reply, answer) = oneshot::channel();
        match self.inbox.query(query, reply) {
            Ok(()) => heard(answer).await,
            Err(refusal) => Err(refused(refusal).await),
        }
    }

    /// Runs `read` on a blocking thread in one short read transaction. The closure that it is
    /// given says when the time of a page is over. A file that cannot be read ends the process, and
    /// so does a panic over it.
    ///
    /// # Errors
    /// [`Unavailable::ShuttingDown`] when the file is closed.
    pub async fn read<T, F>(&self, read: F) -> Result<T, Unavailable>
    where
        T: Send + 'static,
        F: FnOnce(&Snapshot, &dyn Fn() -> bool) -> Result<T, StoreError> + Send + 'static,
    {
        let turn = Arc::clone(&self.readers).acquire_owned().await.map_err(|_| Unavailable::ShuttingDown)?;
        if self.inbox.has_failed() {
            return silence().await;
        }
        let (reader, clock, reads) = (self.reader.clone(), self.clock.clone(), Arc::clone(&self.reads));
        let done = spawn_blocking(move || {
            let begun = clock.now().mono;
            let _counted = reads.begin(begun);
            let end = begun.plus(PAGE_TIME);
            let made = reader.snapshot().and_then(|file| read(&file, &|| clock.now().mono >= end));
            drop(turn);
            made
        });
        match done.await {
            Ok(Ok(made)) => Ok(made),
            Ok(Err(StoreError::Closed)) => Err(Unavailable::ShuttingDown),
            Ok(Err(error)) => self.fatal.end(&error),
            Err(ended) if ended.is_panic() => self.fatal.end_panicked(),
            Err(_cancelled) => Err(Unavailable::ShuttingDown),
        }
    }

    /// Copies the data file to `path`, which nothing has yet, and reads the copy back. It goes on
    /// though nobody waits for it.
    ///
    /// # Errors
    /// [`BackupError`] when there is no such copy.
    pub async fn backup(&self, path: PathBuf) -> Result<BackedUp, BackupError> {
        let answer = self.backups.order(path)?;
        answer.await.unwrap_or(Err(BackupError::Stopping))
    }

    /// The newest figures.
    #[must_use]
    pub fn live(&self) -> Arc<Live> {
        Arc::clone(&self.live.borrow())
    }

    /// Commits since the start, the heartbeats of an idle engine included.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.commits.count()
    }

    /// How the engine is.
    #[must_use]
    pub fn health(&self) -> Health {
        let committed = Mono(self.committed.load(Ordering::Relaxed));
        let shutting_down = self.inbox.phase() > Phase::Running;
        let (now, live) = (self.clock.now().mono, self.live());
        Health {
            last_commit_age: now.since(committed),
            failed: self.inbox.has_failed(),
            shutting_down,
            claims: claims_word(&live, shutting_down),
            drained: live.claims == Claims::Drained,
            ingest_queue_full: self.inbox.is_full() || live.full,
            held: self.is_held(),
            clock_steps: live.figures.clock_steps,
            clock_unproven: live.figures.clock_proven_at.since(now),
            disk: live.disk,
        }
    }

    /// Sends go out by this sender from now on, snapshots are made by this plan, and so many bytes of
    /// the disk are kept free: what of other settings is not the engine's.
    pub fn follow(&self, sender: Sender, backups: Option<Plan>, min_free_disk: u64) {
        self.outlet.replace(sender);
        self.backups.follow(backups);
        self.disk.keep(min_free_disk);
    }

    /// `OpenMetrics` text, with what producers were refused by code, and whether the settings could be
    /// read when they were last.
    #[must_use]
    pub fn metrics(&self, refusals: Vec<(&'static str, u64)>, reloaded: bool) -> String {
        let file_bytes = std::fs::metadata(&self.path).map_or(0, |file| file.len());
        let live = Live::clone(&self.live());
        let region = self.region.to_string();
        let Measured { seconds, operations } = self.commits.measured();
        Scrape {
            live,
            refusals,
            reloaded,
            commit_seconds: seconds,
            commit_operations: operations,
            store_bytes: file_bytes,
            oldest_read: self.reads.oldest(self.clock.now().mono),
            last_backup: self.backups.last_success(),
            disk_free_bytes: self.disk.free(),
            region,
            now: self.now(),
        }
        .text()
    }
}

/// Whether deliveries are claimed, in the word of the API: a stop of the process stops them too.
fn claims_word(live: &Live, shutting_down: bool) -> &'static str {
    let stopped = shutting_down && live.claims == Claims::Running;
    let claims = if stopped { Claims::Stopped } else { live.claims };
    claims.word(live.in_flight.into())
}

/// The delivery that `new` repeats, if it is one and its body is the same.
fn repeat(file: &Snapshot, new: &NewDelivery) -> Result<Option<Accepted>, StoreError> {
    let Some(stored) = file.destination(&new.destination)? else { return Ok(None) };
    let tenant = new.tenant.as_ref().unwrap_or(&stored.settings.tenant);
    let Some(key) = &new.key else { return Ok(None) };
    let known = file.by_key(tenant, key, Some(&new.destination))?.into_iter().next();
    let same = known.filter(|view| view.delivery.repeats(&new.body, &new.content_type));
    Ok(same.map(|delivery| Accepted { delivery, duplicate: true }))
}

pub(super) async fn refused<T>(refusal: Refusal<T>) -> Unavailable {
    match refusal {
        Refusal::Full(_) => Unavailable::QueueFull { retry_after: QUEUE_RETRY_AFTER },
        Refusal::Stopping(_) => Unavailable::ShuttingDown,
        Refusal::Held(_) => Unavailable::BackupHold,
        Refusal::Failed => silence().await,
    }
}
