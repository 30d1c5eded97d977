//! The cases about signatures.

use super::Where::{self, Part, Test};

pub(super) const NUMBERS: &[u16] = &[164, 165, 167, 168, 169, 170];

pub(super) const SIGNING: [(u16, Where); 6] = [
    (164, Test("http::signing::c164_c200_signatures_hold_over_the_bytes_that_were_posted")),
    (
        165,
        Part(
            "http::signing::c165_the_delivery_shows_what_a_receiver_compares",
            "API.md: id, length and digest of the body stand in the delivery, the time in the attempt; the length \
             of the signed text follows from them and has no field",
        ),
    ),
    (167, Test("ways::c167_the_same_headers_on_every_way")),
    (
        168,
        Part(
            "http::rotation::c168_forms_of_a_secret",
            "decided: without its padding it is taken, for it can mean no other key; \
             http::rotation::c168_the_vector_of_the_reference_library has the vector",
        ),
    ),
    (169, Test("http::rotation::c169_an_overlap_begins_and_ends")),
    (170, Test("http::signing::c170_a_key_with_a_full_stop_is_no_webhook_id")),
];
