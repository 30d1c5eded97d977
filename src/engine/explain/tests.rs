//! What is told of each thing that can hold a delivery back. No engine and no file: values only.

use super::samples::{T0, delivery, destination, edit, gate, lease, waiting};
use super::*;
use crate::delivery::{AskedKind, AskedWait, Attempt};
use crate::model::Rate;
use crate::outcome::{AttemptResult, Hold};
use crate::time::{Millis, Mono};

/// One situation: what differs from a new delivery at an open gate.
struct Case {
    view: DeliveryView,
    destination: Option<DestinationView>,
    gate: Option<GateView>,
    standing: Standing,
    claims: Claims,
    ahead: usize,
}

fn case(change: impl FnOnce(&mut Case)) -> Explanation {
    let mut case = Case {
        view: delivery(),
        destination: Some(destination()),
        gate: Some(gate()),
        standing: Standing::Free,
        claims: Claims::Running,
        ahead: 0,
    };
    change(&mut case);
    let Case { view, destination, gate, standing, claims, ahead } = &case;
    let (destination, gate) = (destination.as_ref(), gate.as_ref());
    explain(
        view,
        &Surroundings { destination, gate, standing: *standing, claims: *claims, ahead: *ahead },
        T0,
    )
}

fn later(ms: u64) -> Timestamp {
    T0.plus(Millis(ms))
}

fn held(until: Timestamp, reason: HoldReason) -> Option<GateView> {
    Some(GateView { hold: Some(Hold { until, reason }), ..gate() })
}

fn check(
    got: &Explanation,
    verdict: Verdict,
    blocked: &[BlockKind],
    earliest: Option<Timestamp>,
    summary: &str,
) {
    let kinds: Vec<BlockKind> = got.blocked_by.iter().map(|one| one.kind).collect();
    assert_eq!((got.verdict, &*kinds, got.earliest), (verdict, blocked, earliest), "{summary}");
    assert_eq!(got.summary, summary);
}

#[test]
fn nothing_holds_it_back() {
    let start = |ahead| case(|case| case.ahead = ahead);
    check(
        &start(0),
        Verdict::Starting,
        &[],
        Some(T0),
        "It is due, nothing holds it back, and it starts now.",
    );
    let one = "It is due and nothing holds it back but the one delivery ahead of it.";
    check(&start(1), Verdict::Starting, &[], Some(T0), one);
    let many = "It is due and nothing holds it back but the 1000 deliveries ahead of it.";
    check(&start(1_000), Verdict::Starting, &[], Some(T0), many);
    assert_eq!(start(7).ahead, 7);
}

#[test]
fn in_flight_and_ended() {
    let flying = case(|case| case.view.lease = Some(lease()));
    let text = "Attempt 3 has been in flight since 2026-01-15T12:00:00.000Z and ends by \
                2026-01-15T12:00:25.000Z at the latest.";
    check(&flying, Verdict::InFlight, &[], None, text);
    let cancelling = case(|case| {
        case.view.lease = Some(lease());
        edit(&mut case.view).cancelling = true;
    });
    assert!(cancelling.summary.ends_with("; it is cancelled unless this attempt delivers it."));
    for outcome in Ending::ALL {
        let ended = case(|case| edit(&mut case.view).state = State::Terminal { outcome, at: T0, step: 1 });
        assert_eq!((ended.verdict, ended.earliest), (Verdict::Terminal, None), "{outcome:?}");
        assert!(ended.summary.contains("2026-01-15T12:00:00.000Z"), "{}", ended.summary);
        assert!(ended.summary.ends_with(" (no attempt was made)."), "{}", ended.summary);
    }
}

/// Attempt 2, answered `status`, which asked for a wait with `raw`; a `soon` names no time.
fn attempt(result: AttemptResult, status: Option<u16>, raw: Option<&str>) -> Attempt {
    let asked = |raw: &str| AskedWait {
        raw: Some(raw.to_owned()),
        kind: if raw == "soon" { AskedKind::Invalid } else { AskedKind::Seconds },
        asked: raw.parse().ok().map(Millis),
        applied: None,
        clamped: None,
    };
    Attempt {
        n: 2,
        started_at: T0,
        ended_at: Some(T0),
        result,
        status,
        error: None,
        host: None,
        address: None,
        late: false,
        retry_after: raw.map(asked),
        next_attempt_at: None,
        response_excerpt: None,
    }
}

