//! Seeds of a disk that fails.

use std::collections::BTreeMap;

use crate::sim::crashes::incidents;
use crate::sim::world::World;

/// Seeds in a plain `cargo test`; `CRASH_SEEDS` asks for more.
const SEEDS: u64 = 300;

fn run(seed: u64) -> World {
    let mut world = World::suffering(seed, incidents(seed));
    world.run();
    world
}

fn checked(seed: u64) -> World {
    std::panic::catch_unwind(|| run(seed)).unwrap_or_else(|_| panic!("crash seed {seed} failed"))
}

fn seeds() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a test's own knob, not a setting of the program")]
    let asked = std::env::var("CRASH_SEEDS");
    asked.ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS)
}

#[test]
fn nothing_is_lost_over_many_crash_seeds() {
    let halves = [0, 1].map(|half| {
        std::thread::spawn(move || {
            let mut fired: BTreeMap<&'static str, u64> = BTreeMap::new();
            for seed in (half..seeds()).step_by(2) {
                let world = checked(seed);
                *fired.entry("steps").or_default() += world.steps;
                for (what, times) in world.oracle.fired {
                    *fired.entry(what).or_default() += times;
                }
            }
            fired
        })
    });
    let mut fired = BTreeMap::new();
    for half in halves {
        for (what, times) in half.join().expect("a seed failed") {
            *fired.entry(what).or_insert(0) += times;
        }
    }
    println!("{} crash seeds: {fired:?}", seeds());
}
