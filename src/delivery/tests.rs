//! The transition table, row by row, and what each transition does to the record.

use bytes::Bytes;

use super::*;
use crate::model::{Digest, Excerpt};

const NOW: Timestamp = Timestamp(1_768_478_400_000);
const END: End = End { at: NOW, step: 7 };

fn again(counted: Counted) -> Verdict {
    Verdict::Again { due: NOW.plus(Millis(60_000)), reason: NextReason::Backoff, counted }
}

fn delivery() -> Delivery {
    Delivery {
        id: DeliveryId(1),
        tenant: TenantNo(1),
        destination: DestNo(1),
        class: ClassNo(1),
        region: "local".parse().unwrap(),
        key: None,
        created_at: NOW,
        not_before: None,
        max_age: Millis(1_000_000),
        expires_at: NOW.plus(Millis(1_000_000)),
        max_failures: 0,
        state: State::Waiting { due: NOW, lane: Lane(2), reason: NextReason::New },
        attempts: 0,
        failures: 0,
        throttles: 0,
        interrupted: 0,
        revision: 0,
        cancelling: false,
        first_attempt_at: None,
        payload: Payload { source: Source::Inline { bytes: 3, sha256: [5; 32] }, erased_at: None },
        content_type: "text/plain".into(),
        headers: vec![],
        labels: vec![],
        log: vec![],
    }
}

fn lease(attempt: u32) -> Lease {
    Lease {
        id: DeliveryId(1),
        attempt,
        nonce: 9,
        claimed_at: NOW.plus(Millis(u64::from(attempt))),
        until: NOW.plus(Millis(25_000)),
        destination: DestNo(1),
        lane: Lane(2),
        due: NOW,
        fresh: false,
    }
}

fn attempt(n: u32, result: AttemptResult) -> Attempt {
    Attempt {
        n,
        started_at: NOW,
        ended_at: Some(NOW),
        result,
        status: None,
        error: None,
        host: None,
        address: None,
        late: false,
        retry_after: None,
        next_attempt_at: None,
        response_excerpt: None,
    }
}

#[test]
fn the_transition_table() {
    use Refused::{Leased as InFlight, NotLeased, Terminal as Ended};
    let waiting = [
        (Event::Claim, Ok(Next::Leased)),
        (Event::Settle(again(Counted::Nothing)), Err(NotLeased)),
        (Event::LateSuccess, Ok(Next::End(Ending::Delivered))),
        (Event::Expire, Ok(Next::End(Ending::Expired))),
        (Event::Cancel, Ok(Next::End(Ending::Cancelled))),
        (Event::Retry, Ok(Next::Waiting)),
        (Event::Erase, Ok(Next::End(Ending::PayloadGone))),
        (Event::Quarantine, Ok(Next::End(Ending::Quarantined))),
    ];
    let leased = [
        (Event::Claim, Err(InFlight)),
        (Event::Settle(again(Counted::Nothing)), Ok(Next::Waiting)),
        (Event::Settle(Verdict::End(Ending::Rejected)), Ok(Next::End(Ending::Rejected))),
        (Event::LateSuccess, Ok(Next::End(Ending::Delivered))),
        (Event::Expire, Ok(Next::Same)),
        (Event::Cancel, Ok(Next::Cancelling)),
        (Event::Retry, Err(InFlight)),
        (Event::Erase, Ok(Next::Erasing)),
        (Event::Quarantine, Ok(Next::End(Ending::Quarantined))),
    ];
    let ended = [
        (Event::Claim, Err(Ended)),
        (Event::Settle(again(Counted::Nothing)), Err(Ended)),
        (Event::LateSuccess, Ok(Next::Same)),
        (Event::Expire, Err(Ended)),
        (Event::Cancel, Err(Ended)),
        (Event::Retry, Ok(Next::Waiting)),
        (Event::Erase, Ok(Next::Same)),
        (Event::Quarantine, Err(Ended)),
    ];
    let check = |phase, rows: &[(Event, Result<Next, Refused>)]| {
        for (event, want) in rows {
            assert_eq!(next(phase, *event), *want, "{phase:?} {event:?}");
        }
    };
    check(Phase::Waiting, &waiting);
    check(Phase::Leased, &leased);
    for end in Ending::ALL.into_iter().filter(|end| *end != Ending::Cancelled) {
        check(Phase::Terminal(end), &ended);
    }
    assert_eq!(next(Phase::Terminal(Ending::Cancelled), Event::Cancel), Ok(Next::Same));
}

