//! A destination as it is given: defaults, changes, and every fault by its field.

use super::*;
use crate::engine::explain::samples::{destination, name};
use crate::model::Rate;

fn read_on(base: Option<&Destination>, text: &str) -> Result<Destination, Problem> {
    wanted_on(base, text).map(|wanted| wanted.settings)
}

fn wanted_on(base: Option<&Destination>, text: &str) -> Result<Wanted, Problem> {
    let rules = Rules { allow_http: false, ports: vec![443], allow_cidrs: Vec::new() };
    let policies = BTreeSet::from([name("default"), name("slow")]);
    let defaults = Defaults { concurrency: 8, timeout: Millis(15_000), connect_timeout: Millis(5_000) };
    read(text.as_bytes(), base, &Checks { rules: &rules, policies: &policies, defaults })
}

fn put(text: &str) -> Result<Destination, Problem> {
    read_on(None, text)
}

fn patch(text: &str) -> Result<Destination, Problem> {
    read_on(Some(&destination().settings), text)
}

const LEAST: &str = r#"{"tenant":"acme","url":"https://shop.example.com/hook"}"#;

/// What [`LEAST`] comes to.
fn least() -> Destination {
    Destination {
        tenant: name("acme"),
        url: "https://shop.example.com/hook".parse().unwrap(),
        concurrency_max: 8,
        adaptive: false,
        rate: None,
        policy: name("default"),
        timeout: Millis(15_000),
        connect_timeout: Millis(5_000),
        headers: Vec::new(),
        secrets: vec![],
        tls: None,
        allow_cidrs: Vec::new(),
        hold_scope: HoldScope::Destination,
    }
}

#[test]
fn a_put_of_the_least_has_the_defaults() {
    assert_eq!(put(LEAST), Ok(least()));
}

#[test]
fn a_put_of_everything() {
    let got = put(
        r#"{"tenant":"acme","url":"https://shop.example.com/hook","concurrency":{"max":2,"adaptive":true},
        "rate":{"per_second":0.5,"burst":3},"policy":"slow","timeout_ms":1000,"connect_timeout_ms":100,"headers":{"X-B":"2","X-A":"1"},
        "secrets":null,"tls":null,"allow_cidrs":["127.0.0.1/32"],"hold_scope":"delivery"}"#,
    );
    let want = Destination {
        concurrency_max: 2,
        adaptive: true,
        rate: Rate::per_second(0.5, 3),
        policy: name("slow"),
        timeout: Millis(1_000),
        connect_timeout: Millis(100),
        headers: vec![Header::new("x-a", "1").unwrap(), Header::new("x-b", "2").unwrap()],
        secrets: vec![],
        tls: None,
        allow_cidrs: vec!["127.0.0.1/32".parse().unwrap()],
        hold_scope: HoldScope::Delivery,
        ..least()
    };
    assert_eq!(got, Ok(want));
}

