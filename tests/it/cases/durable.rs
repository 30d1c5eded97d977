//! The cases about what is stored, and about running it.

use super::Where::{self, Listed, Part, Test};

pub(super) const STORAGE_NUMBERS: &[u16] = &[147, 148, 150, 151, 152, 155, 156, 159, 160, 161, 162];
pub(super) const OPS_NUMBERS: &[u16] = &[188, 190, 191, 192, 193, 195, 196];

pub(super) const STORAGE: [(u16, Where); 11] = [
    (147, Test("disk::c147_t08_a_disk_without_a_byte_can_be_opened_and_drained")),
    (
        148,
        Part(
            "supervisor::c148_after_a_kill_there_is_nothing_to_wait_for",
            "below 1 GiB there is no walk; the figures of larger files are the benchmark's (durable), in the README",
        ),
    ),
    (
        150,
        Part(
            "scenes::retention::c150_c161_the_file_is_as_large_as_what_it_keeps",
            "sixty days, not a million cycles; there is one durability setting; the metric is duehook_store_bytes",
        ),
    ),
    (
        151,
        Part(
            "copies::c151_t18_a_stalled_client_holds_no_read",
            "2,000 writes in place of 100,000; a page is read before any of it is sent",
        ),
    ),
    (152, Listed("the import is not in this version of the tests")),
    (
        155,
        Part(
            "copies::c155_a_backup_has_all_that_was_answered_before_it",
            "12 backups in place of 50; backup::t25 has the copies of rolling snapshots",
        ),
    ),
    (
        156,
        Part(
            "copies::c156_a_restore_is_all_or_nothing",
            "the old file is not kept under another name: restoring over it asks first, and says what it does",
        ),
    ),
    (159, Listed("export and import are not in this version of the tests")),
    (
        160,
        Part(
            "open::t15_a_second_process_is_told_that_the_file_is_in_use",
            "exit 75 (API.md); commands ask the server and open no file of a running one",
        ),
    ),
    (
        161,
        Part(
            "scenes::retention::c150_c161_the_file_is_as_large_as_what_it_keeps",
            "one retention for whatever has ended, 2 and 30 days; rows are checked against the records",
        ),
    ),
    (
        162,
        Part(
            "scenes::life::c103_c162_a_key_lives_as_long_as_its_record",
            "there is no window of its own: a record, and with it the key, is kept for 24 h at least",
        ),
    ),
];

pub(super) const OPS: [(u16, Where); 7] = [
    (
        188,
        Part(
            "stop::c188_a_second_signal_cuts_it_off",
            "/healthz in place of /livez; under a second on a machine that does nothing else",
        ),
    ),
    (
        190,
        Part(
            "http::figures::c190_what_is_asked_for_makes_no_series",
            "API.md: the busiest 20 destinations are labels; 60 of them and 150 paths, as the first beyond would show",
        ),
    ),
    (
        191,
        Part(
            "scenes::classes::c191_only_what_is_due_grows_old",
            "API.md: worked out at the scrape; from what the engine published last, and healthz says when that is old",
        ),
    ),
    (192, Test("ops::c192_the_path_of_a_url_is_shown_nowhere")),
    (193, Test("ops::c193_a_part_that_dies_takes_the_process_with_it")),
    (
        195,
        Part(
            "ops::c195_settings_that_cannot_be_meant_are_refused_at_the_start",
            "exit 78 (API.md); the value is not repeated, for it may be a secret; a folder that cannot be written is \
             an error of the open, 75",
        ),
    ),
    (
        196,
        Part(
            "scenes::life::c196_the_retries_of_the_readme_are_those_of_the_code",
            "API.md: no command prints it, simulate plays a policy; expires_at stands in every delivery",
        ),
    ),
];
