//! Reports: an attempt has ended, or its lease has. The verdict is durable before the slot that
//! it frees is used for the same delivery again.

use std::sync::Arc;

use super::command::{RECEIVER, Report};
use super::directory::cut;
use super::{InStep, Out};
use crate::delivery::{AskedWait, Attempt, Delivery, End, Lease, State};
use crate::model::destination::StateNote;
use crate::model::{Action, DeliveryId, DestNo, DestinationState, DueEntry, HoldScope};
use crate::outcome::{self, Decision, Ending, MaybeSent, NotSent, Outcome, Standing, Verdict};
use crate::schedule::{Admission, Seen};
use crate::store::{Before, Found, StoreError};
use crate::time::{Millis, Mono, Timestamp};

/// Why a destination is disabled that no operator disabled.
const GONE: &str = "the receiver answered 410 Gone";

/// An attempt that has come back.
pub(super) struct Back {
    pub(super) lease: Lease,
    admission: Admission,
    /// Of its destination when it was claimed.
    era: u32,
    record: Option<Arc<Delivery>>,
}

impl InStep<'_, '_> {
    /// Applies a report if its lease is the live one; otherwise notes that it was late.
    pub(super) fn report(&mut self, report: Report) -> Result<(), StoreError> {
        let live = self.core.leases.get(&report.id).is_some_and(|out| out.lease.nonce == report.nonce);
        if !live {
            return self.late(&report);
        }
        let out = self.take_lease(report.id).expect("it was there");
        self.settle(out, report)
    }

    /// Takes back every lease whose time is over. Its task is to be cut.
    pub(super) fn expire_leases(&mut self) -> Result<(), StoreError> {
        while let Some((_, id)) = self.core.deadlines.first().copied().filter(|(at, _)| *at <= self.now.mono)
        {
            let Some(out) = self.take_lease(id) else {
                self.core.deadlines.pop_first();
                continue;
            };
            self.out.cuts.push(cut(&out.lease));
            self.core.tally.figures.leases_expired += 1;
            let report = silent(&out.lease);
            self.settle(out, report)?;
        }
        Ok(())
    }

    /// Ends an attempt in RAM: lease, deadline and slot are gone.
    pub(super) fn take_lease(&mut self, id: DeliveryId) -> Option<Back> {
        let Out { lease, deadline, slot, bytes, era, record } = self.core.leases.remove(&id)?;
        self.core.deadlines.remove(&(deadline, id));
        self.core.bodies_out -= u64::from(bytes);
        self.core.tally.returned(&lease);
        let admission = self.core.schedule.release(slot, self.now);
        Some(Back { lease, admission, era, record })
    }

    fn settle(&mut self, back: Back, report: Report) -> Result<(), StoreError> {
        let Back { lease, admission, era, record } = back;
        let record = match record {
            Some(record) => Arc::unwrap_or_clone(record),
            None => match self.file.delivery(report.id)? {
                Found::Delivery(delivery) => *delivery,
                Found::Damaged | Found::Nothing => {
                    self.core.tally.quarantined += 1;
                    return self.file.quarantine_damaged(report.id, self.now.wall);
                }
            },
        };
        let decision = self.decide(&record, &lease, admission.epoch, &report.outcome);
        if era == self.core.directory.facts(lease.destination).era {
            self.learn(&admission, &report, &decision)?;
        }
        self.apply(record, &lease, &admission, report, decision)
    }

    fn apply(
        &mut self,
        mut it: Delivery,
        lease: &Lease,
        admission: &Admission,
        report: Report,
        decision: Decision,
    ) -> Result<(), StoreError> {
        self.core.tally.asked(report.outcome.result(), &decision.asked);
        let took = took(&report, admission, self.now.mono);
        // With the verdict in one commit: the next attempt is to send the same bytes or none.
        report.digest.into_iter().for_each(|digest| _ = it.payload.found(digest));
        let attempt = attempt(lease, report, &decision);
        self.core.tally.attempted(&attempt, took);
        let before = Before::of(&it, Some(lease));
        let end = self.end();
        let moved = it.settle(lease, attempt, decision.verdict, end).map_err(contradiction)?;
        self.put(before, it, moved.as_ref())
    }

