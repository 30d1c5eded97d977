//! The schedule alone: what is blocked is never picked, and costs nothing.

use super::*;
use crate::model::TenantNo;
use crate::outcome::{Hold, HoldReason};

const LANE: Lane = Lane(2);

fn at(ms: u64) -> Now {
    Now { wall: Timestamp(1_000_000 + ms), mono: Mono(ms) }
}

fn settings(max: u32) -> GateSettings {
    GateSettings { tenant: TenantNo(0), state: DestinationState::Active, max }
}

fn schedule(gates: u32, max: u32) -> Schedule {
    let mut schedule = Schedule::new(100, 100);
    for _ in 0..gates {
        schedule.add(settings(max), GateMemory::default(), at(0));
    }
    schedule
}

fn entry(id: u128, due: Now) -> DueEntry {
    DueEntry { due: due.wall, id: DeliveryId(id), attempts: 0, interrupted: false, bytes: 0 }
}

fn put(schedule: &mut Schedule, no: u32, id: u128, due: Now, now: Now) {
    schedule.insert(DestNo(no), LANE, entry(id, due), now);
}

/// Everything that can be claimed now, as (destination, id); `disk` is the lane as it is stored.
fn claims_from(schedule: &mut Schedule, disk: &mut Vec<DueEntry>, now: Now) -> Vec<(u32, u128)> {
    let mut all = Vec::new();
    loop {
        match schedule.pick(now) {
            Pick::Claim { destination, entry, .. } => {
                all.push((destination.0, entry.id.0));
                disk.retain(|row| row.id != entry.id);
            }
            Pick::Page { destination, lane, after } => {
                let later = disk.iter().filter(|row| after.is_none_or(|last| (row.due, row.id) > last));
                let page: Vec<DueEntry> = later.take(BUFFER).copied().collect();
                let ended = page.len() < BUFFER;
                schedule.page(destination, lane, page, ended, now);
            }
            Pick::Nothing => return all,
        }
    }
}

/// Everything that can be claimed now, all of it in RAM.
fn claims(schedule: &mut Schedule, now: Now) -> Vec<(u32, u128)> {
    claims_from(schedule, &mut Vec::new(), now)
}

fn hold(schedule: &mut Schedule, no: u32, until: Now, now: Now) {
    let hold = Hold { until: until.wall, reason: HoldReason::RateLimited };
    schedule.refused(DestNo(no), schedule.epoch(DestNo(no)));
    schedule.hold(DestNo(no), hold, false, now);
}

#[test]
fn destinations_take_turns() {
    let mut it = schedule(3, 10);
    for (id, no) in [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2)] {
        put(&mut it, no, id, at(0), at(0));
    }
    assert_eq!(claims(&mut it, at(0)), [(0, 1), (1, 3), (2, 5)], "one each: the limit begins at 1");
    for no in 0..3 {
        it.learn(DestNo(no), 0, Health::Success, at(1).wall);
        it.release(DestNo(no), false, at(1));
    }
    assert_eq!(claims(&mut it, at(1)), [(0, 2), (1, 4)]);
}

/// C122: a hundred thousand due at a held destination, and ten elsewhere.
#[test]
fn c122_what_is_held_is_not_looked_at() {
    let mut it = schedule(2, 1_000);
    hold(&mut it, 0, at(60_000), at(0));
    for id in 0..100_000 {
        put(&mut it, 0, id, at(0), at(0));
    }
    for id in 0..10 {
        put(&mut it, 1, 1_000_000 + id, at(0), at(0));
        it.learn(DestNo(1), 0, Health::Success, at(0).wall);
    }
    assert_eq!(claims(&mut it, at(1)).len(), 10);
    assert_eq!(it.timers.len(), 1, "one timer however long the backlog");
    assert_eq!(it.next_timer(), Some(Mono(60_000)));
}

/// C035, C033: nothing during the hold, then one, two, four.
#[test]
fn c033_c035_a_hold_ends_with_one_request_and_doubles() {
    let mut it = schedule(1, 30);
    for id in 0..30 {
        put(&mut it, 0, id, at(0), at(0));
    }
    hold(&mut it, 0, at(60_000), at(0));
    assert!(claims(&mut it, at(59_999)).is_empty());
    it.wake(at(60_000));
    let mut disk: Vec<DueEntry> = (0..30).map(|id| entry(id, at(0))).collect();
    let mut rounds = Vec::new();
    for round in 0..5 {
        let now = at(60_000 + round);
        let out = claims_from(&mut it, &mut disk, now).len();
        rounds.push(out);
        for _ in 0..out {
            it.learn(DestNo(0), it.epoch(DestNo(0)), Health::Success, now.wall);
            it.release(DestNo(0), false, now);
        }
    }
    assert_eq!(rounds, [1, 2, 4, 8, 15]);
}

