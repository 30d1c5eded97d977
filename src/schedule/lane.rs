//! The front of one lane, in RAM. The whole lane is on disk; here is a run of it from its head.

use std::collections::VecDeque;

use crate::model::{DeliveryId, DueEntry};
use crate::time::Timestamp;

/// Rows of one lane kept in RAM: what a page brings. More stay on disk.
pub const BUFFER: usize = 64;
/// Rows kept of a lane that is parked: its head, for the one timer of its gate.
const PARKED: usize = 1;
/// Rows of the first page after a lane was parked, doubled with each page up to [`BUFFER`]: what
/// sends one request a hold reads one row for it.
const FIRST_PAGE: u8 = 1;

/// A lane's rows in order, from its head on.
#[derive(Debug)]
pub(super) struct LaneQueue {
    /// Every row of the lane up to the last one here.
    front: VecDeque<DueEntry>,
    /// There may be rows beyond the last one here.
    more: bool,
    /// Rows of the next page.
    page: u8,
    /// It is in the ring of its tenant.
    pub(super) in_ring: bool,
    /// What is due here was interrupted, and waits for a slot for that.
    pub(super) suspended: bool,
    /// No row on disk is due earlier: the due time of the last row taken, or of one that came
    /// anew since.
    taken: Timestamp,
}

/// What is known of a lane's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    Empty,
    At(DueEntry),
    /// It is on disk: a page is needed.
    OnDisk,
}

fn key(entry: &DueEntry) -> (Timestamp, DeliveryId) {
    (entry.due, entry.id)
}

impl LaneQueue {
    /// A lane with nothing in RAM; `more` when it may have rows on disk.
    pub(super) fn new(more: bool) -> LaneQueue {
        LaneQueue {
            front: VecDeque::new(),
            more,
            page: FIRST_PAGE,
            in_ring: false,
            suspended: false,
            taken: Timestamp(0),
        }
    }

    /// The head of the lane as it was found on disk; what is known already stays.
    pub(super) fn found(&mut self, head: DueEntry) {
        if self.front.is_empty() {
            self.front.reserve_exact(PARKED);
            self.front.push_back(head);
            self.more = true;
        }
    }

    pub(super) fn head(&self) -> Head {
        match self.front.front() {
            Some(entry) => Head::At(*entry),
            None if self.more => Head::OnDisk,
            None => Head::Empty,
        }
    }

    /// Puts a new row in its place. Gives back the row that is now only on disk: the new one
    /// when it lies beyond what is kept, another when there is no more room.
    pub(super) fn insert(&mut self, entry: DueEntry) -> Option<DueEntry> {
        let beyond = self.front.back().is_none_or(|last| key(last) < key(&entry));
        if beyond && self.more {
            self.taken = self.taken.min(entry.due);
            return Some(entry);
        }
        let place = self.front.partition_point(|other| key(other) < key(&entry));
        self.front.insert(place, entry);
        if self.front.len() <= BUFFER {
            return None;
        }
        self.more = true;
        self.front.pop_back()
    }

    /// Takes the head, which the caller has seen.
    pub(super) fn pop(&mut self) -> Option<DueEntry> {
        let entry = self.front.pop_front()?;
        self.taken = entry.due;
        Some(entry)
    }

    /// The due time of its head, or one that is not later where the head is on disk.
    pub(super) fn due(&self) -> Option<Timestamp> {
        match self.head() {
            Head::Empty => None,
            Head::At(entry) => Some(entry.due),
            Head::OnDisk => Some(self.taken),
        }
    }

    /// The rows that are kept, in order, and whether there may be more on disk.
    pub(super) fn kept(&self) -> (impl Iterator<Item = &DueEntry>, bool) {
        (self.front.iter(), self.more)
    }

    /// Takes the first due row that was not interrupted, past those that were.
    pub(super) fn pop_unsuspected(&mut self, now: Timestamp) -> Option<DueEntry> {
        let place = self.front.iter().position(|entry| !entry.interrupted && entry.due <= now)?;
        self.front.remove(place)
    }

    /// True when more of the lane can be looked at: it goes on on disk, and there is room.
    pub(super) fn can_grow(&self) -> bool {
        self.more && self.front.len() < BUFFER
    }

