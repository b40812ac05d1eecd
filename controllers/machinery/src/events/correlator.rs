//! Which events are written, and which only raise a count (upstream `client-go/tools/record/events_cache.go`).
//!
//! Pure state, times handed in. One correlator serves one event source, as upstream: each controller has a broadcaster of its own.

use std::hash::{BuildHasher, Hash, RandomState};
use std::time::Duration;

use model::Time;
use model::plan::{Event, ObjectRef};
use tokio::time::Instant;

use super::lru::Lru;
use crate::token_bucket::TokenBucket;

/// Entries of each memory (upstream `maxLruCacheEntries`).
const MEMORY: usize = 4096;
/// From this many similar events on they are combined (upstream `defaultAggregateMaxEvents`).
const AGGREGATE_MAX_EVENTS: usize = 10;
/// Similar events that are further apart are not similar (upstream `defaultAggregateIntervalInSeconds`).
const AGGREGATE_INTERVAL: Duration = Duration::from_mins(10);
/// Events about one object at once (upstream `defaultSpamBurst`).
const SPAM_BURST: u32 = 25;
/// Events a second about one object in the long run (upstream `defaultSpamQPS`).
const SPAM_RATE: f64 = 1.0 / 300.0;

/// An event as a controller reports it.
#[derive(Clone, Debug)]
pub struct Occurrence {
    /// What it is about.
    pub object: ObjectRef,
    /// What happened.
    pub event: Event,
    /// When.
    pub at: Time,
}

/// What is to be written about an occurrence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Correlated {
    /// `message`.
    pub message: String,
    /// `firstTimestamp`; the event's name is made of it, too.
    pub first: Time,
    /// `lastTimestamp`.
    pub last: Time,
    /// `count`; beyond one there is an event already, to be patched.
    pub count: u32,
    /// It stands for several similar ones.
    pub combined: bool,
}

/// The memory.
///
/// Keys are 128-bit fingerprints under a secret of this process: upstream keeps whole texts, some megabytes of them.
#[derive(Debug)]
pub struct Correlator {
    similar: Lru<Similar>,
    written: Lru<Written>,
    spam: Lru<TokenBucket>,
    hashers: [RandomState; 2],
}

/// Events that differ only by message (upstream `aggregateRecord`).
#[derive(Debug)]
struct Similar {
    /// Fingerprints of their messages, oldest first.
    messages: Vec<u128>,
    last: Instant,
}

/// An event that was written before (upstream `eventLog`).
#[derive(Debug)]
struct Written {
    count: u32,
    first: Time,
}

// === impl Correlator ===

impl Default for Correlator {
    fn default() -> Self {
        Self {
            similar: Lru::new(MEMORY),
            written: Lru::new(MEMORY),
            spam: Lru::new(MEMORY),
            hashers: [RandomState::new(), RandomState::new()],
        }
    }
}

impl Correlator {
    /// What to write, if anything (upstream `EventCorrelate`). `wall` and `now` are the same moment on both clocks.
    pub fn correlate(&mut self, occurrence: &Occurrence, wall: Time, now: Instant) -> Option<Correlated> {
        let (key, mut correlated) = self.aggregate(occurrence, wall, now);
        self.observe(key, &mut correlated);
        // As upstream: what the spam filter drops has been counted, and shows in the count of the next one that is written.
        let spam = self.key((about(&occurrence.object), occurrence.event.severity));
        let bucket = self.spam.get_or_insert_with(spam, || TokenBucket::new(SPAM_RATE, SPAM_BURST));
        bucket.try_accept(now).then_some(correlated)
    }

    /// Upstream `EventAggregate`: the event to write, and the key under which its repetitions are counted.
    fn aggregate(&mut self, occurrence: &Occurrence, wall: Time, now: Instant) -> (u128, Correlated) {
        let Occurrence { object, event, at } = occurrence;
        let group = self.key((about(object), event.severity, event.reason));
        let message = self.key(&event.message);
        let similar = self.similar.get_or_insert_with(group, || Similar { messages: Vec::new(), last: now });
        if now.saturating_duration_since(similar.last) > AGGREGATE_INTERVAL {
            similar.messages.clear();
        }
        similar.last = now;
        if !similar.messages.contains(&message) {
            similar.messages.push(message);
        }
        if similar.messages.len() < AGGREGATE_MAX_EVENTS {
            let key = self.key((about(object), event.severity, event.reason, &event.message));
            return (key, Correlated { message: event.message.clone(), first: *at, last: *at, count: 1, combined: false });
        }
        // Upstream drops an arbitrary one.
        similar.messages.remove(0);
        let message = format!("(combined from similar events): {}", event.message);
        (group, Correlated { message, first: wall, last: wall, count: 1, combined: true })
    }

    /// Upstream `eventObserve`. Its `UpdateState`, which takes over what the server answered, has no counterpart: the answer
    /// is what was sent, and the resourceVersion kept there goes into no request.
    fn observe(&mut self, key: u128, correlated: &mut Correlated) {
        let first = correlated.first;
        let written = self.written.get_or_insert_with(key, || Written { count: 0, first });
        written.count += 1;
        correlated.count = written.count;
        correlated.first = written.first;
    }

    fn key(&self, what: impl Hash) -> u128 {
        let [high, low] = &self.hashers;
        u128::from(high.hash_one(&what)) << 64 | u128::from(low.hash_one(&what))
    }
}

/// What identifies the object (upstream `getSpamKey`). Its version is not part of it.
fn about(object: &ObjectRef) -> impl Hash {
    (object.resource, &object.key, object.uid)
}
