//! What must hold for any bytes. Each function is a fuzz target, and a test that runs it over
//! its corpus, so that a find stays found without a fuzzer.

pub mod admin_input;
pub mod config;
pub mod engine_operations;
pub mod import_line;
pub mod ingest_body;
pub mod record_decode;
pub mod request_head;
pub mod retry_after;
pub mod url_admission;

#[expect(dead_code, reason = "of the simulation only what goes by a script is used here")]
#[path = "../../tests/sim/mod.rs"]
mod sim;

/// Runs a target over the files of its corpus; there must be some.
#[cfg(test)]
fn over_corpus(name: &str, target: fn(&[u8])) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let files = std::fs::read_dir(&folder).expect("there is a corpus");
    let read = files.map(|file| std::fs::read(file.expect("readable").path()).expect("readable"));
    let count = read.map(|bytes| target(&bytes)).count();
    assert!(count > 3, "{name}: too few files");
}