    fn decide(&self, it: &Delivery, lease: &Lease, epoch: u32, outcome: &Outcome) -> Decision {
        let proven = self.core.is_clock_proven(self.now);
        let seen = Standing {
            expires_at: if proven { it.expires_at } else { Timestamp::MAX },
            refusals: self.core.schedule.refusals(it.destination, epoch),
            ..it.standing(lease)
        };
        let decision = outcome::decide(self.core.policy(it.destination), &seen, self.now.wall, outcome);
        if self.core.schedule.is_stopped() && *outcome == Outcome::MaybeSent(MaybeSent::Interrupted) {
            // Cut off by the stop: as if the process had died, it goes out again after the start.
            return Decision { verdict: outcome::decide_after_stop(&seen, lease.due), ..decision };
        }
        decision
    }

    /// What the answer says about the destination. Only one to a request that was claimed for what is
    /// there now does: not one from the URL of before, nor from before an operator enabled it.
    fn learn(
        &mut self,
        admission: &Admission,
        report: &Report,
        decision: &Decision,
    ) -> Result<(), StoreError> {
        let no = admission.destination;
        let scope = self.core.directory.facts(no).hold_scope;
        let seen = Seen {
            result: report.outcome.result(),
            latency: took(report, admission, self.now.mono).filter(|_| is_telling(&report.outcome)),
            hold: decision.hold.filter(|_| scope == HoldScope::Destination),
            refused: decision.hold.is_some(),
            asked: decision.asked.retry_after.wait().filter(|_| decision.asked.applied.is_some()),
        };
        if let Some(recovered) = self.core.schedule.learn(admission, &seen, self.now) {
            self.core.tally.recovered(recovered);
        }
        if decision.gone { self.disable(no) } else { Ok(()) }
    }

    /// 410: the destination takes no more, and keeps what waits.
    fn disable(&mut self, no: DestNo) -> Result<(), StoreError> {
        let mut stored = self.file.destination(no)?;
        if matches!(stored.note.state, DestinationState::Deleted | DestinationState::Disabled) {
            return Ok(());
        }
        let (was, name) = (stored.note.state.as_str(), stored.name.to_string());
        let detail = format!("was {was}: {GONE}");
        self.note_of(RECEIVER.to_owned(), Action::DestinationDisable, Some(name), detail)?;
        stored.note = StateNote {
            state: DestinationState::Disabled,
            reason: GONE.to_owned(),
            since: self.now.wall,
            by: RECEIVER.to_owned(),
        };
        stored.revision += 1;
        self.put_destination(no, &stored)
    }

    /// Writes a changed delivery with its rows, and follows in RAM.
    pub(super) fn put(
        &mut self,
        before: Before,
        mut it: Delivery,
        moved: Option<&Attempt>,
    ) -> Result<(), StoreError> {
        if let State::Terminal { outcome, at, .. } = it.state {
            self.core.tally.finished(it.class, outcome, it.attempts);
            let keep = self.core.limits.retention.body(outcome);
            if keep.0 == 0 && it.payload.erased_at.is_none() {
                it.erase_body(at);
                self.file.remove_body(it.id, it.body_bytes())?;
            }
        }
        self.file.replace(before, &it, moved)?;
        self.follow(Some(before), &it);
        Ok(())
    }

    /// RAM follows the rows that were written for a delivery; `before`: those it had.
    pub(super) fn follow(&mut self, before: Option<Before>, it: &Delivery) {
        if let Some(Before::Waiting { lane, due, .. }) = before {
            self.core.schedule.remove(it.destination, lane, due, it.id, self.now);
            self.core.count_out(it.destination, lane, due, it.id);
        }
        if let State::Waiting { due, lane, .. } = it.state {
            self.core.count_in(it.destination, lane, due, it.id);
            self.core.sweeps.ends_at(it.expires_at);
            let interrupted = it.interrupted > 0;
            let (attempts, bytes) = (it.attempts, it.body_bytes());
            let entry = DueEntry { due, id: it.id, attempts, interrupted, bytes };
            self.core.schedule.insert(it.destination, lane, entry, self.now);
        }
        if let State::Terminal { at, .. } = it.state {
            self.core.sweeps.ended(at, &self.core.limits.retention);
        }
    }

    /// Where and when something ends, if it ends in this step.
    pub(super) fn end(&self) -> End {
        End { at: self.now.wall, step: self.number }
    }

