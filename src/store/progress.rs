//! How far a long look at a file has come, counted in bytes. The store has no clock: it tells each
//! time that so much more was read, and seldom enough that nobody need be spared.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A pass is told of so often at most…
const TOLD: u64 = 64;
/// …and not for less than this: a smaller file is read before anybody asks.
const LEAST: u64 = 16 << 20;

/// How far a pass over the file has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub pass: Pass,
    pub bytes: u64,
    /// The length of the file.
    pub of: u64,
}

/// What the file is being read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Our own file after a crash: which of its pages are in use.
    Repair,
    /// Each page against its checksum.
    Pages,
    /// Each record and index row.
    Records,
}

/// Who hears of it.
pub type Told = fn(Progress);

impl Progress {
    /// So much of a file of `of` bytes.
    pub(super) fn share(pass: Pass, share: f64, of: u64) -> Progress {
        Progress { pass, bytes: (share * of as f64) as u64, of }
    }

    /// How much of a hundred.
    #[must_use]
    pub fn percent(&self) -> u64 {
        (self.bytes.saturating_mul(100)).checked_div(self.of).unwrap_or(100).min(100)
    }
}

/// Counts what is read in one pass.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    told: Told,
    of: u64,
    read: Arc<AtomicU64>,
    pages: Arc<AtomicU64>,
}

impl Meter {
    /// Of a file of `of` bytes, whose pages come first.
    pub(super) fn new(told: Told, of: u64) -> Meter {
        Meter { told, of, read: Arc::default(), pages: Arc::default() }
    }

    /// So much more was read.
    pub(super) fn count(&self, bytes: u64) {
        let before = self.read.fetch_add(bytes, Ordering::Relaxed);
        let every = (self.of / TOLD).max(LEAST);
        // What was read twice tells nothing new.
        if before < self.of && before / every != (before + bytes) / every {
            let pass = if self.pages.load(Ordering::Relaxed) == 0 { Pass::Pages } else { Pass::Records };
            (self.told)(Progress { pass, bytes: (before + bytes).min(self.of), of: self.of });
        }
    }

    /// The pages are read: what comes is for the records.
    pub(super) fn pages_end(&self) {
        self.pages.store(1, Ordering::Relaxed);
        self.read.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_is_told_of_now_and_then_and_never_beyond_its_end() {
        static HEARD: AtomicU64 = AtomicU64::new(0);
        fn hear(progress: Progress) {
            assert!(progress.bytes <= progress.of && progress.percent() <= 100, "{progress:?}");
            HEARD.fetch_add(1, Ordering::Relaxed);
        }
        let check = |of: u64, read: u64, want: u64| {
            HEARD.store(0, Ordering::Relaxed);
            let meter = Meter::new(hear, of);
            (0..read / 4_096).for_each(|_| meter.count(4_096));
            assert_eq!(HEARD.load(Ordering::Relaxed), want, "{of} {read}");
            meter.pages_end();
            (0..read / 4_096).for_each(|_| meter.count(4_096));
            assert_eq!(HEARD.load(Ordering::Relaxed), want * 2, "{of} {read} in the second pass");
        };
        check(1 << 20, 1 << 20, 0);
        check(64 << 20, 64 << 20, 4);
        check(64 << 20, 256 << 20, 4);
        check(2 << 30, 2 << 30, 64);
        assert_eq!(Progress::share(Pass::Repair, 0.5, 10).percent(), 50);
        assert_eq!(Progress::share(Pass::Repair, 0.5, 0).percent(), 100);
    }
}
