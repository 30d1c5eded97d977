//! Many seeds of the simulation, a seed twice, and every seed that ever found a bug.

use std::collections::BTreeMap;

use crate::sim::rng::Rng;
use crate::sim::world::World;

/// Seeds in a plain `cargo test`; `SIM_SEEDS` asks for more.
const SEEDS: u64 = 200;

/// Scripts, likewise: each is a longer history than most seeds.
const SCRIPTS: u64 = 40;

/// What must have happened at least once in a batch of seeds, or it proves nothing.
const SOMETIMES: [&str; 35] = [
    "429 alone",
    "accepted_and_leased",
    "adaptive halved",
    "breaker closed",
    "breaker half open",
    "breaker opened",
    "cancelled",
    "clock back",
    "clock back 1 h",
    "clock forward",
    "clock forward 1 h",
    "crash_after",
    "crash_before",
    "crash_in_commit",
    "delivered",
    "destination_gone",
    "duplicate",
    "exhausted",
    "expired",
    "late",
    "learnt rate",
    "lease_expired",
    "quarantined",
    "rate-paced",
    "rate_limited",
    "rejected",
    "repeat",
    "reserve barred",
    "retried",
    "same after a restart",
    "slots",
    "slow pool",
    "tenant's share",
    "trunk barred",
    "unavailable",
];

fn run(seed: u64) -> World {
    let mut world = World::new(seed);
    world.run();
    world
}

/// Runs a seed and says which it was if it fails.
fn checked(seed: u64) -> World {
    std::panic::catch_unwind(|| run(seed)).unwrap_or_else(|_| panic!("seed {seed} failed"))
}

fn seeds() -> u64 {
    seeds_or(SEEDS)
}

/// How many seeds to run: `SIM_SEEDS`, or so many.
pub(crate) fn seeds_or(plain: u64) -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a test's own knob, not a setting of the program")]
    let asked = std::env::var("SIM_SEEDS");
    asked.ok().and_then(|text| text.parse().ok()).unwrap_or(plain)
}

#[test]
fn every_invariant_holds_over_many_seeds() {
    let halves = [0, 1].map(|half| {
        std::thread::spawn(move || {
            let mut fired: BTreeMap<&'static str, u64> = BTreeMap::new();
            for seed in (half..seeds()).step_by(2) {
                let world = checked(seed);
                *fired.entry("visits").or_default() += world.visits.0;
                *fired.entry("claims").or_default() += world.visits.1;
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
    println!("{} seeds: {fired:?}", seeds());
    for what in SOMETIMES {
        assert!(fired.get(what).is_some_and(|times| *times > 0), "{what} never happened");
    }
}

/// Scripts by chance, as a fuzzer begins with: operators' orders between any two steps.
#[test]
fn scripts_of_operations_hold_every_invariant() {
    let mut fired: BTreeMap<&'static str, u64> = BTreeMap::new();
    for seed in 0..seeds_or(SCRIPTS) {
        let mut rng = Rng::new(seed);
        let script: Vec<u8> = (0..400).map(|_| rng.below(256) as u8).collect();
        let run = || {
            let mut world = World::scripted(&script);
            world.follow();
            world.oracle.fired
        };
        let seen = std::panic::catch_unwind(run).unwrap_or_else(|_| panic!("script {seed} failed"));
        seen.into_iter().for_each(|(what, times)| *fired.entry(what).or_default() += times);
    }
    for what in ["a page of a job", "cancelled", "crash_in_commit", "delivered", "retried", "clock back"] {
        assert!(fired.contains_key(what), "{what} never happened in {fired:?}");
    }
}

/// A short history, with a crash at each of its steps in turn: before it, in its commit or after
/// it, as its seed has it.
#[test]
fn a_crash_at_every_step_of_a_history() {
    for seed in 0..2 {
        let crashes = (0..).take_while(|step| {
            let mut world = World::crashing_after(seed, *step);
            world.run();
            world.has_crashed()
        });
        let steps = crashes.count();
        assert!(steps > 10, "seed {seed} has only {steps} steps");
    }
}

/// Seeds that found something, and what it was. (463 and the last four found it in the world as it
/// was before it had rates, pools and steps back.)
#[test]
fn seeds_that_once_failed() {
    // A wall clock that stepped forward between two refusals: the hold that was stored ended
    // before the time that the second one had named.
    checked(463);
    // A wall clock that stepped back an hour: the next hold was stored an hour too long, because
    // the one before it, over by its own clock, was ahead by the wall's.
    checked(89);
    // Ordinary retries stood behind interrupted ones of their lane; a drift of the wall clock never
    // reached the timers. (759 is at the edge of what a lane's front shows.)
    for seed in [6, 65, 130, 759] {
        checked(seed);
    }
}

/// S20: a seed is a history.
#[test]
fn s20_the_same_seed_gives_the_same_trace() {
    for seed in 0..20 {
        assert_eq!(checked(seed).trace, checked(seed).trace, "seed {seed}");
    }
}
