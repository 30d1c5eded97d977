//! Every setting by its key: its default, what is allowed, and what must agree with what.

mod access;
mod references;
mod shares;

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::error::{ConfigError, Origin};
use super::layers::{Layers, Origins};
use super::value::{Reading, Value};
use super::{Backup, Ingest, Listener, Log, LogFormat, Retention, Send, Settings, default_policy};
use crate::model::destination::{CONCURRENCY_MAX, CONNECT_TIMEOUT_RANGE, TIMEOUT_RANGE};
use crate::model::{MAX_AGE_RANGE, MAX_PAYLOAD_LIMIT, Name};
use crate::policy::{Jitter, MAX_DELAY_LIMIT, MAX_STEPS, Policy};
use crate::time::Millis;

/// More requests in flight than a process can have open files is refused at the start; this is
/// only what the arithmetic of slots is tested with.
const MAX_SLOTS: u64 = 100_000;
/// Entries of `ports`, `allow_cidrs` and `allowed_hosts`: each is looked at for every request.
const MAX_LIST: usize = 64;
/// Policies beside `default`: a destination names one, and all are held in RAM.
const MAX_POLICIES: usize = 1_000;
/// No wait after a failure is shorter, so that no policy can make a busy loop.
const MIN_WAIT: Millis = Millis(10);
/// A stop that takes longer is not a stop.
const MAX_SHUTDOWN: Millis = Millis(3_600_000);
/// Destinations that metrics show one by one: each series has a cost where it is scraped.
const MAX_METRICS_DESTINATIONS: u64 = 100;
/// Snapshots that follow each other faster only wear the disk.
const MIN_BACKUP_EVERY: Millis = Millis(1_000);
/// A snapshot that is older is no protection.
const MAX_BACKUP_EVERY: Millis = Millis(30 * DAY.0);
/// Snapshots kept: each is as large as what the file holds.
const MAX_KEPT: u64 = 1_000;
const DAY: Millis = Millis(24 * 3_600_000);
/// Ten years: longer than any rule asks for, and far from overflowing.
const MAX_RETENTION: Millis = Millis(3_650 * DAY.0);
/// Deliveries in one file: two hundred times what has been measured.
const MAX_DELIVERIES: u64 = 1_000_000_000;

/// A petabyte: more than any disk that one file is on.
const MAX_FREE_DISK: usize = 1 << 50;

/// Reads every setting; what is left over is refused.
pub(super) fn settings(mut layers: Layers) -> Result<(Settings, Origins), ConfigError> {
    let default = Settings::default();
    let (tenant_weights, tenant_quotas) = shares::tenants(&mut layers)?;
    let settings = Settings {
        region: layers.take(&["region"], default.region, name)?,
        data: layers.take(&["data"], default.data, path)?,
        shutdown_timeout: layers.take(&["shutdown_timeout"], default.shutdown_timeout, |value| {
            value.duration(Millis(0)..=MAX_SHUTDOWN)
        })?,
        host_id: layers.take(&["host_id"], default.host_id, host_id)?,
        log: log(&mut layers, default.log)?,
        ingest: ingest(&mut layers, default.ingest)?,
        admin: always(&mut layers, "admin", default.admin)?,
        metrics: access::listener(&mut layers, "metrics", None)?,
        metrics_destinations: layers.take(
            &["metrics", "destinations"],
            default.metrics_destinations,
            |value| value.whole(0..=MAX_METRICS_DESTINATIONS),
        )?,
        send: send(&mut layers, default.send)?,
        payload_refs: references::payload_refs(&mut layers, default.payload_refs)?,
        policies: policies(&mut layers)?,
        classes: shares::classes(&mut layers)?,
        reserve_permille: shares::reserve(&mut layers, default.reserve_permille)?,
        tenant_weights,
        tenant_quotas,
        retention: retention(&mut layers, default.retention)?,
        backup: backup(&mut layers, Backup::default())?,
        tokens: access::tokens(&mut layers)?,
    };
    let origins = layers.finish()?;
    access::addresses_differ(&settings, &origins)?;
    access::keys_fit(&settings, &origins)?;
    Ok((settings, origins))
}

fn log(layers: &mut Layers, default: Log) -> Result<Log, ConfigError> {
    let levels = ["error", "warn", "info", "debug", "trace"].map(|level| (level, level.to_owned()));
    let formats = [("auto", LogFormat::Auto), ("text", LogFormat::Text), ("json", LogFormat::Json)];
    Ok(Log {
        level: layers.take(&["log", "level"], default.level, |value| value.choice(&levels))?,
        format: layers.take(&["log", "format"], default.format, |value| value.choice(&formats))?,
    })
}

