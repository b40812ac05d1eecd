//! One sync at a time: what is created, deleted, adopted, released and reported.

mod support;

use std::time::Duration;

use model::plan::{Answer, Decision, Outcome, Outcomes, Question};
use model::pod::Phase;
use model::{ControllerRef, Timestamp, Uid};
use replicaset::{BURST_REPLICAS, View, decide, deletion_age_ratios};
use serde_json::json;
use support::{GATES, NOW, api_error, done, labels, owned_by, pod, pods, set, sync, view};

#[test]
fn too_few_pods_are_created_and_never_more_than_a_burst() {
    for (have, want, created) in [(0, 3, 3), (2, 3, 1), (3, 3, 0), (0, 10_000, BURST_REPLICAS)] {
        let did = sync(view(&set(want, |_| {}), pods(0..have)), None, |_| done("new"));
        assert_eq!(did.count("create web-"), created, "{have} of {want}");
        assert_eq!(did.conclusion.error, None);
    }
}

#[test]
fn too_many_pods_are_deleted_and_never_more_than_a_burst() {
    for (have, want, deleted) in [(3, 0, 3), (3, 2, 1), (600, 0, BURST_REPLICAS)] {
        let did = sync(view(&set(want, |_| {}), pods(0..have)), None, |_| done("old"));
        assert_eq!(did.count("delete"), deleted, "{have} of {want}");
    }
}

#[test]
fn related_pods_are_looked_up_only_when_there_is_a_choice() {
    let all = sync(view(&set(0, |_| {}), pods(0..3)), None, |_| done("old"));
    assert_eq!(all.lookups, 0);
    let some = sync(view(&set(1, |_| {}), pods(0..3)), None, |_| done("old"));
    assert_eq!(some.lookups, 1);
}

