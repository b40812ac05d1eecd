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
    Reached { version: ResourceVersion(version), synced: true, lists: 1, rewinding: false, rewinds }
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
async fn a_server_set_back_is_waited_for_until_every_store_has_listed_anew() {
    let fixture = fixture();
    let Fixture { guard, queue, pods, sets, relists } = &fixture;
    guard.wrote(&key(), Uid(1), &PODS, ResourceVersion(15));
    queue.add(key());
    guard.park(next(queue).await.unwrap(), Instant::now());
    // The pods are of the past; the sets may still be of the future that was lost.
    pods.send_replace(Reached { lists: 2, ..at(3, 1) });
    relists.notified().await;
    assert!(next(queue).await.is_none());
    assert_eq!(guard.behind(&key()), Some(Behind { resource: &REPLICASETS, version: ResourceVersion(0) }));
    let other = ObjectKey::new("ns", "b");
    queue.add(other.clone());
    let taken = next(queue).await.unwrap();
    assert!(guard.behind(&other).is_some(), "whatever was written for it");
    guard.park(taken, Instant::now());
    // The sets are taken in: not before all of them are.
    sets.send_replace(Reached { rewinding: true, ..at(10, 1) });
    assert!(next(queue).await.is_none());
    sets.send_replace(Reached { lists: 2, ..at(4, 1) });
    for _ in 0..2 {
        next(queue).await.unwrap().done();
    }
    assert_eq!((guard.behind(&key()), guard.behind(&other)), (None, None));
    assert!(tokio::time::timeout(Duration::from_secs(60), relists.notified()).await.is_err(), "one story, one list");
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
