//! Every row of API.md's *What a receiver sees*, and the retry-after cases that are about waits.

use super::*;
use crate::policy::{Jitter, Policy};
use crate::time::{Millis, Timestamp};

/// 2026-01-15T12:00:00Z.
const NOW: Timestamp = Timestamp(1_768_478_400_000);

/// The frame of `cases.json`: min wait 1 s, max 3,600 s, fallback 5 s with half jitter.
fn frame() -> Policy {
    Policy { schedule: vec![Millis::seconds(5)], max_delay: Millis::seconds(3_600), ..Policy::default() }
}

fn standing() -> Standing {
    Standing {
        id: 42,
        attempt: 1,
        failures: 0,
        interrupted: 0,
        unsent: 0,
        max_failures: 0,
        expires_at: NOW.plus(Millis::seconds(3 * 86_400)),
        cancelling: false,
        erased: false,
        refusals: 1,
    }
}

fn answer(status: u16, retry_after: &[&str]) -> Outcome {
    let lines = retry_after.iter().map(|line| line.as_bytes().to_vec()).collect();
    Outcome::Answered { status, headers: RetryHeaders { retry_after: lines, date: None } }
}

fn decided(outcome: &Outcome) -> Decision {
    decide(&frame(), &standing(), NOW, outcome)
}

fn wait_of(decision: &Decision) -> (u64, NextReason, Counted) {
    match decision.verdict {
        Verdict::Again { due, reason, counted } => (due.since(NOW).0, reason, counted),
        Verdict::End(end) => panic!("ended as {end:?}"),
    }
}

/// Checks that a 429 with this header waits inside `[low, high]` milliseconds and holds as long.
fn check_429(case: &str, retry_after: &[&str], low: u64, high: u64) {
    let decision = decided(&answer(429, retry_after));
    let (wait, reason, counted) = wait_of(&decision);
    assert!((low..=high).contains(&wait), "{case}: {retry_after:?} waits {wait}");
    assert_eq!((reason, counted), (NextReason::RateLimited, Counted::Throttle), "{case}");
    let hold = Hold { until: NOW.plus(Millis(wait)), reason: HoldReason::RateLimited };
    assert_eq!(decision.hold, Some(hold), "{case}");
}

#[test]
fn a_429_waits_as_long_as_it_says_and_never_less() {
    check_429("plain", &["60"], 60_000, 66_000);
    check_429("C004", &["2.0"], 2_000, 2_200);
    check_429("C022", &["10, 20"], 20_000, 22_000);
    check_429("under the minimum", &["0.2"], 1_000, 1_100);
    for huge in ["9223372036", "9223372037", "18446744073", "9223372036854775807", "43323"] {
        check_429("C005, C026", &[huge], 3_600_000, 3_630_000);
        let asked = decided(&answer(429, &[huge])).asked;
        assert_eq!(asked.clamped, Some(Clamped::Max), "{huge}");
    }
}

#[test]
fn a_429_that_names_no_time_backs_off() {
    for header in ["-5", "nan", "1e3", "0x10", "120 seconds", "", "Sat, 31 Feb 2026 12:00:00 GMT"] {
        check_429("C001, C007, C008, C014, C024", &[header], 2_500, 5_000);
        assert_eq!(decided(&answer(429, &[header])).asked.retry_after, RetryAfter::Invalid);
    }
    check_429("absent", &[], 2_500, 5_000);
    check_429("C017 past", &["Thu, 15 Jan 2026 11:59:00 GMT"], 2_500, 5_000);
    check_429("C018 zero", &["0"], 2_500, 5_000);
}

/// C018: a receiver that says 0 for ever is asked less and less often.
#[test]
fn c018_repeated_refusals_raise_the_wait_up_to_an_hour() {
    let policy = Policy { jitter: Jitter::None, ..Policy::default() };
    let check = |refusals: u32, seconds: u64| {
        let seen = Standing { refusals, ..standing() };
        let decision = decide(&policy, &seen, NOW, &answer(429, &["0"]));
        assert_eq!(wait_of(&decision).0, seconds * 1_000, "refusal {refusals}");
    };
    check(1, 5);
    check(2, 30);
    check(6, 3_600);
    check(9, 3_600);
    check(u32::MAX, 3_600);
}

/// C031: a thousand deliveries told 30 s.
#[test]
fn c031_jitter_only_adds() {
    let wait = |id: u128| {
        let seen = Standing { id, ..standing() };
        wait_of(&decide(&frame(), &seen, NOW, &answer(429, &["30"]))).0
    };
    let waits: Vec<u64> = (0..1_000).map(wait).collect();
    assert!(waits.iter().all(|wait| (30_000..=33_000).contains(wait)));
    assert!(waits.iter().max() > waits.iter().min(), "it does spread");
}

