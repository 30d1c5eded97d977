//! Where each case of the collection is shown: reports about other engines, turned into
//! questions to this one. A case is a named test, or it stands here with its reason.

mod admin;
mod durable;
mod egress;
mod signing;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Where a case is shown.
enum Where {
    /// By this test.
    Test(&'static str),
    /// By this test, otherwise than the case has it, or in part, for a reason.
    Part(&'static str, &'static str),
    /// By none yet, for a reason.
    Listed(&'static str),
}

use Where::{Listed, Part, Test};

/// The areas of which every case is here, and their numbers.
const AREAS: [(&str, &[u16]); 11] = [
    (
        "retry-after",
        &[1, 4, 5, 7, 8, 10, 12, 13, 14, 16, 17, 18, 20, 22, 23, 24, 26, 29, 30, 31, 33, 35, 36, 37, 38, 39],
    ),
    (
        "http-client",
        &[42, 43, 44, 46, 47, 49, 50, 54, 55, 59, 61, 63, 64, 66, 67, 68, 69, 70, 71, 72, 73, 76, 77],
    ),
    ("ingest", &[96, 97, 99, 100, 101, 102, 103, 105, 106, 109]),
    ("scheduling", &[113, 117, 118, 119, 120, 121, 122, 123, 124, 126, 128, 129, 130]),
    ("lease-crash", &[133, 134, 135, 137, 138, 140, 142, 143, 145]),
    ("payload", &[198, 199, 200, 201, 204, 206, 207]),
    ("url-ssrf", egress::NUMBERS),
    ("storage", durable::STORAGE_NUMBERS),
    ("ops", durable::OPS_NUMBERS),
    ("signing", signing::NUMBERS),
    ("admin-ui", admin::NUMBERS),
];

/// The areas in which the name of a test says which cases it shows, and none is left without one.
const NAMED: [&str; 6] = ["url-ssrf", "signing", "admin-ui", "ingest", "payload", "ops"];

const GRAMMAR: &str = "outcome::retry_after::tests::what_is_not_of_the_grammar";
const DATES: &str = "outcome::retry_after::tests::dates";
const NOT_DATES: &str = "outcome::retry_after::tests::dates_that_do_not_exist";
const VALUES: &str = "outcome::retry_after::tests::more_than_one_value_and_their_clock";
const WAITS: &str = "outcome::tests::a_429_waits_as_long_as_it_says_and_never_less";
const BACKS_OFF: &str = "outcome::tests::a_429_that_names_no_time_backs_off";
const HALF: &str = "the fallback is 5 s with half jitter, which is from half the step to the step: \
                    [2.5 s, 5 s], not [2.5 s, 7.5 s]";

const RETRY_AFTER: [(u16, Where); 26] = [
    (1, Part(BACKS_OFF, HALF)),
    (4, Test("outcome::retry_after::tests::seconds")),
    (5, Part(WAITS, "the longest wait and a jitter that only adds, at most 30 s")),
    (7, Test(GRAMMAR)),
    (8, Test(GRAMMAR)),
    (10, Test(DATES)),
    (
        12,
        Part(
            DATES,
            "httpdate divides the century at 70 for ever, and it knows that 15 January 1976 was no \
                     Wednesday: that value is invalid, and waits by backoff",
        ),
    ),
    (13, Test(DATES)),
    (14, Part(NOT_DATES, "a wrong name of the day is invalid, too")),
    (16, Test(NOT_DATES)),
    (17, Part(BACKS_OFF, "decided: the greater of the least wait and the backoff")),
    (18, Test("scenes::life::c018_a_zero_is_no_loop")),
    (20, Part(VALUES, "decided: measured against the response's own Date; Age is not looked at")),
    (22, Part(VALUES, "decided: the longest of all digits; one bad part spoils the value")),
    (23, Test("outcome::retry_after::tests::seconds")),
    (24, Test(GRAMMAR)),
    (
        26,
        Part(
            WAITS,
            "clamped to the policy's max_delay and shown as clamped in the attempt; there is no guess",
        ),
    ),
    (29, Test("scenes::life::c029_endless_refusals_end_by_age")),
    (30, Test("scenes::life::c030_refusals_do_not_raise_the_wait_after_a_failure")),
    (31, Test("outcome::tests::c031_jitter_only_adds")),
    (33, Test("scenes::gate::c033_one_refusal_holds_all_that_waits")),
    (35, Test("schedule::tests::c033_c035_a_hold_ends_with_one_request_and_doubles")),
    (
        36,
        Part(
            "outcome::tests::c036_the_header_of_a_permanent_answer_is_still_shown",
            "decided: permanent unless the policy's retry_statuses name it; a counter of its own is not in API.md",
        ),
    ),
    (37, Test("scenes::gate::c037_the_time_that_was_computed_is_the_one_that_is_stored")),
    (38, Test("scenes::life::c038_expiry_goes_on_behind_a_hold")),
    (
        39,
        Part(
            "scenes::life::c039_a_wait_beyond_the_end_is_kept_and_not_cut_short",
            "decided: the due time stays, and explain says expires_first",
        ),
    ),
];

const HTTP_CLIENT: [(u16, Where); 23] = [
    (
        42,
        Part(
            "sender::c042_an_idle_connection_that_closes_is_never_a_hidden_retry",
            "the idle time is 15 s and not a setting; a closed connection is ambiguous and comes again",
        ),
    ),
    (43, Test("sender::c043_c044_dropped_after_reading_is_ambiguous_and_one_request")),
    (44, Test("sender::c044_closed_after_the_headers_is_one_request")),
    (46, Test("sender::tls::c046_streams_above_the_last_of_a_goaway_were_not_processed")),
    (47, Test("sender::tls::c047_a_refused_stream_was_not_processed")),
    (49, Test("sender::c049_a_continue_that_nobody_asked_for")),
    (50, Test("sender::c050_c055_nothing_is_expected_and_no_encoding_offered")),
    (54, Test("sender::c054_whatever_follows_a_2xx_head_it_is_delivered")),
    (55, Test("sender::c055_an_encoded_answer_stays_encoded")),
    (
        59,
        Listed(
            "names are resolved by the system at each new connection, nothing is cached beside it, and an idle \
             connection ends after 15 s; a test needs a resolver of its own, and there is no setting for one",
        ),
    ),
    (
        61,
        Part(
            "sender::c061_bad_header_lines_do_not_undo_a_delivery",
            "decided: lenient; the raw head is not kept",
        ),
    ),
    (63, Test("sender::c063_c064_t43_t54_redirects_are_answers")),
    (64, Test("sender::c063_c064_t43_t54_redirects_are_answers")),
    (66, Test("scenes::life::c066_c067_a_408_and_a_425_are_repeated")),
    (67, Test("scenes::life::c066_c067_a_408_and_a_425_are_repeated")),
    (68, Test("scenes::gate::c068_gone_disables_and_keeps_what_waits")),
    (69, Test("sender::c069_a_name_that_does_not_resolve_is_dns")),
    (70, Test("sender::tls::c070_t55_certificates_that_do_not_hold")),
    (
        71,
        Part(
            "cost::c071_descriptors_come_back",
            "800 attempts in place of 5,000, and no limit of 256: slots are bounded by it",
        ),
    ),
    (72, Test("sign::tests::c072_a_user_agent_is_always_there_and_may_be_replaced")),
    (73, Test("sender::c073_which_codes_are_success")),
    (76, Test("sender::c076_status_codes_outside_the_known_range")),
    (77, Test("sender::c077_closing_answers")),
];

const INGEST: [(u16, Where); 10] = [
    (96, Test("http::ingest::c096_c097_lengths_that_lie_store_nothing")),
    (97, Test("http::server::tests::c097_a_chunked_body_has_the_same_bound")),
    (
        99,
        Part(
            "http::server::tests::c099_five_hundred_slow_heads_delay_nobody",
            "a header_timeout of 1 s in place of 10; 95 % within 200 ms and none as late as a slow head, since the \
             500 clients share the server's thread",
        ),
    ),
    (100, Test("http::server::tests::c100_a_body_that_does_not_come_is_408_and_closed")),
    (
        101,
        Part(
            "http::ingest::c101_one_key_other_body_in_every_state",
            "API.md answers 409 key_reused where the draft has 422",
        ),
    ),
    (102, Test("http::ingest::c102_fifty_posts_of_one_key_at_once")),
    (
        103,
        Part(
            "scenes::life::c103_c162_a_key_lives_as_long_as_its_record",
            "there is no window of its own: a key lives as long as the record, at least 24 h after the end",
        ),
    ),
    (105, Test("soak::c105_kills_at_any_moment_lose_nothing")),
    (
        106,
        Part(
            "storage::c106_a_key_is_never_taken_by_what_is_not_queued",
            "decided: all of it is one transaction, so there is nothing to repair, and no metric of it; verify looks",
        ),
    ),
    (109, Test("http::payload::c109_deep_nesting_is_delivered")),
];

const SCHEDULING: [(u16, Where); 13] = [
    (113, Test("scenes::clock::c113_a_jump_forward_loses_nothing")),
    (
        117,
        Part(
            "policy::tests::c117_backoff_stays_inside_its_step",
            "a schedule is a list of waits: nothing is raised to a power",
        ),
    ),
    (
        118,
        Part(
            "policy::tests::c118_a_thousand_failures_spread_out",
            "half jitter of a step of 30 s spreads over 15 s: a second holds 6.7 %, not under 5 %",
        ),
    ),
    (119, Test("scenes::gate::c119_a_slow_destination_delays_no_other")),
    (120, Test("scenes::fair::c120_retries_leave_room_for_what_is_new")),
    (121, Test("scenes::fair::c121_a_tenant_with_one_does_not_wait_for_a_thousand")),
    (122, Test("schedule::tests::c122_what_is_held_is_not_looked_at")),
    (123, Test("scenes::fair::c123_a_rate_is_kept_over_a_restart")),
    (124, Test("scenes::life::c124_refused_connections_back_off")),
    (126, Test("scenes::gate::c126_every_slot_comes_back")),
    (128, Test("scenes::gate::c128_a_repeat_that_waits_holds_up_nobody")),
    (129, Test("scenes::life::c129_a_repeat_arrives")),
    (130, Part("crash::c130_what_waits_survives_a_restart_and_goes_out_on_time", "3 s in place of 60")),
];

const LEASE_CRASH: [(u16, Where); 9] = [
    (133, Test("scenes::life::c133_a_long_wait_holds_nothing")),
    (
        134,
        Part(
            "scenes::life::c134_a_lease_outlasts_the_longest_attempt",
            "the lease is computed from the timeouts: there is nothing to refuse",
        ),
    ),
    (135, Test("crash::c135_what_was_in_flight_is_sent_again_at_once")),
    (137, Test("scenes::life::c137_a_late_report_changes_nothing")),
    (
        138,
        Part(
            "crash::c138_a_poison_item_is_quarantined_and_harms_no_other",
            "five interruptions in a row, not three, and the outcome is quarantined (API.md)",
        ),
    ),
    (140, Test("crash::c140_nothing_goes_out_twice_after_a_start")),
    (
        142,
        Part(
            "driver::courier::tests::c142_a_task_that_dies_is_reported_once",
            "the report is interrupted, and comes again by backoff",
        ),
    ),
    (
        143,
        Part(
            "scenes::life::c143_a_restart_brings_nothing_back",
            "50 rounds here; the simulation has the others",
        ),
    ),
    (
        145,
        Part(
            "storage::c145_an_outcome_that_cannot_be_written_is_one_more_request",
            "a commit that fails ends the process with 75, it is never tried again: at most one more request, \
             under the same key",
        ),
    ),
];

const PAYLOAD: [(u16, Where); 7] = [
    (
        198,
        Part(
            "handover::bytes::c198_numbers_are_moved_as_they_stood",
            "API.md: no route reads a body back, so the page at / shows none",
        ),
    ),
    (199, Test("http::payload::c198_c199_c200_payloads_arrive_byte_for_byte")),
    (200, Test("http::signing::c164_c200_signatures_hold_over_the_bytes_that_were_posted")),
    (201, Test("http::payload::c201_an_answer_is_cut_in_the_middle_of_a_character")),
    (204, Test("crash::c204_c206_a_receiver_can_tell_attempts_apart")),
    (206, Test("crash::c204_c206_a_receiver_can_tell_attempts_apart")),
    (207, Test("http::payload::c207_sizes_at_the_edges")),
];

/// Every row, in the order of the areas.
fn rows() -> Vec<(&'static str, &'static [(u16, Where)])> {
    let all: [&'static [(u16, Where)]; 11] = [
        &RETRY_AFTER,
        &HTTP_CLIENT,
        &INGEST,
        &SCHEDULING,
        &LEASE_CRASH,
        &PAYLOAD,
        &egress::EGRESS,
        &durable::STORAGE,
        &durable::OPS,
        &signing::SIGNING,
        &admin::ADMIN,
    ];
    AREAS.iter().map(|(area, _)| *area).zip(all).collect()
}

#[test]
fn every_case_has_its_place() {
    for ((area, numbers), (_, rows)) in AREAS.iter().zip(rows()) {
        let placed: Vec<u16> = rows.iter().map(|(number, _)| *number).collect();
        assert_eq!(placed, *numbers, "{area}");
    }
}

#[test]
fn every_reason_says_something() {
    for (area, rows) in rows() {
        for (number, place) in rows {
            match place {
                Test(_) => {}
                Part(_, reason) | Listed(reason) => assert!(reason.len() > 10, "{area} C{number:03}"),
            }
        }
    }
}

/// True when one of the words in a test's own name is the case's.
fn is_named(path: &str, number: u16) -> bool {
    let name = path.rsplit("::").next().unwrap_or(path);
    name.split('_').any(|word| word == format!("c{number:03}"))
}

#[test]
fn tests_are_named_by_their_cases() {
    let mut wrong = Vec::new();
    for (area, rows) in rows().into_iter().filter(|(area, _)| NAMED.contains(area)) {
        for (number, place) in rows {
            match place {
                Test(path) | Part(path, _) if is_named(path, *number) => {}
                Test(path) | Part(path, _) | Listed(path) => {
                    wrong.push(format!("{area} C{number:03}: {path}"))
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(is_named("a::c078_c080_b", 80) && !is_named("a::c0801_b", 80) && !is_named("c080_a::b", 80));
}

/// The tests that are named are there: the last part of the path is a test's function, in a file
/// whose path has the part before it.
#[test]
fn every_named_test_exists() {
    let known = tests();
    let mut missing = Vec::new();
    for (area, rows) in rows() {
        for (number, place) in rows {
            let named = match place {
                Test(path) | Part(path, _) => path,
                Listed(_) => continue,
            };
            if !known.contains(*named) {
                missing.push(format!("{area} C{number:03}: {named}"));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

/// Every test function of the library and of this binary, by its path.
fn tests() -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = BTreeSet::new();
    for folder in ["src", "tests/it"] {
        files(&root.join(folder), &mut |path| {
            let inside = path.strip_prefix(root.join(folder)).expect("below it").with_extension("");
            let text = fs::read_to_string(path).expect("UTF-8");
            all.extend(functions(&text).map(|name| format!("{}::{name}", module(&inside, &text))));
        });
    }
    assert!(all.len() > 200, "too few tests were found: {}", all.len());
    all
}

/// `outcome/retry_after` is `outcome::retry_after`, and `::tests` when its tests stand inside.
fn module(inside: &Path, text: &str) -> String {
    let parts: Vec<_> = inside.iter().map(|part| part.to_str().expect("a name")).collect();
    let name = parts.join("::").trim_end_matches("::mod").to_owned();
    if text.contains("mod tests {") { format!("{name}::tests") } else { name }
}

fn files(folder: &Path, seen: &mut dyn FnMut(&PathBuf)) {
    for entry in fs::read_dir(folder).expect("readable") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            files(&path, seen);
        } else if path.extension().is_some_and(|end| end == "rs") {
            seen(&path);
        }
    }
}

/// The names of functions that stand right below a test attribute.
fn functions(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().map(str::trim).zip(text.lines().skip(1).map(str::trim));
    let below = lines.filter(|(first, _)| first.starts_with("#[test]") || first.starts_with("#[tokio::test"));
    below.filter_map(|(_, line)| line.split_once("fn ")?.1.split('(').next())
}

#[test]
fn a_test_that_is_not_there_is_missed() {
    let text = "#[test]\nfn a() {}\n\n    #[tokio::test(x)]\n    async fn b() {}\nfn c() {}\n";
    assert_eq!(functions(text).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(module(Path::new("outcome/tests"), text), "outcome::tests");
    assert_eq!(module(Path::new("http/mod"), "mod tests {"), "http::tests");
    assert!(!tests().contains("outcome::tests::what_nobody_wrote"));
}
