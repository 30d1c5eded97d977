//! The courier: what was claimed is read back where it must be, sent, and reported.
//!
//! One thread owns the endpoints it knows and the send tasks; it reads the file in one short
//! transaction a step. Each dispatch has a [`Duty`] that reports when it is done, or when it is
//! dropped with its task.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender as Channel, channel};

use bytes::Bytes;
use tokio::runtime;
use tokio::task::{AbortHandle, JoinSet};

use super::clock::Clock;
use super::inbox::Inbox;
use crate::delivery::{Delivery, Lease};
use crate::engine::command::{Dispatch, Fresh, Report};
use crate::model::{DeliveryId, DestNo};
use crate::outcome::{MaybeSent, Outcome};
use crate::sender::{Endpoint, OutboundRequest, Seen, Sender};
use crate::store::{DestinationView, Loaded, Reader, Snapshot, StoreError};
use crate::time::Timestamp;

/// Endpoints kept ready. One more and all are read anew: a record each, in a step's one read.
const MAX_ENDPOINTS: usize = 1_024;

type TaskKey = (DeliveryId, u64);

enum Errand {
    Carry { dispatches: Vec<Dispatch>, cuts: Vec<TaskKey> },
    CutAll,
}

/// The way to the courier's thread. Bounded by the slots: the engine dispatches no more.
pub(super) struct Courier {
    errands: Channel<Errand>,
}

struct Rounds {
    reader: Reader,
    sender: Arc<Sender>,
    inbox: Arc<Inbox>,
    clock: Clock,
    runtime: runtime::Handle,
    endpoints: BTreeMap<DestNo, (u32, Arc<Endpoint>)>,
    tasks: JoinSet<TaskKey>,
    cutters: BTreeMap<TaskKey, AbortHandle>,
}

/// The duty to report on one lease, once. Dropping it reports that the attempt was interrupted.
struct Duty {
    inbox: Arc<Inbox>,
    lease: Lease,
    started_at: Timestamp,
    host: Option<String>,
    done: bool,
}

impl Courier {
    pub(super) fn start(
        reader: Reader,
        sender: Sender,
        inbox: Arc<Inbox>,
        clock: Clock,
        runtime: runtime::Handle,
    ) -> Courier {
        let (errands, inbound) = channel();
        let rounds = Rounds {
            reader,
            sender: Arc::new(sender),
            inbox,
            clock,
            runtime,
            endpoints: BTreeMap::new(),
            tasks: JoinSet::new(),
            cutters: BTreeMap::new(),
        };
        let thread = std::thread::Builder::new().name("courier".to_owned());
        thread.spawn(move || rounds.run(&inbound)).expect("a thread at start");
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
    fn run(mut self, errands: &Receiver<Errand>) {
        while let Ok(errand) = errands.recv() {
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
                    self.carry(dispatches);
                }
                Errand::CutAll => self.tasks.abort_all(),
            }
        }
    }

    fn cut(&mut self, key: TaskKey) {
        if let Some(task) = self.cutters.remove(&key) {
            tracing::warn!(delivery_id = %key.0, "the lease ended before its attempt: task cut");
            task.abort();
        }
    }

    fn carry(&mut self, dispatches: Vec<Dispatch>) {
        let known = |it: &Dispatch| {
            let endpoint = self.endpoints.get(&it.lease.destination);
            it.fresh.is_some() && endpoint.is_some_and(|(revision, _)| *revision == it.revision)
        };
        let snapshot = if dispatches.iter().all(known) { None } else { Some(self.reader.snapshot()) };
        match snapshot.transpose() {
            Ok(snapshot) => dispatches.into_iter().for_each(|it| self.start(it, snapshot.as_ref())),
            Err(error) => unreadable(&error),
        }
    }

    fn start(&mut self, dispatch: Dispatch, file: Option<&Snapshot>) {
        match self.request(&dispatch, file) {
            Ok(Some(request)) => self.send(request, dispatch.lease),
            Ok(None) => self.duty(dispatch.lease, None).end(damaged()),
            Err(error) => unreadable(&error),
        }
    }

    /// The request that a dispatch stands for; None when what is on disk cannot be trusted.
    fn request(
        &mut self,
        dispatch: &Dispatch,
        file: Option<&Snapshot>,
    ) -> Result<Option<OutboundRequest>, StoreError> {
        let endpoint = self.endpoint(dispatch, file)?;
        let work = match (&dispatch.fresh, file) {
            (Some(fresh), _) => Some(fresh.clone()),
            (None, Some(file)) => loaded(file.load(&dispatch.lease)?),
            (None, None) => None,
        };
        Ok(work.map(|work| self.outbound(dispatch, &work.delivery, work.body, endpoint)))
    }

    /// The endpoint as of the claim, or as it is now if it was changed since.
    fn endpoint(
        &mut self,
        dispatch: &Dispatch,
        file: Option<&Snapshot>,
    ) -> Result<Arc<Endpoint>, StoreError> {
        let no = dispatch.lease.destination;
        if let Some((_, known)) = self.endpoints.get(&no).filter(|(at, _)| *at >= dispatch.revision) {
            return Ok(Arc::clone(known));
        }
        let own;
        let file = match file {
            Some(file) => file,
            None => {
                own = self.reader.snapshot()?;
                &own
            }
        };
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
            body,
            endpoint,
            keep_alive: dispatch.keep_alive,
        }
    }

    fn send(&mut self, request: OutboundRequest, lease: Lease) {
        let host = request.endpoint.url.host_str().map(str::to_owned);
        let duty = self.duty(lease, host);
        let (sender, clock) = (Arc::clone(&self.sender), self.clock.clone());
        let key = (lease.id, lease.nonce);
        let task = async move {
            let seen = sender.send(request).await;
            duty.report(seen, clock.now().wall);
            key
        };
        let cutter = self.tasks.spawn_on(task, &self.runtime);
        self.cutters.insert(key, cutter);
    }

    fn duty(&self, lease: Lease, host: Option<String>) -> Duty {
        let (inbox, started_at) = (Arc::clone(&self.inbox), self.clock.now().wall);
        Duty { inbox, lease, started_at, host, done: false }
    }
}

impl Duty {
    fn report(mut self, seen: Seen, ended_at: Timestamp) {
        let Seen { outcome, error, address, response_excerpt } = seen;
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

fn damaged() -> Outcome {
    Outcome::Damaged
}

fn loaded(found: Loaded) -> Option<Fresh> {
    match found {
        Loaded::Ready { delivery, body } => Some(Fresh { delivery: Arc::new(*delivery), body: body.0 }),
        Loaded::Damaged => None,
    }
}

fn endpoint(stored: &DestinationView) -> Endpoint {
    let set = &stored.settings;
    Endpoint {
        url: set.url.clone(),
        timeout: set.timeout,
        connect_timeout: set.connect_timeout,
        allow_cidrs: set.allow_cidrs.clone(),
        headers: set.headers.clone(),
    }
}

/// A file that cannot be read ends the process: what is half dead looks healthy from its cache.
fn unreadable(error: &StoreError) {
    tracing::error!(%error, "the data file cannot be read: the process ends");
    std::process::exit(75);
}

#[cfg(test)]
#[path = "courier/tests.rs"]
mod tests;
