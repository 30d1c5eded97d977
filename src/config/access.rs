//! Who may reach what: where a listener stands, what it asks for, and the tokens.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::model::Name;

/// Where a listener stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Listen {
    Tcp(SocketAddr),
    /// A socket in the file system, mode 0660.
    Unix(PathBuf),
}

impl Listen {
    /// True where only programs of this machine can reach it.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Listen::Tcp(address) => address.ip().is_loopback(),
            Listen::Unix(_) => true,
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Tcp(address) => write!(f, "{address}"),
            Listen::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// What a listener asks of whoever comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auth {
    /// Whoever reaches it may do everything that it serves.
    None,
    /// A bearer token.
    Token,
}

impl Auth {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Auth::None => "none",
            Auth::Token => "token",
        }
    }
}

/// The files of a listener's certificate, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// A listener: where it stands, what it asks for, and the host names it answers to besides
/// loopback ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    pub listen: Listen,
    pub auth: Auth,
    pub tls: Option<TlsFiles>,
    /// Without TLS off loopback: a proxy in front has it.
    pub plaintext: bool,
    pub allowed_hosts: Vec<String>,
}

impl Listener {
    /// On 127.0.0.1 at `port`, for loopback names only.
    #[must_use]
    pub fn loopback(port: u16) -> Listener {
        Listener::at(Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], port))))
    }

    /// At `listen`, asking for what is usual there.
    #[must_use]
    pub fn at(listen: Listen) -> Listener {
        let auth = if listen.is_local() { Auth::None } else { Auth::Token };
        Listener { listen, auth, tls: None, plaintext: false, allowed_hosts: Vec::new() }
    }
}

/// What a token opens. No scope contains another, but `admin`, which has them all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// The ingest routes.
    Ingest,
    /// The destination routes.
    Destinations,
    /// Every GET but the export.
    Read,
    Admin,
}

impl Scope {
    /// All of them.
    pub const ALL: [Scope; 4] = [Scope::Ingest, Scope::Destinations, Scope::Read, Scope::Admin];

    /// The word for it in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Ingest => "ingest",
            Scope::Destinations => "destinations",
            Scope::Read => "read",
            Scope::Admin => "admin",
        }
    }
}

/// A token, as far as the server knows it: its digest.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// What it is called in the audit log.
    pub id: Name,
    pub sha256: [u8; 32],
    pub scopes: Vec<Scope>,
    /// None: for all tenants.
    pub tenants: Option<Vec<Name>>,
}

impl fmt::Debug for Token {
    /// Without its digest: as `config show` has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Token");
        shown.field("id", &self.id).field("scopes", &self.scopes).field("tenants", &self.tenants);
        shown.finish_non_exhaustive()
    }
}
