//! The admin routes: destinations, deliveries, totals, and the status page.

pub mod audit;
pub mod backup;
pub mod bulk;
pub mod claims;
pub mod config;
pub mod deliveries;
pub mod destinations;
pub mod export;
pub mod import;
pub mod input;
pub mod keys;
pub mod overview;

use axum::body::Body;
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::routing::{delete, get, post, put};
use bytes::Bytes;

use crate::engine::command::{Command, Done};
use crate::http::app::App;
use crate::http::auth::Caller;
use crate::http::body::{self, Json};
use crate::http::error::Problem;
use crate::http::fields::Fields;
use crate::http::routes::Routes;
use crate::http::{ingest, query, status};
use crate::model::destination::MAX_REASON;

/// What stands in place of an absent body.
const EMPTY_OBJECT: Bytes = Bytes::from_static(b"{}");

/// All routes that only the admin listener has.
#[must_use]
pub fn routes() -> Routes {
    Routes::new()
        .route("/", get(status::page))
        .route("/v1/version", get(overview::version))
        .route("/v1/stats", get(overview::stats))
        .route("/v1/stats/tenants", get(overview::tenants))
        .route("/v1/stats/destinations", get(overview::destinations))
        .route("/v1/deliveries", get(deliveries::list).post(ingest::one))
        .route("/v1/deliveries/{id}/attempts", get(deliveries::attempts))
        .route("/v1/deliveries/{id}/explain", get(deliveries::explained))
        .route("/v1/deliveries/{id}/retry", post(deliveries::retry))
        .route("/v1/deliveries/{id}/cancel", post(deliveries::cancel))
        .route("/v1/deliveries/{id}/payload", delete(deliveries::erase))
        .route("/v1/audit", get(audit::list))
        .route("/v1/config", get(config::show))
        .route("/v1/config/reload", post(config::reload))
        .route("/v1/claims/stop", post(claims::stop))
        .route("/v1/claims/start", post(claims::start))
        .route("/v1/drain", post(claims::drain))
        .route("/v1/export", get(export::export))
        .route("/v1/import", post(import::import))
        .route("/v1/backup", post(backup::copy))
        .route("/v1/backup/hold", post(backup::hold).delete(backup::release))
        .route("/v1/bulk", get(bulk::list).post(bulk::start))
        .route("/v1/bulk/{id}", get(bulk::one).delete(bulk::stop))
        .merge(destination_routes())
}

fn destination_routes() -> Routes {
    let one =
        put(destinations::put).get(destinations::get).patch(destinations::patch).delete(destinations::delete);
    Routes::new()
        .route("/v1/destinations", get(destinations::list))
        .route("/v1/destinations/{id}", one)
        .route("/v1/destinations/{id}/secrets/rotate", post(keys::rotate))
        .route("/v1/destinations/{id}/test", post(keys::test))
        .route("/v1/destinations/{id}/pause", post(destinations::pause))
        .route("/v1/destinations/{id}/resume", post(destinations::resume))
        .route("/v1/destinations/{id}/enable", post(destinations::enable))
        .route("/v1/destinations/{id}/disable", post(destinations::disable))
        .route("/v1/destinations/{id}/hold", put(destinations::hold).delete(destinations::release))
}

/// Gives an order to the engine.
///
/// # Errors
/// What the engine refuses, or 503 when it cannot take it now.
async fn order(app: &App, caller: &Caller, command: Command) -> Result<Done, Problem> {
    Ok(app.handle.command(caller.orders(command)).await??)
}

/// The head and the JSON body of a command; an absent body is `{}`.
///
/// # Errors
/// 400, 408, 413, 415 or 422.
async fn command_body(app: &App, request: Request) -> Result<(HeaderMap, Bytes), Problem> {
    let (parts, body) = request.into_parts();
    query::none(&parts.uri)?;
    let text = json_or_absent(app, &parts.headers, body).await?;
    Ok((parts.headers, text))
}

async fn json_or_absent(app: &App, headers: &HeaderMap, body: Body) -> Result<Bytes, Problem> {
    let text = body::read(headers, body, app.document_bound()).await?;
    if text.is_empty() {
        return Ok(EMPTY_OBJECT);
    }
    match body::json_kind(headers)? {
        Json::Text => Ok(text),
        Json::Lines => Err(body::not_json()),
    }
}

/// The command takes nothing: its body is absent or `{}`.
///
/// # Errors
/// 422 naming what it has.
async fn no_body(app: &App, request: Request) -> Result<(), Problem> {
    let (_, text) = command_body(app, request).await?;
    Fields::read(&text)?.finish(&[])
}

/// Takes the reason an operator gives; none is an empty one.
fn reason(fields: &mut Fields<'_>) -> String {
    let given = fields.text("reason").unwrap_or_default();
    if given.len() > MAX_REASON || given.chars().any(char::is_control) {
        fields.fault("reason", "must be one line of at most 200 bytes");
    }
    given.into_owned()
}
