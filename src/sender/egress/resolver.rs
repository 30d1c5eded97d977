//! Turns a name into addresses that may be dialled: a refused address never leaves here.
//!
//! Each client has its own, so that the rules it follows are those of its pool.
//!
//! Where only public addresses may be called, a name is looked up as it is, from the root: the
//! system's search list (`ndots:5` in Kubernetes) would first look for it in the cluster, and call
//! what a customer's `kubernetes.default` happens to be there. Where `allow_cidrs` lists any address,
//! the server's or the destination's, names may be private ones, and the list is followed. Names in
//! the hosts file are the operator's word and are found either way. Requests never show the dot.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::{Arc, LazyLock};

use ipnet::IpNet;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::lookups::{Ask, Lookups};
use super::{Reach, Refusal, holds, judge};

/// Addresses of one name that are tried; a name with more is odd, and trying takes time.
pub const MAX_ADDRESSES: usize = 16;

/// What is found for a name, sooner or later.
pub type Looking = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

/// Who knows the addresses of names. Nobody is asked before a connection is made, and nothing is
/// kept for the next: what was found once is no leave to call what is found then.
pub trait Names: fmt::Debug + Send + Sync {
    /// The addresses of `name`, judged by nobody yet.
    fn look_up(&self, name: String) -> Looking;
}

/// What the system's resolver knows.
#[derive(Clone, Copy, Debug)]
pub struct SystemNames;

/// Of the process, as its threads are: senders come and go with the settings, and a look-up that
/// hangs outlives its sender.
static LOOKUPS: LazyLock<Arc<Lookups>> = LazyLock::new(|| Arc::new(Lookups::by(Box::new(SystemNames))));

impl Names for SystemNames {
    fn look_up(&self, name: String) -> Looking {
        Box::pin(Arc::clone(&LOOKUPS).find(name))
    }
}

/// Where the operator writes names down.
const HOSTS: &str = "/etc/hosts";

impl Ask for SystemNames {
    /// With a dot at its end a name is looked up as it is; the resolver does not find such a one in
    /// the hosts file.
    fn ask(&self, name: &str) -> io::Result<Vec<SocketAddr>> {
        let bare = name.strip_suffix('.').unwrap_or(name);
        let is_written = bare != name && names(&std::fs::read_to_string(HOSTS).unwrap_or_default(), bare);
        let asked = if is_written { bare } else { name };
        Ok((asked, 0).to_socket_addrs()?.collect())
    }
}

/// True when a line of a hosts file has this name.
fn names(hosts: &str, name: &str) -> bool {
    let mut lines = hosts.lines().map(|line| line.split_once('#').map_or(line, |(line, _)| line));
    lines.any(|line| line.split_whitespace().skip(1).any(|word| word.eq_ignore_ascii_case(name)))
}

/// For what is no destination and need not be judged: the stores of payloads.
impl Resolve for SystemNames {
    fn resolve(&self, name: Name) -> Resolving {
        let found = self.look_up(name.as_str().to_owned());
        Box::pin(async move { Ok(Box::new(found.await?.into_iter()) as Addrs) })
    }
}

/// The addresses that the destinations of one client may reach.
#[derive(Clone, Debug)]
pub struct Guard {
    pub names: Arc<dyn Names>,
    /// The name of our own proxy, which is no destination: it may be anywhere.
    pub proxy: Option<Arc<str>>,
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
    Unresolved(#[source] Option<io::Error>),
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
        // A SOCKS proxy's way here is that of literals too.
        if let Some(address) = literal(&name) {
            return self.keep([SocketAddr::new(address, 0)].into_iter());
        }
        let is_ours = self.proxy.as_deref() == Some(&name);
        let asked = if is_ours || self.lists_any() { name } else { from_the_root(name) };
        let found = self.names.look_up(asked).await.map_err(|error| Unreachable::Unresolved(Some(error)))?;
        if is_ours { Ok(found) } else { self.keep(found.into_iter()) }
    }

