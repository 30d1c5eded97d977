//! Bulk jobs: begin one, watch it, stop it.
//!
//! A job is asked for with the number of deliveries that was confirmed: if others match by then, it
//! does not begin.

mod wait;

use reqwest::Method;
use serde_json::{Map, Value, json};

use super::args::bulk::{BulkCommand, Matching, Start, Verb};
use super::client::Client;
use super::fault::Fault;
use super::list::{Cell, Column, List, column, named, word};
use super::near;
use super::output::{Output, deliveries, sheet, write};
use super::wire::{Counted, Job, RawPage};

/// The most that a page may have (API.md); there are fewer jobs.
const PAGE: &str = "1000";
/// What a list of jobs shows.
pub(super) const COLUMNS: [Column; 9] = [
    column("id", 0),
    column("action", 0),
    column("state", 0),
    named("filter", 1),
    column("matched", 3),
    column("changed", 2),
    column("skipped", 5),
    column("begun", 4),
    named("by", 6),
];

/// Does what was asked.
pub(super) async fn run(client: &Client, output: &Output, command: BulkCommand) -> Result<(), Fault> {
    match command {
        BulkCommand::Start(order) => start(client, output, &order).await,
        BulkCommand::Ls => ls(client, output).await,
        BulkCommand::Get(one) => {
            let text = client.get(&["v1", "bulk", &one.id]).await?.text;
            show(client, output, &text)
        }
        BulkCommand::Stop(one) => {
            let text = client.order(Method::DELETE, &["v1", "bulk", &one.id], &json!({})).await?.text;
            show(client, output, &text)
        }
    }
}

async fn start(client: &Client, output: &Output, order: &Start) -> Result<(), Fault> {
    let given = order.matching.given(output.now).into_iter();
    let filter: Map<String, Value> = given.map(|(name, text)| (name.to_owned(), typed(name, text))).collect();
    if filter.is_empty() {
        let text = "say which deliveries: --destination NAME, --outcome exhausted, … (see duehook bulk start --help)";
        return Err(Fault::Usage(text.to_owned()));
    }
    let mut body = json!({"action": action(order.action), "filter": filter});
    if let Some(rate) = order.rate {
        body["rate_per_second"] = rate.into();
    }
    if let Some(expect) = order.expect {
        body["expected_count"] = expect.into();
    }
    if order.dry_run {
        return dry_run(client, output, order, body).await;
    }
    match confirm(client, output, order, &body).await? {
        Some(0) => {
            known(client, order).await?;
            return nothing(output);
        }
        Some(counted) => body["expected_count"] = counted.into(),
        None => {}
    }
    let text = client.patient().order(Method::POST, &["v1", "bulk"], &body).await?.text;
    begun(client, output, order, &text, body["expected_count"].as_u64()).await
}

/// What was typed, as the JSON of the API: several values are an array, a status is a number. What is
/// no number stays as it is, for the server to say so.
fn typed(name: &str, text: String) -> Value {
    let one = |text: &str| match (name, text.parse::<u16>()) {
        ("last_status", Ok(status)) => json!(status),
        _ => json!(text),
    };
    if Matching::SINGLE.contains(&name) {
        return text.into();
    }
    match text.split(',').map(one).collect::<Vec<_>>() {
        mut values if values.len() == 1 => values.remove(0),
        values => values.into(),
    }
}

/// Where nothing matches, a destination that is not there is why. One that was deleted may have left
/// deliveries behind, so it is not asked before.
async fn known(client: &Client, order: &Start) -> Result<(), Fault> {
    near::named(client, order.matching.destination.as_deref()).await
}

/// Asks with the number of what matches; that number, where it is known.
async fn confirm(
    client: &Client,
    output: &Output,
    order: &Start,
    body: &Value,
) -> Result<Option<u64>, Fault> {
    let verb = in_words(order.action);
    if !output.asks() {
        output.confirm(&format!("{verb} all deliveries that match?"))?;
        return Ok(None);
    }
    let mut asked = body.clone();
    asked["dry_run"] = true.into();
    let answer = client.patient().order(Method::POST, &["v1", "bulk"], &asked).await?;
    let counted = (answer.status == 200).then(|| client.read::<Counted>(&answer.text)).transpose()?;
    let counted = counted.map(|counted| counted.count);
    if counted == Some(0) {
        return Ok(counted);
    }
    let number = counted.map_or("very many deliveries".to_owned(), deliveries);
    output.confirm(&format!("{verb} {number} that match now?"))?;
    Ok(counted)
}

async fn dry_run(client: &Client, output: &Output, order: &Start, mut body: Value) -> Result<(), Fault> {
    body["dry_run"] = true.into();
    let answer = client.patient().order(Method::POST, &["v1", "bulk"], &body).await?;
    if answer.status != 200 {
        return begun(client, output, order, &answer.text, None).await;
    }
    let counted: Counted = client.read(&answer.text)?;
    if counted.count == 0 {
        known(client, order).await?;
    }
    output.either(
        || answer.text.clone(),
        || match counted.count {
            1 => "1 delivery matches; nothing was changed".to_owned(),
            count => format!("{count} deliveries match; nothing was changed"),
        },
    )
}

/// Nothing is asked and no job begun where nothing matches.
fn nothing(output: &Output) -> Result<(), Fault> {
    output.either(|| json!({"count": 0}).to_string(), || "0 deliveries match: nothing was begun".to_owned())
}

