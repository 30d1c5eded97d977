//! The ingest routes: a delivery as JSON, as a raw body or in a batch, and the look-ups.
//!
//! What is checked here is what can be seen in the request; whether a destination exists or a key
//! is taken is the engine's answer. The bytes of a payload are slices of the request's body: they
//! are neither copied nor written anew.

pub mod batch;
pub mod item;
mod pinned;
pub mod raw;
pub mod refusals;

use std::sync::Arc;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, Response, StatusCode, Uri, header};

use crate::engine::command::{Accepted, Rejected};
use crate::http::app::{Answered, App, Id, Rulebook, answer, ok, with};
use crate::http::auth::Caller;
use crate::http::body::{self, Json};
use crate::http::dto::List;
use crate::http::dto::Text;
use crate::http::dto::delivery::{BatchObject, DeliveryObject, ItemObject, location};
use crate::http::error::{Code, Problem};
use crate::http::ingest::item::Checks;
use crate::http::query::{self, Query};
use crate::model::{DeliveryId, IdempotencyKey, Name, NewDelivery};
use crate::store::DeliveryView;

/// The header with the producer's key, as faults name it.
const KEY_NAME: &str = "idempotency-key";
/// The producer's key as a header.
pub const KEY_HEADER: HeaderName = HeaderName::from_static(KEY_NAME);

/// `POST /v1/deliveries`.
pub async fn one(State(app): State<Arc<App>>, caller: Caller, request: Request) -> Answered {
    counted(&app, read_one(&app, &caller, request).await)
}

async fn read_one(app: &App, caller: &Caller, request: Request) -> Answered {
    let (parts, body) = request.into_parts();
    query::none(&parts.uri)?;
    // An absent body is an empty object.
    let is_absent = body.is_end_stream();
    if !is_absent {
        one_text(body::json_kind(&parts.headers)?)?;
    }
    let key = header_key(&parts.headers)?;
    let text = match is_absent {
        true => Bytes::from_static(b"{}"),
        false => body::read(&parts.headers, body, app.delivery_bound()).await?,
    };
    let delivery = item::read(&text, &text, key, &checks(app, &app.rulebook()))?;
    take(app, caller, delivery).await
}

/// `POST /v1/send/{destination}`.
pub async fn send(
    State(app): State<Arc<App>>,
    Id(destination): Id,
    caller: Caller,
    request: Request,
) -> Answered {
    counted(&app, read_raw(&app, &caller, &destination, request).await)
}

async fn read_raw(app: &App, caller: &Caller, destination: &str, request: Request) -> Answered {
    let (parts, body) = request.into_parts();
    query::none(&parts.uri)?;
    let head = raw::read_head(destination, &parts.headers, &checks(app, &app.rulebook()))?;
    let bytes = body::read(&parts.headers, body, app.raw_bound()).await?;
    take(app, caller, head.with(bytes)).await
}

/// `POST /v1/batch`.
pub async fn batch(State(app): State<Arc<App>>, caller: Caller, request: Request) -> Answered {
    match read_batch(&app, &caller, request).await {
        Ok(read) => take_all(&app, read).await,
        Err(problem) => counted(&app, Err(problem)),
    }
}

async fn read_batch(
    app: &App,
    caller: &Caller,
    request: Request,
) -> Result<Vec<Result<NewDelivery, Problem>>, Problem> {
    let (parts, body) = request.into_parts();
    query::none(&parts.uri)?;
    let kind = body::json_kind(&parts.headers)?;
    if parts.headers.contains_key(KEY_NAME) {
        return Err(Problem::field(KEY_NAME, "not in a batch: give each item its own key"));
    }
    let text = body::read(&parts.headers, body, app.batch_bound()).await?;
    pinned::admit(app, caller, batch::read(&text, kind, &checks(app, &app.rulebook()))?).await
}

/// `GET /v1/deliveries/{id}`.
pub async fn by_id(State(app): State<Arc<App>>, Id(id): Id, uri: Uri) -> Answered {
    query::none(&uri)?;
    let view = find(&app, &id).await?;
    Ok(ok(&DeliveryObject::of(&view, app.handle.now())))
}

/// `GET /v1/deliveries?tenant=&idempotency_key=`, both required.
pub async fn by_key(State(app): State<Arc<App>>, caller: Caller, uri: Uri) -> Answered {
    look_up(&app, &caller, Query::of(&uri)).await
}

