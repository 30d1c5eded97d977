//! Names that were perhaps meant.

use super::client::Client;
use super::fault::Fault;
use super::wire::{Destination, Page};
use crate::config::near;

/// Adds to a refusal for an unknown destination the names that are close to `name`.
pub(super) async fn suggest(client: &Client, name: &str, fault: Fault) -> Fault {
    let Fault::Problem(mut refusal) = fault else { return fault };
    if matches!(refusal.problem.code.as_str(), "destination_unknown" | "not_found") {
        refusal.hint = hint(client, name).await;
    }
    Fault::Problem(refusal)
}

/// Refuses a filter that names a destination that is not there: nothing matches it, and nobody would
/// know why. Several with commas are all looked up; a token that may not read them is not in the way.
pub(super) async fn named(client: &Client, destinations: Option<&str>) -> Result<(), Fault> {
    for name in destinations.into_iter().flat_map(|names| names.split(',')).map(str::trim) {
        let asked = client.get(&["v1", "destinations", name]).await;
        let Err(Fault::Problem(refusal)) = asked else { continue };
        if refusal.problem.status == 404 {
            return Err(suggest(client, name, Fault::Problem(refusal)).await);
        }
    }
    Ok(())
}

async fn hint(client: &Client, name: &str) -> Option<String> {
    let query = [("limit", "1000".to_owned())];
    let request = client.request_with(reqwest::Method::GET, &["v1", "destinations"], &query);
    let answer = client.answer(request).await.ok()?;
    let page: Page<Destination> = client.read(&answer.text).ok()?;
    if let Some(own) = page.data.iter().find(|one| one.id.as_deref() == Some(name)) {
        let tenant = own.tenant.as_deref().unwrap_or("-");
        return Some(format!(
            "{name} is there, and is tenant {tenant}'s: leave --tenant out, or name that one"
        ));
    }
    let others = page.data.iter().filter_map(|one| one.id.as_deref());
    let near = near::of(name, others);
    (!near.is_empty()).then(|| near::question(&near))
}
