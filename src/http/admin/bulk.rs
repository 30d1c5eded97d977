//! Bulk jobs: one order for all deliveries that a filter names.
//!
//! What is counted here is counted in short reads; what is changed is changed by the job.

mod filter;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{StatusCode, Uri, header};

use self::filter::read_filter;
use crate::engine::command::{CommandError, Done, Expect};
use crate::engine::jobs::{JobOrder, NewJob};
use crate::http::admin::deliveries::{another_answer, limit};
use crate::http::admin::{command_body, no_body};
use crate::http::app::{Answered, App, Id, answer, ok, with};
use crate::http::auth::{Caller, tenant_not_allowed};
use crate::http::dto::List;
use crate::http::dto::job::{CountObject, JobObject, job_location};
use crate::http::error::{Code, Problem};
use crate::http::fields::Fields;
use crate::http::query::{self, Query, word};
use crate::model::{BulkAction, DeliveryId, JobId, Name};
use crate::store::{Filter, Job};

/// A count that takes longer goes on as a job (API.md).
pub(in crate::http) const COUNT_PATIENCE: Duration = Duration::from_secs(10);
/// Deliveries that one read finds at most when it only counts.
const COUNT_IDS: usize = usize::MAX;
/// The fastest pace that is one: nothing here does more.
pub(in crate::http) const MAX_RATE: u64 = 100_000;

/// What is ordered.
#[derive(Debug, PartialEq, Eq)]
pub struct Ordered {
    pub action: BulkAction,
    pub filter: Filter,
    pub dry_run: bool,
    pub expected_count: Option<u64>,
    pub rate_per_second: Option<u32>,
}

/// `POST /v1/bulk`.
pub async fn start(State(app): State<Arc<App>>, caller: Caller, request: Request) -> Answered {
    let (_, text) = command_body(&app, request).await?;
    let mut ordered = read(&text)?;
    ordered.filter.tenants = own(&caller, ordered.filter.tenants)?;
    let search = Job::search(ordered.action, ordered.filter.clone(), app.handle.now());
    if ordered.dry_run {
        let counted = tokio::time::timeout(app.count_patience, count(&app, search)).await;
        let Ok(counted) = counted else { return begin(&app, &caller, ordered).await };
        let counted = counted?;
        expected(&ordered, counted)?;
        return Ok(ok(&CountObject { count: counted }));
    }
    if ordered.expected_count.is_some() {
        expected(&ordered, count(&app, search).await?)?;
    }
    begin(&app, &caller, ordered).await
}

/// The tenants that are named; none: all that the caller may change.
fn own(caller: &Caller, named: Vec<Name>) -> Result<Vec<Name>, Problem> {
    named.iter().try_for_each(|tenant| caller.may_change(tenant))?;
    Ok(caller.among(named))
}

/// How many deliveries a job would take now.
async fn count(app: &App, search: Job) -> Result<u64, Problem> {
    let search = Arc::new(search);
    let (mut counted, mut come): (u64, Option<DeliveryId>) = (0, None);
    loop {
        let job = Arc::clone(&search);
        let turns = app.read(move |file, stop| file.find(&job, come, COUNT_IDS, stop)).await?;
        counted += turns.ids.len() as u64;
        if turns.end {
            return Ok(counted);
        }
        come = turns.come;
    }
}

/// 409 when it is not what was expected.
fn expected(ordered: &Ordered, counted: u64) -> Result<(), Problem> {
    match ordered.expected_count {
        Some(expected) if expected != counted => {
            let detail =
                format!("{counted} deliveries match, and {expected} were expected; nothing was changed");
            Err(Problem::new(Code::CountChanged, detail).at("expected_count"))
        }
        Some(_) | None => Ok(()),
    }
}

async fn begin(app: &App, caller: &Caller, ordered: Ordered) -> Answered {
    let Ordered { action, filter, dry_run, expected_count: _, rate_per_second } = ordered;
    let by = caller.by().to_owned();
    accepted(app, caller, JobOrder::Start(Box::new(NewJob { action, filter, dry_run, rate_per_second, by })))
        .await
}

/// Begins the job that cancels a destination's work and deletes it then.
///
/// # Errors
/// What the engine refuses, or 503 when it cannot take it now.
pub(super) async fn remove(app: &App, name: Name, expect: Expect, caller: &Caller) -> Answered {
    accepted(app, caller, JobOrder::Remove { name, expect, by: caller.by().to_owned() }).await
}

