//! Golden bytes, round trips, and every way in which a record can be wrong.

use super::*;
use crate::delivery::{AskedKind, AskedWait, Attempt, Delivery, Payload, Source, State};
use crate::model::destination::StateNote;
use crate::model::{Action, AuditEntry, Excerpt};
use crate::model::{
    BulkAction, Certificates, ClassNo, ClientCertificate, DeliveryId, DestNo, Destination, DestinationState,
    Header, HoldScope, JobState, Lane, LiveSecret, Rate, Secret, TenantNo,
};
use crate::outcome::GateMemory;
use crate::outcome::{AttemptResult, Clamped, Ending, Hold, HoldReason, NextReason};
use crate::store::{Between, Filter, Job, Shown};
use crate::time::{Millis, Timestamp};
use proptest::prelude::*;

fn attempt(n: u32) -> Attempt {
    Attempt {
        n,
        started_at: Timestamp(1_000),
        ended_at: Some(Timestamp(1_020)),
        result: AttemptResult::RateLimited,
        status: Some(429),
        error: Some("e".into()),
        host: Some("h".into()),
        address: Some("192.0.2.1:443".into()),
        late: true,
        retry_after: Some(AskedWait {
            raw: Some("120".into()),
            kind: AskedKind::Seconds,
            asked: Some(Millis(120_000)),
            applied: Some(Millis(121_000)),
            clamped: Some(Clamped::Max),
        }),
        next_attempt_at: Some(Timestamp(122_020)),
        response_excerpt: Some(Excerpt(vec![0x80, 0])),
    }
}

/// Every field is set, so that a field that is lost shows.
fn delivery() -> Delivery {
    Delivery {
        id: DeliveryId(7),
        tenant: TenantNo(1),
        destination: DestNo(2),
        class: ClassNo(1),
        region: "eu".parse().unwrap(),
        key: Some("k:1".parse().unwrap()),
        created_at: Timestamp(1_768_478_400_000),
        not_before: Some(Timestamp(1_768_478_400_001)),
        max_age: Millis(259_200_000),
        expires_at: Timestamp(1_768_737_600_001),
        max_failures: 9,
        state: State::Waiting {
            due: Timestamp(1_768_478_401_000),
            lane: Lane(3),
            reason: NextReason::Backoff,
        },
        attempts: 3,
        failures: 1,
        throttles: 2,
        interrupted: 1,
        revision: 5,
        cancelling: true,
        first_attempt_at: Some(Timestamp(1_768_478_400_500)),
        payload: Payload {
            source: Source::Inline { bytes: 812, sha256: [7; 32] },
            erased_at: Some(Timestamp(3)),
        },
        content_type: "application/json".into(),
        headers: vec![Header::new("x-a", "b").unwrap()],
        labels: vec![("l".into(), "v".into())],
        log: vec![attempt(3)],
    }
}

fn stored() -> StoredDestination {
    StoredDestination {
        name: "shop-eu".parse().unwrap(),
        settings: Destination {
            tenant: "acme".parse().unwrap(),
            url: "https://example.com/hook".parse().unwrap(),
            concurrency_max: 8,
            adaptive: true,
            rate: Rate::per_second(0.5, 3),
            policy: "default".parse().unwrap(),
            timeout: Millis(15_000),
            connect_timeout: Millis(5_000),
            headers: vec![Header::new("x-a", "b").unwrap()],
            secrets: vec![
                LiveSecret::new(Secret::symmetric(&[9; 24]).unwrap()),
                LiveSecret { secret: Secret::Ed25519([8; 32]), until: Some(Timestamp(77)) },
            ],
            tls: Some(Certificates {
                ca: Some("ca".into()),
                client: Some(ClientCertificate { chain: "chain".into(), key: "key".into() }),
            }),
            allow_cidrs: vec!["10.0.0.0/8".parse().unwrap()],
            hold_scope: HoldScope::Delivery,
        },
        note: StateNote {
            state: DestinationState::Paused,
            reason: "r".into(),
            since: Timestamp(5),
            by: "operator".into(),
        },
        created_at: Timestamp(4),
        revision: 6,
    }
}

fn gate() -> GateMemory {
    GateMemory {
        hold: Some(Hold { until: Timestamp(99), reason: HoldReason::Unavailable }),
        refusals: 2,
        last_success_at: Some(Timestamp(1)),
        failing_since: Some(Timestamp(2)),
        failure_streak: 3,
        latency: Some(Millis(40)),
        limit: 8,
        learnt: Some((39_000_000, 11_000_000)),
        breaker_opened: 4,
        breaker_until: Some(Timestamp(5)),
        paced_until: Some(Timestamp(6)),
    }
}

