//! The disk under the file: what is free of it, and the ballast.
//!
//! The ballast is a file of real blocks beside the data file. It is given up when the disk is
//! really full, so that what waits can still be sent and its outcomes written; it is made again
//! when there is room. Never needed, never read, and no part of a backup.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FallocateFlags, fallocate, statvfs};

/// The ballast at most: what draining a large backlog writes before retention gives space back.
pub const MAX_BALLAST: u64 = 64 << 20;
/// Parts of the floor that the ballast is one of.
const FLOOR_PARTS: u64 = 4;
/// The disk is really full when less than one such part of the ballast is free: a step, of which
/// a report takes some hundred bytes, still fits.
const FULL_PARTS: u64 = 4;
/// What `st_blocks` counts in.
const BLOCK: u64 = 512;

/// The disk of one data file.
#[derive(Clone, Debug)]
pub struct Disk {
    folder: PathBuf,
    ballast: PathBuf,
    /// Shared by all clones: it can change while the server runs.
    kept: Arc<AtomicU64>,
    /// The file system reserves no space; it is not asked again.
    unable: bool,
}

impl Disk {
    /// The disk of the file at `path`, of which `kept` bytes are to stay free. 0: no ballast.
    #[must_use]
    pub fn of(path: &Path, kept: u64) -> Disk {
        let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let mut ballast = path.as_os_str().to_owned();
        ballast.push(".ballast");
        Disk {
            folder: folder.unwrap_or(Path::new(".")).to_owned(),
            ballast: ballast.into(),
            kept: Arc::new(AtomicU64::new(kept)),
            unable: false,
        }
    }

    /// True when some of it is to stay free.
    #[must_use]
    pub fn has_floor(&self) -> bool {
        self.kept() > 0
    }

    /// Bytes that are to stay free.
    #[must_use]
    pub fn kept(&self) -> u64 {
        self.kept.load(Ordering::Relaxed)
    }

    /// So many bytes are to stay free from now on, here and in every clone.
    pub fn keep(&self, bytes: u64) {
        self.kept.store(bytes, Ordering::Relaxed);
    }

    /// Of the ballast; 0: none.
    fn size(&self) -> u64 {
        (self.kept() / FLOOR_PARTS).min(MAX_BALLAST)
    }

    /// Bytes that this user may still write; None where it cannot be told.
    #[must_use]
    pub fn free(&self) -> Option<u64> {
        let space = statvfs(&self.folder).ok()?;
        Some(space.f_bavail.saturating_mul(space.f_frsize))
    }

    /// Gives the ballast up if the disk is really full. Before an open, which writes.
    pub fn relieve(&self) {
        self.relieve_at(self.free().unwrap_or(u64::MAX));
    }

    fn relieve_at(&self, free: u64) {
        if self.is_full(free) && fs::symlink_metadata(&self.ballast).is_ok() {
            match fs::remove_file(&self.ballast) {
                Ok(()) => tracing::warn!(bytes = self.size(), "the disk is full: the ballast was given up"),
                Err(error) => tracing::warn!(%error, "the disk is full and the ballast stays"),
            }
        }
    }

    /// Gives the ballast up or makes it, as there is room.
    pub fn tend(&mut self, free: u64) {
        self.relieve_at(free);
        if self.has_room(free) && !self.has_ballast() && !self.unable {
            match self.make() {
                Ok(()) => tracing::info!(bytes = self.size(), "ballast made"),
                Err(error) => {
                    self.unable = true;
                    drop(fs::remove_file(&self.ballast));
                    tracing::warn!(%error, "no ballast: a disk that is quite full cannot be drained");
                }
            }
        }
    }

    fn is_full(&self, free: u64) -> bool {
        free < self.size() / FULL_PARTS
    }

    /// True when the floor is kept with the ballast there, and a tenth more.
    fn has_room(&self, free: u64) -> bool {
        let (kept, size) = (self.kept(), self.size());
        size > 0 && free > kept.saturating_add(kept / 8).saturating_add(size)
    }

    /// True when all of it is there, in blocks.
    fn has_ballast(&self) -> bool {
        let about = fs::symlink_metadata(&self.ballast);
        about.is_ok_and(|file| file.is_file() && file.blocks().saturating_mul(BLOCK) >= self.size())
    }

    fn make(&self) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(&self.ballast)?;
        Ok(fallocate(&file, FallocateFlags::empty(), 0, self.size())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ballast_goes_when_the_disk_is_full_and_comes_back_when_there_is_room() {
        let folder = tempfile::tempdir().unwrap();
        let mut disk = Disk::of(&folder.path().join("a.redb"), 4 << 20);
        let ballast = folder.path().join("a.redb.ballast");
        let mut check = |free: u64, there: bool| {
            disk.tend(free);
            let blocks = fs::metadata(&ballast).map(|file| (file.blocks() * BLOCK, file.mode() & 0o777));
            assert_eq!(blocks.ok(), there.then_some((1 << 20, 0o600)), "{free}");
        };
        check(5 << 20, false);
        check(6 << 20, true);
        check(5 << 20, true);
        check(256 << 10, true);
        check((256 << 10) - 1, false);
        check(1 << 20, false);
        check(5 << 20, false);
        check(6 << 20, true);
    }

    #[test]
    fn its_size_is_a_part_of_the_floor_and_bounded() {
        let check = |kept: u64, size: u64| assert_eq!(Disk::of(Path::new("a"), kept).size(), size, "{kept}");
        check(0, 0);
        check(1 << 20, 1 << 18);
        check(1 << 30, MAX_BALLAST);
        let mut none = Disk::of(&tempfile::tempdir().unwrap().path().join("a"), 0);
        none.tend(u64::MAX);
        assert!(!none.ballast.exists() && none.free().is_none());
    }
}
