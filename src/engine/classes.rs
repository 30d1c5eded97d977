//! Latency classes of one file: the numbers they were given for ever, and what they are set to
//! in this run.

use crate::model::{ClassNo, ClassSettings, MAX_CLASSES, Name};
use crate::store::{StoreError, Writing};

/// A class that has a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Numbered {
    pub(super) settings: ClassSettings,
    /// False: what waits goes on with the least weight, and nothing new is taken into it.
    pub(super) configured: bool,
}

/// Gives every configured class that has no number the next one, in this transaction.
///
/// # Errors
/// [`StoreError::ClassesFull`] when there is no number left: none is ever used again.
pub(super) fn number(
    file: &mut Writing<'_>,
    known: &mut Vec<(Name, ClassNo)>,
    configured: &[ClassSettings],
) -> Result<(), StoreError> {
    for class in configured {
        if known.iter().any(|(name, _)| *name == class.name) {
            continue;
        }
        let next = u8::try_from(known.len()).ok().filter(|next| usize::from(*next) < MAX_CLASSES);
        let no = next.map(ClassNo).ok_or_else(|| StoreError::ClassesFull { class: class.name.clone() })?;
        file.put_class(&class.name, no)?;
        known.push((class.name.clone(), no));
    }
    Ok(())
}

/// A class for which there would be no number left.
pub(super) fn too_many(known: &[(Name, ClassNo)], configured: &[ClassSettings]) -> Option<Name> {
    let is_new = |class: &&ClassSettings| !known.iter().any(|(name, _)| *name == class.name);
    let room = MAX_CLASSES.saturating_sub(known.len());
    configured.iter().filter(is_new).nth(room).map(|class| class.name.clone())
}

/// Every class that has a number, in their order, as it is set now.
pub(super) fn numbered(mut known: Vec<(Name, ClassNo)>, configured: &[ClassSettings]) -> Vec<Numbered> {
    known.sort_by_key(|(_, no)| *no);
    let class = |(name, _)| match configured.iter().find(|class| class.name == name) {
        Some(class) => Numbered { settings: class.clone(), configured: true },
        None => Numbered { settings: ClassSettings::of(name), configured: false },
    };
    known.into_iter().map(class).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Millis;

    #[test]
    fn what_is_no_longer_configured_keeps_its_number_and_the_least_weight() {
        let name = |text: &str| text.parse::<Name>().unwrap();
        let configured = [ClassSettings { weight: 9, window: Millis(700), ..ClassSettings::of(name("b")) }];
        let known = vec![(name("b"), ClassNo(1)), (name("a"), ClassNo(0))];
        let want = [
            Numbered { settings: ClassSettings::of(name("a")), configured: false },
            Numbered { settings: configured[0].clone(), configured: true },
        ];
        assert_eq!(numbered(known, &configured), want);
        assert_eq!((want[0].settings.weight, want[0].settings.window), (1, Millis(300_000)));
    }

    #[test]
    fn the_ninth_name_has_no_number() {
        let class = |n: usize| ClassSettings::of(format!("c{n}").parse().unwrap());
        let check = |known: usize, configured: std::ops::Range<usize>, want: Option<usize>| {
            let known: Vec<_> =
                (0..known).map(|n| (class(n).name, ClassNo(u8::try_from(n).unwrap()))).collect();
            let configured: Vec<_> = configured.map(class).collect();
            assert_eq!(too_many(&known, &configured), want.map(|n| class(n).name), "{known:?}");
        };
        check(8, 0..8, None);
        check(8, 7..9, Some(8));
        check(3, 3..8, None);
        check(3, 3..9, Some(8));
        check(0, 0..8, None);
    }
}
