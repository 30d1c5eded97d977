//! The courier: what was claimed is read back where it must be, sent, and reported.
//!
//! One task owns the send tasks; what is not known yet is read on a blocking thread, in one
//! short transaction a step. Each dispatch has a [`Duty`] that reports when it is done, or when
//! it is dropped with its task. The engine's thread wakes the runtime once a step, not once a
//! delivery: a wake-up from outside costs a system call.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use tokio::runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{AbortHandle, JoinSet, spawn_blocking};

use super::clock::Clock;
use super::fatal::Fatal;
use super::inbox::Inbox;
use super::outlet::Outlet;
use crate::delivery::{Delivery, Lease, Source};
use crate::engine::command::{Dispatch, Fresh, Report};
use crate::model::{DeliveryId, DestNo};
use crate::outcome::{MaybeSent, NotSent, Outcome};
use crate::sender::payload::{Read, Referred};
use crate::sender::{Body, Endpoint, OutboundRequest, Seen, Signers};
use crate::store::{DestinationView, Loaded, Reader, Snapshot, StoreError};
use crate::time::Timestamp;

/// Endpoints kept ready. One more and all are read anew: a record each, in a step's one read.
const MAX_ENDPOINTS: usize = 1_024;

type TaskKey = (DeliveryId, u64);

enum Errand {
    Carry { dispatches: Vec<Dispatch>, cuts: Vec<TaskKey> },
    CutAll,
}

/// The way to the courier's task. Bounded by the slots: the engine dispatches no more.
pub(super) struct Courier {
    errands: UnboundedSender<Errand>,
}

struct Rounds {
    desk: Desk,
    outlet: Arc<Outlet>,
    tasks: JoinSet<TaskKey>,
    cutters: BTreeMap<TaskKey, AbortHandle>,
}

/// What turns dispatches into requests: it may read the file.
pub(super) struct Desk {
    reader: Reader,
    inbox: Arc<Inbox>,
    clock: Clock,
    fatal: Fatal,
    endpoints: BTreeMap<DestNo, (u32, Arc<Endpoint>)>,
}

/// A request and the duty to report on it.
type Letter = (OutboundRequest, Duty);

/// The duty to report on one lease, once. Dropping it reports that the attempt was interrupted.
struct Duty {
    inbox: Arc<Inbox>,
    lease: Lease,
    started_at: Timestamp,
    host: Option<String>,
    /// What a reference led to, as soon as it is known.
    read: Read,
    done: bool,
}

impl Courier {
    pub(super) fn start(desk: Desk, outlet: Arc<Outlet>, runtime: &runtime::Handle) -> Courier {
        let (errands, inbound) = unbounded_channel();
        let (tasks, cutters) = (JoinSet::new(), BTreeMap::new());
        let rounds = Rounds { desk, outlet, tasks, cutters };
        runtime.spawn(rounds.run(inbound));
        Courier { errands }
    }

    /// Sends what was claimed, and ends the tasks whose leases are over.
    pub(super) fn carry(&self, dispatches: Vec<Dispatch>, cuts: Vec<TaskKey>) {
        if !dispatches.is_empty() || !cuts.is_empty() {
            drop(self.errands.send(Errand::Carry { dispatches, cuts }));
        }
    }

    /// Ends every task: each reports that it was interrupted.
    pub(super) fn cut_all(&self) {
        drop(self.errands.send(Errand::CutAll));
    }
}

impl Rounds {
    /// Goes on until the engine is gone. Its tasks end with it.
    async fn run(mut self, mut errands: UnboundedReceiver<Errand>) {
        let guard = self.desk.fatal.guard();
        while let Some(errand) = errands.recv().await {
            while let Some(ended) = self.tasks.try_join_next() {
                if let Ok(key) = ended {
                    self.cutters.remove(&key);
                }
            }
            match errand {
                Errand::Carry { dispatches, cuts } => {
                    for key in cuts {
                        self.cut(key);
                    }
                    self = self.carry(dispatches).await;
                }
                Errand::CutAll => self.tasks.abort_all(),
            }
        }
        drop(guard);
    }

