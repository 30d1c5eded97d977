//! Deaths of the process and of the machine in a world: what was planned of the disk, what a step
//! that failed may have left, and the opens that follow, each of which may fail too.

use std::collections::{BTreeMap, BTreeSet};

use duehook::engine::command::{AcceptBatch, Batch, Command, Expect, Step};
use duehook::engine::{ClassSettings, Engine, Limits, Retention, Seed, TenantWeights};
use duehook::model::DestinationState;
use duehook::store::{Opening, open};
use duehook::time::{Millis, Now};

use super::perils::{Incident, Peril, Restart};
use super::{Event, Given, LABEL, World, destination_name, name, policy};
use crate::sim::disk::{Disk, Failure, Fault, Op, Struck};
use crate::sim::oracle::{Rows, all, rows};
use crate::sim::rot::Left;

/// A disk error ends the process with this code: a restart may help.
const MAY_HELP: u8 = 75;
/// More opens in a row than anything that was planned can make fail.
const MOST_OPENS: u64 = 8;
/// What giving up the ballast, or an operator, gives back of a full disk.
const BALLAST: u64 = 256 << 10;

/// What a step was given that failed, and how the file was before it.
#[derive(Default)]
pub(super) struct Unanswered {
    posts: Vec<AcceptBatch>,
    commands: Vec<Command>,
    reports: usize,
    before: Option<Before>,
}

struct Before {
    number: u64,
    rows: Rows,
    labels: BTreeSet<String>,
}

impl World {
    /// The first open; where it fails half-way, nothing was ever there.
    pub(super) fn begin(&mut self) {
        self.arm_next();
        while let Err(error) = self.try_open() {
            assert!(self.perils.watched, "it does not open: {error}");
            if self.disk.struck().is_some() {
                self.fire_struck();
                self.disk.cut();
                self.crashed = true;
                self.rest();
            } else {
                // No file is made twice in its place: the operator removes what is half there.
                self.oracle.fire("half made");
                self.disk = Disk::default();
            }
        }
    }

    /// Opens the file, with everything in RAM anew.
    fn try_open(&mut self) -> Result<u64, String> {
        let now = self.now();
        let region = name("local");
        let opening = Opening { region: &region, now: now.wall, uuid: [7; 16] };
        let seed = Seed { run: self.rng.next() };
        self.disk.watch(true);
        let opened = open::open_cached(self.disk.clone(), self.cache, &opening)
            .map_err(|it| (it.exit_code(), it.to_string()));
        let made = opened.and_then(|opened| {
            let step = opened.run.step;
            let engine = Engine::open(opened, self.limits(), seed, now);
            engine.map(|engine| (step, engine)).map_err(|it| (it.exit_code(), it.to_string()))
        });
        self.disk.watch(false);
        let struck = self.disk.struck();
        match made {
            Ok((step, mut engine)) => {
                self.went_on();
                engine.keep_free(self.floor());
                self.engine = Some(engine);
                self.perils.number = step + 1;
                Ok(step)
            }
            Err((code, error)) => {
                assert!(code == MAY_HELP || !is_error(struck), "S1: {error} ends with {code}");
                Err(error)
            }
        }
    }

    /// Half of a history, and the file as it is then: closed as it should be, or left by a death.
    pub(crate) fn leave(mut self, closed: bool) -> Left {
        while self.mono < self.busy / 2 {
            self.turn();
        }
        let (now, limits) = (self.now(), self.limits());
        let engine = self.engine.take().expect("it is open between steps");
        if closed {
            engine.close(now).expect("this disk does not fail");
        } else {
            self.disk.cut();
            drop(engine);
        }
        Left { bytes: self.disk.image(), told: self.oracle.told, now, limits }
    }

    fn floor(&self) -> u64 {
        match self.perils.current {
            Some(Incident { peril: Peril::Full { floor, .. }, .. }) => floor,
            _ => 0,
        }
    }