    /// When the first row that was not interrupted is due, as far as it is known.
    pub(super) fn next_unsuspected(&self) -> Option<Timestamp> {
        self.front.iter().find(|entry| !entry.interrupted).map(|entry| entry.due)
    }

    /// Forgets a row that is no longer on disk, if it is here.
    pub(super) fn remove(&mut self, due: Timestamp, id: DeliveryId) {
        if let Ok(place) = self.front.binary_search_by_key(&(due, id), key) {
            self.front.remove(place);
            if place == 0 {
                self.taken = due;
            }
        }
    }

    /// No row of the lane is on disk. Where some are here, they are of this step, and more of them that
    /// found no room here are about to be written: then it goes on on disk.
    pub(super) fn whole(&mut self) {
        if self.front.is_empty() {
            self.more = false;
        }
    }

    /// Appends the rows that follow the last one here; `ended` says that these were the last.
    pub(super) fn append(&mut self, page: Vec<DueEntry>, ended: bool) {
        self.front.extend(page);
        self.more = !ended;
        self.page = self.page.saturating_mul(2).min(BUFFER as u8);
    }

    /// Rows that the next page is to have.
    pub(super) fn page_rows(&self) -> usize {
        usize::from(self.page).min(BUFFER - self.front.len().min(BUFFER - 1))
    }

    /// Where the next page begins.
    pub(super) fn last(&self) -> Option<(Timestamp, DeliveryId)> {
        self.front.back().map(key)
    }

    /// Keeps the head only: the lane waits for a time, and its rows are on disk.
    pub(super) fn park(&mut self) {
        if self.front.len() > PARKED {
            self.front.truncate(PARKED);
            self.more = true;
        }
        self.front.shrink_to(PARKED);
        self.page = FIRST_PAGE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn entry(due: u64, id: u128) -> DueEntry {
        DueEntry { due: Timestamp(due), id: DeliveryId(id), attempts: 0, interrupted: false, bytes: 0 }
    }

    /// After a step back of the wall clock, a row may come that is due before the last one taken.
    #[test]
    fn a_new_row_on_disk_is_waited_for() {
        let mut lane = LaneQueue::new(true);
        lane.found(entry(1_000, 1));
        lane.pop();
        assert_eq!(lane.due(), Some(Timestamp(1_000)));
        assert_eq!(lane.insert(entry(5, 2)), Some(entry(5, 2)));
        assert_eq!((lane.head(), lane.due()), (Head::OnDisk, Some(Timestamp(5))));
    }

    proptest! {
        /// I17: what is in RAM is always a run of the lane from its head; whatever is done to
        /// it, popping and paging gives the whole lane in order.
        #[test]
        fn i17_the_front_is_a_prefix_of_the_disk(ops in prop::collection::vec((0_u8..5, 0_u64..50), 1..400)) {
            let mut lane = LaneQueue::new(false);
            let mut disk: BTreeMap<(u64, u128), DueEntry> = BTreeMap::new();
            for (id, (op, due)) in (0_u128..).zip(ops) {
                match op {
                    0 | 1 => {
                        disk.insert((due, id), entry(due, id));
                        lane.insert(entry(due, id));
                    }
                    2 => lane.park(),
                    3 => {
                        if let Some(((due, id), _)) = disk.iter().nth(due as usize) {
                            let (due, id) = (*due, *id);
                            disk.remove(&(due, id));
                            lane.remove(Timestamp(due), DeliveryId(id));
                        }
                    }
                    _ => match lane.head() {
                        Head::At(head) => {
                            prop_assert_eq!(disk.pop_first().map(|(_, entry)| entry), Some(head));
                            lane.pop();
                        }
                        Head::OnDisk => {
                            let page: Vec<_> = disk.values().take(lane.page_rows()).copied().collect();
                            let ended = page.len() < lane.page_rows();
                            lane.append(page, ended);
                        }
                        Head::Empty => prop_assert!(disk.is_empty()),
                    },
                }
                prop_assert!(lane.front.len() <= BUFFER);
                prop_assert!(lane.front.iter().eq(disk.values().take(lane.front.len())));
            }
        }
    }
}
