//! What a PUT or a PATCH makes of a destination's settings.
//!
//! PATCH is a JSON merge patch (RFC 7396): null puts a field back to its default, objects merge.
//! PUT is the same upon a destination that has nothing set.

mod keys;
mod pace;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use ipnet::IpNet;
use serde_json::value::RawValue;
use url::Url;

use crate::http::app::{Defaults, Rulebook};
use crate::http::dto::destination::MASK;
use crate::http::error::Problem;
use crate::http::fields::{Fields, Object, REPEATED, cut, out_of};
use crate::http::ingest::item::read_header;
use crate::model::destination::{CONNECT_TIMEOUT_RANGE, MAX_CIDRS, MAX_URL, TIMEOUT_RANGE};
use crate::model::{Destination, Header, HoldScope, MAX_HEADERS, Name};
use crate::sender::egress::{self, Rules};
use crate::time::Millis;

/// Fields that a read shows and nobody sets here.
const READ_ONLY: [&str; 19] = [
    "id",
    "state",
    "state_reason",
    "state_since",
    "state_by",
    "in_flight",
    "limit",
    "waiting",
    "delayed",
    "oldest_due_at",
    "hold_until",
    "hold_reason",
    "breaker",
    "last_success_at",
    "failing_since",
    "failure_streak",
    "learnt_rate",
    "observed_retry_after",
    "recovery",
];
/// Policies that a refusal names: more are a list.
const MAX_NAMED: usize = 20;
/// The policy of a destination that names none.
const DEFAULT_POLICY: &str = "default";

/// What settings are checked by.
#[derive(Clone, Copy, Debug)]
pub struct Checks<'a> {
    pub rules: &'a Rules,
    pub policies: &'a BTreeSet<Name>,
    pub defaults: Defaults,
}

