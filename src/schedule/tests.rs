//! The schedule alone: what is blocked is never picked, and costs nothing.

use std::collections::BTreeMap;

use super::*;
use crate::model::{DestinationState, TenantNo};
use crate::outcome::{AttemptResult, Hold, HoldReason};

const LANE: Lane = Lane(2);

fn at(ms: u64) -> Now {
    Now { wall: Timestamp(1_000_000 + ms), mono: Mono(ms) }
}

fn settings(max: u32) -> GateSettings {
    let tenant = TenantNo(0);
    GateSettings { tenant, weight: 1, state: DestinationState::Active, max, adaptive: false, rate: None }
}

fn terms(slots: u32, suspect_slots: u32) -> Terms {
    Terms { slots, suspect_slots, reserve_permille: 300, weights: vec![4, 2, 1] }
}

/// A schedule, its destinations' lanes on disk, and the slots that are out.
struct World {
    schedule: Schedule,
    disk: BTreeMap<(u32, Lane), Vec<DueEntry>>,
    out: BTreeMap<u32, Vec<Slot>>,
}

impl std::ops::Deref for World {
    type Target = Schedule;
    fn deref(&self) -> &Schedule {
        &self.schedule
    }
}

impl std::ops::DerefMut for World {
    fn deref_mut(&mut self) -> &mut Schedule {
        &mut self.schedule
    }
}

impl World {
    fn new(terms: &Terms) -> World {
        World { schedule: Schedule::new(terms), disk: BTreeMap::new(), out: BTreeMap::new() }
    }

    fn put(&mut self, no: u32, lane: Lane, entry: DueEntry, now: Now) {
        let rows = self.disk.entry((no, lane)).or_default();
        let place = rows.partition_point(|row| (row.due, row.id) < (entry.due, entry.id));
        rows.insert(place, entry);
        self.schedule.insert(DestNo(no), lane, entry, now);
    }

    /// One claim, with the pages it takes, as (destination, id).
    fn claim(&mut self, now: Now) -> Option<(u32, u128)> {
        loop {
            match self.schedule.pick(now) {
                Pick::Claim { destination, lane, entry, slot, .. } => {
                    self.disk.get_mut(&(destination.0, lane)).unwrap().retain(|row| row.id != entry.id);
                    self.out.entry(destination.0).or_default().push(slot);
                    assert!(self.schedule.is_sound());
                    return Some((destination.0, entry.id.0));
                }
                Pick::Page { destination, lane, after, rows } => {
                    let disk = self.disk.get(&(destination.0, lane)).map_or(&[][..], |rows| rows);
                    let later = disk.iter().filter(|row| after.is_none_or(|last| (row.due, row.id) > last));
                    let page: Vec<DueEntry> = later.take(rows).copied().collect();
                    let ended = page.len() < rows;
                    self.schedule.page(destination, lane, page, ended, now);
                }
                Pick::Nothing => return None,
            }
        }
    }

    /// Everything that can be claimed now.
    fn claims(&mut self, now: Now) -> Vec<(u32, u128)> {
        std::iter::from_fn(|| self.claim(now)).collect()
    }

    /// The oldest request of a destination ends so.
    fn end(&mut self, no: u32, result: AttemptResult, latency: u64, now: Now) {
        let slot = self.out.get_mut(&no).unwrap().remove(0);
        let admission = self.schedule.release(slot, now);
        let latency = Some(Millis(latency));
        let seen = Seen { result, latency, hold: None, refused: false, asked: None };
        self.schedule.learn(&admission, &seen, now);
    }

    fn succeed(&mut self, no: u32, now: Now) {
        self.end(no, AttemptResult::Success, 50, now);
    }

    /// The oldest request of a destination is refused, and it is held.
    fn refuse(&mut self, no: u32, until: Now, now: Now) {
        let slot = self.out.get_mut(&no).unwrap().remove(0);
        let admission = self.schedule.release(slot, now);
        let hold = Some(Hold { until: until.wall, reason: HoldReason::RateLimited });
        let (result, latency) = (AttemptResult::RateLimited, Some(Millis(50)));
        let seen = Seen { result, latency, hold, refused: true, asked: None };
        self.schedule.learn(&admission, &seen, now);
    }
}

fn schedule(gates: u32, max: u32) -> World {
    let mut world = World::new(&terms(60, 60));
    for _ in 0..gates {
        world.add(settings(max), GateMemory::default(), at(0));
    }
    world
}

