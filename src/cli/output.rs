//! How answers are shown: tables and relative times for people, JSON for programs.
//!
//! Colour is only for a terminal; `anstream` drops it anywhere else and for `NO_COLOR`.

use std::io::{BufRead as _, ErrorKind, IsTerminal as _, Write as _};
use std::time::SystemTime;

use comfy_table::{Cell, Color, ContentArrangement, Row, Table, presets};
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
        if self.json { write(&json()) } else { write(&people()) }
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
        let _closed = write!(anstream::stderr(), "{question} [y/N] ");
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

/// A length of time in its largest fitting unit: `90 s`, `5 m`, `3 h`, `2 d`.
pub(super) fn length(length: Millis) -> String {
    let seconds = length.0 / 1000;
    match seconds {
        0 => format!("{} ms", length.0),
        1..120 => format!("{seconds} s"),
        120..7_200 => format!("{} m", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// A table with a head, columns as wide as their content.
pub(super) fn table(head: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(head.iter().map(|name| Cell::new(name.to_uppercase())));
    flush_left(&mut table);
    table
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
    printed(&table)
}

/// On a terminal the columns share its width, elsewhere they are as wide as what stands in them.
fn fit(table: &mut Table) {
    if let Some((wide, _)) = size() {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(wide);
    }
}

/// Columns and lines of the terminal that standard output is, if it is one.
pub(super) fn size() -> Option<(u16, u16)> {
    let out = std::io::stdout();
    let size = out.is_terminal().then(|| tcgetwinsize(out).ok()).flatten();
    size.filter(|size| size.ws_col > 0 && size.ws_row > 0).map(|size| (size.ws_col, size.ws_row))
}

/// Columns begin at the left edge, two spaces apart.
fn flush_left(table: &mut Table) {
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
}

/// The text of a table, without spaces at the ends of its lines. Where a terminal is too narrow for
/// its columns, each row becomes a sheet: words are never cut in two.
pub(super) fn printed(table: &Table) -> String {
    let wide = size().map_or(usize::MAX, |(wide, _)| usize::from(wide));
    if table.header().is_none() || natural_width(table) <= wide {
        return table.trim_fmt();
    }
    records(table)
}

/// Columns as wide as their content, and two spaces after each.
fn natural_width(table: &Table) -> usize {
    table.column_max_content_widths().iter().map(|wide| usize::from(*wide) + 2).sum()
}

fn records(table: &Table) -> String {
    let names: Vec<String> = table.header().into_iter().flat_map(Row::cell_iter).map(Cell::content).collect();
    let names: Vec<String> = names.into_iter().map(|name| name.to_lowercase()).collect();
    let sheets = table.row_iter().map(|row| {
        let values = row.cell_iter().map(Cell::content);
        sheet(names.iter().map(String::as_str).zip(values).collect())
    });
    sheets.collect::<Vec<_>>().join("\n\n")
}

/// A word that is good, bad or neither, coloured so.
pub(super) fn word(text: &str) -> Cell {
    let cell = Cell::new(text);
    match text {
        "delivered" | "active" | "success" | "closed" => cell.fg(Color::Green),
        "rejected" | "exhausted" | "expired" | "quarantined" | "disabled" | "destination_gone" => {
            cell.fg(Color::Red)
        }
        "delayed" | "paused" | "rate_limited" | "held" => cell.fg(Color::Yellow),
        _ => cell,
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
    }

    #[test]
    fn lists_and_sheets_are_aligned() {
        let mut list = table(&["id", "state"]);
        list.add_row(["dlv_1", "ready"]);
        list.add_row(["dlv_22", "x"]);
        assert_eq!(printed(&list), "ID      STATE\ndlv_1   ready\ndlv_22  x");
        assert_eq!(natural_width(&list), 15);
        assert_eq!(records(&list), "id     dlv_1\nstate  ready\n\nid     dlv_22\nstate  x");
        let text = sheet(vec![("id", "a".into()), ("none", "-".into()), ("tenant", "b".into())]);
        assert_eq!(text, "id      a\ntenant  b");
    }
}
