//! A small disk that fills up: nothing new is taken, what waits goes out, and room opens the door
//! again. And a disk that loses what it was given before it says so. On file systems of their own,
//! which only root can make.
#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use duehook::drill::receiver::{Answer, Receiver, Record, Script};
use serde_json::Value;
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::TestServer;
use crate::api::{Api, until};
use crate::server;
use crate::storage::{all_there, produce};

const MIB: u64 = 1 << 20;
/// Of 64 MiB: the ballast is 4 MiB then, and the disk is really full below 1 MiB.
const FLOOR: [(&str, &str); 1] = [("DUEHOOK_INGEST__MIN_FREE_DISK", "16MiB")];

/// A file system in RAM at a folder, gone with this.
struct Small {
    folder: Option<Arc<TempDir>>,
    at: PathBuf,
}

impl Small {
    /// None, with the reason printed, where it cannot be made.
    fn mount() -> Option<Small> {
        let folder = TempDir::new().unwrap();
        let mut mount = Command::new("mount");
        let made = mount.args(["-t", "tmpfs", "-o", "size=64m", "tmpfs"]).arg(folder.path()).output();
        match made {
            Ok(made) if made.status.success() => {
                Some(Small { at: folder.path().to_owned(), folder: Some(Arc::new(folder)) })
            }
            Ok(made) => {
                println!("skipped, no file system: {}", String::from_utf8_lossy(&made.stderr));
                None
            }
            Err(error) => {
                println!("skipped, no file system: {error}");
                None
            }
        }
    }

    fn folder(&self) -> Arc<TempDir> {
        Arc::clone(self.folder.as_ref().unwrap())
    }

    fn free(&self) -> u64 {
        let space = rustix::fs::statvfs(&self.at).unwrap();
        space.f_bavail * space.f_frsize
    }

    /// Leaves so much free, by a file of real blocks.
    fn leave(&self, free: u64) {
        let path = self.at.join("filler");
        drop(fs::remove_file(&path));
        let size = self.free() - free;
        let file = File::create(&path).unwrap();
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, size).unwrap();
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(&self.at).status());
    }
}

/// Runs a program of the system; false with what it said, when it fails.
fn run(program: &str, arguments: &[&str]) -> bool {
    match Command::new(program).args(arguments).output() {
        Ok(done) if done.status.success() => true,
        Ok(done) => {
            println!("{program}: {}", String::from_utf8_lossy(&done.stderr));
            false
        }
        Err(error) => {
            println!("{program}: {error}");
            false
        }
    }
}

/// ext4 on a device that promises more than there is: its blocks are a file on `under`.
struct Thin {
    under: Small,
    at: String,
    image: String,
}

impl Thin {
    /// None, with the reason printed, where it cannot be made.
    fn mount() -> Option<Thin> {
        let under = Small::mount()?;
        let place = |name: &str| under.at.join(name).to_str().unwrap().to_owned();
        let (at, image) = (place("mounted"), place("image"));
        fs::create_dir(&at).unwrap();
        File::create(&image).unwrap().set_len(256 * MIB).unwrap();
        let made = run("mkfs.ext4", &["-q", "-F", &image]) && run("mount", &["-o", "loop", &image, &at]);
        made.then_some(Thin { under, at, image })
    }

    /// What the page cache believes is gone, what the device has is left.
    fn mount_anew(&self) {
        assert!(run("umount", &[&self.at]) && run("mount", &["-o", "loop", &self.image, &self.at]));
    }
}

impl Drop for Thin {
    fn drop(&mut self) {
        run("umount", &["-l", &self.at]);
    }
}

fn ballast(folder: &Path) -> u64 {
    let mut path = server::data(folder).into_os_string();
    path.push(".ballast");
    fs::metadata(path).map_or(0, |file| file.len())
}

/// What a producer is told while there is no room.
async fn is_refused(api: &Api) {
    let low = api.send("shop", None, b"2".to_vec()).await.unwrap();
    assert_eq!((low.status, &low.json["code"]), (507, &"disk_low".into()), "{}", low.json);
    let lines = "{\"destination\":\"shop\",\"payload\":1}\n".repeat(2);
    let batch = api.batch(lines).await.unwrap();
    assert_eq!((batch.status, &batch.json["code"]), (507, &"disk_low".into()), "{}", batch.json);
    let repeat = api.send("shop", Some("k"), b"1".to_vec()).await.unwrap().expect(200);
    assert_eq!(repeat["duplicate"], true);
}

