//! What the API answers, as far as a table shows it. Fields that are not known here are
//! ignored, so that an older client reads a newer server.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

/// A page of a list.
#[derive(Debug, Deserialize)]
pub(super) struct Page<T> {
    pub data: Vec<T>,
    #[serde(default)]
    pub next_cursor: Option<String>,
}

/// A page whose items are passed on as they came.
pub(super) type RawPage = Page<Box<RawValue>>;

/// A backup that was made.
#[derive(Debug, Deserialize)]
pub(super) struct Backup {
    pub path: String,
    pub bytes: u64,
    pub deliveries: u64,
    #[serde(default)]
    pub damaged: u64,
    pub took_ms: u64,
}

/// Whether deliveries are claimed.
#[derive(Debug, Deserialize)]
pub(super) struct Claims {
    pub claims: String,
    pub leases_held: u64,
    pub fence: Option<u64>,
}

/// What an import came to.
#[derive(Debug, Deserialize)]
pub(super) struct Import {
    #[serde(default)]
    pub dry_run: bool,
    #[serde(flatten)]
    pub deliveries: Counts,
    pub destinations: Counts,
    pub rejected: Vec<Rejected>,
    #[serde(default)]
    pub more_rejected: u64,
    #[serde(default)]
    pub stopped: bool,
}

/// How many of a kind are new, replaced, and as they were.
#[derive(Debug, Deserialize)]
pub(super) struct Counts {
    pub imported: u64,
    pub updated: u64,
    pub unchanged: u64,
}

/// A line that was not taken, and why.
#[derive(Debug, Deserialize)]
pub(super) struct Rejected {
    pub line: u64,
    pub problem: super::fault::Problem,
}

/// How many deliveries match.
#[derive(Debug, Deserialize)]
pub(super) struct Counted {
    pub count: u64,
}

/// A bulk job.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Job {
    pub id: String,
    pub action: String,
    pub filter: serde_json::Map<String, serde_json::Value>,
    pub removes: Option<String>,
    pub dry_run: bool,
    pub rate_per_second: Option<u64>,
    pub state: String,
    pub matched: u64,
    pub changed: u64,
    pub skipped: u64,
    pub created_at: Option<String>,
    pub finished_at: Option<String>,
    pub by: String,
}

/// A delivery.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Delivery {
    pub id: String,
    pub tenant: Option<String>,
    pub destination: Option<String>,
    pub class: Option<String>,
    pub idempotency_key: Option<String>,
    pub state: String,
    pub outcome: Option<String>,
    pub cancelling: bool,
    pub attempts: u32,
    pub throttles: u32,
    pub failures: u32,
    pub created_at: Option<String>,
    pub first_attempt_at: Option<String>,
    pub next_attempt_at: Option<String>,
    pub next_reason: Option<String>,
    pub expires_at: Option<String>,
    pub held_until: Option<String>,
    pub finished_at: Option<String>,
    pub lease: Option<Lease>,
    pub last: Option<Last>,
    pub payload: Option<Payload>,
    pub labels: BTreeMap<String, String>,
    pub duplicate: bool,
}

/// Since when an attempt is in flight, and until when it may be.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Lease {
    pub until: Option<String>,
}

/// The last attempt in short.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Last {
    pub n: u32,
    pub result: String,
    pub status: Option<u16>,
    pub error: Option<String>,
    pub at: Option<String>,
}

/// What is known of a body.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Payload {
    /// Where it is read, if it is a reference.
    #[serde(rename = "ref")]
    pub reference: Option<String>,
    /// None for a reference: its length is not known before it is read.
    pub bytes: Option<u64>,
    pub content_type: Option<String>,
    pub erased_at: Option<String>,
}

/// One attempt.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Attempt {
    pub n: u32,
    pub started_at: Option<String>,
    pub ended_at: Option<String>,
    pub result: Option<String>,
    pub sent: Option<String>,
    pub status: Option<u16>,
    pub error: Option<String>,
    pub host: Option<String>,
    pub late: bool,
    pub retry_after: Option<RetryAfter>,
    pub next_attempt_at: Option<String>,
}

