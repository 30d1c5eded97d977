//! The sources laid over each other: one value a key, with where it was set.
//!
//! A value leaves when it is read. What is left when all settings are read is unknown.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, Origin};
use super::near;
use super::value::{Reading, Value};
use super::{Environment, PREFIX, Sources};

/// The tables around a key, and the key: `["send", "slots"]`.
pub(super) type Key = Vec<String>;

/// Where keys were set; what is not there was not.
pub(super) type Origins = BTreeMap<Key, Origin>;

/// A config file is at most this long: thousands of policies fit, and it is held in RAM.
const MAX_FILE: u64 = 1024 * 1024;
/// The client's own variables, and the one that names the file.
const OTHER_VARIABLES: [&str; 3] = ["DUEHOOK_ADMIN", "DUEHOOK_TOKEN_FILE", "DUEHOOK_CONFIG"];
/// Keys without a table that have a variable (API.md).
const BARE_VARIABLES: [(&str, &str); 4] = [
    ("DUEHOOK_REGION", "region"),
    ("DUEHOOK_DATA", "data"),
    ("DUEHOOK_SHUTDOWN_TIMEOUT", "shutdown_timeout"),
    ("DUEHOOK_HOST_ID", "host_id"),
];
/// Tables that may stand empty; so may every named one.
const TABLES: [&str; 12] = [
    "backup",
    "log",
    "ingest",
    "admin",
    "metrics",
    "send",
    "payload_refs",
    "policy",
    "class",
    "reserve",
    "tenant",
    "retention",
];
/// Tables of tables: what is below them has a name that the operator chose.
const NAMED: [&str; 4] = ["policy", "class", "tenant", "token"];

/// The one list of tables: `[[token]]`.
const LIST: &str = "token";

/// A value and where it was set.
struct Set {
    value: Value,
    origin: Origin,
}

/// Everything that was set, and what has been asked for so far.
#[derive(Default)]
pub(super) struct Layers {
    set: BTreeMap<Key, Set>,
    /// Every key that was asked for: the keys that exist.
    asked: Vec<Key>,
    /// Where each key was set that was asked for and set.
    origins: Origins,
    /// Every table below one of [`NAMED`], an empty one included: where it was first met.
    named: BTreeMap<(String, String), Origin>,
}

impl Layers {
    /// Lays file, environment and flags over each other.
    pub(super) fn gather(sources: &Sources) -> Result<Layers, ConfigError> {
        let named = sources.environment.get("DUEHOOK_CONFIG").map(Path::new);
        let file = sources.config.as_deref().or(named.filter(|path| !path.as_os_str().is_empty()));
        let mut layers = match file {
            Some(path) => Layers::of_text(&read_file(path)?)?,
            None => Layers::default(),
        };
        layers.add_environment(&sources.environment)?;
        layers.add_flag("--region", "region", sources.region.as_deref());
        layers.add_flag("--data", "data", sources.data.as_deref());
        Ok(layers)
    }

    /// Only what the text of a file sets.
    pub(super) fn of_text(text: &str) -> Result<Layers, ConfigError> {
        let table = DeTable::parse(text).map_err(|error| ConfigError::Syntax {
            line: error.span().map_or(1, |span| line_of(text, span.start)),
            reason: error.message().to_owned(),
        })?;
        let mut layers = Layers::default();
        layers.add_table(text, &[], table.get_ref())?;
        Ok(layers)
    }

    fn add_table(&mut self, text: &str, above: &[String], table: &DeTable<'_>) -> Result<(), ConfigError> {
        for (name, value) in table {
            let key = [above, &[name.get_ref().clone().into_owned()]].concat();
            let origin = Origin::File { line: line_of(text, name.span().start) };
            match value.get_ref() {
                DeValue::Table(inner) if is_table(&key) => {
                    self.note_name(&key, &origin);
                    self.add_table(text, &key, inner)?;
                }
                DeValue::Array(items) if above.is_empty() && *name.get_ref() == LIST => {
                    self.add_list(text, &key, items, &origin)?;
                }
                DeValue::Table(inner) if !inner.is_empty() => self.add_table(text, &key, inner)?,
                DeValue::Table(_)
                | DeValue::String(_)
                | DeValue::Integer(_)
                | DeValue::Float(_)
                | DeValue::Boolean(_)
                | DeValue::Datetime(_)
                | DeValue::Array(_) => self.put(key, value_of(value), origin),
            }
        }
        Ok(())
    }

