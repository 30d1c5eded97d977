//! `verify`: reads a whole file that nobody has open, and says what is in it and what is wrong.
//! It changes no byte: what redb would write stays in RAM (`inspect`).

use std::fs;
use std::path::Path;

use super::check::Checked;
use super::{OpenError, Told, inspect, open};
use crate::time::Timestamp;

/// A file that could be read to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    pub region: String,
    pub format: u32,
    /// The step of the newest commit, and when it was made.
    pub step: u64,
    pub at: Timestamp,
    /// When it was taken, if it is a backup.
    pub backup_at: Option<Timestamp>,
    pub bytes: u64,
    /// What is in it, and what is wrong with that.
    pub found: Checked,
}

/// Reads every page, every record and every index row of the file at `path`.
///
/// # Errors
/// [`OpenError`] when it is in use, is no file of ours, is newer, or is so damaged that there is no
/// reading it.
pub fn verify(path: &Path) -> Result<Verified, OpenError> {
    verify_telling(path, |_| {})
}

/// The same, and `told` hears how far it has come.
///
/// # Errors
/// As of [`verify`].
pub fn verify_telling(path: &Path, told: Told) -> Result<Verified, OpenError> {
    let io = |error| OpenError::Io { path: path.to_owned(), error };
    let about = fs::metadata(path).map_err(io)?;
    open::admit(path, &about)?;
    let (stamp, found) = inspect::read(path, None, open::CACHE_BYTES, told)?;
    let (region, format) = stamp.names();
    let (step, at) = stamp.tick();
    let backup_at = stamp.backup.map(|(at, _)| Timestamp(at));
    Ok(Verified { region, format, step, at, backup_at, bytes: about.len(), found })
}
