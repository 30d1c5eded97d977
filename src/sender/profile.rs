//! The clients: one for each set of addresses and connect timeout, so that no connection
//! opened under one egress rule serves another.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ipnet::IpNet;
use reqwest::{Certificate, Client, ClientBuilder, Identity, redirect, retry, tls};

use super::Endpoint;
use super::egress::Reach;
use super::egress::resolver::{Guard, Names};
use super::proxy::Route;
use crate::model::destination::CONCURRENCY_MAX;
use crate::model::{Certificates, ClientCertificate};
use crate::time::Millis;

/// Clients kept: each has a pool and a copy of the root certificates. The one that was not
/// used for longest goes first; what is in flight on it finishes.
pub const MAX_PROFILES: usize = 64;
/// How long a connection is kept for a next request: under the keep-alive of usual receivers.
pub const POOL_IDLE: Duration = Duration::from_secs(15);
/// Header lines of an answer; more is an invalid answer.
pub const MAX_RESPONSE_HEADERS: usize = 64;
/// Bytes of the header list of an HTTP/2 answer.
const MAX_HEADER_LIST: u32 = 16 * 1024;
/// An HTTP/2 connection that is dead without a sign is given up after this and as long again;
/// otherwise all that is sent on it would time out for as long as TCP keeps trying.
const HTTP2_PING: Duration = Duration::from_secs(10);

/// What destinations must have in common to share a client.
#[derive(Debug, PartialEq, Eq)]
struct Key {
    reach: Reach,
    connect_timeout: Millis,
    allow_cidrs: Arc<[IpNet]>,
    tls: Option<Certificates>,
}

impl Key {
    fn of(endpoint: &Endpoint, reach: Reach) -> Key {
        let allow_cidrs = endpoint.allow_cidrs.as_slice().into();
        Key { reach, connect_timeout: endpoint.connect_timeout, allow_cidrs, tls: endpoint.tls.clone() }
    }

    fn fits(&self, endpoint: &Endpoint, reach: Reach) -> bool {
        self.reach == reach
            && self.connect_timeout == endpoint.connect_timeout
            && *self.allow_cidrs == *endpoint.allow_cidrs
            && self.tls == endpoint.tls
    }
}

/// What clients are made of besides what their destinations say.
#[derive(Clone, Debug)]
pub struct Grounds {
    /// May be reached besides public addresses.
    pub allowed: Arc<[IpNet]>,
    /// Trusted besides the system's.
    pub extra_roots: Vec<Certificate>,
    pub names: Arc<dyn Names>,
    pub route: Route,
}

/// What all clients have in common.
#[derive(Debug)]
pub struct Profiles {
    grounds: Grounds,
    system_roots: bool,
    /// The one used last is first.
    kept: Mutex<Vec<(Key, Client)>>,
}

impl Profiles {
    /// No clients yet. A system without roots is noted once; https then needs the extra ones.
    #[must_use]
    pub fn new(grounds: Grounds) -> Profiles {
        let kept = Mutex::new(Vec::new());
        let system_roots = tls_settings(Client::builder(), &grounds.extra_roots, true).build().is_ok();
        if !system_roots {
            tracing::warn!("no certificates of the system could be loaded: https needs send.ca_file");
        }
        Profiles { grounds, system_roots, kept }
    }

    /// True when the system has certificates of its own.
    #[must_use]
    pub fn has_system_roots(&self) -> bool {
        self.system_roots
    }

    /// The client of `endpoint`, made when it is not kept. It is made outside the lock: two
    /// tasks may both make it, and one of the two goes.
    ///
    /// # Errors
    /// The client could not be made: a fault of TLS settings.
    pub fn client(&self, endpoint: &Endpoint, reach: Reach) -> Result<Client, reqwest::Error> {
        if let Some(client) = self.find(endpoint, reach) {
            return Ok(client);
        }
        let key = Key::of(endpoint, reach);
        let client = self.build(&key)?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(other, _)| *other != key);
        kept.insert(0, (key, client.clone()));
        kept.truncate(MAX_PROFILES);
        Ok(client)
    }

    /// How many clients are kept.
    #[must_use]
    pub fn count(&self) -> usize {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn find(&self, endpoint: &Endpoint, reach: Reach) -> Option<Client> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let place = kept.iter().position(|(key, _)| key.fits(endpoint, reach))?;
        kept[..=place].rotate_right(1);
        Some(kept[0].1.clone())
    }

    fn build(&self, key: &Key) -> Result<Client, reqwest::Error> {
        let Grounds { allowed, extra_roots, names, route } = &self.grounds;
        let guard = Guard {
            names: Arc::clone(names),
            proxy: route.host(),
            reach: key.reach,
            allowed: Arc::clone(allowed),
            own: Arc::clone(&key.allow_cidrs),
        };
        let mut builder = transport(Client::builder()).connect_timeout(key.connect_timeout.duration());
        if let Some(proxy) = route.proxy()? {
            builder = builder.proxy(proxy);
        }
        let builder = builder.dns_resolver(guard);
        let Some(own) = &key.tls else {
            return tls_settings(builder, extra_roots, self.system_roots).build();
        };
        let roots: Vec<_> = extra_roots.iter().cloned().chain(roots(own)?).collect();
        with_identity(tls_settings(builder, &roots, self.system_roots), own)?.build()
    }
}

