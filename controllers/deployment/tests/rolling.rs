//! `RollingUpdate`, one sync at a time (upstream's tables of `rolling_test.go`, `TestMaxUnavailable`, `TestMinAvailable` and
//! `TestResolveFenceposts` are among these).

mod support;

use std::sync::Arc;

use model::ReplicaSet;
use model::plan::Rule;
use serde_json::{Value, json};
use support::{Api, Did, available, both, refused, rolling, set, sized, sync, view, web};

/// An old ReplicaSet and the new one, by size and available pods.
fn old_and_new(old: (i32, i32), new: (i32, i32)) -> [Arc<ReplicaSet>; 2] {
    [set(1, old.0, available(old.1)), set(2, new.0, available(new.1))]
}

fn roll(replicas: i32, fenceposts: Value, sets: impl IntoIterator<Item = Arc<ReplicaSet>>) -> Did {
    sync(view(&web(2, replicas, fenceposts), sets), &Api::yes())
}

#[test]
fn the_new_one_grows_into_what_the_surge_leaves() {
    for (replicas, surge, old, new, expected) in [
        (10, json!(0), 10, 0, None),
        (10, json!(2), 10, 0, Some(2)),
        (10, json!(2), 5, 0, Some(7)),
        (10, json!(2), 10, 2, None),
        (10, json!(2), 2, 11, Some(10)),
        (10, json!(2), 4, 9, None),
        (10, json!(2), 3, 8, Some(9)),
        (10, json!("20%"), 10, 0, Some(2)),
        (10, json!("11%"), 10, 0, Some(2)),
        (10, json!(100), 10, 0, Some(10)),
        (0, json!(2), 0, 4, Some(0)),
    ] {
        let did = roll(replicas, rolling(surge.clone(), 0), old_and_new((old, old), (new, new)));
        assert_eq!(did.size("web-2"), expected, "{surge} of {replicas}: {old} and {new}");
        if let Some(size) = expected {
            assert_eq!(did.actions, [format!("scale web-2 to {size}")], "one thing at a time");
            assert_eq!(did.steps[0].reason, Rule::NewReplicaSetSize);
        }
    }
}

#[test]
fn old_ones_shrink_as_far_as_availability_lets_them() {
    for (unavailable, old, new, expected) in [
        (json!(0), (10, 10), (0, 0), Some(9)),
        (json!(2), (10, 10), (0, 0), Some(8)),
        (json!(2), (10, 8), (0, 0), Some(8)),
        (json!(2), (10, 9), (0, 0), Some(8)),
        (json!(2), (8, 8), (2, 0), None),
        (json!(2), (10, 1), (0, 0), Some(8)),
        (json!("25%"), (8, 8), (2, 2), Some(6)),
        (json!(1), (10, 8), (0, 0), Some(9)),
        (json!(3), (10, 8), (0, 0), Some(7)),
        (json!(3), (10, 10), (0, 0), Some(7)),
        (json!(100), (10, 10), (0, 0), Some(0)),
        (json!(2), (0, 0), (10, 7), None),
    ] {
        let did = roll(10, rolling(0, unavailable.clone()), old_and_new(old, new));
        assert_eq!(did.size("web-1"), expected, "{unavailable}: {old:?} and {new:?}");
        assert_eq!(did.size("web-2"), None);
    }
}

#[test]
fn unhealthy_ones_go_first_then_those_that_are_not_needed() {
    let did = roll(10, rolling(0, 2), old_and_new((10, 9), (0, 0)));
    assert_eq!(did.sizes(), [("web-1", 9), ("web-1", 8)]);
    assert_eq!(did.versions("web-1").iter().map(|version| version.0).collect::<Vec<_>>(), [101, 1000], "the second builds on the first");
    assert_eq!([0, 1].map(|at| did.steps[at].reason), [Rule::UnhealthyOldReplicas, Rule::OldReplicasNotNeeded]);
    let told = |from, to| format!("Normal ScalingReplicaSet: Scaled down replica set web-1 from {from} to {to}");
    assert_eq!(did.events, [told(10, 9), told(9, 8)]);
}

#[test]
fn unhealthy_ones_block_nothing_but_are_not_taken_beyond_the_minimum() {
    // Of a surge of 2 all are new and not available yet: 12 - 10 - 2 = 0.
    assert!(roll(10, rolling(2, 0), old_and_new((10, 8), (2, 0))).actions.is_empty());
    // One of them is: one may go.
    assert_eq!(roll(10, rolling(2, 0), old_and_new((10, 8), (2, 1))).sizes(), [("web-1", 9)]);
}

