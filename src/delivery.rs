//! A delivery, its lease, its attempts, and what may happen to it.
//!
//! [`next`] is the whole transition table. The methods of [`Delivery`] apply it; they change
//! the record and nothing else, and never read a clock. That a delivery is leased is not in the
//! record: it is the existence of a [`Lease`].

mod attempt;
mod erase;
mod payload;

use crate::model::{ClassNo, DeliveryId, DestNo, Header, IdempotencyKey, Lane, Name, NewBody, TenantNo};
use crate::outcome::{AttemptResult, Counted, Ending, NextReason, Standing, Verdict};
use crate::time::{Millis, Timestamp};

pub use attempt::{AskedKind, AskedWait, Attempt};
pub use erase::NO_DIGEST;
pub use payload::{Payload, Source};

/// Attempts kept in the record itself; older ones move to their own table.
pub const LOG_IN_RECORD: usize = 4;

/// The record of one delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub id: DeliveryId,
    pub tenant: TenantNo,
    pub destination: DestNo,
    pub class: ClassNo,
    pub region: Name,
    /// None: the id is the key.
    pub key: Option<IdempotencyKey>,
    pub created_at: Timestamp,
    pub not_before: Option<Timestamp>,
    pub max_age: Millis,
    /// Fixed when accepted; an operator's retry of an ended delivery sets it anew.
    pub expires_at: Timestamp,
    /// 0: no limit.
    pub max_failures: u32,
    pub state: State,
    /// Claims whose end is known; the one in flight is in its lease.
    pub attempts: u32,
    pub failures: u32,
    pub throttles: u32,
    /// Attempts in a row that the process did not survive.
    pub interrupted: u32,
    /// Counts changes, so that an import never goes back.
    pub revision: u32,
    /// A cancel came while an attempt was out.
    pub cancelling: bool,
    pub first_attempt_at: Option<Timestamp>,
    pub payload: Payload,
    pub content_type: String,
    pub headers: Vec<Header>,
    pub labels: Vec<(String, String)>,
    /// The newest attempts, oldest first, at most [`LOG_IN_RECORD`].
    pub log: Vec<Attempt>,
}

/// What the record says. A waiting delivery may be leased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// `due` and `lane` are those of its row, so that the row is removed by what was stored.
    Waiting { due: Timestamp, lane: Lane, reason: NextReason },
    /// `step` is the engine step that ended it: its place in the feed of ends.
    Terminal { outcome: Ending, at: Timestamp, step: u64 },
}

/// The right to one attempt: at most one request is written under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    pub id: DeliveryId,
    /// The number of the attempt, durable before anything is sent.
    pub attempt: u32,
    /// Names this lease among all that the delivery ever had.
    pub nonce: u64,
    pub claimed_at: Timestamp,
    /// Deadline and margin; after it the lease is taken back.
    pub until: Timestamp,
    pub destination: DestNo,
    /// The lane and due time it was claimed from.
    pub lane: Lane,
    pub due: Timestamp,
    /// It was claimed in the step that accepted it: there never was a due row.
    pub fresh: bool,
}

/// Where a delivery stands: its record and whether there is a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Waiting,
    Leased,
    Terminal(Ending),
}

/// What can happen to a delivery after it was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Claim,
    /// The report of the live lease, or the end of that lease without one.
    Settle(Verdict),
    /// A 2xx reported under a lease that is no longer the live one.
    LateSuccess,
    /// `expires_at` passed.
    Expire,
    Cancel,
    /// By an operator.
    Retry,
    /// By an operator: the body goes, whatever becomes of the delivery.
    Erase,
    /// The record or its body is damaged on disk.
    Quarantine,
}

/// What an event leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Waiting,
    Leased,
    /// Leased still, and to end when the attempt does.
    Cancelling,
    /// The same, because there is nothing left to send.
    Erasing,
    End(Ending),
    /// Nothing changes, and that is right.
    Same,
}

/// Why an event may not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("an attempt is in flight")]
    Leased,
    #[error("the delivery has ended")]
    Terminal,
    #[error("no attempt is in flight")]
    NotLeased,
    #[error("its body is no longer there")]
    PayloadErased,
}

