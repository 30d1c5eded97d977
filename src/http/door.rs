//! What every request must pass before it reaches a route: a `Host` that is ours, no `Origin` of
//! another site on what changes something, no `Duehook-*` header that nobody reads.
//!
//! The first two keep a browser on the same machine from being used against the server: a page can
//! make it send requests here, but not with our `Host` and its own name, nor without its `Origin`.

use std::net::IpAddr;

use axum::http::{HeaderMap, Method, Request, Uri, Version, header};

use crate::http::error::{Code, Problem};

/// The headers of ours that `/v1/send` reads; no other route reads any.
pub const SEND_HEADERS: [&str; 6] = [
    "duehook-tenant",
    "duehook-class",
    "duehook-region",
    "duehook-not-before",
    "duehook-max-age-ms",
    "duehook-max-failures",
];
/// Where a browser says that a request comes from (W3C Fetch Metadata).
const FETCH_SITE: &str = "sec-fetch-site";
const SEND_PATH: &str = "/v1/send/";
const OWN_PREFIX: &str = "duehook-";

/// The names one listener answers to, besides loopback ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Door {
    /// With or without a port; without, any port will do.
    pub allowed_hosts: Vec<String>,
    /// A token is asked for: then the host that a request names proves nothing more.
    pub any_host: bool,
    /// How its own pages are reached.
    pub reached: Reached,
}

/// The scheme of a listener's own origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reached {
    #[default]
    Http,
    Https,
    /// A proxy with TLS may stand before it (`plaintext`): what it is asked by is not known here.
    Either,
}

impl Reached {
    fn schemes(self) -> &'static [&'static [u8]] {
        match self {
            Reached::Http => &[b"http://"],
            Reached::Https => &[b"https://"],
            Reached::Either => &[b"http://", b"https://"],
        }
    }
}

impl Door {
    /// Looks at the head of a request.
    ///
    /// # Errors
    /// 400, 421, 403 or 422: the request may not pass.
    pub fn admit<B>(&self, request: &Request<B>) -> Result<(), Problem> {
        // HTTP/1.0 needs no Host (RFC 9112, section 3.2); where it proves nothing, it may be missing.
        let may_lack = self.any_host && request.version() <= Version::HTTP_10;
        let host = match may_lack && !request.headers().contains_key(header::HOST) {
            true => "",
            false => host(request.headers(), request.uri())?,
        };
        if !self.any_host && !is_loopback(host) && !self.allows(host) {
            let detail =
                "the Host header is neither a loopback name nor one of this listener's allowed_hosts";
            return Err(Problem::new(Code::HostNotAllowed, detail).closing());
        }
        self.same_origin(request.method(), request.headers(), host)?;
        own_headers(request.headers(), request.uri().path())
    }

    fn same_origin(&self, method: &Method, headers: &HeaderMap, host: &str) -> Result<(), Problem> {
        if method == Method::GET || method == Method::HEAD {
            return Ok(());
        }
        let is = |value: &[u8], scheme: &[u8]| {
            value.strip_prefix(scheme).is_some_and(|name| name.eq_ignore_ascii_case(host.as_bytes()))
        };
        let own =
            |value: &[u8]| !host.is_empty() && self.reached.schemes().iter().any(|scheme| is(value, scheme));
        let from_here = |value: &[u8]| matches!(value, b"same-origin" | b"none");
        let origins = headers.get_all(header::ORIGIN).iter().all(|value| own(value.as_bytes()));
        if origins && headers.get_all(FETCH_SITE).iter().all(|value| from_here(value.as_bytes())) {
            return Ok(());
        }
        let detail = "Origin or Sec-Fetch-Site names another site; programs leave them out";
        Err(Problem::new(Code::OriginNotAllowed, detail).closing())
    }

    fn allows(&self, host: &str) -> bool {
        let (name, _) = split_port(host);
        self.allowed_hosts.iter().any(|one| one.eq_ignore_ascii_case(host) || one.eq_ignore_ascii_case(name))
    }
}

/// The one host a request names; an absolute target must name the same.
fn host<'a>(headers: &'a HeaderMap, target: &Uri) -> Result<&'a str, Problem> {
    let wrong = |detail| Problem::new(Code::Malformed, detail).closing();
    let mut values = headers.get_all(header::HOST).iter();
    let (Some(first), None) = (values.next(), values.next()) else {
        return Err(wrong("one Host header is needed"));
    };
    let host = first.to_str().map_err(|_| wrong("the Host header is not a host"))?;
    match target.authority() {
        Some(other) if !other.as_str().eq_ignore_ascii_case(host) => {
            Err(wrong("the request target and the Host header name different hosts"))
        }
        Some(_) | None => Ok(host),
    }
}

/// A host and its port, if it has one of digits only. An IPv6 address keeps its brackets.
fn split_port(host: &str) -> (&str, Option<&str>) {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !is_bare_v6(host) => {
            (name, Some(port))
        }
        Some(_) | None => (host, None),
    }
}

fn is_bare_v6(host: &str) -> bool {
    !host.starts_with('[') && host.matches(':').count() > 1 || host.ends_with(']')
}