fn ingest(layers: &mut Layers, default: Ingest) -> Result<Ingest, ConfigError> {
    Ok(Ingest {
        listener: always(layers, "ingest", default.listener)?,
        max_payload: layers.take(&["ingest", "max_payload"], default.max_payload, |value| {
            value.size(1..=MAX_PAYLOAD_LIMIT)
        })?,
        max_deliveries: layers.take(&["ingest", "max_deliveries"], default.max_deliveries, |value| {
            value.whole(1..=MAX_DELIVERIES)
        })?,
        min_free_disk: layers.take(&["ingest", "min_free_disk"], default.min_free_disk, |value| {
            value.size(0..=MAX_FREE_DISK).map(|bytes| bytes as u64)
        })?,
        max_connections: layers
            .take(&["ingest", "max_connections"], default.max_connections, |value| value.whole(1..=65_536))?,
        body_timeout: layers.take(&["ingest", "body_timeout"], default.body_timeout, |value| {
            value.duration(Millis(100)..=Millis::seconds(300))
        })?,
    })
}

/// A listener that cannot be turned off.
fn always(layers: &mut Layers, table: &str, default: Listener) -> Result<Listener, ConfigError> {
    Ok(access::listener(layers, table, Some(default.listen.clone()))?.unwrap_or(default))
}

fn send(layers: &mut Layers, default: Send) -> Result<Send, ConfigError> {
    let timeout = layers.take(&["send", "timeout"], default.timeout, |value| {
        value.duration(Millis(*TIMEOUT_RANGE.start())..=Millis(*TIMEOUT_RANGE.end()))
    })?;
    Ok(Send {
        slots: layers.take(&["send", "slots"], default.slots, |value| value.whole(1..=MAX_SLOTS))?,
        timeout,
        connect_timeout: connect_timeout(layers, timeout, default.connect_timeout)?,
        destination_concurrency: layers.take(
            &["send", "destination_concurrency"],
            default.destination_concurrency,
            |value| value.whole(1..=u64::from(CONCURRENCY_MAX)),
        )?,
        proxy: layers.take(&["send", "proxy"], default.proxy, references::proxy)?,
        ca_file: layers.take(&["send", "ca_file"], default.ca_file, optional_path)?,
        keep_response_excerpt: layers.take(
            &["send", "keep_response_excerpt"],
            default.keep_response_excerpt,
            Value::truth,
        )?,
        allow_http: layers.take(&["send", "allow_http"], default.allow_http, Value::truth)?,
        ports: layers.take(&["send", "ports"], default.ports, |value| value.list(MAX_LIST, port))?,
        allow_cidrs: layers.take(&["send", "allow_cidrs"], default.allow_cidrs, |value| {
            value.list(MAX_LIST, Value::network)
        })?,
    })
}

/// Unless it is set it follows a `timeout` that is shorter.
fn connect_timeout(layers: &mut Layers, timeout: Millis, default: Millis) -> Result<Millis, ConfigError> {
    let key = ["send", "connect_timeout"];
    let origin = layers.origin(&key);
    let chosen = layers.take(&key, default.min(timeout), |value| {
        value.duration(Millis(*CONNECT_TIMEOUT_RANGE.start())..=Millis(*CONNECT_TIMEOUT_RANGE.end()))
    })?;
    agree(chosen <= timeout, "send.connect_timeout", origin, || format!("at most send.timeout, {timeout}"))?;
    Ok(chosen)
}

fn policies(layers: &mut Layers) -> Result<BTreeMap<Name, Policy>, ConfigError> {
    let named = layers.named("policy");
    agree(named.len() <= MAX_POLICIES, "policy", Origin::Default, || {
        format!("at most {MAX_POLICIES} tables [policy.<name>]")
    })?;
    let base = policy(layers, default_policy().as_str(), Policy::default())?;
    let mut all = BTreeMap::new();
    for (text, origin) in named.into_iter().filter(|(text, _)| text != default_policy().as_str()) {
        let name = named_table("policy", &text, origin)?;
        all.insert(name, policy(layers, &text, base.clone())?);
    }
    all.insert(default_policy(), base);
    Ok(all)
}

