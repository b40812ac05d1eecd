//! What a Deployment's status counts and says, but for the progress of a rollout.

mod support;

use std::sync::Arc;

use deployment::{Gates, View};
use model::ReplicaSet;
use serde_json::{Value, json};
use support::{Api, NOW, ago, available, both, condition, rolling, set, sync, view, web};

fn status_of(deployment: Value, sets: impl IntoIterator<Item = Arc<ReplicaSet>>) -> Value {
    sync(view(&web(2, 5, deployment), sets), &Api::yes()).status()
}

fn counted(replicas: i32, ready: i32, available: i32) -> Value {
    json!({"status": {"replicas": replicas, "readyReplicas": ready, "availableReplicas": available}})
}

#[test]
fn counts_are_sums_over_the_statuses_of_all_replica_sets() {
    let sets = [set(1, 2, counted(3, 2, 1)), set(2, 4, counted(4, 3, 2)), set(3, 0, counted(1, 1, 1))];
    let mut status = status_of(json!({"metadata": {"generation": 7}}), sets);
    status.as_object_mut().unwrap().remove("conditions");
    let expected = json!({"observedGeneration": 7, "replicas": 8, "updatedReplicas": 4, "readyReplicas": 6, "availableReplicas": 4,
        "unavailableReplicas": 2});
    assert_eq!(status, expected, "unavailable is what is wanted of the ReplicaSets, less what is available");
}

#[test]
fn more_available_than_wanted_leaves_none_unavailable() {
    assert_eq!(status_of(json!({}), [set(2, 5, counted(9, 9, 9))]).get("unavailableReplicas"), None);
}

#[test]
fn counts_are_of_before_this_sync_scaled() {
    let did = sync(view(&web(2, 9, rolling(4, 0)), [set(2, 5, counted(5, 5, 5))]), &Api::yes());
    assert_eq!((did.sizes(), did.status().get("unavailableReplicas")), (vec![("web-2", 9)], None));
}

#[test]
fn terminating_pods_are_counted_where_every_replica_set_tells() {
    let told = |template, observed: i64, terminating: Value| {
        set(template, 1, json!({"status": {"observedGeneration": observed, "terminatingReplicas": terminating}}))
    };
    for (sets, expected) in [
        (vec![told(2, 1, json!(3))], json!(3)),
        (vec![told(2, 1, json!(3)), told(1, 1, json!(1))], json!(4)),
        (vec![told(2, 0, json!(null))], json!(0)),
        (vec![told(2, 1, json!(3)), told(1, 1, json!(1)), told(3, 0, json!(null))], json!(4)),
        (vec![told(2, 1, json!(null))], json!(null)),
        (vec![told(2, 1, json!(3)), told(1, 1, json!(1)), told(3, 0, json!(null)), told(4, 1, json!(null))], json!(null)),
        (vec![told(2, 0, json!(2))], json!(2)),
    ] {
        let with = json!({"status": {"terminatingReplicas": 9}});
        assert_eq!(status_of(with.clone(), sets.clone())["terminatingReplicas"], expected, "{sets:?}");
        let off = View::new(web(2, 5, with), sets, Gates { terminating_replicas: false }, NOW);
        assert_eq!(sync(off, &Api::yes()).status().get("terminatingReplicas"), None);
    }
}

#[test]
fn one_that_was_just_created_counts_as_wanted_and_not_synced() {
    let status = status_of(rolling(2, 0), [set(1, 3, json!({"status": {"terminatingReplicas": 1}}))]);
    let count = |field: &str| status.get(field).cloned().unwrap_or(json!(0));
    assert_eq!((count("unavailableReplicas"), count("updatedReplicas"), count("terminatingReplicas")), (json!(4), json!(0), json!(1)));
}

#[test]
fn the_collision_count_and_what_we_do_not_know_stay() {
    let before = json!({"status": {"collisionCount": 4, "fieldOfTheFuture": [1.50], "conditions": [
        {"type": "OfTheFuture", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "extra": {"a": 1}}]}});
    let status = status_of(before.clone(), [set(2, 5, json!({}))]);
    assert_eq!((&status["collisionCount"], &status["fieldOfTheFuture"]), (&json!(4), &json!([1.50])));
    assert_eq!(status["conditions"][0], before["status"]["conditions"][0]);
    assert_eq!(status["conditions"][1]["type"], "Available");
}

#[test]
fn availability_is_told_with_upstreams_words() {
    let said = |count, unavailable: i32| {
        sync(view(&web(2, 5, rolling(1, unavailable)), [set(2, 5, available(count))]), &Api::yes()).said("Available")
    };
    let enough = json!(["True", "MinimumReplicasAvailable", "Deployment has minimum availability."]);
    let too_few = json!(["False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability."]);
    assert_eq!([said(5, 0), said(3, 2), said(4, 0), said(2, 2)], [enough.clone(), enough, too_few.clone(), too_few]);
}

