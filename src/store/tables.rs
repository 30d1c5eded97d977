//! Every table of the file: its key, its value, who writes it and when a row disappears.
//!
//! Only integers, bytes and tuples of them are table types; what a value means is decided by
//! [`super::record`]. Integers sort as numbers, so a range over a prefix is a range in time.

use redb::{ReadTransaction, ReadableTable, Table, TableDefinition, WriteTransaction};

use super::StoreError;

/// id → record. Written at accept and at every change; removed by retention.
pub(super) const DELIVERIES: TableDefinition<'static, u128, &[u8]> = TableDefinition::new("deliveries");
/// (id, part) → up to [`PART_BYTES`] of the body. Written at accept; removed when the body goes.
pub(super) const PAYLOADS: TableDefinition<'static, (u128, u16), &[u8]> = TableDefinition::new("payloads");
/// (destination, lane, due, id) → (attempts and a flag, body bytes). There exactly while a
/// delivery waits; removed in the commit that claims it.
pub(super) const DUE: TableDefinition<'static, DueRow, (u32, u32)> = TableDefinition::new("due");
/// id → the lease. There exactly while an attempt is out.
pub(super) const LEASES: TableDefinition<'static, u128, LeaseRow> = TableDefinition::new("leases");
/// tenant, key, 0, destination → id. Written at accept when the producer gave a key; removed
/// with the record.
pub(super) const KEYS: TableDefinition<'static, &[u8], u128> = TableDefinition::new("keys");
/// (id, n) → attempt. What no longer fits in the record; removed with it, or when there are
/// more than [`MAX_ATTEMPT_ROWS`].
pub(super) const ATTEMPTS: TableDefinition<'static, (u128, u32), &[u8]> = TableDefinition::new("attempts");
/// (expires, id). Written with the first due row; removed when the delivery ends, or when the
/// sweep meets it while it is leased (its report looks at `expires_at`).
pub(super) const ENDS: TableDefinition<'static, (u64, u128), ()> = TableDefinition::new("ends");
/// (step, id) → when it ended. Written at the end; removed by retention or by a retry.
pub(super) const FINISHED: TableDefinition<'static, (u64, u128), u64> = TableDefinition::new("finished");
/// number → destination. Written by an operator, or by a 410; never removed, so that a number
/// is never used again: a deleted one stays as a tombstone.
pub(super) const DESTINATIONS: TableDefinition<'static, u32, &[u8]> = TableDefinition::new("destinations");
/// name → number of the destination that has it now.
pub(super) const DESTINATION_NAMES: TableDefinition<'static, &[u8], u32> =
    TableDefinition::new("destination_names");
/// name → number; never removed.
pub(super) const TENANTS: TableDefinition<'static, &[u8], u32> = TableDefinition::new("tenants");
/// name → number; never removed.
pub(super) const CLASSES: TableDefinition<'static, &[u8], u8> = TableDefinition::new("classes");
/// destination → hold and refusals. Written on a transition, at most once a step.
pub(super) const GATES: TableDefinition<'static, u32, &[u8]> = TableDefinition::new("gates");
/// id → since when. There exactly while a delivery is quarantined or its record is damaged.
pub(super) const QUARANTINE: TableDefinition<'static, u128, u64> = TableDefinition::new("quarantine");
/// A word of [`Meta`] → its value.
pub(super) const META: TableDefinition<'static, u8, &[u8]> = TableDefinition::new("meta");

/// Key of [`DUE`].
pub(super) type DueRow = (u32, u8, u64, u128);
/// Value of [`LEASES`]: attempt, nonce, claimed, until, destination, lane, due, fresh.
pub(super) type LeaseRow = (u32, u64, u64, u64, u32, u8, u64, u8);

/// Bytes of a body in one row. redb rounds a value up to a power of two of its 4 KiB pages, so
/// a row just under 16 KiB wastes least.
pub(super) const PART_BYTES: usize = 16_000;
/// Attempts kept besides the four in the record: a hundred are shown.
pub(super) const MAX_ATTEMPT_ROWS: usize = 96;

/// The words of the `meta` table. The numbers never change meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meta {
    /// u32: the format of the file.
    Format = 0,
    /// The region's name.
    Region = 1,
    /// 16 random bytes, made with the file.
    Uuid = 2,
    /// u64: opens for writing, ever.
    Epoch = 3,
    /// (u64, u64): step and wall clock of the newest commit.
    Tick = 4,
    /// (u64, u8, u32): start of the run, whether it ended cleanly, deaths in a row soon after a start.
    Run = 5,
    /// (u64, u128): how far the sweep of delivered deliveries' bodies has come in `finished`.
    DeliveredBodies = 6,
    /// The same for those that ended otherwise.
    FailedBodies = 7,
}

