//! A disk that fails: many seeds of it, every operation of one history in turn, and two tests of
//! the test: a disk that lies is caught, and every kind of fault has happened.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::sim::crashes::{incidents, lies};
use crate::sim::disk::{Failure, Fault, Op};
use crate::sim::rng::Rng;
use crate::sim::rot::End;
use crate::sim::world::{Incident, Peril, Restart, World};

/// Seeds in a plain `cargo test`; `CRASH_SEEDS` asks for more, or for some: `4000..4100`.
const SEEDS: u64 = 300;

/// Seeds of a disk that lies.
const LIES: u64 = 60;
/// Files in which bits change, and how often in each.
const ROTTEN_FILES: u64 = 12;
const FLIPS: u64 = 25;
/// An operation in the middle of the fixed history.
const HALF_WAY: u64 = 150;
/// What must have happened in a batch of so many seeds, or it proves nothing.
const ENOUGH: u64 = 300;
const SOMETIMES: [&str; 30] = [
    "EIO length",
    "EIO read",
    "EIO sync",
    "EIO write",
    "ENOSPC length",
    "ENOSPC sync",
    "ENOSPC write",
    "a sync forgot",
    "an unanswered step is gone",
    "an unanswered step is there",
    "answered and not recorded",
    "cancel across a crash",
    "claimed and not sent",
    "committed and not told",
    "died in recovery",
    "disk low",
    "duplicate after a crash",
    "forgotten on the same cache",
    "full",
    "hold across a crash",
    "late",
    "lease across a crash",
    "length lost",
    "no room for an outcome",
    "power loss",
    "rate_limited",
    "same cache",
    "shredded",
    "stopped",
    "torn",
];

/// How often each thing has happened, and the seeds that failed.
#[derive(Default)]
struct Tally {
    fired: BTreeMap<&'static str, u64>,
    failed: Vec<u64>,
}

fn run(seed: u64) -> World {
    let mut world = World::suffering(seed, incidents(seed));
    world.run();
    world
}

fn seeds() -> Range<u64> {
    #[expect(clippy::disallowed_methods, reason = "a test's own knob, not a setting of the program")]
    let asked = std::env::var("CRASH_SEEDS").unwrap_or_default();
    let number = |text: &str| text.trim().parse::<u64>().ok();
    match asked.split_once("..") {
        Some((from, to)) => number(from).zip(number(to)).map_or(0..SEEDS, |(from, to)| from..to),
        None => 0..number(&asked).unwrap_or(SEEDS),
    }
}

/// Every second of the seeds on each of two threads.
fn over(seeds: &Range<u64>, run: fn(u64) -> World) -> Tally {
    let halves = [0, 1].map(|half| {
        let seeds = seeds.clone();
        std::thread::spawn(move || {
            let mut tally = Tally::default();
            for seed in seeds.skip(half).step_by(2) {
                tally.add(seed, std::panic::catch_unwind(|| run(seed)).ok());
            }
            tally
        })
    });
    halves.map(|half| half.join().expect("what panics is caught")).into_iter().fold(
        Tally::default(),
        |mut all, half| {
            for (what, times) in half.fired {
                *all.fired.entry(what).or_default() += times;
            }
            all.failed.extend(half.failed);
            all
        },
    )
}

impl Tally {
    fn add(&mut self, seed: u64, world: Option<World>) {
        let Some(world) = world else {
            eprintln!("crash seed {seed} failed: CRASH_SEEDS={seed}..{}", seed + 1);
            return self.failed.push(seed);
        };
        *self.fired.entry("steps").or_default() += world.steps;
        for (what, times) in world.oracle.fired {
            *self.fired.entry(what).or_default() += times;
        }
    }
}

#[test]
fn nothing_is_lost_over_many_crash_seeds() {
    let seeds = seeds();
    let tally = over(&seeds, run);
    println!("crash seeds {seeds:?}: {:?}", tally.fired);
    assert!(tally.failed.is_empty(), "crash seeds that failed: {:?}", tally.failed);
    for what in SOMETIMES.iter().filter(|_| seeds.end - seeds.start >= ENOUGH) {
        assert!(tally.fired.contains_key(what), "{what} never happened");
    }
}

/// S20 where the disk fails as well.
#[test]
fn the_same_crash_seed_gives_the_same_trace() {
    for seed in 0..10 {
        assert_eq!(run(seed).trace, run(seed).trace, "crash seed {seed}");
    }
}

/// Seeds that found something, each in the world as it was then, and what it was. So far all of it
/// was in the tests.
#[test]
fn crash_seeds_that_once_failed() {
    // A sync that forgets was taken to forget the file's length for ever, which no file system
    // does; redb relies on a length that it was once told is kept.
    for seed in [5_529, 5_837, 6_487, 6_804] {
        run(seed);
    }
    // An operation refused (the destination was lost with its step) was taken for done.
    for seed in [1_880, 2_493, 3_715, 4_585] {
        run(seed);
    }
    // A page that redb writes early may fail to be written and costs nothing: it is written again
    // by the commit, and only the failure of that is fatal.
    for seed in [6, 69, 91] {
        run(seed);
    }
    // The process was killed by a read: it makes room by writing such a page, and gets its own all the same.
    run(304);
}

