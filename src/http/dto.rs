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

use serde::ser::{Serialize, Serializer};

use crate::time::Timestamp;

/// Anything with a text form, written as a JSON string.
#[derive(Clone, Copy, Debug)]
pub struct Text<T>(pub T);

impl<T: fmt::Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
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
#[derive(Debug, serde::Serialize)]
pub struct List<T> {
    pub data: Vec<T>,
    pub next_cursor: Option<String>,
}

impl<T> List<T> {
    /// A list that is whole.
    #[must_use]
    pub fn whole(data: Vec<T>) -> List<T> {
        List { data, next_cursor: None }
    }
}
