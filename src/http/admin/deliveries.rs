//! Deliveries for operators: lists by filter, attempts, the explanation, retry, cancel and erase.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::Uri;

use crate::config::Scope;
use crate::delivery::State as DeliveryState;
use crate::engine::command::{Answer, Command, CommandError, Done, Query as Asked};
use crate::engine::explain::{Surroundings, explain};
use crate::http::admin::no_body;
use crate::http::app::{Answered, App, Id, no_content, ok};
use crate::http::auth::{Caller, scope_missing};
use crate::http::dto::List;
use crate::http::dto::delivery::{AttemptObject, DeliveryObject, ExplanationObject};
use crate::http::error::{Code, Problem};
use crate::http::ingest::{look_up, no_delivery, read_id};
use crate::http::query::{self, Query, value, word};
use crate::model::{DeliveryId, DestNo, MAX_LABEL_NAME, MAX_LABEL_VALUE};
use crate::outcome::{AttemptResult, Ending};
use crate::schedule::{GateView, Standing};
use crate::store::{Between, Claims, Cursor, DeliveryView, DestinationView, Filter, Order, Shown};

/// Entries of a page, unless the request says otherwise.
pub const LIMIT_DEFAULT: u64 = 50;
/// The most entries of a page.
pub const LIMIT_MAX: u64 = 1_000;
/// What waits in front of a delivery is counted up to this.
const AHEAD_MAX: usize = 1_000;

/// The scopes of which one opens a list by filter.
const LISTS: [Scope; 2] = [Scope::Read, Scope::Admin];

/// Every state that a delivery is shown in.
pub const STATES: [Shown; 4] = [Shown::Ready, Shown::Leased, Shown::Delayed, Shown::Terminal];
/// Every order of a list.
pub const ORDERS: [Order; 4] =
    [Order::NewestCreated, Order::OldestCreated, Order::OldestFinished, Order::NewestFinished];

/// `GET /v1/deliveries`: by filter, or the look-up of a key.
pub async fn list(State(app): State<Arc<App>>, caller: Caller, uri: Uri) -> Answered {
    let mut asked = Query::of(&uri);
    if asked.has("idempotency_key") {
        return look_up(&app, &caller, asked).await;
    }
    // Whoever brings deliveries may look his own up, and no more.
    if !caller.has(&LISTS) {
        return Err(scope_missing(&LISTS));
    }
    let mut listed = Listed::take(&mut asked);
    asked.finish()?;
    listed.filter.tenants = caller.among(listed.filter.tenants);
    if caller.tenants().is_some() && listed.filter.tenants.is_empty() {
        return Ok(ok(&List::<DeliveryObject<'_>>::whole(Vec::new())));
    }
    let now = app.handle.now();
    let page = app
        .read(move |snapshot, stop| {
            snapshot.list(&listed.filter, listed.order, listed.from, listed.limit, now, stop)
        })
        .await?;
    let data = page.items.iter().map(|view| DeliveryObject::of(view, now)).collect();
    Ok(ok(&List { data, next_cursor: page.next.map(|next| next.to_string()) }))
}

/// What a list is asked for.
#[derive(Debug, PartialEq, Eq)]
pub struct Listed {
    pub filter: Filter,
    pub order: Order,
    pub from: Option<Cursor>,
    pub limit: usize,
}

impl Listed {
    /// Takes every parameter of a list; what is wrong is noted in `asked`.
    pub fn take(asked: &mut Query) -> Listed {
        let order = order_by(asked);
        Listed { filter: filter(asked), order, from: cursor(asked, order), limit: limit(asked) }
    }
}

/// Takes what a list matches by.
fn filter(asked: &mut Query) -> Filter {
    Filter {
        states: asked.list("state", word(&STATES, Shown::as_str)),
        outcomes: asked.list("outcome", word(&Ending::ALL, Ending::as_str)),
        tenants: asked.list("tenant", value),
        destinations: asked.list("destination", value),
        classes: asked.list("class", value),
        label: label(asked),
        last_status: asked.list("last_status", read_status),
        last_result: asked.list("last_result", word(&AttemptResult::ALL, AttemptResult::as_str)),
        created: between(asked, "created_after", "created_before"),
        due: between(asked, "due_after", "due_before"),
        finished: between(asked, "finished_after", "finished_before"),
    }
}

/// The word for an order.
#[must_use]
pub fn order_name(order: Order) -> &'static str {
    match order {
        Order::NewestCreated => "-created",
        Order::OldestCreated => "created",
        Order::OldestFinished => "finished",
        Order::NewestFinished => "-finished",
    }
}

fn order_by(asked: &mut Query) -> Order {
    let Some(text) = asked.text("order") else { return Order::NewestCreated };
    word(&ORDERS, order_name)(&text).unwrap_or_else(|detail| {
        asked.fault("order", detail);
        Order::NewestCreated
    })
}

/// Reads the status of an answer.
///
/// # Errors
/// What is wrong with it.
pub(super) fn read_status(text: &str) -> Result<u16, String> {
    let status = text.parse().ok().filter(|status| (100..=999).contains(status));
    status.ok_or_else(|| "must be HTTP statuses such as 429".to_owned())
}

fn label(asked: &mut Query) -> Option<(String, String)> {
    let text = asked.text("label")?;
    read_label(&text).map_err(|detail| asked.fault("label", detail)).ok()
}

/// Reads a label and its value. What no label can be is refused: nothing has it.
///
/// # Errors
/// What is wrong with it.
pub(super) fn read_label(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        None | Some(("", _)) => Err("must be a name and a value with a colon between them".to_owned()),
        Some((name, value)) if name.len() > MAX_LABEL_NAME || value.len() > MAX_LABEL_VALUE => {
            Err("longer than a label can be".to_owned())
        }
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
    }
}

