//! A JSON object read field by field, so that every fault names its field and a value that is to
//! be kept stays the bytes it was.
//!
//! Values are not looked into before they are asked for: nesting of any depth is only scanned,
//! without recursion.

use std::borrow::Cow;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::http::error::{Code, FieldError, Problem};

/// What is wrong with a name that stands twice in one request.
pub(super) const REPEATED: &str = "given more than once";
/// Faults that one answer lists; what is beyond them shows when these are mended.
pub const MAX_ERRORS: usize = 20;

/// The fields of one object, each taken at most once, and the faults found so far.
pub struct Fields<'a> {
    left: Vec<(Cow<'a, str>, &'a RawValue)>,
    errors: Vec<FieldError>,
}

impl<'a> Fields<'a> {
    /// Reads one JSON object.
    ///
    /// # Errors
    /// 400 `malformed` when the text is not JSON, or not an object.
    pub fn read(text: &'a [u8]) -> Result<Fields<'a>, Problem> {
        let object: Object<'a> = serde_json::from_slice(text).map_err(|error| malformed(&error))?;
        Ok(Fields { left: object.0, errors: Vec::new() })
    }

    /// Takes a field as it stands. Given twice is a fault.
    pub fn raw(&mut self, name: &'static str) -> Option<&'a RawValue> {
        let (value, repeated) = take(&mut self.left, name);
        if repeated {
            self.fault(name, REPEATED);
        }
        value
    }

    /// Takes a field as it stands; null is as if it were absent.
    pub fn given(&mut self, name: &'static str) -> Option<&'a RawValue> {
        self.raw(name).filter(|value| value.get() != "null")
    }

    /// Takes a string.
    pub fn text(&mut self, name: &'static str) -> Option<Cow<'a, str>> {
        let value = self.given(name)?;
        let text = read_text(value);
        if text.is_none() {
            self.fault(name, "must be a string");
        }
        text
    }

    /// Takes a string and makes a `T` of it.
    pub fn parsed<T: FromStr<Err: fmt::Display>>(&mut self, name: &'static str) -> Option<T> {
        let text = self.text(name)?;
        match text.parse() {
            Ok(value) => Some(value),
            Err(error) => self.refuse(name, error.to_string()),
        }
    }

    /// Takes a whole number in `range`.
    pub fn integer(&mut self, name: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        let value = self.given(name)?;
        match serde_json::from_str::<u64>(value.get()) {
            Ok(number) if range.contains(&number) => Some(number),
            Ok(_) | Err(_) => self.refuse(name, out_of(&range)),
        }
    }

    /// Takes an object.
    pub fn object(&mut self, name: &'static str) -> Option<Vec<(Cow<'a, str>, &'a RawValue)>> {
        let value = self.given(name)?;
        match serde_json::from_str::<Object<'a>>(value.get()) {
            Ok(object) => Some(object.0),
            Err(_) => self.refuse(name, "must be an object"),
        }
    }

    /// Takes a list of strings, at most `most`.
    pub fn texts(&mut self, name: &'static str, most: usize) -> Option<Vec<String>> {
        let value = self.given(name)?;
        match serde_json::from_str::<Vec<String>>(value.get()) {
            Ok(list) if list.len() <= most => Some(list),
            Ok(_) => self.refuse(name, format!("at most {most} entries")),
            Err(_) => self.refuse(name, "must be a list of strings"),
        }
    }

    /// Notes that `name` must be there.
    pub fn missing(&mut self, name: &'static str) {
        self.fault(name, "required");
    }

    /// Notes a fault.
    pub fn fault(&mut self, field: impl Into<Cow<'static, str>>, detail: impl Into<Cow<'static, str>>) {
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(FieldError::new(field, detail));
        }
    }

    /// Notes a fault where a value was wanted.
    pub fn refuse<T>(
        &mut self,
        field: impl Into<Cow<'static, str>>,
        detail: impl Into<Cow<'static, str>>,
    ) -> Option<T> {
        self.fault(field, detail);
        None
    }

    /// True when a fault was noted for this very field.
    #[must_use]
    pub fn is_at_fault(&self, name: &str) -> bool {
        self.errors.iter().any(|error| error.field == name)
    }

    /// All was taken and nothing was at fault.
    ///
    /// # Errors
    /// 422 `invalid` with every fault; a field that nobody took is unknown, or one of `read_only`.
    pub fn finish(mut self, read_only: &[&str]) -> Result<(), Problem> {
        for (name, _) in std::mem::take(&mut self.left) {
            let known = read_only.contains(&&*name);
            self.fault(cut(&name), if known { "cannot be set here" } else { "unknown field" });
        }
        if self.errors.is_empty() { Ok(()) } else { Err(Problem::invalid(self.errors)) }
    }
}

impl fmt::Debug for Fields<'_> {
    /// The faults; neither values nor the names that were given.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fields").field("errors", &self.errors).finish_non_exhaustive()
    }
}

