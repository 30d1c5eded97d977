//! The query string of a request: each parameter taken at most once, unknown ones refused by name.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use axum::http::Uri;

use crate::http::error::{FieldError, Problem};
use crate::http::fields::{MAX_ERRORS, REPEATED, cut, out_of, take};

/// Values of one parameter, separated by commas.
pub const MAX_VALUES: usize = 100;

/// The parameters of one request and the faults found so far.
pub struct Query {
    left: Vec<(String, String)>,
    errors: Vec<FieldError>,
}

impl Query {
    /// Reads the query string.
    #[must_use]
    pub fn of(uri: &Uri) -> Query {
        let pairs = url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
        Query { left: pairs.into_owned().collect(), errors: Vec::new() }
    }

    /// Takes a parameter. Given twice is a fault.
    pub fn text(&mut self, name: &'static str) -> Option<String> {
        let (value, repeated) = take(&mut self.left, name);
        if repeated {
            self.fault(name, REPEATED);
        }
        value
    }

    /// Takes a parameter and makes a `T` of it.
    pub fn parsed<T: FromStr<Err: fmt::Display>>(&mut self, name: &'static str) -> Option<T> {
        let text = self.text(name)?;
        text.parse().map_err(|error: T::Err| self.fault(name, error.to_string())).ok()
    }

    /// Takes a list of values separated by commas; each is read by `read`.
    pub fn list<T>(&mut self, name: &'static str, read: impl Fn(&str) -> Result<T, String>) -> Vec<T> {
        let Some(text) = self.text(name) else { return Vec::new() };
        let values: Result<Vec<T>, String> = text.split(',').take(MAX_VALUES + 1).map(read).collect();
        match values {
            Ok(values) if values.len() <= MAX_VALUES => return values,
            Ok(_) => self.fault(name, format!("at most {MAX_VALUES} values")),
            Err(detail) => self.fault(name, detail),
        }
        Vec::new()
    }

    /// Takes a whole number in `range`.
    pub fn integer(&mut self, name: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        let text = self.text(name)?;
        let number = text.parse().ok().filter(|number| range.contains(number));
        if number.is_none() {
            self.fault(name, out_of(&range));
        }
        number
    }

    /// True while a parameter of this name has not been taken.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.left.iter().any(|(key, _)| key == name)
    }

    /// Notes a fault.
    pub fn fault(&mut self, name: &'static str, detail: impl Into<std::borrow::Cow<'static, str>>) {
        self.errors.push(FieldError::new(name, detail));
    }

    /// All was taken and nothing was at fault.
    ///
    /// # Errors
    /// 422 `invalid` with every fault; a parameter that nobody took is unknown.
    pub fn finish(mut self) -> Result<(), Problem> {
        let unknown = self.left.iter().map(|(name, _)| FieldError::new(cut(name), "unknown parameter"));
        self.errors.extend(unknown);
        self.errors.truncate(MAX_ERRORS);
        if self.errors.is_empty() { Ok(()) } else { Err(Problem::invalid(self.errors)) }
    }
}

/// The request has no parameters.
///
/// # Errors
/// 422 `invalid` naming those it has.
pub fn none(uri: &Uri) -> Result<(), Problem> {
    if uri.query().is_none() { Ok(()) } else { Query::of(uri).finish() }
}

/// Reads one of a closed set of words.
pub fn word<T: Copy>(all: &[T], name: fn(T) -> &'static str) -> impl Fn(&str) -> Result<T, String> {
    move |text| {
        let found = all.iter().copied().find(|one| name(*one) == text);
        found.ok_or_else(|| {
            let words: Vec<&str> = all.iter().map(|one| name(*one)).collect();
            format!("must be one of {}", words.join(", "))
        })
    }
}

/// Reads a value by its `FromStr`.
///
/// # Errors
/// What the type says of the text.
pub fn value<T: FromStr<Err: fmt::Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Name;

    #[test]
    fn parameters_and_their_faults() {
        let uri: Uri = "/x?a=1%2C2,3&b=x&b=y&c=-&limit=0&time=now&more=1".parse().unwrap();
        let mut query = Query::of(&uri);
        assert_eq!(query.list("a", value::<u16>), [1, 2, 3]);
        assert_eq!(query.text("b").as_deref(), Some("x"));
        assert_eq!(query.list("c", value::<Name>), []);
        assert_eq!(query.integer("limit", 1..=9), None);
        assert_eq!(query.parsed::<crate::time::Timestamp>("time"), None);
        let problem = query.finish().unwrap_err();
        let names: Vec<&str> = problem.errors.iter().map(|one| &*one.field).collect();
        assert_eq!(names, ["b", "c", "limit", "time", "more"]);
        assert!(none(&"/x".parse().unwrap()).is_ok());
        assert!(none(&"/x?y".parse().unwrap()).is_err());
    }

    #[test]
    fn a_word_that_is_none_of_the_set_is_told_the_set() {
        let read = word(&[true, false], |yes| if yes { "yes" } else { "no" });
        assert_eq!(read("yes"), Ok(true));
        assert_eq!(read("maybe"), Err("must be one of yes, no".to_owned()));
    }
}
