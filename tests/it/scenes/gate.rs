//! One destination's trouble: it is left alone, and nobody else notices.

use duehook::engine::command::{Command, Rejected, StateVerb};
use duehook::model::DestinationState;

use super::*;

/// C033: one 429 holds the whole destination. The others keep their due times and no attempt
/// is made for them.
#[test]
fn c033_one_refusal_holds_all_that_waits() {
    let script = |sent: &Sent| if sent.nth == 1 { soon(429, Some("60")) } else { soon(204, None) };
    let mut scene = Scene::new(Setting::default(), script);
    let first = scene.deliver(0);
    let others: Vec<_> = (0..49).map(|_| scene.deliver(0)).collect();
    let due: Vec<u64> = others.iter().map(|id| scene.due(*id)).collect();
    scene.run_to(59_999);
    assert_eq!(scene.sent.len(), 1);
    let hold = scene.gate(0).hold.expect("it is held");
    assert!(scene.after(hold.until) >= 60_005 && scene.after(hold.until) <= 66_005);
    for (id, due) in others.iter().zip(due) {
        assert_eq!((scene.record(*id).attempts, scene.due(*id)), (0, due));
    }
    scene.run_to(2 * MINUTE);
    assert_eq!(scene.sent.len(), 51);
    assert!(scene.sent[1].at >= scene.after(hold.until));
    assert_eq!(scene.times(first).len(), 2);
}

/// C037: a hold moves no due time. What is due inside it goes out at its end.
#[test]
fn c037_the_time_that_was_computed_is_the_one_that_is_stored() {
    let script = |sent: &Sent| if sent.attempt == 1 { soon(500, Some("200")) } else { soon(204, None) };
    let mut scene = Scene::new(Setting::default(), script);
    let id = scene.deliver(0);
    scene.run_to(SECOND);
    let due = scene.due(id);
    assert!((200_005..=220_005).contains(&due), "{due}");
    let until = Timestamp(NOON + 300 * SECOND);
    scene.command(Command::Hold { name: destination(0), until, reason: String::new() }).expect("held");
    for look in [150, 210, 250, 299] {
        scene.run_to(look * SECOND);
        assert_eq!((scene.due(id), scene.sent.len()), (due, 1), "at {look} s");
    }
    scene.run_to(400 * SECOND);
    assert_eq!(scene.times(id), [0, 300_000]);
}

/// C068: a 410 disables the destination; what waits is kept until an operator enables it.
#[test]
fn c068_gone_disables_and_keeps_what_waits() {
    let script = |sent: &Sent| if sent.nth == 1 { soon(410, None) } else { soon(204, None) };
    let mut scene = Scene::new(Setting::default(), script);
    let first = scene.deliver(0);
    let others: Vec<_> = (0..10).map(|_| scene.deliver(0)).collect();
    scene.run_to(HOUR);
    assert_eq!(scene.ending(first), Some(Ending::DestinationGone));
    assert_eq!(scene.sent.len(), 1);
    let refused = scene.post(0, |_| {});
    assert!(matches!(refused, Err(Rejected::DestinationDisabled { .. })), "{refused:?}");
    let reason = "moved".to_owned();
    let enable = Command::SetState { name: destination(0), verb: StateVerb::Enable, reason };
    match scene.command(enable) {
        Ok(Done::Changed(view)) => assert_eq!(view.note.state, DestinationState::Active),
        other => panic!("{other:?}"),
    }
    scene.run_to(2 * HOUR);
    assert!(others.iter().all(|id| scene.ending(*id) == Some(Ending::Delivered)));
    assert_eq!(scene.sent.len(), 11);
}