#[test]
fn each_verdict_raises_its_own_counter() {
    let check = |verdict, result, want: (u32, u32, u32)| {
        let mut it = Delivery { interrupted: 2, ..delivery() };
        it.settle(&lease(4), attempt(4, result), verdict, END).unwrap();
        assert_eq!((it.failures, it.throttles, it.interrupted), want, "{verdict:?}");
        assert_eq!((it.attempts, it.revision), (4, 1));
        assert_eq!(it.first_attempt_at, Some(lease(4).claimed_at));
    };
    check(again(Counted::Failure), AttemptResult::ServerError, (1, 0, 0));
    check(again(Counted::Throttle), AttemptResult::RateLimited, (0, 1, 0));
    check(again(Counted::Nothing), AttemptResult::NotProcessed, (0, 0, 0));
    check(again(Counted::Interruption), AttemptResult::Interrupted, (0, 0, 3));
    check(Verdict::End(Ending::Exhausted), AttemptResult::ServerError, (1, 0, 0));
    check(Verdict::End(Ending::Delivered), AttemptResult::Success, (0, 0, 0));
    check(Verdict::End(Ending::Quarantined), AttemptResult::Interrupted, (0, 0, 3));
}

#[test]
fn what_was_attempted_waits_in_the_retry_lane() {
    let mut it = delivery();
    it.settle(&lease(1), attempt(1, AttemptResult::ServerError), again(Counted::Failure), END).unwrap();
    let due = NOW.plus(Millis(60_000));
    assert_eq!(it.state, State::Waiting { due, lane: Lane(3), reason: NextReason::Backoff });
}

/// C137: an end is an end, whatever is reported later.
#[test]
fn c137_a_late_report_never_reopens() {
    let mut it = delivery();
    it.settle(&lease(1), attempt(1, AttemptResult::Success), Verdict::End(Ending::Delivered), END).unwrap();
    let stale = it.settle(&lease(1), attempt(1, AttemptResult::ServerError), again(Counted::Failure), END);
    assert_eq!(stale, Err(Refused::Terminal));
    assert!(!it.settle_late(false, END), "already delivered");
    let mut waiting = delivery();
    assert!(waiting.settle_late(false, END));
    assert_eq!(waiting.phase(false), Phase::Terminal(Ending::Delivered));
}

#[test]
fn cancel_waits_for_the_attempt_in_flight() {
    let mut it = delivery();
    assert_eq!(it.cancel(true, END), Ok(Next::Cancelling));
    assert_eq!(it.cancel(true, END), Ok(Next::Same), "the second changes nothing");
    assert_eq!((it.cancelling, it.revision), (true, 1));
    let mut waiting = delivery();
    assert_eq!(waiting.cancel(false, END), Ok(Next::End(Ending::Cancelled)));
    assert_eq!(waiting.cancel(false, END), Ok(Next::Same));
}

#[test]
fn a_retry_of_an_end_is_a_new_round() {
    let mut it = Delivery { failures: 3, throttles: 2, attempts: 5, cancelling: true, ..delivery() };
    it.expire(false, END).unwrap();
    let later = NOW.plus(Millis(5_000_000));
    it.retry(false, later).unwrap();
    assert_eq!((it.failures, it.throttles, it.attempts, it.cancelling), (0, 0, 5, false));
    assert_eq!(it.expires_at, later.plus(it.max_age));
    assert_eq!(it.state, State::Waiting { due: later, lane: Lane(3), reason: NextReason::Operator });
}

#[test]
fn a_retry_of_what_waits_moves_only_the_due_time() {
    let mut it = Delivery { failures: 3, ..delivery() };
    it.retry(false, NOW.plus(Millis(9))).unwrap();
    assert_eq!((it.failures, it.expires_at), (3, delivery().expires_at));
    assert_eq!(it.retry(true, NOW), Err(Refused::Leased));
    it.erase_body(NOW);
    assert_eq!(it.retry(false, NOW), Err(Refused::PayloadErased));
}

/// What has nothing to do with the body stays: the audit, and the key that decides about repeats.
#[test]
fn an_erased_delivery_keeps_nothing_of_its_body() {
    let other = NewBody::new(Bytes::from_static(b"other"));
    let check = |mut it: Delivery, leased, want, phase| {
        let excerpt = Attempt {
            response_excerpt: Some(Excerpt(b"said".to_vec())),
            ..attempt(1, AttemptResult::ServerError)
        };
        it.headers = vec![Header::new("x-patient", "7").unwrap()];
        it.labels = vec![("patient".into(), "7".into())];
        it.log = vec![excerpt.clone()];
        assert!(!it.repeats(&other, "text/plain") && !it.is_erased());
        assert_eq!(it.erase(leased, END), Ok(want));
        assert_eq!((it.phase(leased), it.payload.erased_at, it.body_bytes()), (phase, Some(NOW), 3));
        assert!(it.is_erased() && it.headers.is_empty() && it.labels.is_empty());
        assert_eq!((it.payload.digest(), it.log[0].response_excerpt.as_ref()), (None, None));
        assert!(it.repeats(&other, "text/html"), "nothing is left to compare: the key decides");
        assert_eq!(it.remember(excerpt), None);
        assert_eq!(it.log[1].response_excerpt, None, "an answer that comes later leaves none either");
    };
    let gone = Ending::PayloadGone;
    check(delivery(), false, Next::End(gone), Phase::Terminal(gone));
    check(delivery(), true, Next::Erasing, Phase::Leased);
    let mut ended = delivery();
    ended.expire(false, END).unwrap();
    ended.erase_body(NOW);
    assert!(!ended.is_erased(), "its time was over: it can still be told from another");
    check(ended, false, Next::Same, Phase::Terminal(Ending::Expired));
}

