//! No sync from a cache that has not seen the last sync's writes (upstream `pkg/controller/util/consistency`).
//!
//! Upstream fails such a sync and retries it by a timer; here the key is parked, its worker goes on with others, and the watch event
//! that the key waits for brings it back. A store that stays behind is made to list anew.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use model::plan::Resource;
use model::{ObjectKey, ResourceVersion, Uid};
use parking_lot::Mutex;
use prometheus::{IntCounterVec, Opts, Registry};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::error::Error;
use crate::queue::{Taken, WorkQueue};
use crate::source::SourceHandle;
use crate::store::Reached;

/// One controller's guard; cheap to clone.
#[derive(Clone, Debug)]
pub struct Guard(Arc<Shared>);

/// A store that the guarded controller reads.
#[derive(Debug)]
pub struct Guarded {
    /// What it holds.
    pub resource: &'static Resource,
    /// How far it has come.
    pub reached: watch::Receiver<Reached>,
    /// What can make it list anew.
    pub source: SourceHandle,
}

/// Why a key waits, for `explain`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behind {
    /// The resource whose store is behind.
    pub resource: &'static Resource,
    /// The version it has to reach; zero if it has to list anew, since the server's data was set back.
    pub version: ResourceVersion,
}

#[derive(Debug)]
struct Shared {
    queue: WorkQueue<ObjectKey>,
    stores: Vec<Guarded>,
    state: Mutex<State>,
    skips: IntCounterVec,
    /// A key was parked.
    parked: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// What was written and has not been seen, by owner.
    written: HashMap<ObjectKey, Written>,
    /// Keys that wait, by the store they wait for and the version it must reach.
    waiting: BTreeMap<usize, BTreeSet<(ResourceVersion, ObjectKey)>>,
    /// Since when keys have waited for a store that has not moved, or when it was last made to list anew.
    since: BTreeMap<usize, Instant>,
    /// How far each store had come when it was last looked at.
    seen: Vec<Reached>,
    /// What each store has to have listed before any key may go on: after a rewind of one, the others are of another past until they have
    /// listed anew.
    due: Vec<u64>,
    /// Keys that wait for that.
    rewinding: BTreeSet<ObjectKey>,
}

#[derive(Debug)]
struct Written {
    owner: Uid,
    /// The highest version written, by store.
    versions: Vec<(usize, ResourceVersion)>,
}

/// A store that has not shown a write for so long has missed it.
const RELIST_AFTER: Duration = Duration::from_secs(30);

// === impl Guard ===

impl Guard {
    /// A guard of the keys in `queue` over these stores. `controller` names its metric: `<controller>_controller_stale_sync_skips_total`.
    pub fn new(controller: &str, queue: WorkQueue<ObjectKey>, stores: Vec<Guarded>, registry: &Registry) -> Result<Self, Error> {
        let name = format!("{controller}_controller_stale_sync_skips_total");
        let help = "Total number of syncs put off because a cache had not seen the controller's own writes";
        let skips = IntCounterVec::new(Opts::new(name, help), &["group", "resource"])?;
        for store in &stores {
            skips.with_label_values(&[store.resource.group, store.resource.plural]);
        }
        registry.register(Box::new(skips.clone()))?;
        let seen = stores.iter().map(|store| *store.reached.borrow()).collect();
        let due = vec![0; stores.len()];
        let state = Mutex::new(State { seen, due, ..State::default() });
        Ok(Self(Arc::new(Shared { queue, stores, state, skips, parked: Notify::new() })))
    }

    /// A write on behalf of an owner was answered with this version. A record of another owner of the same name is replaced.
    pub fn wrote(&self, key: &ObjectKey, owner: Uid, resource: &Resource, version: ResourceVersion) {
        let Some(store) = self.0.stores.iter().position(|store| store.resource == resource) else { return };
        if !version.is_known() {
            return;
        }
        let mut state = self.0.state.lock();
        let written = state.written.entry(key.clone()).or_insert_with(|| Written { owner, versions: Vec::new() });
        if written.owner != owner {
            *written = Written { owner, versions: Vec::new() };
        }
        match written.versions.iter_mut().find(|(of, _)| *of == store) {
            Some((_, highest)) => *highest = version.max(*highest),
            None => written.versions.push((store, version)),
        }
    }

