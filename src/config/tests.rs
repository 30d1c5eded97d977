//! Tables of texts and variables: what is taken, and what each refusal says.

use super::*;
use crate::model::Quota;
use crate::policy::Jitter;

fn load_with(text: Option<&str>, variables: &[(&str, &str)]) -> Result<Settings, ConfigError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("duehook.toml");
    std::fs::write(&path, text.unwrap_or("")).unwrap();
    let environment = variables.iter().map(|(name, value)| (name.to_string(), OsString::from(value)));
    load(&Sources { config: text.map(|_| path), environment: environment.collect(), ..Sources::default() })
}

/// The text of a refusal has every one of `parts`.
fn refused(got: Result<Settings, ConfigError>, parts: &[&str], story: &str) {
    let error = got.err().unwrap_or_else(|| panic!("taken: {story}")).to_string();
    for part in parts {
        assert!(error.contains(part), "{story}: {error:?} does not say {part:?}");
    }
}

#[test]
fn nothing_set_is_the_defaults() {
    assert_eq!(load(&Sources::default()).unwrap(), Settings::default());
    assert_eq!(parse("").unwrap(), Settings::default());
    assert_eq!(
        parse("[log]\n[send]\nproxy = ''\n[payload_refs]\n[policy.default]\n").unwrap(),
        Settings::default()
    );
}

#[test]
fn every_key_is_seen_to_work() {
    let check = |text: &str, change: fn(&mut Settings)| {
        let mut want = Settings::default();
        change(&mut want);
        assert_ne!(want, Settings::default(), "{text}: the case sets a default");
        assert_eq!(parse(text).unwrap(), want, "{text}");
    };
    check("region = 'eu'", |s| s.region = "eu".parse().unwrap());
    check("data = '/srv/d.redb'", |s| s.data = "/srv/d.redb".into());
    check("shutdown_timeout = '1m 30s'", |s| s.shutdown_timeout = Millis::seconds(90));
    check("host_id = 'box-1'", |s| s.host_id = "box-1".into());
    check("log.level = 'debug'", |s| s.log.level = "debug".into());
    check("log.format = 'json'", |s| s.log.format = LogFormat::Json);
    check("[ingest]\nlisten = '127.0.0.2:1'", |s| {
        s.ingest.listener.listen = Listen::Tcp(([127, 0, 0, 2], 1).into())
    });
    check("[ingest]\nallowed_hosts = ['Box.Lan']", |s| {
        s.ingest.listener.allowed_hosts = vec!["box.lan".into()];
    });
    check("[ingest]\nmax_payload = '1MiB'", |s| s.ingest.max_payload = 1 << 20);
    check("[ingest]\nmax_payload = 1_000", |s| s.ingest.max_payload = 1000);
    check("[ingest]\nmax_deliveries = 5", |s| s.ingest.max_deliveries = 5);
    check("[ingest]\nmax_connections = 6", |s| s.ingest.max_connections = 6);
    check("[ingest]\nbody_timeout = '2s'", |s| s.ingest.body_timeout = Millis::seconds(2));
    check("[admin]\nlisten = '[::1]:0'", |s| s.admin.listen = Listen::Tcp("[::1]:0".parse().unwrap()));
    check("[admin]\nallowed_hosts = ['a', 'b']", |s| s.admin.allowed_hosts = vec!["a".into(), "b".into()]);
    check("[metrics]\nlisten = '127.0.0.1:9'", |s| s.metrics = Some(Listener::loopback(9)));
    check("[metrics]\ndestinations = 0", |s| s.metrics_destinations = 0);
    check("[metrics]\ndestinations = 100", |s| s.metrics_destinations = 100);
    check("[send]\nslots = 7", |s| s.send.slots = 7);
    check("[send]\ntimeout = '20s'", |s| s.send.timeout = Millis::seconds(20));
    check("[send]\nconnect_timeout = '250ms'", |s| s.send.connect_timeout = Millis(250));
    check("[send]\ndestination_concurrency = 1", |s| s.send.destination_concurrency = 1);
    check("[send]\nca_file = 'ca.pem'", |s| s.send.ca_file = Some("ca.pem".into()));
    check("[send]\nkeep_response_excerpt = true", |s| s.send.keep_response_excerpt = true);
    check("[send]\nallow_http = true", |s| s.send.allow_http = true);
    check("[send]\nports = [443]", |s| s.send.ports = vec![443]);
    check("[send]\nallow_cidrs = ['10.0.0.0/8']", |s| {
        s.send.allow_cidrs = vec!["10.0.0.0/8".parse().unwrap()];
    });
    for proxy in ["http://proxy.corp:3128", "https://10.0.0.1", "socks5://[::1]:1080"] {
        let mut want = Settings::default();
        want.send.proxy = Some(proxy.parse().unwrap());
        assert_eq!(parse(&format!("[send]\nproxy = '{proxy}'")).unwrap(), want, "{proxy}");
    }
    check("[payload_refs]\nallow = ['file:///srv/outbox/', 's3://phi-eu/']\ntimeout = '9s'", |s| {
        let allow = ["file:///srv/outbox/", "s3://phi-eu/"].map(|text| text.parse().unwrap());
        s.payload_refs = PayloadRefs { allow: allow.to_vec(), timeout: Millis::seconds(9) };
    });
    check("[class.urgent]\nweight = 1000", |s| s.classes[0].weight = 1000);
    check("[class.routine]\nwindow = '30s'", |s| s.classes[1].window = Millis::seconds(30));
    check("class.bulk.weight = 3", |s| s.classes[2].weight = 3);
    check("[reserve]\nfirst_attempts = 0.25", |s| s.reserve_permille = 250);
    check("[reserve]\nfirst_attempts = 0", |s| s.reserve_permille = 0);
    check("[reserve]\nfirst_attempts = 9e-1", |s| s.reserve_permille = 900);
    check("[tenant.default]\nweight = 5", |s| s.tenant_weights.default = 5);
    check("[tenant.acme]\nweight = 5", |s| {
        s.tenant_weights.named.insert("acme".parse().unwrap(), 5);
    });
    check("[retention]\nterminal = '60d'", |s| s.retention.terminal = Millis::seconds(60 * 86_400));
    check("[retention]\nmax_terminal = 9", |s| s.retention.max_terminal = 9);
    check("[retention]\ndelivered_payload = '1h'", |s| s.retention.delivered_payload = Millis::seconds(3600));
    check("[retention]\nfailed_payload = '1h'", |s| s.retention.failed_payload = Millis::seconds(3600));
}

