//! Every code of the API, with its status and its title.

use axum::http::StatusCode;

/// The codes of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    Malformed,
    Invalid,
    WrongRegion,
    ClassUnknown,
    RefNotAllowed,
    HostNotAllowed,
    TokenRequired,
    ScopeMissing,
    TenantNotAllowed,
    OriginNotAllowed,
    NotFound,
    MethodNotAllowed,
    BodyTimeout,
    PayloadTooLarge,
    ContentType,
    DestinationUnknown,
    /// A delivery cannot be retried because its destination is gone.
    DestinationGone,
    DestinationDisabled,
    KeyReused,
    TenantFixed,
    WorkWaiting,
    CountChanged,
    BulkRunning,
    TooManyDestinations,
    TooManySecrets,
    DestinationHeld,
    RevisionMismatch,
    Leased,
    NotLeased,
    Terminal,
    PayloadErased,
    QueueFull,
    DiskLow,
    TenantQuota,
    Draining,
    ShuttingDown,
    FenceRequired,
    NotDrained,
    StaleExport,
    Truncated,
    ImportRunning,
    BackupExists,
    BackupRunning,
    BackupFailed,
    BackupHold,
    Damaged,
    Internal,
}

impl Code {
    /// Its text, its status and its title.
    #[must_use]
    pub fn facts(self) -> (&'static str, StatusCode, &'static str) {
        (self.as_str(), self.status(), self.title())
    }

