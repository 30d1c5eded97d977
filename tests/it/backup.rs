//! Backups of a running server: whole at any time, refused when damaged, and nothing is sent
//! from a restored one until somebody says so.
#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use duehook::drill::receiver::{Answer, Receiver, Record, Script};
use serde_json::{Value, json};
use tempfile::{NamedTempFile, TempDir};
use tokio::task::JoinSet;

use crate::TestServer;
use crate::api::{Api, until};
use crate::cli::duehook;
use crate::server::{data, serve};
use crate::verify::{fill, filled, json as read, verify};

fn folder() -> Arc<TempDir> {
    Arc::new(TempDir::new().unwrap())
}

fn order(path: &Path) -> String {
    json!({ "path": path }).to_string()
}

/// What `verify` says of a backup that must be whole.
#[track_caller]
fn whole(path: &Path) -> Value {
    verified(path, 0)
}

/// What `verify` says of a backup, and ends with.
fn verified(path: &Path, code: i32) -> Value {
    let run = verify(path);
    assert_eq!(run.code, code, "{} {}", run.stdout, run.stderr);
    let told = read(&run.stdout);
    assert_ne!(told["backup_at"], Value::Null, "it says what it is");
    told
}

#[track_caller]
fn restore(backup: &Path, data: &Path, more: &[&str]) -> (i32, String) {
    let arguments = [&["restore", backup.to_str().unwrap(), "--data", data.to_str().unwrap()], more].concat();
    let run = duehook(&arguments, &[], b"");
    (run.code, run.stdout + &run.stderr)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_is_a_whole_copy_and_replaces_nothing() {
    let server = filled(&[]).await;
    let api = Api::of(&server);
    let path = server.data().with_file_name("copy.redb");
    let made = api.admin("POST", "/v1/backup", &order(&path)).await.expect(201);
    let bytes = fs::metadata(&path).unwrap().len();
    assert_eq!(
        (&made["path"], &made["deliveries"], &made["bytes"]),
        (&json!(path), &json!(100), &json!(bytes))
    );
    assert_eq!(whole(&path)["waiting"], 100);
    let again = api.admin("POST", "/v1/backup", &order(&path)).await.expect(409);
    assert_eq!(again["code"], "backup_exists");
    let check = async |body: &str, status: u16, code: &str| {
        assert_eq!(api.admin("POST", "/v1/backup", body).await.expect(status)["code"], code, "{body}");
    };
    check("{}", 422, "invalid").await;
    check(r#"{"path":"copy2.redb"}"#, 422, "invalid").await;
    check(r#"{"path":"/"}"#, 422, "invalid").await;
    check(r#"{"path":"/x","more":1}"#, 422, "invalid").await;
    check(r#"{"path":"/nowhere/at/all.redb"}"#, 422, "invalid").await;
    // What was made is in the audit log, and nothing that was not.
    let log = api.admin("GET", "/v1/audit?action=backup", "").await.expect(200);
    assert_eq!(log["data"].as_array().map(Vec::len), Some(1), "{log}");
    let run = duehook(
        &["--admin", &server.admin, "--json", "backup", path.with_extension("2").to_str().unwrap()],
        &[],
        b"",
    );
    assert_eq!((run.code, &read(&run.stdout)["deliveries"]), (0, &json!(100)), "{}", run.stderr);
    let run = duehook(&["--admin", &server.admin, "backup", path.to_str().unwrap()], &[], b"");
    assert_eq!(run.code, 1, "{}", run.stdout);
    assert_eq!(halves(server.data().parent().unwrap()), 0);
}

/// Files that are not finished.
fn halves(folder: &Path) -> usize {
    names(folder).iter().filter(|name| name.ends_with(".part")).count()
}

fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return vec![] };
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

pub(crate) const ROLLING: [(&str, &str); 2] =
    [("DUEHOOK_BACKUP__EVERY", "1s"), ("DUEHOOK_BACKUP__KEEP", "2")];

/// T25: copies of `latest.redb` while snapshots rotate and work comes in are all whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t25_every_copy_of_the_latest_snapshot_is_whole() {
    let server = filled(&ROLLING).await;
    let api = Api::of(&server);
    let dir = server.data().with_file_name("backup");
    let latest = dir.join("latest.redb");
    until("there is a snapshot", async || latest.exists()).await;
    let (mut steps, mut copies) = (std::collections::BTreeSet::new(), 0);
    while steps.len() < 3 || copies < count("TEST_COPIES", 20) {
        let line = format!("{{\"destination\":\"kept\",\"payload\":\"{copies}\"}}\n");
        api.batch(line).await.unwrap().expect(200);
        let copy = server.data().with_file_name("copied.redb");
        fs::copy(&latest, &copy).unwrap();
        steps.insert(whole(&copy)["step"].as_u64().unwrap());
        copies += 1;
    }
    println!("{copies} copies of {} snapshots", steps.len());
    until("no more than are kept", async || {
        let names = names(&dir);
        names.iter().filter(|name| name.starts_with("duehook-")).count() <= 2
    })
    .await;
    let metrics = reqwest::get(format!("{}/metrics", server.admin)).await.unwrap().text().await.unwrap();
    let last =
        metrics.lines().find_map(|line| line.strip_prefix("duehook_backup_last_success_timestamp_seconds "));
    assert!(last.unwrap().parse::<f64>().unwrap() > 1.0e9, "{last:?}");
    assert!(metrics.contains("duehook_store_oldest_read_seconds "), "{metrics}");
}

/// A number that the environment may raise.
pub(crate) fn count(name: &str, fallback: u32) -> u32 {
    std::env::var_os(name).and_then(|text| text.to_str()?.parse().ok()).unwrap_or(fallback)
}

/// T27: whenever it is killed, there is no half file under a final name, and the rest is swept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t27_a_kill_in_a_backup_leaves_no_half_file() {
    let server = filled(&[]).await;
    let body = "y".repeat(240_000);
    for _ in 0..4 {
        let line = format!("{{\"destination\":\"kept\",\"payload\":\"{body}\"}}\n");
        Api::of(&server).batch(line.repeat(30)).await.unwrap().expect(200);
    }
    let dir = server.data().with_file_name("backup");
    fs::create_dir(&dir).unwrap();
    let mut folder = server.stop().1;
    let mut cut_off = 0;
    for round in 0..5 {
        let server = TestServer::start(Arc::clone(&folder), &[]);
        let api = Api::of(&server);
        assert_eq!(halves(&dir), 0, "swept at the start");
        // Under a name that a snapshot of this file would have: others' halves are not swept.
        let name = format!("duehook-2026-01-15T12000000{round}Z.redb");
        let (path, part) = (dir.join(&name), dir.join(format!(".{name}.part")));
        // Each round is killed a little later in it, and the last ones about its end.
        let grown = || fs::metadata(&part).map_or(path.exists(), |file| file.len() >= round * (10 << 20));
        let body = order(&path);
        tokio::select! {
            _ = api.admin("POST", "/v1/backup", &body) => {}
            () = until("it is in the middle", async || grown()) => {}
        }
        folder = server.kill();
        cut_off += usize::from(!path.exists());
        finished(&dir).iter().for_each(|path| drop(whole(path)));
    }
    println!("{cut_off} of 5 were cut off");
    assert!(cut_off > 0);
}

fn finished(dir: &Path) -> Vec<PathBuf> {
    names(dir).iter().filter(|name| !name.starts_with('.')).map(|name| dir.join(name)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_backup_is_not_restored() {
    let server = filled(&[]).await;
    let path = server.data().with_file_name("copy.redb");
    Api::of(&server).admin("POST", "/v1/backup", &order(&path)).await.expect(201);
    let folder = server.stop().1;
    let before = fs::read(data(folder.path())).unwrap();
    let (code, says) = restore(&path, &data(folder.path()), &[]);
    assert_eq!(code, 4, "{says}");
    assert!(says.contains("--yes"), "{says}");
    let mut bytes = fs::read(&path).unwrap();
    let body = bytes.windows(8).position(|part| part == b"xxxxxxxx").unwrap();
    bytes[body + 100] ^= 1;
    fs::write(&path, bytes).unwrap();
    let (code, says) = restore(&path, &data(folder.path()), &["--yes"]);
    assert_eq!(code, 78, "{says}");
    assert!(fs::read(data(folder.path())).unwrap() == before, "the data file was changed");
    assert_eq!(restore(Path::new("/nowhere.redb"), &data(folder.path()), &["--yes"]).0, 3);
    assert_eq!(halves(folder.path()), 0);
}

/// Everything that waits, by id and key.
async fn waiting(api: &Api) -> Vec<(Value, Value)> {
    let list = api.list("state=ready,delayed,leased").await;
    let mut all: Vec<_> =
        list.iter().map(|one| (one["id"].clone(), one["idempotency_key"].clone())).collect();
    all.sort_by_key(|(id, _)| id.to_string());
    all
}

async fn claims(api: &Api) -> Value {
    api.admin("GET", "/v1/stats", "").await.expect(200)["claims"].clone()
}

/// T30: restored, nothing is sent until claims are started; then all goes out as it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t30_a_restored_file_sends_nothing_until_it_is_told() {
    let receiver = Receiver::start(Script::List(vec![Answer::status(204)]), Record::Digests).await.unwrap();
    let server = filled(&[]).await;
    let api = Api::of(&server);
    api.admin("PATCH", "/v1/destinations/kept", &json!({"url": receiver.url("/")}).to_string())
        .await
        .expect(200);
    let known = waiting(&api).await;
    let path = server.data().with_file_name("copy.redb");
    api.admin("POST", "/v1/backup", &order(&path)).await.expect(201);
    api.batch("{\"destination\":\"kept\",\"payload\":1}\n".into()).await.unwrap().expect(200);
    let folder = server.stop().1;
    let (code, says) = restore(&path, &data(folder.path()), &["--yes"]);
    assert_eq!(code, 0, "{says}");
    assert!(says.contains("100 deliveries") && says.contains("claims start"), "{says}");
    let server = TestServer::start(folder, &[]);
    let api = Api::of(&server);
    assert_eq!(waiting(&api).await, known, "what came after the backup is gone, the rest is as it was");
    api.admin("POST", "/v1/destinations/kept/resume", "").await.expect(200);
    assert_eq!(claims(&api).await, "stopped");
    assert_eq!(api.ready().await, 200, "deliveries are accepted");
    let ready = api.admin("GET", "/readyz", "").await.expect(200);
    assert_eq!(ready["checks"]["claims"], "stopped");
    let id = known[0].0.as_str().unwrap();
    let why = api.admin("GET", &format!("/v1/deliveries/{id}/explain"), "").await.expect(200);
    assert_eq!(why["blocked_by"][0]["kind"], "claims_stopped", "{why}");
    assert!(why["blocked_by"][0]["detail"].as_str().unwrap().contains("restored"), "{why}");
    // A restart does not start them, and what is new waits too.
    let server = TestServer::start(server.stop().1, &[]);
    let api = Api::of(&server);
    fill(&api, 105).await;
    assert_eq!((claims(&api).await, receiver.count()), ("stopped".into(), 0));
    let run = duehook(&["--admin", &server.admin, "--json", "claims", "start"], &[], b"");
    assert_eq!(
        read(&run.stdout),
        json!({"claims": "running", "leases_held": 0, "fence": null}),
        "{}",
        run.stderr
    );
    api.quiet().await;
    assert_eq!(receiver.count(), 105);
    for (id, key) in &known {
        let one = api.get(id.as_str().unwrap()).await;
        assert_eq!((&one["outcome"], &one["idempotency_key"]), (&"delivered".into(), key));
    }
    assert_eq!(claims(&api).await, "running");
}

/// `cp` of a backup over the file is a restore too; so is a first start on another host.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t31_a_copied_backup_and_another_host_start_with_claims_stopped() {
    let server = filled(&[]).await;
    let path = server.data().with_file_name("copy.redb");
    Api::of(&server).admin("POST", "/v1/backup", &order(&path)).await.expect(201);
    let folder = server.stop().1;
    fs::copy(&path, data(folder.path())).unwrap();
    let server = TestServer::start(folder, &[]);
    assert_eq!(claims(&Api::of(&server)).await, "stopped");
    let started = Api::of(&server).admin("POST", "/v1/claims/start", "").await.expect(200);
    assert_eq!(started["claims"], "running");
    let folder = server.stop().1;
    let config = NamedTempFile::new().unwrap();
    fs::write(config.path(), "host_id = 'elsewhere'").unwrap();
    let elsewhere = [("DUEHOOK_CONFIG", config.path().to_str().unwrap())];
    let server = TestServer::start(folder, &elsewhere);
    assert_eq!(claims(&Api::of(&server)).await, "stopped");
    let said = duehook(&["--admin", &server.admin, "stats"], &[], b"").stdout;
    assert!(said.contains("claims stopped"), "{said}");
    Api::of(&server).admin("POST", "/v1/claims/start", "{}").await.expect(200);
    let server = TestServer::start(server.stop().1, &elsewhere);
    assert_eq!(claims(&Api::of(&server)).await, "running", "it is at home there now");
}

/// An operator's stop holds across a kill, lets what is in flight end, and is undone by a start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_claims_stay_stopped() {
    let receiver = Receiver::start(Script::List(vec![Answer::status(204)]), Record::Count).await.unwrap();
    let server = TestServer::start(folder(), &[]);
    let api = Api::of(&server);
    api.destination("shop", &receiver.url("/"), "").await;
    let run = duehook(&["--admin", &server.admin, "claims", "stop"], &[], b"");
    assert_eq!((run.code, run.stdout.as_str()), (0, "claims stopped, 0 in flight\n"), "{}", run.stderr);
    let taken = api.send("shop", Some("k"), b"1".to_vec()).await.unwrap().expect(202);
    assert_eq!(taken["state"], "ready");
    let server = TestServer::start(server.kill(), &[]);
    let api = Api::of(&server);
    let path = format!("/v1/deliveries/{}/explain", taken["id"].as_str().unwrap());
    let why = api.admin("GET", &path, "").await.expect(200);
    assert!(why["blocked_by"][0]["detail"].as_str().unwrap().contains("operator"), "{why}");
    assert_eq!(receiver.count(), 0);
    api.admin("POST", "/v1/claims/start", "").await.expect(200);
    api.quiet().await;
    assert_eq!(receiver.count(), 1);
    api.admin("POST", "/v1/claims/start", "{\"x\":1}").await.expect(422);
}

/// T13: a record that was damaged on disk is quarantined when it is its turn: seen in the totals,
/// the list and the metric, never sent; the others go out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t13_what_is_damaged_is_quarantined_and_the_others_go_on() {
    let receiver = Receiver::start(Script::List(vec![Answer::status(204)]), Record::Count).await.unwrap();
    let server = filled(&[]).await;
    let api = Api::of(&server);
    api.admin("PATCH", "/v1/destinations/kept", &json!({"url": receiver.url("/")}).to_string())
        .await
        .expect(200);
    let folder = server.stop().1;
    damage(&data(folder.path()), |txn| {
        crate::verify::flip::<u128>(txn, "deliveries", true);
        crate::verify::flip::<(u128, u16)>(txn, "payloads", false);
    });
    let server = TestServer::start(folder, &[]);
    let api = Api::of(&server);
    api.admin("POST", "/v1/destinations/kept/resume", "").await.expect(200);
    let quarantined = async || api.admin("GET", "/v1/stats", "").await.expect(200)["quarantined"].clone();
    until("both are quarantined", async || quarantined().await == json!(2)).await;
    api.quiet().await;
    assert_eq!(receiver.count(), 98);
    let both = api.list("outcome=quarantined").await;
    assert_eq!(both.len(), 2);
    // Neither can be retried: it would only be quarantined again.
    for one in &both {
        let path = format!("/v1/deliveries/{}/retry", one["id"].as_str().unwrap());
        assert_eq!(api.admin("POST", &path, "").await.expect(500)["code"], "damaged");
    }
    let metrics = reqwest::get(format!("{}/metrics", server.admin)).await.unwrap().text().await.unwrap();
    assert!(metrics.contains("\nduehook_quarantined_deliveries 2"), "{metrics}");
    let run = verify(&data(server.stop().1.path()));
    assert_eq!(run.code, 0, "what is quarantined is known: {}", run.stdout);
}

