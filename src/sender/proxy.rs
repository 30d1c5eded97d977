//! The proxy of `send.proxy`: everything that goes to a destination goes through it.
//!
//! What a URL shows is judged as ever, literal addresses included. A `socks5` proxy is given the
//! address that we looked up and judged. An `http` or `https` one looks names up by itself, so no
//! address behind a name can be judged here: what is only admitted by its address is refused.

use std::sync::Arc;

use url::{Host, Url};

use super::egress::{Reach, Refusal};

/// A proxy, if there is one.
#[derive(Clone, Debug, Default)]
pub struct Route {
    via: Option<Via>,
}

#[derive(Clone, Debug)]
struct Via {
    url: Url,
    /// The host as it is looked up.
    host: Arc<str>,
}

impl Route {
    /// The way by this proxy, or the direct one. A URL without a host is none.
    #[must_use]
    pub fn by(proxy: Option<Url>) -> Route {
        let via = proxy.and_then(|url| {
            let host = url.host_str()?.into();
            Some(Via { url, host })
        });
        Route { via }
    }

    /// True when there is a proxy.
    #[must_use]
    pub fn is_proxied(&self) -> bool {
        self.via.is_some()
    }

    /// True when the proxy reads requests to `url`, and may answer them in the receiver's place. In a
    /// tunnel it only passes on what it cannot read.
    #[must_use]
    pub fn reads(&self, url: &Url) -> bool {
        url.scheme() == "http" && self.via.as_ref().is_some_and(|via| !via.is_told_addresses())
    }

    /// Says whether a URL that may be called directly may be called this way.
    ///
    /// # Errors
    /// [`Refusal::Unseen`] or [`Refusal::Proxy`].
    pub fn permit(&self, url: &Url, reach: Reach) -> Result<(), Refusal> {
        let Some(via) = &self.via else { return Ok(()) };
        if url.host_str() == Some(&via.host) {
            return Err(Refusal::Proxy);
        }
        let is_name = matches!(url.host(), Some(Host::Domain(_)));
        let unseen = is_name && reach == Reach::Listed && !via.is_told_addresses();
        if unseen { Err(Refusal::Unseen) } else { Ok(()) }
    }

    /// The name under which the proxy itself is looked up: the one that is not judged.
    #[must_use]
    pub fn host(&self) -> Option<Arc<str>> {
        self.via.as_ref().map(|via| Arc::clone(&via.host))
    }

    /// What the client needs of it.
    ///
    /// # Errors
    /// The URL is none that a client can use.
    pub fn proxy(&self) -> Result<Option<reqwest::Proxy>, reqwest::Error> {
        self.via.as_ref().map(|via| reqwest::Proxy::all(via.url.clone())).transpose()
    }
}

impl Via {
    fn is_told_addresses(&self) -> bool {
        self.url.scheme() == "socks5"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_proxy_may_be_asked_for() {
        let check = |proxy: Option<&str>, url: &str, reach: Reach, want: Result<(), Refusal>| {
            let route = Route::by(proxy.map(|text| text.parse().unwrap()));
            assert_eq!(route.permit(&url.parse().unwrap(), reach), want, "{proxy:?} {url} {reach:?}");
            assert_eq!(route.proxy().unwrap().is_some(), proxy.is_some());
        };
        let (name, literal) = ("https://hooks.example.org/", "https://10.0.0.5/");
        for proxy in ["http://proxy.corp:3128", "https://proxy.corp", "socks5://proxy.corp:1080"] {
            check(Some(proxy), name, Reach::Public, Ok(()));
            check(Some(proxy), literal, Reach::Listed, Ok(()));
            check(Some(proxy), "https://proxy.corp/", Reach::Public, Err(Refusal::Proxy));
            check(Some(proxy), "http://proxy.corp:9000/", Reach::Listed, Err(Refusal::Proxy));
        }
        check(Some("http://proxy.corp:3128"), name, Reach::Listed, Err(Refusal::Unseen));
        check(Some("https://proxy.corp"), name, Reach::Listed, Err(Refusal::Unseen));
        check(Some("socks5://proxy.corp:1080"), name, Reach::Listed, Ok(()));
        check(None, name, Reach::Listed, Ok(()));
        check(None, "https://proxy.corp/", Reach::Listed, Ok(()));
    }

    #[test]
    fn who_a_proxy_can_answer_for() {
        let check = |proxy: Option<&str>, url: &str, want: bool| {
            let route = Route::by(proxy.map(|text| text.parse().unwrap()));
            assert_eq!(route.reads(&url.parse().unwrap()), want, "{proxy:?} {url}");
        };
        let (plain, secure) = ("http://a.org/", "https://a.org/");
        for (proxy, reads) in [("http://p.corp:3128", true), ("https://p.corp", true), ("socks5://p", false)]
        {
            check(Some(proxy), plain, reads);
            check(Some(proxy), secure, false);
        }
        check(None, plain, false);
    }
}
