//! Any header bytes: never a panic, never sooner than asked for, never outside the policy.

use duehook::outcome::{Outcome, RetryHeaders, Standing, Verdict, decide};
use duehook::policy::Policy;
use duehook::time::{Millis, Timestamp};

const NOW: Timestamp = Timestamp(1_800_000_000_000);
/// The most that jitter adds to a time that was asked for.
const ADDED: Millis = Millis(30_000);

/// Lines are split at 0x00; the last one is the `Date`.
pub fn target(bytes: &[u8]) {
    let mut lines: Vec<Vec<u8>> = bytes.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
    let headers = RetryHeaders { date: lines.pop(), retry_after: lines };
    let (asked, policy) = (headers.read(NOW), Policy::default());
    assert_eq!(headers.raw().is_some(), !headers.retry_after.is_empty());
    for status in [429, 503] {
        let outcome = Outcome::Answered { status, headers: headers.clone() };
        let Verdict::Again { due, .. } = decide(&policy, &standing(), NOW, &outcome).verdict else {
            panic!("{status} is tried again");
        };
        assert!(due >= NOW.plus(policy.min_delay) && due <= NOW.plus(policy.max_delay).plus(ADDED));
        assert!(asked.wait().is_none_or(|wait| due >= NOW.plus(policy.clamp(wait))));
    }
}

fn standing() -> Standing {
    let expires_at = Timestamp::MAX;
    Standing {
        id: 7,
        attempt: 1,
        failures: 0,
        interrupted: 0,
        unsent: 0,
        max_failures: 0,
        expires_at,
        cancelling: false,
        erased: false,
        refusals: 1,
    }
}

#[test]
fn corpus() {
    crate::over_corpus("retry_after", target);
}
