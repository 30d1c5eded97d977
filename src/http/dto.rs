//! The wire: every document that is answered, with the field names and null rules of the API.
//!
//! Documents borrow from the views they show and are written straight into the answer. They
//! never carry a body or the value of a header, but for the lines of an export.

pub mod delivery;
pub mod destination;
pub mod hand_over;
pub mod job;
pub mod overview;

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::{Serialize, Serializer};

use crate::http::openapi::patterns;
use crate::model::DeliveryId;
use crate::time::Timestamp;

/// Anything with a text form, written as a JSON string.
#[derive(Clone, Copy, Debug)]
pub struct Text<T>(pub T);

impl<T: fmt::Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// What a text looks like.
pub(in crate::http) trait Looks {
    /// Its schema.
    fn looks() -> Schema;
}

impl Looks for Timestamp {
    fn looks() -> Schema {
        json_schema!({"type": "string", "format": "date-time"})
    }
}

impl Looks for DeliveryId {
    fn looks() -> Schema {
        json_schema!({"type": "string", "pattern": patterns::DELIVERY_ID})
    }
}

impl Looks for Hex<'_> {
    fn looks() -> Schema {
        json_schema!({"type": "string", "pattern": "^(?:[0-9a-f]{2})*$"})
    }
}

impl<T: Looks> JsonSchema for Text<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Text".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        T::looks()
    }
}

/// A time that may not be known.
#[must_use]
pub fn time(at: Option<Timestamp>) -> Option<Text<Timestamp>> {
    at.map(Text)
}

/// A rate to the thousandth: more digits are noise.
fn rounded(rate: f64) -> f64 {
    (rate * 1_000.0).round() / 1_000.0
}

/// Bytes as lower-case hexadecimal digits.
#[derive(Clone, Copy, Debug)]
pub struct Hex<'a>(pub &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// One page of a list.
#[derive(Debug, serde::Serialize, JsonSchema)]
#[schemars(rename = "ListOf{T}")]
pub struct List<T> {
    pub data: Vec<T>,
    /// What `cursor` is to be for the next page; null: there is none.
    pub next_cursor: Option<String>,
}

impl<T> List<T> {
    /// A list that is whole.
    #[must_use]
    pub fn whole(data: Vec<T>) -> List<T> {
        List { data, next_cursor: None }
    }
}
