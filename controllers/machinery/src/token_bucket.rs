//! A token bucket without a clock of its own.

use std::time::Duration;

use tokio::time::Instant;

/// Hands out `rate` tokens a second, and up to `burst` at once (Go's `golang.org/x/time/rate`).
#[derive(Clone, Debug)]
pub(crate) struct TokenBucket {
    rate: f64,
    burst: f64,
    /// Below zero while reservations wait.
    tokens: f64,
    /// When `tokens` was right; `None` before the first use.
    at: Option<Instant>,
}

// === impl TokenBucket ===

impl TokenBucket {
    /// A full bucket.
    pub(crate) fn new(rate: f64, burst: u32) -> Self {
        Self { rate, burst: f64::from(burst), tokens: f64::from(burst), at: None }
    }

    /// Takes a token if there is one.
    pub(crate) fn try_accept(&mut self, now: Instant) -> bool {
        self.refill(now);
        let accepted = self.tokens >= 1.0;
        if accepted {
            self.tokens -= 1.0;
        }
        accepted
    }

    /// Takes a token, now or from the future, and says how long to wait for it.
    pub(crate) fn reserve(&mut self, now: Instant) -> Duration {
        self.refill(now);
        self.tokens -= 1.0;
        if self.tokens >= 0.0 { Duration::ZERO } else { Duration::from_secs_f64(-self.tokens / self.rate) }
    }

    fn refill(&mut self, now: Instant) {
        if let Some(at) = self.at {
            let earned = now.saturating_duration_since(at).as_secs_f64() * self.rate;
            self.tokens = (self.tokens + earned).min(self.burst);
        }
        self.at = Some(self.at.map_or(now, |at| at.max(now)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burst_then_rate() {
        let (mut sut, now) = (TokenBucket::new(10.0, 3), Instant::now());
        for _ in 0..3 {
            assert_eq!(sut.reserve(now), Duration::ZERO);
        }
        assert_eq!(sut.reserve(now).as_millis(), 100);
        assert_eq!(sut.reserve(now).as_millis(), 200);
        assert!(!sut.try_accept(now + Duration::from_millis(250)), "two reservations have eaten what came in");
        assert!(sut.try_accept(now + Duration::from_millis(301)));
        assert!(!sut.try_accept(now + Duration::from_millis(301)));
    }

    #[test]
    fn never_holds_more_than_burst() {
        let (mut sut, now) = (TokenBucket::new(1.0, 2), Instant::now());
        assert!(sut.try_accept(now));
        let later = now + Duration::from_hours(1);
        assert_eq!((0..5).filter(|_| sut.try_accept(later)).count(), 2);
    }
}
