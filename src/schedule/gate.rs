//! A gate: all that is known in RAM of one destination, and whether it lets anything through.

use super::breaker::{Breaker, BreakerState};
use super::lane::{Head, LaneQueue};
use super::limit::Limit;
use super::pool::{BANDS, Pool};
use super::rate::Pace;
use super::record::Record;
use crate::model::destination::Rate;
use crate::model::{DestinationState, DueEntry, Lane, TenantNo};
use crate::outcome::Hold;
use crate::time::{Millis, Mono, Now, Timestamp};

/// A lane whose head is due later than this keeps its head only; what is due sooner keeps what
/// was read of it, so that a rate of some requests a second does not read rows twice.
pub(super) const PARK_BEYOND: Millis = Millis(1_000);
/// What a request is taken to last while nothing is known, and at least and at most, in
/// slot-milliseconds (SCHEDULER.md 3.4).
pub(super) const UNKNOWN_COST: u64 = 50;
const COST_RANGE: (u64, u64) = (10, 30_000);

/// What an operator's settings mean for a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateSettings {
    pub tenant: TenantNo,
    /// Of the tenant, against other tenants.
    pub weight: u32,
    pub state: DestinationState,
    /// Requests that may be in flight when all is well.
    pub max: u32,
    /// The limit follows what the destination bears.
    pub adaptive: bool,
    pub rate: Option<Rate>,
}

/// One destination.
#[derive(Debug)]
pub(super) struct Gate {
    pub(super) settings: GateSettings,
    /// As the counts have it: changed only together with them.
    pub(super) closed: bool,
    /// Its one entry among the timers.
    pub(super) timer: Option<Mono>,
    pub(super) in_flight: u32,
    pub(super) last_claim: Option<Mono>,
    pub(super) pool: Pool,
    /// Of its answers, smoothed; None before the first.
    pub(super) latency: Option<Millis>,
    pub(super) limit: Limit,
    pub(super) pace: Pace,
    pub(super) breaker: Breaker,
    /// The hold as it is stored, and its end on the monotonic clock.
    pub(super) hold: Option<(Hold, Mono)>,
    /// The hold was found on disk: it is a wall time, not a length.
    pub(super) hold_loaded: bool,
    /// Counts closings: an answer to an older request neither opens it nor widens the limit.
    pub(super) epoch: u32,
    /// When its limit was last halved for what it did.
    pub(super) halved_at: Option<Mono>,
    /// Counts changes of its pool: what stands in a ring of before is not its turn.
    pub(super) moves: u32,
    /// Since when it has let something through, or when it will; None while only an event can say.
    pub(super) free_at: Option<Mono>,
    pub(super) record: Record,
    /// Rows in `due` by lane.
    pub(super) waiting: [u32; BANDS],
    /// In order of number; only those that have had work.
    lanes: Vec<(Lane, LaneQueue)>,
}

/// What lets nothing through now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shut {
    /// Until a time, whatever happens: a hold, or an open breaker.
    Until(Mono),
    /// Until the rate allows it.
    Paced(Mono),
    /// Until something comes back, or someone acts.
    Event,
}

/// What a lane's turn comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Entry(DueEntry),
    /// Its head is on disk.
    OnDisk,
    /// Only interrupted work is due, and it may have no more slots.
    Suspects,
    NotYet,
}

impl Gate {
    pub(super) fn new(settings: GateSettings) -> Gate {
        let mut pace = Pace::default();
        pace.configure(settings.rate, Mono(0));
        Gate {
            closed: settings.state != DestinationState::Active,
            settings,
            timer: None,
            in_flight: 0,
            last_claim: None,
            pool: Pool::Cold,
            latency: None,
            limit: Limit::new(),
            pace,
            breaker: Breaker::new(),
            hold: None,
            hold_loaded: false,
            epoch: 0,
            halved_at: None,
            moves: 0,
            free_at: None,
            record: Record::default(),
            waiting: [0; BANDS],
            lanes: Vec::new(),
        }
    }

    /// The lane, made if it was not there: `more` when it may have rows on disk.
    pub(super) fn lane(&mut self, lane: Lane, more: bool) -> &mut LaneQueue {
        let place = match self.lanes.binary_search_by_key(&lane, |(lane, _)| *lane) {
            Ok(place) => place,
            Err(place) => {
                // Most have one lane, and there are as many gates as destinations.
                self.lanes.reserve_exact(1);
                self.lanes.insert(place, (lane, LaneQueue::new(more)));
                place
            }
        };
        &mut self.lanes[place].1
    }

    /// The lane, if it has had work.
    pub(super) fn known_lane(&mut self, lane: Lane) -> Option<&mut LaneQueue> {
        let place = self.lanes.binary_search_by_key(&lane, |(lane, _)| *lane).ok()?;
        Some(&mut self.lanes[place].1)
    }

    /// The lanes that have had work.
    pub(super) fn lanes(&self) -> impl Iterator<Item = &(Lane, LaneQueue)> {
        self.lanes.iter()
    }

    /// True when it lets nothing through, whatever is due and however much is out.
    pub(super) fn is_closed(&self, now: Mono) -> bool {
        self.settings.state != DestinationState::Active || self.shut_until(now).is_some()
    }

