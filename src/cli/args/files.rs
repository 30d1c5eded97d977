//! The arguments of what is done to files and to the whole server: backups, claims.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Files;

/// One file that no server has open.
#[derive(Debug, Args)]
pub(in crate::cli) struct OneFile {
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
    Stop,
    /// Send again, after a stop or a restore
    Start,
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
