//! The shipped schedule, driven as the engine drives it; its lanes' disk is an ordered map.
//!
//! It repeats what the engine does around the schedule and decides nothing itself: what it counts
//! as rows are the rows that the engine reads and writes at the same places.

use std::collections::BTreeMap;
use std::ops::Bound;

use duehook::model::{ClassNo, DeliveryId, DestNo, DestinationState, DueEntry, Lane, TenantNo};
use duehook::outcome::{Hold, HoldReason};
use duehook::policy;
use duehook::schedule::{BUFFER, GateMemory, GateSettings, Health, Pick, Schedule};
use duehook::time::{Millis, Mono, Now, Timestamp};

use crate::order::{Answer, CAP, Claim, Effort, Order, Record, Reply, plain_retry};

/// A row's place among those of its destination, as in the table `due`.
type Key = (u8, Timestamp, u64);

/// The schedule with a disk.
pub(crate) struct Gated {
    schedule: Schedule,
    /// The table `due`: by destination, then as it is sorted there. A map for each destination,
    /// so that the model's own cost does not grow with what other destinations have waiting.
    disk: Vec<BTreeMap<Key, u32>>,
    out: Vec<Out>,
    free: Vec<u32>,
    effort: Effort,
}

/// What the engine remembers of an attempt that is out.
#[derive(Clone, Copy)]
struct Out {
    epoch: u32,
}

impl Gated {
    pub(crate) fn new(slots: u32, tenants: &[u32], now: Now) -> Gated {
        let mut schedule = Schedule::new(slots, slots);
        for tenant in tenants {
            let tenant = TenantNo(*tenant);
            let settings = GateSettings { tenant, state: DestinationState::Active, max: CAP };
            schedule.add(settings, GateMemory::default(), now);
        }
        let disk = tenants.iter().map(|_| BTreeMap::new()).collect();
        Gated { schedule, disk, out: Vec::new(), free: Vec::new(), effort: Effort::default() }
    }

    fn rows(&mut self, no: DestNo) -> &mut BTreeMap<Key, u32> {
        &mut self.disk[no.0 as usize]
    }

    /// As the engine's page: rows after `after`, at most a buffer full.
    fn page(&mut self, no: DestNo, lane: Lane, after: Option<(Timestamp, DeliveryId)>, now: Now) {
        let from = after.map_or(Bound::Included((lane.0, Timestamp(0), 0)), |(due, id)| {
            Bound::Excluded((lane.0, due, id.0 as u64))
        });
        let to = Bound::Included((lane.0, Timestamp(u64::MAX), u64::MAX));
        let rows: Vec<DueEntry> = self.disk[no.0 as usize]
            .range((from, to))
            .take(BUFFER)
            .map(|((_, due, id), attempts)| entry(*due, *id, *attempts))
            .collect();
        self.effort.rows_examined += rows.len() as u64;
        let ended = rows.len() < BUFFER;
        self.schedule.page(no, lane, rows, ended, now);
    }

    /// As the engine's claim: the row leaves `due`.
    fn take(&mut self, no: DestNo, lane: Lane, it: DueEntry) -> Claim {
        self.rows(no).remove(&(lane.0, it.due, it.id.0 as u64));
        self.schedule.counted_out(no, lane, it.due);
        self.effort.rows_examined += 1;
        let out = Out { epoch: self.schedule.epoch(no) };
        let ticket = self.free.pop().unwrap_or_else(|| {
            self.out.push(out);
            (self.out.len() - 1) as u32
        });
        self.out[ticket as usize] = out;
        let (class, attempts) = (lane.class().0, it.attempts + 1);
        let record = Record { id: it.id.0 as u64, destination: no.0, class, attempts, due: it.due };
        Claim { record, ticket }
    }

    /// As the engine's report: what the answer says about the destination. The rows written for
    /// a refusal: lease, due row, record, and the gate's when it changed.
    fn learn(&mut self, no: DestNo, out: Out, answer: Answer, due: Option<Timestamp>, now: Now) {
        let health = match answer.reply {
            Reply::Delivered => Health::Success,
            Reply::Refused(_) => Health::Silent,
            Reply::Failed => Health::Answered,
        };
        self.schedule.learn(no, out.epoch, health, now.wall);
        let Some(until) = due.filter(|_| matches!(answer.reply, Reply::Refused(_))) else { return };
        self.schedule.refused(no, out.epoch);
        self.schedule.hold(no, Hold { until, reason: HoldReason::RateLimited }, false, now);
        self.effort.rows_rewritten += 4;
    }

    fn insert(&mut self, record: Record, now: Now) {
        let no = DestNo(record.destination);
        let lane = Lane::of(ClassNo(record.class), record.attempts);
        self.rows(no).insert((lane.0, record.due, record.id), record.attempts);
        self.schedule.counted_in(no, lane, record.due);
        self.schedule.insert(no, lane, entry(record.due, record.id, record.attempts), now);
    }
}

impl Order for Gated {
    /// As an open does it: the rows are on disk, and the head of each lane is found.
    fn load(&mut self, rows: &mut dyn Iterator<Item = Record>, now: Now) {
        for record in rows {
            let (no, lane) = (DestNo(record.destination), Lane::of(ClassNo(record.class), record.attempts));
            self.rows(no).insert((lane.0, record.due, record.id), record.attempts);
            self.schedule.counted_in(no, lane, record.due);
        }
        for (no, rows) in (0..).zip(&self.disk) {
            let mut lane = 0;
            while let Some(((of, due, id), attempts)) = rows.range((lane, Timestamp(0), 0)..).next() {
                self.schedule.found(DestNo(no), Lane(*of), entry(*due, *id, *attempts), now);
                lane = of + 1;
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
                Pick::Claim { destination, lane, entry, .. } => {
                    return Some(self.take(destination, lane, entry));
                }
                Pick::Page { destination, lane, after } => self.page(destination, lane, after, now),
                Pick::Nothing => return None,
            }
        }
    }

    fn done(&mut self, claim: Claim, answer: Answer, now: Now) {
        let no = DestNo(claim.record.destination);
        let out = self.out[claim.ticket as usize];
        self.free.push(claim.ticket);
        self.schedule.release(no, false, now);
        let due = retry(&claim.record, answer.reply, now.wall);
        self.learn(no, out, answer, due, now);
        if let Some(due) = due {
            self.insert(Record { due, ..claim.record }, now);
        }
    }

    fn next_timer(&self, _now: Now) -> Option<Mono> {
        self.schedule.next_timer()
    }

    fn clock_stepped(&mut self, now: Now) {
        self.schedule.clock_stepped(now);
    }

    fn effort(&self) -> Effort {
        self.effort
    }
}

fn entry(due: Timestamp, id: u64, attempts: u32) -> DueEntry {
    DueEntry { due, id: DeliveryId(id.into()), attempts, interrupted: false, bytes: 1 }
}

/// As `outcome::decide`: what the receiver asked for, and a little more.
fn retry(record: &Record, reply: Reply, now: Timestamp) -> Option<Timestamp> {
    let due = plain_retry(record, reply, now)?;
    let Reply::Refused(wait) = reply else { return Some(due) };
    let wait = wait.max(Millis::seconds(1));
    let seed = policy::seed(record.id.into(), record.attempts);
    Some(now.plus(wait).plus(policy::added_jitter(wait, seed)))
}
