//! The HTTP side: three listeners, the routes behind them, and the one mapping of faults.
//!
//! It owns sockets, limits, wire formats and what a request must look like. It must never decide
//! about a delivery: it asks the engine through [`Handle`](crate::driver::Handle) and reads
//! snapshots. No body and no header value leaves through it, and no GET changes anything.

pub mod admin;
pub mod app;
pub mod auth;
pub mod body;
pub mod door;
pub mod dto;
pub mod error;
pub mod fields;
pub mod health;
pub mod ingest;
mod linger;
pub mod openapi;
pub mod query;
mod room;
pub mod routes;
mod seats;
pub mod server;
pub mod socket;
pub mod status;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Response, header};
use axum::middleware::{from_fn_with_state, map_response};
use axum::routing::{get, post};

pub use app::{App, Build, Entry, Rulebook};
pub use server::{Limits, Shared, serve};

use crate::http::auth::{Guard, authorise};
use crate::http::error::{Code, Problem};
use crate::http::routes::Routes;

/// What an unknown path is answered with; the command line tells by it that it asked elsewhere.
pub const NO_ROUTE: &str = "there is no such route on this listener";

/// `X-Content-Type-Options`, on every answer.
const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");

/// The routes of the ingest listener.
pub fn ingest_router(app: Arc<App>) -> Router {
    finish(ingest_routes(), app, Entry::Ingest)
}

/// The routes of the admin listener: everything.
pub fn admin_router(app: Arc<App>) -> Router {
    finish(admin_routes(), app, Entry::Admin)
}

/// The routes of the metrics listener.
pub fn metrics_router(app: Arc<App>) -> Router {
    finish(health::metrics(), app, Entry::Metrics)
}

/// What of the ingest listener is guarded.
#[must_use]
pub fn ingest_routes() -> Routes {
    taking()
        .route("/v1/deliveries", get(ingest::by_key).post(ingest::one))
        .route(openapi::PATH, get(openapi::of_ingest))
}

/// What of the admin listener is guarded.
#[must_use]
pub fn admin_routes() -> Routes {
    taking().merge(health::metrics()).merge(admin::routes()).route(openapi::PATH, get(openapi::of_admin))
}

/// The ingest routes that both listeners have as they are.
fn taking() -> Routes {
    Routes::new()
        .route("/v1/send/{destination}", post(ingest::send))
        .route("/v1/batch", post(ingest::batch))
        .route("/v1/deliveries/{id}", get(ingest::by_id))
}

/// Guards every route but those that say whether the server is well.
fn finish(routes: Routes, app: Arc<App>, of: Entry) -> Router {
    let guard = Guard { app: Arc::clone(&app), of };
    let guarded = routes.into_router().route_layer(from_fn_with_state(guard, authorise));
    let all = guarded.merge(health::routes().into_router());
    let all = all.fallback(no_route).method_not_allowed_fallback(no_method).layer(map_response(as_it_says));
    all.with_state(app)
}

/// An answer is what its `Content-Type` says, whatever a browser finds in it.
async fn as_it_says(mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, NOSNIFF);
    response
}

async fn no_route() -> Problem {
    Problem::new(Code::NotFound, NO_ROUTE)
}

async fn no_method() -> Problem {
    Problem::new(Code::MethodNotAllowed, "the Allow header says which methods this route has")
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Request;
    use tower::ServiceExt;

    #[tokio::test]
    async fn unknown_routes_and_methods_are_problems() {
        let routes: Router<()> = Router::new().route("/a", get(async || "a").post(async || "b"));
        let routes = routes.fallback(no_route).method_not_allowed_fallback(no_method);
        let check = async |method: &str, path: &str, status: u16, allow: Option<&str>| {
            let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
            let answer = routes.clone().oneshot(request).await.unwrap();
            let got = answer.headers().get("allow").map(|value| value.to_str().unwrap());
            assert_eq!((answer.status().as_u16(), got), (status, allow), "{method} {path}");
        };
        check("GET", "/a", 200, None).await;
        check("DELETE", "/a", 405, Some("GET,HEAD,POST")).await;
        check("GET", "/b", 404, None).await;
        check("GET", "/a/", 404, None).await;
    }
}