fn action(verb: Verb) -> &'static str {
    match verb {
        Verb::Retry => "retry",
        Verb::Cancel => "cancel",
        Verb::Erase => "erase",
    }
}

fn in_words(verb: Verb) -> &'static str {
    match verb {
        Verb::Retry => "Retry",
        Verb::Cancel => "Cancel",
        Verb::Erase => "Erase the bodies of",
    }
}

/// Shows the job that has begun, or, where it is waited for, how it has ended.
async fn begun(
    client: &Client,
    output: &Output,
    order: &Start,
    text: &str,
    expected: Option<u64>,
) -> Result<(), Fault> {
    let job: Job = client.read(text)?;
    if order.wait {
        let ended = wait::ended(client, output, &job.id, expected).await?;
        show(client, output, &ended)?;
        return wait::whole(&client.read(&ended)?);
    }
    let does = if job.dry_run { "counts" } else { "runs" };
    output.either(
        || text.to_owned(),
        || {
            format!(
                "{id}: {does} now\nduehook bulk get {id} shows how far it is, bulk stop {id} stops it",
                id = job.id
            )
        },
    )
}

/// A destination's work is being cancelled, and then it is deleted.
pub(super) fn removing(client: &Client, output: &Output, name: &str, text: &str) -> Result<(), Fault> {
    let job: Job = client.read(text)?;
    output.either(
        || text.to_owned(),
        || format!("{name}: its work is being cancelled, then it is removed\nduehook bulk get {} shows how far it is", job.id),
    )
}

async fn ls(client: &Client, output: &Output) -> Result<(), Fault> {
    let request = client.request_with(Method::GET, &["v1", "bulk"], &[("limit", PAGE.to_owned())]);
    let page: RawPage = client.read(&client.answer(request).await?.text)?;
    if output.json {
        return page.data.iter().try_for_each(|item| write(item.get()));
    }
    let mut shown = List::of(&COLUMNS);
    for item in &page.data {
        shown.add_row(row(output, &client.read(item.get())?));
    }
    if shown.is_empty() { write("no jobs") } else { write(&shown.printed()) }
}

fn row(output: &Output, job: &Job) -> Vec<Cell> {
    vec![
        Cell::new(&job.id),
        Cell::new(action_in_words(job)),
        word(&job.state),
        Cell::new(filter_in_words(&job.filter)),
        Cell::new(job.matched),
        Cell::new(job.changed),
        Cell::new(job.skipped),
        Cell::new(output.when(job.created_at.as_deref())),
        Cell::new(&job.by),
    ]
}

fn show(client: &Client, output: &Output, text: &str) -> Result<(), Fault> {
    if output.json {
        return write(text);
    }
    let job: Job = client.read(text)?;
    write(&sheet(vec![
        ("id", job.id.clone()),
        ("action", action_in_words(&job)),
        ("filter", filter_in_words(&job.filter)),
        ("rate", job.rate_per_second.map_or("-".into(), |rate| format!("{rate} a second"))),
        ("state", job.state.clone()),
        ("matched", job.matched.to_string()),
        ("changed", job.changed.to_string()),
        ("skipped", job.skipped.to_string()),
        ("begun", output.at(job.created_at.as_deref())),
        ("finished", output.at(job.finished_at.as_deref())),
        ("by", job.by.clone()),
    ]))
}

fn action_in_words(job: &Job) -> String {
    match (&job.removes, job.dry_run) {
        (Some(_), _) => "cancel, remove".to_owned(),
        (None, true) => format!("{} (only counted)", job.action),
        (None, false) => job.action.clone(),
    }
}

/// `state=ready,delayed destination=shop-eu`.
fn filter_in_words(filter: &Map<String, Value>) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let one = |(name, value): (&String, &Value)| match value.as_array() {
        Some(list) => format!("{name}={}", list.iter().map(text).collect::<Vec<_>>().join(",")),
        None => format!("{name}={}", text(value)),
    };
    filter.iter().map(one).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_becomes_json_of_one_type() {
        let check =
            |name: &str, text: &str, json: Value| assert_eq!(typed(name, text.to_owned()), json, "{name}");
        check("state", "ready", json!("ready"));
        check("state", "ready,delayed", json!(["ready", "delayed"]));
        check("tenant", "429", json!("429"));
        check("last_status", "429", json!(429));
        check("last_status", "429,503", json!([429, 503]));
        check("last_status", "429,x", json!([429, "x"]));
        check("label", "a:b,c", json!("a:b,c"));
        check("due_after", "2026-01-15T12:00:00Z", json!("2026-01-15T12:00:00Z"));
        check("outcome", "", json!(""));
    }

    #[test]
    fn filters_and_actions_in_words() {
        let job = |text: &str| -> Job { serde_json::from_str(text).unwrap() };
        let it = job(
            r#"{"id":"job_1","action":"cancel","filter":{"state":["ready","leased"],"last_status":[429],"label":"a:b"},
                "dry_run":true,"state":"running","matched":3}"#,
        );
        assert_eq!(filter_in_words(&it.filter), "label=a:b last_status=429 state=ready,leased");
        assert_eq!(action_in_words(&it), "cancel (only counted)");
        assert_eq!(action_in_words(&Job { removes: Some("shop".into()), ..it }), "cancel, remove");
    }
}
