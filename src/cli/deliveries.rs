//! Commands about deliveries: list, show, explain, attempts, retry, cancel, erase.

use reqwest::Method;
use serde_json::json;
use serde_json::value::RawValue;

use super::args::List;
use super::client::Client;
use super::fault::Fault;
use super::list::{Cell, Column, List as Table, column, named, word};
use super::near;
use super::output::{Output, say, sheet, write};
use super::wire::{Attempt, Delivery, Explanation, Last, Page, RawPage};
use crate::time::Timestamp;

/// The most that a page may have (API.md).
const PAGE: u64 = 1000;
/// What a list of deliveries shows.
pub(super) const COLUMNS: [Column; 8] = [
    column("id", 0),
    column("state", 0),
    column("outcome", 1),
    named("destination", 0),
    column("attempts", 4),
    column("last", 3),
    column("next", 2),
    column("created", 5),
];
/// What a list of attempts shows.
pub(super) const ATTEMPTS: [Column; 8] = [
    column("n", 0),
    column("started", 3),
    column("result", 0),
    column("sent", 4),
    column("status", 1),
    named("asked for", 2),
    column("next", 5),
    named("error", 1),
];

/// Lists deliveries, page after page, until the limit or the end.
pub(super) async fn ls(client: &Client, output: &Output, list: Box<List>) -> Result<(), Fault> {
    let most = if list.all { u64::MAX } else { list.limit };
    let query = query(&list, output.now);
    let mut left = most;
    let mut cursor = None;
    let mut shown = Table::of(&COLUMNS);
    while left > 0 {
        let page = page(client, &query, left.min(PAGE), cursor.take()).await?;
        left = left.saturating_sub(page.data.len() as u64);
        for item in &page.data {
            if output.json {
                write(item.get())?;
            } else {
                shown.add_row(row(output, &client.read(item.get())?));
            }
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    if left == most {
        near::named(client, list.matching.destination.as_deref()).await?;
    }
    finish(output, &shown, cursor.is_some())
}

fn finish(output: &Output, shown: &Table, more: bool) -> Result<(), Fault> {
    if output.json {
        return Ok(());
    }
    if shown.is_empty() {
        return write("no deliveries");
    }
    write(&shown.printed())?;
    if more { say("there are more: --limit N or --all") } else { Ok(()) }
}

async fn page(
    client: &Client,
    query: &[(&'static str, String)],
    limit: u64,
    cursor: Option<String>,
) -> Result<RawPage, Fault> {
    let mut query = query.to_vec();
    query.push(("limit", limit.to_string()));
    query.extend(cursor.map(|cursor| ("cursor", cursor)));
    let request = client.request_with(Method::GET, &["v1", "deliveries"], &query);
    let answer = client.answer(request).await.map_err(elsewhere)?;
    client.read(&answer.text)
}

/// The ingest listener has a list by key alone, and wants that key.
fn elsewhere(fault: Fault) -> Fault {
    let Fault::Problem(mut refusal) = fault else { return fault };
    if refusal.problem.errors.iter().any(|error| error.field == "idempotency_key") {
        refusal.hint = Some(
            "this is the ingest listener: name the admin listener with --admin (serve prints where it is)"
                .to_owned(),
        );
    }
    Fault::Problem(refusal)
}

fn query(list: &List, now: Timestamp) -> Vec<(&'static str, String)> {
    let order = list.order.iter().map(|order| ("order", order.clone()));
    list.matching.given(now).into_iter().chain(order).collect()
}

fn row(output: &Output, delivery: &Delivery) -> Vec<Cell> {
    vec![
        Cell::new(&delivery.id),
        word(&delivery.state),
        word(delivery.outcome.as_deref().unwrap_or("-")),
        Cell::new(delivery.destination.as_deref().unwrap_or("-")),
        Cell::new(delivery.attempts),
        Cell::new(delivery.last.as_ref().map_or("-".into(), last)),
        Cell::new(next(output, delivery)),
        Cell::new(output.when(delivery.created_at.as_deref())),
    ]
}

/// When it goes out: what its destination's hold says goes over its own due time.
fn next(output: &Output, delivery: &Delivery) -> String {
    match (&delivery.held_until, delivery.next_attempt_at.as_deref()) {
        (Some(until), Some(_)) => format!("held, {}", output.when(Some(until))),
        (None, Some(due)) if delivery.state == "ready" => format!("due {}", output.when(Some(due))),
        (_, due) => output.when(due),
    }
}

fn last(last: &Last) -> String {
    match last.status {
        Some(status) => format!("{} {status}", last.result),
        None => last.result.clone(),
    }
}

/// Shows one delivery.
pub(super) async fn get(client: &Client, output: &Output, id: &str) -> Result<(), Fault> {
    let text = client.get(&["v1", "deliveries", id]).await?.text;
    show(client, output, &text)
}

/// Makes it due now.
pub(super) async fn retry(client: &Client, output: &Output, id: &str) -> Result<(), Fault> {
    let text = client.order(Method::POST, &["v1", "deliveries", id, "retry"], &json!({})).await?.text;
    show(client, output, &text)
}

/// Ends it, once someone has said that it may be lost.
pub(super) async fn cancel(client: &Client, output: &Output, id: &str) -> Result<(), Fault> {
    output.confirm(&format!("Cancel {id}? It will not be sent again."))?;
    let text = client.order(Method::POST, &["v1", "deliveries", id, "cancel"], &json!({})).await?.text;
    show(client, output, &text)
}

/// Erases their bodies, in order, once someone has said that they may be lost.
pub(super) async fn erase(client: &Client, output: &Output, ids: &[String]) -> Result<(), Fault> {
    let named = match ids {
        [one] => one.clone(),
        several => format!("the bodies of {} deliveries", several.len()),
    };
    output.confirm(&format!("Erase {named}? What waits is not sent; nothing brings a body back."))?;
    for id in ids {
        let erased = client.order(Method::DELETE, &["v1", "deliveries", id, "payload"], &json!({})).await;
        erased.map_err(|fault| fault.of(id))?;
        output.either(|| json!({ "id": id, "erased": true }).to_string(), || format!("{id}: erased"))?;
    }
    Ok(())
}

fn show(client: &Client, output: &Output, text: &str) -> Result<(), Fault> {
    if output.json {
        return write(text);
    }
    let delivery: Delivery = client.read(text)?;
    write(&sheet(fields(output, &delivery)))
}

fn fields(output: &Output, delivery: &Delivery) -> Vec<(&'static str, String)> {
    let some = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
    let mut rows = vec![
        ("id", delivery.id.clone()),
        ("state", state(delivery)),
        ("outcome", some(&delivery.outcome)),
        ("destination", some(&delivery.destination)),
        ("tenant", some(&delivery.tenant)),
        ("class", some(&delivery.class)),
        ("key", some(&delivery.idempotency_key)),
        ("attempts", attempts_in_words(delivery)),
        ("last", delivery.last.as_ref().map_or("-".into(), |one| last_in_words(output, one))),
        ("created", output.at(delivery.created_at.as_deref())),
        ("first attempt", output.at(delivery.first_attempt_at.as_deref())),
        ("next attempt", next_in_words(output, delivery)),
        ("held until", held_in_words(output, delivery)),
        ("expires", output.at(delivery.expires_at.as_deref())),
        ("finished", output.at(delivery.finished_at.as_deref())),
        ("body", delivery.payload.as_ref().map_or("-".into(), body_in_words)),
    ];
    let lease = delivery.lease.as_ref().and_then(|lease| lease.until.as_deref());
    rows.insert(2, ("lease until", output.at(lease)));
    rows.extend(delivery.labels.iter().map(|(name, value)| ("label", format!("{name}: {value}"))));
    rows
}

fn state(delivery: &Delivery) -> String {
    let cancelling = if delivery.cancelling { ", cancelling" } else { "" };
    format!("{}{cancelling}", delivery.state)
}

fn attempts_in_words(delivery: &Delivery) -> String {
    let Delivery { attempts, throttles, failures, .. } = delivery;
    format!("{attempts} ({throttles} rate limited, {failures} failed)")
}

fn last_in_words(output: &Output, one: &Last) -> String {
    let error = one.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
    format!("attempt {}, {}, {}{error}", one.n, last(one), output.when(one.at.as_deref()))
}

fn next_in_words(output: &Output, delivery: &Delivery) -> String {
    let at = output.at(delivery.next_attempt_at.as_deref());
    let due = if delivery.state == "ready" { "due since " } else { "" };
    match &delivery.next_reason {
        Some(reason) if at != "-" => format!("{due}{at}, {reason}"),
        Some(_) | None => at,
    }
}

fn held_in_words(output: &Output, delivery: &Delivery) -> String {
    match &delivery.held_until {
        Some(until) => format!("{}: its destination lets nothing through", output.at(Some(until))),
        None => "-".into(),
    }
}

fn body_in_words(payload: &super::wire::Payload) -> String {
    let kind = payload.content_type.as_deref().unwrap_or("-");
    let erased = if payload.erased_at.is_some() { ", erased" } else { "" };
    let place = payload.reference.as_deref().unwrap_or("a reference");
    let bytes = payload.bytes.map_or(place.to_owned(), |bytes| format!("{bytes} bytes"));
    format!("{bytes}, {kind}{erased}")
}

/// Says why it has not been sent yet.
pub(super) async fn explain(client: &Client, output: &Output, id: &str) -> Result<(), Fault> {
    let text = client.get(&["v1", "deliveries", id, "explain"]).await?.text;
    if output.json {
        return write(&text);
    }
    let why: Explanation = client.read(&text)?;
    say(&format!("{}: {}", why.verdict, why.summary))?;
    for block in &why.blocked_by {
        let until = output.when(block.until.as_deref());
        let until = if until == "-" { String::new() } else { format!(" (ends {until})") };
        let detail = block.detail.as_deref().unwrap_or("");
        say(format!("  {}{until} {detail}", block.kind).trim_end())?;
    }
    let waits = !matches!(why.verdict.as_str(), "terminal" | "in_flight");
    match (&why.earliest, why.ahead) {
        (None, _) if !waits => Ok(()),
        (None, None) => Ok(()),
        (earliest, ahead) => write(&sheet(vec![
            ("earliest", output.at(earliest.as_deref())),
            ("ahead of it", ahead.filter(|_| waits).map_or("-".into(), |ahead| ahead.to_string())),
        ])),
    }
}

/// Lists its attempts.
pub(super) async fn attempts(client: &Client, output: &Output, id: &str) -> Result<(), Fault> {
    let text = client.get(&["v1", "deliveries", id, "attempts"]).await?.text;
    if output.json {
        let page: Page<Box<RawValue>> = client.read(&text)?;
        return page.data.iter().try_for_each(|item| write(item.get()));
    }
    let page: Page<Attempt> = client.read(&text)?;
    if page.data.is_empty() {
        return write("no attempts");
    }
    write(&attempt_table(output, &page.data))
}

/// Attempts, one a row.
pub(super) fn attempt_table(output: &Output, attempts: &[Attempt]) -> String {
    let mut shown = Table::of(&ATTEMPTS);
    for attempt in attempts {
        shown.add_row(attempt_row(output, attempt));
    }
    shown.printed()
}

fn attempt_row(output: &Output, attempt: &Attempt) -> Vec<Cell> {
    let result = attempt.result.as_deref().unwrap_or("in flight");
    let result = if attempt.late { format!("{result} (late)") } else { result.to_owned() };
    let asked = attempt.retry_after.as_ref();
    let dash = || "-".to_owned();
    vec![
        Cell::new(attempt.n),
        Cell::new(output.when(attempt.started_at.as_deref())),
        word(&result),
        Cell::new(attempt.sent.as_deref().unwrap_or("-")),
        Cell::new(attempt.status.map_or_else(dash, |status| status.to_string())),
        Cell::new(asked.map_or_else(dash, asked_in_words)),
        Cell::new(output.when(attempt.next_attempt_at.as_deref())),
        Cell::new(attempt.error.as_deref().unwrap_or("-")),
    ]
}

fn asked_in_words(asked: &super::wire::RetryAfter) -> String {
    let Some(raw) = &asked.raw else { return "-".into() };
    let applied = asked.applied_ms.map(|ms| format!(" → {}", super::output::length(crate::time::Millis(ms))));
    let clamped = asked.clamped.as_ref().map(|end| format!(", {end}")).unwrap_or_default();
    format!("{raw}{}{clamped}", applied.unwrap_or_default())
}
