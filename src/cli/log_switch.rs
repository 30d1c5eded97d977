//! The log: its level and its form, both of which can change while the server runs.

use std::io::IsTerminal;

use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

use crate::config::{Log, LogFormat};

/// Sets level and form of the log anew.
pub(super) struct LogSwitch(Box<dyn Fn(&Log) + Send + Sync>);

impl LogSwitch {
    /// Starts the log. There are two writers of lines, and one of them is silent.
    pub(super) fn install(log: &Log) -> LogSwitch {
        let (as_text, text) = reload::Layer::new(filter(log, false));
        let (as_json, json) = reload::Layer::new(filter(log, true));
        // A log that cannot be written (its disk is full) must not end the process in a panic: what
        // ends it is told by its exit code.
        let lines = fmt::layer().with_writer(std::io::stderr).log_internal_errors(false).with_filter(as_text);
        let objects =
            fmt::layer().json().with_writer(std::io::stderr).log_internal_errors(false).with_filter(as_json);
        Registry::default().with(lines).with(objects).init();
        LogSwitch(Box::new(move |log| {
            // Neither fails while the log is there, and it is there until the process ends.
            drop(text.reload(filter(log, false)));
            drop(json.reload(filter(log, true)));
        }))
    }

    /// Goes by these settings from now on.
    pub(super) fn set(&self, log: &Log) {
        self.0(log);
    }
}

/// What the writer of this form lets through: our own lines. What libraries say may hold what is
/// sent, and nobody here looks at their words.
fn filter(log: &Log, json: bool) -> EnvFilter {
    let wanted = match log.format {
        LogFormat::Auto => !std::io::stderr().is_terminal(),
        LogFormat::Text => false,
        LogFormat::Json => true,
    };
    let ours = format!("duehook={}", log.level);
    EnvFilter::new(if wanted == json { &ours } else { "off" })
}