#[test]
fn unseen_writes_keep_the_replicas_unmanaged_but_the_status_is_written() {
    let set = set(3, |json| json["status"]["conditions"] = json!([{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"}]));
    let did = sync(View::new(set, pods(0..1), false, GATES), None, |_| done("new"));
    assert!(did.actions.is_empty());
    assert_eq!(did.status()["replicas"], 1);
    // Parity: the condition goes although nothing was tried.
    assert_eq!(did.status().get("conditions"), None);
}

#[test]
fn finished_and_terminating_pods_do_not_count() {
    let mut all = pods(0..1);
    all.push(pod(1, |pod| pod.phase = Phase::Failed));
    all.push(pod(2, |pod| pod.phase = Phase::Succeeded));
    all.push(pod(3, |pod| pod.deletion = Timestamp::from_seconds(5)));
    let did = sync(view(&set(3, |_| {}), all), None, |_| done("new"));
    assert_eq!(did.count("create"), 2);
    let status = did.status();
    assert_eq!((&status["replicas"], &status["terminatingReplicas"]), (&json!(1), &json!(1)));
}

#[test]
fn orphans_that_match_are_adopted_after_one_live_look_at_the_owner() {
    let orphans = vec![pod(0, |pod| pod.controller = ControllerRef::None), pod(1, |pod| pod.controller = ControllerRef::None)];
    let did = sync(view(&set(2, |_| {}), orphans), None, |_| done("pod"));
    assert_eq!(did.actions, ["adopt web-00000", "adopt web-00001"]);
    assert!(matches!(did.asked.as_slice(), [Question::MayAdopt(_)]));
    assert_eq!(did.status()["replicas"], 2);
}

#[test]
fn an_owner_that_is_gone_adopts_nobody_and_the_sync_fails() {
    let live = [
        (Answer::Owner { uid: Uid(9), deleting: false }, "is gone"),
        (Answer::Owner { uid: support::SET_UID, deleting: true }, "has just been deleted"),
        (Answer::Failed(api_error(500, "InternalError")), "can't recheck DeletionTimestamp"),
    ];
    for (answer, text) in live {
        let orphan = pod(0, |pod| pod.controller = ControllerRef::None);
        let strayed = pod(1, |pod| pod.label_set = labels(&[("app", "other")]).into());
        let did = sync(view(&set(1, |_| {}), vec![orphan, strayed]), Some(&answer), |_| done("pod"));
        assert_eq!(did.actions, ["release web-00001"], "releases are still tried, nothing else is");
        let error = did.conclusion.error.unwrap().0;
        assert!(error.contains(text), "{error}");
        assert!(did.conclusion.status.is_none());
    }
}

#[test]
fn pods_of_others_and_pods_that_do_not_match_are_left_alone() {
    let others = vec![
        pod(0, |pod| pod.controller = owned_by(Uid(77))),
        pod(1, |pod| pod.controller = ControllerRef::Foreign),
        pod(2, |pod| {
            pod.controller = ControllerRef::None;
            pod.label_set = labels(&[("app", "db")]).into();
        }),
    ];
    let did = sync(view(&set(0, |_| {}), others), None, |_| done("pod"));
    assert!(did.actions.is_empty(), "{:?}", did.actions);
}

#[test]
fn a_deleted_set_neither_claims_nor_manages() {
    let gone = set(5, |json| json["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    let mine = vec![
        pod(0, |_| {}),
        pod(1, |pod| pod.controller = ControllerRef::None),
        pod(2, |pod| pod.label_set = labels(&[("app", "other")]).into()),
    ];
    let did = sync(view(&gone, mine), None, |_| done("pod"));
    assert!(did.actions.is_empty(), "{:?}", did.actions);
    assert_eq!(did.status()["replicas"], 1);
}

#[test]
fn lost_races_of_claims_are_no_failures() {
    let orphan = pod(0, |pod| pod.controller = ControllerRef::None);
    let strayed = pod(1, |pod| pod.label_set = labels(&[("app", "other")]).into());
    let did = sync(view(&set(0, |_| {}), vec![orphan.clone(), strayed.clone()]), None, |action| match action.target().unwrap().uid {
        Uid(0) => Outcome::Failed(api_error(404, "NotFound")),
        _ => Outcome::Failed(api_error(422, "Invalid")),
    });
    assert_eq!(did.conclusion.error, None);
    let did = sync(view(&set(0, |_| {}), vec![orphan, strayed]), None, |_| Outcome::Failed(api_error(500, "InternalError")));
    assert_eq!(did.conclusion.error.unwrap().0, "InternalError for a test", "equal errors are said once");
}

#[test]
fn a_refused_create_becomes_the_condition_and_the_syncs_error() {
    let did = sync(view(&set(2, |_| {}), vec![]), None, |_| Outcome::Failed(api_error(403, "Forbidden")));
    assert_eq!(did.conclusion.error.as_ref().unwrap().0, "Forbidden for a test");
    let condition = &did.status()["conditions"][0];
    assert_eq!((&condition["type"], &condition["reason"]), (&json!("ReplicaFailure"), &json!("FailedCreate")));
    assert_eq!(condition["lastTransitionTime"], "2027-01-15T08:00:00Z");
}

#[test]
fn what_is_no_failure_leaves_no_condition() {
    let mut terminating = api_error(403, "Forbidden");
    terminating.namespace_terminating = true;
    let did = sync(view(&set(1, |_| {}), vec![]), None, |_| Outcome::Failed(terminating.clone()));
    assert_eq!(did.conclusion.error, None);
    let did = sync(view(&set(0, |_| {}), pods(0..1)), None, |_| Outcome::Failed(api_error(404, "NotFound")));
    assert_eq!(did.conclusion.error, None);
}

#[test]
fn rs_11_a_pod_that_changed_under_its_delete_is_planned_again_without_a_complaint() {
    let did = sync(view(&set(0, |_| {}), pods(0..2)), None, |_| Outcome::Failed(api_error(409, "Conflict")));
    assert!(did.conclusion.error.is_some(), "the key is tried again");
    assert_eq!(did.status().get("conditions"), None);
}

#[test]
fn a_template_without_labels_is_reported_and_not_sent() {
    let bare = set(1, |json| json["spec"]["template"] = json!({"spec": {}}));
    let did = sync(view(&bare, vec![]), None, |_| done("new"));
    assert!(did.actions.is_empty());
    assert_eq!(did.conclusion.error.as_ref().unwrap().0, "unable to create pods, no labels");
    assert_eq!(did.status()["conditions"][0]["reason"], "FailedCreate");
}

#[test]
fn a_selector_that_cannot_be_read_ends_the_sync_quietly() {
    let odd = set(1, |json| json["spec"]["selector"] = json!({"matchExpressions": [{"key": "a", "operator": "Like"}]}));
    let did = sync(view(&odd, vec![]), None, |_| done("new"));
    assert!(did.actions.is_empty() && did.conclusion.error.is_none() && did.conclusion.status.is_none());
}

#[test]
fn nothing_is_written_when_nothing_changed() {
    let status = json!({"replicas": 2, "fullyLabeledReplicas": 2, "readyReplicas": 2, "availableReplicas": 2,
        "terminatingReplicas": 0, "observedGeneration": 1, "fieldOfTheFuture": 1});
    let settled = set(2, |json| json["status"] = status.clone());
    assert!(sync(view(&settled, pods(0..2)), None, |_| done("x")).conclusion.status.is_none());
    let newer = set(2, |json| {
        json["status"] = status.clone();
        json["metadata"]["generation"] = json!(2);
    });
    let did = sync(view(&newer, pods(0..2)), None, |_| done("x"));
    assert_eq!((&did.status()["observedGeneration"], &did.status()["fieldOfTheFuture"]), (&json!(2), &json!(1)));
}

#[test]
fn rs_15_availability_is_looked_at_again_when_the_next_pod_is_due() {
    let slow = set(3, |json| json["spec"]["minReadySeconds"] = json!(60));
    let now = NOW.0 / 1_000_000_000;
    let ready_at = |number, seconds| pod(number, |pod| pod.ready_changed = Timestamp::from_seconds(seconds));
    let did = sync(view(&slow, vec![ready_at(0, now - 60), ready_at(1, now - 45), ready_at(2, now - 20)]), None, |_| done("x"));
    assert_eq!(did.status()["availableReplicas"], 1);
    assert_eq!(did.conclusion.requeue_after, Some(Duration::from_secs(15)));
}

#[test]
fn rs_16_a_ready_time_in_the_future_is_waited_for() {
    let slow = set(1, |json| json["spec"]["minReadySeconds"] = json!(10));
    let ahead = pod(0, |pod| pod.ready_changed = Timestamp::from_seconds(NOW.0 / 1_000_000_000 + 30));
    let did = sync(view(&slow, vec![ahead]), None, |_| done("x"));
    assert_eq!(did.conclusion.requeue_after, Some(Duration::from_secs(40)));
}

#[test]
fn rs_25_pods_that_are_ready_but_not_available_go_without_waiting() {
    let slow = set(3, |json| json["spec"]["minReadySeconds"] = json!(99_999));
    let did = sync(view(&slow, pods(0..5)), None, |_| done("x"));
    assert_eq!(did.count("delete"), 2);
}

#[test]
fn rs_27_finished_pods_are_neither_touched_nor_counted() {
    let mut all = pods(0..3);
    all.extend((3..23).map(|number| pod(number, |pod| pod.phase = Phase::Failed)));
    let did = sync(view(&set(3, |_| {}), all), None, |_| done("x"));
    assert!(did.actions.is_empty());
    assert_eq!(did.status()["replicas"], 3);
}

#[test]
fn the_ages_of_the_pods_picked_are_told_against_the_youngest() {
    let seconds_old = |number, seconds| pod(number, |pod| pod.created = Timestamp::from_seconds(NOW.0 / 1_000_000_000 - seconds));
    let all = vec![seconds_old(0, 100), seconds_old(1, 35), seconds_old(2, 10), pod(3, |pod| pod.ready = false)];
    let mut view = view(&set(0, |_| {}), all.clone());
    let Decision::Act(claims) = decide(&view, NOW) else { panic!("claims come first") };
    view.absorb(&claims, &Outcomes(vec![vec![]]));
    let Decision::Act(plan) = decide(&view, NOW) else { panic!("then the deletes") };
    assert!(deletion_age_ratios(&view, &plan, NOW).is_empty(), "nothing was chosen");
    view.relate(all);
    let mut ratios = deletion_age_ratios(&view, &plan, NOW);
    ratios.sort_by(f64::total_cmp);
    assert_eq!(ratios, [1.0, 3.0, 10.0]);
}
