//! What the watches of an API server have shown, in the order in which it happened, and what must never be in it.
//!
//! One server's versions are one order over all kinds. A controller may decide on an old state of what others write, so limits are the
//! highest of the last [`STALE`]; of what it writes itself it must know everything.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::differential::snapshot::{Kind, controller, is_deleted, is_running, name, number, text, uid};

/// A decision may rest on limits as old as this: a watch that has silently died is found by its pings after 45 s at most, and there may be
/// a second one.
pub const STALE: Duration = Duration::from_secs(100);

/// One change of an object.
#[derive(Debug, Clone)]
pub struct Change {
    /// When it was seen, since the beginning of the record.
    pub at: Duration,
    /// The version that the change made.
    pub version: u64,
    /// The object is gone.
    pub gone: bool,
    /// Namespace and name.
    pub key: Arc<str>,
    /// The object's.
    pub uid: Arc<str>,
    /// What it became.
    pub facts: Facts,
}

/// Of an object what the rules read.
#[derive(Debug, Clone)]
pub enum Facts {
    /// A pod.
    Pod(Pod),
    /// A ReplicaSet.
    ReplicaSet {
        /// Its controller's UID.
        owner: Option<Arc<str>>,
        /// What it is to have.
        replicas: i64,
        /// It is being deleted.
        deleted: bool,
        /// The generation that its status is of.
        observed: i64,
    },
    /// A Deployment.
    Deployment {
        /// Pods that it may have: replicas and surge.
        ceiling: i64,
        /// The generation that its status is of.
        observed: i64,
    },
    /// A StatefulSet.
    StatefulSet {
        /// The generation that its status is of.
        observed: i64,
    },
}

/// Of a pod what the rules read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// Its controller's UID.
    pub owner: Option<Arc<str>>,
    /// It has a node.
    pub placed: bool,
    /// It has not ended by itself.
    pub runs: bool,
    /// It is being deleted.
    pub deleted: bool,
}

impl Pod {
    fn is_active(&self) -> bool {
        self.runs && !self.deleted
    }
}

impl Facts {
    /// What an object of a kind says; nothing of kinds that no rule reads.
    pub fn of(kind: Kind, object: &Value) -> Option<Self> {
        let owner = || controller(object).map(|owner| text(owner, "/uid").into());
        let observed = number(object, "/status/observedGeneration");
        Some(match kind {
            Kind::Pod => Self::Pod(Pod {
                owner: owner(),
                placed: !text(object, "/spec/nodeName").is_empty(),
                runs: is_running(object),
                deleted: is_deleted(object),
            }),
            Kind::ReplicaSet => {
                Self::ReplicaSet { owner: owner(), replicas: number(object, "/spec/replicas"), deleted: is_deleted(object), observed }
            }
            Kind::Deployment => Self::Deployment { ceiling: ceiling(object), observed },
            Kind::StatefulSet => Self::StatefulSet { observed },
            _ => return None,
        })
    }

    fn observed(&self) -> Option<i64> {
        match self {
            Self::Pod(_) => None,
            Self::ReplicaSet { observed, .. } | Self::Deployment { observed, .. } | Self::StatefulSet { observed } => Some(*observed),
        }
    }
}

/// A change as a watch has shown it; nothing of kinds that no rule reads.
pub fn change(at: Duration, kind: Kind, object: &Value, gone: bool) -> Option<Change> {
    let facts = Facts::of(kind, object)?;
    let key = format!("{}/{}", text(object, "/metadata/namespace"), name(object)).into();
    let version = text(object, "/metadata/resourceVersion").parse().ok()?;
    Some(Change { at, version, gone, key, uid: uid(object).into(), facts })
}

