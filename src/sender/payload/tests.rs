//! Payloads from files, a web server and a bucket, and what is neither there nor readable.

use std::os::unix::fs::symlink;
use std::path::Path;

use hyper::StatusCode;
use hyper::header::{CONTENT_ENCODING, HeaderName, HeaderValue, LOCATION};
use tempfile::TempDir;

use super::*;
use crate::drill::receiver::{Answer, Receiver, Record, Script};

const MAX: usize = 10_000;

fn payloads(allow: &[String], timeout: Millis) -> Payloads {
    let allow = allow.iter().map(|text| text.parse().unwrap()).collect();
    Payloads::new(Settings { allow, timeout, max: MAX }, &Trust::only(&[])).unwrap()
}

async fn read(payloads: &Payloads, uri: &str) -> Result<Bytes, Fault> {
    payloads
        .read(&Referred { uri: uri.to_owned(), sha256: None, read: Read::default() })
        .await
        .map(|found| found.bytes)
}

/// What it comes to, in a word.
fn word<T>(read: &Result<T, Fault>) -> &'static str {
    match read {
        Ok(_) => "read",
        Err(Fault::Gone(_)) => "gone",
        Err(Fault::Unread(_)) => "unread",
    }
}

fn folder(of: &TempDir, name: &str) -> String {
    let path = of.path().join(name);
    std::fs::create_dir(&path).unwrap();
    path.display().to_string()
}

fn write(folder: &str, name: &str, bytes: &[u8]) {
    std::fs::write(Path::new(folder).join(name), bytes).unwrap();
}

/// The name of a store is looked up where those of destinations are, not on the runtime's threads.
#[test]
fn a_store_is_found_while_all_blocking_threads_hang() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(1).build().unwrap();
    let (free, hanging) = std::sync::mpsc::channel::<()>();
    runtime.spawn_blocking(move || hanging.recv());
    let got = runtime.block_on(async {
        let server = Receiver::start(Script::List(Vec::new()), Record::Count).await.unwrap();
        let at = format!("http://localhost:{}/", server.address().port());
        read(&payloads(std::slice::from_ref(&at), Millis(20_000)), &format!("{at}a")).await
    });
    drop(free);
    assert_eq!(got, Err(Fault::unread("localhost answered 204")));
}

#[tokio::test]
async fn files_below_the_folder_and_nothing_else() {
    let root = TempDir::new().unwrap();
    let (out, secret) = (folder(&root, "out"), folder(&root, "secret"));
    write(&out, "a b.json", b"{\"a\":1}");
    write(&out, "empty", b"");
    write(&out, "full", &[b'x'; MAX]);
    write(&out, "long", &[b'x'; MAX + 1]);
    write(&secret, "key", b"s3cret");
    symlink(Path::new(&secret).join("key"), Path::new(&out).join("link")).unwrap();
    symlink(&secret, Path::new(&out).join("dir")).unwrap();
    symlink("../out/empty", Path::new(&out).join("inside")).unwrap();
    symlink("loop", Path::new(&out).join("loop")).unwrap();
    let payloads = payloads(&[format!("file://{out}/")], Millis(5_000));
    let check = async |name: &str, want: &str| {
        let got = read(&payloads, &format!("file://{out}/{name}")).await;
        assert_eq!(word(&got), want, "{name}: {got:?}");
    };
    assert_eq!(read(&payloads, &format!("file://{out}/a%20b.json")).await, Ok(b"{\"a\":1}"[..].into()));
    for (name, want) in [
        ("empty", "read"),
        ("full", "read"),
        ("inside", "read"),
        ("long", "unread"),
        ("link", "unread"),
        ("dir/key", "unread"),
        ("dir", "unread"),
        ("loop", "unread"),
        ("missing", "gone"),
        ("missing/too", "gone"),
        ("empty/too", "gone"),
        ("../secret/key", "unread"),
        ("%2e%2e/secret/key", "unread"),
    ] {
        check(name, want).await;
    }
}

/// A pipe has no end, a folder no bytes; a prefix that is not mounted may come back.
#[tokio::test]
async fn what_is_no_file_is_not_waited_for() {
    let root = TempDir::new().unwrap();
    let out = folder(&root, "out");
    let pipe = Path::new(&out).join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let prefixes = [format!("file://{out}/"), format!("file://{out}-unmounted/")];
    let payloads = payloads(&prefixes, Millis(60_000));
    for name in [format!("{out}/pipe"), format!("{out}-unmounted/a")] {
        let got = read(&payloads, &format!("file://{name}")).await;
        assert_eq!(word(&got), "unread", "{name}: {got:?}");
    }
    let got = read(&payloads, "file:///etc/hostname").await;
    assert_eq!(word(&got), "unread", "{got:?}");
}

