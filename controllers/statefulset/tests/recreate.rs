//! The update strategy `Recreate`, and those that are not known (upstream `recreateDeleteAndWait`, `updateStatefulSet`).

mod support;

use std::sync::Arc;

use model::plan::Rule;
use model::{Pod, StatefulSet};
use serde_json::{Value, json};
use statefulset::{Gates, View};
use support::{
    Api, GATES, all_well, both, db, failed, name_of, parallel, pending, pod, refused, strategy, sync, terminating, unready, view, well,
    with_gates,
};

fn set(template: u32, replicas: i32, change: Value) -> Arc<StatefulSet> {
    db(template, replicas, both(strategy("Recreate"), change))
}

fn seen(set: &Arc<StatefulSet>, pods: impl IntoIterator<Item = Arc<Pod>>) -> View {
    with_gates(view(set, pods), Gates { recreate: true, ..GATES })
}

fn deleting() -> Value {
    json!(["True", "RecreateInProgress", "Deleting old revision pods"])
}

fn waiting() -> Value {
    json!(["True", "RecreateInProgress", "Waiting for new-revision pods to be created"])
}

fn condition(status: &str, reason: &str, message: &str) -> Value {
    json!({"type": "Progressing", "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

#[test]
fn every_old_pod_goes_first_whatever_its_state_and_the_policy() {
    for policy in [json!({}), parallel()] {
        let pods = [well(0, 1), pod(1, 1, unready), pod(2, 1, failed), well(3, 2), pod(4, 1, pending), pod(5, 1, terminating), well(9, 1)];
        let did = sync(seen(&set(2, 7, policy), pods), &Api::yes());
        assert_eq!(did.batches, [vec!["delete db-0"], vec!["delete db-1", "delete db-2"], vec!["delete db-4", "delete db-9"]]);
        assert!(did.steps.iter().all(|step| step.reason == Rule::RecreateStopsOld));
        assert_eq!((did.said("Progressing"), did.error()), (deleting(), None));
        assert_eq!(did.counts(), [7, 4, 4, 5, 1], "nothing is created meanwhile, not even the one that is missing");
    }
}

#[test]
fn nothing_is_made_before_the_last_old_pod_is_gone() {
    for pods in [
        vec![pod(0, 1, terminating)],
        vec![pod(0, 1, terminating), well(1, 2)],
        vec![pod(7, 1, terminating)],
        vec![well(0, 2), pod(7, 3, terminating)],
    ] {
        let did = sync(seen(&set(2, 3, parallel()), pods), &Api::yes());
        assert!(did.did_nothing());
        assert_eq!(did.said("Progressing"), deleting());
    }
}

#[test]
fn then_pods_are_made_as_the_policy_says() {
    let did = sync(seen(&set(2, 3, json!({})), []), &Api::yes());
    assert_eq!((did.actions.as_slice(), did.said("Progressing")), (["create db-0".to_owned()].as_slice(), waiting()));
    assert_eq!(did.revision_of("db-0"), "revision 2");
    let did = sync(seen(&set(2, 3, json!({})), [pod(0, 2, unready)]), &Api::yes());
    assert!(did.did_nothing());
    assert_eq!(did.said("Progressing"), waiting());
    let did = sync(seen(&set(2, 3, parallel()), [pod(1, 2, unready)]), &Api::yes());
    assert_eq!(
        (did.actions.as_slice(), did.said("Progressing")),
        (["create db-0", "create db-2"].map(str::to_owned).as_slice(), waiting())
    );
    // Nothing is scaled away or made otherwise than before.
    let did = sync(seen(&set(2, 1, json!({})), all_well(0..3, 2)), &Api::yes());
    assert_eq!(did.actions, ["delete db-2"]);
}

#[test]
fn when_all_are_there_and_ready_it_is_complete() {
    let change =
        json!({"status": {"conditions": [condition("True", "RecreateInProgress", "Waiting for new-revision pods to be created")]}});
    let did = sync(seen(&set(2, 2, change.clone()), all_well(0..2, 2)), &Api::yes());
    assert!(did.did_nothing());
    assert_eq!(did.said("Progressing"), json!(["False", "RecreateCompleted", "All pods recreated successfully"]));
    assert_eq!(did.status()["conditions"][0]["lastTransitionTime"], "2027-01-15T08:00:00Z");
    assert_eq!(did.revisions(), ["revision 2", "revision 2"]);
    // A set whose template never changed has no condition.
    let did = sync(seen(&set(1, 2, json!({})), all_well(0..2, 1)), &Api::yes());
    assert_eq!(did.said("Progressing"), json!([null, null, null]));
}

#[test]
fn a_condition_changes_in_place_and_its_time_with_its_status() {
    let other = json!({"type": "Of others", "status": "Unknown", "lastTransitionTime": null, "extra": 5});
    let with = |progressing: Value| json!({"status": {"conditions": [progressing, other]}});
    let old = "2026-01-01T00:00:00Z";
    for (before, pods, after, since) in [
        (condition("True", "RecreateInProgress", "Deleting old revision pods"), all_well(0..1, 1), deleting(), old),
        (condition("True", "RecreateInProgress", "Deleting old revision pods"), vec![], waiting(), old),
        (condition("False", "RecreateCompleted", "All pods recreated successfully"), all_well(0..1, 1), deleting(), "2027-01-15T08:00:00Z"),
        (condition("True", "RecreateInProgress", "Waiting for new-revision pods to be created"), vec![pod(0, 2, unready)], waiting(), old),
    ] {
        let did = sync(seen(&set(2, 1, with(before)), pods), &Api::yes());
        assert_eq!((did.said("Progressing"), &did.status()["conditions"][0]["lastTransitionTime"]), (after, &json!(since)));
        assert_eq!(did.status()["conditions"][1], other);
    }
}

#[test]
fn a_delete_that_fails_ends_the_sync_and_says_nothing_of_progress() {
    let api = Api::yes().to("delete db-1", refused(500, "InternalError")).to("delete db-2", refused(403, "Forbidden"));
    let did = sync(seen(&set(2, 9, json!({})), all_well(0..9, 1)), &api);
    assert_eq!(did.actions.len(), 3);
    assert_eq!(did.error(), Some("[InternalError for a test, Forbidden for a test]"));
    assert_eq!((did.said("Progressing"), did.counts()[0]), (json!([null, null, null]), 9));
    let did = sync(seen(&set(2, 2, json!({})), all_well(0..2, 1)), &Api::yes().to("delete", refused(404, "NotFound")));
    assert_eq!((did.said("Progressing"), did.error()), (deleting(), None));
}

#[test]
fn a_template_of_before_recreates_too() {
    let revisions = [support::revision(1, 1, |_| {}), support::revision(2, 2, |_| {})];
    let set = set(1, 1, json!({"status": {"currentRevision": name_of(2), "updateRevision": name_of(2)}}));
    let did = sync(support::with_revisions(seen(&set, [well(0, 2)]), revisions), &Api::yes());
    assert_eq!(did.actions, ["raise revision 1 to 3", "delete db-0"]);
}

#[test]
fn with_the_gate_off_no_pod_is_touched() {
    for policy in [json!({}), parallel()] {
        let pods = [well(0, 1), pod(1, 1, failed), well(9, 1)];
        let did = sync(view(&set(2, 4, policy), pods), &Api::yes());
        assert!(did.actions.is_empty());
        let text = "statefulset shop/db uses Recreate strategy but feature gate StatefulSetRecreateStrategy is disabled";
        assert_eq!((did.error(), did.events.as_slice()), (Some(text), [format!("Warning UnknownStrategy: {text}")].as_slice()));
        assert_eq!((did.counts(), &did.status()["observedGeneration"]), ([3, 2, 2, 3, 0], &json!(3)));
        assert_eq!(did.said("Progressing"), json!([null, null, null]));
    }
    // Complete, as far as anybody can see; what Recreate has said of itself stays.
    let change = json!({"status": {"conditions": [condition("True", "RecreateInProgress", "x")]}});
    let did = sync(view(&set(2, 1, change), [well(0, 2)]), &Api::yes());
    assert_eq!(
        (did.said("Progressing"), did.revisions()),
        (json!(["True", "RecreateInProgress", "x"]), ["revision 2", "revision 2"].map(str::to_owned))
    );
}

#[test]
fn an_unknown_strategy_touches_no_pod() {
    for name in ["Surge", ""] {
        for gates in [GATES, Gates { recreate: true, max_unavailable: false, ..GATES }] {
            let set = db(2, 4, strategy(name));
            let did = sync(with_gates(view(&set, [well(0, 1), pod(1, 1, failed), well(9, 1)]), gates), &Api::yes());
            assert!(did.actions.is_empty());
            let text = format!("statefulset shop/db uses unknown strategy {name:?}");
            assert_eq!(
                (did.error(), did.events.as_slice()),
                (Some(text.as_str()), [format!("Warning UnknownStrategy: {text}")].as_slice())
            );
            assert_eq!(did.counts(), [3, 2, 2, 3, 0]);
        }
    }
    // Revisions are kept in order all the same.
    let did = sync(support::with_revisions(view(&db(2, 1, strategy("Surge")), []), [support::revision(1, 1, |_| {})]), &Api::yes());
    assert_eq!(did.actions, ["create revision 2"]);
    // Of a set that is deleted only the status is of interest.
    let did = sync(view(&db(2, 1, both(strategy("Surge"), support::deleting())), [well(0, 1)]), &Api::yes());
    assert!(did.did_nothing() && did.events.is_empty());
}

#[test]
fn whoever_leaves_recreate_keeps_its_condition() {
    let change = json!({"status": {"conditions": [condition("True", "RecreateInProgress", "x")]}});
    let did = sync(view(&db(1, 1, change), [well(0, 1)]), &Api::yes());
    assert_eq!(did.said("Progressing"), json!(["True", "RecreateInProgress", "x"]));
}
