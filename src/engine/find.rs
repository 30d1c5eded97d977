//! Finding the lanes after an open, a page in each step, so that sending begins at once.
//!
//! A skip-scan of `due`: one seek a lane, whatever waits in it. The lanes of the first class come
//! first, then the others; until a lane is found, what comes anew for it is taken to be behind
//! rows on disk, which is always right and costs at most a page read.

use super::InStep;
use super::open::damaged;
use crate::model::{DestNo, Lane, MAX_CLASSES};
use crate::store::StoreError;

/// Seeks in one step: a few milliseconds, when the pages are in RAM.
const SEEKS: usize = 1_024;
/// Lanes of a destination: two for each class there can be.
const LANES: u8 = MAX_CLASSES as u8 * 2;

/// How far the lanes have been found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finder {
    /// The most urgent class, one seek a destination; where it has no such lane, its first.
    Urgent(DestNo),
    /// Everything, from this lane on.
    Rest(DestNo, u8),
    Done,
}

impl Default for Finder {
    fn default() -> Finder {
        Finder::Urgent(DestNo(0))
    }
}

impl InStep<'_, '_> {
    /// Finds a page of lanes.
    pub(super) fn find_lanes(&mut self) -> Result<(), StoreError> {
        for _ in 0..SEEKS {
            self.core.finder = match self.core.finder {
                Finder::Done => return Ok(()),
                Finder::Urgent(no) => match self.find_lane(no, 0)? {
                    Some((found, _)) => Finder::Urgent(DestNo(found.0 + 1)),
                    None => Finder::Rest(DestNo(0), 0),
                },
                Finder::Rest(no, lane) => match self.find_lane(no, lane)? {
                    Some((found, lane)) if lane.0 + 1 >= LANES => Finder::Rest(DestNo(found.0 + 1), 0),
                    Some((found, lane)) => Finder::Rest(found, lane.0 + 1),
                    None => {
                        self.core.schedule.found_all();
                        Finder::Done
                    }
                },
            };
        }
        Ok(())
    }

    /// The first lane with rows at or after this one.
    fn find_lane(&mut self, no: DestNo, lane: u8) -> Result<Option<(DestNo, Lane)>, StoreError> {
        let Some((found, lane, head)) = self.file.next_lane(no, lane)? else { return Ok(None) };
        let known = usize::try_from(found.0).unwrap_or(usize::MAX) < self.core.directory.len();
        if !known || usize::from(lane.class().0) >= self.core.directory.windows().len() {
            return Err(damaged("a due row", found));
        }
        self.core.tally.figures.rows_examined += 1;
        self.core.schedule.found(found, lane, head, self.now);
        Ok(Some((found, lane)))
    }
}
