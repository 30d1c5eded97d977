//! Destinations: settings with an ETag, the verbs that change a state, and holds.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response, StatusCode, Uri, header};

use crate::config::Scope;
use crate::engine::command::{Command, CommandError, Done, Expect, StateVerb};
use crate::http::admin::bulk::remove;
use crate::http::admin::deliveries::{gates, limit};
use crate::http::admin::input::{self, Checks, Wanted};
use crate::http::admin::{command_body, no_body, order, reason};
use crate::http::app::{Answered, App, Id, answer, no_content, ok, with};
use crate::http::auth::Caller;
use crate::http::body::single;
use crate::http::dto::List;
use crate::http::dto::delivery::destination_location;
use crate::http::dto::destination::DestinationObject;
use crate::http::error::{Code, Problem};
use crate::http::fields::Fields;
use crate::http::query::{self, Query, value, word};
use crate::model::{DestinationState, Name};
use crate::schedule::GateView;
use crate::store::DestinationView;
use crate::time::Timestamp;

/// What waits and is not due is counted up to this.
const DELAYED_MAX: usize = 1_000;
/// How often a PATCH without `If-Match` is worked out anew because another change came first.
const PATCH_TRIES: u32 = 8;
/// Every state that a destination is shown in.
pub const STATES: [DestinationState; 3] =
    [DestinationState::Active, DestinationState::Paused, DestinationState::Disabled];

/// `PUT /v1/destinations/{id}`.
pub async fn put(State(app): State<Arc<App>>, Id(id): Id, caller: Caller, request: Request) -> Answered {
    let name = read_name(&id)?;
    let (headers, text) = command_body(&app, request).await?;
    let wanted = input::read(&text, None, &Checks::of(&app.rulebook()))?;
    caller.may_change(&wanted.settings.tenant)?;
    let expect = match is_new(&headers)? {
        true if headers.contains_key(header::IF_MATCH) => {
            return Err(Problem::field(
                "if-none-match",
                "nothing is both new and as it was: leave if-match out",
            ));
        }
        true => Expect::New,
        false => expected(&app, &name, &headers).await?,
    };
    let done = order(&app, &caller, put_order(name, wanted, expect)).await?;
    shown(&app, done).await
}

/// `PATCH /v1/destinations/{id}`: read, merged and written only if nothing came between.
pub async fn patch(State(app): State<Arc<App>>, Id(id): Id, caller: Caller, request: Request) -> Answered {
    let name = read_name(&id)?;
    let (headers, text) = command_body(&app, request).await?;
    let tries = if headers.contains_key(header::IF_MATCH) { 1 } else { PATCH_TRIES };
    for _ in 0..tries {
        let view = find(&app, &name).await?;
        matches(&headers, &view)?;
        let wanted = input::read(&text, Some(&view.settings), &Checks::of(&app.rulebook()))?;
        let command = put_order(name.clone(), wanted, Expect::Version(view.no, view.revision));
        match app.handle.command(caller.orders(command)).await? {
            Ok(done) => return shown(&app, done).await,
            Err(CommandError::RevisionMismatch) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(CommandError::RevisionMismatch.into())
}

fn put_order(name: Name, wanted: Wanted, expect: Expect) -> Command {
    let Wanted { settings, keep_secrets } = wanted;
    Command::PutDestination { name, settings: Box::new(settings), keep_secrets, expect }
}

/// `GET /v1/destinations/{id}`.
pub async fn get(State(app): State<Arc<App>>, Id(id): Id, caller: Caller, uri: Uri) -> Answered {
    query::none(&uri)?;
    let name = read_name(&id)?;
    let now = app.handle.now();
    let read = app.read(move |snapshot, _| {
        let Some(view) = snapshot.destination(&name)? else { return Ok(None) };
        let delayed = snapshot.delayed(view.no, now, DELAYED_MAX)?;
        Ok(Some((view, delayed)))
    });
    let (view, delayed) = read.await?.filter(|(view, _)| exists(view)).ok_or_else(no_destination)?;
    let gate = gate(&app, &view).await?;
    let object = object(&caller, &view, gate.as_ref()).with_delayed(delayed);
    Ok(tagged(ok(&object), &view))
}

/// What a caller is shown: who only reads does not see the whole URL.
fn object<'a>(caller: &Caller, view: &'a DestinationView, gate: Option<&GateView>) -> DestinationObject<'a> {
    let whole = DestinationObject::of(view, gate);
    match caller.has(&[Scope::Destinations, Scope::Admin]) {
        true => whole,
        false => whole.hiding_url(view),
    }
}