/// The deliveries of one key, one entry a destination.
///
/// # Errors
/// 422 where a parameter is missing, unknown or wrong.
pub async fn look_up(app: &App, caller: &Caller, mut asked: Query) -> Answered {
    let tenant: Option<Name> = required(&mut asked, "tenant");
    let key: Option<IdempotencyKey> = required(&mut asked, "idempotency_key");
    let destination: Option<Name> = asked.parsed("destination");
    asked.finish()?;
    let (Some(tenant), Some(key)) = (tenant, key) else {
        return Err(Problem::new(Code::Invalid, "tenant and idempotency_key are needed"));
    };
    if !caller.sees(&tenant) {
        return Ok(ok(&List::<DeliveryObject<'_>>::whole(Vec::new())));
    }
    let views = app.read(move |snapshot, _| snapshot.by_key(&tenant, &key, destination.as_ref())).await?;
    let now = app.handle.now();
    Ok(ok(&List::whole(views.iter().map(|view| DeliveryObject::of(view, now)).collect())))
}

fn required<T: std::str::FromStr<Err: std::fmt::Display>>(
    asked: &mut Query,
    name: &'static str,
) -> Option<T> {
    if !asked.has(name) {
        asked.fault(name, "required");
    }
    asked.parsed(name)
}

/// The delivery that a path names.
///
/// # Errors
/// 404 when the text is no id or names nothing.
pub async fn find(app: &App, id: &str) -> Result<DeliveryView, Problem> {
    let id = read_id(id)?;
    let found = app.read(move |snapshot, _| snapshot.delivery(id)).await?;
    found.ok_or_else(no_delivery)
}

/// The id in a path.
///
/// # Errors
/// 404: what is not an id names no delivery.
pub fn read_id(text: &str) -> Result<DeliveryId, Problem> {
    text.parse().map_err(|_| no_delivery())
}

/// 404.
#[must_use]
pub fn no_delivery() -> Problem {
    Problem::new(Code::NotFound, "there is no delivery of this id")
}

fn one_text(kind: Json) -> Result<(), Problem> {
    match kind {
        Json::Text => Ok(()),
        Json::Lines => Err(body::not_json()),
    }
}

fn header_key(headers: &HeaderMap) -> Result<Option<IdempotencyKey>, Problem> {
    let Some(text) = body::single(headers, &KEY_HEADER)? else { return Ok(None) };
    let wrong = |error: crate::model::NotAKey| Problem::field(KEY_NAME, error.to_string());
    IdempotencyKey::from_header(text).map(Some).map_err(wrong)
}

fn checks<'a>(app: &'a App, rules: &'a Rulebook) -> Checks<'a> {
    let (max_payload, references) = (rules.max_payload, rules.references.as_slice());
    Checks { region: &app.region, max_payload, references, now: app.handle.now() }
}

/// The same answer; a refusal is counted.
fn counted(app: &App, answered: Answered) -> Answered {
    answered.inspect_err(|problem| app.refusals.count(problem))
}

/// Gives one delivery to the engine and answers what became of it.
async fn take(app: &App, caller: &Caller, delivery: NewDelivery) -> Answered {
    let lost = || Problem::new(Code::Internal, "the engine gave no answer for it");
    let admitted = pinned::admit(app, caller, vec![Ok(delivery)]).await?.pop().ok_or_else(lost)??;
    let mut results = app.handle.accept(vec![admitted]).await?;
    let Accepted { delivery: view, duplicate } = results.pop().ok_or_else(lost)??;
    let object = DeliveryObject::of(&view, app.handle.now()).accepted(duplicate);
    if duplicate {
        return Ok(ok(&object));
    }
    let response = answer(StatusCode::ACCEPTED, &object);
    Ok(with(response, header::LOCATION, &location(view.delivery.id)))
}

/// Gives the good items to the engine as one and answers all of them in order.
async fn take_all(app: &App, read: Vec<Result<NewDelivery, Problem>>) -> Answered {
    let mut good = Vec::with_capacity(read.len());
    let places: Vec<Option<Problem>> =
        read.into_iter().map(|item| item.map(|delivery| good.push(delivery)).err()).collect();
    let refused = |problem: Problem| {
        app.refusals.count_many(&problem, places.len());
        problem
    };
    let taken = match good.is_empty() {
        true => Vec::new(),
        false => app.handle.accept(good).await.map_err(|why| refused(why.into()))?,
    };
    match server_is_full(&taken) {
        Some(full) => Err(refused(full)),
        None => Ok(batch_answer(app, places, taken)),
    }
}

/// What concerns the server refuses the whole batch; the engine takes all of it or nothing. Should
/// it have taken something, the answer names it item by item.
fn server_is_full(taken: &[Result<Accepted, Rejected>]) -> Option<Problem> {
    let is_new = |result: &Result<Accepted, Rejected>| matches!(result, Ok(one) if !one.duplicate);
    if taken.iter().any(is_new) {
        return None;
    }
    let full = |rejected: &&Rejected| {
        matches!(rejected, Rejected::QueueFull { .. } | Rejected::DiskLow { .. } | Rejected::Draining { .. })
    };
    taken.iter().filter_map(|result| result.as_ref().err()).find(full).cloned().map(Problem::from)
}

fn batch_answer(
    app: &App,
    places: Vec<Option<Problem>>,
    taken: Vec<Result<Accepted, Rejected>>,
) -> Response<Body> {
    let mut taken = taken.into_iter();
    let lost = || Err(Problem::new(Code::Internal, "the engine gave no answer for it"));
    let results: Vec<Result<Accepted, Problem>> = places
        .into_iter()
        .map(|place| match place {
            Some(problem) => Err(problem),
            None => taken.next().map_or_else(lost, |result| result.map_err(Problem::from)),
        })
        .collect();
    results.iter().filter_map(|result| result.as_ref().err()).for_each(|problem| app.refusals.count(problem));
    ok(&BatchObject { results: results.iter().map(shown).collect() })
}

fn shown(result: &Result<Accepted, Problem>) -> ItemObject<impl serde::Serialize + '_> {
    match result {
        Ok(Accepted { delivery, duplicate }) => {
            let status = if *duplicate { StatusCode::OK } else { StatusCode::ACCEPTED };
            let (id, duplicate) = (Text(delivery.delivery.id), *duplicate);
            ItemObject::Taken { status: status.as_u16(), id, duplicate }
        }
        Err(problem) => {
            ItemObject::Refused { status: problem.status().as_u16(), problem: problem.document() }
        }
    }
}
