//! What must be true, kept in plain maps: what producers were told, what receivers saw.

use std::collections::{BTreeMap, BTreeSet};

use duehook::delivery::{Delivery, Source, State};
use duehook::engine::command::Accepted;
use duehook::model::{DeliveryId, DestNo, DestinationState, Digest, DueEntry, Lane, Name};
use duehook::outcome::{Ending, Outcome};
use duehook::schedule::{BUFFER, Schedule};
use duehook::store::check::check;
use duehook::store::{DeliveryView, Filter, Loaded, Order, Snapshot};
use duehook::time::{Millis, Mono, Now, Timestamp};

/// More deliveries than any history has.
const MOST: usize = 10_000;
/// How far the wall clock may be from the monotonic one before timers follow it.
const SLACK: Millis = Millis(1_000);

/// A delivery that a producer was told of.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) sha256: Digest,
    pub(crate) key: String,
    pub(crate) expires_at: Timestamp,
    /// What never changes: region, tenant, destination, class, and when it was accepted.
    fixed: (Name, u32, u32, u8, Timestamp),
}

/// No request before: a length of time, and where it was read from disk after a restart a wall
/// time too, because the clock may have been wrong when it was.
#[derive(Clone, Copy, Debug)]
struct Bound {
    mono: Mono,
    wall: Timestamp,
    loaded: bool,
}

/// What of a delivery a restart leaves as it was: when it is due, in which lane, after how many
/// attempts.
pub(crate) type Rows = BTreeMap<DeliveryId, (Timestamp, u32, Option<u32>)>;

/// Both histories.
#[derive(Default)]
pub(crate) struct Oracle {
    pub(crate) told: BTreeMap<DeliveryId, Told>,
    /// The last attempt number that a receiver saw, and the key.
    seen: BTreeMap<DeliveryId, (u32, String)>,
    /// Ids that a receiver answered with a 2xx.
    pub(crate) succeeded: BTreeSet<DeliveryId>,
    /// How each ended, once it has; operator's retries take it away again.
    ended: BTreeMap<DeliveryId, Ending>,
    /// Destination (by its place) → no request before.
    not_before: BTreeMap<usize, Vec<Bound>>,
    /// Until then the wall clock may end nothing: it has jumped ahead.
    unproven: Mono,
    /// Until then it may end nothing: a start after a jump may doubt it again.
    doubted: Option<Mono>,
    /// The newest id of this run.
    newest: Option<DeliveryId>,
    /// Delivery → no request before.
    due: BTreeMap<DeliveryId, Timestamp>,
    /// Cancelled, and an operator was told so.
    cancelled: BTreeSet<DeliveryId>,
    pub(crate) paused: BTreeSet<usize>,
    /// Ids in flight, by destination.
    pub(crate) in_flight: BTreeMap<usize, BTreeMap<DeliveryId, u32>>,
    /// What has happened at least once.
    pub(crate) fired: BTreeMap<&'static str, u64>,
}

/// A request as it goes out.
pub(crate) struct Sent<'a> {
    pub(crate) id: DeliveryId,
    pub(crate) attempt: u32,
    pub(crate) key: &'a str,
    pub(crate) body: &'a [u8],
    pub(crate) place: usize,
    pub(crate) at: Now,
}

/// A report as the engine is given it.
pub(crate) struct Reported {
    pub(crate) id: DeliveryId,
    pub(crate) attempt: u32,
    pub(crate) place: usize,
    pub(crate) outcome: Outcome,
    /// The seconds that the receiver named.
    pub(crate) asks: Option<u64>,
}

impl Oracle {
    pub(crate) fn fire(&mut self, what: &'static str) {
        *self.fired.entry(what).or_default() += 1;
    }

    /// S1, S11: a producer has its answer.
    pub(crate) fn tell(&mut self, accepted: &Accepted) {
        let it = &accepted.delivery.delivery;
        let Source::Inline { sha256, .. } = it.payload.source else { panic!("inline") };
        let fixed = fixed(it);
        let told = Told { sha256, key: it.sent_key(), expires_at: it.expires_at, fixed };
        if accepted.duplicate {
            self.fire("duplicate");
            if !self.told.contains_key(&it.id) {
                // It was stored in a step that nobody was answered.
                self.fire("duplicate after a crash");
                self.told.insert(it.id, told.clone());
            }
        } else {
            assert!(self.newest.is_none_or(|newest| newest < it.id), "I18: {} goes back", it.id);
            self.newest = Some(it.id);
            let before = self.told.insert(it.id, told.clone());
            assert!(before.is_none(), "S11: {} was given twice", it.id);
            if let Some(later) = it.not_before.filter(|time| *time > it.created_at) {
                self.due.insert(it.id, later);
            }
        }
        let same = self.told.values().filter(|other| other.key == told.key).count();
        assert!(same <= 1, "S11: the key {} has {same} deliveries", told.key);
    }

