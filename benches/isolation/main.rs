//! Who waits for whom: the shipped schedule beside the seed's order and beside skipping, on the
//! same workloads, in virtual time; and the engine on a real file of millions of rows.
//!
//! `cargo bench --bench isolation` runs all; `-- W1 W3` picks; `-- file --rows 1000000` sets how
//! many rows the file has (and `--destinations`, `--tenants`), `-- file --series` makes files of
//! ten thousand to ten million, `--seed N` sets the seed, `--orders gate` the orders. Only what is
//! measured in one run on one machine may be compared.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![expect(clippy::unwrap_used, reason = "what fails here ends the benchmark")]

mod file;
mod gate;
mod order;
mod report;
mod scene;
mod skip;
mod workloads;
mod world;

use std::time::Duration;

use duehook::time::{Mono, Now};

use order::{Fifo, Order};
use report::{at_most, verdict};
use scene::Scene;
use world::{Measured, START};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Processor time for one run of a baseline: long enough to show where it is going.
const BASELINE_BUDGET: Duration = Duration::from_secs(4);
/// The shipped schedule is to finish; this only ends what never would.
const BUDGET: Duration = Duration::from_secs(90);

/// Runs of which the quickest counts: other work on the machine only ever adds.
const REPEATS: usize = 3;

/// What was asked for.
struct Asked {
    names: Vec<String>,
    orders: Vec<String>,
    seed: u64,
    size: file::Size,
    /// Files of all sizes, one after the other.
    series: bool,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(place) = arguments.iter().position(|word| word == file::REOPEN) {
        return file::reopen(&arguments[place + 1..]);
    }
    let asked = asked(&arguments);
    println!("seed {}; skip's rows are counted and not read: its us/claim leaves them out", asked.seed);
    let mut missed = virtual_time(&asked);
    if asked.wants("file") || asked.wants("W11") {
        missed += if asked.series { file::series(asked.size) } else { file::run(asked.size).0 };
    }
    println!("\n{missed} targets missed");
}

fn asked(arguments: &[String]) -> Asked {
    let value = |flag: &str| {
        let place = arguments.iter().position(|word| word == flag)?;
        arguments.get(place + 1).cloned()
    };
    let number = |flag: &str, otherwise| value(flag).map_or(otherwise, |text| text.parse().unwrap());
    let orders = value("--orders").unwrap_or_else(|| "fifo,skip,gate".into());
    let is_value = |place: &usize| {
        *place > 0
            && arguments[*place - 1].starts_with("--")
            && !["--bench", "--series"].contains(&arguments[*place - 1].as_str())
    };
    let names = (0..arguments.len()).filter(|place| !arguments[*place].starts_with('-') && !is_value(place));
    Asked {
        names: names.map(|place| arguments[place].clone()).collect(),
        orders: orders.split(',').map(str::to_owned).collect(),
        seed: number("--seed", 7),
        size: file::Size {
            rows: number("--rows", file::ROWS),
            destinations: number("--destinations", 10_000),
            tenants: number("--tenants", 1_000),
        },
        series: arguments.iter().any(|word| word == "--series"),
    }
}

impl Asked {
    fn wants(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|asked| asked == name)
    }
}

/// Runs every case that was asked for; gives how many targets were missed.
fn virtual_time(asked: &Asked) -> usize {
    let mut missed = 0;
    let mut gates: Vec<(&'static str, Measured)> = Vec::new();
    for case in workloads::all().iter().filter(|case| asked.wants(case.name)) {
        let scene = (case.scene)(asked.seed);
        println!("\n{}: {} slots", case.label, scene.slots);
        report::heading();
        for order in &asked.orders {
            let measured = quickest(order, case.name, &scene);
            report::tell(order, &scene, &measured);
            if order == "gate" {
                let mut checks = (case.judge)(&scene, &measured);
                checks.push(at_most("turns looked at a claim", visits(&measured), 2.0));
                missed += verdict(&checks);
                gates.push((case.name, measured));
            }
        }
    }
    missed + across_sizes(&gates)
}

/// The run that took the least processor time of `REPEATS`, where that is compared; the runs are
/// alike in all else.
fn quickest(order: &str, name: &str, scene: &Scene) -> Measured {
    let repeats = if order == "gate" && ["W1", "W5"].contains(&name) { REPEATS } else { 1 };
    let runs: Vec<Measured> = (0..repeats).map(|_| measure(order, scene)).collect();
    assert!(runs.iter().all(|run| run.cut || run.claims == runs[0].claims), "a seed gives one run");
    runs.into_iter().min_by_key(|run| run.cpu).expect("there is one run at least")
}

fn visits(it: &Measured) -> f64 {
    it.effort.visits as f64 / it.claims.max(1) as f64
}

fn measure(order: &str, scene: &Scene) -> Measured {
    let now = Now { wall: START, mono: Mono(0) };
    let mut fifo;
    let mut skip;
    let mut gate;
    let (order, budget): (&mut dyn Order, Duration) = match order {
        "fifo" => {
            fifo = Fifo::new(scene.slots);
            (&mut fifo, BASELINE_BUDGET)
        }
        "skip" => {
            skip = skip::Skip::new(scene.slots, scene.destinations.len(), START, scene.until);
            (&mut skip, BASELINE_BUDGET)
        }
        _ => {
            gate = gate::Gated::new(scene.slots, &scene.destinations, now);
            (&mut gate, BUDGET)
        }
    };
    world::run(scene, order, budget)
}

/// What must not depend on how much waits, nor on how many wait for it.
fn across_sizes(gates: &[(&'static str, Measured)]) -> usize {
    let of = |name: &'static str| gates.iter().filter(move |(of, _)| *of == name).map(|(_, it)| it);
    let rows = |it: &Measured| it.effort.rows_examined as f64 / it.claims.max(1) as f64;
    let cpu = |it: &Measured| it.cpu.as_secs_f64() * 1e6 / it.claims.max(1) as f64;
    let spread = |figures: Vec<f64>| {
        let (low, high) =
            figures.iter().fold((f64::MAX, 0.0_f64), |(low, high), it| (low.min(*it), high.max(*it)));
        (high - low) * 100.0 / low.max(0.000_1)
    };
    let mut checks = Vec::new();
    if of("W1").count() > 1 {
        let lag = |it: &Measured| 1.0 + it.groups[0].lag(1.0) as f64;
        for (what, figures) in [
            (
                "rows examined a claim, largest of the sizes over the smallest, %",
                of("W1").map(rows).collect(),
            ),
            ("CPU a claim, the same, %", of("W1").map(cpu).collect()),
            ("largest lag + 1 ms, the same, %", of("W1").map(lag).collect::<Vec<f64>>()),
        ] {
            checks.push(at_most(what, spread(figures), 20.0));
        }
    }
    if let [many, few] = of("W5").collect::<Vec<_>>()[..] {
        checks.push(at_most("CPU a claim, 100 k destinations over 100", cpu(many) / cpu(few), 1.5));
    }
    if !checks.is_empty() {
        println!("\nAcross sizes, ±10 %");
    }
    verdict(&checks)
}
