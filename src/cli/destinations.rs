//! Commands about destinations.

use std::io::Write as _;

use reqwest::Method;
use serde_json::{Map, Value, json};

use super::args::dest::{DestCommand, Hold, Named, RateLimit, Reasoned, Set};
use super::bulk;
use super::client::{Answer, Client};
use super::fault::Fault;
use super::keys;
use super::list::{Cell, Column, List, column, named, word};
use super::near::suggest;
use super::output::{Output, for_stderr, length, sheet, write};
use super::wire::{Destination, Observed, Rate, RawPage, Recovery};
use crate::time::{Millis, Timestamp};

/// The most that a page may have (API.md).
const PAGE: &str = "1000";
/// What a list of destinations shows.
pub(super) const COLUMNS: [Column; 9] = [
    named("id", 0),
    named("tenant", 4),
    column("state", 0),
    named("url", 1),
    column("in flight", 3),
    column("waiting", 1),
    column("held", 2),
    column("failures", 5),
    column("last success", 6),
];

/// Does what was asked; a name that does not exist is answered with the ones that are near.
pub(super) async fn run(client: &Client, output: &Output, command: DestCommand) -> Result<(), Fault> {
    let name = name(&command).to_owned();
    match carry_out(client, output, command).await {
        Ok(()) => Ok(()),
        Err(fault) => Err(suggest(client, &name, fault).await),
    }
}

fn name(command: &DestCommand) -> &str {
    match command {
        DestCommand::Ls { .. } => "",
        DestCommand::Get(one) | DestCommand::Rm(one) | DestCommand::Release(one) => &one.name,
        DestCommand::Set(set) => &set.name,
        DestCommand::Pause(one)
        | DestCommand::Resume(one)
        | DestCommand::Enable(one)
        | DestCommand::Disable(one) => &one.name,
        DestCommand::Hold(hold) => &hold.name,
        DestCommand::Test(one) => &one.name,
        DestCommand::Rotate(one) => &one.name,
    }
}

async fn carry_out(client: &Client, output: &Output, command: DestCommand) -> Result<(), Fault> {
    match command {
        DestCommand::Ls { tenant, state, held } => ls(client, output, (tenant, state), held).await,
        DestCommand::Get(one) => {
            let answer = client.get(&["v1", "destinations", &one.name]).await?;
            show(client, output, &answer)
        }
        DestCommand::Set(change) => set(client, output, &change).await,
        DestCommand::Rm(one) => rm(client, output, &one).await,
        DestCommand::Pause(one) => verb(client, output, &one, "pause").await,
        DestCommand::Resume(one) => verb(client, output, &one, "resume").await,
        DestCommand::Enable(one) => verb(client, output, &one, "enable").await,
        DestCommand::Disable(one) => verb(client, output, &one, "disable").await,
        DestCommand::Hold(one) => hold(client, output, &one).await,
        DestCommand::Release(one) => release(client, output, &one).await,
        DestCommand::Test(one) => keys::test(client, output, &one).await,
        DestCommand::Rotate(one) => keys::rotate(client, output, &one).await,
    }
}

