//! A pinned token and the things of one tenant: what is another's is not there for who reads, and
//! not allowed for who writes. What concerns the whole server is nobody's who is pinned.

use axum::extract::RawPathParams;
use axum::http::Method;

use super::tenant_not_allowed;
use crate::http::app::App;
use crate::http::error::{Code, Problem};
use crate::model::{DeliveryId, DestinationState, Name};

/// Orders and reads that are about every tenant at once.
const WHOLE: [&str; 12] = [
    "/v1/claims/stop",
    "/v1/claims/start",
    "/v1/drain",
    "/v1/export",
    "/v1/import",
    "/v1/backup",
    "/v1/backup/hold",
    "/v1/config",
    "/v1/config/reload",
    "/v1/audit",
    "/metrics",
    "/v1/stats",
];

/// True for what is about every tenant at once: nobody's who is pinned.
#[must_use]
pub fn is_of_all_tenants(route: &str) -> bool {
    WHOLE.contains(&route)
}

/// Whether someone pinned to `own` may go on to this route.
///
/// # Errors
/// 403 or 404 as API.md has it; 503 when the file cannot be read now.
pub(super) async fn check(
    app: &App,
    own: &[Name],
    method: &Method,
    route: &str,
    params: &RawPathParams,
) -> Result<(), Problem> {
    if is_of_all_tenants(route) {
        return Err(tenant_not_allowed().closing());
    }
    let id = params.iter().find(|(name, _)| *name == "id").map(|(_, id)| id);
    let Some(tenant) = owner(app, route, id).await? else { return Ok(()) };
    match (own.contains(&tenant), method == Method::GET || method == Method::HEAD) {
        (true, _) => Ok(()),
        // The connection stays open, as it does for what is not there.
        (false, true) => Err(not_there(route)),
        (false, false) => Err(tenant_not_allowed().closing()),
    }
}

/// Whose the thing is that the path names; None where it names nothing, which the route will say.
async fn owner(app: &App, route: &str, id: Option<&str>) -> Result<Option<Name>, Problem> {
    let Some(id) = id else { return Ok(None) };
    if route.starts_with("/v1/destinations/") {
        let Ok(name) = id.parse::<Name>() else { return Ok(None) };
        let found = app.read(move |file, _| file.destination(&name)).await?;
        let living = found.filter(|view| view.note.state != DestinationState::Deleted);
        return Ok(living.map(|view| view.settings.tenant));
    }
    if route.starts_with("/v1/deliveries/") {
        let Ok(id) = id.parse::<DeliveryId>() else { return Ok(None) };
        let found = app.read(move |file, _| file.delivery(id)).await?;
        return Ok(found.map(|view| view.tenant));
    }
    Ok(None)
}

/// The words of the route itself, so that nothing tells a thing of another from none.
fn not_there(route: &str) -> Problem {
    let what = if route.starts_with("/v1/destinations/") {
        "destination of this name"
    } else {
        "delivery of this id"
    };
    Problem::new(Code::NotFound, format!("there is no {what}"))
}
