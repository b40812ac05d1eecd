//! What a Deployment waits for: each rule reached, and nothing said where nothing is waited for.
//!
//! A [`Wait`] is built here only to be compared: a test of the program takes the rules of this file for reached.

mod support;

use std::sync::Arc;

use model::plan::{ApiError, Outcome, Rule, Wait};
use model::{Deployment, ReplicaSet, Time};
use serde_json::{Value, json};
use support::{Api, NOW, api_error, available, both, condition, recreate, rolling, set, set_uid, sized, sync, view, web};

const SECOND: i64 = 1_000_000_000;

fn waits(deployment: &Arc<Deployment>, sets: impl IntoIterator<Item = Arc<ReplicaSet>>) -> Vec<Wait> {
    sync(view(deployment, sets), &Api::yes()).conclusion.waits
}

/// The Deployment's condition Progressing, as it was so many seconds ago.
fn progressing(reason: &str, seconds_ago: i64) -> Value {
    let status = if reason == "ProgressDeadlineExceeded" { "False" } else { "True" };
    json!({"spec": {"progressDeadlineSeconds": 600}, "status": {"conditions": [condition("Progressing", status, reason, seconds_ago)]}})
}

/// Counts that the Deployment's status has already, so that nothing in them is progress.
fn counted(replicas: i32, updated: i32, available: i32) -> Value {
    json!({"status": {"replicas": replicas, "updatedReplicas": updated, "readyReplicas": available, "availableReplicas": available}})
}

/// A ReplicaSet of a Deployment of ten that may surge to thirteen.
fn of_ten(template: u32, replicas: i32, there: i32) -> Arc<ReplicaSet> {
    set(template, replicas, both(sized(10, 13), available(there)))
}

#[test]
fn a_rollout_that_is_complete_waits_for_nothing() {
    let done = progressing("NewReplicaSetAvailable", 3600);
    assert_eq!(waits(&web(2, 10, both(rolling(3, 2), done.clone())), [of_ten(1, 0, 0), of_ten(2, 10, 10)]), []);
    assert_eq!(waits(&web(2, 3, both(recreate(), done.clone())), [set(1, 0, json!({})), set(2, 3, json!({}))]), []);
    // Paused, with nothing left to roll out; and of no size.
    let paused = json!({"spec": {"paused": true}});
    assert_eq!(waits(&web(2, 10, both(done.clone(), paused)), [of_ten(1, 0, 0), of_ten(2, 10, 10)]), []);
    assert_eq!(waits(&web(1, 0, done), [set(1, 0, json!({}))]), []);
}

#[test]
fn a_rollout_whose_new_pods_do_not_become_ready() {
    // Ten wanted, up to thirteen, at least eight: old ones are down to eight, new ones up to five, none of these ready.
    let stuck = both(both(rolling(3, 2), progressing("ReplicaSetUpdated", 100)), counted(13, 5, 8));
    let expected = [
        Wait::on(Rule::SurgeCeiling, "web-2").counting(&[("desired", 10), ("new", 5), ("total", 13), ("replicas+maxSurge", 13)]),
        Wait::new(Rule::AvailabilityFloor).counting(&[("desired", 10), ("old", 8), ("available", 8), ("replicas-maxUnavailable", 8)]),
        Wait::on(Rule::PodsNotReady, "web-2").counting(&[("new", 5), ("ready", 0), ("available", 0)]),
        Wait::new(Rule::ProgressDeadline).counting(&[("progressDeadlineSeconds", 600)]).until(Some(Time(NOW.0 + 500 * SECOND))),
    ];
    assert_eq!(waits(&web(2, 10, stuck), [of_ten(1, 8, 8), of_ten(2, 5, 0)]), expected);
}

#[test]
fn a_ceiling_is_said_with_the_sizes_that_this_sync_gives() {
    let fresh = both(rolling(3, 2), counted(10, 0, 10));
    let waits = waits(&web(2, 10, fresh), [of_ten(1, 10, 10), of_ten(2, 0, 0)]);
    let figures = [("desired", 10), ("new", 3), ("total", 13), ("replicas+maxSurge", 13)];
    assert_eq!(waits.first(), Some(&Wait::on(Rule::SurgeCeiling, "web-2").counting(&figures)));
    // Old ones are taken by a later sync, so nothing keeps them yet.
    assert!(waits.iter().all(|wait| wait.rule != Rule::AvailabilityFloor), "{waits:?}");
}

