//! Reading a request: its body up to a bound and a deadline, its content type, and single headers.
//!
//! A body is refused as soon as it is known to be too long, and never held beyond its bound.

use std::pin::pin;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::{HeaderMap, HeaderName, header};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;

use crate::http::error::{Code, Problem};
use crate::http::fields::REPEATED;

/// How much of a body is taken, and how long it may take to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    pub bytes: usize,
    pub wait: Duration,
}

/// Reads a body whole. A body that came in one piece is not copied.
///
/// # Errors
/// 413 as soon as it is longer than the bound, 408 when it takes too long, 400 when it breaks off.
/// Each ends the connection.
pub async fn read(headers: &HeaderMap, body: Body, bound: Bound) -> Result<Bytes, Problem> {
    refuse_encoding(headers)?;
    if body.size_hint().lower() > bound.bytes as u64 {
        return Err(too_large(bound.bytes).closing());
    }
    match tokio::time::timeout(bound.wait, collect(body, bound.bytes)).await {
        Ok(read) => read,
        Err(_) => {
            let detail = format!("the body did not come within {} ms", bound.wait.as_millis());
            Err(Problem::new(Code::BodyTimeout, detail).closing())
        }
    }
}

async fn collect(body: Body, most: usize) -> Result<Bytes, Problem> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(most).min(most);
    let mut body = pin!(body);
    let Some(first) = next(&mut body).await? else { return Ok(Bytes::new()) };
    if body.is_end_stream() {
        return bounded(first.len(), most).map(|()| first);
    }
    let mut whole = BytesMut::with_capacity(announced.max(first.len()));
    whole.extend_from_slice(&first);
    bounded(whole.len(), most)?;
    while let Some(piece) = next(&mut body).await? {
        bounded(whole.len() + piece.len(), most)?;
        whole.extend_from_slice(&piece);
    }
    Ok(whole.freeze())
}

