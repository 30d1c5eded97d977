//! What can be asked of the engine, and what it answers: the words of its inbox.

use std::fmt;
mod order;

use std::sync::Arc;

use bytes::Bytes;

use crate::delivery::{Delivery, Lease, Refused};
use crate::engine::Limits;
use crate::engine::import::{Imported, Left, Page};
use crate::engine::jobs::{JobOrder, MAX_RUNNING};
use crate::engine::live::Live;
use crate::engine::rank::{DestinationOrder, DestinationRow, Ranked, Span, TenantOrder, TenantRow};
use crate::model::secret::MAX_SECRETS;
use crate::model::{Action, MAX_CLASSES};
use crate::model::{
    DeliveryId, DestNo, Destination, DestinationState, Digest, Excerpt, JobId, Lane, Name, NewDelivery,
    Secret,
};
use crate::outcome::Outcome;
use crate::schedule::{GateView, Standing};
use crate::store::{Claims, DeliveryView, DestinationView, Identity, Job};
use crate::time::{Millis, Timestamp};

pub use order::{OPERATOR, Order, RECEIVER};

/// Everything that has come in since the last step. Replies stand in the same order.
#[derive(Debug, Default)]
pub struct Batch {
    pub reports: Vec<Report>,
    pub commands: Vec<Order<Command>>,
    /// What is ordered of the whole server, in order: the last word counts.
    pub claims: Vec<Order<ClaimsOrder>>,
    pub accepts: Vec<AcceptBatch>,
    pub queries: Vec<Query>,
    /// Length of the file, as the driver last saw it.
    pub file_bytes: u64,
    /// What is free of its disk, as the driver last saw it.
    pub free_bytes: u64,
}

/// What came of an attempt, under the lease that allowed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub id: DeliveryId,
    pub nonce: u64,
    pub attempt: u32,
    pub started_at: Timestamp,
    /// None: the task died without an answer.
    pub ended_at: Option<Timestamp>,
    pub outcome: Outcome,
    pub error: Option<String>,
    pub host: Option<String>,
    pub address: Option<String>,
    pub response_excerpt: Option<Excerpt>,
    /// Of the bytes that a payload reference led to, if it was read.
    pub digest: Option<Digest>,
}

/// What a step has made true, to be told and done after its commit.
#[derive(Debug, Default)]
pub struct Step {
    pub commands: Vec<Result<Done, CommandError>>,
    pub accepts: Vec<Vec<Result<Accepted, Rejected>>>,
    pub answers: Vec<Answer>,
    /// What each order to the whole server came to.
    pub claims: Vec<Result<ClaimsSet, FenceRequired>>,
    pub dispatches: Vec<Dispatch>,
    /// Leases that ended without their report: their tasks are to be cut.
    pub cuts: Vec<(DeliveryId, u64)>,
    /// Reports that came after their lease had ended.
    pub late: u32,
    pub live: Option<Arc<Live>>,
    pub committed: bool,
}

/// One attempt that is to be made now: its lease is on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dispatch {
    pub lease: Lease,
    /// The destination's settings as of the claim.
    pub revision: u32,
    /// Work accepted in the same step: it need not be read back.
    pub fresh: Option<Fresh>,
    pub keep_alive: bool,
}

/// A delivery that has just been accepted, with its body.
#[derive(Clone, PartialEq, Eq)]
pub struct Fresh {
    pub delivery: Arc<Delivery>,
    pub body: Bytes,
}

impl fmt::Debug for Fresh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fresh").field("delivery", &self.delivery).finish_non_exhaustive()
    }
}