#[test]
fn what_follows_from_another_setting() {
    assert_eq!(parse("[send]\ntimeout = '2s'").unwrap().send.connect_timeout, Millis::seconds(2));
    let kept = parse("[retention]\nterminal = '24h'").unwrap().retention;
    assert_eq!(kept.failed_payload, kept.terminal, "no body outlives its record");
}

#[test]
fn policies_take_what_they_do_not_set_from_default() {
    let text = "[policy.slow]\nschedule = ['1h']\n[policy.same]\n[policy.default]\nmax_failures = 3\n\
                jitter = 'none'\nmin_delay = '2s'\nmax_delay = '2h'\nmax_age = '5h'\nretry_statuses = []";
    let policies = parse(text).unwrap().policies;
    let of = |name: &str| policies[&name.parse::<Name>().unwrap()].clone();
    let default = Policy {
        max_failures: 3,
        jitter: Jitter::None,
        min_delay: Millis::seconds(2),
        max_delay: Millis::seconds(7200),
        max_age: Millis::seconds(18_000),
        retry_statuses: vec![],
        ..Policy::default()
    };
    assert_eq!(of("default"), default);
    assert_eq!(of("same"), default);
    assert_eq!(of("slow"), Policy { schedule: vec![Millis::seconds(3600)], ..default });
}

/// Built-in ones first, as their numbers are given in this order; then by name.
#[test]
fn classes_may_be_added_and_changed_key_by_key() {
    let text = "[class.slow]\nwindow = '1h'\n[class.bulk]\nweight = 2\n[class.'0.a']\n";
    let classes = parse(text).unwrap().classes;
    let shown: Vec<_> = classes.iter().map(|it| (it.name.as_str(), it.weight, it.window.0 / 1_000)).collect();
    let want = [("urgent", 4, 1), ("routine", 2, 10), ("bulk", 2, 300), ("0.a", 1, 300), ("slow", 1, 3_600)];
    assert_eq!(shown, want);
    let five: String = (0..5).map(|n| format!("[class.c{n}]\n")).collect();
    assert_eq!(parse(&five).unwrap().classes.len(), model::MAX_CLASSES);
}

