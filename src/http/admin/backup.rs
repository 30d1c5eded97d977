//! Copies of the data file: a backup, and the hold for the operator's own copy.

use std::path::PathBuf;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;

use crate::engine::command::Command;
use crate::http::admin::{command_body, no_body};
use crate::http::app::{Answered, App, answer, no_content, ok};
use crate::http::auth::Caller;
use crate::http::dto::Text;
use crate::http::error::Problem;
use crate::http::fields::Fields;
use crate::model::Action;
use crate::store::Copied;
use crate::time::{Millis, Timestamp};

/// Longer paths are no paths (PATH_MAX).
pub(in crate::http) const MAX_PATH: usize = 4_095;

/// A hold lasts so long unless it says otherwise, and at most (API.md).
const HOLD_DEFAULT: Millis = Millis(10_000);
pub(in crate::http) const HOLD_MAX: Millis = Millis(30_000);

/// Until when commits are held back.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "BackupHold")]
pub(in crate::http) struct HoldObject {
    until: Text<Timestamp>,
}

/// A copy that is on disk and was read back.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Backup")]
pub(in crate::http) struct BackupObject<'a> {
    #[schemars(with = "String")]
    path: &'a std::path::Path,
    bytes: u64,
    deliveries: u64,
    damaged: u64,
    took_ms: u64,
}

/// `POST /v1/backup`: answered when the copy is on disk and was read back.
pub async fn copy(State(app): State<Arc<App>>, caller: Caller, request: Request) -> Answered {
    let (_, text) = command_body(&app, request).await?;
    let mut fields = Fields::read(&text)?;
    let path = path(&mut fields);
    fields.finish(&[])?;
    let path = path.ok_or_else(|| Problem::field("path", "required"))?;
    let mut leaves = Leaves { app: &app, caller: &caller, path: Some(path.clone()) };
    let made = app.handle.backup(path).await;
    leaves.path = None;
    let (copied, took) = made?;
    // It is there, whether this can be written or not; a hold is waited for.
    let detail = format!("to {}", copied.path.display());
    if app.handle.note(caller.orders(noted(detail))).await.is_err() {
        tracing::warn!("the backup has no entry in the audit log");
    }
    let Copied { path, bytes, deliveries, damaged } = &copied;
    let (bytes, deliveries, damaged) = (*bytes, *deliveries, *damaged);
    Ok(answer(StatusCode::CREATED, &BackupObject { path, bytes, deliveries, damaged, took_ms: took.0 }))
}

fn noted(detail: String) -> Command {
    Command::Note { action: Action::Backup, object: None, detail }
}

/// Whoever leaves before the backup is made: it goes on, and so its entry says who ordered it.
struct Leaves<'a> {
    app: &'a App,
    caller: &'a Caller,
    /// None: the backup was made, or refused.
    path: Option<PathBuf>,
}

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        if let Some(path) = self.path.take() {
            let detail = format!("to {}; whoever ordered it did not wait for it", path.display());
            self.app.handle.leave(self.caller.orders(noted(detail)));
        }
    }
}

/// `POST /v1/backup/hold`: answered when nothing is being written any more.
pub async fn hold(State(app): State<Arc<App>>, caller: Caller, request: Request) -> Answered {
    let (_, text) = command_body(&app, request).await?;
    let mut fields = Fields::read(&text)?;
    let ttl = fields.integer("ttl_ms", 1..=HOLD_MAX.0).map_or(HOLD_DEFAULT, Millis);
    fields.finish(&[])?;
    let detail = format!("for {ttl}");
    app.handle
        .note(caller.orders(Command::Note { action: Action::BackupHold, object: None, detail }))
        .await?;
    let until = app.handle.hold(ttl).await?;
    Ok(ok(&HoldObject { until: Text(until) }))
}

/// `DELETE /v1/backup/hold`: also when there is none, for a script that ends late. It waits for no hold.
pub async fn release(State(app): State<Arc<App>>, caller: Caller, request: Request) -> Answered {
    no_body(&app, request).await?;
    if app.handle.release() {
        let detail = String::new();
        app.handle
            .note(caller.orders(Command::Note { action: Action::BackupRelease, object: None, detail }))
            .await?;
    } else {
        tracing::debug!("there was no hold to end");
    }
    Ok(no_content())
}

/// An absolute path: the client's folder is not the server's.
fn path(fields: &mut Fields<'_>) -> Option<PathBuf> {
    let Some(text) = fields.text("path") else {
        if !fields.is_at_fault("path") {
            fields.missing("path");
        }
        return None;
    };
    let path = PathBuf::from(text.as_ref());
    let good =
        path.is_absolute() && path.file_name().is_some() && text.len() <= MAX_PATH && !text.contains('\0');
    if good {
        return Some(path);
    }
    fields.fault("path", "must be the absolute path of a file on the server's machine");
    None
}
