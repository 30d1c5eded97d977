//! The floor: disk space that is kept free for what is already here.
//!
//! Below it nothing new is taken; sends go on, and their outcomes are written. Knows no disk: it
//! is told how much is free.

use super::Engine;
use super::live::DiskLive;

/// Thousandths of the floor that must be free before deliveries are taken again, so that what is
/// let in does not close the door at once.
const REOPEN_PERMILLE: u64 = 1_100;

/// How much is to stay free, and whether it does.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Floor(DiskLive);

impl Floor {
    /// So many bytes are to stay free; 0: the disk is not looked at.
    pub(super) fn new(kept: u64) -> Floor {
        Floor(DiskLive { kept_bytes: kept, ..DiskLive::default() })
    }

    /// So many bytes are to stay free from now on; whether they do, the next look says.
    pub(super) fn keep(&mut self, kept: u64) {
        self.0.kept_bytes = kept;
    }

    /// So many bytes are free. True when that changes whether deliveries are taken.
    pub(super) fn look(&mut self, free: u64) -> bool {
        let Floor(disk) = self;
        let wanted = if disk.low { reopens_at(disk.kept_bytes) } else { disk.kept_bytes };
        let low = free < wanted;
        disk.free_bytes = free;
        std::mem::replace(&mut disk.low, low) != low
    }

    pub(super) fn is_low(&self) -> bool {
        self.0.low
    }

    pub(super) fn live(&self) -> DiskLive {
        self.0
    }
}

impl Engine {
    /// Takes nothing new from now on while fewer bytes of the disk are free: see
    /// [`Batch::free_bytes`](super::command::Batch::free_bytes). 0, as it is until this is called: whatever is free.
    pub fn keep_free(&mut self, bytes: u64) {
        self.core.floor = Floor::new(bytes);
    }

    /// True while nothing new is taken because the disk is nearly full.
    #[must_use]
    pub fn is_disk_low(&self) -> bool {
        self.core.floor.is_low()
    }
}

fn reopens_at(kept: u64) -> u64 {
    kept.saturating_add(kept / 1_000 * (REOPEN_PERMILLE - 1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_again_only_well_above_the_floor() {
        let mut floor = Floor::new(1_000_000);
        let mut check = |free: u64, low: bool, changed: bool| {
            assert_eq!((floor.look(free), floor.is_low()), (changed, low), "{free}");
            assert_eq!(floor.live().free_bytes, free);
        };
        check(1_000_000, false, false);
        check(999_999, true, true);
        check(0, true, false);
        check(1_000_000, true, false);
        check(1_099_999, true, false);
        check(1_100_000, false, true);
        check(1_000_000, false, false);
    }

    #[test]
    fn without_a_floor_it_is_never_low() {
        let mut floor = Floor::new(0);
        assert!(!floor.look(0) && !floor.is_low());
    }
}
