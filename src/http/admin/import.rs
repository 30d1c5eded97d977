//! The import of an export: line by line as it comes, a page of lines a commit.
//!
//! Nothing is held but the page that is being gathered. A bad line is named by its number and left;
//! what was read before the end of a request that breaks off is kept, and the whole can be sent again.

pub mod line;
pub mod lines;
pub mod tale;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::{Request, State};
use axum::http::Uri;

use crate::engine::command::{Command, Done};
use crate::engine::import::{Item, PAGE_ITEMS, Page};
use crate::http::admin::deliveries::another_answer;
use crate::http::admin::{input, order};
use crate::http::app::{Answered, App};
use crate::http::auth::Caller;
use crate::http::body::{self, Json};
use crate::http::error::{Code, Problem};
use crate::http::query::{Query, value};
use crate::http::room::AtWork;
use crate::model::{Action, Name};
use crate::store::Identity;

use line::{Checks, Line};
use lines::{Lines, MAX_LINE, Piece};
use tale::{Tale, Told};

/// Bytes of bodies in one page: its commit is to stay short.
const PAGE_BYTES: usize = 1 << 20;

/// One import at a time: each holds a page in memory, and two would only wait for each other.
#[derive(Debug, Default)]
pub struct Turn(AtomicBool);

/// An import is going on as long as this is kept.
struct Taken<'a>(&'a Turn);

impl Turn {
    fn take(&self) -> Result<Taken<'_>, Problem> {
        if self.0.swap(true, Ordering::AcqRel) {
            return Err(Problem::new(Code::ImportRunning, "wait for its end, or end its connection"));
        }
        Ok(Taken(self))
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.0.store(false, Ordering::Release);
    }
}

/// `POST /v1/import`.
pub async fn import(State(app): State<Arc<App>>, caller: Caller, request: Request) -> Answered {
    let (parts, body) = request.into_parts();
    let asked = Asked::take(&parts.uri).map_err(Problem::closing)?;
    body::refuse_encoding(&parts.headers)?;
    if body::json_kind(&parts.headers).map_err(Problem::closing)? != Json::Lines {
        let detail =
            "an export is ndjson (curl: -H 'content-type: application/x-ndjson' --data-binary @FILE)";
        return Err(Problem::new(Code::ContentType, detail).closing());
    }
    let _turn = app.importing.take().map_err(Problem::closing)?;
    let mut work = Work::new(&app, &caller, asked);
    work.at_work = parts.extensions.get().cloned();
    let whole = work.read(Lines::new(body)).await;
    work.note(whole.is_ok()).await?;
    let Told { imported, updated, unchanged } = work.told.deliveries;
    let (rejected, dry_run) = (work.told.refused(), asked.dry_run);
    tracing::info!(imported, updated, unchanged, rejected, dry_run, whole = whole.is_ok(), "import");
    whole.map_err(Problem::closing)?;
    Ok(work.told.answer())
}

/// How it is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    dry_run: bool,
    stop_on_error: bool,
}

impl Asked {
    fn take(uri: &Uri) -> Result<Asked, Problem> {
        let mut query = Query::of(uri);
        let mut flag = |name| {
            let text = query.text(name)?;
            value(&text).map_err(|_| query.fault(name, "must be true or false")).ok()
        };
        let (dry_run, stop_on_error) = (flag("dry_run"), flag("stop_on_error"));
        query.finish()?;
        Ok(Asked { dry_run: dry_run.unwrap_or(false), stop_on_error: stop_on_error.unwrap_or(false) })
    }
}

/// An import at work.
struct Work<'a> {
    app: &'a App,
    caller: &'a Caller,
    asked: Asked,
    told: Tale,
    /// Its pages are stored while the rest still comes: its connection is not to be closed for another's.
    at_work: Option<AtWork>,
    begun: bool,
    /// The totals are in the audit log, or on their way there.
    noted: bool,
    items: Vec<Item>,
    numbers: Vec<u64>,
    bytes: usize,
    /// Lines of the page that the engine has now.
    storing: usize,
    /// Lines of each kind, good or bad, as the end line counts them.
    seen: [u64; 2],
    /// The destinations that a dry run would have made.
    assumed: Arc<BTreeMap<Name, Name>>,
}

/// Whether there is more to read.
enum Goes {
    On,
    Ended,
}

