//! An order of claims: what the world asks of a scheduler. Three answer: the seed's order, the
//! same with caps and cooldowns found by skipping, and the shipped schedule.
//!
//! An order never knows how a receiver will answer, nor who is a victim.

use std::collections::{BTreeSet, VecDeque};

use duehook::policy::{self, Policy};
use duehook::time::{Millis, Mono, Now, Timestamp};

/// Requests that may be in flight to one destination, where an order knows of destinations.
pub(crate) const CAP: u32 = 16;

/// One delivery that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) id: u64,
    pub(crate) destination: u32,
    pub(crate) class: u8,
    /// Claims so far.
    pub(crate) attempts: u32,
    pub(crate) due: Timestamp,
}

/// A record that is to be sent now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub(crate) record: Record,
    /// The order's own name for the slot.
    pub(crate) ticket: u32,
}

/// What a receiver said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Delivered,
    /// 429 with this `Retry-After`.
    Refused(Millis),
    /// A 500.
    Failed,
}

/// The end of an attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) reply: Reply,
    pub(crate) latency: Millis,
}

/// What an order has done so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Effort {
    /// Index rows read to find what to claim, those that were stepped over included.
    pub(crate) rows_examined: u64,
    /// Rows written because of a 429.
    pub(crate) rows_rewritten: u64,
    /// Turns that were looked at, where an order has turns.
    pub(crate) visits: u64,
}

/// A scheduler, driven in virtual time.
pub(crate) trait Order {
    /// Takes what was there before the run began, in the order of destination, due time and id.
    fn load(&mut self, rows: &mut dyn Iterator<Item = Record>, now: Now) {
        rows.for_each(|record| self.add(record, now));
    }

    /// Takes a record that has just been accepted.
    fn add(&mut self, record: Record, now: Now);

    /// The next record to send, if one may be sent now.
    fn claim(&mut self, now: Now) -> Option<Claim>;

    /// The attempt has been out for [`crate::world::AGE`].
    fn age(&mut self, _claim: Claim, _now: Now) {}

    /// The attempt ended: the slot is free, and what was not delivered waits again.
    fn done(&mut self, claim: Claim, answer: Answer, now: Now);

    /// When time alone brings something, after `now`.
    fn next_timer(&self, now: Now) -> Option<Mono>;

    /// The wall clock has jumped.
    fn clock_stepped(&mut self, _now: Now) {}

    fn effort(&self) -> Effort;
}

/// When a delivery that was not delivered is due again, without any jitter; None when it was.
pub(crate) fn plain_retry(record: &Record, reply: Reply, now: Timestamp) -> Option<Timestamp> {
    match reply {
        Reply::Delivered => None,
        Reply::Refused(wait) => Some(now.plus(wait)),
        Reply::Failed => {
            let seed = policy::seed(record.id.into(), record.attempts);
            Some(now.plus(Policy::default().backoff(record.attempts, seed)))
        }
    }
}

/// The seed's order: `WHERE next_attempt_at <= now ORDER BY next_attempt_at, id`.
pub(crate) struct Fifo {
    slots: u32,
    in_flight: u32,
    /// By due time and id. What was loaded is in order already and waits apart, to save memory.
    waiting: BTreeSet<(Timestamp, u64, u32, u8, u32)>,
    loaded: VecDeque<Record>,
    effort: Effort,
}

impl Fifo {
    pub(crate) fn new(slots: u32) -> Fifo {
        let (waiting, loaded) = (BTreeSet::new(), VecDeque::new());
        Fifo { slots, in_flight: 0, waiting, loaded, effort: Effort::default() }
    }

    fn head(&self) -> Option<(Timestamp, u64)> {
        let (one, two) = (self.waiting.first(), self.loaded.front());
        let heads = [one.map(|row| (row.0, row.1)), two.map(|row| (row.due, row.id))];
        heads.into_iter().flatten().min()
    }

    fn pop(&mut self) -> Option<Record> {
        let head = self.head()?;
        if self.loaded.front().is_some_and(|row| (row.due, row.id) == head) {
            return self.loaded.pop_front();
        }
        let (due, id, destination, class, attempts) = self.waiting.pop_first()?;
        Some(Record { id, destination, class, attempts, due })
    }
}

impl Order for Fifo {
    fn load(&mut self, rows: &mut dyn Iterator<Item = Record>, _now: Now) {
        let mut all: Vec<Record> = rows.collect();
        all.sort_unstable_by_key(|row| (row.due, row.id));
        self.loaded = all.into();
    }

    fn add(&mut self, it: Record, _now: Now) {
        self.waiting.insert((it.due, it.id, it.destination, it.class, it.attempts));
    }

    fn claim(&mut self, now: Now) -> Option<Claim> {
        if self.in_flight >= self.slots || self.head()?.0 > now.wall {
            return None;
        }
        let mut record = self.pop()?;
        record.attempts += 1;
        self.in_flight += 1;
        self.effort.rows_examined += 1;
        Some(Claim { record, ticket: 0 })
    }

    fn done(&mut self, claim: Claim, answer: Answer, now: Now) {
        self.in_flight -= 1;
        if let Some(due) = plain_retry(&claim.record, answer.reply, now.wall) {
            self.effort.rows_rewritten += u64::from(matches!(answer.reply, Reply::Refused(_)));
            self.add(Record { due, ..claim.record }, now);
        }
    }

    fn next_timer(&self, now: Now) -> Option<Mono> {
        let (due, _) = self.head()?;
        (due > now.wall).then(|| now.mono_at(due))
    }

    fn effort(&self) -> Effort {
        self.effort
    }
}