    fn as_str(self) -> &'static str {
        match self {
            Code::Malformed => "malformed",
            Code::Invalid => "invalid",
            Code::WrongRegion => "wrong_region",
            Code::ClassUnknown => "class_unknown",
            Code::RefNotAllowed => "ref_not_allowed",
            Code::HostNotAllowed => "host_not_allowed",
            Code::TokenRequired => "token_required",
            Code::ScopeMissing => "scope_missing",
            Code::TenantNotAllowed => "tenant_not_allowed",
            Code::OriginNotAllowed => "origin_not_allowed",
            Code::NotFound => "not_found",
            Code::MethodNotAllowed => "method_not_allowed",
            Code::BodyTimeout => "body_timeout",
            Code::PayloadTooLarge => "payload_too_large",
            Code::ContentType => "content_type",
            Code::DestinationUnknown | Code::DestinationGone => "destination_unknown",
            Code::DestinationDisabled => "destination_disabled",
            Code::KeyReused => "key_reused",
            Code::TenantFixed => "tenant_fixed",
            Code::WorkWaiting => "work_waiting",
            Code::CountChanged => "count_changed",
            Code::BulkRunning => "bulk_running",
            Code::TooManyDestinations => "too_many_destinations",
            Code::TooManySecrets => "too_many_secrets",
            Code::DestinationHeld => "destination_held",
            Code::RevisionMismatch => "revision_mismatch",
            Code::Leased => "leased",
            Code::NotLeased => "not_leased",
            Code::Terminal => "terminal",
            Code::PayloadErased => "payload_erased",
            Code::QueueFull => "queue_full",
            Code::DiskLow => "disk_low",
            Code::TenantQuota => "tenant_quota",
            Code::Draining => "draining",
            Code::FenceRequired => "fence_required",
            Code::NotDrained => "not_drained",
            Code::StaleExport => "stale_export",
            Code::Truncated => "truncated",
            Code::ImportRunning => "import_running",
            Code::ShuttingDown => "shutting_down",
            Code::BackupExists => "backup_exists",
            Code::BackupRunning => "backup_running",
            Code::BackupHold => "backup_hold",
            Code::BackupFailed => "backup_failed",
            Code::Damaged => "damaged",
            Code::Internal => "internal",
        }
    }

    fn status(self) -> StatusCode {
        use StatusCode as S;
        match self {
            Code::Malformed => S::BAD_REQUEST,
            Code::Invalid
            | Code::WrongRegion
            | Code::ClassUnknown
            | Code::RefNotAllowed
            | Code::Truncated => S::UNPROCESSABLE_ENTITY,
            Code::HostNotAllowed => S::MISDIRECTED_REQUEST,
            Code::TokenRequired => S::UNAUTHORIZED,
            Code::ScopeMissing | Code::TenantNotAllowed | Code::OriginNotAllowed => S::FORBIDDEN,
            Code::NotFound | Code::DestinationUnknown => S::NOT_FOUND,
            Code::MethodNotAllowed => S::METHOD_NOT_ALLOWED,
            Code::BodyTimeout => S::REQUEST_TIMEOUT,
            Code::PayloadTooLarge => S::PAYLOAD_TOO_LARGE,
            Code::ContentType => S::UNSUPPORTED_MEDIA_TYPE,
            Code::DestinationGone
            | Code::DestinationDisabled
            | Code::KeyReused
            | Code::TenantFixed
            | Code::WorkWaiting
            | Code::CountChanged
            | Code::BulkRunning
            | Code::TooManyDestinations
            | Code::TooManySecrets
            | Code::DestinationHeld
            | Code::Leased
            | Code::NotLeased
            | Code::Terminal
            | Code::PayloadErased
            | Code::FenceRequired
            | Code::NotDrained
            | Code::StaleExport
            | Code::ImportRunning
            | Code::BackupExists
            | Code::BackupRunning => S::CONFLICT,
            Code::RevisionMismatch => S::PRECONDITION_FAILED,
            Code::QueueFull | Code::Draining | Code::ShuttingDown | Code::BackupHold => {
                S::SERVICE_UNAVAILABLE
            }
            Code::DiskLow => S::INSUFFICIENT_STORAGE,
            Code::TenantQuota => S::TOO_MANY_REQUESTS,
            Code::BackupFailed | Code::Damaged | Code::Internal => S::INTERNAL_SERVER_ERROR,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Code::Malformed => "The request cannot be read",
            Code::Invalid => "A field is unknown, missing or wrong",
            Code::WrongRegion => "This server is in another region",
            Code::ClassUnknown => "There is no class of this name",
            Code::RefNotAllowed => "This reference is not allowed",
            Code::HostNotAllowed => "This host name is not served here",
            Code::TokenRequired => "A token is needed",
            Code::ScopeMissing => "The token does not open this",
            Code::TenantNotAllowed => "Not a tenant of the token",
            Code::OriginNotAllowed => "Another site may not change anything here",
            Code::NotFound => "No such route or object",
            Code::MethodNotAllowed => "The route has no such method",
            Code::BodyTimeout => "The body came too slowly",
            Code::PayloadTooLarge => "The body is too large",
            Code::ContentType => "The content type is not one of this route",
            Code::DestinationUnknown => "There is no destination of this name",
            Code::DestinationGone => "Its destination is no longer there",
            Code::DestinationDisabled => "The destination takes no deliveries",
            Code::KeyReused => "The key was used for another body",
            Code::TenantFixed => "A destination's tenant cannot change",
            Code::WorkWaiting => "Work is waiting for it",
            Code::CountChanged => "Not as many as expected",
            Code::BulkRunning => "Such a job is running",
            Code::TooManyDestinations => "No further destination fits",
            Code::TooManySecrets => "No further secret fits",
            Code::DestinationHeld => "The destination is held",
            Code::RevisionMismatch => "It was changed meanwhile",
            Code::Leased => "An attempt is in flight",
            Code::NotLeased => "No attempt is in flight",
            Code::Terminal => "The delivery has ended",
            Code::PayloadErased => "The body is no longer there",
            Code::QueueFull => "There is no room now",
            Code::DiskLow => "The disk is nearly full",
            Code::TenantQuota => "The tenant has used up its quota",
            Code::Draining => "Another server is to take over",
            Code::FenceRequired => "The server was drained",
            Code::NotDrained => "The server is not drained",
            Code::StaleExport => "A newer export was imported before",
            Code::Truncated => "The export is not whole",
            Code::ImportRunning => "Another import is running",
            Code::ShuttingDown => "The server is stopping",
            Code::BackupExists => "There is a file of this name",
            Code::BackupRunning => "Another backup is running",
            Code::BackupHold => "Commits are held back",
            Code::BackupFailed => "There is no backup",
            Code::Damaged => "What is on disk for it is damaged",
            Code::Internal => "The request failed inside the server",
        }
    }
}
