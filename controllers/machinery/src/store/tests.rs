//! The store against a naive model, and its promises one by one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use model::labels::{LabelSet, Labels};
use model::{ControllerRef, Object, ObjectKey, OwnerKind, OwnerRef, ResourceVersion, Uid};
use parking_lot::Mutex;
use proptest::prelude::*;

use super::*;
use crate::source::{Sink, SourceEvent};

/// The least an object can be.
#[derive(Clone, PartialEq, Debug)]
struct Thing {
    namespace: Arc<str>,
    name: String,
    uid: Uid,
    version: ResourceVersion,
    controller: ControllerRef,
}

static NO_LABELS: std::sync::LazyLock<LabelSet> = std::sync::LazyLock::new(|| LabelSet::from_iter::<[(&str, &str); 0]>([]));

impl Object for Thing {
    fn namespace(&self) -> &Arc<str> {
        &self.namespace
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn uid(&self) -> Uid {
        self.uid
    }

    fn resource_version(&self) -> ResourceVersion {
        self.version
    }

    fn controller(&self) -> &ControllerRef {
        &self.controller
    }

    fn labels(&self) -> &dyn Labels {
        &*NO_LABELS
    }
}

fn owned_by(uid: u128) -> ControllerRef {
    ControllerRef::Owner(Arc::new(OwnerRef { kind: OwnerKind::ReplicaSet, name: "owner".into(), uid: Uid(uid) }))
}

fn thing(namespace: &str, name: &str, uid: u128, version: u64, controller: ControllerRef) -> Thing {
    Thing { namespace: namespace.into(), name: name.to_owned(), uid: Uid(uid), version: ResourceVersion(version), controller }
}

/// One line a change, as `+name/uid@version`.
#[derive(Default)]
struct Log(Mutex<Vec<String>>);

impl Log {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock())
    }
}

fn say(thing: &Thing) -> String {
    format!("{}/{}@{}", thing.name, thing.uid.0, thing.version.0)
}

impl Handler<Thing> for Log {
    fn on_change(&self, change: Change<'_, Thing>) {
        self.0.lock().push(match change {
            Change::Added { new, initial } => format!("+{}{}", say(new), if initial { " initial" } else { "" }),
            Change::Updated { old, new } => format!("{}->{}", say(old), say(new)),
            Change::Deleted { last, observed } => format!("-{}{}", say(last), if observed { "" } else { " unseen" }),
            Change::Resync { object } => format!("={}", say(object)),
        });
    }
}

fn logged() -> (Store<Thing>, StoreWriter<Thing>, Arc<Log>) {
    let (store, writer) = store();
    let log = Arc::new(Log::default());
    store.add_handler(Arc::clone(&log) as _);
    (store, writer, log)
}

fn list(writer: &mut StoreWriter<Thing>, things: impl IntoIterator<Item = Thing>, version: u64) {
    writer.apply(SourceEvent::Restarted);
    for thing in things {
        writer.apply(SourceEvent::Listed(thing));
    }
    writer.apply(SourceEvent::Synced(ResourceVersion(version)));
}

fn names(things: &[Arc<Thing>]) -> Vec<&str> {
    things.iter().map(|thing| &*thing.name).collect()
}

#[test]
fn relist_hands_out_what_the_watch_missed() {
    let (store, mut writer, log) = logged();
    let old = || thing("a", "old", 1, 1, ControllerRef::None);
    list(&mut writer, [old(), thing("a", "kept", 2, 2, owned_by(9)), thing("a", "changed", 3, 3, ControllerRef::None)], 5);
    assert_eq!(log.take(), ["+old/1@1 initial", "+kept/2@2 initial", "+changed/3@3 initial"]);
    assert!(store.has_synced());

    writer.apply(SourceEvent::Restarted);
    writer.apply(SourceEvent::Listed(thing("a", "changed", 3, 7, owned_by(9))));
    assert_eq!(store.len(), 3, "until the list is complete the old content is served");
    writer.apply(SourceEvent::Listed(thing("a", "kept", 2, 2, owned_by(9))));
    writer.apply(SourceEvent::Listed(thing("a", "new", 4, 8, ControllerRef::None)));
    assert_eq!(store.resource_version(), ResourceVersion(5), "a list has no version before it is complete");
    writer.apply(SourceEvent::Synced(ResourceVersion(9)));
    assert_eq!(log.take(), ["changed/3@3->changed/3@7", "+new/4@8", "-old/1@1 unseen"]);
    assert_eq!(names(&store.controlled_by(Uid(9))), ["kept", "changed"]);
    assert_eq!(store.reached(), Reached { version: ResourceVersion(9), synced: true, lists: 2, rewinding: false, rewinds: 0 });
}