impl<'a> Work<'a> {
    fn new(app: &'a App, caller: &'a Caller, asked: Asked) -> Work<'a> {
        Work {
            app,
            caller,
            asked,
            told: Tale::of(asked.dry_run),
            at_work: None,
            begun: false,
            noted: false,
            items: Vec::new(),
            numbers: Vec::new(),
            bytes: 0,
            storing: 0,
            seen: [0; 2],
            assumed: Arc::default(),
        }
    }

    /// Reads to the end line, or to the first bad line where that is to be the end.
    async fn read(&mut self, mut lines: Lines) -> Result<(), Problem> {
        let mut ended = false;
        while let Some(piece) = self.next(&mut lines).await? {
            let goes = match piece {
                Piece::Line(number, _) if ended => {
                    self.left(number, Problem::field("kind", "nothing comes after the end line")).await?;
                    Goes::On
                }
                Piece::Line(number, text) => self.line(number, &text).await?,
                Piece::TooLong(number) => {
                    let detail = format!("more than {MAX_LINE} bytes in one line");
                    self.left(number, Problem::new(Code::PayloadTooLarge, detail)).await?;
                    Goes::On
                }
            };
            ended |= matches!(goes, Goes::Ended);
            if self.told.stopped {
                return Ok(());
            }
        }
        self.store().await?;
        if ended || self.told.stopped { Ok(()) } else { Err(self.truncated("there is no end line")) }
    }

    /// The next line. Where the request breaks off, what was read before is stored.
    async fn next(&mut self, lines: &mut Lines) -> Result<Option<Piece>, Problem> {
        match lines.next().await {
            Ok(piece) => Ok(piece),
            Err(broken) => {
                self.store().await?;
                Err(broken)
            }
        }
    }

    async fn line(&mut self, number: u64, text: &[u8]) -> Result<Goes, Problem> {
        let rulebook = self.app.rulebook();
        let checks = Checks {
            region: &self.app.region,
            references: &rulebook.references,
            settings: input::Checks::of(&rulebook),
        };
        let read = line::read(text, &checks);
        if !self.begun {
            let Line::Header(source) = read? else {
                return Err(Problem::field("kind", "the first line of an export is its header"));
            };
            return self.begin(source).await.map(|()| Goes::On);
        }
        match read {
            Ok(Line::Destination(line)) => {
                self.seen[0] += 1;
                if self.asked.dry_run {
                    Arc::make_mut(&mut self.assumed).insert(line.name.clone(), line.settings.tenant.clone());
                }
                self.gather(number, Item::Destination(line), 0).await?;
            }
            Ok(Line::Delivery(line)) => {
                self.seen[1] += 1;
                let bytes = line.body.len();
                self.gather(number, Item::Delivery(line), bytes).await?;
            }
            Ok(Line::End { destinations, deliveries }) => {
                return self.end(destinations.saturating_add(deliveries)).await.map(|()| Goes::Ended);
            }
            Ok(Line::Header(_)) => {
                self.left(number, Problem::field("kind", "there is one header, on the first line")).await?;
            }
            Err(problem) => self.left(number, problem).await?,
        }
        Ok(Goes::On)
    }

    /// Said to have begun before it is known, for the totals of who leaves meanwhile.
    async fn begin(&mut self, source: Identity) -> Result<(), Problem> {
        self.begun = true;
        let command = Command::BeginImport { source, dry_run: self.asked.dry_run };
        let begun = order(self.app, self.caller, command).await;
        self.begun = begun.is_ok();
        if let Some(connection) = self.at_work.as_ref().filter(|_| self.begun) {
            connection.begin();
        }
        begun.map(drop)
    }

    /// All lines that were written have come, rejected ones included.
    async fn end(&mut self, written: u64) -> Result<(), Problem> {
        self.store().await?;
        let seen = self.seen[0] + self.seen[1] + self.told.unread;
        if seen == written || self.told.stopped {
            return Ok(());
        }
        Err(self.truncated(&format!("{seen} lines came, and the end line says that {written} were written")))
    }

    /// A line that cannot be taken.
    async fn left(&mut self, number: u64, problem: Problem) -> Result<(), Problem> {
        // What stands before it is stored before anything is said of it.
        if self.asked.stop_on_error {
            self.store().await?;
            if self.told.stopped {
                return Ok(());
            }
            self.told.stopped = true;
        }
        self.told.unread += 1;
        self.told.refuse(number, problem);
        Ok(())
    }

    async fn gather(&mut self, number: u64, item: Item, bytes: usize) -> Result<(), Problem> {
        self.items.push(item);
        self.numbers.push(number);
        self.bytes += bytes;
        if self.items.len() >= PAGE_ITEMS || self.bytes >= PAGE_BYTES { self.store().await } else { Ok(()) }
    }

    /// Hands a page to the engine and counts what came of it.
    async fn store(&mut self) -> Result<(), Problem> {
        if self.items.is_empty() {
            return Ok(());
        }
        self.has_room()?;
        let (items, numbers) = (std::mem::take(&mut self.items), std::mem::take(&mut self.numbers));
        self.bytes = 0;
        let is_delivery: Vec<bool> = items.iter().map(|item| matches!(item, Item::Delivery(_))).collect();
        let Asked { dry_run, stop_on_error } = self.asked;
        let dry_run = dry_run.then(|| Arc::clone(&self.assumed));
        let page = Command::Import(Page { items, dry_run, stop_on_error });
        self.storing = numbers.len();
        let Done::Imported(done) = self.app.handle.carry_on(self.caller.orders(page)).await?? else {
            return Err(another_answer());
        };
        self.storing = 0;
        for ((number, is_delivery), done) in numbers.into_iter().zip(is_delivery).zip(done) {
            match done {
                Ok(imported) if is_delivery => self.told.deliveries.count(imported),
                Ok(imported) => self.told.destinations.count(imported),
                Err(left) => {
                    self.told.stopped |= stop_on_error;
                    self.told.refuse(number, left.into());
                }
            }
        }
        Ok(())
    }

    /// The totals go into the audit log, if something was to be stored.
    async fn note(&mut self, whole: bool) -> Result<(), Problem> {
        if !self.has_totals() {
            return Ok(());
        }
        self.noted = true;
        let note = self.totals(if whole { "" } else { "; it broke off" });
        self.app.handle.carry_on(self.caller.orders(note)).await??;
        Ok(())
    }

    fn has_totals(&self) -> bool {
        self.begun && !self.asked.dry_run && !self.noted
    }

    fn totals(&self, more: &str) -> Command {
        let Told { imported, updated, unchanged } = self.told.deliveries;
        let detail = format!(
            "deliveries imported {imported}, updated {updated}, unchanged {unchanged}; destinations imported {}; \
             lines rejected {}{more}",
            self.told.destinations.imported,
            self.told.refused()
        );
        Command::Note { action: Action::ImportEnd, object: None, detail }
    }

    /// 507: what an import brings is not to fill the disk for what is here.
    fn has_room(&self) -> Result<(), Problem> {
        let disk = self.app.handle.health().disk;
        if disk.low && !self.asked.dry_run {
            return Err(Problem::new(Code::DiskLow, self.kept("the disk is nearly full")));
        }
        Ok(())
    }

    fn truncated(&self, why: &str) -> Problem {
        Problem::new(Code::Truncated, self.kept(why))
    }

    fn kept(&self, why: &str) -> String {
        let Told { imported, updated, unchanged } = self.told.deliveries;
        format!(
            "{why}; what was read is kept ({imported} deliveries imported, {updated} updated, {unchanged} \
             unchanged, {} lines rejected), and a whole export can be sent again",
            self.told.refused()
        )
    }
}

