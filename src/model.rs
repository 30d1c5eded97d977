//! The nouns: ids, names, keys, and what a producer asks for.
//!
//! Everything here is checked when it is made, so that the rest of the program never meets
//! an invalid value. Nothing here does I/O or reads a clock.

pub mod audit;
pub mod class;
pub mod destination;
pub mod header;
pub mod job;
pub mod private;
pub mod quota;
pub mod reference;
pub mod secret;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;

use crate::time::{Millis, Timestamp};

pub use audit::{Action, AuditEntry, AuditKey};
pub use class::{ClassSettings, TenantWeights};
pub use destination::{Destination, DestinationState, HoldScope, Rate};
pub use header::Header;
pub use job::{BulkAction, JobId, JobState};
pub use quota::{Quota, TenantQuotas};
pub use reference::{Prefix, Reference};
pub use secret::{Certificates, ClientCertificate, Excerpt, LiveSecret, Secret};

/// A body may be this long unless the operator sets less or more.
pub const MAX_PAYLOAD_DEFAULT: usize = 256 * 1024;
/// The most that `ingest.max_payload` can be set to: a body is held in RAM while it is sent.
pub const MAX_PAYLOAD_LIMIT: usize = 1024 * 1024;
/// Own headers of one delivery or destination.
pub const MAX_HEADERS: usize = 16;
/// Labels of one delivery.
pub const MAX_LABELS: usize = 8;
/// Bytes of a label's name and of its value.
pub const MAX_LABEL_NAME: usize = 64;
/// See [`MAX_LABEL_NAME`].
pub const MAX_LABEL_VALUE: usize = 256;
/// A delivery may be put off by at most this much (API.md, `not_before`).
pub const MAX_NOT_BEFORE: Millis = Millis(30 * 24 * 3_600_000);
/// The shortest and longest life a producer may ask for (API.md, `max_age_ms`).
pub const MAX_AGE_RANGE: std::ops::RangeInclusive<u64> = 1_000..=30 * 24 * 3_600_000;
/// Classes a server may have: a lane number is a class and one bit, and gates keep a slot for each.
pub const MAX_CLASSES: usize = 8;
/// Length of a content type; longer ones are refused.
pub const MAX_CONTENT_TYPE: usize = 255;

/// A tenant's number: given once, never used again for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantNo(pub u32);

/// A destination's number: given once, never used again for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DestNo(pub u32);

/// A latency class's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassNo(pub u8);

/// One queue of a destination: class, and whether the work in it was attempted before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(pub u8);

impl Lane {
    /// The lane of work of `class` that was claimed `attempts` times.
    #[must_use]
    pub fn of(class: ClassNo, attempts: u32) -> Lane {
        Lane(class.0 * 2 + u8::from(attempts > 0))
    }

    /// The class whose work is in this lane.
    #[must_use]
    pub fn class(self) -> ClassNo {
        ClassNo(self.0 / 2)
    }

    /// True when the work in it has never been claimed.
    #[must_use]
    pub fn is_first(self) -> bool {
        self.0.is_multiple_of(2)
    }
}

/// A delivery's id: 48 bits of milliseconds, 40 bits that name the run of the server, 40 bits
/// of a counter. Ids of one server sort by the time they were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryId(pub u128);

const CROCKFORD: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const ID_PREFIX: &str = "dlv_";
const ID_DIGITS: usize = 26;

impl DeliveryId {
    /// Puts an id together; `run` and `counter` use their low 40 bits.
    #[must_use]
    pub fn new(at: Timestamp, run: u64, counter: u64) -> DeliveryId {
        const LOW_40: u128 = (1 << 40) - 1;
        let ms = u128::from(at.0) & ((1 << 48) - 1);
        DeliveryId(ms << 80 | (u128::from(run) & LOW_40) << 40 | (u128::from(counter) & LOW_40))
    }