/// Replicas and surge, as upstream's `deploymentutil.MaxSurge` resolves it. Where pods are recreated there is no limit: before it rolls back,
/// upstream's `rollback` makes the ReplicaSet of the present template, with all its replicas, beside those that there are.
fn ceiling(deployment: &Value) -> i64 {
    let replicas = number(deployment, "/spec/replicas");
    let surge = match deployment.pointer("/spec/strategy/rollingUpdate/maxSurge") {
        Some(Value::Number(surge)) => surge.as_i64().unwrap_or_default(),
        Some(Value::String(share)) => {
            let share: i64 = share.trim_end_matches('%').parse().unwrap_or_default();
            (replicas * share + 99) / 100
        }
        _ => return i64::MAX,
    };
    replicas + surge
}

/// What must never be, each told once, in its order.
pub fn violations(changes: &mut [Change]) -> Vec<String> {
    changes.sort_by_key(|change| change.version);
    let mut world = World::default();
    for change in changes.iter() {
        world.take(change);
    }
    world.violations
}

/// A limit over time.
#[derive(Default)]
struct Limits(Vec<(Duration, i64)>);

#[derive(Default)]
struct World {
    pods: HashMap<Arc<str>, Pod>,
    /// Who has a name now.
    named: BTreeMap<Arc<str>, Arc<str>>,
    /// Active pods by their owner.
    active: HashMap<Arc<str>, HashSet<Arc<str>>>,
    sets: HashMap<Arc<str>, (Option<Arc<str>>, i64)>,
    sizes: HashMap<Arc<str>, Limits>,
    ceilings: HashMap<Arc<str>, Limits>,
    observed: HashMap<Arc<str>, i64>,
    violations: Vec<String>,
}

impl Limits {
    fn set(&mut self, at: Duration, limit: i64) {
        if self.0.last().is_none_or(|(_, last)| *last != limit) {
            self.0.push((at, limit));
        }
    }

    /// The highest that was in force lately.
    fn lately(&self, now: Duration) -> i64 {
        let since = now.saturating_sub(STALE);
        let begun = self.0.iter().rposition(|(at, _)| *at <= since).unwrap_or_default();
        self.0.iter().skip(begun).map(|(_, limit)| *limit).max().unwrap_or(i64::MAX)
    }
}

impl World {
    fn take(&mut self, change: &Change) {
        if let Some(observed) = change.facts.observed().filter(|_| !change.gone) {
            let before = self.observed.insert(Arc::clone(&change.uid), observed).unwrap_or_default();
            if observed < before {
                self.tell(change, &format!("its observedGeneration goes back from {before} to {observed}"));
            }
        }
        match &change.facts {
            Facts::Pod(pod) if change.gone => self.remove_pod(change, pod),
            Facts::Pod(pod) => self.put_pod(change, pod),
            Facts::ReplicaSet { .. } if change.gone => drop(self.sets.remove(&change.uid)),
            Facts::ReplicaSet { owner, replicas, deleted, .. } => {
                let owner = owner.clone().filter(|_| !deleted);
                self.put_set(change, owner, *replicas);
            }
            Facts::Deployment { ceiling, .. } => {
                self.ceilings.entry(Arc::clone(&change.uid)).or_default().set(change.at, *ceiling);
            }
            Facts::StatefulSet { .. } => {}
        }
    }

    fn put_pod(&mut self, change: &Change, pod: &Pod) {
        let mut pod = pod.clone();
        // Scripts say of pods that they have failed, and a node that has not heard of it says that they run. That makes no pod.
        pod.runs &= self.pods.get(&change.uid).is_none_or(|before| before.runs);
        let before = self.pods.insert(Arc::clone(&change.uid), pod.clone());
        let is_new = before.is_none();
        self.forget_active(change, before.as_ref());
        let namesake = self.named.insert(Arc::clone(&change.key), Arc::clone(&change.uid));
        if let Some(other) = namesake.filter(|other| *other != change.uid) {
            self.tell(change, &format!("there is another pod of that name, {other}"));
        }
        let Some(owner) = pod.owner.as_ref().filter(|_| pod.is_active()) else { return };
        let active = self.active.entry(Arc::clone(owner)).or_default();
        active.insert(Arc::clone(&change.uid));
        let count = i64::try_from(active.len()).unwrap_or(i64::MAX);
        if let Some(limit) = self.sizes.get(owner).map(|sizes| sizes.lately(change.at)).filter(|limit| is_new && count > *limit) {
            self.tell(change, &format!("it is the active pod number {count} of ReplicaSet {owner}, which has wanted at most {limit}"));
        }
    }

