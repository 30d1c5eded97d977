//! Who leaves an import midway: what was read is kept, and the audit log says how much that was.

use std::io::Write;
use std::net::TcpStream;

use hyper::body::Bytes;
use serde_json::{Value, json};

use super::rejected::sample;
use super::{Half, fresh, joined, whole};
use crate::api::{Api, until};

/// What the audit log says of the ends of imports.
async fn ends(api: &Api) -> Vec<String> {
    let log = api.admin("GET", "/v1/audit?action=import.end", "").await.expect(200);
    log["data"].as_array().unwrap().iter().map(|one| one["detail"].as_str().unwrap().to_owned()).collect()
}

async fn begun(api: &Api) {
    until("it has begun", async || {
        let log = api.admin("GET", "/v1/audit?action=import.begin", "").await.expect(200);
        log["data"] != json!([])
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_that_breaks_off_keeps_what_was_read_and_says_so() {
    let lines = sample().await;
    let server = fresh().await;
    let api = Api::of(&server);
    let some = Bytes::from(joined(&lines[..4]));
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = client.post(format!("{}/v1/import", server.admin));
    let request = request.header("content-type", "application/x-ndjson");
    tokio::select! {
        answer = request.body(reqwest::Body::wrap(Half(Some(some)))).send() => panic!("not whole: {answer:?}"),
        () = begun(&api) => {}
    }
    until("the end is noted", async || !ends(&api).await.is_empty()).await;
    let want = "deliveries imported 2, updated 0, unchanged 0; destinations imported 1; lines rejected 0; \
                it broke off";
    assert_eq!(ends(&api).await, [want]);
    assert_eq!(api.list("").await.len(), 2);
    whole(server);
}

/// The same where nobody is left to answer: the last page is being stored, which takes as long as a
/// hold does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_leaves_while_a_page_is_stored_leaves_its_totals() {
    let lines = sample().await;
    let server = fresh().await;
    let api = Api::of(&server);
    let body = joined(&lines);
    let mut stream = TcpStream::connect(server.admin.trim_start_matches("http://")).unwrap();
    let head = format!(
        "POST /v1/import HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-ndjson\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{}\n", lines[0]).as_bytes()).unwrap();
    begun(&api).await;
    api.admin("POST", "/v1/backup/hold", r#"{"ttl_ms":30000}"#).await.expect(200);
    stream.write_all(&body.as_bytes()[lines[0].len() + 1..]).unwrap();
    drop(stream);
    until("nobody imports any more", async || api.import("", String::new()).await.status != 409).await;
    assert_eq!(ends(&api).await, [""; 0]);
    api.admin("DELETE", "/v1/backup/hold", "").await.expect(204);
    until("the end is noted", async || !ends(&api).await.is_empty()).await;
    let said = ends(&api).await.concat();
    let (_, more) = said.split_once("; it broke off, with ").unwrap();
    let more: usize = more.strip_suffix(" more lines on their way").unwrap().parse().unwrap();
    // All of them or, where the end of the connection was seen first, none: as it says. The first is
    // the destination.
    assert_eq!(api.list("").await.len(), more.saturating_sub(1), "{said}");
    let told = api.import("", body).await.expect(200);
    let sum = told["imported"].as_u64().unwrap() + told["unchanged"].as_u64().unwrap();
    assert_eq!((sum, &told["rejected"]), (3, &Value::Array(Vec::new())));
    whole(server);
}
