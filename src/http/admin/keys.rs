//! A destination's secrets are changed, and its set-up is tried.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::Response;
use schemars::JsonSchema;
use serde::Serialize;

use crate::engine::command::{Command, Done};
use crate::http::admin::destinations::{find, gate, read_name, tagged};
use crate::http::admin::{command_body, order};
use crate::http::app::{Answered, App, Id, ok};
use crate::http::auth::Caller;
use crate::http::dto::delivery::AttemptObject;
use crate::http::dto::destination::DestinationObject;
use crate::http::error::{Code, Problem};
use crate::http::fields::Fields;
use crate::model::secret::{MAX_OVERLAP, OVERLAP_DEFAULT};
use crate::model::{Action, Secret};
use crate::time::Millis;

/// Bytes of a secret that is made here.
const SECRET_BYTES: usize = 32;
/// What a test send carries that brings no payload.
const TEST_PAYLOAD: &[u8] = br#"{"test":true}"#;
const JSON: &str = "application/json";

/// The destination, and the secret that was made for it: it is shown this once.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Rotated")]
pub(in crate::http) struct RotatedObject<'a> {
    #[serde(flatten)]
    destination: DestinationObject<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
}

/// `POST /v1/destinations/{id}/secrets/rotate`.
pub async fn rotate(State(app): State<Arc<App>>, Id(id): Id, caller: Caller, request: Request) -> Answered {
    let name = read_name(&id)?;
    let (_, text) = command_body(&app, request).await?;
    let mut fields = Fields::read(&text)?;
    let given: Option<Secret> = fields.parsed("secret");
    let overlap = fields.integer("overlap_ms", 0..=MAX_OVERLAP.0).map_or(OVERLAP_DEFAULT, Millis);
    fields.finish(&[])?;
    let made = given.is_none();
    let secret = given.map_or_else(fresh, Ok)?;
    let shown = made.then(|| secret.reveal());
    let done = order(&app, &caller, Command::RotateSecret { name, secret, overlap }).await?;
    rotated(&app, done, shown).await
}

async fn rotated(app: &App, done: Done, secret: Option<String>) -> Answered {
    let (Done::Changed(view) | Done::Created(view)) = done else {
        return Err(Problem::new(Code::Internal, "the engine answered for something else"));
    };
    let gate = gate(app, &view).await?;
    let destination = DestinationObject::of(&view, gate.as_ref());
    Ok(tagged(ok(&RotatedObject { destination, secret }), &view))
}

/// A secret that nobody has had.
fn fresh() -> Result<Secret, Problem> {
    let mut bytes = [0; SECRET_BYTES];
    let made = getrandom::fill(&mut bytes).ok().and_then(|()| Secret::symmetric(&bytes));
    made.ok_or_else(|| Problem::new(Code::Internal, "the system gives no random numbers"))
}

/// `POST /v1/destinations/{id}/test`: one request, now, without a delivery.
pub async fn test(State(app): State<Arc<App>>, Id(id): Id, caller: Caller, request: Request) -> Answered {
    let name = read_name(&id)?;
    let (_, text) = command_body(&app, request).await?;
    let mut fields = Fields::read(&text)?;
    let payload = fields.raw("payload").map(|value| Bytes::copy_from_slice(value.get().as_bytes()));
    fields.finish(&[])?;
    let view = find(&app, &name).await?;
    caller.may_change(&view.settings.tenant)?;
    if let Some(hold) = gate(&app, &view).await?.and_then(|gate| gate.hold) {
        let detail = format!("it is held until {}; nothing goes out before", hold.until);
        return Err(Problem::new(Code::DestinationHeld, detail));
    }
    let payload = payload.unwrap_or(Bytes::from_static(TEST_PAYLOAD));
    let (object, detail) = (Some(name.to_string()), format!("{} bytes", payload.len()));
    order(&app, &caller, Command::Note { action: Action::DestinationTest, object, detail }).await?;
    let attempt = app.handle.trial(&view, payload, JSON).await?;
    let answer: Response<Body> = ok(&AttemptObject::of(&attempt));
    Ok(answer)
}
