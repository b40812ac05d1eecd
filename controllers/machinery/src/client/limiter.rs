//! Client-side rate limiting as client-go does it (`util/flowcontrol` `NewTokenBucketRateLimiter`).

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::token_bucket::TokenBucket;

/// One controller client's bucket, which callers wait for in the order in which they came.
#[derive(Debug)]
pub struct Limiter {
    /// `None`: no limit.
    bucket: Option<Mutex<TokenBucket>>,
}

/// One request in a quarter of an hour: nobody means less, and a wait must fit into a `Duration`.
const SLOWEST: f64 = 1e-3;

// === impl Limiter ===

impl Limiter {
    /// A full bucket of `burst` tokens that gains `qps` a second; no limit if `qps` is not above zero.
    pub fn new(qps: f32, burst: u32) -> Self {
        let limited = qps > 0.0 && qps.is_finite();
        Self { bucket: limited.then(|| Mutex::new(TokenBucket::new(f64::from(qps).max(SLOWEST), burst.max(1)))) }
    }

    /// Waits for a token. The answer is how long that took; `None` if there is no limit.
    pub async fn wait(&self) -> Option<Duration> {
        let wait = self.bucket.as_ref()?.lock().reserve(Instant::now());
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
    use std::sync::Arc;

    fn paused<F: Future>(test: F) -> F::Output {
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(test)
    }

    #[tokio::test(start_paused = true)]
    async fn burst_first_then_the_steady_rate() {
        let limiter = Limiter::new(20.0, 30);
        let start = Instant::now();
        for _ in 0..30 {
            assert_eq!(limiter.wait().await, Some(Duration::ZERO));
        }
        for _ in 0..20 {
            limiter.wait().await;
        }
        let took = start.elapsed().as_secs_f64();
        assert!((0.99..1.05).contains(&took), "{took}");
    }

    #[tokio::test(start_paused = true)]
    async fn no_rate_is_no_limit_and_odd_numbers_do_not_panic() {
        for qps in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            assert_eq!(Limiter::new(qps, 5).wait().await, None);
        }
        for qps in [f32::MIN_POSITIVE, 1e-30, 1e30] {
            assert_eq!(Limiter::new(qps, 0).wait().await, Some(Duration::ZERO));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn waiters_are_served_in_the_order_in_which_they_came() {
        let limiter = Arc::new(Limiter::new(10.0, 1));
        let served = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..5 {
            let (limiter, served) = (Arc::clone(&limiter), Arc::clone(&served));
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
            gaps in prop::collection::vec(0_u64..400, 1..200),
        ) {
            let granted = paused(async {
                let mut bucket = TokenBucket::new(f64::from(qps), burst);
                let mut now = Instant::now();
                gaps.iter().map(|gap| {
                    now += Duration::from_millis(*gap);
                    now + bucket.reserve(now)
                }).collect::<Vec<_>>()
            });
            let nanosecond = Duration::from_nanos(10);
            for (from, first) in granted.iter().enumerate() {
                for (to, last) in granted.iter().enumerate().skip(from) {
                    prop_assert!(*last + nanosecond >= *first, "first come, first served");
                    let count = (to - from + 1) as f64;
                    let window = last.saturating_duration_since(*first).as_secs_f64();
                    prop_assert!(count <= f64::from(burst) + f64::from(qps) * window + 1e-3, "{count} in {window} s");
                }
            }
        }
    }
}
