//! The arguments of what is done to files and to the whole server: backups, claims, hand-over.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::Files;

/// One file that no server has open.
#[derive(Debug, Args)]
pub(in crate::cli) struct OneFile {
    /// A data file or a backup
    pub file: PathBuf,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Restore {
    /// The backup: it is read in full before anything is replaced
    pub backup: PathBuf,
    #[command(flatten)]
    pub files: Files,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Backup {
    /// Where the server is to write it: a path on its machine that nothing has
    pub path: PathBuf,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Claims {
    #[command(subcommand)]
    pub command: ClaimsCommand,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum ClaimsCommand {
    /// Send nothing more; deliveries are still accepted
    #[command(after_help = "Example:\n  duehook claims stop")]
    Stop,
    /// Send again, after a stop or a restore; after a drain, with its fence
    #[command(after_help = "Examples:\n  duehook claims start\n  duehook claims start --fence 1")]
    Start {
        /// The number that the drain gave
        #[arg(long, value_name = "N")]
        fence: Option<u64>,
    },
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Drain {
    /// How long to wait for what is in flight [default: as long as it can be]
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub wait: Option<Duration>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Export {
    /// A file that nothing has yet [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Import {
    /// The export; - for standard input
    pub file: PathBuf,
    /// Say what would be done, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Leave what comes after the first line that is rejected
    #[arg(long)]
    pub stop_on_error: bool,
}

/// What is asked for instead of a shell's script.
pub(in crate::cli) const MANUAL: &str = "man";

#[derive(Debug, Args)]
pub(in crate::cli) struct Completions {
    /// The shell, or man for the manual
    #[arg(value_parser = ["bash", "elvish", "fish", "powershell", "zsh", MANUAL])]
    pub shell: String,
    /// Write the manual pages of all commands into this folder
    #[arg(long, value_name = "FOLDER")]
    pub folder: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Token {
    #[command(subcommand)]
    pub command: TokenCommand,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum TokenCommand {
    /// Make a new one; it is shown this once, and nothing keeps it
    #[command(after_help = "Examples:\n  duehook token new shop --scope ingest --tenant acme\n  \
                            duehook token new on-call --scope admin")]
    New {
        /// What it is called in the configuration and in the audit log
        id: String,
        /// ingest, destinations, read or admin; may be given several times
        #[arg(long = "scope", value_name = "SCOPE", required = true,
              value_parser = ["ingest", "destinations", "read", "admin"])]
        scopes: Vec<String>,
        /// The tenant that it is for; may be given several times [default: all]
        #[arg(long = "tenant", value_name = "NAME")]
        tenants: Vec<String>,
    },
}
