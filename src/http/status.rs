//! The status page at `/`: one document that asks for `/v1/stats` again and again.
//!
//! It loads nothing from elsewhere, and its policy lets nothing run but its own script and style.

use std::sync::LazyLock;

use axum::body::Body;
use axum::http::{HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::http::app::{Answered, with};
use crate::http::query;

const PAGE: &str = include_str!("status.html");

/// The policy names the script and the style by their digests: nothing else can run.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let (script, style) = (digest("<script>", "</script>"), digest("<style>", "</style>"));
    format!(
        "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
});

/// `GET /`.
pub async fn page(uri: Uri) -> Answered {
    query::none(&uri)?;
    Ok(document())
}

fn document() -> Response<Body> {
    let mut response = Response::new(Body::from(PAGE));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    with(response, header::CONTENT_SECURITY_POLICY, &POLICY)
}

/// True for a browser that asks for the page.
#[must_use]
pub fn is_asked_for<B>(request: &Request<B>) -> bool {
    let takes = |value: &HeaderValue| value.to_str().is_ok_and(|text| text.contains("text/html"));
    request.uri().path() == "/"
        && request.method() == Method::GET
        && request.headers().get_all(header::ACCEPT).iter().any(takes)
}

/// The page that stands in place of a 401, so that a browser can be given a token: it holds nothing
/// of the server's, and asks for everything with what is typed into it.
#[must_use]
pub fn locked() -> Response<Body> {
    let mut response = document();
    *response.status_mut() = StatusCode::UNAUTHORIZED;
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

/// The digest of what stands between two marks of the page.
fn digest(begin: &str, end: &str) -> String {
    let inner = PAGE.split_once(begin).and_then(|(_, rest)| rest.split_once(end));
    STANDARD.encode(Sha256::digest(inner.map_or("", |(text, _)| text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_page_is_self_contained() {
        let response = page("/".parse().unwrap()).await.unwrap();
        let policy = response.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        for mark in ["<script>", "</script>", "<style>", "</style>"] {
            assert_eq!(PAGE.matches(mark).count(), 1, "{mark}");
        }
        for outside in ["http:", "https:", "src=", "href=", "innerHTML", "style=\"", "onclick"] {
            assert!(!PAGE.contains(outside), "{outside}");
        }
    }
}