    fn cut(&mut self, key: TaskKey) {
        if let Some(task) = self.cutters.remove(&key) {
            tracing::warn!(delivery_id = %key.0, "the lease ended before its attempt: task cut");
            task.abort();
        }
    }

    async fn carry(mut self, dispatches: Vec<Dispatch>) -> Rounds {
        let letters = if self.desk.knows_all(&dispatches) {
            self.desk.letters(dispatches, None)
        } else {
            let mut desk = self.desk;
            let read = spawn_blocking(move || (desk.read(dispatches), desk));
            let (letters, desk) = read.await.expect("it is not cut, and what panics ends the process");
            self.desk = desk;
            letters
        };
        for (request, duty) in letters {
            self.send(request, duty);
        }
        self
    }

    fn send(&mut self, request: OutboundRequest, duty: Duty) {
        let (sender, clock) = (self.outlet.now(), self.desk.clock.clone());
        let key = (duty.lease.id, duty.lease.nonce);
        let cutter = self.tasks.spawn(async move {
            let seen = sender.send(request).await;
            duty.report(seen, clock.now().wall);
            key
        });
        self.cutters.insert(key, cutter);
    }
}

impl Desk {
    pub(super) fn new(reader: Reader, inbox: Arc<Inbox>, clock: Clock, fatal: Fatal) -> Desk {
        Desk { reader, inbox, clock, fatal, endpoints: BTreeMap::new() }
    }

    /// True when nothing needs to be read.
    fn knows_all(&self, dispatches: &[Dispatch]) -> bool {
        dispatches.iter().all(|it| it.fresh.is_some() && self.known(it).is_some())
    }

    /// The endpoint as of the claim or later, if it is known.
    fn known(&self, dispatch: &Dispatch) -> Option<&Arc<Endpoint>> {
        let (revision, endpoint) = self.endpoints.get(&dispatch.lease.destination)?;
        (*revision >= dispatch.revision).then_some(endpoint)
    }

    fn read(&mut self, dispatches: Vec<Dispatch>) -> Vec<Letter> {
        match self.reader.snapshot() {
            Ok(snapshot) => self.letters(dispatches, Some(&snapshot)),
            Err(error) => self.fatal.end(&error),
        }
    }

    /// A request for each dispatch; what cannot be trusted is reported instead.
    fn letters(&mut self, dispatches: Vec<Dispatch>, file: Option<&Snapshot>) -> Vec<Letter> {
        let mut letters = Vec::with_capacity(dispatches.len());
        for dispatch in dispatches {
            match self.request(&dispatch, file) {
                Ok(Ok(request)) => {
                    let host = request.endpoint.url.host_str().map(str::to_owned);
                    let read = request.body.read();
                    letters.push((request, self.duty(dispatch.lease, host, read)));
                }
                Ok(Err(instead)) => self.duty(dispatch.lease, None, Read::default()).end(instead),
                Err(error) => self.fatal.end(&error),
            }
        }
        letters
    }

    /// The request that a dispatch stands for, or what is reported instead: what is on disk cannot
    /// be trusted, or there is no body any more.
    fn request(
        &mut self,
        dispatch: &Dispatch,
        file: Option<&Snapshot>,
    ) -> Result<Result<OutboundRequest, Outcome>, StoreError> {
        let endpoint = match (self.known(dispatch), file) {
            (Some(known), _) => Arc::clone(known),
            (None, Some(file)) => self.learn(dispatch.lease.destination, file)?,
            (None, None) => return Ok(Err(Outcome::Damaged)),
        };
        let work = match (&dispatch.fresh, file) {
            (Some(fresh), _) => Ok(fresh.clone()),
            (None, Some(file)) => loaded(file.load(&dispatch.lease)?),
            (None, None) => Err(Outcome::Damaged),
        };
        Ok(work.map(|work| self.outbound(dispatch, &work.delivery, work.body, endpoint)))
    }