fn is_loopback(host: &str) -> bool {
    let (name, _) = split_port(host);
    if name.eq_ignore_ascii_case("localhost") {
        return true;
    }
    let inner = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    match inner.unwrap_or(name).parse() {
        Ok(IpAddr::V4(address)) => inner.is_none() && address.is_loopback(),
        Ok(IpAddr::V6(address)) => inner.is_some() && address.is_loopback(),
        Err(_) => false,
    }
}

fn own_headers(headers: &HeaderMap, path: &str) -> Result<(), Problem> {
    let read = |name: &str| path.starts_with(SEND_PATH) && SEND_HEADERS.contains(&name);
    let mut names = headers.keys().map(header::HeaderName::as_str);
    match names.find(|name| name.starts_with(OWN_PREFIX) && !read(name)) {
        Some(name) => Err(Problem::field(name.to_owned(), "unknown header on this route").closing()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admit(method: &str, target: &str, headers: &[(&str, &str)]) -> u16 {
        let door =
            Door { allowed_hosts: vec!["hooks.internal".into(), "box:8461".into()], ..Door::default() };
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        door.admit(&request.body(()).unwrap()).err().map_or(200, |p| p.status().as_u16())
    }

    #[test]
    fn hosts() {
        let check = |host: &str, want: u16| assert_eq!(admit("GET", "/", &[("host", host)]), want, "{host}");
        for good in
            ["localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:8461", "127.9.9.9:80", "[::1]", "[::1]:8461"]
        {
            check(good, 200);
        }
        for good in ["hooks.internal", "Hooks.Internal:9", "box:8461"] {
            check(good, 200);
        }
        for bad in ["evil.example", "evil.example:8461", "localhost.evil.example", "127.0.0.1.evil.example"] {
            check(bad, 421);
        }
        for bad in
            ["box", "box:1", "::1", "[127.0.0.1]", "0.0.0.0", "[::]", "10.0.0.1", "", ":8461", "localhost:x"]
        {
            check(bad, 421);
        }
        assert_eq!(admit("GET", "/", &[]), 400);
        assert_eq!(admit("GET", "/", &[("host", "localhost"), ("host", "localhost")]), 400);
        assert_eq!(admit("GET", "http://evil.example/", &[("host", "localhost")]), 400);
        assert_eq!(admit("GET", "http://localhost/", &[("host", "localhost")]), 200);
    }

    #[test]
    fn origins() {
        let check = |method: &str, origin: &str, want: u16| {
            let headers = [("host", "localhost:8461"), ("origin", origin)];
            assert_eq!(admit(method, "/v1/x", &headers), want, "{method} {origin}");
        };
        check("GET", "http://evil.example", 200);
        check("HEAD", "null", 200);
        for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
            check(method, "http://localhost:8461", 200);
            check(method, "http://localhost:1", 403);
            check(method, "http://evil.example", 403);
            check(method, "null", 403);
            check(method, "", 403);
        }
    }

    #[test]
    fn own_origins_as_they_are_reached() {
        let check = |reached: Reached, origin: &str, want: bool| {
            let door = Door { any_host: true, reached, ..Door::default() };
            let request = Request::post("/v1/x").header("host", "hooks.internal").header("origin", origin);
            assert_eq!(door.admit(&request.body(()).unwrap()).is_ok(), want, "{reached:?} {origin}");
        };
        check(Reached::Http, "https://hooks.internal", false);
        check(Reached::Https, "https://hooks.internal", true);
        check(Reached::Https, "http://hooks.internal", false);
        check(Reached::Either, "https://hooks.internal", true);
        check(Reached::Either, "http://hooks.internal", true);
        check(Reached::Either, "https://evil.example", false);
    }

    #[test]
    fn an_old_client_without_a_host() {
        let check = |any_host: bool, version: Version, headers: &[(&str, &str)], want: u16| {
            let door = Door { any_host, ..Door::default() };
            let mut request = Request::post("/v1/x").version(version);
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let got = door.admit(&request.body(()).unwrap()).err().map_or(200, |p| p.status().as_u16());
            assert_eq!(got, want, "{any_host} {version:?} {headers:?}");
        };
        check(true, Version::HTTP_10, &[], 200);
        check(true, Version::HTTP_11, &[], 400);
        check(false, Version::HTTP_10, &[], 400);
        check(true, Version::HTTP_10, &[("origin", "http://")], 403);
        check(true, Version::HTTP_10, &[("host", "a"), ("host", "b")], 400);
    }

    #[test]
    fn requests_that_a_browser_makes_for_another_site() {
        let check = |method: &str, site: &str, want: u16| {
            let headers = [("host", "localhost:8461"), ("sec-fetch-site", site)];
            assert_eq!(admit(method, "/v1/x", &headers), want, "{method} {site}");
        };
        for site in ["same-origin", "none"] {
            check("POST", site, 200);
        }
        for site in ["cross-site", "same-site", "", "same-origin, none"] {
            check("POST", site, 403);
            check("GET", site, 200);
        }
    }

    #[test]
    fn headers_of_ours_that_nobody_reads() {
        let check = |path: &str, name: &str, want: u16| {
            assert_eq!(admit("POST", path, &[("host", "localhost"), (name, "x")]), want, "{path} {name}");
        };
        check("/v1/send/shop", "Duehook-Tenant", 200);
        check("/v1/send/shop", "Duehook-Tenent", 422);
        check("/v1/deliveries", "Duehook-Tenant", 422);
        check("/v1/deliveries", "X-Duehook", 200);
    }
}
