//! The drills that can be asked for, and how much of each.

use clap::{Args as ArgsTrait, Subcommand, value_parser};

/// More destinations than a drill can make in reasonable time.
const MAX_DESTINATIONS: u64 = 100_000;
/// More deliveries than a throw-away file should hold.
const MAX_DELIVERIES: u64 = 10_000_000;
/// An hour.
const MAX_SECONDS: u64 = 3_600;

#[derive(Debug, ArgsTrait)]
#[command(subcommand_value_name = "two-destinations|duplicate|saturation|slow|herd|noisy-tenant")]
pub(in crate::cli) struct Drill {
    /// Which promise to try
    #[command(subcommand)]
    pub command: DrillCommand,
}

/// The drills of this version.
#[derive(Clone, Copy, Debug, Subcommand)]
pub(in crate::cli) enum DrillCommand {
    /// A receiver says 429 and must be left alone; another must not notice
    #[command(after_help = "Example:\n  duehook drill two-destinations")]
    TwoDestinations,
    /// One key, however often it is posted, is one delivery
    #[command(after_help = "Example:\n  duehook drill duplicate")]
    Duplicate,
    /// Limited receivers are full of waiting work; fresh work elsewhere must not notice
    #[command(after_help = "Example:\n  duehook drill saturation --deliveries 200000")]
    Saturation(Saturation),
    /// More slow receivers than slots; healthy ones must not wait for them
    #[command(after_help = "Example:\n  duehook drill slow --slots 256 --seconds 30")]
    Slow(Slow),
    /// Far more is due at once than a receiver takes; few may be refused
    #[command(after_help = "Example:\n  duehook drill herd --rate 100 --deliveries 3000")]
    Herd(Herd),
    /// One tenant has a backlog; another must not wait behind it
    #[command(after_help = "Example:\n  duehook drill noisy-tenant --deliveries 100000")]
    NoisyTenant(NoisyTenant),
}

#[derive(Clone, Copy, Debug, ArgsTrait)]
pub(in crate::cli) struct Saturation {
    /// Destinations that only say 429
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = value_parser!(u64).range(1..=MAX_DESTINATIONS))]
    pub destinations: u64,
    /// Deliveries to all of them together
    #[arg(long, value_name = "N", default_value_t = 50_000, value_parser = value_parser!(u64).range(1..=MAX_DELIVERIES))]
    pub deliveries: u64,
    /// How long fresh work is posted
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = value_parser!(u64).range(1..=MAX_SECONDS))]
    pub seconds: u64,
}

#[derive(Clone, Copy, Debug, ArgsTrait)]
pub(in crate::cli) struct Slow {
    /// Receivers that take 25 s
    #[arg(long, value_name = "N", default_value_t = 1_500, value_parser = value_parser!(u64).range(1..=MAX_DESTINATIONS))]
    pub destinations: u64,
    /// Deliveries to each of them
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = value_parser!(u64).range(1..=1_000))]
    pub per_destination: u64,
    /// Slots of the server
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = value_parser!(u32).range(1..))]
    pub slots: u32,
    /// How long deliveries to healthy receivers are posted
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = value_parser!(u64).range(1..=MAX_SECONDS))]
    pub seconds: u64,
}

#[derive(Clone, Copy, Debug, ArgsTrait)]
pub(in crate::cli) struct Herd {
    /// Deliveries that are due at once
    #[arg(long, value_name = "N", default_value_t = 1_500, value_parser = value_parser!(u64).range(1..=MAX_DELIVERIES))]
    pub deliveries: u64,
    /// What the receiver takes a second, and in one go
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = value_parser!(u32).range(1..=10_000))]
    pub rate: u32,
}

#[derive(Clone, Copy, Debug, ArgsTrait)]
pub(in crate::cli) struct NoisyTenant {
    /// Destinations of the noisy tenant
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = value_parser!(u64).range(1..=MAX_DESTINATIONS))]
    pub destinations: u64,
    /// Its deliveries, to all of them together
    #[arg(long, value_name = "N", default_value_t = 60_000, value_parser = value_parser!(u64).range(1..=MAX_DELIVERIES))]
    pub deliveries: u64,
    /// Slots of the server
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = value_parser!(u32).range(1..))]
    pub slots: u32,
    /// The most time it is looked at
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = value_parser!(u64).range(1..=MAX_SECONDS))]
    pub seconds: u64,
}