#[test]
fn a_named_tenant_that_sets_nothing_is_like_all() {
    let weights = parse("[tenant.acme]\n[tenant.default]\nweight = 4\n[tenant.'b.c']\nweight = 1");
    let weights = weights.unwrap().tenant_weights;
    let of = |name: &str| weights.of(&name.parse().unwrap());
    assert_eq!([of("acme"), of("b.c"), of("another"), of("default")], [4, 1, 4, 4]);
}

#[test]
fn flag_over_environment_over_file_over_default() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("duehook.toml");
    std::fs::write(&path, "region = 'file'\ndata = 'file'\nhost_id = 'file'").unwrap();
    let variables = [("DUEHOOK_CONFIG", path.as_os_str()), ("DUEHOOK_REGION", "env".as_ref())];
    let more = [("DUEHOOK_DATA", OsString::from("env")), ("DUEHOOK_SEND__PORTS", "1, 2".into())];
    let named = variables.map(|(name, value)| (name, value.to_owned()));
    let environment = named.into_iter().chain(more).map(|(name, value)| (name.to_owned(), value));
    let sources =
        Sources { region: Some("flag".into()), environment: environment.collect(), ..Sources::default() };
    let got = load(&sources).unwrap();
    assert_eq!(got.region.as_str(), "flag");
    assert_eq!(got.data, PathBuf::from("env"));
    assert_eq!(got.host_id, "file");
    assert_eq!(got.send.ports, [1, 2]);
    assert_eq!(got.send.slots, 4096);
}

#[test]
fn variables_stand_for_every_type() {
    let check = |name: &str, value: &str, change: fn(&mut Settings)| {
        let mut want = Settings::default();
        change(&mut want);
        assert_eq!(load_with(None, &[(name, value)]).unwrap(), want, "{name}={value}");
    };
    check("DUEHOOK_SEND__SLOTS", "5_000", |s| s.send.slots = 5000);
    check("DUEHOOK_SEND__ALLOW_HTTP", "true", |s| s.send.allow_http = true);
    check("DUEHOOK_SEND__TIMEOUT", "9s", |s| s.send.timeout = Millis::seconds(9));
    check("DUEHOOK_SEND__PORTS", "", |s| s.send.ports = vec![]);
    check("DUEHOOK_INGEST__MAX_PAYLOAD", "1KiB", |s| s.ingest.max_payload = 1024);
    check("DUEHOOK_ADMIN__LISTEN", "127.0.0.1:0", |s| s.admin = Listener::loopback(0));
    check("DUEHOOK_POLICY__DEFAULT__MAX_FAILURES", "4", |s| {
        s.policies.get_mut(&default_policy()).unwrap().max_failures = 4;
    });
    check("DUEHOOK_CLASS__BULK__WEIGHT", "9", |s| s.classes[2].weight = 9);
    check("DUEHOOK_CLASS__NEW__WINDOW", "1m", |s| {
        let new = ClassSettings::of("new".parse().unwrap());
        s.classes.push(ClassSettings { window: Millis::seconds(60), ..new });
    });
    check("DUEHOOK_RESERVE__FIRST_ATTEMPTS", "0.5", |s| s.reserve_permille = 500);
    check("DUEHOOK_TENANT__DEFAULT__WEIGHT", "2", |s| s.tenant_weights.default = 2);
    check("DUEHOOK_TENANT__ACME__WEIGHT", "2", |s| {
        s.tenant_weights.named.insert("acme".parse().unwrap(), 2);
    });
    check("DUEHOOK_HOST_ID", "box-1", |s| s.host_id = "box-1".into());
    check("DUEHOOK_SHUTDOWN_TIMEOUT", "5s", |s| s.shutdown_timeout = Millis::seconds(5));
    check("DUEHOOK_ADMIN", "http://127.0.0.1:1", |_| {});
    check("DUEHOOK_TOKEN_FILE", "t", |_| {});
}

