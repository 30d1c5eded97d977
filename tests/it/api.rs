//! The API of a running server, as the tests that kill and restart it speak to it.
#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::time::Duration;

use reqwest::{Client, Method};
use serde_json::Value;

use crate::TestServer;

/// Nothing that is waited for takes this long unless it is broken.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at something that is waited for.
const LOOK: Duration = Duration::from_millis(10);

/// Where a server listens now. Another start of it listens elsewhere.
#[derive(Clone, Debug)]
pub(crate) struct Api {
    client: Client,
    ingest: String,
    admin: String,
}

/// An answer, read whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) json: Value,
}

impl Answer {
    /// The document, when it has this status.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.json);
        self.json
    }
}

impl Api {
    pub(crate) fn of(server: &TestServer) -> Api {
        let client = Client::builder().no_proxy().build().unwrap();
        Api { client, ingest: server.ingest.clone(), admin: server.admin.clone() }
    }

    /// A server that has only this listener.
    pub(crate) fn at(admin: &str) -> Api {
        let client = Client::builder().no_proxy().build().unwrap();
        Api { client, ingest: admin.to_owned(), admin: admin.to_owned() }
    }

    async fn ask(
        &self,
        method: &str,
        url: String,
        kind: &str,
        key: Option<&str>,
        body: Vec<u8>,
    ) -> reqwest::Result<Answer> {
        let path = url.split_once("://").and_then(|(_, rest)| rest.find('/').map(|at| rest[at..].to_owned()));
        let verb = method;
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let mut request = self.client.request(method, url).header("content-type", kind).body(body);
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let response = request.send().await?;
        let status = response.status().as_u16();
        let media = crate::http::media(response.headers());
        let text = response.text().await?;
        crate::openapi::judge(verb, &path.unwrap(), status, media.as_deref(), &text);
        let json = serde_json::from_str(&text).unwrap_or(Value::Null);
        Ok(Answer { status, json })
    }

    /// A request to the admin listener.
    pub(crate) async fn admin(&self, method: &str, path: &str, body: &str) -> Answer {
        self.try_admin(method, path, body).await.unwrap()
    }

    /// The same; the error is that of a connection that broke.
    pub(crate) async fn try_admin(&self, method: &str, path: &str, body: &str) -> reqwest::Result<Answer> {
        let url = format!("{}{path}", self.admin);
        self.ask(method, url, "application/json", None, body.into()).await
    }

    /// A destination on this machine with these settings besides.
    pub(crate) async fn destination(&self, name: &str, url: &str, more: &str) {
        let body = format!(r#"{{"tenant":"acme","url":"{url}","allow_cidrs":["127.0.0.1/32"]{more}}}"#);
        self.admin("PUT", &format!("/v1/destinations/{name}"), &body).await.expect(201);
    }

    /// A raw body, as a producer sends it; the error is that of a connection that broke.
    pub(crate) async fn send(&self, to: &str, key: Option<&str>, body: Vec<u8>) -> reqwest::Result<Answer> {
        let url = format!("{}/v1/send/{to}", self.ingest);
        self.ask("POST", url, "application/octet-stream", key, body).await
    }

    /// Whether the ingest listener says that it is ready.
    pub(crate) async fn ready(&self) -> u16 {
        self.ask("GET", format!("{}/readyz", self.ingest), "text/plain", None, vec![]).await.unwrap().status
    }

    /// A document of the admin listener that is not JSON.
    pub(crate) async fn text(&self, path: &str) -> String {
        let response = self.client.get(format!("{}{path}", self.admin)).send().await.unwrap();
        response.text().await.unwrap()
    }

    /// One object a line.
    pub(crate) async fn batch(&self, lines: String) -> reqwest::Result<Answer> {
        let url = format!("{}/v1/batch", self.ingest);
        self.ask("POST", url, "application/x-ndjson", None, lines.into()).await
    }

    /// The lines of an export, handed to this server.
    pub(crate) async fn import(&self, query: &str, lines: String) -> Answer {
        let url = format!("{}/v1/import{query}", self.admin);
        self.ask("POST", url, "application/x-ndjson", None, lines.into()).await.unwrap()
    }

    /// The whole list that a query names, page by page.
    pub(crate) async fn list(&self, query: &str) -> Vec<Value> {
        let mut all = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = self.admin("GET", &format!("/v1/deliveries?limit=1000&{query}{cursor}"), "").await;
            let mut page = page.expect(200);
            all.append(page["data"].as_array_mut().unwrap());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return all,
            }
        }
    }

    pub(crate) async fn get(&self, id: &str) -> Value {
        self.admin("GET", &format!("/v1/deliveries/{id}"), "").await.expect(200)
    }

    /// What the attempts of a delivery came to, the newest last.
    pub(crate) async fn results(&self, id: &str) -> Vec<String> {
        let attempts = self.admin("GET", &format!("/v1/deliveries/{id}/attempts"), "").await.expect(200);
        let mut all: Vec<(u64, String)> = attempts["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| (one["n"].as_u64().unwrap(), one["result"].as_str().unwrap().to_owned()))
            .collect();
        all.sort();
        all.into_iter().map(|(_, result)| result).collect()
    }

    /// Waits until nothing has not ended.
    pub(crate) async fn quiet(&self) {
        until("everything has ended", async || self.list("state=ready,delayed,leased").await.is_empty())
            .await;
    }
}

/// Looks again and again until it is so; fails the test when it never is.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let mut clock = tokio::time::interval(LOOK);
    let looking = async {
        while !is_so().await {
            clock.tick().await;
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.unwrap_or_else(|_| panic!("never: {what}"));
}
