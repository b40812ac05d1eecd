//! No write without the right to write: a lease that is held, with time to spare.
//!
//! A process that was frozen, or whose machine was suspended, wakes up believing that it still leads. The time that the lease is good for
//! is therefore measured on a clock that went on meanwhile, and looked at before every single write.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Time since boot, suspended time included: Linux' `CLOCK_BOOTTIME`, which no one can set. Tests have their own.
#[derive(Clone, Default)]
pub struct BootClock(Ticking);

#[derive(Clone, Default)]
enum Ticking {
    #[default]
    System,
    ByHand(Arc<AtomicU64>),
    Since(Instant),
}

/// The right to write; clones share it. Whoever renews the lease extends it, and the executor asks it before each request.
#[derive(Clone, Debug)]
pub struct Fence(Option<Arc<Lease>>);

#[derive(Debug)]
struct Lease {
    clock: BootClock,
    /// Nanoseconds since boot; zero once it is given up.
    until: AtomicU64,
}

// === impl BootClock ===

impl BootClock {
    /// A clock that stands still until the test moves it.
    pub fn test(start: Duration) -> (Self, Arc<AtomicU64>) {
        let now = Arc::new(AtomicU64::new(nanos(start)));
        (Self(Ticking::ByHand(Arc::clone(&now))), now)
    }

    /// A clock that goes with tokio's (paused) time.
    pub fn paused() -> Self {
        Self(Ticking::Since(Instant::now()))
    }

    /// Time since boot.
    pub fn now(&self) -> Duration {
        match &self.0 {
            Ticking::System => {
                let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
                Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
            }
            Ticking::ByHand(now) => Duration::from_nanos(now.load(Ordering::SeqCst)),
            Ticking::Since(start) => start.elapsed(),
        }
    }
}

impl fmt::Debug for BootClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BootClock({:?})", self.now())
    }
}

// === impl Fence ===

impl Fence {
    /// No fence: there is no leader election, and nobody else to collide with.
    pub fn open() -> Self {
        Self(None)
    }

    /// Closed until the lease is held.
    pub fn closed(clock: BootClock) -> Self {
        Self(Some(Arc::new(Lease { clock, until: AtomicU64::new(0) })))
    }

    /// The lease was renewed by a request that was *begun* at `begun` (time since boot); what is sent within `window` from then takes
    /// effect before the lease ends. The window is the renew deadline: the rest of the lease's duration is time to spare.
    pub fn extend(&self, begun: Duration, window: Duration) {
        if let Some(lease) = &self.0 {
            lease.until.store(nanos(begun.saturating_add(window)), Ordering::SeqCst);
        }
    }

    /// The lease is lost or given up.
    pub fn close(&self) {
        if let Some(lease) = &self.0 {
            lease.until.store(0, Ordering::SeqCst);
        }
    }

    /// Whether a write may be sent now.
    pub fn may_write(&self) -> bool {
        self.0.as_ref().is_none_or(|lease| nanos(lease.clock.now()) < lease.until.load(Ordering::SeqCst))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn ctl_06_the_right_to_write_ends_with_its_window() {
        let (clock, now) = BootClock::test(100 * SECOND);
        let fence = Fence::closed(clock);
        assert!(!fence.may_write(), "not held yet");
        fence.extend(100 * SECOND, 10 * SECOND);
        for (seconds, may) in [(100, true), (109, true), (110, false), (500, false)] {
            now.store(nanos(seconds * SECOND), Ordering::SeqCst);
            assert_eq!(fence.may_write(), may, "{seconds} s");
        }
        fence.extend(500 * SECOND, 10 * SECOND);
        assert!(fence.may_write());
        fence.close();
        assert!(!fence.may_write());
    }

    #[test]
    fn without_leader_election_everything_may_be_written() {
        assert!(Fence::open().may_write());
    }

    #[test]
    fn the_clock_counts_from_boot() {
        let clock = BootClock::default();
        let before = clock.now();
        assert!(before > Duration::ZERO && clock.now() >= before);
    }
}