/// An answer to a request that went out before the URL was changed, or before an operator enabled the
/// destination, ends its own delivery and does nothing to the destination. Any other does.
#[test]
fn what_was_answered_before_it_was_moved_or_enabled_is_not_its_word() {
    let moved = |concurrency| {
        let mut settings = settings(concurrency, Millis(15_000));
        settings.url = "https://elsewhere.example/hook".parse().expect("a URL");
        put(settings)
    };
    fn put(settings: Destination) -> Command {
        let (settings, expect) = (Box::new(settings), Expect::Anything);
        Command::PutDestination { name: destination(0), settings, keep_secrets: true, expect }
    }
    let state = |verb| Command::SetState { name: destination(0), verb, reason: String::new() };
    let check = |script: Script, orders: &[Command], learns: bool| {
        let mut scene = Scene::new(Setting::default(), script);
        let first = scene.deliver(0);
        assert_eq!(scene.sent.len(), 1);
        for order in orders {
            scene.command(order.clone()).expect("it is there");
        }
        scene.run_to(SECOND);
        let gate = scene.gate(0);
        let told = gate.hold.is_some() || scene.post(0, |_| {}).is_err();
        assert_eq!(told, learns, "{orders:?}");
        // The attempt is what it was.
        assert_eq!(scene.record(first).attempts, 1, "{orders:?}");
        scene.run_to(2 * HOUR);
        assert_eq!(scene.sent.len() > 1 && scene.post(0, |_| {}).is_ok(), !learns || gate.hold.is_some());
    };
    let gone: Script = |sent| if sent.nth == 1 { soon(410, None) } else { soon(204, None) };
    let busy: Script = |sent| if sent.nth == 1 { soon(429, Some("60")) } else { soon(204, None) };
    for script in [gone, busy] {
        check(script, &[], true);
        check(script, &[put(settings(3, Millis(15_000)))], true);
        check(script, &[state(StateVerb::Pause), state(StateVerb::Resume)], true);
        check(script, &[moved(8)], false);
        check(script, &[state(StateVerb::Disable), state(StateVerb::Enable)], false);
    }
}

/// C119: one hangs until its timeout with thousands waiting; the other is served at once.
#[test]
fn c119_a_slow_destination_delays_no_other() {
    let script = |sent: &Sent| match sent.place {
        0 => Some((Outcome::MaybeSent(MaybeSent::Timeout), 30_000)),
        _ => soon(204, None),
    };
    let setting =
        Setting { destinations: 2, concurrency: 5, slots: 50, timeout: Millis(30_000), ..Setting::default() };
    let mut scene = Scene::new(setting, script);
    (0..2_000).for_each(|_| _ = scene.deliver(0));
    let mut late = Vec::new();
    for n in 0..1_000_u64 {
        scene.run_to(n * 60);
        let id = scene.deliver(1);
        scene.run_to(n * 60 + 59);
        let first = *scene.times(id).first().unwrap_or(&u64::MAX);
        late.push(first - n * 60);
    }
    late.sort_unstable();
    assert!(late[989] < SECOND, "the 99th percentile is {} ms", late[989]);
    assert!(scene.peak[&0] <= 5, "{} in flight to the slow one", scene.peak[&0]);
}

/// C126: however tasks end, every slot comes back.
#[test]
fn c126_every_slot_comes_back() {
    let script = |sent: &Sent| any(sent.attempt * 7 + sent.body as u32).map(|outcome| (outcome, 10));
    let setting = Setting { destinations: 4, concurrency: 3, slots: 8, ..Setting::default() };
    let mut scene = Scene::new(setting, script);
    for n in 0..1_000_u32 {
        let body = NewBody::new(vec![n as u8].into());
        let taken = scene.post(n % 4, |new| (new.body, new.max_age) = (body, Some(Millis(4 * HOUR))));
        let id = taken.expect("it is taken").delivery.delivery.id;
        if n % 11 == 0 {
            drop(scene.command(Command::Cancel { id }));
        }
        scene.run_to(u64::from(n) * 50);
        assert!(scene.engine().slots().1 <= 8);
    }
    scene.run_to(6 * HOUR);
    assert!(scene.cut > 0, "no lease ran out");
    assert_eq!(scene.engine().slots(), (8, 0));
    for place in 0..4 {
        let gate = scene.gate(place);
        assert_eq!((gate.in_flight, gate.waiting), (0, 0), "destination {place}");
    }
}

/// C128: order is not promised: what waits for its repeat holds up nobody.
#[test]
fn c128_a_repeat_that_waits_holds_up_nobody() {
    let script = |sent: &Sent| if sent.nth == 1 { soon(500, None) } else { soon(204, None) };
    let mut scene = Scene::new(Setting::default(), script);
    let first = scene.deliver(0);
    scene.run_to(10);
    let others = [scene.deliver(0), scene.deliver(0)];
    scene.run_to(SECOND);
    assert!(others.iter().all(|id| scene.ending(*id) == Some(Ending::Delivered)));
    assert_eq!(scene.ending(first), None);
    scene.run_to(MINUTE);
    assert_eq!(scene.ending(first), Some(Ending::Delivered));
}