#[test]
fn a_floor_is_not_said_by_a_sync_that_takes_old_pods() {
    let rolling = both(rolling(0, 2), counted(10, 0, 10));
    let did = sync(view(&web(2, 10, rolling), [of_ten(1, 10, 10), of_ten(2, 0, 0)]), &Api::yes());
    assert_eq!(did.sizes(), [("web-1", 8)]);
    assert!(did.conclusion.waits.iter().all(|wait| wait.rule != Rule::AvailabilityFloor), "{:?}", did.conclusion.waits);
}

#[test]
fn a_deadline_that_is_over() {
    let late = both(both(rolling(3, 2), progressing("ProgressDeadlineExceeded", 700)), counted(13, 5, 8));
    let waits = waits(&web(2, 10, late), [of_ten(1, 8, 8), of_ten(2, 5, 0)]);
    let over = Wait::new(Rule::ProgressDeadlineExceeded).counting(&[("progressDeadlineSeconds", 600)]);
    assert_eq!(waits.last(), Some(&over));
    assert!(waits.iter().all(|wait| wait.rule != Rule::ProgressDeadline), "{waits:?}");
}

#[test]
fn pods_that_fail_after_a_rollout_are_no_rollout() {
    let done = both(progressing("NewReplicaSetAvailable", 3600), counted(10, 10, 10));
    let expected = [Wait::on(Rule::PodsNotReady, "web-1").counting(&[("new", 10), ("ready", 7), ("available", 7)])];
    assert_eq!(waits(&web(1, 10, both(rolling(3, 2), done)), [of_ten(1, 10, 7)]), expected);
}

#[test]
fn the_time_that_ready_pods_must_have_been_ready_for() {
    let slow = both(both(rolling(3, 2), counted(10, 10, 4)), json!({"spec": {"minReadySeconds": 60, "progressDeadlineSeconds": i32::MAX}}));
    let young = json!({"status": {"readyReplicas": 10, "availableReplicas": 4}, "spec": {"minReadySeconds": 60}});
    let expected = [Wait::on(Rule::MinReadySeconds, "web-1").counting(&[("ready", 10), ("available", 4), ("minReadySeconds", 60)])];
    assert_eq!(waits(&web(1, 10, slow), [set(1, 10, both(sized(10, 13), young))]), expected);
}

#[test]
fn a_pause_that_holds_a_rollout_back() {
    let paused = || json!({"spec": {"paused": true}});
    let without_new = [Wait::new(Rule::Paused).counting(&[("new", 0), ("old", 10)])];
    assert_eq!(waits(&web(2, 10, paused()), [of_ten(1, 10, 10)]), without_new);
    let half_way = [
        Wait::new(Rule::Paused).counting(&[("new", 5), ("old", 8)]),
        Wait::on(Rule::PodsNotReady, "web-2").counting(&[("new", 5), ("ready", 1), ("available", 1)]),
    ];
    assert_eq!(waits(&web(2, 10, both(rolling(3, 2), paused())), [of_ten(1, 8, 8), of_ten(2, 5, 1)]), half_way);
    // A rollback that was asked for is a rollout, too.
    let asked = json!({"metadata": {"annotations": {"deprecated.deployment.rollback.to": "1"}}});
    let rollback = [Wait::new(Rule::Paused).counting(&[("new", 10), ("old", 0)])];
    assert_eq!(waits(&web(2, 10, both(paused(), asked)), [of_ten(1, 0, 0), of_ten(2, 10, 10)]), rollback);
}

#[test]
fn a_replica_set_that_cannot_make_its_pods() {
    let quota = "pods \"web-2-\" is forbidden: exceeded quota: few, requested: pods=1, used: pods=8, limited: pods=8";
    let failure = json!({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": quota,
        "lastTransitionTime": "2027-01-15T07:59:00Z"});
    let failing = json!({"status": {"replicas": 0, "conditions": [failure]}});
    let waits = waits(
        &web(2, 10, both(rolling(3, 2), counted(8, 0, 8))),
        [of_ten(1, 8, 8), set(2, 5, both(both(sized(10, 13), available(0)), failing))],
    );
    assert!(waits.contains(&Wait::on(Rule::ReplicaFailure, "web-2").saying(quota)), "{waits:?}");
}

