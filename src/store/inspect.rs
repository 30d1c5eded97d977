//! Looking at a file that may not be ours, without changing a byte of it.
//!
//! redb's own check of every page runs over a backend that reads the file and keeps whatever
//! would be written in RAM. Only what passes it is opened for real (measured: of 950 live copies
//! it refused every one of the 613 that were bad, and let none panic).

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Result as IoResult};
use std::ops::Bound;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use redb::backends::FileBackend;
use redb::{BackendError, Builder, Database, ReadTransaction, ReadableDatabase, StorageBackend};

use super::check::{self, Checked};
use super::open::{CACHE_BYTES, OpenError, from_redb};
use super::progress::{Meter, Told};
use super::stamp::Stamp;
use super::tables::{Meta, ReadTables};
use super::{Snapshot, StoreError, tables};
use crate::model::Name;

/// Pages kept in RAM when a copy is read back in a process that serves.
pub(super) const SERVING_CACHE: usize = 32 << 20;
/// Writes are kept in pieces of this size.
const PIECE: u64 = 4096;

/// Checks the whole file: every page, then format and region, then every record and index row.
/// What is damaged and hides nothing else is no reason to refuse: a backup may have it too.
///
/// # Errors
/// [`OpenError`] says what is wrong with it.
pub(super) fn look(path: &Path, region: &Name, told: Told) -> Result<Stamp, OpenError> {
    let (stamp, found) = read(path, Some(region), CACHE_BYTES, told)?;
    if found.damaged > 0 {
        tracing::warn!(damaged = found.damaged, "records or bodies cannot be read: they are never sent");
    }
    match found.contradiction {
        None => Ok(stamp),
        Some(problem) => {
            let problem = format!("is damaged ({problem}): restore the newest backup");
            Err(OpenError::NotOurs { path: path.to_owned(), problem })
        }
    }
}

/// Reads the whole file: its stamp, and what is in it. A region that is named must be its own.
/// A file that makes redb panic is a corrupt one. Of one of an older format only the pages are read.
///
/// # Errors
/// [`OpenError`] when there is no reading it.
pub(super) fn read(
    path: &Path,
    region: Option<&Name>,
    cache: usize,
    told: Told,
) -> Result<(Stamp, Checked), OpenError> {
    let reading = std::panic::AssertUnwindSafe(|| {
        let database = whole(path, cache, told)?;
        let found = inside(path, region, &database);
        drop(database);
        found
    });
    std::panic::catch_unwind(reading).unwrap_or_else(|_| {
        let problem = "is corrupt (it cannot be walked): restore the newest backup".to_owned();
        Err(OpenError::NotOurs { path: path.to_owned(), problem })
    })
}

/// What a duehook file must have in it, over pages that are as they were written.
fn inside(path: &Path, region: Option<&Name>, database: &Database) -> Result<(Stamp, Checked), OpenError> {
    let foreign = |_| {
        let problem = "is not a duehook file".to_owned();
        OpenError::NotOurs { path: path.to_owned(), problem }
    };
    let txn = database.begin_read().map_err(StoreError::from)?;
    let meta = ReadTables::meta(&txn).map_err(foreign)?;
    let stamp = Stamp::from(|word| tables::meta(&meta, word))?;
    if !stamp.is_stamped() {
        return Err(foreign(StoreError::Closed));
    }
    let refusal = stamp.newer().or_else(|| region.and_then(|region| stamp.refusal(region)));
    if let Some(refusal) = refusal.or_else(|| region.and_then(|_| stamp.stranded())) {
        return Err(refusal);
    }
    if stamp.is_older() {
        return Ok((stamp, Checked::default()));
    }
    drop((meta, txn));
    let txn = completed(database)?;
    ReadTables::open(&txn).map_err(foreign)?;
    let found = check::check(&Snapshot::new(&txn)?)?;
    Ok((stamp, found))
}

/// The file with the tables that came after it was written, which the next open would make: here they
/// are made in RAM, as everything that is written.
fn completed(database: &Database) -> Result<ReadTransaction, StoreError> {
    let txn = database.begin_read()?;
    if tables::is_complete(&txn)? {
        return Ok(txn);
    }
    let writing = database.begin_write()?;
    tables::complete(&writing)?;
    writing.commit()?;
    Ok(database.begin_read()?)
}

/// The file, after redb's check of every page.
fn whole(path: &Path, cache: usize, told: Told) -> Result<Database, OpenError> {
    let io = |error| OpenError::Io { path: path.to_owned(), error };
    // The lock that shows whether another process has it needs a file that could be written.
    let file = OpenOptions::new().read(true).write(true).open(path).map_err(io)?;
    let meter = Meter::new(told, file.metadata().map_err(io)?.len());
    let backend = Overlay::new(file, meter.clone()).map_err(|error| from_redb(path, error))?;
    let mut builder = Builder::new();
    let builder = builder.set_cache_size(cache).set_check_integrity_on_open(true);
    let database = builder.create_with_backend(backend).map_err(|error| from_redb(path, error))?;
    meter.pages_end();
    Ok(database)
}