#[tokio::test]
async fn a_digest_that_is_known_must_be_that_of_the_bytes() {
    let root = TempDir::new().unwrap();
    let out = folder(&root, "out");
    write(&out, "a", b"first");
    let payloads = payloads(&[format!("file://{out}/")], Millis(5_000));
    let read = async |sha256| {
        payloads.read(&Referred { uri: format!("file://{out}/a"), sha256, read: Read::default() }).await
    };
    let first = read(None).await.unwrap().sha256;
    assert_eq!(first, digest(b"first"));
    assert_eq!(word(&read(Some(first)).await), "read");
    write(&out, "a", b"other");
    assert_eq!(word(&read(Some(first)).await), "gone");
}

fn reply(status: u16, headers: &[(HeaderName, &str)], body: &[u8]) -> Answer {
    let header = |(name, value): &(HeaderName, &str)| (name.clone(), HeaderValue::from_str(value).unwrap());
    Answer::Reply {
        status: StatusCode::from_u16(status).unwrap(),
        headers: headers.iter().map(header).collect(),
        body: Bytes::copy_from_slice(body),
    }
}

/// Each path its answer.
fn shelf(path: &str) -> Answer {
    match path {
        "/out/a" => reply(200, &[], b"{}"),
        "/out/empty" => reply(200, &[], b""),
        "/out/long" => reply(200, &[], &[b'x'; MAX + 1]),
        "/out/endless" => Answer::Endless,
        "/out/encoded" => reply(200, &[(CONTENT_ENCODING, "gzip")], b"{}"),
        "/out/moved" => reply(302, &[(LOCATION, "/out/a")], b""),
        "/out/dropped" => Answer::Drop,
        "/out/late" => reply(200, &[], b"{}").after(std::time::Duration::from_secs(30)),
        "/out/410" => reply(410, &[], b""),
        "/out/404" => reply(404, &[], b""),
        "/out/403" => reply(403, &[], b""),
        "/out/503" => reply(503, &[], b""),
        "/out/206" => reply(206, &[], b"{}"),
        _ => reply(500, &[], b""),
    }
}

#[tokio::test]
async fn a_web_server_is_asked_once_and_for_the_whole() {
    let decide = Script::Decide(Box::new(|request| shelf(&request.path)));
    let store = Receiver::start(decide, Record::Digests).await.unwrap();
    let payloads = payloads(&[store.url("/out/")], Millis(300));
    let cases = [
        ("a", "read"),
        ("empty", "read"),
        ("long", "unread"),
        ("endless", "unread"),
        ("encoded", "unread"),
        ("moved", "unread"),
        ("dropped", "unread"),
        ("late", "unread"),
        ("410", "gone"),
        ("404", "gone"),
        ("403", "unread"),
        ("503", "unread"),
        ("206", "unread"),
    ];
    for (name, want) in cases {
        let got = read(&payloads, &store.url(&format!("/out/{name}"))).await;
        assert_eq!(word(&got), want, "{name}: {got:?}");
    }
    let asked = store.received();
    assert_eq!(asked.len(), cases.len(), "one question each");
    for request in &asked {
        assert_eq!(request.method, "GET");
        assert_eq!(request.header("user-agent"), Some(crate::sign::USER_AGENT));
        assert_eq!((request.header("authorization"), request.header("accept-encoding")), (None, None));
    }
    assert_eq!(read(&payloads, &store.url("/out/a")).await, Ok(b"{}"[..].into()));
}

#[tokio::test]
async fn room_comes_back_and_a_wait_for_it_ends() {
    let root = TempDir::new().unwrap();
    let out = folder(&root, "out");
    write(&out, "a", b"x");
    let payloads = payloads(&[format!("file://{out}/")], Millis(200));
    let referred = Referred { uri: format!("file://{out}/a"), sha256: None, read: Read::default() };
    let all = payloads.room.available_permits();
    let held = payloads.read(&referred).await.unwrap();
    assert_eq!(payloads.room.available_permits(), all - 1, "as much as it is long");
    drop(held);
    assert_eq!(payloads.room.available_permits(), all);
    let _full = Arc::clone(&payloads.room).acquire_many_owned(u32::try_from(all).unwrap()).await.unwrap();
    assert_eq!(word(&payloads.read(&referred).await), "unread");
}

#[tokio::test]
async fn without_prefixes_nothing_is_read() {
    let payloads = payloads(&[], Millis(5_000));
    for uri in ["file:///etc/hostname", "http://127.0.0.1:1/x", "s3://bucket/x", ""] {
        assert_eq!(word(&read(&payloads, uri).await), "unread", "{uri}");
    }
}
