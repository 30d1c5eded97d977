//! Settings as they are shown: by key, as the config file would have them, and where each was set.
//! A secret is never among them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::access::{Listener, Token};
use super::error::Origin;
use super::layers::{Key, Origins};
use super::{LogFormat, Settings, default_policy};
use crate::model::{Quota, TenantQuotas, TenantWeights};
use crate::policy::Policy;
use crate::time::Millis;

/// What stands in the place of a secret.
const MASK: &str = "***";
/// The table of the tenants that are not named.
const ALL_TENANTS: &str = "default";

/// One value in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The tables around it and its own: `["send", "slots"]`. A token's table has its place in the
    /// list as its name.
    pub key: Vec<String>,
    value: Value,
    secret: bool,
    pub origin: Origin,
}

impl Shown {
    /// The value, as the config file would have it; a secret is masked.
    #[must_use]
    pub fn value(&self) -> Value {
        if self.secret { MASK.into() } else { self.value.clone() }
    }

    /// `send.slots`; every setting of a token is called `token`.
    #[must_use]
    pub fn name(&self) -> String {
        match &*self.key {
            [table, ..] if table == "token" => table.clone(),
            key => key.join("."),
        }
    }
}

/// The names of the settings that differ, in order; values are not told.
#[must_use]
pub fn differences(before: &[Shown], after: &[Shown]) -> Vec<String> {
    let one_way = |some: &[Shown], others: &[Shown]| -> BTreeSet<String> {
        let differs =
            |it: &&Shown| !others.iter().any(|other| other.key == it.key && other.value == it.value);
        some.iter().filter(differs).map(Shown::name).collect()
    };
    one_way(before, after).union(&one_way(after, before)).cloned().collect()
}

/// Every value in force, in the order of the example file.
pub(super) fn all(settings: &Settings, origins: &Origins) -> Vec<Shown> {
    let mut list = List { origins, shown: Vec::new() };
    list.top(settings);
    list.ingest(settings);
    list.listener("admin", Some(&settings.admin));
    list.listener("metrics", settings.metrics.as_ref());
    list.put(&["metrics", "destinations"], settings.metrics_destinations);
    list.send(settings);
    for (name, policy) in &settings.policies {
        list.policy(name.as_str(), policy);
    }
    for class in &settings.classes {
        let name = class.name.as_str();
        list.put(&["class", name, "weight"], class.weight);
        list.put(&["class", name, "window"], length(class.window));
    }
    list.put(&["reserve", "first_attempts"], f64::from(settings.reserve_permille) / 1_000.0);
    list.tenants(&settings.tenant_weights, &settings.tenant_quotas);
    list.keeping(settings);
    for (place, token) in settings.tokens.iter().enumerate() {
        list.token(&format!("{place:03}"), token);
    }
    list.shown
}

/// What is shown so far.
struct List<'a> {
    origins: &'a Origins,
    shown: Vec<Shown>,
}

