//! The one mapping of everything that can go wrong to RFC 9457 problem+json.
//!
//! [`Code`] holds every code of the API with its status and title. A detail says what the reader
//! can do; it never carries a body, a header value or a full URL.

mod code;

use std::borrow::Cow;
use std::io::ErrorKind;

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use schemars::JsonSchema;
use serde::Serialize;

use crate::delivery::Refused;
use crate::driver::Unavailable;
use crate::engine::command::{CommandError, FenceRequired, Rejected};
use crate::engine::import::Left;
use crate::store::BackupError;
use crate::time::Millis;

pub use code::Code;

/// How long a client is asked to wait where nothing better is known.
const RETRY_AFTER_DEFAULT: Millis = Millis(1_000);
/// How long who orders a backup is asked to wait for room.
const DISK_RETRY_AFTER: Millis = Millis(30_000);
/// The media type of every error.
pub const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// One field at fault: a JSON field, a query parameter or a request header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FieldError {
    pub field: Cow<'static, str>,
    pub detail: Cow<'static, str>,
}

impl FieldError {
    /// Says of `field` what is wrong with it.
    pub fn new(field: impl Into<Cow<'static, str>>, detail: impl Into<Cow<'static, str>>) -> FieldError {
        FieldError { field: field.into(), detail: detail.into() }
    }
}

/// A request that is refused, as it is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub code: Code,
    pub detail: Cow<'static, str>,
    pub errors: Vec<FieldError>,
    pub retry_after: Option<Millis>,
    /// The rest of the request is not read: the connection cannot be used again.
    pub close: bool,
}

/// The document of RFC 9457.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub(super) struct Document<'a> {
    r#type: String,
    title: &'static str,
    status: u16,
    detail: &'a str,
    code: &'static str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    errors: &'a [FieldError],
}

impl Problem {
    /// A problem of this code.
    pub fn new(code: Code, detail: impl Into<Cow<'static, str>>) -> Problem {
        Problem { code, detail: detail.into(), errors: Vec::new(), retry_after: None, close: false }
    }

    /// 422: these fields are at fault.
    #[must_use]
    pub fn invalid(errors: Vec<FieldError>) -> Problem {
        let detail = match errors.as_slice() {
            [one] => Cow::Owned(format!("{}: {}", one.field, one.detail)),
            [] | [_, _, ..] => Cow::Borrowed("several fields are at fault; see errors"),
        };
        Problem { errors, ..Problem::new(Code::Invalid, detail) }
    }

    /// 422: this one field is at fault.
    pub fn field(field: impl Into<Cow<'static, str>>, detail: impl Into<Cow<'static, str>>) -> Problem {
        Problem::invalid(vec![FieldError::new(field, detail)])
    }

    /// The same, with one field named under its own code.
    #[must_use]
    pub fn at(mut self, field: &'static str) -> Problem {
        self.errors.push(FieldError::new(field, self.detail.clone()));
        self
    }

    /// The same, and the connection ends with the answer.
    #[must_use]
    pub fn closing(mut self) -> Problem {
        self.close = true;
        self
    }

    /// The document, as it stands in an answer or in an item of a batch.
    #[must_use]
    pub fn document(&self) -> impl Serialize + '_ {
        let (code, status, title) = self.code.facts();
        let r#type = format!("urn:duehook:problem:{code}");
        Document { r#type, title, status: status.as_u16(), detail: &self.detail, code, errors: &self.errors }
    }

    /// When it is worth trying again; whoever is refused for now is always told.
    fn retry_after(&self) -> Option<Millis> {
        let for_now = matches!(self.status().as_u16(), 429 | 503 | 507);
        self.retry_after.or_else(|| for_now.then_some(RETRY_AFTER_DEFAULT))
    }