/// What an operator orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Creates or replaces. Its state, hold and gate stay as they are.
    PutDestination {
        name: Name,
        settings: Box<Destination>,
        /// The secrets that are stored stay, and those of `settings` are not looked at.
        keep_secrets: bool,
        expect: Expect,
    },
    /// A new secret signs first; those before it go on for `overlap`.
    RotateSecret {
        name: Name,
        secret: Secret,
        overlap: Millis,
    },
    /// Only when nothing waits and nothing is in flight.
    DeleteDestination {
        name: Name,
        expect: Expect,
    },
    SetState {
        name: Name,
        verb: StateVerb,
        reason: String,
    },
    /// Lets nothing through until `until`, in place of any other hold.
    Hold {
        name: Name,
        until: Timestamp,
        reason: String,
    },
    /// Ends any hold, the receiver's too.
    Release {
        name: Name,
    },
    Retry {
        id: DeliveryId,
    },
    Cancel {
        id: DeliveryId,
    },
    /// Removes the body and what was said about it.
    Erase {
        id: DeliveryId,
    },
    /// An export of another server is about to come, page by page.
    BeginImport {
        source: Identity,
        dry_run: bool,
    },
    Import(Page),
    /// Bulk jobs: what operators order, and the turns of what is found.
    Job(JobOrder),
    /// Other settings from now on.
    Configure(Box<Configuration>),
    /// Something that is done elsewhere is to stand in the audit log.
    Note {
        action: Action,
        /// None: the whole server.
        object: Option<String>,
        detail: String,
    },
}

impl Command {
    /// The destination that it changes by its name.
    #[must_use]
    pub fn destination(&self) -> Option<&Name> {
        match self {
            Command::PutDestination { name, .. }
            | Command::RotateSecret { name, .. }
            | Command::DeleteDestination { name, .. }
            | Command::SetState { name, .. }
            | Command::Hold { name, .. }
            | Command::Release { name }
            | Command::Job(JobOrder::Remove { name, .. }) => Some(name),
            Command::Retry { .. }
            | Command::Cancel { .. }
            | Command::Erase { .. }
            | Command::BeginImport { .. }
            | Command::Import(_)
            | Command::Job(JobOrder::Start(_) | JobOrder::Turn(_) | JobOrder::Stop { .. })
            | Command::Configure(_)
            | Command::Note { .. } => None,
        }
    }
}

/// Settings that take the place of others while the server runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    pub limits: Limits,
    /// See [`Engine::keep_free`](crate::engine::Engine::keep_free).
    pub min_free_disk: u64,
    /// See [`Engine::watch`](crate::engine::Engine::watch).
    pub watched: usize,
    /// The name of this machine, for the next start to know the file by.
    pub host: String,
    /// What differs, for the audit log: keys, never values.
    pub changes: String,
}

/// What must be true of a destination for a change to be made (`If-Match`, `If-None-Match`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    Anything,
    /// There is none of this name.
    New,
    /// It is this one, as it was then: a name that was deleted and given anew is another one.
    Version(DestNo, u32),
}

/// The verbs that change a destination's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateVerb {
    Pause,
    Resume,
    Enable,
    Disable,
}

impl StateVerb {
    /// What it is called in the audit log.
    #[must_use]
    pub fn action(self) -> Action {
        match self {
            StateVerb::Pause => Action::DestinationPause,
            StateVerb::Resume => Action::DestinationResume,
            StateVerb::Enable => Action::DestinationEnable,
            StateVerb::Disable => Action::DestinationDisable,
        }
    }

    /// The state that `self` makes of `from`: pause and disable always hold; resume ends only a
    /// pause and enable only a disabled state, so that neither undoes the other.
    #[must_use]
    pub fn applied(self, from: DestinationState) -> DestinationState {
        use DestinationState::{Active, Deleted, Disabled, Paused};
        match (self, from) {
            (_, Deleted) => Deleted,
            (StateVerb::Pause, Active | Paused) => Paused,
            (StateVerb::Pause, Disabled) => Disabled,
            (StateVerb::Disable, Active | Paused | Disabled) => Disabled,
            (StateVerb::Resume, Paused) | (StateVerb::Enable, Disabled) => Active,
            (StateVerb::Resume | StateVerb::Enable, other) => other,
        }
    }
}

/// A command that was carried out and is on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    Created(Box<DestinationView>),
    Changed(Box<DestinationView>),
    Deleted,
    Delivery(Box<DeliveryView>),
    ImportBegun,
    /// Line by line, as far as it was looked at.
    Imported(Vec<Result<Imported, Left>>),
    /// As it stands now.
    Job(Box<Job>),
    Configured,
    Noted,
}

/// Whether anything is to be claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimsOrder {
    Stop,
    /// With the fence of the newest drain, if that is to end.
    Start {
        fence: Option<u64>,
    },
    /// Nothing is claimed and nothing new is taken, until a start with the fence.
    Drain,
}

