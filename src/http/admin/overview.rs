//! Totals and the version.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;

use crate::http::app::{Answered, App, ok};
use crate::http::dto::overview::{StatsObject, VersionObject};
use crate::http::query;

/// `GET /v1/stats`.
pub async fn stats(State(app): State<Arc<App>>, uri: Uri) -> Answered {
    query::none(&uri)?;
    let live = app.handle.live();
    let stopping = app.handle.health().shutting_down;
    Ok(ok(&StatsObject::of(&live, &app.region, stopping, app.handle.now())))
}

/// `GET /v1/version`.
pub async fn version(State(app): State<Arc<App>>, uri: Uri) -> Answered {
    query::none(&uri)?;
    let build = app.build;
    Ok(ok(&VersionObject {
        version: build.version,
        commit: build.commit,
        region: app.region.as_str(),
        format: build.format,
    }))
}
