//! Orders as they are read, and what is wrong with them.

use super::*;
use crate::outcome::Ending;
use crate::store::Shown;

fn faults(text: &str) -> Vec<String> {
    let problem = read(text.as_bytes()).unwrap_err();
    problem.errors.iter().map(|one| one.field.to_string()).collect()
}

#[test]
fn what_is_wrong_is_named() {
    let check = |text: &str, fields: &[&str]| assert_eq!(faults(text), fields, "{text}");
    check("{}", &["action", "filter"]);
    check(r#"{"action":"delete","filter":{"tenant":"a"}}"#, &["action"]);
    check(r#"{"action":7,"filter":{"tenant":"a"}}"#, &["action"]);
    check(r#"{"action":"retry","filter":{}}"#, &["filter"]);
    check(r#"{"action":"retry","filter":{"tenant":null,"state":[]}}"#, &["filter.state", "filter.tenant"]);
    check(r#"{"action":"cancel","filter":{"destination":[],"state":"ready"}}"#, &["filter.destination"]);
    check(r#"{"action":"retry","filter":{"label":["a:b","c:d"]}}"#, &["filter.label"]);
    check(r#"{"action":"retry","filter":null}"#, &["filter"]);
    check(r#"{"action":"retry","filter":"tenant=a"}"#, &["filter"]);
    check(r#"{"action":"retry","filter":{"tenant":{}}}"#, &["filter.tenant"]);
    check(
        r#"{"action":"retry","filter":{"state":"gone","order":"created"}}"#,
        &["filter.state", "filter.order"],
    );
    let many = format!(r#"{{"action":"retry","filter":{{"last_status":[{}429]}}}}"#, "429,".repeat(100));
    check(&many, &["filter.last_status"]);
    check(
        r#"{"action":"retry","filter":{"tenant":{"a":1},"class":[["a"]]}}"#,
        &["filter.tenant", "filter.class"],
    );
    check(r#"{"action":"retry","filter":{"tenant":"a","tenant":"b"}}"#, &["filter.tenant"]);
    let long = format!(r#"{{"action":"retry","filter":{{"label":"{}:v"}}}}"#, "n".repeat(65));
    check(&long, &["filter.label"]);
    let wrong = r#"{"action":"retry","filter":{"tenant":"a"},"dry_run":1,"expected_count":-1,"rate_per_second":0,"more":1}"#;
    check(wrong, &["dry_run", "expected_count", "rate_per_second", "more"]);
    assert_eq!(read(b"[]").unwrap_err().code, Code::Malformed);
}

/// Each field of a filter has one type: nothing is a number that is a text, and nothing several that
/// is one.
#[test]
fn a_filter_field_has_its_json_type() {
    let check = |name: &str, value: &str, good: bool| {
        let text = format!(r#"{{"action":"retry","filter":{{"{name}":{value}}}}}"#);
        let faults = read(text.as_bytes()).map_err(|problem| problem.errors[0].field.to_string());
        assert_eq!(faults.err(), (!good).then(|| format!("filter.{name}")), "{text}");
    };
    for value in ["429", "[429]", "[100,999]"] {
        check("last_status", value, true);
    }
    for value in ["\"429\"", "[\"429\"]", "429.5", "99", "1000", "[429,99]", "true", "\"429,503\"", "-1"] {
        check("last_status", value, false);
    }
    for (name, one, other) in
        [("state", "ready", "leased"), ("outcome", "expired", "rejected"), ("last_result", "tls", "dns")]
    {
        check(name, &format!("\"{one}\""), true);
        check(name, &format!("[\"{one}\",\"{other}\"]"), true);
        check(name, &format!("\"{one},{other}\""), false);
        check(name, "7", false);
    }
    for name in ["tenant", "destination", "class"] {
        check(name, "\"a\"", true);
        for value in ["\"a,b\"", "\"\"", "7", "[7]", "[\"a\",null]", "{}", "true"] {
            check(name, value, false);
        }
    }
    for value in ["\"a:b,c\"", "\"a:\"", "\"ä:b:c\""] {
        check("label", value, true);
    }
    for value in ["\"a\"", "\":b\"", "7", "[\"a:b\"]", "null"] {
        check("label", value, false);
    }
    for name in ["created_after", "due_before", "finished_after"] {
        check(name, "\"2026-01-15T12:00:00+01:00\"", true);
        for value in ["\"2026-01-15\"", "\"now\"", "1768478400", "[\"2026-01-15T12:00:00Z\"]", "null"] {
            check(name, value, false);
        }
    }
}

/// What a job shows as its filter is read as that very filter.
#[test]
fn a_filter_is_read_as_it_is_shown() {
    let text = r#"{"action":"cancel","dry_run":true,"expected_count":7,"rate_per_second":100,"filter":{
        "state":["ready","delayed"],"outcome":["exhausted"],"tenant":["a","b"],"destination":"d","class":"bulk",
        "label":"a:b,c:d","last_status":429,"last_result":["timeout","tls"],
        "created_after":"2026-01-15T12:00:00Z","due_before":"2026-01-15T13:00:00+01:00"}}"#;
    let ordered = read(text.as_bytes()).unwrap();
    assert_eq!((ordered.action, ordered.dry_run), (BulkAction::Cancel, true));
    assert_eq!((ordered.expected_count, ordered.rate_per_second), (Some(7), Some(100)));
    let filter = &ordered.filter;
    assert_eq!(
        (&*filter.states, &*filter.outcomes),
        (&[Shown::Ready, Shown::Delayed][..], &[Ending::Exhausted][..])
    );
    assert_eq!(filter.label, Some(("a".to_owned(), "b,c:d".to_owned())));
    assert_eq!((filter.due.before, &*filter.last_status), (filter.created.after, &[429][..]));
    let job = Job::search(ordered.action, ordered.filter.clone(), crate::time::Timestamp(0));
    let shown = serde_json::to_value(JobObject::of(&job)).unwrap();
    let again = serde_json::json!({"action": shown["action"], "filter": shown["filter"]}).to_string();
    assert_eq!(read(again.as_bytes()).unwrap().filter, ordered.filter, "{again}");
}

#[test]
fn a_count_that_is_not_the_expected_one_stops_it() {
    let check = |expected_count: Option<u64>, counted: u64, good: bool| {
        let ordered = Ordered {
            action: BulkAction::Erase,
            filter: Filter::default(),
            dry_run: false,
            expected_count,
            rate_per_second: None,
        };
        let code = expected(&ordered, counted).err().map(|problem| problem.code);
        assert_eq!(code, (!good).then_some(Code::CountChanged), "{expected_count:?} {counted}");
    };
    check(None, 7, true);
    check(Some(7), 7, true);
    check(Some(7), 8, false);
    check(Some(0), 1, false);
}
