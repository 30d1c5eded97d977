//! Commits as they are measured: how long a step with one takes, and how much it carries.
//!
//! The engine knows no clock, so its thread measures around it.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::engine::live::Histogram;

/// Bounds of a step in seconds: from a page of a fast disk to what a producer would notice.
const SECONDS: [f64; 12] = [0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];
/// Bounds of what one carries: a step takes some thousands at most.
const OPERATIONS: [f64; 6] = [1.0, 4.0, 16.0, 64.0, 256.0, 1_024.0];

/// Counted by the engine's thread, read at each scrape.
#[derive(Debug)]
pub(super) struct Commits(Mutex<Measured>);

/// What was measured since the start.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) seconds: Histogram,
    /// Reports, commands, deliveries accepted and deliveries claimed.
    pub(super) operations: Histogram,
}

impl Default for Commits {
    fn default() -> Commits {
        let (seconds, operations) = (SECONDS.into(), OPERATIONS.into());
        Commits(Mutex::new(Measured {
            seconds: Histogram::new(&seconds),
            operations: Histogram::new(&operations),
        }))
    }
}

impl Commits {
    /// A step with a commit took so long and carried so much.
    pub(super) fn observe(&self, took: Duration, operations: usize) {
        let mut measured = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        measured.seconds.observe(took.as_secs_f64());
        measured.operations.observe(operations as f64);
    }

    /// How many there were.
    pub(super) fn count(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).seconds.count()
    }

    /// All of it until now.
    pub(super) fn measured(&self) -> Measured {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
