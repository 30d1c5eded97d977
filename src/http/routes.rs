//! Routes with their paths beside them, so that the document of the API can be held against them.
//!
//! It knows no path of its own, and never what a route does.

use std::sync::Arc;

use axum::Router;
use axum::routing::MethodRouter;

use crate::http::app::App;

/// Routes that are being put together.
#[derive(Debug, Default)]
pub struct Routes {
    router: Router<Arc<App>>,
    paths: Vec<&'static str>,
}

impl Routes {
    /// None.
    #[must_use]
    pub fn new() -> Routes {
        Routes::default()
    }

    /// And this one.
    #[must_use]
    pub fn route(mut self, path: &'static str, methods: MethodRouter<Arc<App>>) -> Routes {
        self.router = self.router.route(path, methods);
        self.paths.push(path);
        self
    }

    /// And these.
    #[must_use]
    pub fn merge(mut self, other: Routes) -> Routes {
        self.router = self.router.merge(other.router);
        self.paths.extend(other.paths);
        self
    }

    /// The patterns of all paths, in the order in which they came.
    #[must_use]
    pub fn paths(&self) -> &[&'static str] {
        &self.paths
    }

    /// What serves them.
    pub fn into_router(self) -> Router<Arc<App>> {
        self.router
    }
}
