//! Seeds of a disk that fails.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::sim::crashes::incidents;
use crate::sim::world::World;

/// Seeds in a plain `cargo test`; `CRASH_SEEDS` asks for more, or for some: `4000..4100`.
const SEEDS: u64 = 300;

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
}
