//! The ReplicaSet of a Deployment's present template.

use serde_json::Value;

use crate::differential::snapshot::{HASH_LABEL, Kind, Snapshot, text};

/// The oldest of a Deployment's ReplicaSets with its template, as upstream's `FindNewReplicaSet` has it.
pub(super) fn new_set<'a>(snapshot: &'a Snapshot, deployment: &'a Value) -> Option<&'a Value> {
    let wanted = template(deployment);
    let alike = snapshot.controlled(Kind::ReplicaSet, deployment).filter(|set| template(set) == wanted);
    alike.min_by_key(|set| text(set, "/metadata/creationTimestamp"))
}

/// The template without its hash, and without amounts: they alone are written in more than one way, and never are all that differs.
fn template(object: &Value) -> Value {
    let mut template = object.pointer("/spec/template").cloned().unwrap_or_default();
    if let Some(labels) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove(HASH_LABEL);
    }
    for container in template.pointer_mut("/spec/containers").and_then(Value::as_array_mut).into_iter().flatten() {
        container.as_object_mut().map(|container| container.remove("resources"));
    }
    template
}
