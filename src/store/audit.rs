//! The audit log in the file: entries by time, written in the commit that makes the change.

use redb::{ReadableTable, ReadableTableMetadata};

use super::list::{ASK_EVERY, Between, PAGE_RECORDS, Page, any};
use super::{Snapshot, StoreError, Writing, record};
use crate::model::{Action, AuditEntry, AuditKey};
use crate::time::Timestamp;

/// Entries that are kept, however young the oldest is: a few hundred megabytes at the most.
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

impl Writing<'_> {
    /// Appends an entry; beyond `most` the oldest goes.
    pub(crate) fn put_audit(&mut self, n: u64, it: &AuditEntry, most: u64) -> Result<(), StoreError> {
        self.wrote = true;
        let key = AuditKey { at: it.at, n };
        self.tables.audit.insert((key.at.0, n), &*record::encode_audit(key, it))?;
        if self.tables.audit.len()? > most {
            drop(self.tables.audit.pop_first()?);
        }
        Ok(())
    }

    /// Removes entries made before `until`, at most so many; when the oldest of the rest was made.
    pub(crate) fn forget_audit(
        &mut self,
        until: Timestamp,
        most: usize,
    ) -> Result<Option<Timestamp>, StoreError> {
        for _ in 0..most {
            let first = self.tables.audit.first()?.map(|(key, _)| key.value());
            let Some((at, n)) = first.filter(|(at, _)| *at < until.0) else {
                return Ok(first.map(|(at, _)| Timestamp(at)));
            };
            self.wrote = true;
            self.tables.audit.remove((at, n))?;
        }
        Ok(self.tables.audit.first()?.map(|(key, _)| Timestamp(key.value().0)))
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
        let mut rows = self.tables.audit.range(begin..end)?.rev();
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
}