#[test]
fn failures_back_off_and_count() {
    let failures = [
        answer(500, &[]),
        answer(502, &[]),
        answer(599, &[]),
        answer(301, &[]),
        answer(302, &[]),
        answer(308, &[]),
        answer(408, &[]),
        answer(421, &[]),
        answer(425, &[]),
        answer(700, &[]),
        Outcome::MaybeSent(MaybeSent::Timeout),
        Outcome::MaybeSent(MaybeSent::Ambiguous),
        Outcome::MaybeSent(MaybeSent::InvalidResponse),
        Outcome::NotSent(NotSent::Connect),
        Outcome::NotSent(NotSent::Tls),
        Outcome::NotSent(NotSent::Dns),
        Outcome::NotSent(NotSent::Blocked),
    ];
    for outcome in failures {
        let decision = decided(&outcome);
        let (wait, reason, counted) = wait_of(&decision);
        assert!((2_500..=5_000).contains(&wait), "{outcome:?} waits {wait}");
        assert_eq!((reason, counted), (NextReason::Backoff, Counted::Failure), "{outcome:?}");
        assert_eq!(decision.hold, None, "{outcome:?}");
    }
}

#[test]
fn a_retry_after_on_a_failure_is_a_floor_and_with_503_a_hold() {
    let (wait, _, counted) = wait_of(&decided(&answer(500, &["60"])));
    assert!((60_000..=66_000).contains(&wait) && counted == Counted::Failure);
    assert_eq!(decided(&answer(500, &["60"])).hold, None);
    let held = decided(&answer(503, &["60"]));
    assert_eq!(held.hold.map(|hold| hold.reason), Some(HoldReason::Unavailable));
    assert_eq!(wait_of(&held).2, Counted::Failure);
    assert_eq!(decided(&answer(503, &[])).hold, None);
    assert_eq!(decided(&answer(503, &["soon"])).hold, None);
    let short = wait_of(&decided(&answer(500, &["1"]))).0;
    assert!(short >= 2_500, "the backoff is longer than the floor: {short}");
}

#[test]
fn what_ends_a_delivery() {
    let check = |outcome: &Outcome, want: Ending| {
        assert_eq!(decided(outcome).verdict, Verdict::End(want), "{outcome:?}");
    };
    for status in [200, 201, 202, 204, 207, 226, 299] {
        check(&answer(status, &[]), Ending::Delivered);
    }
    for status in [400, 401, 403, 404, 409, 413, 422, 451, 499] {
        check(&answer(status, &[]), Ending::Rejected);
    }
    check(&answer(403, &["60"]), Ending::Rejected); // C036
    check(&answer(410, &[]), Ending::DestinationGone);
    check(&Outcome::Damaged, Ending::Quarantined);
    assert!(decided(&answer(410, &[])).gone && !decided(&answer(404, &[])).gone);
}

#[test]
fn c036_the_header_of_a_permanent_answer_is_still_shown() {
    let asked = decided(&answer(403, &["60"])).asked;
    assert_eq!((asked.retry_after, asked.applied), (RetryAfter::Seconds(Millis::seconds(60)), None));
}

#[test]
fn a_policy_can_retry_more_statuses() {
    let policy = Policy { retry_statuses: vec![404, 410], ..frame() };
    for status in [404, 410] {
        let decision = decide(&policy, &standing(), NOW, &answer(status, &[]));
        assert_eq!(wait_of(&decision).2, Counted::Failure);
        assert!(!decision.gone);
    }
    let no_longer = decide(&policy, &standing(), NOW, &answer(408, &[]));
    assert_eq!(no_longer.verdict, Verdict::End(Ending::Rejected));
}

/// C029, C030: refusals neither use up the failures nor pick the step after one.
#[test]
fn c030_throttles_do_not_raise_the_backoff() {
    let seen = Standing { attempt: 21, refusals: 20, max_failures: 5, ..standing() };
    let policy = Policy { jitter: Jitter::None, ..Policy::default() };
    assert_eq!(wait_of(&decide(&policy, &seen, NOW, &answer(500, &[]))).0, 5_000);
    let many = Standing { attempt: 70_000, ..seen };
    assert_eq!(wait_of(&decide(&policy, &many, NOW, &answer(429, &["10"]))).2, Counted::Throttle);
}

#[test]
fn max_failures_is_the_number_of_failures_that_may_happen() {
    let check = |failures: u32, max_failures: u32, ends: bool| {
        let seen = Standing { failures, max_failures, ..standing() };
        let verdict = decide(&frame(), &seen, NOW, &answer(500, &[])).verdict;
        assert_eq!(verdict == Verdict::End(Ending::Exhausted), ends, "{failures} of {max_failures}");
    };
    check(0, 1, true);
    check(3, 5, false);
    check(4, 5, true);
    check(u32::MAX, 0, false);
}

#[test]
fn what_is_ours_is_not_counted_against_the_receiver() {
    let check = |cause: NotSent, reason: NextReason| {
        let (_, got, counted) = wait_of(&decided(&Outcome::NotSent(cause)));
        assert_eq!((got, counted), (reason, Counted::Nothing), "{cause:?}");
    };
    check(NotSent::Payload, NextReason::Payload);
    check(NotSent::NotProcessed, NextReason::Backoff);
}