#[test]
fn variables_that_are_refused() {
    let check =
        |name: &str, value: &str, parts: &[&str]| refused(load_with(None, &[(name, value)]), parts, name);
    check("DUEHOOK_SLOTS", "5", &["DUEHOOK_SLOTS", "environment", "DUEHOOK_<TABLE>__<KEY>"]);
    check("DUEHOOK_REGOIN", "eu", &["unknown variable DUEHOOK_REGOIN", "did you mean DUEHOOK_REGION?"]);
    check(
        "DUEHOOK_SNED__SLOTS",
        "5",
        &["unknown table [sned] (environment, DUEHOOK_SNED__SLOTS)", "[send]?"],
    );
    check("DUEHOOK_SHUTDOWN_TIMEOUT", "2h", &["shutdown_timeout", "DUEHOOK_SHUTDOWN_TIMEOUT"]);
    check("DUEHOOK_SEND__PORTS", "443;80", &["send.ports", "values with commas between them"]);
    check("DUEHOOK_", "5", &["unknown variable DUEHOOK_"]);
    check("DUEHOOK_SEND__", "5", &["DUEHOOK_SEND__"]);
    check("DUEHOOK_SEND__SLOT", "5", &["unknown key send.slot", "[send]", "slots"]);
    check("DUEHOOK_SEND__SLOTS", "many", &["send.slots", "DUEHOOK_SEND__SLOTS", "whole number"]);
    check("DUEHOOK_BACKUP__KEEP", "0", &["backup.keep", "from 1 to 1000"]);
    check("DUEHOOK_BACKUP__EVERY", "1ms", &["backup.every", "a duration"]);
    check("DUEHOOK_CLASS__BULK__WEIGHT", "0", &["class.bulk.weight", "DUEHOOK_CLASS__BULK__WEIGHT"]);
    check("DUEHOOK_CLASS__A B__WEIGHT", "1", &["class.a b", "1 to 64 letters"]);
    check("DUEHOOK_RESERVE__FIRST_ATTEMPTS", "NaN", &["reserve.first_attempts", "from 0.0 to 0.9"]);
    check("DUEHOOK_TENANT__ACME__MAX_WAITING", "-1", &["tenant.acme.max_waiting", "whole number"]);
    check("DUEHOOK_TENANT__ACME__QUOTA_PER_SECOND", "0.5", &["tenant.acme.quota_per_second"]);
    check("DUEHOOK_RETENTION__AUDIT", "1h", &["retention.audit", "from \"1d\""]);
    check("DUEHOOK_CONFIG", "/nowhere/at.all", &["cannot read the config file /nowhere/at.all"]);
}

#[test]
fn listeners_that_are_refused() {
    let check = |text: &str, parts: &[&str]| refused(parse(text), parts, text);
    check(
        "[ingest]\nlisten = '0.0.0.0:8460'",
        &["ingest.listen", "line 2", "loopback", "tls_cert", "plaintext"],
    );
    check("[admin]\nlisten = '192.168.1.5:8461'\nauth = 'none'", &["admin.auth", "line 3", "\"token\""]);
    check(
        "[admin]\nlisten = '10.0.0.1:1'\nplaintext = true",
        &["admin.auth (config file, line 2): must be \"token\"", "[[token]]"],
    );
    check(
        "[admin]\nauth = 'token'",
        &["admin.auth (config file, line 2): must be \"none\", or", "[[token]]"],
    );
    check("[admin]\nauth = 'basic'", &["admin.auth", "\"none\", \"token\""]);
    check("[admin]\ntls_cert = 'a.pem'", &["admin.tls_cert", "admin.tls_key"]);
    check("[admin]\nlisten = 'unix:relative'", &["admin.listen", "absolute path"]);
    check("[admin]\nlisten = 'unix:/run/a'\ntls_cert = 'a'\ntls_key = 'b'", &["admin.tls_cert", "unix:"]);
    check("[metrics]\nlisten = '0.0.0.0:9100'\nauth = 'none'", &["metrics.listen", "plaintext"]);
}