fn entry(id: u128, due: Now) -> DueEntry {
    DueEntry { due: due.wall, id: DeliveryId(id), attempts: 0, interrupted: false, bytes: 0 }
}

fn put(world: &mut World, no: u32, id: u128, due: Now, now: Now) {
    world.put(no, LANE, entry(id, due), now);
}

/// An operator holds a destination.
fn hold(world: &mut World, no: u32, until: Now, now: Now) {
    world.hold(DestNo(no), Hold { until: until.wall, reason: HoldReason::Operator }, now);
}

#[test]
fn destinations_take_turns() {
    let mut it = schedule(3, 10);
    for (id, no) in [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2)] {
        put(&mut it, no, id, at(0), at(0));
    }
    assert_eq!(it.claims(at(0)), [(0, 1), (1, 3), (2, 5)], "one each: the limit begins at 1");
    (0..3).for_each(|no| it.succeed(no, at(1)));
    assert_eq!(it.claims(at(1)), [(0, 2), (1, 4)]);
}

/// C122: a hundred thousand due at a held destination, and ten elsewhere.
#[test]
fn c122_what_is_held_is_not_looked_at() {
    let mut it = schedule(2, 1_000);
    hold(&mut it, 0, at(60_000), at(0));
    for id in 0..100_000 {
        it.schedule.insert(DestNo(0), LANE, entry(id, at(0)), at(0));
    }
    for id in 0..10 {
        put(&mut it, 1, 1_000_000 + id, at(0), at(0));
    }
    let mut claimed = 0;
    for ms in 1..6 {
        let now = it.claims(at(ms)).len();
        (0..now).for_each(|_| it.succeed(1, at(ms)));
        claimed += now;
    }
    assert_eq!(claimed, 10);
    assert_eq!(it.timers.len(), 1, "one timer however long the backlog");
    assert_eq!(it.next_timer(), Some(Mono(60_000)));
    assert_eq!(it.visits(), (10, 10), "the held one is never visited");
}

/// I20: what a refusal shuts gets no turn for the slot that came back with it.
#[test]
fn i20_a_refusal_is_not_looked_at_again() {
    let mut it = schedule(1, 10);
    (0..5).for_each(|id| put(&mut it, 0, id, at(0), at(0)));
    assert_eq!(it.claims(at(0)).len(), 1);
    it.refuse(0, at(5_000), at(100));
    assert!(it.is_ready(), "what came back is to be looked at");
    assert_eq!(it.claims(at(100)), []);
    assert_eq!((it.visits(), it.is_ready()), ((1, 1), false));
    assert_eq!(it.next_timer(), Some(Mono(5_000)));
}

/// C035, C033: nothing during the hold, then one, two, four.
#[test]
fn c033_c035_a_hold_ends_with_one_request_and_doubles() {
    let mut it = schedule(1, 30);
    for id in 0..30 {
        put(&mut it, 0, id, at(0), at(0));
    }
    hold(&mut it, 0, at(60_000), at(0));
    assert!(it.claims(at(59_999)).is_empty());
    it.wake(at(60_000));
    let mut rounds = Vec::new();
    for round in 0..5 {
        let now = at(60_000 + round);
        let out = it.claims(now).len();
        rounds.push(out);
        (0..out).for_each(|_| it.succeed(0, now));
    }
    assert_eq!(rounds, [1, 2, 4, 8, 15]);
}

/// I16: answers to requests of before the hold neither widen the limit nor count again, and only
/// make the hold longer.
#[test]
fn i16_late_answers_do_not_open_a_gate() {
    let mut it = schedule(1, 8);
    for id in 0..20 {
        put(&mut it, 0, id, at(0), at(0));
    }
    for ms in 0..3 {
        let out = it.claims(at(ms)).len();
        (0..out).for_each(|_| it.succeed(0, at(ms)));
    }
    assert_eq!(it.claims(at(3)).len(), 8);
    it.refuse(0, at(60_000), at(4));
    let refusals = |it: &World| it.refusals(DestNo(0), it.gate(DestNo(0)).epoch);
    assert_eq!(refusals(&it), 2, "the next one would be the second");
    it.refuse(0, at(30_000), at(5));
    it.refuse(0, at(90_000), at(5));
    assert_eq!(refusals(&it), 2, "refused together counts once");
    (0..5).for_each(|_| it.succeed(0, at(6)));
    let view = it.view(DestNo(0), at(6)).unwrap();
    assert_eq!((view.limit, view.hold.map(|hold| hold.until)), (1, Some(at(90_000).wall)));
    it.wake(at(90_000));
    assert_eq!(it.claims(at(90_000)).len(), 1);
    it.refuse(0, at(99_000), at(90_001));
    assert_eq!(refusals(&it), 3);
}

