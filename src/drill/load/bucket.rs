//! The limit of a receiver that counts: so many a second, and as many in one go.

use std::time::Duration;

/// A token bucket that is full at first. Time is an argument, and going back changes nothing.
#[derive(Debug)]
pub(in crate::drill) struct Bucket {
    /// Tokens a second, and the most there can be.
    rate: f64,
    tokens: f64,
    at: Duration,
}

impl Bucket {
    pub(in crate::drill) fn full(rate: u32) -> Bucket {
        let rate = f64::from(rate);
        Bucket { rate, tokens: rate, at: Duration::ZERO }
    }

    /// Takes a token; false when there is none, and then nothing is taken.
    pub(in crate::drill) fn take(&mut self, now: Duration) -> bool {
        let passed = now.saturating_sub(self.at);
        self.at = self.at.max(now);
        self.tokens = self.rate.min(self.tokens + self.rate * passed.as_secs_f64());
        let taken = self.tokens >= 1.0;
        self.tokens -= f64::from(u8::from(taken));
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_the_rate() {
        let check = |rate: u32, requests: &[(u64, usize)], want: &[usize]| {
            let mut bucket = Bucket::full(rate);
            let taken = |(at, count): &(u64, usize)| {
                (0..*count).filter(|_| bucket.take(Duration::from_millis(*at))).count()
            };
            let got: Vec<usize> = requests.iter().map(taken).collect();
            assert_eq!(got, want, "{rate} a second, {requests:?}");
        };
        check(50, &[(0, 60)], &[50]);
        check(50, &[(0, 60), (500, 60)], &[50, 25]);
        check(50, &[(0, 60), (10, 5), (20, 5)], &[50, 0, 1]);
        check(50, &[(0, 50), (60_000, 100)], &[50, 50]);
        check(50, &[(1_000, 50), (0, 5), (1_000, 5)], &[50, 0, 0]);
        check(1, &[(0, 3), (999, 1), (1_000, 1)], &[1, 0, 1]);
    }
}
