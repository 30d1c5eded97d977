//! The `Retry-After` header (RFC 9110 section 10.2.3) as a wait: a total function of bytes.
//!
//! `delay-seconds` is digits; a decimal fraction, sent by some platforms, is rounded up to the
//! next whole second. A date is any of the three forms of section 5.6.7 and is measured against
//! the response's own `Date`, because it is a time of *their* clock. Two-digit years follow
//! `httpdate`: 70-99 are 19xx. Everything else is [`RetryAfter::Invalid`], never a guess.

use std::time::Duration;

use crate::time::{Millis, Timestamp};

/// Values of one response that are looked at; more are ignored.
pub const MAX_VALUES: usize = 8;
/// Bytes of a value that are looked at and kept; the longest valid form has 37.
pub const MAX_VALUE: usize = 128;

/// What a response asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryAfter {
    Absent,
    /// There, but not of the grammar.
    Invalid,
    /// So many seconds.
    Seconds(Millis),
    /// Until a date; zero when it has passed.
    Date(Millis),
}

impl RetryAfter {
    /// The wait asked for, if it was a valid one.
    #[must_use]
    pub fn wait(self) -> Option<Millis> {
        match self {
            RetryAfter::Seconds(wait) | RetryAfter::Date(wait) => Some(wait),
            RetryAfter::Absent | RetryAfter::Invalid => None,
        }
    }

    /// The word for it in the attempt record.
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self {
            RetryAfter::Absent => "absent",
            RetryAfter::Invalid => "invalid",
            RetryAfter::Seconds(_) => "seconds",
            RetryAfter::Date(_) => "date",
        }
    }
}

/// The header lines of a response that bear on the wait, as they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetryHeaders {
    /// Every `Retry-After` line.
    pub retry_after: Vec<Vec<u8>>,
    /// The `Date` line, unless the response has an `Age` (then it was made earlier).
    pub date: Option<Vec<u8>>,
}

impl RetryHeaders {
    /// The longest valid wait of all lines; `received` stands in for a missing `Date`.
    #[must_use]
    pub fn read(&self, received: Timestamp) -> RetryAfter {
        let theirs = self.date.as_deref().and_then(http_date).unwrap_or(received);
        let lines = self.retry_after.iter().take(MAX_VALUES);
        let read = lines.map(|line| read_line(line, theirs));
        read.max_by_key(|one| one.wait()).unwrap_or(RetryAfter::Absent)
    }

    /// The first line, cut and made printable, for the attempt record.
    #[must_use]
    pub fn raw(&self) -> Option<String> {
        let line = self.retry_after.first()?;
        let kept = &line[..line.len().min(MAX_VALUE)];
        Some(kept.escape_ascii().to_string())
    }
}

fn read_line(line: &[u8], theirs: Timestamp) -> RetryAfter {
    let line = line.trim_ascii();
    if line.is_empty() || line.len() > MAX_VALUE {
        return RetryAfter::Invalid;
    }
    if let Some(wait) = line.split(|b| *b == b',').map(seconds).reduce(longer).flatten() {
        return RetryAfter::Seconds(wait);
    }
    match http_date(line) {
        Some(until) => RetryAfter::Date(until.since(theirs)),
        None => RetryAfter::Invalid,
    }
}

/// Of two parts that a proxy joined with a comma, the larger; one bad part spoils both.
fn longer(one: Option<Millis>, other: Option<Millis>) -> Option<Millis> {
    Some(one?.max(other?))
}

/// `1*DIGIT` with an optional fraction; saturates.
fn seconds(part: &[u8]) -> Option<Millis> {
    let part = part.trim_ascii();
    let (whole, fraction) = match part.iter().position(|b| *b == b'.') {
        Some(dot) => (&part[..dot], &part[dot + 1..]),
        None => (part, &b"0"[..]),
    };
    let digits = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let add = |sum: u64, digit: &u8| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    let up = u64::from(fraction.iter().any(|digit| *digit != b'0'));
    Some(Millis::seconds(whole.iter().fold(0, add).saturating_add(up)))
}

