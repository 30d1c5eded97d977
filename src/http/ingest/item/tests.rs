//! One delivery as JSON: the least, the most, and every fault by its field.

use super::*;
use crate::engine::explain::samples::{T0, name};
use proptest::prelude::*;

const MAX: usize = 200_000;

fn read_text_with(text: &str, key: Option<&str>) -> Result<NewDelivery, Problem> {
    let (region, body) = (name("eu"), Bytes::copy_from_slice(text.as_bytes()));
    let checks = Checks { region: &region, max_payload: MAX, references: &[], now: T0 };
    read(&body, &body, key.map(|key| key.parse().unwrap()), &checks)
}

fn item(text: &str) -> Result<NewDelivery, Problem> {
    read_text_with(text, None)
}

/// `text` is refused with `code`, naming exactly `fields`.
fn refused(text: &str, code: Code, fields: &[&str]) {
    let problem = item(text).expect_err(text);
    let named: Vec<&str> = problem.errors.iter().map(|one| &*one.field).collect();
    let shown: String = text.chars().take(120).collect();
    assert_eq!((problem.code, &*named), (code, fields), "{shown}: {}", problem.detail);
}

/// The item that is right but for `more`.
fn with(more: &str) -> String {
    format!(r#"{{"destination":"shop","payload":1,{more}}}"#)
}

#[test]
fn the_least_and_the_most() {
    let least = item(r#"{"destination":"shop","payload":{}}"#).unwrap();
    let want = NewDelivery {
        destination: name("shop"),
        tenant: None,
        class: None,
        key: None,
        not_before: None,
        max_age: None,
        max_failures: None,
        headers: Vec::new(),
        labels: Vec::new(),
        content_type: "application/json".to_owned(),
        body: NewBody::new(Bytes::from_static(b"{}")),
    };
    assert_eq!(least, want);
    let most = item(
        r#"{"destination":"shop","tenant":"acme","class":"urgent","idempotency_key":"k","region":"eu",
        "not_before":"2026-01-15T13:00:00+01:00","max_age_ms":1000,"max_failures":0,
        "headers":{"X-A":"1"},"labels":{"a":"b"},"content_type":"text/plain","payload_base64":"aGk="}"#,
    );
    let want = NewDelivery {
        destination: name("shop"),
        tenant: Some(name("acme")),
        class: Some(name("urgent")),
        key: Some("k".parse().unwrap()),
        not_before: Some(T0),
        max_age: Some(Millis(1_000)),
        max_failures: Some(0),
        headers: vec![Header::new("x-a", "1").unwrap()],
        labels: vec![("a".to_owned(), "b".to_owned())],
        content_type: "text/plain".to_owned(),
        body: NewBody::new(Bytes::from_static(b"hi")),
    };
    assert_eq!(most.unwrap(), want);
}

#[test]
fn what_cannot_be_read() {
    for text in ["", "{", "[]", "null", "7", "{\"destination\":\"shop\",\"payload\":}", "{} {}"] {
        refused(text, Code::Malformed, &[]);
    }
}

#[test]
fn faults_name_their_field() {
    let check = |more: &str, field: &str| refused(&with(more), Code::Invalid, &[field]);
    check(r#""colour":1"#, "colour");
    check(r#""Tenant":"acme""#, "Tenant");
    check(r#""tenant":"a b""#, "tenant");
    check(r#""tenant":7"#, "tenant");
    check(r#""tenant":"a","tenant":"b""#, "tenant");
    check(r#""class":"""#, "class");
    check(r#""region":"a b""#, "region");
    check(r#""idempotency_key":"""#, "idempotency_key");
    check(r#""idempotency_key":"a b""#, "idempotency_key");
    check(r#""idempotency_key":"a\"b""#, "idempotency_key");
    check(r#""idempotency_key":7"#, "idempotency_key");
    check(&format!(r#""idempotency_key":"{}""#, "k".repeat(256)), "idempotency_key");
    check(r#""not_before":"tomorrow""#, "not_before");
    check(r#""not_before":1768478400"#, "not_before");
    check(r#""not_before":"2026-02-14T12:00:00.001Z""#, "not_before");
    check(r#""max_age_ms":999"#, "max_age_ms");
    check(r#""max_age_ms":2592000001"#, "max_age_ms");
    check(r#""max_age_ms":"1000""#, "max_age_ms");
    check(r#""max_age_ms":1000.5"#, "max_age_ms");
    check(r#""max_failures":-1"#, "max_failures");
    check(r#""max_failures":4294967296"#, "max_failures");
    check(r#""headers":[]"#, "headers");
    check(r#""headers":{"Host":"x"}"#, "headers.Host");
    check(r#""headers":{"webhook-id":"x"}"#, "headers.webhook-id");
    check(r#""headers":{"x":"a\r\nb: c"}"#, "headers.x");
    check(r#""headers":{"x":1}"#, "headers.x");
    check(r#""headers":{"x":"1","X":"2"}"#, "headers.X");
    check(r#""labels":"a""#, "labels");
    check(r#""labels":{"":"a"}"#, "labels.");
    check(r#""labels":{"a":1}"#, "labels.a");
    check(r#""labels":{"a":"1","a":"2"}"#, "labels.a");
    check(r#""content_type":"""#, "content_type");
    check(r#""content_type":"a\nb""#, "content_type");
    check(&format!(r#""content_type":"{}""#, "t".repeat(256)), "content_type");
    check(r#""sha256":"00""#, "sha256");
    check(r#""payload":2"#, "payload");
    check(r#""payload_base64":"aGk=""#, "payload");
    check(r#""payload_ref":"file:///x""#, "payload");
}

#[test]
fn limits_of_lists_and_texts() {
    let entries = |count: usize, value: &str| -> String {
        (0..count).map(|n| format!(r#""x{n}":"{value}""#)).collect::<Vec<_>>().join(",")
    };
    assert!(item(&with(&format!(r#""headers":{{{}}}"#, entries(16, &"v".repeat(1024))))).is_ok());
    refused(&with(&format!(r#""headers":{{{}}}"#, entries(17, "v"))), Code::Invalid, &["headers"]);
    let long = format!(r#""headers":{{"x":"{}"}}"#, "v".repeat(1025));
    refused(&with(&long), Code::Invalid, &["headers.x"]);
    assert!(item(&with(&format!(r#""labels":{{{}}}"#, entries(8, &"v".repeat(256))))).is_ok());
    refused(&with(&format!(r#""labels":{{{}}}"#, entries(9, "v"))), Code::Invalid, &["labels"]);
    let long = format!(r#""labels":{{"x":"{}"}}"#, "v".repeat(257));
    refused(&with(&long), Code::Invalid, &["labels.x"]);
    assert!(item(&with(r#""not_before":"2026-02-14T12:00:00.000Z""#)).is_ok());
    assert!(item(&with(r#""not_before":"1999-01-01T00:00:00Z""#)).is_ok());
}

#[test]
fn what_is_missing() {
    refused("{}", Code::Invalid, &["destination", "payload"]);
    refused(r#"{"destination":null,"payload_base64":null}"#, Code::Invalid, &["destination", "payload"]);
    refused(r#"{"destination":"shop","payload_ref":7}"#, Code::Invalid, &["payload_ref"]);
    refused(r#"{"destination":"a b","payload":1}"#, Code::Invalid, &["destination"]);
    let nulls =
        r#""tenant":null,"class":null,"idempotency_key":null,"headers":null,"labels":null,"region":null"#;
    assert!(item(&with(nulls)).is_ok());
}

#[test]
fn regions_and_references() {
    refused(&with(r#""region":"us""#), Code::WrongRegion, &["region"]);
    assert!(item(&with(r#""region":"eu""#)).is_ok());
    refused(r#"{"destination":"shop","payload_ref":"file:///x"}"#, Code::RefNotAllowed, &["payload_ref"]);
    let short = r#"{"destination":"shop","payload_ref":"file:///x","sha256":"00"}"#;
    refused(short, Code::Invalid, &["sha256"]);
    let region = name("eu");
    let references = ["s3://bucket/out/".parse().unwrap()];
    let checks = Checks { region: &region, max_payload: MAX, references: &references, now: T0 };
    let read = |text: &str| {
        let body = Bytes::copy_from_slice(text.as_bytes());
        read(&body, &body, None, &checks).map(|one| (one.body, one.content_type))
    };
    let digits = "0A".repeat(32);
    let text = format!(r#"{{"destination":"shop","payload_ref":"s3://bucket/out/%61","sha256":"{digits}"}}"#);
    let reference = "s3://bucket/out/a".parse().unwrap();
    let want = NewBody::Reference { reference, sha256: Some([10; 32]) };
    assert_eq!(read(&text).unwrap(), (want, "application/json".to_owned()));
    for other in ["s3://bucket/outer/a", "s3://bucket/out/", "s3://other/out/a", "", "a"] {
        let problem = read(&format!(r#"{{"destination":"shop","payload_ref":"{other}"}}"#)).unwrap_err();
        assert_eq!(
            (problem.code, &*problem.errors[0].field),
            (Code::RefNotAllowed, "payload_ref"),
            "{other}"
        );
    }
}

#[test]
fn the_key_of_the_header_and_of_the_field() {
    let key = |text: &str, header: Option<&str>| {
        let read = read_text_with(text, header).map_err(|p| p.errors[0].field.to_string());
        read.map(|delivery| delivery.key.map(|key| key.as_str().to_owned()))
    };
    let field = with(r#""idempotency_key":"k""#);
    assert_eq!(key(&field, None), Ok(Some("k".to_owned())));
    assert_eq!(key(&field, Some("k")), Ok(Some("k".to_owned())));
    assert_eq!(key(&field, Some("other")), Err("idempotency_key".to_owned()));
    assert_eq!(key(&with(r#""class":"a""#), Some("k")), Ok(Some("k".to_owned())));
}

#[test]
fn base64_padded_and_not() {
    let check = |text: &str, want: Option<&[u8]>| {
        let got = item(&format!(r#"{{"destination":"shop","payload_base64":{text}}}"#));
        assert_eq!(got.ok().map(|one| one.body.bytes()).as_deref(), want, "{text}");
    };
    check(r#""""#, Some(b""));
    check(r#""/w==""#, Some(b"\xff"));
    check(r#""/w""#, Some(b"\xff"));
    check(r#""\/w==""#, Some(b"\xff"));
    check(r#""_w==""#, None);
    check(r#""a""#, None);
    check(r#""aGk=\n""#, None);
    check("7", None);
    let octets = item(r#"{"destination":"shop","payload_base64":""}"#).unwrap();
    assert_eq!(octets.content_type, "application/octet-stream");
}

#[test]
fn c207_a_payload_at_the_limit() {
    let sized =
        |bytes: usize| item(&format!(r#"{{"destination":"shop","payload":"{}"}}"#, "x".repeat(bytes - 2)));
    assert_eq!(sized(MAX).unwrap().body.bytes().len(), MAX);
    assert_eq!(sized(MAX + 1).unwrap_err().code, Code::PayloadTooLarge);
    let coded = |bytes: usize| {
        let text = BASE64.encode(vec![0; bytes]);
        item(&format!(r#"{{"destination":"shop","payload_base64":"{text}"}}"#))
    };
    assert!(coded(MAX).is_ok());
    assert_eq!(coded(MAX + 1).unwrap_err().code, Code::PayloadTooLarge);
}

/// The bytes of `payload` are those of the request, and they are a slice of it.
fn kept(payload: &str) {
    let text = format!("{{\"destination\":\"shop\", \"payload\" : {payload} \n}}");
    let (region, body) = (name("eu"), Bytes::from(text));
    let checks = Checks { region: &region, max_payload: MAX, references: &[], now: T0 };
    let read = read(&body, &body, None, &checks).unwrap().body.bytes();
    assert_eq!(read, payload.as_bytes());
    assert!(body.as_ptr_range().contains(&read.as_ptr()), "copied");
}

#[test]
fn c198_c199_c200_payloads_stay_as_they_stood() {
    kept("null");
    kept(r#"{"id":9007199254740993,"x":12345678901234567890,"d":0.1000,"e":1E400,"z":-0}"#);
    kept(r#"{"n":"Zoë 😀 日本"}"#);
    kept(r#"{"n":"Zo\u00eb \ud83d\ude00 \ud800"}"#);
    kept("{\"a\":\"\u{2028}\u{2029}\"}");
    kept("{ \"a\" : 1,\r\n\t\"a\":2 }");
    kept(r#""a\/b\u0000""#);
}

/// C109: a payload is only scanned, never built, however deep it is.
#[test]
fn c109_deep_nesting_is_opaque() {
    kept(&format!("{}{}", "[".repeat(31_000), "]".repeat(31_000)));
    kept(&format!("{}1{}", "{\"a\":".repeat(31_000), "}".repeat(31_000)));
    let broken = format!(r#"{{"destination":"shop","payload":{}}}"#, "[".repeat(62_000));
    refused(&broken, Code::Malformed, &[]);
    let deep = format!("{}{}", "[".repeat(31_000), "]".repeat(31_000));
    refused(&with(&format!(r#""labels":{deep}"#)), Code::Invalid, &["labels"]);
    refused(&with(&format!(r#""tenant":{deep}"#)), Code::Invalid, &["tenant"]);
}

proptest! {
    #[test]
    fn any_text_is_kept_byte_for_byte(text: String, space in "[ \t\r\n]{0,8}") {
        kept(&serde_json::to_string(&text).unwrap());
        kept(&format!("[{space}{}{space}]", serde_json::to_string(&text).unwrap()));
    }

    #[test]
    fn any_bytes_are_a_delivery_or_a_refusal(bytes: Vec<u8>) {
        let (region, body) = (name("eu"), Bytes::from(bytes));
        let checks = Checks { region: &region, max_payload: MAX, references: &[], now: T0 };
        prop_assert!(read(&body, &body, None, &checks).is_err());
    }
}
