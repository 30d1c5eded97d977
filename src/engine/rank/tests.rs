//! What comes first, and how a ranking is cut. Lines only: no engine.

use super::*;
use crate::model::TenantNo;

/// Destination, tenant, waiting, closed, in flight, oldest due, failing since.
type Line = (u32, u32, u64, bool, u32, Option<u64>, Option<u64>);

fn line(of: Line) -> GateLine {
    let (no, tenant, waiting, closed, in_flight, oldest, failing) = of;
    GateLine {
        no: DestNo(no),
        tenant: TenantNo(tenant),
        waiting,
        closed,
        in_flight,
        oldest_due_at: oldest.map(Timestamp),
        failing_since: failing.map(Timestamp),
    }
}

const LINES: [Line; 5] = [
    (0, 7, 5, false, 1, Some(50), None),
    (1, 7, 3, true, 0, Some(40), Some(9)),
    (2, 2, 0, false, 8, None, None),
    (3, 2, 5, true, 2, Some(60), Some(4)),
    (4, 0, 0, false, 0, None, None),
];

#[test]
fn destinations_come_in_each_order() {
    let check = |order: DestinationOrder, want: [u32; 5]| {
        let got = first(LINES.map(line).to_vec(), |line| order.key(line));
        assert_eq!(got.iter().map(|line| line.no.0).collect::<Vec<_>>(), want, "{order:?}");
    };
    check(DestinationOrder::Held, [3, 1, 0, 2, 4]);
    check(DestinationOrder::Waiting, [0, 3, 1, 2, 4]);
    check(DestinationOrder::Oldest, [1, 0, 3, 2, 4]);
    check(DestinationOrder::Failing, [3, 1, 0, 2, 4]);
}

#[test]
fn tenants_are_the_sums_of_their_destinations() {
    let lines = || tenants(LINES.map(line).into_iter());
    let check = |order: TenantOrder, want: [u32; 3]| {
        let got = first(lines(), |line| order.key(line));
        assert_eq!(got.iter().map(|line| line.one_of.0).collect::<Vec<_>>(), want, "{order:?}");
    };
    check(TenantOrder::Waiting, [0, 2, 4]);
    check(TenantOrder::InFlight, [2, 0, 4]);
    check(TenantOrder::Oldest, [0, 2, 4]);
    let seventh = lines().into_iter().find(|line| line.one_of == DestNo(0)).unwrap();
    let TenantLine { one_of: _, destinations, waiting, held, in_flight, oldest_due_at } = seventh;
    assert_eq!((destinations, waiting, held, in_flight, oldest_due_at), (2, 8, 3, 1, Some(Timestamp(40))));
}

#[test]
fn a_ranking_is_cut_at_its_bound_and_read_in_parts() {
    let many = (0..).map(|no| line((no, 0, u64::from(no), false, 0, None, None)));
    let key = |line: &GateLine| DestinationOrder::Waiting.key(line);
    let lines = first(many.take(MAX_RANKED + 5).collect(), key);
    assert_eq!((lines.len(), lines[0].waiting), (MAX_RANKED, MAX_RANKED as u64 + 4));
    assert_eq!(lines[MAX_RANKED - 1].waiting, 5);
    let kept = Kept { until: Some(Mono(10)), lines };
    assert!(
        !kept.is_stale(Mono(9), false) && kept.is_stale(Mono(10), false) && !kept.is_stale(Mono(10), true)
    );
    let check = |from: usize, rows: usize, got: usize, next: Option<usize>| {
        let part = part(&kept.lines, Span { from, rows }, |line| line.no);
        assert_eq!((part.rows.len(), part.next), (got, next), "{from} {rows}");
    };
    check(0, 50, 50, Some(50));
    check(MAX_RANKED - 50, 50, 50, None);
    check(MAX_RANKED - 10, 50, 10, None);
    check(MAX_RANKED, 50, 0, None);
    check(usize::MAX, 50, 0, None);
}
