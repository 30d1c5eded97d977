//! SIGTERM: what is in flight may end, a second one cuts it off, and the file is closed.
#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::fs::{self, File};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use duehook::drill::receiver::{Answer, Received, Receiver, Record, Script};
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::time::Instant;

use crate::TestServer;
use crate::api::{Api, PATIENCE, until};

/// What an end takes beyond what it waits for, on a busy machine.
const BUSY: Duration = Duration::from_millis(1_500);

/// A server with one request in flight, which its receiver answers `late`; later ones at once.
struct Scene {
    server: TestServer,
    api: Api,
    receiver: Receiver,
    id: String,
}

impl Scene {
    async fn set(late: Duration, variables: &[(&str, &str)]) -> Scene {
        let answer = move |received: &Received| match received.n {
            1 => Answer::status(204).after(late),
            _ => Answer::status(204),
        };
        let receiver = Receiver::start(Script::Decide(Box::new(answer)), Record::Digests).await.unwrap();
        let server = TestServer::start(Arc::new(TempDir::new().unwrap()), variables);
        let api = Api::of(&server);
        api.destination("slow", &receiver.url("/"), "").await;
        let taken = api.send("slow", Some("k"), b"1".to_vec()).await.unwrap().expect(202);
        let id = taken["id"].as_str().unwrap().to_owned();
        until("it is in flight", async || receiver.count() == 1).await;
        Scene { server, api, receiver, id }
    }

    /// The first signal, and everything that is true from then on.
    async fn terminate(&self) {
        self.server.terminate();
        until("it is not ready", async || self.api.ready().await == 503).await;
        let refused = self.api.send("slow", None, b"2".to_vec()).await.unwrap().expect(503);
        assert_eq!(refused["code"], "shutting_down");
        let repeat = self.api.send("slow", Some("k"), b"1".to_vec()).await.unwrap().expect(200);
        assert_eq!((&repeat["id"], &repeat["duplicate"]), (&self.id.clone().into(), &true.into()));
    }

    /// Waits for its exit; how long that took, and what became of the delivery after a start.
    async fn ended(self) -> (Duration, Vec<String>) {
        let Scene { server, receiver, id, .. } = self;
        let began = Instant::now();
        let (code, folder) = server.wait();
        let took = began.elapsed();
        assert_eq!(code, Some(0));
        let log = folder.path().join("log");
        let to = Stdio::from(File::create(&log).unwrap());
        let server = TestServer::logging_to(folder, &[("DUEHOOK_LOG__LEVEL", "info")], to);
        assert!(!fs::read_to_string(&log).unwrap().contains("checking"), "the file was closed");
        let api = Api::of(&server);
        let began = Instant::now();
        api.quiet().await;
        assert!(began.elapsed() < BUSY, "what was cut off goes out again at once");
        assert_eq!(api.get(&id).await["outcome"], "delivered");
        let results = api.results(&id).await;
        assert_eq!(receiver.count(), results.len() as u64);
        (took, results)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t24_a_stop_waits_for_what_is_in_flight() {
    let scene = Scene::set(Duration::from_millis(1_500), &[]).await;
    scene.terminate().await;
    let (took, results) = scene.ended().await;
    println!("ended after {took:?}");
    assert_eq!(results, ["success"]);
}

/// C188: from the first signal on it is not ready, and lives; the second, of either kind, cuts off
/// what is in flight, and the file is closed all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c188_a_second_signal_cuts_it_off() {
    for second in [Signal::TERM, Signal::INT] {
        let scene = Scene::set(PATIENCE, &[]).await;
        let began = Instant::now();
        scene.terminate().await;
        assert!(began.elapsed() < BUSY, "that it is not ready is known at once");
        scene.api.admin("GET", "/healthz", "").await.expect(200);
        scene.server.signal(second);
        let (took, results) = scene.ended().await;
        println!("ended after {took:?}");
        assert!(took < BUSY, "{took:?}");
        assert_eq!(results, ["interrupted", "success"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_waits_no_longer_than_it_is_set_to() {
    let config = tempfile::NamedTempFile::new().unwrap();
    fs::write(config.path(), "shutdown_timeout = '500ms'").unwrap();
    let scene = Scene::set(PATIENCE, &[("DUEHOOK_CONFIG", config.path().to_str().unwrap())]).await;
    scene.terminate().await;
    let (took, results) = scene.ended().await;
    println!("ended after {took:?}");
    assert!(took < BUSY, "{took:?}");
    assert_eq!(results, ["interrupted", "success"]);
}

/// What waits at a receiver that answers to nobody does not delay an end: only what is in flight.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_does_not_wait_for_what_waits() {
    let receiver = Receiver::start(Script::List(vec![Answer::refuse("600")]), Record::Count).await.unwrap();
    let server = TestServer::start(Arc::new(TempDir::new().unwrap()), &[]);
    let api = Api::of(&server);
    api.destination("held", &receiver.url("/"), "").await;
    api.send("held", None, b"1".to_vec()).await.unwrap().expect(202);
    until("it waits", async || !api.list("state=delayed").await.is_empty()).await;
    let began = Instant::now();
    assert_eq!(server.stop().0, Some(0));
    assert!(began.elapsed() < BUSY);
}
