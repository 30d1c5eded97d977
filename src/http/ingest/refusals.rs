//! Refusals counted: how many deliveries of producers were not taken, by code.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::http::error::{Code, Problem};

/// The codes that an ingest route can answer, each a series of its own.
pub const CODES: [Code; 21] = [
    Code::Malformed,
    Code::Invalid,
    Code::WrongRegion,
    Code::ClassUnknown,
    Code::RefNotAllowed,
    Code::TenantNotAllowed,
    Code::BodyTimeout,
    Code::PayloadTooLarge,
    Code::ContentType,
    Code::DestinationUnknown,
    Code::DestinationDisabled,
    Code::KeyReused,
    Code::QueueFull,
    Code::DiskLow,
    Code::TenantQuota,
    Code::Draining,
    Code::ShuttingDown,
    Code::BackupHold,
    Code::Damaged,
    Code::NotFound,
    Code::Internal,
];

/// Counts since the start, in the order of the codes.
#[derive(Debug, Default)]
pub struct Refusals([AtomicU64; CODES.len()]);

impl Refusals {
    /// Counts one delivery, or one request of which it is not known how many it held.
    pub fn count(&self, problem: &Problem) {
        self.count_many(problem, 1);
    }

    /// Counts deliveries that were refused as one. A code that is not expected here is an
    /// internal one.
    pub fn count_many(&self, problem: &Problem, deliveries: usize) {
        let place = CODES.iter().position(|code| *code == problem.code).unwrap_or(CODES.len() - 1);
        self.0[place].fetch_add(deliveries as u64, Ordering::Relaxed);
    }

    /// Every code with its count.
    #[must_use]
    pub fn rows(&self) -> Vec<(&'static str, u64)> {
        let counts = self.0.iter().map(|count| count.load(Ordering::Relaxed));
        CODES.iter().map(|code| code.facts().0).zip(counts).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_has_its_own_count_from_the_start() {
        let refusals = Refusals::default();
        refusals.count(&Problem::new(Code::KeyReused, ""));
        refusals.count_many(&Problem::new(Code::QueueFull, ""), 100);
        refusals.count(&Problem::new(Code::TenantFixed, ""));
        let rows = refusals.rows();
        let count = |code: &str| rows.iter().filter(|(name, _)| *name == code).map(|(_, n)| *n).sum::<u64>();
        assert_eq!(rows.len(), CODES.len());
        let want = [("key_reused", 1), ("queue_full", 100), ("internal", 1), ("malformed", 0)];
        assert_eq!(want.map(|(code, _)| count(code)), want.map(|(_, n)| n));
    }
}
