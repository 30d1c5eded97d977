//! What can be typed: every command, its arguments and an example of each.

pub(super) mod bulk;
pub(super) mod dest;
pub(super) mod drill;
pub(super) mod files;
pub(super) mod settings;
pub(super) mod simulate;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgGroup, Args as ArgsTrait, Parser, Subcommand};

/// Webhook delivery engine: one binary, one file, one region.
#[derive(Debug, Parser)]
#[command(name = "duehook", version, max_term_width = 100, after_help = FIRST_STEPS)]
pub(super) struct Args {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

const FIRST_STEPS: &str = "Examples:
  duehook serve                                   a server on this machine
  duehook receiver                                something to deliver to
  duehook dest set demo --tenant demo --url http://127.0.0.1:9000/ok --allow-cidr 127.0.0.1/32
  echo '{\"hello\":\"world\"}' | duehook send demo";

#[derive(Debug, ArgsTrait)]
pub(super) struct Global {
    /// The server's admin listener [default: DUEHOOK_ADMIN or http://127.0.0.1:8461]
    #[arg(long, global = true, value_name = "URL|unix:PATH")]
    pub admin: Option<String>,
    /// A file that holds the token to ask with [default: DUEHOOK_TOKEN_FILE or none]
    #[arg(long, global = true, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Write JSON: one document, or a line for each item of a list; progress as lines on standard error
    #[arg(long, global = true)]
    pub json: bool,
    /// Do not ask before work is lost
    #[arg(long, global = true)]
    pub yes: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run the server
    #[command(after_help = "Example:\n  duehook serve --config /etc/duehook/duehook.toml --region eu")]
    Serve(Files),
    /// Read the configuration as serve would, and say what is wrong with it
    #[command(after_help = "Example:\n  duehook check-config --config /etc/duehook/duehook.toml")]
    CheckConfig(Files),
    /// Run a receiver that answers as the path of the request asks
    #[command(after_help = RECEIVER_EXAMPLES)]
    Receiver(Receiver),
    /// Start a throw-away server and receivers, and see whether it keeps its promises
    #[command(after_help = "Example:\n  duehook drill two-destinations")]
    Drill(drill::Drill),
    /// Read a whole data file or backup that no server has open, and say what is wrong with it
    #[command(after_help = "Example:\n  duehook verify backup/latest.redb")]
    Verify(files::OneFile),
    /// Put a backup in the place of a data file; nothing is sent until claims are started
    #[command(after_help = "Example:\n  duehook restore backup/latest.redb --data duehook.redb")]
    Restore(files::Restore),
    /// Make a data file smaller that no server has open
    #[command(after_help = "Example:\n  duehook compact duehook.redb")]
    Compact(files::OneFile),
    /// Make a token, and what the server's configuration needs to know of it
    #[command(after_help = "Example:\n  duehook token new shop --scope ingest --tenant acme")]
    Token(files::Token),
    /// Say what a policy makes of a series of answers, without a server
    #[command(after_help = SIMULATE_EXAMPLES)]
    Simulate(Box<simulate::Simulate>),
    /// Write a completion script for a shell, or the manual
    #[command(after_help = "Examples:\n  duehook completions bash > /etc/bash_completion.d/duehook\n  \
                            duehook completions man > duehook.1\n  \
                            duehook completions man --folder /usr/local/share/man/man1")]
    Completions(files::Completions),
    /// Print the version
    #[command(after_help = "Example:\n  duehook version --json")]
    Version,
    #[command(flatten)]
    Ask(Ask),
}

/// The commands that are a question or an order to a server.
#[derive(Debug, Subcommand)]
pub(super) enum Ask {
    /// Hand a body over for delivery; it is on disk when this returns
    #[command(after_help = SEND_EXAMPLES)]
    Send(Box<Send>),
    /// List deliveries, the newest first
    #[command(
        visible_alias = "list",
        after_help = "Examples:\n  duehook ls --destination shop-eu --state delayed\n  \
                      duehook ls --outcome exhausted,rejected --all --json"
    )]
    Ls(Box<List>),
    /// Show one delivery
    #[command(after_help = "Example:\n  duehook get dlv_01KBA0C5B5Q7M1V0X4T2N8R6JD")]
    Get(One),
    /// Say why a delivery has not been sent yet
    #[command(after_help = "Example:\n  duehook explain dlv_01KBA0C5B5Q7M1V0X4T2N8R6JD")]
    Explain(One),
    /// List the attempts of a delivery, the oldest first
    #[command(after_help = "Example:\n  duehook attempts dlv_01KBA0C5B5Q7M1V0X4T2N8R6JD")]
    Attempts(One),
    /// Make a delivery due now; one that has ended begins a new round
    #[command(after_help = "Example:\n  duehook retry dlv_01KBA0C5B5Q7M1V0X4T2N8R6JD")]
    Retry(One),
    /// End a delivery without sending it again
    #[command(after_help = "Example:\n  duehook cancel dlv_01KBA0C5B5Q7M1V0X4T2N8R6JD --yes")]
    Cancel(One),
    /// Erase the body of deliveries, their own headers, labels and what answers said
    #[command(after_help = "Example:\n  duehook erase dlv_01KBA0C5B5Q7M1V0X4T2N8R6JD --yes")]
    Erase(Several),
    /// Retry, cancel or erase all deliveries that match, as a job that can be watched and stopped
    #[command(after_help = bulk::EXAMPLES)]
    Bulk(Box<bulk::Bulk>),
    /// Destinations: list, show, set, remove, stop and start
    #[command(after_help = "Example:\n  duehook dest ls --state paused")]
    Dest(dest::Dest),
    /// Show what waits, what is in flight and what is due in the next hour
    #[command(
        after_help = "Examples:\n  duehook stats --json\n  duehook stats --destinations --sort oldest\n  \
                      duehook stats --tenants --limit 10"
    )]
    Stats(Stats),
    /// Show who changed what, the newest first
    #[command(after_help = "Examples:\n  duehook audit --object shop-eu\n  \
                            duehook audit --by token:shop --after 2026-01-15T00:00:00Z --all --json")]
    Audit(settings::Audit),
    /// Show the settings of a running server and where each comes from, or have them read again
    #[command(after_help = "Examples:\n  duehook config show\n  duehook config reload")]
    Config(settings::Config),
    /// Show the same once a second, with the destinations that have most; q ends it
    #[command(after_help = "Examples:\n  duehook top\n  duehook top --once --json")]
    Top(Top),
    /// Write a verified copy of the data file while the server runs
    #[command(after_help = "Example:\n  duehook backup /mnt/backups/before-upgrade.redb")]
    Backup(files::Backup),
    /// Stop or start all sending
    #[command(after_help = "Examples:\n  duehook claims stop\n  duehook claims start --fence 1")]
    Claims(files::Claims),
    /// Send nothing more and take nothing new, so that another server can take over
    #[command(after_help = "Example:\n  duehook drain --wait 60s")]
    Drain(files::Drain),
    /// Write everything a drained server has, bodies and secrets included
    #[command(after_help = "Examples:\n  duehook export --output hand-over.ndjson\n  \
                            duehook export | zstd > hand-over.ndjson.zst")]
    Export(files::Export),
    /// Take over what another server has exported; safe to run again
    #[command(after_help = "Examples:\n  duehook import hand-over.ndjson --dry-run\n  \
                            zstd -dc hand-over.ndjson.zst | duehook import -")]
    Import(files::Import),
}

