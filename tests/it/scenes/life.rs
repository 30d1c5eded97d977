//! One delivery's life: waits, repeats, crashes, and how it ends.

use duehook::engine::command::Command;

use super::*;

/// C129: a time that is stored is also looked at: the receiver sees the second request.
#[test]
fn c129_a_repeat_arrives() {
    let script = |sent: &Sent| if sent.attempt == 1 { soon(500, None) } else { soon(200, None) };
    let mut scene = Scene::new(Setting::default(), script);
    let id = scene.deliver(0);
    scene.run_to(10);
    let due = scene.due(id);
    scene.run_to(MINUTE);
    assert_eq!(scene.times(id), [0, due]);
    assert_eq!(scene.ending(id), Some(Ending::Delivered));
}

/// C066, C067: 408 and 425 are repeated, and the second attempt delivers.
#[test]
fn c066_c067_a_408_and_a_425_are_repeated() {
    let script = |sent: &Sent| match (sent.attempt, sent.place) {
        (1, 0) => soon(408, None),
        (1, _) => soon(425, None),
        (_, _) => soon(200, None),
    };
    let mut scene = Scene::new(Setting { destinations: 2, ..Setting::default() }, script);
    for place in 0..2 {
        let id = scene.deliver(place);
        scene.run_to((u64::from(place) + 1) * MINUTE);
        let it = scene.record(id);
        assert_eq!((scene.ending(id), it.attempts, it.failures), (Some(Ending::Delivered), 2, 1));
    }
}

/// C029: refusals without end are bounded by age and use up no failures.
#[test]
fn c029_endless_refusals_end_by_age() {
    let policy = Policy { max_failures: 5, max_age: Millis(HOUR), ..Policy::default() };
    let mut scene = Scene::new(Setting { policy, ..Setting::default() }, |_| soon(429, Some("60")));
    let id = scene.deliver(0);
    scene.run_to(HOUR + MINUTE);
    let it = scene.record(id);
    assert_eq!(scene.ending(id), Some(Ending::Expired));
    assert!((50..=60).contains(&it.attempts), "{} attempts", it.attempts);
    assert_eq!((it.throttles, it.failures), (it.attempts, 0));
    assert!(scene.times(id).iter().all(|at| *at <= HOUR));
}

/// C030: after twenty refusals the first failure waits as a first failure does.
#[test]
fn c030_refusals_do_not_raise_the_wait_after_a_failure() {
    let script = |sent: &Sent| match sent.attempt {
        1..=20 => soon(429, Some("10")),
        21 => soon(500, None),
        _ => soon(204, None),
    };
    let mut scene = Scene::new(Setting::default(), script);
    let id = scene.deliver(0);
    scene.run_to(HOUR);
    let times = scene.times(id);
    let wait = times[21] - times[20] - 5;
    assert!((2_500..=5_000).contains(&wait), "{wait}");
    assert_eq!((scene.record(id).throttles, scene.record(id).failures), (20, 1));
}

/// C018: a receiver that says 0 for ever is not asked in a loop.
#[test]
fn c018_a_zero_is_no_loop() {
    let mut scene = Scene::new(Setting::default(), |_| soon(429, Some("0")));
    let id = scene.deliver(0);
    scene.run_to(10 * SECOND);
    assert!(scene.times(id).len() <= 11);
    scene.run_to(HOUR);
    let times = scene.times(id);
    let waits: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(waits.iter().all(|wait| *wait >= SECOND), "{waits:?}");
    assert!(waits.last() > waits.first(), "{waits:?}");
}

/// C038: what waits at a closed gate ends by its age, without an attempt.
#[test]
fn c038_expiry_goes_on_behind_a_hold() {
    let mut scene = Scene::new(Setting::default(), |_| soon(204, None));
    let until = Timestamp(NOON + 24 * HOUR);
    scene.command(Command::Hold { name: destination(0), until, reason: String::new() }).expect("held");
    let taken = scene.post(0, |new| new.max_age = Some(Millis(6 * HOUR)));
    let id = taken.expect("it is taken").delivery.delivery.id;
    scene.run_to(6 * HOUR - 1);
    assert_eq!(scene.ending(id), None);
    scene.run_to(6 * HOUR + MINUTE);
    assert_eq!((scene.ending(id), scene.record(id).attempts), (Some(Ending::Expired), 0));
    assert!(scene.sent.is_empty());
}

/// C039: a wait that is longer than the life left is kept, and it ends by its age.
#[test]
fn c039_a_wait_beyond_the_end_is_kept_and_not_cut_short() {
    let policy = Policy { max_age: Millis(HOUR), ..Policy::default() };
    let mut scene = Scene::new(Setting { policy, ..Setting::default() }, |_| soon(429, Some("3500")));
    let later = Timestamp(NOON + 10 * MINUTE);
    let id = scene.post(0, |new| new.not_before = Some(later)).expect("taken").delivery.delivery.id;
    scene.run_to(11 * MINUTE);
    assert!(scene.due(id) >= 10 * MINUTE + 3_500 * SECOND);
    let other = scene.post(0, |new| new.max_age = Some(Millis(20 * MINUTE))).expect("taken");
    let other = other.delivery.delivery.id;
    scene.run_to(32 * MINUTE);
    assert_eq!((scene.ending(other), scene.ending(id)), (Some(Ending::Expired), None));
    assert_eq!(scene.sent.len(), 1, "nothing is sent early because its life is short");
}