/// C037: a hold never shortens, except by an operator.
#[test]
fn a_later_hold_wins_and_an_operator_overrides() {
    let mut it = schedule(1, 8);
    put(&mut it, 0, 1, at(0), at(0));
    hold(&mut it, 0, at(60_000), at(0));
    assert!(it.claims(at(4)).is_empty());
    assert_eq!(it.next_timer(), Some(Mono(60_000)));
    it.release_hold(DestNo(0), at(5));
    assert_eq!(it.claims(at(5)), [(0, 1)]);
}

/// C123, C126: slots come back once each, to their gate and to all.
#[test]
fn c126_slots_are_bounded_and_come_back() {
    let mut it = World::new(&terms(3, 3));
    for no in 0..5 {
        it.add(settings(8), GateMemory::default(), at(0));
        put(&mut it, no, u128::from(no), at(0), at(0));
    }
    assert_eq!(it.claims(at(0)).len(), 3);
    assert_eq!(it.slots(), (3, 3));
    it.succeed(0, at(1));
    assert_eq!(it.claims(at(1)).len(), 1);
    (1..4).for_each(|no| it.succeed(no, at(2)));
    assert_eq!(it.claims(at(2)).len(), 1);
    it.succeed(4, at(3));
    assert_eq!(it.slots(), (3, 0));
}

#[test]
fn interrupted_work_takes_no_more_than_its_slots() {
    let mut it = World::new(&terms(10, 1));
    for no in 0..3 {
        it.add(settings(8), GateMemory::default(), at(0));
        let suspect = DueEntry { interrupted: true, attempts: 1, ..entry(u128::from(no), at(0)) };
        it.put(no, Lane(3), suspect, at(0));
    }
    assert_eq!(it.claims(at(0)), [(0, 0)]);
    put(&mut it, 1, 100, at(0), at(0));
    assert_eq!(it.claims(at(0)), [(1, 100)], "fresh work goes past it");
    let retry = DueEntry { attempts: 1, ..entry(200, at(1)) };
    it.put(2, Lane(3), retry, at(1));
    assert_eq!(it.claims(at(1)), [(2, 200)], "and so does other work of the same lane");
    assert!(!it.is_ready(), "nothing to do until a slot comes back");
    it.succeed(0, at(1));
    assert!(it.is_ready());
    it.succeed(1, at(1));
    assert_eq!(it.claims(at(1)), [(1, 1)]);
}

/// C121, F5: a tenant's turn is one, however many destinations it has.
#[test]
fn c121_tenants_take_turns_not_destinations() {
    let mut it = World::new(&terms(4, 4));
    for no in 0..21 {
        let tenant = TenantNo(u32::from(no == 20));
        it.add(GateSettings { tenant, ..settings(8) }, GateMemory::default(), at(0));
    }
    for id in 0..1_000 {
        put(&mut it, (id % 20) as u32, id, at(0), at(0));
    }
    let mut order: Vec<u32> = it.claims(at(0)).into_iter().map(|(no, _)| no).collect();
    put(&mut it, 20, 5_000, at(1), at(1));
    for ms in 1..6 {
        let no = order[ms as usize - 1];
        it.succeed(no, at(ms));
        order.extend(it.claims(at(ms)).into_iter().map(|(no, _)| no));
    }
    let place = order.iter().position(|no| *no == 20).expect("it had its turn");
    assert!(place <= 8, "at most four more of the other's: {order:?}");
}

/// C120: retries leave slots to first attempts, and go on.
#[test]
fn c120_retries_do_not_take_every_slot() {
    let mut it = World::new(&terms(20, 20));
    for no in 0..30 {
        it.add(settings(8), GateMemory::default(), at(0));
        it.put(no, Lane(3), DueEntry { attempts: 1, ..entry(u128::from(no), at(0)) }, at(0));
    }
    let retries = it.claims(at(0)).len();
    assert_eq!(retries, 14);
    put(&mut it, 29, 100, at(0), at(0));
    assert_eq!(it.claims(at(0)), [(29, 100)]);
}