async fn ready(api: &Api) -> Value {
    api.admin("GET", "/readyz", "").await.json
}

async fn release(api: &Api) {
    api.admin("DELETE", "/v1/destinations/shop/hold", "").await.expect(200);
}

async fn hold(api: &Api) {
    let until = r#"{"until":"2999-01-01T00:00:00Z"}"#;
    api.admin("PUT", "/v1/destinations/shop/hold", until).await.expect(200);
}

/// A server with one delivery that waits, under the key `k`.
async fn scene(small: &Small, receiver: &Receiver) -> (TestServer, Api) {
    let server = TestServer::start(small.folder(), &FLOOR);
    let api = Api::of(&server);
    api.destination("shop", &receiver.url("/"), "").await;
    hold(&api).await;
    api.send("shop", Some("k"), b"1".to_vec()).await.unwrap().expect(202);
    until("the ballast is there", async || ballast(&small.at) == 4 * MIB).await;
    (server, api)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t09_t10_below_the_floor_nothing_is_taken_and_all_goes_out() {
    let Some(small) = Small::mount() else { return };
    let receiver = Receiver::start(Script::List(vec![Answer::status(204)]), Record::Count).await.unwrap();
    let (server, api) = scene(&small, &receiver).await;
    assert_eq!(ready(&api).await["checks"]["disk"], "ok");
    small.leave(12 * MIB);
    until("it is low", async || api.ready().await == 503).await;
    let told = ready(&api).await;
    assert!(told["checks"]["disk"].as_str().unwrap().starts_with("low: "), "{told}");
    assert_eq!(told["checks"]["ingest"], "disk_low");
    is_refused(&api).await;
    small.leave(17 * MIB);
    assert_eq!(api.ready().await, 503, "above the floor is not enough");
    small.leave(MIB / 2);
    until("the ballast is given up", async || ballast(&small.at) == 0).await;
    is_refused(&api).await;
    release(&api).await;
    api.quiet().await;
    assert_eq!(receiver.count(), 1);
    fs::remove_file(small.at.join("filler")).unwrap();
    until("it is ready", async || api.ready().await == 200).await;
    api.send("shop", None, b"2".to_vec()).await.unwrap().expect(202);
    until("the ballast is back", async || ballast(&small.at) == 4 * MIB).await;
    assert_eq!(server.stop().0, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c147_t08_a_disk_without_a_byte_can_be_opened_and_drained() {
    let Some(small) = Small::mount() else { return };
    let receiver = Receiver::start(Script::List(vec![Answer::status(204)]), Record::Count).await.unwrap();
    let (server, _) = scene(&small, &receiver).await;
    let folder = server.kill();
    small.leave(0);
    let server = TestServer::start(folder, &FLOOR);
    let api = Api::of(&server);
    assert_eq!(ballast(&small.at), 0);
    is_refused(&api).await;
    release(&api).await;
    api.quiet().await;
    assert_eq!(receiver.count(), 1);
    assert_eq!(server.stop().0, Some(0));
}

/// The write is taken, and only the sync after it says that it is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_failed_fsync_ends_the_process_and_loses_nothing() {
    const LARGE: usize = 100_000;
    let Some(thin) = Thin::mount() else { return };
    let folder = Arc::new(TempDir::new_in(&thin.at).unwrap());
    let server = TestServer::start(Arc::clone(&folder), &[]);
    let api = Api::of(&server);
    api.destination("shop", "http://127.0.0.1:9/", "").await;
    hold(&api).await;
    thin.under.leave(12 * MIB);
    let mut producers = JoinSet::new();
    for producer in 0..8 {
        producers.spawn(produce(api.clone(), producer, LARGE));
    }
    let taken = producers.join_all().await.into_iter().flatten().collect();
    assert_eq!(server.wait().0, Some(75));
    fs::remove_file(thin.under.at.join("filler")).unwrap();
    thin.mount_anew();
    let server = TestServer::start(folder, &[]);
    all_there(&Api::of(&server), &taken, LARGE).await;
    println!("{} were answered, and all are there", taken.len());
    assert!(taken.len() > 10, "{}", taken.len());
    assert_eq!(server.stop().0, Some(0));
}
