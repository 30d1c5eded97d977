//! Lines of an export as they are written and as they are read: nothing is lost on the way, and
//! every fault is told by its field.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde_json::{Value, json};
use sha2::Digest as _;

use super::*;
use crate::delivery::NO_DIGEST;
use crate::delivery::{Attempt, Delivery, Payload, Source, State};
use crate::engine::explain::samples::{T0, delivery, destination, edit, name, waiting};
use crate::http::app::Defaults;
use crate::http::dto::hand_over as dto;
use crate::model::{
    Certificates, ClassNo, DestNo, DestinationState, Header, Lane, LiveSecret, Rate, Secret, TenantNo,
};
use crate::outcome::{AttemptResult, Ending, GateMemory, Hold, HoldReason, NextReason};
use crate::sender::egress::Rules;
use crate::store::{Body, DeliveryView, Handed};
use crate::time::Millis;

fn read_in(region: &str, text: &str) -> Result<Line, Problem> {
    let rules = Rules { allow_http: false, ports: vec![443], allow_cidrs: Vec::new() };
    let policies = BTreeSet::from([name("default")]);
    let defaults = Defaults { concurrency: 8, timeout: Millis(15_000), connect_timeout: Millis(5_000) };
    let settings = input::Checks { rules: &rules, policies: &policies, defaults };
    read(text.as_bytes(), &Checks { region: &name(region), references: &prefixes(), settings })
}

fn text(document: &impl serde::Serialize) -> String {
    serde_json::to_string(document).unwrap()
}

fn prefixes() -> [Prefix; 1] {
    ["s3://bucket/".parse().unwrap()]
}

fn referred(uri: &str, sha256: Option<[u8; 32]>) -> Source {
    Source::Reference { uri: uri.to_owned(), sha256 }
}

/// A delivery with this body, and its line.
fn handed(body: &'static [u8], change: impl FnOnce(&mut Delivery)) -> (DeliveryView, String) {
    let mut view = delivery();
    let it = edit(&mut view);
    let sha256 = sha2::Sha256::digest(body).into();
    let bytes = u32::try_from(body.len()).unwrap();
    it.payload = Payload { source: Source::Inline { bytes, sha256 }, erased_at: None };
    change(it);
    let inline = matches!(it.payload.source, Source::Inline { .. }) && it.payload.erased_at.is_none();
    let body = inline.then_some(Body(Bytes::from_static(body)));
    let handed = Handed { view: view.clone(), body };
    (view, text(&dto::DeliveryLine::of(&handed, T0)))
}

/// The record as a line can have it: numbers are given where it arrives.
fn unnumbered(mut it: Delivery) -> Delivery {
    (it.tenant, it.destination, it.class) = (TenantNo(0), DestNo(0), ClassNo(0));
    match &mut it.state {
        State::Waiting { lane, .. } => *lane = Lane(0),
        State::Terminal { step, .. } => *step = 0,
    }
    it
}

fn attempt(result: AttemptResult) -> Attempt {
    Attempt {
        n: 7,
        started_at: T0,
        ended_at: Some(T0).filter(|_| result != AttemptResult::Interrupted),
        result,
        status: Some(503),
        error: Some("the receiver is \"down\" \u{1f525}".to_owned()),
        host: None,
        address: None,
        late: false,
        retry_after: None,
        next_attempt_at: None,
        response_excerpt: None,
    }
}