/// C119: what hangs at one destination holds no more than its limit, and no more than the slow
/// pool of all.
#[test]
fn c119_slow_destinations_leave_the_fast_their_slots() {
    let mut it = World::new(&terms(128, 128));
    for no in 0..101 {
        let tenant = TenantNo(u32::from(no == 100));
        it.add(GateSettings { tenant, ..settings(8) }, GateMemory::default(), at(0));
    }
    put(&mut it, 100, 9_999, at(0), at(0));
    assert_eq!(it.claims(at(0)), [(100, 9_999)]);
    it.succeed(100, at(5));
    for id in 0..1_000 {
        put(&mut it, (id % 100) as u32, id, at(10), at(10));
    }
    let mut out = 0;
    for ms in (10..30_000).step_by(100) {
        it.wake(at(ms));
        out += it.claims(at(ms)).len();
        if ms % 1_000 == 10 {
            put(&mut it, 100, 20_000 + u128::from(ms), at(ms), at(ms));
            assert_eq!(it.claims(at(ms)).first().map(|(no, _)| *no), Some(100), "at {ms}");
            it.succeed(100, at(ms + 5));
        }
    }
    assert!((32..=64).contains(&out), "{out} slow requests are out");
}

/// I15, I2: the breaker lets one request through at a time, and an answer closes it.
#[test]
fn a_breaker_asks_once() {
    let mut it = schedule(1, 8);
    for id in 0..50 {
        put(&mut it, 0, id, at(0), at(0));
    }
    for ms in 0..2 {
        assert_eq!(it.claims(at(ms)).len(), 1);
        it.end(0, AttemptResult::Connect, 1, at(ms));
    }
    let view = it.view(DestNo(0), at(2)).unwrap();
    assert!(matches!(view.breaker, BreakerState::Open { .. }), "{view:?}");
    assert_eq!(it.survey(at(2)).held, 1);
    let until = view.breaker_until.unwrap().since(at(0).wall).0;
    assert!((500..=1_002).contains(&until), "{until}");
    assert!(it.claims(at(until - 1)).is_empty());
    it.wake(at(until));
    assert_eq!(it.claims(at(until)).len(), 1);
    it.succeed(0, at(until + 1));
    assert_eq!(it.view(DestNo(0), at(until + 1)).unwrap().breaker, BreakerState::Closed);
    assert_eq!(it.claims(at(until + 1)).len(), 2);
}

/// C123: a rate spaces requests, on one timer.
#[test]
fn c123_a_rate_spaces_requests() {
    let mut it = World::new(&terms(60, 60));
    let rate = crate::model::Rate::per_second(1.0 / 60.0, 1);
    it.add(GateSettings { rate, ..settings(8) }, GateMemory::default(), at(0));
    for id in 0..5 {
        put(&mut it, 0, id, at(0), at(0));
    }
    let mut starts = Vec::new();
    for second in 0..300 {
        let now = at(second * 1_000);
        it.wake(now);
        for _ in it.claims(now) {
            starts.push(second);
            it.succeed(0, now);
        }
        assert!(it.timers.len() <= 1);
    }
    assert_eq!(starts, [0, 60, 120, 180, 240]);
}

/// A lane whose head is on disk is not waited for in vain: what is behind is found.
#[test]
fn lanes_that_are_not_found_yet_are_read() {
    let mut it = schedule(1, 8);
    it.find();
    it.disk.insert((0, LANE), vec![entry(1, at(0)), entry(2, at(0))]);
    put(&mut it, 0, 3, at(5), at(5));
    let mut claimed = Vec::new();
    for ms in 5..9 {
        for (_, id) in it.claims(at(ms)) {
            claimed.push(id);
            it.succeed(0, at(ms));
        }
    }
    assert_eq!(claimed, [1, 2, 3], "in the order of the disk");
}

#[test]
fn a_paused_destination_sends_nothing_and_resumes() {
    let mut it = schedule(1, 8);
    put(&mut it, 0, 1, at(0), at(0));
    it.set(DestNo(0), GateSettings { state: DestinationState::Paused, ..settings(8) }, at(0));
    assert!(it.claims(at(1)).is_empty());
    assert_eq!(it.next_timer(), None);
    it.set(DestNo(0), settings(8), at(2));
    assert_eq!(it.claims(at(2)), [(0, 1)]);
}

