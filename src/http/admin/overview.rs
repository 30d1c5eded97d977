//! Totals, rankings and the version.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;

use crate::engine::command::{Answer, Query as Asked};
use crate::engine::rank::{DestinationOrder, MAX_RANKED, Ranked, Span, TenantOrder};
use crate::http::admin::deliveries::{another_answer, limit};
use crate::http::app::{Answered, App, ok};
use crate::http::auth::Caller;
use crate::http::dto::List;
use crate::http::dto::overview::{DestinationRowObject, StatsObject, TenantRowObject, VersionObject};
use crate::http::query::{self, Query, word};

/// `GET /v1/stats`.
pub async fn stats(State(app): State<Arc<App>>, uri: Uri) -> Answered {
    query::none(&uri)?;
    let live = app.handle.live();
    let claims = app.handle.health().claims;
    Ok(ok(&StatsObject::of(&live, &app.region, claims, app.handle.now())))
}

/// `GET /v1/stats/tenants`.
pub async fn tenants(State(app): State<Arc<App>>, caller: Caller, uri: Uri) -> Answered {
    let mut asked = Query::of(&uri);
    let order = sort(&mut asked, &TenantOrder::ALL, TenantOrder::as_str).unwrap_or(TenantOrder::Waiting);
    let span = span(&mut asked);
    asked.finish()?;
    match app.handle.query(Asked::Tenants(order, span, caller.seen())).await? {
        Answer::Tenants(Ranked { rows, next }) => {
            Ok(ok(&page(rows.iter().map(TenantRowObject::of).collect(), next)))
        }
        Answer::Gates(_) | Answer::Standing { .. } | Answer::Destinations(_) => Err(another_answer()),
    }
}

/// `GET /v1/stats/destinations`.
pub async fn destinations(State(app): State<Arc<App>>, caller: Caller, uri: Uri) -> Answered {
    let mut asked = Query::of(&uri);
    let order = sort(&mut asked, &DestinationOrder::ALL, DestinationOrder::as_str);
    let (order, span) = (order.unwrap_or(DestinationOrder::Held), span(&mut asked));
    asked.finish()?;
    let now = app.handle.now();
    match app.handle.query(Asked::Destinations(order, span, caller.seen())).await? {
        Answer::Destinations(Ranked { rows, next }) => {
            Ok(ok(&page(rows.iter().map(|row| DestinationRowObject::of(row, now)).collect(), next)))
        }
        Answer::Gates(_) | Answer::Standing { .. } | Answer::Tenants(_) => Err(another_answer()),
    }
}

fn sort<T: Copy>(asked: &mut Query, all: &[T], name: fn(T) -> &'static str) -> Option<T> {
    let text = asked.text("sort")?;
    word(all, name)(&text).map_err(|detail| asked.fault("sort", detail)).ok()
}

/// The rows asked for. A cursor is a place in the ranking: who has moved between two pages may
/// come twice or not at all.
fn span(asked: &mut Query) -> Span {
    let most = u64::try_from(MAX_RANKED).unwrap_or(u64::MAX);
    let from = asked.integer("cursor", 1..=most).unwrap_or(0);
    Span { from: usize::try_from(from).unwrap_or(usize::MAX), rows: limit(asked) }
}

fn page<T>(data: Vec<T>, next: Option<usize>) -> List<T> {
    List { data, next_cursor: next.map(|next| next.to_string()) }
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
