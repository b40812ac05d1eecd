//! What the process holds for each cached object, everything included: the object, all indexes, what it shares with others and what
//! is remembered about its owner. The objects come all the way from the wire; bytes are counted at the allocator, so the result is the same
//! on every machine.
//!
//! 115,000 is as interesting as 100,000: hash tables have doubled at 114,688.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test outside of test functions")]

mod fleet;

use std::alloc::System;
use std::future;
use std::sync::Arc;

use bytes::Bytes;
use fleet::{HISTORY, Place, STATEFUL_SET, State};
use machinery::client::CallError;
use machinery::clock::Clock;
use machinery::expectations::Expectations;
use machinery::guard::{Guard, Guarded};
use machinery::queue::WorkQueue;
use machinery::source::{Chunks, Extent, PageRequest, Sink, Source, SourceConfig, SourceEvent, SourceMetrics, Transport, WatchRequest};
use machinery::store::{Change, Handler, Store, StoreWriter, store};
use model::plan::{ApiError, PODS};
use model::{
    ControllerRevisionDecoder, Decode, Object, ObjectKey, PersistentVolumeClaimDecoder, Pod, PodDecoder, ReplicaSetDecoder, ResourceVersion,
};
use prometheus::Registry;
use stats_alloc::{INSTRUMENTED_SYSTEM, Stats, StatsAlloc};
use tokio::time::Instant;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// What glibc's malloc adds to a block, on average: 8 bytes of header and half of the 16 that sizes are rounded up to.
const BLOCK: usize = 16;

/// Bytes for each object, malloc's own share included.
const POD_BUDGET: usize = 450;
const CLAIM_BUDGET: usize = 212;
const REVISION_BUDGET: usize = 308;
/// With what its Deployment has noted on it, and the annotations that a rollback would take back.
const REPLICA_SET_AT_ZERO_BUDGET: usize = 620;
/// One of ten at work, the others at zero: 2,000 Deployments with their history.
const REPLICA_SET_BUDGET: usize = 1024;
const REPLICA_SETS: usize = 20_000;

/// Updates, deletes and creates after the first list.
const EVENTS: usize = 1_000_000;

/// What is allocated beyond a point in time.
#[derive(Clone, Copy)]
struct Baseline(Stats);

/// All that is held for pods.
struct Pods {
    places: Vec<Place>,
    /// The pod in each place; `None` if there is none.
    states: Vec<Option<State>>,
    version: u64,
    random: fastrand::Rng,
    cache: Option<PodCache>,
}

/// What the product holds.
struct PodCache {
    decoder: PodDecoder,
    store: Store<Pod>,
    writer: StoreWriter<Pod>,
    expectations: Arc<Expectations>,
    guard: Guard,
    queue: WorkQueue<ObjectKey>,
}

/// Lowers expectations, as the ReplicaSet controller's handler does.
struct Observer(Arc<Expectations>);

/// A way to no server.
struct Nowhere;

// === impl Baseline ===

impl Baseline {
    fn now() -> Self {
        Self(ALLOCATOR.stats())
    }

    /// Bytes that are held now and were not then.
    fn held(self) -> usize {
        let count = |stats: Stats| {
            let blocks = stats.allocations - stats.deallocations;
            stats.bytes_allocated - stats.bytes_deallocated + blocks * BLOCK
        };
        count(ALLOCATOR.stats()).saturating_sub(count(self.0))
    }
}

// === impl Observer ===

impl Handler<Pod> for Observer {
    fn on_change(&self, change: Change<'_, Pod>) {
        let pod = change.object();
        let Some(owner) = pod.controller.owner() else { return };
        let key = ObjectKey { namespace: Arc::clone(&pod.namespace), name: Arc::clone(&owner.name) };
        match change {
            Change::Added { .. } => self.0.creation_observed(&key, owner.uid, &pod.name),
            Change::Deleted { .. } => self.0.deletion_observed(&key, owner.uid, pod.uid),
            Change::Updated { .. } | Change::Resync { .. } => {}
        }
    }
}

