//! `backup` and `claims`: orders to the whole server.

use std::path::Path;

use reqwest::Method;
use serde_json::json;

use super::args::files::ClaimsCommand;
use super::client::Client;
use super::fault::Fault;
use super::output::{Output, deliveries as counted, say, write};
use super::progress;
use super::wire::{Backup, Claims};

/// Asks for a backup at a path of the server's, and waits for it.
pub(super) async fn backup(client: &Client, output: &Output, path: &Path) -> Result<(), Fault> {
    let path = std::path::absolute(path).map_err(|error| Fault::Local(error.to_string()))?;
    let order = json!({"path": path});
    let patient = client.patient();
    let made = patient.order(Method::POST, &["v1", "backup"], &order);
    let text = progress::watched(output, &path, made).await?.text;
    if output.json {
        return write(&text);
    }
    let Backup { path, bytes, deliveries, damaged, took_ms } = client.read(&text)?;
    let state = match damaged {
        0 => "whole".to_owned(),
        n => format!("{n} records or bodies DAMAGED as in the source, the rest whole"),
    };
    say(&format!("{path}: {}, {bytes} bytes, read back, {state}, in {took_ms} ms", counted(deliveries)))
}

/// Stops or starts all claims.
pub(super) async fn claims(client: &Client, output: &Output, command: &ClaimsCommand) -> Result<(), Fault> {
    let (verb, body) = match command {
        ClaimsCommand::Stop => ("stop", json!({})),
        ClaimsCommand::Start { fence: None } => ("start", json!({})),
        ClaimsCommand::Start { fence: Some(fence) } => ("start", json!({"fence": fence})),
    };
    let text = client.order(Method::POST, &["v1", "claims", verb], &body).await?.text;
    if output.json {
        return write(&text);
    }
    let Claims { claims, leases_held, .. } = client.read(&text)?;
    say(&format!("claims {claims}, {leases_held} in flight"))
}
