//! The throw-away server of a drill: this binary as a child process, on free ports, with its
//! data in a folder that goes when the drill ends.

use std::io::{self, BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::load::client::Client;
use crate::config;

/// A server that has not said where it listens by then never will.
const START: Duration = Duration::from_secs(30);
/// One request to it.
const REQUEST: Duration = Duration::from_secs(10);
/// Bytes of its log that are shown when it does not start.
const LOG_SHOWN: usize = 2_000;

/// What is set for the server besides free ports: failures come back soon, so that a drill
/// takes seconds.
const SETTINGS: [(&str, &str); 6] = [
    // It lives too short to need a copy, and is measured.
    ("DUEHOOK_BACKUP__DIR", ""),
    // A trial is not to fail because the folder for temporary files is small.
    ("DUEHOOK_INGEST__MIN_FREE_DISK", "16MiB"),
    ("DUEHOOK_INGEST__LISTEN", "127.0.0.1:0"),
    ("DUEHOOK_ADMIN__LISTEN", "127.0.0.1:0"),
    ("DUEHOOK_POLICY__DEFAULT__SCHEDULE", "300ms"),
    ("DUEHOOK_POLICY__DEFAULT__MIN_DELAY", "100ms"),
];

/// A drill that could not be run to its end.
#[derive(Debug, thiserror::Error)]
pub enum DrillError {
    #[error("cannot start a receiver: {0}")]
    Receiver(#[source] io::Error),
    #[error("cannot start a server: {0}")]
    Spawn(#[source] io::Error),
    #[error("the server did not say where it listens; its log ends:\n{log}")]
    NotServing { log: String },
    #[error("cannot speak to the server: {0}")]
    Http(#[from] reqwest::Error),
    #[error("the server refused what the drill needs: {0}")]
    Refused(String),
}

/// An answer of the server.
#[derive(Debug)]
pub(super) struct Reply {
    pub status: u16,
    pub json: serde_json::Value,
}

impl Reply {
    /// A text field; empty when there is none.
    pub(super) fn text(&self, field: &str) -> &str {
        self.json[field].as_str().unwrap_or_default()
    }
}

/// A running server. It is killed, and its folder removed, when this is dropped.
pub(super) struct Throwaway {
    server: Killed,
    http: reqwest::Client,
    ingest: String,
    admin: String,
    /// Reads what the server prints, so that it never waits for a reader.
    _printed: JoinSet<()>,
    _folder: TempDir,
}

/// A child that does not outlive its owner.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended by itself; either way nothing of it is left after the wait.
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// Where the server listens, as it prints it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Addresses {
    ingest: String,
    admin: String,
}

impl Throwaway {
    /// Starts the server and waits until it serves.
    pub(super) async fn start() -> Result<Throwaway, DrillError> {
        Throwaway::with(&[]).await
    }

    /// The same with further settings, by their variables.
    pub(super) async fn with(settings: &[(&str, String)]) -> Result<Throwaway, DrillError> {
        let folder = tempfile::tempdir().map_err(DrillError::Spawn)?;
        let log = folder.path().join("server.log");
        let mut server = Killed(spawn(&folder, &log, settings).map_err(DrillError::Spawn)?);
        let mut printed = JoinSet::new();
        let addresses = match server.0.stdout.take() {
            Some(stdout) => addresses(stdout, &mut printed).await,
            None => None,
        };
        let Some(Addresses { ingest, admin }) = addresses else {
            return Err(DrillError::NotServing { log: end_of(&log) });
        };
        let http = reqwest::Client::builder().no_proxy().timeout(REQUEST).build()?;
        Ok(Throwaway { server, http, ingest, admin, _printed: printed, _folder: folder })
    }

    /// The number of its process.
    pub(super) fn process(&self) -> u32 {
        self.server.0.id()
    }

    /// The way to it for customers who come in numbers.
    pub(super) fn client(&self) -> Client {
        let Throwaway { http, ingest, admin, .. } = self;
        Client { http: http.clone(), ingest: ingest.clone(), admin: admin.clone() }
    }

    /// Makes a destination that may be called on loopback.
    pub(super) async fn destination(&self, name: &str, url: &str) -> Result<(), DrillError> {
        let settings = serde_json::json!({"tenant": "drill", "url": url, "allow_cidrs": ["127.0.0.1/32"]});
        let put = self.http.put(format!("{}/v1/destinations/{name}", self.admin));
        let reply = put.header("content-type", "application/json").body(settings.to_string()).send().await?;
        let (status, text) = (reply.status(), reply.text().await?);
        if status.is_success() { Ok(()) } else { Err(DrillError::Refused(text)) }
    }

    /// Posts a body under a key, as a producer does.
    pub(super) async fn post(&self, to: &str, key: &str, body: Vec<u8>) -> Result<Reply, DrillError> {
        let post = self.http.post(format!("{}/v1/send/{to}", self.ingest));
        let post = post.header("content-type", "application/octet-stream").header("idempotency-key", key);
        read(post.body(body)).await
    }

    /// The delivery of an id.
    pub(super) async fn delivery(&self, id: &str) -> Result<Reply, DrillError> {
        read(self.http.get(format!("{}/v1/deliveries/{id}", self.admin))).await
    }

    /// How many deliveries to `to` were delivered, counted up to 1,000.
    pub(super) async fn delivered(&self, to: &str) -> Result<usize, DrillError> {
        let query = format!("destination={to}&outcome=delivered&limit=1000");
        let reply = read(self.http.get(format!("{}/v1/deliveries?{query}", self.admin))).await?;
        Ok(reply.json["data"].as_array().map_or(0, Vec::len))
    }
}

pub(super) async fn read(request: reqwest::RequestBuilder) -> Result<Reply, DrillError> {
    let response = request.send().await?;
    let status = response.status().as_u16();
    let json = serde_json::from_str(&response.text().await?).unwrap_or_default();
    Ok(Reply { status, json })
}

fn spawn(folder: &TempDir, log: &std::path::Path, settings: &[(&str, String)]) -> io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("serve").arg("--data").arg(folder.path().join("drill.redb"));
    for name in config::environment().keys() {
        command.env_remove(name);
    }
    command.envs(SETTINGS).envs(settings.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command.stderr(std::fs::File::create(log)?).spawn()
}

/// Reads what the server prints until it has said where it listens; a task reads on.
async fn addresses(stdout: ChildStdout, printed: &mut JoinSet<()>) -> Option<Addresses> {
    let (tell, told) = oneshot::channel();
    printed.spawn_blocking(move || {
        let mut lines = BufReader::new(stdout);
        let found = read_addresses(&mut lines);
        // The drill may have given up waiting.
        let _gone = tell.send(found);
        let _rest = io::copy(&mut lines, &mut io::sink());
    });
    tokio::time::timeout(START, told).await.ok()?.ok()?
}

/// Lines such as `ingest  http://127.0.0.1:8460`, among others.
fn read_addresses(lines: &mut impl BufRead) -> Option<Addresses> {
    let mut found = Addresses::default();
    for line in lines.lines() {
        let line = line.ok()?;
        let mut words = line.split_whitespace();
        let (name, url) = (words.next(), words.find(|word| word.starts_with("http://")));
        match (name, url) {
            (Some("ingest"), Some(url)) => found.ingest = url.trim_end_matches('/').into(),
            (Some("admin"), Some(url)) => found.admin = url.trim_end_matches('/').into(),
            (_, _) => {}
        }
        if !found.ingest.is_empty() && !found.admin.is_empty() {
            return Some(found);
        }
    }
    None
}

fn end_of(log: &std::path::Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    String::from_utf8_lossy(&text[text.len().saturating_sub(LOG_SHOWN)..]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_among_other_lines() {
        let check = |text: &str, want: Option<(&str, &str)>| {
            let got = read_addresses(&mut text.as_bytes());
            let got = got.as_ref().map(|found| (found.ingest.as_str(), found.admin.as_str()));
            assert_eq!(got, want, "{text}");
        };
        let both = Some(("http://127.0.0.1:1", "http://127.0.0.1:2"));
        check("duehook 0.1.0\n  ingest  http://127.0.0.1:1\n  admin   http://127.0.0.1:2/\nmore", both);
        check("admin http://127.0.0.1:2\ningest: x\ningest on http://127.0.0.1:1", both);
        check("ingest http://127.0.0.1:1\ncurl http://127.0.0.1:2", None);
        check("", None);
    }
}
