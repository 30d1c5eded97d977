//! The audit log: each change of an operator leaves its entry in the commit that makes it.

use std::sync::Arc;

use duehook::engine::command::{ClaimsOrder, Order, StateVerb};
use duehook::engine::jobs::JobOrder;
use duehook::model::{Action, AuditEntry, Secret};
use duehook::store::{AuditFilter, check};

use super::*;
use crate::sim::disk::Fault;
use crate::sim::rng::Rng;

const DAY: u64 = 24 * HOUR;

impl Scene {
    /// The whole log, the oldest entry first.
    fn audit(&self) -> Vec<AuditEntry> {
        let file = self.engine().reader().snapshot().expect("readable");
        let page = file.audit(&AuditFilter::default(), None, 1_000, &|| false).expect("readable");
        assert_eq!(page.next, None);
        page.items.into_iter().rev().collect()
    }

    /// The entries that `work` leaves: who, what, to what, and the detail.
    fn entries(&mut self, work: impl FnOnce(&mut Scene)) -> Vec<(String, Action, Option<String>, String)> {
        let before = self.audit().len();
        work(self);
        let entry = |it: AuditEntry| (it.by, it.action, it.object, it.detail);
        self.audit().into_iter().skip(before).map(entry).collect()
    }

    /// One order of `token:ops`, and the one entry that it leaves: action, object and detail.
    #[track_caller]
    fn noted(&mut self, what: Command, action: Action, object: Option<&str>, detail: &str) {
        let mut entries = self.entries(|scene| {
            scene.order("token:ops", what.clone()).unwrap_or_else(|error| panic!("{what:?}: {error}"));
        });
        assert_eq!(entries.len(), 1, "{what:?}: {entries:?}");
        let (by, got, of, says) = entries.remove(0);
        assert_eq!((&*by, got, of.as_deref()), ("token:ops", action, object), "{what:?}");
        assert!(says.contains(detail), "{what:?}: {says:?} does not say {detail:?}");
    }

    #[track_caller]
    fn unnoted(&mut self, what: Command) {
        let entries = self.entries(|scene| drop(scene.order("token:ops", what.clone())));
        assert_eq!(entries, [], "{what:?}");
    }
}

fn put(place: u32, change: impl FnOnce(&mut Destination)) -> Command {
    let mut settings = settings(8, Millis(15_000));
    change(&mut settings);
    let (name, settings) = (destination(place), Box::new(settings));
    Command::PutDestination { name, settings, keep_secrets: true, expect: Expect::Anything }
}

/// A request can be slower than a name changes hands: what counts is whose it is in the step.
#[test]
fn who_is_pinned_changes_no_destination_of_another_tenant() {
    let mut scene = Scene::new(Setting::default(), |_| soon(200, None));
    let shop = || destination(0);
    let pinned = |what: Command| Order {
        tenants: Some(Arc::new([name("stranger")])),
        ..Order::of(&"token:x".into(), what)
    };
    let secret = || Secret::symmetric(&[7; 32]).expect("a secret");
    for what in [
        put(0, |it| it.tenant = name("stranger")),
        Command::RotateSecret { name: shop(), secret: secret(), overlap: Millis(0) },
        Command::SetState { name: shop(), verb: StateVerb::Pause, reason: String::new() },
        Command::Hold { name: shop(), until: scene.now().wall.plus(Millis(HOUR)), reason: String::new() },
        Command::Release { name: shop() },
        Command::Job(JobOrder::Remove { name: shop(), expect: Expect::Anything, by: "token:x".into() }),
        Command::DeleteDestination { name: shop(), expect: Expect::Anything },
    ] {
        let batch = Batch { commands: vec![pinned(what.clone())], ..Batch::default() };
        assert_eq!(scene.step(batch).commands, [Err(CommandError::TenantNotAllowed)], "{what:?}");
    }
    let release = Command::Release { name: destination(9) };
    let batch = Batch { commands: vec![pinned(release)], ..Batch::default() };
    assert_eq!(scene.step(batch).commands, [Err(CommandError::DestinationUnknown)]);
}

