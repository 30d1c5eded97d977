//! How answers are shown: tables and relative times for people, JSON for programs.
//!
//! Colour is only for a terminal; `anstream` drops it anywhere else and for `NO_COLOR`.

use std::io::{BufRead as _, ErrorKind, IsTerminal, Write as _};
use std::os::fd::AsFd;
use std::time::SystemTime;

use comfy_table::{ContentArrangement, Table, presets};
use rustix::termios::tcgetwinsize;

use super::fault::Fault;
use crate::time::{Millis, Timestamp};

/// Who reads the answer, and whether loss is confirmed beforehand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Output {
    pub json: bool,
    yes: bool,
    pub now: Timestamp,
}

impl Output {
    pub(super) fn new(json: bool, yes: bool) -> Output {
        Output { json, yes, now: now() }
    }

    /// Writes one or the other.
    pub(super) fn either(
        &self,
        json: impl FnOnce() -> String,
        people: impl FnOnce() -> String,
    ) -> Result<(), Fault> {
        if self.json { write(&json()) } else { say(&people()) }
    }

    pub(super) fn version(&self) -> Result<(), Fault> {
        let version = env!("CARGO_PKG_VERSION");
        self.either(|| serde_json::json!({"version": version}).to_string(), || format!("duehook {version}"))
    }

    /// True when somebody is there to be asked, and has not answered beforehand.
    pub(super) fn asks(&self) -> bool {
        !self.yes && std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
    }

    /// Asks on a terminal; `--yes` is the answer beforehand.
    pub(super) fn confirm(&self, question: &str) -> Result<(), Fault> {
        if self.yes {
            return Ok(());
        }
        if !self.asks() {
            return Err(Fault::Unconfirmed(format!(
                "not done, because nobody confirmed it: {question} Add --yes"
            )));
        }
        let _closed = write!(anstream::stderr(), "{} ", for_stderr(&format!("{question} [y/N]")));
        let mut answer = String::new();
        let read = std::io::stdin().lock().read_line(&mut answer);
        match (read, answer.trim()) {
            (Ok(_), "y" | "Y" | "yes") => Ok(()),
            (Ok(_) | Err(_), _) => Err(Fault::Unconfirmed("not done".into())),
        }
    }

    /// `time`, as the API writes it, from here: `in 5 m`, `3 s ago`, `-` for none.
    pub(super) fn when(&self, time: Option<&str>) -> String {
        let Some(text) = time else { return "-".into() };
        match text.parse::<Timestamp>() {
            Ok(time) => relative(self.now, time),
            Err(_) => text.to_owned(),
        }
    }

    /// The same with the time itself in front.
    pub(super) fn at(&self, time: Option<&str>) -> String {
        match time {
            Some(text) => format!("{text} ({})", self.when(time)),
            None => "-".into(),
        }
    }
}

/// Writes a line to standard output. Whoever closed it has seen enough: that is no fault.
pub(super) fn write(text: &str) -> Result<(), Fault> {
    let mut out = anstream::stdout();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Fault::Local(format!("cannot write to standard output: {error}"))),
    }
}

/// Writes sentences to standard output, broken between words where a terminal's lines end.
pub(super) fn say(text: &str) -> Result<(), Fault> {
    write(&wrapped(text, size().map_or(usize::MAX, |(wide, _)| usize::from(wide))))
}

/// Sentences for standard error, broken in the same way.
pub(super) fn for_stderr(text: &str) -> String {
    let wide = size_of(std::io::stderr()).map_or(usize::MAX, |(wide, _)| usize::from(wide));
    wrapped(text, wide)
}

/// Lines broken between words, so that none is longer than `wide`; what follows a break is indented as
/// its line is. A word that is longer, such as an address, stays whole.
pub(super) fn wrapped(text: &str, wide: usize) -> String {
    text.split('\n').map(|line| wrapped_line(line, wide)).collect::<Vec<_>>().join("\n")
}

fn wrapped_line(line: &str, wide: usize) -> String {
    if line.chars().count() <= wide {
        return line.to_owned();
    }
    let indent = &line[..line.len() - line.trim_start_matches(' ').len()];
    let (mut text, mut at) = (String::new(), 0);
    for word in line.split_whitespace() {
        let long = word.chars().count();
        if at > indent.len() && at + 1 + long > wide {
            text.push('\n');
            at = 0;
        }
        let before = if at == 0 { indent } else { " " };
        text += before;
        text += word;
        at += before.len() + long;
    }
    text
}

