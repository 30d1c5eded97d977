//! Backups: one thread that copies the file, by order or by the clock, one copy at a time.
//!
//! The engine knows nothing of it. A copy reads in one transaction, which keeps what is freed
//! meanwhile in the file: so it is paced, and gives up when the file grows too much under it.

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use super::clock::Clock;
use super::fatal::Fatal;
use super::inbox::Inbox;
use super::snapshots::Snapshots;
use crate::store::{BackupError, Copied, Disk, Reader, StoreError};
use crate::time::{Millis, Mono, Timestamp};

pub use super::snapshots::Plan;

/// Bytes of rows copied in a second: half of what a copy was measured to take, so that commits
/// still get the disk.
const BYTES_PER_SECOND: u64 = 64 << 20;
/// A copy may grow the file by so many parts of it…
const GROWTH_SHARE: u64 = 4;
/// …and in any case by so much.
const GROWTH_LEAST: u64 = 1 << 30;
/// The first snapshot of a run is not made sooner: a server that dies at once is not to copy.
const FIRST: Millis = Millis(60_000);
/// After a snapshot that failed.
const AGAIN: Millis = Millis(300_000);

/// A copy and how long it took.
pub type BackedUp = (Copied, Millis);

type Answer = Result<BackedUp, BackupError>;

enum Order {
    Copy {
        path: PathBuf,
        reply: oneshot::Sender<Answer>,
    },
    /// Other snapshots from now on, or none.
    Follow(Option<Plan>),
}

/// What is copied, and the clock to pace it by.
pub(super) struct Source {
    pub(super) fatal: Fatal,
    /// Knows whether the store has failed: nothing is copied after that.
    pub(super) inbox: Arc<Inbox>,
    pub(super) reader: Reader,
    pub(super) reads: Arc<Reads>,
    pub(super) clock: Clock,
    pub(super) data: PathBuf,
    /// Knows how much must stay free beside the copy.
    pub(super) disk: Disk,
}

/// The way to the thread that copies.
pub(super) struct Backups {
    orders: Sender<Order>,
    shared: Arc<Shared>,
    inbox: Arc<Inbox>,
}

#[derive(Default)]
struct Shared {
    busy: AtomicBool,
    stopping: AtomicBool,
    /// Wall time of the newest backup; 0 for none.
    last: AtomicU64,
}

impl Backups {
    /// Starts the thread. It ends with the process.
    pub(super) fn start(source: Source, plan: Option<Plan>) -> Arc<Backups> {
        let (orders, heard) = channel();
        let shared = Arc::new(Shared::default());
        let snapshots = plan.map(|plan| Snapshots::new(plan, &source.data));
        let newest = snapshots.as_ref().and_then(Snapshots::newest);
        shared.last.store(newest.map_or(0, |at| at.0), Ordering::Relaxed);
        let inbox = Arc::clone(&source.inbox);
        let clerk = Clerk { source, snapshots, heard, shared: Arc::clone(&shared) };
        let thread = std::thread::Builder::new().name("backup".to_owned());
        thread.spawn(move || clerk.work(newest)).expect("a thread at start");
        Arc::new(Backups { orders, shared, inbox })
    }

    /// Orders a copy, unless one is being made, or the store has failed and the process is about
    /// to end.
    pub(super) fn order(&self, path: PathBuf) -> Result<oneshot::Receiver<Answer>, BackupError> {
        if self.inbox.has_failed() {
            return Err(BackupError::Stopping);
        }
        if !self.shared.take() {
            return Err(BackupError::Running);
        }
        let (reply, answer) = oneshot::channel();
        self.orders.send(Order::Copy { path, reply }).map_err(|_| BackupError::Stopping)?;
        Ok(answer)
    }

    /// Makes snapshots by this plan from now on; one that is being made is finished first.
    pub(super) fn follow(&self, plan: Option<Plan>) {
        // A thread that has ended makes none.
        let _ended = self.orders.send(Order::Follow(plan));
    }