const SEND_EXAMPLES: &str = "Examples:
  duehook send shop-eu --data '{\"order\":7}' --key order:7:paid
  duehook send shop-eu --file order.xml --content-type application/xml
  generate-report | duehook send archive --max-age 6h";

const RECEIVER_EXAMPLES: &str = "Examples:
  duehook receiver
  duehook receiver --listen 127.0.0.1:9001";

const SIMULATE_EXAMPLES: &str = "Examples:
  duehook simulate --answers 429:120,500,500,timeout,204
  duehook simulate --answers '503*99'
  duehook simulate --policy patient --config duehook.toml --answers 500,connect,204";

/// Where the settings of a server come from.
#[derive(Clone, Debug, ArgsTrait)]
pub(super) struct Files {
    /// The configuration file [default: DUEHOOK_CONFIG or none]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The data file [default: duehook.redb]
    #[arg(long, value_name = "FILE")]
    pub data: Option<String>,
    /// The region that is stamped into the data file [default: local]
    #[arg(long, value_name = "NAME")]
    pub region: Option<String>,
}

#[derive(Debug, ArgsTrait)]
#[command(group(ArgGroup::new("body").args(["data", "file", "payload_ref"])))]
pub(super) struct Send {
    /// The destination's name
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub destination: String,
    /// The body itself
    #[arg(long, value_name = "TEXT")]
    pub data: Option<String>,
    /// The file that holds the body [default: standard input]
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Where the body is: a reference under a prefix of the server's payload_refs.allow
    #[arg(long, value_name = "URI")]
    pub payload_ref: Option<String>,
    /// The digest that the bytes at the reference must have [default: that of the first read]
    #[arg(long, value_name = "HEX", requires = "payload_ref")]
    pub sha256: Option<String>,
    /// A label to find it by; may be given several times
    #[arg(long = "label", value_name = "NAME=VALUE")]
    pub labels: Vec<String>,
    /// A request header for the receiver; may be given several times
    #[arg(long = "header", value_name = "NAME:VALUE")]
    pub headers: Vec<String>,
    /// The event's own name: a repeat under the same key is not delivered again
    #[arg(long)]
    pub key: Option<String>,
    /// What the body is [default: application/json when the body is JSON, application/octet-stream otherwise]
    #[arg(long, value_name = "TYPE")]
    pub content_type: Option<String>,
    /// Whose delivery it is [default: the destination's tenant]
    #[arg(long)]
    pub tenant: Option<String>,
    /// Its latency class: urgent, routine, bulk or one of the server's own [default: routine]
    #[arg(long)]
    pub class: Option<String>,
    /// Refused unless it is the server's
    #[arg(long)]
    pub region: Option<String>,
    /// The time before which it is not sent, such as 2026-01-15T12:00:00Z
    #[arg(long, value_name = "TIME")]
    pub not_before: Option<String>,
    /// How long it is tried in all, such as 6h [default: the policy's]
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub max_age: Option<Duration>,
    /// Failures after which it is given up [default: the policy's]
    #[arg(long, value_name = "N")]
    pub max_failures: Option<u32>,
}

