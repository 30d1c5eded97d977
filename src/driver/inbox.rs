//! The inbox: what waits for the next step, in three bounded queues taken in order.
//!
//! Reports come first and are never refused: there is at most one for each lease. Then operator
//! commands and queries, then what producers bring. A full queue refuses at once.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::clock::Clock;
use super::hold::Hold;
use crate::engine::command::{
    AcceptBatch, Accepted, Answer, Batch, ClaimsOrder, ClaimsSet, Command, CommandError, Done, FenceRequired,
    Order, Query, Rejected, Report,
};
use crate::time::Mono;

/// Operator commands that may wait: a person or a script, one at a time.
const MAX_COMMANDS: usize = 256;
/// Queries answered in one step, from RAM.
const MAX_QUERIES: usize = 32;
/// Deliveries that may wait for a step: about two steps' worth.
const MAX_INGEST: usize = 2_048;
/// Their bodies.
const MAX_INGEST_BYTES: usize = 16 << 20;
/// Deliveries taken into one step: its commit is to stay short.
const STEP_INGEST: usize = 1_024;
/// Their bodies.
const STEP_INGEST_BYTES: usize = 8 << 20;

pub(super) type Accepts = Vec<Result<Accepted, Rejected>>;
/// What came of a command.
pub(super) type Carried = Result<Done, CommandError>;
/// What came of an order to the whole server.
pub(super) type SetClaims = Result<ClaimsSet, FenceRequired>;

/// It was in no step, and will be in none: the engine has ended in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotTaken;

/// Where a reply goes. Dropped without one it says nothing at all: its step has failed, and
/// whoever waits must not be answered before the process ends.
pub(super) type ReplyTo<T> = oneshot::Sender<Result<T, NotTaken>>;

/// An order and whoever waits for what comes of it. In a box: it may come back.
pub(super) type Commanded = Box<(Order<Command>, ReplyTo<Carried>)>;
/// The same of an order to the whole server.
pub(super) type ClaimsOrdered = (Order<ClaimsOrder>, ReplyTo<SetClaims>);

/// Where the replies of a step go, in the order of its batch.
#[derive(Default)]
pub(super) struct Replies {
    pub(super) commands: Vec<ReplyTo<Result<Done, CommandError>>>,
    pub(super) accepts: Vec<ReplyTo<Accepts>>,
    pub(super) answers: Vec<ReplyTo<Answer>>,
    pub(super) claims: Vec<ReplyTo<SetClaims>>,
}

impl Replies {
    /// Gives every reply to whoever waits for it; what nobody waits for is dropped.
    pub(super) async fn send(
        self,
        accepts: Vec<Accepts>,
        commands: Vec<Result<Done, CommandError>>,
        answers: Vec<Answer>,
        claims: Vec<SetClaims>,
    ) {
        self.accepts.into_iter().zip(accepts).for_each(|(to, reply)| drop(to.send(Ok(reply))));
        self.commands.into_iter().zip(commands).for_each(|(to, reply)| drop(to.send(Ok(reply))));
        self.answers.into_iter().zip(answers).for_each(|(to, reply)| drop(to.send(Ok(reply))));
        for (to, reply) in self.claims.into_iter().zip(claims) {
            // Whoever asked may have left.
            let _left = to.send(Ok(reply));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        let orders = self.commands.is_empty() && self.claims.is_empty();
        self.accepts.is_empty() && orders && self.answers.is_empty()
    }
}

/// How far a stop has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    #[default]
    Running,
    /// Nothing new is taken; what is out may end.
    Stopping,
    /// What is out is to be cut.
    Cutting,
}

#[derive(Default)]
pub(super) struct Inbox {
    queues: Mutex<Queues>,
    bell: Condvar,
    /// While it stands nothing more is taken from producers and operators.
    pub(super) hold: Hold,
}