/// Whether deliveries are claimed, as it is on disk, and how many attempts are out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimsSet {
    pub claims: Claims,
    pub leases_held: usize,
    /// While it is drained.
    pub fence: Option<u64>,
}

/// What was given is not the fence of the newest drain, or nothing was and the server is drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FenceRequired {
    #[error("the server was drained so that another takes over, and only its fence starts it again")]
    Drained,
    #[error("the server is not drained, and the fence that was given is not that of its last drain")]
    Stale,
}

/// A command that changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    #[error("there is no destination of this name")]
    DestinationUnknown,
    #[error("there is no delivery of this id")]
    DeliveryUnknown,
    #[error("a destination's tenant cannot change")]
    TenantFixed,
    #[error("the token is pinned to other tenants")]
    TenantNotAllowed,
    #[error("the destination was changed since it was read")]
    RevisionMismatch,
    #[error("{waiting} deliveries wait for it or are in flight")]
    WorkWaiting { waiting: u64 },
    #[error("the server has as many destinations as it can hold")]
    TooManyDestinations,
    #[error("{MAX_SECRETS} secrets sign for it already, the most there can be")]
    TooManySecrets,
    #[error("what is on disk for it is damaged")]
    Damaged,
    #[error("an export of this server with fence {known} was imported before, and this one has {given}")]
    StaleExport { known: u64, given: u64 },
    #[error("there is no bulk job of this id")]
    JobUnknown,
    #[error("{id} does the same and is still running")]
    JobRunning { id: JobId },
    #[error("{MAX_RUNNING} bulk jobs are running, the most there can be")]
    TooManyJobs,
    #[error("policy {policy} is needed by destination {destination}")]
    PolicyNeeded { policy: Name, destination: Name },
    #[error("class {class} has no number, and all {MAX_CLASSES} were given to others")]
    ClassesFull { class: Name },
    #[error("{0}")]
    Refused(Refused),
}

/// A delivery that is on disk: new, or the one that its key already named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    pub delivery: DeliveryView,
    pub duplicate: bool,
}

/// A delivery that was not taken; nothing of it is stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    #[error("there is no destination of this name, or it belongs to another tenant")]
    DestinationUnknown,
    #[error("the destination is disabled: {reason}")]
    DestinationDisabled { reason: String },
    #[error("there is no class of this name")]
    ClassUnknown,
    #[error("this key was used for another body; it belongs to {existing}")]
    KeyReused { existing: DeliveryId },
    #[error("{waiting} deliveries wait already")]
    QueueFull { waiting: u64, retry_after: Millis },
    #[error("the disk is nearly full: {free_bytes} bytes are free, and {kept_bytes} are kept free")]
    DiskLow { free_bytes: u64, kept_bytes: u64, retry_after: Millis },
    #[error("tenant {tenant} brings more than {per_second} deliveries a second")]
    TenantRate { tenant: Name, per_second: u32, retry_after: Millis },
    #[error("tenant {tenant} has {waiting} deliveries waiting already")]
    TenantFull { tenant: Name, waiting: u64, retry_after: Millis },
    #[error("the server was drained: another is to take over")]
    Draining { retry_after: Millis },
    #[error("what is on disk for this key is damaged")]
    Damaged,
}

/// What is answered from the engine's memory at the top of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    /// The live side of destinations, in order.
    Gates(Vec<DestNo>),
    /// The live side of a destination, and what of the server keeps one of its lanes back.
    Standing(DestNo, Lane),
    /// Destinations among each other.
    Destinations(DestinationOrder, Span, Seen),
    /// Tenants among each other.
    Tenants(TenantOrder, Span, Seen),
}

/// The tenants that who asks may see; None: all.
pub type Seen = Option<Arc<[Name]>>;

/// The answer to a [`Query`].
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Gates(Vec<Option<GateView>>),
    Standing { gate: Option<Box<GateView>>, standing: Standing, claims: Claims },
    Destinations(Ranked<DestinationRow>),
    Tenants(Ranked<TenantRow>),
}

/// One producer's request: taken in order, as one.
pub type AcceptBatch = Vec<NewDelivery>;
