//! What a scrape says, and how much of it there is.

use super::*;
use crate::engine::live::DestinationsLive;
use crate::model::ClassSettings;

/// A scrape of a server with the three classes and this many places taken.
fn scrape(places: usize) -> Scrape {
    let class = |set: ClassSettings| ClassLive {
        name: set.name,
        window: set.window,
        ready: 0,
        held: 0,
        delayed: 0,
        leased: 0,
        oldest_ready_at: None,
        oldest_held_at: None,
        claims_per_second: 0.0,
        first_attempt_p95: None,
    };
    let watched = |no: usize| WatchedLive {
        name: format!("shop-{no}").parse().unwrap(),
        in_flight: 1,
        limit: 2,
        hold_until: (no == 0).then_some(Timestamp(7_500)),
        waiting: 3,
    };
    let (empty, histogram) = (Live::empty(), Histogram::new(&[1.0].into()));
    Scrape {
        oldest_read: Millis(1_500),
        last_backup: Some(Timestamp(1_700_000_000_000)),
        live: Live {
            classes: ClassSettings::first().into_iter().map(class).collect(),
            watched: (0..places).map(watched).collect(),
            ..empty
        },
        reloaded: true,
        refusals: vec![("key_reused", 4), ("queue_full", 0)],
        commit_seconds: histogram.clone(),
        commit_operations: histogram,
        store_bytes: 4_096,
        disk_free_bytes: Some(1 << 20),
        region: "local".to_owned(),
        now: Timestamp(5_000),
    }
}

#[track_caller]
fn has(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.lines().any(|found| found == *line), "no line {line:?} in\n{text}");
    }
}

/// API.md: what has fixed labels is there from the start, at 0.
#[test]
fn the_text_of_a_fresh_start() {
    let text = scrape(0).text();
    has(
        &text,
        &[
            "duehook_store_bytes 4096.0",
            "duehook_disk_free_bytes 1048576.0",
            "duehook_attempts_total{result=\"rate_limited\"} 0",
            "duehook_attempt_duration_seconds_count 0",
            "duehook_attempt_duration_seconds_bucket{le=\"+Inf\"} 0",
            "duehook_destinations{state=\"held\"} 0.0",
            "# UNIT duehook_attempt_duration_seconds seconds",
            "duehook_scheduler_lag_seconds_count{class=\"urgent\"} 0",
            "duehook_gate_wait_seconds_bucket{le=\"10.0\",class=\"routine\"} 0",
            "duehook_due_unclaimed_oldest_seconds{class=\"bulk\"} 0.0",
            "duehook_recovery_seconds_count{cause=\"rate_limited\"} 0",
            "duehook_recovery_seconds_count{cause=\"failure\"} 0",
            "duehook_retry_after_total{kind=\"absent\",clamped=\"none\"} 0",
            "duehook_retry_after_total{kind=\"seconds\",clamped=\"max\"} 0",
            "duehook_ingest_total{result=\"accepted\"} 0",
            "duehook_ingest_total{result=\"key_reused\"} 4",
            "duehook_commit_seconds_count 0",
            "duehook_commit_operations_count 0",
        ],
    );
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn a_place_is_four_series() {
    let text = scrape(2).text();
    has(
        &text,
        &[
            "duehook_destination_in_flight{destination=\"shop-0\"} 1.0",
            "duehook_destination_limit{destination=\"shop-1\"} 2.0",
            "duehook_destination_hold_until_timestamp_seconds{destination=\"shop-0\"} 7.5",
            "duehook_destination_hold_until_timestamp_seconds{destination=\"shop-1\"} 0.0",
            "duehook_destination_waiting{destination=\"shop-1\"} 3.0",
        ],
    );
}

/// What is due and has not been claimed grows older with the scrape, not with the engine.
#[test]
fn the_oldest_is_worked_out_at_the_scrape() {
    let mut scrape = scrape(0);
    scrape.live.classes[0].oldest_ready_at = Some(Timestamp(3_750));
    scrape.live.destinations = DestinationsLive { held: 2, ..DestinationsLive::default() };
    has(
        &scrape.text(),
        &[
            "duehook_due_unclaimed_oldest_seconds{class=\"urgent\"} 1.25",
            "duehook_destinations{state=\"held\"} 2.0",
        ],
    );
}
