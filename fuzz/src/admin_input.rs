//! Any bytes as what the admin listener is told: a destination, a change of one, a hold, a bulk
//! order, a query. What is taken keeps every limit and comes back the same from a change of nothing;
//! what is not is refused with a status of its own.

use std::collections::BTreeSet;

use axum::http::Uri;
use duehook::http::admin::deliveries::Listed;
use duehook::http::admin::{bulk, destinations, input};
use duehook::http::app::Defaults;
use duehook::http::error::Problem;
use duehook::http::query::{MAX_VALUES, Query};
use duehook::model::destination::MAX_REASON;
use duehook::model::{Destination, MAX_HEADERS};
use duehook::sender::egress::Rules;
use duehook::store::Filter;
use duehook::time::{Millis, Timestamp};

const NOW: Timestamp = Timestamp(1_800_000_000_000);
/// As large as a page can be (API.md).
const MOST: usize = 1_000;

pub fn target(bytes: &[u8]) {
    settings(bytes);
    match destinations::read_hold(bytes, NOW) {
        Ok((until, reason)) => assert!(until > NOW && reason.len() <= MAX_REASON),
        Err(problem) => refused(&problem),
    }
    match bulk::read(bytes) {
        Ok(ordered) => {
            assert_ne!(ordered.filter, Filter::default(), "it would change everything");
            assert_ne!(ordered.rate_per_second, Some(0));
            few(&ordered.filter);
        }
        Err(problem) => refused(&problem),
    }
    query(bytes);
}

fn settings(bytes: &[u8]) {
    let rules = Rules { allow_http: false, ports: vec![443], allow_cidrs: Vec::new() };
    let policies = BTreeSet::from(["default".parse().expect("a name")]);
    let wait = Millis(5_000);
    let defaults = Defaults { concurrency: 8, timeout: wait, connect_timeout: wait };
    let checks = input::Checks { rules: &rules, policies: &policies, defaults };
    let least = input::read(br#"{"tenant":"acme","url":"https://a.example.com/"}"#, None, &checks);
    let least = least.expect("the least there can be").settings;
    for base in [None, Some(&least)] {
        match input::read(bytes, base, &checks) {
            Ok(wanted) => {
                hold(&wanted.settings);
                let again = input::read(b"{}", Some(&wanted.settings), &checks).expect("it was taken");
                assert!(again.keep_secrets);
                let same = Destination { secrets: again.settings.secrets.clone(), ..wanted.settings };
                assert_eq!(again.settings, same, "a change of nothing has changed something");
            }
            Err(problem) => refused(&problem),
        }
    }
}

fn hold(it: &Destination) {
    assert!(it.url.scheme() == "https" && it.url.port_or_known_default() == Some(443), "{}", it.url);
    assert!(it.concurrency_max > 0 && it.headers.len() <= MAX_HEADERS);
    assert!(it.timeout.0 > 0 && it.connect_timeout.0 > 0);
}

fn query(bytes: &[u8]) {
    let Ok(target) = Uri::try_from([b"/?", bytes].concat()) else { return };
    let mut asked = Query::of(&target);
    let listed = Listed::take(&mut asked);
    few(&listed.filter);
    assert!((1..=MOST).contains(&listed.limit));
    if let Err(problem) = asked.finish() {
        refused(&problem);
    }
}

fn few(filter: &Filter) {
    for values in
        [filter.states.len(), filter.tenants.len(), filter.destinations.len(), filter.last_status.len()]
    {
        assert!(values <= MAX_VALUES);
    }
}

fn refused(problem: &Problem) {
    assert!([400, 422].contains(&problem.status().as_u16()), "{problem:?}");
    assert!(!problem.detail.is_empty());
}

#[test]
fn corpus() {
    crate::over_corpus("admin_input", target);
}
