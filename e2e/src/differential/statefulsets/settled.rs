//! Whether the StatefulSet controller has anything left to do. See [`differential::settled`](crate::differential::settled) for what this is not.

use anyhow::{Result, ensure};
use serde_json::Value;

use super::next::Slots;
use crate::differential::settled::{SOON, expect, selects, up_to_date};
use crate::differential::snapshot::{Kind, Snapshot, controller, is_deleted, is_ready, label, name, number, text, uid};

/// The label with the name of a pod's revision.
pub(super) const REVISION: &str = "controller-revision-hash";

/// Fails with what is still to be done.
pub(in crate::differential) fn check(snapshot: &Snapshot, set: &Value) -> Result<()> {
    up_to_date(Kind::StatefulSet, set)?;
    ownership(snapshot, set)?;
    counts(snapshot, set)?;
    revisions(snapshot, set)?;
    if is_deleted(set) { Ok(()) } else { Slots::of(snapshot, set).check() }
}

/// The ordinal of a pod that is called as a pod of the set is.
pub(super) fn ordinal(set: &Value, pod: &Value) -> Option<i64> {
    name(pod).strip_prefix(name(set))?.strip_prefix('-')?.parse().ok()
}

fn ownership(snapshot: &Snapshot, set: &Value) -> Result<()> {
    if is_deleted(set) {
        return Ok(());
    }
    for pod in snapshot.of(Kind::Pod) {
        match controller(pod) {
            None => {
                let is_member = selects(set, pod) && ordinal(set, pod).is_some() && !is_deleted(pod);
                ensure!(!is_member, "pod {} is to be adopted", name(pod));
            }
            Some(owner) => ensure!(text(owner, "/uid") != uid(set) || selects(set, pod), "pod {} is to be released", name(pod)),
        }
    }
    for revision in snapshot.of(Kind::ControllerRevision) {
        ensure!(controller(revision).is_some() || !selects(set, revision), "ControllerRevision {} is to be adopted", name(revision));
    }
    Ok(())
}

fn counts(snapshot: &Snapshot, set: &Value) -> Result<()> {
    let pods: Vec<_> = snapshot.controlled(Kind::Pod, set).collect();
    let ready = pods.iter().filter(|pod| text(pod, "/status/phase") == "Running" && is_ready(pod)).count();
    let of = |revision: &str| pods.iter().filter(|pod| !is_deleted(pod) && label(pod, REVISION) == Some(text(set, revision))).count();
    expect(set, "/status/replicas", pods.len())?;
    expect(set, "/status/readyReplicas", ready)?;
    expect(set, "/status/availableReplicas", if number(set, "/spec/minReadySeconds") <= SOON { ready } else { 0 })?;
    expect(set, "/status/currentReplicas", of("/status/currentRevision"))?;
    expect(set, "/status/updatedReplicas", of("/status/updateRevision"))?;
    let of_spec = ["/status/updatedReplicas", "/status/readyReplicas", "/status/replicas"].map(|count| number(set, count));
    let is_complete = of_spec == [number(set, "/spec/replicas"); 3];
    ensure!(
        !is_complete || text(set, "/status/currentRevision") == text(set, "/status/updateRevision"),
        "StatefulSet {}: the revision of all its pods is to become the current one",
        name(set)
    );
    Ok(())
}

/// The last revision is the template's, and none is left that the history has no room for.
fn revisions(snapshot: &Snapshot, set: &Value) -> Result<()> {
    let mut revisions: Vec<_> = snapshot.controlled(Kind::ControllerRevision, set).collect();
    revisions.sort_by_key(|revision| number(revision, "/revision"));
    let [current, update] = ["/status/currentRevision", "/status/updateRevision"].map(|path| text(set, path));
    let last = revisions.last().copied();
    let is_last = last.is_some_and(|last| name(last) == update && template_of(last) == set.pointer("/spec/template").cloned());
    ensure!(is_last, "StatefulSet {}: {update} is not the revision of its template", name(set));
    let mut live: Vec<_> = snapshot.controlled(Kind::Pod, set).filter_map(|pod| label(pod, REVISION)).collect();
    live.extend([current, update]);
    let history = revisions.iter().filter(|revision| !live.contains(&name(revision))).count();
    let limit = usize::try_from(number(set, "/spec/revisionHistoryLimit")).unwrap_or(usize::MAX);
    ensure!(history <= limit, "StatefulSet {}: its history of {history} is to be cut", name(set));
    Ok(())
}

