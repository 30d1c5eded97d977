//! A bulk job, and its filter in the words in which it was given.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, json_schema};
use serde::Serialize;
use serde_json::{Value, json};

use crate::http::dto::{Looks, Text, time};
use crate::http::openapi::{patterns, words};
use crate::model::{JobId, Name};
use crate::outcome::{AttemptResult, Ending};
use crate::store::{Between, Filter, Job, Shown};
use crate::time::Timestamp;

/// How many deliveries a dry run found.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Count")]
pub struct CountObject {
    pub count: u64,
}

impl Looks for JobId {
    fn looks() -> Schema {
        json_schema!({"type": "string", "pattern": patterns::JOB_ID})
    }
}

/// A bulk job.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Job")]
pub struct JobObject<'a> {
    id: Text<JobId>,
    #[schemars(schema_with = "words::bulk_action")]
    action: &'static str,
    filter: BTreeMap<&'static str, Value>,
    /// The destination that is deleted once its work is cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    removes: Option<&'a str>,
    dry_run: bool,
    rate_per_second: Option<u32>,
    #[schemars(schema_with = "words::job_state")]
    state: &'static str,
    matched: u64,
    changed: u64,
    skipped: u64,
    created_at: Text<Timestamp>,
    finished_at: Option<Text<Timestamp>>,
    by: &'a str,
}

impl<'a> JobObject<'a> {
    /// The job as it stands.
    #[must_use]
    pub fn of(it: &'a Job) -> JobObject<'a> {
        JobObject {
            id: Text(it.id),
            action: it.action.as_str(),
            filter: filter(&it.filter),
            removes: it.removes.and(it.filter.destinations.first()).map(Name::as_str),
            dry_run: it.dry_run,
            rate_per_second: it.rate_per_second,
            state: it.state.as_str(),
            matched: it.matched,
            changed: it.changed,
            skipped: it.skipped,
            created_at: Text(it.created_at),
            finished_at: time(it.finished_at),
            by: &it.by,
        }
    }
}

/// Where a job is found.
#[must_use]
pub fn job_location(id: JobId) -> String {
    format!("/v1/bulk/{id}")
}

/// What a filter asks for; it can be given again as it stands.
fn filter(it: &Filter) -> BTreeMap<&'static str, Value> {
    let words = |words: Vec<&str>| (!words.is_empty()).then(|| json!(words));
    let names = |names: &[Name]| words(names.iter().map(Name::as_str).collect());
    let label = it.label.as_ref().map(|(name, value)| json!(format!("{name}:{value}")));
    let statuses = (!it.last_status.is_empty()).then(|| json!(it.last_status));
    let fields = [
        ("state", words(it.states.iter().copied().map(Shown::as_str).collect())),
        ("outcome", words(it.outcomes.iter().copied().map(Ending::as_str).collect())),
        ("tenant", names(&it.tenants)),
        ("destination", names(&it.destinations)),
        ("class", names(&it.classes)),
        ("label", label),
        ("last_status", statuses),
        ("last_result", words(it.last_result.iter().copied().map(AttemptResult::as_str).collect())),
    ];
    let times = [
        between("created_after", "created_before", it.created),
        between("due_after", "due_before", it.due),
        between("finished_after", "finished_before", it.finished),
    ];
    let all = fields.into_iter().chain(times.into_iter().flatten());
    all.filter_map(|(name, value)| Some((name, value?))).collect()
}

fn between(after: &'static str, before: &'static str, it: Between) -> [(&'static str, Option<Value>); 2] {
    let text = |at: Option<Timestamp>| at.map(|at| json!(at.to_string()));
    [(after, text(it.after)), (before, text(it.before))]
}
