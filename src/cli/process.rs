//! What the process is told of itself before it holds a secret: it leaves no core file, what it makes
//! is its owner's alone, and a panic says where it was and nothing of what it was about.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::Write;
use std::panic::PanicHookInfo;
use std::thread;

use rustix::fs::Mode;
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit, umask};

/// From here on no core file of this process is written and no other program of its user can look
/// into it; what it makes can be read by its owner alone, unless it says otherwise. Of its own files
/// in `/proc` those that only their owner may read are root's then.
///
/// # Errors
/// The system does not let a process do so.
pub(super) fn close() -> std::io::Result<()> {
    umask(Mode::RWXG | Mode::RWXO);
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// The message of a panic may hold what was being worked on, so it is not written. Its place is, with
/// the functions that led there if `RUST_BACKTRACE` asks for them.
pub fn quiet_panics() {
    std::panic::set_hook(Box::new(tell));
}

fn tell(panic: &PanicHookInfo<'_>) {
    let at = panic.location().map(ToString::to_string).unwrap_or_default();
    let thread = thread::current();
    let thread = thread.name().unwrap_or("unnamed");
    let way = Backtrace::capture();
    let way = (way.status() == BacktraceStatus::Captured).then(|| way.to_string());
    let way = way.as_deref();
    if tracing::dispatcher::has_been_set() {
        tracing::error!(at, thread, way, "panic");
        return;
    }
    // Where there is nowhere to write, nothing can be done about it.
    drop(writeln!(
        std::io::stderr(),
        "duehook: panic at {at} in thread {thread}\n{}",
        way.unwrap_or_default()
    ));
}