/// Types that other exports are known to lose: bytes that are no text, nothing at all, numbers
/// beyond a double, order, null against absent.
#[test]
fn c159_what_is_written_is_read_back_with_its_types() {
    let check = |body: &'static [u8], change: fn(&mut Delivery)| {
        let (view, line) = handed(body, change);
        let Ok(Line::Delivery(got)) = read_in("eu", &line) else {
            panic!("{line}: {:?}", read_in("eu", &line))
        };
        assert_eq!(got.delivery, unnumbered(Delivery::clone(&view.delivery)), "{line}");
        assert_eq!(
            (&got.tenant, &got.destination, &got.class),
            (&view.tenant, &view.destination, &view.class)
        );
        assert_eq!(&*got.body, if view.delivery.payload.erased_at.is_some() { b"" } else { body });
    };
    check(b"{}", |_| {});
    check(b"", |_| {});
    check(b"\x00\xff\xfe\n\r\"", |it| it.content_type = "application/octet-stream".to_owned());
    check(b"{\"n\":9007199254740993}", |it| {
        it.max_age = Millis(u64::MAX);
        (it.attempts, it.revision, it.max_failures) = (MAX_COUNT, MAX_COUNT, u32::MAX);
        (it.failures, it.throttles, it.interrupted) = (MAX_COUNT - 1, 2, 4);
    });
    check(b"x", |it| {
        it.headers = ["z", "a", "m"].map(|name| Header::new(name, "\"\\ \t~").unwrap()).into();
        it.labels = vec![("z".into(), "\u{0}ä".into()), ("a".into(), String::new())];
    });
    check(b"x", |it| it.key = None);
    check(b"x", |it| {
        it.state = waiting(T0.plus(Millis(1)), NextReason::Backoff);
        it.not_before = Some(T0.plus(Millis(2)));
        it.first_attempt_at = Some(T0);
        it.cancelling = true;
        it.log = vec![attempt(AttemptResult::ServerError)];
    });
    check(b"x", |it| it.log = vec![attempt(AttemptResult::Interrupted)]);
    check(b"x", |it| it.region = name("local"));
    check(b"x", |it| it.state = State::Terminal { outcome: Ending::Quarantined, at: T0, step: 9 });
    check(b"x", |it| {
        it.state = State::Terminal { outcome: Ending::Delivered, at: T0, step: 9 };
        it.erase_body(T0.plus(Millis(3)));
    });
}

#[test]
fn an_erased_digest_is_none() {
    let (_, line) = handed(b"x", |it| {
        it.state = State::Terminal { outcome: Ending::PayloadGone, at: T0, step: 9 };
        it.erase_body(T0);
    });
    let mut line: Value = serde_json::from_str(&line).unwrap();
    line["payload"]["sha256"] = Value::Null;
    let Ok(Line::Delivery(got)) = read_in("eu", &line.to_string()) else { panic!("{line}") };
    assert_eq!(got.delivery.payload.source, Source::Inline { bytes: 1, sha256: NO_DIGEST });
}

/// A line with this value at a pointer.
fn changed(line: &str, pointer: &str, value: Value) -> String {
    let mut line: Value = serde_json::from_str(line).unwrap();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    line.pointer_mut(parent).unwrap().as_object_mut().unwrap().insert(name.to_owned(), value);
    line.to_string()
}

fn fault(line: &str) -> String {
    match read_in("eu", line) {
        Err(problem) => problem.errors.first().map_or(String::new(), |one| one.field.to_string()),
        Ok(line) => panic!("{line:?} was taken"),
    }
}

#[test]
fn each_fault_of_a_delivery_names_its_field() {
    let (_, line) = handed(b"body", |_| {});
    let check = |pointer: &str, value: Value, field: &str| {
        assert_eq!(fault(&changed(&line, pointer, value)), field, "{pointer}");
    };
    for name in ["id", "tenant", "destination", "class", "region", "created_at", "expires_at", "revision"] {
        check(&format!("/{name}"), Value::Null, name);
    }
    check("/id", json!("dlv_1"), "id");
    check("/idempotency_key", json!("a b"), "idempotency_key");
    check("/attempts", json!(-1), "attempts");
    check("/attempts", json!(4_294_967_296_u64), "attempts");
    check("/cancelling", json!("yes"), "cancelling");
    check("/max_age_ms", json!(1.5), "max_age_ms");
    check("/created_at", json!("yesterday"), "created_at");
    check("/more", json!(1), "more");
    check("/duplicate", json!(true), "duplicate");
    check("/headers", json!({"host": "x"}), "headers.host");
    check("/headers", json!({"a": "b\r\nc: d"}), "headers.a");
    check("/labels", json!([]), "labels");
    check("/last", json!({"n": 1}), "last");
    check("/last", json!([]), "last");
    // A counter at its end would stop the engine at the next attempt, and after every start again.
    for counter in ["/attempts", "/failures", "/throttles", "/interrupted", "/revision"] {
        check(counter, json!(MAX_COUNT + 1), &counter[1..]);
        check(counter, json!(u64::MAX), &counter[1..]);
    }
    check("/state", json!("leased"), "state");
    check("/state", json!("terminal"), "state");
    check("/state", Value::Null, "state");
    check("/outcome", json!("delivered"), "state");
    check("/outcome", json!("unheard_of"), "outcome");
    check("/next_attempt_at", Value::Null, "state");
    check("/next_reason", Value::Null, "state");
    check("/lease", json!({"until": "2026-01-15T12:00:00Z"}), "state");
    check("/payload", Value::Null, "payload");
    check("/payload/kind", json!("reference"), "payload");
    check("/payload/bytes", json!(1_048_577), "payload");
    check("/payload/bytes", Value::Null, "payload");
    check("/payload/sha256", Value::Null, "payload");
    check("/payload/sha256", json!("zz"), "payload");
    check("/payload/content_type", json!("a\nb"), "payload");
    check("/payload/erased_at", json!("2026-01-15T12:00:00Z"), "payload_base64");
    check("/payload/bytes", json!(5), "payload_base64");
    check("/payload_base64", json!("Ym9keQ=!"), "payload_base64");
    check("/payload_base64", json!("Ym9keg=="), "payload_base64");
    check("/payload_base64", json!(7), "payload_base64");
    check("/payload/sha256", json!("0".repeat(64)), "payload_base64");
    check("/payload_base64", Value::Null, "payload_base64");
}

