//! The example file that is shipped, and what `check-config` makes of files.

use duehook::config::{Settings, parse};

use crate::cli::{Run, duehook};

const EXAMPLE: &str = include_str!("../../packaging/duehook.toml");

#[test]
fn the_example_file_is_the_defaults() {
    assert_eq!(parse(EXAMPLE).expect("the example is valid"), Settings::default());
}

/// Every line of the example sets something: a wrong value in its place is refused, naming it.
#[test]
fn every_key_of_the_example_is_read() {
    let mut keys = 0;
    let lines: Vec<&str> = EXAMPLE.lines().collect();
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| !line.starts_with('#')) {
        let Some((key, _)) = line.split_once(" = ") else { continue };
        let wrong = format!("{key} = 1979-05-27");
        let wrong = [&lines[..at], &[&wrong], &lines[at + 1..]].concat().join("\n");
        let error = parse(&wrong).expect_err(key).to_string();
        assert!(error.contains(&format!("{key} (config file, line {})", at + 1)), "{key}: {error}");
        keys += 1;
    }
    assert_eq!(keys, 66, "has the example lost a key, or gained one that is not counted here?");
}

#[test]
fn check_config_says_what_is_wrong_and_exits_78() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("duehook.toml");
    let check = |text: &str, code: i32, part: &str| {
        std::fs::write(&path, text).expect("written");
        let Run { code: got, stdout, stderr } =
            duehook(&["check-config", "--config", &path.display().to_string()], &[], b"");
        assert_eq!(got, code, "{text}: {stderr}");
        assert!(format!("{stdout}{stderr}").contains(part), "{text}: {stdout}{stderr}");
    };
    check("", 0, "region local");
    check("region = 'eu'", 0, "region eu");
    check("regio = 'eu'", 78, "unknown key regio (config file, line 1)");
    check("[[token]]\nid = 'a'", 78, "token.sha256 (config file, line 1)");
    check("[admin]\nlisten = '0.0.0.0:1'", 78, "admin.listen (config file, line 2)");
    // What serve would read it reads as well, and tells all of it that is at fault.
    let gone = "[admin]\ntls_cert = '/not/there.pem'\ntls_key = '/not/there.key'";
    check(gone, 78, "admin.tls_cert /not/there.pem: ");
    check(&format!("{gone}\n[send]\nca_file = '/no/ca'"), 78, "\nsend.ca_file /no/ca: ");
}

/// A file that a start made and then left would look like a crash to the next one.
#[test]
fn a_certificate_that_cannot_be_read_leaves_no_data_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("d.redb");
    let variables = [
        ("DUEHOOK_ADMIN__TLS_CERT", "/not/there.pem"),
        ("DUEHOOK_ADMIN__TLS_KEY", "/not/there.key"),
        ("DUEHOOK_INGEST__LISTEN", "127.0.0.1:0"),
        ("DUEHOOK_ADMIN__LISTEN", "127.0.0.1:0"),
    ];
    let run = duehook(&["serve", "--data", &data.display().to_string()], &variables, b"");
    assert_eq!(run.code, 78, "{}", run.stderr);
    assert!(
        format!("{}{}", run.stdout, run.stderr).contains("admin.tls_cert /not/there.pem"),
        "{}",
        run.stderr
    );
    assert!(!data.exists(), "the data file was made");
}

#[test]
fn check_config_lays_flag_over_environment_over_file() {
    let check = |arguments: &[&str], variables: &[(&str, &str)], code: i32, part: &str| {
        let run = duehook(&[&["check-config"], arguments].concat(), variables, b"");
        assert_eq!(run.code, code, "{arguments:?} {variables:?}: {}", run.stderr);
        assert!(
            format!("{}{}", run.stdout, run.stderr).contains(part),
            "{part}: {}{}",
            run.stdout,
            run.stderr
        );
    };
    check(&[], &[("DUEHOOK_REGION", "eu")], 0, "region eu");
    check(&["--region", "us"], &[("DUEHOOK_REGION", "eu")], 0, "region us");
    check(&["--data", "x.redb", "--json"], &[], 0, "\"data\":\"x.redb\"");
    check(&[], &[("DUEHOOK_SLOTS", "1")], 78, "unknown variable DUEHOOK_SLOTS");
    check(&["--json"], &[("DUEHOOK_SEND__SLOTS", "0")], 78, "\"code\":\"config\"");
    check(&["--config", "/nowhere/at.all"], &[], 78, "/nowhere/at.all");
}
