//! Rankings: which destinations and tenants have most waiting or in flight, or are furthest behind.
//!
//! One pass over the gates in RAM. No row of the file is read, so that a ranking takes the same
//! time whatever is held, and it is kept for a while for all who ask.

use std::collections::BTreeSet;

use super::command::Seen;
use super::{Core, PUBLISH_EVERY};
use crate::model::{DestNo, DestinationState, Name, TenantNo};
use crate::schedule::GateLine;
use crate::time::{Millis, Mono, Now, Timestamp};

/// Rows of a ranking: nobody reads further down, and the list of destinations has them all. Seven
/// rankings of so many take 5 MB.
pub const MAX_RANKED: usize = 10_000;
/// A ranking is kept longer by a millisecond for each so many gates. A pass takes about 0.1 µs a
/// gate, so that all seven, asked for without end, take under 3 % of the engine's time.
const GATES_A_MILLISECOND: u64 = 40;

/// What the first destination of a ranking has most of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DestinationOrder {
    /// Waiting work that nothing lets through now.
    Held,
    Waiting,
    /// Its oldest due time is the earliest.
    Oldest,
    /// It has failed since the earliest time.
    Failing,
}

/// What the first tenant of a ranking has most of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TenantOrder {
    Waiting,
    InFlight,
    Oldest,
}

impl DestinationOrder {
    /// Every order, in the order of their numbers.
    pub const ALL: [DestinationOrder; 4] = [
        DestinationOrder::Held,
        DestinationOrder::Waiting,
        DestinationOrder::Oldest,
        DestinationOrder::Failing,
    ];

    /// The word for it in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            DestinationOrder::Held => "held",
            DestinationOrder::Waiting => "waiting",
            DestinationOrder::Oldest => "oldest",
            DestinationOrder::Failing => "failing",
        }
    }

    /// What is ranked by: the least comes first, and no two destinations have the same.
    fn key(self, line: &GateLine) -> Key {
        let waiting = most(line.waiting);
        let first = match self {
            DestinationOrder::Held => most(held(line)),
            DestinationOrder::Waiting => waiting,
            DestinationOrder::Oldest => earliest(line.oldest_due_at),
            DestinationOrder::Failing => earliest(line.failing_since),
        };
        (first, waiting, line.no.0)
    }
}

impl TenantOrder {
    /// Every order, in the order of their numbers.
    pub const ALL: [TenantOrder; 3] = [TenantOrder::Waiting, TenantOrder::InFlight, TenantOrder::Oldest];

    /// The word for it in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            TenantOrder::Waiting => "waiting",
            TenantOrder::InFlight => "in_flight",
            TenantOrder::Oldest => "oldest",
        }
    }

    fn key(self, line: &TenantLine) -> Key {
        let waiting = most(line.waiting);
        let first = match self {
            TenantOrder::Waiting => waiting,
            TenantOrder::InFlight => most(line.in_flight),
            TenantOrder::Oldest => earliest(line.oldest_due_at),
        };
        (first, waiting, line.one_of.0)
    }
}

type Key = (u64, u64, u32);

fn most(count: u64) -> u64 {
    u64::MAX - count
}

fn earliest(at: Option<Timestamp>) -> u64 {
    at.map_or(u64::MAX, |at| at.0)
}

fn held(line: &GateLine) -> u64 {
    if line.closed { line.waiting } else { 0 }
}

/// The rows of a ranking that are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub from: usize,
    pub rows: usize,
}

/// Part of a ranking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranked<T> {
    pub rows: Vec<T>,
    /// Where the next part begins, if there is one.
    pub next: Option<usize>,
}

/// A destination in a ranking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DestinationRow {
    pub name: Name,
    pub tenant: Name,
    pub state: DestinationState,
    pub waiting: u64,
    pub held: u64,
    pub in_flight: u32,
    pub oldest_due_at: Option<Timestamp>,
    pub hold_until: Option<Timestamp>,
    pub failing_since: Option<Timestamp>,
}

