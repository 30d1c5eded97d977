//! What requests carry. These schemas are written by hand, because requests are read field by
//! field; each names the bounds that the reading code has.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::patterns;
use crate::http::admin::{backup, bulk, claims};
use crate::http::ingest::batch::MAX_ITEMS;
use crate::http::openapi::operation::Parameter;
use crate::http::openapi::parameters;
use crate::http::query::MAX_VALUES;
use crate::model::BulkAction;
use crate::model::destination::{
    BURST_MAX, CONCURRENCY_MAX, CONNECT_TIMEOUT_RANGE, MAX_CIDRS, MAX_REASON, MAX_URL, RATE_MAX,
    TIMEOUT_RANGE,
};
use crate::model::secret::{MAX_OVERLAP, MAX_PEM, MAX_SECRETS};
use crate::model::{
    MAX_AGE_RANGE, MAX_CONTENT_TYPE, MAX_HEADERS, MAX_LABEL_NAME, MAX_LABEL_VALUE, MAX_LABELS, header,
};

/// An object of these fields and no others.
fn object(properties: Value) -> Schema {
    json_schema!({"type": "object", "properties": properties, "additionalProperties": false})
}

fn text(pattern: &str) -> Value {
    json!({"type": ["string", "null"], "pattern": pattern})
}

fn number(least: u64, most: u64) -> Value {
    json!({"type": ["integer", "null"], "minimum": least, "maximum": most})
}

fn time() -> Value {
    json!({"type": ["string", "null"], "format": "date-time"})
}

fn headers(value: &Value) -> Value {
    json!({
        "type": ["object", "null"], "maxProperties": MAX_HEADERS,
        "propertyNames": {"pattern": patterns::HEADER_NAME}, "additionalProperties": value,
    })
}

/// A schema that is used in several places, or is worth a name of its own.
fn named(generator: &mut SchemaGenerator, name: &str, schema: impl FnOnce() -> Schema) -> Schema {
    if !generator.definitions().contains_key(name) {
        generator.definitions_mut().insert(name.to_owned(), schema().into());
    }
    Schema::new_ref(format!("#/components/schemas/{name}"))
}

/// Anything: bytes and lines that no schema describes.
pub fn anything(_: &mut SchemaGenerator) -> Schema {
    json_schema!({})
}

/// No field at all.
pub fn empty(_: &mut SchemaGenerator) -> Schema {
    object(json!({}))
}

/// A delivery as a producer gives it.
pub fn new_delivery(generator: &mut SchemaGenerator) -> Schema {
    named(generator, "NewDelivery", || {
        let mut schema = object(delivery_fields());
        let source = |name: &str, given: Value| json!({"required": [name], "properties": {name: given}});
        let string = json!({"type": "string"});
        schema.insert("required".into(), json!(["destination"]));
        schema.insert(
            "oneOf".into(),
            json!([
                source("payload", json!({})),
                source("payload_base64", string.clone()),
                source("payload_ref", string),
            ]),
        );
        schema
    })
}

fn delivery_fields() -> Value {
    let value = json!({"type": "string", "maxLength": header::MAX_VALUE, "pattern": patterns::HEADER_VALUE});
    json!({
        "destination": {"type": "string", "pattern": patterns::NAME},
        "tenant": text(patterns::NAME),
        "class": text(patterns::NAME),
        "region": text(patterns::NAME),
        "idempotency_key": text(patterns::KEY),
        "not_before": time(),
        "max_age_ms": number(*MAX_AGE_RANGE.start(), *MAX_AGE_RANGE.end()),
        "max_failures": number(0, u32::MAX.into()),
        "headers": headers(&value),
        "labels": {
            "type": ["object", "null"], "maxProperties": MAX_LABELS,
            "propertyNames": {"minLength": 1, "maxLength": MAX_LABEL_NAME},
            "additionalProperties": {"type": "string", "maxLength": MAX_LABEL_VALUE},
        },
        "payload": {"description": "Any JSON: its bytes are delivered as they stand here."},
        "payload_base64": {"type": ["string", "null"], "contentEncoding": "base64"},
        "payload_ref": {"type": ["string", "null"]},
        "sha256": text(patterns::SHA256),
        "content_type": {
            "type": ["string", "null"], "minLength": 1, "maxLength": MAX_CONTENT_TYPE,
            "pattern": patterns::HEADER_VALUE,
        },
    })
}

/// A batch as an array: an item that is none is answered as one that was refused.
pub fn batch(generator: &mut SchemaGenerator) -> Schema {
    let item = new_delivery(generator);
    json_schema!({"type": "array", "maxItems": MAX_ITEMS, "items": {"anyOf": [item, {}]}})
}

/// A destination that is put.
pub fn destination(generator: &mut SchemaGenerator) -> Schema {
    named(generator, "NewDestination", || {
        let mut fields = destination_fields();
        fields["tenant"] = json!({"type": "string", "pattern": patterns::NAME});
        fields["url"] = json!({"type": "string", "pattern": patterns::URL, "maxLength": MAX_URL});
        let mut schema = object(fields);
        schema.insert("required".into(), json!(["tenant", "url"]));
        schema
    })
}

