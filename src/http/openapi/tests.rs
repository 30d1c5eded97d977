//! The document as a document, and the table against the codes. Against routers and answers it is
//! held by the integration tests.

use std::collections::BTreeSet;

use super::*;

const SIDES: [On; 2] = [On::Ingest, On::Admin];

#[test]
fn no_operation_stands_twice() {
    for on in SIDES {
        let all: Vec<_> = operations(on).collect();
        let routes: BTreeSet<_> = all.iter().map(|one| (one.method, one.path)).collect();
        let ids: BTreeSet<_> = all.iter().map(|one| one.id).collect();
        assert_eq!((routes.len(), ids.len()), (all.len(), all.len()), "{on:?}");
    }
}

#[test]
fn every_code_is_documented_somewhere() {
    for code in codes::ALL {
        let somewhere = operations(On::Admin).any(|one| one.all_codes().contains(&code));
        let exempt = codes::OF_NO_OPERATION.iter().any(|(other, _)| *other == code);
        assert_ne!(somewhere, exempt, "{code:?}");
    }
}

/// Every reference leads somewhere, and every component is referred to.
#[test]
fn components_are_whole() {
    for on in SIDES {
        let document = document(on);
        let text = document.to_string();
        let names: BTreeSet<&str> =
            document["components"]["schemas"].as_object().unwrap().keys().map(String::as_str).collect();
        let used: BTreeSet<&str> = text
            .split("\"#/components/schemas/")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap())
            .collect();
        assert_eq!(names, used, "{on:?}");
    }
}

/// A document says what it says in the words of OpenAPI 3.1: its schemas are those of 2020-12.
#[test]
fn schemas_are_schemas() {
    let document = document(On::Admin);
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        assert!(jsonschema::meta::is_valid(schema), "{name}: {schema}");
    }
}

#[test]
fn an_operation_in_full() {
    let document = document(On::Ingest);
    let one = &document["paths"]["/v1/deliveries"]["get"];
    let security = r#"[{},{"token":["ingest"]},{"token":["read"]},{"token":["admin"]}]"#;
    assert_eq!(one["security"].to_string(), security);
    insta::assert_snapshot!(serde_json::to_string_pretty(&one["parameters"][1]).unwrap(), @r#"
    {
      "description": "The producer's key.",
      "in": "query",
      "name": "idempotency_key",
      "required": true,
      "schema": {
        "pattern": "^[!#-\\[\\]-~]{1,255}$",
        "type": "string"
      }
    }
    "#);
    insta::assert_snapshot!(serde_json::to_string_pretty(&one["responses"]["503"]).unwrap(), @r##"
    {
      "content": {
        "application/problem+json": {
          "schema": {
            "allOf": [
              {
                "$ref": "#/components/schemas/Problem"
              },
              {
                "properties": {
                  "code": {
                    "enum": [
                      "queue_full",
                      "shutting_down"
                    ]
                  }
                }
              }
            ]
          }
        }
      },
      "description": "There is no room now; The server is stopping.",
      "headers": {
        "Retry-After": {
          "schema": {
            "type": "integer"
          }
        }
      }
    }
    "##);
}