fn job() -> Job {
    let name = |text: &str| text.parse().unwrap();
    let between = |n: u64| Between { after: Some(Timestamp(n)), before: Some(Timestamp(n + 1)) };
    let filter = Filter {
        states: vec![Shown::Delayed, Shown::Terminal],
        outcomes: vec![Ending::Exhausted],
        tenants: vec![name("acme")],
        destinations: vec![name("shop-eu"), name("shop-us")],
        classes: vec![name("bulk")],
        label: Some(("l".into(), "v".into())),
        last_status: vec![429, 503],
        last_result: vec![AttemptResult::Timeout],
        created: between(1),
        due: between(3),
        finished: between(5),
    };
    Job {
        id: JobId(7),
        removes: Some(DestNo(2)),
        rate_per_second: Some(50),
        state: JobState::Stopped,
        come: Some(DeliveryId(6)),
        matched: 3,
        changed: 2,
        skipped: 1,
        step: 9,
        finished_at: Some(Timestamp(8)),
        by: "token:ops".into(),
        ..Job::search(BulkAction::Erase, filter, Timestamp(7))
    }
}

fn audit_key() -> AuditKey {
    AuditKey { at: Timestamp(1_768_478_400_000), n: 4_097 }
}

fn audit() -> AuditEntry {
    AuditEntry {
        at: audit_key().at,
        by: "token:ops".into(),
        action: Action::DestinationPause,
        object: Some("shop-eu".into()),
        detail: "was active: upgrade".into(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn everything_comes_back_as_it_went() {
    assert_eq!(decode_audit(audit_key(), &encode_audit(audit_key(), &audit())), Ok(audit()));
    let other = AuditKey { n: 4_098, ..audit_key() };
    assert_eq!(decode_audit(other, &encode_audit(audit_key(), &audit())), Err(Damaged));
    let it = delivery();
    assert_eq!(decode_delivery(it.id, &encode_delivery(&it)), Ok(it));
    let ended = Delivery {
        key: None,
        state: State::Terminal { outcome: Ending::Quarantined, at: Timestamp(9), step: 44 },
        payload: Payload {
            source: Source::Reference { uri: "file:///a".into(), sha256: Some([1; 32]) },
            erased_at: None,
        },
        ..delivery()
    };
    assert_eq!(decode_delivery(ended.id, &encode_delivery(&ended)), Ok(ended.clone()));
    assert_eq!(decode_attempt(ended.id, 3, &encode_attempt(ended.id, &attempt(3))), Ok(attempt(3)));
    assert_eq!(decode_destination(DestNo(2), &encode_destination(DestNo(2), &stored())), Ok(stored()));
    assert_eq!(decode_gate(DestNo(2), &encode_gate(DestNo(2), &gate())), Ok(gate()));
    assert_eq!(decode_job(JobId(7), &encode_job(&job())), Ok(job()));
    assert_eq!(decode_job(JobId(8), &encode_job(&job())), Err(Damaged));
}

/// The bytes of version 1. A change here is a change of the format: a new version, a migration.
#[test]
fn the_bytes_of_version_1_are_frozen() {
    insta::assert_snapshot!(hex(&encode_delivery(&delivery())), @"0101020102657501036b3a31fd00de86c19b01000001fd01de86c19b010000fc0014730ffd01f2f9d09b0100000900fde8e186c19b010000030303010201050101fdf4df86c19b01000000fb2c0307070707070707070707070707070707070707070707070707070707070707070103106170706c69636174696f6e2f6a736f6e0103782d61016201016c01760103fbe80301fbfc030201fbad01010165010168010d3139322e302e322e313a343433010101033132300001fcc0d4010001fca8d80100010101fca4dc010001028000e3e4edbd");
    insta::assert_snapshot!(hex(&encode_attempt(DeliveryId(7), &attempt(1))), @"0101fbe80301fbfc030201fbad01010165010168010d3139322e302e322e313a343433010101033132300001fcc0d4010001fca8d80100010101fca4dc010001028000d0032903");
    insta::assert_snapshot!(hex(&encode_destination(DestNo(2), &stored())), @"010773686f702d65750461636d651868747470733a2f2f6578616d706c652e636f6d2f686f6f6b080101fc20a10700030764656661756c74fb983afb88130103782d61016202001809090909090909090909090909090909090909090909090900010808080808080808080808080808080808080808080808080808080808080808014d01010263610105636861696e036b6579010a31302e302e302e302f380101017205086f70657261746f7204067084255c");
    insta::assert_snapshot!(hex(&encode_gate(DestNo(2), &gate())), @"0101630102010101020301280801fcc0175302fcc0d8a7000401050106f4172b96");
    insta::assert_snapshot!(hex(&encode_job(&job())), @"01020202030102010461636d65020773686f702d65750773686f702d7573010462756c6b01016c017602fbad01fbf701010501010102010301040105010601020101320201060302010709010809746f6b656e3a6f707362f9205e");
    insta::assert_snapshot!(hex(&encode_audit(audit_key(), &audit())), @"0109746f6b656e3a6f707303010773686f702d657513776173206163746976653a20757067726164655de77f1a");
    insta::assert_snapshot!(hex(&seal_part(&[1, 2], b"abc")), @"01616263befe5243");
}

/// Disk codes are places in these lists: what is there keeps its place for ever.
#[test]
fn disk_codes_are_frozen() {
    let actions: Vec<_> = Action::ALL.iter().map(|action| action.as_str()).collect();
    insta::assert_snapshot!(actions.join(" "), @"destination.create destination.update destination.delete destination.pause destination.resume destination.enable destination.disable destination.hold destination.release destination.rotate delivery.retry delivery.cancel delivery.erase claims.stop claims.start drain import.begin import.end backup backup.hold backup.release config.reload bulk.start bulk.stop destination.test");
    let ends: Vec<_> = Ending::ALL.iter().map(|end| end.as_str()).collect();
    insta::assert_snapshot!(ends.join(" "), @"delivered rejected exhausted expired cancelled payload_gone destination_gone quarantined");
    let reasons: Vec<_> = NextReason::ALL.iter().map(|reason| reason.as_str()).collect();
    insta::assert_snapshot!(reasons.join(" "), @"new scheduled rate_limited backoff payload lease_expired sender_restart operator");
    let results: Vec<_> = AttemptResult::ALL.iter().map(|result| result.as_str()).collect();
    let states: Vec<_> = Shown::ALL.iter().map(|state| state.as_str()).collect();
    insta::assert_snapshot!(states.join(" "), @"ready leased delayed terminal");
    insta::assert_snapshot!(results.join(" "), @"success redirect rate_limited client_error server_error timeout ambiguous invalid_response interrupted connect tls dns blocked not_processed payload");
}

#[test]
fn a_rate_that_cannot_be_is_damage() {
    let check = |per_million_seconds: u64, burst: u32, good: bool| {
        let mut it = stored();
        it.settings.rate = Some(Rate { per_million_seconds, burst });
        let got = decode_destination(DestNo(2), &encode_destination(DestNo(2), &it));
        assert_eq!(got, if good { Ok(it) } else { Err(Damaged) }, "{per_million_seconds}, {burst}");
    };
    check(1, 1, true);
    check(0, 1, false);
    check(1, 0, false);
    check(u64::MAX, 1, false);
    check(1, u32::MAX, false);
}

#[test]
fn a_record_under_another_key_is_damaged() {
    let value = encode_delivery(&delivery());
    assert_eq!(decode_delivery(DeliveryId(8), &value), Err(Damaged));
    assert_eq!(unseal_part(&[1, 3], &seal_part(&[1, 2], b"abc")), Err(Damaged));
    assert_eq!(unseal_part(&[1, 2], &seal_part(&[1, 2], b"")), Ok(&b""[..]));
}

/// T13: whichever bit changes, it shows.
#[test]
fn t13_every_single_bit_counts() {
    let value = encode_delivery(&delivery());
    for bit in 0..value.len() * 8 {
        let mut flipped = value.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(decode_delivery(DeliveryId(7), &flipped), Err(Damaged), "bit {bit}");
    }
}

#[test]
fn bytes_that_are_left_over_are_damage() {
    let mut value = encode_delivery(&delivery());
    value.truncate(value.len() - CRC_BYTES);
    value.push(0);
    assert_eq!(decode_delivery(DeliveryId(7), &close(&7_u128.to_be_bytes(), value)), Err(Damaged));
}

/// What the fuzzer relies on: a record that reads otherwise the second time does not go unseen.
#[test]
fn a_record_that_does_not_stay_is_noticed() {
    let value = encode_gate(DestNo(2), &gate());
    let form = &value[1..value.len() - CRC_BYTES];
    let (key, read) = (2_u32.to_be_bytes(), |value: &[u8]| decode_gate(DestNo(2), value));
    assert!(stays(&key, form, read, |it| Ok(*it)));
    for other in [Err(Damaged), Ok(GateMemory::default())] {
        assert!(!stays(&key, form, read, |_| other));
        assert!(!stays(&key, &value, read, |_| other));
    }
    assert!(comes_back(form) && comes_back(b"") && comes_back(&value));
}

proptest! {
    /// Any bytes, even under a right checksum, are a record or damage, never a panic.
    #[test]
    fn any_bytes_are_decided(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut sealed = vec![VERSION];
        sealed.extend_from_slice(&bytes);
        let value = close(&7_u128.to_be_bytes(), sealed);
        if let Ok(it) = decode_delivery(DeliveryId(7), &value) {
            prop_assert!(decode_delivery(DeliveryId(7), &encode_delivery(&it)) == Ok(it));
        }
        prop_assert!(decode_delivery(DeliveryId(7), &bytes).is_err());
    }
}