    /// A report whose lease is over changes nothing, unless it is a 2xx for what has not ended.
    fn late(&mut self, report: &Report) -> Result<(), StoreError> {
        self.out.late += 1;
        let Found::Delivery(mut it) = self.file.delivery(report.id)? else { return Ok(()) };
        let learnt = report.digest.is_some_and(|digest| it.payload.found(digest));
        let newer = self.core.leases.get(&report.id).map(|out| out.lease);
        let before = Before::of(&it, newer.as_ref());
        if !report.outcome.is_success() || !it.settle_late(newer.is_some(), self.end()) {
            return self.note_late(*it, report, learnt);
        }
        if let Some(lease) = newer {
            self.take_lease(report.id);
            self.out.cuts.push(cut(&lease));
            it.attempts = lease.attempt;
        }
        let moved = it.remember_late(late_attempt(report));
        self.put(before, *it, moved.as_ref())
    }

    /// What changes nothing is still seen: among the attempts of what has not ended, and in the digest
    /// of what was read. That the task of a lease which is over was cut says nothing new.
    fn note_late(&mut self, mut it: Delivery, report: &Report, learnt: bool) -> Result<(), StoreError> {
        let waits = matches!(it.state, State::Waiting { .. });
        let told = waits && report.outcome != Outcome::MaybeSent(MaybeSent::Interrupted);
        if !told && !learnt {
            return Ok(());
        }
        if let Some(moved) = told.then(|| it.remember_late(late_attempt(report))).flatten() {
            self.file.keep_attempt(it.id, &moved)?;
        }
        it.revision += 1;
        self.core.leases.entry(it.id).and_modify(|out| out.record = None);
        self.file.rewrite(&it)
    }
}

/// The report of a lease that nobody reported on.
fn silent(lease: &Lease) -> Report {
    Report {
        id: lease.id,
        nonce: lease.nonce,
        attempt: lease.attempt,
        started_at: lease.claimed_at,
        ended_at: None,
        outcome: Outcome::MaybeSent(MaybeSent::Interrupted),
        error: Some("the lease ended without a report".to_owned()),
        host: None,
        address: None,
        response_excerpt: None,
        digest: None,
    }
}

/// How long an attempt took. Its times are the wall clock's, which may have stepped meanwhile: it
/// took no longer than its lease has been out.
fn took(report: &Report, admission: &Admission, now: Mono) -> Option<Millis> {
    let wall = report.ended_at?.since(report.started_at);
    Some(wall.min(now.since(admission.started)))
}

/// True when the time it took says something about the destination.
fn is_telling(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Answered { .. } => true,
        Outcome::MaybeSent(MaybeSent::Interrupted) | Outcome::Damaged => false,
        Outcome::MaybeSent(MaybeSent::Timeout | MaybeSent::Ambiguous | MaybeSent::InvalidResponse) => true,
        Outcome::NotSent(NotSent::Connect | NotSent::Tls | NotSent::Dns) => true,
        Outcome::NotSent(NotSent::Blocked | NotSent::NotProcessed) => false,
        Outcome::NotSent(NotSent::Payload | NotSent::PayloadGone) => false,
    }
}

/// The record of the attempt under `lease`.
fn attempt(lease: &Lease, report: Report, decision: &Decision) -> Attempt {
    let next_attempt_at = match decision.verdict {
        Verdict::Again { due, .. } => Some(due),
        Verdict::End(_) => None,
    };
    Attempt {
        n: lease.attempt,
        started_at: report.started_at,
        ended_at: report.ended_at,
        result: report.outcome.result(),
        status: report.outcome.status(),
        retry_after: AskedWait::of(&report.outcome, &decision.asked),
        error: report.error,
        host: report.host,
        address: report.address,
        late: false,
        next_attempt_at,
        response_excerpt: report.response_excerpt,
    }
}

fn late_attempt(report: &Report) -> Attempt {
    Attempt {
        n: report.attempt,
        started_at: report.started_at,
        ended_at: report.ended_at,
        result: report.outcome.result(),
        status: report.outcome.status(),
        error: report.error.clone(),
        host: report.host.clone(),
        address: report.address.clone(),
        late: true,
        retry_after: None,
        next_attempt_at: None,
        response_excerpt: None,
    }
}

/// A lease in RAM whose delivery has ended on disk: the two contradict each other.
fn contradiction(refused: crate::delivery::Refused) -> StoreError {
    StoreError::Contradiction(format!("a live lease and its record do not agree: {refused}"))
}

impl super::Retention {
    /// How long the body of what ended so is kept.
    pub(super) fn body(&self, outcome: Ending) -> Millis {
        match outcome {
            Ending::Delivered => self.delivered_payload,
            Ending::Rejected
            | Ending::Exhausted
            | Ending::Expired
            | Ending::Cancelled
            | Ending::PayloadGone
            | Ending::DestinationGone
            | Ending::Quarantined => self.failed_payload,
        }
    }
}
