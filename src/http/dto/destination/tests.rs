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
