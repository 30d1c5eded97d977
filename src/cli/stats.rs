//! `stats`: the whole server at a glance, and who has most waiting.

use reqwest::Method;
use serde_json::value::RawValue;

use super::args;
use super::client::Client;
use super::fault::Fault;
use super::list::{Cell, Column, List, column, named, word};
use super::output::{Output, length, size, wrapped, write};
use super::wire::{Class, DestinationRow, RawPage, Stats, TenantRow};
use crate::time::Millis;

/// The most that a page may have (API.md).
const PAGE: u64 = 1000;
/// What is shown of each class.
pub(super) const CLASSES: [Column; 10] = [
    named("class", 0),
    column("ready", 0),
    column("held", 0),
    column("delayed", 0),
    column("leased", 0),
    column("oldest ready", 1),
    column("oldest held", 2),
    column("claims/s", 4),
    column("first p95", 3),
    column("window", 5),
];

/// What is shown of each tenant.
pub(super) const TENANTS: [Column; 6] = [
    named("tenant", 0),
    column("destinations", 3),
    column("waiting", 0),
    column("held", 0),
    column("in flight", 1),
    column("oldest due", 2),
];

/// What is shown of each destination.
pub(super) const DESTINATIONS: [Column; 9] = [
    named("destination", 0),
    named("tenant", 4),
    column("state", 0),
    column("waiting", 0),
    column("held", 0),
    column("in flight", 1),
    column("oldest due", 2),
    column("hold ends", 3),
    column("failing since", 5),
];

/// A list of tenants or destinations, or the totals.
pub(super) async fn run(client: &Client, output: &Output, asked: args::Stats) -> Result<(), Fault> {
    match (asked.tenants, asked.destinations) {
        (true, _) => tenants(client, output, &asked).await,
        (false, true) => destinations(client, output, &asked).await,
        (false, false) => totals(client, output).await,
    }
}

async fn tenants(client: &Client, output: &Output, asked: &args::Stats) -> Result<(), Fault> {
    let mut shown = List::of(&TENANTS);
    let rows = ranked(client, "tenants", asked).await?;
    for row in &rows {
        if output.json {
            write(row.get())?;
            continue;
        }
        let row: TenantRow = client.read(row.get())?;
        shown.add_row([
            row.tenant,
            row.destinations.to_string(),
            row.waiting.to_string(),
            row.held.to_string(),
            row.in_flight.to_string(),
            output.when(row.oldest_due_at.as_deref()),
        ]);
    }
    finish(output, &shown, "no tenants")
}

async fn destinations(client: &Client, output: &Output, asked: &args::Stats) -> Result<(), Fault> {
    let mut shown = List::of(&DESTINATIONS);
    for row in ranked(client, "destinations", asked).await? {
        if output.json {
            write(row.get())?;
        } else {
            shown.add_row(destination_row(output, client.read(row.get())?));
        }
    }
    finish(output, &shown, "no destinations")
}

/// The destinations that have most waiting.
pub(super) async fn destinations_text(client: &Client, output: &Output, limit: u64) -> Result<String, Fault> {
    let sort = Some("waiting".to_owned());
    let asked = args::Stats { tenants: false, destinations: true, sort, limit };
    let mut shown = List::of(&DESTINATIONS);
    for row in ranked(client, "destinations", &asked).await? {
        shown.add_row(destination_row(output, client.read(row.get())?));
    }
    Ok(if shown.is_empty() { "no destinations".to_owned() } else { shown.printed() })
}

fn destination_row(output: &Output, row: DestinationRow) -> Vec<Cell> {
    vec![
        Cell::new(row.destination),
        Cell::new(row.tenant),
        word(&row.state),
        Cell::new(row.waiting),
        Cell::new(row.held),
        Cell::new(row.in_flight),
        Cell::new(output.when(row.oldest_due_at.as_deref())),
        Cell::new(output.when(row.hold_until.as_deref())),
        Cell::new(output.when(row.failing_since.as_deref())),
    ]
}

fn finish(output: &Output, shown: &List, none: &str) -> Result<(), Fault> {
    match (output.json, shown.is_empty()) {
        (true, _) => Ok(()),
        (false, true) => write(none),
        (false, false) => write(&shown.printed()),
    }
}

/// The rows of a ranking, page after page, until the limit or its end.
async fn ranked(client: &Client, of: &str, asked: &args::Stats) -> Result<Vec<Box<RawValue>>, Fault> {
    let (mut rows, mut cursor) = (Vec::new(), None);
    loop {
        let left = asked.limit.saturating_sub(rows.len() as u64).min(PAGE);
        let mut query = vec![("limit", left.to_string())];
        query.extend(asked.sort.clone().map(|sort| ("sort", sort)));
        query.extend(cursor.take().map(|cursor| ("cursor", cursor)));
        let request = client.request_with(Method::GET, &["v1", "stats", of], &query);
        let page: RawPage = client.read(&client.answer(request).await?.text)?;
        rows.extend(page.data);
        cursor = page.next_cursor.filter(|_| (rows.len() as u64) < asked.limit);
        if cursor.is_none() {
            return Ok(rows);
        }
    }
}

