//! One value as it was written, and its reading as what a setting needs.
//!
//! A reading answers with what is allowed when the value is not: the caller adds the key and
//! where it was set.

use std::ops::RangeInclusive;

use ipnet::IpNet;

use crate::time::Millis;

/// A value before its meaning is known.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// From a flag or a variable: it may stand for any type.
    Word(String),
    Text(String),
    Whole(i64),
    /// With a fraction or an exponent.
    Fraction(f64),
    Truth(bool),
    List(Vec<Value>),
    /// A date or a table: no setting takes one.
    Other,
}

/// A reading, or what would have been allowed.
pub(super) type Reading<T> = Result<T, String>;

impl Value {
    pub(super) fn text(&self) -> Reading<&str> {
        match self {
            Value::Word(text) | Value::Text(text) => Ok(text),
            Value::Whole(_) | Value::Fraction(_) | Value::Truth(_) | Value::List(_) | Value::Other => {
                Err("a string".into())
            }
        }
    }

    pub(super) fn truth(&self) -> Reading<bool> {
        match self {
            Value::Truth(truth) => Ok(*truth),
            Value::Word(word) => word.parse().map_err(|_| "true or false".into()),
            Value::Text(_) | Value::Whole(_) | Value::Fraction(_) | Value::List(_) | Value::Other => {
                Err("true or false".into())
            }
        }
    }

    /// A whole number inside `range`.
    pub(super) fn whole<T>(&self, range: RangeInclusive<u64>) -> Reading<T>
    where
        T: TryFrom<u64>,
    {
        let number = match self {
            Value::Whole(number) => u64::try_from(*number).ok(),
            Value::Word(word) => word.replace('_', "").parse().ok(),
            Value::Text(_) | Value::Fraction(_) | Value::Truth(_) | Value::List(_) | Value::Other => None,
        };
        let inside = number.filter(|number| range.contains(number));
        let fits = inside.and_then(|number| T::try_from(number).ok());
        fits.ok_or_else(|| format!("a whole number from {} to {}", range.start(), range.end()))
    }

    /// A share such as `0.3`, at most `most` thousandths, in thousandths.
    pub(super) fn permille(&self, most: u32) -> Reading<u32> {
        let share = match self {
            Value::Whole(number) => Some(*number as f64),
            Value::Fraction(number) => Some(*number),
            Value::Word(word) => word.parse().ok(),
            Value::Text(_) | Value::Truth(_) | Value::List(_) | Value::Other => None,
        };
        let largest = f64::from(most) / 1_000.0;
        let inside = share.filter(|share| (0.0..=largest).contains(share));
        let thousandths = inside.map(|share| (share * 1_000.0).round() as u32);
        thousandths.ok_or_else(|| format!("a number from 0.0 to {largest}"))
    }

    /// A length of time such as `15s`, inside `range`.
    pub(super) fn duration(&self, range: RangeInclusive<Millis>) -> Reading<Millis> {
        let length = self.text().ok().and_then(|text| humantime::parse_duration(text).ok());
        let inside = length.map(Millis::from).filter(|length| range.contains(length));
        inside.ok_or_else(|| {
            format!("a duration such as \"15s\", from \"{}\" to \"{}\"", range.start(), range.end())
        })
    }

    /// A size such as `256KiB`, or a number of bytes, inside `range`.
    pub(super) fn size(&self, range: RangeInclusive<usize>) -> Reading<usize> {
        let bytes = match self {
            Value::Whole(number) => usize::try_from(*number).ok(),
            Value::Word(text) | Value::Text(text) => size(text),
            Value::Fraction(_) | Value::Truth(_) | Value::List(_) | Value::Other => None,
        };
        let inside = bytes.filter(|bytes| range.contains(bytes));
        inside.ok_or_else(|| {
            format!("a size such as \"256KiB\", from {} to {} bytes", range.start(), range.end())
        })
    }

    /// At most `most` items, each read by `item`; a word is split at its commas.
    pub(super) fn list<T>(&self, most: usize, item: impl Fn(&Value) -> Reading<T>) -> Reading<Vec<T>> {
        let items = match self {
            Value::List(items) => items.clone(),
            Value::Word(word) => split(word),
            Value::Text(_) | Value::Whole(_) | Value::Fraction(_) | Value::Truth(_) | Value::Other => {
                return Err("a list".into());
            }
        };
        if items.len() > most {
            return Err(format!("a list of at most {most} items"));
        }
        let read: Reading<Vec<T>> = items.iter().map(item).collect();
        read.map_err(|allowed| match self {
            Value::Word(_) => format!("values with commas between them, of which each item is {allowed}"),
            Value::List(_)
            | Value::Text(_)
            | Value::Whole(_)
            | Value::Fraction(_)
            | Value::Truth(_)
            | Value::Other => format!("a list in which each item is {allowed}"),
        })
    }

    /// One of the words of `choices`, as what it stands for.
    pub(super) fn choice<T: Clone>(&self, choices: &[(&str, T)]) -> Reading<T> {
        let text = self.text().unwrap_or_default();
        let found = choices.iter().find(|(word, _)| *word == text);
        let words = || choices.iter().map(|(word, _)| format!("\"{word}\"")).collect::<Vec<_>>().join(", ");
        found.map(|(_, meaning)| meaning.clone()).ok_or_else(|| format!("one of {}", words()))
    }

    pub(super) fn network(&self) -> Reading<IpNet> {
        let network = self.text().ok().and_then(|text| text.parse().ok());
        network.ok_or_else(|| "a network such as \"10.1.0.0/16\"".into())
    }

    /// A host name or address, without a port, in lower case.
    pub(super) fn host(&self) -> Reading<String> {
        let text = self.text().unwrap_or_default();
        let inner = |b: u8| b.is_ascii_alphanumeric() || b".-_:[]".contains(&b);
        let good = (1..=255).contains(&text.len()) && text.bytes().all(inner);
        if good { Ok(text.to_ascii_lowercase()) } else { Err("a host name of at most 255 characters".into()) }
    }
}

fn split(word: &str) -> Vec<Value> {
    let items = word.split(',').map(str::trim).filter(|item| !item.is_empty());
    items.map(|item| Value::Word(item.into())).collect()
}

/// `1024`, `256KiB`, `1 MiB`.
fn size(text: &str) -> Option<usize> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let number: usize = text[..end].replace('_', "").parse().ok()?;
    let unit = match text[end..].trim() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(unit)
}