#[test]
fn names_that_nothing_has() {
    let check = |text: &str, parts: &[&str]| refused(parse(text), parts, text);
    check("\nregions = 'eu'", &["unknown key regions", "line 2", "top level", "did you mean region?"]);
    check(
        "regoin = 'eu'",
        &["unknown key regoin (config file, line 1): did you mean region? The top level has:"],
    );
    check(
        "[sned]\nslots = 1",
        &["unknown table [sned] (config file, line 2): did you mean [send]?", "[ingest]"],
    );
    check("[sned]", &["unknown table [sned]", "did you mean [send]?"]);
    check("[nothing-like-it]\nx = 1", &["unknown table [nothing-like-it]", "; the file has: [backup]"]);
    check("[send.x]\ny = 1", &["unknown table [send.x]"]);
    check("[send]\n\nslot = 1", &["unknown key send.slot", "line 3", "[send]", "slots"]);
    check("[sent]\nslots = 1", &["unknown table [sent]", "line 2"]);
    check("[sent]", &["unknown table [sent]"]);
    check("send = 1", &["unknown key send "]);
    check("'send.slots' = 1", &["unknown key send.slots", "the top level"]);
    check("[policy]\nmax_age = '1h'", &["unknown key policy.max_age"]);
    check("[policy.slow]\nmaxage = '1h'", &["policy.slow.maxage", "[policy.slow]", "max_age"]);
}

#[test]
fn texts_that_are_refused() {
    let check = |text: &str, parts: &[&str]| refused(parse(text), parts, text);
    check("x", &["line 1"]);
    check("region = 'a'\nregion = 'b'", &["line 2"]);
    check("[policy.'a b']", &["policy.a b", "line 1", "1 to 64 letters"]);
    check("[policy.x]\n'' = 1", &["policy.x."]);
    check("region = ''", &["region", "line 1", "1 to 64 letters"]);
    check("region = 1", &["region", "a string"]);
    check("data = ''", &["data"]);
    check("shutdown_timeout = 20", &["shutdown_timeout", "a duration"]);
    check("shutdown_timeout = '20'", &["a duration such as"]);
    check("shutdown_timeout = '2h'", &["\"1h\""]);
    check("host_id = 'a b'", &["host_id"]);
    check("log.level = 'loud'", &["log.level", "\"trace\""]);
    check("log.format = true", &["log.format", "\"auto\""]);
    check("[ingest]\nmax_payload = '2MiB'", &["ingest.max_payload", "line 2", "1048576"]);
    check("[ingest]\nmax_payload = 0", &["ingest.max_payload"]);
    check("[ingest]\nmax_payload = '1kb'", &["256KiB"]);
    check("[ingest]\nmax_payload = '99999999999999999999GiB'", &["256KiB"]);
    check("[ingest]\nmax_deliveries = -1", &["ingest.max_deliveries"]);
    check("[ingest]\nmax_deliveries = 1.5", &["ingest.max_deliveries"]);
    check("[ingest]\nmax_deliveries = 99999999999999999999", &["ingest.max_deliveries"]);
    check("[admin]\nlisten = '127.0.0.1'", &["admin.listen"]);
    check(
        "[admin]\nlisten = '127.0.0.1:8460'",
        &[
            "admin.listen (config file, line 2)",
            "another address for each",
            "ingest.listen is 127.0.0.1:8460",
        ],
    );
    check("[metrics]\nlisten = '127.0.0.1:8461'", &["another address for each"]);
    check("[ingest]\nlisten = '127.0.0.1:8461'", &["ingest.listen (config file, line 2)", "admin.listen is"]);
    check("[metrics]\ndestinations = 101", &["metrics.destinations", "100"]);
    check("[admin]\nallowed_hosts = ['a b']", &["admin.allowed_hosts", "a host name"]);
    check("[admin]\nallowed_hosts = 'a'", &["a list"]);
    check("[send]\nslots = 0", &["send.slots", "from 1"]);
    for proxy in
        ["proxy:3128", "ftp://proxy", "socks4://proxy", "http://u:p@proxy", "http://proxy/x", "http://"]
    {
        check(&format!("[send]\nproxy = '{proxy}'"), &["send.proxy", "line 2", "socks5://"]);
    }
    check("[payload_refs]\nallow = ['/srv/outbox/']", &["payload_refs.allow", "file:///"]);
    check("[payload_refs]\nallow = ['s3://bucket']", &["payload_refs.allow", "slash"]);
    check("[payload_refs]\nallow = ['file:///']", &["payload_refs.allow"]);
    check("[payload_refs]\ntimeout = '2m'", &["payload_refs.timeout", "\"1m\""]);
    check("[send]\ntimeout = '999ms'", &["send.timeout", "\"1s\""]);
    check("[send]\ntimeout = '2m'", &["send.timeout"]);
    check(
        "[send]\ntimeout = '2s'\nconnect_timeout = '3s'",
        &["send.connect_timeout", "line 3", "send.timeout"],
    );
    check("[send]\nports = [0]", &["send.ports", "each item"]);
    check("[send]\nports = [65_536]", &["send.ports"]);
    check("[send]\nallow_http = 'yes'", &["send.allow_http", "true or false"]);
    check("[send]\nallow_cidrs = ['10.0.0.1']", &["send.allow_cidrs", "10.1.0.0/16"]);
    check("[policy.default]\nschedule = []", &["policy.default.schedule", "at least one"]);
    check("[policy.default]\nschedule = ['8d']", &["policy.default.schedule"]);
    check("[policy.default]\nschedule = ['0s']", &["policy.default.schedule"]);
    check("[policy.default]\nmax_delay = '8d'", &["policy.default.max_delay", "7d"]);
    check("[policy.x]\nmin_delay = '2h'\nmax_delay = '1h'", &["policy.x.min_delay", "line 2", "max_delay"]);
    check("[policy.default]\njitter = 'some'", &["\"half\""]);
    check("[policy.default]\nmax_age = '31d'", &["policy.default.max_age"]);
    check("[policy.default]\nretry_statuses = [500]", &["retry_statuses"]);
    check("[policy.default]\nretry_statuses = [429]", &["429"]);
    check("[retention]\nterminal = '23h'", &["retention.terminal", "\"1d\""]);
    check("[retention]\nmax_terminal = 0", &["retention.max_terminal"]);
}