    fn lists_any(&self) -> bool {
        !(self.allowed.is_empty() && self.own.is_empty())
    }
}

fn literal(name: &str) -> Option<IpAddr> {
    let inside = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    inside.unwrap_or(name).parse().ok()
}

fn from_the_root(name: String) -> String {
    if name.ends_with('.') { name } else { name + "." }
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
        Guard { names: Arc::new(SystemNames), proxy: None, reach, allowed: Arc::new([]), own }
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

    /// Knows everything, and who was asked for.
    #[derive(Debug, Default)]
    struct Noted(std::sync::Mutex<Vec<String>>);

    impl Names for Noted {
        fn look_up(&self, name: String) -> Looking {
            self.0.lock().unwrap().push(name);
            Box::pin(async { Ok(vec![SocketAddr::from(([1, 1, 1, 1], 0))]) })
        }
    }

    #[tokio::test]
    async fn the_search_list_is_for_those_that_may_be_private() {
        let noted = Arc::new(Noted::default());
        let check = async |guard: Guard, name: &str, want: &str| {
            let names = Arc::clone(&noted) as Arc<dyn Names>;
            let found = Guard { names, ..guard }.look_up(name.to_owned()).await;
            assert!(found.is_ok(), "{name}: {found:?}");
            assert_eq!(noted.0.lock().unwrap().pop().unwrap_or_default(), want);
        };
        let public = || guard(Reach::Public, &[]);
        check(public(), "hooks.example.org", "hooks.example.org.").await;
        check(public(), "kubernetes.default", "kubernetes.default.").await;
        check(public(), "hooks.example.org.", "hooks.example.org.").await;
        check(Guard { proxy: Some("proxy.corp".into()), ..public() }, "proxy.corp", "proxy.corp").await;
        check(guard(Reach::Public, &["10.0.0.0/8"]), "receiver.team", "receiver.team").await;
        check(guard(Reach::Listed, &["1.1.1.1/32"]), "receiver", "receiver").await;
        let allowed: Arc<[IpNet]> = Arc::new(["10.0.0.0/8".parse().unwrap()]);
        check(Guard { allowed, ..public() }, "receiver.team", "receiver.team").await;
        check(public(), "1.1.1.1", "").await;
        check(public(), "[2606:4700::1111]", "").await;
    }

    #[test]
    fn names_in_the_hosts_file() {
        let hosts =
            "127.0.0.1 localhost\n# 1.1.1.1 a.org\n\n1.1.1.1\tb.org  c.org # d.org\n::1 e.org#f.org\n";
        for name in ["localhost", "b.org", "C.org", "e.org"] {
            assert!(names(hosts, name), "{name}");
        }
        for name in ["a.org", "d.org", "f.org", "1.1.1.1", "127.0.0.1", "b", "org", ""] {
            assert!(!names(hosts, name), "{name}");
        }
        let written = std::fs::read_to_string(HOSTS).is_ok_and(|hosts| names(&hosts, "localhost"));
        assert!(!written || SystemNames.ask("localhost.").is_ok(), "with the dot too");
    }

    /// As when all of them hang: what is looked up needs none of them.
    #[test]
    fn the_system_is_asked_on_no_thread_of_the_runtime() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().max_blocking_threads(1).build().unwrap();
        let (free, hanging) = std::sync::mpsc::channel::<()>();
        runtime.spawn_blocking(move || hanging.recv());
        let limit = std::time::Duration::from_secs(60);
        let found = runtime
            .block_on(async { tokio::time::timeout(limit, SystemNames.look_up("localhost".into())).await });
        drop(free);
        assert!(found.unwrap().unwrap().iter().all(|address| address.ip().is_loopback()));
    }

    #[test]
    fn at_most_sixteen() {
        let many = (0..40).map(|n| SocketAddr::from(([1, 1, 1, n], 0)));
        assert_eq!(guard(Reach::Public, &[]).keep(many).unwrap().len(), MAX_ADDRESSES);
    }
}
