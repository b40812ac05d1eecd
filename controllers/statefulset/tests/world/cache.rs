//! What the process knows: stores that follow the server's changes in their order, each as far as it has come.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::claim::ClaimOwner;
use model::labels::LabelSet;
use model::pod::{Claim, OwnLabels, Phase};
use model::{
    ControllerRef, ControllerRevision, Fingerprint, OwnerKind, OwnerRef, PersistentVolumeClaim, Pod, ResourceVersion, StatefulSet,
    Timestamp, Uid,
};
use serde_json::Value;

use super::server::{Change, KINDS, Kind, Server, owners_of, version_of};
use crate::support::decode_db;

#[derive(Clone, Debug, Default)]
pub struct Cache {
    pub sets: BTreeMap<String, Arc<StatefulSet>>,
    pub pods: BTreeMap<String, Arc<Pod>>,
    pub claims: BTreeMap<String, Arc<PersistentVolumeClaim>>,
    pub revisions: BTreeMap<String, Arc<ControllerRevision>>,
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

    pub fn is_all_current(&self, server: &Server) -> bool {
        KINDS.iter().all(|kind| self.reached(*kind) == server.version_of(*kind))
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
            (Kind::Set, Some(object)) => drop(self.sets.insert(name, decode_db(object))),
            (Kind::Pod, Some(object)) => drop(self.pods.insert(name, Arc::new(pod(object)))),
            (Kind::Claim, Some(object)) => drop(self.claims.insert(name, Arc::new(claim(object)))),
            (Kind::Revision, Some(object)) => drop(self.revisions.insert(name, Arc::new(revision(object)))),
            (Kind::Set, None) => drop(self.sets.remove(&name)),
            (Kind::Pod, None) => drop(self.pods.remove(&name)),
            (Kind::Claim, None) => drop(self.claims.remove(&name)),
            (Kind::Revision, None) => drop(self.revisions.remove(&name)),
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn time(value: &Value) -> Option<Timestamp> {
    value.as_str().and_then(Timestamp::parse)
}

fn uid(object: &Value) -> Uid {
    Uid::parse(text(&object["uid"])).unwrap()
}

fn labels(object: &Value) -> Arc<LabelSet> {
    let labels = object["metadata"]["labels"].as_object();
    Arc::new(labels.into_iter().flatten().map(|(key, value)| (key.as_str(), text(value))).collect())
}

fn controller(object: &Value) -> ControllerRef {
    let owner = owners_of(object).into_iter().find(|owner| owner["controller"] == true);
    owner.map_or(ControllerRef::None, |owner| {
        let name = Arc::from(text(&owner["name"]));
        ControllerRef::Owner(Arc::new(OwnerRef { kind: OwnerKind::StatefulSet, name, uid: uid(&owner) }))
    })
}

fn pod(json: &Value) -> Pod {
    let (metadata, status) = (&json["metadata"], &json["status"]);
    let ready = &status["conditions"][0];
    let name = text(&metadata["name"]);
    let volumes = json["spec"]["volumes"].as_array().cloned().unwrap_or_default();
    let claims = volumes.iter().filter_map(|volume| {
        let (volume, claim) = (text(&volume["name"]), volume["persistentVolumeClaim"]["claimName"].as_str()?);
        let is_conventional = claim == format!("{volume}-{name}");
        let literal = || Claim::Literal { volume: volume.into(), claim: claim.into() };
        Some(if is_conventional { Claim::Conventional(volume.into()) } else { literal() })
    });
    Pod {
        name: name.into(),
        namespace: Arc::from("shop"),
        uid: uid(metadata),
        resource_version: ResourceVersion(version_of(json)),
        label_set: labels(json),
        controller: controller(json),
        node: None,
        created: time(&metadata["creationTimestamp"]),
        deletion: time(&metadata["deletionTimestamp"]),
        ready_changed: time(&ready["lastTransitionTime"]),
        claims: Some(claims.collect()),
        restarts: 0,
        init_restarts: 0,
        deletion_cost: 0,
        phase: match text(&status["phase"]) {
            "Pending" => Phase::Pending,
            "Running" => Phase::Running,
            "Succeeded" => Phase::Succeeded,
            "Failed" => Phase::Failed,
            _ => Phase::Unknown,
        },
        ready: ready["status"] == "True",
        own_labels: OwnLabels::default(),
    }
}

fn claim(json: &Value) -> PersistentVolumeClaim {
    let metadata = &json["metadata"];
    let owners = owners_of(json);
    let owners = owners.iter().map(|owner| ClaimOwner {
        api_version: text(&owner["apiVersion"]).into(),
        kind: text(&owner["kind"]).into(),
        name: text(&owner["name"]).into(),
        uid: uid(owner),
        controller: owner["controller"] == true,
    });
    PersistentVolumeClaim {
        name: text(&metadata["name"]).into(),
        namespace: Arc::from("shop"),
        uid: uid(metadata),
        resource_version: ResourceVersion(version_of(json)),
        deletion: time(&metadata["deletionTimestamp"]),
        owners: Some(owners.collect()),
    }
}

fn revision(json: &Value) -> ControllerRevision {
    let metadata = &json["metadata"];
    ControllerRevision {
        name: text(&metadata["name"]).into(),
        namespace: Arc::from("shop"),
        uid: uid(metadata),
        resource_version: ResourceVersion(version_of(json)),
        created: time(&metadata["creationTimestamp"]),
        label_set: labels(json),
        own_hash: false,
        controller: controller(json),
        revision: json["revision"].as_i64().unwrap(),
        data: Fingerprint::of_bytes(json["data"].to_string().as_bytes()),
    }
}
