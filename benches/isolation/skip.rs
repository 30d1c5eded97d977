//! The seed's order with what its text asks for: a cap for each destination and a cooldown after
//! a 429, both found by stepping over the rows that are blocked.
//!
//! The rows that the scan would step over are counted, never stepped over: an open destination's
//! head is in one index, and a blocked one's rows in a tree of sums by due time. Rows due in the
//! same millisecond as the one that is taken are not counted, to the scan's favour.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use duehook::time::{Mono, Now, Timestamp};

use crate::order::{Answer, CAP, Claim, Effort, Order, Record, Reply, plain_retry};

/// Caps and cooldowns by skipping.
pub(crate) struct Skip {
    slots: u32,
    in_flight: u32,
    places: Vec<Place>,
    /// Heads of destinations that may be sent to.
    open: BTreeSet<(Timestamp, u64, u32)>,
    /// Ends of cooldowns.
    cooling: BTreeSet<(Mono, u32)>,
    blocked: Sums,
    effort: Effort,
}

/// One destination.
#[derive(Default)]
struct Place {
    rows: BTreeMap<Timestamp, VecDeque<Record>>,
    in_flight: u32,
    until: Mono,
    spot: Spot,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Spot {
    #[default]
    Empty,
    Open(Timestamp, u64),
    Blocked,
}

impl Place {
    fn head(&self) -> Option<&Record> {
        self.rows.values().next()?.front()
    }

    fn pop(&mut self) -> Option<Record> {
        let mut first = self.rows.first_entry()?;
        let record = first.get_mut().pop_front();
        if first.get().is_empty() {
            first.remove();
        }
        record
    }

    fn put(&mut self, record: Record) {
        let rows = self.rows.entry(record.due).or_default();
        let place = rows.partition_point(|row| row.id < record.id);
        rows.insert(place, record);
    }
}

impl Skip {
    pub(crate) fn new(slots: u32, destinations: usize, base: Timestamp, until: u64) -> Skip {
        Skip {
            slots,
            in_flight: 0,
            places: (0..destinations).map(|_| Place::default()).collect(),
            open: BTreeSet::new(),
            cooling: BTreeSet::new(),
            blocked: Sums::new(base, until),
            effort: Effort::default(),
        }
    }

    /// Changes a destination and puts it where it belongs.
    fn change<T>(&mut self, no: u32, now: Now, change: impl FnOnce(&mut Place) -> T) -> T {
        let place = &mut self.places[no as usize];
        match place.spot {
            Spot::Empty => {}
            Spot::Open(due, id) => {
                self.open.remove(&(due, id, no));
            }
            Spot::Blocked => self.blocked.take_all(place),
        }
        let made = change(place);
        place.spot = match place.head() {
            None => Spot::Empty,
            Some(_) if place.in_flight >= CAP || place.until > now.mono => Spot::Blocked,
            Some(head) => Spot::Open(head.due, head.id),
        };
        match place.spot {
            Spot::Empty => {}
            Spot::Open(due, id) => {
                self.open.insert((due, id, no));
            }
            Spot::Blocked => self.blocked.put_all(place),
        }
        made
    }

    fn wake(&mut self, now: Now) {
        while let Some((at, no)) = self.cooling.first().copied().filter(|(at, _)| *at <= now.mono) {
            self.cooling.remove(&(at, no));
            self.change(no, now, |_| {});
        }
    }
}

impl Order for Skip {
    fn add(&mut self, record: Record, now: Now) {
        let no = record.destination;
        if self.places[no as usize].spot == Spot::Blocked {
            self.places[no as usize].put(record);
            self.blocked.put(record.due, 1);
        } else {
            self.change(no, now, |place| place.put(record));
        }
    }

    fn claim(&mut self, now: Now) -> Option<Claim> {
        self.wake(now);
        if self.in_flight >= self.slots {
            return None;
        }
        let head = self.open.first().copied().filter(|(due, ..)| *due <= now.wall);
        let to = head.map_or(Timestamp(now.wall.0 + 1), |(due, ..)| due);
        self.effort.rows_examined += self.blocked.before(to) + u64::from(head.is_some());
        let (.., no) = head?;
        self.in_flight += 1;
        let mut record = self.change(no, now, |place| {
            place.in_flight += 1;
            place.pop()
        })?;
        record.attempts += 1;
        Some(Claim { record, ticket: 0 })
    }

    fn done(&mut self, claim: Claim, answer: Answer, now: Now) {
        self.in_flight -= 1;
        let no = claim.record.destination;
        let due = plain_retry(&claim.record, answer.reply, now.wall);
        let refused = matches!(answer.reply, Reply::Refused(_));
        // The delivery's row, and the destination's.
        self.effort.rows_rewritten += 2 * u64::from(refused);
        self.change(no, now, |place| {
            place.in_flight -= 1;
            if let Some(due) = due {
                place.put(Record { due, ..claim.record });
                place.until = place.until.max(if refused { now.mono_at(due) } else { Mono(0) });
            }
        });
        if refused {
            self.cooling.insert((self.places[no as usize].until, no));
        }
    }

    fn next_timer(&self, now: Now) -> Option<Mono> {
        let cooled = self.cooling.first().map(|(at, _)| *at);
        let due = self.open.first().map(|(due, ..)| now.mono_at(*due));
        [cooled, due].into_iter().flatten().filter(|at| *at > now.mono).min()
    }

    fn effort(&self) -> Effort {
        self.effort
    }
}

/// How many rows are due before a time: sums in a tree (Fenwick 1994), a leaf a step of time.
struct Sums {
    base: Timestamp,
    /// Milliseconds a leaf.
    step: u64,
    tree: Vec<u64>,
}

/// Leaves of the tree at most.
const LEAVES: u64 = 1 << 18;

impl Sums {
    fn new(base: Timestamp, until: u64) -> Sums {
        let step = until / LEAVES + 1;
        Sums { base, step, tree: vec![0; (until / step) as usize + 2] }
    }

    fn leaf(&self, due: Timestamp) -> usize {
        ((due.0.saturating_sub(self.base.0) / self.step) as usize + 1).min(self.tree.len() - 1)
    }

    fn put(&mut self, due: Timestamp, rows: i64) {
        let mut at = self.leaf(due);
        while at < self.tree.len() {
            self.tree[at] = self.tree[at].wrapping_add_signed(rows);
            at += at & at.wrapping_neg();
        }
    }

    fn put_all(&mut self, place: &Place) {
        place.rows.iter().for_each(|(due, rows)| self.put(*due, rows.len() as i64));
    }

    fn take_all(&mut self, place: &Place) {
        place.rows.iter().for_each(|(due, rows)| self.put(*due, -(rows.len() as i64)));
    }

    fn before(&self, due: Timestamp) -> u64 {
        let mut at = self.leaf(due) - 1;
        let mut sum = 0;
        while at > 0 {
            sum += self.tree[at];
            at &= at - 1;
        }
        sum
    }
}
