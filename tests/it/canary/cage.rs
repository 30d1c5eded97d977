//! A server with words in it that must not come out, and everything that came out of it.

use std::cell::RefCell;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use duehook::drill::receiver::{Answer as Reply, Received, Receiver, Record, Script};
use reqwest::header::{HeaderName, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::{Client, Method, StatusCode};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::{PATHS, Word, words};
use crate::TestServer;
use crate::cli::duehook;

/// Who asks, by the token that is shown.
pub(super) const OPS: &str = words::OPS;
pub(super) const READER: &str = words::READER;
pub(super) const PRODUCER: &str = words::PRODUCER;
/// Their names and scopes.
const TOKENS: [(&str, &str, &str); 3] =
    [(OPS, "ops", "\"admin\""), (READER, "reader", "\"read\""), (PRODUCER, "producer", "\"ingest\"")];

/// A running server, its receivers, and what went in and came out.
pub(super) struct Cage {
    server: Option<TestServer>,
    client: Client,
    folder: Arc<TempDir>,
    receiver: Receiver,
    /// A client's certificate and key, and a line of the key.
    pub(super) certificate: String,
    pub(super) key: String,
    pub(super) key_line: String,
    /// Everything that was given.
    given: RefCell<String>,
    /// Everything that came out, and where.
    seen: RefCell<Vec<(String, String)>>,
}

/// An answer, read whole.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) text: String,
}

impl Answer {
    #[track_caller]
    pub(super) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        serde_json::from_str(&self.text).unwrap_or(Value::Null)
    }
}

/// Everything says more than it should.
fn reply(request: &Received) -> Reply {
    let code = match request.path.split(['?', '/']).nth(1).unwrap() {
        "ok" => 200,
        "busy" => 429,
        "broken" => 500,
        "moved" => 307,
        "gone" => 410,
        "no" => 404,
        _ => return Reply::Drop,
    };
    let header = |name: &'static str, value: &'static str| {
        (HeaderName::from_static(name), HeaderValue::from_static(value))
    };
    let mut headers =
        vec![header("x-answer", words::ANSWER_HEADER), header("set-cookie", words::ANSWER_HEADER)];
    if code == 307 {
        let location = format!("http://127.0.0.1:9/{}", words::LOCATION);
        headers.push((LOCATION, HeaderValue::from_str(&location).unwrap()));
    }
    if code == 429 {
        headers.push((RETRY_AFTER, HeaderValue::from_static("3600")));
    }
    Reply::Reply { status: StatusCode::from_u16(code).unwrap(), headers, body: words::ANSWER.into() }
}

