//! The totals and the readiness as documents.

use super::*;
use crate::engine::explain::samples::{T0, name};
use crate::engine::live::DestinationsLive;

fn live() -> Live {
    Live {
        at: T0.plus(Millis(61_500)),
        step: 9,
        counting: false,
        claiming: true,
        claims: crate::store::Claims::Running,
        fence: 0,
        slots: 4096,
        in_flight: 3,
        accepted_per_second: 1.5,
        finished_per_second: 2.0,
        quarantined: 1,
        full: false,
        classes: vec![ClassLive {
            name: name("routine"),
            window: Millis(10_000),
            ready: 4,
            held: 2,
            delayed: 1,
            leased: 3,
            oldest_ready_at: Some(T0),
            oldest_held_at: None,
            claims_per_second: 0.5,
            first_attempt_p95: Some(Millis(12)),
        }],
        forecast: vec![5, 0],
        figures: Live::empty().figures,
        destinations: DestinationsLive::default(),
        watched: Vec::new(),
        disk: DiskLive::default(),
    }
}

#[test]
fn the_totals() {
    let (live, region) = (live(), name("eu"));
    let stats = StatsObject::of(&live, &region, "running", T0.plus(Millis(62_000)));
    insta::assert_snapshot!(serde_json::to_string_pretty(&stats).unwrap());
}

#[test]
fn readiness() {
    let check = |health: Health, healthy: bool, ready: bool, ingest: &str| {
        let shown = serde_json::to_value(ReadyObject::of(health)).unwrap();
        assert_eq!(HealthObject::of(health).healthy, healthy, "{health:?}");
        assert_eq!(
            (&shown["ready"], &shown["checks"]["ingest"]),
            (&ready.into(), &ingest.into()),
            "{health:?}"
        );
    };
    let good = Health {
        last_commit_age: COMMIT_AGE_LIMIT,
        failed: false,
        shutting_down: false,
        claims: "running",
        drained: false,
        ingest_queue_full: false,
        held: false,
        clock_steps: 0,
        clock_unproven: Millis(0),
        disk: DiskLive::default(),
    };
    check(good, true, true, "ok");
    check(Health { last_commit_age: Millis(30_001), ..good }, false, false, "ok");
    let disk = DiskLive { free_bytes: 5, kept_bytes: 9, low: true };
    check(Health { disk, ..good }, true, false, "disk_low");
    let shown = |disk| {
        serde_json::to_value(ReadyObject::of(Health { disk, ..good })).unwrap()["checks"]["disk"].clone()
    };
    assert_eq!(shown(disk), "low: 5 bytes free of 9 that are kept free");
    assert_eq!(shown(DiskLive { low: false, ..disk }), "ok");
    assert_eq!(shown(DiskLive::default()), "not_checked");
    check(Health { failed: true, ..good }, false, false, "ok");
    check(Health { shutting_down: true, ..good }, true, false, "shutting_down");
    check(Health { claims: "stopped", ..good }, true, true, "ok");
    check(Health { claims: "draining", drained: true, ..good }, true, false, "draining");
    check(Health { ingest_queue_full: true, ..good }, true, false, "queue_full");
    let held = Health { held: true, last_commit_age: Millis(45_000), ..good };
    check(held, true, false, "backup_hold");
    check(Health { last_commit_age: Millis(60_001), ..held }, false, false, "backup_hold");
    let clock = |steps, unproven| {
        let health = Health { clock_steps: steps, clock_unproven: Millis(unproven), ..good };
        check(health, true, true, "ok");
        serde_json::to_value(ReadyObject::of(health)).unwrap()["checks"]["clock"].clone()
    };
    assert_eq!((clock(0, 0), clock(1, 0)), ("ok".into(), "stepped once since the start".into()));
    assert_eq!(clock(3, 999), "stepped 3 times since the start");
    assert_eq!(clock(1, 900_000), "leapt forward: nothing is ended by its time for 900 s");
}

#[test]
fn rows_of_rankings() {
    let row = DestinationRow {
        name: name("shop"),
        tenant: name("acme"),
        state: crate::model::DestinationState::Active,
        waiting: 5,
        held: 5,
        in_flight: 1,
        oldest_due_at: Some(T0),
        hold_until: Some(T0.plus(Millis(1))),
        failing_since: None,
    };
    let shown = serde_json::to_value(DestinationRowObject::of(&row, T0)).unwrap();
    let want = serde_json::json!({
        "destination": "shop", "tenant": "acme", "state": "active", "waiting": 5, "held": 5, "in_flight": 1,
        "oldest_due_at": "2026-01-15T12:00:00.000Z", "hold_until": "2026-01-15T12:00:00.001Z",
        "failing_since": null,
    });
    assert_eq!(shown, want);
    let past = serde_json::to_value(DestinationRowObject::of(&row, T0.plus(Millis(1)))).unwrap();
    assert!(past["hold_until"].is_null());
    let (destinations, waiting, held, in_flight) = (2, 5, 4, 3);
    let row = TenantRow { name: name("acme"), destinations, waiting, held, in_flight, oldest_due_at: None };
    let shown = serde_json::to_value(TenantRowObject::of(&row)).unwrap();
    let want = serde_json::json!({
        "tenant": "acme", "destinations": 2, "waiting": 5, "held": 4, "in_flight": 3, "oldest_due_at": null,
    });
    assert_eq!(shown, want);
}
