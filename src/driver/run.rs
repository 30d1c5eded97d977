//! The engine's thread: wait, step, hand out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime;
use tokio::sync::watch;

use super::Custody;
use super::clock::Clock;
use super::commits::Commits;
use super::courier::Courier;
use super::fatal::Fatal;
use super::inbox::{Inbox, Phase, Replies};
use crate::engine::Engine;
use crate::engine::command::{Batch, Step};
use crate::engine::live::Live;
use crate::store::{Disk, OWNER_HEARTBEAT, StoreError};
use crate::time::{Millis, Mono, Now};

/// How often the length of the file and the room beside it are looked at.
const LOOK_EVERY: Millis = Millis(1_000);

/// Everything the thread needs beside the engine.
pub(super) struct Work {
    pub(super) inbox: Arc<Inbox>,
    pub(super) courier: Courier,
    pub(super) custody: Custody,
    pub(super) fatal: Fatal,
    pub(super) clock: Clock,
    pub(super) live: watch::Sender<Arc<Live>>,
    pub(super) runtime: runtime::Handle,
    /// The monotonic time of the newest commit.
    pub(super) committed: Arc<AtomicU64>,
    pub(super) commits: Arc<Commits>,
}

/// What is looked at now and then.
struct Watch {
    file_bytes: u64,
    free_bytes: u64,
    disk: Disk,
    looked_at: Mono,
    beat_at: Option<Mono>,
}

impl Work {
    /// Steps until a stop is complete, then closes the file. An error of the store ends it at
    /// once: nothing of the failed step is answered, nor anything that comes after it.
    pub(super) fn run(self, mut engine: Engine) -> Result<(), StoreError> {
        let guard = self.fatal.guard();
        let result = match self.serve(&mut engine) {
            Ok(()) => self.close(engine),
            Err(error) => {
                // Not even closed: the file is not touched again, and no other open of it in this
                // process gets its lock.
                std::mem::forget(engine);
                self.fatal.note(&error);
                Err(error)
            }
        };
        match result {
            Ok(()) => self.inbox.close(),
            Err(_) => self.inbox.fail(),
        }
        drop(guard);
        result
    }

    fn serve(&self, engine: &mut Engine) -> Result<(), StoreError> {
        let disk = self.custody.disk.clone();
        let mut watch = Watch { file_bytes: 0, free_bytes: 0, disk, looked_at: Mono(0), beat_at: None };
        let mut phase = Phase::Running;
        loop {
            self.stand();
            let longest = self.longest(engine);
            let (mut batch, replies, heard) = self.inbox.take(longest, phase);
            if heard != phase {
                phase = heard;
                self.obey(phase, engine);
            }
            let now = self.clock.now();
            self.look(&mut watch, now);
            (batch.file_bytes, batch.free_bytes) = (watch.file_bytes, watch.free_bytes);
            let was_low = engine.is_disk_low();
            let step = self.step(engine, now, batch)?;
            tell_room(was_low, engine.is_disk_low(), watch.free_bytes);
            self.hand_out(step, replies, now);
            if phase > Phase::Running && engine.slots().1 == 0 {
                return Ok(());
            }
        }
    }

    /// Stands still during a hold. Its end is no sign of a stuck engine.
    fn stand(&self) {
        if self.inbox.stand(&self.clock) {
            self.committed.store(self.clock.now().mono.0, Ordering::Relaxed);
        }
    }

    /// How long it may wait for something to do. Who is idle still looks at the disk: whether
    /// it is ready is to be known before somebody is refused.
    fn longest(&self, engine: &Engine) -> Duration {
        let longest = self.clock.until(engine.next_wakeup());
        if self.custody.disk.has_floor() { longest.min(LOOK_EVERY.duration()) } else { longest }
    }

    /// One step, measured when it had a commit.
    fn step(&self, engine: &mut Engine, now: Now, batch: Batch) -> Result<Step, StoreError> {
        let brought =
            batch.reports.len() + batch.commands.len() + batch.accepts.iter().map(Vec::len).sum::<usize>();
        let begun = self.clock.elapsed();
        let step = engine.step(now, batch)?;
        if step.committed {
            let took = self.clock.elapsed().saturating_sub(begun);
            self.commits.observe(took, brought + step.dispatches.len());
        }
        Ok(step)
    }

    fn obey(&self, phase: Phase, engine: &mut Engine) {
        match phase {
            Phase::Running => {}
            Phase::Stopping => engine.stop_claims(),
            Phase::Cutting => {
                engine.stop_claims();
                self.courier.cut_all();
            }
        }
    }

    /// Notes the file's length and the room beside it, and says in the owner's note that it is being written: before
    /// the step that writes it, so that a crash in it is still ours.
    fn look(&self, watch: &mut Watch, now: Now) {
        if now.mono.since(watch.looked_at) >= LOOK_EVERY || watch.file_bytes == 0 {
            watch.looked_at = now.mono;
            watch.file_bytes = std::fs::metadata(&self.custody.path).map_or(0, |file| file.len());
            watch.free_bytes = watch.disk.free().unwrap_or(u64::MAX);
            watch.disk.tend(watch.free_bytes);
        }
        if watch.beat_at.is_none_or(|last| now.mono.since(last) >= OWNER_HEARTBEAT) {
            watch.beat_at = Some(now.mono);
            self.custody.beat(now);
        }
    }

    /// Everything that a step made true, now that it is.
    fn hand_out(&self, step: Step, replies: Replies, now: Now) {
        if step.committed {
            self.committed.store(now.mono.0, Ordering::Relaxed);
        }
        self.courier.carry(step.dispatches, step.cuts);
        // Before the replies: whoever hears that it was drained must not see that it was not.
        if let Some(live) = step.live {
            self.live.send_replace(live);
        }
        if !replies.is_empty() {
            self.runtime.spawn(replies.send(step.accepts, step.commands, step.answers, step.claims));
        }
        if step.late > 0 {
            tracing::warn!(reports = step.late, "late reports");
        }
    }

    fn close(&self, engine: Engine) -> Result<(), StoreError> {
        engine.close(self.clock.now())?;
        let Custody { path, host, owner, run, .. } = &self.custody;
        if let Err(error) = owner.closed(path, &host.borrow(), *run) {
            tracing::warn!(%error, "owner note not written: the next open checks the whole file");
        }
        Ok(())
    }
}

/// One line each time that the disk becomes low or has room again.
fn tell_room(was_low: bool, is_low: bool, free_bytes: u64) {
    match (was_low, is_low) {
        (false, true) => tracing::warn!(free_bytes, "the disk is low: no deliveries are taken, sends go on"),
        (true, false) => tracing::info!(free_bytes, "the disk has room again: deliveries are taken"),
        (false, false) | (true, true) => {}
    }
}
