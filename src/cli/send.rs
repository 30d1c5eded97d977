//! `send`: a body from an argument, a file or standard input, handed over for delivery.

use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::{Method, RequestBuilder};
use serde_json::{Map, Value, json};

use super::args::Send;
use super::client::Client;
use super::destinations;
use super::fault::Fault;
use super::near::suggest;
use super::output::{Output, say, write};
use super::wire::Delivery;
use crate::model::MAX_PAYLOAD_LIMIT;
use crate::time::Millis;

/// Hands the body over; when this returns, it is on the server's disk.
pub(super) async fn send(client: &Client, output: &Output, send: Send) -> Result<(), Fault> {
    let request = if is_bare(&send) { bare(client, &send)? } else { document(client, &send)? };
    let answer = match client.answer(request).await {
        Ok(answer) => answer,
        Err(fault) => return Err(suggest(client, &send.destination, fault).await),
    };
    if output.json {
        return write(&answer.text);
    }
    let delivery: Delivery = client.read(&answer.text)?;
    say(&in_words(&delivery))
}

/// True when a body and the headers of `/v1/send` say it all.
fn is_bare(send: &Send) -> bool {
    send.payload_ref.is_none() && send.labels.is_empty() && send.headers.is_empty()
}

fn bare(client: &Client, send: &Send) -> Result<RequestBuilder, Fault> {
    let body = body(send)?;
    let mut request = client.request(Method::POST, &["v1", "send", &send.destination]);
    for (name, value) in headers(send, &body) {
        request = request.header(name, value);
    }
    Ok(request.body(body))
}

fn document(client: &Client, send: &Send) -> Result<RequestBuilder, Fault> {
    let text = delivery(send)?.to_string();
    let request = client.request(Method::POST, &["v1", "deliveries"]);
    Ok(request.header("content-type", "application/json").body(text))
}

/// The same as an object of `/v1/deliveries`; the body in base64, so that it goes byte for byte.
fn delivery(send: &Send) -> Result<Value, Fault> {
    let mut all = json!({"destination": send.destination});
    match &send.payload_ref {
        Some(place) => all["payload_ref"] = place.as_str().into(),
        None => {
            let body = body(send)?;
            all["content_type"] = send.content_type.clone().unwrap_or_else(|| guessed(&body)).into();
            all["payload_base64"] = STANDARD.encode(body).into();
        }
    }
    let max_age = send.max_age.map(|length| Millis::from(length).0.into());
    let text = |text: &Option<String>| text.clone().map(Value::from);
    let given = [
        ("content_type", text(&send.content_type)),
        ("sha256", text(&send.sha256)),
        ("idempotency_key", text(&send.key)),
        ("tenant", text(&send.tenant)),
        ("class", text(&send.class)),
        ("region", text(&send.region)),
        ("not_before", text(&send.not_before)),
        ("max_age_ms", max_age),
        ("max_failures", send.max_failures.map(Value::from)),
        ("headers", destinations::headers(&send.headers)?),
        ("labels", labels(&send.labels)?),
    ];
    for (name, value) in given {
        if let Some(value) = value {
            all[name] = value;
        }
    }
    Ok(all)
}

fn labels(lines: &[String]) -> Result<Option<Value>, Fault> {
    let mut all = Map::new();
    for line in lines {
        let bad = || Fault::Usage(format!("--label {line:?}: must be NAME=VALUE"));
        let (name, value) = line.split_once('=').ok_or_else(bad)?;
        all.insert(name.to_owned(), value.into());
    }
    Ok((!all.is_empty()).then_some(Value::Object(all)))
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

/// What a body is, if nobody says.
fn guessed(body: &[u8]) -> String {
    let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(body).is_ok();
    if is_json { "application/json" } else { "application/octet-stream" }.to_owned()
}

fn headers(send: &Send, body: &[u8]) -> Vec<(&'static str, String)> {
    let max_age = send.max_age.map(|length| Millis::from(length).0.to_string());
    let given = [
        ("content-type", Some(send.content_type.clone().unwrap_or_else(|| guessed(body)))),
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
        *send
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
    fn what_headers_cannot_say_goes_as_a_document() {
        let check = |arguments: &[&str], want: Value| {
            let send = send_of(arguments);
            assert!(!is_bare(&send), "{arguments:?}");
            assert_eq!(delivery(&send).unwrap(), want, "{arguments:?}");
        };
        check(
            &["--data", "{\"a\" :1}", "--label", "order=7=8", "--header", "X-A: b", "--key", "k"],
            json!({"destination": "shop", "content_type": "application/json", "payload_base64": "eyJhIiA6MX0=",
                   "labels": {"order": "7=8"}, "headers": {"X-A": "b"}, "idempotency_key": "k"}),
        );
        check(
            &["--payload-ref", "s3://b/x", "--sha256", "00", "--max-age", "1h"],
            json!({"destination": "shop", "payload_ref": "s3://b/x", "sha256": "00", "max_age_ms": 3_600_000}),
        );
        assert!(is_bare(&send_of(&["--data", "1"])));
        assert!(matches!(delivery(&send_of(&["--data", "1", "--label", "x"])), Err(Fault::Usage(_))));
        let two = ["duehook", "send", "s", "--data", "a", "--payload-ref", "b"];
        assert!(Args::try_parse_from(two).is_err());
    }

    #[test]
    fn a_body_has_one_source() {
        assert_eq!(body(&send_of(&["--data", " x "])).unwrap(), b" x ");
        assert!(Args::try_parse_from(["duehook", "send", "s", "--data", "a", "--file", "b"]).is_err());
        assert!(matches!(body(&send_of(&["--file", "/nowhere/at.all"])), Err(Fault::Local(_))));
        assert_eq!(capped(std::io::repeat(0)).unwrap().len(), MAX_PAYLOAD_LIMIT + 1);
    }
}
