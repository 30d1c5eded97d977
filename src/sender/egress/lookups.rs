//! Look-ups of names by the system's resolver, on threads of their own.
//!
//! A look-up cannot be ended: whoever waits for it may leave, the thread stays until the resolver has
//! given up (glibc: 5 s, twice, for each name server). On the runtime's blocking threads they would
//! keep the data file from being read; here they keep nothing but each other. Three bounds hold them:
//!
//! - one name has one look-up under way; all who ask meanwhile get what it finds. A receiver whose
//!   name servers are dead has one thread, however much is due to it.
//! - at most [`MAX_THREADS`] threads for the process, through all reloads of the settings.
//! - names that had no answer the last time, or were never asked for, have at most [`MAX_STRANGE`] of
//!   them. A customer with hundreds of destinations under dead zones slows new names, and those that
//!   were dead before; a name that has answered keeps a thread.
//!
//! Whoever finds no thread in its connect timeout has not connected in time, as if the resolver had
//! been asked and were silent: the attempt was not sent, and the next one follows the destination's
//! schedule. First come, first served; those that nobody waits for any more are passed over.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// Threads that look names up: 20 ms each, as usual, are more than 10,000 a second.
pub const MAX_THREADS: usize = 256;
/// Of these, for names that are not known to have an answer.
pub const MAX_STRANGE: usize = MAX_THREADS / 2;
/// Names that are known to have an answer; about 100 bytes each.
const MAX_KNOWN: usize = 16_384;

/// Who is asked, on a thread that may be kept for long.
pub trait Ask: fmt::Debug + Send + Sync {
    /// The addresses of `name`.
    ///
    /// # Errors
    /// There are none, or nobody could say.
    fn ask(&self, name: &str) -> io::Result<Vec<SocketAddr>>;
}

/// What was found, in a form that many can have.
type Found = Result<Vec<SocketAddr>, io::ErrorKind>;

/// The look-ups under way and those that wait for a thread.
#[derive(Debug)]
pub struct Lookups {
    whom: Box<dyn Ask>,
    desk: Mutex<Desk>,
}

#[derive(Debug, Default)]
struct Desk {
    threads: usize,
    /// Threads that look up strange names.
    strange: usize,
    /// Who waits for the answer of each name that is asked for.
    asked: BTreeMap<String, watch::Sender<Option<Found>>>,
    /// Names of `asked` that no thread has taken up, of [`Desk::known`] and others.
    known_waiting: VecDeque<String>,
    strange_waiting: VecDeque<String>,
    /// Names that had an answer the last time.
    known: BTreeSet<String>,
}

/// A name that a thread has taken up.
struct Turn {
    name: String,
    is_strange: bool,
}

impl Lookups {
    /// No look-up yet.
    #[must_use]
    pub fn by(whom: Box<dyn Ask>) -> Lookups {
        Lookups { whom, desk: Mutex::default() }
    }

    /// The addresses of `name`: of the look-up that is under way, or of a new one.
    ///
    /// # Errors
    /// There are none, or no thread could be had.
    pub async fn find(self: Arc<Self>, name: String) -> io::Result<Vec<SocketAddr>> {
        let mut answer = self.order(name);
        let found = answer.wait_for(Option::is_some).await.map_err(|_| io::ErrorKind::BrokenPipe)?.clone();
        found.unwrap_or(Err(io::ErrorKind::BrokenPipe)).map_err(io::Error::from)
    }

    fn order(self: &Arc<Self>, name: String) -> watch::Receiver<Option<Found>> {
        let mut desk = self.lock();
        let (answer, has_room) = desk.order(name);
        desk.threads += usize::from(has_room);
        drop(desk);
        if has_room {
            self.start();
        }
        answer
    }

    fn start(self: &Arc<Self>) {
        let lookups = Arc::clone(self);
        let thread = std::thread::Builder::new().name("names".to_owned());
        if thread.spawn(move || lookups.work()).is_err() {
            self.lock().lost_thread();
        }
    }

    /// One name after the other, as long as there are any.
    fn work(&self) {
        let mut done = None;
        loop {
            let next = self.lock().next(done.take());
            let Some(turn) = next else { return };
            let found = self.whom.ask(&turn.name).map_err(|error| error.kind());
            done = Some((turn, found));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Desk {
    /// Joins who waits for `name`; true when it wants a thread and there is room for one.
    fn order(&mut self, name: String) -> (watch::Receiver<Option<Found>>, bool) {
        if let Some(answer) = self.asked.get(&name) {
            return (answer.subscribe(), false);
        }
        let (sender, answer) = watch::channel(None);
        let has_room = if self.known.contains(&name) {
            self.known_waiting.push_back(name.clone());
            self.threads < MAX_THREADS
        } else {
            self.strange_waiting.push_back(name.clone());
            self.threads < MAX_THREADS && self.strange < MAX_STRANGE
        };
        self.asked.insert(name, sender);
        (answer, has_room)
    }

    /// Hands out what a thread has found, and gives it the next name. Without one the thread ends.
    fn next(&mut self, done: Option<(Turn, Found)>) -> Option<Turn> {
        if let Some((turn, found)) = done {
            self.end(turn, found);
        }
        let turn = self.take();
        match &turn {
            Some(turn) => self.strange += usize::from(turn.is_strange),
            None => self.threads -= 1,
        }
        turn
    }

    fn end(&mut self, turn: Turn, found: Found) {
        self.strange -= usize::from(turn.is_strange);
        let answer = self.asked.remove(&turn.name);
        if found.is_err() {
            self.known.remove(&turn.name);
        } else {
            self.learn(turn.name);
        }
        if let Some(answer) = answer {
            answer.send_replace(Some(found));
        }
    }

    fn learn(&mut self, name: String) {
        if self.known.len() >= MAX_KNOWN && !self.known.contains(&name) {
            // The next in order is as good as any: no name is forgotten more often than another.
            let after = (Bound::Excluded(name.as_str()), Bound::Unbounded);
            let goes = self.known.range::<str, _>(after).next().or_else(|| self.known.first());
            goes.cloned().map(|goes| self.known.remove(&goes));
        }
        self.known.insert(name);
    }

    fn take(&mut self) -> Option<Turn> {
        if let Some(name) = first_wanted(&mut self.known_waiting, &mut self.asked) {
            return Some(Turn { name, is_strange: false });
        }
        if self.strange >= MAX_STRANGE {
            return None;
        }
        let name = first_wanted(&mut self.strange_waiting, &mut self.asked)?;
        Some(Turn { name, is_strange: true })
    }

    /// The system has no thread for us. Those at work will come for what waits; without any, what
    /// waits has no answer.
    fn lost_thread(&mut self) {
        self.threads -= 1;
        if self.threads == 0 {
            self.known_waiting.clear();
            self.strange_waiting.clear();
            self.asked.clear();
        }
    }
}

/// The first name that somebody waits for. Others are forgotten on the way.
fn first_wanted(
    waiting: &mut VecDeque<String>,
    asked: &mut BTreeMap<String, watch::Sender<Option<Found>>>,
) -> Option<String> {
    while let Some(name) = waiting.pop_front() {
        if asked.get(&name).is_some_and(|answer| answer.receiver_count() > 0) {
            return Some(name);
        }
        asked.remove(&name);
    }
    None
}

#[cfg(test)]
#[path = "lookups/tests.rs"]
mod tests;
