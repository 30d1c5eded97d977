//! The workloads of the fairness benchmark, as data, each with what it must show.
//!
//! Sizes are those of the specification; slots are fewer than a server's 4,096 where that makes
//! them scarce, which is what the benchmark is about.

use crate::report::{Check, at_least, at_most, exactly};
use crate::scene::{Arrival, Backlog, Fair, Jolt, QUICK, Receiver, Rng, Scene, TROUBLE};
use crate::world::{BIN, Measured};

/// Scarce slots, and a server's own number.
const FEW: u32 = 512;
const ALL: u32 = 4_096;
const FOREVER: u64 = u64::MAX;

/// A workload at one size.
pub(crate) struct Case {
    /// What selects it: `W1`.
    pub(crate) name: &'static str,
    pub(crate) label: String,
    pub(crate) scene: Box<dyn Fn(u64) -> Scene>,
    pub(crate) judge: fn(&Scene, &Measured) -> Vec<Check>,
}

fn case(
    name: &'static str,
    about: &str,
    scene: impl Fn(u64) -> Scene + 'static,
    judge: fn(&Scene, &Measured) -> Vec<Check>,
) -> Case {
    Case { name, label: format!("{name} {about}"), scene: Box::new(scene), judge }
}

/// All of them, in order.
pub(crate) fn all() -> Vec<Case> {
    let mut all = Vec::new();
    for (held, each) in [("10 k", 1), ("100 k", 10), ("1 M", 100), ("10 M", 1_000)] {
        let about = format!("saturation, {held} held");
        all.push(case("W1", &about, move |seed| saturation(seed, each), judge_saturation));
    }
    all.push(case("W2", "noisy tenant, 1 M fresh", noisy, judge_noisy));
    all.push(case("W2", "five tenants with work always", |_| equals(), judge_equals));
    all.push(case("W3", "retry wave, 1 M", wave, judge_wave));
    all.push(case("W4", "5,000 slow receivers", |seed| slow(seed, SLOW), judge_slow));
    let sudden = "the same, and half of them were quick until then";
    all.push(case("W4", sudden, |seed| slow(seed, QUICK), judge_slow));
    for (about, destinations, each) in
        [("100 k new destinations", 100_000, 1), ("the same to 100", 100, 1_000)]
    {
        all.push(case("W5", about, move |_| cold(destinations, each), judge_cold));
    }
    all.push(case("W6", "herd, 100 k at one receiver", herd, judge_herd));
    all.push(case("W7", "10 k told the same second", |_| same_second(), judge_same_second));
    all.push(case("W8", "W1, W2, W3 and W4 together", everything, judge_everything));
    all.push(case("W9", "two destinations", two, judge_two));
    all.push(case("W12", "clock steps of an hour, a pause of ten minutes", jolted, judge_jolted));
    all.push(case("W13", "three classes at 150 %", classes, judge_classes));
    all
}

/// Puts arrivals into order: a scene is complete.
fn ready(mut scene: Scene) -> Scene {
    scene.arrivals.sort_unstable();
    scene
}

fn percent(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole.max(1) as f64
}

