//! What is reported (upstream `updateStatus`, `completeUpdate`, `inconsistentStatus`).

mod support;

use model::plan::IfRefused;
use serde_json::{Value, json};
use support::{
    Api, all_well, both, db, failed, min_ready, name_of, partition, pending, pod, ready_for, strategy, sync, terminating, unready, view,
    well,
};

/// A status of these counts: replicas, ready, available, current, updated.
fn counts(counts: [i32; 5]) -> Value {
    let [replicas, ready, available, current, updated] = counts;
    json!({"status": {"observedGeneration": 3, "replicas": replicas, "readyReplicas": ready, "availableReplicas": available,
        "currentReplicas": current, "updatedReplicas": updated}})
}

#[test]
fn what_is_counted() {
    let set = |change: Value| db(2, 9, both(strategy("OnDelete"), change));
    for (pods, expected) in [
        (vec![], [0, 0, 0, 0, 0]),
        (vec![well(0, 1)], [1, 1, 1, 1, 0]),
        (vec![well(0, 2)], [1, 1, 1, 0, 1]),
        (vec![well(0, 3)], [1, 1, 1, 0, 0]),
        (vec![pod(0, 1, unready)], [1, 0, 0, 1, 0]),
        (vec![pod(0, 1, pending)], [1, 0, 0, 1, 0]),
        (vec![pod(0, 1, failed)], [1, 0, 0, 1, 0]),
        // Ready takes a phase, terminating does not matter; to be of a revision, it does.
        (vec![pod(0, 1, |pod| pod.phase = model::pod::Phase::Unknown)], [1, 0, 0, 1, 0]),
        (vec![pod(0, 1, terminating)], [1, 1, 1, 0, 0]),
        (vec![pod(0, 2, terminating), pod(1, 2, unready)], [2, 1, 1, 0, 1]),
        (vec![well(0, 1), well(77, 1)], [2, 2, 2, 2, 0]),
    ] {
        let did = sync(view(&set(support::deleting()), pods.clone()), &Api::yes());
        assert_eq!(did.counts(), expected, "{pods:?}");
    }
    let set = db(1, 3, both(min_ready(30), support::deleting()));
    let did = sync(view(&set, [well(0, 1), pod(1, 1, ready_for(10)), pod(2, 1, unready)]), &Api::yes());
    assert_eq!(did.counts(), [3, 2, 1, 3, 3]);
}

#[test]
fn what_a_sync_does_is_counted_by_the_next() {
    let did = sync(view(&db(1, 3, support::parallel()), [well(0, 1), pod(1, 1, failed), well(8, 1)]), &Api::yes());
    assert_eq!(did.actions, ["delete db-1", "create db-2", "delete db-8"]);
    assert_eq!(did.counts(), [3, 2, 2, 3, 3]);
}

#[test]
fn a_whole_status() {
    let other = json!({"type": "Of others", "status": "True", "lastTransitionTime": null});
    let set = db(
        2,
        2,
        json!({"metadata": {"annotations": {"a": "b"}}, "status": {"conditions": [other], "ofTheFuture": 5, "collisionCount": null}}),
    );
    let did = sync(view(&set, [well(0, 1), well(1, 2)]), &Api::yes());
    assert_eq!(
        did.status(),
        json!({"observedGeneration": 3, "replicas": 2, "readyReplicas": 2, "availableReplicas": 2, "currentReplicas": 0, "updatedReplicas": 1,
            "currentRevision": name_of(1), "updateRevision": name_of(2), "collisionCount": 0, "conditions": [other], "ofTheFuture": 5})
    );
    let update = did.conclusion.status.as_ref().unwrap();
    assert_eq!((update.target.resource_version, update.if_refused), (support::DB_VERSION, IfRefused::Fail));
    let metadata: Value = serde_json::from_str(update.metadata.as_ref().unwrap().get()).unwrap();
    assert_eq!(metadata["annotations"], json!({"a": "b"}), "a PUT of a status takes them from the request");
}

