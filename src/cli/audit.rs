//! `audit`: who changed what.

use reqwest::Method;
use serde::Deserialize;

use super::args::bulk::ago;
use super::args::settings::Audit;
use super::client::Client;
use super::fault::Fault;
use super::list::{Column, List, column, named};
use super::output::{Output, write};
use super::wire::RawPage;
use crate::time::Timestamp;

/// The most that a page may have (API.md).
const PAGE: u64 = 1000;
/// What a list of entries shows.
pub(super) const COLUMNS: [Column; 5] =
    [column("when", 0), named("by", 3), column("action", 0), named("object", 1), named("detail", 2)];

/// An entry, as far as it is shown.
#[derive(Debug, Deserialize)]
struct Entry {
    at: String,
    by: String,
    action: String,
    object: Option<String>,
    detail: String,
}

/// Lists entries, page after page, until the limit or the end.
pub(super) async fn list(client: &Client, output: &Output, asked: &Audit) -> Result<(), Fault> {
    let mut left = if asked.all { u64::MAX } else { asked.limit };
    let mut cursor = None;
    let mut shown = List::of(&COLUMNS);
    while left > 0 {
        let mut query = query(asked, output.now);
        query.push(("limit", left.min(PAGE).to_string()));
        query.extend(cursor.take().map(|cursor| ("cursor", cursor)));
        let request = client.request_with(Method::GET, &["v1", "audit"], &query);
        let page: RawPage = client.read(&client.answer(request).await?.text)?;
        left = left.saturating_sub(page.data.len() as u64);
        for item in &page.data {
            if output.json {
                write(item.get())?;
            } else {
                shown.add_row(row(output, client.read(item.get())?));
            }
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    finish(output, &shown, cursor.is_some())
}

fn finish(output: &Output, shown: &List, more: bool) -> Result<(), Fault> {
    match (output.json, shown.is_empty()) {
        (true, _) => Ok(()),
        (false, true) => write("no entries"),
        (false, false) => {
            write(&shown.printed())?;
            if more { write("there are more: --limit N or --all") } else { Ok(()) }
        }
    }
}

fn query(asked: &Audit, now: Timestamp) -> Vec<(&'static str, String)> {
    let given = [
        ("by", asked.by.clone()),
        ("action", asked.action.clone()),
        ("object", asked.object.clone()),
        ("after", asked.after.as_deref().map(|time| ago(time, now))),
        ("before", asked.before.as_deref().map(|time| ago(time, now))),
    ];
    given.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

fn row(output: &Output, it: Entry) -> [String; 5] {
    [output.when(Some(&it.at)), it.by, it.action, it.object.unwrap_or_else(|| "-".to_owned()), it.detail]
}