#[test]
fn unfinished_list_deletes_nothing() {
    let (store, mut writer, log) = logged();
    list(&mut writer, [thing("a", "x", 1, 1, ControllerRef::None), thing("a", "y", 2, 2, ControllerRef::None)], 2);
    log.take();
    writer.apply(SourceEvent::Restarted);
    writer.apply(SourceEvent::Listed(thing("a", "x", 1, 1, ControllerRef::None)));
    list(&mut writer, [thing("a", "y", 2, 2, ControllerRef::None)], 3);
    assert_eq!(log.take(), ["-x/1@1 unseen"], "the mark of the first attempt is void");
    assert_eq!(store.len(), 1);
}

#[test]
fn another_uid_is_a_delete_and_an_add() {
    let (store, mut writer, log) = logged();
    list(&mut writer, [thing("a", "x", 1, 1, owned_by(9))], 1);
    log.take();
    writer.apply(SourceEvent::Applied(thing("a", "x", 2, 5, owned_by(8))));
    assert_eq!(log.take(), ["-x/1@1 unseen", "+x/2@5"]);
    writer.apply(SourceEvent::Deleted(thing("a", "x", 1, 4, owned_by(9))));
    assert_eq!(log.take(), Vec::<String>::new(), "a late delete of the former object");
    assert_eq!(store.get_by_uid(Uid(1)), None);
    assert_eq!(store.get(&ObjectKey::new("a", "x")).map(|found| found.uid), Some(Uid(2)));
    assert!(store.controlled_by(Uid(9)).is_empty());
}

#[test]
fn ctl_18_versions_never_go_back() {
    let (store, mut writer, log) = logged();
    list(&mut writer, [thing("a", "x", 1, 5, ControllerRef::None)], 5);
    log.take();
    for version in [4, 5] {
        writer.apply(SourceEvent::Applied(thing("a", "x", 1, version, owned_by(9))));
    }
    writer.apply(SourceEvent::Deleted(thing("a", "nobody", 7, 6, ControllerRef::None)));
    assert_eq!(log.take(), Vec::<String>::new());
    assert_eq!(store.resource_version(), ResourceVersion(6));
    writer.apply(SourceEvent::Applied(thing("a", "x", 1, 0, owned_by(9))));
    assert_eq!(log.take(), ["x/1@5->x/1@0"], "an unknown version cannot be compared");
    writer.apply(SourceEvent::Bookmark(ResourceVersion(3)));
    assert_eq!(store.resource_version(), ResourceVersion(6));
}

#[test]
fn complete_older_list_rewinds() {
    let (store, mut writer, log) = logged();
    list(&mut writer, [thing("a", "x", 1, 50, owned_by(9)), thing("a", "y", 2, 40, ControllerRef::None)], 60);
    log.take();
    writer.apply(SourceEvent::Restarted);
    writer.apply(SourceEvent::Listed(thing("a", "x", 1, 20, ControllerRef::None)));
    assert_eq!(log.take(), Vec::<String>::new(), "not before the list is complete");
    writer.apply(SourceEvent::Synced(ResourceVersion(30)));
    assert_eq!(log.take(), ["x/1@50->x/1@20", "-y/2@40 unseen"]);
    assert_eq!(store.reached(), Reached { version: ResourceVersion(30), synced: true, lists: 2, rewinding: false, rewinds: 1 });
}

#[tokio::test]
async fn resync_shows_every_object() {
    let (store, mut writer, log) = logged();
    list(&mut writer, (0..600).map(|at| thing("a", &format!("x{at}"), at, 1, ControllerRef::None)), 1);
    log.take();
    store.resync().await;
    let seen: BTreeSet<String> = log.take().into_iter().collect();
    assert_eq!(seen.len(), 600);
    assert!(seen.contains("=x599/599@1"));
}

/// Reads the store from within a handler, as real ones do.
struct Peek(Store<Thing>, AtomicUsize);

