//! Turns a name into addresses that may be dialled: a refused address never leaves here.
//!
//! Each client has its own, so that the rules it follows are those of its pool.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ipnet::IpNet;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::{Reach, Refusal, holds, judge};

/// Addresses of one name that are tried; a name with more is odd, and trying takes time.
pub const MAX_ADDRESSES: usize = 16;

/// The addresses that the destinations of one client may reach.
#[derive(Clone, Debug)]
pub struct Guard {
    pub reach: Reach,
    /// The server's.
    pub allowed: Arc<[IpNet]>,
    /// The destinations' own.
    pub own: Arc<[IpNet]>,
}

/// A name led to nothing that may be dialled.
#[derive(Debug, thiserror::Error)]
pub enum Unreachable {
    /// The resolver failed, or knew no address.
    #[error("the name could not be resolved")]
    Unresolved(#[source] Option<std::io::Error>),
    /// All of its addresses were refused, the first one for this reason.
    #[error("no address of the name may be called")]
    Refused(#[source] Refusal),
}

impl Guard {
    fn judge(&self, address: IpAddr) -> Result<(), Refusal> {
        judge(self.reach, address, |address| holds(&self.allowed, address) || holds(&self.own, address))
    }

    /// Keeps what may be dialled.
    ///
    /// # Errors
    /// [`Unreachable`] when nothing is left.
    pub fn keep(&self, found: impl Iterator<Item = SocketAddr>) -> Result<Vec<SocketAddr>, Unreachable> {
        let mut refused = None;
        let mut kept = Vec::new();
        for address in found {
            match self.judge(address.ip()) {
                Ok(()) => kept.push(address),
                Err(refusal) => refused = refused.or(Some(refusal)),
            }
        }
        kept.truncate(MAX_ADDRESSES);
        match refused {
            _ if !kept.is_empty() => Ok(kept),
            Some(refusal) => Err(Unreachable::Refused(refusal)),
            None => Err(Unreachable::Unresolved(None)),
        }
    }

    async fn look_up(self, name: String) -> Result<Vec<SocketAddr>, Unreachable> {
        let found = tokio::net::lookup_host((name, 0)).await;
        self.keep(found.map_err(|error| Unreachable::Unresolved(Some(error)))?)
    }
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let found = self.clone().look_up(name.as_str().to_owned());
        Box::pin(async move { Ok(Box::new(found.await?.into_iter()) as Addrs) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(reach: Reach, own: &[&str]) -> Guard {
        let own = own.iter().map(|text| text.parse().unwrap()).collect();
        Guard { reach, allowed: Arc::new([]), own }
    }

    fn check(guard: &Guard, found: &[&str], want: &[&str]) {
        let all = |texts: &[&str]| -> Vec<SocketAddr> {
            texts.iter().map(|text| SocketAddr::new(text.parse().unwrap(), 0)).collect()
        };
        match guard.keep(all(found).into_iter()) {
            Ok(kept) => assert_eq!(kept, all(want), "{found:?}"),
            Err(Unreachable::Refused(_)) => assert!(want.is_empty() && !found.is_empty(), "{found:?}"),
            Err(Unreachable::Unresolved(_)) => assert!(found.is_empty(), "{found:?}"),
        }
    }

    #[test]
    fn t50_t51_only_checked_addresses_come_out() {
        let public = guard(Reach::Public, &[]);
        check(&public, &["1.1.1.1", "10.0.0.1", "2606:4700::1111"], &["1.1.1.1", "2606:4700::1111"]);
        for hidden in ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fd00:ec2::254", "64:ff9b::7f00:1"]
        {
            check(&public, &[hidden], &[]);
        }
        check(&public, &[], &[]);
        check(&guard(Reach::Listed, &["127.0.0.1/32"]), &["1.1.1.1", "127.0.0.1"], &["127.0.0.1"]);
        check(&guard(Reach::Public, &["127.0.0.1/32"]), &["1.1.1.1", "127.0.0.1"], &["1.1.1.1", "127.0.0.1"]);
    }

    #[test]
    fn at_most_sixteen() {
        let many = (0..40).map(|n| SocketAddr::from(([1, 1, 1, n], 0)));
        assert_eq!(guard(Reach::Public, &[]).keep(many).unwrap().len(), MAX_ADDRESSES);
    }
}
