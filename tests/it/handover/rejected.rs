//! What an import refuses: the whole of it, or one line by its number.

use serde_json::{Value, json};

use super::{drain, export, fresh, joined, read};
use crate::api::Api;

/// The export of three deliveries with keys at one destination: a header, a destination, three
/// deliveries, an end.
pub(super) async fn sample() -> Vec<String> {
    let server = fresh().await;
    let api = Api::of(&server);
    api.destination("kept", "http://127.0.0.1:9/", "").await;
    api.admin("POST", "/v1/destinations/kept/pause", "").await.expect(200);
    for key in ["a", "b", "c"] {
        api.send("kept", Some(key), key.as_bytes().to_vec()).await.unwrap().expect(202);
    }
    drain(&api).await;
    let lines = export(&api).await;
    assert_eq!(lines.len(), 6);
    lines
}

/// The lines with one of them changed.
fn with(lines: &[String], at: usize, change: impl FnOnce(&mut Value)) -> Vec<String> {
    let mut lines = lines.to_vec();
    let mut line = read(&lines[at]);
    change(&mut line);
    lines[at] = line.to_string();
    lines
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_export_of_this_region_is_refused_whole() {
    let lines = sample().await;
    let server = fresh().await;
    let api = Api::of(&server);
    let check = async |lines: Vec<String>, status: u16, code: &str, field: &str| {
        let refused = api.import("", joined(&lines)).await.expect(status);
        assert_eq!(refused["code"], code, "{refused}");
        let named = refused["errors"][0]["field"].as_str().unwrap_or_default();
        assert_eq!(named, field, "{refused}");
    };
    check(vec![], 422, "truncated", "").await;
    check(vec!["nonsense".into()], 400, "malformed", "").await;
    check(lines[1..].to_vec(), 422, "invalid", "kind").await;
    check(with(&lines, 0, |line| line["region"] = "us".into()), 422, "wrong_region", "region").await;
    check(with(&lines, 0, |line| line["format"] = 2.into()), 422, "invalid", "format").await;
    assert_eq!(api.list("").await.len(), 0);
    check(lines[..5].to_vec(), 422, "truncated", "").await;
    assert_eq!(api.list("").await.len(), 3, "what was read is kept");
    check([&lines[..4], &lines[5..]].concat(), 422, "truncated", "").await;
    let told = api.import("", joined(&lines)).await.expect(200);
    assert_eq!((&told["unchanged"], &told["rejected"]), (&json!(3), &json!([])));
    check(with(&lines, 0, |line| line["fence"] = 0.into()), 409, "stale_export", "fence").await;
    let json = api.admin("POST", "/v1/import", "{}").await.expect(415);
    assert_eq!(json["code"], "content_type");
    assert_eq!(api.import("?dry=true", joined(&lines)).await.expect(422)["code"], "invalid");
}

/// The same lines, each time on a server of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_line_is_named_and_the_others_are_taken() {
    let lines = sample().await;
    let check = async |lines: Vec<String>, number: u64, code: &str| {
        for (query, kept) in [("", 2), ("?stop_on_error=true", 1)] {
            let server = fresh().await;
            let api = Api::of(&server);
            let told = api.import(query, joined(&lines)).await.expect(200);
            let rejected = told["rejected"].as_array().unwrap();
            assert_eq!((rejected.len(), told["more_rejected"].as_u64()), (1, Some(0)), "{told}");
            assert_eq!(
                (&rejected[0]["line"], &rejected[0]["problem"]["code"]),
                (&json!(number), &json!(code)),
                "{told}"
            );
            assert_eq!((&told["imported"], api.list("").await.len()), (&json!(kept), kept), "{query} {told}");
            assert_eq!(told["stopped"], !query.is_empty());
        }
    };
    let spoilt = |text: &str| [&lines[..3], &[text.to_owned()], &lines[4..]].concat();
    check(spoilt("nonsense"), 4, "malformed").await;
    check(spoilt(r#"{"kind":"delivery"}"#), 4, "invalid").await;
    check(spoilt(&format!("\"{}\"", "x".repeat(2 << 20))), 4, "payload_too_large").await;
    check(with(&lines, 3, |line| line["class"] = "unheard-of".into()), 4, "class_unknown").await;
    check(with(&lines, 3, |line| line["destination"] = "unheard-of".into()), 4, "destination_unknown").await;
    check(with(&lines, 3, |line| line["tenant"] = "other".into()), 4, "destination_unknown").await;
    check(with(&lines, 3, |line| line["region"] = "us".into()), 4, "wrong_region").await;
    check(with(&lines, 3, |line| line["idempotency_key"] = "a".into()), 4, "key_reused").await;
    check(with(&lines, 3, |line| line["payload_base64"] = "Yw==".into()), 4, "invalid").await;
    check(with(&lines, 3, |line| line["id"] = read(&lines[2])["id"].clone()), 4, "key_reused").await;
}

/// What is here is replaced only by what has changed more often, and never while it is in flight.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_higher_revision_replaces_and_a_lower_one_does_not() {
    use duehook::drill::receiver::Answer;
    let lines = sample().await;
    let hanging = super::receiver(vec![Answer::status(204).after(std::time::Duration::from_secs(5))]).await;
    let server = fresh().await;
    let api = Api::of(&server);
    api.import("", joined(&lines)).await.expect(200);
    let ended = |line: &mut Value| {
        line["revision"] = 7.into();
        line["state"] = "terminal".into();
        line["outcome"] = "cancelled".into();
        line["finished_at"] = line["created_at"].clone();
        (line["next_attempt_at"], line["next_reason"]) = (Value::Null, Value::Null);
        line["attempts"] = 3.into();
    };
    let told = api.import("", joined(&with(&lines, 2, ended))).await.expect(200);
    assert_eq!((&told["updated"], &told["unchanged"]), (&json!(1), &json!(2)), "{told}");
    let id = read(&lines[2])["id"].as_str().unwrap().to_owned();
    let one = api.get(&id).await;
    assert_eq!((&one["outcome"], &one["attempts"]), (&json!("cancelled"), &json!(3)), "{one}");
    let told = api.import("", joined(&lines)).await.expect(200);
    assert_eq!((&told["updated"], &told["unchanged"]), (&json!(0), &json!(3)), "it never goes back: {told}");
    let waits_again = with(&lines, 2, |line| line["revision"] = 8.into());
    assert_eq!(api.import("", joined(&waits_again)).await.expect(200)["updated"], 1);
    assert_eq!(api.get(&id).await["state"], "ready");
    // An attempt of it is out now.
    let url = json!({"url": hanging.url("/")}).to_string();
    api.admin("PATCH", "/v1/destinations/kept", &url).await.expect(200);
    api.admin("POST", "/v1/destinations/kept/resume", "").await.expect(200);
    crate::api::until("one is leased", async || !api.list("state=leased").await.is_empty()).await;
    let leased = api.list("state=leased").await[0]["id"].clone();
    let at = (2..5).find(|at| read(&lines[*at])["id"] == leased).unwrap();
    let told =
        api.import("", joined(&with(&lines, at, |line| line["revision"] = 99.into()))).await.expect(200);
    let rejected = &told["rejected"][0];
    assert_eq!(
        (&rejected["line"], &rejected["problem"]["code"]),
        (&json!(at + 1), &json!("leased")),
        "{told}"
    );
    assert_eq!(api.import("", joined(&lines)).await.expect(200)["rejected"], json!([]), "as it is it stays");
    super::whole(server);
}