    /// The owner of that UID is gone: what was written for it holds nobody back, least of all a new object of its name.
    pub fn forget(&self, key: &ObjectKey, owner: Uid) {
        if self.0.state.lock().forget(key, |written| written.owner == owner) {
            self.0.queue.unpark(key);
        }
    }

    /// A sync found no owner of that name.
    pub fn forget_absent(&self, key: &ObjectKey) {
        self.0.state.lock().forget(key, |_| true);
    }

    /// What a key still has to wait for; once that is nothing, its record is dropped.
    pub fn behind(&self, key: &ObjectKey) -> Option<Behind> {
        let mut state = self.0.state.lock();
        self.0.look(&mut state);
        if let Some(store) = state.first_rewinding() {
            return Some(Behind { resource: self.0.stores.get(store)?.resource, version: ResourceVersion::default() });
        }
        let behind = self.0.first_behind(state.written.get(key)?);
        if behind.is_none() {
            state.written.remove(key);
        }
        let (store, version) = behind?;
        Some(Behind { resource: self.0.stores.get(store)?.resource, version })
    }

    /// Puts a key aside until its stores have caught up.
    pub fn park(&self, taken: Taken<ObjectKey>, now: Instant) {
        let key = taken.key().clone();
        let caught_up = {
            // Held while the key is put aside: were it handed back before that, it would be put aside for good.
            let mut state = self.0.state.lock();
            self.0.look(&mut state);
            let rewinding = state.first_rewinding();
            let behind = state.written.get(&key).and_then(|written| self.0.first_behind(written));
            let store = match (rewinding, behind) {
                (Some(store), _) => {
                    state.rewinding.insert(key.clone());
                    Some(store)
                }
                (None, Some((store, version))) => {
                    state.waiting.entry(store).or_default().insert((version, key.clone()));
                    state.since.entry(store).or_insert(now);
                    Some(store)
                }
                (None, None) => None,
            };
            if let Some(guarded) = store.and_then(|store| self.0.stores.get(store)) {
                self.0.skips.with_label_values(&[guarded.resource.group, guarded.resource.plural]).inc();
            }
            taken.park();
            store.is_none()
        };
        if caught_up {
            self.0.queue.unpark(&key);
        }
        self.0.parked.notify_one();
    }

    /// Brings parked keys back as their stores catch up; until `stop`.
    pub async fn run(self, stop: CancellationToken) {
        let mut reached: Vec<_> = self.0.stores.iter().map(|store| store.reached.clone()).collect();
        let work = async {
            loop {
                self.0.news(&mut reached).await;
                let keys = {
                    let mut state = self.0.state.lock();
                    self.0.look(&mut state);
                    state.caught_up()
                };
                for key in keys {
                    self.0.queue.unpark(&key);
                }
                self.0.relist_where_stuck();
            }
        };
        let _: Option<std::convert::Infallible> = stop.run_until_cancelled(work).await;
    }
}

// === impl Shared ===

impl Shared {
    fn first_behind(&self, written: &Written) -> Option<(usize, ResourceVersion)> {
        let is_behind = |(store, version): &&(usize, ResourceVersion)| {
            let reached = self.stores.get(*store).map(|store| store.reached.borrow().version);
            // A store whose version is not known holds nobody back.
            reached.is_some_and(|reached| reached.is_known() && reached < *version)
        };
        written.versions.iter().find(is_behind).copied()
    }

