//! A raw body whose delivery is told by headers.

use super::*;
use crate::engine::explain::samples::{T0, name};
use crate::http::error::Code;
use axum::http::HeaderValue;

fn head(destination: &str, given: &[(&'static str, &str)]) -> Result<Head, Problem> {
    let region = name("eu");
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    read_head(destination, &headers, &Checks { region: &region, max_payload: 9, references: &[], now: T0 })
}

#[test]
fn a_raw_body_with_all_its_headers() {
    let given = [
        ("content-type", "text/csv; charset=utf-8"),
        ("idempotency-key", "\"k\""),
        ("duehook-tenant", "acme"),
        ("duehook-class", "urgent"),
        ("duehook-region", "eu"),
        ("duehook-not-before", "2026-01-15T12:00:00Z"),
        ("duehook-max-age-ms", "1000"),
        ("duehook-max-failures", "3"),
        ("authorization", "not passed on"),
    ];
    let read = head("shop", &given).unwrap().with(Bytes::from_static(b"\xff\xfe"));
    let want = NewDelivery {
        destination: name("shop"),
        tenant: Some(name("acme")),
        class: Some(name("urgent")),
        key: Some("k".parse().unwrap()),
        not_before: Some(T0),
        max_age: Some(Millis(1_000)),
        max_failures: Some(3),
        headers: Vec::new(),
        labels: Vec::new(),
        content_type: "text/csv; charset=utf-8".to_owned(),
        body: NewBody::new(Bytes::from_static(b"\xff\xfe")),
    };
    assert_eq!(read, want);
    let bare = head("shop", &[]).unwrap().with(Bytes::new());
    assert_eq!((&*bare.content_type, bare.body.bytes().len()), ("application/octet-stream", 0));
}

#[test]
fn faults_name_their_header() {
    let check = |name: &'static str, value: &str| {
        let problem = head("shop", &[(name, value)]).expect_err(name);
        let named: Vec<&str> = problem.errors.iter().map(|one| &*one.field).collect();
        assert_eq!((problem.code, &*named), (Code::Invalid, &[name][..]), "{value:?}");
    };
    check("idempotency-key", "a b");
    check("idempotency-key", "");
    check("idempotency-key", "é");
    check("duehook-tenant", "a b");
    check("duehook-class", "");
    check("duehook-not-before", "soon");
    check("duehook-not-before", "2027-01-15T12:00:00Z");
    check("duehook-max-age-ms", "1");
    check("duehook-max-age-ms", "1s");
    check("duehook-max-failures", "-1");
    check("content-type", "");
    check("content-type", &"t".repeat(256));
    let twice = head("shop", &[("duehook-class", "a"), ("duehook-class", "b")]).unwrap_err();
    assert_eq!(twice.errors[0].field, "duehook-class");
    assert_eq!(head("a b", &[]).unwrap_err().errors[0].field, "destination");
    assert_eq!(head("shop", &[("duehook-region", "us")]).unwrap_err().code, Code::WrongRegion);
}
