//! The shipped schedule, driven as the engine drives it; its lanes' disk is an ordered map.
//!
//! It repeats what the engine does around the schedule and decides nothing itself: what it counts
//! as rows are the rows that the engine reads and writes at the same places.

use std::collections::VecDeque;

use duehook::model::{ClassNo, DeliveryId, DestNo, DestinationState, DueEntry, Lane, TenantNo};
use duehook::outcome::{AttemptResult, GateMemory, Hold, HoldReason};
use duehook::policy;
use duehook::schedule::{GateSettings, Pick, Schedule, Seen, Slot, Terms};
use duehook::time::{Millis, Mono, Now, Timestamp};

use crate::order::{Answer, CAP, Claim, Effort, Order, Record, Reply, plain_retry};
use crate::scene::Destination;

/// Weights of three classes, the most urgent first.
const WEIGHTS: [u32; 3] = [4, 2, 1];
/// Of each pool, what retries leave free.
const RESERVE_PERMILLE: u32 = 300;

/// A row and its place among those of its destination, as in the table `due`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    lane: u8,
    due: Timestamp,
    id: u64,
    attempts: u32,
}

/// The rows of one destination in order. Nearly all come at the end and leave at the front, so
/// that the model costs the same whatever waits.
#[derive(Default)]
struct Rows(VecDeque<Row>);

impl Rows {
    /// The place of the first row that is not before this one.
    fn place(&self, lane: u8, due: Timestamp, id: u64) -> usize {
        let key = (lane, due, id);
        let before = |row: &Row| (row.lane, row.due, row.id) < key;
        match (self.0.front(), self.0.back()) {
            (Some(first), _) if !before(first) => 0,
            (_, Some(last)) if before(last) => self.0.len(),
            _ => self.0.partition_point(before),
        }
    }

    fn insert(&mut self, row: Row) {
        let place = self.place(row.lane, row.due, row.id);
        self.0.insert(place, row);
    }

    fn remove(&mut self, lane: u8, due: Timestamp, id: u64) {
        let place = self.place(lane, due, id);
        let row = self.0.remove(place).expect("what is claimed was there");
        assert!(row.id == id, "and is what was claimed");
    }
}

/// The schedule with a disk.
pub(crate) struct Gated {
    schedule: Schedule,
    /// The table `due`, by destination.
    disk: Vec<Rows>,
    /// The slots that are out, by ticket.
    out: Vec<Option<Slot>>,
    free: Vec<u32>,
    effort: Effort,
    /// When both clocks last agreed.
    base: Now,
}

impl Gated {
    pub(crate) fn new(slots: u32, destinations: &[Destination], now: Now) -> Gated {
        let mut schedule = Schedule::new(&Terms {
            slots,
            suspect_slots: slots,
            reserve_permille: RESERVE_PERMILLE,
            weights: WEIGHTS.to_vec(),
        });
        for it in destinations {
            schedule.add(settings(it), memory(it), now);
        }
        let disk = destinations.iter().map(|_| Rows::default()).collect();
        let (out, free) = (Vec::new(), Vec::new());
        Gated { schedule, disk, out, free, effort: Effort::default(), base: now }
    }

    fn rows(&mut self, no: DestNo) -> &mut Rows {
        &mut self.disk[no.0 as usize]
    }

    /// As the engine's page: so many rows after `after`.
    fn page(
        &mut self,
        (no, lane): (DestNo, Lane),
        after: Option<(Timestamp, DeliveryId)>,
        most: usize,
        now: Now,
    ) {
        let disk = &self.disk[no.0 as usize];
        let from = after.map_or((Timestamp(0), 0), |(due, id)| (due, id.0 as u64 + 1));
        let from = disk.place(lane.0, from.0, from.1);
        let rows: Vec<DueEntry> =
            disk.0.range(from..).take_while(|row| row.lane == lane.0).take(most).map(entry).collect();
        self.effort.rows_examined += rows.len() as u64;
        let ended = rows.len() < most;
        self.schedule.page(no, lane, rows, ended, now);
    }

    /// As the engine's claim: the row leaves `due`.
    fn take(&mut self, no: DestNo, lane: Lane, it: DueEntry, slot: Slot) -> Claim {
        self.rows(no).remove(lane.0, it.due, it.id.0 as u64);
        self.schedule.counted_out(no, lane, it.due);
        self.effort.rows_examined += 1;
        let ticket = self.free.pop().unwrap_or_else(|| {
            self.out.push(None);
            (self.out.len() - 1) as u32
        });
        self.out[ticket as usize] = Some(slot);
        let (class, attempts) = (lane.class().0, it.attempts + 1);
        let record = Record { id: it.id.0 as u64, destination: no.0, class, attempts, due: it.due };
        Claim { record, ticket }
    }

