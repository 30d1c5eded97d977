//! Chance from a seed, or from what was given.

use std::collections::VecDeque;

use duehook::policy::splitmix64;

/// A stream of numbers that depends on its seed alone, and before that on the bytes it was given.
#[derive(Clone, Debug)]
pub(crate) struct Rng {
    state: u64,
    given: VecDeque<u8>,
}

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng { state: splitmix64(seed), given: VecDeque::new() }
    }

    /// Goes by these bytes while there are any: by as many for each number as it needs.
    pub(crate) fn given(bytes: &[u8]) -> Rng {
        Rng { given: bytes.iter().copied().collect(), ..Rng::new(0) }
    }

    /// True while there are bytes left of those that were given.
    pub(crate) fn is_given(&self) -> bool {
        !self.given.is_empty()
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        splitmix64(self.state)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        let number = if self.is_given() { self.take(bound) } else { self.next() };
        number % bound.max(1)
    }

    /// A number of the bytes that were given, of as many as `bound` has.
    fn take(&mut self, bound: u64) -> u64 {
        let bytes = (64 - bound.saturating_sub(1).leading_zeros()).div_ceil(8).max(1);
        (0..bytes)
            .filter_map(|_| self.given.pop_front())
            .fold(0, |number, byte| number << 8 | u64::from(byte))
    }

    /// True so many times in a hundred.
    pub(crate) fn percent(&mut self, share: u64) -> bool {
        self.below(100) < share
    }
}
