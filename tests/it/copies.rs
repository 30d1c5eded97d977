//! Readers of a file that is being written: a client that stalls, backups one after the other, and
//! a restore that is killed.
#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::fs;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use duehook::store;

use crate::TestServer;
use crate::api::{Api, until};
use crate::server::data;
use crate::storage::produce;

/// A server whose one destination lets nothing through.
async fn held() -> (TestServer, Api) {
    let server = crate::server().await;
    let api = Api::of(&server);
    api.destination("shop", "http://127.0.0.1:9/", "").await;
    let hold = r#"{"until":"2999-01-01T00:00:00Z"}"#;
    api.admin("PUT", "/v1/destinations/shop/hold", hold).await.expect(200);
    (server, api)
}

async fn oldest_read(api: &Api) -> f64 {
    let text = api.text("/metrics").await;
    let line = text.lines().find_map(|line| line.strip_prefix("duehook_store_oldest_read_seconds "));
    line.unwrap().parse().unwrap()
}

async fn batch(api: &Api, n: usize) {
    let line = format!("{{\"destination\":\"shop\",\"payload\":\"{}\"}}\n", "x".repeat(900));
    api.batch(line.repeat(n)).await.unwrap().expect(200);
}

/// C151, T18: clients that ask for a long page and never read it hold no read transaction, and the
/// file grows by what is written and no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c151_t18_a_stalled_client_holds_no_read() {
    let (server, api) = held().await;
    for _ in 0..3 {
        batch(&api, 1_000).await;
    }
    let address = server.admin.strip_prefix("http://").unwrap().to_owned();
    let mut stalled = Vec::new();
    for _ in 0..8 {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        let asked = format!("GET /v1/deliveries?limit=1000 HTTP/1.1\r\nhost: {address}\r\n\r\n");
        stream.write_all(asked.as_bytes()).await.unwrap();
        stalled.push(stream);
    }
    for stream in &stalled {
        stream.readable().await.unwrap();
    }
    until("nobody reads", async || oldest_read(&api).await < 0.001).await;
    let before = fs::metadata(server.data()).unwrap().len();
    for _ in 0..200 {
        batch(&api, 10).await;
    }
    let grew = fs::metadata(server.data()).unwrap().len() - before;
    println!("2,000 deliveries in 200 commits: {} KiB", grew >> 10);
    assert!(grew < 20 << 20, "{grew} bytes");
    assert!(oldest_read(&api).await < 1.0);
    assert_eq!(stalled.len(), 8, "they are there still");
    drop(stalled);
    assert_eq!(server.stop().0, Some(0));
}

/// C155: backups while producers write. Each has all that was answered before it began.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c155_a_backup_has_all_that_was_answered_before_it() {
    let (server, api) = held().await;
    let mut producers = JoinSet::new();
    for producer in 0..4 {
        producers.spawn(produce(api.clone(), producer, 500));
    }
    until("there is some load", async || accepted(&api).await > 100).await;
    for round in 0..12 {
        let path = server.data().with_file_name(format!("copy-{round}.redb"));
        let before = accepted(&api).await;
        api.admin("POST", "/v1/backup", &json!({ "path": path }).to_string()).await.expect(201);
        let verified = store::verify(&path).unwrap();
        assert_eq!(verified.found.problems, Vec::<String>::new());
        let kept = verified.found.deliveries;
        assert!(kept >= before, "{kept} of {before}");
        fs::remove_file(path).unwrap();
    }
    drop(server.kill());
    producers.join_all().await;
}

async fn accepted(api: &Api) -> u64 {
    let text = api.text("/metrics").await;
    let line = text.lines().find_map(|line| line.strip_prefix("duehook_ingest_total{result=\"accepted\"} "));
    line.unwrap().parse::<f64>().unwrap() as u64
}

/// C156: a restore over a server's file is refused; one that is killed leaves the old file or the
/// new one, whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c156_a_restore_is_all_or_nothing() {
    let (server, api) = held().await;
    for _ in 0..3 {
        batch(&api, 1_000).await;
    }
    let backup = server.data().with_file_name("backup.redb");
    api.admin("POST", "/v1/backup", &json!({ "path": backup }).to_string()).await.expect(201);
    batch(&api, 1).await;
    let restore = |data: &std::path::Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_duehook"));
        command.arg("restore").arg(&backup).arg("--data").arg(data).arg("--yes");
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    assert_eq!(restore(&server.data()).status().unwrap().code(), Some(75), "it is in use");
    let folder: Arc<TempDir> = server.stop().1;
    let (file, mut restored) = (data(folder.path()), 0);
    for round in 0..12 {
        let mut child = restore(&file).spawn().unwrap();
        let mut ticks = tokio::time::interval(Duration::from_millis(2));
        for _ in 0..round * 4 {
            ticks.tick().await;
        }
        drop(child.kill());
        child.wait().unwrap();
        let verified = store::verify(&file).unwrap();
        assert_eq!(verified.found.problems, Vec::<String>::new(), "round {round}");
        assert!(matches!(verified.found.deliveries, 3_000 | 3_001), "{}", verified.found.deliveries);
        restored += u32::from(verified.found.deliveries == 3_000);
    }
    println!("{restored} of 12 were not cut off in time");
    assert_eq!(restore(&file).status().unwrap().code(), Some(0));
    assert_eq!(store::verify(&file).unwrap().found.deliveries, 3_000);
}