#[derive(Default)]
struct Queues {
    reports: Vec<Report>,
    commands: VecDeque<Commanded>,
    queries: VecDeque<(Query, ReplyTo<Answer>)>,
    claims: Vec<ClaimsOrdered>,
    ingest: VecDeque<(AcceptBatch, ReplyTo<Accepts>)>,
    items: usize,
    bytes: usize,
    phase: Phase,
    end: Option<End>,
    /// The engine waits for the bell. Ringing it costs a system call, so it is not rung for
    /// nothing.
    waiting: bool,
}

/// How the engine has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The file is closed, and what was answered is in it.
    InOrder,
    /// The store has failed, and the process is about to end.
    Failed,
}

/// Why something was not taken in. It comes back whole, unless there is nothing to be said of it.
pub(super) enum Refusal<T> {
    Full(T),
    Stopping(T),
    /// A hold stands: it may be brought again when it has ended.
    Held(T),
    /// Not to be answered: the process is about to end.
    Failed,
}

fn weight(batch: &AcceptBatch) -> usize {
    batch.iter().map(|new| new.body.bytes().len()).sum()
}

impl Inbox {
    /// A report: never refused.
    pub(super) fn report(&self, report: Report) {
        let mut queues = self.lock();
        queues.reports.push(report);
        self.ring(queues);
    }

    /// An operator's order: it waits for no end of a hold here.
    pub(super) fn command(&self, order: Commanded) -> Result<(), Refusal<Commanded>> {
        let mut queues = self.lock();
        let order = queues.admit(order)?;
        if self.hold.is_on() {
            return Err(Refusal::Held(order));
        }
        queues.order(order)?;
        self.ring(queues);
        Ok(())
    }

    /// What goes on with work that was begun, or notes what was done: during a hold it is taken in
    /// too, and carried out after it.
    pub(super) fn carry_on(&self, order: Commanded) -> Result<(), Refusal<Commanded>> {
        let mut queues = self.lock();
        let order = queues.admit(order)?;
        queues.order(order)?;
        self.ring(queues);
        Ok(())
    }

    /// Whether anything is to be claimed: in one step the last word counts.
    pub(super) fn order_claims(
        &self,
        order: Order<ClaimsOrder>,
        reply: ReplyTo<SetClaims>,
    ) -> Result<(), Refusal<ClaimsOrdered>> {
        let mut queues = self.lock();
        let order = queues.admit((order, reply))?;
        if self.hold.is_on() {
            return Err(Refusal::Held(order));
        }
        if queues.claims.len() >= MAX_COMMANDS {
            return Err(Refusal::Full(order));
        }
        queues.claims.push(order);
        self.ring(queues);
        Ok(())
    }

    pub(super) fn query(&self, query: Query, reply: ReplyTo<Answer>) -> Result<(), Refusal<()>> {
        let mut queues = self.lock();
        match queues.end {
            None => {}
            Some(End::InOrder) => return Err(Refusal::Stopping(())),
            Some(End::Failed) => return Err(Refusal::Failed),
        }
        if queues.queries.len() >= MAX_COMMANDS {
            return Err(Refusal::Full(()));
        }
        queues.queries.push_back((query, reply));
        self.ring(queues);
        Ok(())
    }

    pub(super) fn accept(
        &self,
        batch: AcceptBatch,
        reply: ReplyTo<Accepts>,
    ) -> Result<(), Refusal<AcceptBatch>> {
        let mut queues = self.lock();
        let batch = queues.admit(batch)?;
        if self.hold.is_on() {
            return Err(Refusal::Held(batch));
        }
        let (items, bytes) = (batch.len(), weight(&batch));
        let fits = queues.items + items <= MAX_INGEST && queues.bytes + bytes <= MAX_INGEST_BYTES;
        if !fits && queues.items > 0 {
            return Err(Refusal::Full(batch));
        }
        queues.items += items;
        queues.bytes += bytes;
        queues.ingest.push_back((batch, reply));
        self.ring(queues);
        Ok(())
    }

