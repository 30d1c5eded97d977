//! The backup: a copy of every row as of one commit, in a file of its own, whole or not there.
//!
//! It is written beside its name, closed, read back in full, synced and only then renamed: under a
//! final name there is never half a file. Reads no clock: whoever asks for it sets its pace.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use redb::backends::FileBackend;
use redb::{Builder, Database, Durability, Key, Range, ReadOnlyTable, ReadableTable, TableDefinition};
use redb::{Value, WriteTransaction};

use super::tables::{self, Meta};
use super::{OpenError, Reader, Snapshot, StoreError, inspect, open};
use crate::time::Timestamp;

/// Bytes copied between two commits of the copy, and between two looks at its pace.
const BATCH: u64 = 8 << 20;
/// Pages of the copy that are kept in RAM: it is written once and in order.
const CACHE: usize = 32 << 20;
/// Where in the value of [`Meta::Run`] it says that the run ended cleanly.
const RUN_CLEAN: usize = 8;

/// What is told how many bytes were copied; an error ends the copy.
pub type Pace<'a> = &'a mut dyn FnMut(u64) -> Result<(), BackupError>;

/// A backup that is on disk under its name, read back and found whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    pub path: PathBuf,
    pub bytes: u64,
    pub deliveries: u64,
    /// Records and bodies that cannot be read: they were copied as they are.
    pub damaged: u64,
}

/// Why there is no backup.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("{path} is there already, and a backup replaces nothing")]
    Exists { path: PathBuf },
    #[error("{path}: {error}")]
    Io { path: PathBuf, error: std::io::Error },
    #[error("a backup needs {needed} bytes free at its target and there are {free}")]
    NoRoom { needed: u64, free: u64 },
    #[error("the data file grew by {grew} bytes while it was copied; the backup gave up, so that it stops")]
    Grew { grew: u64 },
    #[error("the server is stopping")]
    Stopping,
    #[error("another backup is running")]
    Running,
    /// The source cannot be read.
    #[error(transparent)]
    Source(StoreError),
    /// The copy cannot be written.
    #[error("the copy cannot be written: {0}")]
    Target(StoreError),
    /// Rows are missing or contradict each other, as in the source: a server must not go on with it.
    #[error("the data file is damaged ({problem}): stop, and see what duehook verify says of it")]
    Contradictory { problem: String },
    #[error("the copy could not be read back: {0}")]
    Unreadable(OpenError),
}

fn source(error: impl Into<StoreError>) -> BackupError {
    match error.into() {
        StoreError::Closed => BackupError::Stopping,
        other @ (StoreError::Redb(_)
        | StoreError::Damaged { .. }
        | StoreError::ClassesFull { .. }
        | StoreError::Contradiction(_)) => BackupError::Source(other),
    }
}

fn target(error: impl Into<StoreError>) -> BackupError {
    BackupError::Target(error.into())
}

impl Reader {
    /// Copies the file as of its newest commit to `path`, marked as a backup taken at `at`.
    ///
    /// # Errors
    /// [`BackupError`]; nothing is then left under that name.
    pub fn backup(&self, path: &Path, at: Timestamp, pace: Pace<'_>) -> Result<Copied, BackupError> {
        if fs::symlink_metadata(path).is_ok() {
            return Err(BackupError::Exists { path: path.to_owned() });
        }
        let part = unfinished(path);
        let made = self.write_part(&part, at, pace).and_then(|()| finish(&part, path));
        if made.is_err() {
            drop(fs::remove_file(&part));
        }
        made
    }

    fn write_part(&self, part: &Path, at: Timestamp, pace: Pace<'_>) -> Result<(), BackupError> {
        drop(fs::remove_file(part));
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(part);
        let file = file.map_err(|error| BackupError::Io { path: part.to_owned(), error })?;
        let mut builder = Builder::new();
        let backend = FileBackend::new(file).map_err(target)?;
        let database = builder.set_cache_size(CACHE).create_with_backend(backend).map_err(target)?;
        let snapshot = self.snapshot().map_err(source)?;
        let mut copying = Copying { database: &database, pace, copied: 0 };
        snapshot.tables.copy(&mut copying)?;
        copying.mark(&snapshot, at)?;
        drop(snapshot);
        database.close().map_err(target)
    }
}