/// A config file in `folder`, and what it says.
fn config(folder: &Path) -> String {
    let token = |(text, id, scopes): (&str, &str, &str)| {
        let digest: String = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
        format!("[[token]]\nid = \"{id}\"\nsha256 = \"{digest}\"\nscopes = [{scopes}]\n")
    };
    let text = format!(
        "[log]\nlevel = \"trace\"\nformat = \"json\"\n[ingest]\nauth = \"token\"\n[admin]\nauth = \"token\"\n\
         [backup]\nevery = \"1s\"\n[retention]\ndelivered_payload = \"1d\"\n\
         [payload_refs]\nallow = [\"file://{}/\"]\n[policy.default]\nmin_delay = \"1s\"\n{}",
        folder.display(),
        TOKENS.map(token).concat()
    );
    let path = folder.join("duehook.toml");
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

impl Cage {
    pub(super) async fn start() -> Cage {
        let folder = Arc::new(TempDir::new().unwrap());
        let config = config(folder.path());
        fs::write(folder.path().join("body"), words::REFERRED).unwrap();
        for (text, id, _) in TOKENS.into_iter().chain([(words::STRANGER, "stranger", "")]) {
            fs::write(folder.path().join(id), text).unwrap();
            fs::set_permissions(folder.path().join(id), PermissionsExt::from_mode(0o600)).unwrap();
        }
        let log = Stdio::from(File::create(folder.path().join("log")).unwrap());
        let variables = [("DUEHOOK_CONFIG", &*config), ("DUEHOOK_LOG__LEVEL", "trace")];
        let server = TestServer::logging_to(Arc::clone(&folder), &variables, log);
        let receiver = Receiver::start(Script::Decide(Box::new(reply)), Record::Bodies).await.unwrap();
        let own = rcgen::generate_simple_self_signed(vec!["client".to_owned()]).unwrap();
        let key = own.signing_key.serialize_pem();
        let key_line = key.lines().nth(1).unwrap().to_owned();
        let given = [words::REFERRED, words::ANSWER, words::ANSWER_HEADER, words::LOCATION].join(" ");
        Cage {
            server: Some(server),
            client: Client::builder().no_proxy().build().unwrap(),
            folder,
            receiver,
            certificate: own.cert.pem(),
            key,
            key_line,
            given: RefCell::new(given),
            seen: RefCell::default(),
        }
    }

    fn server(&self) -> &TestServer {
        self.server.as_ref().unwrap()
    }

    /// A destination of this kind, with a secret in its path and in its query.
    pub(super) fn url(&self, path: &str) -> String {
        let secret = format!("/{path}/{}?key={}", words::PATH, words::QUERY);
        match path {
            "closed" => format!("http://127.0.0.1:9{secret}"),
            "plain" => self.receiver.url(&secret).replace("http://", "https://"),
            "unknown" => format!("https://no-such-host.invalid{secret}"),
            _ => self.receiver.url(&secret),
        }
    }

    pub(super) fn secret(&self, bytes: &str) -> String {
        format!("whsec_{}", base64(bytes))
    }

    pub(super) fn seed(&self, bytes: &str) -> String {
        format!("whsk_{}", base64(bytes))
    }

    pub(super) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    pub(super) fn reference(&self, name: &str) -> String {
        format!("file://{}", self.path(name))
    }

    /// The first line of an export that this server would take.
    pub(super) fn header(&self) -> String {
        r#"{"kind":"header","format":1,"server":"00000000000000000000000000000000","region":"local","fence":1,"created_at":"2026-01-15T12:00:00.000Z"}"#.to_owned()
    }

    pub(super) async fn ask(&self, who: &str, method: &str, path: &str, body: &Value) -> Answer {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        self.exchange(who, method, path, "application/json", text.into()).await
    }

    pub(super) async fn send(&self, who: &str, path: &str, kind: &str, body: Vec<u8>) -> Answer {
        self.exchange(who, "POST", path, kind, body).await
    }

    async fn exchange(&self, who: &str, method: &str, path: &str, kind: &str, body: Vec<u8>) -> Answer {
        let base = if who == PRODUCER { &self.server().ingest } else { &self.server().admin };
        let text = String::from_utf8_lossy(&body);
        *self.given.borrow_mut() += &format!("{who} {path} {kind} {text}\n");
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let mut request = self.client.request(method.clone(), format!("{base}{path}")).bearer_auth(who);
        if !body.is_empty() {
            request = request.header("content-type", kind).body(body);
        }
        let response = request.send().await.unwrap();
        let (status, head) = (response.status().as_u16(), format!("{:?}", response.headers()));
        let text = response.text().await.unwrap();
        let place = format!("{} {method} {}", name(who), path.split('?').next().unwrap());
        self.seen.borrow_mut().push((place, format!("{head}\n{text}")));
        Answer { status, text }
    }

    /// A command of this one; its exit code.
    pub(super) fn run(&self, who: &str, arguments: &[&str], input: &[u8]) -> i32 {
        *self.given.borrow_mut() += &format!("{arguments:?}\n");
        let (admin, token) = (&*self.server().admin, self.path(name(who)));
        let mut all = vec!["--token-file", &*token];
        if !arguments.contains(&"--admin") {
            all.extend(["--admin", admin]);
        }
        let run = duehook(&[&all, arguments].concat(), &[], input);
        let place = format!("cli {} {}", name(who), arguments.join(" "));
        // What was typed is known to who typed it: it is not to be in the place that is searched.
        let place = place.replace(words::REFUSED, "…");
        self.seen.borrow_mut().push((place, run.stdout + &run.stderr));
        run.code
    }

    /// What `check-config` says of settings; its exit code.
    pub(super) fn check_config(&self, text: &str) -> i32 {
        *self.given.borrow_mut() += text;
        let path = self.path("bad.toml");
        fs::write(&path, text).unwrap();
        let run = duehook(&["check-config", "--config", &path, "--json"], &[], b"");
        self.seen.borrow_mut().push(("check-config".to_owned(), run.stdout + &run.stderr));
        run.code
    }

    pub(super) async fn tried(&self, id: &str) -> bool {
        let path = format!("/v1/deliveries/{id}/attempts");
        let answer = self.ask(OPS, "GET", &path, &Value::Null).await.expect(200);
        !answer["data"].as_array().unwrap().is_empty()
    }

    /// True when so many have come to the one that takes them.
    pub(super) fn arrived(&self, count: usize) -> bool {
        self.receiver.received().iter().filter(|it| it.path.starts_with("/ok/")).count() >= count
    }

    /// What is kept inside really left by the one way that it has: to its receiver.
    pub(super) fn went_out(&self) {
        let received = self.receiver.received();
        let all: String = received
            .iter()
            .map(|it| format!("{} {:?} {}\n", it.path, visible(it), String::from_utf8_lossy(&it.body)))
            .collect();
        let sent =
            [words::PATH, words::QUERY, words::HEADER, words::OWN_HEADER, words::INLINE, words::BASE64];
        for word in sent.into_iter().chain([words::RAW, words::BATCH, words::REFERRED]) {
            assert!(all.contains(word), "{word} was not sent: {all}");
        }
        let signed = received.iter().filter(|it| it.header("webhook-signature").is_some()).count();
        assert_eq!(signed, received.len());
        for path in PATHS.iter().take(7) {
            assert!(received.iter().any(|it| it.path.starts_with(&format!("/{path}/"))), "{path}");
        }
    }

    /// The newest that came out there.
    pub(super) fn said(&self, place: &str) -> String {
        let seen = self.seen.borrow();
        let newest = seen.iter().rev().find(|(where_it_was, _)| where_it_was == place);
        newest.unwrap_or_else(|| panic!("nothing came out of {place}")).1.clone()
    }

    /// Ends the server; its log and the small files beside its data have come out, too.
    pub(super) fn stop(&mut self) {
        assert_eq!(self.server.take().unwrap().stop().0, Some(0));
        for name in ["log", "duehook.redb.owner"] {
            let text = fs::read_to_string(self.path(name)).unwrap();
            self.seen.borrow_mut().push((name.to_owned(), text));
        }
    }

    /// Fails when one of the words came out where it must not, never went in, or could not be found where
    /// it is allowed to be.
    pub(super) fn judge(&self, all: &[Word]) {
        let (given, seen) = (self.given.borrow(), self.seen.borrow());
        assert!(seen.len() > 150, "only {} things came out", seen.len());
        let mut wrong = Vec::new();
        for word in all {
            let forms = forms(&word.text);
            let inside = |text: &str| forms.iter().find_map(|form| text.find(&**form));
            let made = matches!(word.kind, super::Kind::Made);
            assert!(made || inside(&given).is_some(), "{word:?} never went in");
            let found: Vec<_> =
                seen.iter().filter_map(|(place, text)| Some((place, text, inside(text)?))).collect();
            let shown = matches!(word.kind, super::Kind::Url | super::Kind::Made);
            assert!(!shown || !found.is_empty(), "{word:?} is not found where it is shown");
            for (place, text, at) in found.into_iter().filter(|(place, ..)| !word.may_be(place)) {
                let around: String = text[..at].chars().rev().take(120).collect();
                let around: String = around.chars().rev().collect();
                wrong.push(format!("{} at {place}: …{around}▸", word.text));
            }
        }
        assert!(wrong.is_empty(), "{} leaks:\n{}", wrong.len(), wrong.join("\n"));
    }
}

/// Headers as they came, those that are marked secret included.
fn visible(it: &Received) -> Vec<(String, String)> {
    it.headers
        .iter()
        .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect()
}

fn name(who: &str) -> &'static str {
    TOKENS.iter().find(|(text, ..)| *text == who).map_or("stranger", |(_, id, _)| id)
}

