//! Version 1 of a bulk job's record.

use bincode::{BorrowDecode, Encode};

use super::{Damaged, code, coded, seal, unseal};
use crate::model::{BulkAction, DeliveryId, DestNo, JobId, JobState, Name};
use crate::outcome::{AttemptResult, Ending};
use crate::store::{Between, Filter, Job, Shown};
use crate::time::Timestamp;

#[derive(Encode, BorrowDecode)]
struct JobV1<'a> {
    action: u8,
    filter: FilterV1<'a>,
    removes: Option<u32>,
    dry_run: bool,
    rate: Option<u32>,
    state: u8,
    come: Option<u128>,
    matched: u64,
    changed: u64,
    skipped: u64,
    created_at: u64,
    step: u64,
    finished_at: Option<u64>,
    by: &'a str,
}

#[derive(Encode, BorrowDecode)]
struct FilterV1<'a> {
    states: Vec<u8>,
    outcomes: Vec<u8>,
    tenants: Vec<&'a str>,
    destinations: Vec<&'a str>,
    classes: Vec<&'a str>,
    label: Option<(&'a str, &'a str)>,
    last_status: Vec<u16>,
    last_result: Vec<u8>,
    created: (Option<u64>, Option<u64>),
    due: (Option<u64>, Option<u64>),
    finished: (Option<u64>, Option<u64>),
}

/// The value stored for a job.
pub(crate) fn encode_job(it: &Job) -> Vec<u8> {
    let row = JobV1 {
        action: code(&BulkAction::ALL, &it.action),
        filter: FilterV1::of(&it.filter),
        removes: it.removes.map(|no| no.0),
        dry_run: it.dry_run,
        rate: it.rate_per_second,
        state: code(&JobState::ALL, &it.state),
        come: it.come.map(|id| id.0),
        matched: it.matched,
        changed: it.changed,
        skipped: it.skipped,
        created_at: it.created_at.0,
        step: it.step,
        finished_at: it.finished_at.map(|at| at.0),
        by: &it.by,
    };
    seal(&it.id.0.to_be_bytes(), &row)
}

/// The job stored under `id`.
pub(crate) fn decode_job(id: JobId, value: &[u8]) -> Result<Job, Damaged> {
    let row = unseal::<JobV1<'_>>(&id.0.to_be_bytes(), value)?;
    Ok(Job {
        id,
        action: coded(&BulkAction::ALL, row.action)?,
        filter: row.filter.into_filter()?,
        removes: row.removes.map(DestNo),
        dry_run: row.dry_run,
        rate_per_second: row.rate,
        state: coded(&JobState::ALL, row.state)?,
        come: row.come.map(DeliveryId),
        matched: row.matched,
        changed: row.changed,
        skipped: row.skipped,
        created_at: Timestamp(row.created_at),
        step: row.step,
        finished_at: row.finished_at.map(Timestamp),
        by: row.by.to_owned(),
    })
}

impl<'a> FilterV1<'a> {
    fn of(it: &'a Filter) -> FilterV1<'a> {
        FilterV1 {
            states: codes(&Shown::ALL, &it.states),
            outcomes: codes(&Ending::ALL, &it.outcomes),
            tenants: texts(&it.tenants),
            destinations: texts(&it.destinations),
            classes: texts(&it.classes),
            label: it.label.as_ref().map(|(name, value)| (name.as_str(), value.as_str())),
            last_status: it.last_status.clone(),
            last_result: codes(&AttemptResult::ALL, &it.last_result),
            created: times(it.created),
            due: times(it.due),
            finished: times(it.finished),
        }
    }

    fn into_filter(self) -> Result<Filter, Damaged> {
        Ok(Filter {
            states: all_coded(&Shown::ALL, &self.states)?,
            outcomes: all_coded(&Ending::ALL, &self.outcomes)?,
            tenants: names(&self.tenants)?,
            destinations: names(&self.destinations)?,
            classes: names(&self.classes)?,
            label: self.label.map(|(name, value)| (name.to_owned(), value.to_owned())),
            last_status: self.last_status,
            last_result: all_coded(&AttemptResult::ALL, &self.last_result)?,
            created: between(self.created),
            due: between(self.due),
            finished: between(self.finished),
        })
    }
}

fn codes<T: PartialEq>(all: &[T], given: &[T]) -> Vec<u8> {
    given.iter().map(|one| code(all, one)).collect()
}

fn all_coded<T: Copy>(all: &[T], codes: &[u8]) -> Result<Vec<T>, Damaged> {
    codes.iter().map(|one| coded(all, *one)).collect()
}

fn texts(names: &[Name]) -> Vec<&str> {
    names.iter().map(Name::as_str).collect()
}

fn names(texts: &[&str]) -> Result<Vec<Name>, Damaged> {
    texts.iter().map(|text| text.parse().map_err(|_| Damaged)).collect()
}

fn times(it: Between) -> (Option<u64>, Option<u64>) {
    (it.after.map(|at| at.0), it.before.map(|at| at.0))
}

fn between((after, before): (Option<u64>, Option<u64>)) -> Between {
    Between { after: after.map(Timestamp), before: before.map(Timestamp) }
}