#[test]
fn another_region_and_a_reference_have_codes_of_their_own() {
    let (_, line) = handed(b"body", |_| {});
    assert_eq!(read_in("us", &line).unwrap_err().code, Code::WrongRegion);
    let (_, line) = handed(b"", |it| it.payload.source = referred("file:///srv/x", None));
    assert_eq!(read_in("eu", &line).unwrap_err().code, Code::RefNotAllowed);
}

#[test]
fn a_reference_is_carried_over() {
    let check = |change: fn(&mut Delivery)| {
        let (view, line) = handed(b"", change);
        let Ok(Line::Delivery(got)) = read_in("eu", &line) else { panic!("{line}") };
        assert_eq!((got.delivery, got.body), (unnumbered((*view.delivery).clone()), Bytes::new()), "{line}");
    };
    check(|it| it.payload.source = referred("s3://bucket/a/b%20c", None));
    check(|it| it.payload.source = referred("s3://bucket/a", Some([7; 32])));
    check(|it| {
        it.payload.source = referred("s3://bucket/a", Some([7; 32]));
        it.state = State::Terminal { outcome: Ending::Rejected, at: T0, step: 9 };
        it.erase_body(T0);
    });
    // What has ended is not read again: it stands for its key, wherever its payload was.
    check(|it| {
        it.payload.source = referred("file:///srv/x", None);
        it.state = State::Terminal { outcome: Ending::Rejected, at: T0, step: 9 };
    });
    check(|it| {
        it.payload = Payload { source: referred("", None), erased_at: Some(T0) };
        it.state = State::Terminal { outcome: Ending::PayloadGone, at: T0, step: 9 };
    });
}

#[test]
fn a_reference_that_contradicts_itself_is_refused() {
    let check = |change: fn(&mut Value), want: &str| {
        let (_, line) = handed(b"", |it| it.payload.source = referred("s3://bucket/a", None));
        let mut line: Value = serde_json::from_str(&line).unwrap();
        change(&mut line);
        let problem = read_in("eu", &line.to_string()).unwrap_err();
        assert_eq!(problem.errors.first().map(|error| &*error.field), Some(want), "{line}");
    };
    check(|line| line["payload"]["ref"] = json!("s3://bucket/b"), "payload_ref");
    check(|line| line["payload"]["kind"] = json!("inline"), "payload_ref");
    check(|line| line["payload"]["kind"] = json!("reference"), "payload");
    check(|line| line["payload_ref"] = Value::Null, "payload_ref");
    check(|line| line["payload_base64"] = json!(""), "payload_base64");
    check(|line| line["payload_ref"] = json!(7), "payload_ref");
}

#[test]
fn a_destination_is_read_back_with_what_was_learnt() {
    let mut view = destination();
    view.settings.rate = Rate::per_second(0.016_667, 3);
    view.settings.adaptive = true;
    view.settings.secrets = vec![
        LiveSecret::new(Secret::symmetric(&[7; 32]).unwrap()),
        LiveSecret { secret: Secret::symmetric(&[8; 24]).unwrap(), until: Some(T0) },
    ];
    (view.note.state, view.note.reason) = (DestinationState::Disabled, "410 \"Gone\"".to_owned());
    let learnt = GateMemory {
        hold: Some(Hold { until: T0.plus(Millis(9)), reason: HoldReason::Unavailable }),
        refusals: 3,
        last_success_at: Some(T0),
        failing_since: Some(T0.plus(Millis(1))),
        failure_streak: 4,
        latency: Some(Millis(120)),
        limit: 5,
        learnt: Some((10_000_000, 1_000_000)),
        breaker_opened: 2,
        breaker_until: Some(T0.plus(Millis(7))),
        paced_until: Some(T0.plus(Millis(8))),
    };
    let check = |learnt: GateMemory| {
        let line = text(&dto::DestinationLine::of(&view, &learnt));
        let Ok(Line::Destination(got)) = read_in("eu", &line) else {
            panic!("{line}: {:?}", read_in("eu", &line))
        };
        let want = DestinationLine {
            name: view.name.clone(),
            settings: view.settings.clone(),
            note: view.note.clone(),
            created_at: view.created_at,
            revision: view.revision,
            memory: learnt,
        };
        assert_eq!(*got, want, "{line}");
    };
    check(learnt);
    check(GateMemory::default());
}

