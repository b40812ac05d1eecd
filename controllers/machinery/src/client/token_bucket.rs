//! Client-side rate limiting as client-go does it (`util/flowcontrol`, over `golang.org/x/time/rate`).
//!
//! [`TokenBucket`] is the arithmetic, [`Limiter`] waits by it.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// A bucket that starts full, holds `burst` tokens and gains `qps` a second.
///
/// Kept as the time at which the next token of a bucket of size one would be there: integers, so no drift and no rounding in favour
/// of the caller.
#[derive(Debug)]
pub struct TokenBucket {
    /// Time to gain one token.
    interval: Duration,
    /// How far ahead of the steady rate a caller may be.
    tolerance: Duration,
    /// When the token that is handed out next is due at the steady rate; `None` before the first.
    due: Option<Instant>,
}

/// One controller client's bucket, which callers wait for in the order in which they came.
#[derive(Debug)]
pub struct Limiter {
    /// `None`: no limit.
    bucket: Option<Mutex<TokenBucket>>,
}

// === impl TokenBucket ===

impl TokenBucket {
    /// A full bucket; `None` if `qps` says that there is no limit (zero, negative or not a number).
    pub fn new(qps: f32, burst: u32) -> Option<Self> {
        if qps.is_nan() || qps <= 0.0 {
            return None;
        }
        // A rate so small that its interval overflows is as good as one token in a century.
        let interval = Duration::try_from_secs_f64(1.0 / f64::from(qps)).unwrap_or(Duration::MAX).min(CENTURY);
        // A bucket of size zero would never hand out anything; x/time/rate answers with an error there, which helps nobody.
        let tolerance = interval.saturating_mul(burst.max(1) - 1).min(CENTURY);
        Some(Self { interval, tolerance, due: None })
    }

    /// Takes one token and says how long to wait before using it. Earlier calls get earlier tokens.
    pub fn reserve(&mut self, now: Instant) -> Duration {
        let due = self.due.map_or(now, |due| due.max(now));
        self.due = Some(due.checked_add(self.interval).unwrap_or(due));
        due.saturating_duration_since(now).saturating_sub(self.tolerance)
    }
}

/// Far enough away to be never, near enough for an `Instant` to hold.
const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

// === impl Limiter ===

impl Limiter {
    /// A limiter of its own; no limit if `qps` is not above zero.
    pub fn new(qps: f32, burst: u32) -> Self {
        Self { bucket: TokenBucket::new(qps, burst).map(Mutex::new) }
    }

    /// Waits for a token. The answer is how long that took; `None` if there is no limit.
    pub async fn wait(&self) -> Option<Duration> {
        let wait = self.bucket.as_ref()?.lock().reserve(tokio::time::Instant::now().into_std());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        Some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn burst_first_then_the_steady_rate() {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(20.0, 30).unwrap();
        for _ in 0..30 {
            assert_eq!(bucket.reserve(start), Duration::ZERO);
        }
        assert_eq!(bucket.reserve(start), Duration::from_millis(50));
        assert_eq!(bucket.reserve(start), Duration::from_millis(100));
        // Two seconds later the two that were owed are paid and 38 more have come, of which 30 fit.
        let later = start + Duration::from_secs(2);
        for _ in 0..30 {
            assert_eq!(bucket.reserve(later), Duration::ZERO);
        }
        assert_eq!(bucket.reserve(later), Duration::from_millis(50));
    }

    #[test]
    fn no_rate_is_no_limit_and_odd_numbers_do_not_panic() {
        assert!(TokenBucket::new(0.0, 5).is_none());
        assert!(TokenBucket::new(-1.0, 5).is_none());
        assert!(TokenBucket::new(f32::NAN, 5).is_none());
        let now = Instant::now();
        for qps in [f32::MIN_POSITIVE, f32::INFINITY, 1e-30, 1e30] {
            let mut bucket = TokenBucket::new(qps, u32::MAX).unwrap();
            bucket.reserve(now);
            bucket.reserve(now);
        }
    }

    #[test]
    fn clock_that_goes_backwards_grants_nothing_extra() {
        let start = Instant::now() + Duration::from_secs(60);
        let mut bucket = TokenBucket::new(1.0, 1).unwrap();
        assert_eq!(bucket.reserve(start), Duration::ZERO);
        assert_eq!(bucket.reserve(start - Duration::from_secs(10)), Duration::from_secs(11));
    }

    #[tokio::test(start_paused = true)]
    async fn waiters_are_served_in_the_order_in_which_they_came() {
        let limiter = std::sync::Arc::new(Limiter::new(10.0, 1));
        let served = std::sync::Arc::new(Mutex::new(Vec::new()));
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..5 {
            let (limiter, served) = (limiter.clone(), served.clone());
            tasks.spawn(async move {
                limiter.wait().await;
                served.lock().push(number);
            });
            tokio::task::yield_now().await;
        }
        tasks.join_all().await;
        assert_eq!(*served.lock(), [0, 1, 2, 3, 4]);
    }

    proptest! {
        #[test]
        fn no_window_grants_more_than_burst_and_rate(
            qps in 1_u32..200,
            burst in 1_u32..50,
            gaps in prop::collection::vec(0_u64..400, 1..300),
        ) {
            let start = Instant::now();
            let mut bucket = TokenBucket::new(qps as f32, burst).unwrap();
            let mut now = start;
            let mut granted = Vec::new();
            for gap in gaps {
                now += Duration::from_millis(gap);
                granted.push(now + bucket.reserve(now));
            }
            prop_assert!(granted.is_sorted(), "first come, first served");
            for (from, first) in granted.iter().enumerate() {
                for (to, last) in granted.iter().enumerate().skip(from) {
                    let count = (to - from + 1) as f64;
                    let window = last.duration_since(*first).as_secs_f64();
                    // One thousandth: qps is a float whose reciprocal is rounded to whole nanoseconds.
                    prop_assert!(count <= f64::from(burst) + f64::from(qps) * window + 1e-3, "{count} in {window} s");
                }
            }
        }

        #[test]
        fn waits_are_never_longer_than_the_rate_asks(qps in 1_u32..200, burst in 1_u32..50, calls in 1_u32..300) {
            let start = Instant::now();
            let mut bucket = TokenBucket::new(qps as f32, burst).unwrap();
            for call in 0..calls {
                let wait = bucket.reserve(start).as_secs_f64();
                let ideal = f64::from((call + 1).saturating_sub(burst)) / f64::from(qps);
                prop_assert!((wait - ideal).abs() < 1e-3);
            }
        }
    }
}
