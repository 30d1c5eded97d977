//! That what is shown is what is in force, all of it and no secret.

use super::*;
use crate::config::{Environment, Sources, layers::Layers, loaded, parse, read};

const EXAMPLE: &str = include_str!("../../../packaging/duehook.toml");

fn of_text(text: &str) -> Vec<Shown> {
    let (settings, origins) = read::settings(Layers::of_text(text).unwrap()).unwrap();
    all(&settings, &origins)
}

fn written(shown: &[Shown]) -> String {
    let mut text = String::new();
    for it in shown {
        let (key, above) = it.key.split_last().unwrap();
        let value = it.value.to_string();
        let table = if above.is_empty() { String::new() } else { format!("{}.", above.join(".")) };
        text += &format!("{table}{key} = {value}\n");
    }
    text
}

/// Read as a config file, what is shown is the same settings: nothing is missing or wrong.
#[test]
fn what_is_shown_is_what_is_in_force() {
    let check = |text: &str| {
        let settings = parse(text).unwrap();
        let shown: Vec<Shown> = of_text(text).into_iter().filter(|it| it.key[0] != "token").collect();
        let again = parse(&written(&shown)).unwrap_or_else(|error| panic!("{error}: {}", written(&shown)));
        assert_eq!(again, settings, "{text}");
    };
    check("");
    check(
        "region = 'eu'\n[send]\nslots = 100\nports = [1]\nallow_cidrs = ['10.0.0.0/8']\n[policy.slow]\n\
         schedule = ['1h']\n[class.night]\nweight = 3\n[reserve]\nfirst_attempts = 0.125\n[tenant.acme]\n\
         quota_per_second = 5\n[tenant.default]\nmax_waiting = 9\n[backup]\ndir = ''\n[ingest]\n\
         max_payload = 1000\nmin_free_disk = 0\n[metrics]\nlisten = 'unix:/run/m.sock'",
    );
}

/// Every key of the example is shown, by its line.
#[test]
fn every_key_of_the_example_is_shown_with_its_line() {
    let shown = of_text(EXAMPLE);
    let lines = EXAMPLE.lines().enumerate().filter(|(_, line)| !line.starts_with('#'));
    let (mut keys, mut table) = (0, "");
    for (at, line) in lines {
        if line.starts_with('[') {
            table = line;
        }
        if !line.contains(" = ") {
            continue;
        }
        let origin = Origin::File { line: at + 1 };
        let always = ["listen", "destinations"].iter().any(|key| line.starts_with(key));
        let off = table == "[metrics]" && !always;
        assert!(off || shown.iter().any(|it| it.origin == origin), "line {}: {line}", at + 1);
        keys += 1;
    }
    assert!(keys > 50, "{keys}");
}

#[test]
fn a_value_says_where_it_was_set() {
    let text = "[policy.default]\njitter = 'none'\n[policy.slow]\nmax_age = '1h'\n[tenant.default]\nweight = 2\n\
                [tenant.acme]\nmax_waiting = 1";
    let shown = of_text(text);
    let check = |name: &str, value: Value, origin: Origin| {
        let it = shown.iter().find(|it| it.name() == name).unwrap_or_else(|| panic!("{name}"));
        assert_eq!((it.value(), &it.origin), (value, &origin), "{name}");
    };
    let line = |line| Origin::File { line };
    check("policy.default.jitter", "none".into(), line(2));
    check("policy.slow.jitter", "none".into(), line(2));
    check("policy.slow.max_age", "1h".into(), line(4));
    check("policy.slow.min_delay", "1s".into(), Origin::Default);
    check("tenant.acme.weight", 2.into(), line(6));
    check("tenant.acme.max_waiting", 1.into(), line(8));
    check("ingest.max_payload", "256KiB".into(), Origin::Default);
    let environment = Environment::from([("DUEHOOK_SEND__SLOTS".to_owned(), "7".into())]);
    let sources = Sources { region: Some("eu".into()), environment, ..Sources::default() };
    let shown = loaded(&sources).unwrap().shown;
    let origin = |name: &str| shown.iter().find(|it| it.name() == name).map(|it| it.origin.to_string());
    assert_eq!(origin("region").as_deref(), Some("flag --region"));
    assert_eq!(origin("send.slots").as_deref(), Some("environment, DUEHOOK_SEND__SLOTS"));
}

#[test]
fn a_digest_is_masked_and_its_change_is_seen() {
    let token = |digit: &str| {
        format!("[[token]]\nid = 'a'\nsha256 = '{}'\nscopes = ['read']\ntenants = ['t']", digit.repeat(64))
    };
    let (one, other) = (of_text(&token("1")), of_text(&token("2")));
    let masked: Vec<Value> =
        one.iter().filter(|it| it.key.last().is_some_and(|key| key == "sha256")).map(Shown::value).collect();
    assert_eq!(masked, [Value::from("***")]);
    assert_eq!(differences(&one, &other), ["token"]);
}

#[test]
fn what_differs_is_named() {
    let check = |before: &str, after: &str, want: &[&str]| {
        assert_eq!(differences(&of_text(before), &of_text(after)), want, "{before} → {after}");
    };
    check("", "", &[]);
    check("[send]\nslots = 4096", "", &[]);
    check("", "[send]\nslots = 1\n[log]\nlevel = 'debug'", &["log.level", "send.slots"]);
    check(
        "[tenant.a]\nweight = 2",
        "",
        &["tenant.a.max_waiting", "tenant.a.quota_per_second", "tenant.a.weight"],
    );
    check("", "[backup]\ndir = ''", &["backup.dir", "backup.every", "backup.keep"]);
}
