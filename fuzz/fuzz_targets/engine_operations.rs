//! See the module of the same name in the library.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| duehook_fuzz::engine_operations::target(bytes));