/// The template that a revision has kept.
pub(super) fn template_of(revision: &Value) -> Option<Value> {
    let mut template = revision.pointer("/data/spec/template")?.clone();
    template.as_object_mut()?.remove("$patch");
    Some(template)
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use serde_json::json;

    use super::*;
    use crate::differential::settled::check;
    use crate::differential::snapshot::HOLD;

    fn object(kind: Kind, name: &str, owner: Option<(&str, &str)>, rest: &Value) -> (Kind, Value) {
        let owners: Vec<_> =
            owner.iter().map(|(kind, name)| json!({"kind": kind, "name": name, "uid": name, "controller": true})).collect();
        let mut object = json!({"metadata": {"name": name, "uid": name, "labels": {"app": "web"}, "ownerReferences": owners}});
        object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        (kind, object)
    }

    /// A StatefulSet of two pods with claims that go with it, settled. `change` gets its objects: the set, its revision, pods and claims.
    fn check_with(change: impl FnOnce(&mut [(Kind, Value); 6])) -> Result<()> {
        let mine = Some(("StatefulSet", "web"));
        let status = json!({
            "observedGeneration": 2, "replicas": 2, "readyReplicas": 2, "availableReplicas": 2, "currentReplicas": 2, "updatedReplicas": 2,
            "currentRevision": "web-a", "updateRevision": "web-a",
        });
        let spec = json!({
            "replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {"a": 1}, "revisionHistoryLimit": 0,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": "50%"}},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"},
        });
        let revision = json!({"revision": 1, "data": {"spec": {"template": {"$patch": "replace", "a": 1}}}});
        let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        let pod = |name| {
            let mut pod = object(Kind::Pod, name, mine, &ready);
            pod.1["metadata"]["labels"] = json!({"app": "web", REVISION: "web-a", "statefulset.kubernetes.io/pod-name": name});
            pod
        };
        let claim = |name| object(Kind::PersistentVolumeClaim, name, mine, &json!({}));
        let mut objects = [
            object(Kind::StatefulSet, "web", None, &json!({"spec": spec, "status": status})),
            object(Kind::ControllerRevision, "web-a", mine, &revision),
            pod("web-0"),
            pod("web-1"),
            claim("data-web-0"),
            claim("data-web-1"),
        ];
        objects[0].1["metadata"]["generation"] = json!(2);
        change(&mut objects);
        let mut snapshot = Snapshot::default();
        for (kind, object) in objects {
            snapshot.objects.insert((kind, name(&object).to_owned()), Rc::new(object));
        }
        check(&snapshot)
    }

    /// Changes one field of one object.
    fn check_put(object: usize, path: [&'static str; 2], value: Value) -> Result<()> {
        check_with(|objects| objects[object].1[path[0]][path[1]] = value)
    }

    /// The error that says what is still to be done.
    fn due(checked: Result<()>) -> String {
        checked.unwrap_err().to_string()
    }

    #[test]
    fn a_complete_set_has_settled() {
        check_with(|_| {}).unwrap();
    }

    #[test]
    fn whatever_a_controller_has_not_seen_is_unsettled() {
        for (object, path, value) in [
            (0, ["metadata", "generation"], json!(3)),
            (0, ["spec", "replicas"], json!(1)),
            (0, ["spec", "replicas"], json!(3)),
            (0, ["spec", "ordinals"], json!({"start": 1})),
            (0, ["spec", "template"], json!({"a": 2})),
            (0, ["spec", "persistentVolumeClaimRetentionPolicy"], json!({"whenDeleted": "Retain", "whenScaled": "Retain"})),
            (0, ["status", "currentReplicas"], json!(1)),
            (0, ["status", "availableReplicas"], json!(1)),
            (1, ["metadata", "ownerReferences"], json!([])),
            (2, ["metadata", "ownerReferences"], json!([])),
            (2, ["metadata", "labels"], json!({"app": "other"})),
            (2, ["metadata", "labels"], json!({"app": "web", REVISION: "web-a"})),
            (2, ["metadata", "deletionTimestamp"], json!("now")),
            (2, ["status", "phase"], json!("Failed")),
            (2, ["status", "conditions"], json!([])),
            (4, ["metadata", "ownerReferences"], json!([])),
        ] {
            check_put(object, path, value.clone()).expect_err(&format!("{object} {path:?} {value}"));
        }
    }

    /// The second pod is of an older revision.
    fn outdated(objects: &mut [(Kind, Value); 6]) {
        objects[3].1["metadata"]["labels"][REVISION] = json!("web-old");
        for count in ["currentReplicas", "updatedReplicas"] {
            objects[0].1["status"][count] = json!(1);
        }
    }

    #[test]
    fn an_outdated_pod_waits_for_room_and_for_the_partition() {
        assert_eq!(due(check_with(outdated)), "pod web-1 is to be updated");
        let with = |change: fn(&mut [(Kind, Value); 6])| {
            check_with(|objects| {
                outdated(objects);
                change(objects);
            })
        };
        with(|objects| objects[0].1["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = json!(2)).unwrap();
        with(|objects| objects[0].1["spec"]["updateStrategy"] = json!({"type": "OnDelete"})).unwrap();
        let first_is_down = |objects: &mut [(Kind, Value); 6]| {
            objects[2].1["status"]["conditions"] = json!([]);
            for count in ["readyReplicas", "availableReplicas"] {
                objects[0].1["status"][count] = json!(1);
            }
        };
        with(first_is_down).unwrap();
        // Without an order, one that is down already takes no room.
        let down = with(|objects| {
            objects[3].1["status"]["conditions"] = json!([]);
            objects[0].1["spec"]["podManagementPolicy"] = json!("Parallel");
            for count in ["readyReplicas", "availableReplicas"] {
                objects[0].1["status"][count] = json!(1);
            }
        });
        assert_eq!(due(down), "pod web-1, which is down, is to be updated");
    }

    #[test]
    fn held_pods_are_waited_for_in_order_only() {
        let held = |policy: &'static str| {
            check_with(move |objects| {
                objects[2].1["metadata"]["deletionTimestamp"] = json!("now");
                objects[2].1["metadata"]["finalizers"] = json!([HOLD]);
                objects[0].1["spec"]["replicas"] = json!(1);
                objects[0].1["spec"]["podManagementPolicy"] = json!(policy);
                for count in ["currentReplicas", "updatedReplicas"] {
                    objects[0].1["status"][count] = json!(1);
                }
            })
        };
        held("OrderedReady").unwrap();
        assert_eq!(due(held("Parallel")), "pod web-1 is to be scaled away");
    }
}
