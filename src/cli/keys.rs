//! Secrets and certificates of a destination, and the test of how it is set up.
//!
//! A secret is read from a file, never from the command line, where others can see it.

use std::fs;
use std::path::Path;

use reqwest::Method;
use serde_json::{Map, Value, json};

use super::args::dest::{Rotate, Set, Trial};
use super::client::Client;
use super::deliveries::attempt_table;
use super::fault::Fault;
use super::output::{Output, length};
use super::wire::Attempt;
use crate::model::secret::OVERLAP_DEFAULT;
use crate::time::Millis;

/// Sends one request without a delivery. It has failed unless the receiver took it.
pub(super) async fn test(client: &Client, output: &Output, trial: &Trial) -> Result<(), Fault> {
    let body = match &trial.data {
        None => "{}".to_owned(),
        // As it stands: its bytes are what is sent.
        Some(text) if serde_json::from_str::<Value>(text).is_ok() => format!("{{\"payload\":{text}}}"),
        Some(_) => return Err(Fault::Usage("--data: must be JSON".to_owned())),
    };
    let path = ["v1", "destinations", &trial.name, "test"];
    let answer = client.order_text(Method::POST, &path, body).await?;
    let attempt: Attempt = client.read(&answer.text)?;
    let untaken = untaken(&trial.name, &attempt);
    output.either(|| answer.text.clone(), || attempt_table(output, &[attempt]))?;
    untaken.map_or(Ok(()), |why| Err(Fault::Local(why)))
}

/// What came of the test, unless the receiver took it.
fn untaken(name: &str, attempt: &Attempt) -> Option<String> {
    match (attempt.result.as_deref(), attempt.status) {
        (Some("success"), _) => None,
        (_, Some(status)) => Some(format!("{name}: the receiver answered the test with {status}")),
        (result, None) => Some(format!("{name}: no answer to the test ({})", result.unwrap_or("-"))),
    }
}

/// A new secret; one that the server made is shown, as it will not be again.
pub(super) async fn rotate(client: &Client, output: &Output, order: &Rotate) -> Result<(), Fault> {
    let mut body = Map::new();
    if let Some(file) = &order.secret_file {
        body.insert("secret".to_owned(), read(file)?.trim().into());
    }
    let overlap = order.overlap.map(Millis::from);
    if let Some(overlap) = overlap {
        body.insert("overlap_ms".to_owned(), overlap.0.into());
    }
    let path = ["v1", "destinations", &order.name, "secrets", "rotate"];
    let answer = client.order(Method::POST, &path, &Value::Object(body)).await?;
    let made: Value = client.read(&answer.text)?;
    output.either(|| answer.text.clone(), || rotated(&order.name, &made, overlap.unwrap_or(OVERLAP_DEFAULT)))
}

fn rotated(name: &str, answer: &Value, overlap: Millis) -> String {
    let secret = answer["secret"].as_str();
    let shown = secret.map(|secret| format!("secret     {secret}\n           shown this once\n"));
    let before = match overlap.0 {
        0 => "any before it no longer sign".to_owned(),
        _ => format!("any before it sign for {} more", length(overlap)),
    };
    format!("{}{name}: the new secret signs first; {before}", shown.unwrap_or_default())
}

/// The secrets of `--secret-file`, one a line.
pub(super) fn secrets(change: &Set) -> Result<Option<Value>, Fault> {
    let Some(file) = &change.secret_file else { return Ok(None) };
    let text = read(file)?;
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    Ok(Some(json!(lines)))
}

/// The certificates that were given.
pub(super) fn tls(change: &Set) -> Result<Option<Value>, Fault> {
    let given = [
        ("ca_pem", &change.ca_file),
        ("client_cert_pem", &change.client_cert_file),
        ("client_key_pem", &change.client_key_file),
    ];
    let mut all = Map::new();
    for (name, file) in given {
        if let Some(file) = file {
            all.insert(name.to_owned(), read(file)?.into());
        }
    }
    Ok((!all.is_empty()).then_some(Value::Object(all)))
}

fn read(file: &Path) -> Result<String, Fault> {
    fs::read_to_string(file).map_err(|error| Fault::Local(format!("{}: {error}", file.display())))
}
