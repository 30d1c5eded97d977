//! A receiver for thousands of destinations, told apart by path, that remembers when each was
//! asked and what it answered. It must not hold a delivery up longer than its rule says.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::StatusCode;
use tokio::time::Instant;

use crate::drill::receiver::{Answer, Receiver, Record, Script};
use crate::drill::throwaway::DrillError;

/// Requests that are remembered, about 100 bytes each: a sender that cannot be held back ends
/// up here, and what it did before is verdict enough.
const MAX_SEEN: usize = 2_000_000;

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::drill) struct Seen {
    /// Since the receiver started, when its head had been read.
    pub at: Duration,
    /// The idempotency key.
    pub key: String,
    /// It was answered with 429.
    pub refused: bool,
}

/// What was seen, by path.
#[derive(Default)]
struct Ledger {
    by_path: BTreeMap<String, Vec<Seen>>,
    total: usize,
}

/// The receiver and its memory.
pub(in crate::drill) struct Witness {
    receiver: Receiver,
    ledger: Arc<Mutex<Ledger>>,
}

impl Witness {
    /// Answers each request by `rule`, from the destination's name and the time of its arrival.
    pub(in crate::drill) async fn start(
        rule: impl Fn(&str, Duration) -> Answer + Send + Sync + 'static,
    ) -> Result<Witness, DrillError> {
        let ledger: Arc<Mutex<Ledger>> = Arc::default();
        let kept = Arc::clone(&ledger);
        let decide = Script::Decide(Box::new(move |received| {
            let name = received.path.trim_start_matches('/');
            let answer = rule(name, received.at);
            let key = received.key().unwrap_or_default().to_owned();
            let seen = Seen { at: received.at, key, refused: is_refusal(&answer) };
            kept.lock().unwrap_or_else(PoisonError::into_inner).keep(name, seen);
            answer
        }));
        let receiver = Receiver::start(decide, Record::Count).await.map_err(DrillError::Receiver)?;
        Ok(Witness { receiver, ledger })
    }

    /// Where the destination `name` is called.
    pub(in crate::drill) fn url(&self, name: &str) -> String {
        self.receiver.url(&format!("/{name}"))
    }

    /// The time of the receiver at an instant that is not before its start.
    pub(in crate::drill) fn time(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.receiver.started())
    }

    /// The requests of a destination, in order of arrival.
    pub(in crate::drill) fn requests(&self, name: &str) -> Vec<Seen> {
        self.read(|ledger| ledger.by_path.get(name).cloned()).map_or(Vec::new(), in_order)
    }

    /// The requests of each destination whose name begins so and that had any.
    pub(in crate::drill) fn each(&self, prefix: &str) -> Vec<Vec<Seen>> {
        self.read(|ledger| ledger.under(prefix).cloned().map(in_order).collect())
    }

    /// Requests to destinations whose name begins so: those that were taken, and the refused.
    pub(in crate::drill) fn counts(&self, prefix: &str) -> (usize, usize) {
        self.read(|ledger| {
            let all: usize = ledger.under(prefix).map(Vec::len).sum();
            let refused = ledger.under(prefix).flatten().filter(|seen| seen.refused).count();
            (all - refused, refused)
        })
    }

    fn read<T>(&self, look: impl Fn(&Ledger) -> T) -> T {
        look(&self.ledger.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Ledger {
    fn keep(&mut self, name: &str, seen: Seen) {
        if self.total >= MAX_SEEN {
            return;
        }
        self.total += 1;
        match self.by_path.get_mut(name) {
            Some(all) => all.push(seen),
            None => drop(self.by_path.insert(name.to_owned(), vec![seen])),
        }
    }

    fn under(&self, prefix: &str) -> impl Iterator<Item = &Vec<Seen>> {
        let from = self.by_path.range(prefix.to_owned()..);
        from.take_while(move |(name, _)| name.starts_with(prefix)).map(|(_, seen)| seen)
    }
}

/// They are remembered when the body has been read, and ordered by when the head was.
fn in_order(mut seen: Vec<Seen>) -> Vec<Seen> {
    seen.sort_by_key(|seen| seen.at);
    seen
}

fn is_refusal(answer: &Answer) -> bool {
    matches!(answer, Answer::Reply { status, .. } if *status == StatusCode::TOO_MANY_REQUESTS)
}

/// The most requests that were open at one time when each stays so for `length`; `at` in order.
pub(in crate::drill) fn most_open(at: &[Duration], length: Duration) -> usize {
    let mut first = 0;
    let open = |(n, now): (usize, &Duration)| {
        while at[first] + length <= *now {
            first += 1;
        }
        n + 1 - first
    };
    at.iter().enumerate().map(open).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_are_open_together() {
        let check = |at: &[u64], want: usize| {
            let at: Vec<_> = at.iter().copied().map(Duration::from_secs).collect();
            assert_eq!(most_open(&at, Duration::from_secs(25)), want, "{at:?}");
        };
        check(&[], 0);
        check(&[3], 1);
        check(&[0, 1, 24], 3);
        check(&[0, 1, 25, 26], 2);
        check(&[0, 0, 0, 30, 31], 3);
    }

    #[test]
    fn a_ledger_is_read_by_prefix() {
        let mut ledger = Ledger::default();
        for name in ["slow-1", "slow-2", "slow-1", "slot", "slowest"] {
            ledger.keep(name, Seen { at: Duration::ZERO, key: String::new(), refused: false });
        }
        let counted = |prefix: &str| ledger.under(prefix).map(Vec::len).collect::<Vec<_>>();
        assert_eq!(counted("slow-"), [2, 1]);
        assert_eq!(counted("slot"), [1]);
        assert!(counted("t").is_empty());
    }
}