/// A closed file, ours, in which a waiting delivery has no due row.
pub(crate) async fn with_a_hidden_row() -> Arc<TempDir> {
    let folder = filled(&[]).await.stop().1;
    damage(&data(folder.path()), |txn| {
        let name: redb::TableDefinition<(u32, u8, u64, u128), (u32, u32)> = redb::TableDefinition::new("due");
        txn.open_table(name).unwrap().pop_last().unwrap();
    });
    folder
}

/// What has ended and cannot be read is in no lane, so that it is never met and quarantined. It
/// does not stop the backups: it is copied as it is, and counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_record_does_not_stop_the_backups() {
    let receiver = Receiver::start(Script::List(vec![Answer::status(204)]), Record::Count).await.unwrap();
    let kept = [ROLLING[0], ROLLING[1], ("DUEHOOK_RETENTION__DELIVERED_PAYLOAD", "1h")];
    let server = TestServer::start(folder(), &kept[2..]);
    let api = Api::of(&server);
    api.destination("shop", &receiver.url("/"), "").await;
    for n in 0..3 {
        api.send("shop", None, vec![n; 100]).await.unwrap().expect(202);
    }
    api.quiet().await;
    let folder = server.stop().1;
    damage(&data(folder.path()), |txn| {
        crate::verify::flip::<u128>(txn, "deliveries", true);
        crate::verify::flip::<(u128, u16)>(txn, "payloads", false);
    });
    let server = TestServer::start(folder, &kept);
    let api = Api::of(&server);
    let latest = server.data().with_file_name("backup").join("latest.redb");
    until("there is a snapshot", async || latest.exists()).await;
    let path = server.data().with_file_name("copy.redb");
    let made = api.admin("POST", "/v1/backup", &order(&path)).await.expect(201);
    assert_eq!((&made["deliveries"], &made["damaged"]), (&json!(3), &json!(2)), "{made}");
    assert_eq!(api.list("").await.len(), 3);
    let folder = server.stop().1;
    for file in [latest, path.clone()] {
        let told = verified(&file, 1);
        let figures = (&told["whole"], &told["damaged"], &told["wrong"]);
        assert_eq!(figures, (&json!(false), &json!(2), &json!(0)), "{told}");
    }
    let (code, says) = restore(&path, &data(folder.path()), &["--yes"]);
    assert_eq!(code, 0, "{says}");
    let server = TestServer::start(folder, &[]);
    assert_eq!(Api::of(&server).list("outcome=quarantined").await.len(), 1, "the one without a record");
}

