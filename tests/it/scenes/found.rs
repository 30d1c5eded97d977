//! What reviews found, each as the story that shows it.

use duehook::engine::command::{ClaimsOrder, Command, Done, Expect, StateVerb};
use duehook::model::Rate;
use duehook::outcome::Ending;

use super::*;

fn new(place: u32, not_before: Option<u64>) -> NewDelivery {
    NewDelivery {
        destination: destination(place),
        tenant: None,
        class: None,
        key: None,
        not_before: not_before.map(|at| Timestamp(NOON + at)),
        max_age: None,
        max_failures: None,
        headers: vec![],
        labels: vec![],
        content_type: "text/plain".into(),
        body: NewBody::new(vec![b'x'].into()),
    }
}

/// I17: two far-off deliveries and more due now than a lane keeps in RAM, in one request to a
/// destination with room for all: the second far-off one was in RAM no more and on disk not yet
/// when the lane's page was read, and was never sent.
#[test]
fn fresh_work_that_finds_no_room_in_ram_is_on_disk_before_its_page_is_read() {
    let setting = Setting { concurrency: 200, slots: 256, ..Setting::default() };
    let mut scene = Scene::new(setting, |_| soon(200, None));
    for _ in 0..150 {
        scene.deliver(0);
        scene.run_to(scene.mono + 10);
    }
    assert!(scene.gate(0).limit > 100, "the gate has opened wide");
    let now = scene.mono;
    let mut batch = vec![new(0, Some(now + HOUR)), new(0, Some(now + 2 * HOUR))];
    batch.extend((0..70).map(|_| new(0, None)));
    let step = scene.step(Batch { accepts: vec![batch], ..Batch::default() });
    let taken = step.accepts[0].iter().map(|it| it.as_ref().expect("taken").delivery.delivery.id);
    let ids: Vec<DeliveryId> = taken.collect();
    scene.run_to(now + 10 * HOUR);
    for id in ids {
        assert_eq!(scene.ending(id), Some(Ending::Delivered), "{:?}", scene.record(id).state);
    }
}

/// `max_terminal` acts when it is exceeded, not when the first record is old in any case.
#[test]
fn more_ended_deliveries_than_are_kept_go_after_a_day() {
    let mut scene = Scene::new(Setting { max_terminal: 10, ..Setting::default() }, |_| soon(200, None));
    let mut ids = Vec::new();
    for _ in 0..50 {
        ids.push(scene.deliver(0));
        scene.run_to(scene.mono + SECOND);
    }
    scene.run_to(23 * HOUR);
    assert!(ids.iter().all(|id| scene.view(*id).is_some()), "none younger than a day goes");
    scene.run_to(25 * HOUR);
    let left = ids.iter().filter(|id| scene.view(**id).is_some()).count();
    assert_eq!(left, 10);
}

/// Answers to requests from before an operator's hold do not widen the gate that it will open.
#[test]
fn an_operators_hold_reopens_with_one_request() {
    let script = |sent: &Sent| Some((answered(200, None), if sent.nth > 20 { 3 * SECOND } else { 5 }));
    let mut scene = Scene::new(Setting::default(), script);
    for _ in 0..20 {
        scene.deliver(0);
        scene.run_to(scene.mono + 10);
    }
    for _ in 0..8 {
        scene.deliver(0);
    }
    let until = Timestamp(NOON + scene.mono + MINUTE);
    scene.command(Command::Hold { name: destination(0), until, reason: String::new() }).expect("it is there");
    scene.run_to(scene.mono + 10 * SECOND);
    assert_eq!(scene.gate(0).limit, 1);
}

/// A gate whose interrupted work waits for a slot still sends other work when that is due.
#[test]
fn interrupted_work_that_waits_for_a_slot_does_not_hold_back_what_is_due() {
    let script = |sent: &Sent| match (sent.attempt, sent.body) {
        (1, b'x') => None,
        _ => Some((answered(200, None), 14 * SECOND)),
    };
    let mut scene = Scene::new(Setting { destinations: 2, ..Setting::default() }, script);
    let state = |place: u32, verb: StateVerb| Command::SetState {
        name: destination(place),
        verb,
        reason: String::new(),
    };
    for place in 0..2 {
        scene.deliver(place);
        scene.command(state(place, StateVerb::Pause)).expect("it is there");
    }
    for _ in 0..4 {
        scene.restart(100); // each soon after the last: one slot is left for interrupted work
    }
    let scheduled = scene.post(1, |it| {
        it.not_before = Some(Timestamp(NOON + 10 * SECOND));
        it.body = NewBody::new(vec![b's'].into());
    });
    let id = scheduled.expect("taken").delivery.delivery.id;
    for place in 0..2 {
        scene.command(state(place, StateVerb::Resume)).expect("it is there");
    }
    scene.run_to(MINUTE);
    assert_eq!(scene.times(id), [10 * SECOND]);
}

/// A reader that is still reading when the file is closed hears that, and not of a broken disk.
#[test]
fn a_snapshot_of_a_closed_file_says_so() {
    use duehook::store::{Filter, Order, StoreError};
    let mut scene = Scene::new(Setting::default(), |_| soon(200, None));
    for _ in 0..300 {
        scene.deliver(0);
        scene.run_to(scene.mono + 10);
    }
    let snapshot = scene.engine().reader().snapshot().expect("open");
    let reader = scene.engine().reader();
    let now = scene.now();
    scene.engine.take().expect("open").close(now).expect("closed");
    let page = snapshot.list(&Filter::default(), Order::OldestCreated, None, 50, now.wall, &|| false);
    assert!(matches!(page, Err(StoreError::Closed)), "{page:?}");
    assert!(matches!(reader.snapshot(), Err(StoreError::Closed)));
}

