//! Whose the files are and what others can learn of the process: T68, and what a core file would hold.
#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use duehook::drill::receiver::{Receiver, Record, Script};
use serde_json::json;
use tempfile::TempDir;

use crate::TestServer;
use crate::api::{Api, until};
use crate::cli::duehook;
use crate::server::{data, serve};

/// A user with no rights, where the tests are root's.
const NOBODY: u32 = 65_534;

/// Every file below `folder` and its mode.
fn modes(folder: &Path) -> Vec<(PathBuf, u32)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        // What is renamed at this moment is there under its other name.
        let Ok(about) = fs::symlink_metadata(&path) else { continue };
        if about.is_dir() {
            found.extend(modes(&path));
        }
        found.push((path, about.mode() & 0o7777));
    }
    found
}

/// T68: whatever a server makes is its owner's alone.
#[tokio::test]
async fn t68_what_is_made_can_be_read_by_nobody_else() {
    let folder = Arc::new(TempDir::new().unwrap());
    let (copy, latest) = (folder.path().join("copy.redb"), folder.path().join("backup/latest.redb"));
    let server = TestServer::start(Arc::clone(&folder), &[("DUEHOOK_BACKUP__EVERY", "1s")]);
    let api = Api::of(&server);
    api.destination("shop", "http://127.0.0.1:9/", "").await;
    api.admin("POST", "/v1/backup", &json!({"path": copy}).to_string()).await.expect(201);
    until("there is a snapshot", async || latest.exists()).await;
    assert_eq!(server.stop().0, Some(0));
    let found = modes(folder.path());
    let open: Vec<_> = found.iter().filter(|(_, mode)| mode & 0o077 != 0).collect();
    assert!(open.is_empty(), "{open:?}");
    let made = |name: &str| found.iter().find(|(path, _)| path.ends_with(name)).map(|(_, mode)| *mode);
    for (name, mode) in [("duehook.redb", 0o600), ("duehook.redb.owner", 0o600), ("copy.redb", 0o600)] {
        assert_eq!(made(name), Some(mode), "{name}: {found:?}");
    }
    assert_eq!((made("backup"), made("latest.redb")), (Some(0o700), Some(0o600)), "{found:?}");
}

/// T68: a key that others can read is refused with what mends it, before there is a file.
#[test]
fn t68_a_key_that_others_can_read_is_refused() {
    let folder = TempDir::new().unwrap();
    let own = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("c.pem"), own.cert.pem()).unwrap();
    fs::write(path("k.pem"), own.signing_key.serialize_pem()).unwrap();
    std::os::unix::fs::symlink(path("k.pem"), path("link.pem")).unwrap();
    let mends = if rustix::process::getuid().is_root() { "chmod 640" } else { "chmod 600" };
    for (key, mode) in [("k.pem", 0o644), ("k.pem", 0o604), ("k.pem", 0o666), ("link.pem", 0o644)] {
        fs::set_permissions(path("k.pem"), Permissions::from_mode(mode)).unwrap();
        let (cert, key) = (path("c.pem").display().to_string(), path(key).display().to_string());
        let tls = [("DUEHOOK_ADMIN__TLS_CERT", &*cert), ("DUEHOOK_ADMIN__TLS_KEY", &key)];
        let free = [("DUEHOOK_ADMIN__LISTEN", "127.0.0.1:0"), ("DUEHOOK_INGEST__LISTEN", "127.0.0.1:0")];
        let data = data(folder.path()).display().to_string();
        let run = duehook(&["serve", "--data", &data], &[tls, free].concat(), b"");
        let says = format!("tls_key {key} is open to others (its mode is {mode:04o}): {mends} {key}");
        assert!(run.code == 78 && run.stderr.contains(&says), "{}: {}", run.code, run.stderr);
        assert!(!Path::new(&data).exists(), "there is a file");
    }
    // The settings hold digests of tokens and no secret: others may read them.
    let config = path("duehook.toml");
    fs::write(&config, "[send]\nslots = 7\n").unwrap();
    fs::set_permissions(&config, Permissions::from_mode(0o644)).unwrap();
    let run = duehook(&["check-config", "--config", &config.display().to_string()], &[], b"");
    assert_eq!(run.code, 0, "{}", run.stderr);
}

/// A server that is not root's, whoever runs the tests.
fn unprivileged(folder: &Arc<TempDir>, variables: &[(&str, &str)]) -> TestServer {
    let mut command = serve(folder.path(), variables);
    if rustix::process::getuid().is_root() {
        // Where it was built nobody else may be let in.
        let program = folder.path().join("program");
        fs::copy(env!("CARGO_BIN_EXE_duehook"), &program).unwrap();
        chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        let mut other = Command::new(program);
        let set = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
        other.arg("serve").envs(set).uid(NOBODY).gid(NOBODY);
        other.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped());
        command = other;
    }
    TestServer::spawn(Arc::clone(folder), command)
}

/// No core file, and nobody looks into the process; what it reads of itself it still can.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_leaves_no_core_file_and_is_closed_to_others() {
    let (folder, outbox) = (Arc::new(TempDir::new().unwrap()), TempDir::new().unwrap());
    let file = outbox.path().join("body");
    fs::write(&file, "a body").unwrap();
    fs::set_permissions(outbox.path(), Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let allow = format!("file://{}/", outbox.path().display());
    let server = unprivileged(&folder, &[("DUEHOOK_PAYLOAD_REFS__ALLOW", &allow)]);
    let limits = fs::read_to_string(format!("/proc/{}/limits", server.pid())).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().collect::<Vec<_>>()[4..6], ["0", "0"], "{core}");
    let owner = fs::metadata(format!("/proc/{}/environ", server.pid())).unwrap().uid();
    let user = fs::metadata(server.data()).unwrap().uid();
    assert!(owner == 0 && user != 0, "what its own user could read is root's: {owner}, {user}");
    let api = Api::of(&server);
    let figures = api.text("/metrics").await;
    for family in ["process_open_fds ", "process_resident_memory_bytes ", "process_cpu_seconds_total "] {
        assert!(figures.lines().any(|line| line.starts_with(family)), "{family}: {figures}");
    }
    let receiver = Receiver::start(Script::List(vec![]), Record::Bodies).await.unwrap();
    api.destination("shop", &receiver.url("/"), "").await;
    let body = json!({"destination": "shop", "payload_ref": format!("{allow}body")}).to_string();
    api.admin("POST", "/v1/deliveries", &body).await.expect(202);
    until("it was read and sent", async || receiver.count() == 1).await;
    assert_eq!(&receiver.received()[0].body[..], b"a body");
    assert_eq!(server.stop().0, Some(0));
}