    fn remove_pod(&mut self, change: &Change, last: &Pod) {
        let before = self.pods.remove(&change.uid);
        self.forget_active(change, before.as_ref());
        if self.named.get(&change.key) == Some(&change.uid) {
            self.named.remove(&change.key);
        }
        // How it was when it went says nothing: a deletion at once sets the time of deletion, too.
        let before = before.unwrap_or_else(|| last.clone());
        if before.placed && before.is_active() {
            self.tell(change, "it was removed while it ran on its node, without having been asked to end");
        }
    }

    fn forget_active(&mut self, change: &Change, before: Option<&Pod>) {
        if let Some(active) = before.and_then(|before| before.owner.as_ref()).and_then(|owner| self.active.get_mut(owner)) {
            active.remove(&change.uid);
        }
    }

    fn put_set(&mut self, change: &Change, owner: Option<Arc<str>>, replicas: i64) {
        self.sizes.entry(Arc::clone(&change.uid)).or_default().set(change.at, replicas);
        let before = self.sets.insert(Arc::clone(&change.uid), (owner.clone(), replicas));
        // One that has just been adopted brings its own size.
        let grown = match before {
            None => replicas > 0,
            Some((before, size)) => before == owner && replicas > size,
        };
        let Some(owner) = owner.filter(|_| grown) else { return };
        let Some(limit) = self.ceilings.get(&owner).map(|ceilings| ceilings.lately(change.at)) else { return };
        let sum: i64 = self.sets.values().filter(|(of, _)| of.as_ref() == Some(&owner)).map(|(_, size)| size).sum();
        if sum > limit {
            self.tell(change, &format!("it has grown, and the ReplicaSets of Deployment {owner} want {sum} pods, of at most {limit}"));
        }
    }

