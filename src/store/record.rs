//! The codec: how a record becomes bytes, and the only place that knows.
//!
//! A value is a version byte, the `bincode` form of a disk struct, and the CRC32C of key,
//! version and form: redb does not check a page when it reads it. A stored number never changes
//! its meaning; a change of a struct here is a new version and a migration. (`bincode` is no
//! longer maintained, hence the exact pin and this isolation.)

mod audit;
mod delivery;
mod destination;
mod job;

use bincode::{BorrowDecode, Encode};

pub(super) use audit::{decode_audit, encode_audit};
pub(super) use delivery::{decode_attempt, decode_delivery, encode_attempt, encode_delivery};
pub(crate) use destination::StoredDestination;
pub(super) use destination::{decode_destination, decode_gate, encode_destination, encode_gate};
pub(super) use job::{decode_job, encode_job};

use crate::model::{AuditKey, DeliveryId, DestNo, JobId};
use crate::time::Timestamp;

/// Bytes do not say what they should: a bit has changed on disk, or they were never ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the checksum or the form of a record is wrong")]
pub struct Damaged;

/// The only version there is.
const VERSION: u8 = 1;
/// No record is longer: 32 headers of 1 KiB, 8 labels and 5 attempts fit with room to spare. A
/// length that lies cannot make us allocate more.
const MAX_RECORD: usize = 128 * 1024;
const CRC_BYTES: usize = 4;

const fn form() -> impl bincode::config::Config {
    bincode::config::standard().with_limit::<MAX_RECORD>()
}

/// The value that is stored under `key`.
fn seal(key: &[u8], record: &impl Encode) -> Vec<u8> {
    let mut value = Vec::with_capacity(256);
    value.push(VERSION);
    bincode::encode_into_std_write(record, &mut value, form()).expect("a checked record fits its limit");
    close(key, value)
}

/// The record in `value`, if every byte of it is accounted for.
fn unseal<'a, R: BorrowDecode<'a, ()>>(key: &[u8], value: &'a [u8]) -> Result<R, Damaged> {
    let body = inside(key, value)?;
    let (record, used) = bincode::borrow_decode_from_slice(body, form()).map_err(|_| Damaged)?;
    if used == body.len() { Ok(record) } else { Err(Damaged) }
}

/// One part of a body, as it is stored under `key`.
pub(super) fn seal_part(key: &[u8], part: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(part.len() + 1 + CRC_BYTES);
    value.push(VERSION);
    value.extend_from_slice(part);
    close(key, value)
}

/// The bytes of one part of a body.
pub(super) fn unseal_part<'a>(key: &[u8], value: &'a [u8]) -> Result<&'a [u8], Damaged> {
    inside(key, value)
}

fn close(key: &[u8], mut value: Vec<u8>) -> Vec<u8> {
    let crc = crc32c::crc32c_append(crc32c::crc32c(key), &value);
    value.extend_from_slice(&crc.to_le_bytes());
    value
}

fn inside<'a>(key: &[u8], value: &'a [u8]) -> Result<&'a [u8], Damaged> {
    let (sealed, crc) = value.split_last_chunk::<CRC_BYTES>().ok_or(Damaged)?;
    if crc32c::crc32c_append(crc32c::crc32c(key), sealed) != u32::from_le_bytes(*crc) {
        return Err(Damaged);
    }
    match sealed {
        [VERSION, body @ ..] => Ok(body),
        _ => Err(Damaged),
    }
}

/// For fuzzing: reads `bytes` as a record of every kind, as they are and under a right checksum.
/// False when something was read that does not come back as it was after it is written again.
#[doc(hidden)]
#[must_use]
pub fn comes_back(bytes: &[u8]) -> bool {
    let (id, no) = (DeliveryId(7), DestNo(7));
    let deliveries = stays(
        &id.0.to_be_bytes(),
        bytes,
        |value| decode_delivery(id, value),
        |it| decode_delivery(id, &encode_delivery(it)),
    );
    let attempts = stays(
        &delivery::attempt_key(id, 1),
        bytes,
        |value| decode_attempt(id, 1, value),
        |it| decode_attempt(id, it.n, &encode_attempt(id, it)),
    );
    let destinations = stays(
        &no.0.to_be_bytes(),
        bytes,
        |value| decode_destination(no, value),
        |it| decode_destination(no, &encode_destination(no, it)),
    );
    let gates = stays(
        &no.0.to_be_bytes(),
        bytes,
        |value| decode_gate(no, value),
        |it| decode_gate(no, &encode_gate(no, it)),
    );
    let jobs = stays(
        &id.0.to_be_bytes(),
        bytes,
        |value| decode_job(JobId(id.0), value),
        |it| decode_job(JobId(id.0), &encode_job(it)),
    );
    let key = AuditKey { at: Timestamp(7), n: 7 };
    let audit = stays(
        &audit::key_bytes(key),
        bytes,
        |value| decode_audit(key, value),
        |it| decode_audit(key, &encode_audit(key, it)),
    );
    deliveries && attempts && destinations && gates && jobs && audit
}

fn stays<T: PartialEq>(
    key: &[u8],
    bytes: &[u8],
    read: impl Fn(&[u8]) -> Result<T, Damaged>,
    again: impl Fn(&T) -> Result<T, Damaged>,
) -> bool {
    let sealed = seal_part(key, bytes);
    [bytes, &sealed].into_iter().filter_map(|value| read(value).ok()).all(|it| again(&it) == Ok(it))
}

/// The place of `value` among `all`: its frozen disk code.
fn code<T: PartialEq>(all: &[T], value: &T) -> u8 {
    let place = all.iter().position(|one| one == value);
    u8::try_from(place.expect("every variant is listed")).expect("fewer than 256 variants")
}

/// The variant that a disk code stands for.
fn coded<T: Copy>(all: &[T], code: u8) -> Result<T, Damaged> {
    all.get(usize::from(code)).copied().ok_or(Damaged)
}

#[cfg(test)]
#[path = "record/tests.rs"]
mod tests;
