//! A bound on log lines.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Lets so many lines through in a minute, and counts the others.
#[derive(Debug, Default)]
pub(super) struct Lines(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// When the present minute began.
    since: Option<Instant>,
    printed: u32,
    silent: u64,
}

const A_MINUTE: u32 = 20;
const MINUTE: Duration = Duration::from_secs(60);

// === impl Lines ===

impl Lines {
    /// Whether there is room for one more; it is taken then.
    pub(super) fn may_print(&self, now: Instant) -> bool {
        let mut counts = self.0.lock();
        if counts.since.is_none_or(|since| now.duration_since(since) >= MINUTE) {
            (counts.since, counts.printed) = (Some(now), 0);
        }
        let room = counts.printed < A_MINUTE;
        if room {
            counts.printed += 1;
        } else {
            counts.silent += 1;
        }
        room
    }

    /// How many were left out since this was last asked.
    pub(super) fn take_silent(&self) -> u64 {
        std::mem::take(&mut self.0.lock().silent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_has_room_for_twenty() {
        let (sut, start) = (Lines::default(), Instant::now());
        let printed = |after: u64| (0..30).filter(|_| sut.may_print(start + Duration::from_secs(after))).count();
        assert_eq!((printed(0), printed(59), printed(60)), (20, 0, 20));
        assert_eq!((sut.take_silent(), sut.take_silent()), (50, 0));
    }
}