/// C124: a closed port is not a hot loop.
#[test]
fn c124_refused_connections_back_off() {
    let script = |_: &Sent| Some((Outcome::NotSent(NotSent::Connect), 1));
    let mut scene = Scene::new(Setting::default(), script);
    let id = scene.deliver(0);
    scene.run_to(10 * MINUTE);
    let attempts = scene.times(id).len();
    assert!((4..=6).contains(&attempts), "{attempts} in ten minutes, by 5 s, 30 s, 2 min, 10 min");
    assert_eq!(scene.record(id).failures as usize, attempts);
}

/// C133: a wait that is longer than any lease holds no lease and no slot, and is sent once.
#[test]
fn c133_a_long_wait_holds_nothing() {
    let script = |sent: &Sent| if sent.attempt == 1 { soon(429, Some("3600")) } else { soon(204, None) };
    let mut scene = Scene::new(Setting { slots: 4, ..Setting::default() }, script);
    let id = scene.deliver(0);
    for minute in 1..60 {
        scene.run_to(minute * MINUTE);
        assert_eq!(scene.engine().slots(), (4, 0));
        assert!(scene.view(id).expect("there").lease.is_none());
    }
    scene.run_to(2 * HOUR);
    let times = scene.times(id);
    assert_eq!((times.len(), times[0]), (2, 0));
    assert!((HOUR..=HOUR + 31 * SECOND).contains(&times[1]), "{times:?}");
    assert_eq!((scene.ending(id), scene.cut), (Some(Ending::Delivered), 0));
}

/// C134: the lease is computed from the timeouts: the longest attempt fits into it.
#[test]
fn c134_a_lease_outlasts_the_longest_attempt() {
    let script = |_: &Sent| Some((Outcome::MaybeSent(MaybeSent::Timeout), 60_000));
    let mut scene = Scene::new(Setting { timeout: Millis(60_000), ..Setting::default() }, script);
    let id = scene.deliver(0);
    scene.run_to(59_999);
    assert!(scene.view(id).expect("there").lease.is_some());
    scene.run_to(60_001);
    assert_eq!((scene.times(id).len(), scene.record(id).failures, scene.cut), (1, 1, 0));
}

/// C137: a report that comes after its lease neither reopens what has ended nor ends what is
/// out again, unless it is a 2xx.
#[test]
fn c137_a_late_report_changes_nothing() {
    let script = |sent: &Sent| match (sent.body, sent.attempt) {
        (_, 1) => Some((answered(503, None), 40_000)),
        (b'o', _) => Some((answered(200, None), 10)),
        (_, _) => Some((answered(200, None), 14_000)),
    };
    let mut scene = Scene::new(Setting { destinations: 2, ..Setting::default() }, script);
    let over = scene.post(0, |new| new.body = NewBody::new(vec![b'o'].into())).expect("taken");
    let over = over.delivery.delivery.id;
    let out = scene.deliver(1);
    scene.run_to(39_999);
    assert_eq!(scene.cut, 2, "both leases ran out");
    assert_eq!(scene.ending(over), Some(Ending::Delivered));
    scene.run_to(HOUR);
    for id in [over, out] {
        let it = scene.record(id);
        assert_eq!((scene.ending(id), it.attempts, it.failures), (Some(Ending::Delivered), 2, 0));
        assert_eq!(scene.times(id).len(), 2);
    }
}

/// What comes late changes nothing and is seen: in the attempts of what has not ended, and in the digest
/// of what a reference led to, so that the next attempt sends the same bytes or none.
#[test]
fn what_is_reported_late_is_seen() {
    let check = |outcome: Outcome, ended: bool, late: bool| {
        let mut scene = Scene::new(Setting::default(), |_| None);
        let reference = "file:///out/a".parse().expect("a reference");
        let id = scene.post(0, |new| new.body = NewBody::Reference { reference, sha256: None });
        let id = id.expect("taken").delivery.delivery.id;
        let lease = scene.view(id).expect("it is there").lease.expect("it is out");
        scene.run_to(26 * SECOND);
        assert_eq!(scene.cut, 1, "its lease is over");
        if ended {
            scene.command(Command::Cancel { id }).expect("it waits");
        }
        let before = scene.record(id);
        let dispatch = Dispatch { lease, revision: 1, fresh: None, keep_alive: true };
        scene.report(&dispatch, outcome.clone(), 0);
        let (_, mut report) = scene.reports.pop_first().expect("it was made");
        report.digest = Some([7; 32]);
        scene.step(Batch { reports: vec![report], ..Batch::default() });
        let after = scene.record(id);
        assert_eq!(after.payload.digest(), Some(&[7; 32]), "{outcome:?}");
        let (was, is) = (&before.log[0], &after.log[0]);
        assert_eq!((after.log.len(), is.late, is.n), (1, late, 1), "{outcome:?}");
        assert_eq!(is.result, if late { outcome.result() } else { was.result });
        assert_eq!(is.next_attempt_at, was.next_attempt_at);
        assert_eq!((after.state, after.attempts, after.failures), (before.state, 1, before.failures));
    };
    check(answered(503, None), false, true);
    check(answered(503, None), true, false);
    check(answered(200, None), true, false);
    check(Outcome::MaybeSent(MaybeSent::Interrupted), false, false);
}

