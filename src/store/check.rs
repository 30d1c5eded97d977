//! The consistency check that tests, the simulation and an inspected open share: every record
//! can be read, and every index row is there exactly when a record says so.

mod directory;

use redb::ReadableTableMetadata;

use super::record;
use super::rows::{key_row, part_key, parts};
use super::{Snapshot, StoreError};
use crate::delivery::{Delivery, Source, State};
use crate::model::DeliveryId;
use crate::outcome::Ending;

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
    /// Bytes of bodies.
    pub body_bytes: u64,
    /// Each a sentence, the first twenty; empty when the file is whole.
    pub problems: Vec<String>,
    /// How many there are in all.
    pub wrong: u64,
    /// Those of them that are a record or a body that fails its checksum: it is quarantined when it
    /// is its turn, and hides nothing else.
    pub unreadable: u64,
}

impl Checked {
    /// True when rows are missing or contradict each other: what is there may be hidden.
    #[must_use]
    pub fn is_contradictory(&self) -> bool {
        self.wrong > self.unreadable
    }
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
    walk.counts()?;
    walk.directory()?;
    walk.found.quarantined = file.tables.quarantine.len()?;
    Ok(walk.found)
}

/// Index rows that the records call for.
#[derive(Default)]
struct Rows {
    due: u64,
    leases: u64,
    ends: u64,
    finished: u64,
    keys: u64,
    parts: u64,
    quarantine: u64,
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
            State::Terminal { outcome, step, .. } => self.terminal(&it, outcome, step)?,
        }
        self.key(&it)?;
        self.body(&it)
    }

    /// A record that cannot be read is no contradiction when it was put in quarantine.
    fn damaged(&mut self, id: DeliveryId) -> Result<(), StoreError> {
        let known = self.file.tables.quarantine.get(id.0)?.is_some();
        self.rows.quarantine += u64::from(known);
        self.found.unreadable += u64::from(!known);
        self.demand(known, || format!("the record of {id} cannot be read"));
        Ok(())
    }

    fn waiting(&mut self, it: &Delivery) -> Result<(), StoreError> {
        let State::Waiting { due, lane, .. } = it.state else { return Ok(()) };
        let tables = &self.file.tables;
        let row = (it.destination.0, lane.0, due.0, it.id.0);
        let due_row = tables.due.get(row)?.is_some();
        let lease = tables.leases.get(it.id.0)?.is_some();
        let end = tables.ends.get((it.expires_at.0, it.id.0))?.is_some();
        self.rows.due += u64::from(due_row);
        self.rows.leases += u64::from(lease);
        self.rows.ends += u64::from(end);
        self.found.waiting += u64::from(due_row);
        self.found.leased += u64::from(lease);
        let id = it.id;
        self.demand(due_row != lease, || format!("{id} has due row {due_row} and lease {lease}"));
        self.demand(end || lease, || format!("{id} waits without a row in ends"));
        Ok(())
    }

    fn terminal(&mut self, it: &Delivery, outcome: Ending, step: u64) -> Result<(), StoreError> {
        self.found.terminal += 1;
        let tables = &self.file.tables;
        let finished = tables.finished.get((step, it.id.0))?.is_some();
        let quarantined = tables.quarantine.get(it.id.0)?.is_some();
        self.rows.finished += u64::from(finished);
        self.rows.quarantine += u64::from(quarantined);
        let id = it.id;
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
        self.rows.keys += 1;
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
            self.found.unreadable += u64::from(!(whole || excused));
            self.demand(whole || excused, || format!("part {n} of the body of {id} is missing or damaged"));
        }
        Ok(())
    }

    /// No index has a row that no record calls for.
    fn counts(&mut self) -> Result<(), StoreError> {
        let tables = &self.file.tables;
        let rows = &self.rows;
        let counts = [
            ("due", tables.due.len()?, rows.due),
            ("leases", tables.leases.len()?, rows.leases),
            ("ends", tables.ends.len()?, rows.ends),
            ("finished", tables.finished.len()?, rows.finished),
            ("keys", tables.keys.len()?, rows.keys),
            ("payloads", tables.payloads.len()?, rows.parts),
            ("quarantine", tables.quarantine.len()?, rows.quarantine),
        ];
        let readable = self.found.problems.is_empty() && self.damaged_records()? == 0;
        for (name, there, called_for) in counts.into_iter().filter(|_| readable) {
            // A key that leads to nothing is free: it is what a damaged record left behind.
            self.found.unreadable += u64::from(name == "keys" && there > called_for);
            self.demand(there == called_for, || {
                format!("{name} has {there} rows where the records call for {called_for}")
            });
        }
        Ok(())
    }

    /// Records in quarantine that cannot be read: what they call for is not known.
    fn damaged_records(&self) -> Result<u64, StoreError> {
        let mut sum = 0;
        for row in self.file.tables.quarantine.range::<u128>(..)? {
            let id = DeliveryId(row?.0.value());
            let value = self.file.tables.deliveries.get(id.0)?;
            sum += u64::from(value.is_none_or(|value| record::decode_delivery(id, value.value()).is_err()));
        }
        Ok(sum)
    }

    fn demand(&mut self, holds: bool, says: impl FnOnce() -> String) {
        if holds {
            return;
        }
        self.found.wrong += 1;
        if self.found.problems.len() < MAX_PROBLEMS {
            self.found.problems.push(says());
        }
    }
}
