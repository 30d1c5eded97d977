//! Erasing in virtual time: whatever a delivery is doing, nothing of its body is left, and it ends.

use duehook::delivery::NO_DIGEST;
use duehook::model::Header;
use duehook::store::check;

use super::*;

fn erase(scene: &mut Scene, id: DeliveryId) {
    scene.command(Command::Erase { id }).expect("an erase is never refused");
}

fn patient(new: &mut NewDelivery) {
    new.headers = vec![Header::new("x-patient", "7").expect("a header")];
    new.labels = vec![("patient".into(), "7".into())];
    new.key = Some(key("k"));
    new.body = NewBody::new(vec![b'x'; 40_000].into());
}

/// Nothing of it is left but the audit, and the file agrees with itself.
fn check_gone(scene: &Scene, id: DeliveryId, want: Option<Ending>) {
    let it = scene.record(id);
    assert!(it.is_erased() && it.headers.is_empty() && it.labels.is_empty());
    assert_eq!((it.payload.digest(), scene.ending(id)), (None, want));
    let checked = check::check(&scene.engine().reader().snapshot().expect("readable")).expect("readable");
    assert_eq!((checked.problems, checked.body_bytes), (vec![], 0));
}

#[test]
fn what_waits_ends_at_once_and_stays_so_after_a_crash() {
    let mut scene = Scene::new(Setting::default(), |_| soon(503, None));
    let id = scene.post(0, patient).expect("it is taken").delivery.delivery.id;
    scene.run_to(SECOND);
    assert_eq!(scene.record(id).failures, 1);
    erase(&mut scene, id);
    check_gone(&scene, id, Some(Ending::PayloadGone));
    let before = scene.record(id);
    erase(&mut scene, id);
    assert_eq!(scene.record(id), before, "the second time changes nothing");
    scene.restart(SECOND);
    check_gone(&scene, id, Some(Ending::PayloadGone));
    assert!(matches!(
        scene.command(Command::Retry { id }),
        Err(CommandError::Refused(duehook::delivery::Refused::PayloadErased))
    ));
    scene.run_to(HOUR);
    assert_eq!(scene.times(id).len(), 1, "nothing was sent after it");
}

#[test]
fn what_is_leased_ends_with_its_attempt() {
    let check = |script: Script, want| {
        let mut scene = Scene::new(Setting::default(), script);
        let id = scene.post(0, patient).expect("it is taken").delivery.delivery.id;
        erase(&mut scene, id);
        check_gone(&scene, id, None);
        scene.run_to(HOUR);
        check_gone(&scene, id, Some(want));
        assert_eq!(scene.times(id).len(), 1);
    };
    check(|_| soon(200, None), Ending::Delivered);
    check(|_| soon(503, None), Ending::PayloadGone);
    check(|_| soon(429, Some("5")), Ending::PayloadGone);
    check(|_| soon(404, None), Ending::PayloadGone);
    check(|_| None, Ending::PayloadGone);
}

#[test]
fn what_is_leased_when_the_process_dies_is_not_sent_again() {
    let mut scene = Scene::new(Setting::default(), |_| None);
    let id = scene.post(0, patient).expect("it is taken").delivery.delivery.id;
    erase(&mut scene, id);
    scene.restart(SECOND);
    check_gone(&scene, id, Some(Ending::PayloadGone));
    scene.run_to(HOUR);
    assert_eq!(scene.times(id).len(), 1);
}

/// Claimed from its lane, and erased before its body was read: there is nothing to send.
#[test]
fn what_was_not_read_yet_is_not_sent() {
    let mut scene = Scene::new(Setting::default(), |_| None);
    let later = |new: &mut NewDelivery| new.not_before = Some(Timestamp(NOON + MINUTE));
    let id = scene.post(0, later).expect("it is taken").delivery.delivery.id;
    scene.run_to(MINUTE);
    let lease = scene.engine().reader().snapshot().expect("readable").delivery(id).expect("readable");
    let lease = lease.expect("it is there").lease.expect("it is out");
    erase(&mut scene, id);
    let read = scene.engine().reader().snapshot().expect("readable").load(&lease).expect("readable");
    assert_eq!(read, duehook::store::Loaded::Erased);
}

/// What has ended keeps its end and its place; what its time erased is erased for good.
#[test]
fn what_has_ended_is_erased_too() {
    let mut scene = Scene::new(Setting::default(), |sent| soon(if sent.nth == 1 { 200 } else { 404 }, None));
    let delivered = scene.post(0, patient).expect("it is taken").delivery.delivery.id;
    scene.run_to(SECOND);
    let rejected = scene
        .post(0, |new| {
            patient(new);
            new.key = None;
        })
        .expect("it is taken");
    let rejected = rejected.delivery.delivery.id;
    scene.run_to(2 * SECOND);
    assert!(!scene.record(delivered).is_erased(), "its body is gone, its digest is not");
    for (id, end) in [(delivered, Ending::Delivered), (rejected, Ending::Rejected)] {
        erase(&mut scene, id);
        assert_eq!(scene.ending(id), Some(end));
    }
    check_gone(&scene, delivered, Some(Ending::Delivered));
    check_gone(&scene, rejected, Some(Ending::Rejected));
    scene.mono += 40 * 24 * HOUR;
    scene.run_to(scene.mono + MINUTE);
    let snapshot = scene.engine().reader().snapshot().expect("readable");
    assert!(snapshot.delivery(rejected).expect("readable").is_none(), "retention takes it in its time");
}

/// Nothing is left to compare a repeat with: its key alone decides, and it is never sent.
#[test]
fn a_repeat_of_what_was_erased_is_a_duplicate() {
    let mut scene = Scene::new(Setting::default(), |_| soon(503, None));
    let id = scene.post(0, patient).expect("it is taken").delivery.delivery.id;
    erase(&mut scene, id);
    scene.run_to(SECOND);
    let other = |new: &mut NewDelivery| {
        new.key = Some(key("k"));
        new.body = NewBody::new(vec![b'y'].into());
    };
    let again = scene.post(0, other).expect("it is known");
    assert!(again.duplicate);
    assert_eq!(again.delivery.delivery.id, id);
    let duehook::delivery::Source::Inline { sha256, .. } = scene.record(id).payload.source else {
        panic!("inline")
    };
    assert_eq!(sha256, NO_DIGEST);
}
