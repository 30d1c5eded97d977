//! The audit log in the file: entries by time, written in the commit that makes the change.
//!
//! It stands in two tables, each with its own bound: what was done to single deliveries, which a bulk
//! job does a million times, and everything else. It is read as one.

use redb::{AccessGuard, ReadableTable, ReadableTableMetadata, StorageError, Table};

use super::list::{ASK_EVERY, Between, PAGE_RECORDS, Page, any};
use super::{Snapshot, StoreError, Writing, record};
use crate::model::{Action, AuditEntry, AuditKey};
use crate::time::Timestamp;

/// Entries that are kept of each kind, however young the oldest is: a few hundred megabytes at the most.
pub const MAX_AUDIT_ROWS: u64 = 1_000_000;

/// What a list of the log asks for; empty and None match everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    pub by: Vec<String>,
    pub actions: Vec<Action>,
    pub objects: Vec<String>,
    pub at: Between,
}

impl AuditFilter {
    fn matches(&self, it: &AuditEntry) -> bool {
        any(&self.by, Some(&it.by))
            && any(&self.actions, Some(&it.action))
            && any(&self.objects, it.object.as_ref())
            && self.at.holds(Some(it.at))
    }

    /// Where the newest entry that may match stands, at the latest.
    fn newest(&self) -> u64 {
        self.at.before.map_or(u64::MAX, |before| before.0)
    }
}

/// An entry as it stands in a table: time and number, and the rest.
type Row<'a> = Result<(AccessGuard<'a, (u64, u64)>, AccessGuard<'a, &'static [u8]>), StorageError>;

/// The rows of two tables, each the newest first, as those of one.
fn merged<'a>(
    one: impl Iterator<Item = Row<'a>>,
    two: impl Iterator<Item = Row<'a>>,
) -> impl Iterator<Item = Row<'a>> {
    let (mut one, mut two) = (one.peekable(), two.peekable());
    let key = |row: Option<&Row<'a>>| match row {
        Some(Ok((key, _))) => Some(key.value()),
        // It is told at once.
        Some(Err(_)) => Some((u64::MAX, u64::MAX)),
        None => None,
    };
    std::iter::from_fn(move || if key(one.peek()) < key(two.peek()) { two.next() } else { one.next() })
}

impl Writing<'_> {
    /// Appends an entry; beyond `most` of its kind the oldest goes.
    pub(crate) fn put_audit(&mut self, n: u64, it: &AuditEntry, most: u64) -> Result<(), StoreError> {
        self.wrote = true;
        let key = AuditKey { at: it.at, n };
        let tables = &mut self.tables;
        let table =
            if it.action.is_of_a_delivery() { &mut tables.audit_deliveries } else { &mut tables.audit };
        table.insert((key.at.0, n), &*record::encode_audit(key, it))?;
        if table.len()? > most {
            drop(table.pop_first()?);
        }
        Ok(())
    }

    /// Removes entries made before `until`, at most so many; when the oldest of the rest was made.
    pub(crate) fn forget_audit(
        &mut self,
        until: Timestamp,
        most: usize,
    ) -> Result<Option<Timestamp>, StoreError> {
        let (mut left, mut oldest) = (most, None);
        for table in [&mut self.tables.audit, &mut self.tables.audit_deliveries] {
            let before = left;
            let rest = forget(table, until, &mut left)?;
            self.wrote |= left < before;
            oldest = oldest.into_iter().chain(rest).min();
        }
        Ok(oldest)
    }
}

/// Removes what is older from one of the tables while any are `left` to be removed.
fn forget(
    table: &mut Table<'_, (u64, u64), &'static [u8]>,
    until: Timestamp,
    left: &mut usize,
) -> Result<Option<Timestamp>, StoreError> {
    loop {
        let first = table.first()?.map(|(key, _)| key.value());
        let Some(key) = first.filter(|(at, _)| *at < until.0 && *left > 0) else {
            return Ok(first.map(|(at, _)| Timestamp(at)));
        };
        *left -= 1;
        table.remove(key)?;
    }
}

impl Snapshot {
    /// One page of the log, the newest entry first. `stop` is asked now and then; true ends the page
    /// early.
    ///
    /// # Errors
    /// [`StoreError`] when the file cannot be read.
    pub fn audit(
        &self,
        filter: &AuditFilter,
        from: Option<AuditKey>,
        limit: usize,
        stop: &dyn Fn() -> bool,
    ) -> Result<Page<AuditEntry, AuditKey>, StoreError> {
        let end = from.map_or((filter.newest(), 0), |from| (from.at.0, from.n).min((filter.newest(), 0)));
        let begin = (filter.at.after.map_or(0, |after| after.0), 0);
        let mut page = Page { items: Vec::new(), next: None };
        if begin >= end {
            return Ok(page);
        }
        let (others, own) =
            (self.tables.audit.range(begin..end)?, self.tables.audit_deliveries.range(begin..end)?);
        let mut rows = merged(others.rev(), own.rev());
        for looked_at in 1.. {
            let Some(row) = rows.next() else { break };
            let (key, value) = row?;
            let (at, n) = key.value();
            let key = AuditKey { at: Timestamp(at), n };
            let read = record::decode_audit(key, value.value()).ok();
            page.items.extend(read.filter(|it| filter.matches(it)));
            let over = looked_at % ASK_EVERY == 0 && stop();
            if page.items.len() == limit || looked_at == PAGE_RECORDS || over {
                page.next = rows.next().transpose()?.map(|_| key);
                break;
            }
        }
        Ok(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Commit, Opening, Store, open};
    use redb::backends::InMemoryBackend;

    fn store() -> Store {
        let region = "local".parse().unwrap();
        let opening = Opening { region: &region, now: Timestamp(1), uuid: [7; 16] };
        open::open_backend(InMemoryBackend::new(), &opening).unwrap().store
    }

    fn entry(at: u64, by: &str, object: Option<&str>) -> AuditEntry {
        let object = object.map(str::to_owned);
        let action = if object.is_some() { Action::DestinationPause } else { Action::Drain };
        AuditEntry { at: Timestamp(at), by: by.to_owned(), action, object, detail: format!("d{at}") }
    }

    fn put(store: &Store, all: &[AuditEntry], most: u64) {
        let write = |file: &mut Writing<'_>| {
            let mut numbered = (1..).zip(all);
            numbered.try_for_each(|(n, it)| file.put_audit(n, it, most))
        };
        store.write(Commit::Plain, write).unwrap();
    }

