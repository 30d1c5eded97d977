//! The consistency check that tests, the simulation and an inspected open share: every record
//! can be read, and every index row is there exactly when a record says so.
//!
//! What is wrong is of two kinds. A *contradiction*: rows are missing or do not agree, so that more
//! may be hidden, and a server must not use the file. *Damage*: a record, a body or a value fails
//! its checksum; it is quarantined when it is its turn and hides nothing else.

mod directory;

use redb::{ReadableTable, ReadableTableMetadata};

use super::record;
use super::rows::{due_value, key_row, part_key, parts};
use super::{Snapshot, StoreError};
use crate::delivery::{Delivery, Source, State};
use crate::model::DeliveryId;
use crate::outcome::Ending;
use crate::time::Timestamp;

/// Problems that are named; a file with more is as bad as one with these.
const MAX_PROBLEMS: usize = 20;

/// What a check counted and found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    pub deliveries: u64,
    pub waiting: u64,
    pub leased: u64,
    pub terminal: u64,
    /// Ended as quarantined, or known to be damaged.
    pub quarantined: u64,
    pub destinations: u64,
    /// Attempts with a row of their own: the newest stand in their records.
    pub attempts: u64,
    /// Entries of the audit log.
    pub audit: u64,
    /// Bytes of bodies.
    pub body_bytes: u64,
    /// Each a sentence, the first twenty; empty when the file is whole.
    pub problems: Vec<String>,
    /// Contradictions in all.
    pub wrong: u64,
    /// The first of them.
    pub contradiction: Option<String>,
    /// Damage in all, without what is known as quarantined.
    pub damaged: u64,
}

/// Walks every record and every index of a snapshot.
///
/// # Errors
/// [`StoreError`] when the file cannot be read; what is wrong in it is in the answer.
pub fn check(file: &Snapshot) -> Result<Checked, StoreError> {
    let mut walk = Walk { file, found: Checked::default(), rows: Rows::default() };
    for row in file.tables.deliveries.range::<u128>(..)? {
        let (id, value) = row?;
        walk.record(DeliveryId(id.value()), value.value())?;
    }
    walk.lost()?;
    walk.counts()?;
    walk.directory()?;
    walk.found.quarantined = file.tables.quarantine.len()?;
    Ok(walk.found)
}

/// Index rows that the records call for.
#[derive(Clone, Copy, Default)]
struct Rows {
    due: u64,
    leases: u64,
    ends: u64,
    finished: u64,
    parts: u64,
    quarantine: u64,
    /// Records that cannot be read: what more they call for is not known.
    unread: u64,
}

struct Walk<'a> {
    file: &'a Snapshot,
    found: Checked,
    rows: Rows,
}

