//! `tests/fixtures/format-1.redb`: a file with a row of every kind as format 1 had it, kept for
//! ever. What stands in it is said here once, to write it and to read it.

use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::delivery::{AskedKind, AskedWait, Attempt, Delivery, Lease, Payload, Source, State};
use crate::model::destination::StateNote;
use crate::model::{Action, AuditEntry, Excerpt};
use crate::model::{Certificates, ClientCertificate, LiveSecret, Name, Rate, Secret, TenantNo, digest};
use crate::model::{ClassNo, DeliveryId, DestNo, Destination, DestinationState, Header, HoldScope, Lane};
use crate::outcome::{AttemptResult, Clamped, Ending, GateMemory, Hold, HoldReason, NextReason};
use crate::store::AuditFilter;
use crate::store::check::check;
use crate::store::open::FORMAT;
use crate::store::record::StoredDestination;
use crate::store::{Before, Commit, Inventory, Loaded, Opened, Opening, Place, Snapshot, compact, open};
use crate::time::{Millis, Timestamp};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/format-1.redb");
const HOST: &str = "the-first-host";
/// When all of it was.
const DAY: Timestamp = Timestamp(1_768_478_400_000);
/// Its record cannot be read.
const DAMAGED: DeliveryId = DeliveryId(0x99);
const LARGE: usize = 16_500;

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn opening(region: &Name) -> Opening<'_> {
    Opening { region, now: DAY, uuid: [9; 16] }
}

fn attempt(n: u32) -> Attempt {
    Attempt {
        n,
        started_at: DAY.plus(Millis(u64::from(n) * 1_000)),
        ended_at: Some(DAY.plus(Millis(u64::from(n) * 1_000 + 20))),
        result: AttemptResult::RateLimited,
        status: Some(429),
        error: Some("too many".into()),
        host: Some("example.com".into()),
        address: Some("192.0.2.1:443".into()),
        late: n == 2,
        retry_after: Some(AskedWait {
            raw: Some("120".into()),
            kind: AskedKind::Seconds,
            asked: Some(Millis(120_000)),
            applied: Some(Millis(100_000)),
            clamped: Some(Clamped::Max),
        }),
        next_attempt_at: Some(DAY.plus(Millis(200_000))),
        response_excerpt: Some(Excerpt(b"slow down".to_vec())),
    }
}

/// One that was just accepted.
fn fresh(id: u128, destination: u32, body: &[u8]) -> Delivery {
    let class = ClassNo(1);
    Delivery {
        id: DeliveryId(id),
        tenant: TenantNo(0),
        destination: DestNo(destination),
        class,
        region: name("eu"),
        key: Some(format!("key-{id}").parse().unwrap()),
        created_at: DAY,
        not_before: None,
        max_age: Millis(259_200_000),
        expires_at: DAY.plus(Millis(259_200_000)),
        max_failures: 0,
        state: State::Waiting { due: DAY, lane: Lane::of(class, 0), reason: NextReason::New },
        attempts: 0,
        failures: 0,
        throttles: 0,
        interrupted: 0,
        revision: 1,
        cancelling: false,
        first_attempt_at: None,
        payload: Payload {
            source: Source::Inline { bytes: u32::try_from(body.len()).unwrap(), sha256: digest(body) },
            erased_at: None,
        },
        content_type: "application/json".into(),
        headers: vec![],
        labels: vec![],
        log: vec![],
    }
}

fn body(id: u128) -> Vec<u8> {
    let length = if id == 5 { LARGE } else { 50 };
    (0..length).map(|n| u8::try_from((n + usize::try_from(id).unwrap()) % 251).unwrap()).collect()
}

