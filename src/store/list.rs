//! Lists of deliveries: what matches, in which order, and where to go on.
//!
//! A page looks at a bounded number of records and may be short, even empty, while there is
//! more: `next` says so. Cursors name a place in key order, so they stay good when records come
//! and go.

use std::fmt;
use std::str::FromStr;

use super::{DeliveryView, Snapshot, StoreError};
use crate::delivery::State;
use crate::model::{DeliveryId, Name};
use crate::outcome::{AttemptResult, Ending};
use crate::time::Timestamp;

/// Records one page looks at: about a second of cold reads.
pub(super) const PAGE_RECORDS: usize = 20_000;
/// How often a page asks whether its time is over.
pub(super) const ASK_EVERY: usize = 256;

/// What a list asks for; empty and None match everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub states: Vec<Shown>,
    pub outcomes: Vec<Ending>,
    pub tenants: Vec<Name>,
    pub destinations: Vec<Name>,
    pub classes: Vec<Name>,
    pub label: Option<(String, String)>,
    pub last_status: Vec<u16>,
    pub last_result: Vec<AttemptResult>,
    pub created: Between,
    pub due: Between,
    pub finished: Between,
}

/// After one time and before another, both exclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Between {
    pub after: Option<Timestamp>,
    pub before: Option<Timestamp>,
}

/// The four states of the API: by the clock, and by whether there is a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    Ready,
    Leased,
    Delayed,
    Terminal,
}

/// In which order a list is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    NewestCreated,
    OldestCreated,
    OldestFinished,
    NewestFinished,
}

/// The last record that a page looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The step it ended in; 0 where the order is by creation.
    pub step: u64,
    pub id: DeliveryId,
}

/// A page and where the next one begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T, C> {
    pub items: Vec<T>,
    pub next: Option<C>,
}

impl Filter {
    /// True when an end can make something match that did not match before.
    #[must_use]
    pub(super) fn asks_for_an_end(&self) -> bool {
        !self.states.is_empty()
            || !self.outcomes.is_empty()
            || !self.last_status.is_empty()
            || !self.last_result.is_empty()
            || self.finished != Between::default()
    }
}

impl Shown {
    /// All of them; their places are their codes on disk.
    pub const ALL: [Shown; 4] = [Shown::Ready, Shown::Leased, Shown::Delayed, Shown::Terminal];

    /// The state of a delivery at `now`.
    #[must_use]
    pub fn of(view: &DeliveryView, now: Timestamp) -> Shown {
        match view.delivery.state {
            State::Terminal { .. } => Shown::Terminal,
            State::Waiting { .. } if view.lease.is_some() => Shown::Leased,
            State::Waiting { due, .. } if due > now => Shown::Delayed,
            State::Waiting { .. } => Shown::Ready,
        }
    }

    /// The word for it in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Shown::Ready => "ready",
            Shown::Leased => "leased",
            Shown::Delayed => "delayed",
            Shown::Terminal => "terminal",
        }
    }
}

impl Cursor {
    /// True when a list of this order can go on from here.
    #[must_use]
    pub fn is_of(self, order: Order) -> bool {
        match order {
            Order::NewestCreated | Order::OldestCreated => self.step == 0,
            Order::OldestFinished | Order::NewestFinished => self.step != 0,
        }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{:x}", self.step, self.id.0)
    }
}

/// The text is not a cursor of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a cursor that a list gave")]
pub struct NotACursor;

impl FromStr for Cursor {
    type Err = NotACursor;

    fn from_str(text: &str) -> Result<Cursor, NotACursor> {
        let (step, id) = text.split_once('-').ok_or(NotACursor)?;
        let step = u64::from_str_radix(step, 16).map_err(|_| NotACursor)?;
        let id = u128::from_str_radix(id, 16).map_err(|_| NotACursor)?;
        Ok(Cursor { step, id: DeliveryId(id) })
    }
}

impl Between {
    pub(super) fn holds(&self, time: Option<Timestamp>) -> bool {
        if self.after.is_none() && self.before.is_none() {
            return true;
        }
        let Some(time) = time else { return false };
        self.after.is_none_or(|after| time > after) && self.before.is_none_or(|before| time < before)
    }
}