impl Handler<Thing> for Peek {
    fn on_change(&self, change: Change<'_, Thing>) {
        let thing = change.object();
        let there = self.0.get_by_uid(thing.uid).is_some();
        assert_eq!(there, !matches!(change, Change::Deleted { .. }), "the store shows the change before handlers hear of it");
        assert!(self.0.resource_version() < ResourceVersion(10), "handlers run before the version is announced");
        self.1.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn handlers_run_between_visibility_and_announcement() {
    let (store, mut writer) = store();
    let peek = Arc::new(Peek(store.clone(), AtomicUsize::new(0)));
    store.add_handler(Arc::clone(&peek) as _);
    let waiter = tokio::spawn({
        let store = store.clone();
        async move {
            store.synced().await;
            store.wait_for(ResourceVersion(10)).await
        }
    });
    list(&mut writer, [thing("a", "x", 1, 4, ControllerRef::None)], 5);
    tokio::task::yield_now().await;
    assert!(!waiter.is_finished());
    writer.apply(SourceEvent::Deleted(thing("a", "x", 1, 10, ControllerRef::None)));
    assert_eq!(waiter.await.unwrap().version, ResourceVersion(10));
    assert_eq!(peek.1.load(Ordering::Relaxed), 2);
    store.wait_for(ResourceVersion(0)).await;
}

#[test]
fn walk_survives_changes_under_its_feet() {
    let (store, mut writer, _) = logged();
    let all = 0..1000_u128;
    let make = |at: u128| thing("a", &format!("x{at}"), at, 1 + at as u64, ControllerRef::None);
    list(&mut writer, all.clone().map(make), 1000);
    let mut seen = BTreeMap::new();
    let mut step = 0_u128;
    store.for_each_in_namespace("a", |object| {
        *seen.entry(object.uid.0).or_insert(0) += 1;
        // Removes from both ends and the middle, and adds, while the walk is on.
        if step.is_multiple_of(8) {
            for gone in [step, 999 - step / 4, (step + 300) % 1000].into_iter().filter(|at| at % 3 == 0) {
                writer.apply(SourceEvent::Deleted(thing("a", &format!("x{gone}"), gone, 5000, ControllerRef::None)));
            }
            writer.apply(SourceEvent::Applied(thing("a", &format!("n{step}"), 5000 + step, 6000, ControllerRef::None)));
        }
        step += 1;
    });
    assert!(seen.values().all(|times| *times == 1), "nothing is seen twice");
    for stays in all.filter(|at| at % 3 != 0) {
        assert!(seen.contains_key(&stays), "x{stays} was there all the time");
    }
}

#[test]
fn claimable_is_one_moment() {
    let (store, mut writer, _) = logged();
    list(&mut writer, [thing("a", "x", 1, 1, ControllerRef::None)], 1);
    let done = &std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let store = store.clone();
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    assert_eq!(names(&store.claimable(Uid(9), "a")), ["x"], "adopted or released, it is always there");
                    assert_eq!(names(&store.in_namespace("a")), ["x"]);
                }
            });
        }
        for version in 2..20_000 {
            let controller = if version % 2 == 0 { owned_by(9) } else { ControllerRef::None };
            writer.apply(SourceEvent::Applied(thing("a", "x", 1, version, controller)));
        }
        done.store(true, Ordering::Relaxed);
    });
}

// === the model ===

#[derive(Clone, Debug)]
enum Step {
    Restart,
    Sync,
    /// The next event says this about the object of that name; the number picks the controller.
    Put {
        name: u8,
        controller: u8,
        reborn: bool,
        stale: bool,
    },
    Delete {
        name: u8,
        former: bool,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let put = (0..12_u8, 0..6_u8, prop::bool::weighted(0.15), prop::bool::weighted(0.1));
    prop_oneof![
        1 => Just(Step::Restart),
        1 => Just(Step::Sync),
        10 => put.prop_map(|(name, controller, reborn, stale)| Step::Put { name, controller, reborn, stale }),
        4 => (0..12_u8, prop::bool::weighted(0.2)).prop_map(|(name, former)| Step::Delete { name, former }),
    ]
}

/// What the store should hold, said in the plainest way.
#[derive(Default)]
struct Model {
    held: BTreeMap<(String, String), Thing>,
    listed: BTreeSet<(String, String)>,
    older: Vec<Thing>,
    listing: bool,
    clock: u64,
    next_uid: u128,
}

fn key(thing: &Thing) -> (String, String) {
    (thing.namespace.to_string(), thing.name.clone())
}

impl Model {
    fn put(&mut self, thing: Thing) {
        let key = key(&thing);
        let older = self.held.get(&key).is_some_and(|held| thing.version < held.version);
        let same = self.held.get(&key).is_some_and(|held| thing.uid == held.uid && thing.version == held.version);
        if self.listing {
            self.listed.insert(key.clone());
            if older {
                self.older.push(thing.clone());
            }
        }
        if !older && !same {
            self.held.insert(key, thing);
        }
    }

