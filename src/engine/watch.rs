//! The watch: the few destinations that metrics show one by one.
//!
//! Every series has a cost where it is scraped, so there are only so many places. Who is seen to
//! have most waiting gets a free one and keeps it for a while, so that its series does not come
//! and go.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::directory::Directory;
use super::live::WatchedLive;
use crate::model::DestNo;
use crate::schedule::{GateLine, Schedule};
use crate::time::{Millis, Mono, Now};

/// How long a place is kept at least (API.md).
const KEPT: Millis = Millis(600_000);
/// How often it is looked who has most waiting: a pass over all gates.
const LOOK_EVERY: Millis = Millis(5_000);

/// Who is watched, and since when.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// None unless the settings give some.
    places: usize,
    since: BTreeMap<DestNo, Mono>,
    looked: Option<Mono>,
}

impl Watch {
    pub(super) fn new(places: usize) -> Watch {
        Watch { places, ..Watch::default() }
    }

    /// How many may be watched.
    pub(super) fn places(&self) -> usize {
        self.places
    }

    /// Who is watched now, in the order of their numbers.
    pub(super) fn rows(&mut self, schedule: &Schedule, directory: &Directory, now: Now) -> Vec<WatchedLive> {
        if self.places > 0 && self.looked.is_none_or(|last| now.mono.since(last) >= LOOK_EVERY) {
            self.looked = Some(now.mono);
            self.look(schedule.lines(), now.mono);
        }
        let row = |no: &DestNo| {
            let gate = schedule.view(*no, now)?;
            Some(WatchedLive {
                name: directory.facts(*no).name.clone(),
                in_flight: gate.in_flight,
                limit: gate.limit,
                hold_until: gate.hold.map(|hold| hold.until),
                waiting: gate.waiting,
            })
        };
        self.since.keys().filter_map(row).collect()
    }

    /// Ends what is deleted, and what has had its time and is not among the first any more; then
    /// the first that have no place get one, as long as there are free ones.
    fn look(&mut self, lines: impl Iterator<Item = GateLine>, now: Mono) {
        let mut living = BTreeMap::new();
        let mut most = Vec::new();
        for line in lines {
            if let Some(since) = self.since.get(&line.no) {
                living.insert(line.no, *since);
            }
            if line.waiting > 0 {
                most.push((Reverse(line.waiting), line.no));
            }
        }
        if most.len() > self.places {
            most.select_nth_unstable(self.places);
            most.truncate(self.places);
        }
        most.sort_unstable();
        let is_first = |no: &DestNo| most.iter().any(|(_, first)| first == no);
        living.retain(|no, since| now.since(*since) < KEPT || is_first(no));
        for (_, no) in &most {
            if living.len() < self.places {
                living.entry(*no).or_insert(now);
            }
        }
        self.since = living;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TenantNo;

    fn line(no: u32, waiting: u64) -> GateLine {
        GateLine {
            no: DestNo(no),
            tenant: TenantNo(0),
            waiting,
            closed: false,
            in_flight: 0,
            oldest_due_at: None,
            failing_since: None,
        }
    }

    #[test]
    fn a_place_is_kept_for_its_time_and_there_are_never_more() {
        let mut watch = Watch::new(2);
        let mut check = |at: u64, lines: &[(u32, u64)], want: &[u32]| {
            watch.look(lines.iter().map(|(no, waiting)| line(*no, *waiting)), Mono(at));
            let got: Vec<u32> = watch.since.keys().map(|no| no.0).collect();
            assert_eq!(got, want, "at {at}");
        };
        check(0, &[(0, 0), (1, 5), (2, 0)], &[1]);
        check(10, &[(0, 1), (1, 0), (2, 9)], &[1, 2]);
        check(20, &[(0, 8), (1, 0), (2, 0)], &[1, 2]);
        check(KEPT.0, &[(0, 8), (1, 0), (2, 0)], &[0, 2]);
        check(KEPT.0 + 10, &[(0, 8), (1, 9), (2, 0)], &[0, 1]);
        check(KEPT.0 + 20, &[(0, 8), (2, 7)], &[0, 2]);
        check(KEPT.0 * 3, &[(0, 8), (2, 7)], &[0, 2]);
        let mut none = Watch::new(0);
        none.look([line(1, 5)].into_iter(), Mono(0));
        assert!(none.since.is_empty());
    }
}
