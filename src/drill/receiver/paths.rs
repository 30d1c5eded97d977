//! The script for people: what each path answers.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::Answer;

/// Keys and paths that are counted; the first in order makes room, and begins anew.
pub const MAX_COUNTED: usize = 100_000;
/// The longest time a path may ask to wait.
const MAX_SLOW: Duration = Duration::from_secs(600);

/// What is printed when the receiver starts.
pub const USAGE: &str = "  /ok                    204
  /status/{code}         that status
  /429/{seconds}         429, Retry-After in seconds
  /429-date/{seconds}    429, Retry-After as a date
  /429-malformed         429, a Retry-After that is none
  /once-429/{seconds}    the first request 429 with Retry-After, then 204
  /limit/{n}             the first n requests 429 with Retry-After: 1, then 204
  /flaky/{n}             the first n requests of each key 503, then 204
  /drop                  reads the request, closes without a byte
  /slow/{ms}             204, that much later
  /redirect              307 to /ok
  /endless               200, a body without end";

/// What the paths that count have counted.
#[derive(Debug, Default)]
pub(super) struct Paths {
    /// By path, or path and key.
    seen: Mutex<BTreeMap<Vec<u8>, u64>>,
}

impl Paths {
    /// The answer to a request for `path`, which has no query, under `key`.
    pub(super) fn answer(&self, path: &str, key: &[u8]) -> Answer {
        if path == "/ok" {
            return Answer::status(204);
        }
        let mut parts = path.trim_start_matches('/').splitn(2, '/');
        let (verb, argument) = (parts.next().unwrap_or_default(), parts.next());
        match (verb, argument.map(str::parse::<u64>)) {
            ("429-malformed", None) => Answer::refuse("soon"),
            ("drop", None) => Answer::Drop,
            ("redirect", None) => Answer::redirect("/ok"),
            ("endless", None) => Answer::Endless,
            (_, Some(Ok(number))) => self.numbered(verb, number, path, key),
            (_, None | Some(Err(_))) => Answer::status(404),
        }
    }

    fn numbered(&self, verb: &str, number: u64, path: &str, key: &[u8]) -> Answer {
        match verb {
            "status" => u16::try_from(number).map_or(Answer::status(404), Answer::status),
            "429" => Answer::refuse(&number.to_string()),
            "429-date" => Answer::refuse_until(Duration::from_secs(number.min(u64::from(u32::MAX)))),
            "once-429" if self.nth(path.as_bytes().to_vec()) == 1 => Answer::refuse(&number.to_string()),
            "limit" if self.nth(path.as_bytes().to_vec()) <= number => Answer::refuse("1"),
            "flaky" if self.nth([path.as_bytes(), b" ", key].concat()) <= number => Answer::status(503),
            "slow" => Answer::status(204).after(Duration::from_millis(number).min(MAX_SLOW)),
            "once-429" | "limit" | "flaky" => Answer::status(204),
            _ => Answer::status(404),
        }
    }

    /// How often this was asked for, this time included.
    fn nth(&self, what: Vec<u8>) -> u64 {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= MAX_COUNTED && !seen.contains_key(&what) {
            seen.pop_first();
        }
        let count = seen.entry(what).or_default();
        *count += 1;
        *count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(paths: &Paths, path: &str, key: &str, want: &str) {
        assert_eq!(paths.answer(path, key.as_bytes()).to_string(), want, "{path} {key}");
    }

    #[test]
    fn what_each_path_answers() {
        let paths = Paths::default();
        check(&paths, "/ok", "", "204");
        check(&paths, "/status/418", "", "418");
        check(&paths, "/429/5", "", "429 retry-after: 5");
        check(&paths, "/429-malformed", "", "429 retry-after: soon");
        check(&paths, "/drop", "", "closed without an answer");
        check(&paths, "/slow/20", "", "after 20 ms: 204");
        check(&paths, "/redirect", "", "307 location: /ok");
        check(&paths, "/endless", "", "200 without end");
        assert!(paths.answer("/429-date/60", b"").to_string().ends_with(" GMT"));
        for unknown in
            ["/", "", "/nothing", "/status", "/status/", "/status/x", "/status/70000", "/429/-1", "/a/1"]
        {
            check(&paths, unknown, "", "404");
        }
    }

    #[test]
    fn paths_that_count() {
        let paths = Paths::default();
        for want in ["429 retry-after: 6", "204", "204"] {
            check(&paths, "/once-429/6", "", want);
        }
        for want in ["429 retry-after: 1", "429 retry-after: 1", "204"] {
            check(&paths, "/limit/2", "", want);
        }
        for (key, want) in [("a", "503"), ("b", "503"), ("a", "204"), ("b", "204")] {
            check(&paths, "/flaky/1", key, want);
        }
    }
}
