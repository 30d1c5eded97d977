//! `/openapi.json` against the routers and against every answer that an integration test reads.
#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

mod good;
mod routes;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex};

use duehook::http::NO_ROUTE;
use duehook::http::openapi::document;
use duehook::http::openapi::operation::On;
use jsonschema::Validator;
use serde_json::{Value, json};

/// The document of the admin listener, which has all there is, with objects that are closed: a field
/// that it does not name is one too many.
static CLOSED: LazyLock<Value> = LazyLock::new(|| {
    let mut document = document(On::Admin);
    document["components"]["schemas"].as_object_mut().unwrap().values_mut().for_each(close);
    document
});

/// What judges the answers of one operation with one status and media type.
static JUDGES: Mutex<BTreeMap<String, Arc<Validator>>> = Mutex::new(BTreeMap::new());

fn close(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields.contains_key("properties") && !fields.contains_key("additionalProperties") {
                fields.insert("additionalProperties".into(), false.into());
            }
            fields.values_mut().for_each(close);
        }
        Value::Array(all) => all.iter_mut().for_each(close),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The pattern of the operation that a request is for.
pub(crate) fn operation(method: &str, path: &str) -> Option<&'static str> {
    let fits = |pattern: &str| {
        let all = pattern.split('/').zip(path.split('/')).all(|(a, b)| a == b || a.starts_with('{'));
        all && pattern.split('/').count() == path.split('/').count()
    };
    let method = method.to_ascii_lowercase();
    let mut paths = CLOSED["paths"].as_object().unwrap().iter();
    let found = paths.find(|(pattern, item)| fits(pattern) && item.get(&method).is_some());
    found.map(|(pattern, _)| pattern.as_str())
}

/// Fails unless the document says that a request may be answered so. What is no operation is passed.
#[track_caller]
pub(crate) fn judge(method: &str, path: &str, status: u16, media: Option<&str>, text: &str) {
    let path = path.split('?').next().unwrap();
    let Some(pattern) = operation(method, path) else { return };
    // The other listener has no such operation.
    if text.contains(NO_ROUTE) || status == 405 {
        return;
    }
    let (method, status) = (method.to_ascii_lowercase(), status.to_string());
    let response = &CLOSED["paths"][pattern][&method]["responses"][&status];
    assert!(response.is_object(), "{method} {pattern} does not answer {status}: {text}");
    let Some(media) = media else {
        assert_eq!(text, "", "{method} {pattern} {status} says nothing of a body");
        return;
    };
    let schema = response["content"].get(media).map(|content| &content["schema"]);
    let Some(schema) = schema else { panic!("{method} {pattern} {status} is not {media}: {text}") };
    let name = format!("{method} {pattern} {status} {media}");
    match media {
        "application/x-ndjson" => text.lines().for_each(|line| conforms(&name, schema, line)),
        "application/json" | "application/problem+json" => conforms(&name, schema, text),
        _ => assert_eq!(schema, &json!({}), "{name}"),
    }
}

#[track_caller]
fn conforms(name: &str, schema: &Value, text: &str) {
    let value: Value = serde_json::from_str(text).unwrap_or_else(|_| panic!("{name}: no JSON: {text}"));
    let judge = Arc::clone(JUDGES.lock().unwrap().entry(name.to_owned()).or_insert_with(|| {
        let whole = json!({"allOf": [schema], "components": CLOSED["components"]});
        Arc::new(jsonschema::validator_for(&whole).unwrap())
    }));
    let wrong: Vec<String> =
        judge.iter_errors(&value).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(wrong.is_empty(), "{name}: {wrong:#?}\n{text}");
}

#[test]
#[should_panic(expected = "does not answer 418")]
fn a_status_that_is_not_documented_fails() {
    judge("GET", "/v1/version", 418, None, "");
}

#[test]
#[should_panic(expected = "colour")]
fn a_field_that_is_not_documented_fails() {
    let text = r#"{"version":"1","commit":"","region":"eu","format":1,"colour":2}"#;
    judge("GET", "/v1/version?", 200, Some("application/json"), text);
}

#[test]
#[should_panic(expected = "format")]
fn a_field_that_is_missing_fails() {
    judge(
        "GET",
        "/v1/version",
        200,
        Some("application/json"),
        r#"{"version":"1","commit":"","region":"eu"}"#,
    );
}

#[test]
#[should_panic(expected = "leased")]
fn a_code_that_is_not_documented_fails() {
    let text = r#"{"type":"urn:duehook:problem:leased","title":"","status":422,"detail":"","code":"leased"}"#;
    judge("GET", "/v1/version", 422, Some("application/problem+json"), text);
}
