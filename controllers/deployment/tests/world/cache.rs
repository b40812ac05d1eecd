//! What the process knows: stores that follow the server's changes in their order, each as far as it has come.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::labels::LabelSet;
use model::pod::{OwnLabels, Phase};
use model::{ControllerRef, Deployment, OwnerKind, OwnerRef, Pod, ReplicaSet, ResourceVersion, Timestamp, Uid};
use serde_json::Value;

use super::server::{Change, KINDS, Kind, Server};
use crate::support::{decode_set, decode_web};

#[derive(Clone, Debug, Default)]
pub struct Cache {
    pub deployments: BTreeMap<String, Arc<Deployment>>,
    pub sets: BTreeMap<String, Arc<ReplicaSet>>,
    pub pods: BTreeMap<String, Arc<Pod>>,
    /// How much of the log was read, by kind.
    read: BTreeMap<Kind, usize>,
    reached: BTreeMap<Kind, u64>,
}

// === impl Cache ===

impl Cache {
    /// The version that the store of that kind has reached.
    pub fn reached(&self, kind: Kind) -> u64 {
        self.reached.get(&kind).copied().unwrap_or(0)
    }

    pub fn is_current(&self, server: &Server, kind: Kind) -> bool {
        self.reached(kind) == server.version_of(kind)
    }

    pub fn is_all_current(&self, server: &Server) -> bool {
        KINDS.iter().all(|kind| self.is_current(server, *kind))
    }

    /// Brings the next so many changes of a kind.
    pub fn deliver(&mut self, server: &Server, kind: Kind, mut count: usize) {
        let mut at = self.read.get(&kind).copied().unwrap_or(0);
        while count > 0
            && let Some(change) = server.log.get(at)
        {
            at += 1;
            if change.kind == kind {
                count -= 1;
                self.apply(change);
                self.reached.insert(kind, change.version);
            }
        }
        self.read.insert(kind, at);
    }

    pub fn deliver_all(&mut self, server: &Server) {
        for kind in KINDS {
            self.deliver(server, kind, usize::MAX);
        }
    }

    fn apply(&mut self, change: &Change) {
        let name = change.name.clone();
        match (change.kind, &change.object) {
            (Kind::Deployment, Some(object)) => drop(self.deployments.insert(name, decode_web(object))),
            (Kind::ReplicaSet, Some(object)) => drop(self.sets.insert(name, decode_set(object))),
            (Kind::Pod, Some(object)) => drop(self.pods.insert(name, Arc::new(pod(object)))),
            (Kind::Deployment, None) => drop(self.deployments.remove(&name)),
            (Kind::ReplicaSet, None) => drop(self.sets.remove(&name)),
            (Kind::Pod, None) => drop(self.pods.remove(&name)),
        }
    }

    /// Pods of all ReplicaSets under the same owner.
    pub fn related(&self, set: &ReplicaSet) -> Vec<Arc<Pod>> {
        let siblings: Vec<_> = self.sets.values().filter(|other| other.controller_uid() == set.controller_uid()).collect();
        let selected =
            |pod: &&Arc<Pod>| siblings.iter().any(|set| set.spec.selector.as_ref().is_ok_and(|selector| selector.matches(&***pod)));
        self.pods.values().filter(selected).cloned().collect()
    }
}

fn pod(json: &Value) -> Pod {
    let metadata = &json["metadata"];
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let time = |value: &Value| value.as_str().and_then(Timestamp::parse);
    let owner = metadata["ownerReferences"].as_array().and_then(|owners| owners.first());
    let labels: LabelSet =
        metadata["labels"].as_object().unwrap().iter().map(|(key, value)| (key.as_str(), value.as_str().unwrap())).collect();
    let status = &json["status"];
    let ready = status["conditions"].as_array().and_then(|conditions| conditions.first());
    Pod {
        name: text(&metadata["name"]).unwrap().into(),
        namespace: Arc::from("shop"),
        uid: Uid::parse(metadata["uid"].as_str().unwrap()).unwrap(),
        resource_version: ResourceVersion(super::server::version_of(json)),
        label_set: Arc::new(labels),
        controller: owner.map_or(ControllerRef::None, |owner| {
            let uid = Uid::parse(owner["uid"].as_str().unwrap()).unwrap();
            ControllerRef::Owner(Arc::new(OwnerRef { kind: OwnerKind::ReplicaSet, name: Arc::from(owner["name"].as_str().unwrap()), uid }))
        }),
        node: text(&json["spec"]["nodeName"]).map(Arc::from),
        created: time(&metadata["creationTimestamp"]),
        deletion: time(&metadata["deletionTimestamp"]),
        ready_changed: ready.and_then(|ready| time(&ready["lastTransitionTime"])),
        claims: None,
        restarts: 0,
        init_restarts: 0,
        deletion_cost: 0,
        phase: match status["phase"].as_str() {
            Some("Pending") => Phase::Pending,
            Some("Running") => Phase::Running,
            Some("Succeeded") => Phase::Succeeded,
            Some("Failed") => Phase::Failed,
            _ => Phase::Unknown,
        },
        ready: ready.is_some_and(|ready| ready["status"] == "True"),
        own_labels: OwnLabels::default(),
    }
}
