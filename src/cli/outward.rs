//! What goes out: the sender and where it reads payloads, as the settings have it.

use crate::config::Settings;
use crate::sender::{self, Sender, egress};
use crate::time::Millis;

/// Leases need not last longer where nothing is read.
pub(super) fn payload_timeout(settings: &Settings) -> Millis {
    let set = &settings.payload_refs;
    if set.allow.is_empty() { Millis(0) } else { set.timeout }
}

/// The sender that the settings describe.
///
/// # Errors
/// In a sentence, which setting cannot be used.
pub(super) fn sender(settings: &Settings) -> Result<Sender, String> {
    let set = &settings.send;
    let (allow_http, ports, allow_cidrs) = (set.allow_http, set.ports.clone(), set.allow_cidrs.clone());
    let read = |path: &std::path::PathBuf| {
        let fault = |error| format!("send.ca_file {}: {error}", path.display());
        std::fs::read(path).map_err(fault)
    };
    let config = sender::Config {
        rules: egress::Rules { allow_http, ports, allow_cidrs },
        ca_pem: set.ca_file.as_ref().map(read).transpose()?,
        keep_response_excerpt: set.keep_response_excerpt,
        proxy: set.proxy.clone(),
        payloads: payloads(settings),
    };
    Sender::new(config).map_err(|error| error.to_string())
}

fn payloads(settings: &Settings) -> sender::payload::Settings {
    let set = &settings.payload_refs;
    let (allow, timeout) = (set.allow.clone(), set.timeout);
    sender::payload::Settings { allow, timeout, max: settings.ingest.max_payload }
}
