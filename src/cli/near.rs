//! Names that were perhaps meant.

use super::client::Client;
use super::fault::Fault;
use super::wire::{Destination, Page};

/// More edits than this, or than one in three letters, and it is another name.
const MAX_EDITS: usize = 2;
/// So many suggestions help; more are a list.
const MAX_SHOWN: usize = 3;

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
    let near = near(name, page.data.iter().filter_map(|one| one.id.as_deref()));
    (!near.is_empty()).then(|| format!("did you mean {}?", near.join(" or ")))
}

/// The closest of `names`, the closest first.
fn near<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let measured = names.map(|other| (strsim::osa_distance(name, other), other));
    let mut close: Vec<_> = measured
        .filter(|(edits, other)| {
            *edits <= MAX_EDITS.min(name.len() / 3) || (name.len() > 2 && other.starts_with(name))
        })
        .collect();
    close.sort_unstable();
    close.into_iter().take(MAX_SHOWN).map(|(_, other)| other).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_close() {
        let check = |name: &str, want: &[&str]| {
            let all = ["shop-eu", "shop-us", "shop-eu-archive", "billing"];
            assert_eq!(near(name, all.into_iter()), want, "{name}");
        };
        check("shop-ue", &["shop-eu", "shop-us"]);
        check("shop", &["shop-eu", "shop-us", "shop-eu-archive"]);
        check("biling", &["billing"]);
        check("nothing-like-it", &[]);
        check("shot", &["shop-eu"; 0]);
    }
}
