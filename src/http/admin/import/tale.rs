//! What an import came to, line by line and in all. Nothing is decided here.

use axum::body::Body;
use axum::http::{Response, header};
use schemars::JsonSchema;
use serde::Serialize;

use crate::engine::import::Imported;
use crate::http::app::{ok, with};
use crate::http::error::Problem;

/// Lines that are named in an answer; of the others it is said how many there are.
const MAX_NAMED: usize = 1_000;

/// What an answer counts.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "ImportCounts")]
pub(super) struct Told {
    pub(super) imported: u64,
    pub(super) updated: u64,
    pub(super) unchanged: u64,
}

impl Told {
    /// One more.
    pub(super) fn count(&mut self, imported: Imported) {
        match imported {
            Imported::New => self.imported += 1,
            Imported::Updated => self.updated += 1,
            Imported::Unchanged => self.unchanged += 1,
        }
    }
}

/// Everything that an answer says.
#[derive(Debug, Default)]
pub(super) struct Tale {
    dry_run: bool,
    pub(super) deliveries: Told,
    pub(super) destinations: Told,
    named: Vec<(u64, Problem)>,
    unnamed: u64,
    /// Lines of which it is not known what they are.
    pub(super) unread: u64,
    pub(super) stopped: bool,
}

/// What an import came to.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Import")]
pub(in crate::http) struct ImportObject<P> {
    dry_run: bool,
    #[serde(flatten)]
    deliveries: Told,
    destinations: Told,
    rejected: Vec<RejectedObject<P>>,
    /// Rejected lines that are not named.
    more_rejected: u64,
    /// It ended at the first rejected line, as it was told to.
    stopped: bool,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RejectedLine")]
struct RejectedObject<P> {
    line: u64,
    problem: P,
}

impl Tale {
    /// Nothing has come yet.
    pub(super) fn of(dry_run: bool) -> Tale {
        Tale { dry_run, ..Tale::default() }
    }

    /// A line that was not taken, and why.
    pub(super) fn refuse(&mut self, number: u64, problem: Problem) {
        if self.named.len() < MAX_NAMED {
            self.named.push((number, problem));
        } else {
            self.unnamed += 1;
        }
    }

    /// How many were not taken.
    pub(super) fn refused(&self) -> u64 {
        self.named.len() as u64 + self.unnamed
    }

    /// 200 with all of it.
    pub(super) fn answer(&self) -> Response<Body> {
        let rejected = self
            .named
            .iter()
            .map(|(line, problem)| RejectedObject { line: *line, problem: problem.document() });
        let response = ok(&ImportObject {
            dry_run: self.dry_run,
            deliveries: self.deliveries,
            destinations: self.destinations,
            rejected: rejected.collect(),
            more_rejected: self.unnamed,
            stopped: self.stopped,
        });
        // What is left of the request is not read.
        if self.stopped { with(response, header::CONNECTION, "close") } else { response }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_bad_lines_is_counted() {
        let mut tale = Tale::default();
        (1..=1_500).for_each(|n| tale.refuse(n, Problem::field("kind", "x")));
        assert_eq!((tale.named.len(), tale.unnamed, tale.refused()), (1_000, 500, 1_500));
    }
}
