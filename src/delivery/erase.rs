//! Erasing a delivery by an operator's word: what of its record goes, and what stays.

use super::{Delivery, End, Event, Next, Payload, Refused, Source, next};
use crate::model::Digest;

/// The digest of a body that was erased: its own is gone with it.
pub const NO_DIGEST: Digest = [0; 32];

impl Delivery {
    /// Erases by an operator's word: afterwards there is no body, no digest or reference of it, no
    /// header or label of its own and no excerpt of an answer in the record. What waits ends; what
    /// is leased ends with its attempt. `Next::Same` where it changed no state.
    ///
    /// # Errors
    /// None: what has ended can be erased, too.
    pub fn erase(&mut self, leased: bool, end: End) -> Result<Next, Refused> {
        let to = next(self.phase(leased), Event::Erase)?;
        self.erase_body(end.at);
        self.headers.clear();
        self.labels.clear();
        match &mut self.payload.source {
            Source::Inline { sha256, .. } => *sha256 = NO_DIGEST,
            Source::Reference { uri, sha256 } => (*uri, *sha256) = (String::new(), None),
        }
        self.log.iter_mut().for_each(|attempt| attempt.response_excerpt = None);
        match to {
            Next::End(outcome) => self.finish(outcome, end),
            Next::Same | Next::Waiting | Next::Leased | Next::Cancelling | Next::Erasing => {
                self.revision += 1;
            }
        }
        Ok(to)
    }

    /// True once an operator has erased it: nothing is left that a second time could remove.
    #[must_use]
    pub fn is_erased(&self) -> bool {
        let gone = match &self.payload.source {
            Source::Inline { sha256, .. } => *sha256 == NO_DIGEST,
            Source::Reference { uri, .. } => uri.is_empty(),
        };
        gone && self.payload.erased_at.is_some()
    }
}

impl Payload {
    /// The digest of the body, where it is known: not once it was erased, nor before a reference
    /// was read.
    #[must_use]
    pub fn digest(&self) -> Option<&Digest> {
        match &self.source {
            Source::Inline { sha256, .. } => Some(sha256).filter(|digest| **digest != NO_DIGEST),
            Source::Reference { sha256, .. } => sha256.as_ref(),
        }
    }
}