/// What the receiver asked for and what was made of it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RetryAfter {
    pub raw: Option<String>,
    pub applied_ms: Option<u64>,
    pub clamped: Option<String>,
}

/// Why a delivery has not been sent yet.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Explanation {
    pub verdict: String,
    pub summary: String,
    pub blocked_by: Vec<Block>,
    pub earliest: Option<String>,
    pub ahead: Option<u64>,
}

/// One thing in the way.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Block {
    pub kind: String,
    pub until: Option<String>,
    pub detail: Option<String>,
}

/// A destination.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Destination {
    pub id: Option<String>,
    pub tenant: Option<String>,
    pub url: Option<String>,
    pub concurrency: Concurrency,
    pub rate: Option<Rate>,
    pub policy: Option<String>,
    pub timeout_ms: Option<u64>,
    pub connect_timeout_ms: Option<u64>,
    /// Only their names are shown.
    pub headers: BTreeMap<String, serde_json::Value>,
    pub allow_cidrs: Vec<String>,
    pub hold_scope: Option<String>,
    pub state: Option<String>,
    pub state_reason: Option<String>,
    pub state_since: Option<String>,
    pub state_by: Option<String>,
    pub in_flight: Option<u64>,
    pub limit: Option<u64>,
    pub waiting: Option<u64>,
    pub delayed: Option<u64>,
    pub oldest_due_at: Option<String>,
    pub hold_until: Option<String>,
    pub hold_reason: Option<String>,
    pub breaker: Option<String>,
    pub learnt_rate: Option<f64>,
    pub observed_retry_after: Option<Observed>,
    pub recovery: Option<Recovery>,
    pub last_success_at: Option<String>,
    pub failing_since: Option<String>,
    pub failure_streak: Option<u64>,
}

/// How many times a receiver named, and how long.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Observed {
    pub count: u64,
    pub p50_ms: u64,
    pub p95_ms: u64,
    pub max_ms: u64,
}

/// How often it came back, how long that took, and what it began with.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Recovery {
    pub count: u64,
    pub p50_ms: u64,
    pub p95_ms: u64,
    pub by_result: BTreeMap<String, u64>,
}

/// The setting of that name.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Concurrency {
    pub max: Option<u32>,
    pub adaptive: bool,
}

/// The setting of that name.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Rate {
    pub per_second: f64,
    pub burst: u32,
}

/// The figures of the whole server.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Stats {
    pub region: String,
    pub claims: String,
    pub counting: bool,
    pub slots: Slots,
    pub accepted_per_second: f64,
    pub finished_per_second: f64,
    pub quarantined: u64,
    pub classes: BTreeMap<String, Class>,
    pub forecast: Vec<Due>,
}

/// Requests that may be in flight, and that are.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Slots {
    pub total: u64,
    pub in_flight: u64,
}

/// The figures of one latency class.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Class {
    pub ready: u64,
    pub held: u64,
    pub delayed: u64,
    pub leased: u64,
    pub oldest_ready_ms: Option<u64>,
    pub oldest_held_ms: Option<u64>,
    pub claims_per_second: f64,
    pub window_ms: Option<u64>,
    pub first_attempt_p95_ms: Option<u64>,
}

/// How many become due in a stretch of time.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Due {
    pub from: String,
    pub due: u64,
}

/// A destination among others.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct DestinationRow {
    pub destination: String,
    pub tenant: String,
    pub state: String,
    pub waiting: u64,
    pub held: u64,
    pub in_flight: u64,
    pub oldest_due_at: Option<String>,
    pub hold_until: Option<String>,
    pub failing_since: Option<String>,
}

/// A tenant among others.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TenantRow {
    pub tenant: String,
    pub destinations: u64,
    pub waiting: u64,
    pub held: u64,
    pub in_flight: u64,
    pub oldest_due_at: Option<String>,
}