/// Shows what waits, what is in flight and what is due in the next hour.
async fn totals(client: &Client, output: &Output) -> Result<(), Fault> {
    if output.json {
        return write(&document(client).await?);
    }
    write(&totals_text(client).await?)
}

/// The totals as they are answered.
pub(super) async fn document(client: &Client) -> Result<String, Fault> {
    Ok(client.get(&["v1", "stats"]).await?.text)
}

/// The totals for people.
pub(super) async fn totals_text(client: &Client) -> Result<String, Fault> {
    let stats: Stats = client.read(&document(client).await?)?;
    let mut shown = List::of(&CLASSES);
    let mut classes: Vec<_> = stats.classes.iter().collect();
    classes.sort_by_key(|(_, class)| class.window_ms);
    for (name, class) in classes {
        shown.add_row(row(name, class));
    }
    let wide = size().map_or(usize::MAX, |(wide, _)| usize::from(wide));
    let [head, forecast] = [head(&stats), forecast(&stats)].map(|text| wrapped(&text, wide));
    Ok(format!("{head}\n\n{}\n\n{forecast}", shown.printed()))
}

fn head(stats: &Stats) -> String {
    let counting =
        if stats.counting { "\nstill counting after a start: figures are lower bounds" } else { "" };
    let quarantined = match stats.quarantined {
        0 => String::new(),
        some => format!("\n{some} quarantined: see duehook ls --outcome quarantined"),
    };
    format!(
        "region {}, claims {}, {} of {} slots in flight, {:.1}/s accepted, {:.1}/s finished{counting}{quarantined}",
        stats.region,
        stats.claims,
        stats.slots.in_flight,
        stats.slots.total,
        stats.accepted_per_second,
        stats.finished_per_second,
    )
}

fn row(name: &str, class: &Class) -> Vec<Cell> {
    let time = |ms: Option<u64>| ms.map_or("-".into(), |ms| length(Millis(ms)));
    vec![
        Cell::new(name),
        Cell::new(class.ready),
        Cell::new(class.held),
        Cell::new(class.delayed),
        Cell::new(class.leased),
        Cell::new(time(class.oldest_ready_ms)),
        Cell::new(time(class.oldest_held_ms)),
        Cell::new(format!("{:.1}", class.claims_per_second)),
        Cell::new(time(class.first_attempt_p95_ms)),
        Cell::new(time(class.window_ms)),
    ]
}

/// The hour ahead in one line.
fn forecast(stats: &Stats) -> String {
    let within = |minutes: usize| stats.forecast.iter().take(minutes).map(|minute| minute.due).sum::<u64>();
    let fullest = stats.forecast.iter().max_by_key(|minute| minute.due);
    let peak = fullest.filter(|minute| minute.due > 0);
    let peak = peak.map(|minute| format!(", most ({}) in the minute from {}", minute.due, minute.from));
    format!(
        "due in the next 5 m: {}, in the next hour: {}{}",
        within(5),
        within(60),
        peak.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glance_reads_what_the_contract_says() {
        let stats: Stats = serde_json::from_str(
            r#"{"at": "2026-01-15T12:00:00.000Z", "region": "eu", "claims": "running", "counting": true,
                "slots": {"total": 4096, "in_flight": 3}, "accepted_per_second": 1.26,
                "finished_per_second": 0.5, "quarantined": 1, "unheard_of": {},
                "classes": {"routine": {"ready": 1, "held": 2, "delayed": 3, "leased": 4,
                    "oldest_ready_ms": null, "oldest_held_ms": 61000, "claims_per_second": 2.0,
                    "window_ms": 10000, "first_attempt_p95_ms": 12}},
                "forecast": [{"from": "2026-01-15T12:00:00.000Z", "to": "…", "due": 2},
                             {"from": "2026-01-15T12:01:00.000Z", "to": "…", "due": 5}]}"#,
        )
        .unwrap();
        let head = head(&stats);
        for part in ["region eu", "3 of 4096", "1.3/s accepted", "lower bounds", "1 quarantined"] {
            assert!(head.contains(part), "{head}");
        }
        assert_eq!(
            forecast(&stats),
            "due in the next 5 m: 7, in the next hour: 7, most (5) in the minute from 2026-01-15T12:01:00.000Z"
        );
        assert_eq!(row("routine", &stats.classes["routine"]).len(), 10);
    }
}
