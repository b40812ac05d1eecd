//! `OrderedReady`: a pod is made or deleted when all before it are available (upstream `processReplica`, `processCondemned`).

mod support;

use model::Pod;
use model::plan::Rule;
use serde_json::json;
use support::{
    Api, all_well, both, db, failed, failed_and_terminating, min_ready, name_of, partition, pending, pod, ready_for, refused, start,
    strategy, succeeded, sync, terminating, unready, view, well,
};

type Change = fn(&mut Pod);

#[test]
fn sts_34_one_pod_after_the_other() {
    let set = db(1, 3, json!({}));
    for (pods, expected) in [
        (vec![], vec!["create db-0"]),
        (vec![pod(0, 1, pending)], vec![]),
        (vec![pod(0, 1, unready)], vec![]),
        (vec![well(0, 1)], vec!["create db-1"]),
        (vec![well(0, 1), pod(1, 1, unready)], vec![]),
        (all_well(0..2, 1), vec!["create db-2"]),
        (all_well(0..3, 1), vec![]),
        // Whatever is behind it.
        (vec![well(2, 1)], vec!["create db-0"]),
        (vec![pod(0, 1, unready), pod(2, 1, failed)], vec![]),
    ] {
        let did = sync(view(&set, pods.clone()), &Api::yes());
        assert_eq!((&did.actions, did.error()), (&expected.iter().map(ToString::to_string).collect(), None), "{pods:?}");
        assert!(did.steps.iter().all(|step| step.reason == Rule::TooFewReplicas));
    }
    let did = sync(view(&db(1, 3, start(7)), [well(7, 1)]), &Api::yes());
    assert_eq!(did.actions, ["create db-8"]);
}

#[test]
fn what_must_be_waited_for() {
    let not_for_long: Change = |pod| ready_for(4)(pod);
    for (change, seconds) in [
        (terminating as Change, 0),
        (pending, 0),
        (unready, 0),
        (failed_and_terminating, 0),
        (not_for_long, 5),
        (|pod: &mut Pod| pod.phase = model::pod::Phase::Unknown, 0),
        (|pod: &mut Pod| pod.phase = model::pod::Phase::Other, 0),
        (|pod: &mut Pod| pod.ready_changed = None, 5),
    ] {
        // With a pod to be made, one to be scaled away, and one to be updated behind it.
        for pods in [vec![pod(0, 1, change)], vec![pod(0, 1, change), well(1, 1)], vec![pod(0, 1, change), well(1, 1), well(2, 1)]] {
            let did = sync(view(&db(2, 2, min_ready(seconds)), pods.clone()), &Api::yes());
            assert!(did.did_nothing(), "{pods:?}: {did:?}");
        }
    }
    // Of a pod that was ready all the time nobody needs to know since when, if there is no minimum.
    let did = sync(view(&db(1, 2, json!({})), [pod(0, 1, |pod| pod.ready_changed = None)]), &Api::yes());
    assert_eq!(did.actions, ["create db-1"]);
}

#[test]
fn sts_33_a_terminating_pod_holds_back_its_successors() {
    let did = sync(view(&db(1, 3, json!({})), [well(0, 1), pod(1, 1, terminating), well(2, 1)]), &Api::yes());
    assert!(did.did_nothing());
    let did = sync(view(&db(1, 3, json!({})), [well(0, 1), well(2, 1)]), &Api::yes());
    assert_eq!(did.actions, ["create db-1"]);
}

#[test]
fn sts_43_minimum_ready_time_and_a_timer_for_the_next_step() {
    let set = |replicas| db(1, replicas, min_ready(30));
    for (replicas, pods, expected, timer) in [
        (2, vec![pod(0, 1, ready_for(29))], vec![], Some(1)),
        (2, vec![pod(0, 1, ready_for(30))], vec!["create db-1"], None),
        (2, vec![well(0, 1), pod(1, 1, ready_for(10))], vec![], Some(20)),
        (2, vec![pod(0, 1, ready_for(12)), pod(1, 1, ready_for(10))], vec![], Some(18)),
        // A clock that goes ahead.
        (1, vec![pod(0, 1, ready_for(-5))], vec![], Some(35)),
        (1, vec![pod(0, 1, |pod| pod.ready_changed = None)], vec![], Some(30)),
        (2, vec![well(0, 1), pod(1, 1, unready)], vec![], None),
        // Scaled down by two, one of which is not yet available.
        (1, vec![well(0, 1), well(1, 1), pod(2, 1, ready_for(20))], vec!["delete db-2"], Some(10)),
        (1, vec![well(0, 1), pod(1, 1, ready_for(20)), pod(2, 1, ready_for(20))], vec![], Some(10)),
        (1, vec![pod(0, 1, ready_for(20)), well(1, 1), well(2, 1)], vec![], Some(10)),
    ] {
        let did = sync(view(&set(replicas), pods.clone()), &Api::yes());
        assert_eq!(did.actions, expected, "{pods:?}");
        assert_eq!(did.requeue_after(), timer, "{pods:?}");
    }
    let did = sync(view(&db(1, 1, json!({})), [well(0, 1)]), &Api::yes());
    assert_eq!(did.requeue_after(), None);
    // Whoever has failed comes back anyway.
    let nameless = pod(0, 1, |pod| pod.own_labels.name = false);
    let did = sync(view(&set(2), [nameless, pod(1, 1, ready_for(20))]), &Api::yes().to("label", refused(409, "Conflict")));
    assert!(did.requeue_after().is_none() && did.error().is_some());
}

