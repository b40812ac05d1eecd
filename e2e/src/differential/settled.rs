//! Whether the controllers have come to rest in a namespace, as far as its objects tell.
//!
//! This only says when to look, never what is right: two sides that have settled are compared, and one that never settles is a difference.

use anyhow::{Result, ensure};
use serde_json::Value;

use super::snapshot::{
    HOLD, Kind, Snapshot, condition, controller, has_finalizer, is_active, is_deleted, is_ready, is_running, name, number, owners, text,
    uid,
};
use super::{deployments, statefulsets};

/// Seconds that a barrier waits for: pods become available, and progress deadlines pass. What takes longer never happens in a script.
pub const SOON: i64 = 60;

/// Fails with what is still to be done.
pub fn check(snapshot: &Snapshot) -> Result<()> {
    for pod in snapshot.of(Kind::Pod) {
        ensure!(!is_deleted(pod) || has_finalizer(pod, HOLD), "pod {} is being deleted", name(pod));
    }
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Event) {
        snapshot.of(kind).try_for_each(|object| collected(snapshot, kind, object))?;
    }
    snapshot.of(Kind::ReplicaSet).try_for_each(|set| replica_set(snapshot, set))?;
    snapshot.of(Kind::Deployment).try_for_each(|deployment| deployments::settled::check(snapshot, deployment))?;
    snapshot.of(Kind::StatefulSet).try_for_each(|set| statefulsets::settled::check(snapshot, set))
}

/// The garbage collector has done its part.
fn collected(snapshot: &Snapshot, kind: Kind, object: &Value) -> Result<()> {
    for owner in owners(object) {
        let there = Kind::ALL.into_iter().find(|kind| kind.to_string() == text(owner, "/kind"));
        let there = there.and_then(|kind| snapshot.get(kind, text(owner, "/name"))).is_some_and(|there| uid(there) == text(owner, "/uid"));
        ensure!(there || is_deleted(object), "{kind} {}: its owner {} is gone", name(object), text(owner, "/name"));
    }
    if kind == Kind::Pod || !is_deleted(object) {
        return Ok(());
    }
    // In the foreground it goes after its pods, and those may be held.
    let held = || snapshot.of(Kind::Pod).any(is_deleted);
    ensure!(has_finalizer(object, "foregroundDeletion") && held(), "{kind} {} is being deleted", name(object));
    Ok(())
}

fn replica_set(snapshot: &Snapshot, set: &Value) -> Result<()> {
    up_to_date(Kind::ReplicaSet, set)?;
    for pod in snapshot.of(Kind::Pod).filter(|pod| !is_deleted(set) && is_active(pod)) {
        match controller(pod) {
            None => ensure!(!selects(set, pod), "pod {} is to be adopted", name(pod)),
            Some(owner) => ensure!(text(owner, "/uid") != uid(set) || selects(set, pod), "pod {} is to be released", name(pod)),
        }
    }
    let pods: Vec<_> = snapshot.controlled(Kind::Pod, set).collect();
    let active: Vec<_> = pods.iter().filter(|pod| is_active(pod)).collect();
    let ready = active.iter().filter(|pod| is_ready(pod)).count();
    let available = if number(set, "/spec/minReadySeconds") <= SOON { ready } else { 0 };
    let terminating = pods.iter().filter(|pod| is_running(pod) && is_deleted(pod)).count();
    expect(set, "/status/replicas", active.len())?;
    expect(set, "/status/readyReplicas", ready)?;
    expect(set, "/status/availableReplicas", available)?;
    // Older servers do not tell.
    if set.pointer("/status/terminatingReplicas").is_some() {
        expect(set, "/status/terminatingReplicas", terminating)?;
    }
    let complete = is_deleted(set) || condition(set, "ReplicaFailure").is_some();
    if complete { Ok(()) } else { expect(set, "/spec/replicas", active.len()) }
}

/// Whether the Deployment is paused.
pub(super) fn is_paused(deployment: &Value) -> bool {
    deployment.pointer("/spec/paused") == Some(&Value::Bool(true))
}

/// Whether the labels match the selector; scripts use no expressions.
pub(super) fn selects(owner: &Value, object: &Value) -> bool {
    let labels = owner.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
    let has = |(key, value): (&String, &Value)| object.pointer("/metadata/labels").and_then(|labels| labels.get(key)) == Some(value);
    labels.is_some_and(|labels| labels.iter().all(has))
}

pub(super) fn up_to_date(kind: Kind, object: &Value) -> Result<()> {
    let (observed, generation) = (number(object, "/status/observedGeneration"), number(object, "/metadata/generation"));
    ensure!(observed == generation, "{kind} {}: generation {observed} of {generation} has been seen", name(object));
    Ok(())
}