    /// The millisecond in which the id was made.
    #[must_use]
    pub fn made_at(self) -> Timestamp {
        Timestamp(u64::try_from(self.0 >> 80).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for DeliveryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_id(f, *b"dlv_00000000000000000000000000", self.0)
    }
}

impl FromStr for DeliveryId {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<DeliveryId, NotAnId> {
        text.strip_prefix(ID_PREFIX).and_then(read_id).map(DeliveryId).ok_or(NotAnId)
    }
}

/// Writes the 26 digits of `id` over the end of `text`.
fn write_id(f: &mut fmt::Formatter<'_>, mut text: [u8; 30], id: u128) -> fmt::Result {
    let mut rest = id;
    for digit in text.iter_mut().rev().take(ID_DIGITS) {
        *digit = CROCKFORD[usize::try_from(rest & 31).unwrap_or(0)];
        rest >>= 5;
    }
    f.write_str(std::str::from_utf8(&text).unwrap_or_default())
}

/// The number that 26 digits stand for.
fn read_id(digits: &str) -> Option<u128> {
    let digits = digits.as_bytes();
    if digits.len() != ID_DIGITS || digits[0] > b'7' {
        return None;
    }
    let mut value = 0_u128;
    for digit in digits {
        let place = CROCKFORD.iter().position(|c| c == digit)?;
        value = value << 5 | place as u128;
    }
    Some(value)
}

/// The text is not a delivery id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a delivery id: dlv_ and 26 characters")]
pub struct NotAnId;

/// The name of a tenant, destination, class, policy or region: `[A-Za-z0-9][A-Za-z0-9._-]{0,63}`.
/// A copy shares its text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// The text of the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = NotAName;

    fn from_str(text: &str) -> Result<Name, NotAName> {
        let inner = |b: &u8| b.is_ascii_alphanumeric() || b"._-".contains(b);
        let bytes = text.as_bytes();
        let good = (1..=64).contains(&bytes.len()) && bytes[0].is_ascii_alphanumeric();
        if good && bytes.iter().all(inner) { Ok(Name(text.into())) } else { Err(NotAName) }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The text is not a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be 1 to 64 letters, digits, '.', '_' or '-', and begin with a letter or digit")]
pub struct NotAName;

/// The producer's own name for one event: 1 to 255 visible ASCII characters without `"` and `\`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdempotencyKey(Box<str>);

impl IdempotencyKey {
    /// The key as it is sent: bare.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reads a header value: bare, or as the quoted string of the IETF draft.
    ///
    /// # Errors
    /// [`NotAKey`] when what is inside is not a key.
    pub fn from_header(text: &str) -> Result<IdempotencyKey, NotAKey> {
        let inner = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        inner.unwrap_or(text).parse()
    }
}

impl FromStr for IdempotencyKey {
    type Err = NotAKey;

    fn from_str(text: &str) -> Result<IdempotencyKey, NotAKey> {
        let visible = |b: &u8| b.is_ascii_graphic() && *b != b'"' && *b != b'\\';
        let good = (1..=255).contains(&text.len()) && text.as_bytes().iter().all(visible);
        if good { Ok(IdempotencyKey(text.into())) } else { Err(NotAKey) }
    }
}

/// The text is not an idempotency key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be 1 to 255 visible ASCII characters without \" and \\")]
pub struct NotAKey;

/// A row of `due`, as far as a claim needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DueEntry {
    pub due: Timestamp,
    pub id: DeliveryId,
    /// Claims so far.
    pub attempts: u32,
    /// The process did not survive its last attempt.
    pub interrupted: bool,
    pub bytes: u32,
}

/// SHA-256 of a body.
pub type Digest = [u8; 32];

/// The digest of these bytes.
#[must_use]
pub fn digest(bytes: &[u8]) -> Digest {
    use sha2::Digest as _;
    sha2::Sha256::digest(bytes).into()
}

/// A body as it was given.
#[derive(Clone, PartialEq, Eq)]
pub enum NewBody {
    /// The bytes that are sent, as they stood in the request, and their digest: worked out before
    /// the engine sees it.
    Inline { bytes: Bytes, sha256: Digest },
    /// Where it is read at each attempt, and what its digest must be.
    Reference { reference: Reference, sha256: Option<Digest> },
}

impl NewBody {
    /// Takes the bytes and works out their digest.
    #[must_use]
    pub fn new(bytes: Bytes) -> NewBody {
        let sha256 = digest(&bytes);
        NewBody::Inline { bytes, sha256 }
    }

