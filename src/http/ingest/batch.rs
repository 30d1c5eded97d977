//! Many deliveries in one request: a JSON array, or one object a line.

use std::fmt;

use bytes::Bytes;
use serde::de::{Deserialize, Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::http::body::Json;
use crate::http::error::{Code, Problem};
use crate::http::ingest::item::{self, Checks};
use crate::model::NewDelivery;

/// Items of one batch (API.md).
pub const MAX_ITEMS: usize = 1_000;

/// Reads every item, in order; a bad one does not spoil the others.
///
/// # Errors
/// 413 for too many, 400 for an array that is broken.
pub fn read(
    body: &Bytes,
    kind: Json,
    checks: &Checks<'_>,
) -> Result<Vec<Result<NewDelivery, Problem>>, Problem> {
    let items = match kind {
        Json::Text => array(body)?,
        Json::Lines => lines(body)?,
    };
    Ok(items.into_iter().map(|text| item::read(body, text, None, checks)).collect())
}

fn array(body: &Bytes) -> Result<Vec<&[u8]>, Problem> {
    let broken = |error: serde_json::Error| {
        let (line, column) = (error.line(), error.column());
        Problem::new(Code::Malformed, format!("not a JSON array (line {line}, column {column})"))
    };
    match serde_json::from_slice::<Items<'_>>(body).map_err(broken)? {
        Items::All(items) => Ok(items.into_iter().map(|item| item.get().as_bytes()).collect()),
        Items::TooMany => Err(too_many()),
    }
}

fn lines(body: &Bytes) -> Result<Vec<&[u8]>, Problem> {
    let lines = body.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let items: Vec<&[u8]> = lines.filter(|line| !line.is_empty()).take(MAX_ITEMS + 1).collect();
    if items.len() > MAX_ITEMS { Err(too_many()) } else { Ok(items) }
}

fn too_many() -> Problem {
    Problem::new(Code::PayloadTooLarge, format!("more than {MAX_ITEMS} items: send several batches"))
}

/// The items of an array as they stand, as long as there are not too many.
enum Items<'a> {
    All(Vec<&'a RawValue>),
    TooMany,
}

impl<'de: 'a, 'a> Deserialize<'de> for Items<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Items<'a>, D::Error> {
        deserializer.deserialize_seq(ItemsVisitor)
    }
}

struct ItemsVisitor;

impl<'de> Visitor<'de> for ItemsVisitor {
    type Value = Items<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Items<'de>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element::<&'de RawValue>()? {
            if items.len() == MAX_ITEMS {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                return Ok(Items::TooMany);
            }
            items.push(item);
        }
        Ok(Items::All(items))
    }
}

#[cfg(test)]
#[path = "batch/tests.rs"]
mod tests;
