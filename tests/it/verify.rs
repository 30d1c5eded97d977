//! `verify`, `restore` and `compact`: files that no server has open.
#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use tempfile::TempDir;

use crate::TestServer;
use crate::api::Api;
use crate::cli::{Run, duehook};
use crate::server::data;

/// Runs a command on a file, which it must leave as it is.
#[track_caller]
fn on_file(command: &str, file: &Path) -> Run {
    let before = fs::read(file).ok();
    let run = duehook(&["--json", command, file.to_str().unwrap()], &[], b"");
    assert!(fs::read(file).ok() == before, "{command} changed the file: {} {}", run.stdout, run.stderr);
    run
}

pub(crate) fn verify(file: &Path) -> Run {
    on_file("verify", file)
}

pub(crate) fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| panic!("not JSON: {text}"))
}

/// Deliveries that wait at a paused destination, some with keys.
pub(crate) async fn fill(api: &Api, count: u32) {
    let body = "x".repeat(3_000);
    let line =
        |n: u32| format!(r#"{{"destination":"kept","idempotency_key":"k{n}","payload":"{body}"}}"#) + "\n";
    api.batch((0..count).map(line).collect()).await.unwrap().expect(200);
}

pub(crate) async fn filled(variables: &[(&str, &str)]) -> TestServer {
    let server = TestServer::start(Arc::new(TempDir::new().unwrap()), variables);
    let api = Api::of(&server);
    api.destination("kept", "http://127.0.0.1:9/", "").await;
    api.admin("POST", "/v1/destinations/kept/pause", "").await.expect(200);
    fill(&api, 100).await;
    server
}

async fn closed() -> Arc<TempDir> {
    filled(&[]).await.stop().1
}

#[tokio::test]
async fn a_whole_file_is_counted_and_not_changed() {
    let folder = closed().await;
    let run = verify(&data(folder.path()));
    assert_eq!(run.code, 0, "{}", run.stderr);
    let told = json(&run.stdout);
    let figures =
        ["deliveries", "waiting", "terminal", "quarantined", "destinations", "payload_bytes", "wrong"];
    let got: Vec<u64> = figures.iter().map(|name| told[name].as_u64().unwrap()).collect();
    assert_eq!(got, [100, 100, 0, 0, 1, 100 * 3_002, 0], "{told}");
    assert_eq!(
        (&told["whole"], &told["region"], &told["backup_at"]),
        (&true.into(), &"local".into(), &Value::Null)
    );
}

#[tokio::test]
async fn a_file_that_is_in_use_is_left_alone() {
    let server = filled(&[]).await;
    for command in ["verify", "compact"] {
        let run = duehook(&["--json", command, server.data().to_str().unwrap()], &[], b"");
        assert_eq!((run.code, &json(&run.stderr)["code"]), (75, &"in_use".into()), "{command}");
    }
    let other = closed().await;
    let to = server.data();
    let (from, to) = (data(other.path()), to.to_str().unwrap());
    let run = duehook(&["--yes", "restore", from.to_str().unwrap(), "--data", to], &[], b"");
    assert_eq!(run.code, 75, "{}", run.stderr);
    assert_eq!(Api::of(&server).list("").await.len(), 100);
}

#[test]
fn what_is_no_data_file_is_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("f");
    let check = |bytes: Option<&[u8]>, code: i32, part: &str| {
        drop(fs::remove_file(&path));
        if let Some(bytes) = bytes {
            fs::write(&path, bytes).unwrap();
        }
        for command in ["verify", "compact"] {
            let run = on_file(command, &path);
            assert_eq!(run.code, code, "{}", run.stderr);
            assert!(run.stderr.contains(part), "{part:?} is not in: {}", run.stderr);
        }
    };
    check(None, 3, "No such file");
    check(Some(b""), 78, "is empty");
    check(Some(b"hello"), 78, "is not a duehook file");
    check(Some(b"redb and no more"), 78, "nothing was changed");
    assert_eq!(verify(folder.path()).code, 78);
}

/// Bit flips in a closed file (a few of the 600): each is refused, or in a place that nothing reads.
#[tokio::test]
async fn a_flipped_bit_is_refused_or_harmless() {
    let folder = closed().await;
    let whole = fs::read(data(folder.path())).unwrap();
    let path = folder.path().join("flipped.redb");
    let mut refused = 0;
    let (mut seed, rounds) = (0x9E37_79B9_7F4A_7C15_u64, rounds());
    for _ in 0..rounds {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut bytes = whole.clone();
        let at = usize::try_from(seed >> 16).unwrap() % bytes.len();
        bytes[at] ^= 1 << (seed % 8);
        private(&path, &bytes);
        let run = verify(&path);
        match run.code {
            0 => assert_eq!(json(&run.stdout)["deliveries"], 100, "bit {at}"),
            1 | 78 => refused += 1,
            code => panic!("byte {at}: exit {code}: {}", run.stderr),
        }
    }
    println!("{refused} of {rounds} refused");
    assert!(refused > rounds / 2, "{refused} of {rounds}");
}

