//! One delivery as a JSON object, checked field by field.

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use serde_json::value::RawValue;

use crate::http::body::too_large;
use crate::http::error::{Code, Problem};
use crate::http::fields::{Fields, REPEATED, cut, digits, read_text};
use crate::model::reference::{self, BadReference};
use crate::model::{
    Digest, Header, IdempotencyKey, MAX_AGE_RANGE, MAX_CONTENT_TYPE, MAX_HEADERS, MAX_LABEL_NAME,
    MAX_LABEL_VALUE, MAX_LABELS, MAX_NOT_BEFORE, Name, NewBody, NewDelivery, Prefix, Reference, header,
};
use crate::time::{Millis, Timestamp};

/// The standard alphabet, padded or not.
pub const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// What is allowed as a digest.
const SHA256: &str = "must be 64 hexadecimal digits";

/// What a delivery is checked by that does not stand in it.
#[derive(Clone, Copy, Debug)]
pub struct Checks<'a> {
    pub region: &'a Name,
    pub max_payload: usize,
    /// Where payloads may be that are not in the request.
    pub references: &'a [Prefix],
    pub now: Timestamp,
}

/// Reads the delivery in `text`, which lies inside `body`; a JSON payload stays a slice of it.
/// `key` is the one of the request's header, if it had one.
///
/// # Errors
/// 400, 413 or 422; the fields at fault are named.
pub fn read(
    body: &Bytes,
    text: &[u8],
    key: Option<IdempotencyKey>,
    checks: &Checks<'_>,
) -> Result<NewDelivery, Problem> {
    let mut fields = Fields::read(text)?;
    let destination = required(&mut fields, "destination");
    let region: Option<Name> = fields.parsed("region");
    let tenant = fields.parsed("tenant");
    let class = fields.parsed("class");
    let key = agreed_key(&mut fields, key);
    let not_before = not_before(&mut fields, checks.now);
    let max_age = fields.integer("max_age_ms", MAX_AGE_RANGE).map(Millis);
    let max_failures = fields.integer("max_failures", 0..=u64::from(u32::MAX));
    let headers = headers(&mut fields);
    let labels = labels(&mut fields);
    let source = Source::take(&mut fields);
    let content_type = content_type(&mut fields, source.as_ref());
    let given = source.as_ref().and_then(|source| source.given(body, &mut fields));
    fields.finish(&[])?;
    right_region(region.as_ref(), checks)?;
    let (Some(destination), Some(given)) = (destination, given) else {
        return Err(Problem::invalid(Vec::new()));
    };
    Ok(NewDelivery {
        destination,
        tenant,
        class,
        key,
        not_before,
        max_age,
        max_failures: max_failures.and_then(|most| u32::try_from(most).ok()),
        headers,
        labels,
        content_type,
        body: given.body(checks)?,
    })
}

/// 422 `wrong_region` unless the region is the server's or was not given.
///
/// # Errors
/// Names the server's region.
pub fn right_region(region: Option<&Name>, checks: &Checks<'_>) -> Result<(), Problem> {
    match region {
        Some(other) if other != checks.region => {
            let detail = format!("this server is in region {}", checks.region);
            Err(Problem::new(Code::WrongRegion, detail).at("region"))
        }
        Some(_) | None => Ok(()),
    }
}

/// The reference in `text`, if it may be read here.
///
/// # Errors
/// 422 `ref_not_allowed`, with the reason.
pub fn reference(text: &str, allowed: &[Prefix]) -> Result<Reference, Problem> {
    let refused = |why: BadReference| Problem::new(Code::RefNotAllowed, why.to_string()).at("payload_ref");
    reference::admit(allowed, text).map_err(refused)
}

fn required(fields: &mut Fields<'_>, name: &'static str) -> Option<Name> {
    let value = fields.parsed(name);
    if value.is_none() && !fields.is_at_fault(name) {
        fields.missing(name);
    }
    value
}

/// The key of the field and the one of the header, which must agree.
fn agreed_key(fields: &mut Fields<'_>, header: Option<IdempotencyKey>) -> Option<IdempotencyKey> {
    let field: Option<IdempotencyKey> = fields.parsed("idempotency_key");
    match (field, header) {
        (Some(field), Some(header)) if field != header => {
            fields.refuse("idempotency_key", "differs from the Idempotency-Key header")
        }
        (field, header) => field.or(header),
    }
}

fn not_before(fields: &mut Fields<'_>, now: Timestamp) -> Option<Timestamp> {
    let at: Timestamp = fields.parsed("not_before")?;
    if at > now.plus(MAX_NOT_BEFORE) {
        return fields.refuse("not_before", "more than 30 days ahead");
    }
    Some(at)
}

/// Takes `headers`, in their order.
pub fn headers(fields: &mut Fields<'_>) -> Vec<Header> {
    let given = fields.object("headers").unwrap_or_default();
    if given.len() > MAX_HEADERS {
        fields.fault("headers", format!("at most {MAX_HEADERS} headers"));
        return Vec::new();
    }
    let mut headers: Vec<Header> = Vec::with_capacity(given.len());
    for (name, value) in given {
        match read_header(&name, value) {
            Ok(header) if headers.iter().any(|one| one.name() == header.name()) => {
                fields.fault(format!("headers.{}", cut(&name)), REPEATED);
            }
            Ok(header) => headers.push(header),
            Err(detail) => fields.fault(format!("headers.{}", cut(&name)), detail),
        }
    }
    headers
}