#[test]
fn the_last_attempt_is_told() {
    let summary = |state: State, attempt: Attempt| {
        let got = case(|case| {
            edit(&mut case.view).state = state;
            edit(&mut case.view).log = vec![attempt];
        });
        got.summary
    };
    let ended = |outcome| State::Terminal { outcome, at: T0, step: 1 };
    let later = |reason| waiting(later(5_000), reason);
    let check = |state, attempt, part: &str| {
        let got = summary(state, attempt);
        assert!(got.ends_with(part), "{got}");
    };
    let (limited, server) = (AttemptResult::RateLimited, AttemptResult::ServerError);
    let refused = attempt(AttemptResult::ClientError, Some(400), None);
    check(ended(Ending::Rejected), refused, "refused it for good (attempt 2: client_error 400).");
    let refused = attempt(AttemptResult::Connect, None, None);
    check(ended(Ending::Expired), refused, "could be delivered (attempt 2: connect).");
    let failed = attempt(server, Some(503), None);
    check(
        later(NextReason::Backoff),
        failed,
        "failed (attempt 2: server_error 503) and the policy's backoff runs.",
    );
    let asked = attempt(limited, Some(429), Some("900"));
    check(later(NextReason::RateLimited), asked, "answered 429 with Retry-After: 900.");
    let asked = attempt(limited, Some(429), Some("soon"));
    check(later(NextReason::RateLimited), asked, "that names no time, so the backoff runs.");
    check(later(NextReason::RateLimited), attempt(limited, Some(429), None), "answered 429.");
}

#[test]
fn a_wait_of_its_own() {
    for reason in NextReason::ALL {
        let got = case(|case| edit(&mut case.view).state = waiting(later(5_000), reason));
        assert_eq!((got.verdict, got.earliest), (Verdict::Waiting, Some(later(5_000))), "{reason:?}");
        assert!(
            got.summary.starts_with("It waits until 2026-01-15T12:00:05.000Z because "),
            "{}",
            got.summary
        );
    }
}

#[test]
fn a_hold_is_named_with_its_reason() {
    let limited = case(|case| case.gate = held(later(9_000), HoldReason::RateLimited));
    let text = "It waits until 2026-01-15T12:00:09.000Z because the receiver answered 429, and everything for \
                this destination waits.";
    check(&limited, Verdict::Waiting, &[BlockKind::DestinationHold], Some(later(9_000)), text);
    let past = case(|case| case.gate = held(T0, HoldReason::Operator));
    assert_eq!(past.verdict, Verdict::Starting);
    let stored = case(|case| {
        case.gate = None;
        case.view.held_until = Some(later(1));
    });
    assert_eq!((stored.verdict, stored.earliest), (Verdict::Waiting, Some(later(1))));
    let known_open = case(|case| case.view.held_until = Some(later(1)));
    assert_eq!(known_open.verdict, Verdict::Starting);
}

#[test]
fn the_last_of_several_waits_is_the_one_told() {
    let got = case(|case| {
        edit(&mut case.view).state = waiting(later(3_000), NextReason::Backoff);
        case.gate = held(later(9_000), HoldReason::Operator);
        case.standing = Standing::Slots;
    });
    let text = "It waits until 2026-01-15T12:00:09.000Z because an operator holds this destination (release ends that).";
    let kinds = [BlockKind::NotDue, BlockKind::DestinationHold];
    check(&got, Verdict::Waiting, &kinds, Some(later(9_000)), text);
}

#[test]
fn limits_free_themselves() {
    let full = case(|case| case.gate = Some(GateView { in_flight: 8, ..gate() }));
    let text = "It is due and waits because 8 of 8 requests to this destination are in flight.";
    check(&full, Verdict::Waiting, &[BlockKind::Concurrency], Some(T0), text);
    let low = case(|case| case.gate = Some(GateView { limit: 2, ..gate() }));
    let text = "It is due and waits because 2 of 2 requests to this destination are in flight; with good answers \
                it grows to 8.";
    check(&low, Verdict::Waiting, &[BlockKind::Concurrency], Some(T0), text);
}

#[test]
fn a_rate_is_told_with_the_slower_of_the_two() {
    let rate = |set: Option<f64>, learnt_rate: Option<f64>, why: &str| {
        let got = case(|case| {
            case.destination.as_mut().unwrap().settings.rate = set.and_then(|set| Rate::per_second(set, 1));
            case.gate = Some(GateView { paced_until: Some(later(700)), learnt_rate, ..gate() });
        });
        let text = format!("It waits until 2026-01-15T12:00:00.700Z because {why}.");
        check(&got, Verdict::Waiting, &[BlockKind::Rate], Some(later(700)), &text);
    };
    let learnt = "the receiver refused more than about 4.2 requests a second, and is sent no more";
    rate(Some(0.5), None, "the destination's rate is 0.5 a second");
    rate(Some(2.0), Some(4.2), "the destination's rate is 2 a second");
    rate(Some(10.0), Some(4.2), learnt);
    rate(None, Some(4.2), learnt);
    let held = case(|case| {
        let hold = Some(Hold { until: later(700), reason: HoldReason::RateLimited });
        case.gate = Some(GateView { hold, paced_until: Some(later(700)), learnt_rate: Some(1.0), ..gate() });
    });
    assert_eq!(held.blocked_by.len(), 1, "what the hold says is not said twice: {held:?}");
}

