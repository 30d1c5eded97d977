//! Months in virtual time: what has ended goes when its time is over, what waits stays, and the
//! file is as large as what it keeps.

use redb::StorageBackend;

use duehook::store::check::{self, Checked};

use super::*;

const DAY: u64 = 24 * HOUR;
/// Posted in an hour, so that sixty days are some ten thousand.
const AN_HOUR: u32 = 8;

/// One in sixteen is refused for good; as many fail and come again.
fn mixed(sent: &Sent) -> Reply {
    match sent.nth % 16 {
        0 => soon(404, None),
        1 | 2 => soon(503, None),
        _ => soon(200, None),
    }
}

fn body(n: u64) -> NewBody {
    NewBody::new(vec![u8::try_from(n % 251).expect("a byte"); 1_000].into())
}

/// An hour of traffic; the file's length afterwards.
fn hour(scene: &mut Scene, n: u64) -> u64 {
    let item = |nth: u32| NewDelivery {
        key: nth.is_multiple_of(2).then(|| key(&format!("{n}-{nth}"))),
        labels: vec![("n".into(), n.to_string())],
        body: body(n),
        ..plain(0)
    };
    scene.step(Batch { accepts: vec![(0..AN_HOUR).map(item).collect()], ..Batch::default() });
    let end = scene.mono + HOUR;
    scene.run_to(scene.mono + 20 * SECOND);
    scene.mono = end;
    scene.disk.len().expect("it is in RAM")
}

fn checked(scene: &Scene) -> Checked {
    let checked = check::check(&scene.engine().reader().snapshot().expect("readable")).expect("readable");
    assert_eq!(checked.problems, Vec::<String>::new());
    checked
}

/// Runs sixty days; the longest file of each half, and what is kept in the end.
fn sixty_days(scene: &mut Scene) -> ([u64; 2], Checked) {
    let mut longest = [0; 2];
    for n in 0..60 * 24 {
        let length = hour(scene, n);
        let half = usize::from(n >= 30 * 24);
        longest[half] = length.max(longest[half]);
    }
    (longest, checked(scene))
}

/// C150, C161: with everything that a delivery leaves behind, its attempts, its key, its body.
#[test]
fn c150_c161_the_file_is_as_large_as_what_it_keeps() {
    let policy = Policy { schedule: vec![Millis(1_000)], max_failures: 8, ..Policy::default() };
    let check = |retention: u64, kept: std::ops::RangeInclusive<u64>| {
        let setting = Setting { destinations: 2, policy: policy.clone(), ..Setting::default() };
        let mut scene = Scene::new(Setting { retention: Millis(retention), ..setting }, mixed);
        let verb = duehook::engine::command::StateVerb::Pause;
        let reason = String::new();
        scene.command(Command::SetState { name: destination(1), verb, reason }).expect("it is there");
        let late = |new: &mut NewDelivery| {
            new.not_before = Some(Timestamp(NOON + 29 * DAY));
            new.max_age = Some(Millis(30 * DAY));
        };
        let waits = scene.post(1, late).expect("it is taken").delivery.delivery.id;
        let ([first, second], left) = sixty_days_but_one(&mut scene, waits);
        println!(
            "kept {retention} ms: {first} bytes at most, later {second}, for {} deliveries",
            left.deliveries
        );
        assert!(second * 10 <= first * 13, "{first} bytes, and later {second}");
        assert!(kept.contains(&left.terminal), "{left:?}");
        let live = left.deliveries * 1_500 + left.body_bytes;
        assert!(second < 10 * live + (64 << 20), "{second} bytes for {live}");
        scene.mono += retention + 8 * DAY;
        while scene.step(Batch::default()).committed {
            scene.mono += 10 * SECOND;
            if checked(&scene).deliveries == 0 {
                return;
            }
        }
        panic!("something is left: {:?}", checked(&scene));
    };
    let a_day = 24 * u64::from(AN_HOUR);
    check(2 * DAY, 2 * a_day..=3 * a_day);
    check(30 * DAY, 30 * a_day..=31 * a_day);
}

/// What waits is there for as long as it may wait, whatever is forgotten around it.
fn sixty_days_but_one(scene: &mut Scene, waits: DeliveryId) -> ([u64; 2], Checked) {
    let (longest, left) = sixty_days(scene);
    assert_eq!(scene.ending(waits), Some(Ending::Expired), "it waited to its end, 59 days");
    let State::Terminal { at, .. } = scene.record(waits).state else { panic!("it has ended") };
    assert!(scene.after(at) >= 59 * DAY, "{at:?}");
    (longest, left)
}
