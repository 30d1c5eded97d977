//! The arguments of `config` and `audit`.

use clap::{Args as ArgsTrait, Subcommand};

#[derive(Debug, ArgsTrait)]
pub(in crate::cli) struct Config {
    #[command(subcommand)]
    pub command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum ConfigCommand {
    /// Show every setting in force and where it was set; secrets are masked
    #[command(after_help = "Example:\n  duehook config show --set")]
    Show {
        /// Only what is not the default
        #[arg(long)]
        set: bool,
    },
    /// Read file and certificates again: all of it takes effect, or nothing
    #[command(after_help = "Example:\n  duehook config reload")]
    Reload,
}

#[derive(Debug, ArgsTrait)]
pub(in crate::cli) struct Audit {
    /// operator, uid:N or token:ID; several with commas
    #[arg(long)]
    pub by: Option<String>,
    /// destination.update, delivery.retry, config.reload, …; several with commas
    #[arg(long)]
    pub action: Option<String>,
    /// The name of a destination or the id of a delivery; several with commas
    #[arg(long)]
    pub object: Option<String>,
    /// Made at or after: 2026-01-15T12:00:00Z, or 1h for an hour ago
    #[arg(long, value_name = "TIME")]
    pub after: Option<String>,
    /// Made before that time
    #[arg(long, value_name = "TIME")]
    pub before: Option<String>,
    /// Entries at most
    #[arg(long, value_name = "N", default_value_t = 50, conflicts_with = "all")]
    pub limit: u64,
    /// All of them
    #[arg(long)]
    pub all: bool,
}