#[test]
fn a_breaker_is_told_with_its_probe() {
    let broken = |breaker, breaker_until, in_flight| {
        case(|case| {
            let failure_streak = 9;
            case.gate =
                Some(GateView { breaker, breaker_until, in_flight, limit: 1, failure_streak, ..gate() });
        })
    };
    let open = broken(BreakerState::Open { until: Mono(5) }, Some(later(2_000)), 0);
    let text = "It waits until 2026-01-15T12:00:02.000Z because the destination could not be reached (9 failures \
                in a row); then one request is sent to see whether it can.";
    check(&open, Verdict::Waiting, &[BlockKind::Breaker], Some(later(2_000)), text);
    let probing = broken(BreakerState::HalfOpen, None, 1);
    let text = "It is due and waits because the destination could not be reached, and one request is out to see \
                whether it can.";
    check(&probing, Verdict::Waiting, &[BlockKind::Breaker], Some(T0), text);
    assert_eq!(broken(BreakerState::HalfOpen, None, 0).verdict, Verdict::Starting);
}

/// What the server keeps back is told of what could go out otherwise, and of nothing else.
#[test]
fn the_server_keeps_it_back() {
    let kept = |standing: Standing, kind: BlockKind, why: &str| {
        let text = format!("It is due and waits because {why}.");
        let got = case(|case| case.standing = standing);
        check(&got, Verdict::Waiting, &[kind], Some(T0), &text);
        let later = case(|case| {
            edit(&mut case.view).state = waiting(later(3_000), NextReason::Backoff);
            case.standing = standing;
        });
        assert_eq!(later.blocked_by.len(), 1, "{later:?}");
    };
    let share = "served before its own, which has had its share of the send slots";
    kept(
        Standing::TenantShare { ahead: 12 },
        BlockKind::TenantShare,
        &format!("12 other tenants are {share}"),
    );
    kept(Standing::TenantShare { ahead: 1 }, BlockKind::TenantShare, &format!("one other tenant is {share}"));
    kept(
        Standing::Reserved,
        BlockKind::ClassReserve,
        "the send slots that are left are kept for first attempts, for classes of more weight, or for tenants with \
         nothing slow in flight",
    );
    kept(Standing::Slots, BlockKind::Slots, "every send slot that its kind of work may use is in use");
    kept(Standing::Bodies, BlockKind::Slots, "the bodies in flight fill the memory that there is for them");
}

#[test]
fn a_server_that_stops_claims_nothing() {
    let got = case(|case| {
        edit(&mut case.view).state = waiting(later(3_000), NextReason::Backoff);
        case.standing = Standing::Stopped;
    });
    let text = "It waits because the server is stopping and starts no more requests. It goes on once someone \
                starts claims again, and expires at 2026-01-15T13:00:00.000Z.";
    check(&got, Verdict::Waiting, &[BlockKind::NotDue, BlockKind::ClaimsStopped], None, text);
}

#[test]
fn a_drained_server_leaves_it_to_another() {
    let got = case(|case| {
        case.standing = Standing::Stopped;
        case.claims = Claims::Drained;
    });
    assert_eq!(
        (got.verdict, got.earliest, got.blocked_by[0].kind),
        (Verdict::Waiting, None, BlockKind::Draining)
    );
    assert!(got.summary.contains("with the fence") && got.summary.contains("taken over"), "{}", got.summary);
}

#[test]
fn a_stopped_destination_has_no_time() {
    let stopped = |state: DestinationState, reason: &str| {
        case(|case| {
            let note = &mut case.destination.as_mut().unwrap().note;
            (note.state, note.reason) = (state, reason.to_owned());
            case.gate = held(later(9_000), HoldReason::Operator);
        })
    };
    let got = stopped(DestinationState::Paused, "upgrade");
    let text = "It waits because the destination was paused by operator at 2026-01-15T12:00:00.000Z: \
                upgrade. It goes on once someone resumes the destination, and expires at \
                2026-01-15T13:00:00.000Z.";
    check(&got, Verdict::Waiting, &[BlockKind::Paused, BlockKind::DestinationHold], None, text);
    for state in [DestinationState::Disabled, DestinationState::Deleted] {
        let got = stopped(state, "");
        assert_eq!((got.blocked_by[0].kind, got.earliest), (BlockKind::Disabled, None), "{state:?}");
    }
    let gone = case(|case| case.destination = None);
    let text = "It waits because the destination was deleted. It goes on once someone enables or makes the \
                destination again, and expires at 2026-01-15T13:00:00.000Z.";
    check(&gone, Verdict::Waiting, &[BlockKind::Disabled], None, text);
}

#[test]
fn what_expires_first_says_so() {
    let hour = 3_600_000;
    let check_at = |due: u64, verdict: Verdict| {
        let got = case(|case| edit(&mut case.view).state = waiting(later(due), NextReason::Backoff));
        assert_eq!(got.verdict, verdict, "{due}");
    };
    check_at(hour - 1, Verdict::Waiting);
    check_at(hour, Verdict::ExpiresFirst);
    let got = case(|case| case.gate = held(later(2 * hour), HoldReason::RateLimited));
    let text = "It will expire at 2026-01-15T13:00:00.000Z undelivered: it may not be sent before \
                2026-01-15T14:00:00.000Z because the receiver answered 429, and everything for this \
                destination waits.";
    check(&got, Verdict::ExpiresFirst, &[BlockKind::DestinationHold], Some(later(2 * hour)), text);
}