#[expect(clippy::disallowed_methods, reason = "the client is an edge: it shows times relative to now")]
fn now() -> Timestamp {
    SystemTime::now().into()
}

fn relative(now: Timestamp, time: Timestamp) -> String {
    let (ahead, behind) = (time.since(now), now.since(time));
    match (ahead.0 / 1000, behind.0 / 1000) {
        (0, 0) => "now".into(),
        (0, _) => format!("{} ago", length(behind)),
        (_, _) => format!("in {}", length(ahead)),
    }
}

/// `1 delivery`, `2 deliveries`.
pub(super) fn deliveries(count: u64) -> String {
    counted(count, "delivery", "deliveries")
}

/// So many of what has these names.
pub(super) fn counted(count: u64, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

/// A length of time in its largest fitting unit, with the next smaller one while there are few of it:
/// `90 s`, `5 m 20 s`, `12 m`, `2 d 23 h`.
pub(super) fn length(length: Millis) -> String {
    let seconds = length.0 / 1000;
    match seconds {
        0 => format!("{} ms", length.0),
        1..120 => format!("{seconds} s"),
        120..7_200 => in_units(seconds, (60, "m"), (1, "s")),
        7_200..172_800 => in_units(seconds, (3_600, "h"), (60, "m")),
        _ => in_units(seconds, (86_400, "d"), (3_600, "h")),
    }
}

/// Rounded down to the smaller unit, or to the larger one where there are many of it.
fn in_units(seconds: u64, (large, name): (u64, &str), (small, small_name): (u64, &str)) -> String {
    /// The smaller unit is then less than a tenth of what is shown.
    const MANY: u64 = 10;
    match (seconds / large, seconds % large / small) {
        (count, 0) => format!("{count} {name}"),
        (count, _) if count >= MANY => format!("{count} {name}"),
        (count, rest) => format!("{count} {name} {rest} {small_name}"),
    }
}

/// Names and their values below each other.
pub(super) fn sheet(rows: Vec<(&str, String)>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    fit(&mut table);
    for (name, value) in rows.into_iter().filter(|(_, value)| value != "-") {
        table.add_row([name.to_owned(), value]);
    }
    flush_left(&mut table);
    table.trim_fmt()
}

/// On a terminal the columns share its width, elsewhere they are as wide as what stands in them.
fn fit(table: &mut Table) {
    if let Some((wide, _)) = size() {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(wide);
    }
}

/// Columns and lines of the terminal that standard output is, if it is one.
pub(super) fn size() -> Option<(u16, u16)> {
    size_of(std::io::stdout())
}

fn size_of(out: impl IsTerminal + AsFd) -> Option<(u16, u16)> {
    let size = out.is_terminal().then(|| tcgetwinsize(out).ok()).flatten();
    size.filter(|size| size.ws_col > 0 && size.ws_row > 0).map(|size| (size.ws_col, size.ws_row))
}

/// Columns begin at the left edge, two spaces apart.
pub(super) fn flush_left(table: &mut Table) {
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_from_here() {
        let now = Timestamp(1_000_000_000);
        let check = |text: &str, time: u64| assert_eq!(relative(now, Timestamp(time)), text, "{time}");
        check("now", 1_000_000_000);
        check("now", 1_000_000_999);
        check("now", 999_999_001);
        check("in 1 s", 1_000_001_000);
        check("3 s ago", 999_997_000);
        check("in 119 s", 1_000_119_999);
        check("in 5 m", 1_000_300_000);
        check("5 m ago", 999_700_000);
        check("in 2 h", 1_007_200_000);
        check("in 2 d", 1_172_800_000);
        check("in 2 d 23 h", 1_259_199_000);
        check("11 d ago", 1_000_000_000 - 999_999_999);
        check("2 m 30 s ago", 999_850_000);
        check("in 2 h 59 m", 1_010_799_000);
        check("in 10 m", 1_000_659_000);
    }

    #[test]
    fn sentences_are_broken_between_words() {
        let check = |text: &str, wide: usize, want: &str| assert_eq!(wrapped(text, wide), want, "{text:?}");
        check("one two three", 80, "one two three");
        check("one two three", 7, "one two\nthree");
        check("  one two three", 9, "  one two\n  three");
        check("a\nhttps://a.example/long b", 8, "a\nhttps://a.example/long\nb");
        check("", 8, "");
        check("one two", 2, "one\ntwo");
    }

    #[test]
    fn sheets_are_aligned() {
        let text = sheet(vec![("id", "a".into()), ("none", "-".into()), ("tenant", "b".into())]);
        assert_eq!(text, "id      a\ntenant  b");
    }
}
