//! Names that were perhaps meant: of keys and tables, and of whatever else has names.

/// More edits than this, or than one in three letters, and it is another name.
const MAX_EDITS: usize = 2;
/// So many suggestions help; more are a list.
const MAX_SHOWN: usize = 3;

/// The closest of `names`, the closest first.
#[must_use]
pub fn of<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let measured = names.map(|other| (strsim::osa_distance(name, other), other));
    let mut close: Vec<_> = measured
        .filter(|(edits, other)| {
            *edits <= MAX_EDITS.min(name.len() / 3) || (name.len() > 2 && other.starts_with(name))
        })
        .collect();
    close.sort_unstable();
    close.into_iter().take(MAX_SHOWN).map(|(_, other)| other).collect()
}

/// Asks whether one of these was meant.
#[must_use]
pub fn question(near: &[&str]) -> String {
    format!("did you mean {}?", near.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_close() {
        let check = |name: &str, want: &[&str]| {
            let all = ["shop-eu", "shop-us", "shop-eu-archive", "billing"];
            assert_eq!(of(name, all.into_iter()), want, "{name}");
        };
        check("shop-ue", &["shop-eu", "shop-us"]);
        check("shop", &["shop-eu", "shop-us", "shop-eu-archive"]);
        check("biling", &["billing"]);
        check("nothing-like-it", &[]);
        check("shot", &["shop-eu"; 0]);
    }
}
