//! Version 1 of an entry of the audit log.

use bincode::{BorrowDecode, Encode};

use super::{Damaged, code, coded, seal, unseal};
use crate::model::{Action, AuditEntry, AuditKey};

#[derive(Encode, BorrowDecode)]
struct AuditV1<'a> {
    by: &'a str,
    action: u8,
    object: Option<&'a str>,
    detail: &'a str,
}

/// The bytes that an entry's checksum is bound to.
pub(super) fn key_bytes(key: AuditKey) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&key.at.0.to_be_bytes());
    bytes[8..].copy_from_slice(&key.n.to_be_bytes());
    bytes
}

/// The value stored for an entry; its time is the key's.
pub(crate) fn encode_audit(key: AuditKey, it: &AuditEntry) -> Vec<u8> {
    let row = AuditV1 {
        by: &it.by,
        action: code(&Action::ALL, &it.action),
        object: it.object.as_deref(),
        detail: &it.detail,
    };
    seal(&key_bytes(key), &row)
}

/// The entry stored under `key`.
pub(crate) fn decode_audit(key: AuditKey, value: &[u8]) -> Result<AuditEntry, Damaged> {
    let row: AuditV1<'_> = unseal(&key_bytes(key), value)?;
    Ok(AuditEntry {
        at: key.at,
        by: row.by.to_owned(),
        action: coded(&Action::ALL, row.action)?,
        object: row.object.map(str::to_owned),
        detail: row.detail.to_owned(),
    })
}
