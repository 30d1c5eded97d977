//! The binary: an allocator and a call. Everything else is in the library.

use std::process::ExitCode;

/// Bodies of all sizes come and go between threads; the system's allocator keeps more of them.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    duehook::cli::run()
}
