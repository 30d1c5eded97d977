//! One line of an export, checked field by field. A fault is told by its field; what stands in the
//! field is never repeated.

mod delivery;
mod destination;

use std::fmt;
use std::str::FromStr;

use crate::engine::import::{DeliveryLine, DestinationLine};
use crate::http::admin::input;
use crate::http::dto::hand_over::FORMAT;
use crate::http::error::{Code, Problem};
use crate::http::fields::{Fields, digits};
use crate::model::{Name, Prefix};
use crate::store::Identity;
use crate::time::Timestamp;

/// The most that a counter is taken for: it goes on from there, once an attempt or a change, and must
/// never come to its end.
const MAX_COUNT: u32 = 1 << 31;

/// A line that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    Header(Identity),
    Destination(Box<DestinationLine>),
    Delivery(Box<DeliveryLine>),
    End { destinations: u64, deliveries: u64 },
}

/// What lines are checked by that does not stand in them.
#[derive(Clone, Copy, Debug)]
pub struct Checks<'a> {
    pub region: &'a Name,
    /// Where payloads may be that are not in the lines.
    pub references: &'a [Prefix],
    /// Those of a destination's settings.
    pub settings: input::Checks<'a>,
}

/// Reads one line.
///
/// # Errors
/// 400 when it is not a JSON object, 422 naming every field at fault, or another region.
pub fn read(text: &[u8], checks: &Checks<'_>) -> Result<Line, Problem> {
    let mut fields = Fields::read(text)?;
    match fields.text("kind").as_deref() {
        Some("header") => header(fields, checks).map(Line::Header),
        Some("destination") => {
            destination::read(fields, checks).map(|line| Line::Destination(Box::new(line)))
        }
        Some("delivery") => delivery::read(fields, checks).map(|line| Line::Delivery(Box::new(line))),
        Some("end") => end(fields),
        Some(_) | None => Err(Problem::field("kind", "must be header, destination, delivery or end")),
    }
}

fn header(mut fields: Fields<'_>, checks: &Checks<'_>) -> Result<Identity, Problem> {
    let format = fields.integer("format", 1..=u64::MAX);
    if let Some(newer) = format.filter(|format| *format > FORMAT) {
        let detail = format!("{newer} is newer than {FORMAT}, which this program knows; use a newer duehook");
        return Err(Problem::field("format", detail));
    }
    let server = hex(&mut fields, "server");
    let region: Option<Name> = needed(&mut fields, "region");
    let fence = number(&mut fields, "fence");
    let _made_at: Option<Timestamp> = needed(&mut fields, "created_at");
    if format.is_none() && !fields.is_at_fault("format") {
        fields.missing("format");
    }
    fields.finish(&[])?;
    match region.filter(|region| region != checks.region) {
        Some(_) => Err(other_region(checks.region)),
        None => Ok(Identity { server: server.unwrap_or_default(), fence }),
    }
}

fn other_region(here: &Name) -> Problem {
    Problem::new(Code::WrongRegion, format!("this server is in region {here}")).at("region")
}

/// What it says of itself beside its counts is for people.
fn end(mut fields: Fields<'_>) -> Result<Line, Problem> {
    let destinations = number(&mut fields, "destinations");
    let deliveries = number(&mut fields, "deliveries");
    fields.given("left_behind");
    fields.finish(&[])?;
    Ok(Line::End { destinations, deliveries })
}

/// A text that must be there, as a `T`.
fn needed<T: FromStr<Err: fmt::Display>>(fields: &mut Fields<'_>, name: &'static str) -> Option<T> {
    let value = fields.parsed(name);
    if value.is_none() && !fields.is_at_fault(name) {
        fields.missing(name);
    }
    value
}

/// A time that must be there; in its place, when it is not, one that is not used.
fn at(fields: &mut Fields<'_>, name: &'static str) -> Timestamp {
    needed(fields, name).unwrap_or_default()
}

/// A number that must be there.
fn number(fields: &mut Fields<'_>, name: &'static str) -> u64 {
    let number = fields.integer(name, 0..=u64::MAX);
    if number.is_none() && !fields.is_at_fault(name) {
        fields.missing(name);
    }
    number.unwrap_or_default()
}

/// A number of at most `most` that must be there.
fn up_to(fields: &mut Fields<'_>, name: &'static str, most: u32) -> u32 {
    let number = number(fields, name);
    u32::try_from(number).ok().filter(|number| *number <= most).unwrap_or_else(|| {
        fields.fault(name, format!("must be at most {most}"));
        0
    })
}

/// A counter that must be there, and has room to go on.
fn count(fields: &mut Fields<'_>, name: &'static str) -> u32 {
    up_to(fields, name, MAX_COUNT)
}

/// True or false; absent is false.
fn flag(fields: &mut Fields<'_>, name: &'static str) -> bool {
    match fields.given(name).map(|value| value.get()) {
        Some("true") => true,
        Some("false") | None => false,
        Some(_) => {
            fields.fault(name, "must be true or false");
            false
        }
    }
}

/// One of a closed set of words.
fn word<T: Copy>(
    fields: &mut Fields<'_>,
    name: &'static str,
    all: &[T],
    as_str: fn(T) -> &'static str,
) -> Option<T> {
    let text = fields.text(name)?;
    let found = all.iter().copied().find(|one| as_str(*one) == text);
    if found.is_none() {
        fields.fault(name, "is not one of the words there are for it");
    }
    found
}

/// Bytes in hexadecimal digits that must be there.
fn hex<const N: usize>(fields: &mut Fields<'_>, name: &'static str) -> Option<[u8; N]> {
    let text = fields.text(name);
    let bytes = text.as_deref().and_then(digits);
    if bytes.is_none() && !fields.is_at_fault(name) {
        fields.fault(name, format!("must be {} hexadecimal digits", N * 2));
    }
    bytes
}

/// A text of ours that people read, cut to so many bytes.
fn short(text: &str, most: usize) -> String {
    text.chars()
        .scan(0, |bytes, one| {
            *bytes += one.len_utf8();
            (*bytes <= most).then_some(one)
        })
        .collect()
}

#[cfg(test)]
#[path = "line/tests.rs"]
mod tests;
