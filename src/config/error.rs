//! Why settings are refused, and where a value came from.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Where a value was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    Default,
    /// The line counts from 1.
    File {
        line: usize,
    },
    /// The name of the variable.
    Environment(String),
    /// With its dashes.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File { line } => write!(f, "config file, line {line}"),
            Origin::Environment(name) => write!(f, "environment, {name}"),
            Origin::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// Settings that are refused: `serve` exits 78.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read the config file {}: {source}", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("config file, line {line}: {reason}")]
    Syntax { line: usize, reason: String },
    /// What is said of what there is begins with what was perhaps meant.
    #[error("unknown {kind} {key} ({origin}){known}")]
    Unknown { kind: &'static str, key: String, origin: Origin, known: String },
    #[error("{key} ({origin}): must be {allowed}")]
    Invalid { key: String, origin: Origin, allowed: String },
}