    fn event(&mut self, step: &Step) -> SourceEvent<Thing> {
        self.clock += 1;
        match *step {
            Step::Restart => {
                self.listing = true;
                self.listed.clear();
                self.older.clear();
                SourceEvent::Restarted
            }
            Step::Sync if self.listing => {
                self.listing = false;
                for thing in std::mem::take(&mut self.older) {
                    self.held.insert(key(&thing), thing);
                }
                let listed = std::mem::take(&mut self.listed);
                self.held.retain(|key, _| listed.contains(key));
                SourceEvent::Synced(ResourceVersion(self.clock))
            }
            Step::Sync => SourceEvent::Bookmark(ResourceVersion(self.clock)),
            Step::Put { name, controller, reborn, stale } => {
                let (namespace, name) = (format!("ns{}", name % 3), format!("x{name}"));
                let held = self.held.get(&(namespace.clone(), name.clone()));
                let uid = held.filter(|_| !reborn).map_or_else(
                    || {
                        self.next_uid += 1;
                        self.next_uid
                    },
                    |held| held.uid.0,
                );
                let version = if stale { self.clock.saturating_sub(5).max(1) } else { self.clock };
                let controller = match controller {
                    0 => ControllerRef::None,
                    1 => ControllerRef::Foreign,
                    2 => owned_by(Uid::NONE.0),
                    other => owned_by(other.into()),
                };
                let thing = thing(&namespace, &name, uid, version, controller);
                self.put(thing.clone());
                if self.listing { SourceEvent::Listed(thing) } else { SourceEvent::Applied(thing) }
            }
            Step::Delete { name, former } => {
                let key = (format!("ns{}", name % 3), format!("x{name}"));
                let held = self.held.get(&key).cloned();
                let uid = held.as_ref().filter(|_| !former).map_or(Uid(77_777), |held| held.uid);
                if uid != Uid(77_777) {
                    self.held.remove(&key);
                }
                SourceEvent::Deleted(Thing { uid, ..thing(&key.0, &key.1, 0, self.clock, ControllerRef::None) })
            }
        }
    }
}

/// Rebuilds the content from the stream of changes alone.
#[derive(Default)]
struct Replay(Mutex<BTreeMap<u128, Arc<Thing>>>);

impl Handler<Thing> for Replay {
    fn on_change(&self, change: Change<'_, Thing>) {
        let mut held = self.0.lock();
        match change {
            Change::Added { new, .. } => assert_eq!(held.insert(new.uid.0, Arc::clone(new)), None, "added twice"),
            Change::Updated { old, new } => {
                assert_eq!(old.uid, new.uid);
                assert_eq!(held.insert(new.uid.0, Arc::clone(new)).as_ref(), Some(old), "the old one is what was there");
            }
            Change::Deleted { last, .. } => assert!(held.remove(&last.uid.0).is_some(), "deleted but not there"),
            Change::Resync { .. } => {}
        }
    }
}

fn uids(things: &[Arc<Thing>]) -> BTreeSet<u128> {
    let all: BTreeSet<u128> = things.iter().map(|thing| thing.uid.0).collect();
    assert_eq!(all.len(), things.len(), "listed once each");
    all
}

fn check(store: &Store<Thing>, model: &Model, replay: &Replay) {
    assert_eq!(store.len(), model.held.len());
    let expected = |filter: &dyn Fn(&Thing) -> bool| -> BTreeSet<u128> {
        model.held.values().filter(|thing| filter(thing)).map(|thing| thing.uid.0).collect()
    };
    for thing in model.held.values() {
        assert_eq!(store.get_by_uid(thing.uid).as_deref(), Some(thing));
        assert_eq!(store.get_by_name(&thing.namespace, &thing.name).as_deref(), Some(thing));
    }
    for name in 0..12 {
        let key = (format!("ns{}", name % 3), format!("x{name}"));
        assert_eq!(store.get(&ObjectKey::new(&*key.0, &*key.1)).is_some(), model.held.contains_key(&key));
    }
    for namespace in ["ns0", "ns1", "ns2"] {
        assert_eq!(uids(&store.in_namespace(namespace)), expected(&|thing| &*thing.namespace == namespace));
        let orphans = expected(&|thing| &*thing.namespace == namespace && thing.controller.is_none());
        assert_eq!(uids(&store.orphans(namespace)), orphans);
        assert_eq!(&uids(&store.claimable(Uid(3), namespace)) - &uids(&store.controlled_by(Uid(3))), orphans);
    }
    for owner in 3..6 {
        assert_eq!(uids(&store.controlled_by(Uid(owner))), expected(&|thing| thing.controller.is(Uid(owner))));
    }
    assert!(store.controlled_by(Uid::NONE).is_empty());
    let replayed: Vec<Thing> = replay.0.lock().values().map(|thing| (**thing).clone()).collect();
    let mut held: Vec<Thing> = model.held.values().cloned().collect();
    held.sort_by_key(|thing| thing.uid);
    assert_eq!(replayed, held, "the changes tell the whole story");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn store_equals_the_naive_model(steps in prop::collection::vec(step(), 1..120)) {
        let (store, mut writer) = store();
        let replay = Arc::new(Replay::default());
        store.add_handler(Arc::clone(&replay) as _);
        let mut model = Model::default();
        for step in &steps {
            writer.apply(model.event(step));
            check(&store, &model, &replay);
        }
    }
}
