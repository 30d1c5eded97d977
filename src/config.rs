//! Settings, resolved once: flag over environment over file over default.
//!
//! Nothing else in the program reads ours in the environment, and nothing here opens a socket or the
//! data file. A key that is unknown is refused by name: a setting that is silently ignored is worse
//! than a server that does not start.

mod access;
mod error;
mod layers;
pub mod near;
mod read;
mod shown;
mod value;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use ipnet::IpNet;
use url::Url;

use crate::model::class::RESERVE_DEFAULT_PERMILLE;
use crate::model::{self, ClassSettings, Name, Prefix, TenantQuotas, TenantWeights};
use crate::policy::Policy;
use crate::time::Millis;

pub use access::{Auth, Listen, Listener, Scope, TlsFiles, Token};
pub use error::{ConfigError, Origin};
pub use shown::{Shown, differences};

/// Every setting, resolved once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Stamped into the data file when it is made.
    pub region: Name,
    pub data: PathBuf,
    /// How long a stop waits for what is in flight.
    pub shutdown_timeout: Millis,
    /// Empty: the machine's own id.
    pub host_id: String,
    pub log: Log,
    pub ingest: Ingest,
    pub admin: Listener,
    /// None: off
    pub metrics: Option<Listener>,
    /// Destinations that metrics show one by one.
    pub metrics_destinations: usize,
    pub send: Send,
    pub payload_refs: PayloadRefs,
    /// Always has one named `default`.
    pub policies: BTreeMap<Name, Policy>,
    /// The built-in ones in the order of their numbers, then the others by name; at most
    /// [`model::MAX_CLASSES`].
    pub classes: Vec<ClassSettings>,
    /// Thousandths of the slots that only first attempts may take.
    pub reserve_permille: u32,
    pub tenant_weights: TenantWeights,
    pub tenant_quotas: TenantQuotas,
    pub retention: Retention,
    /// None: no rolling snapshots.
    pub backup: Option<Backup>,
    pub tokens: Vec<Token>,
}

/// The rolling snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// Beside the data file, unless it is absolute.
    pub dir: PathBuf,
    pub every: Millis,
    pub keep: usize,
}

/// What is logged and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// One of `error`, `warn`, `info`, `debug`, `trace`.
    pub level: String,
    pub format: LogFormat,
}

/// The form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    Auto,
    Text,
    Json,
}

/// What producers meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ingest {
    pub listener: Listener,
    /// Bytes of a body, after base64.
    pub max_payload: usize,
    /// Deliveries that have not ended.
    pub max_deliveries: u64,
    /// Bytes of the disk that are to stay free; below it nothing is taken. 0: whatever is free.
    pub min_free_disk: u64,
    pub max_connections: usize,
    pub body_timeout: Millis,
}

/// How requests go out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Send {
    /// Requests in flight, all destinations together.
    pub slots: u32,
    /// The whole attempt, unless the destination sets its own.
    pub timeout: Millis,
    /// Never over `timeout`.
    pub connect_timeout: Millis,
    pub destination_concurrency: u32,
    /// What every request goes through; payloads do not.
    pub proxy: Option<Url>,
    /// Certificates trusted beside the system's.
    pub ca_file: Option<PathBuf>,
    pub keep_response_excerpt: bool,
    pub allow_http: bool,
    pub ports: Vec<u16>,
    pub allow_cidrs: Vec<IpNet>,
}

/// Where payloads may be that are not in their requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PayloadRefs {
    /// Empty: references are refused.
    pub allow: Vec<Prefix>,
    /// For reading one, before its attempt.
    pub timeout: Millis,
}

/// How long what has ended is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Record, attempts and key.
    pub terminal: Millis,
    pub max_terminal: u64,
    /// Never over `terminal`, like `failed_payload`: no body outlives its record.
    pub delivered_payload: Millis,
    pub failed_payload: Millis,
    /// Entries of the audit log.
    pub audit: Millis,
}

/// Where settings come from, most telling first.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// `--region`
    pub region: Option<String>,
    /// `--data`
    pub data: Option<String>,
    /// `--config`; without it the environment's `DUEHOOK_CONFIG`; without both, no file is read.
    pub config: Option<PathBuf>,
    /// See [`environment`].
    pub environment: Environment,
}

/// The variables whose names begin with `DUEHOOK_`.
pub type Environment = BTreeMap<String, OsString>;

