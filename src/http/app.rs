//! What the routes of all listeners share: the way to the engine and the settings they check by.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use serde::Serialize;

use crate::config::{Auth, Settings};
use crate::driver::Handle;
use crate::http::admin::bulk::COUNT_PATIENCE;
use crate::http::admin::config::Desk;
use crate::http::admin::import::Turn;
use crate::http::auth::Keyring;
use crate::http::body::Bound;
use crate::http::error::{Code, Problem};
use crate::http::ingest::refusals::Refusals;
use crate::model::{Name, Prefix};
use crate::sender::egress;
use crate::store::{Snapshot, StoreError};
use crate::time::Millis;

/// Room for everything in a delivery object but its payload: 16 headers of 1 KiB and 8 labels,
/// with escapes.
const AROUND_PAYLOAD: usize = 128 * 1024;
/// A whole batch (API.md).
const MAX_BATCH: usize = 8 * 1024 * 1024;
/// Any other document: a destination with its headers, escaped, is the largest.
const MAX_DOCUMENT: usize = 128 * 1024;
/// The media type of every answer that is not an error.
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// What this program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Build {
    pub version: &'static str,
    pub commit: &'static str,
    /// Of the data file.
    pub format: u32,
}

/// What a destination has that does not say otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defaults {
    pub concurrency: u32,
    pub timeout: Millis,
    pub connect_timeout: Millis,
}

/// The listeners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    Ingest,
    Admin,
    Metrics,
}

/// The settings that the routes check by. Others take their place as a whole.
#[derive(Clone, Debug)]
pub struct Rulebook {
    /// Which URLs a destination may have.
    pub rules: egress::Rules,
    /// The names of the configured policies.
    pub policies: BTreeSet<Name>,
    pub defaults: Defaults,
    pub max_payload: usize,
    /// Where payloads may be that are not in their requests.
    pub references: Vec<Prefix>,
    pub body_timeout: Duration,
    /// What each listener asks for, in the order of [`Entry`].
    auth: [Auth; 3],
}

impl Rulebook {
    /// Takes what the routes need from the settings.
    #[must_use]
    pub fn of(settings: &Settings) -> Rulebook {
        let send = &settings.send;
        let metrics = settings.metrics.as_ref().map_or(Auth::None, |metrics| metrics.auth);
        Rulebook {
            rules: egress::Rules {
                allow_http: send.allow_http,
                ports: send.ports.clone(),
                allow_cidrs: send.allow_cidrs.clone(),
            },
            policies: settings.policies.keys().cloned().collect(),
            defaults: Defaults {
                concurrency: send.destination_concurrency,
                timeout: send.timeout,
                connect_timeout: send.connect_timeout,
            },
            max_payload: settings.ingest.max_payload,
            references: settings.payload_refs.allow.clone(),
            body_timeout: settings.ingest.body_timeout.duration(),
            auth: [settings.ingest.listener.auth, settings.admin.auth, metrics],
        }
    }

    /// What a listener asks for.
    #[must_use]
    pub fn auth(&self, entry: Entry) -> Auth {
        match entry {
            Entry::Ingest => self.auth[0],
            Entry::Admin => self.auth[1],
            Entry::Metrics => self.auth[2],
        }
    }
}

/// Shared by every route.
pub struct App {
    pub handle: Handle,
    pub region: Name,
    rulebook: RwLock<Arc<Rulebook>>,
    /// What is shown of the settings.
    pub config: Desk,
    pub build: Build,
    /// The tokens that open listeners which ask for one.
    pub keyring: Keyring,
    /// What producers were refused.
    pub refusals: Refusals,
    /// Whose turn it is to import.
    pub importing: Turn,
    /// How long a bulk job is counted for who waits.
    pub count_patience: Duration,
}

impl App {
    /// Takes what the routes need from the settings.
    #[must_use]
    pub fn new(handle: Handle, settings: &Settings, build: Build) -> Arc<App> {
        Arc::new(App {
            handle,
            region: settings.region.clone(),
            rulebook: RwLock::new(Arc::new(Rulebook::of(settings))),
            config: Desk::default(),
            build,
            keyring: Keyring::new(settings.tokens.clone()),
            refusals: Refusals::default(),
            importing: Turn::default(),
            count_patience: COUNT_PATIENCE,
        })
    }

    /// The settings of now.
    #[must_use]
    pub fn rulebook(&self) -> Arc<Rulebook> {
        Arc::clone(&self.rulebook.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Goes by these from now on.
    pub fn set_rulebook(&self, rulebook: Rulebook) {
        *self.rulebook.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rulebook);
    }

    /// The bound of a raw body.
    #[must_use]
    pub fn raw_bound(&self) -> Bound {
        self.bound(self.rulebook().max_payload)
    }

    /// The bound of one delivery object: its payload may be base64.
    #[must_use]
    pub fn delivery_bound(&self) -> Bound {
        self.bound(self.rulebook().max_payload.div_ceil(3) * 4 + AROUND_PAYLOAD)
    }

    /// The bound of a batch.
    #[must_use]
    pub fn batch_bound(&self) -> Bound {
        self.bound(MAX_BATCH)
    }

    /// The bound of a command or a destination.
    #[must_use]
    pub fn document_bound(&self) -> Bound {
        self.bound(MAX_DOCUMENT)
    }

    fn bound(&self, bytes: usize) -> Bound {
        Bound { bytes, wait: self.rulebook().body_timeout }
    }

    /// Reads in one short transaction.
    ///
    /// # Errors
    /// 503 when the engine is stopping or its readers are busy.
    pub async fn read<T, F>(&self, read: F) -> Result<T, Problem>
    where
        T: Send + 'static,
        F: FnOnce(&Snapshot, &dyn Fn() -> bool) -> Result<T, StoreError> + Send + 'static,
    {
        Ok(self.handle.read(read).await?)
    }
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App").field("region", &self.region).finish_non_exhaustive()
    }
}

/// The one variable part of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Id(pub String);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Id, Problem> {
        let read = Path::<String>::from_request_parts(parts, state).await;
        read.map(|Path(id)| Id(id)).map_err(|_| Problem::new(Code::Malformed, "the path is not UTF-8"))
    }
}

/// An answer or the problem that stands in its place.
pub type Answered = Result<Response<Body>, Problem>;

/// 200 with a document.
#[must_use]
pub fn ok(document: &impl Serialize) -> Response<Body> {
    answer(StatusCode::OK, document)
}

/// A document with a status; it ends with a line end, for those who read it in a terminal.
#[must_use]
pub fn answer(status: StatusCode, document: &impl Serialize) -> Response<Body> {
    let mut text = Vec::with_capacity(1024);
    if serde_json::to_writer(&mut text, document).is_err() {
        return Problem::new(Code::Internal, "the answer could not be written").into_response();
    }
    text.push(b'\n');
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    // Tenants' data, and a secret that is shown once: for no cache on the way.
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The same answer with one more header; a value that cannot be one is left out.
#[must_use]
pub fn with(mut response: Response<Body>, name: header::HeaderName, value: &str) -> Response<Body> {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
    response
}

/// 204.
#[must_use]
pub fn no_content() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}