    /// True when a producer would be refused for lack of room.
    pub(super) fn is_full(&self) -> bool {
        let queues = self.lock();
        queues.items >= MAX_INGEST || queues.bytes >= MAX_INGEST_BYTES
    }

    pub(super) fn phase(&self) -> Phase {
        self.lock().phase
    }

    /// Stops, or goes further in stopping; never back.
    pub(super) fn stop(&self, cut: bool) {
        let mut queues = self.lock();
        queues.phase = queues.phase.max(if cut { Phase::Cutting } else { Phase::Stopping });
        self.hold.end();
        self.ring(queues);
    }

    /// Begins a hold. It is heard when the engine stands still, with nothing from producers or
    /// operators waiting. Says when it ends.
    pub(super) fn hold(&self, until: Mono, now: Mono) -> Result<(Mono, oneshot::Receiver<()>), Refusal<()>> {
        let queues = self.lock();
        queues.admit(())?;
        let begun = self.hold.begin(until, now);
        self.ring(queues);
        Ok(begun)
    }

    /// Where the engine's thread stands still during a hold, if there is one; what was taken in
    /// before is done first.
    pub(super) fn stand(&self, clock: &Clock) -> bool {
        let stands = self.hold.is_on() && self.lock().has_no_orders();
        if stands {
            self.hold.stand(clock);
        }
        stands
    }

    /// The engine has ended in order: what still waits was not taken, and hears it now.
    pub(super) fn close(&self) {
        let mut queues = self.lock();
        queues.end = Some(End::InOrder);
        queues.commands.drain(..).for_each(|order| drop(order.1.send(Err(NotTaken))));
        queues.queries.drain(..).for_each(|(_, to)| drop(to.send(Err(NotTaken))));
        queues.ingest.drain(..).for_each(|(_, to)| drop(to.send(Err(NotTaken))));
        for (_, to) in queues.claims.drain(..) {
            // Whoever asked may have left.
            let _left = to.send(Err(NotTaken));
        }
    }

    /// The store has failed: from now on nobody is told anything.
    pub(super) fn fail(&self) {
        self.lock().end = Some(End::Failed);
    }

    pub(super) fn has_failed(&self) -> bool {
        self.lock().end == Some(End::Failed)
    }

    /// Waits until there is something to do, at the longest for `longest`, and takes it.
    pub(super) fn take(&self, longest: Duration, phase: Phase) -> (Batch, Replies, Phase) {
        let mut queues = self.lock();
        if queues.is_empty() && queues.phase == phase && !self.hold.is_on() {
            queues.waiting = true;
            let waited = self.bell.wait_timeout(queues, longest);
            queues = waited.unwrap_or_else(PoisonError::into_inner).0;
            queues.waiting = false;
        }
        let (batch, replies) = queues.take();
        (batch, replies, queues.phase)
    }