#[test]
fn shares_that_are_refused() {
    let check = |text: &str, parts: &[&str]| refused(parse(text), parts, text);
    check("[class]\nweight = 1", &["unknown key class.weight", "[class] has: tables [class.<name>]"]);
    check("[class.bulk]\nwait = 1", &["unknown key class.bulk.wait", "[class.bulk]", "weight, window"]);
    check("[class.'a b']", &["class.a b", "line 1", "1 to 64 letters"]);
    check("[class.bulk]\nweight = 0", &["class.bulk.weight", "line 2", "from 1 to 1000"]);
    check("[class.bulk]\nweight = 1001", &["class.bulk.weight"]);
    check("[class.bulk]\nweight = 1.0", &["class.bulk.weight"]);
    check("[class.bulk]\nwindow = '99ms'", &["class.bulk.window", "\"100ms\"", "\"7d\""]);
    check("[class.bulk]\nwindow = '8d'", &["class.bulk.window"]);
    check("[class.bulk]\nwindow = 5", &["class.bulk.window", "a duration"]);
    let six: String = (0..6).map(|n| format!("[class.c{n}]\n")).collect();
    check(&six, &["class (config file, line 6)", "at most 8 classes"]);
    check("[reserve]\nfirst_attempts = 0.901", &["reserve.first_attempts", "line 2", "from 0.0 to 0.9"]);
    check("[reserve]\nfirst_attempts = -0.1", &["reserve.first_attempts"]);
    check("[reserve]\nfirst_attempts = nan", &["reserve.first_attempts"]);
    check("[reserve]\nfirst_attempts = '0.3'", &["reserve.first_attempts"]);
    check("[reserve]\nretries = 0.1", &["unknown key reserve.retries", "first_attempts"]);
    check("[tenant]\nweight = 1", &["unknown key tenant.weight"]);
    check("[tenant.acme]\nweight = 0", &["tenant.acme.weight", "from 1 to 1000"]);
    check("[tenant.acme]\nwieght = 1", &["unknown key tenant.acme.wieght", "weight"]);
    check("[tenant.'-a']", &["tenant.-a", "1 to 64 letters"]);
}

#[test]
fn a_tenant_has_the_quota_of_all_where_it_sets_none() {
    let text = "[tenant.default]\nquota_per_second = 5\n[tenant.a]\nmax_waiting = 7\n[tenant.b]\n\
                quota_per_second = 0";
    let quotas = parse(text).unwrap().tenant_quotas;
    let check = |tenant: &str, per_second: u32, max_waiting: u64| {
        assert_eq!(quotas.of(&tenant.parse().unwrap()), Quota { per_second, max_waiting }, "{tenant}");
    };
    check("other", 5, 0);
    check("a", 5, 7);
    check("b", 0, 0);
}

fn at(listen: &str) -> Listen {
    listen
        .strip_prefix("unix:")
        .map_or_else(|| Listen::Tcp(listen.parse().unwrap()), |path| Listen::Unix(path.into()))
}

