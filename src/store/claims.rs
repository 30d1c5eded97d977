//! Whether deliveries are claimed, as it outlives the process, and the fence between two owners.
//!
//! The fence counts the drains of a file and never goes back: who was drained can be started only
//! by naming it, and an export carries it, so that an older one is known when it comes.

use super::tables::Meta;
use super::{Snapshot, StoreError, Writing, tables};

/// Other servers whose fences are kept: beyond it the one that was first imported from is
/// forgotten, and an older export of that one is no longer known as such.
const MAX_SOURCES: usize = 64;
/// A server's name and its fence.
const SOURCE_BYTES: usize = 24;

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
    /// By an operator's order, for a hand-over: nothing new is taken either, and only the fence ends
    /// it. Neither a restart nor a restore does.
    Drained,
}

/// Who a file is, for those who get an export of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Made with the file; a copy has it too.
    pub server: [u8; 16],
    /// Of its newest drain; 0: it never was.
    pub fence: u64,
}

impl Claims {
    const ALL: [Claims; 5] =
        [Claims::Running, Claims::Stopped, Claims::Restored, Claims::Moved, Claims::Drained];

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
            Claims::Drained => {
                "the server was drained so that another takes over, which may be sending this; claims start \
                 with the fence ends that"
            }
        }
    }

    /// The word for it in the API; `out` attempts are in flight.
    #[must_use]
    pub fn word(self, out: u64) -> &'static str {
        match self {
            Claims::Running => "running",
            Claims::Stopped | Claims::Restored | Claims::Moved => "stopped",
            Claims::Drained if out > 0 => "draining",
            Claims::Drained => "drained",
        }
    }

    /// What a file starts with that was restored or `moved`, or neither: nothing ends a drain but
    /// its fence.
    pub(super) fn at_start(self, restored: bool, moved: bool) -> Claims {
        match (self, restored, moved) {
            (Claims::Drained, _, _) => Claims::Drained,
            (_, true, _) => Claims::Restored,
            (_, false, true) => Claims::Moved,
            (stored, false, false) => stored,
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

    /// Names the host that serves the file: a start under another one claims nothing.
    pub(crate) fn put_host(&mut self, host: &str) -> Result<(), StoreError> {
        self.put_meta(Meta::Host, host.as_bytes())
    }

    /// Stores the fence of a new drain.
    pub(crate) fn put_fence(&mut self, fence: u64) -> Result<(), StoreError> {
        self.put_meta(Meta::Fence, &fence.to_le_bytes())
    }

    /// The newest fence that is known of a server: this one's own, or one it has imported from.
    pub(crate) fn known_fence(&self, server: [u8; 16]) -> Result<Option<u64>, StoreError> {
        let own = identity(|word| self.meta(word))?;
        if own.server == server {
            return Ok(Some(own.fence));
        }
        let sources = self.meta(Meta::Sources)?.unwrap_or_default();
        Ok(sources_of(&sources).into_iter().find(|one| one.server == server).map(|one| one.fence))
    }

    /// Notes that an export of this fence was imported.
    pub(crate) fn put_source(&mut self, source: Identity) -> Result<(), StoreError> {
        if identity(|word| self.meta(word))?.server == source.server {
            return Ok(());
        }
        let before = sources_of(&self.meta(Meta::Sources)?.unwrap_or_default());
        self.put_meta(Meta::Sources, &with_source(before, source))
    }
}

impl Snapshot {
    /// Who this file is.
    ///
    /// # Errors
    /// [`StoreError`] when the file cannot be read.
    pub fn identity(&self) -> Result<Identity, StoreError> {
        identity(|word| tables::meta(&self.tables.meta, word))
    }
}

fn identity(get: impl Fn(Meta) -> Result<Option<Vec<u8>>, StoreError>) -> Result<Identity, StoreError> {
    let server = get(Meta::Uuid)?.and_then(|value| value.try_into().ok()).unwrap_or_default();
    Ok(Identity { server, fence: fence_of(get(Meta::Fence)?.as_deref()) })
}

/// The fence in a value of `meta`.
pub(super) fn fence_of(value: Option<&[u8]>) -> u64 {
    value.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

fn sources_of(value: &[u8]) -> Vec<Identity> {
    let source = |bytes: &[u8]| {
        let (server, fence) = bytes.split_at_checked(16)?;
        Some(Identity { server: server.try_into().ok()?, fence: fence_of(Some(fence)) })
    };
    value.chunks(SOURCE_BYTES).filter_map(source).collect()
}

/// The newest stands last; of one server only the newest.
fn with_source(mut all: Vec<Identity>, source: Identity) -> Vec<u8> {
    all.retain(|one| one.server != source.server);
    all.push(source);
    let surplus = all.len().saturating_sub(MAX_SOURCES);
    let bytes = |one: &Identity| [one.server.as_slice(), &one.fence.to_le_bytes()].concat();
    all.iter().skip(surplus).flat_map(bytes).collect()
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
        check(Some(&[5]), Claims::Stopped);
        check(Some(&[]), Claims::Stopped);
        check(Some(&[0, 0]), Claims::Stopped);
    }

    #[test]
    fn a_drain_outlives_a_restore_and_a_move() {
        let check = |stored: Claims, restored: bool, moved: bool, want: Claims| {
            assert_eq!(stored.at_start(restored, moved), want, "{stored:?} {restored} {moved}");
        };
        check(Claims::Running, false, false, Claims::Running);
        check(Claims::Running, true, true, Claims::Restored);
        check(Claims::Stopped, false, true, Claims::Moved);
        check(Claims::Stopped, false, false, Claims::Stopped);
        for (restored, moved) in [(false, false), (true, false), (false, true), (true, true)] {
            check(Claims::Drained, restored, moved, Claims::Drained);
        }
    }

    #[test]
    fn words_for_people_and_programs() {
        let check = |claims: Claims, out: u64, want: &str| assert_eq!(claims.word(out), want);
        check(Claims::Running, 3, "running");
        check(Claims::Stopped, 3, "stopped");
        check(Claims::Restored, 0, "stopped");
        check(Claims::Moved, 0, "stopped");
        check(Claims::Drained, 1, "draining");
        check(Claims::Drained, 0, "drained");
    }

    #[test]
    fn of_each_source_the_newest_fence_is_kept_and_there_are_not_too_many() {
        let source = |n: u8, fence| Identity { server: [n; 16], fence };
        let mut value = Vec::new();
        for n in 0..70 {
            value = with_source(sources_of(&value), source(n, 1));
        }
        value = with_source(sources_of(&value), source(10, 2));
        let kept = sources_of(&value);
        assert_eq!((kept.len(), kept[0], kept[63]), (MAX_SOURCES, source(6, 1), source(10, 2)));
        assert!(sources_of(&[7; 15]).is_empty() && sources_of(&[]).is_empty());
        assert_eq!((fence_of(None), fence_of(Some(&[1])), fence_of(Some(&7_u64.to_le_bytes()))), (0, 0, 7));
    }
}
