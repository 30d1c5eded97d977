//! Any bytes as a line of an export: what is taken keeps every limit of a record, what is not is
//! refused with a status of its own, and no line is longer than it may be however it is cut.

use std::collections::BTreeSet;

use duehook::http::admin::import::line::{self, Checks, Line};
use duehook::http::admin::import::lines::{Cutter, MAX_LINE, Piece};
use duehook::http::admin::input;
use duehook::http::app::Defaults;
use duehook::model::{MAX_HEADERS, MAX_LABELS, MAX_PAYLOAD_LIMIT};
use duehook::sender::egress::Rules;
use duehook::time::Millis;

pub fn target(bytes: &[u8]) {
    let rules = Rules { allow_http: false, ports: vec![443], allow_cidrs: Vec::new() };
    let policies = BTreeSet::from(["default".parse().unwrap()]);
    let wait = Millis(5_000);
    let defaults = Defaults { concurrency: 8, timeout: wait, connect_timeout: wait };
    let settings = input::Checks { rules: &rules, policies: &policies, defaults };
    let region = "eu".parse().unwrap();
    let references = ["s3://bucket/".parse().expect("a prefix")];
    let checks = Checks { region: &region, references: &references, settings };
    hold(line::read(bytes, &checks));
    let mut cutter = Cutter::default();
    for piece in bytes.chunks(7) {
        cutter.push(piece);
        while let Some(piece) = cutter.cut() {
            cut(&piece, &checks);
        }
    }
    cutter.rest().iter().for_each(|piece| cut(piece, &checks));
}

fn cut(piece: &Piece, checks: &Checks<'_>) {
    if let Piece::Line(number, text) = piece {
        assert!(*number > 0 && !text.is_empty() && text.len() <= MAX_LINE);
        hold(line::read(text, checks));
    }
}

fn hold(read: Result<Line, duehook::http::error::Problem>) {
    match read {
        Ok(Line::Delivery(it)) => {
            assert!(it.body.len() <= MAX_PAYLOAD_LIMIT && it.delivery.log.len() <= 1);
            assert!(it.delivery.headers.len() <= MAX_HEADERS && it.delivery.labels.len() <= MAX_LABELS);
            assert!(it.delivery.payload.erased_at.is_none() || it.body.is_empty());
            let whole = it.body.len() as u64 == u64::from(it.delivery.body_bytes());
            assert!(whole || it.delivery.payload.erased_at.is_some());
        }
        Ok(Line::Destination(it)) => assert!(it.settings.headers.len() <= MAX_HEADERS),
        Ok(Line::Header(_) | Line::End { .. }) => {}
        Err(problem) => assert!([400, 422].contains(&problem.status().as_u16()), "{problem:?}"),
    }
}

#[test]
fn corpus() {
    crate::over_corpus("import_line", target);
}