/// What is changed of a destination: a JSON merge patch (RFC 7396).
pub fn destination_patch(generator: &mut SchemaGenerator) -> Schema {
    named(generator, "DestinationPatch", || {
        let mut fields = destination_fields();
        fields["tenant"] = json!({"type": "string", "pattern": patterns::NAME});
        fields["url"] = json!({"type": "string", "pattern": patterns::URL, "maxLength": MAX_URL});
        object(fields)
    })
}

fn destination_fields() -> Value {
    let value = json!({
        "type": ["string", "null"], "maxLength": header::MAX_VALUE, "pattern": patterns::HEADER_VALUE,
    });
    let pem = json!({"type": ["string", "null"], "maxLength": MAX_PEM});
    json!({
        "concurrency": {
            "type": ["object", "null"], "additionalProperties": false,
            "properties": {
                "max": number(1, CONCURRENCY_MAX.into()),
                "adaptive": {"type": ["boolean", "null"]},
            },
        },
        "rate": {
            "type": ["object", "null"], "additionalProperties": false,
            "properties": {
                "per_second": {"type": "number", "minimum": 0.000_001, "maximum": RATE_MAX},
                "burst": number(1, BURST_MAX.into()),
            },
        },
        "policy": text(patterns::NAME),
        "timeout_ms": number(*TIMEOUT_RANGE.start(), *TIMEOUT_RANGE.end()),
        "connect_timeout_ms": number(*CONNECT_TIMEOUT_RANGE.start(), *CONNECT_TIMEOUT_RANGE.end()),
        "headers": headers(&value),
        "secrets": {
            "type": ["array", "null"], "maxItems": MAX_SECRETS,
            "items": {"type": "string", "pattern": patterns::SECRET}, "writeOnly": true,
        },
        "tls": {
            "type": ["object", "null"], "additionalProperties": false,
            "properties": {"ca_pem": pem, "client_cert_pem": pem, "client_key_pem": pem},
        },
        "allow_cidrs": {
            "type": ["array", "null"], "maxItems": MAX_CIDRS,
            "items": {"type": "string", "pattern": patterns::CIDR},
        },
        "hold_scope": {"type": ["string", "null"], "enum": ["destination", "delivery", null]},
    })
}

fn reason() -> Value {
    json!({"type": ["string", "null"], "maxLength": MAX_REASON, "pattern": patterns::LINE})
}

/// Why something is stopped or started.
pub fn reasoned(_: &mut SchemaGenerator) -> Schema {
    object(json!({"reason": reason()}))
}

/// Until when nothing is let through.
pub fn hold(_: &mut SchemaGenerator) -> Schema {
    let mut schema = object(json!({"until": {"type": "string", "format": "date-time"}, "reason": reason()}));
    schema.insert("required".into(), json!(["until"]));
    schema
}

/// A new secret; none: one is made.
pub fn rotation(_: &mut SchemaGenerator) -> Schema {
    object(json!({"secret": text(patterns::SECRET), "overlap_ms": number(0, MAX_OVERLAP.0)}))
}

/// What a test send carries.
pub fn trial(_: &mut SchemaGenerator) -> Schema {
    object(json!({"payload": {}}))
}

/// The fence of a drain.
pub fn start(_: &mut SchemaGenerator) -> Schema {
    object(json!({"fence": {"type": ["integer", "null"], "minimum": 0}}))
}

/// How long a drain waits.
pub fn drain(_: &mut SchemaGenerator) -> Schema {
    object(json!({"wait_ms": number(0, claims::DRAIN_WAIT_MAX.0)}))
}

/// A bulk job: the filter is in the words of the list of deliveries.
pub fn bulk(generator: &mut SchemaGenerator) -> Schema {
    let fields: serde_json::Map<String, Value> =
        parameters::FILTER.iter().map(|one| (one.name.to_owned(), filter_field(generator, one))).collect();
    let filter = json!({
        "type": "object", "minProperties": 1, "additionalProperties": false, "properties": fields,
        "description": "Several values of a field are an array; a comma in a string is a comma.",
    });
    let mut schema = object(json!({
        "action": {"type": "string", "enum": BulkAction::ALL.map(BulkAction::as_str)},
        "filter": filter,
        "dry_run": {"type": ["boolean", "null"]},
        "expected_count": number(0, u64::MAX),
        "rate_per_second": number(1, bulk::MAX_RATE),
    }));
    schema.insert("required".into(), json!(["action", "filter"]));
    schema
}

/// A value, or a list of them where there may be several.
fn filter_field(generator: &mut SchemaGenerator, of: &Parameter) -> Value {
    let one = (of.shape)(generator);
    if !of.list {
        let mut one = one;
        one.insert("description".into(), of.about.into());
        return json!(one);
    }
    let list = json!({"type": "array", "minItems": 1, "maxItems": MAX_VALUES, "items": one});
    json!({"description": of.about, "anyOf": [one, list]})
}

/// Where a backup is to be written.
pub fn backup(_: &mut SchemaGenerator) -> Schema {
    let path = json!({"type": "string", "pattern": patterns::PATH, "maxLength": backup::MAX_PATH});
    let mut schema = object(json!({"path": path}));
    schema.insert("required".into(), json!(["path"]));
    schema
}

/// How long commits are held back.
pub fn backup_hold(_: &mut SchemaGenerator) -> Schema {
    object(json!({"ttl_ms": number(1, backup::HOLD_MAX.0)}))
}
