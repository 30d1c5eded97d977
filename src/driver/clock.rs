//! The clock: where wall and monotonic time are read, together.

#![expect(clippy::disallowed_methods, reason = "this is the one place that reads the clocks")]

use std::time::{Duration, Instant, SystemTime};

use crate::time::{Millis, Mono, Now, Timestamp};

/// Both clocks, counted from the start of the process.
#[derive(Clone, Debug)]
pub struct Clock {
    zero: Instant,
}

impl Clock {
    /// Monotonic time begins now.
    #[must_use]
    pub fn start() -> Clock {
        Clock { zero: Instant::now() }
    }

    /// Both clocks as they are.
    #[must_use]
    pub fn now(&self) -> Now {
        let mono = u64::try_from(self.zero.elapsed().as_millis()).unwrap_or(u64::MAX);
        Now { wall: Timestamp::from(SystemTime::now()), mono: Mono(mono) }
    }

    /// How long it has run, more finely than a step needs to know.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.zero.elapsed()
    }

    /// How long it is until `at`.
    #[must_use]
    pub fn until(&self, at: Mono) -> Duration {
        let at = Millis(at.0).duration();
        at.saturating_sub(self.zero.elapsed())
    }
}