    /// A list of tables: each gets its place in it as its name.
    fn add_list(
        &mut self,
        text: &str,
        above: &[String],
        items: &[Spanned<DeValue<'_>>],
        origin: &Origin,
    ) -> Result<(), ConfigError> {
        for (place, item) in items.iter().enumerate() {
            let key = [above, &[format!("{place:03}")]].concat();
            let DeValue::Table(inner) = item.get_ref() else {
                self.put(key, Value::Other, origin.clone());
                continue;
            };
            self.note_name(&key, origin);
            self.add_table(text, &key, inner)?;
        }
        Ok(())
    }

    fn add_environment(&mut self, environment: &Environment) -> Result<(), ConfigError> {
        for (name, value) in environment {
            if OTHER_VARIABLES.contains(&name.as_str()) {
                continue;
            }
            let origin = Origin::Environment(name.clone());
            let key = variable(name).ok_or_else(|| unknown_variable(name, &origin))?;
            let word = word(&key, value, &origin)?;
            self.put(key, word, origin);
        }
        Ok(())
    }

    fn add_flag(&mut self, flag: &'static str, key: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.put(vec![key.into()], Value::Word(value.into()), Origin::Flag(flag));
        }
    }

    fn put(&mut self, key: Key, value: Value, origin: Origin) {
        self.note_name(&key, &origin);
        self.set.insert(key, Set { value, origin });
    }

    fn note_name(&mut self, key: &[String], origin: &Origin) {
        if let [table, name, ..] = key
            && NAMED.contains(&table.as_str())
        {
            let key = (table.clone(), name.clone());
            self.named.entry(key).or_insert_with(|| origin.clone());
        }
    }

    /// The value of a key, read by `read`, or `default` when it is not set.
    pub(super) fn take<T>(
        &mut self,
        key: &[&str],
        default: T,
        read: impl FnOnce(&Value) -> Reading<T>,
    ) -> Result<T, ConfigError> {
        let key: Key = key.iter().map(ToString::to_string).collect();
        self.asked.push(key.clone());
        let Some(Set { value, origin }) = self.set.remove(&key) else { return Ok(default) };
        self.origins.insert(key.clone(), origin.clone());
        read(&value).map_err(|allowed| ConfigError::Invalid { key: key.join("."), origin, allowed })
    }

    /// Where a key was set; it must not have been taken yet.
    pub(super) fn origin(&self, key: &[&str]) -> Origin {
        let key: Key = key.iter().map(ToString::to_string).collect();
        self.set.get(&key).map_or(Origin::Default, |set| set.origin.clone())
    }

    /// The names below `table`, one of [`NAMED`], in order, and where each was first met.
    pub(super) fn named(&self, table: &str) -> Vec<(String, Origin)> {
        let below = self.named.iter().filter(|((above, _), _)| above == table);
        below.map(|((_, name), origin)| (name.clone(), origin.clone())).collect()
    }

    /// Refuses what nothing asked for; where the rest was set.
    pub(super) fn finish(self) -> Result<Origins, ConfigError> {
        let Some((key, set)) = self.set.iter().next() else { return Ok(self.origins) };
        Err(self.unknown(key, &set.origin))
    }

    fn unknown(&self, key: &[String], origin: &Origin) -> ConfigError {
        let (last, above) = key.split_last().expect("a key has a name");
        let beside = self.asked.iter().filter(|asked| asked[..asked.len() - 1] == *above);
        let mut keys: Vec<&str> = beside.filter_map(|asked| asked.last()).map(String::as_str).collect();
        keys.dedup();
        let (kind, name, known) = match above {
            [table] if keys.is_empty() && NAMED.contains(&table.as_str()) => {
                ("key", key.join("."), format!("; [{table}] has: tables [{table}.<name>]"))
            }
            // A table that is not there at all, or stands where a key should.
            [table, ..] if keys.is_empty() => {
                ("table", format!("[{}]", above.join(".")), known("the file", table, &TABLES, "[", "]"))
            }
            [] if self.set[key].value == Value::Other && !keys.contains(&last.as_str()) => {
                ("table", format!("[{last}]"), known("the file", last, &TABLES, "[", "]"))
            }
            [] => ("key", key.join("."), known("the top level", last, &keys, "", "")),
            above => ("key", key.join("."), known(&format!("[{}]", above.join(".")), last, &keys, "", "")),
        };
        ConfigError::Unknown { kind, key: name, origin: origin.clone(), known }
    }
}

