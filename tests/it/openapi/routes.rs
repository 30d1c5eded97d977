//! Every route is in the document, and the other way round.

use std::collections::BTreeSet;

use duehook::http::openapi::operation::{On, Operation};
use duehook::http::openapi::{document, operations};
use duehook::http::{admin_routes, health, ingest_routes};
use reqwest::{Client, Method};
use serde_json::Value;

/// A method that no route has: the answer says which ones it has.
const NONE: &str = "LINK";

fn filled(path: &str) -> String {
    path.split('/').map(|part| if part.starts_with('{') { "x" } else { part }).collect::<Vec<_>>().join("/")
}

async fn methods(client: &Client, base: &str, path: &str) -> Vec<String> {
    let method = Method::from_bytes(NONE.as_bytes()).unwrap();
    let answer = client.request(method, format!("{base}{}", filled(path))).send().await.unwrap();
    assert_eq!(answer.status(), 405, "{path}");
    let allow = answer.headers()["allow"].to_str().unwrap();
    allow.split(',').map(|one| one.trim().to_owned()).filter(|one| one != "HEAD").collect()
}

#[tokio::test]
async fn every_route_is_documented_and_the_other_way_round() {
    let server = crate::server().await;
    let client = Client::builder().no_proxy().build().unwrap();
    let sides = [(&server.ingest, On::Ingest, ingest_routes()), (&server.admin, On::Admin, admin_routes())];
    for (base, on, routes) in sides {
        let mut have = BTreeSet::new();
        for path in routes.paths().iter().chain(health::routes().paths()) {
            let methods = methods(&client, base, path).await;
            have.extend(methods.into_iter().map(|method| (method, (*path).to_owned())));
        }
        let named = |one: &Operation| (one.method.to_owned(), one.path.to_owned());
        let want: BTreeSet<_> = operations(on).map(named).collect();
        assert_eq!(have, want, "routes of the router, and operations of http/openapi/table");
        let answer = client.get(format!("{base}/openapi.json")).send().await.unwrap();
        let served: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
        assert_eq!(served, document(on));
    }
}

/// Bodies and queries that hardly any operation takes: whatever comes of them is documented.
#[tokio::test]
async fn whatever_is_asked_the_status_is_documented() {
    const BODIES: [(&str, &str); 6] = [
        ("application/json", ""),
        ("application/json", "{}"),
        ("application/json", "{\"colour\":1}"),
        ("application/json", "[1"),
        ("text/plain", "x"),
        ("application/x-ndjson", "{}\n"),
    ];
    let server = crate::server().await;
    let client = Client::builder().no_proxy().build().unwrap();
    for one in operations(On::Admin) {
        let method = Method::from_bytes(one.method.as_bytes()).unwrap();
        let url = format!("{}{}", server.admin, filled(one.path));
        for query in ["", "?colour=1"] {
            for (media, body) in BODIES {
                let request = client.request(method.clone(), format!("{url}{query}"));
                let answer = request.header("content-type", media).body(body).send().await.unwrap();
                let (status, media) = (answer.status().as_u16(), crate::http::media(answer.headers()));
                let text = answer.text().await.unwrap();
                super::judge(one.method, &filled(one.path), status, media.as_deref(), &text);
                assert!(
                    query.is_empty() || status == 422 || status == 415,
                    "{} {}: {text}",
                    one.method,
                    one.path
                );
            }
        }
    }
}
