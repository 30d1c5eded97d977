//! Rows as values: how keys and tuple values of the tables are put together and taken apart.

use super::StoreError;
use super::tables::{DueRow, LeaseRow, PART_BYTES};
use crate::delivery::{Delivery, Lease};
use crate::model::{DeliveryId, DestNo, DueEntry, IdempotencyKey, Lane, Name, TenantNo};
use crate::time::Timestamp;

/// The highest bit of a due row's attempts: its last attempt was interrupted.
const INTERRUPTED: u32 = 1 << 31;

/// The value of a waiting delivery's due row.
pub(super) fn due_value(it: &Delivery) -> (u32, u32) {
    let flag = if it.interrupted > 0 { INTERRUPTED } else { 0 };
    (it.attempts.min(INTERRUPTED - 1) | flag, it.body_bytes())
}

/// The value of a lease's row.
pub(super) fn lease_value(it: &Lease) -> LeaseRow {
    let (destination, lane) = (it.destination.0, it.lane.0);
    let fresh = u8::from(it.fresh);
    (it.attempt, it.nonce, it.claimed_at.0, it.until.0, destination, lane, it.due.0, fresh)
}

/// Rows that a body of so many bytes has.
pub(super) fn parts(bytes: u32) -> u16 {
    let rows = usize::try_from(bytes).unwrap_or(usize::MAX).div_ceil(PART_BYTES);
    u16::try_from(rows).unwrap_or(u16::MAX)
}

/// The bytes that a part's checksum is bound to.
pub(super) fn part_key(id: DeliveryId, n: u16) -> [u8; 18] {
    let mut key = [0; 18];
    key[..16].copy_from_slice(&id.0.to_be_bytes());
    key[16..].copy_from_slice(&n.to_be_bytes());
    key
}

/// The row of `keys`: a key holds no 0, so it cannot run into the destination.
pub(super) fn key_row(tenant: TenantNo, key: &IdempotencyKey, destination: DestNo) -> Vec<u8> {
    let mut row = Vec::with_capacity(9 + key.as_str().len());
    row.extend_from_slice(&tenant.0.to_be_bytes());
    row.extend_from_slice(key.as_str().as_bytes());
    row.push(0);
    row.extend_from_slice(&destination.0.to_be_bytes());
    row
}

/// The lease in a row of `leases`.
pub(super) fn lease(id: u128, row: LeaseRow) -> Lease {
    let (attempt, nonce, claimed_at, until, destination, lane, due, fresh) = row;
    Lease {
        id: DeliveryId(id),
        attempt,
        nonce,
        claimed_at: Timestamp(claimed_at),
        until: Timestamp(until),
        destination: DestNo(destination),
        lane: Lane(lane),
        due: Timestamp(due),
        fresh: fresh != 0,
    }
}

/// The entry in a row of `due`.
pub(super) fn entry(key: DueRow, value: (u32, u32)) -> DueEntry {
    DueEntry {
        due: Timestamp(key.2),
        id: DeliveryId(key.3),
        attempts: value.0 & !INTERRUPTED,
        interrupted: value.0 & INTERRUPTED != 0,
        bytes: value.1,
    }
}

pub(super) fn name_of(bytes: &[u8]) -> Result<Name, StoreError> {
    let name = std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok());
    name.ok_or_else(|| StoreError::Damaged { what: "a name".to_owned() })
}

/// The error of a row that cannot be read and that the server cannot run without.
pub(super) fn damaged(what: &str, no: u32) -> StoreError {
    StoreError::Damaged { what: format!("{what} {no}") }
}
