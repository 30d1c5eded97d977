//! The cases about what operators see and do.

use super::Where::{self, Part, Test};

pub(super) const NUMBERS: &[u16] = &[173, 175, 176, 179, 180, 181, 184, 185, 186];

pub(super) const ADMIN: [(u16, Where); 9] = [
    (173, Test("http::page::c173_markup_of_a_receiver_stays_text")),
    (
        175,
        Part(
            "cost::c175_a_held_backlog_delays_nobody_else",
            "decided: 100,000 in a plain test, BACKLOG=1000000 by hand; a page may look at more rows than it shows, \
             and is short when it has looked at enough (API.md)",
        ),
    ),
    (176, Test("http::page::c176_no_other_site_changes_anything")),
    (179, Test("bulk::c179_a_bulk_retry_pressed_three_times_sends_each_once")),
    (180, Test("scenes::bulk::c180_what_is_retried_is_sent_at_least_once")),
    (
        181,
        Part(
            "scenes::standing::c181_enabling_clears_the_counters",
            "API.md: a 410 disables, no count of failures does; only a hold reopens with one request, then 2, 4",
        ),
    ),
    (
        184,
        Part(
            "http::trouble::c184_the_next_attempt_goes_where_the_destination_is_now",
            "decided: a hold is the destination's, whatever its URL; who corrects the URL ends it by DELETE hold",
        ),
    ),
    (185, Test("http::trouble::c185_nothing_is_lost_while_a_destination_is_off")),
    (
        186,
        Part(
            "scenes::standing::c186_the_first_failure_is_not_overwritten",
            "API.md: nothing is disabled for failing long; failing_since says since when, for who wants to alert",
        ),
    ),
];