impl List<'_> {
    fn put(&mut self, key: &[&str], value: impl Into<Value>) {
        let key: Key = key.iter().map(ToString::to_string).collect();
        let origin = self.origins.get(&key).cloned().unwrap_or(Origin::Default);
        self.shown.push(Shown { key, value: value.into(), secret: false, origin });
    }

    /// Everything but who set it and that it is set stays hidden.
    fn put_secret(&mut self, key: &[&str], value: impl Into<Value>) {
        self.put(key, value);
        if let Some(last) = self.shown.last_mut() {
            last.secret = true;
        }
    }

    fn top(&mut self, it: &Settings) {
        self.put(&["region"], it.region.as_str());
        self.put(&["data"], it.data.display().to_string());
        self.put(&["shutdown_timeout"], length(it.shutdown_timeout));
        self.put(&["host_id"], &*it.host_id);
        self.put(&["log", "level"], &*it.log.level);
        let format = match it.log.format {
            LogFormat::Auto => "auto",
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        };
        self.put(&["log", "format"], format);
    }

    fn ingest(&mut self, settings: &Settings) {
        let it = &settings.ingest;
        self.listener("ingest", Some(&it.listener));
        self.put(&["ingest", "max_payload"], size(it.max_payload as u64));
        self.put(&["ingest", "max_deliveries"], it.max_deliveries);
        self.put(&["ingest", "min_free_disk"], size(it.min_free_disk));
        self.put(&["ingest", "max_connections"], it.max_connections);
        self.put(&["ingest", "body_timeout"], length(it.body_timeout));
    }

    /// One that is off has no more than an empty `listen`.
    fn listener(&mut self, table: &str, it: Option<&Listener>) {
        let Some(it) = it else { return self.put(&[table, "listen"], "") };
        self.put(&[table, "listen"], it.listen.to_string());
        self.put(&[table, "auth"], it.auth.as_str());
        let tls = it.tls.as_ref();
        let path = |path: Option<&std::path::PathBuf>| path.map(|path| path.display().to_string());
        self.put(&[table, "tls_cert"], path(tls.map(|tls| &tls.cert)).unwrap_or_default());
        self.put(&[table, "tls_key"], path(tls.map(|tls| &tls.key)).unwrap_or_default());
        self.put(&[table, "plaintext"], it.plaintext);
        self.put(&[table, "allowed_hosts"], it.allowed_hosts.clone());
    }

    fn send(&mut self, settings: &Settings) {
        let it = &settings.send;
        self.put(&["send", "slots"], it.slots);
        self.put(&["send", "timeout"], length(it.timeout));
        self.put(&["send", "connect_timeout"], length(it.connect_timeout));
        self.put(&["send", "destination_concurrency"], it.destination_concurrency);
        let proxy = it.proxy.as_ref().map(ToString::to_string);
        self.put(&["send", "proxy"], proxy.unwrap_or_default());
        let ca_file = it.ca_file.as_ref().map(|path| path.display().to_string());
        self.put(&["send", "ca_file"], ca_file.unwrap_or_default());
        self.put(&["send", "keep_response_excerpt"], it.keep_response_excerpt);
        self.put(&["send", "allow_http"], it.allow_http);
        self.put(&["send", "ports"], it.ports.clone());
        let cidrs: Vec<String> = it.allow_cidrs.iter().map(ToString::to_string).collect();
        self.put(&["send", "allow_cidrs"], cidrs);
        let prefixes: Vec<String> = settings.payload_refs.allow.iter().map(ToString::to_string).collect();
        self.put(&["payload_refs", "allow"], prefixes);
        self.put(&["payload_refs", "timeout"], length(settings.payload_refs.timeout));
    }

    fn policy(&mut self, name: &str, it: &Policy) {
        // What a policy does not set comes from where `default` has it.
        let key = |key| ["policy", name, key];
        let from = self.shown.len();
        let schedule: Vec<String> = it.schedule.iter().map(ToString::to_string).collect();
        self.put(&key("schedule"), schedule);
        self.put(&key("jitter"), it.jitter.as_str());
        self.put(&key("min_delay"), length(it.min_delay));
        self.put(&key("max_delay"), length(it.max_delay));
        self.put(&key("max_failures"), it.max_failures);
        self.put(&key("max_age"), length(it.max_age));
        self.put(&key("retry_statuses"), it.retry_statuses.clone());
        self.inherit(from, "policy", default_policy().as_str());
    }

    /// Every tenant that is named, and what the others have.
    fn tenants(&mut self, weights: &TenantWeights, quotas: &TenantQuotas) {
        self.tenant(ALL_TENANTS, weights.default, quotas.default);
        for (name, weight) in &weights.named {
            let from = self.shown.len();
            self.tenant(name.as_str(), *weight, quotas.of(name));
            self.inherit(from, "tenant", ALL_TENANTS);
        }
    }

    fn tenant(&mut self, name: &str, weight: u32, quota: Quota) {
        self.put(&["tenant", name, "weight"], weight);
        self.put(&["tenant", name, "quota_per_second"], quota.per_second);
        self.put(&["tenant", name, "max_waiting"], quota.max_waiting);
    }

    /// What was not set in a named table was set where the table for all has it.
    fn inherit(&mut self, from: usize, table: &str, all: &str) {
        for it in &mut self.shown[from..] {
            if it.origin == Origin::Default
                && let Some(key) = it.key.last()
            {
                let above = vec![table.to_owned(), all.to_owned(), key.clone()];
                it.origin = self.origins.get(&above).cloned().unwrap_or(Origin::Default);
            }
        }
    }

    /// Backups, and how long what has ended is kept.
    fn keeping(&mut self, settings: &Settings) {
        match &settings.backup {
            Some(it) => {
                self.put(&["backup", "dir"], it.dir.display().to_string());
                self.put(&["backup", "every"], length(it.every));
                self.put(&["backup", "keep"], it.keep);
            }
            None => self.put(&["backup", "dir"], ""),
        }
        let it = &settings.retention;
        self.put(&["retention", "terminal"], length(it.terminal));
        self.put(&["retention", "max_terminal"], it.max_terminal);
        self.put(&["retention", "delivered_payload"], length(it.delivered_payload));
        self.put(&["retention", "failed_payload"], length(it.failed_payload));
        self.put(&["retention", "audit"], length(it.audit));
    }

    fn token(&mut self, place: &str, it: &Token) {
        let digest: String = it.sha256.iter().map(|byte| format!("{byte:02x}")).collect();
        let scopes: Vec<&str> = it.scopes.iter().map(|scope| scope.as_str()).collect();
        self.put(&["token", place, "id"], it.id.as_str());
        self.put_secret(&["token", place, "sha256"], digest);
        self.put(&["token", place, "scopes"], json!(scopes));
        if let Some(tenants) = &it.tenants {
            let tenants: Vec<&str> = tenants.iter().map(|name| name.as_str()).collect();
            self.put(&["token", place, "tenants"], json!(tenants));
        }
    }
}

fn length(it: Millis) -> String {
    it.to_string()
}

/// In the largest unit of which it is a whole number.
fn size(bytes: u64) -> Value {
    let units = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.into_iter().find(|(_, unit)| bytes > 0 && bytes.is_multiple_of(*unit)) {
        Some((name, unit)) => format!("{}{name}", bytes / unit).into(),
        None => bytes.into(),
    }
}

#[cfg(test)]
#[path = "shown/tests.rs"]
mod tests;
