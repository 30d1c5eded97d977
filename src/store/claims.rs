//! Whether deliveries are claimed, as it outlives the process.

use super::tables::Meta;
use super::{StoreError, Writing};

/// What keeps all deliveries from being claimed, if anything does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Claims {
    #[default]
    Running,
    /// By an operator's order.
    Stopped,
    /// The file came from a backup: what it holds may have been sent since that was taken.
    Restored,
    /// The file was last served by another host, which may serve it still.
    Moved,
}

impl Claims {
    const ALL: [Claims; 4] = [Claims::Running, Claims::Stopped, Claims::Restored, Claims::Moved];

    /// Why nothing is claimed, for people: where claims run it is because the process ends.
    #[must_use]
    pub fn detail(self) -> &'static str {
        match self {
            Claims::Running => "the server is stopping and starts no more requests",
            Claims::Stopped => "an operator stopped all claims; claims start ends that",
            Claims::Restored => {
                "the file was restored from a backup, and what was sent since that was taken would be sent \
                 again; claims start ends that"
            }
            Claims::Moved => {
                "the file was last served on another host, which may serve it still; claims start ends that"
            }
        }
    }

    /// What a value of `meta` says. What cannot be read is no reason to send.
    pub(super) fn of(value: Option<&[u8]>) -> Claims {
        match value {
            None => Claims::Running,
            Some([code]) => Claims::ALL.get(usize::from(*code)).copied().unwrap_or(Claims::Stopped),
            Some(_) => Claims::Stopped,
        }
    }
}

impl Writing<'_> {
    /// Stores whether claims run.
    pub(crate) fn put_claims(&mut self, claims: Claims) -> Result<(), StoreError> {
        self.put_meta(Meta::Claims, &[claims as u8])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_comes_back_and_what_is_not_known_stops() {
        let check = |value: Option<&[u8]>, want| assert_eq!(Claims::of(value), want, "{value:?}");
        for claims in Claims::ALL {
            check(Some(&[claims as u8]), claims);
        }
        check(None, Claims::Running);
        check(Some(&[4]), Claims::Stopped);
        check(Some(&[]), Claims::Stopped);
        check(Some(&[0, 0]), Claims::Stopped);
    }
}