    fn limits(&self) -> Limits {
        let retention = Retention {
            terminal: Millis::seconds(30 * 86_400),
            max_terminal: 1_000_000,
            delivered_payload: Millis(0),
            failed_payload: Millis::seconds(7 * 86_400),
            audit: Millis(90 * 24 * 3_600_000),
        };
        Limits {
            payload_timeout: Millis(0),
            slots: self.slots,
            max_deliveries: 10_000,
            policies: BTreeMap::from([(name("default"), policy())]),
            retention,
            classes: ClassSettings::first(),
            reserve_permille: 300,
            tenant_quotas: duehook::engine::TenantQuotas::default(),
            tenant_weights: TenantWeights {
                default: 1,
                named: BTreeMap::from([(name("t1"), 3), (name("t2"), 10)]),
            },
        }
    }

    /// One step. None: it failed because the disk did, and nothing of it is answered.
    pub(super) fn attempt(&mut self, now: Now, mut batch: Batch) -> Option<Step> {
        batch.free_bytes = self.disk.free();
        self.disk.watch(true);
        let made = self.engine.as_mut().expect("it is open between steps").step(now, batch);
        self.disk.watch(false);
        let struck = self.disk.struck();
        match made {
            Ok(step) => {
                self.went_on();
                self.perils.number += u64::from(step.committed);
                self.perils.commits += u64::from(step.committed);
                Some(step)
            }
            Err(error) => {
                assert!(struck.is_some(), "a step fails on a disk that does not: {error}");
                let code = error.exit_code();
                assert!(code == MAY_HELP || !is_error(struck), "T04: {error} ends with {code}");
                None
            }
        }
    }

    /// S13: what went on although the disk failed had not needed it. A page that the database
    /// writes early, for want of room in RAM, is kept, and written again by the commit.
    fn went_on(&mut self) {
        match self.disk.struck() {
            None => return,
            Some(Struck::Failed(Op::Write, _)) => self.perils.current = None,
            Some(Struck::Full) => {}
            Some(struck) => panic!("S13: something is answered although the disk failed: {struck:?}"),
        }
        self.crashed = true;
        self.disk.forgive();
        self.oracle.fire("a write was made again");
    }

    /// What is to be known of a step should it fail.
    pub(super) fn unanswered(&self, given: &Given) -> Unanswered {
        if self.perils.current.is_none() {
            return Unanswered::default();
        }
        Unanswered {
            posts: given.batch.accepts.clone(),
            commands: given.batch.commands.iter().map(|order| order.what.clone()).collect(),
            reports: given.reports.len(),
            before: Some(self.before()),
        }
    }

    fn before(&self) -> Before {
        let (rows, labels) = self.on_disk();
        Before { number: self.perils.number, rows, labels }
    }

    /// What waits or is out, and the planned deliveries that are there.
    fn on_disk(&self) -> (Rows, BTreeSet<String>) {
        let file = self.engine().reader().snapshot().expect("it can be read");
        let views = all(&file, self.now().wall);
        let label = |labels: &[(String, String)]| labels.iter().find(|(key, _)| key == LABEL).cloned();
        let labels = views.iter().filter_map(|view| label(&view.delivery.labels)).map(|(_, n)| n).collect();
        (rows(&views), labels)
    }

    /// True when the process is to die with this on disk and nobody told.
    pub(super) fn dies_untold(&mut self, step: &Step) -> bool {
        let dies = step.committed && self.peril() == Some(Peril::Untold);
        if dies {
            self.oracle.fire("committed and not told");
        }
        dies
    }

    /// True when the process is to die with all told and nothing sent.
    pub(super) fn dies_unsent(&mut self, step: &Step) -> bool {
        let dies = !step.dispatches.is_empty() && self.peril() == Some(Peril::Unsent);
        if dies {
            self.oracle.fire("claimed and not sent");
        }
        dies
    }

    /// The process has ended in a step of which nobody is told. What it was given may be on disk
    /// as a whole, or none of it.
    pub(super) fn die(&mut self, it: Unanswered) {
        let now = self.now();
        self.note_death(&it, now);
        self.bury(now);
        let known = self.perils.number;
        let (step, failed) = self.rise();
        assert!(
            (known..=known + 1 + failed).contains(&step),
            "S1: step {known} was committed, and the file is at {step} after {failed} failed opens"
        );
        self.look_around();
        self.compare(&it, step);
        self.ask_again(it.posts);
    }

