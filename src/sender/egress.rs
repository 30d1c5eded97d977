//! Which URL may be a destination and which address may be dialled. Default deny.
//!
//! A name is never decided on: a URL is admitted by its form, and every address that it leads
//! to is judged when it is about to be dialled ([`resolver`]). Rules may change after a URL
//! was admitted, so [`permit`] is asked again before every send. Nothing here opens a socket.

pub mod address;
pub mod lookups;
pub mod resolver;

use std::net::IpAddr;

use ipnet::IpNet;
use url::{Host, Url};

use crate::model::destination::MAX_URL;

pub use address::Kind;

/// What the operator allows (`[send]` of the configuration).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Plain http, to public addresses as well.
    pub allow_http: bool,
    /// Ports of public addresses.
    pub ports: Vec<u16>,
    /// Addresses that are exempt from both and need not be public.
    pub allow_cidrs: Vec<IpNet>,
}

/// Which addresses a permitted URL may lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reach {
    /// Public ones and those in an `allow_cidrs`.
    Public,
    /// Only those in an `allow_cidrs`: the scheme, port or name is not for the public.
    Listed,
}

/// Why a URL is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("a URL has at most 2,048 characters")]
    Length,
    #[error("a URL is ASCII without spaces, control characters and backslashes; write names in punycode")]
    Characters,
    #[error("not a URL")]
    Malformed,
    #[error("the scheme must be https; http only to addresses in allow_cidrs, unless send.allow_http is set")]
    Scheme,
    #[error("a URL must not hold a user name or password; use a header")]
    UserInfo,
    #[error("a URL must not have a fragment")]
    Fragment,
    #[error("this port is not in send.ports; others only to addresses in allow_cidrs")]
    Port,
    #[error("this name is not a public one; such names only with allow_cidrs")]
    Name,
    #[error("the address is {}, which only allow_cidrs can admit", .0.as_str())]
    Unlisted(Kind),
    #[error("the address is {}, which is never called", .0.as_str())]
    Forbidden(Kind),
    #[error("send.proxy looks names up by itself: by way of it such a name cannot be held to allow_cidrs")]
    Unseen,
    #[error("the proxy of send.proxy is no destination")]
    Proxy,
}

/// Last labels that never name a public host (RFC 6761, 6762, 7686, 8375, 9476 and habit).
const SPECIAL: [&str; 16] = [
    "localhost",
    "local",
    "localdomain",
    "internal",
    "intranet",
    "private",
    "home",
    "lan",
    "corp",
    "arpa",
    "onion",
    "test",
    "invalid",
    "example",
    "alt",
    "mail",
];

/// Reads and checks the URL of a destination that has `cidrs` of its own. What comes back is
/// canonical: only that is stored, compared and called.
///
/// # Errors
/// [`Refusal`] says what is wrong with it.
pub fn admit(rules: &Rules, text: &str, cidrs: &[IpNet]) -> Result<Url, Refusal> {
    if text.len() > MAX_URL {
        return Err(Refusal::Length);
    }
    // Before parsing, because the parser drops tabs and line ends in silence.
    if !text.bytes().all(|b| b.is_ascii_graphic() && b != b'\\') {
        return Err(Refusal::Characters);
    }
    let mut url = Url::parse(text).map_err(|_| Refusal::Malformed)?;
    permit(rules, &url, cidrs)?;
    drop_final_dot(&mut url);
    let sendable = url.as_str().len() <= MAX_URL && url.as_str().parse::<hyper::Uri>().is_ok();
    if sendable { Ok(url) } else { Err(Refusal::Malformed) }
}

/// Checks a parsed URL: everything but what only its text shows. Cheap enough for every send.
///
/// # Errors
/// [`Refusal`] says what is wrong with it.
pub fn permit(rules: &Rules, url: &Url, cidrs: &[IpNet]) -> Result<Reach, Refusal> {
    if !matches!(url.scheme(), "https" | "http") {
        return Err(Refusal::Scheme);
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Refusal::UserInfo);
    }
    if url.fragment().is_some() {
        return Err(Refusal::Fragment);
    }
    match url.host() {
        Some(Host::Ipv4(address)) => permit_address(rules, url, cidrs, address.into()),
        Some(Host::Ipv6(address)) => permit_address(rules, url, cidrs, address.into()),
        Some(Host::Domain(name)) => permit_name(rules, url, cidrs, name),
        None => Err(Refusal::Malformed),
    }
}

/// Judges one address that is about to be dialled.
///
/// # Errors
/// [`Refusal::Unlisted`] or [`Refusal::Forbidden`].
pub fn judge(reach: Reach, address: IpAddr, listed: impl FnOnce(IpAddr) -> bool) -> Result<(), Refusal> {
    let address = address.to_canonical();
    let kind = address::classify(address);
    if !kind.listable() {
        Err(Refusal::Forbidden(kind))
    } else if listed(address) || (kind == Kind::Public && reach == Reach::Public) {
        Ok(())
    } else {
        Err(Refusal::Unlisted(kind))
    }
}

fn permit_address(rules: &Rules, url: &Url, cidrs: &[IpNet], address: IpAddr) -> Result<Reach, Refusal> {
    let is_listed = |address: IpAddr| holds(&rules.allow_cidrs, address) || holds(cidrs, address);
    if is_listed(address.to_canonical()) {
        return judge(Reach::Listed, address, |_| true).map(|()| Reach::Listed);
    }
    judge(Reach::Public, address, |_| false)?;
    for_the_public(rules, url).map(|()| Reach::Public)
}

fn permit_name(rules: &Rules, url: &Url, cidrs: &[IpNet], name: &str) -> Result<Reach, Refusal> {
    let bare = name.strip_suffix('.').unwrap_or(name);
    if bare.split('.').any(str::is_empty) {
        return Err(Refusal::Name);
    }
    let public = if is_public(name) { for_the_public(rules, url) } else { Err(Refusal::Name) };
    match public {
        Ok(()) => Ok(Reach::Public),
        Err(_) if !(rules.allow_cidrs.is_empty() && cidrs.is_empty()) => Ok(Reach::Listed),
        Err(refusal) => Err(refusal),
    }
}

/// The rules of scheme and port, from which listed addresses are exempt.
fn for_the_public(rules: &Rules, url: &Url) -> Result<(), Refusal> {
    if url.scheme() != "https" && !rules.allow_http {
        return Err(Refusal::Scheme);
    }
    match url.port_or_known_default() {
        Some(port) if rules.ports.contains(&port) => Ok(()),
        Some(_) | None => Err(Refusal::Port),
    }
}

/// True for a name of at least two labels under a suffix that is not special. Names that end
/// in a number never get here: the parser takes them for addresses.
fn is_public(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    match name.rsplit_once('.') {
        Some((rest, last)) => !rest.is_empty() && !last.is_empty() && !SPECIAL.contains(&last),
        None => false,
    }
}

/// True if one of `nets` contains `address`.
#[must_use]
pub fn holds(nets: &[IpNet], address: IpAddr) -> bool {
    nets.iter().any(|net| net.contains(&address))
}

/// `name.` is `name`: one destination, one pool, and certificates never carry the dot.
fn drop_final_dot(url: &mut Url) {
    let bare = url.domain().and_then(|name| name.strip_suffix('.')).map(str::to_owned);
    if let Some(bare) = bare {
        // It was a host with the dot, so it is one without it; if not, the dot stays.
        let _ = url.set_host(Some(&bare));
    }
}

#[cfg(test)]
#[path = "egress/tests.rs"]
mod tests;
