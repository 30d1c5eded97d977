//! The schedule alone, against a model of it: random operations over hundreds of gates and three
//! pools, and the invariants of SCHEDULER.md 4.1 after each.

use std::collections::BTreeMap;

use crate::sim::gates::{Gates, Kind};

/// Histories of each kind in a plain `cargo test`, and operations in each.
const SEEDS: u64 = 100;
const TURNS: u64 = 150;

/// What must have happened, or the histories prove nothing.
const SOMETIMES: [&str; 11] = [
    "adaptive halved",
    "aged to slow",
    "breaker closed by its probe",
    "breaker opened",
    "clock back",
    "clock forward",
    "found",
    "half open",
    "learnt rate",
    "rate-paced",
    "set",
];

#[derive(Default)]
struct Figures {
    fired: BTreeMap<&'static str, u64>,
    gap: i128,
    compared: u64,
    wait: u64,
    visits: u64,
    claims: u64,
    pages: u64,
    rows: u64,
}

fn history(seed: u64, kind: Kind) -> Gates {
    let mut gates = Gates::new(seed, kind);
    for _ in 0..TURNS {
        gates.turn();
    }
    gates
}

fn run(kind: Kind) -> Figures {
    let mut all = Figures::default();
    for seed in 0..crate::simulation::seeds_or(SEEDS) {
        let ran = std::panic::catch_unwind(|| history(seed, kind));
        let gates = ran.unwrap_or_else(|_| panic!("{kind:?} seed {seed} failed"));
        let (visits, claims) = gates.schedule.visits();
        gates.fired.iter().for_each(|(what, times)| *all.fired.entry(what).or_default() += times);
        all.gap = all.gap.max(gates.fairness.gap);
        all.compared += gates.fairness.compared;
        all.wait = all.wait.max(gates.fairness.wait);
        (all.visits, all.claims) = (all.visits + visits, all.claims + claims);
        (all.pages, all.rows) = (all.pages + gates.pages, all.rows + gates.rows_read);
    }
    let per_claim = |count: u64| count as f64 / all.claims.max(1) as f64;
    println!(
        "{kind:?}: {} claims, {:.3} visits, {:.3} pages and {:.3} rows read a claim; F1 gap {} ‰ of its bound over {} pairs; I24 {} ‰; {:?}",
        all.claims,
        per_claim(all.visits),
        per_claim(all.pages),
        per_claim(all.rows),
        all.gap,
        all.compared,
        all.wait,
        all.fired
    );
    all
}

/// I11 and I24 by count, where every request costs the same.
#[test]
fn i11_i24_shares_where_all_cost_the_same() {
    let all = run(Kind::Equal);
    assert!(all.compared > 1_000, "{} pairs were compared", all.compared);
}

/// I11 and I24 by charge, where each request costs what its destination is known to take.
#[test]
fn i11_i24_shares_where_costs_are_known() {
    let all = run(Kind::Known);
    assert!(all.compared > 1_000, "{} pairs were compared", all.compared);
}

/// I2-I7, I12, I13, I16-I20, I23 under anything that can happen.
#[test]
fn invariants_hold_whatever_happens() {
    let all = run(Kind::Wild);
    for what in SOMETIMES {
        assert!(all.fired.get(what).is_some_and(|times| *times > 0), "{what} never happened");
    }
}

/// Seeds that found something, and what it was.
#[test]
fn seeds_that_once_failed() {
    // Bands that were barred by a reserve or a trunk kept their old place, and when they were not
    // barred any more they were served alone until they had caught up.
    history(2, Kind::Equal);
    // After a step back of the wall clock a new row was due before the last one taken, and a gate
    // with a rate waited for the latter.
    history(97, Kind::Wild);
    // A gate that waited for its rate for less than a second kept rows that are due much later.
    history(106, Kind::Wild);
    // One more destination of a tenant that was put aside made its band ready with nobody in it.
    history(860, Kind::Wild);
}
