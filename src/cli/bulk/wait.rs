//! Waiting for the end of a job, with a line that says how far it is. It only looks: whoever leaves
//! leaves the job running.

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::cli::client::Client;
use crate::cli::fault::Fault;
use crate::cli::output::Output;
use crate::cli::progress;
use crate::cli::wire::Job;

/// Looks in a row that may find nobody: a restart takes less than a minute.
const PATIENCE: u32 = 120;
/// Between two looks.
const LOOK: Duration = Duration::from_millis(500);

/// The job's document once it has ended. `expected`: how many it is about, where that is known.
pub(super) async fn ended(
    client: &Client,
    output: &Output,
    id: &str,
    expected: Option<u64>,
) -> Result<String, Fault> {
    let shown = progress::is_shown(output);
    let ended = watched(client, id, |job| {
        if shown {
            progress::line(&words(job, expected));
        }
    });
    let ended = ended.await;
    if shown {
        progress::clear();
    }
    ended
}

/// Fails where somebody has stopped it: not all is done.
pub(super) fn whole(job: &Job) -> Result<(), Fault> {
    if job.state == "done" {
        Ok(())
    } else {
        Err(Fault::Local(format!("{} was stopped before its end", job.id)))
    }
}

async fn watched(client: &Client, id: &str, tell: impl Fn(&Job)) -> Result<String, Fault> {
    let mut clock = interval(LOOK);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut unheard = 0;
    loop {
        clock.tick().await;
        let text = match client.get(&["v1", "bulk", id]).await {
            // The job survives a restart, and so does the wait for it.
            Err(Fault::Unreachable { .. }) if unheard < PATIENCE => {
                unheard += 1;
                continue;
            }
            Err(Fault::Unreachable { reason, .. }) => {
                let text =
                    format!("the server of {id} is not heard any more ({reason}); the job goes on with it");
                return Err(Fault::Local(text));
            }
            answer => answer?.text,
        };
        unheard = 0;
        let job: Job = client.read(&text)?;
        if job.state != "running" {
            return Ok(text);
        }
        tell(&job);
    }
}

/// `cancel: 120 of 1200 (10 %), 3 skipped`. What is found is counted as it comes to its turn.
fn words(job: &Job, expected: Option<u64>) -> String {
    let Job { action, matched, skipped, .. } = job;
    let come = match expected.filter(|all| *all > 0) {
        Some(all) => format!("{matched} of {all} ({} %)", matched.saturating_mul(100).min(all * 100) / all),
        None => format!("{matched} found"),
    };
    let skipped = if *skipped > 0 { format!(", {skipped} skipped") } else { String::new() };
    let counts = if job.dry_run { " (only counted)" } else { "" };
    format!("{action}{counts}: {come}{skipped}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_far_a_job_is_in_words() {
        let check = |matched: u64, skipped: u64, dry_run: bool, expected: Option<u64>, want: &str| {
            let job = Job { action: "cancel".into(), matched, skipped, dry_run, ..Job::default() };
            assert_eq!(words(&job, expected), want);
        };
        check(0, 0, false, None, "cancel: 0 found");
        check(120, 3, false, Some(1_200), "cancel: 120 of 1200 (10 %), 3 skipped");
        check(1_199, 0, false, Some(1_200), "cancel: 1199 of 1200 (99 %)");
        check(7, 0, false, Some(6), "cancel: 7 of 6 (100 %)");
        check(7, 0, false, Some(0), "cancel: 7 found");
        check(7, 0, true, None, "cancel (only counted): 7 found");
    }
}
