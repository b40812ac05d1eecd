//! No sync from a cache that has not seen the last sync's writes (upstream `pkg/controller/util/consistency`).
//!
//! Upstream fails such a sync and retries it by a timer; here the key is parked, its worker goes on with others, and the watch event
//! that the key waits for brings it back. A store that stays behind is made to list anew.

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
    /// The version it has to reach.
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
        let state = Mutex::new(State { seen, ..State::default() });
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
            let behind = state.written.get(&key).and_then(|written| self.0.first_behind(written));
            if let Some((store, version)) = behind {
                state.waiting.entry(store).or_default().insert((version, key.clone()));
                state.since.entry(store).or_insert(now);
                if let Some(guarded) = self.0.stores.get(store) {
                    self.0.skips.with_label_values(&[guarded.resource.group, guarded.resource.plural]).inc();
                }
            }
            taken.park();
            behind.is_none()
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
                for (store, reached) in reached.iter_mut().enumerate() {
                    let now = *reached.borrow_and_update();
                    for key in self.0.caught_up(store, now) {
                        self.0.queue.unpark(&key);
                    }
                    self.0.relist_if_stuck(store);
                }
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

    /// Waits until a store has moved, or a wait has become too long; while no key waits, for the first one.
    async fn news(&self, reached: &mut [watch::Receiver<Reached>]) {
        let first_late = loop {
            let since = self.state.lock().since.values().min().copied();
            match since {
                Some(since) => break since + RELIST_AFTER,
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
    }

    fn caught_up(&self, store: usize, reached: Reached) -> Vec<ObjectKey> {
        let mut state = self.state.lock();
        let seen = state.seen.get_mut(store).map_or(reached, |seen| std::mem::replace(seen, reached));
        let rewound = seen.rewinds != reached.rewinds;
        if seen != reached
            && let Some(since) = state.since.get_mut(&store)
        {
            // Late is not stuck: a store that moves is on its way to what the keys wait for.
            *since = Instant::now();
        }
        if rewound {
            // The server's data was set back: what was written since does not exist any more, and is not waited for.
            for written in state.written.values_mut() {
                written.versions.retain(|(of, _)| *of != store);
            }
        }
        let mut keys = Vec::new();
        let Some(waiting) = state.waiting.get_mut(&store) else { return keys };
        while let Some(first) = waiting.first()
            && (rewound || first.0 <= reached.version)
        {
            keys.extend(waiting.pop_first().map(|(_, key)| key));
        }
        if waiting.is_empty() {
            state.waiting.remove(&store);
            state.since.remove(&store);
        }
        keys
    }

    fn relist_if_stuck(&self, store: usize) {
        let now = Instant::now();
        let mut state = self.state.lock();
        let Some(since) = state.since.get_mut(&store).filter(|since| **since + RELIST_AFTER <= now) else { return };
        *since = now;
        if let Some(guarded) = self.stores.get(store) {
            warn!(resource = guarded.resource.plural, "A cache does not show our own writes; listing anew");
            guarded.source.relist();
        }
    }
}

// === impl State ===

impl State {
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
        true
    }
}

#[cfg(test)]
mod tests {
    use model::plan::{PODS, REPLICASETS};

    use super::*;
    use crate::clock::Clock;

    static OTHERS: Resource = Resource { group: "", version: "v1", plural: "others", kind: "Other" };

    struct Fixture {
        guard: Guard,
        queue: WorkQueue<ObjectKey>,
        pods: watch::Sender<Reached>,
        relists: Arc<Notify>,
        sets: watch::Sender<Reached>,
    }

    fn at(version: u64, rewinds: u64) -> Reached {
        Reached { version: ResourceVersion(version), synced: true, rewinds }
    }

    fn fixture() -> Fixture {
        let registry = Registry::new();
        let (pods, pods_reached) = watch::channel(at(10, 0));
        let (sets, sets_reached) = watch::channel(at(10, 0));
        let relists = Arc::new(Notify::new());
        let stores = [(&PODS, pods_reached), (&REPLICASETS, sets_reached)].map(|(resource, reached)| Guarded {
            resource,
            reached,
            source: SourceHandle::for_test(Arc::clone(&relists)),
        });
        let queue = WorkQueue::new("test", Clock::system(), &registry).unwrap();
        let guard = Guard::new("test", queue.clone(), stores.into(), &registry).unwrap();
        tokio::spawn(guard.clone().run(CancellationToken::new()));
        Fixture { guard, queue, pods, relists, sets }
    }

    fn key() -> ObjectKey {
        ObjectKey::new("ns", "a")
    }

