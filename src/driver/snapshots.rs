//! The rolling snapshots: a folder of backups with their times as names, the newest as
//! `latest.redb` too. No name in it ever leads to half a file.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::store::{BackupError, PART};
use crate::time::{Millis, Mono, Now, Timestamp};

/// The name under which the newest is always found.
const LATEST: &str = "latest.redb";

/// Where snapshots go, how often they are made, and how many are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub dir: PathBuf,
    pub every: Millis,
    pub keep: usize,
}

/// The folder and whose snapshots are in it.
pub(super) struct Snapshots {
    plan: Plan,
    stem: String,
}

impl Snapshots {
    /// Nothing is made yet; what a backup that was cut off left behind is removed.
    pub(super) fn new(plan: Plan, data: &Path) -> Snapshots {
        let stem = data.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let snapshots = Snapshots { plan, stem };
        let halves = snapshots.files(|name| snapshots.is_half(name));
        halves.iter().for_each(|half| drop(fs::remove_file(half)));
        snapshots
    }

    pub(super) fn every(&self) -> Millis {
        self.plan.every
    }

    /// Its folder, which only its owner can read.
    pub(super) fn prepare(&self) -> Result<(), BackupError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.plan.dir);
        made.map_err(|error| self.fault(error))
    }

    /// The name of a snapshot that is taken at `at`: names sort by time.
    pub(super) fn name(&self, at: Timestamp) -> PathBuf {
        let time = at.to_string().replace([':', '.'], "");
        self.plan.dir.join(format!("{}-{time}.redb", self.stem))
    }

    /// Makes a finished snapshot the latest one and removes those that are too many. Whoever copies
    /// `latest.redb` meanwhile goes on reading the file that it had.
    pub(super) fn publish(&self, snapshot: &Path) -> Result<(), BackupError> {
        let next = self.plan.dir.join(format!(".{LATEST}{PART}"));
        drop(fs::remove_file(&next));
        let linked = fs::hard_link(snapshot, &next)
            .and_then(|()| fs::rename(&next, self.plan.dir.join(LATEST)))
            .and_then(|()| File::open(&self.plan.dir)?.sync_all());
        // Those that are too many go even where no link can be made, or they would fill the disk.
        let all = self.all();
        let surplus = all.len().saturating_sub(self.plan.keep);
        all.iter().take(surplus).for_each(|old| drop(fs::remove_file(old)));
        linked.map_err(|error| self.fault(error))
    }

    /// There is no room for another: the oldest makes some, unless it is the only one.
    pub(super) fn drop_oldest(&self) -> bool {
        match &self.all()[..] {
            [oldest, _, ..] => fs::remove_file(oldest).is_ok(),
            _ => false,
        }
    }

    /// When the newest one was finished.
    pub(super) fn newest(&self) -> Option<Timestamp> {
        let written = fs::metadata(self.all().last()?).and_then(|file| file.modified());
        written.ok().map(Timestamp::from)
    }

    /// When the first snapshot of this run is due.
    pub(super) fn first(&self, newest: Option<Timestamp>, now: Now, soonest: Millis) -> Mono {
        let passed = newest.map_or(self.plan.every, |at| now.wall.since(at));
        let left = Millis(self.plan.every.0.saturating_sub(passed.0));
        now.mono.plus(left.max(soonest.min(self.plan.every)))
    }

    /// Every snapshot, the oldest first.
    fn all(&self) -> Vec<PathBuf> {
        self.files(|name| self.is_ours(name))
    }

    /// True for the name of a snapshot of this very data file: another's may be in the folder.
    fn is_ours(&self, name: &str) -> bool {
        let rest = name.strip_prefix(&self.stem).and_then(|rest| rest.strip_prefix('-'));
        rest.and_then(|rest| rest.strip_suffix(".redb")).is_some_and(is_stamp)
    }

    /// True for what a backup of this data file that was cut off left behind.
    fn is_half(&self, name: &str) -> bool {
        let whole = name.strip_prefix('.').and_then(|name| name.strip_suffix(PART));
        whole.is_some_and(|whole| whole == LATEST || self.is_ours(whole))
    }

    fn files(&self, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(&self.plan.dir) else { return Vec::new() };
        let named = |path: &PathBuf| path.file_name().is_some_and(|name| wanted(&name.to_string_lossy()));
        let mut found: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(named).collect();
        found.sort();
        found
    }

    fn fault(&self, error: std::io::Error) -> BackupError {
        BackupError::Io { path: self.plan.dir.clone(), error }
    }
}

/// A time as names have it: `2026-01-15T120000000Z`.
fn is_stamp(text: &str) -> bool {
    let fits = |(place, byte): (usize, u8)| match place {
        4 | 7 => byte == b'-',
        10 => byte == b'T',
        20 => byte == b'Z',
        _ => byte.is_ascii_digit(),
    };
    text.len() == 21 && text.bytes().enumerate().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Millis = Millis(3_600_000);

    fn snapshots(dir: &Path) -> Snapshots {
        Snapshots::new(Plan { dir: dir.to_owned(), every: HOUR, keep: 2 }, Path::new("/x/data.redb"))
    }

    fn names(dir: &Path) -> Vec<String> {
        let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let mut all: Vec<_> = fs::read_dir(dir).unwrap().map(name).collect();
        all.sort();
        all
    }

    #[test]
    fn the_newest_are_kept_and_one_of_them_is_the_latest() {
        let folder = tempfile::TempDir::new().unwrap();
        let it = snapshots(folder.path());
        for hour in 0..4 {
            let path = it.name(Timestamp(1_700_000_000_000 + hour * HOUR.0));
            fs::write(&path, format!("{hour}")).unwrap();
            it.publish(&path).unwrap();
            assert_eq!(fs::read_to_string(folder.path().join(LATEST)).unwrap(), format!("{hour}"));
        }
        fs::write(folder.path().join("other-2020Z.redb"), "x").unwrap();
        let half = it.name(Timestamp(1_700_000_000_000));
        let half = format!(".{}{PART}", half.file_name().unwrap().to_str().unwrap());
        fs::write(folder.path().join(half), "half").unwrap();
        fs::write(folder.path().join("data-test-2026-01-15T120000000Z.redb"), "another's").unwrap();
        snapshots(folder.path());
        let want = [
            "data-2023-11-15T001320000Z.redb",
            "data-2023-11-15T011320000Z.redb",
            "data-test-2026-01-15T120000000Z.redb",
            LATEST,
            "other-2020Z.redb",
        ];
        assert_eq!(names(folder.path()), want);
    }

    #[test]
    fn the_first_of_a_run_is_due_when_the_last_is_old() {
        let it = snapshots(Path::new("/nowhere"));
        let now = Now { wall: Timestamp(10 * HOUR.0), mono: Mono(5) };
        let check = |newest: Option<u64>, want: u64| {
            let newest = newest.map(|ago| Timestamp(now.wall.0 - ago));
            assert_eq!(it.first(newest, now, Millis(60_000)), Mono(5 + want), "{newest:?}");
        };
        check(None, 60_000);
        check(Some(0), HOUR.0);
        check(Some(HOUR.0 / 2), HOUR.0 / 2);
        check(Some(HOUR.0 * 2), 60_000);
    }
}