    /// As the engine's report: what the answer says about the destination. The rows written for
    /// a refusal: lease, due row, record, and the gate's when it changed.
    fn learn(&mut self, slot: Slot, answer: Answer, due: Option<Timestamp>, now: Now) {
        let admission = self.schedule.release(slot, now);
        let seen = seen(answer, due);
        self.effort.rows_rewritten += if seen.refused { 4 } else { 0 };
        self.schedule.learn(&admission, &seen, now);
    }

    fn insert(&mut self, record: Record, now: Now) {
        let no = DestNo(record.destination);
        let lane = Lane::of(ClassNo(record.class), record.attempts);
        let row = row(&record);
        self.rows(no).insert(row);
        self.schedule.counted_in(no, lane, record.due);
        self.schedule.insert(no, lane, entry(&row), now);
    }
}

impl Order for Gated {
    /// As an open does it: the rows are on disk, and the head of each lane is found.
    fn load(&mut self, rows: &mut dyn Iterator<Item = Record>, now: Now) {
        for record in rows {
            let (no, lane) = (DestNo(record.destination), Lane::of(ClassNo(record.class), record.attempts));
            self.rows(no).insert(row(&record));
            self.schedule.counted_in(no, lane, record.due);
        }
        for (no, rows) in (0..).zip(&self.disk) {
            let mut lane = 0;
            while let Some(row) = rows.0.get(rows.place(lane, Timestamp(0), 0)) {
                self.schedule.found(DestNo(no), Lane(row.lane), entry(row), now);
                lane = row.lane + 1;
            }
        }
    }

    fn add(&mut self, record: Record, now: Now) {
        self.insert(record, now);
    }

    fn claim(&mut self, now: Now) -> Option<Claim> {
        self.schedule.wake(now);
        loop {
            match self.schedule.pick(now) {
                Pick::Claim { destination, lane, entry, slot, .. } => {
                    return Some(self.take(destination, lane, entry, slot));
                }
                Pick::Page { destination, lane, after, rows } => {
                    self.page((destination, lane), after, rows, now);
                }
                Pick::Nothing => {
                    self.schedule.take_changed();
                    return None;
                }
            }
        }
    }

    fn done(&mut self, claim: Claim, answer: Answer, now: Now) {
        let slot = self.out[claim.ticket as usize].take().expect("a ticket is for one slot");
        self.free.push(claim.ticket);
        let due = retry(&claim.record, answer.reply, now.wall);
        self.learn(slot, answer, due, now);
        if let Some(due) = due {
            self.insert(Record { due, ..claim.record }, now);
        }
    }

    fn next_timer(&self, _now: Now) -> Option<Mono> {
        self.schedule.next_timer()
    }

    fn clock_stepped(&mut self, now: Now) {
        let expected = self.base.wall.plus(now.mono.since(self.base.mono));
        self.base = now;
        self.schedule.clock_stepped(now.wall.since(expected), now);
    }

    fn effort(&self) -> Effort {
        Effort { visits: self.schedule.visits().0, ..self.effort }
    }
}

fn settings(it: &Destination) -> GateSettings {
    GateSettings {
        tenant: TenantNo(it.tenant),
        weight: 1,
        state: DestinationState::Active,
        max: CAP,
        adaptive: false,
        rate: None,
    }
}

/// What was kept of a destination that has answered in the run before.
fn memory(it: &Destination) -> GateMemory {
    let limit = if it.known.is_some() { CAP } else { 0 };
    GateMemory { latency: it.known.map(Millis), limit, ..GateMemory::default() }
}

fn seen(answer: Answer, due: Option<Timestamp>) -> Seen {
    let (result, asked) = match answer.reply {
        Reply::Delivered => (AttemptResult::Success, None),
        Reply::Refused(wait) => (AttemptResult::RateLimited, Some(wait)),
        Reply::Failed => (AttemptResult::ServerError, None),
    };
    let until = due.filter(|_| asked.is_some());
    let hold = until.map(|until| Hold { until, reason: HoldReason::RateLimited });
    Seen { result, latency: Some(answer.latency), hold, refused: hold.is_some(), asked }
}

fn row(record: &Record) -> Row {
    let lane = Lane::of(ClassNo(record.class), record.attempts).0;
    Row { lane, due: record.due, id: record.id, attempts: record.attempts }
}

fn entry(row: &Row) -> DueEntry {
    let id = DeliveryId(row.id.into());
    DueEntry { due: row.due, id, attempts: row.attempts, interrupted: false, bytes: 1 }
}

/// As `outcome::decide`: what the receiver asked for, and a little more.
fn retry(record: &Record, reply: Reply, now: Timestamp) -> Option<Timestamp> {
    let due = plain_retry(record, reply, now)?;
    let Reply::Refused(wait) = reply else { return Some(due) };
    let wait = wait.max(Millis::seconds(1));
    let seed = policy::seed(record.id.into(), record.attempts);
    Some(now.plus(wait).plus(policy::added_jitter(wait, seed)))
}