    fn times(page: &Page<AuditEntry, AuditKey>) -> Vec<u64> {
        page.items.iter().map(|it| it.at.0).collect()
    }

    #[test]
    fn a_page_is_what_was_asked_for_the_newest_first() {
        let store = store();
        let all = [
            entry(10, "a", Some("shop")),
            entry(20, "b", None),
            entry(20, "a", None),
            entry(30, "a", Some("x")),
        ];
        put(&store, &all, 9);
        let check = |filter: AuditFilter, want: &[u64]| {
            let file = store.reader().snapshot().unwrap();
            let whole = file.audit(&filter, None, 9, &|| false).unwrap();
            assert_eq!((times(&whole), whole.next), (want.to_vec(), None), "{filter:?}");
            // The same, one by one.
            let (mut from, mut got) = (None, Vec::new());
            loop {
                let page = file.audit(&filter, from, 1, &|| false).unwrap();
                got.extend(times(&page));
                from = page.next;
                if from.is_none() {
                    break;
                }
            }
            assert_eq!(got, want, "{filter:?}");
        };
        let any = AuditFilter::default;
        let at = |after, before| AuditFilter {
            at: Between { after: Some(Timestamp(after)), before: Some(Timestamp(before)) },
            ..any()
        };
        check(any(), &[30, 20, 20, 10]);
        check(AuditFilter { by: vec!["b".into()], ..any() }, &[20]);
        check(AuditFilter { actions: vec![Action::Drain], ..any() }, &[20, 20]);
        check(AuditFilter { objects: vec!["shop".into(), "x".into()], ..any() }, &[30, 10]);
        check(at(10, 30), &[20, 20]);
        check(at(30, 10), &[]);
        check(at(9, 11), &[10]);
    }

    #[test]
    fn there_are_never_more_than_there_may_be_and_the_old_ones_go() {
        let store = store();
        put(&store, &(1..=5).map(|at| entry(at * 10, "a", None)).collect::<Vec<_>>(), 4);
        let left = |store: &Store| {
            let file = store.reader().snapshot().unwrap();
            times(&file.audit(&AuditFilter::default(), None, 9, &|| false).unwrap())
        };
        assert_eq!(left(&store), [50, 40, 30, 20]);
        let forget = |until, most| {
            store.write(Commit::Plain, |file| file.forget_audit(Timestamp(until), most)).unwrap()
        };
        assert_eq!(forget(20, 9), Some(Timestamp(20)), "nothing is that old");
        assert_eq!(forget(100, 1), Some(Timestamp(30)), "one a page");
        assert_eq!(forget(41, 9), Some(Timestamp(50)));
        assert_eq!(left(&store), [50]);
        assert_eq!(forget(51, 9), None);
    }

    /// Of the third, the sixth and so on the object is a delivery.
    fn mixed(n: u64) -> AuditEntry {
        let plain = entry(n * 10, "a", Some("x"));
        if n.is_multiple_of(3) { AuditEntry { action: Action::DeliveryRetry, ..plain } } else { plain }
    }

    #[test]
    fn what_is_done_to_deliveries_pushes_nothing_else_out() {
        let store = store();
        put(&store, &(1..=12).map(mixed).collect::<Vec<_>>(), 3);
        let left = |from: Option<AuditKey>, limit| {
            let file = store.reader().snapshot().unwrap();
            let page = file.audit(&AuditFilter::default(), from, limit, &|| false).unwrap();
            (times(&page), page.next)
        };
        // The newest three of each kind, in one order.
        let want = [120, 110, 100, 90, 80, 60];
        assert_eq!(left(None, 9), (want.to_vec(), None));
        let (mut from, mut got) = (None, Vec::new());
        for _ in 0..6 {
            let (page, next) = left(from, 1);
            got.extend(page);
            from = next;
        }
        assert_eq!((got, from), (want.to_vec(), None));
        let forget = |until, most| {
            store.write(Commit::Plain, |file| file.forget_audit(Timestamp(until), most)).unwrap()
        };
        assert_eq!(forget(95, 1), Some(Timestamp(60)), "the other kind's is the oldest");
        assert_eq!(forget(95, 9), Some(Timestamp(100)));
        assert_eq!(left(None, 9), (vec![120, 110, 100], None));
    }
}