/// A tenant in a ranking: the sums of its destinations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantRow {
    pub name: Name,
    pub destinations: u64,
    pub waiting: u64,
    pub held: u64,
    pub in_flight: u64,
    pub oldest_due_at: Option<Timestamp>,
}

/// A tenant while it is summed up.
#[derive(Clone, Copy, Debug)]
struct TenantLine {
    /// Any destination of it: who has its name.
    one_of: DestNo,
    destinations: u64,
    waiting: u64,
    held: u64,
    in_flight: u64,
    oldest_due_at: Option<Timestamp>,
}

/// The newest ranking of each order.
#[derive(Debug, Default)]
pub(super) struct Rankings {
    destinations: [Kept<GateLine>; DestinationOrder::ALL.len()],
    tenants: [Kept<TenantLine>; TenantOrder::ALL.len()],
    /// Every line there is, by tenant; made once somebody asks who sees a part only.
    by_tenant: Kept<GateLine>,
    /// The step that made one anew: another that is old waits for the next, so that no step makes
    /// more than one.
    made_at: Option<Mono>,
}

/// A ranking, and until when it is good enough.
#[derive(Debug)]
struct Kept<T> {
    until: Option<Mono>,
    lines: Vec<T>,
}

impl<T> Default for Kept<T> {
    fn default() -> Kept<T> {
        Kept { until: None, lines: Vec::new() }
    }
}

impl<T> Kept<T> {
    /// True when it is to be made anew: `busy` steps do so only for the first time.
    fn is_stale(&self, now: Mono, busy: bool) -> bool {
        self.until.is_none_or(|until| until <= now && !busy)
    }
}

/// The lines asked for, each made a row.
fn part<T, R>(lines: &[T], span: Span, row: impl Fn(&T) -> R) -> Ranked<R> {
    let rows: Vec<R> = lines.iter().skip(span.from).take(span.rows).map(row).collect();
    let next = span.from.saturating_add(rows.len());
    Ranked { next: (next < lines.len() && !rows.is_empty()).then_some(next), rows }
}

impl Core {
    /// Part of a ranking of destinations.
    pub(super) fn ranked(
        &mut self,
        order: DestinationOrder,
        span: Span,
        seen: &Seen,
        now: Now,
    ) -> Ranked<DestinationRow> {
        if let Some(own) = seen {
            let lines = first(self.lines_of(own, now), |line| order.key(line));
            return part(&lines, span, |line| self.destination_row(line));
        }
        let until = Some(self.kept_until(now.mono));
        let busy = self.rankings.made_at == Some(now.mono);
        let kept = &mut self.rankings.destinations[order as usize];
        if kept.is_stale(now.mono, busy) {
            self.rankings.made_at = Some(now.mono);
            *kept = Kept { until, lines: first(self.schedule.lines().collect(), |line| order.key(line)) };
        }
        part(&self.rankings.destinations[order as usize].lines, span, |line| self.destination_row(line))
    }

    /// Part of a ranking of tenants.
    pub(super) fn ranked_tenants(
        &mut self,
        order: TenantOrder,
        span: Span,
        seen: &Seen,
        now: Now,
    ) -> Ranked<TenantRow> {
        if let Some(own) = seen {
            let lines = first(tenants(self.lines_of(own, now).into_iter()), |line| order.key(line));
            return part(&lines, span, |line| self.tenant_row(line));
        }
        let until = Some(self.kept_until(now.mono));
        let busy = self.rankings.made_at == Some(now.mono);
        let kept = &mut self.rankings.tenants[order as usize];
        if kept.is_stale(now.mono, busy) {
            self.rankings.made_at = Some(now.mono);
            *kept = Kept { until, lines: first(tenants(self.schedule.lines()), |line| order.key(line)) };
        }
        part(&self.rankings.tenants[order as usize].lines, span, |line| self.tenant_row(line))
    }