/// C143: what was cancelled stays so, whatever a restart finds.
#[test]
fn c143_a_restart_brings_nothing_back() {
    let mut scene = Scene::new(Setting::default(), |_| None);
    for round in 0..50_u64 {
        let id = scene.deliver(0);
        scene.run_to(round * MINUTE + 20);
        if round % 3 == 0 {
            scene.restart(1_000);
        }
        scene.command(Command::Cancel { id }).expect("it has not ended");
        scene.restart(1_000);
        scene.run_to((round + 1) * MINUTE);
        let sent = scene.times(id).len();
        assert_eq!(scene.ending(id), Some(Ending::Cancelled), "round {round}");
        scene.restart(1_000);
        assert_eq!(scene.times(id).len(), sent, "round {round}: sent after its end");
        assert!(scene.sent.iter().all(|sent| sent.body == b'x'));
        scene.mono = (round + 1) * MINUTE;
    }
}

/// C103, C162: a key lives as long as the record of its delivery, and then makes a new one.
#[test]
fn c103_c162_a_key_lives_as_long_as_its_record() {
    let day = 24 * HOUR;
    let mut scene = Scene::new(Setting { retention: Millis(day), ..Setting::default() }, |_| soon(204, None));
    let again = |scene: &mut Scene, at: u64| {
        scene.run_to(at);
        let taken = scene.post(0, |new| new.key = Some(key("k"))).expect("taken");
        (taken.delivery.delivery.id, taken.duplicate)
    };
    let (id, duplicate) = again(&mut scene, 0);
    assert!(!duplicate);
    assert_eq!(again(&mut scene, MINUTE), (id, true));
    assert_eq!(again(&mut scene, day - MINUTE), (id, true));
    let (other, duplicate) = again(&mut scene, day + 10 * MINUTE);
    assert!(other != id && !duplicate);
    assert_eq!(scene.view(id), None);
    assert_eq!(scene.sent.len(), 2);
}

/// An attempt that was cut off by a stop goes out again at once after the start, as if the
/// process had died.
#[test]
fn what_a_stop_cuts_off_is_due_at_once() {
    let script = |sent: &Sent| match sent.attempt {
        1 => Some((Outcome::MaybeSent(MaybeSent::Interrupted), 2_000)),
        _ => soon(204, None),
    };
    let mut scene = Scene::new(Setting::default(), script);
    let id = scene.deliver(0);
    scene.run_to(SECOND);
    scene.engine.as_mut().expect("open").stop_claims();
    scene.run_to(2 * SECOND);
    scene.restart(SECOND);
    scene.run_to(3 * SECOND + 10);
    assert_eq!(scene.times(id), [0, 3_000]);
    assert_eq!((scene.record(id).failures, scene.ending(id)), (0, Some(Ending::Delivered)));
}

/// What the README says of a receiver that always answers 503: when the attempts come, by the
/// policy's own numbers. The longest waits: half jitter takes up to half of each away.
fn table() -> (String, Vec<u64>) {
    let Policy { schedule, max_age, .. } = Policy::default();
    let mut text = String::from(
        "| after attempt | the next comes after | at most so long after the first |\n|---|---|---|\n",
    );
    let (mut age, mut ages) = (0, vec![0]);
    for n in 1.. {
        let step = schedule[(n - 1).min(schedule.len() - 1)];
        age += step.0;
        if age >= max_age.0 {
            text += &format!(
                "| {n} and later | the same, until it expires {max_age} after it was accepted | |\n"
            );
            break;
        }
        text += &format!("| {n} | {} to {step} | {} |\n", Millis(step.0 / 2), Millis(age));
        ages.push(age);
    }
    (text, ages)
}

#[test]
fn c196_the_retries_of_the_readme_are_those_of_the_code() {
    let (text, latest) = table();
    let readme = include_str!("../../../README.md");
    assert!(readme.contains(&text), "the README is to have\n{text}");
    let mut scene = Scene::new(Setting::default(), |_| soon(503, None));
    let id = scene.deliver(0);
    scene.run_to(73 * HOUR);
    assert_eq!(scene.ending(id), Some(Ending::Expired));
    let times = scene.times(id);
    for (n, (at, most)) in times.iter().zip(&latest).enumerate() {
        let late = u64::try_from(n).expect("few") * 20;
        assert!(*at <= most + late && *at >= most / 2, "attempt {}: {at} of {most}", n + 1);
    }
    assert!(times.len() >= latest.len(), "{times:?}");
}
