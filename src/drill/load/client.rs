//! The customers of a drill's server: they make destinations and post deliveries by the
//! thousand, with a bounded number of requests in flight, and stop at the first refusal.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::witness::Witness;
use crate::drill::throwaway::{DrillError, Reply, read};

/// Destinations that are being made at one time: a few commits' worth.
const PUTS: usize = 64;
/// Deliveries in a batch: the most that the API takes.
const BATCH: usize = 1_000;
/// Batches on their way at one time: one is taken while the next arrives. The server's queue
/// has room for about two, and refuses what comes beside them when it is full.
const BATCHES: usize = 2;

/// A destination to make.
pub(in crate::drill) struct Destination {
    pub name: String,
    pub tenant: String,
    /// For the whole attempt.
    pub timeout: Duration,
}

/// The way to the server. Clones share their connections.
#[derive(Clone)]
pub(in crate::drill) struct Client {
    pub http: reqwest::Client,
    pub ingest: String,
    pub admin: String,
}

impl Client {
    /// Makes all of them, at the receiver's URLs.
    pub(in crate::drill) async fn make(
        &self,
        at: &Witness,
        all: impl IntoIterator<Item = Destination>,
    ) -> Result<(), DrillError> {
        let puts = all.into_iter().map(|one| self.clone().put(at.url(&one.name), one));
        in_turn(puts, PUTS).await
    }

    async fn put(self, url: String, destination: Destination) -> Result<(), DrillError> {
        let Destination { name, tenant, timeout } = destination;
        let millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        let settings =
            json!({"tenant": tenant, "url": url, "timeout_ms": millis, "allow_cidrs": ["127.0.0.1/32"]});
        let put = self.http.put(format!("{}/v1/destinations/{name}", self.admin));
        let put = put.header("content-type", "application/json").body(settings.to_string());
        let reply = read(put).await?;
        if reply.status < 300 { Ok(()) } else { Err(refused(&reply)) }
    }

    /// Posts all of them, in batches; each is on disk when this returns.
    pub(in crate::drill) async fn post_all(
        &self,
        deliveries: impl IntoIterator<Item = Value>,
    ) -> Result<(), DrillError> {
        let mut deliveries = deliveries.into_iter();
        let batches = std::iter::from_fn(|| {
            let batch: Vec<Value> = deliveries.by_ref().take(BATCH).collect();
            (!batch.is_empty()).then(|| self.clone().post_batch(batch))
        });
        in_turn(batches, BATCHES).await
    }

    async fn post_batch(self, batch: Vec<Value>) -> Result<(), DrillError> {
        let post = self.http.post(format!("{}/v1/batch", self.ingest));
        let post = post.header("content-type", "application/json").body(Value::from(batch).to_string());
        let reply = read(post).await?;
        let results = reply.json["results"].as_array().ok_or_else(|| refused(&reply))?;
        match results.iter().find(|result| result["status"] != 202) {
            None => Ok(()),
            Some(result) => Err(DrillError::Refused(result.to_string())),
        }
    }

    /// Posts one, under a key of its own.
    pub(in crate::drill) async fn post(self, to: String, key: String) -> Result<(), DrillError> {
        let post = self.http.post(format!("{}/v1/send/{to}", self.ingest));
        let post = post.header("content-type", "application/octet-stream").header("idempotency-key", key);
        let reply = read(post.body("drill")).await?;
        if reply.status == 202 { Ok(()) } else { Err(refused(&reply)) }
    }
}

/// A delivery of a backlog, as `POST /v1/batch` takes it.
pub(in crate::drill) fn delivery(to: &str) -> Value {
    json!({"destination": to, "payload": {"drill": to}})
}

fn refused(reply: &Reply) -> DrillError {
    DrillError::Refused(format!("{} {}", reply.status, reply.json))
}

/// Runs all of `tasks`, at most so many at a time; the first that fails ends the others.
async fn in_turn<F>(tasks: impl Iterator<Item = F>, most: usize) -> Result<(), DrillError>
where
    F: Future<Output = Result<(), DrillError>> + Send + 'static,
{
    let mut running = JoinSet::new();
    for task in tasks {
        if running.len() >= most {
            finish_one(&mut running).await?;
        }
        running.spawn(task);
    }
    finish_all(&mut running).await
}

/// Waits for all of them; the first that failed is the answer.
pub(super) async fn finish_all(running: &mut JoinSet<Result<(), DrillError>>) -> Result<(), DrillError> {
    while !running.is_empty() {
        finish_one(running).await?;
    }
    Ok(())
}

/// Waits until one of them has ended; with none running this is at once.
pub(super) async fn finish_one(running: &mut JoinSet<Result<(), DrillError>>) -> Result<(), DrillError> {
    match running.join_next().await {
        Some(ended) => ended.expect("a request neither panics nor is aborted before its set"),
        None => Ok(()),
    }
}