/// What waits, each in its own way.
fn waiting() -> Vec<Delivery> {
    let mut all: Vec<Delivery> =
        [0, 3, 0, 0, 1, 2].iter().zip(1..).map(|(to, id)| fresh(id, *to, &body(id))).collect();
    all[0].headers = vec![Header::new("x-a", "b").unwrap()];
    all[0].labels = vec![("l".into(), "v".into())];
    all[0].not_before = Some(DAY.plus(Millis(1)));
    all[0].max_failures = 9;
    let delayed = &mut all[1];
    let due = DAY.plus(Millis(200_000));
    delayed.state = State::Waiting { due, lane: Lane::of(ClassNo(1), 6), reason: NextReason::RateLimited };
    (delayed.attempts, delayed.throttles, delayed.failures, delayed.interrupted) = (6, 5, 1, 1);
    delayed.first_attempt_at = Some(DAY.plus(Millis(1_000)));
    delayed.log = (3..=6).map(attempt).collect();
    all[3].payload.source = Source::Reference { uri: "s3://phi-eu/a".into(), sha256: Some([7; 32]) };
    let other = &mut all[5];
    (other.key, other.tenant, other.class) = (None, TenantNo(1), ClassNo(3));
    other.state = State::Waiting { due: DAY, lane: Lane::of(ClassNo(3), 0), reason: NextReason::New };
    all
}

/// The lease of the third.
fn lease() -> Lease {
    Lease {
        id: DeliveryId(3),
        attempt: 1,
        nonce: 77,
        claimed_at: DAY,
        until: DAY.plus(Millis(25_000)),
        destination: DestNo(0),
        lane: Lane::of(ClassNo(1), 0),
        due: DAY,
        fresh: false,
    }
}

/// One that ended in each way; the body of what was delivered is gone.
fn ended() -> Vec<Delivery> {
    let one = |(outcome, id): (Ending, u128)| {
        let mut it = fresh(id, 0, &body(id));
        it.state = State::Terminal { outcome, at: DAY.plus(Millis(id as u64)), step: id as u64 };
        it.attempts = 1;
        it.log = vec![attempt(1)];
        it.payload.erased_at = (outcome == Ending::Delivered).then_some(DAY);
        it
    };
    Ending::ALL.into_iter().zip(0x10..).map(one).collect()
}

fn destinations() -> Vec<StoredDestination> {
    let states = [
        ("open", DestinationState::Active),
        ("paused", DestinationState::Paused),
        ("disabled", DestinationState::Disabled),
        ("held", DestinationState::Active),
        ("deleted", DestinationState::Deleted),
    ];
    let one = |(called, state)| StoredDestination {
        name: name(called),
        settings: Destination {
            tenant: name(if called == "disabled" { "other" } else { "acme" }),
            url: "https://example.com/hook?q=1".parse().unwrap(),
            concurrency_max: 8,
            adaptive: true,
            rate: Rate::per_second(0.5, 3),
            policy: name("default"),
            timeout: Millis(15_000),
            connect_timeout: Millis(5_000),
            headers: vec![Header::new("x-a", "b").unwrap()],
            secrets: secrets(),
            tls: Some(certificates()),
            allow_cidrs: vec!["10.0.0.0/8".parse().unwrap()],
            hold_scope: HoldScope::Delivery,
        },
        note: StateNote { state, reason: format!("it is {called}"), since: DAY, by: "operator".into() },
        created_at: DAY,
        revision: 6,
    };
    states.into_iter().map(one).collect()
}

/// One of each kind, the second at its end.
fn secrets() -> Vec<LiveSecret> {
    let symmetric = Secret::symmetric(&[7; 32]).unwrap();
    vec![
        LiveSecret { secret: symmetric, until: None },
        LiveSecret { secret: Secret::Ed25519([9; 32]), until: Some(DAY.plus(Millis(86_400_000))) },
    ]
}

fn certificates() -> Certificates {
    let client = ClientCertificate { chain: "a chain".into(), key: "a key".into() };
    Certificates { ca: Some("an authority".into()), client: Some(client) }
}

