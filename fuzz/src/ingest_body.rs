//! Any bytes as the body of a request to ingest: what is taken keeps every limit, what is not is
//! refused with a status of its own, and one bad item of a batch is that item's alone.

use bytes::Bytes;
use duehook::http::body::Json;
use duehook::http::error::Problem;
use duehook::http::ingest::batch::{self, MAX_ITEMS};
use duehook::http::ingest::item::{self, Checks, is_content_type};
use duehook::model::NewDelivery;
use duehook::time::Timestamp;

/// Small, so that a fuzzer reaches it.
const MAX_PAYLOAD: usize = 64;

pub fn target(bytes: &[u8]) {
    let region = "eu".parse().unwrap();
    let references = ["s3://bucket/".parse().expect("a prefix")];
    let checks = Checks {
        region: &region,
        max_payload: MAX_PAYLOAD,
        references: &references,
        now: Timestamp(1_800_000_000_000),
    };
    let body = Bytes::copy_from_slice(bytes);
    hold(&item::read(&body, &body, None, &checks));
    for kind in [Json::Text, Json::Lines] {
        match batch::read(&body, kind, &checks) {
            Ok(items) => {
                assert!(items.len() <= MAX_ITEMS);
                items.iter().for_each(hold);
            }
            Err(problem) => refused(&problem),
        }
    }
}

fn hold(read: &Result<NewDelivery, Problem>) {
    match read {
        Ok(it) => {
            assert!(it.body.bytes().len() <= MAX_PAYLOAD);
            assert!(is_content_type(&it.content_type));
        }
        Err(problem) => refused(problem),
    }
}

fn refused(problem: &Problem) {
    assert!([400, 413, 422].contains(&problem.status().as_u16()), "{problem:?}");
    assert!(!problem.detail.is_empty());
}

#[test]
fn corpus() {
    crate::over_corpus("ingest_body", target);
}
