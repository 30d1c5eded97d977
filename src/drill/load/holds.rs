//! What the requests of one destination, in order, say about how its holds were kept.

use std::time::Duration;

use super::witness::Seen;

/// Requests that a receiver may still see after its refusal: they had left, or were about to,
/// when the sender read it. Generous, so that a busy machine is not taken for a broken promise.
const UNDER_WAY: Duration = Duration::from_millis(250);

/// How the holds of a destination were kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::drill) struct Kept {
    /// Holds that began.
    pub periods: usize,
    /// Requests inside a hold that were not under way when it began.
    pub inside: usize,
}

/// Reads the requests of one destination, whose refusals each ask for `hold`.
pub(in crate::drill) fn kept(requests: &[Seen], hold: Duration) -> Kept {
    let mut kept = Kept::default();
    let (mut since, mut until) = (Duration::ZERO, Duration::ZERO);
    for Seen { at, refused, .. } in requests {
        let held = *at < until;
        kept.inside += usize::from(held && *at > since + UNDER_WAY);
        if *refused && !held {
            kept.periods += 1;
            since = *at;
        }
        if *refused {
            until = until.max(*at + hold);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_are_told_from_what_a_receiver_saw() {
        let check = |requests: &[(u64, bool)], periods: usize, inside: usize| {
            let seen = |&(at, refused): &(u64, bool)| Seen {
                at: Duration::from_millis(at),
                key: String::new(),
                refused,
            };
            let seen: Vec<Seen> = requests.iter().map(seen).collect();
            assert_eq!(kept(&seen, Duration::from_secs(2)), Kept { periods, inside }, "{requests:?}");
        };
        check(&[], 0, 0);
        check(&[(0, false), (1, false)], 0, 0);
        check(&[(0, true), (2_000, false)], 1, 0);
        check(&[(0, true), (1_999, false)], 1, 1);
        // Under way when it was refused: no matter how they end, they are the same hold's.
        check(&[(0, true), (20, true), (250, false), (2_021, true)], 2, 0);
        // The last refusal counts.
        check(&[(0, true), (20, true), (2_010, false)], 1, 1);
        check(&[(0, true), (300, true), (600, true)], 1, 2);
        check(&[(0, true), (2_100, true), (4_200, true), (6_300, false)], 3, 0);
    }
}
