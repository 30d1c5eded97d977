//! One request to the admin listener and its answer, as text.
//!
//! No proxy, no redirect, no second try: what the command asked for happens at most once.

use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response};
use serde::de::DeserializeOwned;
use url::Url;

use super::fault::{Fault, Problem, Refusal};
use crate::http::NO_ROUTE;

/// A page of 1,000 deliveries takes well under a second; this is for a server that hangs.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The server is on this machine or near it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A backup of a large file takes minutes; this is for a server that hangs.
const LONG_TIMEOUT: Duration = Duration::from_secs(6 * 3_600);

/// What helps who was not let in.
const NO_TOKEN: &str = "name a file that holds a token: --token-file FILE, or DUEHOOK_TOKEN_FILE";
/// What an address begins with that is a file.
const UNIX: &str = "unix:";

/// The way to one server.
pub(super) struct Client {
    http: reqwest::Client,
    admin: Url,
    /// Where the socket is, if it is one of the file system.
    socket: Option<String>,
    token: Option<String>,
    timeout: Duration,
}

/// An answer that is no refusal.
pub(super) struct Answer {
    pub status: u16,
    /// Empty for 204.
    pub text: String,
}

impl Client {
    /// Opens nothing yet.
    pub(super) fn new(admin: &str, token: Option<String>) -> Result<Client, Fault> {
        let mut builder = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .connect_timeout(CONNECT_TIMEOUT);
        let socket = admin.strip_prefix(UNIX).map(str::to_owned);
        if let Some(path) = &socket {
            builder = builder.unix_socket(path.as_str());
        }
        let http =
            builder.build().map_err(|error| Fault::Local(format!("cannot make an HTTP client: {error}")))?;
        // Whoever asks by a socket file names a host that every server has.
        let admin = address(if socket.is_some() { "http://localhost" } else { admin })?;
        Ok(Client { http, admin, socket, token, timeout: TIMEOUT })
    }

    /// The same, for an order that takes long.
    pub(super) fn patient(&self) -> Client {
        let (http, admin) = (self.http.clone(), self.admin.clone());
        let (socket, token) = (self.socket.clone(), self.token.clone());
        Client { http, admin, socket, token, timeout: LONG_TIMEOUT }
    }

    /// A request to the path made of `parts`, each escaped.
    pub(super) fn request(&self, method: Method, parts: &[&str]) -> RequestBuilder {
        self.request_with(method, parts, &[])
    }

    /// The same with a query.
    pub(super) fn request_with(
        &self,
        method: Method,
        parts: &[&str],
        query: &[(&str, String)],
    ) -> RequestBuilder {
        let mut url = self.admin.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(parts);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let request = self.http.request(method, url).timeout(self.timeout);
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    /// Asks a question.
    pub(super) async fn get(&self, parts: &[&str]) -> Result<Answer, Fault> {
        self.answer(self.request(Method::GET, parts)).await
    }

    /// Gives an order with a JSON body.
    pub(super) async fn order(
        &self,
        method: Method,
        parts: &[&str],
        body: &serde_json::Value,
    ) -> Result<Answer, Fault> {
        self.order_text(method, parts, body.to_string()).await
    }

    /// The same with a document that is a text already: its bytes count.
    pub(super) async fn order_text(
        &self,
        method: Method,
        parts: &[&str],
        body: String,
    ) -> Result<Answer, Fault> {
        let request = self.request(method, parts).header("content-type", "application/json");
        self.answer(request.body(body)).await
    }

    /// Sends a request that is ready; what is not a 2xx is a [`Fault`].
    pub(super) async fn answer(&self, request: RequestBuilder) -> Result<Answer, Fault> {
        let response = self.response(request).await?;
        let status = response.status().as_u16();
        let text = response.text().await.map_err(|error| self.unreachable(&error))?;
        Ok(Answer { status, text: text.trim_end().to_owned() })
    }

    /// Asks for something that is read piece by piece.
    pub(super) async fn stream(&self, method: Method, parts: &[&str]) -> Result<Response, Fault> {
        self.response(self.request(method, parts)).await
    }

    /// The head of an answer that is a 2xx.
    async fn response(&self, request: RequestBuilder) -> Result<Response, Fault> {
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let text = response.text().await.map_err(|error| self.unreachable(&error))?;
        let text = text.trim_end().to_owned();
        match serde_json::from_str::<Problem>(&text) {
            Ok(problem) if problem.detail.as_deref() == Some(NO_ROUTE) => Err(self.not_duehook()),
            Ok(problem) if !problem.code.is_empty() => {
                let hint = (problem.status == 401).then(|| NO_TOKEN.to_owned());
                Err(Fault::Problem(Box::new(Refusal { problem, text, hint })))
            }
            Ok(_) | Err(_) => Err(self.not_duehook()),
        }
    }

    /// Reads an answer as what the contract says it is.
    pub(super) fn read<T: DeserializeOwned>(&self, text: &str) -> Result<T, Fault> {
        serde_json::from_str(text).map_err(|_| self.not_duehook())
    }

    fn not_duehook(&self) -> Fault {
        Fault::NotDuehook { admin: self.name() }
    }

    fn name(&self) -> String {
        match &self.socket {
            Some(path) => format!("{UNIX}{path}"),
            None => self.admin.as_str().trim_end_matches('/').to_owned(),
        }
    }

    fn unreachable(&self, error: &reqwest::Error) -> Fault {
        let mut deepest: &dyn std::error::Error = error;
        while let Some(inner) = deepest.source() {
            deepest = inner;
        }
        let io = deepest.downcast_ref::<std::io::Error>();
        let refused = io.is_some_and(|io| io.kind() == std::io::ErrorKind::ConnectionRefused);
        let reason = if error.is_timeout() { "it took too long".into() } else { deepest.to_string() };
        Fault::Unreachable { admin: self.name(), refused, reason }
    }
}

fn address(text: &str) -> Result<Url, Fault> {
    let usage = |why: &str| Fault::Usage(format!("--admin {text}: {why}"));
    let url = Url::parse(text).map_err(|_| usage("not a URL such as http://127.0.0.1:8461"))?;
    if !url.username().is_empty() || url.password().is_some() {
        let remedy = "a token is read from --token-file";
        return Err(Fault::Usage(format!("--admin: has no user name and no password; {remedy}")));
    }
    let good = matches!(url.scheme(), "http" | "https") && url.has_host();
    if good { Ok(url) } else { Err(usage("not a URL such as http://127.0.0.1:8461")) }
}
