//! What a record says of a body: its bytes stand elsewhere in the file, or elsewhere altogether.

use crate::model::{Digest, NewBody};
use crate::time::Timestamp;

/// The body: what it is, and whether it is still there. One that an operator erased has neither its
/// digest nor its reference any more; one whose time was over has both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    pub source: Source,
    /// When the body was removed, by retention or an operator.
    pub erased_at: Option<Timestamp>,
}

/// Where the body comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Inline {
        bytes: u32,
        sha256: Digest,
    },
    /// The digest was given, or is that of the bytes which the first attempt that read it sent.
    Reference {
        uri: String,
        sha256: Option<Digest>,
    },
}

impl Payload {
    /// The digest of what a reference led to: the first one stays, and says what the bytes must be
    /// from now on. Nothing that was erased comes back. True when it was not known before.
    pub fn found(&mut self, digest: Digest) -> bool {
        match &mut self.source {
            Source::Reference { uri, sha256: known @ None } if !uri.is_empty() => {
                *known = Some(digest);
                true
            }
            Source::Reference { .. } | Source::Inline { .. } => false,
        }
    }
}

impl Source {
    /// What is kept of a body in its record.
    ///
    /// # Panics
    /// When a body is longer than any that is let in.
    #[must_use]
    pub fn of(body: &NewBody) -> Source {
        match body {
            NewBody::Inline { bytes, sha256 } => {
                let bytes = u32::try_from(bytes.len()).expect("a body is at most a megabyte");
                Source::Inline { bytes, sha256: *sha256 }
            }
            NewBody::Reference { reference, sha256 } => {
                Source::Reference { uri: reference.as_str().to_owned(), sha256: *sha256 }
            }
        }
    }
}