#[test]
fn the_first_read_of_a_reference_fixes_its_digest() {
    let referred = |sha256| Source::Reference { uri: "s3://bucket/a".into(), sha256 };
    let check = |source: Source, want: Option<Digest>| {
        let mut payload = Payload { source, erased_at: None };
        payload.found([1; 32]);
        payload.found([2; 32]);
        assert_eq!(payload.digest().copied(), want, "{payload:?}");
    };
    check(referred(None), Some([1; 32]));
    check(referred(Some([7; 32])), Some([7; 32]));
    check(Source::Reference { uri: String::new(), sha256: None }, None);
    check(Source::Inline { bytes: 1, sha256: [9; 32] }, Some([9; 32]));
}

#[test]
fn a_repeat_is_the_same_reference() {
    let named = |text: &str, sha256| {
        let reference = text.parse().unwrap();
        NewBody::Reference { reference, sha256 }
    };
    let check = |mine: Option<Digest>, body: &NewBody, want: bool| {
        let mut it = delivery();
        it.payload.source = Source::of(&named("s3://bucket/a", mine));
        assert_eq!(it.repeats(body, &it.content_type), want, "{mine:?} {body:?}");
        assert!(!it.repeats(body, "another/type"));
    };
    check(None, &named("s3://bucket/a", None), true);
    check(None, &named("s3://bucket/a", Some([1; 32])), true);
    check(Some([1; 32]), &named("s3://bucket/%61", None), true);
    check(Some([1; 32]), &named("s3://bucket/a", Some([1; 32])), true);
    check(Some([1; 32]), &named("s3://bucket/a", Some([2; 32])), false);
    check(None, &named("s3://bucket/b", None), false);
    check(None, &NewBody::new(Bytes::new()), false);
    let inline = delivery();
    assert!(!inline.repeats(&named("s3://bucket/a", None), &inline.content_type));
}

#[test]
fn the_log_keeps_the_newest_and_hands_on_the_oldest() {
    let mut it = delivery();
    let moved: Vec<u32> = (1..=6)
        .filter_map(|n| {
            it.settle(&lease(n), attempt(n, AttemptResult::Dns), again(Counted::Failure), END).unwrap()
        })
        .map(|attempt| attempt.n)
        .collect();
    assert_eq!(moved, [1, 2]);
    assert_eq!(it.log.iter().map(|attempt| attempt.n).collect::<Vec<_>>(), [3, 4, 5, 6]);
}

#[test]
fn what_sent_nothing_is_counted_from_the_newest_attempt_back() {
    use AttemptResult::{NotProcessed, Payload, ServerError};
    let check = |results: &[AttemptResult], want: u32| {
        let mut it = delivery();
        for (n, result) in (1..).zip(results) {
            it.remember(attempt(n, *result));
        }
        assert_eq!(it.standing(&lease(9)).unsent, want, "{results:?}");
    };
    check(&[], 0);
    check(&[ServerError], 0);
    check(&[Payload], 1);
    check(&[Payload, NotProcessed, ServerError], 0);
    check(&[NotProcessed, ServerError, Payload, NotProcessed], 2);
    check(&[Payload; 3], 3);
    check(&[Payload; 9], 4);
}

#[test]
fn what_is_reported_late_stands_where_its_lease_ended() {
    let check = |n: u32, log: &[u32], late: &[u32], moved: Option<u32>| {
        let mut it = delivery();
        for n in 3..=6 {
            it.remember(Attempt {
                ended_at: (n == 6).then_some(NOW),
                ..attempt(n, AttemptResult::Interrupted)
            });
        }
        let one = Attempt { late: true, ended_at: Some(NOW), ..attempt(n, AttemptResult::ServerError) };
        assert_eq!(it.remember_late(one).map(|it| it.n), moved, "{n}");
        assert_eq!(it.log.iter().map(|it| it.n).collect::<Vec<_>>(), log, "{n}");
        let noted = it.log.iter().filter(|it| it.late).map(|it| it.n);
        assert_eq!(noted.collect::<Vec<_>>(), late, "{n}");
    };
    check(4, &[3, 4, 5, 6], &[4], None);
    check(2, &[3, 4, 5, 6], &[], Some(2));
    check(6, &[3, 4, 5, 6], &[], None);
    check(7, &[4, 5, 6, 7], &[7], Some(3));
}