#[derive(Debug, ArgsTrait)]
pub(super) struct List {
    #[command(flatten)]
    pub matching: bulk::Matching,
    /// -created, created, finished or -finished
    #[arg(long, allow_hyphen_values = true)]
    pub order: Option<String>,
    /// How many to list
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: u64,
    /// List all there are
    #[arg(long, conflicts_with = "limit")]
    pub all: bool,
}

#[derive(Debug, ArgsTrait)]
pub(super) struct One {
    /// The delivery's id
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub id: String,
}

#[derive(Debug, ArgsTrait)]
pub(super) struct Several {
    /// The deliveries' ids
    #[arg(required = true, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    pub ids: Vec<String>,
}

#[derive(Debug, ArgsTrait)]
#[command(group(ArgGroup::new("ranking").args(["tenants", "destinations"])))]
pub(super) struct Stats {
    /// List the tenants that have most
    #[arg(long)]
    pub tenants: bool,
    /// List the destinations that have most
    #[arg(long)]
    pub destinations: bool,
    /// Destinations: held, waiting, oldest or failing; tenants: waiting, in_flight or oldest
    #[arg(long, value_name = "ORDER", requires = "ranking")]
    pub sort: Option<String>,
    /// How many to list
    #[arg(long, default_value_t = 50, requires = "ranking", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: u64,
}

#[derive(Clone, Copy, Debug, ArgsTrait)]
pub(super) struct Top {
    /// Print one frame and end
    #[arg(long)]
    pub once: bool,
}

#[derive(Debug, ArgsTrait)]
pub(super) struct Receiver {
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1:9000")]
    pub listen: SocketAddr,
    /// Do not print a line for each request
    #[arg(long)]
    pub quiet: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    /// The options and arguments of a command and those below it that nothing is said of.
    fn silent(command: &clap::Command, above: &str) -> Vec<String> {
        let path = format!("{above} {}", command.get_name());
        let own =
            command.get_arguments().filter(|it| it.get_help().is_none_or(|help| help.to_string().is_empty()));
        let mut all: Vec<String> = own.map(|it| format!("{path} {}", it.get_id())).collect();
        all.extend(command.get_subcommands().flat_map(|below| silent(below, &path)));
        all
    }

    #[test]
    fn every_option_and_argument_is_described() {
        let all = Args::command();
        assert!(all.get_subcommands().count() > 20);
        assert_eq!(silent(&all, ""), Vec::<String>::new());
    }

    #[test]
    fn a_name_is_not_empty() {
        for line in ["get ", "explain ", "dest get ", "bulk get ", "erase a ", "send "] {
            let words = std::iter::once("duehook").chain(line.split(' '));
            assert!(Args::try_parse_from(words).is_err(), "{line:?}");
        }
    }
}