    /// The lines of these tenants, found by their number: whoever sees a part of a ranking costs no
    /// pass over what he does not see.
    fn lines_of(&mut self, own: &[Name], now: Now) -> Vec<GateLine> {
        let until = Some(self.kept_until(now.mono));
        let busy = self.rankings.made_at == Some(now.mono);
        if self.rankings.by_tenant.is_stale(now.mono, busy) {
            self.rankings.made_at = Some(now.mono);
            let mut lines: Vec<GateLine> = self.schedule.lines().collect();
            lines.sort_unstable_by_key(|line| line.tenant);
            self.rankings.by_tenant = Kept { until, lines };
        }
        let lines = &self.rankings.by_tenant.lines;
        let numbers: BTreeSet<TenantNo> = own.iter().filter_map(|name| self.directory.tenant(name)).collect();
        let of = |tenant: TenantNo| {
            let begin = lines.partition_point(|line| line.tenant < tenant);
            lines[begin..].iter().take_while(move |line| line.tenant == tenant)
        };
        numbers.into_iter().flat_map(of).copied().collect()
    }

    /// Until when what takes a pass over all gates is good enough.
    pub(super) fn kept_until(&self, now: Mono) -> Mono {
        let gates = u64::try_from(self.schedule.len()).unwrap_or(u64::MAX);
        now.plus(Millis(PUBLISH_EVERY.0.max(gates / GATES_A_MILLISECOND)))
    }

    fn destination_row(&self, line: &GateLine) -> DestinationRow {
        let facts = self.directory.facts(line.no);
        DestinationRow {
            name: facts.name.clone(),
            tenant: facts.tenant.clone(),
            state: facts.state,
            waiting: line.waiting,
            held: held(line),
            in_flight: line.in_flight,
            oldest_due_at: line.oldest_due_at,
            hold_until: self.schedule.held_until(line.no),
            failing_since: line.failing_since,
        }
    }

    fn tenant_row(&self, line: &TenantLine) -> TenantRow {
        TenantRow {
            name: self.directory.facts(line.one_of).tenant.clone(),
            destinations: line.destinations,
            waiting: line.waiting,
            held: line.held,
            in_flight: line.in_flight,
            oldest_due_at: line.oldest_due_at,
        }
    }
}

/// The first of all lines, in order.
fn first<T>(mut lines: Vec<T>, key: impl Fn(&T) -> Key) -> Vec<T> {
    if lines.len() > MAX_RANKED {
        lines.select_nth_unstable_by_key(MAX_RANKED, &key);
        lines.truncate(MAX_RANKED);
        lines.shrink_to_fit();
    }
    lines.sort_unstable_by_key(key);
    lines
}

/// Every tenant that has a destination, by number, which are dense.
fn tenants(lines: impl Iterator<Item = GateLine>) -> Vec<TenantLine> {
    let mut sums: Vec<Option<TenantLine>> = Vec::new();
    for line in lines {
        let place = usize::try_from(line.tenant.0).unwrap_or(usize::MAX);
        if place >= sums.len() {
            sums.resize(place + 1, None);
        }
        let sum = &mut sums[place];
        *sum = Some(added(*sum, &line));
    }
    sums.into_iter().flatten().collect()
}

fn added(sum: Option<TenantLine>, line: &GateLine) -> TenantLine {
    let none = TenantLine {
        one_of: line.no,
        destinations: 0,
        waiting: 0,
        held: 0,
        in_flight: 0,
        oldest_due_at: None,
    };
    let sum = sum.unwrap_or(none);
    TenantLine {
        one_of: sum.one_of,
        destinations: sum.destinations + 1,
        waiting: sum.waiting + line.waiting,
        held: sum.held + held(line),
        in_flight: sum.in_flight + u64::from(line.in_flight),
        oldest_due_at: [sum.oldest_due_at, line.oldest_due_at].into_iter().flatten().min(),
    }
}

#[cfg(test)]
#[path = "rank/tests.rs"]
mod tests;