// === impl Nowhere ===

impl Transport for Nowhere {
    type Chunks = Self;

    async fn list(&mut self, _: &PageRequest) -> Result<Bytes, CallError> {
        future::pending().await
    }

    async fn watch(&mut self, _: &WatchRequest) -> Result<Self, CallError> {
        future::pending().await
    }
}

impl Chunks for Nowhere {
    async fn next(&mut self) -> Option<Result<Bytes, ApiError>> {
        future::pending().await
    }
}

// === impl PodCache ===

impl PodCache {
    fn new() -> Self {
        let (store, writer) = store();
        let expectations = Arc::new(Expectations::default());
        store.add_handler(Arc::new(Observer(Arc::clone(&expectations))));
        let registry = Registry::new();
        let config = SourceConfig {
            resource: &PODS,
            namespace: None,
            field_selector: None,
            label_selector: None,
            extent: Extent::Full,
            page_size: 500,
            seed: 1,
        };
        let source = Source::new(config, Nowhere, PodDecoder::new(), &SourceMetrics::register(&registry).unwrap());
        let guarded = Guarded { resource: &PODS, reached: store.subscribe(), source: source.handle() };
        let queue = WorkQueue::new("test", Clock::system(), &registry).unwrap();
        let guard = Guard::new("test", queue.clone(), vec![guarded], &registry).unwrap();
        Self { decoder: PodDecoder::new(), store, writer, expectations, guard, queue }
    }

    fn decode(&mut self, place: Place, state: State) -> Pod {
        self.decoder.decode(&fleet::pod(place, state)).unwrap()
    }
}

// === impl Pods ===

impl Pods {
    fn new(count: usize) -> Self {
        let places = fleet::places(count);
        Self { states: vec![None; places.len()], places, version: 10_000_000, random: fastrand::Rng::with_seed(4), cache: None }
    }

    fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    /// Every owner has just been scaled up, and none of its pods has been seen: then a list has them all.
    fn list(&mut self) {
        let mut cache = PodCache::new();
        cache.writer.apply(SourceEvent::Restarted);
        cache.writer.apply(SourceEvent::Synced(ResourceVersion(self.version)));
        let mut last = None;
        for place in &self.places {
            let Some((key, uid)) = fleet::owner_of(*place) else { continue };
            if last.replace(uid) != Some(uid) {
                cache.expectations.expect_creations(&key, uid, 50, Instant::now());
                cache.guard.wrote(&key, uid, &PODS, ResourceVersion(u64::MAX));
                cache.queue.add(key);
            }
        }
        cache.writer.apply(SourceEvent::Restarted);
        for at in 0..self.places.len() {
            let state = State { generation: 0, version: self.next_version(), restarts: 0, ready: true };
            self.states[at] = Some(state);
            let pod = cache.decode(self.places[at], state);
            cache.writer.apply(SourceEvent::Listed(pod));
        }
        cache.writer.apply(SourceEvent::Synced(ResourceVersion(self.version)));
        assert_eq!(cache.store.len(), self.places.len());
        self.cache = Some(cache);
    }

