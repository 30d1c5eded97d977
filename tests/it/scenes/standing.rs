//! How a destination stands: what is counted against it, since when, and who has changed it.

use duehook::engine::command::StateVerb;
use duehook::model::{Action, DestinationState};
use duehook::store::AuditFilter;

use super::*;

/// C181: what was counted against a destination counts no more once it is enabled: the next failure
/// is its first.
#[test]
fn c181_enabling_clears_the_counters() {
    let script = |sent: &Sent| match sent.nth {
        1..=3 | 5 => soon(500, None),
        4 => soon(410, None),
        _ => soon(204, None),
    };
    let mut scene = Scene::new(Setting { concurrency: 1, ..Setting::default() }, script);
    let ids: Vec<_> = (0..20).map(|_| scene.deliver(0)).collect();
    scene.run_to(SECOND * 5);
    assert_eq!(scene.requests[&0], 4, "it is disabled");
    assert!(scene.post(0, |_| {}).is_err());
    let enable = Command::SetState { name: destination(0), verb: StateVerb::Enable, reason: "moved".into() };
    let Ok(Done::Changed(view)) = scene.order("token:ops", enable) else { panic!("it is enabled") };
    assert_eq!((view.note.state, &*view.note.by), (DestinationState::Active, "token:ops"));
    assert_eq!(view.note.since, scene.now().wall);
    let gate = scene.gate(0);
    assert_eq!((gate.failure_streak, gate.failing_since), (0, None));
    let sent = scene.mono;
    scene.run_to(sent + 5);
    let gate = scene.gate(0);
    assert_eq!((gate.failure_streak, gate.failing_since), (1, Some(scene.now().wall)));
    assert_eq!(scene.sent[4].at, sent, "what was kept goes out at once");
    assert!(scene.post(0, |_| {}).is_ok(), "one failure does not disable it");
    scene.run_to(HOUR);
    let delivered = ids.iter().filter(|id| scene.ending(**id) == Some(Ending::Delivered));
    assert_eq!(delivered.count(), 19, "all but the one that was answered 410");
    let file = scene.engine().reader().snapshot().expect("readable");
    let filter = AuditFilter { actions: vec![Action::DestinationEnable], ..AuditFilter::default() };
    let entries = file.audit(&filter, None, 10, &|| false).expect("readable").items;
    assert_eq!((entries.len(), &*entries[0].by), (1, "token:ops"));
    assert!(entries[0].detail.contains("was disabled: moved"), "{}", entries[0].detail);
}

/// One request an hour, for weeks.
fn hourly() -> Setting {
    let policy =
        Policy { schedule: vec![Millis(HOUR)], max_age: Millis(30 * 24 * HOUR), ..Policy::default() };
    Setting { policy, ..Setting::default() }
}

/// C186: since when it fails is the time of the first failure, whatever fails after that; a success
/// ends the row, and the next failure begins another.
#[test]
fn c186_the_first_failure_is_not_overwritten() {
    let mut scene = Scene::new(hourly(), |_| soon(500, None));
    scene.deliver(0);
    scene.run_to(SECOND);
    let first = scene.gate(0).failing_since.expect("it fails");
    assert_eq!(scene.after(first), 5);
    for hour in 1..=96 {
        scene.run_to(hour * HOUR);
        assert_eq!(scene.gate(0).failing_since, Some(first), "in hour {hour}");
    }
    let streak = scene.gate(0).failure_streak;
    assert!(streak >= 96, "{streak}");
    scene.restart(SECOND);
    assert_eq!(scene.gate(0).failing_since, Some(first), "after a restart");

    let mut scene = Scene::new(hourly(), |sent| soon(if sent.nth == 48 { 204 } else { 500 }, None));
    scene.deliver(0);
    while scene.requests.get(&0).is_none_or(|n| *n < 48) {
        scene.run_to(scene.mono + 10 * MINUTE);
    }
    let gate = scene.gate(0);
    assert_eq!((gate.failing_since, gate.failure_streak), (None, 0));
    let success = gate.last_success_at.expect("it took one");
    scene.deliver(0);
    scene.run_to(96 * HOUR);
    let anew = scene.gate(0).failing_since.expect("it fails again");
    assert!(anew > success && scene.after(anew) < scene.after(success) + HOUR, "{success} {anew}");
}
