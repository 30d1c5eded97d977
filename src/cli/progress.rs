//! How far long work has come, on one line of a terminal that is written over and cleared. Anywhere
//! else nothing is written: a script reads the answer, and the server's log says the rest.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::{Instant, interval};

use super::output::Output;
use crate::store::{PART, Pass, Progress};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(500);
/// To the start of the line, and away with what stands there.
const CLEAR: &str = "\r\x1b[K";

/// True where somebody looks.
pub(super) fn is_shown(output: &Output) -> bool {
    !output.json && std::io::stderr().is_terminal()
}

/// Leaves nothing of the line.
pub(super) fn clear() {
    show(CLEAR);
}

/// Shows these words in place of what stands there.
pub(super) fn line(words: &str) {
    show(&format!("{CLEAR}{words}"));
}

/// Shows how much of a file has been read.
pub(super) fn told(come: Progress) {
    let what = match come.pass {
        Pass::Repair => "finding the pages in use",
        Pass::Pages => "reading pages",
        Pass::Records => "reading records",
    };
    show(&format!("{CLEAR}{what}: {} % of {} MiB", come.percent(), come.of >> 20));
}

/// Waits for `work`, and shows meanwhile how long the unfinished file at `path` is: it is seen where
/// the server is this machine's, and elsewhere only the time is.
pub(super) async fn watched<T>(output: &Output, path: &Path, work: impl Future<Output = T>) -> T {
    if !is_shown(output) {
        return work.await;
    }
    let (part, began) = (unfinished(path), Instant::now());
    let mut clock = interval(LOOK);
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => {
                clear();
                return done;
            }
            _ = clock.tick() => show(&format!("{CLEAR}{}", words(length(&part), began.elapsed()))),
        }
    }
}

/// The name that a backup has until it is whole.
fn unfinished(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}{PART}"))
}

fn length(part: &Path) -> Option<u64> {
    std::fs::metadata(part).ok().map(|file| file.len())
}

fn words(written: Option<u64>, passed: Duration) -> String {
    let seconds = passed.as_secs();
    match written {
        Some(bytes) => format!("{} MiB written, {seconds} s", bytes >> 20),
        None => format!("working, {seconds} s"),
    }
}

/// A terminal that is gone does not stop the work.
fn show(text: &str) {
    let mut to = std::io::stderr();
    let _gone = to.write_all(text.as_bytes()).and_then(|()| to.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unfinished_copy_has_a_name_of_its_own_and_a_length() {
        assert_eq!(unfinished(Path::new("/b/x.redb")), Path::new("/b/.x.redb.part"));
        assert_eq!(words(Some(5 << 20), Duration::from_millis(2_700)), "5 MiB written, 2 s");
        assert_eq!(words(None, Duration::ZERO), "working, 0 s");
    }
}