/// The next piece of data; trailers are passed over.
pub(super) async fn next(
    body: &mut (impl HttpBody<Data = Bytes, Error = axum::Error> + Unpin),
) -> Result<Option<Bytes>, Problem> {
    while let Some(frame) = body.frame().await {
        let broken = || Problem::new(Code::Malformed, "the body broke off or its framing is wrong").closing();
        if let Ok(data) = frame.map_err(|_| broken())?.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

fn bounded(have: usize, most: usize) -> Result<(), Problem> {
    if have > most { Err(too_large(most).closing()) } else { Ok(()) }
}

/// 413: names the bound and the way out.
#[must_use]
pub fn too_large(most: usize) -> Problem {
    let detail = format!(
        "more than {most} bytes: store it elsewhere and send a link to it (ingest.max_payload sets the bound)"
    );
    Problem::new(Code::PayloadTooLarge, detail)
}

/// The content types that a JSON route takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Json {
    /// One JSON text.
    Text,
    /// One JSON text a line.
    Lines,
}

/// Which JSON the request says it carries.
///
/// # Errors
/// 415 `content_type` where it is neither `application/json`, nor `application/…+json`, nor
/// `application/x-ndjson`.
pub fn json_kind(headers: &HeaderMap) -> Result<Json, Problem> {
    let text = single(headers, &header::CONTENT_TYPE)?.unwrap_or_default();
    let essence = text.split(';').next().unwrap_or_default().trim();
    let is = |want: &str| essence.eq_ignore_ascii_case(want);
    let suffixed = || {
        let bytes = essence.as_bytes();
        bytes.len() > 17
            && bytes[..12].eq_ignore_ascii_case(b"application/")
            && bytes[bytes.len() - 5..].eq_ignore_ascii_case(b"+json")
    };
    if is("application/json") || suffixed() {
        return Ok(Json::Text);
    }
    if is("application/x-ndjson") {
        return Ok(Json::Lines);
    }
    Err(not_json())
}

/// 415 with the remedy for curl.
#[must_use]
pub fn not_json() -> Problem {
    let detail = "this route takes JSON and has to be told so (curl: -H 'content-type: application/json')";
    Problem::new(Code::ContentType, detail)
}

/// 415: bodies are taken as they are.
///
/// # Errors
/// When the request says that its body is encoded.
pub fn refuse_encoding(headers: &HeaderMap) -> Result<(), Problem> {
    if headers.contains_key(header::CONTENT_ENCODING) {
        let detail = "a content-encoding is not taken: send the bytes as they are";
        return Err(Problem::new(Code::ContentType, detail).closing());
    }
    Ok(())
}

/// The value of a header that may be there once.
///
/// # Errors
/// 422 `invalid` naming the header when it is there twice or is not visible ASCII.
pub fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Problem> {
    let mut values = headers.get_all(name).iter();
    let Some(first) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Problem::field(name.as_str().to_owned(), REPEATED));
    }
    let wrong = |_| Problem::field(name.as_str().to_owned(), "must be visible ASCII");
    first.to_str().map(Some).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use hyper::body::Frame;
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    const BOUND: Bound = Bound { bytes: 4, wait: Duration::from_millis(10) };

    /// A body that comes in these pieces, with no length announced.
    struct Pieces {
        left: &'static [&'static str],
        then_stalls: bool,
    }

    impl HttpBody for Pieces {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            match self.left.split_first() {
                Some((first, rest)) => {
                    self.left = rest;
                    Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(first.as_bytes())))))
                }
                None if self.then_stalls => Poll::Pending,
                None => Poll::Ready(None),
            }
        }
    }

    fn pieces(left: &'static [&'static str]) -> Body {
        Body::new(Pieces { left, then_stalls: false })
    }

    #[tokio::test]
    async fn bodies_up_to_the_bound() {
        async fn check(body: Body, want: Result<&str, Code>) {
            let got = read(&HeaderMap::new(), body, BOUND).await;
            assert_eq!(got.as_deref().map_err(|p| p.code), want.map(str::as_bytes));
            assert!(got.map_or_else(|p| p.close, |_| true));
        }
        check(Body::empty(), Ok("")).await;
        check(Body::from("abcd"), Ok("abcd")).await;
        check(Body::from("abcde"), Err(Code::PayloadTooLarge)).await;
        check(pieces(&[]), Ok("")).await;
        check(pieces(&["ab", "", "cd"]), Ok("abcd")).await;
        check(pieces(&["ab", "cde"]), Err(Code::PayloadTooLarge)).await;
        check(pieces(&["abcde"]), Err(Code::PayloadTooLarge)).await;
    }

    #[tokio::test]
    async fn c100_a_body_that_does_not_come_is_408() {
        let body = Body::new(Pieces { left: &["a"], then_stalls: true });
        let problem = read(&HeaderMap::new(), body, BOUND).await.unwrap_err();
        assert_eq!((problem.status().as_u16(), problem.close), (408, true));
    }

    #[test]
    fn content_types() {
        let check = |value: Option<&'static str>, want: Option<Json>| {
            let mut headers = HeaderMap::new();
            if let Some(value) = value {
                headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(value));
            }
            assert_eq!(json_kind(&headers).ok(), want, "{value:?}");
        };
        check(Some("application/json"), Some(Json::Text));
        check(Some("Application/JSON; charset=utf-8"), Some(Json::Text));
        check(Some("application/cloudevents+json"), Some(Json::Text));
        check(Some("application/x-ndjson"), Some(Json::Lines));
        check(Some("application/+json"), None);
        check(Some("application/x-www-form-urlencoded"), None);
        check(Some("text/plain"), None);
        check(Some(""), None);
        check(None, None);
    }

    #[tokio::test]
    async fn an_encoded_body_is_refused() {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        let problem = read(&headers, Body::from("x"), BOUND).await.unwrap_err();
        assert_eq!((problem.status().as_u16(), problem.code), (415, Code::ContentType));
    }
}
