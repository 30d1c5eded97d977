//! A payload that a server hands out over HTTP, and the clients that payloads are asked for with.

use bytes::{Bytes, BytesMut};
use reqwest::header::{CONTENT_ENCODING, HeaderValue, USER_AGENT};
use reqwest::{Client, Method, Request, Response};
use url::Url;

use super::Fault;
use crate::sender::egress::resolver::SystemNames;
use crate::sender::profile::transport;
use crate::sender::trust::Trust;
use crate::sign;

/// One that speaks TLS only, for stores that do not say otherwise, and one that does not insist.
#[derive(Clone, Debug)]
pub(super) struct Clients {
    pub(super) secure: Option<Client>,
    pub(super) any: Option<Client>,
}

impl Clients {
    /// They follow no redirect, for it could lead out of the prefix, and no proxy. Names are looked up
    /// where those of destinations are: a client's own way would keep the runtime's threads.
    pub(super) fn new(trust: &Trust) -> Clients {
        let build = |secure| {
            let builder = transport(Client::builder()).https_only(secure).dns_resolver(SystemNames);
            builder.tls_backend_preconfigured(trust.settings(None).ok()?).build().ok()
        };
        Clients { secure: build(true), any: build(false) }
    }
}

/// Asks once. Whatever is not the payload whole, as it is, is not read.
pub(super) async fn read(clients: &Clients, url: &Url, max: usize) -> Result<Bytes, Fault> {
    let client = clients.any.as_ref().ok_or(Fault::unread("tls could not be set up"))?;
    let mut request = Request::new(Method::GET, url.clone());
    request.headers_mut().insert(USER_AGENT, HeaderValue::from_static(sign::USER_AGENT));
    let host = url.host_str().unwrap_or_default();
    let lost = |_| Fault::unread(format!("{host} could not be asked"));
    let response = client.execute(request).await.map_err(lost)?;
    match response.status().as_u16() {
        200 => whole(response, host, max).await,
        404 | 410 => Err(Fault::Gone("its store does not have it")),
        status => Err(Fault::unread(format!("{host} answered {status}"))),
    }
}

async fn whole(mut response: Response, host: &str, max: usize) -> Result<Bytes, Fault> {
    if response.headers().contains_key(CONTENT_ENCODING) {
        return Err(Fault::unread(format!("{host} sent it encoded")));
    }
    if response.content_length().is_some_and(|length| length > max as u64) {
        return Err(Fault::too_large(max));
    }
    let mut bytes = BytesMut::new();
    let lost = |_| Fault::unread(format!("{host} did not send it whole"));
    while let Some(chunk) = response.chunk().await.map_err(lost)? {
        if bytes.len() + chunk.len() > max {
            return Err(Fault::too_large(max));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes.freeze())
}