/// 202 with the job that has begun.
async fn accepted(app: &App, caller: &Caller, order: JobOrder) -> Answered {
    let job = done(app, caller, order).await?;
    let (id, action, by) = (job.id, job.action.as_str(), job.by.as_str());
    tracing::info!(job = %id, action, by, dry_run = job.dry_run, "bulk job begun");
    let response = answer(StatusCode::ACCEPTED, &JobObject::of(&job));
    Ok(with(response, header::LOCATION, &job_location(id)))
}

async fn done(app: &App, caller: &Caller, order: JobOrder) -> Result<Box<Job>, Problem> {
    match app.handle.order_job(caller.orders(order)).await?? {
        Done::Job(job) => Ok(job),
        Done::Created(_)
        | Done::Changed(_)
        | Done::Deleted
        | Done::Delivery(_)
        | Done::ImportBegun
        | Done::Imported(_)
        | Done::Configured
        | Done::Noted => Err(another_answer()),
    }
}

/// `GET /v1/bulk`: the newest first.
pub async fn list(State(app): State<Arc<App>>, caller: Caller, uri: Uri) -> Answered {
    let mut asked = Query::of(&uri);
    let (before, limit) = (asked.parsed::<JobId>("cursor"), limit(&mut asked));
    asked.finish()?;
    let mut jobs = app.read(|file, _| file.jobs()).await?;
    jobs.retain(|job| sees(&caller, job) && before.is_none_or(|before| job.id < before));
    jobs.reverse();
    let more = jobs.len() > limit;
    jobs.truncate(limit);
    let next_cursor = jobs.last().filter(|_| more).map(|last| last.id.to_string());
    Ok(ok(&List { data: jobs.iter().map(JobObject::of).collect(), next_cursor }))
}

/// `GET /v1/bulk/{id}`.
pub async fn one(State(app): State<Arc<App>>, Id(id): Id, caller: Caller, uri: Uri) -> Answered {
    query::none(&uri)?;
    let job = find(&app, &id).await?.filter(|job| sees(&caller, job)).ok_or(CommandError::JobUnknown)?;
    Ok(ok(&JobObject::of(&job)))
}

/// `DELETE /v1/bulk/{id}`: it goes no further. What it has done stays done.
pub async fn stop(State(app): State<Arc<App>>, Id(id): Id, caller: Caller, request: Request) -> Answered {
    no_body(&app, request).await?;
    let job = find(&app, &id).await?.ok_or(CommandError::JobUnknown)?;
    if !sees(&caller, &job) {
        return Err(tenant_not_allowed());
    }
    let job = done(&app, &caller, JobOrder::Stop { id: job.id }).await?;
    Ok(ok(&JobObject::of(&job)))
}

async fn find(app: &App, id: &str) -> Result<Option<Job>, Problem> {
    let Ok(id) = id.parse::<JobId>() else { return Ok(None) };
    app.read(move |file, _| file.job(id)).await
}

/// A job is the business of whoever may deal with every tenant that it is about.
fn sees(caller: &Caller, job: &Job) -> bool {
    let about = &job.filter.tenants;
    caller.tenants().is_none() || (!about.is_empty() && about.iter().all(|tenant| caller.sees(tenant)))
}

/// Reads an order; an empty filter is none.
///
/// # Errors
/// 400 when it is not an object, 422 naming every field at fault.
pub fn read(text: &[u8]) -> Result<Ordered, Problem> {
    let mut fields = Fields::read(text)?;
    let action = action(&mut fields);
    let filter = read_filter(&mut fields);
    let dry_run = flag(&mut fields, "dry_run");
    let expected_count = fields.integer("expected_count", 0..=u64::MAX);
    let rate = fields.integer("rate_per_second", 1..=MAX_RATE);
    fields.finish(&[])?;
    let (Some(action), Some(filter)) = (action, filter) else {
        return Err(Problem::field("action", "required"));
    };
    let rate_per_second = rate.and_then(|rate| u32::try_from(rate).ok());
    Ok(Ordered { action, filter, dry_run, expected_count, rate_per_second })
}

fn action(fields: &mut Fields<'_>) -> Option<BulkAction> {
    match fields.text("action") {
        Some(text) => match word(&BulkAction::ALL, BulkAction::as_str)(&text) {
            Ok(action) => Some(action),
            Err(detail) => fields.refuse("action", detail),
        },
        None => {
            if !fields.is_at_fault("action") {
                fields.missing("action");
            }
            None
        }
    }
}

fn flag(fields: &mut Fields<'_>, name: &'static str) -> bool {
    let Some(value) = fields.given(name) else { return false };
    serde_json::from_str(value.get()).unwrap_or_else(|_| {
        fields.fault(name, "must be true or false");
        false
    })
}

#[cfg(test)]
#[path = "bulk/tests.rs"]
mod tests;
