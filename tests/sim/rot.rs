//! Bits that change where they lie, while nobody has the file open: what is sent then, and how
//! the process that finds them ends.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use duehook::engine::command::{Batch, Dispatch, Report};
use duehook::engine::{Engine, Limits, Seed};
use duehook::model::{DeliveryId, digest};
use duehook::outcome::{Outcome, RetryHeaders};
use duehook::store::check::check;
use duehook::store::{Loaded, Opened, Opening, open};
use duehook::time::Now;
use redb::Builder;

use crate::sim::disk::Disk;
use crate::sim::oracle::Told;
use crate::sim::rng::Rng;

/// Steps after the open: enough for all that was left to go out.
const STEPS: u64 = 60;

/// A file as a process left it, and what producers were told of what is in it.
pub(crate) struct Left {
    pub(crate) bytes: Vec<u8>,
    pub(crate) told: BTreeMap<DeliveryId, Told>,
    pub(crate) now: Now,
    pub(crate) limits: Limits,
}

/// How a process ends that was given such a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    /// It did not open.
    Refused,
    /// Something panicked, and the check of the next open refuses the file.
    PanickedThenRefused,
    /// Something panicked, and the next process ran.
    PanickedThenRan,
    /// A step said that the file is damaged.
    Stopped,
    /// It found damaged records, and everything else went out.
    Quarantined,
    Ran,
}

impl Left {
    /// Serves the file with `bits` of it changed. An error is a delivery that went out as it
    /// was not accepted, or a file that makes one process after the other panic.
    pub(crate) fn served_with(&self, bits: u64, rng: &mut Rng) -> Result<End, String> {
        let disk = Disk::of(&self.bytes);
        (0..bits).for_each(|_| disk.flip(rng));
        match self.caught(&disk)? {
            Some(end) => Ok(end),
            None if !self.is_whole(&disk) => Ok(End::PanickedThenRefused),
            None => match self.caught(&disk)? {
                Some(_) => Ok(End::PanickedThenRan),
                None => Err("it panics again and again, and the check lets it".to_owned()),
            },
        }
    }

    /// None: it panicked.
    fn caught(&self, disk: &Disk) -> Result<Option<End>, String> {
        let end = catch_unwind(AssertUnwindSafe(|| self.serve(disk)));
        end.map_or(Ok(None), |served| served.map(Some))
    }

    fn open(&self, disk: &Disk) -> Option<Opened> {
        let region = "local".parse().expect("a name");
        let opening = Opening { region: &region, now: self.now.wall, uuid: [7; 16] };
        open::open_backend(disk.clone(), &opening).ok()
    }

    /// What the next open looks at, because the last process did not end well: redb's check of
    /// every page, then ours of every row.
    fn is_whole(&self, disk: &Disk) -> bool {
        let copy = Disk::of(&disk.image());
        let looked = catch_unwind(AssertUnwindSafe(|| {
            let mut builder = Builder::new();
            let pages = builder.set_check_integrity_on_open(true).create_with_backend(copy.clone());
            let Some(opened) = pages.ok().map(drop).and_then(|()| self.open(&copy)) else { return false };
            let found = opened.store.reader().snapshot().and_then(|file| check(&file));
            found.is_ok_and(|found| found.problems.is_empty())
        }));
        looked.unwrap_or(false)
    }

    fn serve(&self, disk: &Disk) -> Result<End, String> {
        let Some(opened) = self.open(disk) else { return Ok(End::Refused) };
        let Ok(mut engine) = Engine::open(opened, self.limits.clone(), Seed { run: 99 }, self.now) else {
            return Ok(End::Stopped);
        };
        let (mut now, mut reports, mut damaged) = (self.now, Vec::new(), false);
        for _ in 0..STEPS {
            let batch = Batch { reports: std::mem::take(&mut reports), ..Batch::default() };
            let Ok(step) = engine.step(now, batch) else { return Ok(End::Stopped) };
            for dispatch in &step.dispatches {
                let snapshot = engine.reader().snapshot();
                let Ok(found) = snapshot.and_then(|file| file.load(&dispatch.lease)) else {
                    return Ok(End::Stopped);
                };
                damaged |= found == Loaded::Damaged;
                reports.push(self.receive(dispatch, found, now)?);
            }
            let wait = engine.next_wakeup().since(now.mono);
            now = Now { wall: now.wall.plus(wait), mono: now.mono.plus(wait) };
        }
        Ok(if damaged { End::Quarantined } else { End::Ran })
    }

    /// What goes out is what was accepted, or it does not go out.
    fn receive(&self, dispatch: &Dispatch, found: Loaded, now: Now) -> Result<Report, String> {
        let lease = dispatch.lease;
        let outcome = match found {
            Loaded::Damaged => Outcome::Damaged,
            Loaded::Erased => return Err(format!("{} was never erased", lease.id)),
            Loaded::Ready { delivery, body } => {
                let told = self.told.get(&lease.id).ok_or(format!("{} was never accepted", lease.id))?;
                let same = digest(&body.0) == told.sha256 && delivery.sent_key() == told.key;
                same.then_some(()).ok_or(format!("{} went out as it was not accepted", lease.id))?;
                Outcome::Answered { status: 204, headers: RetryHeaders::default() }
            }
        };
        Ok(Report {
            id: lease.id,
            nonce: lease.nonce,
            attempt: lease.attempt,
            started_at: now.wall,
            ended_at: Some(now.wall),
            outcome,
            error: None,
            host: None,
            address: None,
            response_excerpt: None,
            digest: None,
        })
    }
}
