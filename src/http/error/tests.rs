//! Every refusal as problem+json, and how long each says to wait.

use super::*;
use crate::model::DeliveryId;

fn shown(problem: &Problem) -> String {
    let mut text = format!("{} ", problem.status().as_u16());
    if let Some(wait) = problem.response().headers().get(header::RETRY_AFTER) {
        text.push_str(&format!("retry-after {} ", wait.to_str().unwrap()));
    }
    text + &serde_json::to_string(&problem.document()).unwrap()
}

#[test]
fn the_document_of_a_field_at_fault() {
    let problem = Problem::field("colour", "unknown field");
    insta::assert_snapshot!(shown(&problem), @r#"422 {"type":"urn:duehook:problem:invalid","title":"A field is unknown, missing or wrong","status":422,"detail":"colour: unknown field","code":"invalid","errors":[{"field":"colour","detail":"unknown field"}]}"#);
}

#[test]
fn a_full_queue_says_when_to_come_back() {
    let problem = Problem::from(Unavailable::QueueFull { retry_after: Millis(1_200) });
    insta::assert_snapshot!(shown(&problem), @r#"503 retry-after 2 {"type":"urn:duehook:problem:queue_full","title":"There is no room now","status":503,"detail":"the queue into the engine is full; nothing was stored, send it again","code":"queue_full"}"#);
}

#[test]
fn what_the_engine_refuses() {
    let check = |problem: Problem, status: u16, code: &str, field: Option<&str>| {
        let (text, have, _) = problem.code.facts();
        assert_eq!((have.as_u16(), text), (status, code));
        assert_eq!(problem.errors.first().map(|one| &*one.field), field, "{code}");
        assert!(!problem.detail.is_empty() && problem.errors.len() <= 1, "{code}");
    };
    let full = Rejected::QueueFull { waiting: 7, retry_after: Millis(1) };
    let disabled = Rejected::DestinationDisabled { reason: "410".into() };
    check(Rejected::DestinationUnknown.into(), 404, "destination_unknown", Some("destination"));
    check(disabled.into(), 409, "destination_disabled", None);
    check(Rejected::ClassUnknown.into(), 422, "class_unknown", Some("class"));
    check(Rejected::KeyReused { existing: DeliveryId(1) }.into(), 409, "key_reused", Some("idempotency_key"));
    check(full.into(), 503, "queue_full", None);
    let low = Rejected::DiskLow { free_bytes: 1, kept_bytes: 2, retry_after: Millis(1) };
    check(low.into(), 507, "disk_low", None);
    check(BackupError::NoRoom { needed: 2, free: 1 }.into(), 507, "disk_low", None);
    check(Unavailable::BackupHold.into(), 503, "backup_hold", None);
    check(Rejected::Damaged.into(), 500, "damaged", None);
    check(Rejected::Draining { retry_after: Millis(1) }.into(), 503, "draining", None);
    check(FenceRequired::Drained.into(), 409, "fence_required", Some("fence"));
    check(Unavailable::ShuttingDown.into(), 503, "shutting_down", None);
    check(CommandError::DestinationUnknown.into(), 404, "not_found", None);
    check(CommandError::DeliveryUnknown.into(), 404, "not_found", None);
    check(CommandError::TenantFixed.into(), 409, "tenant_fixed", Some("tenant"));
    check(CommandError::TenantNotAllowed.into(), 403, "tenant_not_allowed", None);
    check(CommandError::RevisionMismatch.into(), 412, "revision_mismatch", None);
    check(CommandError::WorkWaiting { waiting: 3 }.into(), 409, "work_waiting", None);
    check(CommandError::JobUnknown.into(), 404, "not_found", None);
    check(CommandError::JobRunning { id: crate::model::JobId(7) }.into(), 409, "bulk_running", None);
    check(CommandError::TooManyJobs.into(), 409, "bulk_running", None);
    check(CommandError::TooManyDestinations.into(), 409, "too_many_destinations", None);
    check(CommandError::Refused(Refused::Leased).into(), 409, "leased", None);
    check(CommandError::Refused(Refused::Terminal).into(), 409, "terminal", None);
    check(CommandError::Refused(Refused::PayloadErased).into(), 409, "payload_erased", None);
}

#[test]
fn every_wait_is_at_least_a_second() {
    let check = |wait: u64, want: &str| {
        let problem = Problem::from(Unavailable::QueueFull { retry_after: Millis(wait) });
        assert_eq!(problem.response().headers()[header::RETRY_AFTER], want, "{wait} ms");
    };
    check(0, "1");
    check(1, "1");
    check(1_000, "1");
    check(1_001, "2");
}