pub(super) fn base64(text: &str) -> String {
    STANDARD.encode(text)
}

/// A word as it is, in hexadecimal, in base64 wherever in it, and as Rust prints its bytes.
pub(super) fn forms(word: &str) -> Vec<String> {
    let hex: String = word.bytes().map(|byte| format!("{byte:02x}")).collect();
    let printed: Vec<String> = word.bytes().map(|byte| byte.to_string()).collect();
    let base64 = (0..3).map(|before| {
        let text = STANDARD.encode([&vec![b' '; before], word.as_bytes()].concat());
        // What depends on the bytes before and behind it is cut off.
        let (from, to) = ([0, 2, 3][before], (before + word.len()) * 8 / 6);
        text[from..to].to_owned()
    });
    let whole = [word.to_owned(), hex.to_uppercase(), hex, printed.join(", ")];
    whole.into_iter().chain(base64).collect()
}

#[test]
fn a_word_is_found_in_every_form() {
    let found = |text: &str| forms("KnrWord4417").iter().any(|form| text.contains(form));
    for before in ["", "a", "ab", "abc"] {
        for behind in ["", "x", "xy"] {
            assert!(found(&base64(&format!("{before}KnrWord4417{behind}"))), "{before:?} {behind:?}");
        }
    }
    assert!(found(&format!("{:?}", b"KnrWord4417")));
    assert!(found("4b6e72576f726434343137") && found("4B6E72576F726434343137"));
    assert!(!found("KnrWord441") && !found(&base64("KnrWord441")));
}
