//! What is done to a file that nobody serves: a backup takes its place, or it is made smaller.
//! Both read the file in full first, and again before it has its final name.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use redb::{Builder, CompactionError, Database};

use super::rows::name_of;
use super::tables::Meta;
use super::verify::{Verified, verify_telling};
use super::{Claims, Commit, OpenError, Owner, Store, Told, inspect, open};

/// Passes of redb's compaction: each halves what is left, and it says when nothing is.
const MAX_PASSES: usize = 8;

/// Installs `backup` as the file at `data`, in the place of what is there. The first start on it
/// sends nothing until claims are started.
///
/// # Errors
/// [`OpenError`]; `data` is then as it was.
pub fn restore(backup: &Path, data: &Path, told: Told) -> Result<Verified, OpenError> {
    let verified = whole(backup, told)?;
    if fs::symlink_metadata(data).is_ok() {
        may_be_replaced(data, &verified)?;
    }
    let part = beside(data);
    let installed = copy(backup, &part)
        .and_then(|()| stop_claims(&part, &verified.region))
        .and_then(|()| whole(&part, told))
        .and_then(|_| install(&part, data));
    if installed.is_err() {
        drop(fs::remove_file(&part));
    }
    installed.map(|()| verified)
}

/// Refuses what a server has open, and what a server of another region would lose. A file that
/// cannot say what it is may have a note beside it that does.
fn may_be_replaced(data: &Path, backup: &Verified) -> Result<(), OpenError> {
    if inspect::is_in_use(data)? {
        return Err(OpenError::InUse { path: data.to_owned() });
    }
    let unset = |region: &str| region == open::UNSET_REGION || region.is_empty();
    let there = inspect::region(data).or_else(|| Owner::region_beside(data)).unwrap_or_default();
    if unset(&there) || unset(&backup.region) || there == backup.region {
        return Ok(());
    }
    let problem = format!(
        "belongs to region {there} and the backup to region {}: move the file away if it is to be replaced",
        backup.region
    );
    Err(OpenError::NotOurs { path: data.to_owned(), problem })
}

/// Makes a closed file as small as it can be; its length before and after.
///
/// # Errors
/// [`OpenError`]; a file that is refused has not been changed.
pub fn compact(path: &Path, told: Told) -> Result<(u64, u64), OpenError> {
    let before = whole(path, told)?.bytes;
    let mut database = reopen(path)?;
    for _ in 0..MAX_PASSES {
        if !database.compact().map_err(|error| compaction(path, error))? {
            break;
        }
    }
    database.close().map_err(|error| open::from_redb(path, error))?;
    Ok((before, whole(path, told)?.bytes))
}

/// The file, if nothing in it contradicts anything else.
fn whole(path: &Path, told: Told) -> Result<Verified, OpenError> {
    let verified = verify_telling(path, told)?;
    match &verified.found.contradiction {
        None => Ok(verified),
        Some(problem) => {
            let problem = format!("is damaged ({problem}): take another backup");
            Err(OpenError::NotOurs { path: path.to_owned(), problem })
        }
    }
}

fn beside(data: &Path) -> PathBuf {
    let name = data.file_name().unwrap_or_default().to_string_lossy();
    data.with_file_name(format!(".{name}.restore{}", super::PART))
}

fn copy(from: &Path, part: &Path) -> Result<(), OpenError> {
    let io = |error| OpenError::Io { path: part.to_owned(), error };
    drop(fs::remove_file(part));
    let mut source = File::open(from).map_err(io)?;
    let target = OpenOptions::new().write(true).create_new(true).mode(0o600).open(part);
    std::io::copy(&mut source, &mut target.map_err(io)?).map_err(io)?;
    Ok(())
}

/// A new epoch, in which nothing is claimed until an operator says so.
fn stop_claims(part: &Path, region: &str) -> Result<(), OpenError> {
    let region = name_of(region.as_bytes())?;
    let store = Store::new(reopen(part)?, region);
    store.write(Commit::QuickRepair, |file| {
        let epoch = file.meta(Meta::Epoch)?.and_then(|value| value.try_into().ok());
        let epoch = epoch.map_or(0, u64::from_le_bytes) + 1;
        file.put_meta(Meta::Epoch, &epoch.to_le_bytes())?;
        let stored = Claims::of(file.meta(Meta::Claims)?.as_deref());
        file.put_claims(stored.at_start(true, false))
    })?;
    Ok(store.close()?)
}

fn install(part: &Path, data: &Path) -> Result<(), OpenError> {
    let io = |error| OpenError::Io { path: data.to_owned(), error };
    File::open(part).and_then(|file| file.sync_all()).map_err(io)?;
    fs::rename(part, data).map_err(io)?;
    open::sync_folder(data).map_err(io)
}

/// Opens a file that was just found whole.
fn reopen(path: &Path) -> Result<Database, OpenError> {
    let mut builder = Builder::new();
    let opened = builder.set_cache_size(open::CACHE_BYTES).open(path);
    opened.map_err(|error| open::from_redb(path, error))
}

fn compaction(path: &Path, error: CompactionError) -> OpenError {
    match error {
        CompactionError::Storage(error) => open::from_redb(path, redb::DatabaseError::Storage(error)),
        other @ (CompactionError::PersistentSavepointExists
        | CompactionError::EphemeralSavepointExists
        | CompactionError::TransactionInProgress
        | _) => {
            OpenError::NotOurs { path: path.to_owned(), problem: format!("cannot be compacted ({other})") }
        }
    }
}
