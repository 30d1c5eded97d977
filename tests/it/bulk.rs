//! Bulk jobs of the real program: over HTTP, by the command line, and through `kill -9`.
#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::collections::BTreeMap;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use duehook::config::Settings;
use duehook::drill::receiver::{Answer, Receiver, Record, Script};
use duehook::driver::handle::READERS;
use duehook::http::{App, Build, Limits, admin_router, serve};
use duehook::store::Snapshot;
use redb::ReadableTable;
use redb::backends::InMemoryBackend;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::TestServer;
use crate::api::{Api, until};
use crate::backup::damage;
use crate::cli::{Run, duehook};
use crate::server::data;
use crate::storage::engine;
use crate::verify::verify;

fn start(folder: Arc<TempDir>) -> TestServer {
    TestServer::start(folder, &[])
}

fn fresh() -> TestServer {
    start(Arc::new(TempDir::new().unwrap()))
}

/// A paused destination with this much work.
async fn filled(api: &Api, name: &str, url: &str, n: usize) {
    api.destination(name, url, "").await;
    api.admin("POST", &format!("/v1/destinations/{name}/pause"), "").await.expect(200);
    let mut left = n;
    while left > 0 {
        let lines = left.min(1_000);
        let line = format!("{{\"destination\":\"{name}\",\"payload\":1}}\n");
        let taken = api.batch(line.repeat(lines)).await.unwrap().expect(200);
        assert!(taken["results"].as_array().unwrap().iter().all(|one| one["status"] == 202));
        left -= lines;
    }
}

const NOWHERE: &str = "http://127.0.0.1:9/";

async fn bulk(api: &Api, body: Value) -> crate::api::Answer {
    api.admin("POST", "/v1/bulk", &body.to_string()).await
}

async fn begun(api: &Api, body: Value) -> String {
    bulk(api, body).await.expect(202)["id"].as_str().unwrap().to_owned()
}

async fn job(api: &Api, id: &str) -> Value {
    api.admin("GET", &format!("/v1/bulk/{id}"), "").await.expect(200)
}

async fn done(api: &Api, id: &str) -> Value {
    until("the job is done", async || job(api, id).await["state"] != "running").await;
    job(api, id).await
}

fn counts(job: &Value) -> (&Value, u64, u64, u64) {
    let number = |name: &str| job[name].as_u64().unwrap();
    (&job["state"], number("matched"), number("changed"), number("skipped"))
}

fn run(server: &TestServer, arguments: &[&str]) -> Run {
    duehook(&[&["--admin", server.admin.as_str()], arguments].concat(), &[], b"")
}

