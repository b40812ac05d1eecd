//! The two times: the wall clock that API objects speak, and the monotonic one that waits are measured on.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use model::Time;
use tokio::time::Instant;

/// Where times come from. Handed to everything that asks for one, so that tests own both.
#[derive(Clone, Debug, Default)]
pub struct Clock(Source);

#[derive(Clone, Debug, Default)]
enum Source {
    #[default]
    System,
    Test(Arc<TestClock>),
}

/// A wall clock for tests: it starts where it is told and advances with tokio's (paused) time.
#[derive(Debug)]
pub struct TestClock {
    started: Instant,
    /// Nanoseconds since the epoch at `started`; jumps change it.
    base: AtomicI64,
}

// === impl Clock ===

impl Clock {
    /// The machine's clocks.
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// A wall clock that reads `start` now, and the handle that makes it jump.
    pub fn test(start: Time) -> (Self, Arc<TestClock>) {
        let clock = Arc::new(TestClock { started: Instant::now(), base: AtomicI64::new(start.0) });
        (Self(Source::Test(Arc::clone(&clock))), clock)
    }

    /// Monotonic time: tokio's, so that a paused test controls it.
    #[allow(clippy::unused_self, reason = "callers must not care that both clocks share tokio's monotonic time")]
    pub fn now(&self) -> Instant {
        Instant::now()
    }

    /// Wall time. It may jump either way.
    pub fn wall(&self) -> Time {
        match &self.0 {
            Source::System => Time(since_epoch(SystemTime::now())),
            Source::Test(clock) => clock.wall(),
        }
    }
}

/// Nanoseconds since the epoch; saturates, which happens in 2262.
fn since_epoch(at: SystemTime) -> i64 {
    match at.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |nanos| -nanos),
    }
}

// === impl TestClock ===

impl TestClock {
    /// Moves the wall clock by so many seconds without the monotonic one noticing.
    pub fn jump_seconds(&self, seconds: i64) {
        self.base.fetch_add(seconds.saturating_mul(1_000_000_000), Ordering::Relaxed);
    }

    fn wall(&self) -> Time {
        let elapsed = i64::try_from(self.started.elapsed().as_nanos()).unwrap_or(i64::MAX);
        Time(self.base.load(Ordering::Relaxed).saturating_add(elapsed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn wall_follows_paused_time_and_jumps() {
        let (clock, handle) = Clock::test(Time(1_000));
        assert_eq!(clock.wall(), Time(1_000));
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(clock.wall(), Time(3_000_001_000));
        let before = clock.now();
        handle.jump_seconds(-10);
        assert_eq!(clock.wall(), Time(-6_999_999_000));
        assert_eq!(clock.now(), before, "a jump of the wall clock leaves the monotonic one alone");
    }

    #[test]
    fn system_wall_is_after_2024() {
        assert!(Clock::system().wall() > Time(1_700_000_000_000_000_000));
    }
}
