//! The end of the process because of its file: who is told, and what the next open is left.
//!
//! What stands in the file and cannot be right ends it for good (78), and a panic over the file
//! ends it too. Either way the owner's note goes first, so that the next open looks at the whole
//! file before it serves: never the same end again and again.

use crate::store::{Owner, StoreError};

/// A restart will not help: the file is damaged (`EX_CONFIG`).
const DAMAGED: u8 = 78;
/// A restart may help: it begins with a look at the whole file (`EX_TEMPFAIL`).
const TEMPORARY: u8 = 75;

/// What is needed to end well. Any number of clones.
#[derive(Clone)]
pub(super) struct Fatal {
    owner: Owner,
    last_words: fn(&str),
}

impl Fatal {
    pub(super) fn new(owner: Owner, last_words: fn(&str)) -> Fatal {
        Fatal { owner, last_words }
    }

    /// Makes sure that the next open looks at the file, if it was its content that failed.
    pub(super) fn note(&self, error: &StoreError) {
        if error.exit_code() == DAMAGED {
            self.owner.distrust();
        }
    }

    /// The file cannot be read: what is half dead looks healthy from its cache.
    pub(super) fn end(&self, error: &StoreError) -> ! {
        self.note(error);
        self.say(&format!("the data file cannot be read: {error}"), error.exit_code())
    }

    /// Reading the file ended in a panic: a page of it may say what no page should.
    pub(super) fn end_panicked(&self) -> ! {
        self.owner.distrust();
        self.say("reading the data file ended in a panic: the next start checks the whole file", TEMPORARY)
    }

    fn say(&self, why: &str, exit_code: u8) -> ! {
        tracing::error!(exit_code, "{why}; the process ends");
        (self.last_words)(why);
        std::process::exit(i32::from(exit_code))
    }

    /// Whoever holds this ends the process when it unwinds.
    pub(super) fn guard(&self) -> AbortOnPanic {
        AbortOnPanic(self.clone())
    }
}

/// Ends the process when what owns it unwinds: the engine's thread, or a task that lives as long.
/// There is no half of a server.
pub(super) struct AbortOnPanic(Fatal);

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.owner.distrust();
            (self.0.last_words)("a panic: the next start checks the whole file");
            std::process::abort();
        }
    }
}
