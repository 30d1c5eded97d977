//! A gate: all that is known in RAM of one destination, and whether it lets anything through.

use super::lane::{Head, LaneQueue};
use crate::model::{DestinationState, DueEntry, Lane, MAX_CLASSES, TenantNo};
use crate::outcome::Hold;
use crate::time::{Mono, Now, Timestamp};

/// Lanes a destination can have.
pub(super) const LANES: usize = MAX_CLASSES * 2;

/// What an operator's settings mean for a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateSettings {
    pub tenant: TenantNo,
    pub state: DestinationState,
    /// Requests that may be in flight when all is well.
    pub max: u32,
}

/// Where a gate is: in one place at a time, so that no wake-up is lost and none is doubled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spot {
    /// Nothing to do until an event: no work, no room, paused or disabled.
    Idle,
    /// In the ring, to be looked at by the pick.
    Ring,
    /// Until a time.
    Timer(Mono),
}

/// One destination.
#[derive(Debug)]
pub(super) struct Gate {
    pub(super) settings: GateSettings,
    /// As the counts have it: changed only together with them.
    pub(super) closed: bool,
    pub(super) spot: Spot,
    pub(super) in_flight: u32,
    pub(super) last_claim: Option<Mono>,
    /// Grows by one a success, so it doubles with each round: 1, 2, 4, … `settings.max`.
    pub(super) limit: u32,
    /// The hold as it is stored, and its end on the monotonic clock.
    pub(super) hold: Option<(Hold, Mono)>,
    /// The hold was found on disk: it is a wall time, not a length.
    pub(super) hold_loaded: bool,
    /// It waits in the queue for a slot for interrupted work.
    pub(super) suspended: bool,
    /// Counts holds: an answer to an older request neither ends one nor widens the limit.
    pub(super) epoch: u32,
    pub(super) refusals: u32,
    pub(super) last_success_at: Option<Timestamp>,
    pub(super) failing_since: Option<Timestamp>,
    pub(super) failure_streak: u32,
    /// Rows in `due` by lane.
    pub(super) waiting: [u32; LANES],
    /// In order of number; only those that have had work.
    lanes: Vec<(Lane, LaneQueue)>,
    /// The lane whose turn was last.
    turn: usize,
}

/// What the gate's turn comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Take(Lane, DueEntry),
    Page(Lane),
    /// Only interrupted work is due, and it may have no more slots.
    Suspects,
    NotYet,
}

impl Gate {
    pub(super) fn new(settings: GateSettings) -> Gate {
        Gate {
            closed: settings.state != DestinationState::Active,
            settings,
            spot: Spot::Idle,
            in_flight: 0,
            last_claim: None,
            limit: 1,
            hold: None,
            hold_loaded: false,
            suspended: false,
            epoch: 0,
            refusals: 0,
            last_success_at: None,
            failing_since: None,
            failure_streak: 0,
            waiting: [0; LANES],
            lanes: Vec::new(),
            turn: 0,
        }
    }

    pub(super) fn lane(&mut self, lane: Lane) -> &mut LaneQueue {
        let place = match self.lanes.binary_search_by_key(&lane, |(lane, _)| *lane) {
            Ok(place) => place,
            Err(place) => {
                self.lanes.insert(place, (lane, LaneQueue::default()));
                place
            }
        };
        &mut self.lanes[place].1
    }

    /// True when it lets nothing through, whatever is due.
    pub(super) fn is_closed(&self, now: Mono) -> bool {
        self.settings.state != DestinationState::Active || self.is_held(now)
    }

    pub(super) fn is_held(&self, now: Mono) -> bool {
        self.hold.is_some_and(|(_, until)| until > now)
    }

    pub(super) fn has_room(&self) -> bool {
        self.in_flight < self.limit.min(self.settings.max)
    }

    /// When its first lane is due or its hold ends, whichever is later; None without work.
    pub(super) fn ready_at(&self, now: Now) -> Option<Mono> {
        let due = self.lanes.iter().filter_map(|(_, lane)| match lane.head() {
            Head::Empty => None,
            Head::OnDisk => Some(now.mono),
            Head::At(entry) => Some(now.mono_at(entry.due)),
        });
        let hold = self.hold.map_or(now.mono, |(_, until)| until);
        due.min().map(|due| due.max(hold))
    }

    /// Takes the next due row, turn about over the lanes that have one.
    pub(super) fn take(&mut self, now: Timestamp, suspects: bool) -> Turn {
        let mut outcome = Turn::NotYet;
        for step in 1..=self.lanes.len() {
            let place = (self.turn + step) % self.lanes.len();
            let (lane, queue) = &mut self.lanes[place];
            match queue.head() {
                Head::Empty => {}
                Head::OnDisk => return Turn::Page(*lane),
                Head::At(entry) if entry.due > now => {}
                Head::At(entry) if entry.interrupted && !suspects => match queue.pop_unsuspected(now) {
                    Some(entry) => {
                        self.turn = place;
                        return Turn::Take(*lane, entry);
                    }
                    None if queue.can_grow() => return Turn::Page(*lane),
                    None => outcome = Turn::Suspects,
                },
                Head::At(entry) => {
                    queue.pop();
                    self.turn = place;
                    return Turn::Take(*lane, entry);
                }
            }
        }
        outcome
    }

    /// Keeps the heads of its lanes only: it waits for a time.
    pub(super) fn park(&mut self) {
        self.lanes.retain(|(_, lane)| lane.head() != Head::Empty);
        self.turn = 0;
        for (_, lane) in &mut self.lanes {
            lane.park();
        }
    }

    /// When work that was not interrupted becomes due here, as far as it is known.
    pub(super) fn next_unsuspected(&self, now: Timestamp) -> Option<Timestamp> {
        self.lanes.iter().filter_map(|(_, lane)| lane.next_unsuspected(now)).min()
    }

    /// The earliest due time that is known.
    pub(super) fn oldest_due(&self) -> Option<Timestamp> {
        self.heads().map(|(_, due)| due).min()
    }

    /// The heads of its lanes, as far as they are known.
    pub(super) fn heads(&self) -> impl Iterator<Item = (Lane, Timestamp)> {
        self.lanes.iter().filter_map(|(lane, queue)| match queue.head() {
            Head::At(entry) => Some((*lane, entry.due)),
            Head::Empty | Head::OnDisk => None,
        })
    }
}
