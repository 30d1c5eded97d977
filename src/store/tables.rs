//! Every table of the file: its key, its value, who writes it and when a row disappears.
//!
//! Only integers, bytes and tuples of them are table types; what a value means is decided by
//! [`super::record`]. Integers sort as numbers, so a range over a prefix is a range in time.

use redb::{ReadOnlyTable, ReadTransaction, ReadableTable, Table, TableDefinition, WriteTransaction};

use super::StoreError;
use super::backup::{BackupError, Copying};

/// Key of `due`.
pub(super) type DueRow = (u32, u8, u64, u128);
/// Value of `leases`: attempt, nonce, claimed, until, destination, lane, due, fresh.
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
    /// (u64, u64): wall time and step that a backup was taken at. Only a backup has it; the first
    /// start on one removes it.
    Backup = 8,
    /// u8: whether claims run, and who stopped them ([`super::Claims`]).
    Claims = 9,
    /// The host that last served the file.
    Host = 10,
    /// u64: drains, ever. Written by each; names the newest.
    Fence = 11,
    /// (16 bytes, u64) each: servers that were imported from, and the newest fence of each.
    Sources = 12,
}

/// From one list: every table open for writing, and open for reading.
macro_rules! tables {
    ($($(#[$about:meta])+ $table:ident = $name:literal: $key:ty => $value:ty;)+) => {
        /// Every table, open in one write transaction.
        pub(super) struct Tables<'txn> {
            $($(#[$about])+ pub(super) $table: Table<'txn, $key, $value>,)+
        }

        impl<'txn> Tables<'txn> {
            /// Opens all of them; creates what is not there.
            pub(super) fn open(txn: &'txn WriteTransaction) -> Result<Tables<'txn>, StoreError> {
                Ok(Tables { $($table: txn.open_table(TableDefinition::new($name))?,)+ })
            }
        }

        /// The tables a reader needs, open in one read transaction.
        pub(super) struct ReadTables {
            $($(#[$about])+ pub(super) $table: ReadOnlyTable<$key, $value>,)+
        }

        impl ReadTables {
            /// Opens all of them; a file that lacks one is not ours.
            pub(super) fn open(txn: &ReadTransaction) -> Result<ReadTables, StoreError> {
                Ok(ReadTables { $($table: txn.open_table(TableDefinition::new($name))?,)+ })
            }

            /// Copies every row of every table.
            pub(super) fn copy(&self, to: &mut Copying<'_>) -> Result<(), BackupError> {
                $(to.table(&self.$table, TableDefinition::new($name))?;)+
                Ok(())
            }
        }
    };
}

tables! {
    /// id → record. Written at accept and at every change; removed by retention.
    deliveries = "deliveries": u128 => &'static [u8];
    /// (id, part) → up to [`PART_BYTES`] of the body. Written at accept; removed when the body goes.
    payloads = "payloads": (u128, u16) => &'static [u8];
    /// (destination, lane, due, id) → (attempts and a flag, body bytes). There exactly while a
    /// delivery waits; removed in the commit that claims it.
    due = "due": DueRow => (u32, u32);
    /// id → the lease. There exactly while an attempt is out.
    leases = "leases": u128 => LeaseRow;
    /// tenant, key, 0, destination → id. Written at accept when the producer gave a key; removed
    /// with the record.
    keys = "keys": &'static [u8] => u128;
    /// (id, n) → attempt. What no longer fits in the record; removed with it, or when there are
    /// more than [`MAX_ATTEMPT_ROWS`].
    attempts = "attempts": (u128, u32) => &'static [u8];
    /// (expires, id). Written with the first due row; removed when the delivery ends, or when the
    /// sweep meets it while it is leased (its report looks at `expires_at`).
    ends = "ends": (u64, u128) => ();
    /// (step, id) → when it ended. Written at the end; removed by retention or by a retry.
    finished = "finished": (u64, u128) => u64;
    /// number → destination. Written by an operator, or by a 410; never removed, so that a number
    /// is never used again: a deleted one stays as a tombstone.
    destinations = "destinations": u32 => &'static [u8];
    /// name → number of the destination that has it now.
    destination_names = "destination_names": &'static [u8] => u32;
    /// name → number; never removed.
    tenants = "tenants": &'static [u8] => u32;
    /// name → number; never removed.
    classes = "classes": &'static [u8] => u8;
    /// destination → hold and refusals. Written on a transition, at most once a step.
    gates = "gates": u32 => &'static [u8];
    /// id → since when. There exactly while a delivery is quarantined or its record is damaged.
    quarantine = "quarantine": u128 => u64;
    /// id → bulk job. Written when it begins and with each page of what it does; the oldest that
    /// has ended goes when there are more than [`super::MAX_ENDED_JOBS`].
    jobs = "jobs": u128 => &'static [u8];
    /// (time, number) → an entry of the audit log. Written in the commit that makes the change;
    /// removed by retention, or when there are more than [`super::MAX_AUDIT_ROWS`].
    audit = "audit": (u64, u64) => &'static [u8];
    /// The same for what was done to single deliveries: however many these are, they push out no other.
    audit_deliveries = "audit_deliveries": (u64, u64) => &'static [u8];
    /// A word of [`Meta`] → its value.
    meta = "meta": u8 => &'static [u8];
}

impl ReadTables {
    /// The one table that every format has.
    pub(super) fn meta(txn: &ReadTransaction) -> Result<ReadOnlyTable<u8, &'static [u8]>, StoreError> {
        Ok(txn.open_table(TableDefinition::new("meta"))?)
    }
}

/// Tables that came after the first files of this format were written. One that is not there is empty:
/// the next write makes it, and an older program that does not know it leaves it alone.
const JOBS: TableDefinition<'_, u128, &[u8]> = TableDefinition::new("jobs");
const AUDIT: TableDefinition<'_, (u64, u64), &[u8]> = TableDefinition::new("audit");
const AUDIT_DELIVERIES: TableDefinition<'_, (u64, u64), &[u8]> = TableDefinition::new("audit_deliveries");

/// Makes the tables that came later and are not there.
pub(super) fn complete(txn: &WriteTransaction) -> Result<(), StoreError> {
    txn.open_table(JOBS)?;
    txn.open_table(AUDIT)?;
    txn.open_table(AUDIT_DELIVERIES)?;
    Ok(())
}

/// True when [`complete`] would make nothing.
pub(super) fn is_complete(txn: &ReadTransaction) -> Result<bool, StoreError> {
    Ok(is_there(txn.open_table(JOBS))?
        && is_there(txn.open_table(AUDIT))?
        && is_there(txn.open_table(AUDIT_DELIVERIES))?)
}

fn is_there<T>(opened: Result<T, redb::TableError>) -> Result<bool, StoreError> {
    match opened {
        Ok(_) => Ok(true),
        Err(redb::TableError::TableDoesNotExist(_)) => Ok(false),
        Err(other) => Err(other.into()),
    }
}

/// The value of a word of `meta`, if it was ever written.
pub(super) fn meta(
    table: &impl ReadableTable<u8, &'static [u8]>,
    word: Meta,
) -> Result<Option<Vec<u8>>, StoreError> {
    Ok(table.get(word as u8)?.map(|value| value.value().to_vec()))
}