/// The control: what says that it has synced and has not loses what was answered.
#[test]
fn a_disk_that_lies_is_caught() {
    let caught = (0..LIES).filter(|seed| {
        let lied = std::panic::catch_unwind(|| World::suffering(*seed, lies(*seed)).run());
        lied.is_err()
    });
    let caught = caught.count() as u64;
    println!("{caught} of {LIES} lies were caught");
    assert!(caught * 2 > LIES, "only {caught} of {LIES}");
}

/// No body goes out that is not the one that was accepted, and no file makes every start panic.
#[test]
fn a_changed_bit_is_never_sent() {
    let mut ends: BTreeMap<End, u64> = BTreeMap::new();
    for seed in 0..ROTTEN_FILES {
        let left = World::suffering(seed, vec![]).leave(seed % 2 == 0);
        let rng = &mut Rng::new(seed);
        for _ in 0..FLIPS {
            let bits = 1 + rng.below(3);
            let end = left.served_with(bits, rng).unwrap_or_else(|wrong| panic!("file {seed}: {wrong}"));
            *ends.entry(end).or_default() += 1;
        }
    }
    println!("{ends:?}");
    // Whether redb says so or panics first, the next open refuses the file.
    for all in [&[End::Refused, End::PanickedThenRefused][..], &[End::Quarantined], &[End::Ran]] {
        assert!(all.iter().any(|end| ends.contains_key(end)), "{all:?} never happened: {ends:?}");
    }
}

/// One fault in a history that is always the same; true when it has struck.
fn strikes(fault: Fault, restart: Restart) -> bool {
    let mut world = World::fixed(vec![Incident { commits: 0, peril: Peril::Disk(fault), restart }]);
    world.run();
    world.has_crashed()
}

/// T04: the first operation, the second, and so on until there is none left to fail.
fn each(name: &str, fault: impl Fn(u64) -> Fault, restarts: &[Restart]) {
    for restart in restarts {
        let times = (0..).take_while(|after| strikes(fault(*after), *restart)).count();
        println!("{name}, {restart:?}: {times} operations");
        assert!(times > 0, "{name} never strikes");
    }
}

const BOTH: [Restart; 2] = [Restart::Loses, Restart::SameCache];

#[test]
fn a_stop_at_each_operation_of_a_history() {
    each("stop", |after| Fault::Stop { after }, &BOTH);
}

#[test]
fn each_write_of_a_history_fails() {
    let fails = |how| move |after| Fault::Fail { op: Op::Write, after, how };
    each("EIO write", fails(Failure::Io), &[Restart::Loses]);
    each("ENOSPC write", fails(Failure::NoSpace), &[Restart::SameCache]);
}

#[test]
fn each_sync_length_and_read_of_a_history_fails() {
    let fails = |op, how| move |after| Fault::Fail { op, after, how };
    each("EIO sync", fails(Op::Sync, Failure::Io), &BOTH);
    each("a sync forgets", fails(Op::Sync, Failure::Forgets), &BOTH);
    each("ENOSPC sync", fails(Op::Sync, Failure::NoSpace), &[Restart::Loses]);
    each("EIO length", fails(Op::SetLen, Failure::Io), &BOTH);
    each("ENOSPC length", fails(Op::SetLen, Failure::NoSpace), &BOTH);
    each("EIO read", fails(Op::Read, Failure::Io), &[Restart::Loses]);
}

/// A fault at the operation of a number.
type Nth = fn(u64) -> Fault;

/// T03: the same inside the open that follows a power loss.
#[test]
fn each_operation_of_a_recovery_fails() {
    let kinds: [(&str, Nth); 5] = [
        ("stop", |after| Fault::Stop { after }),
        ("EIO write", |after| Fault::Fail { op: Op::Write, after, how: Failure::Io }),
        ("ENOSPC write", |after| Fault::Fail { op: Op::Write, after, how: Failure::NoSpace }),
        ("a sync forgets", |after| Fault::Fail { op: Op::Sync, after, how: Failure::Forgets }),
        ("EIO read", |after| Fault::Fail { op: Op::Read, after, how: Failure::Io }),
    ];
    for (name, fault) in kinds {
        for first in BOTH {
            let times = (0..).take_while(|after| strikes_in_recovery(name, first, fault(*after))).count();
            println!("{name} in the recovery after {first:?}: {times} operations");
            assert!(times > 0, "{name} never strikes in a recovery");
        }
    }
}

/// A stop in the middle of the fixed history, and a fault in what follows; true when that was
/// still the recovery. Reads are few after that, and all of them count.
fn strikes_in_recovery(name: &str, first: Restart, fault: Fault) -> bool {
    let stop = Peril::Disk(Fault::Stop { after: HALF_WAY });
    let mut world = World::fixed(vec![
        Incident { commits: 0, peril: stop, restart: first },
        Incident { commits: 0, peril: Peril::Disk(fault), restart: Restart::Loses },
    ]);
    world.run();
    let fired = |what| world.oracle.fired.contains_key(what);
    fired("died in recovery") || fired("a write was made again") || (name == "EIO read" && fired(name))
}