#[test]
fn a_condition_of_the_same_status_and_reason_is_left_alone_and_any_other_goes_to_the_end() {
    let conditions = |available: Value| json!({"status": {"conditions": [available, condition("Other", "True", "Else", 50)]}});
    let types = |status: &Value| {
        let conditions = status["conditions"].as_array().unwrap();
        conditions.iter().map(|condition| condition["type"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let same = status_of(conditions(condition("Available", "True", "MinimumReplicasAvailable", 100)), [set(2, 5, json!({}))]);
    assert_eq!(types(&same), ["Available", "Other"]);
    assert_eq!(same["conditions"][0], condition("Available", "True", "MinimumReplicasAvailable", 100));

    let changed = status_of(conditions(condition("Available", "False", "MinimumReplicasUnavailable", 100)), [set(2, 5, json!({}))]);
    assert_eq!(types(&changed), ["Other", "Available"]);
    let now = "2027-01-15T08:00:00Z";
    assert_eq!((&changed["conditions"][1]["lastUpdateTime"], &changed["conditions"][1]["lastTransitionTime"]), (&json!(now), &json!(now)));

    let reason = status_of(conditions(condition("Available", "True", "Elsewise", 100)), [set(2, 5, json!({}))]);
    assert_eq!(types(&reason), ["Other", "Available"]);
    let times = (&reason["conditions"][1]["lastUpdateTime"], &reason["conditions"][1]["lastTransitionTime"]);
    assert_eq!(times, (&json!(now), &json!(ago(100))), "of the same status, so that it did not change now");
}

/// The failure of a ReplicaSet, as it tells it.
fn failing(message: &str) -> Value {
    json!({"status": {"conditions": [{"type": "Else", "status": "True"}, {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
        "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}})
}

#[test]
fn a_failure_is_that_of_the_new_replica_set_or_of_the_oldest_that_has_one() {
    let of = |sets: Vec<Arc<ReplicaSet>>| sync(view(&web(2, 5, json!({})), sets), &Api::yes()).condition("ReplicaFailure");
    let expected = |message: &str| {
        json!({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message,
            "lastUpdateTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    assert_eq!(of(vec![set(1, 0, failing("old")), set(2, 5, failing("new"))]), expected("new"));
    assert_eq!(of(vec![set(3, 0, failing("older")), set(1, 0, failing("oldest")), set(2, 5, json!({}))]), expected("oldest"));
    assert_eq!(of(vec![set(1, 0, json!({})), set(2, 5, json!({}))]), json!(null));
}

#[test]
fn a_failure_that_is_over_is_taken_out_and_one_that_lasts_keeps_its_words() {
    let failed = json!({"status": {"conditions": [condition("ReplicaFailure", "True", "FailedCreate", 50)]}});
    let did = sync(view(&web(2, 5, failed.clone()), [set(2, 5, json!({}))]), &Api::yes());
    assert_eq!(did.condition("ReplicaFailure"), json!(null));
    let did = sync(view(&web(2, 5, failed.clone()), [set(2, 5, failing("another one"))]), &Api::yes());
    assert_eq!(did.condition("ReplicaFailure")["message"], "before");
    let other = json!({"status": {"conditions": [condition("ReplicaFailure", "True", "FailedDelete", 50)]}});
    let did = sync(view(&web(2, 5, other), [set(2, 5, failing("another one"))]), &Api::yes());
    assert_eq!(did.condition("ReplicaFailure")["message"], "another one");
}

#[test]
fn the_same_conditions_in_another_order_are_another_status() {
    let settled = |conditions: Value| {
        let status = json!({"status": {"replicas": 5, "updatedReplicas": 5, "readyReplicas": 5, "availableReplicas": 5,
            "conditions": conditions}});
        View::new(web(2, 5, status), vec![set(2, 5, failing("x"))], Gates { terminating_replicas: false }, NOW)
    };
    let failure = json!({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "x",
        "lastUpdateTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let available = condition("Available", "True", "MinimumReplicasAvailable", 50);
    for conditions in [json!([available, failure]), json!([failure, available])] {
        assert!(sync(settled(conditions), &Api::yes()).conclusion.status.is_none(), "whichever it is, it stays");
    }
    assert!(sync(settled(json!([failure])), &Api::yes()).conclusion.status.is_some());
}

#[test]
fn a_status_that_is_the_same_is_not_written_although_something_was_scaled() {
    let status = json!({"replicas": 5, "updatedReplicas": 5, "readyReplicas": 5, "availableReplicas": 5, "terminatingReplicas": 0,
        "conditions": [condition("Available", "True", "MinimumReplicasAvailable", 50)]});
    let told = set(2, 5, both(support::sized(5, 5), json!({"status": {"terminatingReplicas": 0}})));
    let did = sync(view(&web(2, 5, json!({"status": status})), [told.clone()]), &Api::yes());
    assert!(did.did_nothing(), "{did:?}");
    let did = sync(view(&web(2, 6, both(json!({"spec": {"paused": true}}), json!({"status": status}))), [told]), &Api::yes());
    assert_eq!((did.actions.len(), did.conclusion.status.is_none()), (1, true));
}
