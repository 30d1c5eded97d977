//! What can be typed about bulk jobs, and the filter that lists and jobs share.

use clap::builder::NonEmptyStringValueParser;
use clap::{Args as ArgsTrait, Subcommand, ValueEnum};

use crate::time::{Millis, Timestamp};

pub(in crate::cli) const EXAMPLES: &str = "Examples:
  duehook bulk start retry --destination shop-eu --outcome exhausted --dry-run
  duehook bulk start cancel --tenant acme --label import:7 --expect 1200 --yes
  duehook bulk ls
  duehook bulk stop job_01KBA0C5B5Q7M1V0X4T2N8R6JD";

#[derive(Debug, ArgsTrait)]
pub(in crate::cli) struct Bulk {
    #[command(subcommand)]
    pub command: BulkCommand,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum BulkCommand {
    /// Begin a job for all deliveries that match now
    #[command(after_help = "Example:\n  duehook bulk start retry --outcome exhausted --rate 50 --wait --yes")]
    Start(Box<Start>),
    /// List the jobs that run and the last ones that have ended, the newest first
    #[command(after_help = "Example:\n  duehook bulk ls --json")]
    Ls,
    /// Show one job
    #[command(after_help = "Example:\n  duehook bulk get job_01KBA0C5B5Q7M1V0X4T2N8R6JD")]
    Get(OneJob),
    /// Stop a job; what it has done stays done
    #[command(after_help = "Example:\n  duehook bulk stop job_01KBA0C5B5Q7M1V0X4T2N8R6JD")]
    Stop(OneJob),
}

#[derive(Debug, ArgsTrait)]
pub(in crate::cli) struct OneJob {
    /// The job's id
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub id: String,
}

/// What is done to each delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Verb {
    /// Due now; what was delivered only if --outcome names it
    Retry,
    /// Ended without being sent again
    Cancel,
    /// Body, own headers, labels and excerpts are gone
    Erase,
}

#[derive(Debug, ArgsTrait)]
pub(in crate::cli) struct Start {
    /// What is done to each delivery
    pub action: Verb,
    #[command(flatten)]
    pub matching: Matching,
    /// Only say how many match
    #[arg(long)]
    pub dry_run: bool,
    /// Begin only if exactly so many match
    #[arg(long, value_name = "N")]
    pub expect: Option<u64>,
    /// Stay until the job has ended; leaving does not stop it
    #[arg(long)]
    pub wait: bool,
    /// Deliveries in a second [default: as fast as the server can beside its work]
    #[arg(long, value_name = "PER_SECOND")]
    pub rate: Option<u64>,
}

/// Which deliveries; what is not given matches all.
#[derive(Debug, ArgsTrait)]
pub(in crate::cli) struct Matching {
    /// ready, leased, delayed, terminal; several with commas
    #[arg(long)]
    pub state: Option<String>,
    /// delivered, rejected, exhausted, expired, cancelled, …; several with commas
    #[arg(long)]
    pub outcome: Option<String>,
    /// Whose they are; several with commas
    #[arg(long)]
    pub tenant: Option<String>,
    /// Where they go; several with commas
    #[arg(long)]
    pub destination: Option<String>,
    /// Their latency class; several with commas
    #[arg(long)]
    pub class: Option<String>,
    /// A label and its value
    #[arg(long, value_name = "NAME:VALUE")]
    pub label: Option<String>,
    /// The status of the last answer
    #[arg(long, value_name = "STATUS")]
    pub last_status: Option<String>,
    /// The result of the last attempt: success, rate_limited, timeout, …
    #[arg(long, value_name = "RESULT")]
    pub last_result: Option<String>,
    /// Accepted at or after: 2026-01-15T12:00:00Z, or 1h for an hour ago
    #[arg(long, value_name = "TIME")]
    pub created_after: Option<String>,
    /// Accepted before that time
    #[arg(long, value_name = "TIME")]
    pub created_before: Option<String>,
    /// Due at or after: 2026-01-15T12:00:00Z, or 1h for in an hour
    #[arg(long, value_name = "TIME")]
    pub due_after: Option<String>,
    /// Due before that time
    #[arg(long, value_name = "TIME")]
    pub due_before: Option<String>,
    /// Ended at or after: 2026-01-15T12:00:00Z, or 1h for an hour ago
    #[arg(long, value_name = "TIME")]
    pub finished_after: Option<String>,
    /// Ended before that time
    #[arg(long, value_name = "TIME")]
    pub finished_before: Option<String>,
}

impl Matching {
    /// What has one value; a comma in it is a comma.
    pub(in crate::cli) const SINGLE: [&str; 7] = [
        "label",
        "created_after",
        "created_before",
        "due_after",
        "due_before",
        "finished_after",
        "finished_before",
    ];

    /// What was given, by the names of the API; a length of time counts back from `now`, what is due
    /// is looked for ahead.
    pub(in crate::cli) fn given(&self, now: Timestamp) -> Vec<(&'static str, String)> {
        let time = |(name, value): (&'static str, &String)| match name {
            "due_after" | "due_before" => from_now(value, |length| now.plus(length)),
            "created_after" | "created_before" | "finished_after" | "finished_before" => ago(value, now),
            _ => value.clone(),
        };
        let all = [
            ("state", &self.state),
            ("outcome", &self.outcome),
            ("tenant", &self.tenant),
            ("destination", &self.destination),
            ("class", &self.class),
            ("label", &self.label),
            ("last_status", &self.last_status),
            ("last_result", &self.last_result),
            ("created_after", &self.created_after),
            ("created_before", &self.created_before),
            ("due_after", &self.due_after),
            ("due_before", &self.due_before),
            ("finished_after", &self.finished_after),
            ("finished_before", &self.finished_before),
        ];
        let given = all.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
        given.map(|(name, value)| (name, time((name, value)))).collect()
    }
}

/// A time as the API writes it; `1h` is an hour before `now`.
pub(in crate::cli) fn ago(text: &str, now: Timestamp) -> String {
    from_now(text, |length| Timestamp(now.0.saturating_sub(length.0)))
}

/// What is no length of time is left to the server to read.
fn from_now(text: &str, at: impl FnOnce(Millis) -> Timestamp) -> String {
    match humantime::parse_duration(text) {
        Ok(length) => at(length.into()).to_string(),
        Err(_) => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_of_time_counts_from_now() {
        let now: Timestamp = "2026-01-15T12:00:00Z".parse().unwrap();
        let check = |text: &str, want: &str| assert_eq!(ago(text, now), want, "{text}");
        check("1h", "2026-01-15T11:00:00.000Z");
        check("2d 30m", "2026-01-13T11:30:00.000Z");
        check("2026-01-14T00:00:00Z", "2026-01-14T00:00:00Z");
        check("yesterday", "yesterday");
        check("10000y", "1970-01-01T00:00:00.000Z");
        assert_eq!(from_now("1h", |length| now.plus(length)), "2026-01-15T13:00:00.000Z");
    }
}