/// The transition table: what `event` makes of a delivery in `phase`.
///
/// # Errors
/// [`Refused`] where the event may not happen in that phase.
pub fn next(phase: Phase, event: Event) -> Result<Next, Refused> {
    match (phase, event) {
        (Phase::Waiting, Event::Claim) => Ok(Next::Leased),
        (Phase::Waiting | Phase::Leased, Event::LateSuccess) => Ok(Next::End(Ending::Delivered)),
        (Phase::Waiting, Event::Expire) => Ok(Next::End(Ending::Expired)),
        (Phase::Waiting, Event::Cancel) => Ok(Next::End(Ending::Cancelled)),
        (Phase::Waiting, Event::Erase) => Ok(Next::End(Ending::PayloadGone)),
        (Phase::Waiting | Phase::Terminal(_), Event::Retry) => Ok(Next::Waiting),
        (Phase::Waiting, Event::Settle(_)) => Err(Refused::NotLeased),
        (Phase::Waiting | Phase::Leased, Event::Quarantine) => Ok(Next::End(Ending::Quarantined)),
        (Phase::Leased, Event::Settle(Verdict::End(end))) => Ok(Next::End(end)),
        (Phase::Leased, Event::Settle(Verdict::Again { .. })) => Ok(Next::Waiting),
        (Phase::Leased, Event::Cancel) => Ok(Next::Cancelling),
        (Phase::Leased, Event::Erase) => Ok(Next::Erasing),
        (Phase::Leased, Event::Expire) => Ok(Next::Same),
        (Phase::Leased, Event::Claim | Event::Retry) => Err(Refused::Leased),
        (Phase::Terminal(Ending::Cancelled), Event::Cancel) => Ok(Next::Same),
        (Phase::Terminal(_), Event::LateSuccess | Event::Erase) => Ok(Next::Same),
        (
            Phase::Terminal(_),
            Event::Claim | Event::Cancel | Event::Expire | Event::Settle(_) | Event::Quarantine,
        ) => Err(Refused::Terminal),
    }
}

impl Delivery {
    /// Where it stands; `leased` says whether it has a live lease.
    #[must_use]
    pub fn phase(&self, leased: bool) -> Phase {
        match self.state {
            State::Terminal { outcome, .. } => Phase::Terminal(outcome),
            State::Waiting { .. } if leased => Phase::Leased,
            State::Waiting { .. } => Phase::Waiting,
        }
    }

    /// Length of the body in bytes; a reference counts as nothing until it is read.
    #[must_use]
    pub fn body_bytes(&self) -> u32 {
        match self.payload.source {
            Source::Inline { bytes, .. } => bytes,
            Source::Reference { .. } => 0,
        }
    }

    /// The key that every attempt carries.
    #[must_use]
    pub fn sent_key(&self) -> String {
        self.key.as_ref().map_or_else(|| self.id.to_string(), |key| key.as_str().to_owned())
    }

    /// True when this body and content type repeat this delivery's: all else in a repeat is ignored
    /// (API.md, *One key, one delivery*). A reference is the same unless both name a digest and these
    /// differ. Where the digest was erased nothing is left to compare, and the key alone decides: a
    /// repeat is never sent as another delivery.
    #[must_use]
    pub fn repeats(&self, body: &NewBody, content_type: &str) -> bool {
        if self.is_erased() {
            return true;
        }
        let same = match (&self.payload.source, body) {
            (Source::Inline { sha256, .. }, NewBody::Inline { sha256: other, .. }) => sha256 == other,
            (Source::Reference { uri, sha256 }, NewBody::Reference { reference, sha256: other }) => {
                let agree = sha256.zip(*other).is_none_or(|(one, other)| one == other);
                uri == reference.as_str() && agree
            }
            (Source::Inline { .. }, NewBody::Reference { .. })
            | (Source::Reference { .. }, NewBody::Inline { .. }) => false,
        };
        same && self.content_type == content_type
    }

    /// What of it a decision about the attempt under `lease` depends on. Of its destination it
    /// knows nothing: no refusals.
    #[must_use]
    pub fn standing(&self, lease: &Lease) -> Standing {
        Standing {
            id: self.id.0,
            attempt: lease.attempt,
            failures: self.failures,
            interrupted: self.interrupted,
            unsent: self.unsent(),
            max_failures: self.max_failures,
            expires_at: self.expires_at,
            cancelling: self.cancelling,
            erased: self.payload.erased_at.is_some(),
            refusals: 0,
        }
    }

    /// The newest attempts that sent nothing and were not the receiver's doing, as many as the record
    /// keeps.
    fn unsent(&self) -> u32 {
        let ours = |it: &Attempt| matches!(it.result, AttemptResult::Payload | AttemptResult::NotProcessed);
        self.log.iter().rev().take_while(|it| ours(it)).fold(0, |n, _| n + 1)
    }

    /// Applies the outcome of the attempt under `lease`. Afterwards the counters, the state and
    /// the log say so. Returns the attempt that no longer fits in the record.
    ///
    /// # Errors
    /// [`Refused`] when the delivery has ended.
    pub fn settle(
        &mut self,
        lease: &Lease,
        attempt: Attempt,
        verdict: Verdict,
        end: End,
    ) -> Result<Option<Attempt>, Refused> {
        next(self.phase(true), Event::Settle(verdict))?;
        self.attempts = lease.attempt;
        self.first_attempt_at.get_or_insert(lease.claimed_at);
        self.count(verdict, attempt.result);
        match verdict {
            Verdict::Again { due, reason, counted: _ } => self.wait(due, reason),
            Verdict::End(outcome) => self.finish(outcome, end),
        }
        Ok(self.remember(attempt))
    }