    fn note_death(&mut self, it: &Unanswered, now: Now) {
        self.fire_struck();
        self.oracle.note_death(now);
        let lost = self.events.values().any(|event| matches!(event, Event::Report { .. }));
        if lost || it.reports > 0 {
            self.oracle.fire("answered and not recorded");
        }
        if it.reports > 0 && self.disk.struck() == Some(Struck::Full) {
            self.oracle.fire("no room for an outcome");
        }
        let opens = |it: &&Command| {
            matches!(it, Command::Release { .. } | Command::Retry { .. } | Command::Hold { .. })
        };
        for command in it.commands.iter().filter(opens) {
            self.note(command); // it may have been committed
        }
    }

    fn fire_struck(&mut self) {
        let what = match self.disk.struck() {
            Some(Struck::Stopped) => "stopped",
            Some(Struck::Full) => "full",
            Some(Struck::Failed(op, how)) => match (op, how) {
                (Op::Sync, Failure::Forgets) => "a sync forgot",
                (Op::Read, _) => "EIO read",
                (Op::Write, Failure::NoSpace) => "ENOSPC write",
                (Op::Write, _) => "EIO write",
                (Op::SetLen, Failure::NoSpace) => "ENOSPC length",
                (Op::SetLen, _) => "EIO length",
                (Op::Sync, Failure::NoSpace) => "ENOSPC sync",
                (Op::Sync, Failure::Io) => "EIO sync",
            },
            None => return,
        };
        self.oracle.fire(what);
    }

    /// The process is gone, with all that it knew and all that was on its way.
    fn bury(&mut self, now: Now) {
        self.crashed = true;
        self.disk.cut();
        self.engine = None;
        self.events.retain(|_, event| !matches!(event, Event::Report { .. }));
        self.oracle.crashed(now);
        self.leases.clear();
        self.starts.clear();
        self.gates.clear();
        self.mono += 1 + self.rng.below(5_000);
    }

    /// What is between two processes: the machine, or the cache, may go too.
    fn rest(&mut self) {
        let full = self.disk.struck() == Some(Struck::Full);
        let restart = self.perils.current.take().map_or(Restart::SameCache, |it| it.restart);
        match restart {
            Restart::Loses => {
                let lost = self.disk.lose(&mut self.chance);
                let seen = [("torn", lost.torn), ("length lost", lost.length), ("shredded", lost.shredded)];
                seen.iter().filter(|(_, happened)| *happened).for_each(|(what, _)| self.oracle.fire(what));
                self.oracle.fire("power loss");
            }
            Restart::SameCache => {
                self.oracle.fire("same cache");
                if self.disk.struck() == Some(Struck::Failed(Op::Sync, Failure::Forgets)) {
                    self.oracle.fire("forgotten on the same cache");
                }
            }
        }
        if full {
            let room = self.chance.percent(50).then_some(BALLAST);
            self.disk.limit(room);
        }
        self.disk.restart();
        self.arm_next();
    }

    /// Starts the process until it stays: the step of the newest commit that it found, and how
    /// many opens failed before.
    fn rise(&mut self) -> (u64, u64) {
        for failed in 0..MOST_OPENS {
            self.rest();
            match self.try_open() {
                Ok(step) => return (step, failed),
                Err(error) => {
                    assert!(self.disk.struck().is_some(), "S1: it does not open: {error}");
                    self.fire_struck();
                    self.oracle.fire("died in recovery");
                    self.disk.cut();
                }
            }
        }
        panic!("L4: it does not open");
    }

    /// A new process has opened the file: what was true is true, and what may have been swallowed
    /// is as the file says.
    fn look_around(&mut self) {
        let now = self.now();
        self.oracle.reopened(now);
        self.engine().reader().snapshot().map(|file| self.oracle.whole(&file, now)).expect("it can be read");
        for place in 0..self.moods.len() {
            let file = self.engine().reader().snapshot().expect("it can be read");
            if let Some(found) = file.destination(&destination_name(place)).expect("it can be read") {
                self.settings[place] = found.settings;
            } else {
                // Lost with the step that was to create it: numbers go by the order of creation,
                // so that it comes before all else.
                let (name, settings) = (destination_name(place), Box::new(self.settings[place].clone()));
                let expect = Expect::Anything;
                let put = Command::PutDestination { name, settings, keep_secrets: true, expect };
                self.events.insert((0, place as u64), Event::Command(put));
            }
        }
        for place in 0..self.moods.len() {
            match self.state(place) {
                None | Some(DestinationState::Active) => self.oracle.paused.remove(&place),
                Some(_) => self.oracle.paused.insert(place),
            };
        }
    }

