//! What each command shows, whole: people read it, so a change of it is looked at.

use super::{DELIVERY, DESTINATION, JOB, TAKEN, duehook, listener};

/// One command against the scripted listener.
struct Shown {
    name: &'static str,
    arguments: &'static [&'static str],
    answers: &'static [(u16, &'static str)],
}

const LIST: &str = r#"{"data":[{"id":"dlv_1","state":"terminal","outcome":"delivered","destination":"shop-eu","attempts":1,"last":{"n":1,"result":"success","status":204,"at":"2020-01-15T12:00:00.000Z"},"created_at":"2020-01-15T12:00:00.000Z"},{"id":"dlv_2","state":"delayed","destination":"billing","attempts":3,"last":{"n":3,"result":"rate_limited","status":429,"at":"2020-01-15T12:00:00.000Z"},"next_attempt_at":"2999-01-15T12:00:00.000Z","created_at":"2020-01-15T12:00:00.000Z"}],"next_cursor":null}"#;
const EXPLAINED: &str = r#"{"verdict":"waiting","summary":"It waits because the receiver answered 429.","blocked_by":[{"kind":"destination_hold","until":"2999-01-15T12:00:00.000Z","detail":"the receiver answered 429"}],"earliest":"2999-01-15T12:00:00.000Z","ahead":7}"#;
const ATTEMPTS: &str = r#"{"data":[{"n":1,"started_at":"2020-01-15T12:00:00.000Z","ended_at":"2020-01-15T12:00:01.000Z","result":"rate_limited","sent":"yes","status":429,"host":"shop.example.com","retry_after":{"raw":"6","kind":"seconds","asked_ms":6000,"applied_ms":6000,"clamped":null},"next_attempt_at":"2020-01-15T12:00:07.000Z"},{"n":2,"started_at":"2020-01-15T12:00:07.000Z","ended_at":null,"result":"interrupted","sent":"maybe","status":null,"error":"the process died"}],"next_cursor":null}"#;
const STATS: &str = r#"{"at":"2026-01-15T12:00:00.000Z","region":"eu","claims":"running","counting":false,"slots":{"total":4096,"in_flight":3},"accepted_per_second":1.26,"finished_per_second":0.5,"quarantined":1,"classes":{"routine":{"ready":1,"held":2,"delayed":3,"leased":4,"oldest_ready_ms":null,"oldest_held_ms":61000,"claims_per_second":2.0,"window_ms":10000,"first_attempt_p95_ms":12},"urgent":{"ready":0,"held":0,"delayed":0,"leased":0,"oldest_ready_ms":null,"oldest_held_ms":null,"claims_per_second":0.0,"window_ms":1000,"first_attempt_p95_ms":null}},"forecast":[{"from":"2026-01-15T12:00:00.000Z","to":"2026-01-15T12:01:00.000Z","due":2}]}"#;
const RANKED: &str = r#"{"data":[{"destination":"shop","tenant":"acme","state":"active","waiting":9,"held":8,"in_flight":1,"oldest_due_at":"2020-01-15T12:00:00.000Z","hold_until":null,"failing_since":null}],"next_cursor":null}"#;
const TENANTS: &str = r#"{"data":[{"tenant":"acme","destinations":2,"waiting":11,"held":10,"in_flight":1,"oldest_due_at":null}],"next_cursor":null}"#;
const DESTINATIONS: &str = r#"{"data":[{"id":"shop-eu","tenant":"acme","url":"https://a.example","state":"active","in_flight":1,"limit":8,"waiting":3},{"id":"billing","tenant":"acme","url":"https://b.example","state":"disabled","in_flight":0,"limit":8,"waiting":0}],"next_cursor":null}"#;
const ROTATED: &str = r#"{"id":"shop-eu","secret":"whsec_abc"}"#;
const BACKUP: &str = r#"{"path":"/b/x.redb","bytes":4096,"deliveries":7,"damaged":0,"took_ms":12}"#;
const CLAIMS: &str = r#"{"claims":"stopped","leases_held":2,"fence":null}"#;
const DRAINED: &str = r#"{"claims":"drained","leases_held":0,"fence":3}"#;

