//! The command line as a process: exit codes, what goes to which stream, and how answers of an
//! admin listener are shown. The listener is a scripted one that speaks API.md's words.

mod shown;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

/// What came of a run of the binary.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs the binary with these arguments, our variables, and input.
pub(crate) fn duehook(arguments: &[&str], variables: &[(&str, &str)], input: &[u8]) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_duehook"));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("DUEHOOK_")) {
        command.env_remove(name);
    }
    let mut child = command.envs(variables.iter().copied()).spawn().expect("the binary runs");
    // A command that reads no input may have closed it already.
    let _closed = child.stdin.take().expect("piped").write_all(input);
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Run {
        code: output.status.code().expect("not killed"),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// One request as the scripted listener read it.
#[derive(Debug)]
struct Asked {
    /// Method and target.
    line: String,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

/// Answers one connection each, in order: status and body.
struct Listener {
    url: String,
    asked: Receiver<Asked>,
    _thread: JoinHandle<()>,
}

fn listener(answers: &'static [(u16, &'static str)]) -> Listener {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", socket.local_addr().expect("bound"));
    let (tell, asked) = channel();
    let thread = std::thread::spawn(move || {
        for (status, body) in answers {
            let (stream, _) = socket.accept().expect("a connection");
            let (asked, stream) = read(stream);
            // Told before it is answered: once the client has ended, all that it asked is known.
            tell.send(asked).expect("the test listens");
            answer(stream, *status, body);
        }
    });
    Listener { url, asked, _thread: thread }
}

fn read(stream: TcpStream) -> (Asked, TcpStream) {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a head");
        match line.trim_end() {
            "" => break,
            text => lines.push(text.to_owned()),
        }
    }
    let split = |line: &String| line.split_once(": ").map(|(n, v)| (n.to_ascii_lowercase(), v.to_owned()));
    let headers: BTreeMap<String, String> = lines[1..].iter().filter_map(split).collect();
    let length = headers.get("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut read = vec![0; length];
    reader.read_exact(&mut read).expect("a body");
    let line = lines[0].trim_end_matches(" HTTP/1.1").to_owned();
    (Asked { line, headers, body: read }, reader.into_inner())
}

fn answer(mut stream: TcpStream, status: u16, body: &str) {
    let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes()).expect("written");
}

const DELIVERY: &str = r#"{"id":"dlv_01","tenant":"acme","destination":"shop-eu","class":"routine","region":"eu",
 "idempotency_key":"k1","state":"delayed","outcome":null,"cancelling":false,"attempts":2,"throttles":1,
 "failures":1,"created_at":"2020-01-15T12:00:00.000Z","first_attempt_at":null,
 "next_attempt_at":"2999-01-15T12:00:00.000Z","next_reason":"rate_limited",
 "expires_at":"2999-01-18T12:00:00.000Z","held_until":null,"finished_at":null,"lease":null,
 "last":{"n":2,"result":"rate_limited","status":429,"error":null,"at":"2020-01-15T12:00:01.000Z"},
 "payload":{"kind":"inline","bytes":812,"sha256":"00","content_type":"application/json","erased_at":null},
 "labels":{"order":"7"},"of_a_later_version":1}"#;
const NOT_FOUND: &str = r#"{"type":"urn:duehook:problem:not_found","title":"not found","status":404,"detail":"there is no delivery of this id","code":"not_found"}"#;
const UNKNOWN: &str = r#"{"type":"urn:duehook:problem:destination_unknown","title":"no such destination","status":404,"code":"destination_unknown"}"#;
const INVALID: &str = r#"{"type":"urn:duehook:problem:invalid","title":"invalid","status":422,"detail":"a field is wrong","code":"invalid","errors":[{"field":"limit","detail":"at most 1000"}]}"#;
const JOB: &str = r#"{"id":"job_01","action":"cancel","filter":{"tenant":["acme"],"state":["ready","delayed"]},"dry_run":false,"rate_per_second":50,"state":"running","matched":12,"changed":10,"skipped":2,"created_at":"2020-01-15T12:00:00.000Z","finished_at":null,"by":"token:ops","of_a_later_version":1}"#;
const STOPPED: &str = r#"{"id":"job_01","action":"cancel","filter":{"tenant":["acme"]},"state":"stopped","matched":3,"changed":3,"skipped":0}"#;
const CHANGED: &str = r#"{"type":"urn:duehook:problem:count_changed","title":"T","status":409,"detail":"8 deliveries match, and 7 were expected","code":"count_changed","errors":[{"field":"expected_count","detail":"8 deliveries match, and 7 were expected"}]}"#;
const WAITING: &str = r#"{"type":"urn:duehook:problem:work_waiting","title":"work waits","status":409,"detail":"3 deliveries wait for it","code":"work_waiting"}"#;
const DESTINATION: &str = r#"{"id":"shop-eu","tenant":"acme","url":"https://a.example/","concurrency":{"max":8,"adaptive":true},"rate":{"per_second":0.5,"burst":3},"state":"paused","state_reason":"noon","in_flight":1,"limit":4,"waiting":3}"#;