/// Every table, open in one write transaction.
pub(super) struct Tables<'txn> {
    pub(super) deliveries: Table<'txn, u128, &'static [u8]>,
    pub(super) payloads: Table<'txn, (u128, u16), &'static [u8]>,
    pub(super) due: Table<'txn, DueRow, (u32, u32)>,
    pub(super) leases: Table<'txn, u128, LeaseRow>,
    pub(super) keys: Table<'txn, &'static [u8], u128>,
    pub(super) attempts: Table<'txn, (u128, u32), &'static [u8]>,
    pub(super) ends: Table<'txn, (u64, u128), ()>,
    pub(super) finished: Table<'txn, (u64, u128), u64>,
    pub(super) destinations: Table<'txn, u32, &'static [u8]>,
    pub(super) destination_names: Table<'txn, &'static [u8], u32>,
    pub(super) tenants: Table<'txn, &'static [u8], u32>,
    pub(super) classes: Table<'txn, &'static [u8], u8>,
    pub(super) gates: Table<'txn, u32, &'static [u8]>,
    pub(super) quarantine: Table<'txn, u128, u64>,
    pub(super) meta: Table<'txn, u8, &'static [u8]>,
}

impl<'txn> Tables<'txn> {
    /// Opens all of them; creates what is not there.
    pub(super) fn open(txn: &'txn WriteTransaction) -> Result<Tables<'txn>, StoreError> {
        Ok(Tables {
            deliveries: txn.open_table(DELIVERIES)?,
            payloads: txn.open_table(PAYLOADS)?,
            due: txn.open_table(DUE)?,
            leases: txn.open_table(LEASES)?,
            keys: txn.open_table(KEYS)?,
            attempts: txn.open_table(ATTEMPTS)?,
            ends: txn.open_table(ENDS)?,
            finished: txn.open_table(FINISHED)?,
            destinations: txn.open_table(DESTINATIONS)?,
            destination_names: txn.open_table(DESTINATION_NAMES)?,
            tenants: txn.open_table(TENANTS)?,
            classes: txn.open_table(CLASSES)?,
            gates: txn.open_table(GATES)?,
            quarantine: txn.open_table(QUARANTINE)?,
            meta: txn.open_table(META)?,
        })
    }
}

/// The tables a reader needs, open in one read transaction.
pub(super) struct ReadTables {
    pub(super) deliveries: redb::ReadOnlyTable<u128, &'static [u8]>,
    pub(super) payloads: redb::ReadOnlyTable<(u128, u16), &'static [u8]>,
    pub(super) due: redb::ReadOnlyTable<DueRow, (u32, u32)>,
    pub(super) leases: redb::ReadOnlyTable<u128, LeaseRow>,
    pub(super) keys: redb::ReadOnlyTable<&'static [u8], u128>,
    pub(super) attempts: redb::ReadOnlyTable<(u128, u32), &'static [u8]>,
    pub(super) ends: redb::ReadOnlyTable<(u64, u128), ()>,
    pub(super) finished: redb::ReadOnlyTable<(u64, u128), u64>,
    pub(super) destinations: redb::ReadOnlyTable<u32, &'static [u8]>,
    pub(super) destination_names: redb::ReadOnlyTable<&'static [u8], u32>,
    pub(super) tenants: redb::ReadOnlyTable<&'static [u8], u32>,
    pub(super) classes: redb::ReadOnlyTable<&'static [u8], u8>,
    pub(super) gates: redb::ReadOnlyTable<u32, &'static [u8]>,
    pub(super) quarantine: redb::ReadOnlyTable<u128, u64>,
    pub(super) meta: redb::ReadOnlyTable<u8, &'static [u8]>,
}

impl ReadTables {
    /// Opens all of them; a file that lacks one is not ours.
    pub(super) fn open(txn: &ReadTransaction) -> Result<ReadTables, StoreError> {
        Ok(ReadTables {
            deliveries: txn.open_table(DELIVERIES)?,
            payloads: txn.open_table(PAYLOADS)?,
            due: txn.open_table(DUE)?,
            leases: txn.open_table(LEASES)?,
            keys: txn.open_table(KEYS)?,
            attempts: txn.open_table(ATTEMPTS)?,
            ends: txn.open_table(ENDS)?,
            finished: txn.open_table(FINISHED)?,
            destinations: txn.open_table(DESTINATIONS)?,
            destination_names: txn.open_table(DESTINATION_NAMES)?,
            tenants: txn.open_table(TENANTS)?,
            classes: txn.open_table(CLASSES)?,
            gates: txn.open_table(GATES)?,
            quarantine: txn.open_table(QUARANTINE)?,
            meta: txn.open_table(META)?,
        })
    }
}

/// The value of a word of `meta`, if it was ever written.
pub(super) fn meta(
    table: &impl ReadableTable<u8, &'static [u8]>,
    word: Meta,
) -> Result<Option<Vec<u8>>, StoreError> {
    Ok(table.get(word as u8)?.map(|value| value.value().to_vec()))
}