    /// Random events, and at last a pod in every place again.
    fn churn(&mut self, events: usize) -> [usize; 3] {
        let mut cache = self.cache.take().unwrap();
        let (mut generations, mut empty, mut counts) = (vec![0; self.places.len()], 0, [0; 3]);
        for _ in 0..events {
            let at = self.random.usize(..self.places.len());
            let (version, restarts, ready) = (self.next_version(), self.random.u64(..5), self.random.bool());
            let place = self.places[at];
            let after = match self.states[at] {
                None => Some(State { generation: generations[at], version, restarts: 0, ready: false }),
                Some(_) if empty < self.places.len() / 5 && self.random.bool() => None,
                Some(state) => Some(State { version, restarts, ready, ..state }),
            };
            let before = std::mem::replace(&mut self.states[at], after);
            let (kind, event) = match (before, after) {
                (Some(_), Some(state)) => (0, SourceEvent::Applied(cache.decode(place, state))),
                (Some(state), None) => (1, SourceEvent::Deleted(cache.decode(place, State { version, ..state }))),
                (None, after) => (2, SourceEvent::Applied(cache.decode(place, after.unwrap()))),
            };
            match kind {
                1 => (generations[at], empty) = (generations[at] + 1, empty + 1),
                2 => empty -= 1,
                _ => {}
            }
            counts[kind] += 1;
            cache.writer.apply(event);
        }
        for (at, generation) in generations.into_iter().enumerate() {
            if self.states[at].is_none() {
                let state = State { generation, version: self.next_version(), restarts: 0, ready: true };
                self.states[at] = Some(state);
                let pod = cache.decode(self.places[at], state);
                cache.writer.apply(SourceEvent::Applied(pod));
            }
        }
        assert_eq!(cache.store.len(), self.places.len());
        self.cache = Some(cache);
        counts
    }
}

fn report(what: &str, objects: usize, each: usize, budget: usize) {
    println!("{what:<32} {objects:>8} {each:>8} {budget:>8}");
    assert!(each <= budget, "{what}: {each} bytes each, at most {budget} are allowed");
}

/// What each of so many objects of another kind costs.
fn cost<D: Decode>(what: &str, mut decoder: D, objects: usize, budget: usize, message: impl Fn(usize) -> Vec<u8>) {
    let baseline = Baseline::now();
    let (reader, mut writer): (Store<D::Object>, _) = store();
    writer.apply(SourceEvent::Restarted);
    for n in 0..objects {
        let object = decoder.decode(&message(n)).unwrap();
        assert!(object.resource_version().is_known());
        writer.apply(SourceEvent::Listed(object));
    }
    writer.apply(SourceEvent::Synced(ResourceVersion(1)));
    assert_eq!(reader.len(), objects);
    report(what, objects, baseline.held() / objects, budget);
}

/// One test, for the allocator counts what all threads do.
#[test]
fn every_kind_costs_what_its_budget_allows() {
    println!("{:<32} {:>8} {:>8} {:>8}", "kind", "objects", "bytes", "budget");
    for pods in [100_000, 115_000] {
        let stateful = pods / 5;
        cost("PersistentVolumeClaim", PersistentVolumeClaimDecoder::new(), stateful, CLAIM_BUDGET, fleet::claim);
        let revisions = stateful / STATEFUL_SET * HISTORY;
        cost("ControllerRevision", ControllerRevisionDecoder::new(), revisions, REVISION_BUDGET, fleet::revision);
        let at_zero = |n: usize| fleet::replica_set_at_zero(n).into_bytes();
        cost("ReplicaSet at zero", ReplicaSetDecoder::new(), pods / 10, REPLICA_SET_AT_ZERO_BUDGET, at_zero);

        cost("ReplicaSet", ReplicaSetDecoder::new(), REPLICA_SETS, REPLICA_SET_BUDGET, |n| fleet::replica_set(n).into_bytes());

        let mut fleet = Pods::new(pods);
        let baseline = Baseline::now();
        fleet.list();
        let fresh = baseline.held();
        report("Pod", pods, fresh / pods, POD_BUDGET);
        let events = if pods == 100_000 { EVENTS } else { EVENTS / 4 };
        let [updates, deletes, creates] = fleet.churn(events);
        let churned = baseline.held();
        report(&format!("Pod after {events} events"), pods, churned / pods, POD_BUDGET);
        println!(
            "  {updates} updates, {deletes} deletes, {creates} creates: {:+.1} %; {:?}",
            100.0 * (churned as f64 / fresh as f64 - 1.0),
            fleet.cache.as_ref().unwrap().decoder.interned(),
        );
        assert!(churned <= fresh + fresh / 20, "{churned} bytes are held, where {fresh} were before");
        fleet.cache = None;
        assert!(baseline.held() < 65_536, "{} bytes are left", baseline.held());
    }
}