const JOB_DONE: &str = r#"{"id":"job_01","action":"cancel","filter":{"tenant":["acme"],"state":["ready","delayed"]},"dry_run":false,"rate_per_second":null,"state":"done","matched":1200,"changed":1198,"skipped":2,"created_at":"2020-01-15T12:00:00.000Z","finished_at":"2020-01-15T12:00:09.000Z","by":"token:ops"}"#;

const ALL: [Shown; 27] = [
    Shown { name: "ls", arguments: &["ls"], answers: &[(200, LIST)] },
    Shown { name: "get", arguments: &["get", "dlv_01"], answers: &[(200, DELIVERY)] },
    Shown { name: "explain", arguments: &["explain", "dlv_01"], answers: &[(200, EXPLAINED)] },
    Shown { name: "attempts", arguments: &["attempts", "dlv_01"], answers: &[(200, ATTEMPTS)] },
    Shown { name: "retry", arguments: &["retry", "dlv_01"], answers: &[(200, DELIVERY)] },
    Shown { name: "cancel", arguments: &["cancel", "dlv_01", "--yes"], answers: &[(200, DELIVERY)] },
    Shown { name: "erase", arguments: &["erase", "dlv_01", "--yes"], answers: &[(204, "")] },
    Shown { name: "send", arguments: &["send", "shop-eu", "--data", "1"], answers: &[(202, DELIVERY)] },
    Shown { name: "dest ls", arguments: &["dest", "ls"], answers: &[(200, DESTINATIONS)] },
    Shown { name: "dest get", arguments: &["dest", "get", "shop-eu"], answers: &[(200, DESTINATION)] },
    Shown {
        name: "dest set",
        arguments: &["dest", "set", "shop-eu", "--policy", "slow"],
        answers: &[(200, DESTINATION)],
    },
    Shown { name: "dest rm", arguments: &["dest", "rm", "shop-eu"], answers: &[(204, "")] },
    Shown { name: "dest pause", arguments: &["dest", "pause", "shop-eu"], answers: &[(200, DESTINATION)] },
    Shown {
        name: "dest hold",
        arguments: &["dest", "hold", "shop-eu", "--for", "1h"],
        answers: &[(200, DESTINATION)],
    },
    Shown { name: "dest test", arguments: &["dest", "test", "shop-eu"], answers: &[(200, TAKEN)] },
    Shown { name: "dest rotate", arguments: &["dest", "rotate", "shop-eu"], answers: &[(200, ROTATED)] },
    Shown { name: "stats", arguments: &["stats"], answers: &[(200, STATS)] },
    Shown { name: "stats destinations", arguments: &["stats", "--destinations"], answers: &[(200, RANKED)] },
    Shown { name: "stats tenants", arguments: &["stats", "--tenants"], answers: &[(200, TENANTS)] },
    Shown { name: "top", arguments: &["top", "--once"], answers: &[(200, STATS), (200, RANKED)] },
    Shown {
        name: "bulk start",
        arguments: &["bulk", "start", "cancel", "--tenant", "acme", "--yes"],
        answers: &[(202, JOB)],
    },
    Shown {
        name: "bulk start --wait",
        arguments: &["bulk", "start", "cancel", "--tenant", "acme", "--yes", "--wait"],
        answers: &[(202, JOB), (200, JOB), (200, JOB_DONE)],
    },
    Shown { name: "bulk get", arguments: &["bulk", "get", "job_01"], answers: &[(200, JOB)] },
    Shown { name: "backup", arguments: &["backup", "/b/x.redb"], answers: &[(201, BACKUP)] },
    Shown { name: "claims stop", arguments: &["claims", "stop"], answers: &[(200, CLAIMS)] },
    Shown { name: "drain", arguments: &["drain"], answers: &[(200, DRAINED)] },
    Shown {
        name: "simulate",
        arguments: &["simulate", "--answers", "429:120,500,500,timeout,204"],
        answers: &[],
    },
];

