//! The nouns of bulk jobs: what a job is called, what it does to each delivery, and how it stands.

use std::fmt;
use std::str::FromStr;

use super::{DeliveryId, read_id, write_id};

/// A job's id. It is made like a delivery's and from the same counter, so that every delivery made
/// after the job began has a higher number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u128);

const ID_PREFIX: &str = "job_";

impl JobId {
    /// What a search takes that has no job: every delivery was made before it.
    pub const LAST: JobId = JobId(u128::MAX);

    /// True when the delivery was there when the job began.
    #[must_use]
    pub fn is_after(self, id: DeliveryId) -> bool {
        id.0 < self.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_id(f, *b"job_00000000000000000000000000", self.0)
    }
}

impl FromStr for JobId {
    type Err = NotAJob;

    fn from_str(text: &str) -> Result<JobId, NotAJob> {
        text.strip_prefix(ID_PREFIX).and_then(read_id).map(JobId).ok_or(NotAJob)
    }
}

/// The text is not the id of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the id of a job: job_ and 26 characters")]
pub struct NotAJob;

/// What a job does to each delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BulkAction {
    Retry,
    Cancel,
    Erase,
}

impl BulkAction {
    /// All of them; their places are their codes on disk.
    pub const ALL: [BulkAction; 3] = [BulkAction::Retry, BulkAction::Cancel, BulkAction::Erase];

    /// The word for it in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            BulkAction::Retry => "retry",
            BulkAction::Cancel => "cancel",
            BulkAction::Erase => "erase",
        }
    }
}

/// How a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    Running,
    Done,
    /// By an operator, before its end.
    Stopped,
}

impl JobState {
    /// All of them; their places are their codes on disk.
    pub const ALL: [JobState; 3] = [JobState::Running, JobState::Done, JobState::Stopped];

    /// The word for it in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            JobState::Running => "running",
            JobState::Done => "done",
            JobState::Stopped => "stopped",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_job_is_not_one_of_a_delivery() {
        for id in [0, 7, u128::MAX] {
            let text = JobId(id).to_string();
            assert_eq!(text.parse(), Ok(JobId(id)));
            assert!(text.parse::<DeliveryId>().is_err(), "{text}");
            assert!(DeliveryId(id).to_string().parse::<JobId>().is_err());
        }
        for wrong in ["", "job_", "job_0000000000000000000000000", "job_8ZZZZZZZZZZZZZZZZZZZZZZZZZ", "7"] {
            assert_eq!(wrong.parse::<JobId>(), Err(NotAJob), "{wrong}");
        }
        assert!(JobId(7).is_after(DeliveryId(6)) && !JobId(7).is_after(DeliveryId(7)));
    }

    /// Disk codes are places in these lists: what is there keeps its place for ever.
    #[test]
    fn disk_codes_are_frozen() {
        assert_eq!(BulkAction::ALL.map(BulkAction::as_str), ["retry", "cancel", "erase"]);
        assert_eq!(JobState::ALL.map(JobState::as_str), ["running", "done", "stopped"]);
    }
}