/// RFC 7396: absent keeps, null removes, objects merge.
#[test]
fn a_patch_changes_what_it_names() {
    let stored = destination().settings;
    let check = |text: &str, change: fn(&mut Destination)| {
        let mut want = stored.clone();
        change(&mut want);
        assert_eq!(patch(text), Ok(want), "{text}");
    };
    check("{}", |_| {});
    check(r#"{"policy":"slow"}"#, |d| d.policy = "slow".parse().unwrap());
    check(r#"{"timeout_ms":2000}"#, |d| d.timeout = Millis(2_000));
    check(r#"{"timeout_ms":null}"#, |d| d.timeout = Millis(15_000));
    check(r#"{"concurrency":{}}"#, |_| {});
    check(r#"{"concurrency":{"max":3}}"#, |d| d.concurrency_max = 3);
    check(r#"{"concurrency":{"max":null}}"#, |d| d.concurrency_max = 8);
    check(r#"{"concurrency":{"adaptive":true}}"#, |d| d.adaptive = true);
    check(r#"{"rate":null}"#, |_| {});
    check(r#"{"rate":{"per_second":10}}"#, |d| d.rate = Rate::per_second(10.0, 1));
    check(r#"{"rate":{"per_second":0.016667,"burst":null}}"#, |d| d.rate = Rate::per_second(0.016_667, 1));
    check(r#"{"headers":null}"#, |d| d.headers.clear());
    check(r#"{"headers":{}}"#, |_| {});
    check(r#"{"headers":{"Authorization":null}}"#, |d| d.headers.clear());
    check(r#"{"headers":{"X-A":"1"}}"#, |d| d.headers.push(Header::new("x-a", "1").unwrap()));
    check(r#"{"allow_cidrs":null}"#, |d| d.allow_cidrs.clear());
    check(r#"{"hold_scope":"delivery"}"#, |d| d.hold_scope = HoldScope::Delivery);
    check(r#"{"url":"https://other.example/"}"#, |d| d.url = "https://other.example/".parse().unwrap());
}

/// The same upon a destination that has a rate and adapts.
#[test]
fn a_patch_of_a_pace_that_is_set() {
    let mut stored = destination().settings;
    (stored.adaptive, stored.rate) = (true, Rate::per_second(2.5, 4));
    let check = |text: &str, change: fn(&mut Destination)| {
        let mut want = stored.clone();
        change(&mut want);
        assert_eq!(read_on(Some(&stored), text), Ok(want), "{text}");
    };
    check("{}", |_| {});
    check(r#"{"rate":{}}"#, |_| {});
    check(r#"{"rate":null}"#, |d| d.rate = None);
    check(r#"{"rate":{"burst":5}}"#, |d| d.rate = Rate::per_second(2.5, 5));
    check(r#"{"rate":{"burst":null}}"#, |d| d.rate = Rate::per_second(2.5, 1));
    check(r#"{"rate":{"per_second":1e5}}"#, |d| d.rate = Rate::per_second(100_000.0, 4));
    check(r#"{"concurrency":{"max":3}}"#, |d| d.concurrency_max = 3);
    check(r#"{"concurrency":{"adaptive":false}}"#, |d| d.adaptive = false);
    check(r#"{"concurrency":{"adaptive":null}}"#, |d| d.adaptive = false);
    check(r#"{"concurrency":null}"#, |d| d.adaptive = false);
    let put = read_on(None, LEAST).unwrap();
    assert_eq!((put.adaptive, put.rate), (false, None), "a PUT sets back what it does not give");
}

#[test]
fn faults_name_their_field() {
    let check = |text: &str, field: &str| {
        let problem = patch(text).expect_err(text);
        let named: Vec<&str> = problem.errors.iter().map(|one| &*one.field).collect();
        assert_eq!(named, [field], "{text}");
    };
    check(r#"{"tenant":null}"#, "tenant");
    check(r#"{"tenant":"a b"}"#, "tenant");
    check(r#"{"url":null}"#, "url");
    check(r#"{"url":7}"#, "url");
    check(r#"{"url":"nonsense"}"#, "url");
    check(r#"{"url":"http://shop.example.com/","allow_cidrs":[]}"#, "url");
    check(&format!(r#"{{"url":"https://shop.example.com/{}"}}"#, "x".repeat(2048)), "url");
    check(r#"{"policy":"unknown"}"#, "policy");
    check(r#"{"policy":7}"#, "policy");
    check(r#"{"concurrency":8}"#, "concurrency");
    check(r#"{"concurrency":{"max":0}}"#, "concurrency.max");
    check(r#"{"concurrency":{"max":4097}}"#, "concurrency.max");
    check(r#"{"concurrency":{"adaptive":1}}"#, "concurrency.adaptive");
    check(r#"{"concurrency":{"adaptive":"true"}}"#, "concurrency.adaptive");
    check(r#"{"concurrency":{"max":1,"max":2}}"#, "concurrency");
    check(r#"{"concurrency":{"min":1}}"#, "concurrency");
    check(r#"{"timeout_ms":999}"#, "timeout_ms");
    check(r#"{"timeout_ms":60001}"#, "timeout_ms");
    check(r#"{"connect_timeout_ms":"5s"}"#, "connect_timeout_ms");
    check(r#"{"headers":[]}"#, "headers");
    check(r#"{"headers":{"Host":"x"}}"#, "headers.Host");
    check(r#"{"headers":{"authorization":"***"}}"#, "headers.authorization");
    check(r#"{"allow_cidrs":["10.0.0.0/33"]}"#, "allow_cidrs");
    check(r#"{"allow_cidrs":"10.0.0.0/8"}"#, "allow_cidrs");
    check(r#"{"hold_scope":"tenant"}"#, "hold_scope");
    check(r#"{"rate":5}"#, "rate");
    check(r#"{"rate":[]}"#, "rate");
    check(r#"{"rate":{"per_second":1,"per_minute":60}}"#, "rate");
    check(r#"{"rate":{"per_second":1,"per_second":1}}"#, "rate");
    check(r#"{"rate":{}}"#, "rate.per_second");
    check(r#"{"rate":{"burst":5}}"#, "rate.per_second");
    check(r#"{"rate":{"per_second":null}}"#, "rate.per_second");
    for wrong in ["0", "-1", "1e-9", "100000.1", "1e400", "\"10\"", "true", "[1]"] {
        check(&format!(r#"{{"rate":{{"per_second":{wrong}}}}}"#), "rate.per_second");
    }
    for wrong in ["0", "100001", "1.5", "-1", "\"1\""] {
        check(&format!(r#"{{"rate":{{"per_second":1,"burst":{wrong}}}}}"#), "rate.burst");
    }
    check(r#"{"state":"paused"}"#, "state");
    check(r#"{"colour":1}"#, "colour");
}

#[test]
fn limits_of_lists() {
    let headers = |count: usize| {
        let entries: Vec<String> = (0..count).map(|n| format!(r#""x{n}":"v""#)).collect();
        patch(&format!(r#"{{"headers":{{{}}}}}"#, entries.join(",")))
    };
    assert_eq!(headers(15).unwrap().headers.len(), 16);
    assert_eq!(headers(16).unwrap_err().errors[0].field, "headers");
    let cidrs =
        |count: usize| patch(&format!(r#"{{"allow_cidrs":[{}]}}"#, vec![r#""10.0.0.0/8""#; count].join(",")));
    assert!(cidrs(16).is_ok());
    assert_eq!(cidrs(17).unwrap_err().errors[0].field, "allow_cidrs");
}

#[test]
fn a_put_names_all_that_is_missing() {
    let problem = put("{}").unwrap_err();
    let named: Vec<&str> = problem.errors.iter().map(|one| &*one.field).collect();
    assert_eq!(named, ["tenant", "url"]);
    assert!(put("[]").is_err_and(|problem| problem.status().as_u16() == 400));
}

const SYMMETRIC: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const ED25519: &str = "whsk_nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=";

#[test]
fn secrets_are_set_kept_or_removed() {
    let check = |given: &str, want: Option<&[&str]>| {
        let text = LEAST.replacen('{', &format!("{{{given}"), 1);
        let got = wanted_on(None, &text).unwrap();
        let texts = got.settings.secrets.iter().map(|it| it.secret.reveal());
        let texts: Vec<String> = texts.collect();
        assert_eq!(
            (!got.keep_secrets).then_some(texts).as_deref(),
            want.map(|all| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>()).as_deref(),
            "{given}"
        );
    };
    check("", None);
    check(r#""secrets":null,"#, Some(&[]));
    check(r#""secrets":[],"#, Some(&[]));
    check(&format!(r#""secrets":["{SYMMETRIC}","{ED25519}"],"#), Some(&[SYMMETRIC, ED25519]));
}

#[test]
fn a_secret_that_is_none_is_refused_and_not_repeated() {
    let check = |secrets: &str| {
        let problem = patch(&format!(r#"{{"secrets":{secrets}}}"#)).unwrap_err();
        assert_eq!(problem.errors[0].field, "secrets", "{secrets}");
        assert!(!problem.detail.contains("MfKQ"), "{problem:?}");
    };
    check("3");
    check(r#"["whsec_"]"#);
    check(r#"["MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]"#);
    check(r#"["whsec_MfKQ"]"#);
    check(&format!(r#"["{SYMMETRIC}","{SYMMETRIC}"]"#));
    check(&format!("[{}]", [ED25519; 5].map(|one| format!("\"{one}\"")).join(",")));
}

#[test]
fn certificates_merge_and_their_key_is_never_read_back() {
    let refused = |tls: &str, field: &str| {
        let problem = patch(&format!(r#"{{"tls":{tls}}}"#)).unwrap_err();
        assert_eq!(problem.errors[0].field, field, "{tls}");
    };
    refused("3", "tls");
    refused(r#"{"verify":false}"#, "tls");
    refused(r#"{"ca_pem":"x"}"#, "tls");
    refused(r#"{"client_cert_pem":"x"}"#, "tls");
    refused(r#"{"client_cert_pem":"x","client_key_pem":"y"}"#, "tls");
    refused(r#"{"client_key_pem":"***"}"#, "tls.client_key_pem");
    refused(&format!(r#"{{"ca_pem":"{}"}}"#, "x".repeat(40_000)), "tls.ca_pem");
    let own = rcgen::generate_simple_self_signed(vec!["x.example".into()]).unwrap();
    let (chain, key) = (own.cert.pem(), own.signing_key.serialize_pem());
    let text = serde_json::json!({"tls": {"ca_pem": chain, "client_cert_pem": chain, "client_key_pem": key}});
    let stored = patch(&text.to_string()).unwrap();
    let tls = stored.tls.clone().unwrap();
    assert_eq!((tls.ca.as_deref(), tls.client.is_some()), (Some(&*chain), true));
    let less = read_on(Some(&stored), r#"{"tls":{"client_cert_pem":null,"client_key_pem":null}}"#).unwrap();
    assert_eq!(less.tls, Some(crate::model::Certificates { ca: tls.ca, client: None }));
    assert_eq!(read_on(Some(&stored), r#"{"tls":null}"#).unwrap().tls, None);
    assert_eq!(
        read_on(Some(&stored), r#"{"tls":{"ca_pem":null,"client_cert_pem":null,"client_key_pem":null}}"#)
            .unwrap()
            .tls,
        None
    );
}