impl Walk<'_> {
    fn record(&mut self, id: DeliveryId, value: &[u8]) -> Result<(), StoreError> {
        self.found.deliveries += 1;
        let Ok(it) = record::decode_delivery(id, value) else {
            return self.damaged(id);
        };
        match it.state {
            State::Waiting { .. } => self.waiting(&it)?,
            State::Terminal { outcome, at, step } => self.terminal(&it, outcome, at, step)?,
        }
        self.key(&it)?;
        self.body(&it)
    }

    /// A record that cannot be read: nothing new when it was put in quarantine.
    fn damaged(&mut self, id: DeliveryId) -> Result<(), StoreError> {
        let known = self.file.tables.quarantine.get(id.0)?.is_some();
        self.rows.quarantine += u64::from(known);
        self.rows.unread += 1;
        self.rows.parts += self.parts_of(id)?;
        self.spare(known, || format!("the record of {id} cannot be read"));
        Ok(())
    }

    /// What was quarantined because its record was not there at all.
    fn lost(&mut self) -> Result<(), StoreError> {
        for row in self.file.tables.quarantine.iter()? {
            let id = DeliveryId(row?.0.value());
            if self.file.tables.deliveries.get(id.0)?.is_none() {
                self.rows.quarantine += 1;
                self.rows.unread += 1;
                self.rows.parts += self.parts_of(id)?;
            }
        }
        Ok(())
    }

    fn parts_of(&self, id: DeliveryId) -> Result<u64, StoreError> {
        Ok(self.file.tables.payloads.range((id.0, 0)..=(id.0, u16::MAX))?.count() as u64)
    }

    fn waiting(&mut self, it: &Delivery) -> Result<(), StoreError> {
        let State::Waiting { due, lane, .. } = it.state else { return Ok(()) };
        let tables = &self.file.tables;
        let row = (it.destination.0, lane.0, due.0, it.id.0);
        let value = tables.due.get(row)?.map(|value| value.value());
        let due_row = value.is_some();
        let lease = tables.leases.get(it.id.0)?.is_some();
        let end = tables.ends.get((it.expires_at.0, it.id.0))?.is_some();
        self.rows.due += u64::from(due_row);
        self.rows.leases += u64::from(lease);
        self.rows.ends += u64::from(end);
        self.found.waiting += u64::from(due_row);
        self.found.leased += u64::from(lease);
        let id = it.id;
        let agrees = value.is_none_or(|value| value == due_value(it));
        self.spare(agrees, || format!("the due row of {id} does not say what its record says"));
        self.demand(due_row != lease, || format!("{id} has due row {due_row} and lease {lease}"));
        self.demand(end || lease, || format!("{id} waits without a row in ends"));
        Ok(())
    }

    fn terminal(
        &mut self,
        it: &Delivery,
        outcome: Ending,
        at: Timestamp,
        step: u64,
    ) -> Result<(), StoreError> {
        self.found.terminal += 1;
        let tables = &self.file.tables;
        let ended = tables.finished.get((step, it.id.0))?.map(|at| at.value());
        let finished = ended.is_some();
        let quarantined = tables.quarantine.get(it.id.0)?.is_some();
        self.rows.finished += u64::from(finished);
        self.rows.quarantine += u64::from(quarantined);
        let id = it.id;
        let agrees = ended.is_none_or(|ended| ended == at.0);
        self.spare(agrees, || format!("{id} ended at another time than its row in finished says"));
        self.demand(finished, || format!("{id} ended without a row in finished"));
        self.demand(quarantined == (outcome == Ending::Quarantined), || {
            format!("{id} ended as {} and its quarantine row is {quarantined}", outcome.as_str())
        });
        Ok(())
    }

    fn key(&mut self, it: &Delivery) -> Result<(), StoreError> {
        let Some(key) = &it.key else { return Ok(()) };
        let row = self.file.tables.keys.get(&*key_row(it.tenant, key, it.destination))?;
        let right = row.is_some_and(|row| row.value() == it.id.0);
        let id = it.id;
        self.demand(right, || format!("the key of {id} does not lead to it"));
        Ok(())
    }

    /// Every part is there and whole. What was quarantined for its body may lack some of it.
    fn body(&mut self, it: &Delivery) -> Result<(), StoreError> {
        let Source::Inline { bytes, .. } = it.payload.source else { return Ok(()) };
        if it.payload.erased_at.is_some() {
            return Ok(());
        }
        let excused = matches!(it.state, State::Terminal { outcome: Ending::Quarantined, .. });
        for n in 0..parts(bytes) {
            let value = self.file.tables.payloads.get((it.id.0, n))?;
            self.rows.parts += u64::from(value.is_some());
            let part = value.as_ref().map(|v| record::unseal_part(&part_key(it.id, n), v.value()));
            let whole = matches!(part, Some(Ok(_)));
            self.found.body_bytes += part.and_then(Result::ok).map_or(0, |part| part.len() as u64);
            let id = it.id;
            self.spare(whole || excused, || format!("part {n} of the body of {id} is missing or damaged"));
        }
        Ok(())
    }

    /// No index has a row that no record calls for. A key that leads to nothing is free: it is what
    /// a damaged record left behind.
    fn counts(&mut self) -> Result<(), StoreError> {
        let tables = &self.file.tables;
        let Rows { due, leases, ends, finished, parts, quarantine, unread } = self.rows;
        let counts = [
            ("due", tables.due.len()?, due..=due + unread),
            ("leases", tables.leases.len()?, leases..=leases + unread),
            ("ends", tables.ends.len()?, ends..=ends + unread),
            ("finished", tables.finished.len()?, finished..=finished + unread),
            ("payloads", tables.payloads.len()?, parts..=parts),
            ("quarantine", tables.quarantine.len()?, quarantine..=quarantine),
        ];
        let agree = self.found.contradiction.is_none();
        for (name, there, called_for) in counts.into_iter().filter(|_| agree) {
            self.demand(called_for.contains(&there), || {
                format!("{name} has {there} rows where the records call for {}", called_for.start())
            });
        }
        Ok(())
    }

    /// Where it does not hold, rows contradict each other.
    fn demand(&mut self, holds: bool, says: impl FnOnce() -> String) {
        if holds {
            return;
        }
        self.found.wrong += 1;
        let says = says();
        self.found.contradiction.get_or_insert_with(|| says.clone());
        self.name(says);
    }

    /// Where it does not hold, something is damaged that hides nothing else.
    fn spare(&mut self, holds: bool, says: impl FnOnce() -> String) {
        if !holds {
            self.found.damaged += 1;
            self.name(says());
        }
    }

    fn name(&mut self, problem: String) {
        if self.found.problems.len() < MAX_PROBLEMS {
            self.found.problems.push(problem);
        }
    }
}