    /// The bytes that are stored: none of a reference.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        match self {
            NewBody::Inline { bytes, .. } => bytes.clone(),
            NewBody::Reference { .. } => Bytes::new(),
        }
    }
}

impl fmt::Debug for NewBody {
    /// How long it is, and nothing of it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NewBody::Inline { bytes, .. } => write!(f, "Inline({} bytes)", bytes.len()),
            NewBody::Reference { .. } => f.write_str("Reference"),
        }
    }
}

/// What a producer asks for, checked field by field. What depends on the server (does the
/// destination exist, is the key taken) is the engine's to answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDelivery {
    pub destination: Name,
    /// None: the destination's own tenant.
    pub tenant: Option<Name>,
    /// None: `routine`.
    pub class: Option<Name>,
    /// None: the new id is the key.
    pub key: Option<IdempotencyKey>,
    pub not_before: Option<Timestamp>,
    /// None: the policy's `max_age`.
    pub max_age: Option<Millis>,
    /// None: the policy's `max_failures`.
    pub max_failures: Option<u32>,
    pub headers: Vec<Header>,
    pub labels: Vec<(String, String)>,
    pub content_type: String,
    pub body: NewBody,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_read_back_and_sort_by_time() {
        let early = DeliveryId::new(Timestamp(1_000), u64::MAX, 7);
        let late = DeliveryId::new(Timestamp(1_001), 0, 0);
        assert!(early < late);
        assert_eq!(early.made_at(), Timestamp(1_000));
        for id in [early, late, DeliveryId(0), DeliveryId(u128::MAX)] {
            assert_eq!(id.to_string().parse(), Ok(id));
            assert_eq!(id.to_string().len(), 30);
        }
    }

    #[test]
    fn texts_that_are_not_ids() {
        let zeros = "0".repeat(25);
        let long = format!("dlv_0{zeros}0");
        for text in ["", "dlv_", "dlv_0", &long, &format!("dlv_8{zeros}"), &format!("dlv_U{zeros}"), &zeros] {
            assert_eq!(text.parse::<DeliveryId>(), Err(NotAnId), "{text}");
        }
    }

    #[test]
    fn names() {
        let check = |text: &str, good: bool| assert_eq!(text.parse::<Name>().is_ok(), good, "{text:?}");
        check("a", true);
        check("Shop-eu.1_x", true);
        check(&"x".repeat(64), true);
        check(&"x".repeat(65), false);
        for bad in ["", "-a", ".a", "_a", "a b", "a/b", "ä", "a\n", "a\0"] {
            check(bad, false);
        }
    }

    #[test]
    fn keys_bare_and_quoted() {
        let check = |text: &str, want: Option<&str>| {
            let got = IdempotencyKey::from_header(text).ok();
            assert_eq!(got.as_ref().map(IdempotencyKey::as_str), want, "{text:?}");
        };
        check("shipment.updated:shp_4821:v7", Some("shipment.updated:shp_4821:v7"));
        check("\"abc\"", Some("abc"));
        check("\"abc", None);
        check("a\"c", None);
        check("a\\c", None);
        check("a c", None);
        check("", None);
        check("\"\"", None);
        check("é", None);
        check(&"k".repeat(255), Some(&"k".repeat(255)));
        check(&"k".repeat(256), None);
    }

    #[test]
    fn a_lane_is_a_class_and_whether_it_is_a_retry() {
        assert_eq!(Lane::of(ClassNo(0), 0), Lane(0));
        assert_eq!(Lane::of(ClassNo(2), 9), Lane(5));
        assert_eq!(Lane(5).class(), ClassNo(2));
        assert!(Lane(4).is_first() && !Lane(5).is_first());
    }
}
