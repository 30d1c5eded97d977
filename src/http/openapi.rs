//! The document of the API, OpenAPI 3.1: written from the [table] of operations and from the
//! structs that are answered, so that it says what the code does.
//!
//! A test holds the table against the routers, and every answer of the integration tests against
//! the document. It never says anything about one server: all of the same version have the same.

pub mod codes;
pub mod operation;
pub mod parameters;
pub mod patterns;
pub mod requests;
pub mod table;
pub mod words;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use axum::http::Uri;
use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::http::app::{Answered, ok};
use crate::http::error::{Code, Document};
use crate::http::query;

use operation::{Answer, Body, On, Operation, Parameter, of};

/// Where it is served.
pub const PATH: &str = "/openapi.json";

static OF_INGEST: LazyLock<Value> = LazyLock::new(|| document(On::Ingest));
static OF_ADMIN: LazyLock<Value> = LazyLock::new(|| document(On::Admin));

/// `GET /openapi.json` on the ingest listener.
pub async fn of_ingest(uri: Uri) -> Answered {
    query::none(&uri)?;
    Ok(ok(&*OF_INGEST))
}

/// `GET /openapi.json` on the admin listener.
pub async fn of_admin(uri: Uri) -> Answered {
    query::none(&uri)?;
    Ok(ok(&*OF_ADMIN))
}

/// Every operation of a listener.
pub fn operations(on: On) -> impl Iterator<Item = &'static Operation> {
    table::OPERATIONS.into_iter().flatten().filter(move |operation| operation.on.is_in(on))
}

/// The document of a listener.
#[must_use]
pub fn document(on: On) -> Value {
    let mut generator = generator();
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for one in operations(on) {
        let path = paths.entry(one.path).or_insert_with(|| path_item(one.path));
        path.insert(one.method.to_ascii_lowercase(), operation(one, &mut generator));
    }
    let schemas = generator.take_definitions(true);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "duehook",
            "summary": "Webhook delivery engine: one binary, one file, one region",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    })
}

/// Schemas as of JSON Schema 2020-12, which OpenAPI 3.1 takes as they are, of what is written.
fn generator() -> SchemaGenerator {
    let mut settings = SchemaSettings::draft2020_12().for_serialize();
    settings.definitions_path = "/components/schemas".into();
    settings.meta_schema = None;
    settings.into_generator()
}

fn path_item(path: &str) -> Map<String, Value> {
    let variables = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let parameter = |name: &str| json!({"name": name, "in": "path", "required": true, "schema": parameters::of_path(path, name)});
    let parameters: Vec<Value> = variables.map(parameter).collect();
    let mut item = Map::new();
    if !parameters.is_empty() {
        item.insert("parameters".into(), parameters.into());
    }
    item
}

fn operation(one: &Operation, generator: &mut SchemaGenerator) -> Value {
    let query = one.query.iter().map(|it| parameter(it, "query", generator)).collect::<Vec<_>>();
    let heads = one.headers.iter().map(|it| parameter(it, "header", generator));
    let parameters: Vec<Value> = query.into_iter().chain(heads.collect::<Vec<_>>()).collect();
    let mut text = json!({
        "operationId": one.id,
        "summary": one.summary,
        "tags": [one.subject()],
        "parameters": parameters,
        "responses": responses(one, generator),
        "security": security(one),
    });
    if let Some(body) = body(one, generator) {
        text["requestBody"] = body;
    }
    text
}

fn parameter(it: &Parameter, place: &str, generator: &mut SchemaGenerator) -> Value {
    let schema = (it.shape)(generator);
    let mut text = json!({
        "name": it.name, "in": place, "description": it.about, "required": it.required, "schema": schema,
    });
    if it.list {
        text["schema"] =
            json!({"type": "array", "items": schema, "minItems": 1, "maxItems": query::MAX_VALUES});
        text["style"] = "form".into();
        text["explode"] = false.into();
    }
    text
}

fn body(one: &Operation, generator: &mut SchemaGenerator) -> Option<Value> {
    let json = |shape: operation::Shape, generator: &mut SchemaGenerator| json!({"application/json": {"schema": shape(generator)}});
    let (required, content) = match one.body {
        Body::None => return None,
        Body::Optional(shape) => (false, json(shape, generator)),
        Body::Json(shape) => (true, json(shape, generator)),
        Body::Media(all) => {
            let media = all.iter().map(|(media, shape)| (*media, json!({"schema": shape(generator)})));
            (true, json!(media.collect::<BTreeMap<_, _>>()))
        }
    };
    Some(json!({"required": required, "content": content}))
}

/// No token where a listener asks for none; otherwise one that has any of the scopes.
fn security(one: &Operation) -> Value {
    let scopes = if one.is_open() { Vec::new() } else { one.scopes() };
    let tokens = scopes.iter().map(|scope| json!({"token": [scope]}));
    std::iter::once(json!({})).chain(tokens).collect()
}

fn responses(one: &Operation, generator: &mut SchemaGenerator) -> Value {
    let mut all: BTreeMap<String, Value> = BTreeMap::new();
    for answer in one.answers {
        all.insert(answer.status.to_string(), response(answer, generator));
    }
    let mut by_status: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
    for code in one.all_codes() {
        by_status.entry(code.facts().1.as_u16()).or_default().push(code);
    }
    for (status, codes) in by_status {
        refused(all.entry(status.to_string()).or_default(), &codes, generator);
    }
    all.insert("431".into(), json!({"description": "The head of the request is too large."}));
    json!(all)
}

fn response(answer: &Answer, generator: &mut SchemaGenerator) -> Value {
    let mut text = json!({"description": answer.about});
    let headers = answer.headers.iter().map(|name| (*name, json!({"schema": {"type": "string"}})));
    if !answer.headers.is_empty() {
        text["headers"] = json!(headers.collect::<BTreeMap<_, _>>());
    }
    if !answer.media.is_empty() {
        let schema = answer.shape.map_or_else(Schema::default, |shape| shape(generator));
        text["content"] = json!({answer.media: {"schema": schema}});
    }
    text
}

/// Adds the problems of one status to what is answered with it.
fn refused(response: &mut Value, codes: &[Code], generator: &mut SchemaGenerator) {
    let mut words: Vec<&str> = codes.iter().map(|code| code.facts().0).collect();
    words.dedup();
    let problem = of::<Document<'static>>(generator);
    let said = response.get("description").and_then(Value::as_str).map(|text| format!("{text} Or: "));
    let titles: Vec<&str> = codes.iter().map(|code| code.facts().2).collect();
    response["description"] = format!("{}{}.", said.unwrap_or_default(), titles.join("; ")).into();
    response["content"]["application/problem+json"] =
        json!({"schema": {"allOf": [problem, {"properties": {"code": {"enum": words}}}]}});
    if codes.iter().any(|code| matches!(code.facts().1.as_u16(), 429 | 503 | 507)) {
        response["headers"]["Retry-After"] = json!({"schema": {"type": "integer"}});
    }
}

#[cfg(test)]
#[path = "openapi/tests.rs"]
mod tests;
