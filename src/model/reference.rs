//! A reference to a payload that is kept elsewhere, and the prefixes under which references may lie.
//!
//! Both are taken apart into scheme, place and decoded segments, and only that is compared and
//! read: a text that can be taken for two places is refused. Nothing here looks at what it names.

use std::fmt;
use std::str::FromStr;

use url::Url;

/// Bytes of a reference: it is kept in the record.
pub const MAX_REFERENCE: usize = 2_048;

/// Where a payload is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    File,
    Http,
    S3,
}

/// A scheme and who reads it.
const SCHEMES: [(&str, Store); 4] =
    [("file", Store::File), ("https", Store::Http), ("http", Store::Http), ("s3", Store::S3)];

/// The name of one payload, in the one form that it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference(Parts);

/// The folder below which references are allowed. It ends with a slash, so that `…/out` does not
/// stand for `…/outbox`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix(Parts);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Parts {
    store: Store,
    /// Without the slash at the end of a prefix.
    url: Url,
    /// Decoded; none is empty or leads upwards.
    segments: Vec<String>,
}

/// Why a text is no reference that is read here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadReference {
    #[error("a reference has 1 to 2,048 ASCII characters without spaces, controls and backslashes")]
    Characters,
    #[error("a reference begins with file:///, https://, http:// or s3://")]
    Scheme,
    #[error("a reference has a host or bucket, without user name and password; file:/// has none")]
    Place,
    #[error("a reference has no query and no fragment")]
    Query,
    #[error("a path has no empty segments, no dots that lead elsewhere and no encoded slashes")]
    Path,
    #[error("no prefix of references is allowed on this server: send the payload itself")]
    NoneAllowed,
    #[error("it does not begin with a prefix of payload_refs.allow")]
    NotAllowed,
}

/// The reference in `text`, if it lies below one of `allowed`.
///
/// # Errors
/// [`BadReference`] says why it is not read.
pub fn admit(allowed: &[Prefix], text: &str) -> Result<Reference, BadReference> {
    if allowed.is_empty() {
        return Err(BadReference::NoneAllowed);
    }
    let reference: Reference = text.parse()?;
    let covered = allowed.iter().any(|prefix| prefix.covers(&reference));
    if covered { Ok(reference) } else { Err(BadReference::NotAllowed) }
}

impl Reference {
    /// Its one form: what is stored, shown and compared.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.url.as_str()
    }

    /// The same as a URL.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.0.url
    }

    /// Where it is kept.
    #[must_use]
    pub fn store(&self) -> Store {
        self.0.store
    }

    /// The host or bucket; empty for a file.
    #[must_use]
    pub fn place(&self) -> &str {
        self.0.place()
    }

    /// Its decoded path, without a slash in front: the key in its bucket.
    #[must_use]
    pub fn key(&self) -> String {
        self.0.segments.join("/")
    }
}

impl Prefix {
    /// True when `reference` lies below it.
    #[must_use]
    pub fn covers(&self, reference: &Reference) -> bool {
        let (own, other) = (&self.0, &reference.0);
        own.url.scheme() == other.url.scheme()
            && own.place() == other.place()
            && own.url.port_or_known_default() == other.url.port_or_known_default()
            && other.segments.len() > own.segments.len()
            && other.segments.starts_with(&own.segments)
    }

    /// Where it is.
    #[must_use]
    pub fn store(&self) -> Store {
        self.0.store
    }

    /// The host or bucket; empty for files.
    #[must_use]
    pub fn place(&self) -> &str {
        self.0.place()
    }

    /// Its decoded path, without a slash in front or behind.
    #[must_use]
    pub fn folder(&self) -> String {
        self.0.segments.join("/")
    }
}

impl FromStr for Reference {
    type Err = BadReference;

    fn from_str(text: &str) -> Result<Reference, BadReference> {
        let parts = Parts::read(text, false)?;
        if parts.segments.is_empty() { Err(BadReference::Path) } else { Ok(Reference(parts)) }
    }
}

impl FromStr for Prefix {
    type Err = BadReference;

    /// Every file there is, is no folder.
    fn from_str(text: &str) -> Result<Prefix, BadReference> {
        let parts = Parts::read(text, true)?;
        let everything = parts.store == Store::File && parts.segments.is_empty();
        if everything { Err(BadReference::Path) } else { Ok(Prefix(parts)) }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.url.as_str();
        write!(f, "{}/", text.strip_suffix('/').unwrap_or(text))
    }
}

impl Parts {
    fn read(text: &str, is_prefix: bool) -> Result<Parts, BadReference> {
        let visible = text.bytes().all(|b| b.is_ascii_graphic() && b != b'\\');
        if text.is_empty() || text.len() > MAX_REFERENCE || !visible {
            return Err(BadReference::Characters);
        }
        let (scheme, rest) = text.split_once("://").ok_or(BadReference::Scheme)?;
        let known = SCHEMES.iter().find(|(known, _)| scheme.eq_ignore_ascii_case(known));
        let (scheme, store) = *known.ok_or(BadReference::Scheme)?;
        if rest.contains(['?', '#']) {
            return Err(BadReference::Query);
        }
        let (place, path) = rest.split_once('/').ok_or(BadReference::Path)?;
        let segments = segments(path, is_prefix)?;
        let url = place_of(scheme, store, place).ok_or(BadReference::Place)?;
        Ok(Parts { store, url: with_path(url, &segments).ok_or(BadReference::Path)?, segments })
    }

    fn place(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }
}

/// The decoded segments; those of a prefix end with a slash.
fn segments(path: &str, is_prefix: bool) -> Result<Vec<String>, BadReference> {
    let path = match (is_prefix, path) {
        (true, "") => return Ok(Vec::new()),
        (true, path) => path.strip_suffix('/').ok_or(BadReference::Path)?,
        (false, path) => path,
    };
    path.split('/').map(|text| decoded(text).filter(|it| is_segment(it)).ok_or(BadReference::Path)).collect()
}

fn is_segment(text: &str) -> bool {
    !matches!(text, "" | "." | "..") && !text.contains(['/', '\\']) && !text.contains(char::is_control)
}

/// The text without its percent signs, if it is UTF-8 then.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => hex(rest.next()?)? << 4 | hex(rest.next()?)?,
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

fn place_of(scheme: &str, store: Store, place: &str) -> Option<Url> {
    let good = match store {
        Store::File => place.is_empty(),
        Store::Http => !place.is_empty() && !place.contains('@'),
        Store::S3 => is_bucket(place),
    };
    good.then(|| Url::parse(&format!("{scheme}://{place}/")).ok()).flatten()
}

/// The names that S3 lets a bucket have.
fn is_bucket(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b".-".contains(&b);
    (3..=63).contains(&text.len()) && text.bytes().all(inner) && !text.starts_with(['.', '-'])
}

/// `url` with this path, if it then has these segments and no others.
fn with_path(mut url: Url, segments: &[String]) -> Option<Url> {
    url.path_segments_mut().ok()?.clear().extend(segments);
    let back: Option<Vec<String>> = url.path_segments()?.map(decoded).collect();
    let same = back? == segments || (segments.is_empty() && url.path() == "/");
    (same && url.as_str().len() <= MAX_REFERENCE).then_some(url)
}

#[cfg(test)]
#[path = "reference/tests.rs"]
mod tests;
