//! Paused and resumed.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking, and so do its helpers")]

mod support;

use serde_json::{Value, json};
use support::{Api, both, condition, set, sized, sync, view, web};

fn paused() -> Value {
    json!({"spec": {"paused": true}})
}

fn deadline() -> Value {
    json!({"spec": {"progressDeadlineSeconds": 600}})
}

fn progressing(status: &str, reason: &str) -> Value {
    json!({"status": {"conditions": [condition("Progressing", status, reason, 1000)]}})
}

/// Status, reason and message, when it was last updated and when its status changed.
fn said(deployment: Value) -> Option<Value> {
    let did = sync(view(&web(1, 3, deployment), [set(1, 3, sized(3, 3))]), &Api::yes());
    let condition = did.condition("Progressing");
    let fields = ["status", "reason", "message", "lastUpdateTime", "lastTransitionTime"];
    (!condition.is_null()).then(|| fields.map(|field| condition[field].clone()).into_iter().collect())
}

#[test]
fn pausing_and_resuming_are_noted_where_there_is_a_deadline() {
    let (now, before) = ("2027-01-15T08:00:00Z", support::ago(1000));
    let is_paused = ("DeploymentPaused", "Deployment is paused");
    let is_resumed = ("DeploymentResumed", "Deployment is resumed");
    for (change, expected) in [
        (both(paused(), deadline()), Some((is_paused, now))),
        (both(both(paused(), deadline()), progressing("True", "NewReplicaSetAvailable")), Some((is_paused, now))),
        (both(both(paused(), deadline()), progressing("Unknown", "DeploymentResumed")), Some((is_paused, before.as_str()))),
        (both(deadline(), progressing("Unknown", "DeploymentPaused")), Some((is_resumed, before.as_str()))),
        (paused(), None),
        (both(paused(), json!({"spec": {"progressDeadlineSeconds": i32::MAX}})), None),
    ] {
        let scaled = both(change, json!({"spec": {"replicas": 4}}));
        let expected = expected.map(|((reason, message), changed)| json!(["Unknown", reason, message, now, changed]));
        assert_eq!(said(scaled.clone()), expected, "{scaled}");
    }
}

#[test]
fn what_is_noted_already_is_left_as_it_is() {
    for change in [
        both(both(paused(), deadline()), progressing("Unknown", "DeploymentPaused")),
        both(both(paused(), deadline()), progressing("False", "ProgressDeadlineExceeded")),
        both(paused(), progressing("True", "ReplicaSetUpdated")),
    ] {
        let condition = said(both(change.clone(), json!({"spec": {"replicas": 4}}))).unwrap();
        assert_eq!(condition[2], "before", "{change}");
    }
}

#[test]
fn a_rollout_that_was_paused_for_long_is_not_found_stuck_when_it_is_resumed() {
    let resumed = both(
        deadline(),
        both(progressing("Unknown", "DeploymentPaused"), json!({"status": {"replicas": 3, "readyReplicas": 3, "availableReplicas": 3}})),
    );
    let broken = json!({"status": {"replicas": 0, "readyReplicas": 0, "availableReplicas": 0}});
    let did = sync(view(&web(2, 3, resumed), [set(1, 3, json!({})), set(2, 0, broken)]), &Api::yes());
    assert_eq!(did.said("Progressing"), json!(["Unknown", "DeploymentResumed", "Deployment is resumed"]));
}

#[test]
fn dep_25_a_paused_deployment_scales_what_it_has_and_makes_no_pod_of_the_new_template() {
    let did = sync(view(&web(2, 5, paused()), [set(1, 3, sized(3, 3))]), &Api::yes());
    assert_eq!(did.actions, ["scale web-1 to 5"]);
    assert_eq!((&did.status()["replicas"], did.status().get("updatedReplicas")), (&json!(3), None));

    // In the middle of a rollout both grow, in proportion.
    let sets = [set(1, 3, sized(4, 5)), set(2, 2, sized(4, 5))];
    let surge = support::rolling(1, 0);
    let did = sync(view(&web(2, 9, both(paused(), surge)), sets), &Api::yes());
    assert_eq!(did.sizes(), [("web-1", 6), ("web-2", 4)]);
}

#[test]
fn paused_at_its_size_nothing_is_rolled() {
    let sets = [set(1, 3, sized(5, 5)), set(2, 2, sized(5, 5))];
    let did = sync(view(&web(2, 5, paused()), sets), &Api::yes());
    assert!(did.actions.is_empty(), "{:?}", did.actions);
    assert_eq!(did.status()["availableReplicas"], 5);
}

#[test]
fn paused_deployments_keep_their_books_and_clean_their_history() {
    let sets = || [set(1, 0, json!({})), set(2, 0, json!({})), set(3, 3, sized(3, 3))];
    let limited = |change| both(both(paused(), change), json!({"spec": {"revisionHistoryLimit": 1}}));
    let did = sync(view(&web(3, 3, limited(json!({"spec": {"minReadySeconds": 4}}))), sets()), &Api::yes());
    assert_eq!(did.actions, ["patch web-3", "delete web-1"]);
    assert_eq!(did.revision(), json!("3"));

    let rollback = |to: &str| limited(json!({"metadata": {"annotations": {"deprecated.deployment.rollback.to": to}}}));
    let did = sync(view(&web(3, 3, rollback("1")), sets()), &Api::yes());
    assert!(did.actions.is_empty(), "neither while a rollback is asked for: {:?}", did.actions);
    let did = sync(view(&web(3, 3, rollback("x")), sets()), &Api::yes());
    assert_eq!(did.actions, ["delete web-1"], "what is no number asks for none");
}

#[test]
fn a_paused_status_says_nothing_of_progress_or_failures() {
    let failing = json!({"status": {"conditions": [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"}]}});
    let was_failing = json!({"status": {"conditions": [condition("ReplicaFailure", "True", "FailedCreate", 5)]}});
    let did = sync(view(&web(1, 3, paused()), [set(1, 3, failing)]), &Api::yes());
    assert_eq!(did.condition("ReplicaFailure"), json!(null));
    let did = sync(view(&web(1, 3, both(paused(), was_failing)), [set(1, 3, json!({}))]), &Api::yes());
    assert_eq!(did.condition("ReplicaFailure")["message"], "before");
}