/// C113: the wall clock jumps; what is due goes out, and going back sends nothing early.
#[test]
fn c113_timers_follow_the_wall_clock() {
    let mut it = schedule(1, 8);
    put(&mut it, 0, 1, at(3_600_000), at(0));
    assert_eq!(it.next_timer(), Some(Mono(3_600_000)));
    let jumped = Now { wall: at(3_600_000).wall, mono: Mono(10) };
    it.clock_stepped(Millis(3_600_000), jumped);
    it.wake(jumped);
    assert_eq!(it.claims(jumped), [(0, 1)]);
    put(&mut it, 0, 2, at(7_200_000), jumped);
    let back = Now { wall: at(0).wall, mono: Mono(20) };
    it.clock_stepped(Millis(0), back);
    it.succeed(0, back);
    it.wake(Now { wall: at(3_700_000).wall, mono: Mono(3_700_020) });
    assert!(it.claims(Now { wall: at(3_700_000).wall, mono: Mono(3_700_020) }).is_empty());
}

#[test]
fn what_is_ready_and_what_is_held_age_apart() {
    let mut it = schedule(2, 8);
    put(&mut it, 0, 1, at(100), at(0));
    put(&mut it, 1, 2, at(500), at(0));
    hold(&mut it, 0, at(60_000), at(0));
    let survey = it.survey(at(1_000));
    assert_eq!((survey.active, survey.held), (1, 1));
    assert_eq!(survey.oldest_held[1], Some(at(100).wall), "routine is class 1");
    assert_eq!(survey.oldest_ready[1], Some(at(500).wall));
    assert_eq!(it.survey(at(50)).oldest_held[1], None, "not due yet");
}

/// I19: what a destination costs in RAM, without its rows.
#[test]
fn i19_a_gate_is_small() {
    let size = size_of::<Gate>();
    assert!(size <= 464, "{size} bytes, 100,000 times");
}

/// A destination with so many out, and as many more waiting.
fn busy(settings: GateSettings, out: u32) -> World {
    let mut it = World::new(&terms(60, 60));
    it.add(settings, GateMemory::default(), at(0));
    (0..1_000).for_each(|id| put(&mut it, 0, id, at(0), at(0)));
    let mut ms = 0;
    loop {
        let now = it.claims(at(ms)).len() as u32;
        if now >= out {
            return it;
        }
        (0..now).for_each(|_| it.succeed(0, at(ms)));
        ms += 1;
    }
}

/// A failure and then refusals of the same cohort: the hold still ends with one request.
#[test]
fn a_refusal_closes_whatever_came_before_it() {
    let mut it = busy(GateSettings { adaptive: true, ..settings(32) }, 32);
    it.end(0, AttemptResult::ServerError, 50, at(100));
    assert_eq!(it.view(DestNo(0), at(100)).unwrap().limit, 16);
    (0..31).for_each(|_| it.refuse(0, at(30_000), at(101)));
    it.wake(at(30_000));
    assert_eq!(it.claims(at(30_000)).len(), 1);
}

/// I16: what was out together halves the limit once.
#[test]
fn i16_a_cohort_of_failures_halves_once() {
    let mut it = busy(GateSettings { adaptive: true, ..settings(32) }, 32);
    (0..20).for_each(|_| it.end(0, AttemptResult::ServerError, 50, at(100)));
    assert_eq!(it.view(DestNo(0), at(100)).unwrap().limit, 16);
    assert_eq!(it.claims(at(200)).len(), 4);
}

/// One bad cohort opens the breaker of what adapts, too.
#[test]
fn a_cohort_of_timeouts_opens_the_breaker() {
    let mut it = busy(GateSettings { adaptive: true, ..settings(32) }, 32);
    (0..32).for_each(|_| it.end(0, AttemptResult::Timeout, 1_000, at(1_100)));
    assert!(matches!(it.view(DestNo(0), at(1_100)).unwrap().breaker, BreakerState::Open { .. }));
}

/// F4: what has become fast does not wait for a turn among the slow.
#[test]
fn what_changes_its_pool_leaves_the_ring_of_the_old_one() {
    let mut it = World::new(&terms(64, 64));
    let slow = GateMemory { latency: Some(Millis(9_000)), limit: 8, ..GateMemory::default() };
    (0..41).for_each(|_| _ = it.add(settings(8), slow, at(0)));
    (0..400).for_each(|id| put(&mut it, (id % 41) as u32, id, at(0), at(0)));
    let out: Vec<u32> = it.claims(at(0)).into_iter().map(|(no, _)| no).collect();
    assert_eq!(out.len(), 16, "a quarter of the slots is for the slow");
    let no = out[0];
    it.end(no, AttemptResult::Success, 1, at(1));
    let mut ms = 1;
    while it.view(DestNo(no), at(ms)).unwrap().in_flight == 0 || it.pool(DestNo(no)) == Pool::Slow {
        let claimed: Vec<u32> = it.claims(at(ms)).into_iter().map(|(no, _)| no).collect();
        it.audit(at(ms)).unwrap();
        let next = claimed.iter().find(|one| **one == no).copied();
        ms += 1;
        assert!(ms < 400, "it never had its turn");
        match next {
            Some(no) => it.end(no, AttemptResult::Success, 1, at(ms)),
            None => {
                let other = *it.out.iter().find(|(_, slots)| !slots.is_empty()).unwrap().0;
                it.end(other, AttemptResult::Success, 9_000, at(ms));
            }
        }
    }
    assert!(it.is_sound());
}