fn gate() -> GateMemory {
    GateMemory {
        hold: Some(Hold { until: DAY.plus(Millis(200_000)), reason: HoldReason::RateLimited }),
        refusals: 5,
        last_success_at: Some(DAY),
        failing_since: Some(DAY),
        failure_streak: 3,
        latency: Some(Millis(40)),
        limit: 8,
        learnt: Some((39_000_000, 11_000_000)),
        breaker_opened: 1,
        breaker_until: Some(DAY),
        paced_until: Some(DAY),
    }
}

/// Writes such a file. The next format keeps one of its own beside this one; until the first
/// release a change of the first one's records means to remove it and let it be written anew.
fn write(path: &Path) {
    let region = name("eu");
    let Opened { store, .. } = open(path, HOST, &opening(&region), |_| {}).unwrap();
    store
        .write(Commit::QuickRepair, |file| {
            file.put_tenant(&name("acme"), TenantNo(0))?;
            file.put_tenant(&name("other"), TenantNo(1))?;
            file.put_class(&name("extra"), ClassNo(3))?;
            for (no, it) in (0..).zip(destinations()) {
                file.put_destination(DestNo(no), &it)?;
            }
            file.put_gate(DestNo(3), &gate())?;
            for it in waiting() {
                let inline = matches!(it.payload.source, Source::Inline { .. });
                let bytes = if inline { body(it.id.0) } else { vec![] };
                file.accept(&it, &bytes, Place::Due)?;
            }
            let delayed = &waiting()[1];
            for n in [1, 2] {
                file.replace(Before::of(delayed, None), delayed, Some(&attempt(n)))?;
            }
            file.claim(&lease())?;
            for it in ended() {
                let new = fresh(it.id.0, 0, &body(it.id.0));
                file.accept(&new, &body(it.id.0), Place::Due)?;
                file.replace(Before::of(&new, None), &it, None)?;
                if it.payload.erased_at.is_some() {
                    file.remove_body(it.id, it.body_bytes())?;
                }
            }
            file.tables.deliveries.insert(DAMAGED.0, &b"\x01damaged"[..])?;
            file.quarantine_damaged(DAMAGED, DAY)?;
            file.put_audit(7, &audit(), 9)?;
            file.tick(41, DAY)
        })
        .unwrap();
    store.end_run(DAY).unwrap();
    store.close().unwrap();
    compact(path, |_| {}).unwrap();
}

fn audit() -> AuditEntry {
    let (by, object, detail) = ("token:ops".to_owned(), Some("held".to_owned()), "was active".to_owned());
    AuditEntry { at: DAY, by, action: Action::DestinationPause, object, detail }
}

/// A copy of it that a server may open: the fixture itself is never changed.
fn copied(folder: &Path) -> PathBuf {
    let path = folder.join("data.redb");
    if fs::copy(PATH, &path).is_err() {
        write(Path::new(PATH));
        panic!("{PATH} was not there: it was written anew, as this version has it");
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

#[test]
fn the_file_of_the_first_format_is_opened_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    has_it_all(&copied(folder.path()));
}

#[test]
fn what_is_written_now_has_the_same_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new.redb");
    write(&path);
    has_it_all(&path);
}