impl<'a> Checks<'a> {
    /// Those of this server.
    #[must_use]
    pub fn of(now: &'a Rulebook) -> Checks<'a> {
        Checks { rules: &now.rules, policies: &now.policies, defaults: now.defaults }
    }
}

/// What a request makes of a destination.
#[derive(Debug, PartialEq, Eq)]
pub struct Wanted {
    pub settings: Destination,
    /// It says nothing of secrets: those that are stored stay.
    pub keep_secrets: bool,
}

/// Reads `text` upon `base`: None for a PUT, what is stored for a PATCH.
///
/// # Errors
/// 400 when it is not an object, 422 naming every field at fault.
pub fn read(text: &[u8], base: Option<&Destination>, checks: &Checks<'_>) -> Result<Wanted, Problem> {
    let mut fields = Fields::read(text)?;
    let wanted = take(&mut fields, base, checks);
    fields.finish(&READ_ONLY)?;
    wanted.ok_or_else(|| Problem::invalid(Vec::new()))
}

/// Takes every setting from `fields`; None, with a fault, where one that must be there is not.
pub fn take(fields: &mut Fields<'_>, base: Option<&Destination>, checks: &Checks<'_>) -> Option<Wanted> {
    let tenant = tenant(fields, base);
    let policy = policy(fields, base, checks);
    let (concurrency_max, adaptive) = pace::concurrency(fields, base, checks);
    let rate = pace::rate(fields, base);
    let timeout = timeout(fields, base, checks);
    let connect_timeout = connect_timeout(fields, base, checks);
    let headers = headers(fields, base);
    let secrets = keys::secrets(fields);
    let tls = keys::tls(fields, base);
    let allow_cidrs = cidrs(fields, base);
    let hold_scope = hold_scope(fields, base);
    let url = admitted(fields, base, &allow_cidrs, checks);
    let (tenant, url, policy) = (tenant?, url?, policy?);
    let keep_secrets = secrets.is_none();
    let settings = Destination {
        tenant,
        url,
        concurrency_max,
        adaptive,
        rate,
        policy,
        timeout,
        connect_timeout,
        headers,
        secrets: secrets.unwrap_or_default(),
        tls,
        allow_cidrs,
        hold_scope,
    };
    Some(Wanted { settings, keep_secrets })
}

/// What a field's absence, its null and its value lead to.
enum Given<'a> {
    Absent,
    Null,
    Value(&'a RawValue),
}

fn given<'a>(fields: &mut Fields<'a>, name: &'static str) -> Given<'a> {
    match fields.raw(name) {
        None => Given::Absent,
        Some(value) if value.get() == "null" => Given::Null,
        Some(value) => Given::Value(value),
    }
}

/// The text of a field that must be there: stored before or given now.
fn needed(fields: &mut Fields<'_>, name: &'static str, stored: Option<String>) -> Option<String> {
    match given(fields, name) {
        Given::Absent if stored.is_some() => stored,
        Given::Absent | Given::Null => {
            fields.missing(name);
            None
        }
        Given::Value(value) => match serde_json::from_str(value.get()) {
            Ok(text) => Some(text),
            Err(_) => fields.refuse(name, "must be a string"),
        },
    }
}

fn tenant(fields: &mut Fields<'_>, base: Option<&Destination>) -> Option<Name> {
    let text = needed(fields, "tenant", base.map(|base| base.tenant.to_string()))?;
    match text.parse::<Name>() {
        Ok(name) => Some(name),
        Err(error) => fields.refuse("tenant", error.to_string()),
    }
}

fn policy(fields: &mut Fields<'_>, base: Option<&Destination>, checks: &Checks<'_>) -> Option<Name> {
    let stored = base.map(|base| base.policy.to_string());
    let text = match given(fields, "policy") {
        Given::Absent => stored.unwrap_or_else(|| DEFAULT_POLICY.to_owned()),
        Given::Null => DEFAULT_POLICY.to_owned(),
        Given::Value(value) => serde_json::from_str(value.get()).unwrap_or_default(),
    };
    match text.parse() {
        Ok(name) if checks.policies.contains(&name) => Some(name),
        Ok(_) | Err(_) => {
            let names: Vec<&str> = checks.policies.iter().take(MAX_NAMED).map(Name::as_str).collect();
            fields.refuse("policy", format!("must be the name of a configured policy: {}", names.join(", ")))
        }
    }
}

/// A number: absent keeps, null sets the default, a value must lie in `range`.
fn number(
    value: Option<&RawValue>,
    range: RangeInclusive<u64>,
    stored: u64,
    default: u64,
) -> Result<u64, String> {
    match value.map(RawValue::get) {
        None => Ok(stored),
        Some("null") => Ok(default),
        Some(text) => {
            let number = serde_json::from_str(text).ok().filter(|number| range.contains(number));
            number.ok_or_else(|| out_of(&range))
        }
    }
}

fn timeout(fields: &mut Fields<'_>, base: Option<&Destination>, checks: &Checks<'_>) -> Millis {
    let default = checks.defaults.timeout;
    let stored = base.map_or(default, |base| base.timeout);
    wait(fields, "timeout_ms", TIMEOUT_RANGE, stored, default)
}

fn connect_timeout(fields: &mut Fields<'_>, base: Option<&Destination>, checks: &Checks<'_>) -> Millis {
    let default = checks.defaults.connect_timeout;
    let stored = base.map_or(default, |base| base.connect_timeout);
    wait(fields, "connect_timeout_ms", CONNECT_TIMEOUT_RANGE, stored, default)
}

fn wait(
    fields: &mut Fields<'_>,
    name: &'static str,
    range: RangeInclusive<u64>,
    stored: Millis,
    default: Millis,
) -> Millis {
    match number(fields.raw(name), range, stored.0, default.0) {
        Ok(ms) => Millis(ms),
        Err(detail) => {
            fields.fault(name, detail);
            stored
        }
    }
}

/// Merges by name; the order is that of the names, so that it does not depend on the request.
fn headers(fields: &mut Fields<'_>, base: Option<&Destination>) -> Vec<Header> {
    let stored = base.map(|base| base.headers.clone()).unwrap_or_default();
    let patch = match given(fields, "headers") {
        Given::Absent => return stored,
        Given::Null => return Vec::new(),
        Given::Value(value) => value,
    };
    let mut merged: BTreeMap<String, Header> =
        stored.into_iter().map(|header| (header.name().to_owned(), header)).collect();
    merge_headers(fields, patch, &mut merged);
    if merged.len() > MAX_HEADERS {
        fields.fault("headers", format!("at most {MAX_HEADERS} headers"));
    }
    merged.into_values().collect()
}

fn merge_headers(fields: &mut Fields<'_>, patch: &RawValue, merged: &mut BTreeMap<String, Header>) {
    let Ok(entries) = serde_json::from_str::<Object<'_>>(patch.get()) else {
        fields.fault("headers", "must be an object");
        return;
    };
    let mut seen = BTreeSet::new();
    for (name, value) in entries.0 {
        if !seen.insert(name.to_ascii_lowercase()) {
            fields.fault(format!("headers.{}", cut(&name)), REPEATED);
        }
        if value.get() == "null" {
            merged.remove(&name.to_ascii_lowercase());
            continue;
        }
        match read_header(&name, value) {
            Ok(header) if header.value() == MASK => {
                fields.fault(format!("headers.{}", cut(&name)), "this is the mask of a read, not a value");
            }
            Ok(header) => drop(merged.insert(header.name().to_owned(), header)),
            Err(detail) => fields.fault(format!("headers.{}", cut(&name)), detail),
        }
    }
}

