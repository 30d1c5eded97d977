//! The opening rules on real files: what is taken as it is, what is looked at first, what is
//! refused. A refusal says why, ends with its code, and changes not a byte.
#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use redb::{Database, TableDefinition};
use tempfile::TempDir;

use crate::TestServer;
use crate::api::Api;
use crate::server::{data, serve};

const LOG: [(&str, &str); 1] = [("DUEHOOK_LOG__LEVEL", "info")];
const REGION_EU: (&str, &str) = ("DUEHOOK_REGION", "eu");
const CHECKED: &str = "checking the whole file first";

fn folder() -> Arc<TempDir> {
    Arc::new(TempDir::new().unwrap())
}

/// Starts a server that is to refuse; its exit code and what it said.
fn refused(folder: &Path, variables: &[(&str, &str)]) -> (i32, String) {
    let mut child = serve(folder, variables).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    if !first.is_empty() {
        child.kill().unwrap();
    }
    let mut says = String::new();
    child.stderr.take().unwrap().read_to_string(&mut says).unwrap();
    let code = child.wait().unwrap().code();
    assert_eq!(first, "", "it serves; its log: {says}");
    (code.unwrap_or_else(|| panic!("killed by a signal: {says}")), says)
}

/// Checks that a start ends with `code`, says `part`, and leaves the file as it was.
#[track_caller]
fn check(folder: &Path, variables: &[(&str, &str)], code: i32, part: &str) {
    let before = fs::read(data(folder)).ok();
    let (got, says) = refused(folder, variables);
    assert_eq!(got, code, "{says}");
    assert!(says.contains(part), "{part:?} is not in: {says}");
    assert!(fs::read(data(folder)).ok() == before, "the file was changed: {says}");
}

/// Starts a server that is to serve, and says whether it looked at the whole file first.
fn started(folder: &Arc<TempDir>, variables: &[(&str, &str)]) -> (TestServer, bool) {
    let log = folder.path().join("log");
    let variables: Vec<_> = LOG.iter().chain(variables).copied().collect();
    let to = Stdio::from(File::create(&log).unwrap());
    let start = || TestServer::logging_to(Arc::clone(folder), &variables, to);
    let server = std::panic::catch_unwind(std::panic::AssertUnwindSafe(start));
    let server = server.unwrap_or_else(|_| panic!("{}", fs::read_to_string(&log).unwrap()));
    let checked = fs::read_to_string(&log).unwrap().contains(CHECKED);
    (server, checked)
}

