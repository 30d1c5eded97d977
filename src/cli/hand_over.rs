//! `drain`, `export` and `import`: a server's work goes to another.
//!
//! An export is written as it comes and is only done when its end line has come; an import is sent
//! as it is read. Neither is held in memory.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame};
use reqwest::Method;
use serde_json::json;

use super::args::files;
use super::client::Client;
use super::fault::Fault;
use super::output::{Output, counted, say, write};
use super::progress::Transfer;
use super::wire::{Claims, Counts, Import};
use crate::time::Millis;

/// Bytes that are read of a file at once.
const PIECE: usize = 256 * 1024;
/// An end line is shorter: what is kept of the end of an export to see whether it has one.
const TAIL: usize = 512;
/// What an export's last line begins with.
const END: &[u8] = b"{\"kind\":\"end\",";

/// Stops claims and ingest for good, and waits for what is in flight.
pub(super) async fn drain(client: &Client, output: &Output, wait: Option<Duration>) -> Result<(), Fault> {
    let order = wait.map_or(json!({}), |wait| json!({"wait_ms": Millis::from(wait).0}));
    let text = client.patient().order(Method::POST, &["v1", "drain"], &order).await?.text;
    let Claims { claims, leases_held, fence } = client.read(&text)?;
    let in_flight = || Fault::Local(in_flight(leases_held));
    if output.json {
        write(&text)?;
        return if leases_held == 0 { Ok(()) } else { Err(in_flight()) };
    }
    let fence = fence.map_or_else(|| "-".to_owned(), |fence| fence.to_string());
    let next = match leases_held {
        0 => "next: duehook export --output FILE, then duehook import FILE on the server that takes over\n",
        _ => "",
    };
    say(&format!(
        "claims {claims}, fence {fence}: nothing is sent and new deliveries get 503 draining\n{next}\
         to go on here instead: duehook claims start --fence {fence}"
    ))?;
    // What follows in a script is not to go on as if nothing were on its way.
    if leases_held == 0 { Ok(()) } else { Err(in_flight()) }
}

fn in_flight(count: u64) -> String {
    let are = counted(count, "request is", "requests are");
    format!("drained, but {are} still in flight: run duehook drain again to wait longer")
}

/// Writes an export to a new file, or to standard output.
pub(super) async fn export(client: &Client, output: &Output, to: Option<&Path>) -> Result<(), Fault> {
    let Some(path) = to else {
        return copy(client, output, &mut std::io::stdout().lock(), "standard output").await.map(drop);
    };
    let name = path.display().to_string();
    let failed = |error: std::io::Error| Fault::Local(format!("{name}: {error}"));
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    let copied = match copy(client, output, &mut file, &name).await {
        Ok(bytes) => file.sync_all().map(|()| bytes).map_err(failed),
        Err(fault) => Err(fault),
    };
    match copied {
        Ok(bytes) => output.either(
            || json!({"file": path, "bytes": bytes}).to_string(),
            || {
                format!(
                    "{name}: {bytes} bytes, whole; it holds bodies and secrets\n\
                     next: duehook import {name} on the server that takes over"
                )
            },
        ),
        Err(fault) => {
            // Half an export is none; whether it can be removed changes nothing about that.
            drop(fs::remove_file(path));
            Err(fault)
        }
    }
}

/// Writes what comes, and how much it was if it was whole.
async fn copy(client: &Client, output: &Output, to: &mut impl Write, name: &str) -> Result<u64, Fault> {
    let failed = |error: std::io::Error| Fault::Local(format!("{name}: {error}"));
    let broken =
        || Fault::Local("the export broke off before its end line: nothing of it is of use".to_owned());
    let mut answer = client.patient().stream(Method::GET, &["v1", "export"]).await?;
    let (mut progress, mut tail) = (Transfer::new(output, "exported", None), Vec::new());
    loop {
        let piece = answer.chunk().await.map_err(|_| broken())?;
        let Some(piece) = piece else { break };
        to.write_all(&piece).map_err(failed)?;
        tail.extend_from_slice(&piece[piece.len().saturating_sub(TAIL)..]);
        tail.drain(..tail.len().saturating_sub(TAIL));
        progress.add(piece.len());
    }
    to.flush().map_err(failed)?;
    progress.end();
    if has_end(&tail) { Ok(progress.bytes) } else { Err(broken()) }
}

/// True when the last line is an export's end.
fn has_end(tail: &[u8]) -> bool {
    let Some(lines) = tail.strip_suffix(b"\n") else { return false };
    lines.rsplit(|byte| *byte == b'\n').next().is_some_and(|last| last.starts_with(END))
}