/// A key lives as long as the record of its delivery, and so through the end of its destination: a
/// provisioning tool that deletes and makes it again is no reason to deliver an event twice.
#[test]
fn a_key_outlives_its_destination() {
    let mut scene = Scene::new(Setting::default(), |_| soon(200, None));
    let keyed = |scene: &mut Scene| {
        let post = scene.post(0, |it| it.key = Some("k".parse().expect("a key"))).expect("it is taken");
        (post.delivery.delivery.id, post.duplicate)
    };
    let make = |scene: &mut Scene, tenant: &str| {
        let mut settings = settings(8, Millis(15_000));
        settings.tenant = name(tenant);
        let (name, settings, expect) = (destination(0), Box::new(settings), Expect::New);
        let made = scene.command(Command::PutDestination { name, settings, keep_secrets: true, expect });
        let Ok(Done::Created(view)) = made else { panic!("{made:?}") };
        (view.no.0, view.revision)
    };
    let remove = |scene: &mut Scene| {
        let delete = Command::DeleteDestination { name: destination(0), expect: Expect::Anything };
        assert_eq!(scene.command(delete), Ok(Done::Deleted));
    };
    let (first, _) = keyed(&mut scene);
    scene.run_to(1_000);
    assert_eq!(scene.ending(first), Some(Ending::Delivered));
    let tenant = scene.view(first).expect("it is kept").tenant;
    remove(&mut scene);
    assert_eq!(make(&mut scene, tenant.as_str()), (0, 3), "its number, and a tag that it never had");
    assert_eq!(keyed(&mut scene), (first, true));
    // Another tenant's is another one, and has no part in it.
    remove(&mut scene);
    assert_eq!(make(&mut scene, "stranger"), (1, 1));
    let (theirs, duplicate) = keyed(&mut scene);
    assert!(theirs != first && !duplicate);
    scene.run_to(2_000);
    remove(&mut scene);
    scene.restart(10);
    assert_eq!(make(&mut scene, tenant.as_str()), (0, 5));
    // And the number that is in use leads there after a start, though a later one had the name.
    scene.restart(10);
    assert_eq!(keyed(&mut scene), (first, true));
    let sent = scene.deliver(0);
    scene.run_to(3_000);
    assert_eq!(scene.ending(sent), Some(Ending::Delivered));
    let file = scene.engine().reader().snapshot().expect("readable");
    let checked = duehook::store::check::check(&file).expect("readable");
    assert_eq!(checked.problems, [] as [String; 0]);
}

/// I17: the last row of a lane on disk is claimed in the step that brings more to it. The lane waits for
/// its rate then and keeps its head alone, so what is fresh beyond that was forgotten when the row went.
#[test]
fn what_comes_with_the_claim_of_the_last_row_is_not_forgotten() {
    let mut scene = Scene::new(Setting::default(), |_| soon(200, None));
    for _ in 0..8 {
        scene.deliver(0);
        scene.run_to(scene.mono + 10);
    }
    assert!(scene.gate(0).limit > 1, "its rate is what shuts it");
    let mut slow = settings(8, Millis(15_000));
    slow.rate = Rate::per_second(0.5, 1);
    let (name, settings, expect) = (destination(0), Box::new(slow), Expect::Anything);
    scene
        .command(Command::PutDestination { name, settings, keep_secrets: true, expect })
        .expect("it is there");
    scene.run_to(10_000);
    let claims = |order: ClaimsOrder| Batch { claims: vec![order.into()], ..Batch::default() };
    scene.step(claims(ClaimsOrder::Stop));
    let first = scene.deliver(0);
    scene.run_to(20_000);
    let accepts = vec![vec![new(0, None), new(0, None), new(0, None)]];
    let step = scene.step(Batch { accepts, ..claims(ClaimsOrder::Start { fence: None }) });
    let mut all = vec![first];
    all.extend(step.accepts[0].iter().map(|it| it.as_ref().expect("taken").delivery.delivery.id));
    scene.run_to(60_000);
    let ends: Vec<_> = all.iter().map(|id| scene.ending(*id)).collect();
    assert_eq!(ends, [Some(Ending::Delivered); 4]);
}

/// Ending a hold that is over, or that there is none of, is no reason to ask the receiver anew.
#[test]
fn a_release_without_a_hold_changes_nothing() {
    let mut scene = Scene::new(Setting::default(), |_| soon(200, None));
    let warm = |scene: &mut Scene| {
        for _ in 0..8 {
            scene.deliver(0);
            scene.run_to(scene.mono + 10);
        }
        scene.gate(0).limit
    };
    let release = || Command::Release { name: destination(0) };
    let before = warm(&mut scene);
    assert!(before > 1, "it has opened");
    scene.command(release()).expect("it is there");
    assert_eq!(scene.gate(0).limit, before, "it was never held");
    let until = scene.now().wall.plus(Millis(1_000));
    scene.command(Command::Hold { name: destination(0), until, reason: String::new() }).expect("it is there");
    scene.run_to(scene.mono + 2_000);
    let before = warm(&mut scene);
    assert!(before > 1, "it has opened again");
    scene.command(release()).expect("it is there");
    assert_eq!(scene.gate(0).limit, before, "the hold was over");
}