/// I16: answers to requests of before the hold neither widen the limit nor count again.
#[test]
fn i16_late_answers_do_not_open_a_gate() {
    let mut it = schedule(1, 8);
    let before = it.epoch(DestNo(0));
    hold(&mut it, 0, at(60_000), at(0));
    assert_eq!(it.refusals(DestNo(0), before), 1, "refused together counts once");
    it.learn(DestNo(0), before, Health::Success, at(1).wall);
    let view = it.view(DestNo(0), Mono(1)).unwrap();
    assert_eq!((view.limit, view.hold.is_some()), (1, true));
    assert_eq!(it.refusals(DestNo(0), it.epoch(DestNo(0))), 2, "the next one counts");
}

/// C037: a hold never shortens, except by an operator.
#[test]
fn a_later_hold_wins_and_an_operator_overrides() {
    let mut it = schedule(1, 8);
    put(&mut it, 0, 1, at(0), at(0));
    hold(&mut it, 0, at(60_000), at(0));
    hold(&mut it, 0, at(10_000), at(0));
    assert!(claims(&mut it, at(4)).is_empty());
    assert_eq!(it.next_timer(), Some(Mono(60_000)));
    it.release_hold(DestNo(0), at(5));
    assert_eq!(claims(&mut it, at(5)), [(0, 1)]);
}

/// C123, C126: slots come back once each, to their gate and to all.
#[test]
fn c126_slots_are_bounded_and_come_back() {
    let mut it = Schedule::new(3, 3);
    for _ in 0..5 {
        it.add(settings(8), GateMemory::default(), at(0));
    }
    for no in 0..5 {
        put(&mut it, no, u128::from(no), at(0), at(0));
    }
    assert_eq!(claims(&mut it, at(0)).len(), 3);
    assert_eq!(it.slots(), (3, 3));
    it.release(DestNo(0), false, at(1));
    assert_eq!(claims(&mut it, at(1)).len(), 1);
    for no in 1..4 {
        it.release(DestNo(no), false, at(2));
    }
    assert_eq!(claims(&mut it, at(2)).len(), 1);
}

#[test]
fn interrupted_work_takes_no_more_than_its_slots() {
    let mut it = Schedule::new(10, 1);
    for no in 0..3 {
        it.add(settings(8), GateMemory::default(), at(0));
        let suspect = DueEntry { interrupted: true, attempts: 1, ..entry(u128::from(no), at(0)) };
        it.insert(DestNo(no), Lane(3), suspect, at(0));
    }
    assert_eq!(claims(&mut it, at(0)), [(0, 0)]);
    put(&mut it, 1, 100, at(0), at(0));
    assert_eq!(claims(&mut it, at(0)), [(1, 100)], "fresh work goes past it");
    assert!(!it.is_ready(), "nothing to do until a slot comes back");
    it.release(DestNo(0), true, at(1));
    assert!(it.is_ready());
    assert_eq!(claims(&mut it, at(1)).len(), 1);
}

#[test]
fn a_paused_destination_sends_nothing_and_resumes() {
    let mut it = schedule(1, 8);
    put(&mut it, 0, 1, at(0), at(0));
    it.set(DestNo(0), GateSettings { state: DestinationState::Paused, ..settings(8) }, at(0));
    assert!(claims(&mut it, at(1)).is_empty());
    assert_eq!(it.next_timer(), None);
    it.set(DestNo(0), settings(8), at(2));
    assert_eq!(claims(&mut it, at(2)), [(0, 1)]);
}

/// C113: the wall clock jumps; what is due goes out, and going back sends nothing early.
#[test]
fn c113_timers_follow_the_wall_clock() {
    let mut it = schedule(1, 8);
    put(&mut it, 0, 1, at(3_600_000), at(0));
    assert_eq!(it.next_timer(), Some(Mono(3_600_000)));
    let jumped = Now { wall: at(3_600_000).wall, mono: Mono(10) };
    it.clock_stepped(jumped);
    it.wake(jumped);
    assert_eq!(claims(&mut it, jumped), [(0, 1)]);
    put(&mut it, 0, 2, at(7_200_000), jumped);
    let back = Now { wall: at(0).wall, mono: Mono(20) };
    it.clock_stepped(back);
    it.release(DestNo(0), false, back);
    it.wake(Now { wall: at(3_700_000).wall, mono: Mono(3_700_020) });
    assert!(claims(&mut it, Now { wall: at(3_700_000).wall, mono: Mono(3_700_020) }).is_empty());
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
