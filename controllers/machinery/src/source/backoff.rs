//! How long to wait after a failure.

use std::time::Duration;

use tokio::time::Instant;

/// The reflector's back-off: 0.8 s, doubled up to 30 s, each time longer by a random part of itself, and back at the start after 120 s
/// without a failure (upstream `client-go/tools/cache` `NewReflectorWithOptions`, `wait.NewExponentialBackoffManager`).
#[derive(Debug)]
pub struct Backoff {
    next: Duration,
    last: Option<Instant>,
    random: fastrand::Rng,
}

const SHORTEST: Duration = Duration::from_millis(800);
const LONGEST: Duration = Duration::from_secs(30);
const HEALTHY: Duration = Duration::from_secs(120);

// === impl Backoff ===

impl Backoff {
    /// The same seed gives the same waits.
    pub fn new(seed: u64) -> Self {
        Self { next: SHORTEST, last: None, random: fastrand::Rng::with_seed(seed) }
    }

    /// The wait after a failure that happened now.
    pub fn delay(&mut self, now: Instant) -> Duration {
        self.delay_at_most(LONGEST, now)
    }

    /// As [`Self::delay`], from a base of at most `longest`; the next one is not from more than twice that.
    pub fn delay_at_most(&mut self, longest: Duration, now: Instant) -> Duration {
        // Measured from the end of the wait: a wait of 40 s is no health.
        if self.last.is_some_and(|last| now.saturating_duration_since(last) > HEALTHY) {
            self.next = SHORTEST;
        }
        let base = self.next.min(longest);
        self.next = (base * 2).min(LONGEST);
        let wait = base + base.mul_f64(self.random.f64());
        self.last = Some(now + wait);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_thirty_seconds_with_jitter() {
        let now = Instant::now();
        let mut backoff = Backoff::new(7);
        let mut base = SHORTEST;
        for _ in 0..10 {
            let wait = backoff.delay(now);
            assert!(wait >= base && wait < base * 2, "{wait:?} after {base:?}");
            base = (base * 2).min(LONGEST);
        }
    }

    #[test]
    fn starts_over_after_two_minutes_of_health() {
        let mut now = Instant::now();
        let mut backoff = Backoff::new(7);
        for _ in 0..6 {
            now += backoff.delay(now);
        }
        assert!(backoff.delay(now + HEALTHY) >= LONGEST);
        let mut backoff = Backoff::new(7);
        now += backoff.delay(now);
        assert!(backoff.delay(now + HEALTHY + Duration::from_millis(1)) < SHORTEST * 2);
    }

    #[test]
    fn same_seed_same_waits() {
        let now = Instant::now();
        let waits = |seed| {
            let mut backoff = Backoff::new(seed);
            (0..8).map(|_| backoff.delay(now)).collect::<Vec<_>>()
        };
        assert_eq!(waits(1), waits(1));
        assert_ne!(waits(1), waits(2));
    }
}
