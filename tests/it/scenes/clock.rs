//! The wall clock jumps: nothing is lost, nothing ends because of it.

use super::*;

/// C113: three hours forward. What is due goes out under its limits, what is in flight keeps its
/// lease, and nothing expires until the clock has stood.
#[test]
fn c113_a_jump_forward_loses_nothing() {
    let script =
        |sent: &Sent| if sent.at < 10 { Some((answered(204, None), 14_000)) } else { soon(204, None) };
    let setting = Setting { destinations: 10, concurrency: 5, slots: 50, ..Setting::default() };
    let mut scene = Scene::new(setting, script);
    let running: Vec<_> = (0..5).map(|place| scene.deliver(place)).collect();
    let mut waiting = Vec::new();
    for n in 0..1_000_u32 {
        let later = Timestamp(NOON + MINUTE + u64::from(n) * 7_000);
        let taken = scene.post(n % 10, |new| {
            new.not_before = Some(later);
            new.max_age = Some(Millis(MINUTE));
        });
        waiting.push(taken.expect("it is taken").delivery.delivery.id);
    }
    scene.run_to(10 * SECOND);
    assert_eq!(scene.sent.len(), 5);
    scene.wall_ahead = 3 * HOUR;
    scene.run_to(20 * SECOND);
    assert!(scene.sent.len() > 5, "a heartbeat later what is due goes out");
    assert!(scene.peak.values().all(|most| *most <= 5), "{:?}", scene.peak);
    scene.run_to(10 * MINUTE);
    assert_eq!(scene.cut, 0, "no lease was lost");
    for id in running.iter().chain(&waiting) {
        assert_eq!(scene.ending(*id), Some(Ending::Delivered));
    }
    assert_eq!(scene.sent.len(), 1_005);
}

/// The same clock, standing: after a quarter of an hour it is believed.
#[test]
fn a_clock_that_stands_is_believed() {
    let mut scene = Scene::new(Setting::default(), |_| soon(429, Some("3600")));
    let id = scene.deliver(0);
    scene.run_to(MINUTE);
    scene.wall_ahead = 100 * HOUR;
    scene.run_to(14 * MINUTE);
    assert_eq!(scene.ending(id), None);
    scene.run_to(18 * MINUTE);
    assert_eq!(scene.ending(id), Some(Ending::Expired));
}

/// Deaths do not prove a clock: after each the quarter of an hour begins anew, and what the clock
/// is compared with is not what it said while it was wrong.
#[test]
fn a_death_does_not_prove_a_clock() {
    let mut scene = Scene::new(Setting::default(), |_| soon(429, Some("3600")));
    let id = scene.deliver(0);
    scene.run_to(MINUTE);
    scene.wall_ahead = 100 * HOUR;
    for minute in [5, 10, 15, 20] {
        scene.run_to(minute * MINUTE);
        scene.restart(SECOND);
    }
    scene.run_to(34 * MINUTE);
    assert_eq!(scene.ending(id), None);
    scene.run_to(38 * MINUTE);
    assert_eq!(scene.ending(id), Some(Ending::Expired));
}

/// A clock that was put right again needs no proof after the next death.
#[test]
fn a_clock_that_was_put_right_is_believed_after_a_death() {
    let mut scene = Scene::new(Setting::default(), |_| soon(429, Some("3600")));
    let id =
        scene.post(0, |new| new.max_age = Some(Millis(10 * MINUTE))).expect("taken").delivery.delivery.id;
    scene.run_to(MINUTE);
    scene.wall_ahead = 100 * HOUR;
    scene.run_to(3 * MINUTE);
    scene.wall_ahead = 0;
    scene.run_to(4 * MINUTE);
    scene.restart(SECOND);
    scene.run_to(12 * MINUTE);
    assert_eq!(scene.ending(id), Some(Ending::Expired));
}
