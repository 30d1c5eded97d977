//! `verify`, `restore` and `compact`: what is done to a file that no server has open.

use std::path::Path;
use std::process::ExitCode;

use serde_json::json;

use super::fault::Fault;
use super::output::{Output, deliveries, length, sheet};
use super::progress;
use crate::store::{self, OpenError, Told, Verified};

/// A restart will not help: the file is damaged (`EX_CONFIG`).
const DAMAGED: u8 = 78;

/// Does what reads files in full, and tells how far that has come.
fn reading<T>(output: &Output, work: impl FnOnce(Told) -> Result<T, OpenError>) -> Result<T, Fault> {
    let done = work(progress::told(output));
    if progress::is_shown(output) {
        progress::clear();
    }
    done.map_err(Fault::File)
}

/// Reads a whole file and says what is in it and what is wrong: 78 when no server may use it, 1 when
/// one may, but something in it cannot be read.
pub(super) fn verify(output: &Output, file: &Path) -> Result<ExitCode, Fault> {
    let verified = reading(output, |told| store::verify_telling(file, told))?;
    output.either(|| document(file, &verified).to_string(), || shown(output, file, &verified))?;
    Ok(match (&verified.found.contradiction, verified.found.problems.is_empty()) {
        (Some(_), _) => ExitCode::from(DAMAGED),
        (None, false) => ExitCode::FAILURE,
        (None, true) => ExitCode::SUCCESS,
    })
}

fn document(file: &Path, it: &Verified) -> serde_json::Value {
    let found = &it.found;
    json!({
        "file": file, "whole": found.problems.is_empty(), "region": it.region, "format": it.format,
        "step": it.step, "last_commit_at": it.at.to_string(), "backup_at": it.backup_at.map(|at| at.to_string()),
        "bytes": it.bytes, "deliveries": found.deliveries, "waiting": found.waiting, "leased": found.leased,
        "terminal": found.terminal, "quarantined": found.quarantined, "destinations": found.destinations,
        "attempts": found.attempts, "audit": found.audit, "payload_bytes": found.body_bytes, "wrong": found.wrong,
        "damaged": found.damaged,
        "problems": found.problems,
    })
}

fn shown(output: &Output, file: &Path, it: &Verified) -> String {
    let found = &it.found;
    let mut text = sheet(vec![
        ("file", file.display().to_string()),
        ("region", format!("{}, format {}", it.region, it.format)),
        ("last commit", output.at(Some(&it.at.to_string()))),
        ("backup of", output.at(it.backup_at.map(|at| at.to_string()).as_deref())),
        ("bytes", format!("{}, of bodies {}", it.bytes, found.body_bytes)),
        ("deliveries", found.deliveries.to_string()),
        ("  waiting", format!("{}, in flight {}", found.waiting, found.leased)),
        ("  ended", format!("{}, quarantined {}", found.terminal, found.quarantined)),
        ("destinations", found.destinations.to_string()),
    ]);
    if it.format < store::open::FORMAT {
        return text
            + "\n\nevery page is as it should be; records of that format are read when a server opens it";
    }
    if found.problems.is_empty() {
        text += "\n\nwhole: every page, record and index row is as it should be";
        return text;
    }
    text += &format!(
        "\n\nDAMAGED: {} things contradict each other, {} cannot be read",
        found.wrong, found.damaged
    );
    for problem in &found.problems {
        text += &format!("\n  {problem}");
    }
    if found.contradiction.is_none() {
        return text
            + "\nusable: what cannot be read is quarantined when it is its turn, and hides nothing else";
    }
    text + "\nrestore the newest backup: duehook restore BACKUP --data FILE"
}

/// Puts a backup in the place of a data file.
pub(super) fn restore(output: &Output, backup: &Path, data: &Path) -> Result<ExitCode, Fault> {
    let place = |path: &Path| std::fs::canonicalize(path).ok();
    if place(backup).is_some_and(|it| Some(it) == place(data)) {
        let same = format!("{} is the data file itself: name a backup to put in its place", backup.display());
        return Err(Fault::Usage(same));
    }
    if std::fs::symlink_metadata(data).is_ok() {
        output.confirm(&format!("{} is there and would be replaced.", data.display()))?;
    }
    let verified = reading(output, |told| store::restore(backup, data, told))?;
    output.either(
        || json!({"data": data, "backup": document(backup, &verified)}).to_string(),
        || restored(output, data, &verified),
    )?;
    Ok(ExitCode::SUCCESS)
}

fn restored(output: &Output, data: &Path, it: &Verified) -> String {
    let taken = it.backup_at.unwrap_or(it.at);
    let age = length(output.now.since(taken));
    let Verified { found, .. } = it;
    format!(
        "restored {}: {} as of {} ({age} ago), {} of them not ended\n\
         What was sent since then is sent again under its old key, and what was accepted since is not there.\n\
         Nothing is sent until you say so: start the server, look at it, then duehook claims start",
        data.display(),
        deliveries(found.deliveries),
        taken,
        found.waiting + found.leased,
    )
}

/// Makes a closed file smaller.
pub(super) fn compact(output: &Output, file: &Path) -> Result<ExitCode, Fault> {
    let (before, after) = reading(output, |told| store::compact(file, told))?;
    output.either(
        || json!({"file": file, "bytes_before": before, "bytes": after}).to_string(),
        || format!("{}: {before} bytes before, {after} now; whole", file.display()),
    )?;
    Ok(ExitCode::SUCCESS)
}
