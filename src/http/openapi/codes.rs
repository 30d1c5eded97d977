//! Every code that there is, so that none goes undocumented.

use crate::http::error::Code;

/// All of them, in the order in which [`Code`] has them.
pub const ALL: [Code; 47] = [
    Code::Malformed,
    Code::Invalid,
    Code::WrongRegion,
    Code::ClassUnknown,
    Code::RefNotAllowed,
    Code::HostNotAllowed,
    Code::TokenRequired,
    Code::ScopeMissing,
    Code::TenantNotAllowed,
    Code::OriginNotAllowed,
    Code::NotFound,
    Code::MethodNotAllowed,
    Code::BodyTimeout,
    Code::PayloadTooLarge,
    Code::ContentType,
    Code::DestinationUnknown,
    Code::DestinationGone,
    Code::DestinationDisabled,
    Code::KeyReused,
    Code::TenantFixed,
    Code::WorkWaiting,
    Code::CountChanged,
    Code::BulkRunning,
    Code::TooManyDestinations,
    Code::TooManySecrets,
    Code::DestinationHeld,
    Code::RevisionMismatch,
    Code::Leased,
    Code::NotLeased,
    Code::Terminal,
    Code::PayloadErased,
    Code::QueueFull,
    Code::DiskLow,
    Code::TenantQuota,
    Code::Draining,
    Code::ShuttingDown,
    Code::FenceRequired,
    Code::NotDrained,
    Code::StaleExport,
    Code::Truncated,
    Code::ImportRunning,
    Code::BackupExists,
    Code::BackupRunning,
    Code::BackupFailed,
    Code::BackupHold,
    Code::Damaged,
    Code::Internal,
];

/// Codes that no operation of the document answers, and why.
pub const OF_NO_OPERATION: [(Code, &str); 2] = [
    (Code::MethodNotAllowed, "what has no such method is no operation"),
    (Code::NotLeased, "only an attempt's own report can meet it"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_whole() {
        let last = Code::Internal as usize;
        assert_eq!(ALL.len(), last + 1, "a new code stands before Internal, and here");
        for (place, code) in ALL.into_iter().enumerate() {
            assert_eq!(code as usize, place, "{code:?}");
        }
    }
}