#[test]
fn condemned_pods_go_one_by_one_from_the_highest() {
    let set = db(1, 1, json!({}));
    for (pods, expected) in [
        (all_well(0..4, 1), vec!["delete db-3"]),
        (vec![well(0, 1), well(11, 1), well(2, 1)], vec!["delete db-11"]),
        (vec![well(0, 1), well(1, 1), pod(2, 1, terminating)], vec![]),
        (vec![pod(0, 1, unready), well(1, 1)], vec![]),
        (vec![well(1, 1)], vec!["create db-0"]),
        // Of those that are not well the lowest needs no waiting for, so they go from there on.
        (vec![well(0, 1), well(1, 1), pod(2, 1, unready)], vec!["delete db-2"]),
        (vec![well(0, 1), pod(1, 1, unready), pod(2, 1, unready)], vec![]),
        (vec![well(0, 1), pod(1, 1, unready), well(2, 1)], vec!["delete db-2"]),
        (vec![well(0, 1), pod(1, 1, unready)], vec!["delete db-1"]),
        (vec![well(0, 1), pod(1, 1, pending)], vec!["delete db-1"]),
        (vec![well(0, 1), pod(1, 1, failed)], vec!["delete db-1"]),
        (vec![well(0, 1), pod(1, 1, terminating), pod(2, 1, unready)], vec![]),
        // Upstream lets two that have finished wait for each other, for ever.
        (vec![well(0, 1), pod(1, 1, failed), pod(2, 1, failed)], vec!["delete db-2"]),
    ] {
        let did = sync(view(&set, pods.clone()), &Api::yes());
        assert_eq!((&did.actions, did.error()), (&expected.iter().map(ToString::to_string).collect(), None), "{pods:?}");
        assert!(did.steps.iter().all(|step| matches!(step.reason, Rule::ScaledDown | Rule::TooFewReplicas)));
    }
    // Below the first ordinal, too.
    let did = sync(view(&db(1, 1, start(2)), all_well(0..4, 1)), &Api::yes());
    assert_eq!(did.actions, ["delete db-3"]);
    let did = sync(view(&db(1, 1, start(2)), all_well(0..3, 1)), &Api::yes());
    assert_eq!(did.actions, ["delete db-1"]);
}

#[test]
fn condemned_pods_come_before_updates() {
    let did = sync(view(&db(2, 1, json!({})), all_well(0..2, 1)), &Api::yes());
    assert_eq!(did.actions, ["delete db-1"]);
    assert_eq!(did.counts(), [2, 2, 2, 2, 0], "what goes is still counted");
    let did = sync(view(&db(2, 1, json!({})), [well(0, 1), pod(1, 1, terminating)]), &Api::yes());
    assert!(did.did_nothing());
}

#[test]
fn a_delete_is_of_this_very_pod_and_may_come_too_late() {
    let set = db(1, 1, json!({}));
    let did = sync(view(&set, all_well(0..2, 1)), &Api::yes());
    let model::plan::Action::Delete(delete) = &did.steps[0].action else { panic!("{did:?}") };
    assert_eq!((delete.target.uid, delete.at_version), (support::pod_uid(1), false));
    for refusal in [refused(404, "NotFound"), refused(409, "Conflict")] {
        let did = sync(view(&set, all_well(0..2, 1)), &Api::yes().to("delete", refusal));
        assert_eq!(did.error(), None);
        assert_eq!(did.events, ["Normal SuccessfulDelete: Delete Pod db-1 in StatefulSet db successful"]);
    }
    let did = sync(view(&set, all_well(0..2, 1)), &Api::yes().to("delete", refused(500, "InternalError")));
    assert_eq!(did.error(), Some("InternalError for a test"));
    assert_eq!(did.events, ["Warning FailedDelete: Delete Pod db-1 in StatefulSet db failed error: InternalError for a test"]);
}