    async fn next(queue: &WorkQueue<ObjectKey>) -> Option<Taken<ObjectKey>> {
        tokio::time::timeout(Duration::from_secs(1), queue.get()).await.ok().flatten()
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_waits_for_its_own_writes_and_the_event_brings_it_back() {
        let fixture = fixture();
        let Fixture { guard, queue, pods, .. } = &fixture;
        guard.wrote(&key(), Uid(1), &PODS, ResourceVersion(15));
        guard.wrote(&key(), Uid(1), &PODS, ResourceVersion(12));
        queue.add(key());
        let taken = next(queue).await.unwrap();
        assert_eq!(guard.behind(&key()), Some(Behind { resource: &PODS, version: ResourceVersion(15) }));
        guard.park(taken, Instant::now());
        queue.add(key());
        pods.send_replace(at(14, 0));
        assert!(next(queue).await.is_none(), "neither an older version nor another event brings it back");
        pods.send_replace(at(15, 0));
        assert!(next(queue).await.is_some());
        assert_eq!(guard.behind(&key()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_that_comes_while_the_key_is_parked_is_not_missed() {
        let fixture = fixture();
        let Fixture { guard, queue, pods, .. } = &fixture;
        guard.wrote(&key(), Uid(1), &PODS, ResourceVersion(15));
        queue.add(key());
        let taken = next(queue).await.unwrap();
        assert!(guard.behind(&key()).is_some());
        pods.send_replace(at(20, 0));
        guard.park(taken, Instant::now());
        assert!(next(queue).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_stays_behind_lists_anew_once_in_thirty_seconds() {
        let fixture = fixture();
        let Fixture { guard, queue, relists, .. } = &fixture;
        guard.wrote(&key(), Uid(1), &PODS, ResourceVersion(15));
        queue.add(key());
        let started = Instant::now();
        guard.park(next(queue).await.unwrap(), started);
        relists.notified().await;
        assert_eq!(started.elapsed().as_secs(), 30);
        relists.notified().await;
        assert_eq!(started.elapsed().as_secs(), 60);
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_is_late_but_moves_is_left_alone() {
        let fixture = fixture();
        let Fixture { guard, queue, pods, relists, .. } = &fixture;
        guard.wrote(&key(), Uid(1), &PODS, ResourceVersion(1000));
        queue.add(key());
        guard.park(next(queue).await.unwrap(), Instant::now());
        for version in 11..=20 {
            tokio::time::sleep(Duration::from_secs(20)).await;
            pods.send_replace(at(version, 0));
        }
        assert!(tokio::time::timeout(Duration::from_secs(1), relists.notified()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_behind_on_two_stores_waits_for_both() {
        let fixture = fixture();
        let Fixture { guard, queue, pods, sets, .. } = &fixture;
        guard.wrote(&key(), Uid(1), &PODS, ResourceVersion(15));
        guard.wrote(&key(), Uid(1), &REPLICASETS, ResourceVersion(20));
        queue.add(key());
        guard.park(next(queue).await.unwrap(), Instant::now());
        pods.send_replace(at(15, 0));
        let taken = next(queue).await.unwrap();
        assert_eq!(guard.behind(&key()), Some(Behind { resource: &REPLICASETS, version: ResourceVersion(20) }));
        guard.park(taken, Instant::now());
        assert!(next(queue).await.is_none());
        sets.send_replace(at(20, 0));
        assert!(next(queue).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_set_back_is_not_waited_for() {
        let fixture = fixture();
        let Fixture { guard, queue, pods, .. } = &fixture;
        guard.wrote(&key(), Uid(1), &PODS, ResourceVersion(15));
        queue.add(key());
        guard.park(next(queue).await.unwrap(), Instant::now());
        pods.send_replace(at(3, 1));
        assert!(next(queue).await.is_some());
        assert_eq!(guard.behind(&key()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn rs_01_a_new_object_does_not_wait_for_the_writes_of_the_old_one() {
        let fixture = fixture();
        let Fixture { guard, queue, .. } = &fixture;
        guard.wrote(&key(), Uid(1), &PODS, ResourceVersion(15));
        queue.add(key());
        guard.park(next(queue).await.unwrap(), Instant::now());
        guard.forget(&key(), Uid(2));
        assert!(next(queue).await.is_none(), "that was another object");
        guard.forget(&key(), Uid(1));
        assert!(next(queue).await.is_some());
        assert_eq!(guard.behind(&key()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn unknown_versions_other_resources_and_former_owners_hold_nobody_back() {
        let fixture = fixture();
        let guard = &fixture.guard;
        guard.wrote(&key(), Uid(1), &PODS, ResourceVersion(0));
        guard.wrote(&key(), Uid(1), &OTHERS, ResourceVersion(99));
        assert_eq!(guard.behind(&key()), None);
        guard.wrote(&key(), Uid(1), &PODS, ResourceVersion(99));
        guard.wrote(&key(), Uid(2), &PODS, ResourceVersion(9));
        assert_eq!(guard.behind(&key()), None);
    }
}
