//! What signs a destination's requests and which certificates they go by: `secrets` and `tls`.

use serde_json::value::RawValue;

use super::{Given, MASK, given};
use crate::http::fields::{Fields, read_text};
use crate::model::secret::{MAX_PEM, MAX_SECRETS, NotASecret};
use crate::model::{Certificates, ClientCertificate, Destination, LiveSecret, Secret};
use crate::sender::trust;

/// The secrets that were given, the newest first; None: those that are stored stay.
pub(super) fn secrets(fields: &mut Fields<'_>) -> Option<Vec<LiveSecret>> {
    let value = match given(fields, "secrets") {
        Given::Absent => return None,
        Given::Null => return Some(Vec::new()),
        Given::Value(value) => value,
    };
    let Ok(texts) = serde_json::from_str::<Vec<String>>(value.get()) else {
        return fields.refuse("secrets", "must be a list of strings, the newest first");
    };
    if texts.len() > MAX_SECRETS {
        return fields.refuse("secrets", format!("at most {MAX_SECRETS} secrets"));
    }
    let read: Result<Vec<Secret>, NotASecret> = texts.iter().map(|text| text.parse()).collect();
    match read {
        Ok(secrets) if repeats(&secrets) => fields.refuse("secrets", "names a secret twice"),
        Ok(secrets) => Some(secrets.into_iter().map(LiveSecret::new).collect()),
        Err(error) => fields.refuse("secrets", format!("each {error}")),
    }
}

fn repeats(secrets: &[Secret]) -> bool {
    secrets.iter().enumerate().any(|(place, one)| secrets[..place].contains(one))
}

/// The certificates: null is none, an object merges into what is stored.
pub(super) fn tls(fields: &mut Fields<'_>, base: Option<&Destination>) -> Option<Certificates> {
    let stored = base.and_then(|base| base.tls.clone());
    let value = match given(fields, "tls") {
        Given::Absent => return stored,
        Given::Null => return None,
        Given::Value(value) => value,
    };
    let merged = merge(fields, value, stored.unwrap_or_default())?;
    match trust::check(&merged) {
        Ok(()) => Some(merged).filter(|it| *it != Certificates::default()),
        Err(problem) => fields.refuse("tls", problem.to_string()),
    }
}

fn merge(fields: &mut Fields<'_>, patch: &RawValue, stored: Certificates) -> Option<Certificates> {
    let Ok(mut inner) = Fields::read(patch.get().as_bytes()) else {
        return fields.refuse("tls", "must be an object or null");
    };
    let (chain, key) = stored.client.map(|client| (client.chain.clone(), client.key.clone())).unzip();
    let ca = pem(fields, "tls.ca_pem", inner.raw("ca_pem"), stored.ca);
    let chain = pem(fields, "tls.client_cert_pem", inner.raw("client_cert_pem"), chain);
    let key = pem(fields, "tls.client_key_pem", inner.raw("client_key_pem"), key);
    if inner.finish(&[]).is_err() {
        return fields.refuse("tls", "has ca_pem, client_cert_pem and client_key_pem, each once");
    }
    match (chain, key) {
        (Some(chain), Some(key)) => Some(Certificates { ca, client: Some(ClientCertificate { chain, key }) }),
        (None, None) => Some(Certificates { ca, client: None }),
        _ => fields.refuse("tls", "client_cert_pem and client_key_pem are given together"),
    }
}

/// A PEM text: absent keeps what is stored, null removes it.
fn pem(
    fields: &mut Fields<'_>,
    name: &'static str,
    value: Option<&RawValue>,
    stored: Option<Box<str>>,
) -> Option<Box<str>> {
    let Some(value) = value else { return stored };
    if value.get() == "null" {
        return None;
    }
    match read_text(value) {
        Some(text) if text == MASK => fields.refuse(name, "this is the mask of a read, not a key"),
        Some(text) if text.len() > MAX_PEM => fields.refuse(name, format!("at most {MAX_PEM} bytes")),
        Some(text) => Some(text.into()),
        None => fields.refuse(name, "must be a PEM text"),
    }
}
