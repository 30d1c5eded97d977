//! Tokens as they come in, and what a caller may do.

use super::*;

fn token(id: &str, text: &str, scopes: &[Scope], tenants: Option<&[&str]>) -> Token {
    Token {
        id: id.parse().unwrap(),
        sha256: Sha256::digest(text).into(),
        scopes: scopes.to_vec(),
        tenants: tenants.map(|all| all.iter().map(|name| name.parse().unwrap()).collect()),
    }
}

#[test]
fn a_bearer_token_is_the_one_of_one_header() {
    let check = |lines: &[&str], want: Option<&str>| {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(header::AUTHORIZATION, line.parse().unwrap());
        }
        assert_eq!(bearer(&headers), want, "{lines:?}");
    };
    check(&["Bearer abc"], Some("abc"));
    check(&["bearer abc"], Some("abc"));
    check(&["BEARER  abc "], Some("abc"));
    for none in [
        &[][..],
        &["abc"],
        &["Basic abc"],
        &["Bearer"],
        &["Bearer "],
        &["Bearerabc"],
        &["Bearer a", "Bearer b"],
    ] {
        check(none, None);
    }
    check(&[&format!("Bearer {}", "a".repeat(MAX_TOKEN))], Some(&"a".repeat(MAX_TOKEN)));
    check(&[&format!("Bearer {}", "a".repeat(MAX_TOKEN + 1))], None);
}

#[test]
fn only_known_tokens_are_found_and_they_can_be_changed() {
    let ring =
        Keyring::new(vec![token("a", "one", &[Scope::Read], None), token("b", "two", &[Scope::Admin], None)]);
    let found = |text: &str| ring.find(text).map(|token| token.id.to_string());
    assert_eq!((found("one"), found("two")), (Some("a".into()), Some("b".into())));
    for unknown in ["", "on", "onee", "One", "three"] {
        assert_eq!(found(unknown), None, "{unknown}");
    }
    ring.replace(vec![token("c", "three", &[Scope::Read], None)]);
    assert_eq!((found("one"), found("three")), (None, Some("c".into())));
}

#[test]
fn scopes_do_not_contain_each_other() {
    let check = |own: &[Scope], any: &[Scope], want: bool| {
        assert_eq!(Caller::bearer(token("a", "one", own, None)).has(any), want, "{own:?} {any:?}");
    };
    for scope in Scope::ALL {
        check(&[Scope::Admin], &[scope], true);
        check(&[scope], &[scope], true);
    }
    check(&[Scope::Ingest], &[Scope::Read, Scope::Admin], false);
    check(&[Scope::Read], &[Scope::Ingest], false);
    check(&[Scope::Destinations], &[Scope::Read], false);
    check(&[Scope::Ingest, Scope::Read], &[Scope::Read], true);
    assert!(Caller::local(None).has(&[Scope::Admin]));
}

#[test]
fn a_pinned_caller_sees_its_tenants() {
    let name = |text: &str| -> Name { text.parse().unwrap() };
    let names = |all: &[&str]| -> Vec<Name> { all.iter().map(|text| name(text)).collect() };
    let pinned = Caller::bearer(token("a", "one", &[Scope::Admin], Some(&["acme", "shop"])));
    assert!(pinned.sees(&name("acme")) && !pinned.sees(&name("other")));
    assert_eq!(pinned.may_change(&name("other")).unwrap_err().code, Code::TenantNotAllowed);
    let check =
        |asked: &[&str], want: &[&str]| assert_eq!(pinned.among(names(asked)), names(want), "{asked:?}");
    check(&[], &["acme", "shop"]);
    check(&["shop", "other"], &["shop"]);
    check(&["other"], &[]);
    let all = Caller::bearer(token("b", "two", &[Scope::Admin], None));
    assert!(all.sees(&name("other")));
    assert_eq!(all.among(names(&["other"])), names(&["other"]));
    assert_eq!((pinned.by(), Caller::local(Some(Peer { uid: 7 })).by()), ("token:a", "uid:7"));
}