#[track_caller]
fn whole(server: TestServer) {
    let folder = server.stop().1;
    let run = verify(&data(folder.path()));
    assert_eq!(run.code, 0, "{} {}", run.stdout, run.stderr);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_is_counted_checked_and_begun() {
    let server = fresh();
    let api = Api::of(&server);
    filled(&api, "shop", NOWHERE, 30).await;
    filled(&api, "other", NOWHERE, 3).await;
    let check = async |body: Value, status: u16, code: &str, field: &str| {
        let refused = bulk(&api, body.clone()).await.expect(status);
        assert_eq!(
            (&refused["code"], &refused["errors"][0]["field"]),
            (&json!(code), &json!(field)),
            "{body}"
        );
    };
    check(json!({"action": "cancel", "filter": {}}), 422, "invalid", "filter").await;
    check(json!({"action": "cancel"}), 422, "invalid", "filter").await;
    check(json!({"action": "cancel", "filter": {"shop": "a"}}), 422, "invalid", "filter.shop").await;
    let filter = json!({"destination": ["shop"], "state": "ready"});
    let order = |more: Value| {
        let mut order = json!({"action": "cancel", "filter": filter});
        order.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        order
    };
    assert_eq!(bulk(&api, order(json!({"dry_run": true}))).await.expect(200), json!({"count": 30}));
    check(order(json!({"expected_count": 29})), 409, "count_changed", "expected_count").await;
    assert_eq!(api.admin("GET", "/v1/bulk", "").await.expect(200), json!({"data": [], "next_cursor": null}));
    let answer = bulk(&api, order(json!({"expected_count": 30, "rate_per_second": 1}))).await.expect(202);
    assert_eq!(
        (&answer["action"], &answer["state"], &answer["by"]),
        (&json!("cancel"), &json!("running"), &json!("operator"))
    );
    assert_eq!(answer["filter"], json!({"destination": ["shop"], "state": ["ready"]}));
    let again = bulk(&api, order(json!({}))).await.expect(409);
    assert_eq!(again["code"], "bulk_running");
    assert!(again["detail"].as_str().unwrap().contains(answer["id"].as_str().unwrap()), "{again}");
    let other = begun(&api, json!({"action": "erase", "filter": {"destination": "other"}})).await;
    assert_eq!(
        counts(&done(&api, &other).await),
        (&json!("done"), 3, 3, 0),
        "a slow job keeps no other back"
    );
    let path = format!("/v1/bulk/{}", answer["id"].as_str().unwrap());
    let stopped = api.admin("DELETE", &path, "").await.expect(200);
    assert_eq!((&stopped["state"], stopped["finished_at"].is_string()), (&json!("stopped"), true));
    assert_eq!(api.admin("DELETE", &path, "").await.expect(200), stopped);
    assert_eq!(api.admin("GET", &path, "").await.expect(200), stopped);
    assert!(stopped["changed"].as_u64().unwrap() < 30, "{stopped}");
    let first = api.admin("GET", "/v1/bulk?limit=1", "").await.expect(200);
    assert_eq!((&first["data"][0]["id"], &first["next_cursor"]), (&json!(other), &json!(other)));
    let rest = api.admin("GET", &format!("/v1/bulk?cursor={other}"), "").await.expect(200);
    assert_eq!((&rest["data"], &rest["next_cursor"]), (&json!([stopped]), &Value::Null));
    for unknown in ["job_00000000000000000000000000", "nothing"] {
        for method in ["GET", "DELETE"] {
            let answer = api.admin(method, &format!("/v1/bulk/{unknown}"), "").await;
            assert_eq!(answer.expect(404)["code"], "not_found");
        }
    }
    whole(server);
}

/// Where nothing waits any more, nothing is old.
async fn nothing_has_an_age(api: &Api) {
    until("nothing waits, and nothing is old", async || {
        let stats = api.admin("GET", "/v1/stats", "").await.expect(200);
        let class = &stats["classes"]["routine"];
        class["held"] == 0 && class["oldest_held_ms"].is_null() && class["oldest_ready_ms"].is_null()
    })
    .await;
    let ranked = api.admin("GET", "/v1/stats/destinations", "").await.expect(200);
    assert_eq!(
        (&ranked["data"][0]["waiting"], &ranked["data"][0]["oldest_due_at"]),
        (&json!(0), &Value::Null)
    );
    let shop = api.admin("GET", "/v1/destinations/shop", "").await.expect(200);
    assert_eq!((&shop["waiting"], &shop["oldest_due_at"]), (&json!(0), &Value::Null));
}

/// C179: pressed again, and from a second tab: each is sent once, and the job is one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c179_a_bulk_retry_pressed_three_times_sends_each_once() {
    const N: usize = 5_000;
    let receiver = Receiver::start(Script::List(vec![Answer::status(204)]), Record::Digests).await.unwrap();
    let server = fresh();
    let api = Api::of(&server);
    filled(&api, "shop", &receiver.url("/"), N).await;
    let dead = begun(&api, json!({"action": "cancel", "filter": {"destination": "shop"}})).await;
    assert_eq!(counts(&done(&api, &dead).await), (&json!("done"), N as u64, N as u64, 0));
    nothing_has_an_age(&api).await;
    api.admin("POST", "/v1/destinations/shop/resume", "").await.expect(200);
    let order = json!({"action": "retry", "filter": {"outcome": "cancelled"}, "rate_per_second": 2_500});
    let id = begun(&api, order.clone()).await;
    for _ in 0..2 {
        assert_eq!(bulk(&api, order.clone()).await.expect(409)["code"], "bulk_running");
    }
    assert_eq!(counts(&done(&api, &id).await), (&json!("done"), N as u64, N as u64, 0));
    api.quiet().await;
    let mut requests: BTreeMap<String, u32> = BTreeMap::new();
    for one in receiver.received() {
        *requests.entry(one.header("webhook-id").unwrap().to_owned()).or_default() += 1;
    }
    assert_eq!((requests.len(), requests.values().max()), (N, Some(&1)));
    let again = begun(&api, order).await;
    assert_eq!(counts(&done(&api, &again).await), (&json!("done"), 0, 0, 0), "nothing is cancelled any more");
    whole(server);
}

