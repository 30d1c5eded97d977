//! The note beside the file that says who last had it: how a file is known to be ours.
//!
//! It is ours when host, device and inode agree and the file was last changed when we say:
//! exactly then if it was closed, within [`SLACK`] of the last heartbeat if we crashed. `cp`
//! over the file keeps the inode but not the time of change. Losing the note costs one check. What
//! is put over a crashed file within [`SLACK`] is taken for ours: so that is looked at all the same
//! where it takes no time (`open`).
//! Region and format must agree too: a plain open changes the file, and one that is to be
//! refused must not be changed.
//!
//! An open takes the note away and the first heartbeat writes it again: what does not live that
//! long, whatever it dies of, is looked at the next time. So is a file that was found to be
//! damaged ([`Owner::distrust`]).

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::open::FORMAT;
use crate::model::Name;
use crate::time::{Millis, Timestamp};

/// How much later than the last heartbeat a crashed file may have been changed.
pub(super) const SLACK: Millis = Millis(5_000);
/// How often the heartbeat is written while there are commits: well inside `SLACK`.
pub const HEARTBEAT: Millis = Millis(2_000);

/// Where the note is, and the region of who writes it.
#[derive(Clone, Debug)]
pub struct Owner {
    note: PathBuf,
    region: Name,
    /// False once the file is not to be trusted: no thread writes the note again.
    trusted: Arc<Mutex<bool>>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    host: String,
    region: String,
    format: u32,
    device: u64,
    inode: u64,
    /// When the run began: tells one run from the next.
    run: u64,
    last: Last,
}

/// How the file was last seen by its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Last {
    Closed { size: u64, ctime_ns: i128 },
    Alive { at_ms: u64 },
}

/// How a file was left that is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Not changed since.
    Closed,
    /// Last changed while its server lived, or so soon after that it cannot be told apart.
    Crashed,
}

impl Owner {
    /// The note beside the file at `path`, for a server of `region`.
    #[must_use]
    pub fn beside(path: &Path, region: &Name) -> Owner {
        Owner { note: note_beside(path), region: region.clone(), trusted: Arc::new(Mutex::new(true)) }
    }

    /// How `host` left the file at `path`, serving the same region; None when it did not.
    #[must_use]
    pub fn left(&self, path: &Path, host: &str) -> Option<Left> {
        let note = fs::read(&self.note).ok().and_then(|text| serde_json::from_slice::<Note>(&text).ok());
        let (note, file) = (note?, fs::metadata(path).ok()?);
        let same = note.host == host && note.device == file.dev() && note.inode == file.ino();
        let ours = note.region == self.region.as_str() && note.format == FORMAT;
        let agrees = agrees(note.last, file.len(), ctime_ns(&file));
        (same && ours && agrees).then_some(match note.last {
            Last::Closed { .. } => Left::Closed,
            Last::Alive { .. } => Left::Crashed,
        })
    }

    /// Takes the note away: whoever opens the file before there is another looks at all of it.
    ///
    /// # Errors
    /// Any error of the file system but that there is none.
    pub fn take(&self) -> std::io::Result<()> {
        match fs::remove_file(&self.note) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Takes the note away for good: the process is about to end, because what stands in the file
    /// cannot be right. No heartbeat that comes after it makes the file ours again.
    pub fn distrust(&self) {
        *self.trust() = false;
        if let Err(error) = self.take() {
            tracing::error!(%error, "owner note not removed: run duehook verify before the next start");
        }
    }

    fn trust(&self) -> MutexGuard<'_, bool> {
        self.trusted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The region that the note names, of a file that cannot be asked itself.
    pub(super) fn region_beside(path: &Path) -> Option<String> {
        let note = fs::read(note_beside(path)).ok()?;
        Some(serde_json::from_slice::<Note>(&note).ok()?.region)
    }

    /// Says that the file is open and was changed no later than a little after `now`.
    ///
    /// # Errors
    /// Any error of the file system; the next open then checks the file.
    pub fn heartbeat(&self, path: &Path, host: &str, run: Timestamp, now: Timestamp) -> std::io::Result<()> {
        self.write(path, host, run, |_| Last::Alive { at_ms: now.0 })
    }

    /// Says that the file was closed and is not changed any more.
    ///
    /// # Errors
    /// Any error of the file system; the next open then checks the file.
    pub fn closed(&self, path: &Path, host: &str, run: Timestamp) -> std::io::Result<()> {
        self.write(path, host, run, |file| Last::Closed { size: file.len(), ctime_ns: ctime_ns(file) })
    }

    fn write(
        &self,
        path: &Path,
        host: &str,
        run: Timestamp,
        last: impl FnOnce(&fs::Metadata) -> Last,
    ) -> std::io::Result<()> {
        let trusted = self.trust();
        if !*trusted {
            return Ok(());
        }
        let file = fs::metadata(path)?;
        let (device, inode) = (file.dev(), file.ino());
        let (host, region) = (host.to_owned(), self.region.to_string());
        let note = Note { host, region, format: FORMAT, device, inode, run: run.0, last: last(&file) };
        let mut new = self.note.clone().into_os_string();
        new.push(".new");
        let mut options = OpenOptions::new();
        let mut made = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        made.write_all(&serde_json::to_vec(&note)?)?;
        fs::rename(&new, &self.note)
    }
}

fn note_beside(path: &Path) -> PathBuf {
    let mut note = path.as_os_str().to_owned();
    note.push(".owner");
    note.into()
}

fn ctime_ns(file: &fs::Metadata) -> i128 {
    i128::from(file.ctime()) * 1_000_000_000 + i128::from(file.ctime_nsec())
}

fn agrees(last: Last, size: u64, ctime: i128) -> bool {
    match last {
        Last::Closed { size: recorded, ctime_ns } => size == recorded && ctime == ctime_ns,
        Last::Alive { at_ms } => ctime <= i128::from(at_ms + SLACK.0) * 1_000_000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_ours_when_it_was_not_changed_since() {
        let closed = Last::Closed { size: 10, ctime_ns: 5_000_000_000 };
        let alive = Last::Alive { at_ms: 5_000 };
        let check = |last, size, ctime_ms: i128, want: bool| {
            assert_eq!(agrees(last, size, ctime_ms * 1_000_000), want, "{last:?} {size} {ctime_ms}");
        };
        check(closed, 10, 5_000, true);
        check(closed, 10, 5_001, false);
        check(closed, 11, 5_000, false);
        check(alive, 99, 4_000, true);
        check(alive, 99, 10_000, true);
        check(alive, 99, 10_001, false);
    }

    #[test]
    fn what_is_not_trusted_is_not_ours_whoever_beats_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.redb");
        fs::write(&path, "x").unwrap();
        let owner = Owner::beside(&path, &"eu".parse().unwrap());
        let beat =
            |owner: &Owner| owner.heartbeat(&path, "h", Timestamp(1), Timestamp(u64::MAX / 2)).unwrap();
        beat(&owner);
        assert_eq!(owner.left(&path, "h"), Some(Left::Crashed));
        assert_eq!(Owner::region_beside(&path).as_deref(), Some("eu"));
        owner.take().unwrap();
        assert_eq!(owner.left(&path, "h"), None);
        beat(&owner);
        assert_eq!(owner.left(&path, "h"), Some(Left::Crashed));
        owner.clone().distrust();
        beat(&owner);
        owner.closed(&path, "h", Timestamp(1)).unwrap();
        assert!(owner.left(&path, "h").is_none() && Owner::region_beside(&path).is_none());
    }
}
