//! What an error of the client means: not sent, or maybe sent, and why.
//!
//! Decided by types and by whether the request was taken up, never by the text of a message.

use std::error::Error;
use std::io;

use super::egress::resolver::Unreachable;
use crate::outcome::{MaybeSent, NotSent, Outcome};

/// Causes of one error that are looked at; a chain that is longer is a fault of ours.
const MAX_CAUSES: usize = 16;

/// What went wrong, in the words of the record.
#[derive(Debug)]
pub struct Failure {
    pub outcome: Outcome,
    /// Without the host; lower case.
    pub text: String,
}

/// What one cause in the chain of an error says.
enum Cause {
    Blocked(String),
    Dns,
    Tls(String),
    NotProcessed,
    Invalid,
    Io(io::ErrorKind),
    Closed,
}

/// Reads an error. `touched`: a connection had taken up the request, so part of it may have
/// left.
#[must_use]
pub fn read(error: &reqwest::Error, touched: bool) -> Failure {
    let causes = causes(error);
    if touched { maybe_sent(&causes) } else { not_sent(&causes, error.is_timeout()) }
}

/// What it is when the time of the whole attempt was up.
#[must_use]
pub fn deadline(touched: bool) -> Failure {
    if touched {
        let outcome = Outcome::MaybeSent(MaybeSent::Timeout);
        Failure { outcome, text: "no answer in time".into() }
    } else {
        Failure { outcome: Outcome::NotSent(NotSent::Connect), text: "not connected in time".into() }
    }
}

fn not_sent(causes: &[Cause], timed_out: bool) -> Failure {
    let (why, text) = match causes.iter().find(|cause| !matches!(cause, Cause::Io(_) | Cause::Closed)) {
        Some(Cause::Blocked(reason)) => (NotSent::Blocked, reason.clone()),
        Some(Cause::Dns) => (NotSent::Dns, "the name could not be resolved".into()),
        Some(Cause::Tls(reason)) => (NotSent::Tls, format!("tls: {reason}")),
        Some(Cause::NotProcessed) => (NotSent::NotProcessed, "the server did not take the request".into()),
        Some(Cause::Invalid | Cause::Io(_) | Cause::Closed) | None if timed_out => {
            return deadline(false);
        }
        Some(Cause::Invalid | Cause::Io(_) | Cause::Closed) | None => {
            (NotSent::Connect, format!("connect: {}", io_text(causes)))
        }
    };
    Failure { outcome: Outcome::NotSent(why), text }
}

fn maybe_sent(causes: &[Cause]) -> Failure {
    let has = |wanted: fn(&Cause) -> bool| causes.iter().any(wanted);
    if has(|cause| matches!(cause, Cause::NotProcessed)) {
        let outcome = Outcome::NotSent(NotSent::NotProcessed);
        return Failure { outcome, text: "the server did not take the request".into() };
    }
    if has(|cause| matches!(cause, Cause::Invalid)) {
        let outcome = Outcome::MaybeSent(MaybeSent::InvalidResponse);
        return Failure { outcome, text: "the answer is not HTTP".into() };
    }
    let text = format!("connection lost before the answer: {}", io_text(causes));
    Failure { outcome: Outcome::MaybeSent(MaybeSent::Ambiguous), text }
}

/// The words for the last input or output error of the chain.
fn io_text(causes: &[Cause]) -> String {
    let kind = causes.iter().rev().find_map(|cause| match cause {
        Cause::Io(kind) => Some(*kind),
        Cause::Blocked(_)
        | Cause::Dns
        | Cause::Tls(_)
        | Cause::NotProcessed
        | Cause::Invalid
        | Cause::Closed => None,
    });
    kind.map_or_else(|| "closed".into(), |kind| kind.to_string())
}

/// The causes of `error`, outermost first. An `io::Error` hides the error it wraps from
/// `source`, so it is opened here.
fn causes(error: &reqwest::Error) -> Vec<Cause> {
    let mut found = Vec::new();
    let mut next = error.source();
    for _ in 0..MAX_CAUSES {
        let Some(cause) = next else { break };
        found.extend(cause_of(cause));
        let wrapped = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = match wrapped {
            Some(inner) => Some(inner),
            None => cause.source(),
        };
    }
    found
}

fn cause_of(error: &(dyn Error + 'static)) -> Option<Cause> {
    if let Some(error) = error.downcast_ref::<Unreachable>() {
        return Some(match error {
            Unreachable::Unresolved(_) => Cause::Dns,
            Unreachable::Refused(refusal) => Cause::Blocked(refusal.to_string()),
        });
    }
    if let Some(error) = error.downcast_ref::<rustls::Error>() {
        return Some(Cause::Tls(error.to_string().to_ascii_lowercase()));
    }
    if let Some(error) = error.downcast_ref::<h2::Error>() {
        return Some(http2(error));
    }
    if let Some(error) = error.downcast_ref::<hyper::Error>() {
        return (error.is_parse() || error.is_parse_too_large()).then_some(Cause::Invalid);
    }
    error.downcast_ref::<io::Error>().map(|error| Cause::Io(error.kind()))
}

/// RFC 9113 section 8.7: a refused stream and one above the last stream of a graceful
/// GOAWAY were not processed. An error found by our side is an invalid answer.
fn http2(error: &h2::Error) -> Cause {
    let refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
    let leaving = error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR);
    if error.is_remote() && (refused || leaving) {
        Cause::NotProcessed
    } else if error.is_library() {
        Cause::Invalid
    } else {
        error.get_io().map_or(Cause::Closed, |error| Cause::Io(error.kind()))
    }
}
