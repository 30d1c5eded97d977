//! Deliveries of a producer whose token is pinned to tenants: for others it may hand over nothing.

use std::collections::BTreeMap;

use crate::engine::command::Rejected;
use crate::http::app::App;
use crate::http::auth::{Caller, tenant_not_allowed};
use crate::http::error::Problem;
use crate::model::{DestinationState, Name, NewDelivery};

/// Each delivery under the tenant that it will have, or why it is not taken. Who is not pinned is
/// not looked at.
///
/// # Errors
/// 503 when the file cannot be read now.
pub(super) async fn admit(
    app: &App,
    caller: &Caller,
    read: Vec<Result<NewDelivery, Problem>>,
) -> Result<Vec<Result<NewDelivery, Problem>>, Problem> {
    if caller.tenants().is_none() {
        return Ok(read);
    }
    let unsaid = |item: &Result<NewDelivery, Problem>| {
        item.as_ref().ok().filter(|new| new.tenant.is_none()).map(|new| new.destination.clone())
    };
    let owners = owners(app, read.iter().filter_map(unsaid).collect()).await?;
    Ok(read.into_iter().map(|item| item.and_then(|new| admit_one(caller, &owners, new))).collect())
}

/// The tenant that is named now is what the engine checks again: a destination that changes hands
/// meanwhile is then unknown.
fn admit_one(
    caller: &Caller,
    owners: &BTreeMap<Name, Name>,
    mut new: NewDelivery,
) -> Result<NewDelivery, Problem> {
    let tenant = match (&new.tenant, owners.get(&new.destination)) {
        (Some(tenant), _) | (None, Some(tenant)) => tenant.clone(),
        (None, None) => return Err(Rejected::DestinationUnknown.into()),
    };
    if !caller.sees(&tenant) {
        return Err(tenant_not_allowed());
    }
    new.tenant = Some(tenant);
    Ok(new)
}

async fn owners(app: &App, mut names: Vec<Name>) -> Result<BTreeMap<Name, Name>, Problem> {
    names.sort();
    names.dedup();
    if names.is_empty() {
        return Ok(BTreeMap::new());
    }
    app.read(move |file, _| {
        let mut owners = BTreeMap::new();
        for name in names {
            let found = file.destination(&name)?.filter(|it| it.note.state != DestinationState::Deleted);
            owners.extend(found.map(|it| (name, it.settings.tenant)));
        }
        Ok(owners)
    })
    .await
}