/// What was perhaps meant by `name`, and all that `place` has.
fn known(place: &str, name: &str, all: &[&str], open: &str, close: &str) -> String {
    let written = |name: &str| format!("{open}{name}{close}");
    let near: Vec<String> = near::of(name, all.iter().copied()).into_iter().map(written).collect();
    let near: Vec<&str> = near.iter().map(String::as_str).collect();
    let all: Vec<String> = all.iter().map(|name| written(name)).collect();
    let all = all.join(", ");
    if near.is_empty() {
        return format!("; {place} has: {all}");
    }
    let (first, rest) = place.split_at(1);
    format!(": {} {}{rest} has: {all}", near::question(&near), first.to_uppercase())
}

fn read_file(path: &Path) -> Result<String, ConfigError> {
    let unreadable = |source| ConfigError::Unreadable { path: path.into(), source };
    let length = std::fs::metadata(path).map_err(unreadable)?.len();
    if length > MAX_FILE {
        return Err(unreadable(std::io::Error::other("it is longer than 1 MiB")));
    }
    std::fs::read_to_string(path).map_err(unreadable)
}

fn is_table(key: &[String]) -> bool {
    match key {
        [table] => TABLES.contains(&table.as_str()),
        [table, _] => NAMED.contains(&table.as_str()),
        _ => false,
    }
}

/// `DUEHOOK_SEND__SLOTS` is `send.slots`, `DUEHOOK_POLICY__SLOW__MAX_AGE` is `policy.slow.max_age`.
fn variable(name: &str) -> Option<Key> {
    if let Some((_, key)) = BARE_VARIABLES.iter().find(|(bare, _)| *bare == name) {
        return Some(vec![(*key).into()]);
    }
    let rest = name.strip_prefix(PREFIX)?.to_ascii_lowercase();
    let parts: Key = rest.split("__").map(str::to_owned).collect();
    let whole = parts.len() >= 2 && parts.iter().all(|part| !part.is_empty());
    whole.then_some(parts)
}

fn unknown_variable(name: &str, origin: &Origin) -> ConfigError {
    let bare = BARE_VARIABLES.iter().map(|(name, _)| *name);
    let all: Vec<&str> = bare.chain(OTHER_VARIABLES).chain(["DUEHOOK_<TABLE>__<KEY>"]).collect();
    let known = known("the environment", name, &all, "", "");
    ConfigError::Unknown { kind: "variable", key: name.into(), origin: origin.clone(), known }
}

fn word(key: &[String], value: &OsStr, origin: &Origin) -> Result<Value, ConfigError> {
    let text = value.to_str().ok_or_else(|| ConfigError::Invalid {
        key: key.join("."),
        origin: origin.clone(),
        allowed: "UTF-8".into(),
    })?;
    Ok(Value::Word(text.into()))
}

fn line_of(text: &str, at: usize) -> usize {
    let before = text.as_bytes().iter().take(at);
    before.filter(|byte| **byte == b'\n').count() + 1
}

fn value_of(value: &Spanned<DeValue<'_>>) -> Value {
    match value.get_ref() {
        DeValue::String(text) => Value::Text(text.clone().into_owned()),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Value::Whole(number),
            Err(_) => Value::Other,
        },
        DeValue::Boolean(truth) => Value::Truth(*truth),
        DeValue::Array(items) => Value::List(items.iter().map(value_of).collect()),
        DeValue::Float(number) => number.as_str().parse().map_or(Value::Other, Value::Fraction),
        DeValue::Datetime(_) | DeValue::Table(_) => Value::Other,
    }
}