fn has_it_all(path: &Path) {
    let region = name("eu");
    let Opened { store, run } = open(path, HOST, &opening(&region), |_| {}).unwrap();
    assert_eq!((run.step, run.tick, run.epoch, run.streak), (41, DAY, 2, 0));
    let file = store.reader().snapshot().unwrap();
    for it in waiting().iter().chain(&ended()) {
        let view = file.delivery(it.id).unwrap().unwrap();
        assert_eq!(*view.delivery, *it);
        assert_eq!(view.lease, (it.id == lease().id).then(lease));
        assert_eq!(view.class.as_str(), if it.class == ClassNo(3) { "extra" } else { "routine" });
        has_its_body(&file, it);
    }
    let attempts = file.attempts(DeliveryId(2)).unwrap().unwrap();
    assert_eq!(attempts, (1..=6).map(attempt).collect::<Vec<_>>());
    let held = file.by_key(&name("acme"), &"key-2".parse().unwrap(), Some(&name("held"))).unwrap();
    assert_eq!(held.iter().map(|view| view.delivery.id).collect::<Vec<_>>(), [DeliveryId(2)]);
    assert_eq!(held[0].held_until, gate().hold.map(|hold| hold.until));
    let log = file.audit(&AuditFilter::default(), None, 9, &|| false).unwrap();
    assert_eq!(log.items, [audit()]);
    directory(&store, &file);
    let found = check(&file).unwrap();
    assert_eq!(found.problems, [] as [String; 0]);
    let counts = (found.deliveries, found.waiting, found.leased, found.terminal, found.quarantined);
    assert_eq!(counts, (15, 5, 1, 8, 2));
    assert!(file.delivery(DAMAGED).unwrap().is_some_and(|view| view.tenant.as_str() == "unknown"));
}

/// What waits with a body inside can be sent as it was taken in.
fn has_its_body(file: &Snapshot, it: &Delivery) {
    let (State::Waiting { due, lane, .. }, Source::Inline { .. }) = (it.state, &it.payload.source) else {
        return;
    };
    let (id, destination, attempt) = (it.id, it.destination, it.attempts + 1);
    let claimed = Lease { id, destination, due, lane, attempt, ..lease() };
    let Loaded::Ready { body: read, .. } = file.load(&claimed).unwrap() else { panic!("{id} is damaged") };
    assert!(read.0 == body(it.id.0), "{id}");
}

/// Tenants, classes, destinations, gates.
fn directory(store: &Store, file: &Snapshot) {
    let found: Inventory = store.write(Commit::Plain, |file| file.inventory()).unwrap();
    let classes: Vec<_> = found.classes.iter().map(|(class, no)| (class.as_str(), no.0)).collect();
    assert_eq!(classes, [("bulk", 2), ("extra", 3), ("routine", 1), ("urgent", 0)]);
    let tenants: Vec<_> = found.tenants.iter().map(|(tenant, no)| (tenant.as_str(), no.0)).collect();
    assert_eq!(tenants, [("acme", 0), ("other", 1)]);
    assert_eq!(found.gates, [(DestNo(3), gate())]);
    assert_eq!((found.quarantined, found.terminal), (2, 8));
    for (no, it) in (0..).zip(destinations()) {
        let read = file.destination_of(DestNo(no)).unwrap();
        assert_eq!((&read.name, &read.settings, &read.note), (&it.name, &it.settings, &it.note));
        assert_eq!((read.created_at, read.revision), (it.created_at, it.revision));
        let living = it.note.state != DestinationState::Deleted;
        assert_eq!(file.destination(&it.name).unwrap().is_some(), living);
    }
}

/// A format that no step begins at is refused, and so is a newer one; not a byte is changed.
#[test]
fn a_format_without_a_way_is_refused_untouched() {
    let folder = tempfile::tempdir().unwrap();
    let path = copied(folder.path());
    let region = name("eu");
    for (format, says) in [(0_u32, "format 0"), (FORMAT + 1, "newer duehook")] {
        let database = redb::Database::open(&path).unwrap();
        let txn = database.begin_write().unwrap();
        txn.open_table(META).unwrap().insert(Meta::Format as u8, &format.to_le_bytes()[..]).unwrap();
        txn.commit().unwrap();
        drop(database);
        let before = fs::read(&path).unwrap();
        let refused = open(&path, HOST, &opening(&region), |_| {}).err().unwrap();
        assert_eq!(refused.exit_code(), 78);
        assert!(refused.to_string().contains(says), "{refused}");
        assert!(fs::read(&path).unwrap() == before, "it was changed");
    }
}