/// The region that the file is stamped with, if so much of it can be read.
pub(super) fn region(path: &Path) -> Option<String> {
    let reading = std::panic::AssertUnwindSafe(|| {
        let file = OpenOptions::new().read(true).write(true).open(path).ok()?;
        let backend = Overlay::new(file, Meter::new(|_| {}, 0)).ok()?;
        let database = Builder::new().set_cache_size(SERVING_CACHE).create_with_backend(backend).ok()?;
        let meta = ReadTables::meta(&database.begin_read().ok()?).ok()?;
        let region = tables::meta(&meta, Meta::Region).ok()??;
        String::from_utf8(region).ok()
    });
    std::panic::catch_unwind(reading).unwrap_or(None)
}

/// True when a process has the file open as a database.
pub(super) fn is_in_use(path: &Path) -> Result<bool, OpenError> {
    let io = |error| OpenError::Io { path: path.to_owned(), error };
    let file = OpenOptions::new().read(true).write(true).open(path).map_err(io)?;
    let backend = FileBackend::new(file).map_err(|error| from_redb(path, error));
    let held = backend.and_then(|backend| {
        let locked = backend.try_lock_range(Bound::Included(0), Bound::Unbounded);
        drop(backend.unlock_range(Bound::Included(0), Bound::Unbounded));
        locked
            .map_err(|error| OpenError::Io { path: path.to_owned(), error: Error::other(error.to_string()) })
    });
    match held {
        Ok(free) => Ok(!free),
        Err(OpenError::InUse { .. }) => Ok(true),
        Err(other) => Err(other),
    }
}

/// A file below, and what was written above it in RAM.
#[derive(Debug)]
struct Overlay {
    file: FileBackend,
    above: Mutex<Above>,
    meter: Meter,
}

struct Above {
    len: u64,
    /// Pieces of the file as they were written, by number.
    pieces: BTreeMap<u64, Vec<u8>>,
}

impl fmt::Debug for Above {
    /// How long it is: pieces hold bodies.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Above({})", self.len)
    }
}

impl Overlay {
    fn new(file: File, meter: Meter) -> Result<Overlay, redb::DatabaseError> {
        let file = FileBackend::new(file)?;
        let len = file.len().map_err(|error| redb::DatabaseError::Storage(redb::StorageError::Io(error)))?;
        Ok(Overlay { file, above: Mutex::new(Above { len, pieces: BTreeMap::new() }), meter })
    }

    fn above(&self) -> std::sync::MutexGuard<'_, Above> {
        self.above.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The piece as it is now; zeros where the file has ended.
    fn piece(&self, above: &Above, number: u64) -> IoResult<Vec<u8>> {
        if let Some(piece) = above.pieces.get(&number) {
            return Ok(piece.clone());
        }
        let mut piece = vec![0; usize::try_from(PIECE).unwrap_or(0)];
        let (start, end) = (number * PIECE, self.file.len()?);
        let there = usize::try_from(end.saturating_sub(start).min(PIECE)).unwrap_or(0);
        if there > 0 {
            self.file.read(start, &mut piece[..there])?;
        }
        Ok(piece)
    }
}

/// The pieces that `[offset, offset + length)` touches: number, where in it, how much.
fn pieces(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let end = offset + length as u64;
    let mut at = offset;
    std::iter::from_fn(move || {
        let number = at / PIECE;
        let until = ((number + 1) * PIECE).min(end);
        let item = (number, (at % PIECE) as usize, until.saturating_sub(at) as usize);
        at = until;
        (item.2 > 0).then_some(item)
    })
}

impl StorageBackend for Overlay {
    fn len(&self) -> IoResult<u64> {
        Ok(self.above().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> IoResult<()> {
        let above = self.above();
        if offset + out.len() as u64 > above.len {
            return Err(Error::new(ErrorKind::UnexpectedEof, "it ends too early"));
        }
        self.meter.count(out.len() as u64);
        let mut done = 0;
        for (number, from, count) in pieces(offset, out.len()) {
            let piece = self.piece(&above, number)?;
            out[done..done + count].copy_from_slice(&piece[from..from + count]);
            done += count;
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> IoResult<()> {
        self.above().len = len;
        Ok(())
    }

    fn sync_data(&self) -> IoResult<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> IoResult<()> {
        let mut above = self.above();
        let mut done = 0;
        for (number, from, count) in pieces(offset, data.len()) {
            let mut piece = self.piece(&above, number)?;
            piece[from..from + count].copy_from_slice(&data[done..done + count]);
            above.pieces.insert(number, piece);
            done += count;
        }
        Ok(())
    }

    fn close(&self) -> IoResult<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}