/// One run against a listener: its code, parts of what it printed, and what it asked for.
struct Case {
    arguments: &'static [&'static str],
    answers: &'static [(u16, &'static str)],
    code: i32,
    stdout: &'static [&'static str],
    stderr: &'static [&'static str],
    asked: &'static [&'static str],
}

fn check(case: &Case) {
    let Case { arguments, answers, code, stdout, stderr, asked } = case;
    let listener = listener(answers);
    let run = duehook(&[&["--admin", &listener.url], *arguments].concat(), &[], b"from standard input");
    let story = format!("{arguments:?}\nstdout: {}\nstderr: {}", run.stdout, run.stderr);
    assert_eq!(run.code, *code, "{story}");
    for part in *stdout {
        assert!(run.stdout.contains(part), "no {part:?} in {story}");
    }
    for part in *stderr {
        assert!(run.stderr.contains(part), "no {part:?} in {story}");
    }
    assert!(stderr.is_empty() == run.stderr.is_empty(), "{story}");
    let got: Vec<Asked> = listener.asked.try_iter().collect();
    let lines: Vec<&str> = got.iter().map(|one| one.line.as_str()).collect();
    assert_eq!(lines, *asked, "{story}");
    for one in got.iter().filter(|one| !one.line.starts_with("GET") && !one.body.is_empty()) {
        assert!(one.headers.contains_key("content-type"), "{one:?}");
    }
}

#[test]
fn one_delivery_for_people_and_for_programs() {
    let get = &["GET /v1/deliveries/dlv_01"];
    check(&Case {
        arguments: &["get", "dlv_01"],
        answers: &[(200, DELIVERY)],
        code: 0,
        stdout: &[
            "state         delayed\n",
            "2 (1 rate limited, 1 failed)",
            "rate_limited 429",
            "label         order: 7",
            "812 bytes",
        ],
        stderr: &[],
        asked: get,
    });
    check(&Case {
        arguments: &["get", "dlv_01", "--json"],
        answers: &[(200, DELIVERY)],
        code: 0,
        stdout: &["\"of_a_later_version\":1"],
        stderr: &[],
        asked: get,
    });
    check(&Case {
        arguments: &["get", "dlv_01"],
        answers: &[(404, NOT_FOUND)],
        code: 3,
        stdout: &[],
        stderr: &["duehook: there is no delivery of this id (404 not_found)"],
        asked: get,
    });
    check(&Case {
        arguments: &["get", "dlv_01", "--json"],
        answers: &[(404, NOT_FOUND)],
        code: 3,
        stdout: &[],
        stderr: &[NOT_FOUND],
        asked: get,
    });
    check(&Case {
        arguments: &["get", "../x?y"],
        answers: &[(404, NOT_FOUND)],
        code: 3,
        stdout: &[],
        stderr: &["not_found"],
        asked: &["GET /v1/deliveries/..%2Fx%3Fy"],
    });
    check(&Case {
        arguments: &["get", "dlv_01"],
        answers: &[(200, "<html>")],
        code: 1,
        stdout: &[],
        stderr: &["is not duehook's admin listener"],
        asked: get,
    });
}