    /// A crash may have swallowed a command: the file says how it is.
    fn state(&self, place: usize) -> Option<DestinationState> {
        let file = self.engine().reader().snapshot().expect("it can be read");
        let found = file.destination(&destination_name(place)).expect("it can be read");
        found.map(|it| it.note.state)
    }

    /// T05, S13: what the failed step was given is there as a whole or not at all, and nothing
    /// that was committed before is gone.
    fn compare(&mut self, it: &Unanswered, step: u64) {
        let Some(before) = &it.before else { return };
        let (rows, there) = self.on_disk();
        if step == before.number {
            self.oracle.same(&before.rows, &rows);
            self.oracle.fire("an unanswered step is gone");
            return;
        }
        let new: BTreeSet<&String> = there.difference(&before.labels).collect();
        let items: Vec<_> = it.posts.iter().flatten().collect();
        for label in &new {
            let known = items.iter().any(|item| item.labels[0].1 == **label);
            assert!(known, "S1: delivery {label} comes from nowhere");
        }
        if new.is_empty() {
            return;
        }
        self.oracle.fire("an unanswered step is there");
        for item in items.iter().filter(|item| item.key.is_none() && !self.may_refuse(item)) {
            let label = &item.labels[0].1;
            assert!(there.contains(label), "T05: of one step {new:?} is there, and {label} is not");
        }
    }

    /// True when a destination takes nothing, so that the step may have refused it.
    fn may_refuse(&self, item: &duehook::model::NewDelivery) -> bool {
        let place = (0..self.moods.len()).find(|place| destination_name(*place) == item.destination);
        let disabled = place.and_then(|place| self.state(place)) == Some(DestinationState::Disabled);
        disabled || self.disk.free() != u64::MAX || self.oracle.fired.contains_key("disk low")
    }

    /// Producers that were not answered ask again, most of them.
    fn ask_again(&mut self, posts: Vec<AcceptBatch>) {
        for batch in posts {
            if self.chance.percent(70) {
                let when = self.mono + self.chance.below(3_000);
                self.at(when, Event::Post(batch));
            }
        }
    }

    /// The process dies in this step: before it, in its commit, or after it with nothing told.
    pub(super) fn crash_in(&mut self, given: Given) {
        let when = self.rng.below(3);
        let quiet = when == 0;
        let before = quiet.then(|| self.before().rows);
        let commands: Vec<Command> = given.batch.commands.iter().map(|order| order.what.clone()).collect();
        if when > 0 {
            let after = self.rng.below(60);
            self.disk.arm((when == 1).then_some(Fault::Stop { after }));
            self.attempt(self.now(), given.batch);
        }
        let in_commit = self.disk.struck().is_some();
        self.oracle.fire(match (when, in_commit) {
            (0, _) => "crash_before",
            (1, true) => "crash_in_commit",
            (_, _) => "crash_after",
        });
        if !in_commit {
            self.count_visits();
        }
        self.loses_power();
        self.die(Unanswered { commands, reports: given.reports.len(), ..Unanswered::default() });
        if let Some(before) = before {
            self.oracle.same(&before, &self.on_disk().0);
            self.oracle.fire("same after a restart");
        }
    }

    /// Half of the deaths take the machine with them.
    fn loses_power(&mut self) {
        let restart = if self.chance.percent(50) { Restart::Loses } else { Restart::SameCache };
        let peril = Peril::Disk(Fault::Stop { after: 0 });
        self.perils.current = Some(Incident { commits: 0, peril, restart });
    }
}

fn is_error(struck: Option<Struck>) -> bool {
    matches!(struck, Some(Struck::Failed(..) | Struck::Full))
}
