//! The settings in force, and the order to read them again.
//!
//! Reading them is not done here: whoever started the server does it ([`Desk::listen`]), and says
//! what came of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use axum::extract::{Request, State};
use axum::http::Uri;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::config::Shown;
use crate::http::admin::no_body;
use crate::http::app::{Answered, App, ok};
use crate::http::auth::Caller;
use crate::http::error::{Code, Problem};
use crate::http::query;

/// Orders that wait while one is carried out: one after the other, an operator's each.
const MAX_ORDERS: usize = 8;
/// The one table that is a list.
const LIST: &str = "token";

/// An order to read the settings again, and where the names of those that changed go.
#[derive(Debug)]
pub struct Reload {
    pub by: Arc<str>,
    pub reply: oneshot::Sender<Result<Vec<String>, Problem>>,
}

/// What is shown of the settings, and the way to who reads them.
#[derive(Debug)]
pub struct Desk {
    shown: RwLock<Arc<[Shown]>>,
    orders: OnceLock<mpsc::Sender<Reload>>,
    succeeded: AtomicBool,
}

impl Default for Desk {
    /// Nothing is shown and nobody listens. That the server started is a success.
    fn default() -> Desk {
        Desk { shown: RwLock::new(Arc::new([])), orders: OnceLock::new(), succeeded: AtomicBool::new(true) }
    }
}

impl Desk {
    /// These are in force from now on.
    pub fn show(&self, shown: Vec<Shown>) {
        *self.shown.write().unwrap_or_else(PoisonError::into_inner) = shown.into();
    }

    /// Where orders come out. There is one who listens: a second one hears nothing.
    #[must_use]
    pub fn listen(&self) -> mpsc::Receiver<Reload> {
        let (orders, heard) = mpsc::channel(MAX_ORDERS);
        drop(self.orders.set(orders));
        heard
    }

    /// Notes whether the settings could be read.
    pub fn note(&self, succeeded: bool) {
        self.succeeded.store(succeeded, Ordering::Relaxed);
    }

    /// True unless the settings were refused when they were read last.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        self.succeeded.load(Ordering::Relaxed)
    }

    fn document(&self) -> Value {
        let shown = Arc::clone(&self.shown.read().unwrap_or_else(PoisonError::into_inner));
        document(&shown)
    }

    async fn reload(&self, by: Arc<str>) -> Result<Vec<String>, Problem> {
        let nobody = || Problem::new(Code::ShuttingDown, "nobody reads the settings of this server now");
        let (reply, answer) = oneshot::channel();
        let orders = self.orders.get().ok_or_else(nobody)?;
        orders.send(Reload { by, reply }).await.map_err(|_| nobody())?;
        answer.await.map_err(|_| nobody())?
    }
}

/// The tables of the config file, each value with where it was set.
fn document(shown: &[Shown]) -> Value {
    let mut all = Map::new();
    for it in shown {
        let value = json!({"value": it.value(), "origin": it.origin.to_string()});
        put(&mut all, &it.key, value);
    }
    if let Some(Value::Object(tokens)) = all.remove(LIST) {
        all.insert(LIST.to_owned(), tokens.into_iter().map(|(_, token)| token).collect());
    }
    Value::Object(all)
}

fn put(table: &mut Map<String, Value>, key: &[String], value: Value) {
    match key {
        [] => {}
        [name] => drop(table.insert(name.clone(), value)),
        [name, below @ ..] => {
            let inner = table.entry(name.clone()).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(inner) = inner {
                put(inner, below, value);
            }
        }
    }
}

/// What a reload came to.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Reloaded")]
pub(in crate::http) struct ReloadedObject {
    /// The names of the settings that are others now.
    changed: Vec<String>,
    config: Value,
}

/// `GET /v1/config`.
pub async fn show(State(app): State<Arc<App>>, uri: Uri) -> Answered {
    query::none(&uri)?;
    Ok(ok(&app.config.document()))
}

/// `POST /v1/config/reload`: everything is in force when it is answered, or nothing has changed.
pub async fn reload(State(app): State<Arc<App>>, caller: Caller, request: Request) -> Answered {
    no_body(&app, request).await?;
    let changed = app.config.reload(caller.name()).await?;
    Ok(ok(&ReloadedObject { changed, config: app.config.document() }))
}