    /// The status of the answer.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.code.facts().1
    }

    /// The answer.
    #[must_use]
    pub fn response(&self) -> Response<Body> {
        let mut text = serde_json::to_vec(&self.document()).unwrap_or_default();
        text.push(b'\n');
        let mut response = Response::new(Body::from(text));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, PROBLEM_JSON);
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        if let Some(wait) = self.retry_after() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(wait.0.div_ceil(1_000).max(1)));
        }
        if self.code == Code::TokenRequired {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.close {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

impl axum::response::IntoResponse for Problem {
    fn into_response(self) -> Response<Body> {
        self.response()
    }
}

impl From<Unavailable> for Problem {
    fn from(why: Unavailable) -> Problem {
        let (code, wait) = match why {
            Unavailable::QueueFull { retry_after } => (Code::QueueFull, retry_after),
            Unavailable::BackupHold => (Code::BackupHold, RETRY_AFTER_DEFAULT),
            Unavailable::ShuttingDown => (Code::ShuttingDown, RETRY_AFTER_DEFAULT),
        };
        let detail = format!("{why}; nothing was stored, send it again");
        Problem { retry_after: Some(wait), ..Problem::new(code, detail) }
    }
}

impl From<BackupError> for Problem {
    fn from(why: BackupError) -> Problem {
        if let BackupError::Io { error, .. } = &why
            && matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
        {
            return Problem::field("path", format!("must be in a folder that is there: {why}"));
        }
        let code = match why {
            BackupError::Exists { .. } => Code::BackupExists,
            BackupError::Running => Code::BackupRunning,
            BackupError::Stopping => Code::ShuttingDown,
            BackupError::NoRoom { .. } => Code::DiskLow,
            BackupError::Io { .. }
            | BackupError::Grew { .. }
            | BackupError::Source(_)
            | BackupError::Target(_)
            | BackupError::Contradictory { .. }
            | BackupError::Unreadable(_) => Code::BackupFailed,
        };
        let retry_after = (code == Code::DiskLow).then_some(DISK_RETRY_AFTER);
        Problem { retry_after, ..Problem::new(code, why.to_string()) }
    }
}

impl From<Rejected> for Problem {
    fn from(why: Rejected) -> Problem {
        let detail = why.to_string() + remedy(&why);
        match why {
            Rejected::DestinationUnknown => Problem::new(Code::DestinationUnknown, detail).at("destination"),
            Rejected::DestinationDisabled { .. } => Problem::new(Code::DestinationDisabled, detail),
            Rejected::ClassUnknown => Problem::new(Code::ClassUnknown, detail).at("class"),
            Rejected::KeyReused { .. } => Problem::new(Code::KeyReused, detail).at("idempotency_key"),
            Rejected::QueueFull { retry_after, .. } => {
                Problem { retry_after: Some(retry_after), ..Problem::new(Code::QueueFull, detail) }
            }
            Rejected::DiskLow { retry_after, .. } => {
                Problem { retry_after: Some(retry_after), ..Problem::new(Code::DiskLow, detail) }
            }
            Rejected::TenantRate { retry_after, .. } | Rejected::TenantFull { retry_after, .. } => {
                Problem { retry_after: Some(retry_after), ..Problem::new(Code::TenantQuota, detail) }
            }
            Rejected::Draining { retry_after } => {
                Problem { retry_after: Some(retry_after), ..Problem::new(Code::Draining, detail) }
            }
            Rejected::Damaged => Problem::new(Code::Damaged, detail),
        }
    }
}

/// What the producer can do about it.
fn remedy(why: &Rejected) -> &'static str {
    match why {
        Rejected::DestinationUnknown => {
            "; PUT /v1/destinations/{id} on the admin listener makes or changes one"
        }
        Rejected::DestinationDisabled { .. } => "; it takes deliveries again once an operator enables it",
        Rejected::ClassUnknown => "; there are urgent, routine and bulk, and those that are configured",
        Rejected::KeyReused { .. } => "; another event needs a key of its own",
        Rejected::Draining { .. } => "; nothing was stored, send it there",
        Rejected::TenantRate { .. } | Rejected::TenantFull { .. } => {
            "; nothing was stored, send it again later"
        }
        Rejected::DiskLow { .. } => "; nothing was stored, send it again once there is room",
        Rejected::QueueFull { .. } | Rejected::Damaged => "",
    }
}

impl From<Left> for Problem {
    fn from(why: Left) -> Problem {
        let detail = why.to_string();
        match why {
            Left::DestinationUnknown => Problem::new(Code::DestinationUnknown, detail).at("destination"),
            Left::ClassUnknown => Problem::new(Code::ClassUnknown, detail).at("class"),
            Left::TenantFixed => Problem::new(Code::TenantFixed, detail).at("tenant"),
            Left::TooManyDestinations => Problem::new(Code::TooManyDestinations, detail),
            Left::KeyReused { .. } => Problem::new(Code::KeyReused, detail).at("idempotency_key"),
            Left::IdTaken => Problem::new(Code::KeyReused, detail).at("id"),
            Left::Leased => Problem::new(Code::Leased, detail),
            Left::Damaged => Problem::new(Code::Damaged, detail),
            Left::QueueFull { .. } => Problem::new(Code::QueueFull, detail),
        }
    }
}

impl From<FenceRequired> for Problem {
    fn from(why: FenceRequired) -> Problem {
        let remedy = match why {
            FenceRequired::Drained => {
                "if its work was imported nowhere, POST /v1/drain (duehook drain) shows it once more"
            }
            FenceRequired::Stale => "leave it out to start claims",
        };
        Problem::new(Code::FenceRequired, format!("{why}; {remedy}")).at("fence")
    }
}

impl From<CommandError> for Problem {
    fn from(why: CommandError) -> Problem {
        let mut detail = why.to_string();
        if why == CommandError::Refused(Refused::PayloadErased) {
            detail += "; [retention] says how long bodies are kept. Post it again under a new key";
        }
        let code = match why {
            CommandError::DestinationUnknown | CommandError::DeliveryUnknown | CommandError::JobUnknown => {
                Code::NotFound
            }
            CommandError::JobRunning { .. } | CommandError::TooManyJobs => Code::BulkRunning,
            CommandError::TenantFixed => return Problem::new(Code::TenantFixed, detail).at("tenant"),
            CommandError::TenantNotAllowed => Code::TenantNotAllowed,
            CommandError::RevisionMismatch => Code::RevisionMismatch,
            CommandError::WorkWaiting { .. } => Code::WorkWaiting,
            CommandError::TooManyDestinations => Code::TooManyDestinations,
            CommandError::TooManySecrets => Code::TooManySecrets,
            CommandError::Damaged => Code::Damaged,
            CommandError::PolicyNeeded { policy, .. } => {
                return Problem::field(format!("policy.{policy}"), detail);
            }
            CommandError::ClassesFull { class } => return Problem::field(format!("class.{class}"), detail),
            CommandError::StaleExport { .. } => return Problem::new(Code::StaleExport, detail).at("fence"),
            CommandError::Refused(Refused::Leased) => Code::Leased,
            CommandError::Refused(Refused::Terminal) => Code::Terminal,
            CommandError::Refused(Refused::NotLeased) => Code::NotLeased,
            CommandError::Refused(Refused::PayloadErased) => Code::PayloadErased,
        };
        Problem::new(code, detail)
    }
}

#[cfg(test)]
#[path = "error/tests.rs"]
mod tests;
