//! What systemd is told: that the server opens, is ready, lives and stops (`sd_notify`).
//!
//! The watchdog is fed by commits, the heartbeat of an idle server included, and by a hold while it
//! lasts, never by what is read: a server that cannot write does not live. Without `NOTIFY_SOCKET` nobody is told
//! anything. Decides nothing.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use crate::driver::Handle;
use crate::engine::HEARTBEAT;
use crate::engine::live::Live;
use crate::store::{Pass, Progress};
use crate::time::Millis;

/// How often it is looked whether there was a commit, or whether an open has read on.
const LOOK: Duration = Duration::from_secs(1);
/// An open that reads nothing for so long may be taken for stuck.
const OPEN_PATIENCE: Duration = Duration::from_secs(30);
/// What a stop takes after the requests in flight have had their time: the file is closed, and the
/// listeners end.
const STOP_MARGIN: Millis = Millis(10_000);
/// Heartbeats that may fail to come before the watchdog bites; with fewer it bites who is idle.
const HEARTBEATS: u64 = 3;
/// What this process has read, cache included.
const READ_SO_FAR: &str = "/proc/self/io";
/// What it holds fits in here.
const METER_BYTES: usize = 1_024;

/// How much this process has read. Only an open file tells it once the process is closed to others:
/// then it is root's (`process`).
pub(super) struct Meter(Option<File>);

impl Meter {
    /// Reads nothing yet.
    pub(super) fn open() -> Meter {
        Meter(File::open(READ_SO_FAR).ok())
    }

    /// Pages read since the start; None where the system does not tell.
    fn read(&self) -> Option<u64> {
        let mut text = [0; METER_BYTES];
        let length = self.0.as_ref()?.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(&text[..length]).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("rchar: "))?;
        // Reading it is reading, too, but some hundred bytes are no page.
        Some(line.trim().parse::<u64>().ok()? / PAGE)
    }
}

/// The file is about to be opened, which may take long: goes on asking for more time as long as
/// bytes are read, until it is dropped.
#[must_use]
pub(super) fn opening(data: &Path, meter: Meter) -> JoinSet<()> {
    let status = format!("opening {}", data.display());
    tell(&[NotifyState::Status(&status), extended(OPEN_PATIENCE)]);
    let mut asking = JoinSet::new();
    asking.spawn(ask_for_time(meter));
    asking
}

async fn ask_for_time(meter: Meter) {
    let mut clock = interval(LOOK);
    let mut before = meter.read();
    loop {
        clock.tick().await;
        let now = meter.read();
        if now > before {
            tell(&[extended(OPEN_PATIENCE)]);
        }
        before = now;
    }
}

/// What progress is counted in.
const PAGE: u64 = 4_096;

/// A file that was not closed, or may not be ours, is walked, and so far it has come.
pub(super) fn walked(progress: Progress) {
    let what = match progress.pass {
        Pass::Repair => "after a crash",
        Pass::Pages => "page by page",
        Pass::Records => "record by record",
    };
    let (Progress { bytes, of, .. }, percent) = (progress, progress.percent());
    tracing::info!(bytes, of, percent, "checking the data file {what}");
    let status = format!("checking the data file {what}: {bytes} of {of} bytes, {percent} %");
    tell(&[NotifyState::Status(&status), extended(OPEN_PATIENCE)]);
}

/// Deliveries are taken from now on. As long as the tasks live, each commit feeds the watchdog.
#[must_use]
pub(super) fn ready(handle: Handle) -> JoinSet<()> {
    tell(&[NotifyState::Ready, NotifyState::Status(&serving(&handle.live()))]);
    let mut feeding = JoinSet::new();
    if let Some(limit) = sd_notify::watchdog_enabled() {
        let least = Millis(HEARTBEAT.0 * HEARTBEATS).duration();
        if limit < least {
            tracing::warn!(?limit, ?least, "WatchdogSec is short: an idle server commits every 10 s");
        }
    }
    feeding.spawn(feed(handle));
    feeding
}

/// Once a second at most, and only after a commit that was not there before, or in a hold, which
/// keeps commits back and ends by itself.
async fn feed(handle: Handle) {
    let mut clock = interval(LOOK);
    clock.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut before = handle.commits();
    loop {
        clock.tick().await;
        let commits = handle.commits();
        if commits > before || handle.is_held() {
            before = commits;
            tell(&[NotifyState::Watchdog, NotifyState::Status(&serving(&handle.live()))]);
        }
    }
}

fn serving(live: &Live) -> String {
    let waiting: u64 = live.classes.iter().map(|class| class.ready + class.held + class.delayed).sum();
    let taken = if live.disk.low { "; the disk is low: nothing new is taken" } else { "" };
    format!("serving: {waiting} waiting, {} in flight{taken}", live.in_flight)
}

/// A stop has begun, which waits for what is in flight.
pub(super) fn stopping(patience: Millis) {
    let limit = patience.duration() + STOP_MARGIN.duration();
    tell(&[
        NotifyState::Stopping,
        NotifyState::Status("stopping: requests in flight may end"),
        extended(limit),
    ]);
}

/// Why it ends.
pub(super) fn failed(why: &str) {
    // A line of its own is another variable.
    tell(&[NotifyState::Status(&why.replace('\n', " "))]);
}

fn extended(by: Duration) -> NotifyState<'static> {
    NotifyState::ExtendTimeoutUsec(u32::try_from(by.as_micros()).unwrap_or(u32::MAX))
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "systemd was not told");
    }
}