/// Whoever leaves midway is not answered, and nothing waits for an answer any more: what was gathered is
/// handed over all the same, and what comes of it is not known here.
impl Drop for Work<'_> {
    fn drop(&mut self) {
        if !self.has_totals() {
            return;
        }
        if !self.items.is_empty() && self.has_room().is_ok() {
            let items = std::mem::take(&mut self.items);
            self.storing += items.len();
            let page = Page { items, dry_run: None, stop_on_error: self.asked.stop_on_error };
            self.app.handle.leave(self.caller.orders(Command::Import(page)));
        }
        let more = format!("; it broke off, with {} more lines on their way", self.storing);
        self.app.handle.leave(self.caller.orders(self.totals(&more)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_an_import_is_asked_for() {
        let check = |uri: &str, want: Option<(bool, bool)>| {
            let got = Asked::take(&uri.parse().unwrap());
            assert_eq!(got.ok().map(|asked| (asked.dry_run, asked.stop_on_error)), want, "{uri}");
        };
        check("/v1/import", Some((false, false)));
        check("/v1/import?dry_run=true", Some((true, false)));
        check("/v1/import?stop_on_error=true&dry_run=false", Some((false, true)));
        check("/v1/import?dry_run", None);
        check("/v1/import?dry_run=1", None);
        check("/v1/import?dryrun=true", None);
        check("/v1/import?dry_run=true&dry_run=true", None);
    }

    #[test]
    fn one_import_at_a_time() {
        let turn = Turn::default();
        let first = turn.take();
        assert!(first.is_ok());
        assert_eq!(turn.take().err().map(|problem| problem.code), Some(Code::ImportRunning));
        drop(first);
        assert!(turn.take().is_ok());
    }
}