    /// When the newest backup was finished.
    pub(super) fn last_success(&self) -> Option<Timestamp> {
        Some(self.shared.last.load(Ordering::Relaxed)).filter(|at| *at > 0).map(Timestamp)
    }

    /// What is being copied is given up.
    pub(super) fn stop(&self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    /// True when nothing was being copied: now something is.
    fn take(&self) -> bool {
        !self.busy.swap(true, Ordering::AcqRel)
    }
}

/// Who makes the copies.
struct Clerk {
    source: Source,
    snapshots: Option<Snapshots>,
    heard: Receiver<Order>,
    shared: Arc<Shared>,
}

impl Clerk {
    fn work(mut self, newest: Option<Timestamp>) {
        let _guard = self.source.fatal.guard();
        let clock = self.source.clock.clone();
        let mut next = self.snapshots.as_ref().map(|snapshots| snapshots.first(newest, clock.now(), FIRST));
        loop {
            let order = match next {
                Some(at) => self.heard.recv_timeout(clock.until(at)),
                None => self.heard.recv().map_err(RecvTimeoutError::from),
            };
            match order {
                Ok(Order::Copy { path, reply }) => {
                    let answer = self.copy(&path);
                    self.shared.busy.store(false, Ordering::Release);
                    tell(&path, &answer);
                    drop(reply.send(answer));
                }
                Ok(Order::Follow(plan)) => next = self.follow(plan),
                Err(RecvTimeoutError::Timeout) => next = self.roll(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Takes another plan; when its first snapshot is due.
    fn follow(&mut self, plan: Option<Plan>) -> Option<Mono> {
        let now = self.source.clock.now();
        self.snapshots = plan.map(|plan| Snapshots::new(plan, &self.source.data));
        let snapshots = self.snapshots.as_ref()?;
        Some(snapshots.first(snapshots.newest(), now, FIRST))
    }

    /// Makes the next snapshot; when the one after it is due.
    fn roll(&self) -> Option<Mono> {
        let snapshots = self.snapshots.as_ref()?;
        if !self.shared.take() {
            // An order came at this moment: it is first, and the snapshot is made after it.
            return Some(self.source.clock.now().mono);
        }
        let path = snapshots.name(self.source.clock.now().wall);
        let mut made = snapshots.prepare().and_then(|()| self.copy(&path));
        while matches!(made, Err(BackupError::NoRoom { .. })) && snapshots.drop_oldest() {
            made = self.copy(&path);
        }
        let made = made.and_then(|done| snapshots.publish(&path).map(|()| done));
        self.shared.busy.store(false, Ordering::Release);
        tell(&path, &made);
        let wait = if made.is_ok() { snapshots.every() } else { AGAIN.min(snapshots.every()) };
        Some(self.source.clock.now().mono.plus(wait))
    }

    /// One copy, from the look at the disk to its name. A file that cannot be read ends the process.
    fn copy(&self, path: &Path) -> Answer {
        let Source { reader, reads, clock, data, disk, fatal, inbox } = &self.source;
        if inbox.has_failed() {
            return Err(BackupError::Stopping);
        }
        let begun = clock.now();
        let length = length(data);
        room(path, length, disk.kept())?;
        let copied = catch_unwind(AssertUnwindSafe(|| {
            let _counted = reads.begin(begun.mono);
            reader.backup(path, begun.wall, &mut |bytes| self.pace(bytes, length, begun.mono))
        }));
        match copied {
            Ok(Ok(copied)) => {
                let ended = clock.now();
                self.shared.last.store(ended.wall.0, Ordering::Relaxed);
                Ok((copied, ended.mono.since(begun.mono)))
            }
            Ok(Err(BackupError::Source(error))) => fatal.end(&error),
            Ok(Err(BackupError::Contradictory { problem })) => fatal.end(&StoreError::Contradiction(problem)),
            Ok(Err(error)) => Err(error),
            Err(_) => fatal.end(&StoreError::Damaged { what: "a page of the data file".to_owned() }),
        }
    }

    /// Waits until so many bytes may have been copied, or says why to give up.
    fn pace(&self, copied: u64, length_before: u64, begun: Mono) -> Result<(), BackupError> {
        let Source { clock, data, inbox, .. } = &self.source;
        wait(clock, begun.plus(Millis(copied * 1_000 / BYTES_PER_SECOND)));
        if self.shared.stopping.load(Ordering::Relaxed) || inbox.has_failed() {
            return Err(BackupError::Stopping);
        }
        let grew = length(data).saturating_sub(length_before);
        if grew > GROWTH_LEAST.max(length_before / GROWTH_SHARE) {
            return Err(BackupError::Grew { grew });
        }
        Ok(())
    }
}

#[expect(clippy::disallowed_methods, reason = "a copy must leave the disk to others; its thread is its own")]
fn wait(clock: &Clock, until: Mono) {
    std::thread::sleep(clock.until(until));
}

fn length(data: &Path) -> u64 {
    fs::metadata(data).map_or(0, |file| file.len())
}

/// A copy is begun only where there is room for it.
fn room(path: &Path, length: u64, floor: u64) -> Result<(), BackupError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let about = rustix::fs::statvfs(folder);
    let about = about.map_err(|error| BackupError::Io { path: folder.to_owned(), error: error.into() })?;
    let free = about.f_bavail.saturating_mul(about.f_frsize);
    let needed = (length + length / 5).saturating_add(floor);
    if free < needed { Err(BackupError::NoRoom { needed, free }) } else { Ok(()) }
}

fn tell(path: &Path, answer: &Answer) {
    let path = path.display();
    match answer {
        Ok((done, took)) => {
            let Copied { bytes, deliveries, damaged, .. } = *done;
            tracing::info!(%path, bytes, deliveries, damaged, took_ms = took.0, "backup");
            if damaged > 0 {
                tracing::warn!(damaged, "records or bodies cannot be read: they were copied as they are");
            }
        }
        Err(error) => tracing::error!(%path, %error, "no backup"),
    }
}

/// The read transactions that are open, and since when.
#[derive(Default)]
pub(super) struct Reads(Mutex<(u64, BTreeMap<u64, Mono>)>);

/// A read transaction is open as long as this is kept.
pub(super) struct Counted<'a> {
    reads: &'a Reads,
    number: u64,
}

impl Reads {
    pub(super) fn begin(&self, now: Mono) -> Counted<'_> {
        let mut reads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reads.0 += 1;
        let number = reads.0;
        reads.1.insert(number, now);
        Counted { reads: self, number }
    }

    /// The age of the oldest.
    pub(super) fn oldest(&self, now: Mono) -> Millis {
        let reads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reads.1.values().next().map_or(Millis(0), |since| now.since(*since))
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        let mut reads = self.reads.0.lock().unwrap_or_else(PoisonError::into_inner);
        reads.1.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_read_is_known_until_it_ends() {
        let reads = Reads::default();
        assert_eq!(reads.oldest(Mono(5)), Millis(0));
        let first = reads.begin(Mono(5));
        let second = reads.begin(Mono(7));
        assert_eq!(reads.oldest(Mono(10)), Millis(5));
        drop(first);
        assert_eq!(reads.oldest(Mono(10)), Millis(3));
        drop(second);
        assert_eq!(reads.oldest(Mono(10)), Millis(0));
    }

    #[test]
    fn where_there_is_no_room_nothing_is_begun() {
        assert!(room(Path::new("/tmp/x"), 0, 0).is_ok());
        assert!(matches!(room(Path::new("/tmp/x"), 1 << 60, 0), Err(BackupError::NoRoom { .. })));
        assert!(matches!(room(Path::new("/tmp/x"), 0, u64::MAX), Err(BackupError::NoRoom { .. })));
        assert!(matches!(room(Path::new("/nowhere/x"), 0, 0), Err(BackupError::Io { .. })));
    }
}
