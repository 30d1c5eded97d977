//! One report for each lease, whatever becomes of its task.

use super::*;
use crate::driver::inbox::Phase;
use crate::model::Lane;

fn duty(inbox: &Arc<Inbox>, nonce: u64) -> Duty {
    let lease = Lease {
        id: DeliveryId(7),
        attempt: 3,
        nonce,
        claimed_at: Timestamp(1_000),
        until: Timestamp(21_000),
        destination: DestNo(0),
        lane: Lane(2),
        due: Timestamp(900),
        fresh: false,
    };
    let (inbox, read) = (Arc::clone(inbox), Read::default());
    Duty { inbox, lease, started_at: Timestamp(1_000), host: None, read, done: false }
}

fn reports(inbox: &Inbox) -> Vec<(u64, Outcome)> {
    inbox.report(duty(&Arc::new(Inbox::default()), 0).blank(Outcome::Damaged)); // so that it never waits
    let (batch, ..) = inbox.take(std::time::Duration::ZERO, Phase::Running);
    let all = batch.reports.into_iter().map(|report| (report.nonce, report.outcome));
    all.filter(|(_, outcome)| *outcome != Outcome::Damaged).collect()
}

const INTERRUPTED: Outcome = Outcome::MaybeSent(MaybeSent::Interrupted);

/// C142, C126: a task that panics, is cut off while it waits, or is cut off before it ever ran.
#[tokio::test]
async fn c142_a_task_that_dies_is_reported_once() {
    let inbox = Arc::new(Inbox::default());
    let mut tasks = JoinSet::new();
    let (panics, hangs, never) = (duty(&inbox, 1), duty(&inbox, 2), duty(&inbox, 3));
    tasks.spawn(async move {
        let _held = panics;
        assert!(_held.done, "this task is to die");
    });
    let hanging = tasks.spawn(async move {
        let _held = hangs;
        std::future::pending::<()>().await;
    });
    assert!(tasks.join_next().await.expect("two tasks").is_err(), "the panic");
    hanging.abort();
    assert!(tasks.join_next().await.expect("one task").is_err(), "the cut");
    let cut = tasks.spawn(async move {
        drop(never);
    });
    cut.abort();
    assert!(tasks.join_next().await.expect("one task").is_err(), "it never ran");
    assert_eq!(reports(&inbox), [(1, INTERRUPTED), (2, INTERRUPTED), (3, INTERRUPTED)]);
}

#[test]
fn what_was_reported_is_not_reported_again() {
    let inbox = Arc::new(Inbox::default());
    let answered = Outcome::Answered { status: 204, headers: crate::outcome::RetryHeaders::default() };
    let seen =
        Seen { outcome: answered.clone(), error: None, address: None, response_excerpt: None, fetched: None };
    duty(&inbox, 1).report(seen, Timestamp(2_000));
    duty(&inbox, 2).end(INTERRUPTED);
    drop(duty(&inbox, 3));
    assert_eq!(reports(&inbox), [(1, answered), (2, INTERRUPTED), (3, INTERRUPTED)]);
}

/// Also where its task is cut after the read: the next attempt is to send the same bytes or none.
#[test]
fn what_was_read_is_in_every_report() {
    let check = |read: Option<[u8; 32]>, ends: fn(Duty)| {
        let inbox = Arc::new(Inbox::default());
        let duty = duty(&inbox, 1);
        read.into_iter().for_each(|digest| duty.read.set(digest).expect("once"));
        ends(duty);
        let (batch, ..) = inbox.take(std::time::Duration::ZERO, Phase::Running);
        assert_eq!(batch.reports.iter().map(|it| it.digest).collect::<Vec<_>>(), [read]);
    };
    let answered = |duty: Duty| {
        let outcome = Outcome::Answered { status: 500, headers: crate::outcome::RetryHeaders::default() };
        let seen = Seen { outcome, error: None, address: None, response_excerpt: None, fetched: None };
        duty.report(seen, Timestamp(2_000));
    };
    for read in [None, Some([7; 32])] {
        check(read, drop);
        check(read, answered);
    }
}
