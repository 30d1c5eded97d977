//! `/healthz`, `/readyz` and `/metrics`: answered from memory, never by a read of the store.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, StatusCode, Uri, header};
use axum::routing::get;

use crate::http::app::{Answered, App, answer, with};
use crate::http::dto::overview::{HealthObject, ReadyObject};
use crate::http::query;
use crate::http::routes::Routes;

/// The media type of the figures.
pub const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The routes of every listener.
#[must_use]
pub fn routes() -> Routes {
    Routes::new().route("/healthz", get(healthz)).route("/readyz", get(readyz))
}

/// The figures for Prometheus.
#[must_use]
pub fn metrics() -> Routes {
    Routes::new().route("/metrics", get(figures))
}

async fn healthz(State(app): State<Arc<App>>, uri: Uri) -> Answered {
    query::none(&uri)?;
    let health = HealthObject::of(app.handle.health());
    Ok(answer(status(health.healthy), &health))
}

async fn readyz(State(app): State<Arc<App>>, uri: Uri) -> Answered {
    query::none(&uri)?;
    let ready = ReadyObject::of(app.handle.health());
    Ok(answer(status(ready.ready), &ready))
}

async fn figures(State(app): State<Arc<App>>, uri: Uri) -> Answered {
    query::none(&uri)?;
    let text = Response::new(Body::from(app.handle.metrics(app.refusals.rows(), app.config.succeeded())));
    Ok(with(text, header::CONTENT_TYPE, OPEN_METRICS))
}

fn status(good: bool) -> StatusCode {
    if good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}
