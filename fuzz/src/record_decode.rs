//! Any bytes on disk: damage, or a record that is the same after it is written again.

pub fn target(bytes: &[u8]) {
    assert!(duehook::store::record::comes_back(bytes));
}

#[test]
fn corpus() {
    crate::over_corpus("record_decode", target);
}