/// A backup of one region is not put over another region's file, whatever state that is in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_regions_file_is_not_restored_over() {
    let in_region = |region: &'static str| [("DUEHOOK_REGION", region)];
    let mut backups = Vec::new();
    let mut files = Vec::new();
    for region in ["local", "eu", "us"] {
        let server = filled(&in_region(region)).await;
        let path = server.data().with_file_name("copy.redb");
        Api::of(&server).admin("POST", "/v1/backup", &order(&path)).await.expect(201);
        backups.push(path);
        files.push(server.stop().1);
    }
    let check = |from: usize, to: usize, code: i32| {
        let target = folder();
        for name in ["duehook.redb", "duehook.redb.owner"] {
            fs::copy(files[to].path().join(name), target.path().join(name)).unwrap();
        }
        let ask = || {
            let before = (fs::read(&backups[from]).unwrap(), fs::read(data(target.path())).unwrap());
            let (got, says) = restore(&backups[from], &data(target.path()), &["--yes"]);
            assert_eq!(got, code, "{from} over {to}: {says}");
            let after = (fs::read(&backups[from]).unwrap(), fs::read(data(target.path())).unwrap());
            assert_eq!(before == after, code == 78, "{from} over {to}");
            assert_eq!(says.contains("belongs to region"), code == 78, "{says}");
        };
        // A file that cannot be read has a note that says whose it is.
        let bytes = fs::read(data(target.path())).unwrap();
        ask();
        fs::write(data(target.path()), &bytes[..bytes.len() / 2]).unwrap();
        ask();
    };
    check(1, 2, 78);
    check(2, 1, 78);
    check(1, 1, 0);
    check(1, 0, 0);
    check(0, 1, 0);
}

