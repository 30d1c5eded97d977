//! Whether the whole server sends: stop, start, and the drain before another takes over.

use std::sync::Arc;

use axum::extract::{Request, State};
use schemars::JsonSchema;
use serde::Serialize;

use crate::engine::command::{ClaimsOrder, ClaimsSet};
use crate::http::admin::{command_body, no_body};
use crate::http::app::{Answered, App, ok};
use crate::http::auth::Caller;
use crate::http::fields::Fields;
use crate::http::openapi::words;
use crate::time::Millis;

/// How long a drain waits for what is in flight unless it says otherwise: the longest lease there
/// can be, a minute to connect, a minute for the attempt and the margin.
const DRAIN_WAIT: Millis = Millis(130_000);
/// And at most: a lease that has not ended by then never will.
pub(in crate::http) const DRAIN_WAIT_MAX: Millis = Millis(600_000);

/// Whether deliveries are claimed.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Claims")]
pub(in crate::http) struct ClaimsObject {
    #[schemars(schema_with = "words::claims")]
    claims: &'static str,
    leases_held: usize,
    /// While the server is drained: what starts it again.
    fence: Option<u64>,
}

/// `POST /v1/claims/stop`.
pub async fn stop(State(app): State<Arc<App>>, caller: Caller, request: Request) -> Answered {
    no_body(&app, request).await?;
    Ok(shown(app.handle.order_claims(caller.orders(ClaimsOrder::Stop)).await??))
}

/// `POST /v1/claims/start`: of a drained server, with the fence of its drain.
pub async fn start(State(app): State<Arc<App>>, caller: Caller, request: Request) -> Answered {
    let (_, text) = command_body(&app, request).await?;
    let mut fields = Fields::read(&text)?;
    let fence = fields.integer("fence", 0..=u64::MAX);
    fields.finish(&[])?;
    Ok(shown(app.handle.order_claims(caller.orders(ClaimsOrder::Start { fence })).await??))
}

/// `POST /v1/drain`: nothing is claimed and nothing new is taken from now on; answered when nothing
/// is in flight, or when the wait is over.
pub async fn drain(State(app): State<Arc<App>>, caller: Caller, request: Request) -> Answered {
    let (_, text) = command_body(&app, request).await?;
    let mut fields = Fields::read(&text)?;
    let wait = fields.integer("wait_ms", 0..=DRAIN_WAIT_MAX.0).map_or(DRAIN_WAIT, Millis);
    fields.finish(&[])?;
    let set = app.handle.order_claims(caller.orders(ClaimsOrder::Drain)).await??;
    tracing::info!(fence = set.fence, in_flight = set.leases_held, "drained, for a hand-over");
    Ok(shown(app.handle.drained(wait).await))
}

fn shown(set: ClaimsSet) -> axum::http::Response<axum::body::Body> {
    let ClaimsSet { claims, leases_held, fence } = set;
    let out = u64::try_from(leases_held).unwrap_or(u64::MAX);
    ok(&ClaimsObject { claims: claims.word(out), leases_held, fence })
}