    /// Wakes the engine if it waits, after the lock is released so that it need not wait again.
    fn ring(&self, mut queues: MutexGuard<'_, Queues>) {
        let waits = std::mem::take(&mut queues.waiting);
        drop(queues);
        if waits {
            self.bell.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queues {
    fn order(&mut self, order: Commanded) -> Result<(), Refusal<Commanded>> {
        if self.commands.len() >= MAX_COMMANDS {
            return Err(Refusal::Full(order));
        }
        self.commands.push_back(order);
        Ok(())
    }

    fn admit<T>(&self, what: T) -> Result<T, Refusal<T>> {
        match (self.end, self.phase) {
            (Some(End::Failed), _) => Err(Refusal::Failed),
            (None, Phase::Running) => Ok(what),
            (Some(End::InOrder), _) | (None, Phase::Stopping | Phase::Cutting) => {
                Err(Refusal::Stopping(what))
            }
        }
    }

    /// Nothing waits that is to be stored, but reports.
    fn has_no_orders(&self) -> bool {
        self.commands.is_empty() && self.claims.is_empty() && self.ingest.is_empty()
    }

    fn is_empty(&self) -> bool {
        self.has_no_orders() && self.reports.is_empty() && self.queries.is_empty()
    }

    fn take(&mut self) -> (Batch, Replies) {
        let (mut batch, mut replies) = (Batch::default(), Replies::default());
        batch.reports = std::mem::take(&mut self.reports);
        for (command, reply) in self.commands.drain(..).map(|order| *order) {
            batch.commands.push(command);
            replies.commands.push(reply);
        }
        for (order, reply) in self.claims.drain(..) {
            batch.claims.push(order);
            replies.claims.push(reply);
        }
        let queries = self.queries.len().min(MAX_QUERIES);
        for (query, reply) in self.queries.drain(..queries) {
            batch.queries.push(query);
            replies.answers.push(reply);
        }
        let (mut items, mut bytes) = (0, 0);
        while let Some((next, _)) = self.ingest.front() {
            let more = (items + next.len(), bytes + weight(next));
            if items > 0 && (more.0 > STEP_INGEST || more.1 > STEP_INGEST_BYTES) {
                break;
            }
            (items, bytes) = more;
            let Some((next, reply)) = self.ingest.pop_front() else { break };
            batch.accepts.push(next);
            replies.accepts.push(reply);
        }
        self.items -= items;
        self.bytes -= bytes;
        (batch, replies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{DeliveryId, NewBody, NewDelivery};

    fn batch(items: usize, bytes: usize) -> AcceptBatch {
        let one = NewDelivery {
            destination: "d".parse().unwrap(),
            tenant: None,
            class: None,
            key: None,
            not_before: None,
            max_age: None,
            max_failures: None,
            headers: vec![],
            labels: vec![],
            content_type: "text/plain".into(),
            body: NewBody::new(vec![0; bytes].into()),
        };
        vec![one; items]
    }

    fn put(inbox: &Inbox, items: usize, bytes: usize) -> Result<(), &'static str> {
        inbox.accept(batch(items, bytes), oneshot::channel().0).map_err(|refusal| match refusal {
            Refusal::Full(_) => "full",
            Refusal::Stopping(_) => "stopping",
            Refusal::Held(_) => "held",
            Refusal::Failed => "failed",
        })
    }

    #[test]
    fn a_full_queue_refuses_and_a_step_takes_a_bounded_part() {
        let inbox = Inbox::default();
        for _ in 0..2 {
            assert_eq!(put(&inbox, 1_000, 1), Ok(()));
        }
        assert_eq!(put(&inbox, 49, 1), Err("full"));
        assert_eq!(put(&inbox, 48, 1), Ok(()));
        let (taken, replies, _) = inbox.take(Duration::ZERO, Phase::Running);
        assert_eq!((taken.accepts.len(), replies.accepts.len()), (1, 1), "the second would be too many");
        assert_eq!(put(&inbox, 1_000, 1), Ok(()), "there is room again");
    }

    #[test]
    fn bodies_count_too() {
        let inbox = Inbox::default();
        assert_eq!(put(&inbox, 15, 1 << 20), Ok(()));
        assert_eq!(put(&inbox, 2, 1 << 20), Err("full"));
        assert_eq!(put(&inbox, 1, 1 << 20), Ok(()));
        assert!(inbox.is_full());
    }

    #[test]
    fn one_that_is_larger_than_a_step_is_still_taken() {
        let inbox = Inbox::default();
        assert_eq!(put(&inbox, 1, 9 << 20), Ok(()));
        assert_eq!(inbox.take(Duration::ZERO, Phase::Running).0.accepts.len(), 1);
    }

    #[test]
    fn a_hold_is_heard_when_what_was_taken_in_is_done() {
        let (inbox, clock) = (Inbox::default(), Clock::start());
        assert_eq!(put(&inbox, 1, 1), Ok(()));
        let mut heard = inbox.hold(Mono(1), Mono(0)).ok().unwrap().1;
        assert_eq!(put(&inbox, 1, 1), Err("held"));
        inbox.stand(&clock);
        assert!(heard.try_recv().is_err(), "there is still something to be done");
        assert_eq!(inbox.take(Duration::ZERO, Phase::Running).0.accepts.len(), 1);
        inbox.stand(&clock);
        assert!(!inbox.hold.is_on(), "its time is over");
        assert_eq!(put(&inbox, 1, 1), Ok(()));
        assert!(inbox.hold(Mono(u64::MAX), Mono(0)).is_ok());
        inbox.stop(false);
        assert!(!inbox.hold.is_on(), "a stop ends it");
        assert!(inbox.hold(Mono(u64::MAX), Mono(0)).is_err(), "and there is none after it");
    }

    /// Orders of before a hold are carried out first; those that come in it are given back, but for
    /// what goes on with work that was begun.
    #[test]
    fn a_hold_gives_orders_back() {
        let (inbox, clock) = (Inbox::default(), Clock::start());
        let order = || Box::new((Order::from(Command::Cancel { id: DeliveryId(1) }), oneshot::channel().0));
        let command = |inbox: &Inbox| inbox.command(order());
        let claims = |inbox: &Inbox| inbox.order_claims(ClaimsOrder::Stop.into(), oneshot::channel().0);
        assert!(command(&inbox).is_ok() && claims(&inbox).is_ok());
        let mut heard = inbox.hold(Mono(1), Mono(0)).ok().unwrap().1;
        assert!(matches!(command(&inbox), Err(Refusal::Held(_))));
        assert!(matches!(claims(&inbox), Err(Refusal::Held(_))));
        inbox.stand(&clock);
        assert!(heard.try_recv().is_err(), "there is still something to be done");
        let (batch, ..) = inbox.take(Duration::ZERO, Phase::Running);
        assert_eq!((batch.commands.len(), batch.claims.len()), (1, 1));
        assert!(inbox.carry_on(order()).is_ok());
        assert_eq!(inbox.take(Duration::ZERO, Phase::Running).0.commands.len(), 1);
        inbox.stand(&clock);
        assert!(command(&inbox).is_ok() && claims(&inbox).is_ok(), "its time is over");
    }

    #[test]
    fn a_stop_refuses_what_is_new_and_hears_reports() {
        let inbox = Inbox::default();
        inbox.stop(false);
        assert_eq!(put(&inbox, 1, 1), Err("stopping"));
        assert_eq!(inbox.take(Duration::ZERO, Phase::Running).2, Phase::Stopping);
        inbox.stop(true);
        inbox.stop(false);
        assert_eq!(inbox.phase(), Phase::Cutting, "never back");
    }

    /// What waits when the engine ends: told so after an end in order, not a word after a failure.
    #[test]
    fn an_end_in_order_is_told_and_a_failure_is_not() {
        let check = |end: fn(&Inbox), told: Option<NotTaken>, after: &str| {
            let inbox = Inbox::default();
            let (to, mut waits) = oneshot::channel();
            assert!(inbox.accept(batch(1, 1), to).is_ok());
            let (to, mut asks) = oneshot::channel();
            assert!(inbox.query(Query::Gates(vec![]), to).is_ok());
            let (to, mut starts) = oneshot::channel();
            assert!(inbox.order_claims(ClaimsOrder::Stop.into(), to).is_ok());
            end(&inbox);
            assert_eq!(starts.try_recv().ok().and_then(Result::err), told);
            assert_eq!(waits.try_recv().ok().and_then(Result::err), told);
            assert_eq!(asks.try_recv().ok().and_then(Result::err), told);
            assert_eq!(put(&inbox, 1, 1), Err(after));
            assert_eq!(inbox.has_failed(), told.is_none());
        };
        check(Inbox::close, Some(NotTaken), "stopping");
        check(Inbox::fail, None, "failed");
    }
}