#[test]
fn sts_31_sts_39_a_pod_that_has_ended_is_replaced_and_it_is_told_why() {
    let set = db(1, 3, json!({}));
    for (change, event) in [
        (failed as Change, "Warning RecreatingFailedPod: StatefulSet shop/db is recreating failed Pod db-1"),
        (succeeded, "Warning RecreatingTerminatedPod: StatefulSet shop/db is recreating terminated Pod db-1"),
    ] {
        let did = sync(view(&set, [well(0, 1), pod(1, 1, change)]), &Api::yes());
        assert_eq!((did.actions.as_slice(), did.steps[0].reason), (["delete db-1".to_owned()].as_slice(), Rule::PodFinished));
        let deleted = "Normal SuccessfulDelete: Delete Pod db-1 in StatefulSet db successful";
        assert_eq!(did.events, [deleted, event], "one event");
        assert_eq!(did.counts(), [2, 1, 1, 2, 2]);
    }
    // Only once, and what comes behind waits.
    let did = sync(view(&set, [well(0, 1), pod(1, 1, failed_and_terminating), pod(2, 1, failed)]), &Api::yes());
    assert!(did.did_nothing() && did.events.is_empty());
    // Nothing is said of one that goes for another reason.
    let did = sync(view(&db(1, 1, json!({})), [well(0, 1), pod(1, 1, failed)]), &Api::yes());
    assert_eq!(did.events.len(), 1);
}

#[test]
fn sts_01_a_rollout_that_waits_for_a_broken_pod_says_so() {
    let event = |did: &support::did::Did| did.events.iter().find(|event| event.contains("RolloutStalled")).cloned();
    let set = db(2, 3, json!({}));
    for broken in [pending as Change, unready] {
        let did = sync(view(&set, [well(0, 1), well(1, 1), pod(2, 1, broken)]), &Api::yes());
        assert!(did.did_nothing(), "as upstream");
        let expected = format!(
            "Warning RolloutStalled: Pod db-2 is not ready and of revision {}: the rollout of {} waits for it. If it cannot become ready, \
             delete it",
            name_of(1),
            name_of(2)
        );
        assert_eq!(event(&did), Some(expected));
    }
    for (set, pod) in [
        // It goes already, or is of the update revision.
        (set.clone(), pod(0, 1, terminating)),
        (set.clone(), pod(0, 1, failed)),
        (set.clone(), pod(0, 2, unready)),
        // It is only not yet available, or no rollout is to replace it.
        (db(2, 3, min_ready(30)), pod(0, 1, ready_for(5))),
        (db(2, 3, strategy("OnDelete")), pod(0, 1, unready)),
        (db(2, 3, partition(1)), pod(0, 1, unready)),
        (db(2, 3, both(support::parallel(), partition(3))), pod(0, 1, unready)),
    ] {
        let did = sync(view(&set, [pod.clone()]), &Api::yes());
        assert_eq!(event(&did), None, "{pod:?}");
    }
    let did = sync(view(&db(2, 3, both(partition(1), start(4))), [well(4, 1), pod(5, 1, unready)]), &Api::yes());
    assert!(event(&did).is_some());
}

#[test]
fn a_pod_that_cannot_be_made_ends_the_sync() {
    let did = sync(view(&db(1, 3, json!({})), [well(0, 1), well(2, 1), well(3, 1)]), &Api::yes().to("create", refused(403, "Forbidden")));
    assert_eq!((did.actions.as_slice(), did.error()), (["create db-1".to_owned()].as_slice(), Some("Forbidden for a test")));
    assert_eq!(did.events, ["Warning FailedCreate: Create Pod db-1 in StatefulSet db failed error: Forbidden for a test"]);
}

#[test]
fn sts_36_the_status_is_true_after_a_refusal() {
    let did = sync(view(&db(1, 3, json!({})), [well(0, 1)]), &Api::yes().to("create", refused(403, "Forbidden")));
    assert_eq!(did.counts(), [1, 1, 1, 1, 1]);
    assert_eq!(did.status()["observedGeneration"], 3);
}

#[test]
fn sts_18_a_pod_that_lingers_comes_back_at_its_revision() {
    // The old pod is gone from the cache and not yet from the server.
    let set = db(2, 2, partition(1));
    let did = sync(view(&set, [well(1, 2)]), &Api::yes().to("create", refused(409, "AlreadyExists")));
    assert_eq!((did.actions.as_slice(), did.error()), (["create db-0".to_owned()].as_slice(), Some("AlreadyExists for a test")));
    assert!(did.events.is_empty(), "the next sync knows more");
    assert_eq!((did.revisions(), did.counts()), (["revision 1", "revision 2"].map(str::to_owned), [1, 1, 1, 0, 1]));
    assert_eq!(did.revision_of("db-0"), "revision 1");
    // It is seen, and waited for.
    let did = sync(view(&set, [pod(0, 1, failed_and_terminating), well(1, 2)]), &Api::yes());
    assert!(did.did_nothing());
    assert_eq!(did.revisions(), ["revision 1", "revision 2"]);
}

#[test]
fn a_set_that_is_deleted_touches_nothing() {
    for replicas in [0, 3] {
        let pods = [pod(0, 1, failed), well(1, 1), well(4, 1)];
        let did = sync(view(&db(2, replicas, support::deleting()), pods), &Api::yes());
        assert!(did.did_nothing() && did.events.is_empty());
        assert_eq!(did.counts(), [3, 2, 2, 3, 0]);
    }
}