    /// A 2xx came after its lease had ended: the delivery is delivered, if it has not ended.
    /// True when it changed.
    pub fn settle_late(&mut self, leased: bool, end: End) -> bool {
        let ends = matches!(next(self.phase(leased), Event::LateSuccess), Ok(Next::End(_)));
        if ends {
            self.finish(Ending::Delivered, end);
        }
        ends
    }

    /// Ends what is waiting because `expires_at` passed. A leased one stays: its report will see.
    ///
    /// # Errors
    /// [`Refused::Terminal`] when it has ended.
    pub fn expire(&mut self, leased: bool, end: End) -> Result<Next, Refused> {
        let to = next(self.phase(leased), Event::Expire)?;
        if let Next::End(outcome) = to {
            self.finish(outcome, end);
        }
        Ok(to)
    }

    /// Cancels: at once when waiting, after the attempt when leased.
    ///
    /// # Errors
    /// [`Refused::Terminal`] when it ended in another way.
    pub fn cancel(&mut self, leased: bool, end: End) -> Result<Next, Refused> {
        let to = next(self.phase(leased), Event::Cancel)?;
        match to {
            Next::End(outcome) => self.finish(outcome, end),
            Next::Cancelling if self.cancelling => return Ok(Next::Same),
            Next::Cancelling => {
                self.cancelling = true;
                self.revision += 1;
            }
            Next::Same | Next::Waiting | Next::Leased | Next::Erasing => {}
        }
        Ok(to)
    }

    /// Due at `now` by an operator's word. From an end a new round begins: failures and throttles
    /// from 0, a new `expires_at`; id, key and attempt numbers go on.
    ///
    /// # Errors
    /// [`Refused`] while leased, or when the body is gone.
    pub fn retry(&mut self, leased: bool, now: Timestamp) -> Result<(), Refused> {
        let phase = self.phase(leased);
        next(phase, Event::Retry)?;
        if self.payload.erased_at.is_some() {
            return Err(Refused::PayloadErased);
        }
        if let Phase::Terminal(_) = phase {
            (self.failures, self.throttles, self.interrupted) = (0, 0, 0);
            self.cancelling = false;
            self.expires_at = now.plus(self.max_age);
        }
        self.wait(now, NextReason::Operator);
        Ok(())
    }

    /// Ends it as quarantined: what is on disk for it cannot be trusted.
    ///
    /// # Errors
    /// [`Refused::Terminal`] when it has ended.
    pub fn quarantine(&mut self, leased: bool, end: End) -> Result<(), Refused> {
        next(self.phase(leased), Event::Quarantine)?;
        self.finish(Ending::Quarantined, end);
        Ok(())
    }

    /// The body is gone: its time was over. The bytes themselves are the store's.
    pub fn erase_body(&mut self, at: Timestamp) {
        self.payload.erased_at.get_or_insert(at);
    }

    fn count(&mut self, verdict: Verdict, result: AttemptResult) {
        self.interrupted = match (verdict, result) {
            (Verdict::Again { counted: Counted::Interruption, .. }, _)
            | (Verdict::End(Ending::Quarantined), AttemptResult::Interrupted) => {
                self.interrupted.saturating_add(1)
            }
            (_, AttemptResult::Interrupted) => self.interrupted,
            (_, _) => 0,
        };
        match verdict {
            Verdict::Again { counted: Counted::Failure, .. } | Verdict::End(Ending::Exhausted) => {
                self.failures = self.failures.saturating_add(1);
            }
            Verdict::Again { counted: Counted::Throttle, .. } => {
                self.throttles = self.throttles.saturating_add(1);
            }
            Verdict::Again { counted: Counted::Nothing | Counted::Interruption, .. } | Verdict::End(_) => {}
        }
    }

    fn wait(&mut self, due: Timestamp, reason: NextReason) {
        self.state = State::Waiting { due, lane: Lane::of(self.class, self.attempts), reason };
        self.revision += 1;
    }

    fn finish(&mut self, outcome: Ending, end: End) {
        self.state = State::Terminal { outcome, at: end.at, step: end.step };
        self.cancelling = false;
        self.revision += 1;
    }
}

/// When and in which engine step a delivery ends, if it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    pub at: Timestamp,
    pub step: u64,
}

#[cfg(test)]
#[path = "delivery/tests.rs"]
mod tests;
