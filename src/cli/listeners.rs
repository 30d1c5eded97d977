//! Where a server listens: sockets bound before the file is opened, and what each lets in.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::serve::ServeError;
use crate::config::{Auth, Listen, Listener, Settings};
use crate::http::door::Reached;
use crate::http::socket::{BadCertificate, Certificate, Socket};
use crate::http::{self, App};

/// The tables of the listeners, in the order that all lists of them have.
const TABLES: [&str; 3] = ["ingest", "admin", "metrics"];

/// Where everything listens: ingest, admin, and metrics if they have their own.
pub(super) type Addresses = [Option<String>; 3];
/// The same, bound and not served yet.
pub(super) type Sockets = [Option<Socket>; 3];
/// What each lets in: it can be changed.
pub(super) type Doors = [Option<http::Shared>; 3];

pub(super) async fn bind_all(settings: &Settings) -> Result<Sockets, ServeError> {
    let ingest = bind(&settings.ingest.listener).await?;
    let admin = bind(&settings.admin).await?;
    let metrics = match &settings.metrics {
        Some(listener) => Some(bind(listener).await?),
        None => None,
    };
    Ok([Some(ingest), Some(admin), metrics])
}

/// What each is to let in, its certificate read; a fault names its key first.
pub(super) fn doors(settings: &Settings) -> Result<[Option<http::Limits>; 3], ServeError> {
    let mut doors = [const { None }; 3];
    for ((door, table), listener) in doors.iter_mut().zip(TABLES).zip(all_listeners(settings)) {
        let Some(listener) = listener else { continue };
        let named = |error| ServeError::Config(format!("{table}.{error}"));
        *door = Some(limits(settings, listener).map_err(named)?);
    }
    Ok(doors)
}

pub(super) fn listen(
    settings: &Settings,
    (sockets, limits): (Sockets, [Option<http::Limits>; 3]),
    app: &Arc<App>,
    listeners: &mut JoinSet<()>,
    stopping: &watch::Receiver<()>,
) -> Result<(Addresses, Doors), ServeError> {
    let routers = [
        http::ingest_router(Arc::clone(app)),
        http::admin_router(Arc::clone(app)),
        http::metrics_router(Arc::clone(app)),
    ];
    let (mut addresses, mut doors) = ([const { None }; 3], [const { None }; 3]);
    let all = sockets.into_iter().zip(limits).zip(all_listeners(settings)).zip(routers).enumerate();
    for (place, (((socket, limits), listener), router)) in all {
        let (Some(socket), Some(limits), Some(listener)) = (socket, limits, listener) else { continue };
        addresses[place] = Some(shown(&socket.place()?, listener));
        let limits = http::Shared::from(limits);
        doors[place] = Some(limits.clone());
        let mut stopping = stopping.clone();
        let stop = async move { drop(stopping.changed().await) };
        listeners.spawn(http::serve(socket, router, limits, stop));
    }
    Ok((addresses, doors))
}

/// Ingest, admin, and metrics if they have their own.
pub(super) fn all_listeners(settings: &Settings) -> [Option<&Listener>; 3] {
    [Some(&settings.ingest.listener), Some(&settings.admin), settings.metrics.as_ref()]
}

async fn bind(listener: &Listener) -> Result<Socket, ServeError> {
    let address = listener.listen.clone();
    Socket::bind(&address).await.map_err(|error| ServeError::Listen { address, error })
}

/// What a listener lets in, and the certificate that it shows.
fn limits(settings: &Settings, listener: &Listener) -> Result<http::Limits, BadCertificate> {
    let mut limits = http::Limits::new(settings.ingest.max_connections, listener.allowed_hosts.clone());
    limits.door.any_host = listener.auth == Auth::Token;
    limits.door.reached = match (&listener.tls, listener.plaintext) {
        (Some(_), _) => Reached::Https,
        (None, true) => Reached::Either,
        (None, false) => Reached::Http,
    };
    let read = listener.tls.as_ref().map(Certificate::read).transpose();
    limits.certificate = read?.map(Arc::new);
    Ok(limits)
}

/// Where a listener is reached.
fn shown(place: &Listen, listener: &Listener) -> String {
    match (place, listener.tls.is_some()) {
        (Listen::Tcp(address), true) => format!("https://{address}"),
        (Listen::Tcp(address), false) => format!("http://{address}"),
        (Listen::Unix(_), _) => place.to_string(),
    }
}
