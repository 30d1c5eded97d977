//! What lies beside the destinations: the proxy on the way to them, and where payloads are kept.

use url::Url;

use super::super::PayloadRefs;
use super::super::error::ConfigError;
use super::super::layers::Layers;
use super::super::value::{Reading, Value};
use super::MAX_LIST;
use crate::model::Prefix;
use crate::time::Millis;

/// A payload is read before its attempt, and leases last longer by this.
const TIMEOUT: std::ops::RangeInclusive<Millis> = Millis(100)..=Millis(60_000);
/// The proxies that can be asked.
const PROXIES: [&str; 3] = ["http", "https", "socks5"];

pub(super) fn payload_refs(layers: &mut Layers, default: PayloadRefs) -> Result<PayloadRefs, ConfigError> {
    Ok(PayloadRefs {
        allow: layers
            .take(&["payload_refs", "allow"], default.allow, |value| value.list(MAX_LIST, prefix))?,
        timeout: layers
            .take(&["payload_refs", "timeout"], default.timeout, |value| value.duration(TIMEOUT))?,
    })
}

fn prefix(value: &Value) -> Reading<Prefix> {
    let allowed = "a folder such as \"file:///srv/outbox/\", \"https://store.internal/\" or \"s3://bucket/\", \
                   with a slash at its end";
    value.text()?.parse().map_err(|error| format!("{allowed}: {error}"))
}

/// An empty one is none. A password would stand in every copy of the settings.
pub(super) fn proxy(value: &Value) -> Reading<Option<Url>> {
    let text = value.text()?;
    if text.is_empty() {
        return Ok(None);
    }
    let url = Url::parse(text).ok().filter(is_proxy);
    let allowed = "\"http://host:port\", \"https://host:port\" or \"socks5://host:port\", without user name, \
                   password and path";
    url.map(Some).ok_or_else(|| allowed.into())
}

fn is_proxy(url: &Url) -> bool {
    let bare = url.username().is_empty() && url.password().is_none();
    let ends = matches!(url.path(), "" | "/") && url.query().is_none() && url.fragment().is_none();
    PROXIES.contains(&url.scheme()) && url.has_host() && bare && ends
}
