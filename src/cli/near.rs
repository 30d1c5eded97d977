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

async fn hint(client: &Client, name: &str) -> Option<String> {
    let query = [("limit", "1000".to_owned())];
    let request = client.request_with(reqwest::Method::GET, &["v1", "destinations"], &query);
    let answer = client.answer(request).await.ok()?;
    let page: Page<Destination> = client.read(&answer.text).ok()?;
    let near = near::of(name, page.data.iter().filter_map(|one| one.id.as_deref()));
    (!near.is_empty()).then(|| near::question(&near))
}
