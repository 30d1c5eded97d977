//! What was planned to go wrong in a world, and when its turn is.

use std::collections::VecDeque;

use super::{Event, World};
use crate::sim::disk::Fault;

/// Commits after the last incident before a history is brought to its end.
const AFTERMATH: u64 = 8;

/// Something that goes wrong, after so many commits from the incident before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Incident {
    pub(crate) commits: u64,
    pub(crate) peril: Peril,
    pub(crate) restart: Restart,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peril {
    Disk(Fault),
    /// The process dies after a commit, before anybody is told.
    Untold,
    /// It dies when all were told and nothing was sent.
    Unsent,
    /// The disk takes so many bytes more, of which the engine is to keep so many free.
    Full {
        room: u64,
        floor: u64,
    },
    /// Syncs begin to lie, and the power goes after so many operations.
    Lies {
        after: u64,
    },
}

/// What the next process finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Restart {
    /// What the last one wrote, synced or not.
    SameCache,
    /// What was synced, and any of the rest: the power went, or the cache was dropped.
    Loses,
}

/// What was planned, and how far it is.
#[derive(Debug, Default)]
pub(super) struct Perils {
    plan: VecDeque<Incident>,
    /// The one that may strike now.
    pub(super) current: Option<Incident>,
    /// Commits since it was its turn.
    pub(super) commits: u64,
    /// The step of the newest commit that was heard of.
    pub(super) number: u64,
    /// Anything was ever planned: steps are compared before and after.
    pub(super) watched: bool,
}

impl Perils {
    pub(super) fn plan(&mut self, incidents: Vec<Incident>) {
        self.watched = !incidents.is_empty();
        self.plan = incidents.into();
    }

    /// True while something that follows an incident is still to come.
    pub(super) fn more(&self) -> bool {
        self.plan.front().is_some_and(|next| next.commits > 0)
    }

    /// True when all that was planned has happened, and life went on for a while.
    pub(super) fn over(&self) -> bool {
        self.watched && self.plan.is_empty() && self.current.is_none() && self.commits > AFTERMATH
    }

    /// Nothing happens from now on.
    pub(super) fn ended(&self) -> Perils {
        Perils { number: self.number, ..Perils::default() }
    }
}

impl World {
    /// Lets the next thing happen that was planned, if it is its time.
    pub(super) fn arm_next(&mut self) {
        let due = self.perils.plan.front().is_some_and(|next| next.commits <= self.perils.commits);
        if self.perils.current.is_some() || !due {
            return;
        }
        self.perils.commits = 0;
        self.perils.current = self.perils.plan.pop_front();
        match self.perils.current.map(|it| it.peril) {
            Some(Peril::Disk(fault)) => self.disk.arm(Some(fault)),
            Some(Peril::Full { room, floor }) => {
                self.disk.limit(Some(room));
                self.engine.iter_mut().for_each(|engine| engine.keep_free(floor));
            }
            Some(Peril::Lies { after }) => {
                self.disk.lie();
                self.disk.arm(Some(Fault::Stop { after }));
            }
            Some(Peril::Untold | Peril::Unsent) | None => {}
        }
    }

    pub(super) fn peril(&self) -> Option<Peril> {
        self.perils.current.map(|it| it.peril)
    }

    /// Nothing more goes wrong; of what was planned only work is left.
    pub(super) fn spare(&mut self) {
        if self.perils.watched {
            self.events.retain(|_, event| matches!(event, Event::Report { .. } | Event::Post(_)));
        }
        self.perils = self.perils.ended();
        self.disk.arm(None);
        self.disk.limit(None);
    }
}