    /// S3-S8, I2-I5, I9: a request goes out.
    pub(crate) fn sent(&mut self, sent: &Sent<'_>, max: usize, slots: usize) {
        let Sent { id, attempt, key, body, place, at } = *sent;
        assert!(!self.ended.contains_key(&id), "S3: {id} was sent after its end");
        assert!(!self.cancelled.contains(&id), "S3: {id} was sent after it was cancelled");
        assert!(!self.paused.contains(&place), "I23: destination {place} is paused");
        let held = self.held(place, at.mono);
        assert!(held.is_none(), "I2, I15: {id} was sent at {at:?}, before the hold's end: {held:?}");
        // Once it has been sent that time has come, wherever the wall clock steps then.
        let due = self.due.remove(&id).unwrap_or_default();
        assert!(at.wall >= due, "I3, S4: {id} was sent {} ms early", due.since(at.wall).0);
        if let Some((last, known)) = self.seen.get(&id) {
            assert!(attempt > *last, "I9: attempt {attempt} of {id} after {last}");
            assert_eq!(known, key, "S8: the key of {id}");
            self.fired.entry("repeat").and_modify(|n| *n += 1).or_insert(1);
        }
        self.seen.insert(id, (attempt, key.to_owned()));
        if let Some(told) = self.told.get(&id) {
            assert_eq!(told.key, key, "S8: the key of {id}");
            let digest: Digest = duehook::model::digest(body);
            assert_eq!(told.sha256, digest, "S8: the body of {id}");
        }
        let out = self.in_flight.entry(place).or_default();
        assert!(out.insert(id, attempt).is_none(), "S5: {id} has two live leases");
        assert!(out.len() <= max, "I4: {out:?} in flight to destination {place}, at most {max}");
        let all: usize = self.in_flight.values().map(BTreeMap::len).sum();
        assert!(all <= slots, "I5: {all} in flight");
    }

    /// A report came; if its lease was still live, its wait binds from now on.
    pub(crate) fn reported(&mut self, report: &Reported, whole_destination: bool, at: Now) {
        let Reported { id, attempt, place, ref outcome, asks } = *report;
        if outcome.is_success() {
            self.succeeded.insert(id);
        }
        let out = self.in_flight.entry(place).or_default();
        if out.get(&id) != Some(&attempt) {
            return;
        }
        out.remove(&id);
        let Some(seconds) = asks else { return };
        let wait = Millis(seconds.clamp(1, 3_600) * 1_000);
        let floor = at.wall.plus(wait);
        let named = seconds > 0;
        match outcome.status() {
            Some(429) => self.fire("rate_limited"),
            Some(503) => self.fire("unavailable"),
            Some(_) | None => return,
        }
        if named || outcome.status() == Some(429) {
            self.due.insert(id, floor);
            if whole_destination {
                let bound = Bound { mono: at.mono.plus(wait), wall: floor, loaded: false };
                self.not_before.entry(place).or_default().push(bound);
            }
        }
    }

    /// The process is gone: nothing is in flight any more.
    pub(crate) fn crashed(&mut self, now: Now) {
        self.in_flight.clear();
        self.not_before.values_mut().for_each(|bounds| bounds.retain(|bound| bound.mono > now.mono));
        self.newest = None;
    }

    /// What is on disk of the holds is a wall time.
    pub(crate) fn reopened(&mut self, now: Now) {
        self.unproven = Mono(0);
        self.doubted = self.doubted.map(|_| now.mono.plus(Millis(900_000)));
        for bound in self.not_before.values_mut().flatten() {
            (bound.loaded, bound.mono) = (true, now.mono_at(bound.wall));
        }
    }

    /// The wall clock has jumped: what was loaded is worked out again, and never made longer.
    pub(crate) fn jumped(&mut self, unproven: bool, now: Now) {
        for bound in self.not_before.values_mut().flatten().filter(|bound| bound.loaded) {
            bound.mono = bound.mono.min(now.mono_at(bound.wall));
        }
        if unproven {
            self.unproven = now.mono.plus(Millis(900_000));
            self.doubted = Some(self.unproven);
        }
    }

    /// What keeps a destination from being asked now.
    pub(crate) fn held(&self, place: usize, now: Mono) -> Option<Mono> {
        let bounds = self.not_before.get(&place).into_iter().flatten();
        bounds.map(|bound| bound.mono).filter(|mono| *mono > now).max()
    }

