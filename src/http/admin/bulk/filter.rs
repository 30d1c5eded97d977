//! The filter of an order, in the words of the list. Each field has its JSON type: numbers are
//! numbers, several values are an array, and a comma in a text is a comma.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::http::admin::deliveries::{STATES, read_label, read_status};
use crate::http::fields::{Fields, read_text};
use crate::http::query::{MAX_VALUES, value, word};
use crate::outcome::{AttemptResult, Ending};
use crate::store::{Between, Filter, Shown};

/// What is wrong with null and an empty list.
const NOTHING: &str = "names nothing: leave it out, or name something";

/// Takes the filter; none when something of it is at fault, or it would take every delivery.
pub(super) fn read_filter(fields: &mut Fields<'_>) -> Option<Filter> {
    let Some(given) = fields.given("filter") else {
        fields.missing("filter");
        return None;
    };
    let Ok(mut named) = Fields::read(given.get().as_bytes()) else {
        return fields.refuse("filter", "must be an object");
    };
    let filter = taken(&mut named);
    match named.finish(&[]) {
        Ok(()) if filter == Filter::default() => {
            fields.refuse("filter", "must name something: an empty one would take every delivery")
        }
        Ok(()) => Some(filter),
        Err(problem) => {
            for one in problem.errors {
                fields.fault(format!("filter.{}", one.field), one.detail);
            }
            None
        }
    }
}

fn taken(named: &mut Fields<'_>) -> Filter {
    Filter {
        states: words(named, "state", word(&STATES, Shown::as_str)),
        outcomes: words(named, "outcome", word(&Ending::ALL, Ending::as_str)),
        tenants: words(named, "tenant", value),
        destinations: words(named, "destination", value),
        classes: words(named, "class", value),
        label: single(named, "label", read_label),
        last_status: several(named, "last_status", status),
        last_result: words(named, "last_result", word(&AttemptResult::ALL, AttemptResult::as_str)),
        created: between(named, "created_after", "created_before"),
        due: between(named, "due_after", "due_before"),
        finished: between(named, "finished_after", "finished_before"),
    }
}

/// Takes texts: one, or an array of them.
fn words<T>(named: &mut Fields<'_>, name: &'static str, read: impl Fn(&str) -> Result<T, String>) -> Vec<T> {
    several(named, name, |value| read(&text(value, "must be a string or a list of strings")?))
}

fn several<T>(
    named: &mut Fields<'_>,
    name: &'static str,
    read: impl Fn(&RawValue) -> Result<T, String>,
) -> Vec<T> {
    let Some(value) = named.raw(name) else { return Vec::new() };
    values(value, read).unwrap_or_else(|detail| {
        named.fault(name, detail);
        Vec::new()
    })
}

/// One value, or those of an array. Null and an empty array are refused: a script that found nothing
/// would otherwise change everything.
fn values<T>(value: &RawValue, read: impl Fn(&RawValue) -> Result<T, String>) -> Result<Vec<T>, String> {
    if value.get() == "null" {
        return Err(NOTHING.to_owned());
    }
    let Ok(list) = serde_json::from_str::<Vec<&RawValue>>(value.get()) else { return Ok(vec![read(value)?]) };
    match list.len() {
        0 => Err(NOTHING.to_owned()),
        1..=MAX_VALUES => list.into_iter().map(read).collect(),
        _ => Err(format!("at most {MAX_VALUES} values")),
    }
}

fn single<T>(
    named: &mut Fields<'_>,
    name: &'static str,
    read: impl Fn(&str) -> Result<T, String>,
) -> Option<T> {
    let value = named.raw(name)?;
    let read = match value.get() {
        "null" => Err(NOTHING.to_owned()),
        _ => text(value, "must be one string").and_then(|text| read(&text)),
    };
    read.map_err(|detail| named.fault(name, detail)).ok()
}

fn text<'a>(value: &'a RawValue, wrong: &str) -> Result<Cow<'a, str>, String> {
    read_text(value).ok_or_else(|| wrong.to_owned())
}

/// A number, never the text of one.
fn status(value: &RawValue) -> Result<u16, String> {
    read_status(value.get())
}

fn between(named: &mut Fields<'_>, after: &'static str, before: &'static str) -> Between {
    Between { after: single(named, after, value), before: single(named, before, value) }
}
