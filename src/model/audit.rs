//! The audit log: who changed what, when.
//!
//! An entry says what was done and to what, never a secret, the value of a header, a URL or a body.

use std::fmt;
use std::str::FromStr;

use crate::time::Timestamp;

/// Characters of a detail: a reason of an operator and what was before fit.
pub const MAX_DETAIL: usize = 400;

/// What an operator can do, and what is done of itself: a 410 disables its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    DestinationCreate,
    DestinationUpdate,
    DestinationDelete,
    DestinationPause,
    DestinationResume,
    DestinationEnable,
    DestinationDisable,
    DestinationHold,
    DestinationRelease,
    SecretRotate,
    DeliveryRetry,
    DeliveryCancel,
    DeliveryErase,
    ClaimsStop,
    ClaimsStart,
    Drain,
    ImportBegin,
    ImportEnd,
    Backup,
    BackupHold,
    BackupRelease,
    ConfigReload,
    BulkStart,
    BulkStop,
    DestinationTest,
}

impl Action {
    /// All of them, in the order of their codes on disk: only ever appended to.
    pub const ALL: [Action; 25] = [
        Action::DestinationCreate,
        Action::DestinationUpdate,
        Action::DestinationDelete,
        Action::DestinationPause,
        Action::DestinationResume,
        Action::DestinationEnable,
        Action::DestinationDisable,
        Action::DestinationHold,
        Action::DestinationRelease,
        Action::SecretRotate,
        Action::DeliveryRetry,
        Action::DeliveryCancel,
        Action::DeliveryErase,
        Action::ClaimsStop,
        Action::ClaimsStart,
        Action::Drain,
        Action::ImportBegin,
        Action::ImportEnd,
        Action::Backup,
        Action::BackupHold,
        Action::BackupRelease,
        Action::ConfigReload,
        Action::BulkStart,
        Action::BulkStop,
        Action::DestinationTest,
    ];

    /// True for what is done to one delivery: a bulk job does it a million times.
    #[must_use]
    pub fn is_of_a_delivery(self) -> bool {
        matches!(self, Action::DeliveryRetry | Action::DeliveryCancel | Action::DeliveryErase)
    }

    /// The word for it in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Action::DestinationCreate => "destination.create",
            Action::DestinationUpdate => "destination.update",
            Action::DestinationDelete => "destination.delete",
            Action::DestinationPause => "destination.pause",
            Action::DestinationResume => "destination.resume",
            Action::DestinationEnable => "destination.enable",
            Action::DestinationDisable => "destination.disable",
            Action::DestinationHold => "destination.hold",
            Action::DestinationRelease => "destination.release",
            Action::SecretRotate => "destination.rotate",
            Action::DeliveryRetry => "delivery.retry",
            Action::DeliveryCancel => "delivery.cancel",
            Action::DeliveryErase => "delivery.erase",
            Action::ClaimsStop => "claims.stop",
            Action::ClaimsStart => "claims.start",
            Action::Drain => "drain",
            Action::ImportBegin => "import.begin",
            Action::ImportEnd => "import.end",
            Action::Backup => "backup",
            Action::BackupHold => "backup.hold",
            Action::BackupRelease => "backup.release",
            Action::ConfigReload => "config.reload",
            Action::BulkStart => "bulk.start",
            Action::BulkStop => "bulk.stop",
            Action::DestinationTest => "destination.test",
        }
    }
}

/// One change, as it stands in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    pub at: Timestamp,
    /// `operator`, `uid:1000` or `token:shop`; `receiver` where it was an answer.
    pub by: String,
    pub action: Action,
    /// The name of a destination, the id of a delivery or of a job; None: the whole server.
    pub object: Option<String>,
    /// A reason, or what was before and what is now; at most [`MAX_DETAIL`] characters.
    pub detail: String,
}

/// Where an entry stands in the log: by time, and by its number in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AuditKey {
    pub at: Timestamp,
    pub n: u64,
}

impl fmt::Display for AuditKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{:x}", self.at.0, self.n)
    }
}

/// The text is not a cursor of the audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a cursor that a list has given")]
pub struct NotAnAuditKey;

impl FromStr for AuditKey {
    type Err = NotAnAuditKey;

    fn from_str(text: &str) -> Result<AuditKey, NotAnAuditKey> {
        let (at, n) = text.split_once('-').ok_or(NotAnAuditKey)?;
        let read = |text| u64::from_str_radix(text, 16).map_err(|_| NotAnAuditKey);
        Ok(AuditKey { at: Timestamp(read(at)?), n: read(n)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_action_has_a_word_of_its_own() {
        let words: std::collections::BTreeSet<_> = Action::ALL.map(Action::as_str).into();
        assert_eq!(words.len(), Action::ALL.len());
    }

    #[test]
    fn a_place_in_the_log_as_a_cursor() {
        let key = AuditKey { at: Timestamp(1_768_478_400_000), n: u64::MAX };
        assert_eq!(key.to_string().parse(), Ok(key));
        for bad in ["", "-", "1", "1-", "x-1", "1-2-3", "1-10000000000000000"] {
            assert_eq!(bad.parse::<AuditKey>(), Err(NotAnAuditKey), "{bad}");
        }
    }
}