/// Days from now change every day.
fn without_days(text: &str) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    let days =
        |at: usize| words.get(at + 1).is_some_and(|next| next.starts_with('d') && !next.starts_with("de"));
    let shown = words.iter().enumerate().map(|(at, word)| {
        let digits = word.trim_start_matches('(');
        let counts = digits.len() > 3 && digits.bytes().all(|byte| byte.is_ascii_digit()) && days(at);
        if counts { word.replace(digits, "N") } else { (*word).to_owned() }
    });
    shown.collect::<Vec<_>>().join(" ")
}

#[test]
fn each_command_shows_what_it_did() {
    let mut text = String::new();
    for Shown { name, arguments, answers } in ALL {
        let listener = listener(answers);
        let run = duehook(&[&["--admin", &listener.url], arguments].concat(), &[], b"");
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{name}");
        text += &format!("$ duehook {}\n{}\n", arguments.join(" "), without_days(&run.stdout));
    }
    insta::assert_snapshot!("commands", text);
}

#[test]
fn scripts_and_manuals_know_every_command() {
    for what in ["bash", "zsh", "fish", "elvish", "powershell", "man"] {
        let run = duehook(&["completions", what], &[], b"");
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{what}");
        let plain = run.stdout.replace('\\', "");
        for command in ["simulate", "check-config", "completions"] {
            assert!(plain.contains(command), "{what} does not know {command}");
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().display().to_string();
    assert_eq!(duehook(&["completions", "man", "--folder", &path], &[], b"").code, 0);
    for page in ["duehook.1", "duehook-dest-set.1"] {
        assert!(folder.path().join(page).exists(), "{page}");
    }
    assert_eq!(duehook(&["completions", "bash", "--folder", &path], &[], b"").code, 2);
    assert_eq!(duehook(&["completions", "tcsh"], &[], b"").code, 2);
}

#[test]
fn a_story_for_programs_and_one_that_is_none() {
    let run = duehook(&["simulate", "--answers", "503*2,410", "--json"], &[], b"");
    let lines: Vec<serde_json::Value> =
        run.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON a line")).collect();
    assert_eq!(lines.len(), 4, "{}", run.stdout);
    assert_eq!((&lines[1]["failures"], &lines[3]["outcome"]), (&2.into(), &"destination_gone".into()));
    let check = |arguments: &[&str], part: &str| {
        let run = duehook(&[&["simulate"], arguments].concat(), &[], b"");
        assert_eq!(run.code, 2, "{arguments:?}");
        assert!(run.stderr.contains(part), "{arguments:?}: {}", run.stderr);
    };
    check(&[], "--answers");
    check(&["--answers", "fly"], "fly");
    check(&["--answers", "500", "--policy", "none"], "there are default");
}

/// Neither a terminal nor a whole answer: one frame, and what went wrong.
#[test]
fn a_frame_of_top_for_programs() {
    let first = listener(&[(200, STATS)]);
    let run = duehook(&["--admin", &first.url, "top", "--json"], &[], b"");
    assert_eq!((run.code, run.stdout.trim_end()), (0, STATS), "{}", run.stderr);
    let run = duehook(&["--admin", "http://127.0.0.1:9", "top"], &[], b"");
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("is duehook running?"), "{}", run.stderr);
}

/// Help is read at a terminal: off one, lines are as long as a hundred columns allow.
#[test]
fn help_stays_within_its_width() {
    let mut commands = vec![Vec::new()];
    while let Some(command) = commands.pop() {
        let run = duehook(&[&command[..], &["--help"]].concat(), &[], b"");
        let widest = run.stdout.split("Example").next().unwrap_or_default().lines();
        let widest = widest.map(|line| line.chars().count()).max().unwrap_or_default();
        assert!((1..=100).contains(&widest), "{command:?}: {widest}");
        if command.is_empty() {
            commands.extend([vec!["simulate"], vec!["bulk", "start"], vec!["dest", "set"], vec!["ls"]]);
        }
    }
}