#[test]
fn the_oldest_shrinks_first() {
    let three = |first: (i32, i32), second: (i32, i32)| {
        [set(3, 0, json!({})), set(2, second.0, available(second.1)), set(1, first.0, available(first.1))]
    };
    let roll = |unavailable, sets: [Arc<ReplicaSet>; 3]| sync(view(&web(3, 10, rolling(0, unavailable)), sets), &Api::yes());
    assert_eq!(roll(6, three((5, 5), (5, 5))).sizes(), [("web-1", 0), ("web-2", 4)]);
    assert_eq!(roll(4, three((5, 3), (5, 3))).sizes(), [("web-1", 3), ("web-2", 3)], "each without its unhealthy ones");
    assert_eq!(roll(3, three((5, 3), (5, 3))).sizes(), [("web-1", 3), ("web-2", 4)]);
    assert_eq!(roll(5, three((5, 5), (5, 3))).sizes(), [("web-2", 3), ("web-1", 2)]);
}

#[test]
fn a_status_that_is_behind_a_scale_down_keeps_the_old_ones_from_shrinking_further() {
    let sets = |ahead: [Arc<ReplicaSet>; 2]| ahead.into_iter().chain([set(3, 2, json!({}))]);
    // web-1 was scaled from 5 to 3 and its status still says 5.
    let did = sync(view(&web(3, 10, rolling(2, 5)), sets([set(1, 3, available(5)), set(2, 7, available(2))])), &Api::yes());
    assert!(did.actions.is_empty() && did.error().is_none(), "{did:?}");
    // What comes before it has been taken by then.
    let did = sync(view(&web(3, 10, rolling(2, 5)), sets([set(1, 7, available(6)), set(2, 3, available(5))])), &Api::yes());
    assert_eq!((did.sizes(), did.error()), (vec![("web-1", 6)], None));
    assert!(did.conclusion.status.is_some());
}

#[test]
fn upstreams_example_of_a_crash_loop() {
    // 10, surge 3, 2 unavailable. Stuck: 8 old ones, 5 new ones that crash. One old one fails with its node: nothing may go.
    let fenceposts = || rolling(3, 2);
    assert!(roll(10, fenceposts(), old_and_new((8, 7), (5, 0))).actions.is_empty());
    // Rolled back: 4 of the crashing ones go, then the good ones come back to 10.
    let back = |crashing| {
        let newer = json!({"metadata": {"annotations": {"deployment.kubernetes.io/revision": "3"}}});
        [set(1, 8, both(newer, available(7))), set(2, crashing, available(0))]
    };
    let did = sync(view(&web(1, 10, fenceposts()), back(5)), &Api::yes());
    assert_eq!(did.sizes(), [("web-2", 1)]);
    let did = sync(view(&web(1, 10, fenceposts()), back(1)), &Api::yes());
    assert_eq!(did.sizes(), [("web-1", 10)]);
    // Rolled over instead: the new one starts with none, and all 5 go.
    let did = sync(view(&web(3, 10, fenceposts()), old_and_new((8, 8), (5, 0))), &Api::yes());
    assert_eq!(did.created()["spec"]["replicas"], 0);
    assert_eq!(did.sizes(), [("web-2", 0)]);
}

#[test]
fn dep_24_a_rollback_leaves_the_healthy_old_pod_alone() {
    // 1, surge 50%, unavailable 10%: the broken one goes, whichever of the two is older.
    let newer = json!({"metadata": {"annotations": {"deployment.kubernetes.io/revision": "3"}}});
    let healthy = set(1, 1, both(newer, sized(1, 2)));
    let did = sync(view(&web(1, 1, rolling("50%", "10%")), [healthy, set(2, 1, both(available(0), sized(1, 2)))]), &Api::yes());
    assert_eq!(did.actions, ["scale web-2 to 0"]);
}

#[test]
fn dep_33_every_step_of_a_rollout_has_upstreams_numbers() {
    // 4 with 25% and 25%: the sizes of old and new, and what the status says at each step, if each step is ready before the next.
    let steps = [
        ((4, 0), (4, 1), (4, 0)),
        ((4, 1), (2, 1), (5, 1)),
        ((2, 1), (2, 3), (3, 1)),
        ((2, 3), (0, 3), (5, 3)),
        ((0, 3), (0, 4), (3, 3)),
        ((0, 4), (0, 4), (4, 4)),
    ];
    for ((old, new), (old_after, new_after), (replicas, updated)) in steps {
        let did = roll(4, rolling("25%", "25%"), old_and_new((old, old), (new, new)));
        let after = |name, before: i32| did.size(name).unwrap_or(before.into());
        assert_eq!((after("web-1", old), after("web-2", new)), (old_after, new_after), "from {old} and {new}");
        let status = did.status();
        let count = |field: &str| status[field].as_i64().unwrap_or(0);
        assert_eq!((count("replicas"), count("updatedReplicas"), count("unavailableReplicas")), (replicas, updated, 0));
    }
}

