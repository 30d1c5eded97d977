//! `{:?}` of whatever holds a body, a secret, a header's value or a URL shows none of them. That what
//! is secret has no `Display` and cannot be serialized is shown by the documentation of `model::secret`.

use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;
use duehook::config::{Scope, Token};
use duehook::engine::command::{Command, Expect};
use duehook::model::{
    Certificates, ClientCertificate, Destination, Digest, Excerpt, Header, LiveSecret, NewBody, Secret,
};
use duehook::sender::letter::{Letter, Touched};
use duehook::sender::{Body, Endpoint, OutboundRequest, Signers};
use duehook::store::Body as Stored;
use duehook::time::{Millis, Timestamp};

use super::cage::forms;
use super::words;
use crate::scenes::settings;

#[track_caller]
fn check(it: &dyn Debug) {
    for text in [format!("{it:?}"), format!("{it:#?}")] {
        let lines = text.replace(['\n', ' '], "");
        for word in words::ALL {
            let shows = |form: &String| text.contains(form) || lines.contains(&form.replace(' ', ""));
            assert!(!forms(word).iter().any(shows), "{word}: {text}");
        }
    }
}

fn destination() -> Destination {
    let client = ClientCertificate { chain: "chain".into(), key: words::SEED.into() };
    Destination {
        url: format!("https://shop.example/{}?{}", words::PATH, words::QUERY).parse().unwrap(),
        headers: vec![Header::new("x-key", words::HEADER).unwrap()],
        secrets: vec![LiveSecret::new(Secret::symmetric(words::SYMMETRIC.as_bytes()).unwrap())],
        tls: Some(Certificates { ca: None, client: Some(client) }),
        ..settings(8, Millis(15_000))
    }
}

fn endpoint() -> Arc<Endpoint> {
    let of = destination();
    Arc::new(Endpoint {
        timeout: of.timeout,
        connect_timeout: of.connect_timeout,
        allow_cidrs: of.allow_cidrs.clone(),
        signers: Signers::of(&of.secrets),
        url: of.url,
        headers: of.headers,
        tls: of.tls,
    })
}

#[test]
fn what_holds_something_secret_is_printed_without_it() {
    let body = || Bytes::from_static(words::INLINE.as_bytes());
    check(&destination());
    check(&destination().secrets);
    check(&destination().tls);
    check(&endpoint());
    check(&NewBody::new(body()));
    check(&Stored(body()));
    check(&Letter::new(body(), &Touched::default()));
    check(&Excerpt(words::ANSWER.into()));
    check(&OutboundRequest {
        delivery: duehook::model::DeliveryId(7),
        attempt: 1,
        key: "k".to_owned(),
        created_at: Timestamp(1),
        sent_at: Timestamp(1),
        content_type: "text/plain".to_owned(),
        headers: vec![Header::new("x-own", words::OWN_HEADER).unwrap()],
        body: Body::Bytes(body()),
        endpoint: endpoint(),
        keep_alive: true,
    });
    check(&Command::PutDestination {
        name: "shop".parse().unwrap(),
        settings: Box::new(destination()),
        keep_secrets: false,
        expect: Expect::Anything,
    });
    let secret: Secret = "whsk_S25yRWQyNTUxOVNlZWQ0NDE3YWJjZGVmZ2hpamtsbW4=".parse().unwrap();
    assert!(matches!(&secret, Secret::Ed25519(seed) if seed == words::SEED.as_bytes()));
    check(&Command::RotateSecret { name: "shop".parse().unwrap(), secret, overlap: Millis(1) });
    let sha256: Digest = words::SEED.as_bytes().try_into().unwrap();
    check(&Token { id: "shop".parse().unwrap(), sha256, scopes: vec![Scope::Read], tenants: None });
}

/// The check finds what is printed.
#[test]
#[should_panic(expected = "KnrInlineBody4417")]
fn a_body_that_is_printed_is_found() {
    check(&words::INLINE.as_bytes());
}