/// A token of this digest and one scope, in two lines; what else it sets follows.
fn token_text(id: &str, digit: &str, more: &str) -> String {
    format!("[[token]]\nid = '{id}'\nsha256 = '{}'\n{more}\n", digit.repeat(64))
}

#[test]
fn listeners_and_tokens() {
    let admin = token_text("ops", "a", "scopes = ['admin']");
    let check = |text: &str, want: Listener| {
        assert_eq!(parse(&format!("{text}\n{admin}")).unwrap().admin, want, "{text}");
    };
    let here = Listener::loopback(8461);
    check("[admin]\nauth = 'token'", Listener { auth: Auth::Token, ..here.clone() });
    check("[admin]\nlisten = 'unix:/run/d.sock'", Listener::at(at("unix:/run/d.sock")));
    let tls = Some(TlsFiles { cert: "c".into(), key: "k".into() });
    check(
        "[admin]\nlisten = '0.0.0.0:8461'\ntls_cert = 'c'\ntls_key = 'k'",
        Listener { auth: Auth::Token, tls, ..Listener::at(at("0.0.0.0:8461")) },
    );
    check(
        "[admin]\nlisten = '[::]:8461'\nplaintext = true",
        Listener { auth: Auth::Token, plaintext: true, ..Listener::at(at("[::]:8461")) },
    );
    let open = parse("[metrics]\nlisten = '0.0.0.0:9'\nauth = 'none'\nplaintext = true").unwrap();
    assert_eq!(open.metrics.unwrap().auth, Auth::None);
}

#[test]
fn tokens_are_read_whole_or_refused() {
    let two = token_text("shop", "0", "scopes = ['ingest', 'read']\ntenants = ['acme']")
        + &token_text("ops", "f", "scopes = ['admin']");
    let got = parse(&two).unwrap().tokens;
    let shop = Token {
        id: "shop".parse().unwrap(),
        sha256: [0; 32],
        scopes: vec![Scope::Ingest, Scope::Read],
        tenants: Some(vec!["acme".parse().unwrap()]),
    };
    let ops =
        Token { id: "ops".parse().unwrap(), sha256: [0xff; 32], scopes: vec![Scope::Admin], tenants: None };
    assert_eq!(got, [shop, ops]);
    let check = |text: &str, parts: &[&str]| refused(parse(text), parts, text);
    check("[[token]]\nid = 'a'", &["token.sha256", "line 1"]);
    check("[[token]]\nsha256 = 'a'", &["sha256", "64 hexadecimal digits"]);
    check(&token_text("a", "a", ""), &["token.scopes"]);
    check(&token_text("a", "g", "scopes = ['admin']"), &["sha256", "64 hexadecimal digits"]);
    check(&token_text("a", "a", "scopes = ['root']"), &["scopes", "\"ingest\""]);
    check(&token_text("a", "a", "scopes = []"), &["token.scopes"]);
    check(&token_text("a", "a", "scopes = ['admin']\ntenants = []"), &["tenants", "left out"]);
    check(
        &token_text("a", "a", "scopes = ['admin']\nscope = 'x'"),
        &["unknown key token", "scope", "tenants"],
    );
    check(&token_text("a b", "a", "scopes = ['admin']"), &["id", "1 to 64 letters"]);
    let twice = token_text("a", "a", "scopes = ['admin']") + &token_text("a", "b", "scopes = ['admin']");
    check(&twice, &["token.id", "another one"]);
    let same = token_text("a", "a", "scopes = ['admin']") + &token_text("b", "a", "scopes = ['admin']");
    check(&same, &["token.id", "another one"]);
    check("token = ['a']", &["token"]);
    check("[token]\nid = 'a'", &["token"]);
    check(
        &format!("[ingest]\nauth = 'token'\n{}", token_text("a", "a", "scopes = ['destinations']")),
        &["ingest.auth"],
    );
}

#[cfg(unix)]
#[test]
fn a_variable_that_is_not_text_is_refused() {
    use std::os::unix::ffi::OsStringExt;
    let value = OsString::from_vec(vec![0xFF]);
    let sources = Sources {
        environment: Environment::from([("DUEHOOK_REGION".to_owned(), value)]),
        ..Sources::default()
    };
    refused(load(&sources), &["region", "DUEHOOK_REGION", "UTF-8"], "not UTF-8");
}
