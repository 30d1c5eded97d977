//! The file: every table, every record, and the only `begin` and `commit` in the program.
//!
//! Knows nothing of HTTP and reads no clock. Every commit is durable before it returns, in two
//! phases: an error of the disk can lose the batch that was being written and nothing else.
//! Any error here is the end of the process; the file is never opened twice in one.

mod backup;
pub mod check;
mod claims;
mod disk;
mod hand_over;
mod inspect;
mod inventory;
mod jobs;
mod list;
mod load;
mod migrate;
pub mod open;
mod owner;
mod progress;
mod read;
pub mod record;
mod restore;
mod rows;
mod scan;
mod stamp;
mod tables;
mod verify;
mod write;

use std::sync::{Arc, Weak};

use redb::{Database, Durability, ReadTransaction, ReadableDatabase, WriteTransaction};

use crate::model::{MAX_CLASSES, Name};
use crate::time::Timestamp;

pub use backup::{BackupError, Copied, PART, Pace};
pub use claims::{Claims, Identity};
pub use disk::{Disk, MAX_BALLAST};
pub use hand_over::{Handed, LeftBehind};
pub(crate) use inventory::{BodyKind, Inventory};
pub use jobs::{Job, MAX_ENDED_JOBS, Turns};
pub use list::{Between, Cursor, Filter, Order, Page, Shown};
pub use load::{Body, Loaded};
pub use open::{OpenError, Opened, Opening, RunNote, open};
pub use owner::{HEARTBEAT as OWNER_HEARTBEAT, Owner};
pub use progress::{Pass, Progress};
pub use read::{DeliveryView, DestinationView, Snapshot};
pub(crate) use record::StoredDestination;
pub use restore::{compact, restore};
pub use verify::{Verified, verify};
pub(crate) use write::{Before, Found, Place, Writing};

/// Files under this size carry what makes the next open instant in every commit (measured:
/// about 120 KiB written a commit for each GiB of file); larger ones only when idle.
pub const QUICK_REPAIR_BELOW: u64 = 1 << 30;

/// The store failed. There is nothing to be done in this process but to end.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the database file cannot be used: {0}")]
    Redb(#[from] Box<redb::Error>),
    #[error("{what} is damaged on disk; run `duehook verify` on a copy and restore the newest backup")]
    Damaged { what: String },
    /// The engine has closed the file.
    #[error("the database file is closed")]
    Closed,
    /// A number that was given to a class is never given to another, and there are few.
    #[error(
        "class {class} cannot be added: the data file has had {MAX_CLASSES} classes, the most there can be; \
             remove [class.{class}], or call it like one that was there before"
    )]
    ClassesFull { class: Name },
    /// An index row and a record do not agree: something wrote what it should not have.
    #[error("the file contradicts itself: {0}")]
    Contradiction(String),
}

impl StoreError {
    /// 75 where a restart may help, 78 where it will not (API.md, exit codes).
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            StoreError::Redb(error) if matches!(**error, redb::Error::Corrupted(_)) => 78,
            StoreError::Redb(_) | StoreError::Closed => 75,
            StoreError::Damaged { .. } | StoreError::Contradiction(_) | StoreError::ClassesFull { .. } => 78,
        }
    }
}

macro_rules! from_redb {
    ($($error:ty),*) => {$(
        impl From<$error> for StoreError {
            fn from(error: $error) -> StoreError {
                match error.into() {
                    redb::Error::DatabaseClosed => StoreError::Closed,
                    other => StoreError::Redb(Box::new(other)),
                }
            }
        }
    )*};
}
from_redb!(
    redb::TransactionError,
    redb::TableError,
    redb::StorageError,
    redb::CommitError,
    redb::DatabaseError,
    redb::SetDurabilityError
);

/// The writer's side of the file. There is one, and the engine owns it.
pub struct Store {
    db: Arc<Database>,
    region: Name,
}

/// The readers' side: any number, on any thread, one short transaction each.
#[derive(Clone)]
pub struct Reader {
    /// Weak, so that the writer can close the file.
    db: Weak<Database>,
}

/// How the next open is to be served by this commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Commit {
    /// Writes what makes the next open instant.
    QuickRepair,
    /// Writes less; after a crash the next open walks the file.
    Plain,
}

impl Store {
    /// Wraps a database that was opened and checked.
    pub(crate) fn new(db: Database, region: Name) -> Store {
        Store { db: Arc::new(db), region }
    }

    /// The region that the file is stamped with.
    #[must_use]
    pub fn region(&self) -> &Name {
        &self.region
    }

    /// A reader of the same file.
    #[must_use]
    pub fn reader(&self) -> Reader {
        Reader { db: Arc::downgrade(&self.db) }
    }

    /// Runs `work` in one write transaction and commits what it wrote, durably. When `work`
    /// wrote nothing, nothing is committed.
    pub(crate) fn write<T>(
        &self,
        commit: Commit,
        work: impl FnOnce(&mut Writing<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let txn = self.begin(commit)?;
        let mut writing = Writing::new(tables::Tables::open(&txn)?);
        let made = work(&mut writing)?;
        let wrote = writing.has_written();
        drop(writing);
        if wrote {
            txn.commit()?
        } else {
            txn.abort()?
        }
        Ok(made)
    }

    fn begin(&self, commit: Commit) -> Result<WriteTransaction, StoreError> {
        let mut txn = self.db.begin_write()?;
        txn.set_durability(Durability::Immediate)?;
        txn.set_two_phase_commit(true);
        txn.set_quick_repair(commit == Commit::QuickRepair);
        Ok(txn)
    }

    /// Runs `work` over the bare tables of a file that may be of another format, in one commit.
    fn convert(
        &self,
        work: impl FnOnce(&WriteTransaction) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let txn = self.begin(Commit::QuickRepair)?;
        work(&txn)?;
        Ok(txn.commit()?)
    }

    /// Reads the bare tables of a file that may be of another format.
    fn look(&self, work: impl FnOnce(&ReadTransaction) -> Result<(), StoreError>) -> Result<(), StoreError> {
        work(&self.db.begin_read()?)
    }

    /// Says in the file that this run ends as it should.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be written.
    pub fn end_run(&self, now: Timestamp) -> Result<(), StoreError> {
        self.write(Commit::QuickRepair, |file| stamp::put_run(file, now, true, 0))
    }

    /// Closes the file cleanly: the next open is instant. A reader that is about to begin is
    /// waited for, a matter of microseconds; one that has begun reads no more.
    ///
    /// # Errors
    /// [`StoreError`] when the last write of the file fails.
    pub fn close(self) -> Result<(), StoreError> {
        let mut shared = self.db;
        loop {
            match Arc::try_unwrap(shared) {
                Ok(db) => return Ok(db.close()?),
                Err(again) => shared = again,
            }
            std::thread::yield_now();
        }
    }
}

impl Reader {
    /// A picture of the file as of its newest commit. Keep it for one page only: what is freed
    /// meanwhile stays in the file.
    ///
    /// # Errors
    /// [`StoreError`] when the file cannot be read.
    pub fn snapshot(&self) -> Result<Snapshot, StoreError> {
        let db = self.db.upgrade().ok_or(StoreError::Closed)?;
        Snapshot::new(&db.begin_read()?)
    }
}