/// A record that no index leads to is found by the next snapshot, which ends the process for good.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hidden_row_is_found_by_the_next_snapshot() {
    let folder = with_a_hidden_row().await;
    let (code, folder) = TestServer::start(folder, &ROLLING).wait();
    assert_eq!(code, Some(78));
    // It is not ours any more: the next start looks, and does not serve it till the next snapshot.
    let refused = serve(folder.path(), &ROLLING).output().unwrap();
    assert_eq!((refused.status.code(), refused.stdout.is_empty()), (Some(78), true));
    let says = String::from_utf8(refused.stderr).unwrap();
    assert!(says.contains("has due row false and lease false") && says.contains("restore"), "{says}");
    let names = names(&data(folder.path()).with_file_name("backup"));
    assert!(names.iter().all(|name| name.ends_with(".part")), "{names:?}");
    assert_eq!(verify(&data(folder.path())).code, 78);
}

/// Changes a closed file, and lets the owner's note agree with it.
pub(crate) fn damage(path: &Path, how: impl FnOnce(&redb::WriteTransaction)) {
    use std::os::unix::fs::MetadataExt;
    let database = redb::Database::open(path).unwrap();
    let txn = database.begin_write().unwrap();
    how(&txn);
    txn.commit().unwrap();
    drop(database);
    let note = path.with_extension("redb.owner");
    let mut text: Value = serde_json::from_slice(&fs::read(&note).unwrap()).unwrap();
    let file = fs::metadata(path).unwrap();
    text["last"]["closed"]["size"] = json!(file.len());
    let ctime = i128::from(file.ctime()) * 1_000_000_000 + i128::from(file.ctime_nsec());
    text["last"]["closed"]["ctime_ns"] = serde_json::from_str(&ctime.to_string()).unwrap();
    fs::write(&note, text.to_string()).unwrap();
}