fn per(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn add_limited(scene: &mut Scene, each: u32) {
    let limited = scene.group("limited", false);
    let first = scene.destinations(limited, 10_000, 100, Receiver::Limited { wait: 30_000, until: FOREVER });
    scene.wave(first, 10_000, each, 1);
}

fn saturation(seed: u64, each: u32) -> Scene {
    let mut scene = Scene::new(FEW, TROUBLE + 120_000);
    let fresh = scene.group("fresh", true);
    let first = scene.destinations(fresh, 1, 1, Receiver::Healthy(QUICK));
    let until = scene.until;
    scene.flow(seed, 100.0, (0, until), (first, 1), 1);
    add_limited(&mut scene, each);
    ready(scene)
}

fn judge_saturation(_: &Scene, it: &Measured) -> Vec<Check> {
    vec![
        at_most("fresh p95, ms", it.groups[0].lag(0.95) as f64, 50.0),
        at_most("fresh max, ms", it.groups[0].lag(1.0) as f64, 250.0),
        at_most("429s a destination and cooldown", per(it.refused, it.cooldowns), 1.1),
        at_most("rows written a 429", per(it.effort.rows_rewritten, it.refused), 5.0),
        exactly("early sends", it.early, 0),
    ]
}

/// A thousand tenants with one destination each and something to say now and then.
fn add_quiet(scene: &mut Scene, seed: u64, per_second: f64) {
    let quiet = scene.group("quiet", true);
    let first = scene.destinations(quiet, 1_000, 1_000, Receiver::Healthy(QUICK));
    scene.greet(first, 1_000);
    let until = scene.until;
    scene.flow(seed, per_second, (3_000, until), (first, 1_000), 1);
}

fn add_noisy(scene: &mut Scene, each: u32) {
    let noisy = scene.group("noisy", false);
    let first = scene.destinations(noisy, 1_000, 1, Receiver::Healthy(QUICK));
    scene.greet(first, 1_000);
    scene.wave(first, 1_000, each, 0);
}

fn noisy(seed: u64) -> Scene {
    let mut scene = Scene::new(FEW, TROUBLE + 90_000);
    add_quiet(&mut scene, seed, 1_000.0);
    add_noisy(&mut scene, 1_000);
    ready(scene)
}

/// The most that the slots can send in the run, after the trouble began.
fn fits(scene: &Scene, slots: u32) -> u64 {
    (scene.until - TROUBLE) * u64::from(slots) / QUICK
}

fn judge_noisy(scene: &Scene, it: &Measured) -> Vec<Check> {
    let sent = it.groups.iter().map(|group| group.delivered).sum();
    vec![
        at_most("quiet p99, ms", it.groups[0].lag(0.99) as f64, 500.0),
        at_least("sent, % of what fits (FIFO's)", percent(sent, fits(scene, scene.slots)), 95.0),
    ]
}

fn equals() -> Scene {
    let mut scene = Scene::new(FEW, TROUBLE + 25_000);
    let group = scene.group("tenants", false);
    for count in [20, 65, 110, 155, 200] {
        let first = scene.destinations(group, count, 1, Receiver::Healthy(QUICK));
        scene.greet(first, count);
        scene.wave(first, count, 200_000 / count, 0);
    }
    scene.fair = Some(Fair { tenants: 5, from: TROUBLE + 4_000, to: TROUBLE + 24_000 });
    ready(scene)
}

fn judge_equals(_: &Scene, it: &Measured) -> Vec<Check> {
    vec![at_most("largest gap between tenants, sends", it.gap as f64, 2.0)]
}

fn add_wave(scene: &mut Scene) {
    let wave = scene.group("wave", false);
    let first = scene.destinations(wave, 20_000, 1_000, Receiver::Healthy(QUICK));
    scene.wave(first, 20_000, 50, 1);
}

fn wave(seed: u64) -> Scene {
    let mut scene = Scene::new(FEW, TROUBLE + 180_000);
    let fresh = scene.group("fresh", true);
    let first = scene.destinations(fresh, 50, 10, Receiver::Healthy(QUICK));
    scene.greet(first, 50);
    let until = scene.until;
    scene.flow(seed, 500.0, (3_000, until), (first, 50), 1);
    add_wave(&mut scene);
    ready(scene)
}

/// How long `rows` take when `slots` are never idle.
fn ideal(rows: u64, slots: u64) -> f64 {
    (rows * QUICK) as f64 / slots as f64
}

/// When a group's last delivery came, in ideal times; infinite while some are missing.
fn drained(scene: &Scene, it: &Measured, group: u8, ideal: f64) -> f64 {
    let seen = &it.groups[usize::from(group)];
    let all = seen.delivered >= scene.offered(group);
    if all { (seen.last_delivered - TROUBLE) as f64 / ideal } else { f64::INFINITY }
}

fn judge_wave(scene: &Scene, it: &Measured) -> Vec<Check> {
    let ideal = ideal(1_000_000, u64::from(FEW) - 25);
    vec![
        at_most("fresh p99, ms", it.groups[0].lag(0.99) as f64, 250.0),
        at_most("drained, in ideal times", drained(scene, it, 1, ideal), 1.5),
    ]
}

/// How long a slow receiver takes.
const SLOW: u64 = 30_000;

/// Slow receivers: half of them known, which took `before` until now, and half never seen.
fn add_slow(scene: &mut Scene, before: u64) {
    let slow = scene.group("slow", false);
    let receiver = Receiver::SlowFrom { from: TROUBLE, takes: SLOW };
    let known = scene.destinations(slow, 2_500, 50, receiver);
    scene.know(known, 2_500, before);
    scene.wave(known, 2_500, 20, 0);
    let never = scene.destinations(slow, 2_500, 50, receiver);
    scene.wave(never, 2_500, 20, 0);
}

/// One destination after the other that was never seen before, each of its own tenant.
fn add_newcomers(scene: &mut Scene, per_second: u64) {
    let new = scene.group("never seen", true);
    let count = per_second * (scene.until - TROUBLE) / 1_000;
    let first = scene.destinations(new, count as u32, count as u32, Receiver::Healthy(QUICK));
    scene.arrivals.extend((0..count).map(|n| Arrival {
        at: TROUBLE + n * 1_000 / per_second,
        destination: first + n as u32,
        class: 1,
        not_before: 0,
    }));
}

fn slow(seed: u64, before: u64) -> Scene {
    let mut scene = Scene::new(FEW, TROUBLE + 120_000);
    let until = scene.until;
    for (name, victim, destinations, rate) in [("known", true, 10, 50.0), ("fast", false, 200, 2_500.0)] {
        let group = scene.group(name, victim);
        let first = scene.destinations(group, destinations, 2, Receiver::Healthy(QUICK));
        scene.greet(first, destinations);
        scene.flow(seed, rate, (3_000, until), (first, destinations), 1);
    }
    add_newcomers(&mut scene, 10);
    add_slow(&mut scene, before);
    ready(scene)
}

fn judge_slow(scene: &Scene, it: &Measured) -> Vec<Check> {
    vec![
        at_most("known p99, ms", it.groups[0].lag(0.99) as f64, 250.0),
        at_most("never seen p99, ms", it.groups[2].lag(0.99) as f64, 3_000.0),
        at_least("fast, % of the run without", percent(it.groups[1].delivered, scene.offered(1)), 90.0),
    ]
}

fn cold(destinations: u32, each: u32) -> Scene {
    let mut scene = Scene::new(ALL, TROUBLE + 60_000);
    let group = scene.group("new", false);
    let first = scene.destinations(group, destinations, destinations.min(10_000), Receiver::Healthy(QUICK));
    let new = |n: u32| Arrival { at: TROUBLE, destination: first + n, class: 1, not_before: 0 };
    scene.arrivals.extend((0..each).flat_map(|_| (0..destinations).map(new)));
    ready(scene)
}

fn judge_cold(scene: &Scene, it: &Measured) -> Vec<Check> {
    let group = &it.groups[0];
    let left = scene.offered(0) - group.starts.min(scene.offered(0));
    let took = group.last_start.saturating_sub(TROUBLE);
    vec![exactly("never started", left, 0), at_most("all started after, ms", took as f64, 10_000.0)]
}

fn herd(seed: u64) -> Scene {
    let mut scene = Scene::new(FEW, TROUBLE + 3_000_000);
    let group = scene.group("herd", false);
    let first = scene.destinations(group, 1, 1, Receiver::Allows { per_second: 50, wait: 2_000 });
    scene.wave(first, 1, 100_000, 1);
    let fresh = scene.group("fresh", true);
    let first = scene.destinations(fresh, 1, 1, Receiver::Healthy(QUICK));
    scene.flow(seed, 10.0, (0, TROUBLE + 120_000), (first, 1), 1);
    ready(scene)
}

fn judge_herd(scene: &Scene, it: &Measured) -> Vec<Check> {
    let group = &it.groups[0];
    vec![
        at_most("refused, % of accepted", percent(group.refused, group.delivered), 2.0),
        at_most("drained, in ideal times", drained(scene, it, 0, 2_000_000.0), 1.15),
        at_most("fresh p99, ms", it.groups[1].lag(0.99) as f64, 50.0),
    ]
}

/// When everyone was told to come back.
const TOLD: u64 = 65_000;

fn same_second() -> Scene {
    let mut scene = Scene::new(ALL, TOLD + 60_000);
    let group = scene.group("told", false);
    let first = scene.destinations(group, 10_000, 100, Receiver::Until(TOLD));
    scene.wave(first, 10_000, 5, 1);
    ready(scene)
}

fn judge_same_second(_: &Scene, it: &Measured) -> Vec<Check> {
    let first = (TOLD / BIN) as usize;
    let bins: Vec<u32> = it.starts.iter().copied().skip(first).take(50).collect();
    let mean = f64::from(bins.iter().sum::<u32>()) / 50.0;
    let peak = f64::from(bins.iter().copied().max().unwrap_or(0));
    vec![
        at_most("peak in 100 ms, of the mean of 5 s", peak / mean.max(0.01), 3.0),
        exactly("early sends", it.early, 0),
    ]
}

fn everything(seed: u64) -> Scene {
    let mut scene = Scene::new(FEW, TROUBLE + 120_000);
    let fresh = scene.group("fresh", true);
    let first = scene.destinations(fresh, 10, 10, Receiver::Healthy(QUICK));
    scene.greet(first, 10);
    let until = scene.until;
    scene.flow(seed, 100.0, (3_000, until), (first, 10), 1);
    add_limited(&mut scene, 100);
    add_quiet(&mut scene, seed, 1_000.0);
    add_noisy(&mut scene, 1_000);
    add_wave(&mut scene);
    add_slow(&mut scene, SLOW);
    ready(scene)
}

/// Slow receivers may have half of the slots: what fits is what the other half can send.
fn judge_everything(scene: &Scene, it: &Measured) -> Vec<Check> {
    let sent = it.groups.iter().map(|group| group.delivered).sum();
    vec![
        at_most("fresh p99, ms", it.groups[0].lag(0.99) as f64, 1_000.0),
        at_most("quiet p99, ms", it.groups[2].lag(0.99) as f64, 1_000.0),
        at_least("sent, % of what fits", percent(sent, fits(scene, scene.slots / 2)), 80.0),
    ]
}

fn two(seed: u64) -> Scene {
    let mut scene = Scene::new(16, TROUBLE + 300_000);
    let a = scene.group("A", false);
    let first = scene.destinations(a, 1, 1, Receiver::Limited { wait: 120_000, until: FOREVER });
    scene.wave(first, 1, 1_000, 0);
    let b = scene.group("B", true);
    let first = scene.destinations(b, 1, 1, Receiver::Healthy(QUICK));
    let until = scene.until;
    scene.flow(seed, 50.0, (0, until - 1_000), (first, 1), 1);
    ready(scene)
}

fn judge_two(scene: &Scene, it: &Measured) -> Vec<Check> {
    let next =
        it.after_refusal.zip(it.first_refusal).map_or(f64::INFINITY, |(next, told)| (next - told) as f64);
    let lost = scene.offered(1) - it.groups[1].delivered.min(scene.offered(1));
    vec![
        exactly("B's deliveries missing", lost, 0),
        at_most("B max, ms", it.groups[1].lag(1.0) as f64, 50.0),
        at_least("A's next request after, ms", next, 120_000.0),
        at_most("A's next request after, ms", next, 132_000.0),
    ]
}

const HOUR: i64 = 3_600_000;

/// Limits, failures, schedules and traffic, while the clock jumps an hour ahead, back again and another
/// hour back, and the machine stands still for ten minutes.
fn jolted(seed: u64) -> Scene {
    let mut scene = Scene::new(FEW, 5 * HOUR.unsigned_abs());
    let limited = scene.group("limited", false);
    let first = scene.destinations(limited, 500, 50, Receiver::Limited { wait: 30_000, until: 900_000 });
    scene.wave(first, 500, 20, 1);
    let broken = scene.group("broken", false);
    let first = scene.destinations(broken, 100, 10, Receiver::Broken(900_000));
    scene.wave(first, 100, 20, 0);
    let healthy = scene.group("healthy", false);
    let first = scene.destinations(healthy, 500, 50, Receiver::Healthy(QUICK));
    scene.flow(seed, 200.0, (0, 1_200_000), (first, 500), 1);
    let mut rng = Rng::new(seed);
    scene.arrivals.extend((0..5_000).map(|n| Arrival {
        at: n,
        destination: first + rng.below(500) as u32,
        class: 1,
        not_before: rng.below(1_200_000),
    }));
    scene.jolts = vec![
        Jolt::Step { at: 20_000, by: HOUR },
        Jolt::Step { at: 100_000, by: -HOUR },
        Jolt::Step { at: 200_000, by: -HOUR },
        Jolt::Pause { at: 300_000, lasts: 600_000 },
    ];
    ready(scene)
}

fn judge_jolted(scene: &Scene, it: &Measured) -> Vec<Check> {
    let missing = (0..3).map(|no| scene.offered(no) - it.groups[usize::from(no)].delivered).sum();
    vec![exactly("early sends", it.early, 0), exactly("stuck: not delivered by the end", missing, 0)]
}

/// Urgent, routine and bulk at 20, 50 and 80 % of what 128 slots can send, and bulk retries.
fn classes(seed: u64) -> Scene {
    let slots = 128;
    let mut scene = Scene::new(slots, TROUBLE + 120_000);
    let capacity = f64::from(slots) * 1_000.0 / QUICK as f64;
    let until = scene.until;
    for (class, name, share) in [(0, "urgent", 0.2), (1, "routine", 0.5), (2, "bulk", 0.8)] {
        let group = scene.group(name, true);
        let first = scene.destinations(group, 200, 20, Receiver::Healthy(QUICK));
        scene.greet(first, 200);
        scene.flow(seed, capacity * share, (TROUBLE, until), (first, 200), class);
    }
    let retries = scene.group("bulk retries", false);
    let first = scene.destinations(retries, 200, 20, Receiver::Healthy(QUICK));
    let backlog = Backlog { first, destinations: 200, each: 500, class: 2, attempts: 1, due: TROUBLE };
    scene.backlog.push(backlog);
    ready(scene)
}

fn judge_classes(_: &Scene, it: &Measured) -> Vec<Check> {
    vec![
        at_most("urgent p95, ms", it.groups[0].lag(0.95) as f64, 1_000.0),
        at_most("routine p95, ms", it.groups[1].lag(0.95) as f64, 10_000.0),
        at_most("bulk p95, ms", it.groups[2].lag(0.95) as f64, 300_000.0),
        at_least("bulk retries, % of all claims", percent(it.groups[3].starts, it.claims), 1.0),
    ]
}
