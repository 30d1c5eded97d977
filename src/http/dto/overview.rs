//! Figures and health: stats, version, healthz, readyz.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::driver::handle::Health;
use crate::engine::live::{ClassLive, DiskLive, Live};
use crate::engine::rank::{DestinationRow, TenantRow};
use crate::http::dto::{Text, rounded, time};
use crate::http::openapi::words;
use crate::model::Name;
use crate::time::{Millis, Timestamp};

/// The heartbeat commits every 10 s: after three missed ones something is wrong.
pub const COMMIT_AGE_LIMIT: Millis = Millis(30_000);
/// A hold keeps commits back for at most 30 s (API.md), and may begin right before a heartbeat.
const HELD_AGE_LIMIT: Millis = Millis(60_000);
const MINUTE: Millis = Millis(60_000);

/// The totals.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Stats")]
pub struct StatsObject<'a> {
    at: Text<Timestamp>,
    region: &'a str,
    #[schemars(schema_with = "words::claims")]
    claims: &'static str,
    counting: bool,
    slots: SlotsObject,
    accepted_per_second: f64,
    finished_per_second: f64,
    quarantined: u64,
    classes: BTreeMap<&'a str, ClassObject>,
    forecast: Vec<ForecastObject>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Slots")]
struct SlotsObject {
    total: u32,
    in_flight: u32,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ClassStats")]
struct ClassObject {
    ready: u64,
    held: u64,
    delayed: u64,
    leased: u64,
    oldest_ready_ms: Option<u64>,
    oldest_held_ms: Option<u64>,
    claims_per_second: f64,
    window_ms: u64,
    first_attempt_p95_ms: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Forecast")]
struct ForecastObject {
    from: Text<Timestamp>,
    to: Text<Timestamp>,
    due: u64,
}

impl<'a> StatsObject<'a> {
    /// The figures; ages are those at `now`, so that a stuck engine shows.
    #[must_use]
    pub fn of(live: &'a Live, region: &'a Name, claims: &'static str, now: Timestamp) -> StatsObject<'a> {
        let class = |class: &'a ClassLive| (class.name.as_str(), ClassObject::of(class, now));
        let first = Timestamp(live.at.0 / 1_000 * 1_000);
        let minutes = live.forecast.iter().scan(first, |from, due| {
            let to = from.plus(MINUTE);
            Some(ForecastObject { from: Text(std::mem::replace(from, to)), to: Text(to), due: *due })
        });
        StatsObject {
            at: Text(live.at),
            region: region.as_str(),
            claims,
            counting: live.counting,
            slots: SlotsObject { total: live.slots, in_flight: live.in_flight },
            accepted_per_second: rounded(live.accepted_per_second),
            finished_per_second: rounded(live.finished_per_second),
            quarantined: live.quarantined,
            classes: live.classes.iter().map(class).collect(),
            forecast: minutes.collect(),
        }
    }
}

impl ClassObject {
    fn of(class: &ClassLive, now: Timestamp) -> ClassObject {
        let age = |since: Option<Timestamp>| since.map(|since| now.since(since).0);
        ClassObject {
            ready: class.ready,
            held: class.held,
            delayed: class.delayed,
            leased: class.leased,
            oldest_ready_ms: age(class.oldest_ready_at),
            oldest_held_ms: age(class.oldest_held_at),
            claims_per_second: rounded(class.claims_per_second),
            window_ms: class.window.0,
            first_attempt_p95_ms: class.first_attempt_p95.map(|p95| p95.0),
        }
    }
}

/// A destination among others.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "DestinationRow")]
pub struct DestinationRowObject<'a> {
    destination: &'a str,
    tenant: &'a str,
    #[schemars(schema_with = "words::destination_state")]
    state: &'static str,
    waiting: u64,
    held: u64,
    in_flight: u32,
    oldest_due_at: Option<Text<Timestamp>>,
    hold_until: Option<Text<Timestamp>>,
    failing_since: Option<Text<Timestamp>>,
}

impl<'a> DestinationRowObject<'a> {
    /// A row of a ranking; a hold is shown only while it is ahead.
    #[must_use]
    pub fn of(row: &'a DestinationRow, now: Timestamp) -> DestinationRowObject<'a> {
        let DestinationRow {
            name,
            tenant,
            state,
            waiting,
            held,
            in_flight,
            oldest_due_at,
            hold_until,
            failing_since,
        } = row;
        DestinationRowObject {
            destination: name.as_str(),
            tenant: tenant.as_str(),
            state: state.as_str(),
            waiting: *waiting,
            held: *held,
            in_flight: *in_flight,
            oldest_due_at: time(*oldest_due_at),
            hold_until: time(hold_until.filter(|until| *until > now)),
            failing_since: time(*failing_since),
        }
    }
}

/// A tenant among others.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "TenantRow")]
pub struct TenantRowObject<'a> {
    tenant: &'a str,
    destinations: u64,
    waiting: u64,
    held: u64,
    in_flight: u64,
    oldest_due_at: Option<Text<Timestamp>>,
}

impl<'a> TenantRowObject<'a> {
    /// A row of a ranking.
    #[must_use]
    pub fn of(row: &'a TenantRow) -> TenantRowObject<'a> {
        let TenantRow { name, destinations, waiting, held, in_flight, oldest_due_at } = row;
        TenantRowObject {
            tenant: name.as_str(),
            destinations: *destinations,
            waiting: *waiting,
            held: *held,
            in_flight: *in_flight,
            oldest_due_at: time(*oldest_due_at),
        }
    }
}

/// What runs here.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Version")]
pub struct VersionObject<'a> {
    pub version: &'a str,
    pub commit: &'a str,
    pub region: &'a str,
    /// Of the data file.
    pub format: u32,
}

/// Whether the engine's loop and its last commit are recent.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Health")]
pub struct HealthObject {
    pub healthy: bool,
    last_commit_age_ms: u64,
}

impl HealthObject {
    /// What the engine's health says.
    #[must_use]
    pub fn of(health: Health) -> HealthObject {
        let healthy = !health.failed && !is_stale(health);
        HealthObject { healthy, last_commit_age_ms: health.last_commit_age.0 }
    }
}

/// True when a commit should have come by now.
fn is_stale(health: Health) -> bool {
    health.last_commit_age > if health.held { HELD_AGE_LIMIT } else { COMMIT_AGE_LIMIT }
}

/// Whether a delivery would be taken now, and what it depends on.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Ready")]
pub struct ReadyObject {
    pub ready: bool,
    checks: Checks,
}

/// `ok`, or what is wrong. The clock is shown, and refuses nothing.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Checks")]
struct Checks {
    store: &'static str,
    disk: Cow<'static, str>,
    ingest: &'static str,
    #[schemars(schema_with = "words::claims")]
    claims: &'static str,
    clock: Cow<'static, str>,
}

impl ReadyObject {
    /// What the engine's health says.
    #[must_use]
    pub fn of(health: Health) -> ReadyObject {
        let store = match (health.failed, is_stale(health)) {
            (true, _) => "failed",
            (false, true) => "no_recent_commit",
            (false, false) => "ok",
        };
        let ingest = ingest(health);
        let checks =
            Checks { store, disk: disk(health.disk), ingest, claims: health.claims, clock: clock(health) };
        ReadyObject { ready: store == "ok" && ingest == "ok", checks }
    }
}

/// The first reason for which a delivery would be refused now.
fn ingest(health: Health) -> &'static str {
    let reasons = [
        (health.shutting_down, "shutting_down"),
        (health.held, "backup_hold"),
        (health.drained, "draining"),
        (health.disk.low, "disk_low"),
        (health.ingest_queue_full, "queue_full"),
    ];
    reasons.into_iter().find(|(holds, _)| *holds).map_or("ok", |(_, reason)| reason)
}

fn clock(health: Health) -> Cow<'static, str> {
    match (health.clock_unproven.0 / 1_000, health.clock_steps) {
        (0, 0) => "ok".into(),
        (0, 1) => "stepped once since the start".into(),
        (0, steps) => format!("stepped {steps} times since the start").into(),
        (left, _) => format!("leapt forward: nothing is ended by its time for {left} s").into(),
    }
}

/// The numbers are as of the change: what is free now is a metric.
fn disk(disk: DiskLive) -> Cow<'static, str> {
    match disk {
        DiskLive { low: true, free_bytes, kept_bytes } => {
            format!("low: {free_bytes} bytes free of {kept_bytes} that are kept free").into()
        }
        DiskLive { kept_bytes: 0, .. } => "not_checked".into(),
        DiskLive { .. } => "ok".into(),
    }
}

#[cfg(test)]
#[path = "overview/tests.rs"]
mod tests;
