//! The scope that each route needs, in one place.

use axum::http::Method;

use crate::config::Scope;

/// What a route needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// One of these.
    pub any_of: &'static [Scope],
}

/// What `method` on the route of this pattern needs. What is not named here needs `admin`, so that
/// a new route is closed until somebody opens it.
#[must_use]
pub fn needs(method: &Method, route: &str) -> Needs {
    let reads = method == Method::GET || method == Method::HEAD;
    let any_of: &[Scope] = match (reads, route) {
        (false, "/v1/deliveries" | "/v1/batch" | "/v1/send/{destination}") => &[Scope::Ingest, Scope::Admin],
        (true, "/v1/deliveries" | "/v1/deliveries/{id}") => &[Scope::Ingest, Scope::Read, Scope::Admin],
        (true, "/v1/export") => &[Scope::Admin],
        // What can be asked here is no secret.
        (true, "/openapi.json") => &Scope::ALL,
        (true, route) if is_of_destinations(route) => &[Scope::Destinations, Scope::Read, Scope::Admin],
        (false, route) if is_of_destinations(route) => &[Scope::Destinations, Scope::Admin],
        (true, _) => &[Scope::Read, Scope::Admin],
        (false, _) => &[Scope::Admin],
    };
    Needs { any_of }
}

fn is_of_destinations(route: &str) -> bool {
    route == "/v1/destinations" || route.starts_with("/v1/destinations/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes() {
        let check = |method: &str, route: &str, want: &str| {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let words: Vec<&str> = needs(&method, route).any_of.iter().map(|scope| scope.as_str()).collect();
            assert_eq!(words.join(" "), want, "{method} {route}");
        };
        check("POST", "/v1/deliveries", "ingest admin");
        check("POST", "/v1/send/{destination}", "ingest admin");
        check("POST", "/v1/batch", "ingest admin");
        check("GET", "/v1/deliveries/{id}", "ingest read admin");
        check("HEAD", "/v1/deliveries", "ingest read admin");
        check("GET", "/v1/deliveries/{id}/attempts", "read admin");
        check("POST", "/v1/deliveries/{id}/retry", "admin");
        check("DELETE", "/v1/deliveries/{id}/payload", "admin");
        check("GET", "/v1/destinations", "destinations read admin");
        check("PUT", "/v1/destinations/{id}", "destinations admin");
        check("POST", "/v1/destinations/{id}/secrets/rotate", "destinations admin");
        check("GET", "/v1/stats", "read admin");
        check("GET", "/metrics", "read admin");
        check("GET", "/v1/export", "admin");
        check("GET", "/openapi.json", "ingest destinations read admin");
        check("POST", "/v1/import", "admin");
        check("POST", "/v1/of/a/later/version", "admin");
    }
}
