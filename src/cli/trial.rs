//! `receiver` and `drill`: things to try a server with.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use super::args::{DrillCommand, Receiver};
use super::fault::Fault;
use super::output::Output;
use crate::drill::receiver::{self, ReceiverOptions};
use crate::drill::{DrillError, Manner, Voice, duplicate, two_destinations};

/// Runs the scripted receiver until it is interrupted.
pub(super) async fn receiver(output: &Output, options: Receiver) -> Result<ExitCode, Fault> {
    let Receiver { listen, quiet } = options;
    let served = receiver::serve(ReceiverOptions { listen, quiet: quiet || output.json }).await;
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
    let mut voice = Voice::new(manner);
    let kept = match drill {
        DrillCommand::TwoDestinations => two_destinations::run(&mut voice).await,
        DrillCommand::Duplicate => duplicate::run(&mut voice).await,
    };
    match kept.map_err(|error: DrillError| Fault::Local(error.to_string()))? {
        true => Ok(ExitCode::SUCCESS),
        false => Ok(ExitCode::FAILURE),
    }
}
