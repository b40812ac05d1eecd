//! The work queue's rules: pure state, times handed in.
//!
//! A key is at most once in line and never handed out twice at a time; one that is added while it is worked on goes in line again when
//! that work is done. First come, first served, except that work of low priority (first list, resync) lets other work pass.
//!
//! One rule is not upstream's (kubernetes issue 132805): there, every event of a failing key starts an attempt whose failure doubles the
//! key's back-off, so that a busy key soon waits for 16 minutes. Here an attempt that began before its back-off was over may
//! succeed early, but its failure changes nothing: neither the failure count nor the time of the attempt that waits.

mod snapshot;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

pub use snapshot::Snapshot;

use crate::token_bucket::TokenBucket;

/// The first back-off of a key (upstream `DefaultTypedControllerRateLimiter`).
const BASE_DELAY: Duration = Duration::from_millis(5);
/// The longest back-off of a key.
const MAX_DELAY: Duration = Duration::from_secs(1000);
/// Rate-limited adds a second, over all keys.
const RETRIES_PER_SECOND: f64 = 10.0;
/// Rate-limited adds at once.
const RETRY_BURST: u32 = 100;
/// How many keys may pass one of low priority that waits.
const LOW_PRIORITY_TURN: u32 = 16;

/// What a work queue can carry.
pub trait Key: Clone + Eq + Hash + Send + 'static {}

impl<K: Clone + Eq + Hash + Send + 'static> Key for K {}

/// Who goes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Priority {
    /// Whatever replays known objects: the first list, a resync.
    Low,
    /// Real news.
    Normal,
}

/// Hears what a queue does; the metrics are fed by it.
pub trait Observer {
    /// A key that needs work was added, and was not waiting before.
    fn added(&mut self) {}
    /// A key was handed out after it had waited this long.
    fn taken(&mut self, _waited: Duration) {}
    /// The work on a key took this long.
    fn worked(&mut self, _took: Duration) {}
    /// A key was added with a delay, or after a failure.
    fn retried(&mut self) {}
    /// A key that waited is given up.
    fn dropped(&mut self) {}
}

impl Observer for () {}

/// The queue's state. `now` must never go back.
#[derive(Debug)]
pub struct Core<K, O = ()> {
    /// Keys about which anything is known.
    entries: HashMap<K, Entry>,
    /// In line. A key that has left its place for a better one leaves a place behind that no entry claims.
    normal: VecDeque<Place<K>>,
    low: VecDeque<Place<K>>,
    /// Ids for places and timers: their order breaks ties.
    next_ticket: u64,
    /// How many keys of normal priority have passed the first of low priority.
    passed: u32,
    timers: BTreeMap<(Instant, u64), K>,
    limit: TokenBucket,
    processing: usize,
    queued: usize,
    /// Nobody takes keys yet, and only those stay that were added within this time.
    holding: Option<Duration>,
    shutting_down: bool,
    observer: O,
}

#[derive(Debug)]
struct Place<K> {
    key: K,
    ticket: u64,
}

#[derive(Debug, Default)]
struct Entry {
    stage: Stage,
    /// Since when the key has needed work that has not begun.
    dirty: Option<Dirty>,
    timer: Option<(Instant, u64)>,
    failures: u32,
    /// When the back-off after the last failure that counted is over.
    backoff_until: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Dirty {
    since: Instant,
    priority: Priority,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Stage {
    /// Neither in line nor worked on.
    #[default]
    Idle,
    /// In line, at this place.
    Queued(u64),
    /// Being worked on.
    Processing {
        since: Instant,
        /// The back-off was over when this began, or there was none.
        waited: bool,
    },
    /// Put aside until [`Core::unpark`]; needs work.
    Parked,
}

/// Where a key is and how often it has failed, for `explain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Whereabouts {
    /// What is happening to it.
    pub place: KeyPlace,
    /// Failures in a row that have counted.
    pub failures: u32,
    /// When it comes in line by itself.
    pub timer: Option<Instant>,
}

/// What is happening to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum KeyPlace {
    /// Nothing.
    #[default]
    Idle,
    /// It has been in line since then.
    Queued(Instant),
    /// It has been worked on since then.
    Processing(Instant),
    /// It has been put aside since then.
    Parked(Instant),
}