/// Takes what stands under `name`, and says whether it stands there again.
pub(super) fn take<K: PartialEq<str>, V>(left: &mut Vec<(K, V)>, name: &str) -> (Option<V>, bool) {
    let mut found = left.extract_if(.., |(key, _)| *key == *name).map(|(_, value)| value);
    (found.next(), found.next().is_some())
}

/// The text of a JSON string; borrowed where it has no escapes.
#[must_use]
pub fn read_text(value: &RawValue) -> Option<Cow<'_, str>> {
    serde_json::from_str::<Text<'_>>(value.get()).ok().map(|text| text.0)
}

/// A name that came from outside, short enough to be shown.
#[must_use]
pub fn cut(name: &str) -> String {
    name.chars().take(64).collect()
}

/// What is wrong with a number that is not in `range`.
#[must_use]
pub fn out_of(range: &RangeInclusive<u64>) -> String {
    format!("must be a whole number from {} to {}", range.start(), range.end())
}

/// 400: says where the text stops being JSON, never what stands there.
fn malformed(error: &serde_json::Error) -> Problem {
    let place = match error.line() {
        0 | 1 => format!("column {}", error.column()),
        line => format!("line {line}, column {}", error.column()),
    };
    let what = match error.classify() {
        serde_json::error::Category::Eof => "the JSON ends too early",
        serde_json::error::Category::Data => "not a JSON object",
        serde_json::error::Category::Syntax | serde_json::error::Category::Io => "not JSON",
    };
    Problem::new(Code::Malformed, format!("{what} ({place})"))
}

/// The fields of an object in order, those that are given twice too.
pub(super) struct Object<'a>(pub(super) Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Object<'a>, D::Error> {
        deserializer.deserialize_map(ObjectVisitor)
    }
}

struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Object<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
        let mut fields = Vec::with_capacity(8);
        while let Some(name) = map.next_key::<Text<'de>>()? {
            fields.push((name.0, map.next_value::<&'de RawValue>()?));
        }
        Ok(Object(fields))
    }
}

struct Text<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text<'a>, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E: serde::de::Error>(self, text: &'de str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }
}

/// The bytes that hexadecimal digits stand for, if they are so many.
#[must_use]
pub fn digits<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    if text.len() != N * 2 {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_an_object_is_malformed() {
        for text in
            ["", "{", "[]", "3", "\"a\"", "null", "{\"a\":}", "{\"a\":1}x", "{\"a\":\"\u{1}\"}", "{a:1}"]
        {
            let problem = Fields::read(text.as_bytes()).unwrap_err();
            assert_eq!(problem.code, Code::Malformed, "{text:?}");
        }
        assert_eq!(Fields::read(b"{\"a\":\"\xff\"}").unwrap_err().code, Code::Malformed);
        assert_eq!(Fields::read(b"\xef\xbb\xbf{}").unwrap_err().code, Code::Malformed);
    }

    #[test]
    fn each_fault_names_its_field() {
        let text = br#"{"n":0,"s":1,"o":[],"l":["a","b"],"two":1,"two":2,"more":1,"seen":1,"t":"never"}"#;
        let mut fields = Fields::read(text).unwrap();
        assert_eq!(fields.integer("n", 1..=2), None);
        assert_eq!(fields.text("s"), None);
        assert!(fields.object("o").is_none());
        assert_eq!(fields.texts("l", 1), None);
        assert_eq!(fields.raw("two").unwrap().get(), "1");
        assert_eq!(fields.parsed::<crate::time::Timestamp>("t"), None);
        fields.missing("must");
        let problem = fields.finish(&["seen"]).unwrap_err();
        let names: Vec<&str> = problem.errors.iter().map(|one| &*one.field).collect();
        assert_eq!(names, ["n", "s", "o", "l", "two", "t", "must", "more", "seen"]);
        assert_eq!(problem.errors[8].detail, "cannot be set here");
    }

    #[test]
    fn a_flood_of_unknown_fields_is_answered_with_a_few() {
        let text = format!("{{{}\"z\":1}}", "\"a\":1,".repeat(10_000));
        let problem = Fields::read(text.as_bytes()).unwrap().finish(&[]).unwrap_err();
        assert_eq!(problem.errors.len(), MAX_ERRORS);
    }
}