#[test]
fn it_becomes_current_when_all_pods_are_of_it_and_ready() {
    let set = |replicas, change: Value| db(2, replicas, change);
    let not_long: fn(&mut model::Pod) = |pod| ready_for(1)(pod);
    for (set, pods, is_complete) in [
        (set(2, json!({})), all_well(0..2, 2), true),
        (set(2, json!({})), vec![well(0, 2), pod(1, 2, unready)], false),
        (set(2, json!({})), vec![well(0, 2)], false),
        (set(2, json!({})), vec![well(0, 1), well(1, 2)], false),
        (set(2, partition(1)), vec![well(0, 1), well(1, 2)], false),
        (set(2, partition(2)), all_well(0..2, 2), true),
        (set(1, json!({})), all_well(0..2, 2), false),
        (set(2, json!({})), vec![well(0, 2), pod(1, 2, terminating)], false),
        // Ready is enough, available is not asked for.
        (set(2, min_ready(60)), vec![well(0, 2), pod(1, 2, not_long)], true),
        (set(0, json!({})), vec![], true),
    ] {
        let did = sync(view(&set, pods.clone()), &Api::yes());
        let current = if is_complete { "revision 2" } else { "revision 1" };
        assert_eq!(did.revisions(), [current, "revision 2"], "{pods:?}");
        if is_complete {
            assert_eq!(did.counts()[3], did.counts()[4]);
        }
    }
}

#[test]
fn sts_06_ready_is_enough_to_be_complete() {
    let did = sync(view(&db(2, 1, min_ready(60)), [pod(0, 2, ready_for(1))]), &Api::yes());
    assert_eq!((did.revisions(), did.requeue_after()), (["revision 2", "revision 2"].map(str::to_owned), Some(59)));
}

#[test]
fn sts_16_pods_that_were_deleted_by_hand_complete_it_too() {
    let set = db(2, 2, strategy("OnDelete"));
    let did = sync(view(&set, [well(0, 1), well(1, 2)]), &Api::yes());
    assert!(did.did_nothing());
    assert_eq!(did.revisions(), ["revision 1", "revision 2"]);
    let did = sync(view(&set, all_well(0..2, 2)), &Api::yes());
    assert_eq!(did.revisions(), ["revision 2", "revision 2"]);
}

#[test]
fn sts_19_a_set_of_no_pods_is_complete_and_forgets_its_partition() {
    let did = sync(view(&db(2, 0, partition(2)), []), &Api::yes());
    assert_eq!((did.revisions(), did.counts()), (["revision 2", "revision 2"].map(str::to_owned), [0; 5]));
}

#[test]
fn what_is_worth_a_write() {
    let is_written = |change: Value| {
        sync(view(&db(1, 2, both(counts([2, 2, 2, 2, 2]), change)), all_well(0..2, 1)), &Api::yes()).conclusion.status.is_some()
    };
    assert!(!is_written(json!({})));
    for field in
        ["replicas", "readyReplicas", "availableReplicas", "currentReplicas", "updatedReplicas", "currentRevision", "updateRevision"]
    {
        assert!(is_written(json!({"status": {field: null}})), "{field}");
    }
    assert!(is_written(json!({"status": {"observedGeneration": 2}})));
    assert!(!is_written(json!({"status": {"observedGeneration": 4}})), "it never goes back");
    assert!(!is_written(json!({"status": {"collisionCount": null}})));
    assert!(!is_written(
        json!({"status": {"ofTheFuture": 7, "conditions": [{"type": "Of others", "status": "True", "lastTransitionTime": null}]}})
    ));
}

#[test]
fn only_a_change_of_conditions_is_written_too() {
    let base = both(counts([0, 0, 0, 0, 0]), strategy("Recreate"));
    let set = db(2, 1, both(base, support::deleting()));
    let gates = statefulset::Gates { recreate: true, ..support::GATES };
    assert!(sync(support::with_gates(view(&set, []), gates), &Api::yes()).conclusion.status.is_none());
    let set = db(2, 1, both(counts([0, 0, 0, 0, 0]), strategy("Recreate")));
    let did = sync(support::with_gates(view(&set, []), gates), &Api::yes());
    assert_eq!(did.said("Progressing")[0], "True");
}