pub(super) fn expect(object: &Value, pointer: &str, expected: impl TryInto<i64>) -> Result<()> {
    let (found, expected) = (number(object, pointer), expected.try_into().unwrap_or(i64::MAX));
    ensure!(found == expected, "{}: {pointer} is {found}, not {expected}", name(object));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use serde_json::json;

    use super::super::snapshot::REVISION;
    use super::*;

    /// A Deployment of two, settled. `change` gets it, its ReplicaSet and one of its pods.
    fn check_with(change: impl FnOnce(&mut Value, &mut Value, &mut Value)) -> Result<()> {
        let owner = |kind: &str, name: &str| json!([{"kind": kind, "name": name, "uid": name, "controller": true}]);
        let mut deployment = json!({
            "metadata": {"name": "web", "uid": "web", "generation": 2, "annotations": {REVISION: "1"}},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "revisionHistoryLimit": 0, "template": {"a": 1}},
            "status": {"observedGeneration": 2, "replicas": 2, "readyReplicas": 2, "availableReplicas": 2},
        });
        let mut set = json!({
            "metadata": {
                "name": "web-1", "uid": "web-1", "generation": 1, "labels": {"app": "web"}, "annotations": {REVISION: "1"},
                "ownerReferences": owner("Deployment", "web"),
            },
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {"a": 1}},
            "status": {"observedGeneration": 1, "replicas": 2, "readyReplicas": 2, "availableReplicas": 2},
        });
        let pod = |name: &str| {
            let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
            let metadata = json!({"name": name, "uid": name, "labels": {"app": "web"}, "ownerReferences": owner("ReplicaSet", "web-1")});
            json!({"metadata": metadata, "status": ready})
        };
        let mut first = pod("a");
        change(&mut deployment, &mut set, &mut first);
        let mut snapshot = Snapshot::default();
        for (kind, object) in [(Kind::Deployment, deployment), (Kind::ReplicaSet, set), (Kind::Pod, first), (Kind::Pod, pod("b"))] {
            snapshot.objects.insert((kind, name(&object).to_owned()), Rc::new(object));
        }
        check(&snapshot)
    }

    #[test]
    fn a_complete_deployment_has_settled() {
        check_with(|_, _, _| {}).unwrap();
    }

    #[test]
    fn whatever_a_controller_has_not_seen_is_unsettled() {
        check_with(|deployment, _, _| deployment["metadata"]["generation"] = json!(3)).unwrap_err();
        check_with(|deployment, _, _| deployment["status"]["readyReplicas"] = json!(1)).unwrap_err();
        check_with(|deployment, _, _| deployment["metadata"]["annotations"] = json!({"deprecated.deployment.rollback.to": "1"}))
            .unwrap_err();
        check_with(|_, set, _| set["spec"]["replicas"] = json!(3)).unwrap_err();
        check_with(|_, set, _| set["metadata"]["ownerReferences"][0]["uid"] = json!("gone")).unwrap_err();
        check_with(|_, _, pod| pod["status"]["conditions"] = json!([])).unwrap_err();
        check_with(|_, _, pod| pod["status"]["phase"] = json!("Failed")).unwrap_err();
        check_with(|_, _, pod| pod["metadata"]["deletionTimestamp"] = json!("now")).unwrap_err();
        check_with(|_, _, pod| pod["metadata"]["labels"]["app"] = json!("other")).unwrap_err();
        check_with(|_, _, pod| pod["metadata"]["ownerReferences"] = json!([])).unwrap_err();
        check_with(|_, set, _| set["metadata"]["labels"]["app"] = json!("other")).unwrap_err();
        check_with(|_, set, _| set["spec"]["template"]["a"] = json!(2)).unwrap_err();
        check_with(|_, set, _| set["metadata"]["annotations"] = json!({})).unwrap_err();
        check_with(|deployment, _, _| deployment["metadata"]["annotations"]["a"] = json!("b")).unwrap_err();
    }

    #[test]
    fn a_short_deadline_is_waited_for() {
        let with = |reason: &'static str, seconds: i64| {
            check_with(move |deployment, _, _| {
                deployment["spec"]["progressDeadlineSeconds"] = json!(seconds);
                deployment["status"]["conditions"] = json!([{"type": "Progressing", "reason": reason}]);
            })
        };
        with("ReplicaSetUpdated", 1).unwrap_err();
        with("ReplicaSetUpdated", 600).unwrap();
        with("ProgressDeadlineExceeded", 1).unwrap();
    }
}
