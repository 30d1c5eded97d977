//! Steps in order, cut off and done again; and the file of the first format, which is opened for
//! ever.

use redb::backends::InMemoryBackend;
use redb::{Builder, ReadableTable};

use super::*;
use crate::store::open::FORMAT;

const ROWS: TableDefinition<'_, u64, u64> = TableDefinition::new("rows");

/// A file of format 3 with a row.
fn old() -> Store {
    let database = Builder::new().create_with_backend(InMemoryBackend::new()).unwrap();
    let store = Store::new(database, "eu".parse().unwrap());
    store
        .convert(|txn| {
            txn.open_table(META)?.insert(Meta::Format as u8, &3_u32.to_le_bytes()[..])?;
            txn.open_table(ROWS)?.insert(1, 1)?;
            Ok(())
        })
        .unwrap();
    store
}

fn rows(store: &Store) -> Vec<(u64, u64)> {
    let mut all = Vec::new();
    store
        .look(|txn| {
            let table = txn.open_table(ROWS)?;
            for row in table.iter()? {
                let (key, value) = row?;
                all.push((key.value(), value.value()));
            }
            Ok(())
        })
        .unwrap();
    all
}

fn double(txn: &WriteTransaction) -> Result<(), StoreError> {
    let mut table = txn.open_table(ROWS)?;
    let was = table.get(1)?.map(|value| value.value()).unwrap_or_default();
    table.insert(1, was * 2)?;
    Ok(())
}

fn add_one(txn: &WriteTransaction) -> Result<(), StoreError> {
    let mut table = txn.open_table(ROWS)?;
    let was = table.get(1)?.map(|value| value.value()).unwrap_or_default();
    table.insert(1, was + 1)?;
    Ok(())
}

/// Cut off after it wrote.
fn cut_off(txn: &WriteTransaction) -> Result<(), StoreError> {
    add_one(txn)?;
    Err(StoreError::Closed)
}

fn step(from: u32, run: fn(&WriteTransaction) -> Result<(), StoreError>) -> Step {
    Step { from, name: "a step", run }
}

#[test]
fn steps_are_taken_in_order_and_once() {
    let store = old();
    let steps = [step(4, add_one), step(3, double)];
    for _ in 0..2 {
        run(&store, &steps, 5).unwrap();
        assert_eq!((format(&store).unwrap(), rows(&store)), (Some(5), vec![(1, 3)]));
    }
    run(&store, &[], 4).unwrap();
    assert_eq!(format(&store).unwrap(), Some(5), "a newer one is left alone");
}

#[test]
fn what_was_cut_off_is_done_again_from_there() {
    let store = old();
    let failed = run(&store, &[step(3, double), step(4, cut_off)], 5);
    assert!(failed.is_err());
    assert_eq!((format(&store).unwrap(), rows(&store)), (Some(4), vec![(1, 2)]));
    run(&store, &[step(3, double), step(4, add_one)], 5).unwrap();
    assert_eq!((format(&store).unwrap(), rows(&store)), (Some(5), vec![(1, 3)]));
}

#[test]
fn a_gap_is_refused_and_changes_nothing() {
    let store = old();
    let refused = run(&store, &[step(2, double), step(4, double)], 5).unwrap_err();
    assert_eq!((refused.exit_code(), format(&store).unwrap()), (78, Some(3)));
    assert!(refused.to_string().contains("format 3"), "{refused}");
    assert_eq!(rows(&store), [(1, 1)]);
}

/// Every format below ours is led to ours, one at a time.
#[test]
fn the_steps_there_are_have_no_gap() {
    let from: Vec<u32> = STEPS.iter().map(|step| step.from).collect();
    assert_eq!(from, (1..FORMAT).collect::<Vec<_>>());
    let names: std::collections::BTreeSet<_> = STEPS.iter().map(|step| step.name).collect();
    assert_eq!(names.len(), STEPS.len());
}

#[test]
fn the_copy_before_replaces_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.redb");
    fs::write(&path, "old").unwrap();
    let first = keep(&path, "1.2.3").unwrap();
    fs::write(&path, "newer").unwrap();
    let second = keep(&path, "1.2.3").unwrap();
    assert_eq!(first, folder.path().join("backup/before-1.2.3.redb"));
    assert_eq!((fs::read(first).unwrap(), fs::read(second).unwrap()), (b"old".to_vec(), b"newer".to_vec()));
    assert_eq!(fs::read_dir(folder.path().join("backup")).unwrap().count(), 2, "no half is left");
}
