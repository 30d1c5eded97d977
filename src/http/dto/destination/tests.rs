//! A destination with its live side as a document.

use super::*;
use crate::engine::explain::samples::{T0, destination, gate};
use crate::outcome::{Hold, HoldReason};
use crate::time::Millis;

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