// === impl Core ===

impl<K: Key, O: Observer> Core<K, O> {
    /// An empty queue.
    pub fn new(observer: O) -> Self {
        Self {
            entries: HashMap::new(),
            normal: VecDeque::new(),
            low: VecDeque::new(),
            next_ticket: 0,
            passed: 0,
            timers: BTreeMap::new(),
            limit: TokenBucket::new(RETRIES_PER_SECOND, RETRY_BURST),
            processing: 0,
            queued: 0,
            holding: None,
            shutting_down: false,
            observer,
        }
    }

    /// Marks a key as needing work (upstream `queue.go` `Add`).
    pub fn add(&mut self, key: K, priority: Priority, now: Instant) {
        if self.shutting_down {
            return;
        }
        if let Some(window) = self.holding {
            return self.note(key, priority, window, now);
        }
        let entry = self.entries.entry(key.clone()).or_default();
        let better = match &mut entry.dirty {
            None => {
                entry.dirty = Some(Dirty { since: now, priority });
                self.observer.added();
                true
            }
            Some(dirty) if dirty.priority < priority => {
                dirty.priority = priority;
                true
            }
            Some(_) => false,
        };
        if better && matches!(entry.stage, Stage::Idle | Stage::Queued(_)) {
            self.line_up(key);
        }
    }

    /// Nobody is going to take keys before [`Self::resume`], and then all objects are looked at anyway: until then the queue only keeps
    /// which keys have been added within the last `window`, so that these go first. Whatever it holds already is given up.
    pub fn hold(&mut self, window: Duration) {
        let observer = &mut self.observer;
        self.entries.values().filter(|entry| entry.dirty.is_some()).for_each(|_| observer.dropped());
        self.entries.clear();
        self.timers.clear();
        self.normal.clear();
        self.low.clear();
        self.queued = 0;
        self.holding = Some(window);
    }

    /// Keys are taken from now on. What was added lately is in line.
    pub fn resume(&mut self, now: Instant) {
        if let Some(window) = self.holding.take() {
            self.drop_older(window, now);
        }
        // The wait for this moment was nobody's fault.
        for dirty in self.entries.values_mut().filter_map(|entry| entry.dirty.as_mut()) {
            dirty.since = now;
        }
    }

    /// Adds a key later. A key has one timer, and the earliest wins (upstream `delaying_queue.go` `AddAfter`).
    pub fn add_after(&mut self, key: K, delay: Duration, now: Instant) {
        if self.shutting_down || self.holding.is_some() {
            return;
        }
        self.observer.retried();
        self.add_at(key, now + delay, now);
    }

    /// Adds a key after a failure, when its back-off and the common limit allow (upstream `rate_limiting_queue.go` `AddRateLimited`).
    pub fn add_rate_limited(&mut self, key: K, now: Instant) {
        if self.shutting_down {
            return;
        }
        self.observer.retried();
        let entry = self.entries.entry(key.clone()).or_default();
        let waited = match entry.stage {
            Stage::Processing { waited, .. } => waited,
            _ => entry.backoff_until.is_none_or(|until| until <= now),
        };
        let until = match entry.backoff_until {
            // The attempt that waits stands as it was. Its timer may be gone: an earlier delayed add could have taken its place.
            Some(until) if !waited => until,
            _ => {
                let until = now + backoff(entry.failures).max(self.limit.reserve(now));
                entry.failures += 1;
                entry.backoff_until = Some(until);
                until
            }
        };
        self.add_at(key, until, now);
    }

