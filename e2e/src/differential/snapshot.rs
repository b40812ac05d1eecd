//! What a namespace holds at one moment, and how to read it.

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use serde_json::Value;

/// The label by which the ReplicaSets of a Deployment differ.
pub const HASH_LABEL: &str = "pod-template-hash";

/// A Deployment's and its ReplicaSets' number of the template.
pub const REVISION: &str = "deployment.kubernetes.io/revision";

/// Pods with it stay when they are deleted, until the nodes take it away.
pub const HOLD: &str = "example.com/hold";

/// The kinds that are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// What the scripts are about.
    Deployment,
    /// What a Deployment makes.
    ReplicaSet,
    /// What other scripts are about.
    StatefulSet,
    /// What a StatefulSet makes of its template.
    ControllerRevision,
    /// What a StatefulSet makes beside its pods.
    PersistentVolumeClaim,
    /// What a ReplicaSet or StatefulSet makes.
    Pod,
    /// What controllers say.
    Event,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Deployment,
        Self::ReplicaSet,
        Self::StatefulSet,
        Self::ControllerRevision,
        Self::PersistentVolumeClaim,
        Self::Pod,
        Self::Event,
    ];

    /// The path of the API group that serves it.
    pub fn group(self) -> &'static str {
        match self {
            Self::Deployment | Self::ReplicaSet | Self::StatefulSet | Self::ControllerRevision => "/apis/apps/v1",
            Self::PersistentVolumeClaim | Self::Pod | Self::Event => "/api/v1",
        }
    }

    /// Its name in paths.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Deployment => "deployments",
            Self::ReplicaSet => "replicasets",
            Self::StatefulSet => "statefulsets",
            Self::ControllerRevision => "controllerrevisions",
            Self::PersistentVolumeClaim => "persistentvolumeclaims",
            Self::Pod => "pods",
            Self::Event => "events",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The objects of one namespace, by kind and name.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// As the API server sent them.
    pub objects: BTreeMap<(Kind, String), Rc<Value>>,
}

impl Snapshot {
    /// An object by its name.
    pub fn get(&self, kind: Kind, name: &str) -> Option<&Value> {
        self.objects.get(&(kind, name.to_owned())).map(Rc::as_ref)
    }

    /// The objects of a kind, by name.
    pub fn of(&self, kind: Kind) -> impl Iterator<Item = &Value> {
        self.objects.range((kind, String::new())..).take_while(move |((of, _), _)| *of == kind).map(|(_, object)| object.as_ref())
    }

    /// The objects of a kind that this one controls, by name.
    pub fn controlled<'a>(&'a self, kind: Kind, owner: &'a Value) -> impl Iterator<Item = &'a Value> {
        self.of(kind).filter(move |object| controller(object).is_some_and(|reference| text(reference, "/uid") == uid(owner)))
    }

    /// A Deployment's ReplicaSets, the highest revision first; of equal ones the youngest. Names decide nothing: they hold a hash.
    pub fn by_revision(&self, deployment: &str) -> Vec<&Value> {
        let Some(deployment) = self.get(Kind::Deployment, deployment) else { return Vec::new() };
        let mut sets: Vec<_> = self.controlled(Kind::ReplicaSet, deployment).collect();
        sets.sort_by_key(|set| std::cmp::Reverse((revision(set), text(set, "/metadata/creationTimestamp"))));
        sets
    }
}

/// The text at a path of an object; empty if there is none.
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The number at a path of an object; 0 if there is none.
pub fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

/// An object's name.
pub fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// An object's UID.
pub fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

/// An annotation, or nothing.
pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.pointer("/metadata/annotations")?.get(key)?.as_str()
}

/// A label, or nothing.
pub fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.pointer("/metadata/labels")?.get(key)?.as_str()
}

/// The revision that a ReplicaSet's annotation tells; 0 for none.
pub fn revision(set: &Value) -> i64 {
    annotation(set, REVISION).and_then(|revision| revision.parse().ok()).unwrap_or_default()
}

/// An object's owner references.
pub fn owners(object: &Value) -> impl Iterator<Item = &Value> {
    object.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten()
}

/// The owner reference of the object's controller.
pub fn controller(object: &Value) -> Option<&Value> {
    owners(object).find(|owner| owner.get("controller") == Some(&Value::Bool(true)))
}

/// Whether the object is being deleted.
pub fn is_deleted(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some()
}

/// Whether the object has a finalizer.
pub fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    let finalizers = object.pointer("/metadata/finalizers").and_then(Value::as_array);
    finalizers.is_some_and(|finalizers| finalizers.iter().any(|one| one == finalizer))
}

/// Whether the pod has not ended.
pub fn is_running(pod: &Value) -> bool {
    !matches!(text(pod, "/status/phase"), "Failed" | "Succeeded")
}

/// Whether a ReplicaSet counts the pod.
pub fn is_active(pod: &Value) -> bool {
    is_running(pod) && !is_deleted(pod)
}

/// A condition of an object's status.
pub fn condition<'a>(object: &'a Value, of: &str) -> Option<&'a Value> {
    object.pointer("/status/conditions")?.as_array()?.iter().find(|condition| text(condition, "/type") == of)
}

/// Whether the pod is ready.
pub fn is_ready(pod: &Value) -> bool {
    condition(pod, "Ready").is_some_and(|condition| text(condition, "/status") == "True")
}