    /// An operator's hold, in place of any other.
    pub(crate) fn operator_holds(&mut self, place: usize, until: Timestamp, now: Now) {
        let bound = Bound { mono: now.mono_at(until), wall: until, loaded: false };
        self.not_before.insert(place, vec![bound]);
    }

    /// I21: what waits is as it was before a restart; what was out is due again at its old time,
    /// unless it has ended.
    pub(crate) fn same(&self, before: &Rows, after: &Rows) {
        for (id, (due, attempts, leased)) in before {
            match after.get(id) {
                Some((now, count, None)) => {
                    let want = (*due, leased.unwrap_or(*attempts));
                    assert_eq!((*now, *count), want, "I21: {id} after a restart, from {leased:?}");
                }
                Some(other) => panic!("I21: {id} is leased after a restart: {other:?}"),
                None => assert!(leased.is_some(), "I21: {id} no longer waits after a restart"),
            }
        }
        assert!(after.keys().all(|id| before.contains_key(id)), "I21: a restart made something wait");
    }

    /// I13, I17: what is kept in RAM of each lane is its front on disk, and nothing that went out
    /// just now went past another.
    pub(crate) fn lanes(
        &self,
        file: &Snapshot,
        schedule: &Schedule,
        sent: &[(u32, Lane, Timestamp, DeliveryId)],
        now: Timestamp,
    ) {
        let mut lanes: BTreeMap<(u32, Lane), BTreeMap<(Timestamp, DeliveryId), bool>> = BTreeMap::new();
        for view in all(file, now).into_iter().filter(|view| view.lease.is_none()) {
            let it = &view.delivery;
            let State::Waiting { due, lane, .. } = it.state else { continue };
            let rows = lanes.entry((it.destination.0, lane)).or_default();
            rows.insert((due, it.id), it.interrupted > 0);
        }
        let key = |entry: &DueEntry| (entry.due, entry.id);
        for no in 0..schedule.len() as u32 {
            for lane in (0..6).map(Lane) {
                let disk = lanes.entry((no, lane)).or_default();
                let (front, more) = schedule.front(DestNo(no), lane);
                let same = front.iter().map(key).eq(disk.keys().take(front.len()).copied());
                assert!(same, "I17: lane {} of {no} keeps {front:?} of {disk:?}", lane.0);
                let all = more || front.len() == disk.len();
                assert!(all, "I17: lane {} of {no} keeps {} of {}", lane.0, front.len(), disk.len());
            }
        }
        for (no, lane, due, id) in sent {
            let disk = lanes.entry((*no, *lane)).or_default();
            let passed = disk.range(..(*due, *id)).find(|(_, interrupted)| !**interrupted);
            assert!(passed.is_none(), "I13: {id} went out before {passed:?}");
        }
    }

    /// An operator opened a destination.
    pub(crate) fn opened(&mut self, place: usize) {
        self.not_before.remove(&place);
    }

    /// S3: an operator was told that nothing more is sent of it.
    pub(crate) fn cancelled(&mut self, id: DeliveryId) {
        self.cancelled.insert(id);
    }

    /// What goes on across a death of the process.
    pub(crate) fn note_death(&mut self, now: Now) {
        if self.cancelled.iter().any(|id| !self.ended.contains_key(id)) {
            self.fire("cancel across a crash");
        }
        if self.not_before.keys().any(|place| self.held(*place, now.mono).is_some()) {
            self.fire("hold across a crash");
        }
        if self.in_flight.values().any(|out| !out.is_empty()) {
            self.fire("lease across a crash");
        }
    }

    /// An operator made one delivery due.
    pub(crate) fn retried(&mut self, id: DeliveryId) {
        self.cancelled.remove(&id);
        self.due.remove(&id);
        self.ended.remove(&id);
        self.fire("retried");
    }

    /// I1, I22, S2, S10: the file is whole, and what ended has not changed.
    pub(crate) fn whole(&mut self, file: &Snapshot, now: Now) {
        let proven = now.mono >= self.unproven;
        let checked = check(file).expect("the file can be read");
        assert!(checked.problems.is_empty(), "S10: {:?}", checked.problems);
        for (id, told) in &self.told {
            let view = file.delivery(*id).expect("readable").unwrap_or_else(|| panic!("S1: {id} is lost"));
            assert_eq!(view.delivery.sent_key(), told.key, "S8");
            assert_eq!(fixed(&view.delivery), told.fixed, "I22: what never changes of {id}");
            if let (Source::Inline { sha256, .. }, None) =
                (&view.delivery.payload.source, view.delivery.payload.erased_at)
            {
                assert_eq!(*sha256, told.sha256, "S1: the body of {id}");
            }
            match (view.delivery.state, self.ended.get(id)) {
                (State::Terminal { outcome, .. }, Some(before)) => {
                    assert_eq!(outcome, *before, "S2: {id} ended as {before:?} and now as {outcome:?}");
                }
                (State::Terminal { outcome, .. }, None) => {
                    let there = outcome != Ending::Delivered || self.succeeded.contains(id);
                    assert!(there, "{id} is delivered and no receiver took it");
                    let early = outcome == Ending::Expired && !proven;
                    assert!(!early, "I14, I18: {id} was ended by a clock that has not proven itself");
                    self.ended.insert(*id, outcome);
                    *self.fired.entry(outcome.as_str()).or_default() += 1;
                }
                (State::Waiting { .. }, Some(before)) => panic!("S2: {id} ended as {before:?} and waits"),
                (State::Waiting { .. }, None) => {}
            }
        }
    }