/// One of the three date forms. A leap second is the second after the one before it.
fn http_date(text: &[u8]) -> Option<Timestamp> {
    let text = std::str::from_utf8(text.trim_ascii()).ok()?;
    if let Ok(time) = httpdate::parse_http_date(text) {
        return Some(time.into());
    }
    let before = text.replacen(":60 ", ":59 ", 1);
    let time = httpdate::parse_http_date(&before).ok()?;
    (before != text).then(|| (time + Duration::from_secs(1)).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: &str = "2026-01-15T12:00:00Z";

    fn check(case: &str, value: &[u8], want: RetryAfter) {
        check_at(case, NOON, &[value], None, want);
    }

    fn check_at(case: &str, at: &str, lines: &[&[u8]], date: Option<&str>, want: RetryAfter) {
        let headers = RetryHeaders {
            retry_after: lines.iter().map(|line| line.to_vec()).collect(),
            date: date.map(|text| text.as_bytes().to_vec()),
        };
        assert_eq!(headers.read(at.parse().unwrap()), want, "{case}: {lines:?}");
    }

    fn seconds_are(wait: u64) -> RetryAfter {
        RetryAfter::Seconds(Millis::seconds(wait))
    }

    fn date_in(wait: u64) -> RetryAfter {
        RetryAfter::Date(Millis::seconds(wait))
    }

    #[test]
    fn seconds() {
        check("plain", b"120", seconds_are(120));
        check("C018 zero", b"0", seconds_are(0));
        check("C004 integer written as a fraction", b"2.0", seconds_are(2));
        check("C004 fractions round up", b"2.01", seconds_are(3));
        check("C023 white space", b"\t 120 \t", seconds_are(120));
        check("C026 no guessing of units", b"43323", seconds_are(43_323));
        check("leading zeros", b"0005", seconds_are(5));
        for huge in ["9223372036", "9223372037", "18446744073"] {
            check("C005 large", huge.as_bytes(), seconds_are(huge.parse().unwrap()));
        }
        check("C005 saturates", b"9223372036854775807", RetryAfter::Seconds(Millis(u64::MAX)));
        check("C005 saturates", &[b'9'; 100], RetryAfter::Seconds(Millis(u64::MAX)));
    }

    #[test]
    fn what_is_not_of_the_grammar() {
        let all: [(&str, &[&[u8]]); 7] = [
            ("C001 negative", &[b"-5", b"+5", b"-0"]),
            ("C007 other number forms", &[b"nan", b"inf", b"-inf", b"1e3", b"1e10000", b"0x10"]),
            ("C008 junk after it", &[b"120 seconds", b"120junk", b"120;q=1", b"5s"]),
            ("C024 empty or not ASCII", &[b"", b" ", b"\xD9\xA1\xD9\xA2", b"\xff"]),
            ("half a fraction", &[b".5", b"5.", b"1.2.3", b"."]),
            ("C022 a part that is no number", &[b"10, x", b"10,", b",10", b"10, Thu"]),
            ("too long", &[&[b'1'; 129]]),
        ];
        for (case, values) in all {
            for value in values {
                check(case, value, RetryAfter::Invalid);
            }
        }
    }

    #[test]
    fn dates() {
        check("IMF-fixdate", b"Thu, 15 Jan 2026 12:02:00 GMT", date_in(120));
        check("RFC 850", b"Thursday, 15-Jan-26 12:02:00 GMT", date_in(120));
        check("C010 asctime", b"Thu Jan 15 12:02:00 2026", date_in(120));
        let fifth = "2026-01-05T12:00:00Z";
        check_at("C010 padded day", fifth, &[b"Mon Jan  5 12:02:00 2026"], None, date_in(120));
        check("C012 77 is 1977", b"Saturday, 15-Jan-77 12:00:00 GMT", date_in(0));
        check(
            "C012 76 is 1976, and that was no Wednesday",
            b"Wednesday, 15-Jan-76 12:00:00 GMT",
            RetryAfter::Invalid,
        );
        check("C017 past", b"Thu, 15 Jan 2026 11:59:00 GMT", date_in(0));
        let leap = [&b"Sat, 31 Dec 2016 23:59:60 GMT"[..]];
        check_at("C013 leap second", "2016-12-31T23:59:50Z", &leap, None, date_in(10));
    }

    #[test]
    fn dates_that_do_not_exist() {
        for text in [
            "Sat, 31 Feb 2026 12:00:00 GMT",
            "Thu, 00 Jan 2026 12:00:00 GMT",
            "Thu, 15 Jan 2026 24:02:00 GMT",
            "Mon, 15 Jan 2026 12:02:00 GMT",
        ] {
            check("C014", text.as_bytes(), RetryAfter::Invalid);
        }
        for text in ["1 Jan 2099 00:00:00", "Thu, 15 Jan 2099 12:00:00 XYZ", "2099-01-15T12:00:00Z"] {
            check("C016 malformed is never the longest", text.as_bytes(), RetryAfter::Invalid);
        }
    }

    #[test]
    fn more_than_one_value_and_their_clock() {
        check("C022 joined by a proxy", b"10, 20", seconds_are(20));
        check_at("two lines", NOON, &[b"10", b"x", b"30"], None, seconds_are(30));
        check_at("no line", NOON, &[], None, RetryAfter::Absent);
        let until = [&b"Thu, 15 Jan 2026 11:52:00 GMT"[..]];
        let slow = Some("Thu, 15 Jan 2026 11:50:00 GMT");
        check_at("C020 their clock is slow", NOON, &until, slow, date_in(120));
        check_at("C020 no Date", NOON, &until, None, date_in(0));
        check_at("C020 a Date that is none", NOON, &until, Some("yesterday"), date_in(0));
    }

    #[test]
    fn the_raw_value_is_kept_printable_and_short() {
        let raw = |bytes: &[u8]| RetryHeaders { retry_after: vec![bytes.to_vec()], date: None }.raw();
        assert_eq!(raw(b"-5").as_deref(), Some("-5"));
        assert_eq!(raw(b"\xff\n").as_deref(), Some("\\xff\\n"));
        assert_eq!(raw(&[b'7'; 500]).map(|text| text.len()), Some(MAX_VALUE));
    }
}