/// Killed in the middle, twice, a job goes on where it was and takes each delivery once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_goes_on_after_kill_9() {
    const N: u64 = 10_000;
    let server = fresh();
    let api = Api::of(&server);
    filled(&api, "shop", NOWHERE, 10_000).await;
    let order = json!({"action": "cancel", "filter": {"destination": "shop"}, "rate_per_second": 2_500});
    let id = begun(&api, order).await;
    let (mut server, mut api) = (server, api);
    for part in [1_000, 5_000] {
        until("a part is done", async || job(&api, &id).await["changed"].as_u64().unwrap() >= part).await;
        let before = job(&api, &id).await;
        assert_eq!(before["state"], "running", "{before}");
        server = start(server.kill());
        api = Api::of(&server);
        let after = job(&api, &id).await;
        assert!(after["changed"].as_u64() >= before["changed"].as_u64(), "{before} {after}");
    }
    assert_eq!(counts(&done(&api, &id).await), (&json!("done"), N, N, 0));
    assert_eq!(api.list("outcome=cancelled").await.len(), 10_000);
    assert_eq!(api.list("state=ready,delayed,leased").await.len(), 0);
    whole(server);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_destination_is_removed_with_its_work_from_the_command_line() {
    let server = fresh();
    let api = Api::of(&server);
    filled(&api, "shop", NOWHERE, 700).await;
    api.admin("DELETE", "/v1/destinations/shop?waiting=keep", "").await.expect(422);
    let refused = run(&server, &["dest", "rm", "shop"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (4, ""), "{}", refused.stderr);
    let removed = run(&server, &["dest", "rm", "shop", "--yes", "--json"]);
    assert_eq!(removed.code, 0, "{}", removed.stderr);
    let begun: Value = serde_json::from_str(&removed.stdout).unwrap();
    assert_eq!((&begun["removes"], &begun["action"]), (&json!("shop"), &json!("cancel")));
    let job = done(&api, begun["id"].as_str().unwrap()).await;
    assert_eq!(counts(&job), (&json!("done"), 700, 700, 0));
    api.admin("GET", "/v1/destinations/shop", "").await.expect(404);
    assert_eq!(api.list("outcome=cancelled&destination=shop").await.len(), 700);
    let shown = run(&server, &["bulk", "ls"]);
    assert!(shown.stdout.contains("cancel, remove") && shown.stdout.contains("done"), "{}", shown.stdout);
    api.destination("shop", NOWHERE, "").await;
    assert_eq!(
        api.admin("DELETE", "/v1/destinations/shop?waiting=cancel", "").await.status,
        204,
        "it has none"
    );
    whole(server);
}

/// A count that takes longer than anybody waits goes on as a job that changes nothing. Here it takes
/// until others have read, and nobody waits at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_count_that_takes_long_goes_on_as_a_job() {
    let folder = TempDir::new().unwrap();
    let (driver, handle) = engine(InMemoryBackend::new(), &folder);
    let build = Build { version: "0", commit: "0", format: 1 };
    let (gate, mut reading) = (Arc::new(Barrier::new(READERS + 1)), JoinSet::new());
    for _ in 0..READERS {
        let (handle, gate) = (handle.clone(), Arc::clone(&gate));
        let read = move |_: &Snapshot, _: &dyn Fn() -> bool| {
            gate.wait();
            gate.wait();
            Ok(())
        };
        reading.spawn(async move { handle.read(read).await });
    }
    gate.wait();
    let mut app = Arc::into_inner(App::new(handle, &Settings::default(), build)).unwrap();
    app.count_patience = Duration::ZERO;
    let mut served = JoinSet::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = admin_router(Arc::new(app));
    served.spawn(serve(listener, router, Limits::new(8, Vec::new()), std::future::pending()));
    let api = Api::at(&url);
    let order = json!({"action": "cancel", "filter": {"state": "ready"}, "dry_run": true});
    let answer = bulk(&api, order.clone()).await.expect(202);
    assert_eq!((&answer["dry_run"], &answer["action"]), (&json!(true), &json!("cancel")));
    gate.wait();
    let job = done(&api, answer["id"].as_str().unwrap()).await;
    assert_eq!(counts(&job), (&json!("done"), 0, 0, 0));
    driver.stop();
}

