//! What a drill says while it runs, and the verdict that its checks add up to.

use std::io::Write as _;

use tokio::time::Instant;

/// Who listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// A person at a terminal: colour, and signs that not every log file can hold.
    Terminal,
    /// ASCII only.
    Plain,
    /// A JSON object a line.
    Json,
}

/// The voice of one drill.
pub struct Voice {
    manner: Manner,
    started: Instant,
    checks: u32,
    failed: u32,
}

impl Voice {
    /// Times are told from now on.
    #[must_use]
    pub fn new(manner: Manner) -> Voice {
        Voice { manner, started: Instant::now(), checks: 0, failed: 0 }
    }

    /// Tells what is happening.
    pub fn say(&self, text: &str) {
        let seconds = self.started.elapsed().as_secs_f64();
        self.write(&match self.manner {
            Manner::Terminal | Manner::Plain => format!("{seconds:6.1} s  {text}"),
            Manner::Json => {
                serde_json::json!({"event": "progress", "seconds": seconds, "text": text}).to_string()
            }
        });
    }

    /// Tells whether one part of the promise was kept.
    pub fn check(&mut self, good: bool, text: &str) {
        self.checks += 1;
        self.failed += u32::from(!good);
        self.write(&match (self.manner, good) {
            (Manner::Terminal, true) => format!("  \u{1b}[32m✓\u{1b}[0m {text}"),
            (Manner::Terminal, false) => format!("  \u{1b}[31m✗\u{1b}[0m {text}"),
            (Manner::Plain, true) => format!("  ok    {text}"),
            (Manner::Plain, false) => format!("  FAIL  {text}"),
            (Manner::Json, good) => {
                serde_json::json!({"event": "check", "good": good, "text": text}).to_string()
            }
        });
    }

    /// Tells the verdict: true when there were checks and all of them held.
    #[must_use]
    pub fn verdict(&self, promise: &str) -> bool {
        let kept = self.checks > 0 && self.failed == 0;
        let Voice { checks, failed, .. } = self;
        self.write(&match (self.manner, kept) {
            (Manner::Terminal | Manner::Plain, true) => format!("kept: {promise}"),
            (Manner::Terminal | Manner::Plain, false) => {
                format!("NOT KEPT: {promise} ({failed} of {checks} checks failed)")
            }
            (Manner::Json, kept) => serde_json::json!({
                "event": "verdict", "kept": kept, "promise": promise, "checks": checks, "failed": failed,
            })
            .to_string(),
        });
        kept
    }

    fn write(&self, line: &str) {
        // Whoever closed standard output does not want to hear it; the exit code still tells.
        let _closed = writeln!(anstream::stdout(), "{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failed_check_is_a_broken_promise() {
        let check = |checks: &[bool], want: bool| {
            let mut voice = Voice::new(Manner::Json);
            checks.iter().for_each(|good| voice.check(*good, "a check"));
            assert_eq!(voice.verdict("a promise"), want, "{checks:?}");
        };
        check(&[true, true], true);
        check(&[true, false], false);
        check(&[], false);
    }
}
