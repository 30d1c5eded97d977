//! `send`: a body from an argument, a file or standard input, handed over for delivery.

use std::io::Read as _;

use reqwest::Method;

use super::args::Send;
use super::client::Client;
use super::fault::Fault;
use super::near::suggest;
use super::output::{Output, say, write};
use super::wire::Delivery;
use crate::model::MAX_PAYLOAD_LIMIT;
use crate::time::Millis;

/// Hands the body over; when this returns, it is on the server's disk.
pub(super) async fn send(client: &Client, output: &Output, send: Send) -> Result<(), Fault> {
    let body = body(&send)?;
    let mut request = client.request(Method::POST, &["v1", "send", &send.destination]);
    for (name, value) in headers(&send, &body) {
        request = request.header(name, value);
    }
    let answer = match client.answer(request.body(body)).await {
        Ok(answer) => answer,
        Err(fault) => return Err(suggest(client, &send.destination, fault).await),
    };
    if output.json {
        return write(&answer.text);
    }
    let delivery: Delivery = client.read(&answer.text)?;
    say(&in_words(&delivery))
}

fn in_words(delivery: &Delivery) -> String {
    let destination = delivery.destination.as_deref().unwrap_or("-");
    let outcome = delivery.outcome.as_deref().unwrap_or(&delivery.state);
    match delivery.duplicate {
        true => format!("{} is a duplicate for {destination}: {outcome}", delivery.id),
        false => format!("{} accepted for {destination}", delivery.id),
    }
}

fn body(send: &Send) -> Result<Vec<u8>, Fault> {
    let unreadable = |what: &str, error| Fault::Local(format!("cannot read {what}: {error}"));
    if let Some(data) = &send.data {
        return Ok(data.clone().into_bytes());
    }
    match &send.file {
        Some(path) => {
            let name = path.display().to_string();
            let file = std::fs::File::open(path).map_err(|error| unreadable(&name, error))?;
            capped(file).map_err(|error| unreadable(&name, error))
        }
        None => capped(std::io::stdin().lock()).map_err(|error| unreadable("standard input", error)),
    }
}

/// Reads no more than one byte over what any server takes: the server then says what it allows.
fn capped(source: impl std::io::Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(MAX_PAYLOAD_LIMIT as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn headers(send: &Send, body: &[u8]) -> Vec<(&'static str, String)> {
    let is_json = || serde_json::from_slice::<serde::de::IgnoredAny>(body).is_ok();
    let guessed = || if is_json() { "application/json" } else { "application/octet-stream" }.to_owned();
    let max_age = send.max_age.map(|length| Millis::from(length).0.to_string());
    let given = [
        ("content-type", Some(send.content_type.clone().unwrap_or_else(guessed))),
        ("idempotency-key", send.key.clone()),
        ("duehook-tenant", send.tenant.clone()),
        ("duehook-class", send.class.clone()),
        ("duehook-region", send.region.clone()),
        ("duehook-not-before", send.not_before.clone()),
        ("duehook-max-age-ms", max_age),
        ("duehook-max-failures", send.max_failures.map(|most| most.to_string())),
    ];
    given.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::{Args, Ask, Command};
    use clap::Parser as _;

    fn send_of(arguments: &[&str]) -> Send {
        let all = ["duehook", "send", "shop"].iter().chain(arguments);
        let command = Args::try_parse_from(all).unwrap().command;
        let Command::Ask(Ask::Send(send)) = command else { panic!("{command:?}") };
        send
    }

    #[test]
    fn headers_say_what_was_given() {
        let check = |arguments: &[&str], body: &[u8], want: &[(&str, &str)]| {
            let got = headers(&send_of(arguments), body);
            let got: Vec<_> = got.iter().map(|(name, value)| (*name, value.as_str())).collect();
            assert_eq!(got, want, "{arguments:?}");
        };
        let (json, bytes) = ("application/json", "application/octet-stream");
        check(&[], b"{\"a\": 1}", &[("content-type", json)]);
        check(&[], b"{\"a\":", &[("content-type", bytes)]);
        check(&[], b"", &[("content-type", bytes)]);
        check(&[], b"\xFF", &[("content-type", bytes)]);
        check(
            &["--content-type", "text/plain", "--key", "k", "--max-age", "1h", "--max-failures", "3"],
            b"1",
            &[
                ("content-type", "text/plain"),
                ("idempotency-key", "k"),
                ("duehook-max-age-ms", "3600000"),
                ("duehook-max-failures", "3"),
            ],
        );
    }

    #[test]
    fn a_body_has_one_source() {
        assert_eq!(body(&send_of(&["--data", " x "])).unwrap(), b" x ");
        assert!(Args::try_parse_from(["duehook", "send", "s", "--data", "a", "--file", "b"]).is_err());
        assert!(matches!(body(&send_of(&["--file", "/nowhere/at.all"])), Err(Fault::Local(_))));
        assert_eq!(capped(std::io::repeat(0)).unwrap().len(), MAX_PAYLOAD_LIMIT + 1);
    }
}
