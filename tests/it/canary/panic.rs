//! A panic that holds what was being worked on: where it was is told, and nothing of that.

use std::panic::catch_unwind;
use std::process::{Command, Output, Stdio};

use duehook::cli::process::quiet_panics;

const BODY: &str = "KnrPanickingBody4417";
/// Says to a process that it is to panic, and whether it has a log.
const PANICS: &str = "PANICS_WITH_A_BODY";

/// This test again, in a process of its own.
fn panicking(log: &str) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let name = "canary::panic::t67_a_panic_says_where_and_not_what";
    command.args(["--exact", name, "--nocapture"]).env(PANICS, log).env_remove("RUST_BACKTRACE");
    command.stdin(Stdio::null()).output().unwrap()
}

fn panic_in_every_way(log: &str) {
    if log == "log" {
        tracing_subscriber::fmt().json().with_writer(std::io::stderr).init();
    }
    quiet_panics();
    let body = BODY.to_owned();
    let ways: [fn(&str); 4] = [
        |body| panic!("cannot read {body}"),
        |body| assert_eq!(body, "another"),
        |body| drop(body.parse::<url::Url>().map_err(|error| (error, body)).unwrap()),
        |body| std::panic::panic_any(body.to_owned()),
    ];
    for way in ways {
        assert!(catch_unwind(|| way(&body)).is_err());
    }
    let named = std::thread::Builder::new().name("worker".to_owned());
    let thread = named.spawn(move || assert!(body.is_empty(), "{body}")).unwrap();
    assert!(thread.join().is_err());
}

#[test]
fn t67_a_panic_says_where_and_not_what() {
    if let Some(log) = std::env::var_os(PANICS) {
        return panic_in_every_way(log.to_str().unwrap());
    }
    for log in ["log", "none"] {
        let Output { status, stdout, stderr } = panicking(log);
        let says = String::from_utf8(stdout).unwrap() + &String::from_utf8(stderr).unwrap();
        assert!(status.success(), "{log}: {says}");
        assert!(!says.contains(BODY), "{log}: {says}");
        let told: Vec<&str> = says.lines().filter(|line| line.contains("canary/panic.rs:")).collect();
        assert_eq!(told.len(), 5, "{log}: {says}");
        assert!(told[4].contains("worker"), "{log}: {says}");
        assert_eq!(told.iter().all(|line| line.starts_with('{')), log == "log", "{log}: {says}");
    }
}