#[test]
fn lists_go_on_over_pages_that_are_short_or_empty() {
    check(&Case {
        arguments: &["ls", "--state", "ready,delayed", "--order=-created"],
        answers: &[
            (200, r#"{"data":[{"id":"dlv_1","state":"ready"}],"next_cursor":"c1"}"#),
            (200, r#"{"data":[],"next_cursor":"c2"}"#),
            (200, r#"{"data":[{"id":"dlv_2","state":"leased"}],"next_cursor":null}"#),
        ],
        code: 0,
        stdout: &["ID     STATE", "dlv_1  ready", "dlv_2  leased"],
        stderr: &[],
        asked: &[
            "GET /v1/deliveries?state=ready%2Cdelayed&order=-created&limit=50",
            "GET /v1/deliveries?state=ready%2Cdelayed&order=-created&limit=49&cursor=c1",
            "GET /v1/deliveries?state=ready%2Cdelayed&order=-created&limit=49&cursor=c2",
        ],
    });
    check(&Case {
        arguments: &["ls", "--json", "--limit", "2"],
        answers: &[(200, r#"{"data":[{"id":"a","x":1},{"id":"b"}],"next_cursor":"more"}"#)],
        code: 0,
        stdout: &["{\"id\":\"a\",\"x\":1}\n{\"id\":\"b\"}\n"],
        stderr: &[],
        asked: &["GET /v1/deliveries?limit=2"],
    });
    check(&Case {
        arguments: &["ls"],
        answers: &[(200, r#"{"data":[],"next_cursor":null}"#)],
        code: 0,
        stdout: &["no deliveries"],
        stderr: &[],
        asked: &["GET /v1/deliveries?limit=50"],
    });
    check(&Case {
        arguments: &["ls", "--all"],
        answers: &[(422, INVALID)],
        code: 1,
        stdout: &[],
        stderr: &["a field is wrong\n  limit: at most 1000 (422 invalid)"],
        asked: &["GET /v1/deliveries?limit=1000"],
    });
}

/// A name that nothing has matches nothing: that is said, with the names that are near.
#[test]
fn a_filter_names_a_destination_that_is_there() {
    const NONE: &str = r#"{"data":[],"next_cursor":null}"#;
    const NAMES: &str = r#"{"data":[{"id":"demo"},{"id":"billing"}],"next_cursor":null}"#;
    check(&Case {
        arguments: &["ls", "--destination", "dmo"],
        answers: &[(200, NONE), (404, UNKNOWN), (200, NAMES)],
        code: 3,
        stdout: &[],
        stderr: &["did you mean demo?"],
        asked: &[
            "GET /v1/deliveries?destination=dmo&limit=50",
            "GET /v1/destinations/dmo",
            "GET /v1/destinations?limit=1000",
        ],
    });
    check(&Case {
        arguments: &["ls", "--destination", "shop-eu"],
        answers: &[(200, NONE), (200, DESTINATION)],
        code: 0,
        stdout: &["no deliveries"],
        stderr: &[],
        asked: &["GET /v1/deliveries?destination=shop-eu&limit=50", "GET /v1/destinations/shop-eu"],
    });
    // A destination that was deleted may have left deliveries behind: first what matches is asked.
    check(&Case {
        arguments: &["bulk", "start", "retry", "--destination", "dmo", "--dry-run"],
        answers: &[(200, r#"{"count":0}"#), (404, UNKNOWN), (200, NAMES)],
        code: 3,
        stdout: &[],
        stderr: &["did you mean demo?"],
        asked: &["POST /v1/bulk", "GET /v1/destinations/dmo", "GET /v1/destinations?limit=1000"],
    });
}

/// `drain && export` goes on only when nothing is on its way any more.
#[test]
fn a_drain_that_is_not_over_has_failed() {
    const HELD: &str = r#"{"claims":"drained","leases_held":2,"fence":3}"#;
    for (arguments, stdout) in
        [(&["drain", "--wait", "1s"][..], "fence 3"), (&["drain", "--json"], "leases_held")]
    {
        let listener = listener(&[(200, HELD)]);
        let run = duehook(&[&["--admin", &listener.url], arguments].concat(), &[], b"");
        assert_eq!(run.code, 1, "{arguments:?}: {}", run.stderr);
        assert!(run.stdout.contains(stdout), "{}", run.stdout);
        assert!(run.stderr.contains("2 requests are still in flight"), "{}", run.stderr);
    }
}

#[test]
fn why_and_what_was_tried() {
    check(&Case {
        arguments: &["explain", "dlv_01"],
        answers: &[(
            200,
            r#"{"verdict":"waiting","summary":"its destination is held","blocked_by":[{"kind":"destination_hold","until":"2020-01-15T12:00:00.000Z","detail":"rate_limited"}],"earliest":"2020-01-15T12:00:00.000Z","ahead":7}"#,
        )],
        code: 0,
        stdout: &["waiting: its destination is held", "destination_hold (ends", "ahead of it  7"],
        stderr: &[],
        asked: &["GET /v1/deliveries/dlv_01/explain"],
    });
    check(&Case {
        arguments: &["attempts", "dlv_01"],
        answers: &[(
            200,
            r#"{"data":[{"n":1,"started_at":"2020-01-15T12:00:00.000Z","result":"rate_limited","sent":"yes","status":429,"retry_after":{"raw":"6","kind":"seconds","asked_ms":6000,"applied_ms":6000,"clamped":null}}],"next_cursor":null}"#,
        )],
        code: 0,
        stdout: &["rate_limited", "429", "6 → 6 s"],
        stderr: &[],
        asked: &["GET /v1/deliveries/dlv_01/attempts"],
    });
}

#[test]
fn who_has_most() {
    check(&Case {
        arguments: &["stats", "--destinations", "--sort", "oldest", "--limit", "3"],
        answers: &[
            (
                200,
                r#"{"data":[{"destination":"shop","tenant":"acme","state":"active","waiting":9,"held":8,"in_flight":1,"oldest_due_at":"2020-01-15T12:00:00.000Z","hold_until":null,"failing_since":null}],"next_cursor":"1"}"#,
            ),
            (
                200,
                r#"{"data":[{"destination":"till","tenant":"acme","state":"paused","waiting":2,"held":2,"in_flight":0,"oldest_due_at":null,"hold_until":null,"failing_since":null}],"next_cursor":null}"#,
            ),
        ],
        code: 0,
        stdout: &[
            "DESTINATION  TENANT  STATE   WAITING  HELD  IN FLIGHT  OLDEST DUE",
            "shop         acme    active  9        8     1          ",
            "till         acme    paused  2        2     0          -",
        ],
        stderr: &[],
        asked: &[
            "GET /v1/stats/destinations?limit=3&sort=oldest",
            "GET /v1/stats/destinations?limit=2&sort=oldest&cursor=1",
        ],
    });
    check(&Case {
        arguments: &["stats", "--tenants"],
        answers: &[(
            200,
            r#"{"data":[{"tenant":"acme","destinations":2,"waiting":11,"held":10,"in_flight":1,"oldest_due_at":null}],"next_cursor":null}"#,
        )],
        code: 0,
        stdout: &[
            "TENANT  DESTINATIONS  WAITING  HELD  IN FLIGHT  OLDEST DUE\nacme    2             11       10    1          -",
        ],
        stderr: &[],
        asked: &["GET /v1/stats/tenants?limit=50"],
    });
    check(&Case {
        arguments: &["stats", "--tenants", "--json"],
        answers: &[(200, r#"{"data":[{"tenant":"a"},{"tenant":"b"}],"next_cursor":null}"#)],
        code: 0,
        stdout: &["{\"tenant\":\"a\"}\n{\"tenant\":\"b\"}\n"],
        stderr: &[],
        asked: &["GET /v1/stats/tenants?limit=50"],
    });
}

#[test]
fn what_erases_wants_to_be_confirmed() {
    check(&Case {
        arguments: &["erase", "dlv_01"],
        answers: &[],
        code: 4,
        stdout: &[],
        stderr: &["nobody confirmed it", "--yes"],
        asked: &[],
    });
    check(&Case {
        arguments: &["erase", "dlv_01", "dlv_02", "--yes"],
        answers: &[(204, ""), (204, "")],
        code: 0,
        stdout: &["dlv_01: erased\ndlv_02: erased\n"],
        stderr: &[],
        asked: &["DELETE /v1/deliveries/dlv_01/payload", "DELETE /v1/deliveries/dlv_02/payload"],
    });
}

#[test]
fn what_loses_work_wants_to_be_confirmed() {
    check(&Case {
        arguments: &["cancel", "dlv_01"],
        answers: &[],
        code: 4,
        stdout: &[],
        stderr: &["nobody confirmed it", "--yes"],
        asked: &[],
    });
    check(&Case {
        arguments: &["cancel", "dlv_01", "--yes"],
        answers: &[(200, DELIVERY)],
        code: 0,
        stdout: &["dlv_01"],
        stderr: &[],
        asked: &["POST /v1/deliveries/dlv_01/cancel"],
    });
    check(&Case {
        arguments: &["retry", "dlv_01"],
        answers: &[(200, DELIVERY)],
        code: 0,
        stdout: &["dlv_01"],
        stderr: &[],
        asked: &["POST /v1/deliveries/dlv_01/retry"],
    });
    check(&Case {
        arguments: &["dest", "rm", "shop-eu"],
        answers: &[(409, WAITING)],
        code: 4,
        stdout: &[],
        stderr: &["3 deliveries wait for it", "--yes"],
        asked: &["DELETE /v1/destinations/shop-eu"],
    });
    check(&Case {
        arguments: &["dest", "rm", "shop-eu", "--yes"],
        answers: &[(409, WAITING), (202, r#"{"id":"job"}"#)],
        code: 0,
        stdout: &["being cancelled"],
        stderr: &[],
        asked: &["DELETE /v1/destinations/shop-eu", "DELETE /v1/destinations/shop-eu?waiting=cancel"],
    });
    check(&Case {
        arguments: &["dest", "rm", "shop-eu"],
        answers: &[(204, "")],
        code: 0,
        stdout: &["shop-eu removed"],
        stderr: &[],
        asked: &["DELETE /v1/destinations/shop-eu"],
    });
}

/// A job destroys work: nobody who did not confirm it begins one, a retry neither.
#[test]
fn bulk_jobs_are_confirmed_and_begun() {
    let start = |arguments, answers, code, stdout, stderr, asked| {
        check(&Case { arguments, answers, code, stdout, stderr, asked });
    };
    let post = &["POST /v1/bulk"];
    start(
        &["bulk", "start", "cancel", "--tenant", "acme"],
        &[],
        4,
        &[],
        &["nobody confirmed it", "--yes"],
        &[],
    );
    start(&["bulk", "start", "retry", "--tenant", "acme"], &[], 4, &[], &["--yes"], &[]);
    start(&["bulk", "start", "retry", "--yes"], &[], 2, &[], &["say which deliveries"], &[]);
    start(&["bulk", "start", "delete", "--tenant", "acme"], &[], 2, &[], &["retry, cancel, erase"], &[]);
    let dry: &[&str] = &["bulk", "start", "retry", "--outcome", "exhausted", "--dry-run"];
    start(dry, &[(200, r#"{"count":7}"#)], 0, &["7 deliveries match; nothing was changed"], &[], post);
    start(dry, &[(202, JOB)], 0, &["job_01: runs now", "bulk get job_01"], &[], post);
    let run: &[&str] = &["bulk", "start", "cancel", "--tenant", "acme", "--expect", "7", "--yes"];
    start(run, &[(202, JOB)], 0, &["bulk stop job_01"], &[], post);
    start(run, &[(409, CHANGED)], 4, &[], &["7 were expected (409 count_changed)"], post);
}

#[test]
fn what_a_job_is_asked_for_is_what_was_typed() {
    let listener = listener(&[(202, JOB)]);
    let run = duehook(
        &[
            "--admin",
            &listener.url,
            "bulk",
            "start",
            "erase",
            "--label",
            "a:b,c",
            "--last-status",
            "429,503",
            "--rate",
            "50",
            "--expect",
            "3",
            "--yes",
            "--json",
        ],
        &[],
        b"",
    );
    assert_eq!((run.code, run.stdout.trim_end()), (0, JOB), "{}", run.stderr);
    let asked = listener.asked.recv().expect("it asked");
    let body: serde_json::Value = serde_json::from_slice(&asked.body).expect("JSON");
    let want = serde_json::json!({"action": "erase", "expected_count": 3, "rate_per_second": 50,
                                  "filter": {"label": "a:b,c", "last_status": [429, 503]}});
    assert_eq!(body, want);
}

#[test]
fn bulk_jobs_are_shown_and_stopped() {
    check(&Case {
        arguments: &["bulk", "ls"],
        answers: &[(200, r#"{"data":[],"next_cursor":null}"#)],
        code: 0,
        stdout: &["no jobs"],
        stderr: &[],
        asked: &["GET /v1/bulk?limit=1000"],
    });
    check(&Case {
        arguments: &["bulk", "get", "job_01"],
        answers: &[(200, JOB)],
        code: 0,
        stdout: &["state=ready,delayed tenant=acme", "50 a second", "changed  10\n", "token:ops"],
        stderr: &[],
        asked: &["GET /v1/bulk/job_01"],
    });
    check(&Case {
        arguments: &["bulk", "start", "cancel", "--tenant", "acme", "--yes", "--wait", "--json"],
        answers: &[(202, JOB), (200, JOB), (200, STOPPED)],
        code: 1,
        stdout: &[STOPPED],
        stderr: &["job_01 was stopped before its end"],
        asked: &["POST /v1/bulk", "GET /v1/bulk/job_01", "GET /v1/bulk/job_01"],
    });
    check(&Case {
        arguments: &["bulk", "stop", "job_01", "--json"],
        answers: &[(200, JOB)],
        code: 0,
        stdout: &["of_a_later_version"],
        stderr: &[],
        asked: &["DELETE /v1/bulk/job_01"],
    });
    check(&Case {
        arguments: &["bulk", "get", "job_02"],
        answers: &[(404, NOT_FOUND)],
        code: 3,
        stdout: &[],
        stderr: &["404"],
        asked: &["GET /v1/bulk/job_02"],
    });
}

#[test]
fn destinations_are_changed_or_made() {
    check(&Case {
        arguments: &["dest", "set", "shop-eu", "--concurrency", "4", "--rate", "0.5", "--adaptive"],
        answers: &[(200, DESTINATION)],
        code: 0,
        stdout: &["4 of 8", "adaptive   yes", "0.5 a second, burst 3"],
        stderr: &[],
        asked: &["PATCH /v1/destinations/shop-eu"],
    });
    check(&Case {
        arguments: &["dest", "set", "new", "--tenant", "acme", "--url", "https://a.example/"],
        answers: &[(404, UNKNOWN), (201, DESTINATION)],
        code: 0,
        stdout: &["acme"],
        stderr: &[],
        asked: &["PATCH /v1/destinations/new", "PUT /v1/destinations/new"],
    });
    for verb in ["pause", "resume", "enable", "disable"] {
        let listener = listener(&[(200, DESTINATION)]);
        let run = duehook(&["--admin", &listener.url, "dest", verb, "a", "--reason", "noon"], &[], b"");
        assert_eq!(run.code, 0, "{}", run.stderr);
        let asked = listener.asked.recv().expect("one request");
        assert_eq!(asked.line, format!("POST /v1/destinations/a/{verb}"));
        assert_eq!(asked.body, br#"{"reason":"noon"}"#);
    }
    check(&Case {
        arguments: &["dest", "hold", "a", "--for", "10m"],
        answers: &[(200, DESTINATION)],
        code: 0,
        stdout: &["shop-eu"],
        stderr: &[],
        asked: &["PUT /v1/destinations/a/hold"],
    });
    check(&Case {
        arguments: &["dest", "release", "a", "--json"],
        answers: &[(204, "")],
        code: 0,
        stdout: &["\"hold_until\":null"],
        stderr: &[],
        asked: &["DELETE /v1/destinations/a/hold"],
    });
    check(&Case {
        arguments: &["dest", "pause", "shop-ue"],
        answers: &[
            (404, UNKNOWN),
            (200, r#"{"data":[{"id":"shop-eu"},{"id":"billing"}],"next_cursor":null}"#),
        ],
        code: 3,
        stdout: &[],
        stderr: &["did you mean shop-eu?"],
        asked: &["POST /v1/destinations/shop-ue/pause", "GET /v1/destinations?limit=1000"],
    });
    check(&Case {
        arguments: &["dest", "ls", "--tenant", "acme"],
        answers: &[(
            200,
            r#"{"data":[{"id":"shop-eu","tenant":"acme","state":"active"}],"next_cursor":null}"#,
        )],
        code: 0,
        stdout: &["shop-eu  acme    active"],
        stderr: &[],
        asked: &["GET /v1/destinations?limit=1000&tenant=acme"],
    });
}

const TAKEN: &str = r#"{"n":1,"result":"success","sent":"yes","status":204,"late":false}"#;
const NOT_TAKEN: &str =
    r#"{"n":1,"result":"connect","sent":"no","status":null,"error":"a.example: refused","late":false}"#;

#[test]
fn a_set_up_is_tried_and_secrets_are_changed() {
    check(&Case {
        arguments: &["dest", "test", "shop-eu"],
        answers: &[(200, TAKEN)],
        code: 0,
        stdout: &["success", "204"],
        stderr: &[],
        asked: &["POST /v1/destinations/shop-eu/test"],
    });
    check(&Case {
        arguments: &["dest", "test", "shop-eu"],
        answers: &[(200, NOT_TAKEN)],
        code: 1,
        stdout: &["a.example: refused"],
        stderr: &["shop-eu: no answer to the test (connect)"],
        asked: &["POST /v1/destinations/shop-eu/test"],
    });
    check(&Case {
        arguments: &["dest", "rotate", "shop-eu", "--overlap", "0s"],
        answers: &[(200, r#"{"id":"shop-eu","secret":"whsec_abc"}"#)],
        code: 0,
        stdout: &["whsec_abc", "shown this once", "no longer sign"],
        stderr: &[],
        asked: &["POST /v1/destinations/shop-eu/secrets/rotate"],
    });
    check(&Case {
        arguments: &["dest", "rotate", "shop-eu", "--secret-file", "/nowhere/at-all"],
        answers: &[],
        code: 1,
        stdout: &[],
        stderr: &["/nowhere/at-all"],
        asked: &[],
    });
}

/// Files stand in the request, and nothing of them on the command line.
#[test]
fn secrets_and_certificates_come_from_files() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.display().to_string()
    };
    let (secrets, ca) = (file("secrets", "whsec_a\n\nwhsec_b\n"), file("ca", "PEM"));
    let asked = |arguments: &[&str], answer: &'static [(u16, &'static str)]| {
        let listener = listener(answer);
        let run = duehook(&[&["--admin", &listener.url, "dest"], arguments].concat(), &[], b"");
        assert_eq!(run.code, 0, "{}", run.stderr);
        String::from_utf8(listener.asked.recv().expect("one request").body).expect("UTF-8")
    };
    let set = asked(&["set", "a", "--secret-file", &secrets, "--ca-file", &ca], &[(200, DESTINATION)]);
    assert_eq!(set, r#"{"secrets":["whsec_a","whsec_b"],"tls":{"ca_pem":"PEM"}}"#);
    let one = file("one", "whsec_c\n");
    let rotated = asked(&["rotate", "a", "--secret-file", &one, "--overlap", "1h"], &[(200, DESTINATION)]);
    assert_eq!(rotated, r#"{"overlap_ms":3600000,"secret":"whsec_c"}"#);
    let tried = asked(&["test", "a", "--data", "{ \"b\": 1.0}"], &[(200, TAKEN)]);
    assert_eq!(tried, r#"{"payload":{ "b": 1.0}}"#);
}

#[test]
fn a_body_is_sent_as_it_was_given() {
    let send = |arguments: &[&str], input: &[u8], body: &[u8], kind: &str| {
        let listener = listener(&[(202, DELIVERY)]);
        let run = duehook(&[&["--admin", &listener.url, "send", "shop-eu"], arguments].concat(), &[], input);
        assert_eq!((run.code, run.stdout.trim_end()), (0, "dlv_01 accepted for shop-eu"), "{}", run.stderr);
        let asked = listener.asked.recv().expect("one request");
        assert_eq!(asked.line, "POST /v1/send/shop-eu");
        assert_eq!(asked.body, body, "{arguments:?}");
        assert_eq!(asked.headers["content-type"], kind, "{arguments:?}");
        assert_eq!(asked.headers.get("idempotency-key").map(String::as_str), Some("k"));
    };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("body");
    std::fs::write(&path, b"\r\n\xFF\0").expect("written");
    let path = path.display().to_string();
    send(&["--key", "k", "--data", "{\"a\" :1}"], b"", b"{\"a\" :1}", "application/json");
    send(&["--key", "k", "--file", &path], b"", b"\r\n\xFF\0", "application/octet-stream");
    send(&["--key", "k"], b" \xFE\n", b" \xFE\n", "application/octet-stream");
    send(&["--key", "k", "--content-type", "a/b"], b"1", b"1", "a/b");
}

#[test]
fn usage_and_servers_that_are_not_there() {
    let check = |arguments: &[&str], variables: &[(&str, &str)], code: i32, part: &str| {
        let run = duehook(arguments, variables, b"");
        assert_eq!(run.code, code, "{arguments:?}: {}{}", run.stdout, run.stderr);
        assert!(
            format!("{}{}", run.stdout, run.stderr).contains(part),
            "{arguments:?}: {}{}",
            run.stdout,
            run.stderr
        );
    };
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("bound");
    let nobody = format!("http://{free}");
    check(&["stats"], &[("DUEHOOK_ADMIN", &nobody)], 1, "is duehook running? start it with: duehook serve");
    check(&["stats", "--json"], &[("DUEHOOK_ADMIN", &nobody)], 1, "\"code\":\"unreachable\"");
    check(&["stats", "--admin", "unix:/run/not-there"], &[], 1, "no answer from unix:/run/not-there");
    check(&["stats", "--admin", "nonsense"], &[], 2, "not a URL");
    check(&[], &[], 2, "Usage");
    check(&["fly"], &[], 2, "fly");
    check(&["fly", "--json"], &[], 2, "{\"code\":\"usage\",\"detail\":\"unrecognized subcommand 'fly'");
    check(&["--json", "ls", "--limit", "0"], &[], 2, "urn:duehook:problem:usage");
    check(&["ls", "--all", "--limit", "2"], &[], 2, "cannot be used with");
    check(&["ls", "--limit", "0"], &[], 2, "--limit");
    check(&["dest", "hold", "a"], &[], 2, "--until");
    check(&["send", "a", "--max-age", "soon"], &[], 2, "--max-age");
    check(&["drill", "nothing"], &[], 2, "two-destinations");
    check(&["drill"], &[], 2, "noisy-tenant");
    check(&["drill", "slow", "--seconds", "0"], &[], 2, "--seconds");
    check(&["drill", "herd", "--slots", "8"], &[], 2, "--slots");
    check(&["version"], &[], 0, concat!("duehook ", env!("CARGO_PKG_VERSION")));
    check(&["version", "--json"], &[], 0, "{\"version\":");
    check(&["--version"], &[], 0, env!("CARGO_PKG_VERSION"));
}

#[test]
fn every_command_shows_an_example() {
    let commands: [&[&str]; 58] = [
        &[],
        &["serve"],
        &["check-config"],
        &["send"],
        &["ls"],
        &["get"],
        &["explain"],
        &["attempts"],
        &["retry"],
        &["cancel"],
        &["erase"],
        &["dest"],
        &["dest", "ls"],
        &["dest", "get"],
        &["dest", "set"],
        &["dest", "rm"],
        &["dest", "pause"],
        &["dest", "resume"],
        &["dest", "enable"],
        &["dest", "disable"],
        &["dest", "hold"],
        &["dest", "release"],
        &["bulk"],
        &["bulk", "start"],
        &["bulk", "ls"],
        &["bulk", "get"],
        &["bulk", "stop"],
        &["stats"],
        &["audit"],
        &["config"],
        &["config", "show"],
        &["config", "reload"],
        &["receiver"],
        &["drill"],
        &["drill", "two-destinations"],
        &["drill", "duplicate"],
        &["drill", "saturation"],
        &["drill", "slow"],
        &["drill", "herd"],
        &["drill", "noisy-tenant"],
        &["version"],
        &["verify"],
        &["restore"],
        &["compact"],
        &["token"],
        &["token", "new"],
        &["simulate"],
        &["completions"],
        &["top"],
        &["backup"],
        &["claims"],
        &["claims", "stop"],
        &["claims", "start"],
        &["drain"],
        &["export"],
        &["import"],
        &["dest", "test"],
        &["dest", "rotate"],
    ];
    for command in commands {
        let run = duehook(&[command, &["--help"]].concat(), &[], b"");
        assert_eq!(run.code, 0, "{command:?}: {}", run.stderr);
        let example = format!("duehook {}", command.join(" "));
        let after = run.stdout.split("Example").nth(1).unwrap_or_default();
        assert!(after.contains(example.trim_end()), "{command:?}: {}", run.stdout);
    }
}

/// How fast the machine is that runs the tests says nothing about the promises: only that what
/// is told is whole, and that the exit code is the verdict's.
#[test]
fn drills_under_load_end_with_a_verdict_and_its_exit_code() {
    let check = |arguments: &str, checks: usize, part: &str| {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        let run = duehook(&[&["drill", "--json"], &arguments[..]].concat(), &[], b"");
        let events: Vec<serde_json::Value> =
            run.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON a line")).collect();
        let of = |kind: &str| events.iter().filter(|event| event["event"] == kind).count();
        assert_eq!((of("check"), of("verdict")), (checks, 1), "{arguments:?}: {}{}", run.stdout, run.stderr);
        let kept = events.last().expect("a verdict")["kept"].as_bool().expect("a verdict at the end");
        assert_eq!(run.code, i32::from(!kept), "{arguments:?}: {}", run.stdout);
        let good = |event: &serde_json::Value| event["event"] != "check" || event["good"] == true;
        assert_eq!(kept, events.iter().all(good), "{arguments:?}: {}", run.stdout);
        assert!(run.stdout.contains(part), "{arguments:?}: {}", run.stdout);
    };
    check("slow --destinations 4 --per-destination 2 --slots 64 --seconds 1", 3, " to the slow receivers");
    check("noisy-tenant --destinations 3 --deliveries 60 --slots 64", 2, "the backlog of 60 lasted");
    check("herd --deliveries 40", 3, "all 40 taken");
    check(
        "saturation --destinations 3 --deliveries 30 --seconds 1",
        3,
        "to 3 limited destinations in 3 holds",
    );
}
