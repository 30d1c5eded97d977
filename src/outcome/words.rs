//! The words for how an attempt and a delivery ended and for what they wait, as the API, the
//! file and the metrics have them. They say what is so and never decide it.

/// The result of an attempt in one word, as the attempt record and the metrics have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AttemptResult {
    Success,
    Redirect,
    RateLimited,
    ClientError,
    ServerError,
    Timeout,
    Ambiguous,
    InvalidResponse,
    Interrupted,
    Connect,
    Tls,
    Dns,
    Blocked,
    NotProcessed,
    Payload,
}

impl AttemptResult {
    /// All of them, in the order of their disk codes.
    pub const ALL: [AttemptResult; 15] = [
        AttemptResult::Success,
        AttemptResult::Redirect,
        AttemptResult::RateLimited,
        AttemptResult::ClientError,
        AttemptResult::ServerError,
        AttemptResult::Timeout,
        AttemptResult::Ambiguous,
        AttemptResult::InvalidResponse,
        AttemptResult::Interrupted,
        AttemptResult::Connect,
        AttemptResult::Tls,
        AttemptResult::Dns,
        AttemptResult::Blocked,
        AttemptResult::NotProcessed,
        AttemptResult::Payload,
    ];

    /// The word for it in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            AttemptResult::Success => "success",
            AttemptResult::Redirect => "redirect",
            AttemptResult::RateLimited => "rate_limited",
            AttemptResult::ClientError => "client_error",
            AttemptResult::ServerError => "server_error",
            AttemptResult::Timeout => "timeout",
            AttemptResult::Ambiguous => "ambiguous",
            AttemptResult::InvalidResponse => "invalid_response",
            AttemptResult::Interrupted => "interrupted",
            AttemptResult::Connect => "connect",
            AttemptResult::Tls => "tls",
            AttemptResult::Dns => "dns",
            AttemptResult::Blocked => "blocked",
            AttemptResult::NotProcessed => "not_processed",
            AttemptResult::Payload => "payload",
        }
    }

    /// Whether the request left: `no`, `maybe` or `yes`.
    #[must_use]
    pub fn sent(self) -> &'static str {
        match self {
            AttemptResult::Success
            | AttemptResult::Redirect
            | AttemptResult::RateLimited
            | AttemptResult::ClientError
            | AttemptResult::ServerError => "yes",
            AttemptResult::Timeout
            | AttemptResult::Ambiguous
            | AttemptResult::InvalidResponse
            | AttemptResult::Interrupted => "maybe",
            AttemptResult::Connect
            | AttemptResult::Tls
            | AttemptResult::Dns
            | AttemptResult::Blocked
            | AttemptResult::NotProcessed
            | AttemptResult::Payload => "no",
        }
    }
}

/// How a delivery ended (API.md, `outcome`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    Delivered,
    /// A permanent response.
    Rejected,
    /// `max_failures` used up.
    Exhausted,
    /// `expires_at` passed.
    Expired,
    Cancelled,
    /// The body was erased while it waited, or its reference is gone.
    PayloadGone,
    /// 410.
    DestinationGone,
    /// Never sent until an operator retries it: damaged on disk, or it seems to kill the process.
    Quarantined,
}

impl Ending {
    /// All of them, in the order of their disk codes.
    pub const ALL: [Ending; 8] = [
        Ending::Delivered,
        Ending::Rejected,
        Ending::Exhausted,
        Ending::Expired,
        Ending::Cancelled,
        Ending::PayloadGone,
        Ending::DestinationGone,
        Ending::Quarantined,
    ];

    /// The word for it in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Ending::Delivered => "delivered",
            Ending::Rejected => "rejected",
            Ending::Exhausted => "exhausted",
            Ending::Expired => "expired",
            Ending::Cancelled => "cancelled",
            Ending::PayloadGone => "payload_gone",
            Ending::DestinationGone => "destination_gone",
            Ending::Quarantined => "quarantined",
        }
    }
}

/// Why a delivery waits (API.md, `next_reason`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NextReason {
    New,
    Scheduled,
    RateLimited,
    Backoff,
    Payload,
    LeaseExpired,
    SenderRestart,
    Operator,
}

impl NextReason {
    /// All of them, in the order of their disk codes.
    pub const ALL: [NextReason; 8] = [
        NextReason::New,
        NextReason::Scheduled,
        NextReason::RateLimited,
        NextReason::Backoff,
        NextReason::Payload,
        NextReason::LeaseExpired,
        NextReason::SenderRestart,
        NextReason::Operator,
    ];

    /// The word for it in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            NextReason::New => "new",
            NextReason::Scheduled => "scheduled",
            NextReason::RateLimited => "rate_limited",
            NextReason::Backoff => "backoff",
            NextReason::Payload => "payload",
            NextReason::LeaseExpired => "lease_expired",
            NextReason::SenderRestart => "sender_restart",
            NextReason::Operator => "operator",
        }
    }
}

/// Why a destination lets nothing through until a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldReason {
    RateLimited,
    Unavailable,
    Operator,
}

impl HoldReason {
    /// All of them.
    pub const ALL: [HoldReason; 3] = [HoldReason::RateLimited, HoldReason::Unavailable, HoldReason::Operator];

    /// The word for it in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            HoldReason::RateLimited => "rate_limited",
            HoldReason::Unavailable => "unavailable",
            HoldReason::Operator => "operator",
        }
    }
}