/// `DELETE /v1/destinations/{id}`.
pub async fn delete(State(app): State<Arc<App>>, Id(id): Id, caller: Caller, request: Request) -> Answered {
    let name = read_name(&id)?;
    let mut asked = Query::of(request.uri());
    let cancels = !asked.list("waiting", word(&["cancel"], |word| word)).is_empty();
    asked.finish()?;
    let expect = expected(&app, &name, request.headers()).await?;
    let command = Command::DeleteDestination { name: name.clone(), expect };
    match app.handle.command(caller.orders(command)).await? {
        Ok(_) => Ok(no_content()),
        Err(CommandError::WorkWaiting { .. }) if cancels => remove(&app, name, expect, &caller).await,
        Err(error) => Err(error.into()),
    }
}

/// `GET /v1/destinations`.
pub async fn list(State(app): State<Arc<App>>, caller: Caller, uri: Uri) -> Answered {
    let mut asked = Query::of(&uri);
    let tenants: Vec<Name> = asked.list("tenant", value);
    let mut states = asked.list("state", word(&STATES, DestinationState::as_str));
    let (from, limit) = (asked.parsed::<Name>("cursor"), limit(&mut asked));
    asked.finish()?;
    if states.is_empty() {
        states.extend(STATES);
    }
    let tenants = caller.among(tenants);
    if caller.tenants().is_some() && tenants.is_empty() {
        return Ok(ok(&List::<DestinationObject<'_>>::whole(Vec::new())));
    }
    let page = app
        .read(move |snapshot, stop| snapshot.destinations(&tenants, &states, from.as_ref(), limit, stop))
        .await?;
    let gates = gates(&app, page.items.iter().map(|view| view.no).collect()).await?;
    let gate = |place: usize| gates.get(place).and_then(Option::as_ref);
    let data = page.items.iter().enumerate();
    let data = data.map(|(place, view)| object(&caller, view, gate(place))).collect();
    Ok(ok(&List { data, next_cursor: page.next.map(|name| name.to_string()) }))
}

/// `POST /v1/destinations/{id}/pause`.
pub async fn pause(State(app): State<Arc<App>>, Id(id): Id, caller: Caller, request: Request) -> Answered {
    set_state(&app, &id, &caller, StateVerb::Pause, request).await
}

/// `POST /v1/destinations/{id}/resume`.
pub async fn resume(State(app): State<Arc<App>>, Id(id): Id, caller: Caller, request: Request) -> Answered {
    set_state(&app, &id, &caller, StateVerb::Resume, request).await
}

/// `POST /v1/destinations/{id}/enable`.
pub async fn enable(State(app): State<Arc<App>>, Id(id): Id, caller: Caller, request: Request) -> Answered {
    set_state(&app, &id, &caller, StateVerb::Enable, request).await
}

/// `POST /v1/destinations/{id}/disable`.
pub async fn disable(State(app): State<Arc<App>>, Id(id): Id, caller: Caller, request: Request) -> Answered {
    set_state(&app, &id, &caller, StateVerb::Disable, request).await
}

async fn set_state(app: &App, id: &str, caller: &Caller, verb: StateVerb, request: Request) -> Answered {
    let name = read_name(id)?;
    let (_, text) = command_body(app, request).await?;
    let mut fields = Fields::read(&text)?;
    let reason = reason(&mut fields);
    fields.finish(&[])?;
    let done = order(app, caller, Command::SetState { name, verb, reason }).await?;
    shown(app, done).await
}

/// `PUT /v1/destinations/{id}/hold`.
pub async fn hold(State(app): State<Arc<App>>, Id(id): Id, caller: Caller, request: Request) -> Answered {
    let name = read_name(&id)?;
    let (_, text) = command_body(&app, request).await?;
    let (until, reason) = read_hold(&text, app.handle.now())?;
    let done = order(&app, &caller, Command::Hold { name, until, reason }).await?;
    shown(&app, done).await
}

/// `DELETE /v1/destinations/{id}/hold`.
pub async fn release(State(app): State<Arc<App>>, Id(id): Id, caller: Caller, request: Request) -> Answered {
    let name = read_name(&id)?;
    no_body(&app, request).await?;
    let done = order(&app, &caller, Command::Release { name }).await?;
    shown(&app, done).await
}

/// The end of a hold, and its reason, which is kept in the audit log alone.
///
/// # Errors
/// 400 when it is not an object, 422 naming every field at fault.
pub fn read_hold(text: &[u8], now: Timestamp) -> Result<(Timestamp, String), Problem> {
    let mut fields = Fields::read(text)?;
    let reason = reason(&mut fields);
    let until: Option<Timestamp> = fields.parsed("until");
    match until {
        Some(until) if until <= now => fields.fault("until", "must be later than now"),
        None if !fields.is_at_fault("until") => fields.missing("until"),
        Some(_) | None => {}
    }
    fields.finish(&[])?;
    until.map(|until| (until, reason)).ok_or_else(|| Problem::field("until", "required"))
}

/// Answers with the destination a command made or changed.
async fn shown(app: &App, done: Done) -> Answered {
    let (status, view) = match done {
        Done::Created(view) => (StatusCode::CREATED, view),
        Done::Changed(view) => (StatusCode::OK, view),
        Done::Deleted
        | Done::Delivery(_)
        | Done::ImportBegun
        | Done::Imported(_)
        | Done::Configured
        | Done::Noted
        | Done::Job(_) => {
            return Err(Problem::new(Code::Internal, "the engine answered for something else"));
        }
    };
    let gate = gate(app, &view).await?;
    let response = tagged(answer(status, &DestinationObject::of(&view, gate.as_ref())), &view);
    if status == StatusCode::CREATED {
        return Ok(with(response, header::LOCATION, &destination_location(&view.name)));
    }
    Ok(response)
}

pub(super) async fn gate(app: &App, view: &DestinationView) -> Result<Option<GateView>, Problem> {
    Ok(gates(app, vec![view.no]).await?.pop().flatten())
}

pub(super) fn tagged(response: Response<Body>, view: &DestinationView) -> Response<Body> {
    with(response, header::ETAG, &etag(view))
}

/// Of this destination and no other that has the name later.
fn etag(view: &DestinationView) -> String {
    format!("\"{}-{}\"", view.no.0, view.revision)
}

/// What `If-None-Match: *` makes of a `PUT` (RFC 9110, section 13.1.2): it only creates.
fn is_new(headers: &HeaderMap) -> Result<bool, Problem> {
    match single(headers, &header::IF_NONE_MATCH)? {
        None => Ok(false),
        Some("*") => Ok(true),
        Some(_) => Err(Problem::field("if-none-match", "must be *")),
    }
}

/// What `If-Match` makes of a change: nothing, or that very version.
async fn expected(app: &App, name: &Name, headers: &HeaderMap) -> Result<Expect, Problem> {
    if !headers.contains_key(header::IF_MATCH) {
        return Ok(Expect::Anything);
    }
    let view = stored(app, name).await?.ok_or(CommandError::RevisionMismatch)?;
    matches(headers, &view)?;
    Ok(Expect::Version(view.no, view.revision))
}

/// 412 unless one of the tags of `If-Match`, if there are any, is the destination's.
fn matches(headers: &HeaderMap, view: &DestinationView) -> Result<(), Problem> {
    let own = etag(view);
    let mut lines = headers.get_all(header::IF_MATCH).iter().peekable();
    if lines.peek().is_none() {
        return Ok(());
    }
    let mut tags = lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(','));
    if tags.any(|tag| tag.trim() == "*" || tag.trim() == own) {
        return Ok(());
    }
    Err(CommandError::RevisionMismatch.into())
}

pub(super) async fn find(app: &App, name: &Name) -> Result<DestinationView, Problem> {
    stored(app, name).await?.ok_or_else(no_destination)
}

async fn stored(app: &App, name: &Name) -> Result<Option<DestinationView>, Problem> {
    let name = name.clone();
    let found = app.read(move |snapshot, _| snapshot.destination(&name)).await?;
    Ok(found.filter(exists))
}

fn exists(view: &DestinationView) -> bool {
    view.note.state != DestinationState::Deleted
}

/// 422: the name in the path is none.
pub(super) fn read_name(text: &str) -> Result<Name, Problem> {
    text.parse().map_err(|error: crate::model::NotAName| Problem::field("id", error.to_string()))
}

fn no_destination() -> Problem {
    Problem::new(Code::NotFound, "there is no destination of this name")
}

#[cfg(test)]
#[path = "destinations/tests.rs"]
mod tests;