    fn tell(&mut self, change: &Change, what: &str) {
        let kind = match &change.facts {
            Facts::Pod(_) => "pod",
            Facts::ReplicaSet { .. } => "ReplicaSet",
            Facts::Deployment { .. } => "Deployment",
            Facts::StatefulSet { .. } => "StatefulSet",
        };
        self.violations.push(format!("{kind} {} ({}) at version {}, {:.1?}: {what}", change.key, change.uid, change.version, change.at));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Record(Vec<Change>);

    impl Record {
        fn new() -> Self {
            Self(Vec::new())
        }

        fn see(&mut self, seconds: u64, kind: Kind, object: &Value, gone: bool) {
            let mut object = object.clone();
            object["metadata"]["resourceVersion"] = json!((self.0.len() + 1).to_string());
            self.0.extend(change(Duration::from_secs(seconds), kind, &object, gone));
        }

        fn violations(mut self) -> Vec<String> {
            // Kinds come by watches of their own, in any order.
            self.0.reverse();
            violations(&mut self.0)
        }
    }

    fn set(replicas: u32) -> Value {
        let owners = json!([{"uid": "deployment", "controller": true}]);
        json!({"metadata": {"namespace": "n", "name": "web-1", "uid": "set", "ownerReferences": owners}, "spec": {"replicas": replicas}})
    }

    fn pod(uid: &str, owner: &str) -> Value {
        let owners = json!([{"uid": owner, "controller": true}]);
        json!({"metadata": {"namespace": "n", "name": uid, "uid": uid, "ownerReferences": owners}, "spec": {"nodeName": "a"}})
    }

    fn named(uid: &str, name: &str) -> Value {
        let mut pod = pod(uid, "other");
        pod["metadata"]["name"] = json!(name);
        pod
    }

    #[test]
    fn a_pod_too_many_is_found_when_it_is_made() {
        let with = |seconds| {
            let mut record = Record::new();
            record.see(0, Kind::ReplicaSet, &set(2), false);
            record.see(1, Kind::ReplicaSet, &set(1), false);
            record.see(2, Kind::Pod, &pod("a", "set"), false);
            record.see(seconds, Kind::Pod, &pod("b", "set"), false);
            record.violations()
        };
        assert_eq!(with(60), Vec::<String>::new(), "a watch may have been silent for so long");
        assert_eq!(with(200).len(), 1);
    }

    #[test]
    fn pods_that_end_make_room_and_adoption_takes_it() {
        let mut record = Record::new();
        record.see(0, Kind::ReplicaSet, &set(1), false);
        record.see(1, Kind::Pod, &pod("a", "set"), false);
        let mut failed = pod("a", "set");
        failed["status"] = json!({"phase": "Failed"});
        record.see(2, Kind::Pod, &failed, false);
        record.see(3, Kind::Pod, &pod("a", "set"), false);
        record.see(3, Kind::Pod, &pod("b", "set"), false);
        record.see(4, Kind::Pod, &pod("c", "other"), false);
        record.see(5, Kind::Pod, &pod("c", "set"), false);
        record.see(6, Kind::Pod, &pod("b", "set"), false);
        assert_eq!(record.violations(), Vec::<String>::new());
    }

    #[test]
    fn an_identity_has_one_pod_and_it_is_asked_to_end() {
        let mut record = Record::new();
        record.see(0, Kind::Pod, &named("a", "web-0"), false);
        record.see(1, Kind::Pod, &named("b", "web-0"), false);
        assert_eq!(record.violations().len(), 1);
        let mut record = Record::new();
        record.see(0, Kind::Pod, &named("a", "web-0"), false);
        let mut deleted = named("a", "web-0");
        deleted["metadata"]["deletionTimestamp"] = json!("now");
        record.see(1, Kind::Pod, &deleted, true);
        record.see(2, Kind::Pod, &named("b", "web-0"), false);
        let violations = record.violations();
        assert!(violations.len() == 1 && violations[0].contains("without having been asked"), "{violations:?}");
        let mut record = Record::new();
        record.see(0, Kind::Pod, &named("a", "web-0"), false);
        record.see(1, Kind::Pod, &deleted, false);
        record.see(2, Kind::Pod, &deleted, true);
        record.see(3, Kind::Pod, &named("b", "web-0"), false);
        assert_eq!(record.violations(), Vec::<String>::new());
    }

    #[test]
    fn a_deployment_grows_no_further_than_its_surge() {
        let deployment = |surge: Value| {
            let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge}});
            json!({"metadata": {"namespace": "n", "name": "web", "uid": "deployment"}, "spec": {"replicas": 3, "strategy": strategy}})
        };
        let grown_to = |size: u32, surge: Value| {
            let mut record = Record::new();
            record.see(0, Kind::Deployment, &deployment(surge), false);
            let mut old = set(3);
            (old["metadata"]["uid"], old["metadata"]["name"]) = (json!("old"), json!("web-0"));
            record.see(1, Kind::ReplicaSet, &old, false);
            record.see(2, Kind::ReplicaSet, &set(0), false);
            record.see(3, Kind::ReplicaSet, &set(size), false);
            record.violations().len()
        };
        assert_eq!([grown_to(1, json!(1)), grown_to(2, json!(1))], [0, 1]);
        assert_eq!([grown_to(1, json!("25%")), grown_to(2, json!("25%"))], [0, 1]);
        assert_eq!(grown_to(3, Value::Null), 0, "pods are recreated");
    }

    #[test]
    fn an_observed_generation_never_goes_back() {
        let set =
            |observed: i64| json!({"metadata": {"namespace": "n", "name": "web", "uid": "u"}, "status": {"observedGeneration": observed}});
        let mut record = Record::new();
        for observed in [1, 2, 2, 1] {
            record.see(0, Kind::StatefulSet, &set(observed), false);
        }
        assert_eq!(record.violations().len(), 1);
    }
}
