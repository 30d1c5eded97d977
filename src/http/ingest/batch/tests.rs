//! Batches: one by one, or refused as a whole.

use super::*;
use crate::engine::explain::samples::{T0, name};

fn batch(kind: Json, text: &str) -> Result<Vec<String>, Code> {
    let (region, body) = (name("eu"), Bytes::copy_from_slice(text.as_bytes()));
    let checks = Checks { region: &region, max_payload: 1_000, references: &[], now: T0 };
    let items = read(&body, kind, &checks).map_err(|problem| problem.code)?;
    let shown = |item: Result<NewDelivery, Problem>| match item {
        Ok(delivery) => String::from_utf8(delivery.body.bytes().to_vec()).unwrap(),
        Err(problem) => problem.code.facts().0.to_owned(),
    };
    Ok(items.into_iter().map(shown).collect())
}

const GOOD: &str = r#"{"destination":"shop","payload":{"a": 1}}"#;

#[test]
fn items_are_read_one_by_one() {
    let check = |kind: Json, text: &str, want: &[&str]| {
        assert_eq!(batch(kind, text).unwrap(), want, "{text}");
    };
    check(Json::Lines, "", &[]);
    check(Json::Lines, "\n \r\n\n", &[]);
    check(Json::Lines, &format!("{GOOD}\r\n\n{{\n{GOOD}"), &["{\"a\": 1}", "malformed", "{\"a\": 1}"]);
    check(Json::Lines, "[]\n{}\n", &["malformed", "invalid"]);
    check(Json::Text, "[]", &[]);
    check(
        Json::Text,
        &format!("[{GOOD}, 3, {{}}, {GOOD}]"),
        &["{\"a\": 1}", "malformed", "invalid", "{\"a\": 1}"],
    );
}

#[test]
fn a_broken_array_is_400_for_the_whole() {
    for text in ["", "{}", "3", "[", "[1", "[1,]", "[{]", "[] []"] {
        assert_eq!(batch(Json::Text, text), Err(Code::Malformed), "{text}");
    }
}

#[test]
fn too_many_items_are_413() {
    let count = |items: usize| {
        let lines = batch(Json::Lines, &"1\n".repeat(items)).map(|items| items.len());
        let array = batch(Json::Text, &format!("[{}]", vec!["1"; items].join(","))).map(|items| items.len());
        assert_eq!(lines, array);
        lines
    };
    assert_eq!(count(MAX_ITEMS), Ok(MAX_ITEMS));
    assert_eq!(count(MAX_ITEMS + 1), Err(Code::PayloadTooLarge));
    assert_eq!(batch(Json::Text, &format!("[{}", "1,".repeat(2_000))), Err(Code::Malformed));
}

#[test]
fn c109_a_batch_of_brackets() {
    let deep = format!("[{}{}]", "[".repeat(31_000), "]".repeat(31_000));
    assert_eq!(batch(Json::Text, &deep).unwrap(), ["malformed"]);
    assert_eq!(batch(Json::Text, &"[".repeat(62_000)), Err(Code::Malformed));
}
