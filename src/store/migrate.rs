//! From an older format to this one: ordered, named steps, each in one commit with the number of
//! the format that it leads to. So a step is done or it is not, whatever cuts it off, and the next
//! open goes on from there.
//!
//! Before the first step the file is copied as it is to `backup/before-<version>.redb` beside it:
//! the way back for an older program. A newer file is refused before anything here sees it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use redb::{TableDefinition, WriteTransaction};

use super::backup::{PART, rename_new};
use super::open::{OpenError, folder, sync_folder};
use super::tables::Meta;
use super::{Store, StoreError};

/// Copies of one version beside each other: somebody went back and forth.
const MAX_COPIES: u32 = 9;

/// The way from one format to the next.
pub(super) struct Step {
    /// The format that it starts from; it leads to the one after it.
    pub(super) from: u32,
    pub(super) name: &'static str,
    /// Changes every row that the new format has otherwise. It finds the file either as the old
    /// format has it or not at all: it never runs twice on the same rows.
    pub(super) run: fn(&WriteTransaction) -> Result<(), StoreError>,
}

/// Every step there is, in order: format 1 is the first.
pub(super) const STEPS: &[Step] = &[];

/// Brings a file to this format. A new one, which has none yet, is left alone.
///
/// # Errors
/// [`OpenError::NoWay`] when no step begins at its format, and what a step fails with.
pub(super) fn run(store: &Store, steps: &[Step], to: u32) -> Result<(), OpenError> {
    while let Some(found) = format(store)?.filter(|found| *found < to) {
        let step = steps.iter().find(|step| step.from == found).ok_or(OpenError::NoWay { found })?;
        tracing::info!(step = step.name, from = found, "bringing the data file to a newer format");
        store.convert(|txn| {
            (step.run)(txn)?;
            let mut meta = txn.open_table(META)?;
            meta.insert(Meta::Format as u8, &(found + 1).to_le_bytes()[..])?;
            Ok(())
        })?;
    }
    Ok(())
}

const META: TableDefinition<'_, u8, &[u8]> = TableDefinition::new("meta");

/// The format that the file says it has.
fn format(store: &Store) -> Result<Option<u32>, StoreError> {
    let mut found = None;
    store.look(|txn| {
        let table = match txn.open_table(META) {
            Err(redb::TableError::TableDoesNotExist(_)) => return Ok(()),
            table => table?,
        };
        let value = table.get(Meta::Format as u8)?;
        found = value.and_then(|value| value.value().try_into().ok()).map(u32::from_le_bytes);
        Ok(())
    })?;
    Ok(found)
}

/// Copies a file of an older format before it is changed. Where the copy is.
///
/// # Errors
/// [`OpenError::Io`] when there is no room for it, or no name.
pub(super) fn keep(path: &Path, version: &str) -> Result<PathBuf, OpenError> {
    let dir = folder(path).join("backup");
    let io = |error| OpenError::Io { path: dir.clone(), error };
    DirBuilder::new().recursive(true).mode(0o700).create(&dir).map_err(io)?;
    let part = dir.join(format!(".before-{version}.redb{PART}"));
    drop(fs::remove_file(&part));
    let mut options = OpenOptions::new();
    let target = options.write(true).create_new(true).mode(0o600).open(&part).map_err(io)?;
    let copied = File::open(path)
        .and_then(|mut source| std::io::copy(&mut source, &mut &target))
        .and_then(|_| target.sync_all())
        .and_then(|()| name(&dir, &part, version))
        .and_then(|kept| sync_folder(&kept).map(|()| kept));
    copied.map_err(|error| {
        drop(fs::remove_file(&part));
        io(error)
    })
}

/// Gives the copy a name that nothing has: what was kept before is kept.
fn name(dir: &Path, part: &Path, version: &str) -> std::io::Result<PathBuf> {
    let mut taken = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
    for n in 1..=MAX_COPIES {
        let number = if n == 1 { String::new() } else { format!("-{n}") };
        let path = dir.join(format!("before-{version}{number}.redb"));
        match rename_new(part, &path) {
            Ok(()) => return Ok(path),
            Err(error) => taken = error,
        }
    }
    Err(taken)
}

#[cfg(test)]
#[path = "migrate/fixture.rs"]
mod fixture;
#[cfg(test)]
#[path = "migrate/tests.rs"]
mod tests;
