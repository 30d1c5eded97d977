//! The receiver over real sockets: what it answers, and what it tells.

use super::*;

const DEADLINE: Duration = Duration::from_secs(10);

async fn post(receiver: &Receiver, path: &str, body: &'static str) -> Option<u16> {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let sent = client.post(receiver.url(path)).header("idempotency-key", "k1").body(body).send();
    let answer = tokio::time::timeout(DEADLINE, sent).await.expect("an answer in time");
    answer.ok().map(|answer| answer.status().as_u16())
}

#[tokio::test]
async fn a_record_tells_what_came() {
    let receiver = Receiver::start(Script::Paths, Record::Bodies).await.unwrap();
    assert_eq!(post(&receiver, "/ok?x=1", "{ }").await, Some(204));
    assert_eq!(post(&receiver, "/drop", "2").await, None);
    let all = receiver.received();
    assert_eq!(all.len(), 2);
    assert_eq!(
        (all[0].n, all[0].path.as_str(), &all[0].body[..], all[0].key()),
        (1, "/ok?x=1", &b"{ }"[..], Some("k1"))
    );
    assert_eq!((all[1].n, all[1].length, all[1].attempt()), (2, 1, None));
    assert!(all[0].at <= all[1].at);
    receiver.stop().await;
}

#[tokio::test]
async fn a_list_repeats_its_last_answer() {
    let script = Script::List(vec![Answer::status(503), Answer::refuse("1"), Answer::status(200)]);
    let receiver = Receiver::start(script, Record::Digests).await.unwrap();
    for want in [503, 429, 200, 200] {
        assert_eq!(post(&receiver, "/", "body").await, Some(want));
    }
    assert!(receiver.received().iter().all(|one| one.body.is_empty() && one.length == 4));
}

#[tokio::test]
async fn a_closure_decides_and_a_bare_count_keeps_nothing() {
    let decide = |received: &Received| Answer::status(if received.length > 2 { 413 } else { 201 });
    let receiver = Receiver::start(Script::Decide(Box::new(decide)), Record::Count).await.unwrap();
    assert_eq!(post(&receiver, "/", "ab").await, Some(201));
    assert_eq!(post(&receiver, "/", "abc").await, Some(413));
    assert_eq!((receiver.count(), receiver.received().len()), (2, 0));
}