/// A record that cannot be read cannot be cancelled, and keeps no removal back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_record_keeps_no_destination() {
    let server = fresh();
    filled(&Api::of(&server), "shop", NOWHERE, 5).await;
    let (_, folder) = server.stop();
    damage(&data(folder.path()), |txn| {
        let mut table = txn.open_table(redb::TableDefinition::<u128, &[u8]>::new("deliveries")).unwrap();
        let id = table.first().unwrap().map(|row| row.0.value()).unwrap();
        table.insert(id, &b"\x01damaged"[..]).unwrap();
    });
    let server = start(folder);
    let api = Api::of(&server);
    let id = api.admin("DELETE", "/v1/destinations/shop?waiting=cancel", "").await.expect(202)["id"].clone();
    assert_eq!(counts(&done(&api, id.as_str().unwrap()).await), (&json!("done"), 5, 4, 1));
    api.admin("GET", "/v1/destinations/shop", "").await.expect(404);
    until("it is counted", async || api.admin("GET", "/v1/stats", "").await.expect(200)["quarantined"] == 1)
        .await;
    let (_, folder) = server.stop();
    let checked = verify(&data(folder.path()));
    assert_eq!(checked.code, 0, "{} {}", checked.stdout, checked.stderr);
}

/// The command line counts before it asks, and refuses what it was not told to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bulk_on_the_command_line() {
    let server = fresh();
    let api = Api::of(&server);
    filled(&api, "shop", NOWHERE, 12).await;
    let check = |arguments: &[&str], code: i32, part: &str| {
        let run = run(&server, arguments);
        assert_eq!(run.code, code, "{arguments:?} {} {}", run.stdout, run.stderr);
        assert!(
            run.stdout.contains(part) || run.stderr.contains(part),
            "{part:?}: {} {}",
            run.stdout,
            run.stderr
        );
        run.stdout
    };
    let cancel = &["bulk", "start", "cancel", "--destination", "shop"][..];
    check(&[cancel, &["--dry-run"]].concat(), 0, "12 deliveries match");
    check(cancel, 4, "--yes");
    check(&["bulk", "start", "erase", "--outcome", "rejected,expired", "--yes", "--wait"], 0, "matched   0");
    check(&[cancel, &["--expect", "11", "--yes"]].concat(), 4, "12 deliveries match, and 11 were expected");
    check(&[cancel, &["--state", "gone", "--yes"]].concat(), 1, "filter.state");
    let begun = check(&[cancel, &["--expect", "12", "--yes", "--json"]].concat(), 0, "\"cancel\"");
    let id = serde_json::from_str::<Value>(&begun).unwrap()["id"].as_str().unwrap().to_owned();
    done(&api, &id).await;
    check(&["bulk", "get", &id], 0, "changed   12");
    check(&["bulk", "stop", &id], 0, "done");
    check(&["bulk", "get", "job_1"], 3, "404");
    check(&["ls", "--outcome", "cancelled", "--destination", "shop"], 0, "cancelled");
}