#[test]
fn each_fault_of_a_destination_names_its_field() {
    let mut view = destination();
    view.settings.tls = None::<Certificates>;
    let line = text(&dto::DestinationLine::of(&view, &GateMemory::default()));
    let check = |pointer: &str, value: Value, field: &str| {
        assert_eq!(fault(&changed(&line, pointer, value)), field, "{pointer}");
    };
    check("/id", json!("a b"), "id");
    check("/policy", json!("unheard-of"), "policy");
    check("/url", json!("ftp://shop.example.com/"), "url");
    check("/url", json!("https://127.0.0.1/"), "url");
    check("/headers", json!({"authorization": "***"}), "headers.authorization");
    check("/state", json!("deleted"), "state");
    check("/state", Value::Null, "state");
    check("/state_since", Value::Null, "state_since");
    check("/secrets", json!(["x"]), "secrets");
    check("/secrets_until", json!(["x"]), "secrets_until");
    check("/hold", json!({"until": "2026-01-15T12:00:00Z", "reason": "x"}), "hold");
    check("/hold", json!(1), "hold");
    check("/learnt", json!({"limit": 4_294_967_296_u64}), "learnt");
    check("/learnt", json!({"refusals": MAX_COUNT + 1}), "learnt");
    check("/revision", json!(MAX_COUNT + 1), "revision");
    check("/learnt", json!({"more": 1}), "learnt");
    check("/learnt", json!(1), "learnt");
    check("/in_flight", json!(1), "in_flight");
}

#[test]
fn what_was_learnt_is_taken_up_to_what_can_be() {
    let line = text(&dto::DestinationLine::of(&destination(), &GateMemory::default()));
    let learnt = json!({"latency_ms": u64::MAX, "rate": u64::MAX, "rate_floor": 7});
    let Ok(Line::Destination(got)) = read_in("eu", &changed(&line, "/learnt", learnt)) else {
        panic!("{line}")
    };
    assert_eq!((got.memory.latency, got.memory.learnt), (Some(Millis(60_000)), Some((100_000_000_000, 7))));
}

#[test]
fn headers_and_ends() {
    let who = Identity { server: [0xab; 16], fence: 7 };
    let header = text(&dto::HeaderLine::of(who, &name("eu"), T0));
    assert_eq!(read_in("eu", &header), Ok(Line::Header(who)));
    assert_eq!(read_in("us", &header).unwrap_err().code, Code::WrongRegion);
    let newer = read_in("eu", &changed(&header, "/format", json!(2))).unwrap_err();
    assert!(newer.errors[0].field == "format" && newer.errors[0].detail.contains("newer"), "{newer:?}");
    let newer = changed(&changed(&header, "/format", json!(2)), "/more", json!({}));
    assert_eq!(fault(&newer), "format", "before what it brings along is looked at");
    for (pointer, value, field) in [
        ("/format", Value::Null, "format"),
        ("/format", json!(0), "format"),
        ("/server", json!("ab"), "server"),
        ("/fence", json!(-1), "fence"),
        ("/more", json!(1), "more"),
    ] {
        assert_eq!(fault(&changed(&header, pointer, value)), field, "{pointer}");
    }
    let mut end = dto::EndLine::default();
    (end.destinations, end.deliveries, end.left_behind.damaged) = (3, u64::MAX, 1);
    assert_eq!(read_in("eu", &text(&end)), Ok(Line::End { destinations: 3, deliveries: u64::MAX }));
    assert_eq!(fault(r#"{"kind":"end","deliveries":1}"#), "destinations");
    assert_eq!(fault(r#"{"kind":"tail"}"#), "kind");
    assert_eq!(fault("{}"), "kind");
    for text in ["", "[]", "{", "nonsense", "{\"kind\":\"end\"}{}"] {
        assert_eq!(read_in("eu", text).unwrap_err().code, Code::Malformed, "{text}");
    }
}

#[test]
fn texts_are_cut_between_characters() {
    assert_eq!((short("aäb", 2), short("aäb", 3), short("", 0)), ("a".into(), "aä".into(), String::new()));
}