/// One request is one request: nothing is followed, repeated, unpacked or sent by way of a
/// proxy that the environment names. Lines of an answer that are no header are passed over,
/// as the status line already says what is to be known.
pub(super) fn transport(builder: ClientBuilder) -> ClientBuilder {
    builder
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .no_proxy()
        .referer(false)
        .tcp_nodelay(true)
        .pool_idle_timeout(POOL_IDLE)
        .pool_max_idle_per_host(CONCURRENCY_MAX as usize)
        .http1_max_headers(MAX_RESPONSE_HEADERS)
        .http1_ignore_invalid_headers_in_responses(true)
        .http2_max_header_list_size(MAX_HEADER_LIST)
        .http2_keep_alive_interval(HTTP2_PING)
        .http2_keep_alive_timeout(HTTP2_PING)
}

pub(super) fn tls_settings(builder: ClientBuilder, extra: &[Certificate], system: bool) -> ClientBuilder {
    let builder = builder.tls_version_min(tls::Version::TLS_1_2);
    if !system {
        builder.tls_certs_only(extra.iter().cloned())
    } else if extra.is_empty() {
        builder
    } else {
        builder.tls_certs_merge(extra.iter().cloned())
    }
}

/// The certificates that a destination trusts beside the others.
fn roots(own: &Certificates) -> Result<Vec<Certificate>, reqwest::Error> {
    own.ca.as_deref().map_or(Ok(Vec::new()), |pem| Certificate::from_pem_bundle(pem.as_bytes()))
}

fn with_identity(builder: ClientBuilder, own: &Certificates) -> Result<ClientBuilder, reqwest::Error> {
    let Some(ClientCertificate { chain, key }) = &own.client else { return Ok(builder) };
    let identity = Identity::from_pem(format!("{chain}\n{key}").as_bytes())?;
    Ok(builder.identity(identity))
}

/// What is wrong with a destination's certificates. Nothing of a key is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTls {
    #[error("ca_pem holds no certificates in PEM form")]
    Ca,
    #[error("client_cert_pem and client_key_pem are no certificate with its private key in PEM form")]
    Client,
}

/// Says whether a client can be made of these certificates.
///
/// # Errors
/// [`BadTls`] says which of them cannot be used.
pub fn check(own: &Certificates) -> Result<(), BadTls> {
    let roots = roots(own).map_err(|_| BadTls::Ca)?;
    if own.ca.is_some() && roots.is_empty() {
        return Err(BadTls::Ca);
    }
    let alone = |builder: ClientBuilder| builder.tls_certs_only(roots).build();
    alone(Client::builder()).map_err(|_| BadTls::Ca)?;
    let built = with_identity(Client::builder().tls_certs_only([]), own).and_then(ClientBuilder::build);
    built.map(drop).map_err(|_| BadTls::Client)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sender::egress::resolver::SystemNames;
    use crate::sign::Signers;

    fn profiles() -> Profiles {
        let (names, route) = (Arc::new(SystemNames), Route::default());
        Profiles::new(Grounds { allowed: Arc::new([]), extra_roots: Vec::new(), names, route })
    }

    fn endpoint(connect_timeout: u64, cidr: &str) -> Endpoint {
        Endpoint {
            url: "https://hooks.example.org/".parse().unwrap(),
            timeout: Millis(15_000),
            connect_timeout: Millis(connect_timeout),
            allow_cidrs: vec![cidr.parse().unwrap()],
            headers: Vec::new(),
            signers: Signers::default(),
            tls: None,
        }
    }

    #[test]
    fn what_differs_in_its_rules_has_its_own_client() {
        let profiles = profiles();
        let check = |endpoint: &Endpoint, reach: Reach, count: usize| {
            profiles.client(endpoint, reach).unwrap();
            assert_eq!(profiles.count(), count, "{endpoint:?} {reach:?}");
        };
        check(&endpoint(1, "10.0.0.0/8"), Reach::Public, 1);
        check(&endpoint(1, "10.0.0.0/8"), Reach::Public, 1);
        check(&endpoint(1, "10.0.0.0/8"), Reach::Listed, 2);
        check(&endpoint(1, "11.0.0.0/8"), Reach::Public, 3);
        check(&endpoint(2, "10.0.0.0/8"), Reach::Public, 4);
        check(&Endpoint { timeout: Millis(1), ..endpoint(2, "10.0.0.0/8") }, Reach::Public, 4);
    }

    #[test]
    fn the_one_not_used_for_longest_goes_first() {
        let profiles = profiles();
        let first = endpoint(0, "10.0.0.0/8");
        for n in 0..=MAX_PROFILES as u64 {
            profiles.client(&endpoint(n, "10.0.0.0/8"), Reach::Public).unwrap();
            profiles.client(&first, Reach::Public).unwrap();
        }
        assert_eq!(profiles.count(), MAX_PROFILES);
        assert!(profiles.find(&first, Reach::Public).is_some());
        assert!(profiles.find(&endpoint(1, "10.0.0.0/8"), Reach::Public).is_none());
    }
}
