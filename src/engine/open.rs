//! Opening: what the last process left out comes back, and RAM is filled from the file.

use std::collections::{BTreeMap, BTreeSet};

use super::classes;
use super::directory::{Directory, Facts};
use super::find::Finder;
use super::floor::Floor;
use super::mint::Mint;
use super::quota::Quotas;
use super::rank::Rankings;
use super::sweep::Sweeps;
use super::watch::Watch;
use super::{CLOCK_PROOF, CLOCK_STEP, Clock, Core, Engine, InStep, Limits};
use crate::delivery::{Attempt, Lease};
use crate::engine::live::Tally;
use crate::model::DestNo;
use crate::outcome::{self, AttemptResult, GateMemory, Verdict};
use crate::schedule::{Schedule, Terms};
use crate::store::{Before, BodyKind, Commit, Found, Inventory, Opened, RunNote, StoreError, Writing};
use crate::time::{Mono, Now};

/// What must come from outside: chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed {
    /// Names this run in every id it makes.
    pub run: u64,
}

impl Engine {
    /// Takes over a file that was just opened. Leases of the process before are due again, at
    /// their old time and behind fresh work, in a commit of its own.
    ///
    /// # Errors
    /// [`StoreError`] when the file cannot be read or written, or has no number for a class.
    pub fn open(opened: Opened, limits: Limits, seed: Seed, now: Now) -> Result<Engine, StoreError> {
        let Opened { store, run } = opened;
        let region = store.region().clone();
        let opened = store.write(Commit::QuickRepair, |file| {
            let mut inventory = file.inventory()?;
            classes::number(file, &mut inventory.classes, &limits.classes)?;
            let mut core = core(file, inventory, limits, region, seed, run, now)?;
            core.recover(file, now)?;
            file.tick(core.step, core.clock.tick(now))?;
            Ok(core)
        });
        match opened {
            Ok(core) => Ok(Engine { store, core }),
            Err(refused @ StoreError::ClassesFull { .. }) => {
                // It is the settings that are refused: the next start is not to see a crash.
                store.end_run(now.wall)?;
                store.close()?;
                Err(refused)
            }
            Err(failed) => Err(failed),
        }
    }
}

fn core(
    file: &Writing<'_>,
    inventory: Inventory,
    limits: Limits,
    region: crate::model::Name,
    seed: Seed,
    run: RunNote,
    now: Now,
) -> Result<Core, StoreError> {
    let cursors = [file.body_sweep(BodyKind::Delivered)?, file.body_sweep(BodyKind::Failed)?];
    let suspect_slots = suspect_slots(limits.slots, run.streak);
    let mut directory = Directory::default();
    for (name, no) in inventory.tenants {
        directory.put_tenant(name, no);
    }
    directory.put_classes(classes::numbered(inventory.classes, &limits.classes));
    let mut schedule = Schedule::new(&Terms {
        slots: limits.slots,
        suspect_slots,
        reserve_permille: limits.reserve_permille,
        weights: directory.weights(),
    });
    let gates = inventory.gates;
    file.each_destination(|no, stored| {
        let tenant = directory.tenant(&stored.settings.tenant).ok_or_else(|| damaged("the tenant", no))?;
        let facts = Facts::of(&stored, tenant);
        let gate = gates.binary_search_by_key(&no, |(of, _)| *of).ok();
        let memory = gate.map_or_else(GateMemory::default, |place| gates[place].1);
        if schedule.add(facts.gate(&limits.tenant_weights), memory, now) != no {
            return Err(damaged("the number", no));
        }
        directory.put(no, facts);
        Ok(())
    })?;
    let leap = run.step > 0 && now.wall.since(run.tick) > CLOCK_STEP;
    let proven_at = if leap { now.mono.plus(CLOCK_PROOF) } else { Mono(0) };
    let trusted = if leap { Now { wall: run.tick, mono: now.mono } } else { now };
    let tally = Tally::new(&directory.windows(), inventory.quarantined, now);
    let mut mint = Mint { run: seed.run, counter: 0, last: run.tick };
    file.newest_id()?.into_iter().for_each(|newest| mint.pass(newest));
    Ok(Core {
        limits,
        region,
        schedule,
        directory,
        leases: BTreeMap::new(),
        deadlines: BTreeSet::new(),
        bodies_out: 0,
        mint,
        quotas: Quotas::default(),
        streak: run.streak,
        sweeps: Sweeps::new(inventory.terminal, run.step + 1, cursors),
        finder: Finder::default(),
        tally,
        rankings: Rankings::default(),
        surveyed: None,
        watch: Watch::default(),
        floor: Floor::default(),
        step: run.step + 1,
        last_commit: now.mono,
        last_publish: None,
        unpublished: true,
        clock: Clock { last: now, base: now, proven_at, trusted, steps: 0 },
        claims: run.claims,
        fence: run.fence,
    })
}

/// Slots that interrupted work may hold after so many deaths in a row (DESIGN.md, *State*).
pub(super) fn suspect_slots(slots: u32, streak: u32) -> u32 {
    slots.checked_shr(streak.saturating_mul(3)).unwrap_or(0)
}

/// Destinations have the numbers 0, 1, 2, … without a gap, and each its tenant: anything else is
/// damage that a server cannot run with.
pub(super) fn damaged(what: &str, no: DestNo) -> StoreError {
    StoreError::Damaged { what: format!("{what} of destination {}", no.0) }
}

impl Core {
    /// Makes orphaned leases due again. The lanes are found by the steps that follow.
    fn recover(&mut self, file: &mut Writing<'_>, now: Now) -> Result<(), StoreError> {
        let number = self.step;
        let orphans = file.leases()?;
        self.schedule.find();
        let mut work = InStep::begin(self, file, now, number);
        for lease in &orphans {
            work.take_back(lease)?;
        }
        Ok(())
    }
}

impl InStep<'_, '_> {
    /// An attempt that the process before did not survive. Its number stays used.
    fn take_back(&mut self, lease: &Lease) -> Result<(), StoreError> {
        let Found::Delivery(mut it) = self.file.delivery(lease.id)? else {
            self.core.tally.quarantined += 1;
            return self.file.quarantine_damaged(lease.id, self.now.wall);
        };
        let verdict = outcome::decide_after_restart(&it.standing(lease), lease.due);
        let before = Before::of(&it, Some(lease));
        let end = self.end();
        let moved = it
            .settle(lease, interrupted(lease, verdict), verdict, end)
            .map_err(|refused| StoreError::Contradiction(format!("an orphaned lease: {refused}")))?;
        self.put(before, *it, moved.as_ref())
    }
}

fn interrupted(lease: &Lease, verdict: Verdict) -> Attempt {
    Attempt {
        n: lease.attempt,
        started_at: lease.claimed_at,
        ended_at: None,
        result: AttemptResult::Interrupted,
        status: None,
        error: Some("the process ended while it was in flight".to_owned()),
        host: None,
        address: None,
        late: false,
        retry_after: None,
        next_attempt_at: matches!(verdict, Verdict::Again { .. }).then_some(lease.due),
        response_excerpt: None,
    }
}
