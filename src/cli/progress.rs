//! How far long work has come, on standard error: on a terminal one line that is written over and
//! cleared, with a bar where the end is known; with `--json` a JSON object a line; otherwise nothing, as a
//! script reads the answer and the server's log says the rest.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::output::Output;
use crate::store::{PART, Pass, Progress, Told};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(500);
/// To the start of the line, and away with what stands there.
const CLEAR: &str = "\r\x1b[K";
/// Letters of a bar.
const BAR: u64 = 20;
/// Bytes between two lines of work whose end is not known…
const EVERY: u64 = 8 << 20;
/// …and at least where it is: less is done before anybody asks.
const LEAST: u64 = 1 << 20;

/// Who is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    Nobody,
    Terminal,
    Json,
}

fn manner(output: &Output) -> Manner {
    match (output.json, std::io::stderr().is_terminal()) {
        (true, _) => Manner::Json,
        (false, true) => Manner::Terminal,
        (false, false) => Manner::Nobody,
    }
}

/// Who hears how much of a file has been read.
pub(super) fn told(output: &Output) -> Told {
    match manner(output) {
        Manner::Nobody => |_| {},
        Manner::Terminal => |come| line(&reading(&come)),
        Manner::Json => |come| {
            let (pass, bytes, of) = (pass(come.pass), come.bytes, come.of);
            event(&json!({"event": "progress", "what": pass, "bytes": bytes, "of": of}));
        },
    }
}

/// True where somebody looks at a terminal.
pub(super) fn is_shown(output: &Output) -> bool {
    manner(output) == Manner::Terminal
}

/// Shows these words in place of what stands there.
pub(super) fn line(words: &str) {
    show(&format!("{CLEAR}{words}"));
}

/// Leaves nothing of the line.
pub(super) fn clear() {
    show(CLEAR);
}

fn pass(pass: Pass) -> &'static str {
    match pass {
        Pass::Repair => "finding the pages in use",
        Pass::Pages => "reading pages",
        Pass::Records => "reading records",
    }
}

fn reading(come: &Progress) -> String {
    format!("{} {} of {} MiB", bar(come.percent()), pass(come.pass), come.of >> 20)
}

/// `[#####...............]  25 %`.
fn bar(percent: u64) -> String {
    let full = usize::try_from(percent * BAR / 100).unwrap_or_default();
    let rest = usize::try_from(BAR).unwrap_or_default().saturating_sub(full);
    format!("[{}{}] {percent:3} %", "#".repeat(full), ".".repeat(rest))
}

/// Waits for `work`, and shows meanwhile how long the unfinished file at `path` is: it is seen where
/// the server is this machine's, and elsewhere only the time is.
pub(super) async fn watched<T>(output: &Output, path: &Path, work: impl Future<Output = T>) -> T {
    let manner = manner(output);
    let (part, began) = (unfinished(path), Instant::now());
    let mut clock = interval_at(began + LOOK, LOOK);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => {
                if manner == Manner::Terminal {
                    clear();
                }
                return done;
            }
            _ = clock.tick() => tell_copied(manner, length(&part), began.elapsed()),
        }
    }
}

fn tell_copied(manner: Manner, bytes: Option<u64>, passed: Duration) {
    match manner {
        Manner::Nobody => {}
        Manner::Terminal => line(&words(bytes, passed)),
        Manner::Json => {
            let seconds = passed.as_secs_f64();
            event(&json!({"event": "progress", "what": "copying", "bytes": bytes, "seconds": seconds}));
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

/// Bytes that go from here to there.
#[derive(Debug)]
pub(super) struct Transfer {
    manner: Manner,
    what: &'static str,
    pub(super) bytes: u64,
    /// How many there are, if that is known.
    of: Option<u64>,
    told: u64,
}

impl Transfer {
    pub(super) fn new(output: &Output, what: &'static str, of: Option<u64>) -> Transfer {
        Transfer { manner: manner(output), what, bytes: 0, of: of.filter(|of| *of > 0), told: 0 }
    }

    /// So many more went.
    pub(super) fn add(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        let every = self.of.map_or(EVERY, |of| (of / 100).max(LEAST));
        if self.bytes - self.told < every {
            return;
        }
        self.told = self.bytes;
        match self.manner {
            Manner::Nobody => {}
            Manner::Terminal => line(&self.in_words()),
            Manner::Json => {
                let Transfer { what, bytes, of, .. } = self;
                event(&json!({"event": "progress", "what": what, "bytes": bytes, "of": of}));
            }
        }
    }

    fn in_words(&self) -> String {
        let Transfer { what, bytes, of, .. } = self;
        match of {
            Some(of) => {
                let percent = (bytes.saturating_mul(100) / of).min(100);
                format!("{} {what} of {} MiB", bar(percent), of >> 20)
            }
            None => format!("{} MiB {what}", bytes >> 20),
        }
    }

    /// The line goes: the answer says the rest.
    pub(super) fn end(&mut self) {
        if self.manner == Manner::Terminal && std::mem::take(&mut self.told) > 0 {
            clear();
        }
    }
}

/// Also where it broke off: what is said of that begins its own line.
impl Drop for Transfer {
    fn drop(&mut self) {
        self.end();
    }
}

/// A terminal that is gone does not stop the work.
fn show(text: &str) {
    let mut to = std::io::stderr();
    let _gone = to.write_all(text.as_bytes()).and_then(|()| to.flush());
}

fn event(it: &serde_json::Value) {
    show(&format!("{it}\n"));
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

    #[test]
    fn what_has_an_end_has_a_bar() {
        assert_eq!(bar(0), "[....................]   0 %");
        assert_eq!(bar(27), "[#####...............]  27 %");
        assert_eq!(bar(100), "[####################] 100 %");
        let come = Progress { pass: Pass::Pages, bytes: 32 << 20, of: 64 << 20 };
        assert_eq!(reading(&come), "[##########..........]  50 % reading pages of 64 MiB");
        let sent = |bytes, of| Transfer { manner: Manner::Nobody, what: "sent", bytes, of, told: 0 };
        assert_eq!(sent(1 << 20, Some(4 << 20)).in_words(), "[#####...............]  25 % sent of 4 MiB");
        assert_eq!(sent(9 << 20, None).in_words(), "9 MiB sent");
    }
}
