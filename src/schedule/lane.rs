//! The front of one lane, in RAM. The whole lane is on disk; here is a run of it from its head.

use std::collections::VecDeque;

use crate::model::{DeliveryId, DueEntry};
use crate::time::Timestamp;

/// Rows of one lane kept in RAM: what a page brings. More stay on disk.
pub const BUFFER: usize = 64;
/// Rows kept of a lane that is parked: its head, for the one timer of its gate.
const PARKED: usize = 1;

/// A lane's rows in order, from its head on.
#[derive(Debug, Default)]
pub(super) struct LaneQueue {
    /// Every row of the lane up to the last one here.
    front: VecDeque<DueEntry>,
    /// There may be rows beyond the last one here.
    more: bool,
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
    /// A lane of which only the head is known.
    pub(super) fn from_head(head: DueEntry) -> LaneQueue {
        LaneQueue { front: VecDeque::from([head]), more: true }
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
        self.front.pop_front()
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

    /// When the next row that was not interrupted becomes due, as far as it is known.
    pub(super) fn next_unsuspected(&self, now: Timestamp) -> Option<Timestamp> {
        let later = self.front.iter().filter(|entry| !entry.interrupted && entry.due > now);
        later.map(|entry| entry.due).next()
    }

    /// Forgets a row that is no longer on disk, if it is here.
    pub(super) fn remove(&mut self, due: Timestamp, id: DeliveryId) {
        if let Ok(place) = self.front.binary_search_by_key(&(due, id), key) {
            self.front.remove(place);
        }
    }

    /// Appends the rows that follow the last one here; `ended` says that these were the last.
    pub(super) fn append(&mut self, page: Vec<DueEntry>, ended: bool) {
        self.front.extend(page);
        self.more = !ended;
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

    proptest! {
        /// I17: what is in RAM is always a run of the lane from its head; whatever is done to
        /// it, popping and paging gives the whole lane in order.
        #[test]
        fn i17_the_front_is_a_prefix_of_the_disk(ops in prop::collection::vec((0_u8..5, 0_u64..50), 1..400)) {
            let mut lane = LaneQueue::default();
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
                            let page: Vec<_> = disk.values().take(3).copied().collect();
                            let ended = page.len() < 3;
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