/// A server on a new file, with 300 deliveries that wait.
async fn filled(variables: &[(&str, &str)]) -> TestServer {
    let (server, _) = started(&folder(), variables);
    let api = Api::of(&server);
    api.destination("kept", "http://127.0.0.1:9/", "").await;
    api.admin("POST", "/v1/destinations/kept/pause", "").await.expect(200);
    let body = "x".repeat(3_000);
    let line =
        |n: u32| format!(r#"{{"destination":"kept","idempotency_key":"k{n}","payload":"{body}"}}"#) + "\n";
    api.batch((0..300).map(line).collect()).await.unwrap().expect(200);
    server
}

/// A file with 300 deliveries that was closed as it should be.
async fn closed(variables: &[(&str, &str)]) -> Arc<TempDir> {
    let (code, folder) = filled(variables).await.stop();
    assert_eq!(code, Some(0));
    folder
}

async fn holds(server: &TestServer, count: usize) {
    assert_eq!(Api::of(server).list("").await.len(), count);
}

#[test]
fn what_is_no_file_of_ours_is_refused() {
    let check = |make: fn(&Path), part: &str| {
        let folder = folder();
        make(&data(folder.path()));
        check(folder.path(), &[], 78, part);
    };
    check(|path| private(path, b""), "is empty");
    check(|path| private(path, b"re"), "is not a duehook file");
    check(|path| private(path, &[b'x'; 8_192]), "is not a duehook file");
    check(|path| private(path, b"redb but nothing else"), "nothing was changed");
    check(|path| fs::create_dir(path).unwrap(), "is not a regular file");
    check(|path| symlink("nowhere", path).unwrap(), "is a link: name the file that it leads to");
    check(link_to_another, "is a link: name the file that it leads to");
    check(another_program, "is not a duehook file");
}

/// A number that a class has had is never another's: the ninth class is refused as a setting,
/// not as a failure of the store, and the file serves on without it.
#[tokio::test]
async fn the_ninth_class_of_a_file_is_refused() {
    let names = ["A", "B", "C", "D", "E"].map(|name| format!("DUEHOOK_CLASS__{name}__WEIGHT"));
    let five: Vec<_> = names.iter().map(|name| (name.as_str(), "2")).collect();
    let folder = closed(&five).await;
    let (code, says) = refused(folder.path(), &[("DUEHOOK_CLASS__NEW__WEIGHT", "1")]);
    assert_eq!(code, 78, "{says}");
    assert!(says.contains("class new cannot be added") && !says.contains("the store failed"), "{says}");
    let (server, _) = started(&folder, &five[1..]);
    holds(&server, 300).await;
}

/// A file that only its owner can read.
fn private(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
}

fn link_to_another(path: &Path) {
    let target = path.with_extension("target");
    private(&target, &[b'x'; 8_192]);
    symlink(target, path).unwrap();
}

/// A whole redb database of something else.
fn another_program(path: &Path) {
    let table: TableDefinition<u8, u8> = TableDefinition::new("theirs");
    let database = Database::create(path).unwrap();
    let txn = database.begin_write().unwrap();
    txn.open_table(table).unwrap().insert(1, 1).unwrap();
    txn.commit().unwrap();
    drop(database);
    fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
}

#[tokio::test]
async fn t68_a_file_that_others_can_read_is_refused() {
    let folder = closed(&[]).await;
    for mode in [0o644, 0o640, 0o604, 0o660] {
        fs::set_permissions(data(folder.path()), Permissions::from_mode(mode)).unwrap();
        let path = data(folder.path()).display().to_string();
        let says = format!("{path} is open to others (its mode is {mode:04o}): chmod 600 {path}");
        check(folder.path(), &[], 78, &says);
    }
    fs::set_permissions(data(folder.path()), Permissions::from_mode(0o600)).unwrap();
    holds(&started(&folder, &[]).0, 300).await;
}

/// T17: another region's file is refused untouched, whether it was closed or its server killed.
#[tokio::test]
async fn t17_another_region_is_refused_and_local_may_be_renamed() {
    let folder = closed(&[]).await;
    let (server, checked) = started(&folder, &[REGION_EU]);
    assert!(checked, "a rename looks at the file first");
    holds(&server, 300).await;
    let folder = server.stop().1;
    check(folder.path(), &[], 78, "belongs to region eu, this server to local");
    check(folder.path(), &[("DUEHOOK_REGION", "us")], 78, "belongs to region eu, this server to us");
    let (server, checked) = started(&folder, &[REGION_EU]);
    assert!(!checked);
    let folder = server.kill();
    check(folder.path(), &[("DUEHOOK_REGION", "us")], 78, "belongs to region eu, this server to us");
    holds(&started(&folder, &[REGION_EU]).0, 300).await;
}

/// T17: a file of a newer program is refused untouched.
#[tokio::test]
async fn t17_a_newer_format_is_refused() {
    let folder = closed(&[]).await;
    let meta: TableDefinition<u8, &[u8]> = TableDefinition::new("meta");
    let database = Database::open(data(folder.path())).unwrap();
    let txn = database.begin_write().unwrap();
    let format = 0;
    let was = txn
        .open_table(meta)
        .unwrap()
        .insert(format, &7_u32.to_le_bytes()[..])
        .unwrap()
        .map(|it| it.value().to_vec());
    assert_eq!(was, Some(1_u32.to_le_bytes().to_vec()), "the test knows where the format is");
    txn.commit().unwrap();
    drop(database);
    check(folder.path(), &[], 78, "has format 7, this program knows 1");
}

/// T15: a second process on the file ends at once; the first one does not notice.
#[tokio::test]
async fn t15_a_second_process_is_told_that_the_file_is_in_use() {
    let server = filled(&[]).await;
    let folder = Arc::new(TempDir::new().unwrap());
    fs::hard_link(server.data(), data(folder.path())).unwrap();
    for folder in [server.data().parent().unwrap(), folder.path()] {
        let (code, says) = refused(folder, &[]);
        assert_eq!(code, 75, "{says}");
        assert!(says.contains("is in use by another process"), "{says}");
    }
    holds(&server, 300).await;
    let (code, folder) = server.stop();
    assert_eq!(code, Some(0));
    holds(&started(&folder, &[]).0, 300).await;
}

/// T24 and its like: what we closed, or crashed with, is opened as it is.
#[tokio::test]
async fn t24_our_own_file_is_opened_as_it_is() {
    let folder = closed(&[]).await;
    let (server, checked) = started(&folder, &[]);
    assert!(!checked, "closed by us");
    holds(&server, 300).await;
    let (server, checked) = started(&server.kill(), &[]);
    assert!(!checked, "we were killed with it");
    holds(&server, 300).await;
}

/// Losing the note costs one check and no more.
#[tokio::test]
async fn without_the_note_the_file_is_looked_at() {
    let server = filled(&[]).await;
    let note = server.data().with_extension("redb.owner");
    for end in [TestServer::kill, |server: TestServer| server.stop().1] {
        let folder = end(started(&closed(&[]).await, &[]).0);
        fs::remove_file(folder.path().join(note.file_name().unwrap())).unwrap();
        let (server, checked) = started(&folder, &[]);
        assert!(checked);
        holds(&server, 300).await;
        let (server, checked) = started(&server.stop().1, &[]);
        assert!(!checked, "the note is back");
        holds(&server, 300).await;
    }
}

/// `cp` over the file keeps its inode, and yet it is another file.
#[tokio::test]
async fn a_copy_over_the_file_is_looked_at() {
    let (ours, other) = (started(&folder(), &[]).0.stop().1, closed(&[]).await);
    fs::copy(data(other.path()), data(ours.path())).unwrap();
    let (server, checked) = started(&ours, &[]);
    assert!(checked);
    holds(&server, 300).await;
}

/// T13, T14, T16: damage in a file that is not as we left it is found before anything is changed.
#[tokio::test]
async fn t16_a_damaged_copy_is_refused_and_says_what_to_do() {
    let whole = fs::read(data(closed(&[]).await.path())).unwrap();
    let check = |what: &str, damage: &dyn Fn(&mut Vec<u8>)| {
        let folder = folder();
        let mut bytes = whole.clone();
        damage(&mut bytes);
        private(&data(folder.path()), &bytes);
        println!("{what}");
        check(folder.path(), &[], 78, "restore the newest backup");
    };
    let half = whole.len() / 2;
    check("a zeroed tail", &|bytes| bytes[half..].fill(0));
    check("a zeroed page in the middle of the records", &|bytes| zero_a_page_of(bytes, b"xxxxxxxx"));
    check("a bit in each page", &|bytes| {
        bytes.iter_mut().skip(8_192 + 100).step_by(4_096).for_each(|b| *b ^= 1)
    });
    check("a bit of a body", &|bytes| {
        let at = find(bytes, b"xxxxxxxx") + 4;
        bytes[at] ^= 1;
    });
    check("the second half is missing", &|bytes| bytes.truncate(half));
    check("a header of noise", &|bytes| bytes[64..512].fill(0xA5));
    check("what stands after its end is not of it", &|bytes| bytes.extend([0xA5; 10_000]));
    check("one page too few", &|bytes| bytes.truncate(bytes.len() - 4_096));
}

fn find(bytes: &[u8], what: &[u8]) -> usize {
    bytes.windows(what.len()).position(|part| part == what).unwrap()
}

fn zero_a_page_of(bytes: &mut [u8], what: &[u8]) {
    let page = find(bytes, what) / 4_096 * 4_096;
    bytes[page..page + 4_096].fill(0);
}

/// T16: damage done to the file in its place, by something that keeps its inode: of one that was
/// closed, and of one that its server died with.
#[tokio::test]
async fn t16_a_file_that_was_written_over_is_refused() {
    let check = async |damage: &dyn Fn(&mut Vec<u8>)| {
        for end in [TestServer::kill, |server: TestServer| server.stop().1] {
            let folder = end(started(&closed(&[]).await, &[]).0);
            let path = data(folder.path());
            let mut bytes = fs::read(&path).unwrap();
            damage(&mut bytes);
            fs::write(&path, bytes).unwrap();
            check(folder.path(), &[], 78, "restore the newest backup");
        }
    };
    check(&|bytes| {
        let half = bytes.len() / 2;
        bytes[half..].fill(0);
    })
    .await;
    check(&|bytes| bytes.truncate(bytes.len() / 2)).await;
}

/// The file of the first format, as its first release wrote it, is served by every later one; on
/// this host, which is another, it sends nothing until it is told to.
#[tokio::test]
async fn the_first_formats_file_is_served() {
    let folder = folder();
    fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/format-1.redb"), data(folder.path()))
        .unwrap();
    fs::set_permissions(data(folder.path()), Permissions::from_mode(0o600)).unwrap();
    let (server, checked) = started(&folder, &[REGION_EU]);
    assert!(checked);
    holds(&server, 15).await;
    let api = Api::of(&server);
    let stats = api.admin("GET", "/v1/stats", "").await.expect(200);
    assert_eq!((&stats["claims"], &stats["quarantined"]), (&"stopped".into(), &2.into()), "{stats}");
    let outcomes =
        ["delivered", "rejected", "exhausted", "expired", "cancelled", "payload_gone", "destination_gone"];
    for outcome in outcomes {
        assert_eq!(api.list(&format!("outcome={outcome}")).await.len(), 1, "{outcome}");
    }
    assert_eq!(api.list("outcome=quarantined").await.len(), 2, "one of them cannot be read");
    assert_eq!(api.list("state=leased").await.len(), 0, "who had it is gone");
    let held = api.admin("GET", "/v1/destinations/held", "").await.expect(200);
    assert_eq!((&held["state"], &held["concurrency"]["max"]), (&"active".into(), &8.into()), "{held}");
    let (code, folder) = server.stop();
    assert_eq!(code, Some(0));
    assert!(!started(&folder, &[REGION_EU]).1, "it is ours now");
}

/// A look at a large file says how far it has come, in bytes, and does not say it too often.
#[tokio::test]
async fn a_long_look_says_how_far_it_has_come() {
    let server = filled(&[]).await;
    let body = "y".repeat(240_000);
    let line = format!("{{\"destination\":\"kept\",\"payload\":\"{body}\"}}\n");
    for _ in 0..4 {
        Api::of(&server).batch(line.repeat(30)).await.unwrap().expect(200);
    }
    let folder = server.stop().1;
    fs::remove_file(data(folder.path()).with_extension("redb.owner")).unwrap();
    let length = fs::metadata(data(folder.path())).unwrap().len();
    drop(started(&folder, &[]));
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    for pass in ["page by page", "record by record"] {
        let lines: Vec<_> = log.lines().filter(|line| line.contains(pass)).collect();
        assert!((1..=64).contains(&lines.len()), "{pass}: {log}");
        assert!(lines.iter().all(|line| line.contains(&format!("\"of\":{length}"))), "{lines:?}");
    }
}
