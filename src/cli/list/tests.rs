//! Every list that there is, at the widths that terminals have.

use super::*;
use crate::cli::{audit, bulk, config_view, deliveries, destinations, simulate, stats};

const ID: &str = "dlv_01KBA0C5B5Q7M1V0X4T2N8R6JD";
const JOB: &str = "job_01KBA0C5B5Q7M1V0X4T2N8R6JD";
/// As long as a name may be.
const LONG: &str = "a-destination-with-a-name-that-is-exactly-as-long-as-one-may-be-";

/// A list, rows as they come, and the columns that are there at 80 letters.
struct Case {
    columns: &'static [Column],
    rows: &'static [&'static [&'static str]],
    at_80: &'static [&'static str],
}

const CASES: [Case; 8] = [
    Case {
        columns: &deliveries::COLUMNS,
        rows: &[
            &[ID, "terminal", "delivered", "shop-eu", "1", "success 204", "-", "3 m 20 s ago"],
            &[ID, "delayed", "-", LONG, "12", "rate_limited 429", "in 2 h 59 m", "5 h ago"],
        ],
        at_80: &["ID", "STATE", "OUTCOME", "DESTINATION"],
    },
    Case {
        columns: &destinations::COLUMNS,
        rows: &[
            &[
                "shop-eu",
                "acme",
                "active",
                "https://shop.example.com/hooks/in",
                "3/8",
                "120",
                "in 5 m",
                "0",
                "now",
            ],
            &[LONG, LONG, "disabled", "https://b.example/", "0/8", "1000000", "-", "12", "2 d 23 h ago"],
        ],
        at_80: &["ID", "STATE", "URL", "WAITING", "HELD"],
    },
    Case {
        columns: &stats::CLASSES,
        rows: &[&["routine", "10000", "200", "30", "4", "2 m 12 s", "61 s", "2.0", "12 ms", "10 s"]],
        at_80: &["CLASS", "READY", "HELD", "DELAYED", "LEASED", "OLDEST READY"],
    },
    Case {
        columns: &stats::DESTINATIONS,
        rows: &[
            &["shop", "acme", "active", "9", "8", "1", "2 d 23 h ago", "in 2 m 20 s", "2 d 23 h ago"],
            &[LONG, LONG, "paused", "1000000", "8", "1", "2 d 23 h ago", "in 2 m 20 s", "-"],
        ],
        at_80: &["DESTINATION", "STATE", "WAITING", "HELD", "IN FLIGHT", "OLDEST DUE"],
    },
    Case {
        columns: &bulk::COLUMNS,
        rows: &[&[
            JOB,
            "cancel",
            "running",
            "state=ready,delayed tenant=acme",
            "1200",
            "10",
            "2",
            "2 m ago",
            "token:ops",
        ]],
        at_80: &["ID", "ACTION", "STATE", "FILTER"],
    },
    Case {
        columns: &audit::COLUMNS,
        rows: &[
            &["2 m 20 s ago", "operator", "destination.update", LONG, "changed url, concurrency and policy"],
            &["2 m 20 s ago", "token:ops", "delivery.retry", ID, "from terminal"],
        ],
        at_80: &["WHEN", "ACTION", "OBJECT"],
    },
    Case {
        columns: &simulate::COLUMNS,
        rows: &[&[
            "12",
            "+2m 36s 145ms",
            "429:120",
            "10",
            "2",
            "2m 1s 145ms",
            "+4m 36s 145ms",
            "held until +4m 36s 145ms",
        ]],
        at_80: &["ATTEMPT", "AT", "ANSWER", "WAIT", "NEXT"],
    },
    Case {
        columns: &config_view::COLUMNS,
        rows: &[
            &["policy.default.retry_statuses", "[408,421,425]", "default"],
            &[
                "policy.default.schedule",
                "[\"5s\",\"30s\",\"2m\",\"10m\",\"30m\",\"1h\",\"2h\",\"5h\",\"10h\"]",
                "config file, line 12",
            ],
        ],
        at_80: &["SETTING", "VALUE", "FROM"],
    },
];

fn list(case: &Case) -> List {
    let mut list = List::of(case.columns);
    case.rows.iter().for_each(|row| list.add_row(row.iter().map(Cell::new)));
    list
}

#[test]
fn every_list_is_a_table_down_to_60_letters() {
    for case in &CASES {
        let list = list(case);
        for wide in [60, 72, 80, 100, 200] {
            let text = list.fitted(wide);
            let widest = text.lines().map(width).max().unwrap_or_default();
            assert!(widest <= wide, "{widest} over {wide}:\n{text}");
            assert_eq!(text.lines().count(), case.rows.len() + 1, "at {wide} no table:\n{text}");
            for id in [ID, JOB] {
                let has = |text: &str| text.matches(id).count();
                let all: usize = case.rows.iter().filter(|row| row[0] == id).count();
                assert!(has(&text) >= all, "an id is cut at {wide}:\n{text}");
            }
        }
        let text = list.fitted(80);
        for column in case.at_80 {
            let head = text.lines().next().unwrap_or_default();
            assert!(head.contains(column), "no {column}:\n{text}");
        }
    }
}

#[test]
fn off_a_terminal_everything_is_whole() {
    for case in &CASES {
        let text = list(case).fitted(usize::MAX);
        for cell in case.rows.iter().copied().flatten() {
            assert!(text.contains(cell), "no {cell}:\n{text}");
        }
    }
}

#[test]
fn what_is_left_out_and_what_is_cut() {
    static COLUMNS: [Column; 4] = [column("id", 0), named("name", 0), column("n", 2), column("age", 1)];
    let mut list = List::of(&COLUMNS);
    list.add_row(["dlv_1", "a-name-of-some-length", "10", "5 m ago"]);
    list.add_row(["dlv_22", "b", "7", "-"]);
    insta::assert_snapshot!(list.fitted(60), @"
    ID      NAME                   N   AGE
    dlv_1   a-name-of-some-length  10  5 m ago
    dlv_22  b                      7   -
    ");
    insta::assert_snapshot!(list.fitted(36), @"
    ID      NAME                 AGE
    dlv_1   a-name-of-some-len…  5 m ago
    dlv_22  b                    -
    ");
    insta::assert_snapshot!(list.fitted(17), @"
    ID      NAME
    dlv_1   a-name-o…
    dlv_22  b
    ");
    insta::assert_snapshot!(list.fitted(12), @"
    id    dlv_1
    name  a-name-of-some-length
    n     10
    age   5 m ago

    id    dlv_22
    name  b
    n     7
    ");
}