/// However many claims there were before: only what came in a row lengthens the wait. C046: what was
/// not processed goes out again at once, the first time.
#[test]
fn what_is_ours_backs_off_by_how_often_in_a_row() {
    let policy = Policy { jitter: Jitter::None, ..Policy::default() };
    let check = |cause: NotSent, unsent: u32, seconds: u64| {
        let seen = Standing { attempt: 40, unsent, ..standing() };
        let (wait, ..) = wait_of(&decide(&policy, &seen, NOW, &Outcome::NotSent(cause)));
        assert_eq!(wait, seconds * 1_000, "{cause:?} after {unsent}");
    };
    check(NotSent::Payload, 0, 5);
    check(NotSent::Payload, 1, 30);
    check(NotSent::Payload, 4, 1_800);
    check(NotSent::NotProcessed, 0, 1);
    check(NotSent::NotProcessed, 1, 5);
    check(NotSent::NotProcessed, 4, 600);
    check(NotSent::NotProcessed, u32::MAX, 36_000);
}

/// What was refused together does not come back together, again and again.
#[test]
fn what_was_not_processed_is_spread() {
    let waits = |unsent: u32| -> std::collections::BTreeSet<u64> {
        let wait = |id| {
            let seen = Standing { id, unsent, ..standing() };
            wait_of(&decide(&Policy::default(), &seen, NOW, &Outcome::NotSent(NotSent::NotProcessed))).0
        };
        (0..500).map(wait).collect()
    };
    assert!(waits(1).len() > 200 && waits(2).len() > 200);
}

#[test]
fn the_fifth_interruption_in_a_row_convicts() {
    let check = |interrupted: u32, ends: bool| {
        let seen = Standing { interrupted, ..standing() };
        let outcome = Outcome::MaybeSent(MaybeSent::Interrupted);
        let verdict = decide(&frame(), &seen, NOW, &outcome).verdict;
        assert_eq!(verdict == Verdict::End(Ending::Quarantined), ends, "after {interrupted}");
    };
    check(0, false);
    check(3, false);
    check(4, true);
}

#[test]
fn expiry_and_cancel_win_over_a_repeat_but_not_over_a_delivery() {
    let check = |status: u16, expired: bool, cancelling: bool, want: Option<Ending>| {
        let expires_at = if expired { NOW } else { standing().expires_at };
        let seen = Standing { expires_at, cancelling, ..standing() };
        let got = match decide(&frame(), &seen, NOW, &answer(status, &["60"])).verdict {
            Verdict::End(end) => Some(end),
            Verdict::Again { .. } => None,
        };
        assert_eq!(got, want, "{status} expired {expired} cancelling {cancelling}");
    };
    check(429, false, false, None);
    check(429, true, false, Some(Ending::Expired));
    check(500, true, false, Some(Ending::Expired));
    check(500, true, true, Some(Ending::Cancelled));
    check(429, false, true, Some(Ending::Cancelled));
    check(404, false, true, Some(Ending::Cancelled));
    check(404, true, false, Some(Ending::Rejected));
    check(204, true, true, Some(Ending::Delivered));
}

/// C039: a time beyond the end of life stays as it is; nothing is sent early.
#[test]
fn c039_a_due_time_beyond_expiry_is_kept() {
    let seen = Standing { expires_at: NOW.plus(Millis::seconds(600)), ..standing() };
    assert!(wait_of(&decide(&frame(), &seen, NOW, &answer(429, &["1800"]))).0 >= 1_800_000);
}

/// Erased while an attempt was out: a success is one, and nothing goes out again.
#[test]
fn what_was_erased_meanwhile_is_not_repeated() {
    let check = |outcome: &Outcome, cancelling, want| {
        let seen = Standing { erased: true, cancelling, ..standing() };
        assert_eq!(decide(&frame(), &seen, NOW, outcome).verdict, Verdict::End(want), "{outcome:?}");
    };
    check(&answer(204, &[]), false, Ending::Delivered);
    check(&answer(429, &["1"]), false, Ending::PayloadGone);
    check(&answer(503, &[]), false, Ending::PayloadGone);
    check(&answer(404, &[]), false, Ending::PayloadGone);
    check(&Outcome::NotSent(NotSent::Payload), false, Ending::PayloadGone);
    check(&Outcome::MaybeSent(MaybeSent::Interrupted), false, Ending::PayloadGone);
    check(&answer(503, &[]), true, Ending::Cancelled);
    check(&Outcome::Damaged, false, Ending::Quarantined);
    let seen = Standing { erased: true, interrupted: 9, ..standing() };
    assert_eq!(decide_after_restart(&seen, NOW), Verdict::End(Ending::PayloadGone));
    assert_eq!(decide_after_stop(&seen, NOW), Verdict::End(Ending::PayloadGone));
}