impl Filter {
    /// True when `view` is asked for.
    #[must_use]
    pub fn matches(&self, view: &DeliveryView, now: Timestamp) -> bool {
        let it = &view.delivery;
        let last = it.log.last();
        let (due, finished, outcome) = match it.state {
            State::Waiting { due, .. } => (view.lease.is_none().then_some(due), None, None),
            State::Terminal { outcome, at, .. } => (None, Some(at), Some(outcome)),
        };
        any(&self.states, Some(&Shown::of(view, now)))
            && any(&self.outcomes, outcome.as_ref())
            && any(&self.tenants, Some(&view.tenant))
            && any(&self.destinations, Some(&view.destination))
            && any(&self.classes, Some(&view.class))
            && self.label.as_ref().is_none_or(|label| it.labels.contains(label))
            && any(&self.last_status, last.and_then(|attempt| attempt.status.as_ref()))
            && any(&self.last_result, last.map(|attempt| &attempt.result))
            && self.created.holds(Some(it.created_at))
            && self.due.holds(due)
            && self.finished.holds(finished)
    }
}

/// True when nothing is asked for, or `value` is among it.
pub(super) fn any<T: PartialEq>(asked: &[T], value: Option<&T>) -> bool {
    asked.is_empty() || value.is_some_and(|value| asked.contains(value))
}

impl Snapshot {
    /// One page of what matches. `stop` is asked now and then; true ends the page early.
    ///
    /// # Errors
    /// [`StoreError`] when the file cannot be read.
    pub fn list(
        &self,
        filter: &Filter,
        order: Order,
        from: Option<Cursor>,
        limit: usize,
        now: Timestamp,
        stop: &dyn Fn() -> bool,
    ) -> Result<Page<DeliveryView, Cursor>, StoreError> {
        let mut page = Page { items: Vec::new(), next: None };
        let mut keys = self.keys(order, from)?;
        for looked_at in 1.. {
            let Some(place) = keys.next().transpose()? else { break };
            if let Some(view) = self.delivery(place.id)?
                && filter.matches(&view, now)
            {
                page.items.push(view);
            }
            let over = looked_at % ASK_EVERY == 0 && stop();
            if page.items.len() == limit || looked_at == PAGE_RECORDS || over {
                page.next = keys.next().transpose()?.map(|_| place);
                break;
            }
        }
        Ok(page)
    }

    /// The keys of a list in its order, after `from`.
    fn keys(&self, order: Order, from: Option<Cursor>) -> Result<Keys, StoreError> {
        use std::ops::Bound::{Excluded, Unbounded};
        let by_id = |key: DeliveryKey| Ok(Cursor { step: 0, id: DeliveryId(key?.0.value()) });
        let by_end = |key: FinishedKey| {
            let (step, id) = key?.0.value();
            Ok(Cursor { step, id: DeliveryId(id) })
        };
        let id = from.map(|at| at.id.0);
        let end = from.map(|at| (at.step, at.id.0));
        let (deliveries, finished) = (&self.tables.deliveries, &self.tables.finished);
        Ok(match order {
            Order::OldestCreated => {
                let rows = deliveries.range::<u128>((id.map_or(Unbounded, Excluded), Unbounded))?;
                Box::new(rows.map(by_id))
            }
            Order::NewestCreated => {
                let rows = deliveries.range::<u128>((Unbounded, id.map_or(Unbounded, Excluded)))?;
                Box::new(rows.rev().map(by_id))
            }
            Order::OldestFinished => {
                let rows = finished.range::<(u64, u128)>((end.map_or(Unbounded, Excluded), Unbounded))?;
                Box::new(rows.map(by_end))
            }
            Order::NewestFinished => {
                let rows = finished.range::<(u64, u128)>((Unbounded, end.map_or(Unbounded, Excluded)))?;
                Box::new(rows.rev().map(by_end))
            }
        })
    }
}

type Keys = Box<dyn Iterator<Item = Result<Cursor, StoreError>>>;
type DeliveryKey =
    Result<(redb::AccessGuard<'static, u128>, redb::AccessGuard<'static, &'static [u8]>), redb::StorageError>;
type FinishedKey =
    Result<(redb::AccessGuard<'static, (u64, u128)>, redb::AccessGuard<'static, u64>), redb::StorageError>;
