//! The seats of a listener: who has one, and who gives it up to somebody new when all are taken.
//!
//! Otherwise as many connections as there are seats, each sending a byte a second, would keep
//! every producer and the operator out. Nobody whose request is being worked on is ever closed.
//! Order is all that is looked at: there is no clock here, and no socket.

use std::collections::BTreeMap;

/// Of all seats, strangers have one in so many before they are the first to go: who comes now
/// needs a moment until its request is whole, and is not to lose its seat to the next.
const STRANGERS_SHARE: usize = 2;

/// What a connection is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No request of it has been whole yet, nor even its TLS.
    Stranger,
    /// Its last request was answered, and the next one's head is not whole.
    Idle,
    /// It has not taken all of an answer.
    Answering,
    /// The body of a later request is coming.
    Sending,
    /// A request of it is whole and not answered.
    Working,
}

/// Names a connection of a listener; none is used twice.
pub(super) type No = u64;

/// Every connection of a listener, with `T` to close it by.
#[derive(Debug)]
pub(super) struct Seats<T> {
    taken: BTreeMap<No, Seat<T>>,
    /// Who may have to go, by phase, the longest in it first. Not there: those at work.
    waiting: [BTreeMap<u64, No>; 4],
    /// Rises with everything that happens.
    moment: u64,
}

#[derive(Debug)]
struct Seat<T> {
    phase: Phase,
    since: u64,
    closes: T,
}

impl<T> Default for Seats<T> {
    fn default() -> Seats<T> {
        Seats { taken: BTreeMap::new(), waiting: Default::default(), moment: 0 }
    }
}

impl<T> Seats<T> {
    /// How many are taken.
    pub(super) fn len(&self) -> usize {
        self.taken.len()
    }

    /// A new connection sits down.
    pub(super) fn enter(&mut self, closes: T) -> No {
        self.moment += 1;
        let no = self.moment;
        self.waiting[0].insert(no, no);
        self.taken.insert(no, Seat { phase: Phase::Stranger, since: no, closes });
        no
    }

    /// It is closed by this from now on, if it is still there.
    pub(super) fn close_by(&mut self, no: No, closes: T) {
        if let Some(seat) = self.taken.get_mut(&no) {
            seat.closes = closes;
        }
    }

    /// It is at something else now; false: it has lost its seat and is about to be closed.
    pub(super) fn turn(&mut self, no: No, to: Phase) -> bool {
        let Some(seat) = self.taken.get_mut(&no) else { return false };
        self.moment += 1;
        let before = (seat.phase, seat.since);
        (seat.phase, seat.since) = (to, self.moment);
        if let Some(queue) = queue(&mut self.waiting, before.0) {
            queue.remove(&before.1);
        }
        if let Some(queue) = queue(&mut self.waiting, to) {
            queue.insert(self.moment, no);
        }
        true
    }

    /// What it was at last.
    pub(super) fn phase(&self, no: No) -> Option<Phase> {
        self.taken.get(&no).map(|seat| seat.phase)
    }

    /// Its seat is free.
    pub(super) fn leave(&mut self, no: No) -> Option<T> {
        let seat = self.taken.remove(&no)?;
        if let Some(queue) = queue(&mut self.waiting, seat.phase) {
            queue.remove(&seat.since);
        }
        Some(seat.closes)
    }

    /// Frees the seat of whoever is to go first; None: all are at work.
    pub(super) fn make_room(&mut self) -> Option<T> {
        self.first_to_go().and_then(|no| self.leave(no))
    }

    /// The longest idle, or the oldest stranger where there are too many of those; then who does
    /// not take its answer, and who does not bring its request.
    fn first_to_go(&self) -> Option<No> {
        let [strangers, idle, answering, sending] = &self.waiting;
        let crowd = strangers.len() * STRANGERS_SHARE > self.len();
        let (first, second) = if crowd { (strangers, idle) } else { (idle, strangers) };
        let mut queues = [first, second, answering, sending].into_iter();
        queues.find_map(|queue| queue.values().next().copied())
    }
}

/// Where those in a phase wait; None: nobody in it ever has to go.
fn queue(waiting: &mut [BTreeMap<u64, No>; 4], phase: Phase) -> Option<&mut BTreeMap<u64, No>> {
    match phase {
        Phase::Stranger => Some(&mut waiting[0]),
        Phase::Idle => Some(&mut waiting[1]),
        Phase::Answering => Some(&mut waiting[2]),
        Phase::Sending => Some(&mut waiting[3]),
        Phase::Working => None,
    }
}

#[cfg(test)]
mod tests {
    use super::Phase::{Answering, Idle, Sending, Stranger, Working};
    use super::*;

    fn enter(seats: &mut Seats<No>) -> No {
        let no = seats.enter(0);
        seats.close_by(no, no);
        no
    }

    /// Connections in these phases, each as long in its own as it stands here early; who goes
    /// first, second and so on, by place.
    fn check(phases: &[Phase], want: &[u64]) {
        let mut seats = Seats::default();
        let all: Vec<No> = phases.iter().map(|_| enter(&mut seats)).collect();
        for (no, phase) in all.iter().zip(phases).filter(|(_, phase)| **phase != Stranger) {
            assert!(seats.turn(*no, *phase));
        }
        let gone: Vec<u64> = std::iter::from_fn(|| seats.make_room()).collect();
        assert_eq!(gone, want, "{phases:?}");
        assert_eq!(seats.len(), phases.iter().filter(|phase| **phase == Working).count());
        assert!(gone.iter().all(|no| seats.phase(*no).is_none() && !seats.turn(*no, Working)));
        for no in all {
            seats.leave(no);
        }
        assert!(seats.len() == 0 && seats.waiting.iter().all(BTreeMap::is_empty));
    }

    #[test]
    fn who_goes_first() {
        check(&[], &[]);
        check(&[Working, Working], &[]);
        check(&[Stranger, Stranger], &[1, 2]);
        check(&[Idle, Idle, Stranger], &[1, 2, 3]);
        check(&[Stranger, Stranger, Idle], &[1, 3, 2]);
        check(&[Sending, Answering, Stranger, Idle], &[4, 3, 2, 1]);
        check(&[Working, Stranger, Working, Idle], &[4, 2]);
        check(&[Answering, Answering, Working], &[1, 2]);
    }

    /// Half of the seats are enough for any number that never say anything: who has been answered
    /// keeps his, and who is new loses his only to as many that came after him.
    #[test]
    fn a_crowd_that_says_nothing_displaces_itself() {
        let mut seats = Seats::default();
        let known: Vec<No> = (0..4).map(|_| enter(&mut seats)).collect();
        known.iter().for_each(|no| assert!(seats.turn(*no, Idle)));
        let crowd: Vec<No> = (0..6).map(|_| enter(&mut seats)).collect();
        for n in 0..1_000 {
            assert_eq!(seats.make_room(), Some(crowd[0] + n));
            enter(&mut seats);
        }
        assert!(known.iter().all(|no| seats.phase(*no) == Some(Idle)));
    }

    #[test]
    fn who_was_used_last_stays_longest() {
        let mut seats = Seats::default();
        let all: Vec<No> = (0..3).map(|_| enter(&mut seats)).collect();
        all.iter().for_each(|no| assert!(seats.turn(*no, Idle)));
        assert!(seats.turn(all[0], Working) && seats.turn(all[0], Idle));
        assert_eq!(std::iter::from_fn(|| seats.make_room()).collect::<Vec<_>>(), [2, 3, 1]);
    }
}
