//! Deliveries, attempts and the items of a batch as documents.

use super::*;
use crate::engine::explain::samples::{T0, delivery, edit, lease, waiting};
use crate::model::Excerpt;
use crate::outcome::{AttemptResult, Ending, NextReason};

fn json(document: &impl Serialize) -> String {
    serde_json::to_string_pretty(document).unwrap()
}

fn attempt() -> Attempt {
    Attempt {
        n: 2,
        started_at: T0,
        ended_at: Some(T0.plus(Millis(40))),
        result: AttemptResult::RateLimited,
        status: Some(429),
        error: None,
        host: Some("shop.example.com".to_owned()),
        address: Some("93.184.216.34:443".to_owned()),
        late: false,
        retry_after: Some(AskedWait {
            raw: Some("99999".to_owned()),
            kind: AskedKind::Seconds,
            asked: Some(Millis(99_999_000)),
            applied: Some(Millis(86_400_000)),
            clamped: Some(Clamped::Max),
        }),
        next_attempt_at: Some(T0.plus(Millis(86_400_000))),
        response_excerpt: Some(Excerpt(b"slow d\xffwn".to_vec())),
    }
}

#[test]
fn a_delayed_delivery() {
    let mut view = delivery();
    edit(&mut view).state = waiting(T0.plus(Millis(5_000)), NextReason::RateLimited);
    edit(&mut view).attempts = 2;
    edit(&mut view).throttles = 1;
    edit(&mut view).first_attempt_at = Some(T0);
    edit(&mut view).labels = vec![("region".to_owned(), "\"north\"".to_owned())];
    edit(&mut view).log = vec![attempt()];
    view.held_until = Some(T0.plus(Millis(9_000)));
    let shown = json(&DeliveryObject::of(&view, T0));
    assert!(!shown.contains("hunter2") && !shown.contains("x-secret"), "{shown}");
    insta::assert_snapshot!(shown);
}

#[test]
fn null_rules() {
    let check = |view: &DeliveryView, want: [&str; 5]| {
        let shown = serde_json::to_value(DeliveryObject::of(view, T0)).unwrap();
        let fields = ["state", "next_attempt_at", "next_reason", "held_until", "outcome"];
        assert_eq!(fields.map(|field| shown[field].to_string()), want.map(str::to_owned));
    };
    let t0 = "\"2026-01-15T12:00:00.000Z\"";
    let mut view = delivery();
    check(&view, ["\"ready\"", t0, "\"new\"", "null", "null"]);
    view.held_until = Some(T0);
    check(&view, ["\"ready\"", t0, "\"new\"", "null", "null"]);
    view.lease = Some(lease());
    check(&view, ["\"leased\"", "null", "null", "null", "null"]);
    view.lease = None;
    edit(&mut view).state = State::Terminal { outcome: Ending::Delivered, at: T0, step: 1 };
    check(&view, ["\"terminal\"", "null", "null", "null", "\"delivered\""]);
}

#[test]
fn a_claim_in_flight_counts() {
    let mut view = delivery();
    view.lease = Some(lease());
    let shown = serde_json::to_value(DeliveryObject::of(&view, T0)).unwrap();
    assert_eq!(shown["attempts"], 3);
    assert_eq!(shown["first_attempt_at"], "2026-01-15T12:00:00.000Z");
    assert_eq!(shown["lease"]["until"], "2026-01-15T12:00:25.000Z");
    assert!(shown.get("duplicate").is_none());
}

#[test]
fn without_a_key_the_id_is_the_key() {
    let mut view = delivery();
    edit(&mut view).key = None;
    let shown = serde_json::to_value(DeliveryObject::of(&view, T0).accepted(true)).unwrap();
    assert_eq!(shown["idempotency_key"], shown["id"]);
    assert_eq!(shown["duplicate"], true);
}

/// C201: an excerpt that is not UTF-8 is shown, and never cut a character short with a panic.
#[test]
fn c201_an_attempt_with_an_excerpt() {
    insta::assert_snapshot!(json(&AttemptObject::of(&attempt())));
}

#[test]
fn an_attempt_without_an_answer() {
    let silent = Attempt { retry_after: None, ended_at: None, response_excerpt: None, ..attempt() };
    let shown = serde_json::to_value(AttemptObject::of(&silent)).unwrap();
    assert_eq!(shown["retry_after"]["kind"], "absent");
    assert_eq!(shown["ended_at"], serde_json::Value::Null);
}

#[test]
fn items_of_a_batch() {
    let taken = ItemObject::<()>::Taken { status: 202, id: Text(DeliveryId(0)), duplicate: false };
    insta::assert_snapshot!(serde_json::to_string(&taken).unwrap(), @r#"{"status":202,"id":"dlv_00000000000000000000000000","duplicate":false}"#);
    let refused = ItemObject::Refused { status: 422, problem: "p" };
    insta::assert_snapshot!(serde_json::to_string(&refused).unwrap(), @r#"{"status":422,"problem":"p"}"#);
}
