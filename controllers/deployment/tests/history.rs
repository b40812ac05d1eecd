//! Old ReplicaSets beyond the history limit (upstream's tables of `TestDeploymentController_cleanupDeployment` and `…Order` are among these).

mod support;

use std::sync::Arc;

use model::ReplicaSet;
use model::plan::{Action, Rule};
use serde_json::{Value, json};
use support::{Api, Did, both, refused, set, set_version, sync, view, web};

/// A Deployment of one pod whose rollout is complete; its own ReplicaSet is `web-50`.
fn complete(limit: i32) -> Value {
    json!({"spec": {"revisionHistoryLimit": limit}, "status": {"replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}})
}

fn clean_up(change: Value, old: impl IntoIterator<Item = Arc<ReplicaSet>>, api: &Api) -> Did {
    sync(view(&web(50, 1, change), old.into_iter().chain([set(50, 1, json!({}))])), api)
}

/// An old one of that size, of which its status counts so many, all of them of no use.
fn old(template: u32, size: i32, counted: i32) -> Arc<ReplicaSet> {
    set(template, size, json!({"status": {"replicas": counted, "readyReplicas": 0, "availableReplicas": 0}}))
}

fn of_revision(template: u32, revision: &str) -> Arc<ReplicaSet> {
    set(template, 0, json!({"metadata": {"annotations": {"deployment.kubernetes.io/revision": revision}}}))
}

fn deleted(did: &Did) -> Vec<&str> {
    did.actions.iter().filter_map(|action| action.strip_prefix("delete ")).collect()
}

fn deleting() -> Value {
    json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
}

#[test]
fn what_is_beyond_the_limit_goes_if_it_is_at_rest_at_zero() {
    for (limit, all, expected) in [
        (1, vec![old(1, 0, 0), old(2, 0, 0), old(3, 0, 0)], vec!["web-1", "web-2"]),
        (0, vec![old(1, 0, 0), old(2, 0, 1)], vec!["web-1"]),
        (0, vec![old(1, 0, 0), old(2, 0, 0)], vec!["web-1", "web-2"]),
        (0, vec![old(1, 0, 1), old(2, 0, 1)], vec![]),
        (0, vec![set(1, 0, deleting())], vec![]),
        (3, vec![old(1, 0, 0), old(2, 0, 0), old(3, 0, 0)], vec![]),
        (9, vec![old(1, 0, 0)], vec![]),
        (i32::MAX, vec![old(1, 0, 0), old(2, 0, 0), old(3, 0, 0)], vec![]),
    ] {
        let did = clean_up(complete(limit), all.clone(), &Api::yes());
        assert_eq!(deleted(&did), expected, "{limit}: {all:?}");
        assert_eq!(did.actions.len(), expected.len());
        assert!(did.steps.iter().all(|step| step.reason == Rule::RevisionHistoryLimit));
    }
    let unlimited = both(complete(0), json!({"spec": {"revisionHistoryLimit": null}}));
    assert!(clean_up(unlimited, [old(1, 0, 0)], &Api::yes()).actions.is_empty());
}

#[test]
fn one_with_pods_stands_in_for_none_behind_it() {
    // Of the first so many as are too many, those with pods stay, and no later one goes instead.
    let paused = |limit| both(complete(limit), json!({"spec": {"paused": true}}));
    for (limit, all, expected) in [
        (1, vec![old(1, 1, 1), old(2, 0, 0), old(3, 0, 0)], vec!["web-2"]),
        (1, vec![old(1, 1, 1), old(2, 1, 1), old(3, 0, 0)], vec![]),
        (0, vec![old(1, 0, 0), old(2, 0, 1), old(3, 1, 0), old(4, 1, 1)], vec!["web-1"]),
    ] {
        // While it is paused old ones keep their pods.
        let did = clean_up(paused(limit), all.clone(), &Api::yes());
        assert_eq!(deleted(&did), expected, "{all:?}");
    }
}

#[test]
fn one_whose_zero_was_not_observed_yet_stays() {
    let unobserved = set(1, 0, json!({"metadata": {"generation": 2}}));
    assert!(clean_up(complete(0), [unobserved], &Api::yes()).actions.is_empty());
}

#[test]
fn one_that_is_being_deleted_does_not_count() {
    let did = clean_up(complete(1), [set(1, 0, deleting()), old(2, 0, 0)], &Api::yes());
    assert!(did.actions.is_empty(), "{:?}", did.actions);
}

#[test]
fn the_lowest_revisions_go_first() {
    for (limit, all, expected) in [
        (1, vec![of_revision(1, "1"), of_revision(2, "2")], vec!["web-1"]),
        (1, vec![of_revision(1, "2"), of_revision(2, "1")], vec!["web-2"]),
        (1, vec![of_revision(1, "1"), set(2, 0, json!({"metadata": {"annotations": null}}))], vec!["web-2"]),
        (1, vec![set(1, 0, json!({"metadata": {"annotations": null}})), of_revision(2, "2")], vec!["web-1"]),
        (2, vec![of_revision(1, "3"), of_revision(2, "1"), of_revision(3, "4"), of_revision(4, "2")], vec!["web-2", "web-4"]),
        (1, vec![of_revision(1, "10"), of_revision(2, "9")], vec!["web-2"]),
        (1, vec![of_revision(2, "7"), of_revision(1, "7")], vec!["web-1"]),
        (1, vec![of_revision(1, "9"), of_revision(2, "no number")], vec!["web-1"]),
    ] {
        assert_eq!(deleted(&clean_up(complete(limit), all.clone(), &Api::yes())), expected, "{all:?}");
    }
}

#[test]
fn it_is_deleted_at_the_version_that_was_at_rest() {
    let did = clean_up(complete(0), [old(1, 0, 0)], &Api::yes());
    let Action::Delete(delete) = &did.steps[0].action else { panic!("{:?}", did.steps) };
    assert!(delete.at_version && delete.target.resource_version.0 == set_version(1));
}

#[test]
fn one_that_is_gone_already_is_no_failure() {
    let api = Api::yes().to("delete web-1", refused(404, "NotFound"));
    let did = clean_up(complete(0), [old(1, 0, 0), old(2, 0, 0)], &api);
    assert_eq!(did.error(), None);
    assert!(did.conclusion.status.is_some());
    // Its end is seen before long, and brings the sync that goes on with the next one.
    assert_eq!(deleted(&clean_up(complete(0), [old(2, 0, 0)], &api)), ["web-2"]);
}

#[test]
fn any_other_failure_ends_the_sync() {
    for code in [409, 500] {
        let did = clean_up(complete(0), [old(1, 0, 0), old(2, 0, 0)], &Api::yes().to("delete", refused(code, "Conflict")));
        assert_eq!((deleted(&did), did.error()), (vec!["web-1"], Some("Conflict for a test")));
        assert!(did.conclusion.status.is_none());
    }
}

#[test]
fn nothing_is_cleaned_before_the_status_has_told_that_all_is_complete() {
    for incomplete in [
        json!({"status": {"updatedReplicas": 0}}),
        json!({"status": {"replicas": 2}}),
        json!({"status": {"availableReplicas": 0}}),
        json!({"metadata": {"generation": 4}}),
        json!({"spec": {"replicas": 2}}),
    ] {
        assert_eq!(deleted(&clean_up(both(complete(0), incomplete.clone()), [old(1, 0, 0)], &Api::yes())), [""; 0], "{incomplete}");
    }
}

#[test]
fn dep_28_after_a_rollback_revisions_decide_not_ages() {
    // Limit 2. v1, v2, v3, undo to v1 (which is revision 4 then), v4, v5: the oldest is not the one to go.
    let sets = [of_revision(1, "4"), of_revision(2, "2"), of_revision(3, "3"), of_revision(4, "5")];
    assert_eq!(deleted(&clean_up(complete(2), sets, &Api::yes())), ["web-2", "web-3"]);
}

#[test]
fn dep_30_a_deployment_at_zero_cleans_its_history() {
    let at_zero = json!({"spec": {"revisionHistoryLimit": 2}});
    let sets = (1..=5).map(|template| set(template, 0, json!({})));
    let did = sync(view(&web(5, 0, at_zero), sets), &Api::yes());
    assert_eq!(did.actions, ["delete web-1", "delete web-2"]);
}