fn between(asked: &mut Query, after: &'static str, before: &'static str) -> Between {
    Between { after: asked.parsed(after), before: asked.parsed(before) }
}

fn cursor(asked: &mut Query, order: Order) -> Option<Cursor> {
    let text = asked.text("cursor")?;
    let cursor = text.parse().ok().filter(|cursor: &Cursor| cursor.is_of(order));
    if cursor.is_none() {
        asked.fault("cursor", "not a cursor that a list of this order has given");
    }
    cursor
}

/// Takes `limit`.
pub(super) fn limit(asked: &mut Query) -> usize {
    let limit = asked.integer("limit", 1..=LIMIT_MAX).unwrap_or(LIMIT_DEFAULT);
    usize::try_from(limit).unwrap_or(usize::MAX)
}

/// `GET /v1/deliveries/{id}/attempts`.
pub async fn attempts(State(app): State<Arc<App>>, Id(id): Id, uri: Uri) -> Answered {
    query::none(&uri)?;
    let id = read_id(&id)?;
    let attempts = app.read(move |snapshot, _| snapshot.attempts(id)).await?.ok_or_else(no_delivery)?;
    Ok(ok(&List::whole(attempts.iter().map(AttemptObject::of).collect())))
}

/// `GET /v1/deliveries/{id}/explain`.
pub async fn explained(State(app): State<Arc<App>>, Id(id): Id, uri: Uri) -> Answered {
    query::none(&uri)?;
    let id = read_id(&id)?;
    let (view, destination, ahead) = found(&app, id).await?;
    let (gate, standing, claims) = standing(&app, &view).await?;
    let (destination, gate) = (destination.as_ref(), gate.as_deref());
    let around = Surroundings { destination, gate, standing, claims, ahead };
    Ok(ok(&ExplanationObject::of(&explain(&view, &around, app.handle.now()))))
}

/// Its gate, what of the server keeps it back, and whether claims run.
type Stands = (Option<Box<GateView>>, Standing, Claims);

/// The live side of a delivery's destination, and what of the server keeps its lane back.
async fn standing(app: &App, view: &DeliveryView) -> Result<Stands, Problem> {
    let DeliveryState::Waiting { lane, .. } = view.delivery.state else {
        return Ok((None, Standing::Free, Claims::Running));
    };
    match app.handle.query(Asked::Standing(view.delivery.destination, lane)).await? {
        Answer::Standing { gate, standing, claims } => Ok((gate, standing, claims)),
        Answer::Gates(_) | Answer::Destinations(_) | Answer::Tenants(_) => Err(another_answer()),
    }
}

/// The engine answered another question than was asked.
pub(super) fn another_answer() -> Problem {
    Problem::new(Code::Internal, "the engine answered for something else")
}

/// A delivery, its destination unless that is gone, and what waits in front of it.
type Found = (DeliveryView, Option<DestinationView>, usize);

/// Reads what an explanation needs in one transaction.
async fn found(app: &App, id: DeliveryId) -> Result<Found, Problem> {
    let read = app.read(move |snapshot, _| {
        let Some(view) = snapshot.delivery(id)? else { return Ok(None) };
        let destination = snapshot.destination(&view.destination)?;
        let destination = destination.filter(|it| it.no == view.delivery.destination);
        let ahead = snapshot.ahead(&view, AHEAD_MAX)?;
        Ok(Some((view, destination, ahead)))
    });
    read.await?.ok_or_else(no_delivery)
}

/// The live side of destinations, in order.
///
/// # Errors
/// 503 when the engine cannot answer now.
pub async fn gates(app: &App, numbers: Vec<DestNo>) -> Result<Vec<Option<GateView>>, Problem> {
    match app.handle.query(Asked::Gates(numbers)).await? {
        Answer::Gates(gates) => Ok(gates),
        Answer::Standing { .. } | Answer::Destinations(_) | Answer::Tenants(_) => Err(another_answer()),
    }
}

/// `POST /v1/deliveries/{id}/retry`.
pub async fn retry(State(app): State<Arc<App>>, Id(id): Id, caller: Caller, request: Request) -> Answered {
    no_body(&app, request).await?;
    let id = read_id(&id)?;
    change(&app, &caller, Command::Retry { id }).await
}

/// `POST /v1/deliveries/{id}/cancel`.
pub async fn cancel(State(app): State<Arc<App>>, Id(id): Id, caller: Caller, request: Request) -> Answered {
    no_body(&app, request).await?;
    let id = read_id(&id)?;
    change(&app, &caller, Command::Cancel { id }).await
}

/// `DELETE /v1/deliveries/{id}/payload`: also when it is gone already.
pub async fn erase(State(app): State<Arc<App>>, Id(id): Id, caller: Caller, request: Request) -> Answered {
    no_body(&app, request).await?;
    let id = read_id(&id)?;
    change(&app, &caller, Command::Erase { id }).await.map(|_| no_content())
}

async fn change(app: &App, caller: &Caller, command: Command) -> Answered {
    match app.handle.command(caller.orders(command)).await? {
        Ok(Done::Delivery(view)) => Ok(ok(&DeliveryObject::of(&view, app.handle.now()))),
        Ok(
            Done::Created(_)
            | Done::Changed(_)
            | Done::Deleted
            | Done::ImportBegun
            | Done::Imported(_)
            | Done::Job(_)
            | Done::Configured
            | Done::Noted,
        ) => Err(another_answer()),
        Err(CommandError::DestinationUnknown) => {
            Err(Problem::new(Code::DestinationGone, "its destination was deleted: create it again first"))
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
#[path = "deliveries/tests.rs"]
mod tests;
