//! The hold: for a while no step is made, so that the operator's own copy of the file is whole.
//!
//! The engine's thread stands still between two steps; with a step nothing is half written. What
//! producers and operators bring waits at the door, not in the queue. The hold ends by itself.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::{oneshot, watch};

use super::clock::Clock;
use crate::time::{Millis, Mono};

/// A hold and what was added to it are over by then (API.md: at most 30 s).
const LONGEST: Millis = Millis(30_000);

/// Shared by the engine's thread and whoever holds it.
pub(super) struct Hold {
    state: Mutex<State>,
    bell: Condvar,
    /// True while producers and operators are to wait.
    shut: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    until: Option<Mono>,
    /// Since when nothing has been written.
    since: Option<Mono>,
    /// Who waits for the engine to stand still.
    reached: Vec<oneshot::Sender<()>>,
}

impl Default for Hold {
    fn default() -> Hold {
        Hold { state: Mutex::default(), bell: Condvar::new(), shut: watch::Sender::new(false) }
    }
}

impl Hold {
    /// Begins a hold, or gives the one there is a later end, but never one that is longer in all
    /// than [`LONGEST`]: commits must come, for outcomes and for the watchdog. It is heard once
    /// nothing is written.
    pub(super) fn begin(&self, until: Mono, now: Mono) -> (Mono, oneshot::Receiver<()>) {
        let (reached, heard) = oneshot::channel();
        let mut state = self.lock();
        let since = *state.since.get_or_insert(now);
        let until = state.until.map_or(until, |stands| stands.max(until)).min(since.plus(LONGEST));
        state.until = Some(until);
        state.reached.push(reached);
        self.shut.send_replace(true);
        self.bell.notify_all();
        (until, heard)
    }

    /// Ends it; true when there was one.
    pub(super) fn end(&self) -> bool {
        let was = self.lock().end(&self.shut);
        self.bell.notify_all();
        was
    }

    /// True while a hold is wanted or stands.
    pub(super) fn is_on(&self) -> bool {
        *self.shut.borrow()
    }

    /// True while a hold that is not over keeps commits back. One that outlives its time is no excuse.
    pub(super) fn stands(&self, now: Mono) -> bool {
        self.lock().until.is_some_and(|until| now <= until)
    }

    /// Producers and operators wait here for the end of a hold.
    pub(super) async fn open(&self) {
        drop(self.shut.subscribe().wait_for(|shut| !shut).await);
    }

    /// Waits for a hold: at once where there is one.
    pub(super) async fn shut(&self) {
        drop(self.shut.subscribe().wait_for(|shut| *shut).await);
    }

    /// The engine stands still here, between two steps, as long as there is a hold.
    pub(super) fn stand(&self, clock: &Clock) {
        let mut state = self.lock();
        while let Some(until) = state.until {
            let left = clock.until(until);
            if left.is_zero() {
                state.end(&self.shut);
                tracing::info!("the hold has ended by itself");
                return;
            }
            for waits in state.reached.drain(..) {
                // Whoever asked may have left: the hold then ends by its time.
                let _left = waits.send(());
            }
            state = self.bell.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn end(&mut self, shut: &watch::Sender<bool>) -> bool {
        self.reached.clear();
        shut.send_replace(false);
        self.since = None;
        self.until.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_grows_and_is_never_longer_than_the_longest() {
        let hold = Hold::default();
        let check = |until, now, want| assert_eq!(hold.begin(Mono(until), Mono(now)).0, Mono(want));
        check(10_000, 0, 10_000);
        check(5_000, 1_000, 10_000);
        check(25_000, 9_000, 25_000);
        check(54_000, 24_000, 30_000);
        assert!(hold.stands(Mono(30_000)) && !hold.stands(Mono(30_001)));
        assert!(hold.end() && !hold.is_on() && !hold.stands(Mono(30_000)));
        check(84_000, 60_000, 84_000);
    }
}
