//! `receiver` and `drill`: things to try a server with.

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;

use super::args::Receiver;
use super::args::drill::{self, DrillCommand};
use super::fault::Fault;
use super::output::Output;
use super::serve::raise_descriptors;
use crate::drill::receiver::{self, ReceiverOptions};
use crate::drill::{
    DrillError, Manner, Voice, duplicate, herd, noisy_tenant, saturation, slow, two_destinations,
};

/// Runs the scripted receiver until it is interrupted.
pub(super) async fn receiver(output: &Output, options: Receiver) -> Result<ExitCode, Fault> {
    let Receiver { listen, quiet } = options;
    let served = receiver::serve(ReceiverOptions { listen, quiet, json: output.json }).await;
    served.map_err(|error| Fault::Local(format!("cannot listen on {listen}: {error}")))?;
    Ok(ExitCode::SUCCESS)
}

/// Runs one drill; a promise that was not kept is exit code 1.
pub(super) async fn drill(output: &Output, drill: DrillCommand) -> Result<ExitCode, Fault> {
    let manner = match (output.json, std::io::stdout().is_terminal()) {
        (true, _) => Manner::Json,
        (false, true) => Manner::Terminal,
        (false, false) => Manner::Plain,
    };
    // A receiver under load has a connection for each slot of the server.
    raise_descriptors().map_err(|error| Fault::Local(error.to_string()))?;
    let mut voice = Voice::new(manner);
    let kept = run(&mut voice, drill).await;
    match kept.map_err(|error| Fault::Local(error.to_string()))? {
        true => Ok(ExitCode::SUCCESS),
        false => Ok(ExitCode::FAILURE),
    }
}

async fn run(voice: &mut Voice, drill: DrillCommand) -> Result<bool, DrillError> {
    match drill {
        DrillCommand::TwoDestinations => two_destinations::run(voice).await,
        DrillCommand::Duplicate => duplicate::run(voice).await,
        DrillCommand::Saturation(options) => saturation::run(voice, options.into()).await,
        DrillCommand::Slow(options) => slow::run(voice, options.into()).await,
        DrillCommand::Herd(options) => herd::run(voice, options.into()).await,
        DrillCommand::NoisyTenant(options) => noisy_tenant::run(voice, options.into()).await,
    }
}

impl From<drill::Saturation> for saturation::Load {
    fn from(options: drill::Saturation) -> saturation::Load {
        let drill::Saturation { destinations, deliveries, seconds } = options;
        saturation::Load {
            destinations: count(destinations),
            deliveries: count(deliveries),
            length: Duration::from_secs(seconds),
        }
    }
}

impl From<drill::Slow> for slow::Load {
    fn from(options: drill::Slow) -> slow::Load {
        let drill::Slow { destinations, per_destination, slots, seconds } = options;
        slow::Load {
            destinations: count(destinations),
            per_destination: count(per_destination),
            slots,
            length: Duration::from_secs(seconds),
        }
    }
}

impl From<drill::Herd> for herd::Load {
    fn from(options: drill::Herd) -> herd::Load {
        let drill::Herd { deliveries, rate } = options;
        herd::Load { deliveries: count(deliveries), rate }
    }
}

impl From<drill::NoisyTenant> for noisy_tenant::Load {
    fn from(options: drill::NoisyTenant) -> noisy_tenant::Load {
        let drill::NoisyTenant { destinations, deliveries, slots, seconds } = options;
        noisy_tenant::Load {
            destinations: count(destinations),
            deliveries: count(deliveries),
            slots,
            length: Duration::from_secs(seconds),
        }
    }
}

/// What was typed is far below what a machine can count.
fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
