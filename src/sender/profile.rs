//! The clients: one for each set of addresses and connect timeout, so that no connection
//! opened under one egress rule serves another.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ipnet::IpNet;
use reqwest::{Client, ClientBuilder, redirect, retry};

use super::Endpoint;
use super::egress::Reach;
use super::egress::resolver::{Guard, Names};
use super::proxy::Route;
use super::trust::{BadTls, Trust};
use crate::model::Certificates;
use crate::model::destination::CONCURRENCY_MAX;
use crate::time::Millis;

/// Clients kept: as many as the courier keeps endpoints. Made anew for each request they would keep no
/// connections. One is made in 7 µs and takes 8 KiB (measured with 145 authorities, which they share);
/// one for an authority of the destination's own has a copy of all, about 100 KiB. The one that was
/// not used for longest goes first; what is in flight on it finishes.
pub const MAX_PROFILES: usize = 1_024;
/// How long a connection is kept for a next request: under the keep-alive of usual receivers.
pub const POOL_IDLE: Duration = Duration::from_secs(15);
/// Header lines of an answer; more is an invalid answer. Over HTTP/1 only their number is bounded:
/// reqwest passes no bound of bytes on, and hyper's own is 417,792 for a head. A hostile receiver can
/// have that much for each of its requests in flight, so `send.slots` bounds it (README, Limits).
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

/// The place of the client of `endpoint`. Two that share one by chance push each other out.
fn place(endpoint: &Endpoint, reach: Reach) -> u64 {
    let mut hasher = DefaultHasher::new();
    (reach, endpoint.connect_timeout, &endpoint.allow_cidrs, &endpoint.tls).hash(&mut hasher);
    hasher.finish()
}

/// What clients are made of besides what their destinations say.
#[derive(Clone, Debug)]
pub struct Grounds {
    /// May be reached besides public addresses.
    pub allowed: Arc<[IpNet]>,
    pub trust: Trust,
    pub names: Arc<dyn Names>,
    pub route: Route,
}

/// What all clients have in common, and those that are kept.
#[derive(Debug)]
pub struct Profiles {
    grounds: Grounds,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    clients: BTreeMap<u64, One>,
    /// How often one was asked for.
    uses: u64,
}

#[derive(Debug)]
struct One {
    key: Key,
    client: Client,
    /// The last use of it.
    used: u64,
}

/// A client could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Unmade {
    #[error(transparent)]
    Tls(#[from] BadTls),
    #[error(transparent)]
    Client(#[from] reqwest::Error),
}

impl Profiles {
    /// No clients yet.
    #[must_use]
    pub fn new(grounds: Grounds) -> Profiles {
        Profiles { grounds, kept: Mutex::default() }
    }

    /// The client of `endpoint`, made when it is not kept. It is made outside the lock: two
    /// tasks may both make it, and one of the two goes.
    ///
    /// # Errors
    /// The client could not be made: a fault of TLS settings.
    pub fn client(&self, endpoint: &Endpoint, reach: Reach) -> Result<Client, Unmade> {
        let place = place(endpoint, reach);
        if let Some(client) = self.lock().find(place, endpoint, reach) {
            return Ok(client);
        }
        let key = Key::of(endpoint, reach);
        let client = self.build(&key)?;
        self.lock().keep(place, key, client.clone());
        Ok(client)
    }

    /// How many clients are kept.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lock().clients.len()
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn build(&self, key: &Key) -> Result<Client, Unmade> {
        let Grounds { allowed, trust, names, route } = &self.grounds;
        let guard = Guard {
            names: Arc::clone(names),
            proxy: route.host(),
            reach: key.reach,
            allowed: Arc::clone(allowed),
            own: Arc::clone(&key.allow_cidrs),
        };
        let tls = trust.settings(key.tls.as_ref())?;
        let mut builder = transport(Client::builder()).connect_timeout(key.connect_timeout.duration());
        if let Some(proxy) = route.proxy()? {
            builder = builder.proxy(proxy);
        }
        Ok(builder.dns_resolver(guard).tls_backend_preconfigured(tls).build()?)
    }
}

impl Kept {
    fn find(&mut self, place: u64, endpoint: &Endpoint, reach: Reach) -> Option<Client> {
        let one = self.clients.get_mut(&place).filter(|one| one.key.fits(endpoint, reach))?;
        self.uses += 1;
        one.used = self.uses;
        Some(one.client.clone())
    }

    fn keep(&mut self, place: u64, key: Key, client: Client) {
        self.uses += 1;
        self.clients.insert(place, One { key, client, used: self.uses });
        if self.clients.len() > MAX_PROFILES {
            let oldest = self.clients.iter().min_by_key(|(_, one)| one.used).map(|(place, _)| *place);
            oldest.map(|place| self.clients.remove(&place));
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sender::egress::resolver::SystemNames;
    use crate::sign::Signers;

    fn profiles() -> Profiles {
        let (names, route) = (Arc::new(SystemNames), Route::default());
        Profiles::new(Grounds { allowed: Arc::new([]), trust: Trust::with_system(&[]), names, route })
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
        let is_kept = |endpoint: &Endpoint| {
            profiles.lock().find(place(endpoint, Reach::Public), endpoint, Reach::Public).is_some()
        };
        assert!(is_kept(&first));
        assert!(!is_kept(&endpoint(1, "10.0.0.0/8")) && is_kept(&endpoint(2, "10.0.0.0/8")));
    }

    /// Whoever has the place of another's client is not given it.
    #[test]
    fn a_place_is_not_enough() {
        let profiles = profiles();
        let (one, other) = (endpoint(1, "10.0.0.0/8"), endpoint(1, "11.0.0.0/8"));
        profiles.client(&one, Reach::Public).unwrap();
        let place = place(&one, Reach::Public);
        assert!(profiles.lock().find(place, &one, Reach::Public).is_some());
        assert!(profiles.lock().find(place, &other, Reach::Public).is_none());
        assert!(profiles.lock().find(place, &one, Reach::Listed).is_none());
    }
}