    /// Takes note of how far the stores have come. A rewind voids what was written, and makes every other store list anew.
    fn look(&self, state: &mut State) {
        for (store, guarded) in self.stores.iter().enumerate() {
            let now = *guarded.reached.borrow();
            let Some(before) = state.seen.get_mut(store).map(|seen| std::mem::replace(seen, now)) else { continue };
            if before != now
                && let Some(since) = state.since.get_mut(&store)
            {
                // Late is not stuck: a store that moves is on its way to what the keys wait for.
                *since = Instant::now();
            }
            if before.rewinds != now.rewinds {
                for written in state.written.values_mut() {
                    written.versions.clear();
                }
                // One that lists because another one was set back finds itself set back, too: that is the same story.
                if state.due.get(store).is_none_or(|due| *due <= before.lists) {
                    self.relist_others(state, store);
                }
            }
        }
    }

    fn relist_others(&self, state: &mut State, rewound: usize) {
        warn!("The server's data was set back; no sync begins until every cache has listed anew");
        for (store, (guarded, due)) in self.stores.iter().zip(&mut state.due).enumerate() {
            if store != rewound {
                *due = guarded.reached.borrow().lists + 1;
                guarded.source.relist();
            }
        }
    }

    /// Waits until a store has moved, or a wait has become too long; while no key waits, for the first one.
    async fn news(&self, reached: &mut [watch::Receiver<Reached>]) {
        let first_late = loop {
            let (since, rewinding) = {
                let state = self.state.lock();
                (state.since.values().min().copied(), !state.rewinding.is_empty())
            };
            match since {
                Some(since) => break since + RELIST_AFTER,
                None if rewinding => break Instant::now() + RELIST_AFTER,
                None => self.parked.notified().await,
            }
        };
        let changes = reached.iter_mut().map(|store| Box::pin(store.changed()));
        let any = futures::future::select_all(changes.collect::<Vec<_>>());
        tokio::select! {
            _ = any => {}
            () = self.parked.notified() => {}
            () = tokio::time::sleep_until(first_late) => {}
        }
        for store in reached {
            store.mark_unchanged();
        }
    }

    fn relist_where_stuck(&self) {
        let now = Instant::now();
        let mut state = self.state.lock();
        for (store, since) in &mut state.since {
            if *since + RELIST_AFTER > now {
                continue;
            }
            *since = now;
            if let Some(guarded) = self.stores.get(*store) {
                warn!(resource = guarded.resource.plural, "A cache does not show our own writes; listing anew");
                guarded.source.relist();
            }
        }
    }
}

// === impl State ===

impl State {
    /// The keys that need not wait any longer.
    fn caught_up(&mut self) -> Vec<ObjectKey> {
        if self.first_rewinding().is_some() {
            return Vec::new();
        }
        let mut keys: Vec<ObjectKey> = std::mem::take(&mut self.rewinding).into_iter().collect();
        let Self { waiting, since, written, seen, .. } = self;
        waiting.retain(|store, waits| {
            let reached = seen.get(*store).map_or(ResourceVersion::default(), |seen| seen.version);
            // Without a record there is nothing to wait for: it was voided by a rewind.
            let is_over = |(version, key): &(ResourceVersion, ObjectKey)| {
                *version <= reached || written.get(key).is_none_or(|written| !written.versions.iter().any(|(of, _)| of == store))
            };
            let over: Vec<_> = waits.iter().take_while(|wait| is_over(wait)).cloned().collect();
            for wait in over {
                waits.remove(&wait);
                keys.push(wait.1);
            }
            if waits.is_empty() {
                since.remove(store);
            }
            !waits.is_empty()
        });
        keys
    }

    /// The first store that has not listed since another one was set back.
    fn first_rewinding(&self) -> Option<usize> {
        self.seen.iter().zip(&self.due).position(|(seen, due)| seen.rewinding || seen.lists < *due)
    }

    /// Drops an owner's record if it is the one that is meant; whether it was.
    fn forget(&mut self, key: &ObjectKey, is_meant: impl Fn(&Written) -> bool) -> bool {
        if !self.written.get(key).is_some_and(is_meant) {
            return false;
        }
        self.written.remove(key);
        self.waiting.retain(|store, waiting| {
            waiting.retain(|(_, waits)| waits != key);
            if waiting.is_empty() {
                self.since.remove(store);
            }
            !waiting.is_empty()
        });
        self.rewinding.remove(key);
        true
    }
}