    /// L2: everything has ended.
    pub(crate) fn all_ended(&self, file: &Snapshot) {
        for id in self.told.keys() {
            let view = file.delivery(*id).expect("readable").expect("it was there");
            let ended = matches!(view.delivery.state, State::Terminal { .. });
            assert!(ended, "L2: {id} has not ended: {:?}", view.delivery);
        }
    }

    /// I12: nothing is due at a destination that is open, idle (by its place) and active. Where
    /// a lane's front may be all interrupted work, what is behind it may have to wait.
    pub(crate) fn none_forgotten(&self, file: &Snapshot, idle: &[bool], now: Timestamp) {
        let views = all(file, now).into_iter();
        let waiting = views.filter(|view| matches!(view.delivery.state, State::Waiting { .. }));
        let waiting: Vec<_> = waiting.filter(|view| view.lease.is_none()).collect();
        let mut suspects = vec![0; idle.len()];
        for view in waiting.iter().filter(|view| view.delivery.interrupted > 0) {
            suspects[view.delivery.destination.0 as usize] += 1;
        }
        for view in &waiting {
            let it = &view.delivery;
            let State::Waiting { due, .. } = it.state else { continue };
            let place = it.destination.0 as usize;
            let free = idle[place] && !self.paused.contains(&place) && !self.stopped(file, &view.destination);
            let seen = it.interrupted == 0 && suspects[place] < BUFFER;
            let late = now.since(due);
            let forgotten = free && seen && late > SLACK;
            assert!(!forgotten, "I12: {} is due for {late} and nothing keeps it", it.id);
        }
    }

    fn stopped(&self, file: &Snapshot, name: &Name) -> bool {
        let found = file.destination(name).expect("readable").expect("none is deleted");
        found.note.state != DestinationState::Active
    }

    /// I14: nothing waits beyond its end by more than a sweep's interval.
    pub(crate) fn none_overdue(&self, file: &Snapshot, now: Now) {
        if self.doubted.is_some_and(|until| now.mono < until.plus(Millis(60_000))) {
            return;
        }
        let now = now.wall;
        for (id, told) in &self.told {
            if now.since(told.expires_at).0 < 60_000 {
                continue;
            }
            let view = file.delivery(*id).expect("readable").expect("it was there");
            let waits = matches!(view.delivery.state, State::Waiting { .. });
            let bound = view.delivery.expires_at == told.expires_at && view.lease.is_none();
            assert!(!(waits && bound), "I14: {id} outlived its end");
        }
    }
}

/// Everything that is on disk.
pub(crate) fn all(file: &Snapshot, now: Timestamp) -> Vec<DeliveryView> {
    let page = file.list(&Filter::default(), Order::OldestCreated, None, MOST, now, &|| false);
    page.expect("readable").items
}

/// What waits or is out, as a restart is to leave it.
pub(crate) fn rows(views: &[DeliveryView]) -> Rows {
    let row = |view: &DeliveryView| match (view.delivery.state, view.lease) {
        (State::Terminal { .. }, _) => None,
        (State::Waiting { .. }, Some(lease)) => {
            Some((view.delivery.id, (lease.due, view.delivery.attempts, Some(lease.attempt))))
        }
        (State::Waiting { due, .. }, None) => Some((view.delivery.id, (due, view.delivery.attempts, None))),
    };
    views.iter().filter_map(row).collect()
}

fn fixed(it: &Delivery) -> (Name, u32, u32, u8, Timestamp) {
    (it.region.clone(), it.tenant.0, it.destination.0, it.class.0, it.created_at)
}

/// The body that a claimed delivery is sent with.
pub(crate) fn loaded(found: Loaded) -> (String, Vec<u8>) {
    match found {
        Loaded::Ready { delivery, body } => (delivery.sent_key(), body.0.to_vec()),
        Loaded::Damaged => panic!("nothing damages this disk"),
        Loaded::Erased => panic!("nobody erases"),
    }
}
