//! The reference that people read against the program: metrics, keys, commands, codes of the API.
#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::collections::BTreeSet;

use duehook::config::{ConfigError, parse};

use crate::api::Api;
use crate::cli::duehook;

const README: &str = include_str!("../../README.md");
const RUNNING: &str = include_str!("../../packaging/README.md");
const EXAMPLE: &str = include_str!("../../packaging/duehook.toml");

/// The names under which series are found: a counter's ends in `_total`, an information's in `_info`.
fn families(metrics: &str) -> BTreeSet<String> {
    let types = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    types
        .map(|(name, kind)| match kind {
            "counter" => format!("{name}_total"),
            "info" => format!("{name}_info"),
            _ => name.to_owned(),
        })
        .filter(|name| name.starts_with("duehook_"))
        .collect()
}

/// The first cells of the rows of the one table of metrics.
fn documented() -> BTreeSet<String> {
    let rows = RUNNING.lines().filter(|line| line.starts_with("| `duehook_"));
    let names = rows.flat_map(|line| line.split('|').nth(1).unwrap().split(','));
    names.map(|name| name.trim().trim_matches('`').to_owned()).collect()
}

#[tokio::test]
async fn every_metric_is_in_the_table_and_the_other_way_round() {
    let server = crate::server().await;
    let api = Api::of(&server);
    api.destination("held", "http://127.0.0.1:9/", "").await;
    api.admin("PUT", "/v1/destinations/held/hold", r#"{"until":"2999-01-01T00:00:00Z"}"#).await.expect(200);
    api.send("held", None, b"1".to_vec()).await.unwrap().expect(202);
    let backup = server.data().with_file_name("copy.redb");
    api.admin("POST", "/v1/backup", &serde_json::json!({"path": backup}).to_string()).await.expect(201);
    crate::api::until("a destination has series of its own", async || {
        api.text("/metrics").await.contains("duehook_destination_hold_until_timestamp_seconds{")
    })
    .await;
    assert_eq!(documented(), families(&api.text("/metrics").await), "packaging/README.md, and /metrics");
}

/// What the README says of settings, metrics and codes is so: no name in it is one of nothing.
#[tokio::test]
async fn names_in_the_readme_are_names_of_something() {
    let metrics = documented();
    let words = README.split('`').skip(1).step_by(2);
    for word in words.filter(|word| word.starts_with("duehook_")) {
        let name = word.split('{').next().unwrap();
        assert!(metrics.contains(name), "the README names {name}, and there is no such metric");
    }
    let tables = ["send.", "ingest.", "admin.", "metrics.", "backup.", "retention.", "reserve.", "log."];
    let keys = README.split('`').skip(1).step_by(2).filter(|word| tables.iter().any(|t| word.starts_with(t)));
    for key in keys {
        let (table, key) = key.split_once('.').unwrap();
        let begin = format!("{} = ", key.split([' ', '=']).next().unwrap());
        let stands = section(table).iter().any(|line| line.starts_with(&begin));
        assert!(stands, "the README names {table}.{key}, and there is no such key");
    }
}

/// Every command is named in the README, and every command line in it is one that is read.
#[test]
fn commands_of_the_readme_are_commands() {
    let help = duehook(&["--help"], &[], b"").stdout;
    let commands = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let commands: BTreeSet<&str> =
        commands.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).collect();
    for command in commands.iter().filter(|name| !matches!(**name, "" | "help")) {
        let named = [format!("duehook {command}"), format!("`{command}"), format!(", `{command}")];
        assert!(named.iter().any(|name| README.contains(name)), "the README does not name {command}");
    }
    for line in README.lines().chain(RUNNING.lines()) {
        let Some((_, rest)) = line.split_once("duehook ") else { continue };
        let word: String = rest.chars().take_while(|c| c.is_ascii_lowercase() || *c == '-').collect();
        let is_command =
            line.contains("    duehook ") || line.contains("$ duehook") || line.contains("`duehook ");
        assert!(!is_command || commands.contains(&*word), "{line}: there is no command {word}");
    }
}

/// The lines of one table of the example; the empty name is what stands above all tables.
fn section(table: &str) -> Vec<&'static str> {
    let head = format!("[{table}]");
    let mut lines = EXAMPLE.lines();
    if !table.is_empty() {
        lines.find(|line| *line == head).unwrap_or_else(|| panic!("the example has no {head}"));
    }
    lines.take_while(|line| !line.starts_with('[')).collect()
}

/// Every key that is read stands in the example: what a table has is told to whoever mistypes one.
#[test]
fn every_key_that_is_read_is_in_the_example() {
    const TABLES: [&str; 12] = [
        "",
        "log",
        "ingest",
        "admin",
        "metrics",
        "send",
        "policy.default",
        "class.urgent",
        "reserve",
        "tenant.default",
        "backup",
        "retention",
    ];
    for table in TABLES {
        let head = if table.is_empty() { String::new() } else { format!("[{table}]\n") };
        let error = parse(&format!("{head}zz = 1")).unwrap_err();
        let ConfigError::Unknown { known, .. } = error else { panic!("{error}") };
        // What every listener has is explained once.
        let more = if table == "metrics" { section("admin") } else { Vec::new() };
        let lines: Vec<&str> = section(table).into_iter().chain(more).collect();
        let (_, known) = known.split_once("has: ").expect("it says what there is");
        for key in known.split(", ") {
            let begin = format!("{key} = ");
            assert!(
                lines.iter().any(|line| line.trim_start_matches("# ").starts_with(&begin)),
                "[{table}] {key} is not in the example"
            );
        }
    }
}