#[test]
fn a_status_that_is_behind_its_size() {
    // Eight are said to be available of an old ReplicaSet of six.
    let behind = both(rolling(0, 4), counted(12, 4, 8));
    let waits = waits(&web(2, 10, behind), [of_ten(1, 6, 8), of_ten(2, 4, 4)]);
    let expected = Wait::on(Rule::ReplicaSetStatusBehind, "web-1").counting(&[("size", 6), ("available", 8)]);
    assert!(waits.contains(&expected), "{waits:?}");
}

#[test]
fn pods_that_an_old_replica_set_has_not_let_go() {
    let last = both(rolling(3, 2), both(counted(11, 10, 11), json!({"spec": {"progressDeadlineSeconds": i32::MAX}})));
    let old = set(1, 0, both(sized(10, 13), json!({"status": {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1}})));
    let expected = [Wait::on(Rule::ReplicaSetStatusBehind, "web-1").counting(&[("size", 0), ("pods", 1)])];
    assert_eq!(waits(&web(2, 10, last), [old, of_ten(2, 10, 10)]), expected);
    // Made smaller while it is paused.
    let paused = web(2, 0, json!({"spec": {"paused": true}}));
    let expected = [Wait::on(Rule::ReplicaSetStatusBehind, "web-2").counting(&[("size", 0), ("pods", 3)])];
    let status = json!({"status": {"replicas": 3, "readyReplicas": 3, "availableReplicas": 3}});
    assert_eq!(waits(&paused, [set(2, 0, both(sized(0, 0), status))]), expected);
}

#[test]
fn old_pods_that_a_recreation_waits_for() {
    let stopping = both(recreate(), json!({"spec": {"progressDeadlineSeconds": i32::MAX}}));
    let old = |replicas, terminating| set(1, 0, json!({"status": {"replicas": replicas, "terminatingReplicas": terminating}}));
    let expected = |figures: &[(&'static str, i32)]| [Wait::on(Rule::OldPodsRun, "web-1").counting(figures)];
    assert_eq!(waits(&web(2, 3, stopping.clone()), [old(3, 0)]), expected(&[("pods", 3)]));
    // A status counts none, and there are some all the same.
    let api = Api { unfinished: [set_uid(1)].into(), ..Api::yes() };
    let waits = |terminating| sync(view(&web(2, 3, stopping.clone()), [old(0, terminating)]), &api).conclusion.waits;
    assert_eq!(waits(2), expected(&[("terminating", 2)]));
    assert_eq!(waits(0), expected(&[]));
}

#[test]
fn its_deletion() {
    let deleted = json!({"metadata": {"deletionTimestamp": "2027-01-15T07:59:00Z"}});
    assert_eq!(waits(&web(1, 3, deleted), [set(1, 3, available(0))]), [Wait::new(Rule::BeingDeleted)]);
}

#[test]
fn a_selector_that_can_be_used() {
    let broken = json!({"spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}}});
    let waits_of = waits(&web(1, 3, broken), []);
    let [wait] = waits_of.as_slice() else { panic!("{waits_of:?}") };
    assert!(wait.is_same(&Wait::new(Rule::InvalidSelector)), "{wait:?}");
    assert!(wait.detail.as_deref().is_some_and(|why| why.contains("Near")), "{wait:?}");
    let all = json!({"spec": {"selector": {"matchLabels": null}}});
    assert_eq!(waits(&web(1, 3, all), []), [Wait::new(Rule::SelectsAll)]);
}

#[test]
fn a_strategy_that_is_known() {
    let unknown = json!({"spec": {"strategy": {"type": "Sideways", "rollingUpdate": null}}});
    let did = sync(view(&web(1, 3, unknown), [set(1, 3, json!({}))]), &Api::yes());
    assert_eq!(did.conclusion.waits, [Wait::new(Rule::UnknownStrategy).saying("Sideways")]);
    assert_eq!(did.error(), Some("unexpected deployment strategy type: Sideways"));
}

#[test]
fn the_end_of_its_namespace() {
    let terminating = ApiError { namespace_terminating: true, ..api_error(403, "Forbidden") };
    let did = sync(view(&web(1, 3, json!({})), []), &Api::yes().to("create", Outcome::Failed(terminating)));
    assert_eq!((did.conclusion.waits.as_slice(), did.error()), ([Wait::new(Rule::NamespaceTerminating)].as_slice(), None));
}