    fn learn(&mut self, no: DestNo, file: &Snapshot) -> Result<Arc<Endpoint>, StoreError> {
        let stored = file.destination_of(no)?;
        if self.endpoints.len() >= MAX_ENDPOINTS {
            self.endpoints.clear();
        }
        let made = Arc::new(endpoint(&stored));
        self.endpoints.insert(no, (stored.revision, Arc::clone(&made)));
        Ok(made)
    }

    fn outbound(
        &self,
        dispatch: &Dispatch,
        it: &Delivery,
        body: Bytes,
        endpoint: Arc<Endpoint>,
    ) -> OutboundRequest {
        OutboundRequest {
            delivery: it.id,
            attempt: dispatch.lease.attempt,
            key: it.sent_key(),
            created_at: it.created_at,
            sent_at: self.clock.now().wall,
            content_type: it.content_type.clone(),
            headers: it.headers.clone(),
            body: content(it, body),
            endpoint,
            keep_alive: dispatch.keep_alive,
        }
    }

    fn duty(&self, lease: Lease, host: Option<String>, read: Read) -> Duty {
        let (inbox, started_at) = (Arc::clone(&self.inbox), self.clock.now().wall);
        Duty { inbox, lease, started_at, host, read, done: false }
    }
}

impl Duty {
    fn report(mut self, seen: Seen, ended_at: Timestamp) {
        let Seen { outcome, error, address, response_excerpt, fetched } = seen;
        if let Some(fetched) = fetched {
            self.started_at = self.started_at.plus(fetched.took);
        }
        let address = address.map(|address| address.to_string());
        let host = self.host.take();
        self.put(Report {
            error,
            host,
            address,
            response_excerpt,
            ended_at: Some(ended_at),
            ..self.blank(outcome)
        });
    }

    fn end(mut self, outcome: Outcome) {
        let report = self.blank(outcome);
        self.put(report);
    }

    fn put(&mut self, report: Report) {
        self.done = true;
        self.inbox.report(report);
    }

    fn blank(&self, outcome: Outcome) -> Report {
        Report {
            id: self.lease.id,
            nonce: self.lease.nonce,
            attempt: self.lease.attempt,
            started_at: self.started_at,
            ended_at: None,
            outcome,
            error: None,
            host: None,
            address: None,
            response_excerpt: None,
            digest: self.read.get().copied(),
        }
    }
}

impl Drop for Duty {
    fn drop(&mut self) {
        if !self.done {
            let error = Some("the attempt was cut off".to_owned());
            let report = Report { error, ..self.blank(Outcome::MaybeSent(MaybeSent::Interrupted)) };
            self.inbox.report(report);
        }
    }
}

fn loaded(found: Loaded) -> Result<Fresh, Outcome> {
    match found {
        Loaded::Ready { delivery, body } => Ok(Fresh { delivery: Arc::new(*delivery), body: body.0 }),
        Loaded::Damaged => Err(Outcome::Damaged),
        Loaded::Erased => Err(Outcome::NotSent(NotSent::Payload)),
    }
}

/// The stored bytes, or where they are read.
fn content(it: &Delivery, stored: Bytes) -> Body {
    match &it.payload.source {
        Source::Inline { .. } => Body::Bytes(stored),
        Source::Reference { uri, sha256 } => {
            Body::Reference(Referred { uri: uri.clone(), sha256: *sha256, read: Read::default() })
        }
    }
}

/// What a request needs of a destination as it is stored.
pub(super) fn endpoint(stored: &DestinationView) -> Endpoint {
    let set = &stored.settings;
    Endpoint {
        url: set.url.clone(),
        timeout: set.timeout,
        connect_timeout: set.connect_timeout,
        allow_cidrs: set.allow_cidrs.clone(),
        headers: set.headers.clone(),
        signers: Signers::of(&set.secrets),
        tls: set.tls.clone(),
    }
}

#[cfg(test)]
#[path = "courier/tests.rs"]
mod tests;