#[test]
fn every_change_of_a_destination_is_noted_and_no_other() {
    let mut scene = Scene::new(Setting { destinations: 0, ..Setting::default() }, |_| soon(200, None));
    let it = || destination(0);
    let state = |verb, reason: &str| Command::SetState { name: it(), verb, reason: reason.to_owned() };
    let d0 = Some("d0");
    scene.noted(put(0, |_| {}), Action::DestinationCreate, d0, "tenant acme, host receiver.example");
    scene.noted(put(0, |_| {}), Action::DestinationUpdate, d0, "nothing differs");
    let other = put(0, |it| {
        it.url = "https://receiver.example/secret-path?key=1".parse().expect("a URL");
        it.timeout = Millis(5_000);
    });
    scene.noted(other, Action::DestinationUpdate, d0, "changed url, timeout_ms");
    scene.noted(state(StateVerb::Pause, "upgrade"), Action::DestinationPause, d0, "was active: upgrade");
    scene.unnoted(state(StateVerb::Pause, "again"));
    scene.noted(state(StateVerb::Disable, ""), Action::DestinationDisable, d0, "was paused");
    scene.unnoted(state(StateVerb::Resume, ""));
    scene.noted(state(StateVerb::Enable, ""), Action::DestinationEnable, d0, "was disabled");
    scene.noted(state(StateVerb::Pause, ""), Action::DestinationPause, d0, "was active");
    scene.noted(state(StateVerb::Resume, ""), Action::DestinationResume, d0, "was paused");
    let until = Timestamp(NOON + HOUR);
    let hold = Command::Hold { name: it(), until, reason: "they asked".to_owned() };
    scene.noted(hold, Action::DestinationHold, d0, "until 2026-01-15T13:00:00.000Z: they asked");
    scene.noted(
        Command::Release { name: it() },
        Action::DestinationRelease,
        d0,
        "was held until 2026-01-15T13",
    );
    scene.unnoted(Command::Release { name: it() });
    let secret = Secret::symmetric(&[7; 32]).expect("a secret");
    let rotate = Command::RotateSecret { name: it(), secret, overlap: Millis(HOUR) };
    scene.noted(rotate, Action::SecretRotate, d0, "overlap 1h");
    let expect = Expect::Version(DestNo(0), 1);
    scene.unnoted(Command::DeleteDestination { name: it(), expect });
    let delete = Command::DeleteDestination { name: it(), expect: Expect::Anything };
    scene.noted(delete, Action::DestinationDelete, d0, "tenant acme");
    scene.unnoted(state(StateVerb::Pause, ""));
    let all: String = scene.audit().iter().map(|it| it.detail.clone()).collect();
    assert!(!all.contains("secret-path") && !all.contains("key=1"), "{all}");
}

/// What an answer has changed is noted too, by the name of who changed it; once.
#[test]
fn a_destination_that_a_410_disables_is_noted() {
    let mut scene = Scene::new(Setting::default(), |_| soon(410, None));
    let entries = scene.entries(|scene| {
        scene.deliver(0);
        scene.deliver(0);
        scene.run_to(HOUR);
    });
    let says = "was active: the receiver answered 410 Gone".to_owned();
    let want = ("receiver".to_owned(), Action::DestinationDisable, Some("d0".to_owned()), says);
    assert_eq!(entries, [want]);
}

/// A removal with its work disables the destination: that is noted as any other, and only if it was not.
#[test]
fn a_removal_notes_that_it_disables() {
    let remove = || {
        let (name, expect) = (destination(0), Expect::Anything);
        Command::Job(JobOrder::Remove { name, expect, by: "token:ops".into() })
    };
    let check = |disabled: bool, want: &[(Action, &str)]| {
        let mut scene = Scene::new(Setting::default(), |_| None);
        scene.deliver(0);
        if disabled {
            let (name, reason) = (destination(0), String::new());
            scene.command(Command::SetState { name, verb: StateVerb::Disable, reason }).expect("it is there");
        }
        let entries = scene.entries(|scene| _ = scene.order("token:ops", remove()).expect("it begins"));
        let got: Vec<_> = entries.iter().map(|(_, action, _, says)| (*action, &**says)).collect();
        assert_eq!(got, want);
        assert!(entries.iter().all(|(by, ..)| by == "token:ops"));
    };
    let disables = (Action::DestinationDisable, "was active: it is being removed");
    check(false, &[disables, (Action::BulkStart, "cancel")]);
    check(true, &[(Action::BulkStart, "cancel")]);
}