/// An answer to a request of before a refusal does not say that it works again.
#[test]
fn a_late_success_is_no_recovery() {
    let mut it = busy(settings(8), 8);
    it.refuse(0, at(60_000), at(100));
    (0..7).for_each(|_| it.succeed(0, at(101)));
    let view = it.view(DestNo(0), at(101)).unwrap();
    assert_eq!((view.failing_since, view.recovery), (Some(at(100).wall), None));
    it.wake(at(60_000));
    it.claims(at(60_000));
    it.succeed(0, at(60_100));
    let (times, _) = it.view(DestNo(0), at(60_100)).unwrap().recovery.unwrap();
    assert_eq!((times.count, times.max), (1, Millis(60_000)));
}

/// The oldest of a paused destination is never older than what waits.
#[test]
fn a_head_that_is_gone_leaves_its_time() {
    let mut it = schedule(1, 8);
    it.set(DestNo(0), GateSettings { state: DestinationState::Paused, ..settings(8) }, at(0));
    put(&mut it, 0, 1, at(100), at(0));
    put(&mut it, 0, 2, at(200), at(0));
    it.remove(DestNo(0), LANE, at(100).wall, DeliveryId(1), at(300));
    let survey = it.survey(at(1_000));
    assert!(survey.oldest_held[1].is_some_and(|oldest| oldest >= at(100).wall), "{survey:?}");
}

/// Cancelled from under it, row by row, a lane whose rows were only on disk has no age any more: not
/// while it is counted, and not when what went was counted later.
#[test]
fn a_lane_that_is_emptied_has_no_age() {
    let check = |counted: bool| {
        let mut it = schedule(2, 8);
        it.set(DestNo(0), GateSettings { state: DestinationState::Paused, ..settings(8) }, at(0));
        hold(&mut it, 1, at(60_000), at(0));
        let work =
            |no: u32| (0_u32..5).map(move |n| (DestNo(no), at(u64::from(100 + n)), u128::from(no * 10 + n)));
        if counted {
            it.counted_all();
        }
        for (no, due, id) in work(0).chain(work(1)) {
            it.counted_in(no, LANE, due.wall);
            put(&mut it, no.0, id, due, at(0));
        }
        assert_eq!(it.survey(at(1_000)).oldest_held[1], Some(at(100).wall));
        for (no, due, id) in work(0).chain(work(1)) {
            it.remove(no, LANE, due.wall, DeliveryId(id), at(1_000));
            it.counted_out(no, LANE, due.wall);
        }
        it.counted_all();
        assert_eq!(it.survey(at(1_000)).oldest_held, Survey::default().oldest_held, "{counted}");
        for no in [0, 1] {
            assert_eq!(it.view(DestNo(no), at(1_000)).unwrap().oldest_due_at, None, "{counted} {no}");
        }
        put(&mut it, 0, 99, at(2_000), at(2_000));
        assert_eq!(it.view(DestNo(0), at(2_000)).unwrap().oldest_due_at, Some(at(2_000).wall));
        it.audit(at(2_000)).unwrap();
    };
    check(true);
    check(false);
}

/// A hold that was loaded and is over by the new clock is not counted as held.
#[test]
fn a_hold_that_the_clock_ends_is_not_held() {
    let mut it = World::new(&terms(60, 60));
    let hold = Some(Hold { until: at(3_600_000).wall, reason: HoldReason::RateLimited });
    it.add(settings(8), GateMemory { hold, ..GateMemory::default() }, at(0));
    it.counted_in(DestNo(0), LANE, at(7_200_000).wall);
    put(&mut it, 0, 1, at(7_200_000), at(0));
    assert_eq!(it.class(LANE.class()).held, 1);
    let stepped = Now { wall: at(3_700_000).wall, mono: Mono(10) };
    it.wake(stepped);
    it.clock_stepped(Millis(3_699_990), stepped);
    assert_eq!(it.class(LANE.class()).held, 0);
}
