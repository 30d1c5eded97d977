//! The HTTP side against a running server: what is sent, what is answered, what a receiver sees.
#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

mod access;
mod admin;
mod audit;
mod bad_input;
mod figures;
mod inbound;
mod ingest;
mod page;
mod payload;
mod quota;
mod receiver;
mod references;
mod reload;
mod rotation;
mod signing;
mod trouble;

use std::time::Duration;

use reqwest::{Client, Method, RequestBuilder};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::TestServer;

/// Nothing that is waited for takes this long unless it is broken.
const PATIENCE: Duration = Duration::from_secs(20);

/// An answer, read whole.
#[derive(Debug)]
struct Answer {
    status: u16,
    headers: reqwest::header::HeaderMap,
    text: String,
}

impl Answer {
    /// Every answer is as `/openapi.json` has it.
    async fn of(request: RequestBuilder) -> Answer {
        let (client, request) = request.build_split();
        let request = request.unwrap();
        let (method, path) = (request.method().clone(), request.url().path().to_owned());
        let response = client.execute(request).await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await.unwrap();
        crate::openapi::judge(method.as_str(), &path, status, media(&headers).as_deref(), &text);
        Answer { status, headers, text }
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or(Value::Null)
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The answer's document, when it has this status.
    #[track_caller]
    fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.json()
    }

    /// A problem of this status and code that names exactly `fields`.
    #[track_caller]
    fn refused(&self, status: u16, code: &str, fields: &[&str]) {
        let problem = self.json();
        assert_eq!((self.status, problem["code"].as_str()), (status, Some(code)), "{}", self.text);
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{}", self.text);
        assert_eq!(problem["type"], format!("urn:duehook:problem:{code}"));
        assert_eq!(problem["status"], status);
        assert!(problem["title"].is_string() && problem["detail"].is_string(), "{}", self.text);
        let named: Vec<&str> =
            problem["errors"].as_array().into_iter().flatten().filter_map(|e| e["field"].as_str()).collect();
        assert_eq!(named, fields, "{}", self.text);
    }
}

/// The media type of an answer.
pub(crate) fn media(headers: &reqwest::header::HeaderMap) -> Option<String> {
    headers.get("content-type").map(|value| value.to_str().unwrap().to_owned())
}

/// A server and a client of it.
struct World {
    server: TestServer,
    client: Client,
}

impl World {
    async fn start() -> World {
        let client = Client::builder().no_proxy().build().unwrap();
        World { server: crate::server().await, client }
    }

    fn ask(&self, method: &str, base: &str, path: &str) -> RequestBuilder {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        self.client.request(method, format!("{base}{path}"))
    }

    /// A request to the admin listener; a body that is not empty is JSON.
    async fn admin(&self, method: &str, path: &str, body: &str) -> Answer {
        let request = self.ask(method, &self.server.admin, path);
        if body.is_empty() {
            return Answer::of(request).await;
        }
        Answer::of(request.header("content-type", "application/json").body(body.to_owned())).await
    }

    /// `POST /v1/deliveries` at the ingest listener.
    async fn post(&self, body: &str) -> Answer {
        let request = self.ask("POST", &self.server.ingest, "/v1/deliveries");
        Answer::of(request.header("content-type", "application/json").body(body.to_owned())).await
    }

    /// A destination that keeps what it is given.
    async fn paused(&self, name: &str) {
        let body = r#"{"tenant":"acme","url":"https://shop.example.com/hook"}"#;
        self.admin("PUT", &format!("/v1/destinations/{name}"), body).await.expect(201);
        self.admin("POST", &format!("/v1/destinations/{name}/pause"), "").await.expect(200);
    }

    /// A destination that leads to a receiver on this machine.
    async fn leading_to(&self, name: &str, url: &str) {
        let body = format!(r#"{{"tenant":"acme","url":"{url}","allow_cidrs":["127.0.0.1/32"]}}"#);
        self.admin("PUT", &format!("/v1/destinations/{name}"), &body).await.expect(201);
    }

    /// A delivery to `name`; its id.
    async fn deliver(&self, name: &str, more: &str) -> String {
        let taken = self.post(&format!(r#"{{"destination":"{name}","payload":1{more}}}"#)).await.expect(202);
        taken["id"].as_str().unwrap().to_owned()
    }

    async fn get(&self, id: &str) -> Value {
        self.admin("GET", &format!("/v1/deliveries/{id}"), "").await.expect(200)
    }

    /// Every delivery the server has.
    async fn stored(&self) -> Vec<Value> {
        let page = self.admin("GET", "/v1/deliveries?limit=1000", "").await.expect(200);
        assert_eq!(page["next_cursor"], Value::Null);
        page["data"].as_array().unwrap().clone()
    }

    /// Waits until the delivery has ended.
    async fn ended(&self, id: &str) -> Value {
        let ended = async {
            loop {
                let delivery = self.get(id).await;
                if delivery["state"] == "terminal" {
                    return delivery;
                }
            }
        };
        tokio::time::timeout(PATIENCE, ended).await.expect("it ends")
    }

    /// Writes `text` to a listener as it is and reads until the server closes.
    async fn raw(base: &str, text: &[u8]) -> String {
        let address = base.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).await.unwrap();
        // The server may answer and close before all is written.
        drop(stream.write_all(text).await);
        let mut answer = Vec::new();
        drop(tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("it closes"));
        String::from_utf8_lossy(&answer).into_owned()
    }
}