/// T32: during a hold a plain `cp` is whole; a producer waits, and is then told so; it ends by
/// itself, by an order, and by a stop.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t32_a_copy_made_in_a_hold_is_whole() {
    let server = filled(&[]).await;
    let api = Api::of(&server);
    for ttl in [0, 30_001] {
        let body = json!({ "ttl_ms": ttl }).to_string();
        api.admin("POST", "/v1/backup/hold", &body).await.expect(422);
    }
    api.admin("DELETE", "/v1/backup/hold", "").await.expect(204);
    for round in 0..5 {
        let line = |n: u32| format!("{{\"destination\":\"kept\",\"payload\":\"{n}\"}}\n");
        let posting = async {
            let answers = (0..20).map(|n| api.batch(line(n)));
            for answer in answers {
                answer.await.unwrap().expect(200);
            }
        };
        let copying = async {
            api.admin("POST", "/v1/backup/hold", "{}").await.expect(200);
            let copy = server.data().with_file_name(format!("held-{round}.redb"));
            fs::copy(server.data(), &copy).unwrap();
            api.admin("DELETE", "/v1/backup/hold", "").await.expect(204);
            let run = verify(&copy);
            assert_eq!(run.code, 0, "{} {}", run.stdout, run.stderr);
        };
        tokio::join!(posting, copying);
    }
    let held = api.admin("POST", "/v1/backup/hold", r#"{"ttl_ms":30000}"#).await.expect(200);
    assert!(held["until"].is_string(), "{held}");
    let refused = api.send("kept", None, b"1".to_vec()).await.unwrap().expect(503);
    assert_eq!(refused["code"], "backup_hold");
    let repeat = api.batch(r#"{"destination":"kept","idempotency_key":"k1","payload":"no"}"#.into());
    assert_eq!(repeat.await.unwrap().status, 503, "another body is no repeat");
    api.admin("DELETE", "/v1/backup/hold", "").await.expect(204);
    api.send("kept", None, b"1".to_vec()).await.unwrap().expect(202);
    api.admin("POST", "/v1/backup/hold", r#"{"ttl_ms":30000}"#).await.expect(200);
    assert_eq!(server.stop().0, Some(0), "a stop does not wait for a hold");
}

/// During a hold an operator's order waits as long as a producer does, and is then refused: nothing
/// of it is done, then or later. What only reads is answered, and the hold itself is no order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_in_a_hold_are_refused_after_a_while() {
    let server = filled(&[]).await;
    let api = Api::of(&server);
    let one = api.list("").await[0]["id"].as_str().unwrap().to_owned();
    let held = api.admin("POST", "/v1/backup/hold", r#"{"ttl_ms":20000}"#).await.expect(200);
    let orders = [
        ("POST", "/v1/claims/stop", ""),
        ("POST", "/v1/claims/start", ""),
        ("POST", "/v1/drain", r#"{"wait_ms":0}"#),
        ("POST", "/v1/config/reload", ""),
        ("POST", "/v1/bulk", r#"{"action":"erase","filter":{"destination":"kept"}}"#),
        ("PUT", "/v1/destinations/new", r#"{"tenant":"acme","url":"https://shop.example.com/"}"#),
        ("PATCH", "/v1/destinations/kept", r#"{"timeout_ms":5000}"#),
        ("DELETE", "/v1/destinations/kept?waiting=cancel", ""),
        ("POST", "/v1/destinations/kept/disable", ""),
        ("PUT", "/v1/destinations/kept/hold", r#"{"until":"2999-01-15T12:00:00Z"}"#),
        ("POST", "/v1/destinations/kept/secrets/rotate", ""),
        ("POST", &format!("/v1/deliveries/{one}/retry"), ""),
        ("POST", &format!("/v1/deliveries/{one}/cancel"), ""),
        ("DELETE", &format!("/v1/deliveries/{one}/payload"), ""),
    ];
    let asked: JoinSet<_> = orders
        .map(|(method, path, body)| (method.to_owned(), path.to_owned(), body.to_owned()))
        .into_iter()
        .map(|(method, path, body)| {
            let api = api.clone();
            async move { (api.admin(&method, &path, &body).await, path) }
        })
        .collect();
    let longer = api.admin("POST", "/v1/backup/hold", r#"{"ttl_ms":30000}"#).await.expect(200);
    assert!(longer["until"].as_str() > held["until"].as_str(), "{longer} is had at once");
    for (refused, path) in asked.join_all().await {
        assert_eq!(refused.expect(503)["code"], "backup_hold", "{path}");
    }
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let refused = client.post(format!("{}/v1/claims/stop", server.admin)).send().await.unwrap();
    assert!((refused.status() == 503) & refused.headers().contains_key("retry-after"), "{refused:?}");
    api.admin("DELETE", "/v1/backup/hold", "").await.expect(204);
    let actions = api.admin("GET", "/v1/audit", "").await.expect(200);
    let actions: Vec<&str> =
        actions["data"].as_array().unwrap().iter().filter_map(|one| one["action"].as_str()).collect();
    assert_eq!(actions[..3], ["backup.release", "backup.hold", "backup.hold"], "{actions:?}");
    let refused = ["claims.stop", "drain", "bulk.start", "destination.disable", "delivery.erase"];
    assert!(!actions.iter().any(|action| refused.contains(action)), "{actions:?}");
    api.admin("POST", "/v1/claims/stop", "").await.expect(200);
}
