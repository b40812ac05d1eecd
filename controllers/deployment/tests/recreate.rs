//! Recreate: no new pod before the last old one is gone (upstream's tables of `recreate_test.go` are among these).

mod support;

use std::collections::HashSet;

use model::plan::Rule;
use serde_json::json;
use support::{Api, both, recreate, refused, set, set_uid, sized, sync, view, web};

/// An old ReplicaSet at zero, of whose pods its status still counts so many.
fn stopped(template: u32, counted: i32) -> std::sync::Arc<model::ReplicaSet> {
    set(template, 0, json!({"status": {"replicas": counted, "availableReplicas": 0, "readyReplicas": 0}}))
}

fn with_pods_of(templates: &[u32]) -> Api {
    Api { unfinished: templates.iter().map(|template| set_uid(*template)).collect(), ..Api::yes() }
}

#[test]
fn every_old_one_is_stopped_before_anything_else() {
    let sets = [set(3, 0, json!({})), set(2, 2, sized(3, 3)), set(1, 1, sized(3, 3))];
    let did = sync(view(&web(3, 3, recreate()), sets), &Api::yes());
    assert_eq!(did.actions, ["scale web-1 to 0", "scale web-2 to 0"]);
    assert!(did.steps.iter().all(|step| step.reason == Rule::RecreateStopsOld));
    assert_eq!(did.lookups, 0);
    let did = sync(view(&web(9, 3, recreate()), [set(1, 3, json!({}))]), &Api::yes());
    assert_eq!(did.actions, ["scale web-1 to 0"], "and nothing is created");
    assert_eq!(did.status()["replicas"], 3);
}

#[test]
fn an_old_one_that_cannot_be_stopped_ends_the_sync() {
    let did =
        sync(view(&web(9, 3, recreate()), [set(1, 1, json!({})), set(2, 1, json!({}))]), &Api::yes().to("scale", refused(409, "Conflict")));
    assert_eq!((did.actions.len(), did.error()), (1, Some("Conflict for a test")));
    assert!(did.conclusion.status.is_none());
}

#[test]
fn dep_06_the_new_one_waits_for_the_last_old_pod_to_be_gone() {
    // Pods that terminate are no longer counted by the status; the stores still have them.
    for new in [None, Some(set(9, 0, json!({})))] {
        let sets = || [stopped(1, 0), stopped(2, 0)].into_iter().chain(new.clone());
        let did = sync(view(&web(9, 3, recreate()), sets()), &with_pods_of(&[2]));
        assert!(did.actions.is_empty() && did.error().is_none(), "{:?}", did.actions);
        assert_eq!(did.lookups, 1);
        assert_eq!(did.said("Available")[0], "False", "the status is written while it waits");
        let did = sync(view(&web(9, 3, recreate()), sets()), &Api::yes());
        assert_eq!(did.actions.len(), 1, "{:?}", did.actions);
    }
}

#[test]
fn dep_07_pods_that_have_finished_are_not_waited_for() {
    // They are not among the unfinished ones, whatever the ReplicaSet they belong to.
    let did = sync(view(&web(9, 3, recreate()), [stopped(1, 0)]), &Api { unfinished: HashSet::new(), ..Api::yes() });
    assert!(did.actions[0].starts_with("create web-"));
    assert_eq!(did.created()["spec"]["replicas"], 3, "all of them at once");
}

#[test]
fn who_still_runs_old_pods_is_waited_for() {
    for (sets, pods, waits) in [
        (vec![], vec![], false),
        (vec![stopped(1, 0), stopped(2, 0)], vec![1, 2], true),
        (vec![stopped(1, 1)], vec![], true),
        (vec![stopped(1, 0)], vec![], false),
        (vec![stopped(1, 0), stopped(2, 0)], vec![2], true),
        // Pods of the new one are no old ones, nor are those of a ReplicaSet that is none of ours.
        (vec![stopped(1, 0), set(9, 0, json!({}))], vec![9, 77], false),
    ] {
        let did = sync(view(&web(9, 3, recreate()), sets.clone()), &with_pods_of(&pods));
        assert_eq!(did.actions.is_empty(), waits, "{sets:?} {pods:?}");
    }
}

#[test]
fn the_stores_are_asked_only_when_it_matters() {
    for (sets, lookups) in [
        (vec![set(9, 3, json!({}))], 0),
        (vec![set(9, 3, json!({})), stopped(1, 2)], 0),
        (vec![set(9, 3, json!({})), set(1, 1, json!({}))], 0),
        (vec![set(9, 3, json!({})), stopped(1, 0)], 1),
    ] {
        assert_eq!(sync(view(&web(9, 3, recreate()), sets), &Api::yes()).lookups, lookups);
    }
}

#[test]
fn the_new_one_gets_its_whole_size_at_once() {
    for have in [0, 1, 5] {
        let did = sync(view(&web(9, 3, recreate()), [set(9, have, json!({})), stopped(1, 0)]), &Api::yes());
        assert_eq!(did.actions, ["scale web-9 to 3"]);
        assert_eq!(did.steps[0].reason, Rule::NewReplicaSetSize);
    }
    let did = sync(view(&web(9, 3, recreate()), [set(9, 0, json!({}))]), &Api::yes().to("scale", refused(409, "Conflict")));
    assert_eq!(did.error(), Some("Conflict for a test"));
}

#[test]
fn there_is_no_surge_and_nothing_may_be_unavailable() {
    let did = sync(view(&web(9, 3, recreate()), []), &Api::yes());
    let notes = &did.created()["metadata"]["annotations"];
    assert_eq!(notes["deployment.kubernetes.io/max-replicas"], "3");
    let did = sync(view(&web(9, 3, recreate()), [set(9, 3, support::available(2))]), &Api::yes());
    assert_eq!(did.said("Available")[0], "False");
}

#[test]
fn a_rollout_that_is_complete_cleans_its_history() {
    let complete = json!({"spec": {"revisionHistoryLimit": 1}, "status": {"replicas": 3, "updatedReplicas": 3, "availableReplicas": 3}});
    let sets = [set(9, 3, json!({})), stopped(1, 0), stopped(2, 0)];
    let did = sync(view(&web(9, 3, both(recreate(), complete)), sets), &Api::yes());
    assert_eq!(did.actions, ["delete web-1"]);
}

#[test]
fn a_change_of_size_comes_first() {
    let did = sync(view(&web(9, 5, recreate()), [set(1, 3, sized(3, 3))]), &Api::yes());
    assert_eq!(did.actions, ["scale web-1 to 5"]);
}