fn policy(layers: &mut Layers, name: &str, base: Policy) -> Result<Policy, ConfigError> {
    let jitters = [Jitter::Full, Jitter::Half, Jitter::None].map(|jitter| (jitter.as_str(), jitter));
    let wait = |value: &Value| value.duration(MIN_WAIT..=MAX_DELAY_LIMIT);
    let min_origin = layers.origin(&["policy", name, "min_delay"]);
    let policy = Policy {
        schedule: layers.take(&["policy", name, "schedule"], base.schedule, schedule)?,
        jitter: layers.take(&["policy", name, "jitter"], base.jitter, |value| value.choice(&jitters))?,
        min_delay: layers.take(&["policy", name, "min_delay"], base.min_delay, wait)?,
        max_delay: layers.take(&["policy", name, "max_delay"], base.max_delay, wait)?,
        max_failures: layers.take(&["policy", name, "max_failures"], base.max_failures, |value| {
            value.whole(0..=u64::from(u32::MAX))
        })?,
        max_age: layers.take(&["policy", name, "max_age"], base.max_age, |value| {
            value.duration(Millis(*MAX_AGE_RANGE.start())..=Millis(*MAX_AGE_RANGE.end()))
        })?,
        retry_statuses: layers.take(&["policy", name, "retry_statuses"], base.retry_statuses, |value| {
            value.list(MAX_LIST, retry_status)
        })?,
    };
    let key = format!("policy.{name}.min_delay");
    agree(policy.min_delay <= policy.max_delay, &key, min_origin, || {
        format!("at most policy.{name}.max_delay, {}", policy.max_delay)
    })?;
    Ok(policy)
}

fn retention(layers: &mut Layers, default: Retention) -> Result<Retention, ConfigError> {
    let terminal = layers
        .take(&["retention", "terminal"], default.terminal, |value| value.duration(DAY..=MAX_RETENTION))?;
    let body = |value: &Value| value.duration(Millis(0)..=MAX_RETENTION);
    let delivered = layers.take(&["retention", "delivered_payload"], default.delivered_payload, body)?;
    let failed = layers.take(&["retention", "failed_payload"], default.failed_payload, body)?;
    Ok(Retention {
        terminal,
        max_terminal: layers.take(&["retention", "max_terminal"], default.max_terminal, |value| {
            value.whole(1..=MAX_DELIVERIES)
        })?,
        delivered_payload: delivered.min(terminal),
        failed_payload: failed.min(terminal),
        audit: layers
            .take(&["retention", "audit"], default.audit, |value| value.duration(DAY..=MAX_RETENTION))?,
    })
}

/// An empty `dir` is none.
fn backup(layers: &mut Layers, default: Backup) -> Result<Option<Backup>, ConfigError> {
    let dir = layers.take(&["backup", "dir"], Some(default.dir), optional_path)?;
    let every = layers.take(&["backup", "every"], default.every, |value| {
        value.duration(MIN_BACKUP_EVERY..=MAX_BACKUP_EVERY)
    })?;
    let keep = layers.take(&["backup", "keep"], default.keep, |value| value.whole(1..=MAX_KEPT))?;
    Ok(dir.map(|dir| Backup { dir, every, keep }))
}

fn agree(good: bool, key: &str, origin: Origin, allowed: impl FnOnce() -> String) -> Result<(), ConfigError> {
    if good { Ok(()) } else { Err(invalid(key, origin, allowed())) }
}

fn invalid(key: &str, origin: Origin, allowed: String) -> ConfigError {
    ConfigError::Invalid { key: key.into(), origin, allowed }
}

/// The name that the operator chose for `[table.text]`.
fn named_table(table: &str, text: &str, origin: Origin) -> Result<Name, ConfigError> {
    text.parse::<Name>().map_err(|bad| invalid(&format!("{table}.{text}"), origin, strip_must_be(&bad)))
}

fn name(value: &Value) -> Reading<Name> {
    value.text()?.parse().map_err(|bad| strip_must_be(&bad))
}

/// The model's messages begin with what ours has said already.
fn strip_must_be(bad: &impl ToString) -> String {
    bad.to_string().trim_start_matches("must be ").into()
}

fn path(value: &Value) -> Reading<PathBuf> {
    match value.text()? {
        "" => Err("the path of a file".into()),
        text => Ok(text.into()),
    }
}

fn optional_path(value: &Value) -> Reading<Option<PathBuf>> {
    let text = value.text()?;
    Ok((!text.is_empty()).then(|| text.into()))
}

fn host_id(value: &Value) -> Reading<String> {
    let text = value.text()?;
    let good = text.len() <= 128 && text.bytes().all(|b| b.is_ascii_graphic());
    if good { Ok(text.into()) } else { Err("at most 128 visible ASCII characters".into()) }
}

fn schedule(value: &Value) -> Reading<Vec<Millis>> {
    let steps = value.list(MAX_STEPS, |step| step.duration(MIN_WAIT..=MAX_DELAY_LIMIT))?;
    if steps.is_empty() { Err("a list of at least one duration".into()) } else { Ok(steps) }
}

fn port(value: &Value) -> Reading<u16> {
    value.whole(1..=65_535)
}

fn retry_status(value: &Value) -> Reading<u16> {
    match value.whole(400..=499)? {
        429 => Err("a status from 400 to 499 other than 429, which has its own rules".into()),
        status => Ok(status),
    }
}