/// However many entries a step leaves, each has its own number.
#[test]
fn a_step_with_thousands_of_entries_keeps_them_all() {
    let mut scene = Scene::new(Setting::default(), |_| None);
    let before = scene.audit().len();
    let verbs = [StateVerb::Pause, StateVerb::Resume];
    for _ in 0..2 {
        let set = |verb| Command::SetState { name: destination(0), verb, reason: String::new() };
        let commands = verbs.iter().cycle().take(5_000).map(|verb| set(*verb).into()).collect();
        scene.step(Batch { commands, ..Batch::default() });
    }
    let file = scene.engine().reader().snapshot().expect("readable");
    let (mut from, mut all) = (None, 0);
    loop {
        let page = file.audit(&AuditFilter::default(), from, 1_000, &|| false).expect("readable");
        all += page.items.len();
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(all - before, 10_000);
}

/// What had ended, and how, is still known when a new round has begun.
#[test]
fn the_earlier_end_stays_in_the_log() {
    let mut scene = Scene::new(Setting::default(), |_| soon(404, None));
    let id = scene.deliver(0);
    scene.run_to(SECOND);
    assert_eq!(scene.ending(id), Some(Ending::Rejected));
    let text = id.to_string();
    let was = "was rejected since 2026-01-15T12:00:00.005Z, attempts 1, failures 0, throttles 0";
    scene.noted(Command::Retry { id }, Action::DeliveryRetry, Some(&text), was);
    assert_eq!(scene.ending(id), None, "it goes out again");
    scene.unnoted(Command::Cancel { id: DeliveryId(7) });
    scene.run_to(2 * SECOND);
    scene.noted(Command::Erase { id }, Action::DeliveryErase, Some(&text), "was rejected since");
    scene.unnoted(Command::Erase { id });
    scene.unnoted(Command::Retry { id });
    let late = |new: &mut NewDelivery| new.not_before = Some(Timestamp(NOON + HOUR));
    let waits = scene.post(0, late).expect("taken").delivery.delivery.id;
    let cancel = Command::Cancel { id: waits };
    scene.noted(
        cancel.clone(),
        Action::DeliveryCancel,
        Some(&waits.to_string()),
        "was waiting, due 2026-01-15T13",
    );
    scene.unnoted(cancel);
}

#[test]
fn orders_to_the_whole_server_are_noted() {
    let mut scene = Scene::new(Setting::default(), |_| soon(200, None));
    let mut check = |what: ClaimsOrder, want: Option<(Action, &str)>| {
        let entries = scene.entries(|scene| {
            let order = Order::of(&"uid:1000".into(), what);
            scene.step(Batch { claims: vec![order], ..Batch::default() });
        });
        let got: Vec<_> = entries
            .iter()
            .map(|(by, action, object, says)| (&**by, *action, object.clone(), &**says))
            .collect();
        let want: Vec<_> = want.into_iter().map(|(action, says)| ("uid:1000", action, None, says)).collect();
        assert_eq!(got, want, "{what:?}");
    };
    check(ClaimsOrder::Start { fence: None }, None);
    check(ClaimsOrder::Stop, Some((Action::ClaimsStop, "was running")));
    check(ClaimsOrder::Stop, None);
    check(ClaimsOrder::Start { fence: None }, Some((Action::ClaimsStart, "was stopped")));
    check(ClaimsOrder::Drain, Some((Action::Drain, "was running, fence 1")));
    check(ClaimsOrder::Start { fence: Some(7) }, None);
    check(ClaimsOrder::Start { fence: Some(1) }, Some((Action::ClaimsStart, "was drained")));
    let (action, detail) = (Action::Backup, "to /mnt/a.redb".to_owned());
    scene.noted(Command::Note { action, object: None, detail }, Action::Backup, None, "to /mnt/a.redb");
}

/// Whatever moment the process dies in: there is an entry exactly where there is the change.
#[test]
fn a_crash_keeps_change_and_entry_together() {
    let (mut both, mut rng) = (0, Rng::new(7));
    for writes in 0..200 {
        let mut scene = Scene::new(Setting::default(), |_| soon(200, None));
        let before = scene.audit().len();
        scene.disk.watch(true);
        scene.disk.arm(Some(Fault::Stop { after: writes }));
        let now = scene.now();
        let pause = Command::SetState { name: destination(0), verb: StateVerb::Pause, reason: String::new() };
        let batch = Batch { commands: vec![pause.into()], ..Batch::default() };
        let told = scene.engine.as_mut().expect("it is open").step(now, batch).is_ok();
        if writes % 2 == 1 {
            scene.disk.lose(&mut rng);
        }
        scene.restart(SECOND);
        let file = scene.engine().reader().snapshot().expect("readable");
        let paused = file.destination(&destination(0)).expect("readable").expect("it is there");
        let paused = paused.note.state == duehook::model::DestinationState::Paused;
        let noted = scene.audit().len() > before;
        assert_eq!(paused, noted, "after {writes} writes");
        assert!(paused || !told, "after {writes} writes: what was told is there");
        both += u32::from(paused);
        let found = check::check(&file).expect("readable");
        assert_eq!(found.problems, [] as [String; 0]);
        if told {
            break;
        }
    }
    assert!(both > 0);
}

#[test]
fn entries_go_when_their_time_is_over_a_page_a_step() {
    let mut scene = Scene::new(Setting::default(), |_| soon(200, None));
    for _ in 0..300 {
        scene.command(put(0, |_| {})).expect("it is there");
    }
    // Whoever sleeps for so long wakes up once.
    let later = |scene: &mut Scene, at: u64| {
        scene.mono = at;
        scene.step(Batch::default());
        scene.audit().len()
    };
    assert_eq!(later(&mut scene, 89 * DAY), 301);
    scene.command(put(0, |_| {})).expect("it is there");
    assert_eq!(later(&mut scene, 90 * DAY - 1), 302);
    assert_eq!(later(&mut scene, 90 * DAY), 302 - 256, "a page");
    assert_eq!(later(&mut scene, 90 * DAY), 1, "the young one stays");
    scene.restart(0);
    assert_eq!(later(&mut scene, 179 * DAY - 1), 1);
    assert_eq!(later(&mut scene, 179 * DAY), 0);
}
