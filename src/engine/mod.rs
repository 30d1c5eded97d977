//! The engine: one step, one transaction.
//!
//! Synchronous and sans-io: it owns the store's writes and the schedule in RAM, is given the
//! time and what has come in, and says what is to be answered and sent. It knows no clock, no
//! socket and no tokio, and never waits for the network.
//!
//! A step, in order: clock and timers, reports, operator commands, sweeps, accepts, claims over
//! waiting and fresh work alike, due rows for the fresh work that was not taken, changed gates,
//! one commit. Only then are replies and dispatches handed out.

mod accept;
mod answer;
mod audit;
mod claim;
mod classes;
pub mod command;
mod configure;
mod directory;
mod drain;
pub mod explain;
mod find;
mod floor;
pub mod import;
pub mod jobs;
mod limits;
pub mod live;
mod mint;
mod open;
mod operate;
mod pressure;
mod publish;
mod quota;
pub mod rank;
mod report;
mod sweep;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::delivery::{Delivery, Lease};
use crate::model::{DeliveryId, Name};
use crate::schedule::{Schedule, Slot, Survey};
use crate::store::{Claims, Commit, DeliveryView, Store, StoreError, Writing};
use crate::time::{Millis, Mono, Now, Timestamp};

use accept::Accepting;
use command::{Batch, Step};
use directory::Directory;
use find::Finder;
use floor::Floor;
use live::Tally;
use mint::Mint;
use quota::Quotas;
use rank::Rankings;
use sweep::Sweeps;
use watch::Watch;

pub use crate::model::{ClassSettings, TenantQuotas, TenantWeights};
pub use limits::{Limits, Retention};
pub use open::Seed;

/// A step with nothing to do commits this often, so that a stuck engine shows.
pub const HEARTBEAT: Millis = Millis(10_000);
/// What a lease outlasts its attempt by: the report's way back, and a busy machine.
pub const LEASE_MARGIN: Millis = Millis(5_000);
/// Claims in one step: they wait for one commit, and it is to stay short.
pub const MAX_CLAIMS: usize = 512;
/// Lane pages read in one step.
pub const MAX_PAGES: usize = 256;
/// Destinations: gates are kept in RAM, about 300 bytes each.
pub const MAX_DESTINATIONS: usize = 200_000;
/// Bytes of bodies in flight: they are held in RAM while they are sent.
pub const MAX_BODIES_OUT: u64 = 256 << 20;
/// Numbers of destinations ever, deleted ones included: each keeps its gate.
pub const MAX_NUMBERS: usize = 1_000_000;
/// How often the figures are published at most.
const PUBLISH_EVERY: Millis = Millis(250);
/// Wall time may differ this much from monotonic time before timers are set anew.
const CLOCK_SLACK: Millis = Millis(1_000);
/// A forward step of the wall clock that must prove itself before anything is ended by it.
const CLOCK_STEP: Millis = Millis(600_000);
/// How long it must stand.
const CLOCK_PROOF: Millis = Millis(900_000);

/// The state machine of all deliveries of one file.
pub struct Engine {
    store: Store,
    core: Core,
}

/// Everything in RAM.
struct Core {
    limits: Limits,
    region: Name,
    schedule: Schedule,
    directory: Directory,
    /// Attempts that are out.
    leases: BTreeMap<DeliveryId, Out>,
    /// When each of them ends without a report.
    deadlines: BTreeSet<(Mono, DeliveryId)>,
    /// Bytes of the bodies in flight.
    bodies_out: u64,
    mint: Mint,
    quotas: Quotas,
    /// Deaths in a row soon after a start: interrupted work has ever fewer slots.
    streak: u32,
    sweeps: Sweeps,
    finder: Finder,
    tally: Tally,
    rankings: Rankings,
    /// The newest survey of very many gates, and until when it is good enough.
    surveyed: Option<(Mono, Survey)>,
    watch: Watch,
    floor: Floor,
    /// The number of the last committed step.
    step: u64,
    last_commit: Mono,
    last_publish: Option<Mono>,
    /// Something has changed since then.
    unpublished: bool,
    clock: Clock,
    /// Whether deliveries may be claimed, as it stands in the file.
    claims: Claims,
    /// Of the newest drain, as it stands in the file; 0: there was none.
    fence: u64,
}

/// An attempt that is out.
struct Out {
    lease: Lease,
    /// When it is taken back.
    deadline: Mono,
    /// The right to be out.
    slot: Slot,
    /// Length of its body.
    bytes: u32,
    /// Of its destination when it was claimed ([`directory::Facts`]).
    era: u32,
    /// The record, while it is as it was when accepted.
    record: Option<Arc<Delivery>>,
}