/// Reads one own header.
///
/// # Errors
/// What is wrong with its name or its value.
pub fn read_header(name: &str, value: &RawValue) -> Result<Header, Cow<'static, str>> {
    let value = read_text(value).ok_or("must be a string")?;
    Header::new(name, &value).map_err(|error| error.to_string().into())
}

/// Takes `labels`, in their order.
pub fn labels(fields: &mut Fields<'_>) -> Vec<(String, String)> {
    let given = fields.object("labels").unwrap_or_default();
    if given.len() > MAX_LABELS {
        fields.fault("labels", format!("at most {MAX_LABELS} labels"));
        return Vec::new();
    }
    let mut labels: Vec<(String, String)> = Vec::with_capacity(given.len());
    for (name, value) in given {
        match read_label(&name, value) {
            Ok(_) if labels.iter().any(|(one, _)| *one == name) => {
                fields.fault(format!("labels.{}", cut(&name)), REPEATED);
            }
            Ok(value) => labels.push((name.into_owned(), value)),
            Err(detail) => fields.fault(format!("labels.{}", cut(&name)), detail),
        }
    }
    labels
}

fn read_label(name: &str, value: &RawValue) -> Result<String, &'static str> {
    let value = read_text(value).ok_or("must be a string")?;
    if name.is_empty() || name.len() > MAX_LABEL_NAME {
        return Err("a label's name has 1 to 64 bytes");
    }
    if value.len() > MAX_LABEL_VALUE {
        return Err("a label's value has at most 256 bytes");
    }
    Ok(value.into_owned())
}

/// Where the payload is to come from.
enum Source<'a> {
    Json(&'a RawValue),
    Base64(&'a RawValue),
    /// With what its digest is said to be.
    Reference(Cow<'a, str>, Option<Cow<'a, str>>),
}

/// A payload as it was given, not judged yet.
enum Given {
    Bytes(Bytes),
    Reference(String, Option<Digest>),
}

impl Given {
    fn body(self, checks: &Checks<'_>) -> Result<NewBody, Problem> {
        match self {
            Given::Bytes(bytes) if bytes.len() > checks.max_payload => Err(too_large(checks.max_payload)),
            Given::Bytes(bytes) => Ok(NewBody::new(bytes)),
            Given::Reference(text, sha256) => {
                Ok(NewBody::Reference { reference: reference(&text, checks.references)?, sha256 })
            }
        }
    }
}

impl<'a> Source<'a> {
    /// Exactly one of the three must be given; a JSON null is a payload.
    fn take(fields: &mut Fields<'a>) -> Option<Source<'a>> {
        let json = fields.raw("payload").map(Source::Json);
        let base64 = fields.given("payload_base64").map(Source::Base64);
        let (reference, sha256) = (fields.text("payload_ref"), fields.text("sha256"));
        if sha256.is_some() && reference.is_none() {
            fields.fault("sha256", "goes with payload_ref only");
        }
        let reference = reference.map(|text| Source::Reference(text, sha256));
        let mut given = [json, base64, reference].into_iter().flatten();
        let (first, second) = (given.next(), given.next());
        if second.is_some() {
            return fields.refuse("payload", "give one of payload, payload_base64 and payload_ref");
        }
        if first.is_none() && !fields.is_at_fault("payload_ref") {
            fields.fault("payload", "one of payload, payload_base64 and payload_ref is required");
        }
        first
    }

    fn given(&self, body: &Bytes, fields: &mut Fields<'_>) -> Option<Given> {
        match self {
            Source::Json(value) => Some(Given::Bytes(body.slice_ref(value.get().as_bytes()))),
            Source::Base64(value) => match read_text(value).map(|text| BASE64.decode(text.as_bytes())) {
                Some(Ok(bytes)) => Some(Given::Bytes(bytes.into())),
                Some(Err(_)) => fields.refuse("payload_base64", "not base64"),
                None => fields.refuse("payload_base64", "must be a string"),
            },
            Source::Reference(text, sha256) => {
                let sha256 = match sha256 {
                    Some(text) => Some(digits(text).or_else(|| fields.refuse("sha256", SHA256))?),
                    None => None,
                };
                Some(Given::Reference(text.clone().into_owned(), sha256))
            }
        }
    }
}

fn content_type(fields: &mut Fields<'_>, source: Option<&Source<'_>>) -> String {
    let given = fields.text("content_type");
    match given {
        Some(text) if is_content_type(&text) => text.into_owned(),
        Some(_) => {
            fields.fault("content_type", "must be 1 to 255 bytes of visible ASCII and spaces");
            String::new()
        }
        None => match source {
            Some(Source::Base64(_)) => "application/octet-stream".to_owned(),
            Some(Source::Json(_) | Source::Reference(..)) | None => "application/json".to_owned(),
        },
    }
}

/// True for what can be sent as a `Content-Type`.
#[must_use]
pub fn is_content_type(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_CONTENT_TYPE && header::is_value(text)
}

#[cfg(test)]
#[path = "item/tests.rs"]
mod tests;
