//! What lies below a prefix and what only looks so.

use super::*;

fn prefixes(texts: &[&str]) -> Vec<Prefix> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn allowed() -> Vec<Prefix> {
    prefixes(&[
        "file:///srv/outbox/",
        "https://store.internal/",
        "http://10.0.0.9:8080/a b/".replace(' ', "%20").as_str(),
        "s3://phi-eu/",
        "s3://mixed/out/",
    ])
}

#[test]
fn what_is_admitted_has_one_form() {
    let check = |text: &str, want: &str| {
        let got = admit(&allowed(), text).map(|it| it.as_str().to_owned());
        assert_eq!(got.as_deref(), Ok(want), "{text}");
        assert_eq!(admit(&allowed(), want).unwrap().as_str(), want, "{want}");
    };
    check("file:///srv/outbox/a.json", "file:///srv/outbox/a.json");
    check("FILE:///srv/%6futbox/deep/er/a%20b", "file:///srv/outbox/deep/er/a%20b");
    check("https://STORE.internal:443/a", "https://store.internal/a");
    check("https://store.internal/a%62c%2525/%c3%a9", "https://store.internal/abc%2525/%C3%A9");
    check("http://10.0.0.9:8080/a%20b/c", "http://10.0.0.9:8080/a%20b/c");
    check("s3://phi-eu/2026/11/x.json", "s3://phi-eu/2026/11/x.json");
    check("s3://mixed/out/...", "s3://mixed/out/...");
}

#[test]
fn what_only_looks_as_if_it_lay_below_a_prefix() {
    let check = |text: &str, want: BadReference| {
        assert_eq!(admit(&allowed(), text), Err(want), "{text:?}");
    };
    for text in [
        "file:///srv/outbox/../../etc/passwd",
        "file:///srv/outbox/%2e%2e/x",
        "file:///srv/outbox/.%2E/x",
        "file:///srv/outbox/./x",
        "file:///srv/outbox//etc",
        "file:///srv/outbox/a%2fb",
        "file:///srv/outbox/a%5cb",
        "file:///srv/outbox/a%00",
        "file:///srv/outbox/a%0a",
        "file:///srv/outbox/a%",
        "file:///srv/outbox/a%zz",
        "file:///srv/outbox/%ff",
        "file:///srv/outbox/a/",
        "file:///srv/outbox/",
        "https://store.internal/..%2Fx",
        "https://store.internal",
        "s3://phi-eu",
        "s3://phi-eu/",
    ] {
        check(text, BadReference::Path);
    }
    for text in [
        "file:///srv/outbox",
        "file:///srv/outbox2/x",
        "file:///srv/out/x",
        "file:///etc/passwd",
        "http://store.internal/x",
        "https://store.internal:8443/x",
        "https://store.internal./x",
        "https://store.internal.evil.example/x",
        "https://10.0.0.9/a%20b/c",
        "http://10.0.0.9:8080/a/c",
        "s3://phi-eu2/x",
        "s3://mixed/outer/x",
        "s3://mixed/in/x",
    ] {
        check(text, BadReference::NotAllowed);
    }
}

#[test]
fn what_cannot_be_taken_apart() {
    let check = |text: &str, want: BadReference| {
        assert_eq!(admit(&allowed(), text), Err(want), "{text:?}");
    };
    for text in [
        "https://u:p@store.internal/x",
        "https://store.internal@evil.example/x",
        "https:///x",
        "file://srv/outbox/x",
        "file://localhost/srv/outbox/x",
        "s3://u@phi-eu/x",
        "s3://phi-eu:443/x",
        "s3://PHI-EU/x",
        "s3://a/x",
    ] {
        check(text, BadReference::Place);
    }
    check("https://store.internal/x?versionId=1", BadReference::Query);
    check("https://store.internal?/x", BadReference::Query);
    check("file:///srv/outbox/x#y", BadReference::Query);
    for text in ["", "/srv/outbox/x", "file:/srv/outbox/x", "gs://phi-eu/x", "https:store.internal/x", "://x"]
    {
        let want = if text.is_empty() { BadReference::Characters } else { BadReference::Scheme };
        check(text, want);
    }
    for text in
        ["file:///srv/outbox/a b", "file:///srv/outbox/a\\..\\b", "file:///srv/outbox/é", " s3://phi-eu/x"]
    {
        check(text, BadReference::Characters);
    }
    check(&format!("s3://phi-eu/{}", "x".repeat(MAX_REFERENCE)), BadReference::Characters);
    assert_eq!(admit(&[], "s3://phi-eu/x"), Err(BadReference::NoneAllowed));
}

#[test]
fn a_prefix_is_a_folder() {
    let check = |text: &str, want: Option<&str>| {
        let got = text.parse::<Prefix>().ok().map(|it| it.to_string());
        assert_eq!(got.as_deref(), want, "{text}");
    };
    check("file:///srv/outbox/", Some("file:///srv/outbox/"));
    check("HTTPS://Store.Internal:443/", Some("https://store.internal/"));
    check("s3://phi-eu/a/b/", Some("s3://phi-eu/a/b/"));
    for bad in ["file:///", "file:///srv/outbox", "https://store.internal", "https://x/y", "s3://b/", "x/"] {
        check(bad, None);
    }
    for bad in ["https://u@x/", "https://x/?a/", "https://x/../", "file:///srv/../", "file://host/srv/"] {
        check(bad, None);
    }
}