/// What is known of the wall clock.
#[derive(Clone, Copy, Debug)]
struct Clock {
    last: Now,
    /// When wall and monotonic time last agreed: timers are right to within the slack since.
    base: Now,
    /// Until then nothing is ended because of its time.
    proven_at: Mono,
    /// The last time that was proven; the true one is as much later as has passed since.
    trusted: Now,
    steps: u64,
}

impl Clock {
    /// The wall time that is stored: while the clock has to prove itself, what it would be without
    /// its leap, so that a restart does not take the leap for time that has passed.
    fn tick(&self, now: Now) -> Timestamp {
        if now.mono >= self.proven_at {
            return now.wall;
        }
        self.trusted.wall.plus(now.mono.since(self.trusted.mono))
    }
}

/// One step at work.
struct InStep<'a, 'txn> {
    core: &'a mut Core,
    file: &'a mut Writing<'txn>,
    now: Now,
    /// The number this step will have.
    number: u64,
    out: Step,
    accepting: Accepting,
    log: audit::Log,
}

impl Engine {
    /// Does everything that has come in and everything whose time has come, in one commit.
    /// What it returns is on disk.
    ///
    /// # Errors
    /// [`StoreError`] ends the process: nothing of the batch may be answered.
    pub fn step(&mut self, now: Now, batch: Batch) -> Result<Step, StoreError> {
        self.core.observe(now);
        self.core.schedule.wake(now);
        let answers = self.core.answers(&batch.queries, now);
        // A count that goes on, or a disk, changes what is shown, though it writes nothing.
        let shown = self.core.sweeps.counting() | self.core.floor.look(batch.free_bytes);
        let mut step =
            if self.core.has_work(now, &batch) { self.commit(now, batch)? } else { Step::default() };
        step.answers = answers;
        step.live = self.core.publish(now, step.committed || shown);
        Ok(step)
    }

    fn commit(&mut self, now: Now, batch: Batch) -> Result<Step, StoreError> {
        let core = &mut self.core;
        let commit = core.commit_kind(now, batch.file_bytes);
        let (step, wrote) = self.store.write(commit, |file| core.run(file, now, batch))?;
        if wrote {
            core.step += 1;
            core.last_commit = now.mono;
        }
        Ok(Step { committed: wrote, ..step })
    }

    /// When a step is to be taken though nothing has come in.
    #[must_use]
    pub fn next_wakeup(&self) -> Mono {
        self.core.next_wakeup()
    }

    /// Slots in all and slots taken.
    #[must_use]
    pub fn slots(&self) -> (u32, u32) {
        self.core.schedule.slots()
    }

    /// The totals as they are now, to be shown until a step publishes others.
    #[must_use]
    pub fn live(&mut self, now: Now) -> Arc<live::Live> {
        Arc::new(self.core.picture(now))
    }

    /// Shows so many destinations one by one from now on: see [`live::Live::watched`].
    pub fn watch(&mut self, places: usize) {
        self.core.watch = Watch::new(places);
    }

    /// Checks what is in RAM against itself: see [`Schedule::audit`]. After a step that had room
    /// for every claim.
    ///
    /// # Errors
    /// What does not hold, in words.
    pub fn audit(&self, now: Now) -> Result<(), String> {
        let (_, out) = self.core.schedule.slots();
        if out as usize != self.core.leases.len() {
            return Err(format!("I5: {out} slots are taken for {} leases", self.core.leases.len()));
        }
        self.core.schedule.audit(now)
    }

    /// True while steps still find the lanes that the file was opened with.
    #[must_use]
    pub fn is_finding(&self) -> bool {
        self.core.schedule.is_finding()
    }

    /// Who is next, to be looked at by tests and drills.
    #[must_use]
    pub fn schedule(&self) -> &Schedule {
        &self.core.schedule
    }

    /// The region that every delivery carries.
    #[must_use]
    pub fn region(&self) -> &Name {
        &self.core.region
    }

    /// A reader of the same file.
    #[must_use]
    pub fn reader(&self) -> crate::store::Reader {
        self.store.reader()
    }

    /// Stops claiming: what is in flight may still be reported.
    pub fn stop_claims(&mut self) {
        self.core.schedule.stop();
    }

    /// Writes that the run ended as it should and closes the file.
    ///
    /// # Errors
    /// [`StoreError`] when that cannot be written; the next open then walks the file.
    pub fn close(self, now: Now) -> Result<(), StoreError> {
        self.store.end_run(now.wall)?;
        self.store.close()
    }
}

