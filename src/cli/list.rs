//! A list as a table that fits where it is read.
//!
//! Off a terminal every column and every letter is there. On one that is too narrow, columns that matter
//! less are left out and long names are cut, never an id: it is copied. Only where not even the columns
//! that matter most have room does each row become a sheet.

use comfy_table::{Color, ContentArrangement, Table, presets};

use super::output::{flush_left, sheet, size};

/// Spaces between two columns.
const GAP: usize = 2;
/// A name counts so many letters when it is decided which columns there is room for: one long name
/// alone must not cost a column.
const NAME: usize = 18;
/// No name is cut shorter.
const SHORTEST: usize = 8;
/// What stands for what was cut.
const CUT: char = '…';
/// What begins an id that the server made: it is never cut.
const IDS: [&str; 2] = ["dlv_", "job_"];

/// What a column is called, how much it matters, and whether what stands in it may be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Column {
    name: &'static str,
    /// 0 is always there; the higher, the sooner it is left out.
    rank: u8,
    cut: bool,
}

/// A column of numbers, times or ids.
pub(super) const fn column(name: &'static str, rank: u8) -> Column {
    Column { name, rank, cut: false }
}

/// A column of names or sentences, which may be cut.
pub(super) const fn named(name: &'static str, rank: u8) -> Column {
    Column { name, rank, cut: true }
}

/// What stands in one place of a list, and its colour.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cell {
    text: String,
    color: Option<Color>,
}

impl Cell {
    pub(super) fn new(text: impl ToString) -> Cell {
        Cell { text: text.to_string(), color: None }
    }

    fn fg(self, color: Color) -> Cell {
        Cell { color: Some(color), ..self }
    }

    /// At most so many letters of it.
    fn cut(&self, most: usize) -> Cell {
        if width(&self.text) <= most {
            return self.clone();
        }
        let kept: String = self.text.chars().take(most.saturating_sub(1)).collect();
        Cell { text: format!("{kept}{CUT}"), color: self.color }
    }

    fn is_id(&self) -> bool {
        IDS.iter().any(|id| self.text.starts_with(id))
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell { text, color: None }
    }
}

impl From<&String> for Cell {
    fn from(text: &String) -> Cell {
        Cell::new(text)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::new(text)
    }
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

/// Columns and the rows below them.
#[derive(Clone, Debug)]
pub(super) struct List {
    columns: &'static [Column],
    rows: Vec<Vec<Cell>>,
}

impl List {
    pub(super) fn of(columns: &'static [Column]) -> List {
        List { columns, rows: Vec::new() }
    }

    pub(super) fn add_row<C: Into<Cell>>(&mut self, row: impl IntoIterator<Item = C>) {
        self.rows.push(row.into_iter().map(Into::into).collect());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Its text for standard output.
    pub(super) fn printed(&self) -> String {
        self.fitted(size().map_or(usize::MAX, |(wide, _)| usize::from(wide)))
    }

    /// Its text, no line of it longer than `wide`.
    pub(super) fn fitted(&self, wide: usize) -> String {
        let shown = self.shown(wide);
        match self.widths(&shown, wide) {
            Some(widths) => self.drawn(&shown, &widths),
            None => self.sheets(),
        }
    }

    /// The places of the columns that there is room for: those that matter most first, and of those
    /// that matter less whichever still fits.
    fn shown(&self, wide: usize) -> Vec<usize> {
        let mut places: Vec<usize> = (0..self.columns.len()).collect();
        places.sort_by_key(|place| self.columns[*place].rank);
        let (mut shown, mut taken) = (Vec::new(), 0);
        for place in places {
            let needs = GAP + self.room(place, NAME);
            if self.columns[place].rank == 0 || taken + needs <= wide.saturating_add(GAP) {
                taken += needs;
                shown.push(place);
            }
        }
        shown.sort_unstable();
        shown
    }

    /// Letters that a column takes, if what may be cut is cut to `most`.
    fn room(&self, place: usize, most: usize) -> usize {
        let Column { name, cut, .. } = self.columns[place];
        let room = |cell: &Cell| {
            let all = width(&cell.text);
            if cut && !cell.is_id() { all.min(most) } else { all }
        };
        let widest = self.rows.iter().map(|row| row.get(place).map_or(0, room)).max();
        widest.unwrap_or(0).max(width(name))
    }

    /// How wide each of these columns is to be; None: they do not fit, however much is cut.
    fn widths(&self, shown: &[usize], wide: usize) -> Option<Vec<usize>> {
        let mut widths: Vec<usize> = shown.iter().map(|place| self.room(*place, usize::MAX)).collect();
        let least: Vec<usize> = shown.iter().map(|place| self.room(*place, SHORTEST)).collect();
        let gaps = GAP * shown.len().saturating_sub(1);
        let mut over = (widths.iter().sum::<usize>() + gaps).saturating_sub(wide);
        while over > 0 {
            let can = |at: &usize| widths[*at] > least[*at];
            let widest = (0..widths.len()).filter(can).max_by_key(|at| widths[*at])?;
            widths[widest] -= 1;
            over -= 1;
        }
        Some(widths)
    }

    fn drawn(&self, shown: &[usize], widths: &[usize]) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(shown.iter().map(|place| self.columns[*place].name.to_uppercase()));
        for row in &self.rows {
            let cells = shown.iter().zip(widths).map(|(place, most)| {
                let Some(cell) = row.get(*place) else { return comfy_table::Cell::new("") };
                let Cell { text, color } = cell.cut(*most);
                let cell = comfy_table::Cell::new(text);
                color.map_or(cell.clone(), |color| cell.fg(color))
            });
            table.add_row(cells);
        }
        flush_left(&mut table);
        table.trim_fmt()
    }

    /// Each row as a sheet: for what is too narrow for any table.
    fn sheets(&self) -> String {
        let one = |row: &Vec<Cell>| {
            let names = self.columns.iter().map(|column| column.name);
            sheet(names.zip(row.iter().map(|cell| cell.text.clone())).collect())
        };
        self.rows.iter().map(one).collect::<Vec<_>>().join("\n\n")
    }
}

fn width(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
#[path = "list/tests.rs"]
mod tests;