/// Destinations that metrics show one by one, unless set: four series each.
const METRICS_DESTINATIONS_DEFAULT: usize = 20;

/// What the names of our variables begin with.
pub const PREFIX: &str = "DUEHOOK_";

/// Reads the environment: the only function of the program that does, except for what systemd
/// sets, `NOTIFY_SOCKET` and `WATCHDOG_USEC`, which the crate `sd-notify` reads itself.
#[must_use]
pub fn environment() -> Environment {
    let ours = |(name, value): (OsString, OsString)| {
        let name = name.to_string_lossy().into_owned();
        name.starts_with(PREFIX).then_some((name, value))
    };
    std::env::vars_os().filter_map(ours).collect()
}

/// Resolves every setting.
///
/// # Errors
/// The first key that cannot be read, is unknown, or has a value that is not allowed.
pub fn load(sources: &Sources) -> Result<Settings, ConfigError> {
    loaded(sources).map(|loaded| loaded.settings)
}

/// Every setting, and how each is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    pub settings: Settings,
    /// In the order of the tables of the example file.
    pub shown: Vec<Shown>,
}

/// The same with where each value comes from.
///
/// # Errors
/// As [`load`].
pub fn loaded(sources: &Sources) -> Result<Loaded, ConfigError> {
    let (settings, origins) = read::settings(layers::Layers::gather(sources)?)?;
    let shown = shown::all(&settings, &origins);
    Ok(Loaded { settings, shown })
}

/// Resolves every setting from the text of a file alone.
///
/// # Errors
/// As [`load`].
pub fn parse(text: &str) -> Result<Settings, ConfigError> {
    read::settings(layers::Layers::of_text(text)?).map(|(settings, _)| settings)
}

impl Default for Settings {
    /// What is in force when nothing is set.
    fn default() -> Settings {
        Settings {
            region: "local".parse().expect("local is a name"),
            data: PathBuf::from("duehook.redb"),
            shutdown_timeout: Millis::seconds(20),
            host_id: String::new(),
            log: Log { level: "info".into(), format: LogFormat::Auto },
            ingest: Ingest::default(),
            admin: Listener::loopback(8461),
            metrics: None,
            metrics_destinations: METRICS_DESTINATIONS_DEFAULT,
            send: Send::default(),
            payload_refs: PayloadRefs::default(),
            policies: BTreeMap::from([(default_policy(), Policy::default())]),
            classes: ClassSettings::first(),
            reserve_permille: RESERVE_DEFAULT_PERMILLE,
            tenant_weights: TenantWeights::default(),
            tenant_quotas: TenantQuotas::default(),
            retention: Retention::default(),
            backup: Some(Backup::default()),
            tokens: Vec::new(),
        }
    }
}

/// The name of the policy from which the others take what they do not set.
#[must_use]
pub fn default_policy() -> Name {
    "default".parse().expect("default is a name")
}

impl Default for Backup {
    fn default() -> Backup {
        Backup { dir: PathBuf::from("backup"), every: Millis::seconds(3_600), keep: 3 }
    }
}

impl Default for Ingest {
    fn default() -> Ingest {
        Ingest {
            listener: Listener::loopback(8460),
            max_payload: model::MAX_PAYLOAD_DEFAULT,
            max_deliveries: 20_000_000,
            min_free_disk: 1 << 30,
            max_connections: 1024,
            body_timeout: Millis::seconds(15),
        }
    }
}

impl Default for Send {
    fn default() -> Send {
        Send {
            slots: 4096,
            timeout: Millis::seconds(15),
            connect_timeout: Millis::seconds(5),
            destination_concurrency: model::destination::CONCURRENCY_DEFAULT,
            proxy: None,
            ca_file: None,
            keep_response_excerpt: false,
            allow_http: false,
            ports: vec![443, 8443],
            allow_cidrs: Vec::new(),
        }
    }
}

impl Default for PayloadRefs {
    fn default() -> PayloadRefs {
        PayloadRefs { allow: Vec::new(), timeout: Millis::seconds(5) }
    }
}

impl Default for Retention {
    fn default() -> Retention {
        const DAY: u64 = 24 * 3_600;
        Retention {
            terminal: Millis::seconds(30 * DAY),
            max_terminal: 10_000_000,
            delivered_payload: Millis(0),
            failed_payload: Millis::seconds(7 * DAY),
            audit: Millis::seconds(90 * DAY),
        }
    }
}

#[cfg(test)]
#[path = "config/tests.rs"]
mod tests;