impl<'a, 'txn> InStep<'a, 'txn> {
    fn begin(core: &'a mut Core, file: &'a mut Writing<'txn>, now: Now, number: u64) -> InStep<'a, 'txn> {
        let (out, accepting, log) = (Step::default(), Accepting::default(), audit::Log::default());
        InStep { core, file, now, number, out, accepting, log }
    }
}

impl Core {
    fn run(&mut self, file: &mut Writing<'_>, now: Now, batch: Batch) -> Result<(Step, bool), StoreError> {
        let number = self.step + 1;
        let heartbeat = now.mono.since(self.last_commit) >= HEARTBEAT;
        let mut work = InStep::begin(self, file, now, number);
        for report in batch.reports {
            work.report(report)?;
        }
        work.expire_leases()?;
        for order in batch.commands {
            let done = work.obey(order)?;
            work.out.commands.push(done);
        }
        for order in batch.claims {
            work.log.by(order.by);
            let set = work.order_claims(order.what)?;
            work.out.claims.push(set);
        }
        work.find_lanes()?;
        work.sweep()?;
        work.accept_all(batch.accepts)?;
        if work.core.claims == Claims::Running {
            work.claim_all()?;
        }
        work.place_fresh()?;
        work.write_gates()?;
        let out = work.out;
        if file.has_written() || heartbeat {
            file.tick(number, self.clock.tick(now))?;
        }
        Ok((out, file.has_written()))
    }

    /// True when a transaction is worth opening.
    fn has_work(&self, now: Now, batch: &Batch) -> bool {
        let ordered = !batch.claims.is_empty() || !batch.commands.is_empty();
        let came_in = ordered || !batch.reports.is_empty() || !batch.accepts.is_empty();
        came_in || self.next_work() <= now.mono
    }

    /// When a transaction is wanted though nothing has come in.
    fn next_work(&self) -> Mono {
        if self.can_claim() || self.sweeps.counting() || self.schedule.is_finding() {
            return Mono(0);
        }
        let heartbeat = self.last_commit.plus(HEARTBEAT);
        let lease = self.deadlines.first().map(|(at, _)| *at);
        let sweep = self.sweeps.next(self.clock.last, self.clock.proven_at);
        [self.schedule.next_timer(), lease, sweep].into_iter().flatten().fold(heartbeat, Mono::min)
    }

    fn next_wakeup(&self) -> Mono {
        let work = self.next_work();
        self.next_publish().map_or(work, |publish| publish.min(work))
    }

    /// True when there may be something to claim, and room for its body.
    fn can_claim(&self) -> bool {
        self.claims == Claims::Running && self.schedule.is_ready() && self.bodies_out < MAX_BODIES_OUT
    }

    fn commit_kind(&self, now: Now, file_bytes: u64) -> Commit {
        let idle = now.mono.since(self.last_commit) >= CLOCK_SLACK;
        let small = file_bytes < crate::store::QUICK_REPAIR_BELOW;
        if small || idle { Commit::QuickRepair } else { Commit::Plain }
    }

    /// Compares both clocks with the last time they agreed: when the wall clock has stepped, or
    /// has drifted as far, the timers are set anew. A large step forward ends nothing until it
    /// has proven itself.
    fn observe(&mut self, now: Now) {
        let base = self.clock.base;
        let expected = base.wall.plus(now.mono.since(base.mono));
        let (ahead, behind) = (now.wall.since(expected), expected.since(now.wall));
        if ahead > CLOCK_SLACK || behind > CLOCK_SLACK {
            self.clock.steps += 1;
            self.clock.base = now;
            self.schedule.clock_stepped(ahead, now);
        }
        if ahead > CLOCK_STEP {
            if self.is_clock_proven(now) {
                self.clock.trusted = self.clock.last;
            }
            self.clock.proven_at = now.mono.plus(CLOCK_PROOF);
        }
        self.clock.last = now;
    }

    /// True when the wall clock may end a delivery.
    fn is_clock_proven(&self, now: Now) -> bool {
        now.mono >= self.clock.proven_at
    }

    /// The view of a delivery as it stands in this step.
    fn view(&self, delivery: Arc<Delivery>, lease: Option<Lease>, now: Now) -> DeliveryView {
        let no = delivery.destination;
        let facts = self.directory.facts(no);
        let class = self.directory.class_settings(delivery.class).name.clone();
        let held_until = self.schedule.shut_until(no, now);
        let (tenant, destination) = (facts.tenant.clone(), facts.name.clone());
        DeliveryView { delivery, lease, tenant, destination, class, held_until }
    }
}