/// Sends an export to the server that takes over.
pub(super) async fn import(client: &Client, output: &Output, asked: &files::Import) -> Result<(), Fault> {
    let flags = [("dry_run", asked.dry_run), ("stop_on_error", asked.stop_on_error)];
    let query: Vec<(&str, String)> =
        flags.into_iter().filter(|(_, on)| *on).map(|(name, on)| (name, on.to_string())).collect();
    let (from, length) = source(&asked.file)?;
    let body = reqwest::Body::wrap(Upload { from, progress: Transfer::new(output, "sent", length) });
    let client = client.patient();
    let request = client.request_with(Method::POST, &["v1", "import"], &query);
    let request = request.header("content-type", "application/x-ndjson").body(body);
    let text = client.answer(request).await?.text;
    let told: Import = client.read(&text)?;
    if output.json {
        write(&text)?
    } else {
        say(&shown(&told))?
    }
    match told.rejected.len() as u64 + told.more_rejected {
        0 => Ok(()),
        some => Err(Fault::Local(rejected(&told, some))),
    }
}

/// How many lines, and the first of them.
fn rejected(told: &Import, count: u64) -> String {
    let were = counted(count, "line was", "lines were");
    let first = told.rejected.first();
    let first = first.map(|it| format!(": line {}, {}", it.line, it.problem.sentence(None)));
    let more = if count > 1 { ", and others after it" } else { "" };
    first.map_or(format!("{were} rejected"), |first| format!("{were} rejected{first}{more}"))
}

/// What is sent, and how much of it there is, if that is known.
fn source(path: &Path) -> Result<(Box<dyn Read + Send + Sync>, Option<u64>), Fault> {
    if path.as_os_str() == "-" {
        return Ok((Box::new(std::io::stdin()), None));
    }
    let file = File::open(path).map_err(|error| Fault::Local(format!("{}: {error}", path.display())))?;
    let length = file.metadata().ok().map(|it| it.len());
    Ok((Box::new(file), length))
}

fn shown(told: &Import) -> String {
    let counts = |of: &str, it: &Counts| {
        format!("{of}: {} imported, {} updated, {} unchanged", it.imported, it.updated, it.unchanged)
    };
    let mut text =
        if told.dry_run { "nothing was changed; this would be done:\n".to_owned() } else { String::new() };
    text += &counts("destinations", &told.destinations);
    text += "\n";
    text += &counts("deliveries", &told.deliveries);
    for rejected in &told.rejected {
        text += &format!("\nline {}: {}", rejected.line, rejected.problem.sentence(None));
    }
    if told.more_rejected > 0 {
        text += &format!("\nand {} more lines", told.more_rejected);
    }
    if told.stopped {
        text += "\nstopped there; what stands before that line is kept";
    }
    text
}

/// A file that is read as fast as it is taken.
struct Upload {
    from: Box<dyn Read + Send + Sync>,
    progress: Transfer,
}

impl Body for Upload {
    type Data = Bytes;
    type Error = std::io::Error;

    /// Reading waits for the disk, or for whoever writes the pipe; this client has nothing else to do.
    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<std::io::Result<Frame<Bytes>>>> {
        let mut piece = vec![0; PIECE];
        match self.from.read(&mut piece) {
            Ok(0) => {
                self.progress.end();
                Poll::Ready(None)
            }
            Ok(length) => {
                piece.truncate(length);
                self.progress.add(length);
                Poll::Ready(Some(Ok(Frame::data(piece.into()))))
            }
            Err(error) => Poll::Ready(Some(Err(error))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_export_is_whole_when_its_last_line_is_its_end() {
        let check = |text: &str, want: bool| assert_eq!(has_end(text.as_bytes()), want, "{text:?}");
        check("", false);
        check("{\"kind\":\"end\",\"destinations\":0}\n", true);
        check("half a line}\n{\"kind\":\"end\",\"destinations\":0}\n", true);
        check("{\"kind\":\"end\",\"destinations\":0}", false);
        check("{\"kind\":\"end\",\"destinations\":0}\n{\"kind\":\"delivery\"}\n", false);
        check("{\"kind\":\"delivery\",\"x\":\"{\\\"kind\\\":\\\"end\\\",\"}\n", false);
    }

    #[test]
    fn what_an_import_came_to_is_told_line_by_line() {
        let told: Import = serde_json::from_str(
            r#"{"dry_run": true, "imported": 3, "updated": 2, "unchanged": 1,
                "destinations": {"imported": 1, "updated": 0, "unchanged": 0},
                "rejected": [{"line": 7, "problem": {"status": 409, "code": "leased", "title": "T", "detail": "D"}}],
                "more_rejected": 4, "stopped": true}"#,
        )
        .unwrap();
        assert_eq!(
            shown(&told),
            "nothing was changed; this would be done:\n\
             destinations: 1 imported, 0 updated, 0 unchanged\n\
             deliveries: 3 imported, 2 updated, 1 unchanged\n\
             line 7: D (409 leased)\n\
             and 4 more lines\n\
             stopped there; what stands before that line is kept"
        );
    }
}