async fn ls(
    client: &Client,
    output: &Output,
    (tenant, state): (Option<String>, Option<String>),
    only_held: bool,
) -> Result<(), Fault> {
    let mut query = vec![("limit", PAGE.to_owned())];
    query.extend(tenant.map(|tenant| ("tenant", tenant)));
    query.extend(state.map(|state| ("state", state)));
    let mut shown = List::of(&COLUMNS);
    let mut cursor = None;
    loop {
        let page = page(client, &query, cursor).await?;
        for item in &page.data {
            let one: Destination = client.read(item.get())?;
            if only_held && one.hold_until.is_none() {
                continue;
            }
            if output.json {
                write(item.get())?;
            } else {
                shown.add_row(row(output, &one));
            }
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    match (output.json, shown.is_empty()) {
        (true, _) => Ok(()),
        (false, true) => write("no destinations"),
        (false, false) => write(&shown.printed()),
    }
}

async fn page(
    client: &Client,
    query: &[(&'static str, String)],
    cursor: Option<String>,
) -> Result<RawPage, Fault> {
    let mut query = query.to_vec();
    query.extend(cursor.map(|cursor| ("cursor", cursor)));
    let request = client.request_with(Method::GET, &["v1", "destinations"], &query);
    client.read(&client.answer(request).await?.text)
}

fn row(output: &Output, one: &Destination) -> Vec<Cell> {
    let number = |number: Option<u64>| number.map_or("-".into(), |number| number.to_string());
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
    vec![
        Cell::new(text(&one.id)),
        Cell::new(text(&one.tenant)),
        word(&text(&one.state)),
        Cell::new(text(&one.url)),
        Cell::new(format!("{}/{}", number(one.in_flight), number(one.limit))),
        Cell::new(number(one.waiting)),
        Cell::new(output.when(one.hold_until.as_deref())),
        Cell::new(number(one.failure_streak)),
        Cell::new(output.when(one.last_success_at.as_deref())),
    ]
}

fn show(client: &Client, output: &Output, answer: &Answer) -> Result<(), Fault> {
    if output.json {
        return write(&answer.text);
    }
    let one: Destination = client.read(&answer.text)?;
    write(&sheet(fields(output, &one)))
}

fn fields(output: &Output, one: &Destination) -> Vec<(&'static str, String)> {
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
    let number = |number: Option<u64>| number.map_or("-".into(), |number| number.to_string());
    let time = |ms: Option<u64>| ms.map_or("-".into(), |ms| length(Millis(ms)));
    let at = |time: &Option<String>| output.at(time.as_deref());
    vec![
        ("id", text(&one.id)),
        ("tenant", text(&one.tenant)),
        ("url", text(&one.url)),
        ("state", text(&one.state)),
        ("since", at(&one.state_since)),
        ("by", text(&one.state_by)),
        ("reason", text(&one.state_reason)),
        ("in flight", number(one.in_flight)),
        ("limit", format!("{} of {}", number(one.limit), number(one.concurrency.max.map(u64::from)))),
        ("adaptive", if one.concurrency.adaptive { "yes" } else { "no" }.into()),
        ("rate", one.rate.as_ref().map_or("-".into(), rate)),
        (
            "learnt rate",
            one.learnt_rate.map_or("-".into(), |learnt| format!("{learnt:.1} a second, from its refusals")),
        ),
        ("breaker", text(&one.breaker)),
        ("waiting", number(one.waiting)),
        ("of these delayed", number(one.delayed)),
        ("oldest due", at(&one.oldest_due_at)),
        ("hold until", at(&one.hold_until)),
        ("hold reason", text(&one.hold_reason)),
        ("last success", at(&one.last_success_at)),
        ("failing since", at(&one.failing_since)),
        ("failures in a row", number(one.failure_streak)),
        ("asked to wait", one.observed_retry_after.as_ref().map_or("-".into(), asked)),
        ("came back", one.recovery.as_ref().map_or("-".into(), recovery)),
        ("headers", list(one.headers.keys())),
        ("policy", text(&one.policy)),
        ("timeout", time(one.timeout_ms)),
        ("connect timeout", time(one.connect_timeout_ms)),
        ("hold scope", text(&one.hold_scope)),
        ("allowed networks", list(one.allow_cidrs.iter())),
    ]
}

fn list<'a>(items: impl Iterator<Item = &'a String>) -> String {
    let items: Vec<&str> = items.map(String::as_str).collect();
    if items.is_empty() { "-".to_owned() } else { items.join(", ") }
}

fn asked(it: &Observed) -> String {
    let [p50, p95, max] = [it.p50_ms, it.p95_ms, it.max_ms].map(|ms| length(Millis(ms)));
    format!("{}: half of them {p50} at most, 95 % {p95}, the longest {max}", times(it.count))
}

fn recovery(it: &Recovery) -> String {
    let [p50, p95] = [it.p50_ms, it.p95_ms].map(|ms| length(Millis(ms)));
    let began: Vec<String> = it.by_result.iter().map(|(result, count)| format!("{result} {count}")).collect();
    let began =
        if began.is_empty() { String::new() } else { format!("; it began with {}", began.join(", ")) };
    format!("{}: half of them within {p50}, 95 % within {p95}{began}", times(it.count))
}

fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

fn rate(rate: &Rate) -> String {
    format!("{} a second, burst {}", rate.per_second, rate.burst)
}

/// Changes what is given; what does not exist yet is created with it.
async fn set(client: &Client, output: &Output, change: &Set) -> Result<(), Fault> {
    let path = ["v1", "destinations", change.name.as_str()];
    let patch = patch(change)?;
    let answer = match client.order(Method::PATCH, &path, &patch).await {
        Err(Fault::Problem(refusal)) if refusal.problem.status == 404 => {
            client.order(Method::PUT, &path, &patch).await?
        }
        other => other?,
    };
    show(client, output, &answer)
}

/// The settings that were given, as the API names them.
fn patch(change: &Set) -> Result<Value, Fault> {
    let millis = |length: &std::time::Duration| Value::from(Millis::from(*length).0);
    let texts = |text: &Option<String>| text.clone().map(Value::from);
    let given = [
        ("tenant", texts(&change.tenant)),
        ("url", texts(&change.url)),
        ("concurrency", concurrency(change)),
        ("rate", rate_change(change)?),
        ("policy", texts(&change.policy)),
        ("timeout_ms", change.timeout.as_ref().map(millis)),
        ("connect_timeout_ms", change.connect_timeout.as_ref().map(millis)),
        ("headers", headers(&change.headers)?),
        ("secrets", keys::secrets(change)?),
        ("tls", keys::tls(change)?),
        ("allow_cidrs", (!change.allow_cidrs.is_empty()).then(|| json!(change.allow_cidrs))),
        ("hold_scope", texts(&change.hold_scope)),
    ];
    let given = given.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Ok(Value::Object(given.collect()))
}

fn concurrency(change: &Set) -> Option<Value> {
    let most = change.concurrency.map(|most| ("max".to_owned(), most.into()));
    let adaptive = change.adaptive.map(|adaptive| ("adaptive".to_owned(), adaptive.into()));
    let given: Map<String, Value> = most.into_iter().chain(adaptive).collect();
    (!given.is_empty()).then_some(Value::Object(given))
}

fn rate_change(change: &Set) -> Result<Option<Value>, Fault> {
    match (change.rate, change.burst) {
        (None, None) => Ok(None),
        (Some(RateLimit::None), None) => Ok(Some(Value::Null)),
        (Some(RateLimit::None), Some(_)) => Err(Fault::Usage("--rate none: has no --burst".to_owned())),
        (Some(RateLimit::PerSecond(rate)), None) => Ok(Some(json!({"per_second": rate}))),
        (Some(RateLimit::PerSecond(rate)), Some(burst)) => {
            Ok(Some(json!({"per_second": rate, "burst": burst})))
        }
        (None, Some(burst)) => Ok(Some(json!({"burst": burst}))),
    }
}

pub(super) fn headers(lines: &[String]) -> Result<Option<Value>, Fault> {
    let mut all = Map::new();
    for line in lines {
        let bad = || Fault::Usage("--header: must be NAME:VALUE".to_owned());
        let (name, value) = line.split_once(':').ok_or_else(bad)?;
        all.insert(name.trim().to_owned(), value.trim().into());
    }
    Ok((!all.is_empty()).then_some(Value::Object(all)))
}

/// Removes it; when work waits for it, only once someone has said that the work may be lost.
async fn rm(client: &Client, output: &Output, one: &Named) -> Result<(), Fault> {
    let path = ["v1", "destinations", one.name.as_str()];
    let Err(fault) = client.answer(client.request(Method::DELETE, &path)).await else {
        return removed(output, &one.name);
    };
    let Some(detail) = work_waiting(&fault) else { return Err(fault) };
    output.confirm(&format!("{}: {detail}. Cancel that work and remove it?", one.name))?;
    let query = [("waiting", "cancel".to_owned())];
    let answer = client.answer(client.request_with(Method::DELETE, &path, &query)).await?;
    match answer.status {
        202 => bulk::removing(client, output, &one.name, &answer.text),
        _ => removed(output, &one.name),
    }
}

/// What the server says of the work that is in the way, if that is what it says.
fn work_waiting(fault: &Fault) -> Option<&str> {
    let Fault::Problem(refusal) = fault else { return None };
    let waits = refusal.problem.code == "work_waiting";
    waits.then(|| refusal.problem.detail.as_deref().unwrap_or("work waits for it"))
}

fn removed(output: &Output, name: &str) -> Result<(), Fault> {
    output.either(|| json!({"id": name, "removed": true}).to_string(), || format!("{name} removed"))
}

async fn verb(client: &Client, output: &Output, one: &Reasoned, verb: &str) -> Result<(), Fault> {
    let body = match &one.reason {
        Some(reason) => json!({"reason": reason}),
        None => json!({}),
    };
    let answer = client.order(Method::POST, &["v1", "destinations", &one.name, verb], &body).await?;
    show(client, output, &answer)?;
    let state = client.read::<Destination>(&answer.text)?.state.unwrap_or_default();
    // A program reads the state that was answered.
    if let Some(still) = still_stopped(&one.name, verb, &state).filter(|_| !output.json) {
        let _closed = writeln!(anstream::stderr(), "{}", for_stderr(&still));
    }
    Ok(())
}

/// What it still is after a verb that ends another state, and the verb that ends this one.
fn still_stopped(name: &str, verb: &str, state: &str) -> Option<String> {
    let ends = match (verb, state) {
        ("resume", "disabled") => "enable",
        ("enable", "paused") => "resume",
        _ => return None,
    };
    Some(format!("{name} is still {state}; to end that: duehook dest {ends} {name}"))
}

async fn hold(client: &Client, output: &Output, one: &Hold) -> Result<(), Fault> {
    let ends = |length: &std::time::Duration| output.now.plus(Millis::from(*length)).to_string();
    let until = one.until.clone().or_else(|| one.length.as_ref().map(ends));
    let until = until.unwrap_or_else(|| Timestamp::default().to_string());
    let mut body = json!({"until": until});
    if let Some(reason) = &one.reason {
        body["reason"] = reason.as_str().into();
    }
    let answer = client.order(Method::PUT, &["v1", "destinations", &one.name, "hold"], &body).await?;
    show(client, output, &answer)
}

async fn release(client: &Client, output: &Output, one: &Named) -> Result<(), Fault> {
    let path = ["v1", "destinations", one.name.as_str(), "hold"];
    let answer = client.answer(client.request(Method::DELETE, &path)).await?;
    match answer.text.is_empty() {
        true => output.either(
            || json!({"id": one.name, "hold_until": null}).to_string(),
            || format!("{}: no hold", one.name),
        ),
        false => show(client, output, &answer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::{Args, Ask, Command};
    use clap::Parser as _;

    fn set_of(arguments: &[&str]) -> Set {
        let all = ["duehook", "dest", "set", "shop"].iter().chain(arguments);
        let command = Args::try_parse_from(all).unwrap().command;
        let Command::Ask(Ask::Dest(dest)) = command else { panic!("{command:?}") };
        let DestCommand::Set(set) = dest.command else { panic!("not set") };
        *set
    }

    #[test]
    fn a_verb_that_does_not_end_the_state_says_which_does() {
        let check = |verb: &str, state: &str, want: Option<&str>| {
            assert_eq!(still_stopped("a", verb, state).as_deref(), want, "{verb} {state}");
        };
        check("resume", "disabled", Some("a is still disabled; to end that: duehook dest enable a"));
        check("enable", "paused", Some("a is still paused; to end that: duehook dest resume a"));
        check("resume", "active", None);
        check("pause", "paused", None);
        check("disable", "disabled", None);
    }

    #[test]
    fn a_patch_has_what_was_given_and_nothing_else() {
        let check = |arguments: &[&str], want: Value| {
            assert_eq!(patch(&set_of(arguments)).unwrap(), want, "{arguments:?}");
        };
        check(&[], json!({}));
        check(
            &["--url", "https://a.example/x", "--tenant", "t"],
            json!({"tenant": "t", "url": "https://a.example/x"}),
        );
        check(&["--concurrency", "4"], json!({"concurrency": {"max": 4}}));
        check(&["--adaptive"], json!({"concurrency": {"adaptive": true}}));
        check(
            &["--concurrency", "4", "--adaptive=false"],
            json!({"concurrency": {"max": 4, "adaptive": false}}),
        );
        check(&["--rate", "0.5"], json!({"rate": {"per_second": 0.5}}));
        check(&["--rate", "10", "--burst", "5"], json!({"rate": {"per_second": 10.0, "burst": 5}}));
        check(&["--burst", "5"], json!({"rate": {"burst": 5}}));
        check(&["--rate", "none"], json!({"rate": null}));
        check(&["--rate", "-1"], json!({"rate": {"per_second": -1.0}}));
        check(
            &["--timeout", "20s", "--connect-timeout", "1500ms"],
            json!({"timeout_ms": 20_000, "connect_timeout_ms": 1500}),
        );
        check(&["--header", "X-A: 1", "--header", "x-b:2:3"], json!({"headers": {"X-A": "1", "x-b": "2:3"}}));
        check(
            &["--allow-cidr", "10.0.0.0/8", "--hold-scope", "delivery", "--policy", "slow"],
            json!({"allow_cidrs": ["10.0.0.0/8"], "hold_scope": "delivery", "policy": "slow"}),
        );
        for wrong in [&["--header", "nonsense"][..], &["--rate", "none", "--burst", "5"]] {
            assert!(matches!(patch(&set_of(wrong)), Err(Fault::Usage(_))), "{wrong:?}");
        }
    }

    /// JSON has no such numbers: sent as null they would remove the rate.
    #[test]
    fn what_is_no_number_is_no_rate() {
        for wrong in [["--rate", "NaN"], ["--rate", "inf"], ["--rate", "fast"], ["--burst", "-1"]] {
            let all = ["duehook", "dest", "set", "shop"].iter().chain(&wrong);
            assert!(Args::try_parse_from(all).is_err(), "{wrong:?}");
        }
    }
}
