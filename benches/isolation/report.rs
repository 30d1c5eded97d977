//! What is printed: a line for each group that was watched, and what was to be shown beside
//! what was. Never a figure that was not measured in this run.

use crate::scene::Scene;
use crate::world::{Measured, Seen};

/// One thing that was to be shown.
pub(crate) struct Check {
    what: String,
    value: f64,
    target: String,
    met: bool,
}

pub(crate) fn at_most(what: &str, value: f64, target: f64) -> Check {
    Check { what: what.into(), value, target: format!("<= {}", short(target)), met: value <= target }
}

pub(crate) fn at_least(what: &str, value: f64, target: f64) -> Check {
    Check { what: what.into(), value, target: format!(">= {}", short(target)), met: value >= target }
}

pub(crate) fn exactly(what: &str, value: u64, target: u64) -> Check {
    Check { what: what.into(), value: value as f64, target: format!("= {target}"), met: value == target }
}

/// A figure with no more places than it needs.
fn short(value: f64) -> String {
    if value.fract() == 0.0 || value.abs() >= 1_000.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

/// The words above the lines.
pub(crate) fn heading() {
    println!(
        "{:<6}{:<13}{:>8}{:>8}{:>8}{:>8} |{:>10}{:>10}{:>9}{:>11}{:>9}{:>10}{:>10}{:>10}  ended",
        "order",
        "watched",
        "p50 ms",
        "p99 ms",
        "max ms",
        "never",
        "429s",
        "claims",
        "sent",
        "rows/claim",
        "rows/429",
        "drained s",
        "early",
        "us/claim"
    );
}

/// The lines of one run.
pub(crate) fn tell(order: &str, scene: &Scene, it: &Measured) {
    let watched: Vec<(&str, &Seen)> = scene
        .groups
        .iter()
        .zip(&it.groups)
        .filter(|(group, _)| group.victim)
        .map(|(group, seen)| (group.name, seen))
        .collect();
    let nobody = Seen::default();
    let first = watched.first().copied().unwrap_or(("-", &nobody));
    println!("{:<6}{} |{}", order, lags(first.0, first.1), totals(it));
    for (name, seen) in watched.iter().skip(1) {
        println!("{:<6}{} |", "", lags(name, seen));
    }
}

fn lags(name: &str, seen: &Seen) -> String {
    let (p50, p99, max) = (seen.lag(0.5), seen.lag(0.99), seen.lag(1.0));
    if seen.lags.is_empty() {
        return format!("{name:<13}{:>8}{:>8}{:>8}{:>8}", "-", "-", "-", "-");
    }
    format!("{name:<13}{p50:>8}{p99:>8}{max:>8}{:>8}", seen.never)
}

fn totals(it: &Measured) -> String {
    let sent: u64 = it.groups.iter().map(|group| group.delivered).sum();
    let per = |part: f64, whole: u64| if whole == 0 { "-".into() } else { short_to(part / whole as f64) };
    let last = it.groups.iter().map(|group| group.last_delivered).max().unwrap_or(0);
    let ended = if it.cut {
        format!("CUT at {} s: out of processor time", it.ended / 1_000)
    } else {
        format!("{} s", it.ended / 1_000)
    };
    format!(
        "{:>10}{:>10}{:>9}{:>11}{:>9}{:>10.1}{:>10}{:>10}  {ended}",
        it.refused,
        it.claims,
        sent,
        per(it.effort.rows_examined as f64, it.claims),
        per(it.effort.rows_rewritten as f64, it.refused),
        last as f64 / 1_000.0,
        it.early,
        per(it.cpu.as_secs_f64() * 1e6, it.claims),
    )
}

fn short_to(value: f64) -> String {
    if value >= 1_000.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

/// Says what was to be shown; gives how much was missed.
pub(crate) fn verdict(checks: &[Check]) -> usize {
    for Check { what, value, target, met } in checks {
        let word = if *met { "ok" } else { "MISS" };
        println!("      {word:<5}{what}: {} (target {target})", short(*value));
    }
    checks.iter().filter(|check| !check.met).count()
}
