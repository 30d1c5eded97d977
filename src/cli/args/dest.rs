//! What can be typed about destinations.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgGroup, Args as ArgsTrait, Subcommand};

#[derive(Debug, ArgsTrait)]
pub(in crate::cli) struct Dest {
    #[command(subcommand)]
    pub command: DestCommand,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum DestCommand {
    /// List destinations by name
    #[command(after_help = "Example:\n  duehook dest ls --tenant acme --state disabled")]
    Ls {
        /// Whose they are
        #[arg(long)]
        tenant: Option<String>,
        /// active, paused, disabled; several with commas
        #[arg(long)]
        state: Option<String>,
        /// Only those that let nothing through for a while: by a 429, a 503 or an operator
        #[arg(long)]
        held: bool,
    },
    /// Show a destination, its settings and how it is doing
    #[command(after_help = "Example:\n  duehook dest get shop-eu")]
    Get(Named),
    /// Create a destination, or change what is given of it
    #[command(
        after_help = "Examples:\n  duehook dest set shop-eu --tenant acme --url https://hooks.example.com/in\n  \
                            duehook dest set shop-eu --concurrency 4 --timeout 20s\n  \
                            duehook dest set shop-eu --rate 10 --burst 5"
    )]
    Set(Box<Set>),
    /// Remove a destination
    #[command(after_help = "Example:\n  duehook dest rm shop-eu")]
    Rm(Named),
    /// Stop sending; new deliveries are accepted and kept
    #[command(after_help = "Example:\n  duehook dest pause shop-eu --reason 'maintenance until noon'")]
    Pause(Reasoned),
    /// End a pause
    #[command(after_help = "Example:\n  duehook dest resume shop-eu")]
    Resume(Reasoned),
    /// End a disabled state
    #[command(after_help = "Example:\n  duehook dest enable shop-eu --reason 'customer is back'")]
    Enable(Reasoned),
    /// Stop sending and refuse new deliveries
    #[command(after_help = "Example:\n  duehook dest disable shop-eu --reason 'contract ended'")]
    Disable(Reasoned),
    /// Let nothing through until a time
    #[command(after_help = "Examples:\n  duehook dest hold shop-eu --for 10m\n  \
                            duehook dest hold shop-eu --until 2026-01-15T12:00:00Z")]
    Hold(Hold),
    /// End a hold, the receiver's own included
    #[command(after_help = "Example:\n  duehook dest release shop-eu")]
    Release(Named),
    /// Send one request now, without a delivery, and show what comes of it
    #[command(after_help = "Examples:\n  duehook dest test shop-eu\n  \
                            duehook dest test shop-eu --data '{\"event\":\"ping\"}'")]
    Test(Trial),
    /// Sign with a new secret, and for a while with those before it too
    #[command(after_help = "Examples:\n  duehook dest rotate shop-eu\n  \
                            duehook dest rotate shop-eu --secret-file new.secret --overlap 7d")]
    Rotate(Rotate),
}

#[derive(Debug, ArgsTrait)]
pub(in crate::cli) struct Named {
    /// The destination's name
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub name: String,
}

#[derive(Debug, ArgsTrait)]
pub(in crate::cli) struct Reasoned {
    /// The destination's name
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub name: String,
    /// Kept and shown with the state
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

#[derive(Debug, ArgsTrait)]
#[command(group(ArgGroup::new("end").args(["until", "for_"]).required(true)))]
pub(in crate::cli) struct Hold {
    /// The destination's name
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub name: String,
    /// The time at which it ends
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// How long it lasts
    #[arg(long = "for", id = "for_", value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub length: Option<Duration>,
    /// Why; it is kept in the audit log
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

#[derive(Debug, ArgsTrait)]
pub(in crate::cli) struct Set {
    /// The destination's name
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub name: String,
    /// Whose it is; cannot be changed later
    #[arg(long)]
    pub tenant: Option<String>,
    /// Where its deliveries are posted to
    #[arg(long)]
    pub url: Option<String>,
    /// The most requests in flight
    #[arg(long, value_name = "N")]
    pub concurrency: Option<u32>,
    /// Let the limit follow what the receiver can take, up to the most in flight
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    pub adaptive: Option<bool>,
    /// Requests a second, such as 10 or 0.5; none: as often as there is work
    #[arg(long, value_name = "N", value_parser = rate, allow_negative_numbers = true)]
    pub rate: Option<RateLimit>,
    /// Requests that may go at once after a rest
    #[arg(long, value_name = "N")]
    pub burst: Option<u32>,
    /// The retry policy's name
    #[arg(long)]
    pub policy: Option<String>,
    /// For the whole attempt
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub timeout: Option<Duration>,
    /// For connecting, out of the whole attempt's time
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub connect_timeout: Option<Duration>,
    /// A request header; may be given several times, and all of them replace the ones there were
    #[arg(long = "header", value_name = "NAME:VALUE")]
    pub headers: Vec<String>,
    /// A network that may be called although it is not public; may be given several times
    #[arg(long = "allow-cidr", value_name = "CIDR")]
    pub allow_cidrs: Vec<String>,
    /// A file with the signing secrets, one a line, the newest first; an empty one removes them
    #[arg(long, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,
    /// A file with certificates that are trusted for this destination
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// A file with the certificate that is shown to the receiver
    #[arg(long, value_name = "FILE", requires = "client_key_file")]
    pub client_cert_file: Option<PathBuf>,
    /// A file with its private key
    #[arg(long, value_name = "FILE", requires = "client_cert_file")]
    pub client_key_file: Option<PathBuf>,
    /// What a 429 holds back: destination or delivery
    #[arg(long, value_name = "SCOPE")]
    pub hold_scope: Option<String>,
}

#[derive(Debug, ArgsTrait)]
pub(in crate::cli) struct Trial {
    /// The destination's name
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub name: String,
    /// The JSON that is sent
    #[arg(long, value_name = "JSON")]
    pub data: Option<String>,
}

#[derive(Debug, ArgsTrait)]
pub(in crate::cli) struct Rotate {
    /// The destination's name
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub name: String,
    /// A file with the new secret [default: one is made, and shown this once]
    #[arg(long, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,
    /// How long the secrets before it go on signing [default: 24h]
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub overlap: Option<Duration>,
}

/// What `--rate` says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::cli) enum RateLimit {
    None,
    PerSecond(f64),
}

/// The server knows the range; what is no number has no JSON.
fn rate(text: &str) -> Result<RateLimit, String> {
    if text == "none" {
        return Ok(RateLimit::None);
    }
    let number = text.parse().ok().filter(|number: &f64| number.is_finite());
    number.map(RateLimit::PerSecond).ok_or_else(|| "must be a number, or none".to_owned())
}