fn cidrs(fields: &mut Fields<'_>, base: Option<&Destination>) -> Vec<IpNet> {
    let stored = base.map(|base| base.allow_cidrs.clone()).unwrap_or_default();
    let value = match given(fields, "allow_cidrs") {
        Given::Absent => return stored,
        Given::Null => return Vec::new(),
        Given::Value(value) => value,
    };
    let Ok(texts) = serde_json::from_str::<Vec<String>>(value.get()) else {
        fields.fault("allow_cidrs", "must be a list of strings");
        return Vec::new();
    };
    if texts.len() > MAX_CIDRS {
        fields.fault("allow_cidrs", format!("at most {MAX_CIDRS} networks"));
    }
    let networks: Result<Vec<IpNet>, _> = texts.iter().take(MAX_CIDRS).map(|text| text.parse()).collect();
    networks.unwrap_or_else(|_| {
        fields.fault("allow_cidrs", "must be networks such as 10.0.0.0/8");
        Vec::new()
    })
}

fn hold_scope(fields: &mut Fields<'_>, base: Option<&Destination>) -> HoldScope {
    let stored = base.map_or(HoldScope::Destination, |base| base.hold_scope);
    match given(fields, "hold_scope") {
        Given::Absent => stored,
        Given::Null => HoldScope::Destination,
        Given::Value(value) => match value.get() {
            "\"destination\"" => HoldScope::Destination,
            "\"delivery\"" => HoldScope::Delivery,
            _ => {
                fields.fault("hold_scope", "must be destination or delivery");
                stored
            }
        },
    }
}

/// The URL, admitted by the egress rules with the networks the destination has now.
fn admitted(
    fields: &mut Fields<'_>,
    base: Option<&Destination>,
    allow_cidrs: &[IpNet],
    checks: &Checks<'_>,
) -> Option<Url> {
    let text = needed(fields, "url", base.map(|base| base.url.to_string()))?;
    if text.len() > MAX_URL {
        return fields.refuse("url", format!("at most {MAX_URL} bytes"));
    }
    match egress::admit(checks.rules, &text, allow_cidrs) {
        Ok(url) => Some(url),
        Err(refusal) => fields.refuse("url", refusal.to_string()),
    }
}

#[cfg(test)]
#[path = "input/tests.rs"]
mod tests;
