//! The driver: the only place where clock, tokio and network meet the engine.
//!
//! It gathers what comes in, calls `step`, and hands out what the step made true. It decides
//! nothing. It owes the engine one report for each dispatch, whatever happens to the task.

pub mod backup;
pub mod clock;
mod commits;
mod courier;
mod fatal;
pub mod handle;
mod hold;
mod inbox;
mod jobs;
mod orders;
mod outlet;
mod run;
mod snapshots;
mod trial;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio::runtime;
use tokio::sync::{Notify, Semaphore, oneshot, watch};

use crate::engine::Engine;
use crate::sender::Sender;
use crate::sender::payload::MAX_READERS;
use crate::store::{Disk, Owner, StoreError};
use crate::time::{Now, Timestamp};

use backup::{Backups, Plan, Reads};
use clock::Clock;
use commits::Commits;
use courier::{Courier, Desk};
use fatal::Fatal;
use handle::READERS;
use inbox::Inbox;
use outlet::Outlet;
use trial::Trials;

pub use handle::{Handle, Health, Unavailable};

/// Threads of the runtime that may be blocked at once: the courier's, who reads what was claimed, those
/// that read pages, and those that read payloads of files. Names are looked up on others
/// ([`crate::sender::egress::lookups`]), so no name server keeps the file from being read.
pub const BLOCKING_THREADS: usize = 1 + READERS + MAX_READERS;

/// What the engine thread looks after beside the engine.
pub struct Custody {
    pub path: PathBuf,
    /// The name of this machine; it may be given another one.
    pub host: watch::Receiver<String>,
    pub owner: Owner,
    pub disk: Disk,
    /// When this run began.
    pub run: Timestamp,
    /// Who is told, in one sentence, why the process ends.
    pub last_words: fn(&str),
    /// The rolling snapshots, unless there are none.
    pub backups: Option<Plan>,
}

impl Custody {
    /// Says in the owner's note that the file is being written.
    fn beat(&self, now: Now) {
        let Custody { path, host, owner, run, .. } = self;
        if let Err(error) = owner.heartbeat(path, &host.borrow(), *run, now.wall) {
            tracing::warn!(%error, "owner note not written: the next open checks the whole file");
        }
    }
}

/// A running engine. It goes on until [`Driver::stop`] has been heard and obeyed.
pub struct Driver {
    inbox: Arc<Inbox>,
    backups: Arc<Backups>,
    ended: oneshot::Receiver<Result<(), StoreError>>,
    thread: std::thread::JoinHandle<()>,
}

/// Starts the engine on its own thread, and the courier that sends what it dispatches.
///
/// # Panics
/// When the operating system gives no thread.
#[must_use]
pub fn start(
    mut engine: Engine,
    sender: Sender,
    custody: Custody,
    clock: Clock,
    runtime: &runtime::Handle,
) -> (Driver, Handle) {
    // The open took the note away: from here on a crash is ours again.
    custody.beat(clock.now());
    let inbox = Arc::new(Inbox::default());
    let (live, picture) = watch::channel(engine.live(clock.now()));
    let committed = Arc::new(AtomicU64::new(clock.now().mono.0));
    let commits = Arc::new(Commits::default());
    let reads = Arc::new(Reads::default());
    let fatal = Fatal::new(custody.owner.clone(), custody.last_words);
    let source = backup::Source {
        fatal: fatal.clone(),
        inbox: Arc::clone(&inbox),
        reader: engine.reader(),
        reads: Arc::clone(&reads),
        clock: clock.clone(),
        data: custody.path.clone(),
        disk: custody.disk.clone(),
    };
    let backups = Backups::start(source, custody.backups.clone());
    let outlet = Arc::new(Outlet::new(sender));
    let handle = Handle {
        backups: Arc::clone(&backups),
        fatal: fatal.clone(),
        reads,
        jobs: Arc::new(Notify::new()),
        trials: Arc::new(Trials::new(Arc::clone(&outlet))),
        outlet: Arc::clone(&outlet),
        inbox: Arc::clone(&inbox),
        reader: engine.reader(),
        readers: Arc::new(Semaphore::new(READERS)),
        live: picture,
        committed: Arc::clone(&committed),
        commits: Arc::clone(&commits),
        clock: clock.clone(),
        path: custody.path.clone().into(),
        disk: custody.disk.clone().into(),
        region: engine.region().clone(),
    };
    jobs::start(handle.clone(), runtime);
    let desk = Desk::new(engine.reader(), Arc::clone(&inbox), clock.clone(), fatal.clone());
    let courier = Courier::start(desk, outlet, runtime);
    let (end, ended) = oneshot::channel();
    let runtime = runtime.clone();
    let inbound = Arc::clone(&inbox);
    let work =
        run::Work { inbox: inbound, courier, custody, fatal, clock, live, runtime, committed, commits };
    let thread = std::thread::Builder::new().name("engine".to_owned());
    let thread = thread.spawn(move || drop(end.send(work.run(engine)))).expect("a thread at start");
    (Driver { inbox, backups, ended, thread }, handle)
}

impl Driver {
    /// Ends when the engine has: with an error when the store failed.
    pub async fn ended(&mut self) -> Result<(), StoreError> {
        match (&mut self.ended).await {
            Ok(result) => result,
            Err(_) => Ok(()),
        }
    }

    /// Takes nothing more in and claims nothing more; what is out may end.
    pub fn stop(&self) {
        self.inbox.stop(false);
        self.backups.stop();
    }

    /// Cuts what is still out: each attempt is reported as interrupted.
    pub fn cut(&self) {
        self.inbox.stop(true);
    }

    /// Waits for the engine's thread, which has ended or is about to.
    pub fn join(self) {
        drop(self.thread.join());
    }
}