    /// Forgets a key's failures (upstream `Forget`). A timer that is set stays set.
    pub fn forget(&mut self, key: &K) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.failures = 0;
            entry.backoff_until = None;
        }
        self.clean(key);
    }

    /// How many failures of a key have counted since it was last forgotten (upstream `NumRequeues`).
    pub fn num_requeues(&self, key: &K) -> u32 {
        self.entries.get(key).map_or(0, |entry| entry.failures)
    }

    /// When a key's back-off is over, if it is in one.
    #[cfg(test)]
    pub(super) fn backoff_until(&self, key: &K) -> Option<Instant> {
        self.entries.get(key)?.backoff_until
    }

    /// Adds the keys whose time has come, then takes the first in line. It must be given back by [`Self::done`] or [`Self::park`].
    pub fn take(&mut self, now: Instant) -> Option<K> {
        self.fire(now);
        let key = self.pop()?;
        let entry = self.entries.get_mut(&key)?;
        if let Some(dirty) = entry.dirty.take() {
            self.observer.taken(now.saturating_duration_since(dirty.since));
        }
        entry.stage = Stage::Processing { since: now, waited: entry.backoff_until.is_none_or(|until| until <= now) };
        self.queued -= 1;
        self.processing += 1;
        Some(key)
    }

    /// The work on a key has ended. If the key was added meanwhile, it goes in line again (upstream `Done`).
    pub fn done(&mut self, key: &K, now: Instant) {
        if self.leave_processing(key, Stage::Idle, now) == Some(true) {
            self.line_up(key.clone());
        }
        self.clean(key);
    }

    /// The work on a key cannot go on before something else has happened: instead of [`Self::done`]. The key needs work, but it is neither
    /// in line nor worked on before [`Self::unpark`]; what is added meanwhile, by timers too, is absorbed.
    pub fn park(&mut self, key: &K, now: Instant) {
        let Some(dirty) = self.leave_processing(key, Stage::Parked, now) else { return };
        if !dirty && let Some(entry) = self.entries.get_mut(key) {
            entry.dirty = Some(Dirty { since: now, priority: Priority::Normal });
            self.observer.added();
        }
    }

    /// Puts a parked key in line. Whether it was parked.
    pub fn unpark(&mut self, key: &K) -> bool {
        let parked = self.entries.get(key).is_some_and(|entry| entry.stage == Stage::Parked);
        if parked {
            self.line_up(key.clone());
        }
        parked
    }

    /// When [`Self::take`] should be asked again although nothing was added.
    pub fn next_timer(&self) -> Option<Instant> {
        self.timers.first_key_value().map(|((at, _), _)| *at).filter(|_| !self.shutting_down)
    }

    /// Takes no more keys in. What is in line is still handed out; timers and parked keys are given up (upstream `ShutDown`).
    pub fn shut_down(&mut self) {
        self.shutting_down = true;
        self.timers.clear();
        for entry in self.entries.values_mut() {
            entry.timer = None;
            if entry.stage == Stage::Parked {
                entry.stage = Stage::Idle;
                entry.dirty = None;
                self.observer.dropped();
            }
        }
    }

    /// Whether [`Self::shut_down`] has been called.
    pub fn is_shutting_down(&self) -> bool {
        self.shutting_down
    }

    /// How many keys are in line.
    pub fn len(&self) -> usize {
        self.queued
    }

    /// Whether no key is in line.
    pub fn is_empty(&self) -> bool {
        self.queued == 0
    }

    /// How many keys are being worked on.
    pub fn processing(&self) -> usize {
        self.processing
    }

    /// Where a key is.
    pub fn whereabouts(&self, key: &K) -> Whereabouts {
        let Some(entry) = self.entries.get(key) else { return Whereabouts::default() };
        let place = match (entry.stage, entry.dirty) {
            (Stage::Processing { since, .. }, _) => KeyPlace::Processing(since),
            (Stage::Queued(_), Some(dirty)) => KeyPlace::Queued(dirty.since),
            (Stage::Parked, Some(dirty)) => KeyPlace::Parked(dirty.since),
            _ => KeyPlace::Idle,
        };
        Whereabouts { place, failures: entry.failures, timer: entry.timer.map(|(at, _)| at) }
    }

    /// For how long each key that is worked on has been.
    pub fn work_in_progress(&self, now: Instant) -> impl Iterator<Item = Duration> {
        self.entries.values().filter_map(move |entry| match entry.stage {
            Stage::Processing { since, .. } => Some(now.saturating_duration_since(since)),
            _ => None,
        })
    }

    /// Puts a key last in line, with the time; what is only handed out again is no news.
    fn note(&mut self, key: K, priority: Priority, window: Duration, now: Instant) {
        if priority == Priority::Low {
            return;
        }
        let entry = self.entries.entry(key.clone()).or_default();
        if entry.dirty.replace(Dirty { since: now, priority }).is_none() {
            self.observer.added();
        }
        self.line_up(key);
        self.drop_older(window, now);
    }

    fn drop_older(&mut self, window: Duration, now: Instant) {
        loop {
            let entries = &self.entries;
            let over = |place: &mut Place<K>| {
                let entry = entries.get(&place.key).filter(|entry| entry.stage == Stage::Queued(place.ticket));
                entry.and_then(|entry| entry.dirty).is_none_or(|dirty| dirty.since + window < now)
            };
            let Some(Place { key, ticket }) = self.normal.pop_front_if(over) else { return };
            if self.entries.get(&key).is_some_and(|entry| entry.stage == Stage::Queued(ticket)) {
                self.entries.remove(&key);
                self.queued -= 1;
                self.observer.dropped();
            }
        }
    }

    fn add_at(&mut self, key: K, at: Instant, now: Instant) {
        if at <= now {
            self.add(key.clone(), Priority::Normal, now);
            return;
        }
        let ticket = self.ticket();
        let entry = self.entries.entry(key.clone()).or_default();
        if let Some(timer) = entry.timer {
            if timer.0 <= at {
                return;
            }
            self.timers.remove(&timer);
        }
        entry.timer = Some((at, ticket));
        self.timers.insert((at, ticket), key);
    }

    fn fire(&mut self, now: Instant) {
        while let Some(first) = self.timers.first_entry().filter(|first| first.key().0 <= now) {
            let key = first.remove();
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.timer = None;
            }
            self.add(key, Priority::Normal, now);
        }
    }

    /// Gives a dirty key a place; a place it had before is void.
    fn line_up(&mut self, key: K) {
        let ticket = self.ticket();
        let Some(entry) = self.entries.get_mut(&key) else { return };
        let Some(dirty) = entry.dirty else { return };
        if !matches!(entry.stage, Stage::Queued(_)) {
            self.queued += 1;
        }
        entry.stage = Stage::Queued(ticket);
        let line = match dirty.priority {
            Priority::Normal => &mut self.normal,
            Priority::Low => &mut self.low,
        };
        line.push_back(Place { key, ticket });
    }

    fn pop(&mut self) -> Option<K> {
        let entries = &self.entries;
        let first = |line: &mut VecDeque<Place<K>>| {
            let void = |place: &Place<K>| entries.get(&place.key).is_none_or(|entry| entry.stage != Stage::Queued(place.ticket));
            while line.pop_front_if(|place| void(place)).is_some() {}
            !line.is_empty()
        };
        let (normal, low) = (first(&mut self.normal), first(&mut self.low));
        let take_low = low && (!normal || self.passed >= LOW_PRIORITY_TURN);
        self.passed = if take_low || !low { 0 } else { self.passed + 1 };
        let line = if take_low { &mut self.low } else { &mut self.normal };
        line.pop_front().map(|place| place.key)
    }

    /// Whether the key was added while it was worked on; `None` if it was not worked on at all.
    fn leave_processing(&mut self, key: &K, stage: Stage, now: Instant) -> Option<bool> {
        let entry = self.entries.get_mut(key)?;
        let Stage::Processing { since, .. } = entry.stage else { return None };
        entry.stage = stage;
        self.processing -= 1;
        self.observer.worked(now.saturating_duration_since(since));
        Some(entry.dirty.is_some())
    }

    /// Drops an entry that says nothing.
    fn clean(&mut self, key: &K) {
        let idle = |entry: &Entry| {
            entry.stage == Stage::Idle
                && entry.dirty.is_none()
                && entry.timer.is_none()
                && entry.failures == 0
                && entry.backoff_until.is_none()
        };
        if self.entries.get(key).is_some_and(idle) {
            self.entries.remove(key);
        }
    }

    fn ticket(&mut self) -> u64 {
        self.next_ticket += 1;
        self.next_ticket
    }
}

/// The back-off after so many failures (upstream `default_rate_limiters.go` `TypedItemExponentialFailureRateLimiter`).
fn backoff(failures: u32) -> Duration {
    1_u32.checked_shl(failures).map_or(MAX_DELAY, |factor| BASE_DELAY.saturating_mul(factor).min(MAX_DELAY))
}
