//! Any bytes as the head of a request: who passes the door names a host that is ours and no other
//! site, and what `/v1/send` reads of its headers keeps every limit.

use axum::http::{HeaderName, HeaderValue, Request, header};
use duehook::http::body::{json_kind, refuse_encoding};
use duehook::http::door::Door;
use duehook::http::error::Problem;
use duehook::http::ingest::item::{Checks, is_content_type};
use duehook::http::ingest::raw;
use duehook::http::query;
use duehook::time::Timestamp;

/// The first line is the method and the target, each one after it a header.
pub fn target(bytes: &[u8]) {
    let Some(request) = request(bytes) else { return };
    let door = Door { allowed_hosts: vec!["hooks.example".to_owned()], ..Door::default() };
    match door.admit(&request) {
        Ok(()) => admitted(&request),
        Err(problem) => refused(&problem, &[400, 403, 421, 422]),
    }
    json_kind(request.headers()).err().iter().for_each(|it| refused(it, &[415, 422]));
    refuse_encoding(request.headers()).err().iter().for_each(|it| refused(it, &[415]));
    query::none(request.uri()).err().iter().for_each(|it| refused(it, &[422]));
    let region = "eu".parse().expect("a name");
    let checks =
        Checks { region: &region, max_payload: 64, references: &[], now: Timestamp(1_800_000_000_000) };
    match raw::read_head(request.uri().path().trim_start_matches('/'), request.headers(), &checks) {
        Ok(head) => {
            let delivery = head.with(bytes::Bytes::new());
            assert!(is_content_type(&delivery.content_type) && delivery.not_before.is_none_or(|at| at.0 > 0));
        }
        Err(problem) => refused(&problem, &[404, 409, 415, 422]),
    }
}

fn request(bytes: &[u8]) -> Option<Request<()>> {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let first = std::str::from_utf8(lines.next()?).ok()?;
    let (method, uri) = first.split_once(' ')?;
    let mut request = Request::builder().method(method).uri(uri).body(()).ok()?;
    for line in lines {
        let (name, value) = line.split_at(line.iter().position(|byte| *byte == b':')?);
        let name = HeaderName::from_bytes(name).ok()?;
        request.headers_mut().append(name, HeaderValue::from_bytes(value[1..].trim_ascii()).ok()?);
    }
    Some(request)
}

fn admitted(request: &Request<()>) {
    let host = request.headers()[header::HOST].to_str().expect("it was read").to_ascii_lowercase();
    assert!(
        ["localhost", "127.", "[::1]", "[0", "[:", "hooks.example"].iter().any(|own| host.starts_with(own)),
        "{host}"
    );
    let changes = request.method() != "GET" && request.method() != "HEAD";
    for origin in request.headers().get_all(header::ORIGIN).iter().filter(|_| changes) {
        assert!(origin.as_bytes().to_ascii_lowercase().ends_with(host.as_bytes()), "{origin:?} at {host}");
    }
}

fn refused(problem: &Problem, statuses: &[u16]) {
    assert!(statuses.contains(&problem.status().as_u16()), "{problem:?}");
    assert!(!problem.detail.is_empty());
}

#[test]
fn corpus() {
    crate::over_corpus("request_head", target);
}
