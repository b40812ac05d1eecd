//! The work queue: client-go's rules ([`core`]), for tasks.

pub mod core;
mod metrics;

#[cfg(test)]
mod plain;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use model::ObjectKey;
use parking_lot::Mutex;
use prometheus::Registry;
use tokio::sync::Notify;
use tokio::time::Instant;

use self::core::Core;
pub use self::core::{Key, KeyPlace, Priority, Snapshot, Whereabouts};
use self::metrics::Metrics;
use crate::clock::Clock;
use crate::error::Error;

/// A queue of keys that need work; cheap to clone. Many may add, many may work.
pub struct WorkQueue<K = ObjectKey>(Arc<Shared<K>>);

struct Shared<K> {
    core: Arc<Mutex<Core<K, Metrics>>>,
    clock: Clock,
    /// One waiter, or the next one to come, should look again.
    changed: Notify,
    /// The last key in work has been given back after the shutdown.
    drained: Notify,
}

/// A key that is being worked on. No one else gets it before this is dropped or parked; a panic drops it, too.
pub struct Taken<K: Key = ObjectKey> {
    key: K,
    queue: WorkQueue<K>,
    /// Dropping it says so to the queue.
    done: bool,
}

// === impl WorkQueue ===

impl<K: Key> WorkQueue<K> {
    /// An empty queue, whose metrics have that name.
    pub fn new(name: &str, clock: Clock, registry: &Registry) -> Result<Self, Error> {
        let metrics = Metrics::new(name)?;
        metrics.register(registry)?;
        let in_progress = metrics::InProgress::new(name, clock.clone())?;
        let core = Arc::new(Mutex::new(Core::new(metrics)));
        registry.register(Box::new(in_progress.of(&core)))?;
        Ok(Self(Arc::new(Shared { core, clock, changed: Notify::new(), drained: Notify::new() })))
    }

    /// Marks a key as needing work now.
    pub fn add(&self, key: K) {
        self.change(|core, now| core.add(key, Priority::Normal, now));
    }

    /// Marks a key as needing work, behind all that is real news: for the first list and resyncs.
    pub fn add_low_priority(&self, key: K) {
        self.change(|core, now| core.add(key, Priority::Low, now));
    }

    /// Marks a key as needing work after a delay. Of several delays of a key the earliest counts; other adds do not touch it.
    pub fn add_after(&self, key: K, delay: Duration) {
        self.change(|core, now| core.add_after(key, delay, now));
    }

    /// Marks a key as needing work after its back-off: an attempt has failed.
    pub fn add_rate_limited(&self, key: K) {
        self.change(|core, now| core.add_rate_limited(key, now));
    }

    /// An attempt has succeeded, or is not to be repeated: the next failure is the first again.
    pub fn forget(&self, key: &K) {
        self.0.core.lock().forget(key);
    }

    /// How many failures in a row have counted.
    pub fn num_requeues(&self, key: &K) -> u32 {
        self.0.core.lock().num_requeues(key)
    }

    /// Where a key is, for `explain`.
    pub fn whereabouts(&self, key: &K) -> Whereabouts {
        self.0.core.lock().whereabouts(key)
    }

    /// Nobody takes keys before [`Self::resume`]: until then only those are kept that were added within the last `window`. Other objects
    /// must be added then.
    pub fn hold(&self, window: Duration) {
        self.change(|core, _| core.hold(window));
    }

    /// Keys are taken from now on.
    pub fn resume(&self) {
        self.change(Core::resume);
    }

    /// Puts a key that was parked back in line. Whether it was parked.
    pub fn unpark(&self, key: &K) -> bool {
        self.change(|core, _| core.unpark(key))
    }

    /// What it holds, with at most `shown` keys of each kind: for debug pages. Looks at every key there is.
    pub fn snapshot(&self, shown: usize) -> Snapshot<K> {
        self.0.core.lock().snapshot(shown)
    }

    /// How many keys are in line.
    pub fn len(&self) -> usize {
        self.0.core.lock().len()
    }

    /// Whether no key is in line.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The next key, when there is one; `None` once the queue is shut down and nothing is left in line.
    pub async fn get(&self) -> Option<Taken<K>> {
        loop {
            let timer = {
                let mut core = self.0.core.lock();
                let taken = core.take(self.0.clock.now());
                let timer = core.next_timer();
                let over = core.is_shutting_down();
                let more = !core.is_empty() || timer.is_some();
                drop(core);
                // Whoever leaves takes his timer and his wake-up with him: someone else must look after what is still to come.
                if over || (taken.is_some() && more) {
                    self.0.changed.notify_one();
                }
                match taken {
                    Some(key) => return Some(Taken { key, queue: self.clone(), done: false }),
                    None if over => return None,
                    None => timer,
                }
            };
            let changed = self.0.changed.notified();
            match timer {
                Some(at) => drop(tokio::time::timeout_at(at, changed).await),
                None => changed.await,
            }
        }
    }

    /// Takes no more keys in; [`Self::get`] hands out what is in line, then ends (upstream `ShutDown`).
    pub fn shut_down(&self) {
        self.0.core.lock().shut_down();
        self.0.changed.notify_one();
        self.0.drained.notify_waiters();
    }

    /// [`Self::shut_down`], and waits until no key is in line or worked on (upstream `ShutDownWithDrain`).
    pub async fn drain(&self) {
        self.shut_down();
        loop {
            let drained = self.0.drained.notified();
            tokio::pin!(drained);
            drained.as_mut().enable();
            {
                let core = self.0.core.lock();
                if core.processing() == 0 && core.is_empty() {
                    return;
                }
            }
            drained.await;
        }
    }

    fn change<R>(&self, change: impl FnOnce(&mut Core<K, Metrics>, Instant) -> R) -> R {
        let mut core = self.0.core.lock();
        let result = change(&mut core, self.0.clock.now());
        drop(core);
        self.0.changed.notify_one();
        result
    }
}

impl<K> Clone for WorkQueue<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K> fmt::Debug for WorkQueue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueue").finish_non_exhaustive()
    }
}

// === impl Taken ===

impl<K: Key> Taken<K> {
    /// The key.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// The work is done; so is dropping it. Add the key again before, if need be.
    pub fn done(self) {
        drop(self);
    }

    /// Puts the key aside, as needing work that cannot begin before [`WorkQueue::unpark`]. What the key waits for may have come just before:
    /// look once more after parking it.
    pub fn park(mut self) {
        self.done = true;
        self.queue.change(|core, now| core.park(&self.key, now));
        self.queue.0.drained.notify_waiters();
    }
}

impl<K: Key> Drop for Taken<K> {
    fn drop(&mut self) {
        if !self.done {
            self.queue.change(|core, now| core.done(&self.key, now));
            self.queue.0.drained.notify_waiters();
        }
    }
}

impl<K: Key + fmt::Debug> fmt::Debug for Taken<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Taken").field(&self.key).finish()
    }
}
