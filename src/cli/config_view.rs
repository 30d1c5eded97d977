//! `config`: the settings of a running server, and the order to read them again.

use reqwest::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::args::settings::ConfigCommand;
use super::client::Client;
use super::fault::Fault;
use super::list::{Column, List, column, named};
use super::output::{Output, say, write};

/// Where what was not set comes from, in the word of the API.
const DEFAULT: &str = "default";

/// What is shown of each setting.
pub(super) const COLUMNS: [Column; 3] = [column("setting", 0), named("value", 0), named("from", 1)];

/// What a reload answers, as far as it is read.
#[derive(Debug, Deserialize)]
struct Reloaded {
    changed: Vec<String>,
}

/// Shows the settings, or has them read again.
pub(super) async fn run(client: &Client, output: &Output, command: &ConfigCommand) -> Result<(), Fault> {
    match command {
        ConfigCommand::Show { set } => show(client, output, *set).await,
        ConfigCommand::Reload => reload(client, output).await,
    }
}

async fn show(client: &Client, output: &Output, only_set: bool) -> Result<(), Fault> {
    let text = client.get(&["v1", "config"]).await?.text;
    if output.json {
        return write(&text);
    }
    let tables: Map<String, Value> = client.read(&text)?;
    let mut rows = Vec::new();
    tables.iter().for_each(|(name, value)| gather(name, value, &mut rows));
    let mut shown = List::of(&COLUMNS);
    let wanted = |(_, _, origin): &&(String, String, String)| !only_set || origin != DEFAULT;
    for (name, value, origin) in rows.iter().filter(wanted) {
        shown.add_row([name, value, origin]);
    }
    if shown.is_empty() { write("every setting is the default") } else { write(&shown.printed()) }
}

async fn reload(client: &Client, output: &Output) -> Result<(), Fault> {
    let text = client.order(Method::POST, &["v1", "config", "reload"], &json!({})).await?.text;
    if output.json {
        return write(&text);
    }
    let Reloaded { changed } = client.read(&text)?;
    match changed.is_empty() {
        true => write("read again; no setting differs"),
        false => say(&format!("in force: {}", changed.join(", "))),
    }
}

/// Every value below `value`, with its name, its text and where it was set.
fn gather(name: &str, value: &Value, rows: &mut Vec<(String, String, String)>) {
    match value {
        Value::Object(table) => match (table.get("value"), table.get("origin").and_then(Value::as_str)) {
            (Some(value), Some(origin)) => rows.push((name.to_owned(), text(value), origin.to_owned())),
            _ => table.iter().for_each(|(key, below)| gather(&format!("{name}.{key}"), below, rows)),
        },
        Value::Array(items) => {
            for (place, item) in items.iter().enumerate() {
                gather(&format!("{name}[{place}]"), item, rows);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A value as the config file has it, without the quotes of a single text.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) if text.is_empty() => "\"\"".to_owned(),
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_of_the_document_is_a_row() {
        let one = |value: Value, origin: &str| json!({"value": value, "origin": origin});
        let document = json!({
            "region": one("eu".into(), "flag --region"),
            "send": {"ports": one(json!([443, 8443]), "default")},
            "policy": {"slow": {"jitter": one("".into(), "config file, line 3")}},
            "token": [{"sha256": one("***".into(), "default")}],
        });
        let mut rows = Vec::new();
        let Value::Object(tables) = &document else { panic!("{document}") };
        tables.iter().for_each(|(name, value)| gather(name, value, &mut rows));
        rows.sort();
        let rows: Vec<_> = rows.iter().map(|(name, value, from)| (&**name, &**value, &**from)).collect();
        let want = [
            ("policy.slow.jitter", "\"\"", "config file, line 3"),
            ("region", "eu", "flag --region"),
            ("send.ports", "[443,8443]", "default"),
            ("token[0].sha256", "***", "default"),
        ];
        assert_eq!(rows, want);
    }
}
