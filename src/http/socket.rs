//! Where connections come from: a TCP address or a unix socket, with TLS where it is set.
//!
//! It owns the socket file and takes it away at the end; it reads nothing of what is said.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::config::{Listen, TlsFiles};
use crate::http::auth::Peer;
use crate::model::private::{self, OpenToOthers};

/// Who may connect to a unix socket (API.md).
const SOCKET_MODE: u32 = 0o660;

/// A socket that is listened on.
#[derive(Debug)]
pub enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener, SocketFile),
}

/// The file of a unix socket: gone when this is, unless another has taken its place.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Which file it is: its device and number.
    made: Option<(u64, u64)>,
}

impl SocketFile {
    fn at(path: &Path) -> SocketFile {
        SocketFile { path: path.to_owned(), made: identity(path) }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.made.is_some() && identity(&self.path) == self.made {
            drop(std::fs::remove_file(&self.path));
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|it| (it.dev(), it.ino()))
}

/// A connection that was accepted.
#[derive(Debug)]
pub enum Accepted {
    Tcp(TcpStream),
    /// With who is at the other end.
    Unix(UnixStream, Option<Peer>),
}

impl Socket {
    /// Listens; a socket file that nobody listens on any more is taken over.
    ///
    /// # Errors
    /// The address or the path cannot be had.
    pub async fn bind(listen: &Listen) -> io::Result<Socket> {
        match listen {
            Listen::Tcp(address) => TcpListener::bind(address).await.map(Socket::Tcp),
            Listen::Unix(path) => bind_file(path).await,
        }
    }

    /// Where it listens, as it is written in the settings.
    ///
    /// # Errors
    /// The socket has no address: it is not bound.
    pub fn place(&self) -> io::Result<Listen> {
        match self {
            Socket::Tcp(listener) => listener.local_addr().map(Listen::Tcp),
            Socket::Unix(_, file) => Ok(Listen::Unix(file.path.clone())),
        }
    }

    pub(super) async fn accept(&self) -> io::Result<Accepted> {
        match self {
            Socket::Tcp(listener) => listener.accept().await.map(|(stream, _)| Accepted::Tcp(stream)),
            Socket::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                let peer = stream.peer_cred().ok().map(|peer| Peer { uid: peer.uid() });
                Ok(Accepted::Unix(stream, peer))
            }
        }
    }
}

impl From<TcpListener> for Socket {
    fn from(listener: TcpListener) -> Socket {
        Socket::Tcp(listener)
    }
}

async fn bind_file(path: &Path) -> io::Result<Socket> {
    let left = std::fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket());
    // Refused: nobody listens. Any other failure, a full queue among them, tells of one who does.
    let answer = if left { UnixStream::connect(path).await.map(drop) } else { Ok(()) };
    if answer.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    let file = SocketFile::at(path);
    std::fs::set_permissions(path, PermissionsExt::from_mode(SOCKET_MODE))?;
    Ok(Socket::Unix(listener, file))
}

/// The certificate that a listener shows.
#[derive(Debug)]
pub struct Certificate(Arc<ServerConfig>);

/// Why a listener has no certificate.
#[derive(Debug, thiserror::Error)]
pub enum BadCertificate {
    #[error("tls_cert {}: {error}", path.display())]
    Chain { path: PathBuf, error: rustls::pki_types::pem::Error },
    #[error("tls_key {}: {error}", path.display())]
    Key { path: PathBuf, error: rustls::pki_types::pem::Error },
    #[error("tls_key {} {open}", path.display())]
    Open { path: PathBuf, open: OpenToOthers },
    #[error("tls_cert {} and its key cannot be used: {error}", path.display())]
    Pair { path: PathBuf, error: rustls::Error },
}

impl Certificate {
    /// Reads the certificate and its key.
    ///
    /// # Errors
    /// [`BadCertificate`] names the file that is at fault.
    pub fn read(files: &TlsFiles) -> Result<Certificate, BadCertificate> {
        Ok(Certificate(Arc::new(read(files)?)))
    }

    pub(super) fn now(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.0)
    }
}

/// TLS 1.2 or 1.3, without client certificates: who comes has a token.
fn read(files: &TlsFiles) -> Result<ServerConfig, BadCertificate> {
    let chain = |error| BadCertificate::Chain { path: files.cert.clone(), error };
    let pair = |error| BadCertificate::Pair { path: files.cert.clone(), error };
    let certificates: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(&files.cert).map_err(chain)?.collect();
    key_is_ours(&files.key)?;
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| BadCertificate::Key { path: files.key.clone(), error })?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let versions = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = versions.map_err(pair)?.with_no_client_auth();
    let mut made = builder.with_single_cert(certificates.map_err(chain)?, key).map_err(pair)?;
    made.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(made)
}

/// Only its owner may read a key, and a group of root's. One that is not there is told by who reads it.
fn key_is_ours(path: &Path) -> Result<(), BadCertificate> {
    let Ok(about) = std::fs::metadata(path) else { return Ok(()) };
    let judged = private::key(path, about.mode(), about.uid() == 0);
    judged.map_err(|open| BadCertificate::Open { path: path.to_owned(), open })
}
