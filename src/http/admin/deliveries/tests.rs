//! What a list of deliveries may be asked for.

use super::*;
use crate::time::Timestamp;

fn listed(query: &str) -> Result<Listed, Vec<String>> {
    let mut asked = Query::of(&format!("/v1/deliveries?{query}").parse().unwrap());
    let listed = Listed::take(&mut asked);
    let named = |problem: Problem| problem.errors.iter().map(|one| one.field.to_string()).collect();
    asked.finish().map(|()| listed).map_err(named)
}

#[test]
fn nothing_asked_is_the_newest_fifty() {
    let want = Listed { filter: Filter::default(), order: Order::NewestCreated, from: None, limit: 50 };
    assert_eq!(listed(""), Ok(want));
}

#[test]
fn every_filter() {
    let query = "state=ready,terminal&outcome=expired&tenant=acme,zeta&destination=shop&class=urgent&\
                 label=a:b:c&last_status=429,503&last_result=timeout&created_after=1970-01-01T00:00:01Z&\
                 due_before=1970-01-01T00:00:02Z&finished_after=1970-01-01T01:00:03%2B01:00&order=finished&limit=7";
    let got = listed(query).unwrap();
    let name = |text: &str| text.parse().unwrap();
    let want = Filter {
        states: vec![Shown::Ready, Shown::Terminal],
        outcomes: vec![Ending::Expired],
        tenants: vec![name("acme"), name("zeta")],
        destinations: vec![name("shop")],
        classes: vec![name("urgent")],
        label: Some(("a".to_owned(), "b:c".to_owned())),
        last_status: vec![429, 503],
        last_result: vec![AttemptResult::Timeout],
        created: Between { after: Some(Timestamp(1_000)), before: None },
        due: Between { after: None, before: Some(Timestamp(2_000)) },
        finished: Between { after: Some(Timestamp(3_000)), before: None },
    };
    assert_eq!((got.filter, got.order, got.limit), (want, Order::OldestFinished, 7));
}

#[test]
fn faults_name_their_parameter() {
    let check = |query: &str, name: &str| assert_eq!(listed(query), Err(vec![name.to_owned()]), "{query}");
    check("state=waiting", "state");
    check("state=", "state");
    check("outcome=done", "outcome");
    check("tenant=a%20b", "tenant");
    check("label=a", "label");
    check("last_status=99", "last_status");
    check("last_status=x", "last_status");
    check("last_result=ok", "last_result");
    check("created_after=now", "created_after");
    check("order=due", "order");
    check("limit=0", "limit");
    check("limit=1001", "limit");
    check("limit=1&limit=2", "limit");
    check("cursor=%00", "cursor");
    check("status=ready", "status");
}
