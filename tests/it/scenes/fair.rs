//! Who is served: tenants share, retries leave room, a rate is kept over a restart.

use duehook::engine::command::{Command, Expect};
use duehook::model::Rate;

use super::*;

/// Makes destination `place` of a tenant.
fn give(scene: &mut Scene, place: u32, tenant: &str, rate: Option<Rate>) {
    let settings = Box::new(Destination { tenant: name(tenant), rate, ..settings(8, Millis(15_000)) });
    let put = Command::PutDestination {
        name: destination(place),
        settings,
        keep_secrets: true,
        expect: Expect::Anything,
    };
    scene.command(put).expect("a new name");
}

/// Posts one delivery to each of these places, in one step.
fn post(scene: &mut Scene, places: impl Iterator<Item = u32>) {
    let accepts = vec![places.map(plain).collect()];
    let step = scene.step(Batch { accepts, ..Batch::default() });
    assert!(step.accepts[0].iter().all(Result::is_ok));
}

/// C120: after an outage two thousand retries are due, each of which takes a second. A hundred
/// new events have their first attempt within two seconds, and the retries go on.
#[test]
fn c120_retries_leave_room_for_what_is_new() {
    let script = |sent: &Sent| match sent.place {
        0..200 => Some((answered(500, None), 1_000)),
        _ => soon(204, None),
    };
    let policy = Policy { schedule: vec![Millis::seconds(1)], ..Policy::default() };
    let setting = Setting { destinations: 210, slots: 20, policy, ..Setting::default() };
    let mut scene = Scene::new(setting, script);
    (200..210).for_each(|place| _ = scene.deliver(place));
    for _ in 0..10 {
        post(&mut scene, 0..200);
    }
    scene.run_to(150 * SECOND);
    assert!(scene.sent.iter().any(|sent| sent.attempt > 2), "retries compete by now");
    let before = scene.sent.len();
    post(&mut scene, (0..100).map(|n| 200 + n % 10));
    scene.run_to(152 * SECOND);
    let since = &scene.sent[before..];
    let fresh = since.iter().filter(|sent| sent.place >= 200).count();
    let retries = since.iter().filter(|sent| sent.place < 200).count();
    assert_eq!(fresh, 100);
    assert!(retries >= 20, "{retries} retries in two seconds");
}

/// C121: a tenant with a thousand, and one with one. Its turn comes after at most four more.
#[test]
fn c121_a_tenant_with_one_does_not_wait_for_a_thousand() {
    let script = |_: &Sent| Some((answered(204, None), 100));
    let mut scene = Scene::new(Setting { destinations: 0, slots: 4, ..Setting::default() }, script);
    (0..100).for_each(|place| give(&mut scene, place, "a", None));
    give(&mut scene, 100, "b", None);
    for _ in 0..10 {
        post(&mut scene, 0..100);
    }
    scene.run_to(SECOND);
    let before = scene.sent.len();
    scene.deliver(100);
    scene.run_to(SECOND + 200);
    let place = scene.sent[before..].iter().position(|sent| sent.place == 100).expect("it was started");
    assert!(place <= 4, "after {place} of the other's");
}

/// C121: three tenants with as much each have as much each, though one has a hundred
/// destinations and one has one.
#[test]
fn c121_shares_are_equal_whatever_the_destinations() {
    let script = |_: &Sent| Some((answered(204, None), 100));
    let mut scene = Scene::new(Setting { destinations: 0, slots: 4, ..Setting::default() }, script);
    for place in 0..111 {
        let tenant = match place {
            0..100 => "a",
            100..110 => "b",
            _ => "c",
        };
        give(&mut scene, place, tenant, None);
    }
    post(&mut scene, (0..300).map(|n| n % 100));
    post(&mut scene, (0..300).map(|n| 100 + n % 10));
    post(&mut scene, (0..300).map(|_| 110));
    scene.run_to(15 * SECOND);
    let of =
        |places: std::ops::Range<u32>| scene.sent.iter().filter(|sent| places.contains(&sent.place)).count();
    let shares = [of(0..100), of(100..110), of(110..111)];
    let even = shares.iter().sum::<usize>() / 3;
    assert!(shares.iter().all(|share| share.abs_diff(even) * 10 <= even), "{shares:?}");
}

/// C123: one a minute is one a minute, over a restart as well.
#[test]
fn c123_a_rate_is_kept_over_a_restart() {
    let script = |_: &Sent| soon(204, None);
    let mut scene = Scene::new(Setting { destinations: 0, ..Setting::default() }, script);
    give(&mut scene, 0, "a", Rate::per_second(1.0 / 60.0, 1));
    (0..5).for_each(|_| _ = scene.deliver(0));
    scene.run_to(90 * SECOND);
    scene.restart(10);
    scene.run_to(5 * MINUTE);
    let starts: Vec<u64> = scene.sent.iter().map(|sent| sent.at).collect();
    assert_eq!(starts.len(), 5, "{starts:?}");
    for (n, start) in starts.iter().enumerate() {
        assert!(start.abs_diff(n as u64 * MINUTE) <= SECOND, "{starts:?}");
    }
}