    /// Its requests come from another pool from now on: its lanes leave the rings of the old one,
    /// whose turns may be long in coming.
    pub(super) fn move_to(&mut self, pool: Pool) {
        if self.pool == pool {
            return;
        }
        self.pool = pool;
        self.moves = self.moves.wrapping_add(1);
        self.lanes.iter_mut().for_each(|(_, queue)| queue.in_ring = false);
    }

    /// By an operator's word: nothing of before counts any more, and it opens with one request.
    pub(super) fn reopen(&mut self) {
        self.limit.restart(false);
        self.pace.idle();
        self.epoch += 1;
    }

    /// Requests that were out together with one: what it is a part of.
    pub(super) fn cohort(&self, admission: &super::Admission) -> u32 {
        self.limit().max(admission.in_flight)
    }

    /// Until when a hold or the breaker lets nothing through.
    pub(super) fn shut_until(&self, now: Mono) -> Option<Mono> {
        let hold = self.hold.map(|(_, until)| until);
        [hold, self.breaker.shut_until()].into_iter().flatten().max().filter(|until| *until > now)
    }

    /// Requests that may be out now.
    pub(super) fn limit(&self) -> u32 {
        match self.breaker.state() {
            BreakerState::Closed => self.limit.now(self.settings.max),
            BreakerState::HalfOpen | BreakerState::Open { .. } => 1,
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.in_flight < self.limit()
    }

    /// What lets nothing through now; None when it is open.
    pub(super) fn shut(&self, now: Mono) -> Option<Shut> {
        if let Some(until) = self.shut_until(now) {
            return Some(Shut::Until(until));
        }
        if self.settings.state != DestinationState::Active || !self.has_room() {
            return Some(Shut::Event);
        }
        Some(self.pace.earliest()).filter(|at| *at > now).map(Shut::Paced)
    }

    /// Takes the next due row of a lane.
    pub(super) fn take(&mut self, lane: Lane, now: Timestamp, suspects: bool) -> Taken {
        let queue = self.lane(lane, false);
        match queue.head() {
            Head::Empty => Taken::NotYet,
            Head::OnDisk => Taken::OnDisk,
            Head::At(entry) if entry.due > now => Taken::NotYet,
            Head::At(entry) if entry.interrupted && !suspects => match queue.pop_unsuspected(now) {
                Some(entry) => Taken::Entry(entry),
                None if queue.can_grow() => Taken::OnDisk,
                None => Taken::Suspects,
            },
            Head::At(entry) => {
                queue.pop();
                Taken::Entry(entry)
            }
        }
    }

    /// Its lanes that are due and not in their ring, as bits by number, and when the first of the
    /// others is.
    pub(super) fn due(&mut self, now: Now) -> (u16, Option<Mono>) {
        let (mut ready, mut next) = (0, None::<Mono>);
        for (lane, queue) in self.lanes.iter_mut().filter(|(_, queue)| !queue.in_ring) {
            let at = match queue.head() {
                Head::Empty => continue,
                _ if queue.suspended && !queue.can_grow() => {
                    queue.next_unsuspected().map(|due| now.mono_at(due))
                }
                Head::OnDisk => Some(now.mono),
                Head::At(entry) => Some(now.mono_at(entry.due)),
            };
            match at {
                Some(at) if at <= now.mono => ready |= 1 << lane.0,
                Some(at) => {
                    next = Some(next.map_or(at, |next| next.min(at)));
                    // What was read to see past interrupted work is not to be read again.
                    if at.since(now.mono) > PARK_BEYOND && !queue.suspended {
                        queue.park();
                    }
                }
                None => {}
            }
        }
        (ready, next)
    }

    /// When the first of its lanes is due, whatever lets it through; None without work.
    pub(super) fn ready_at(&self, now: Now) -> Option<Mono> {
        self.lanes.iter().filter_map(|(_, queue)| queue.due()).map(|due| now.mono_at(due)).min()
    }

    /// Keeps the heads of its lanes only, if it waits for so long.
    pub(super) fn park(&mut self) {
        self.lanes.retain(|(_, queue)| queue.head() != Head::Empty || queue.in_ring);
        self.lanes.shrink_to_fit();
        for (_, queue) in &mut self.lanes {
            queue.park();
        }
    }

    /// What is on disk of its lanes is what is counted.
    pub(super) fn forget_empty(&mut self) {
        let waiting = self.waiting;
        let empty = |lane: Lane| waiting[usize::from(lane.0)] == 0;
        self.lanes.iter_mut().filter(|(lane, _)| empty(*lane)).for_each(|(_, queue)| queue.whole());
    }

    /// What a request is expected to cost, in slot-milliseconds.
    pub(super) fn cost(&self) -> u64 {
        cost(self.latency)
    }

    /// The earliest due time that is known.
    pub(super) fn oldest_due(&self) -> Option<Timestamp> {
        self.heads().map(|(_, due)| due).min()
    }

    /// The due times of its lanes' heads; where a head is on disk, one that is not later.
    pub(super) fn heads(&self) -> impl Iterator<Item = (Lane, Timestamp)> {
        let known = |due: &Timestamp| due.0 > 0;
        self.lanes.iter().filter_map(move |(lane, queue)| Some((*lane, queue.due().filter(known)?)))
    }
}

/// What a request that lasts so long costs, in slot-milliseconds.
pub(super) fn cost(latency: Option<Millis>) -> u64 {
    let (least, most) = COST_RANGE;
    latency.map_or(UNKNOWN_COST, |latency| latency.0).clamp(least, most)
}