/// The name that a backup has until it is whole.
fn unfinished(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}{PART}"))
}

/// What the name of a backup ends with until it is whole.
pub const PART: &str = ".part";

/// Reads the copy back, syncs it, and gives it its name.
fn finish(part: &Path, path: &Path) -> Result<Copied, BackupError> {
    let io = |error| BackupError::Io { path: path.to_owned(), error };
    let read = inspect::read(part, None, inspect::SERVING_CACHE, |_| {});
    let (_, found) = read.map_err(BackupError::Unreadable)?;
    if let Some(problem) = found.contradiction {
        return Err(BackupError::Contradictory { problem });
    }
    let file = File::open(part).map_err(io)?;
    file.sync_all().map_err(io)?;
    let bytes = file.metadata().map_err(io)?.len();
    rename_new(part, path).map_err(io)?;
    open::sync_folder(path).map_err(io)?;
    let (deliveries, damaged) = (found.deliveries, found.damaged);
    Ok(Copied { path: path.to_owned(), bytes, deliveries, damaged })
}

/// Renames a file to a name that nothing has.
pub(super) fn rename_new(from: &Path, to: &Path) -> std::io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Not every file system can; nobody else writes there under our names.
        Err(Errno::INVAL | Errno::NOSYS) if fs::symlink_metadata(to).is_err() => fs::rename(from, to),
        done => Ok(done?),
    }
}

/// A copy in the making.
pub(super) struct Copying<'a> {
    database: &'a Database,
    pace: Pace<'a>,
    copied: u64,
}

impl Copying<'_> {
    /// Copies every row of one table, in order.
    pub(super) fn table<K: Key + 'static, V: Value + 'static>(
        &mut self,
        from: &ReadOnlyTable<K, V>,
        name: TableDefinition<'_, K, V>,
    ) -> Result<(), BackupError> {
        let mut rows = from.iter().map_err(source)?;
        loop {
            let txn = self.begin()?;
            let more = self.batch(&txn, name, &mut rows)?;
            txn.commit().map_err(target)?;
            (self.pace)(self.copied)?;
            if !more {
                return Ok(());
            }
        }
    }

    fn begin(&self) -> Result<WriteTransaction, BackupError> {
        let mut txn = self.database.begin_write().map_err(target)?;
        txn.set_durability(Durability::Immediate).map_err(target)?;
        txn.set_two_phase_commit(true);
        Ok(txn)
    }

    /// False when that was the last row.
    fn batch<K: Key + 'static, V: Value + 'static>(
        &mut self,
        txn: &WriteTransaction,
        name: TableDefinition<'_, K, V>,
        rows: &mut Range<'_, K, V>,
    ) -> Result<bool, BackupError> {
        let mut table = txn.open_table(name).map_err(target)?;
        let end = self.copied + BATCH;
        while self.copied < end {
            let Some(row) = rows.next() else { return Ok(false) };
            let (key, value) = row.map_err(source)?;
            let (key, value) = (key.value(), value.value());
            self.copied += (K::as_bytes(&key).as_ref().len() + V::as_bytes(&value).as_ref().len()) as u64;
            table.insert(key, value).map_err(target)?;
        }
        Ok(true)
    }

    /// Says in the copy what it is, and that its run did not end in a crash.
    fn mark(&mut self, from: &Snapshot, at: Timestamp) -> Result<(), BackupError> {
        let word = |word| tables::meta(&from.tables.meta, word).map_err(source);
        let mut mark = at.0.to_le_bytes().to_vec();
        mark.extend(word(Meta::Tick)?.unwrap_or_default().iter().take(8));
        let mut run = word(Meta::Run)?.unwrap_or_default();
        if let Some(clean) = run.get_mut(RUN_CLEAN) {
            *clean = 1;
        }
        let txn = self.begin()?;
        {
            let name: TableDefinition<'_, u8, &[u8]> = TableDefinition::new("meta");
            let mut table = txn.open_table(name).map_err(target)?;
            table.insert(Meta::Backup as u8, &*mark).map_err(target)?;
            table.insert(Meta::Run as u8, &*run).map_err(target)?;
        }
        txn.commit().map_err(target)
    }
}
