//! The audit log: who changed what, when.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;
use schemars::JsonSchema;
use serde::Serialize;

use crate::http::admin::deliveries::limit;
use crate::http::app::{Answered, App, ok};
use crate::http::dto::{List, Text};
use crate::http::openapi::words;
use crate::http::query::{Query, word};
use crate::model::{Action, AuditEntry, AuditKey};
use crate::store::{AuditFilter, Between};
use crate::time::Timestamp;

/// Bytes of a name that is asked for: who and what have at most 70.
const MAX_NAME: usize = 100;

/// An entry of the log.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AuditEntry")]
pub(in crate::http) struct EntryObject<'a> {
    at: Text<Timestamp>,
    by: &'a str,
    #[schemars(schema_with = "words::action")]
    action: &'static str,
    /// The name of a destination, the id of a delivery or of a job; null: the whole server.
    object: Option<&'a str>,
    detail: &'a str,
}

impl EntryObject<'_> {
    fn of(it: &AuditEntry) -> EntryObject<'_> {
        let AuditEntry { at, by, action, object, detail } = it;
        EntryObject { at: Text(*at), by, action: action.as_str(), object: object.as_deref(), detail }
    }
}

/// `GET /v1/audit`: the newest first.
pub async fn list(State(app): State<Arc<App>>, uri: Uri) -> Answered {
    let mut asked = Query::of(&uri);
    let filter = AuditFilter {
        by: asked.list("by", name),
        actions: asked.list("action", word(&Action::ALL, Action::as_str)),
        objects: asked.list("object", name),
        at: Between { after: asked.parsed("after"), before: asked.parsed("before") },
    };
    let (from, limit) = (asked.parsed::<AuditKey>("cursor"), limit(&mut asked));
    asked.finish()?;
    let page = app.read(move |file, stop| file.audit(&filter, from, limit, stop)).await?;
    let data = page.items.iter().map(EntryObject::of).collect();
    Ok(ok(&List { data, next_cursor: page.next.map(|next| next.to_string()) }))
}

fn name(text: &str) -> Result<String, String> {
    let good = (1..=MAX_NAME).contains(&text.len());
    if good { Ok(text.to_owned()) } else { Err(format!("must be names of 1 to {MAX_NAME} bytes")) }
}
