//! A destination with its live side as a document.

use super::*;
use crate::engine::explain::samples::{T0, destination, gate};
use crate::outcome::{Hold, HoldReason};
use crate::time::{Millis, Mono};
use serde_json::json;

#[test]
fn a_held_destination() {
    let mut gate = gate();
    gate.hold = Some(Hold { until: T0.plus(Millis(9_000)), reason: HoldReason::RateLimited });
    let view = destination();
    let shown = serde_json::to_string_pretty(&DestinationObject::of(&view, Some(&gate))).unwrap();
    assert!(!shown.contains("hunter2"), "{shown}");
    insta::assert_snapshot!(shown);
}

#[test]
fn without_a_gate_and_with_what_is_delayed() {
    let view = destination();
    let shown = serde_json::to_value(DestinationObject::of(&view, None)).unwrap();
    assert_eq!((&shown["waiting"], &shown["limit"]), (&0.into(), &8.into()));
    assert!(shown.get("delayed").is_none());
    let shown = serde_json::to_value(DestinationObject::of(&view, None).with_delayed(3)).unwrap();
    assert_eq!(shown["delayed"], 3);
}

/// What was set is shown as it was given, a whole number without a fraction.
#[test]
fn the_pace_as_it_was_given() {
    let check = |rate: Option<Rate>, want: &str| {
        let mut view = destination();
        (view.settings.adaptive, view.settings.rate) = (true, rate);
        let shown = serde_json::to_value(DestinationObject::of(&view, None)).unwrap();
        assert_eq!(shown["concurrency"]["adaptive"], true);
        assert_eq!(shown["rate"].to_string(), want);
    };
    check(None, "null");
    check(Rate::per_second(10.0, 5), r#"{"burst":5,"per_second":10}"#);
    check(Rate::per_second(0.5, 1), r#"{"burst":1,"per_second":0.5}"#);
    check(Rate::per_second(0.016_667, 1), r#"{"burst":1,"per_second":0.016667}"#);
    check(Rate::per_second(99_999.999_999, 1), r#"{"burst":1,"per_second":99999.999999}"#);
}

/// What was seen of a destination in trouble: null, or left out, where there is nothing to tell.
#[test]
fn what_was_seen_of_it() {
    let view = destination();
    let shown = |gate: &GateView| serde_json::to_value(DestinationObject::of(&view, Some(gate))).unwrap();
    let quiet = shown(&gate());
    assert_eq!((&quiet["observed_retry_after"], &quiet["recovery"]), (&json!(null), &json!(null)));
    assert!(quiet.get("learnt_rate").is_none());
    let times = |count| Times { count, p50: Millis(2_000), p95: Millis(5_000), max: Millis(7_500) };
    let by_result = vec![(AttemptResult::RateLimited, 2), (AttemptResult::Connect, 1)];
    let seen = shown(&GateView {
        breaker: BreakerState::Open { until: Mono(9) },
        learnt_rate: Some(12.345_678),
        asked: Some(times(40)),
        recovery: Some((times(3), by_result)),
        ..gate()
    });
    assert_eq!((&seen["breaker"], &seen["learnt_rate"]), (&json!("open"), &json!(12.346)));
    let asked = json!({"count": 40, "p50_ms": 2_000, "p95_ms": 5_000, "max_ms": 7_500});
    assert_eq!(seen["observed_retry_after"], asked);
    let by_result = json!({"rate_limited": 2, "connect": 1});
    let recovery = json!({"count": 3, "p50_ms": 2_000, "p95_ms": 5_000, "by_result": by_result});
    assert_eq!(seen["recovery"], recovery);
}
