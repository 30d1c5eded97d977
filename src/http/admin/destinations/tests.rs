//! `If-Match`, and how a hold is written.

use super::*;
use crate::engine::explain::samples::{T0, destination};
use axum::http::HeaderValue;

/// The tag of [`destination`], alone and among others.
const OWN: &str = "\"1-4\"";
const LIST: &str = "\"3-4\", \"1-4\"";

#[test]
fn if_match() {
    assert_eq!(etag(&destination()), OWN);
    let check = |lines: &[&'static str], good: bool| {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(header::IF_MATCH, HeaderValue::from_static(line));
        }
        let got = matches(&headers, &destination()).map_err(|problem| problem.status());
        assert_eq!(got, if good { Ok(()) } else { Err(StatusCode::PRECONDITION_FAILED) }, "{lines:?}");
    };
    check(&[], true);
    check(&[OWN], true);
    check(&["*"], true);
    check(&[LIST], true);
    check(&["\"3\"", OWN], true);
    check(&["\"3\""], false);
    check(&["\"1-3\""], false);
    check(&["\"2-4\""], false);
    check(&["1-4"], false);
    check(&["W/\"1-4\""], false);
    check(&[""], false);
}

#[test]
fn holds() {
    let check = |text: &str, want: Result<&str, &str>| {
        let got = read_hold(text.as_bytes(), T0);
        let got =
            got.map(|(until, _)| until.to_string()).map_err(|problem| problem.errors[0].field.to_string());
        assert_eq!(got.as_deref().map_err(|field| &**field), want, "{text}");
    };
    check(r#"{"until":"2026-01-15T12:00:01Z","reason":"upgrade"}"#, Ok("2026-01-15T12:00:01.000Z"));
    check(r#"{"until":"2026-01-15T12:00:00Z"}"#, Err("until"));
    check("{}", Err("until"));
    check(r#"{"until":null}"#, Err("until"));
    check(r#"{"until":"later"}"#, Err("until"));
    check(r#"{"until":"2026-01-15T12:00:01Z","reason":"a\nb"}"#, Err("reason"));
    check(r#"{"until":"2026-01-15T12:00:01Z","why":"x"}"#, Err("why"));
}