#[test]
fn fenceposts_are_upstreams() {
    // maxSurge, maxUnavailable, replicas; pods beyond them, and the fewest that count as available.
    for (surge, unavailable, replicas, beyond, fewest) in [
        (json!("0%"), json!("0%"), 0, 0, 0),
        (json!("0%"), json!("0%"), 10, 0, 9),
        (json!("39%"), json!("39%"), 10, 4, 7),
        (json!(null), json!("39%"), 10, 0, 7),
        (json!("39%"), json!(null), 10, 4, 10),
        (json!(null), json!(null), 10, 0, 9),
        (json!(1), json!(5), 10, 1, 5),
        (json!(1), json!(10), 10, 1, 0),
        (json!(1), json!(10), 5, 1, 0),
        (json!(1), json!(10), 0, 1, 0),
        (json!(1), json!("50%"), 10, 1, 5),
        (json!(1), json!("60%"), 10, 1, 4),
        (json!(1), json!("100%"), 10, 1, 0),
        (json!(1), json!("100%"), 5, 1, 0),
        (json!("1%"), json!("25%"), 2, 1, 2),
        (json!("0%"), json!("1%"), 2, 0, 1),
        (json!("0%"), json!("1%"), 1, 0, 0),
        (json!("55%"), json!("urg"), 10, 0, 10),
    ] {
        let change = rolling(surge.clone(), unavailable.clone());
        let created = sync(view(&web(2, replicas, change.clone()), []), &Api::yes()).created();
        let max = &created["metadata"]["annotations"]["deployment.kubernetes.io/max-replicas"];
        assert_eq!(max, &json!((replicas + beyond).to_string()), "{surge} {unavailable} {replicas}");
        for (count, enough) in [(fewest - 1, "False"), (fewest, "True")] {
            let did = roll(replicas, change.clone(), [set(2, replicas, available(count))]);
            assert_eq!(did.said("Available")[0], enough, "{count} of {replicas}, {unavailable}");
        }
    }
}

#[test]
fn a_sync_that_has_scaled_cleans_no_history() {
    let complete = json!({"spec": {"revisionHistoryLimit": 0}, "status": {"replicas": 4, "updatedReplicas": 4, "availableReplicas": 4}});
    let sets = [set(1, 0, json!({})), set(2, 4, json!({})), set(3, 1, json!({}))];
    let did = sync(view(&web(2, 4, complete.clone()), sets), &Api::yes());
    assert_eq!(did.actions, ["patch web-2", "scale web-3 to 0"]);
    let did = sync(view(&web(2, 4, complete), [set(1, 0, json!({})), set(2, 4, json!({}))]), &Api::yes());
    assert_eq!(did.actions, ["delete web-1"]);
}

#[test]
fn a_new_one_that_cannot_be_scaled_ends_the_sync() {
    let api = Api::yes().to("scale web-2", refused(409, "Conflict"));
    let did = sync(view(&web(2, 10, rolling(2, 2)), old_and_new((10, 10), (0, 0))), &api);
    assert_eq!((did.actions.len(), did.error()), (1, Some("Conflict for a test")));
    assert!(did.conclusion.status.is_none());
}

#[test]
fn after_a_failure_among_the_unhealthy_nothing_more_is_taken() {
    let api = Api::yes().to("scale web-1", refused(409, "Conflict"));
    let sets = [set(1, 5, available(4)), set(2, 5, available(3)), set(3, 0, json!({}))];
    let did = sync(view(&web(3, 10, rolling(0, 9)), sets), &api);
    assert_eq!(did.actions, ["scale web-1 to 4"]);
    assert_eq!(did.error(), Some("Conflict for a test"));
    assert_eq!(did.status()["replicas"], 10);
}

#[test]
fn notes_of_the_size_go_with_every_size_and_never_alone() {
    let did = roll(10, rolling(2, 0), [set(1, 10, sized(10, 11)), set(2, 0, json!({}))]);
    let notes = json!({"deployment.kubernetes.io/desired-replicas": "10", "deployment.kubernetes.io/max-replicas": "12"});
    assert_eq!(did.bodies("web-2"), [&json!({"metadata": {"annotations": notes}, "spec": {"replicas": 2}})]);
    assert!(did.bodies("web-1").is_empty(), "that its surge is another one now is not worth a write");
}

#[test]
fn a_rollout_of_nothing_takes_everything_away() {
    let did = roll(0, rolling(1, 1), old_and_new((3, 1), (0, 0)));
    assert_eq!(did.size("web-1"), Some(0));
    assert_eq!(did.said("Available")[0], "True");
}