/// How many flips: all 600 of the promise when asked.
fn rounds() -> u32 {
    std::env::var_os("TEST_FLIPS").and_then(|text| text.to_str()?.parse().ok()).unwrap_or(30)
}

fn private(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
}

/// Every kind of row that can be damaged or gone is named by the check.
#[tokio::test]
async fn what_is_wrong_is_said() {
    let folder = closed().await;
    let path = folder.path().join("wrong.redb");
    let check = |part: &str, damage: &dyn Fn(&redb::WriteTransaction)| {
        fs::copy(data(folder.path()), &path).unwrap();
        let database = redb::Database::open(&path).unwrap();
        let txn = database.begin_write().unwrap();
        damage(&txn);
        txn.commit().unwrap();
        drop(database);
        let run = verify(&path);
        let told = json(&run.stdout);
        let usable = part == "the record of" || part == "missing or damaged" || part == "the due row of";
        assert_eq!((run.code, &told["whole"]), (if usable { 1 } else { 78 }, &false.into()), "{part}");
        assert_eq!((told["wrong"] == 0, !usable || told["damaged"] == 1), (usable, true), "{part}: {told}");
        let problems = told["problems"].to_string();
        assert!(problems.contains(part), "{part:?} is not in: {problems}");
    };
    check("the record of", &|txn| flip::<u128>(txn, "deliveries", true));
    check("missing or damaged", &|txn| flip::<(u128, u16)>(txn, "payloads", true));
    check("destination 0 cannot be read", &|txn| flip::<u32>(txn, "destinations", true));
    check("has due row false and lease false", &|txn| {
        let name: redb::TableDefinition<(u32, u8, u64, u128), (u32, u32)> = redb::TableDefinition::new("due");
        txn.open_table(name).unwrap().pop_first().unwrap();
    });
    check("the due row of", &|txn| {
        let name: redb::TableDefinition<(u32, u8, u64, u128), (u32, u32)> = redb::TableDefinition::new("due");
        let mut table = txn.open_table(name).unwrap();
        let row = table.pop_first().unwrap().map(|row| (row.0.value(), row.1.value())).unwrap();
        table.insert(row.0, (row.1.0 + 1, row.1.1)).unwrap();
    });
    // One that cannot be read does not hide what is missing of the others.
    check("finished has 2 rows where the records call for 0", &|txn| {
        flip::<u128>(txn, "deliveries", true);
        let name: redb::TableDefinition<(u64, u128), u64> = redb::TableDefinition::new("finished");
        let mut table = txn.open_table(name).unwrap();
        table.insert((7, 7), 7).unwrap();
        table.insert((7, 8), 7).unwrap();
    });
    check("waits without a row in ends", &|txn| {
        let name: redb::TableDefinition<(u64, u128), ()> = redb::TableDefinition::new("ends");
        txn.open_table(name).unwrap().pop_first().unwrap();
    });
    check("does not lead to it", &|txn| {
        let name: redb::TableDefinition<&[u8], u128> = redb::TableDefinition::new("keys");
        txn.open_table(name).unwrap().pop_first().unwrap();
    });
    check("does not lead to its destination", &|txn| {
        let name: redb::TableDefinition<&[u8], u32> = redb::TableDefinition::new("destination_names");
        txn.open_table(name).unwrap().pop_first().unwrap();
    });
    check("leases has 1 rows where the records call for 0", &|txn| {
        type Row = (u32, u64, u64, u64, u32, u8, u64, u8);
        let name: redb::TableDefinition<u128, Row> = redb::TableDefinition::new("leases");
        txn.open_table(name).unwrap().insert(7, (1, 1, 1, 1, 1, 1, 1, 1)).unwrap();
    });
}

/// Flips a bit of the first value of a table, or of the last.
pub(crate) fn flip<K: redb::Key + 'static>(txn: &redb::WriteTransaction, name: &str, first: bool) {
    let name: redb::TableDefinition<K, &[u8]> = redb::TableDefinition::new(name);
    let mut table = txn.open_table(name).unwrap();
    let row = if first { table.pop_first() } else { table.pop_last() };
    let (key, value) = row.unwrap().unwrap();
    let mut bytes = value.value().to_vec();
    let half = bytes.len() / 2;
    bytes[half] ^= 1;
    let bare = K::as_bytes(&key.value()).as_ref().to_vec();
    drop((key, value));
    table.insert(K::from_bytes(&bare), &*bytes).unwrap();
}
