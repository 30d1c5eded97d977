//! A delivery as a raw body: what is asked of it stands in the path and in headers.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use axum::http::{HeaderMap, HeaderName, header};
use bytes::Bytes;

use crate::http::body::single;
use crate::http::error::{FieldError, Problem};
use crate::http::fields::out_of;
use crate::http::ingest::KEY_HEADER;
use crate::http::ingest::item::{Checks, is_content_type, right_region};
use crate::model::{IdempotencyKey, MAX_AGE_RANGE, MAX_NOT_BEFORE, Name, NewBody, NewDelivery};
use crate::time::{Millis, Timestamp};

const TENANT: HeaderName = HeaderName::from_static("duehook-tenant");
const CLASS: HeaderName = HeaderName::from_static("duehook-class");
const REGION: HeaderName = HeaderName::from_static("duehook-region");
const NOT_BEFORE: HeaderName = HeaderName::from_static("duehook-not-before");
const MAX_AGE: HeaderName = HeaderName::from_static("duehook-max-age-ms");
const MAX_FAILURES: HeaderName = HeaderName::from_static("duehook-max-failures");

/// Everything of a delivery but its body.
#[derive(Debug)]
pub struct Head {
    destination: Name,
    tenant: Option<Name>,
    class: Option<Name>,
    key: Option<IdempotencyKey>,
    not_before: Option<Timestamp>,
    max_age: Option<Millis>,
    max_failures: Option<u32>,
    content_type: String,
}

impl Head {
    /// The delivery, with the body as it came.
    #[must_use]
    pub fn with(self, bytes: Bytes) -> NewDelivery {
        NewDelivery {
            destination: self.destination,
            tenant: self.tenant,
            class: self.class,
            key: self.key,
            not_before: self.not_before,
            max_age: self.max_age,
            max_failures: self.max_failures,
            headers: Vec::new(),
            labels: Vec::new(),
            content_type: self.content_type,
            body: NewBody::new(bytes),
        }
    }
}

/// Reads the path and the headers, before any of the body is taken.
///
/// # Errors
/// 422 naming the headers at fault.
pub fn read_head(destination: &str, headers: &HeaderMap, checks: &Checks<'_>) -> Result<Head, Problem> {
    let mut reader = Reader { headers, errors: Vec::new() };
    let destination = destination.parse();
    if let Err(error) = &destination {
        reader.errors.push(FieldError::new("destination", format!("{error}")));
    }
    let region: Option<Name> = reader.parsed(&REGION);
    let (tenant, class) = (reader.parsed(&TENANT), reader.parsed(&CLASS));
    let key =
        reader.read(&KEY_HEADER, |text| IdempotencyKey::from_header(text).map_err(|error| error.to_string()));
    let not_before = reader.read(&NOT_BEFORE, |text| not_before(text, checks.now));
    let max_age = reader.read(&MAX_AGE, |text| number(text, MAX_AGE_RANGE)).map(Millis);
    let most = u64::from(u32::MAX);
    let max_failures = reader.read(&MAX_FAILURES, |text| number(text, 0..=most));
    let content_type = reader.read(&header::CONTENT_TYPE, |text| {
        let wrong = || "must be 1 to 255 bytes of visible ASCII and spaces".to_owned();
        is_content_type(text).then(|| text.to_owned()).ok_or_else(wrong)
    });
    let (Ok(destination), []) = (destination, reader.errors.as_slice()) else {
        return Err(Problem::invalid(reader.errors));
    };
    right_region(region.as_ref(), checks)?;
    Ok(Head {
        destination,
        tenant,
        class,
        key,
        not_before,
        max_age,
        max_failures: max_failures.and_then(|most| u32::try_from(most).ok()),
        content_type: content_type.unwrap_or_else(|| "application/octet-stream".to_owned()),
    })
}

/// The headers, and the faults found so far.
struct Reader<'a> {
    headers: &'a HeaderMap,
    errors: Vec<FieldError>,
}

impl Reader<'_> {
    fn read<T>(&mut self, name: &HeaderName, read: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        let text = match single(self.headers, name) {
            Ok(text) => text?,
            Err(problem) => {
                self.errors.extend(problem.errors);
                return None;
            }
        };
        read(text).map_err(|detail| self.errors.push(FieldError::new(name.as_str().to_owned(), detail))).ok()
    }

    fn parsed<T: FromStr<Err: fmt::Display>>(&mut self, name: &HeaderName) -> Option<T> {
        self.read(name, |text| text.parse().map_err(|error: T::Err| error.to_string()))
    }
}

fn not_before(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let at: Timestamp = text.parse().map_err(|error: crate::time::NotATime| error.to_string())?;
    if at > now.plus(MAX_NOT_BEFORE) { Err("more than 30 days ahead".to_owned()) } else { Ok(at) }
}

fn number(text: &str, range: RangeInclusive<u64>) -> Result<u64, String> {
    text.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| out_of(&range))
}

#[cfg(test)]
#[path = "raw/tests.rs"]
mod tests;
