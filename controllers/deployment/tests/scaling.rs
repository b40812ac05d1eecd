//! A change of the Deployment's size (upstream's tables of `TestScale`, `TestGetReplicaSetFraction` and
//! `TestGetNonNegativeInt32FromAnnotation` are among these).

mod support;

use std::sync::Arc;

use model::ReplicaSet;
use model::plan::Rule;
use serde_json::{Value, json};
use support::{Api, Did, available, both, recreate, refused, rolling, set, sized, sync, view, web};

/// Paused, so that a sync sizes its ReplicaSets and does nothing else.
fn paused() -> Value {
    json!({"spec": {"paused": true}})
}

fn maxed(max: &str) -> Value {
    json!({"metadata": {"annotations": {"deployment.kubernetes.io/max-replicas": max}}})
}

/// ReplicaSets of these sizes, the first being the new one, of a Deployment that had that size and surge.
fn sets(sizes: &[i32], of: i32, surge: i32) -> Vec<Arc<ReplicaSet>> {
    let newest = sizes.len() as u32;
    (1..=newest).rev().zip(sizes).map(|(template, size)| set(template, *size, both(available(0), sized(of, of + surge)))).collect()
}

/// The sizes that ReplicaSets of these sizes have in the end, in the same order.
fn sizes_after(did: &Did, sizes: &[i32]) -> Vec<i64> {
    let newest = sizes.len();
    let names = (1..=newest).rev().map(|template| format!("web-{template}"));
    names.zip(sizes).map(|(name, size)| did.size(&name).unwrap_or((*size).into())).collect()
}

#[test]
fn the_replica_sets_follow_in_proportion() {
    // Upstream's table: the Deployment's size before and now, the sizes of its ReplicaSets, the newest first, before and after.
    for (before, now, sizes, expected) in [
        (10, 12, vec![10], vec![12]),
        (10, 5, vec![10], vec![5]),
        (5, 10, vec![2, 3], vec![4, 6]),
        (5, 3, vec![2, 3], vec![1, 2]),
        (9, 4, vec![8, 1], vec![4, 0]),
        (7, 10, vec![2, 3, 2], vec![3, 4, 3]),
        (13, 8, vec![2, 8, 3], vec![1, 5, 2]),
        // What is left over goes to the largest: of equal ones the newest grows and the oldest shrinks.
        (3, 4, vec![1, 1, 1], vec![2, 1, 1]),
        (3, 2, vec![1, 1, 1], vec![1, 1, 0]),
        (6, 0, vec![3, 2, 1], vec![0, 0, 0]),
        (6, 6, vec![0, 0, 0], vec![6, 0, 0]),
    ] {
        let newest = sizes.len() as u32;
        let did = sync(view(&web(newest, now, paused()), sets(&sizes, before, 0)), &Api::yes());
        assert_eq!(sizes_after(&did, &sizes), expected, "{before} to {now}: {sizes:?}");
        assert!(did.steps.iter().all(|step| step.reason == Rule::DeploymentScaled));
    }
}

#[test]
fn a_surge_is_shared_out_as_well() {
    for (before, now, sizes, expected) in [
        ((10, 2), (20, 2), vec![6, 6], vec![11, 11]),
        ((10, 3), (50, 6), vec![5, 8], vec![22, 34]),
        ((10, 0), (14, 0), vec![7, 3], vec![10, 4]),
    ] {
        let did = sync(view(&web(2, now.0, both(paused(), rolling(now.1, 0))), sets(&sizes, before.0, before.1)), &Api::yes());
        assert_eq!(sizes_after(&did, &sizes), expected, "{before:?} to {now:?}: {sizes:?}");
        let notes = &did.bodies("web-1")[0]["metadata"]["annotations"];
        let [desired, max] = ["desired-replicas", "max-replicas"].map(|note| &notes[format!("deployment.kubernetes.io/{note}")]);
        assert_eq!((desired, max), (&json!(now.0.to_string()), &json!((now.0 + now.1).to_string())));
    }
}

#[test]
fn without_a_new_one_the_old_ones_share_it() {
    for (before, now, sizes, expected) in [(4, 5, vec![2, 2], vec![3, 2]), (10, 14, vec![7, 3], vec![10, 4])] {
        let did = sync(view(&web(9, now, json!({})), sets(&sizes, before, 0)), &Api::yes());
        assert_eq!(sizes_after(&did, &sizes), expected, "{before} to {now}: {sizes:?}");
        assert!(!did.actions.iter().any(|action| action.starts_with("create")), "that is left to the next sync");
    }
}

#[test]
fn age_decides_between_equal_ones_also_when_the_new_one_is_the_oldest() {
    // Rolled back: the template is the first one's again. Upstream orders by creation, not by who is the new one.
    let newer_revision = json!({"metadata": {"annotations": {"deployment.kubernetes.io/revision": "4"}}});
    let rolled_back = |to: i32| {
        let sets = [set(1, 2, both(sized(6, 6), newer_revision.clone())), set(2, 2, sized(6, 6)), set(3, 2, sized(6, 6))];
        let did = sync(view(&web(1, to, both(paused(), newer_revision.clone())), sets), &Api::yes());
        did.sizes().iter().map(|(name, size)| ((*name).to_owned(), *size)).collect::<Vec<_>>()
    };
    let named = |sizes: [(&str, i64); 3]| sizes.map(|(name, size)| (name.to_owned(), size));
    assert_eq!(rolled_back(7), named([("web-3", 3), ("web-2", 2), ("web-1", 2)]));
    assert_eq!(rolled_back(5), named([("web-1", 1), ("web-2", 2), ("web-3", 2)]));
}

#[test]
fn fractions_are_of_what_there_might_be_before() {
    // Upstream's table: the Deployment's size, its status and its surge, the ReplicaSet's size and note, and by how much it changes.
    for (replicas, status, surge, size, max, expected) in [
        (10, 0, 0, 5, None, 0),
        (10, 0, 0, 5, Some("0"), 0),
        (120, 100, 0, 50, None, 10),
        (120, 100, 0, 50, Some("0"), 10),
        (120, 100, 0, 50, Some("nonsense"), 10),
        (120, 0, 0, 50, Some("100"), 10),
        (120, 0, 10, 50, Some("110"), 9),
        (10, 0, 0, 6, Some("12"), -1),
        (100, 0, 10, 50, Some("130"), -8),
        (0, 9, 0, 10, Some("20"), -10),
    ] {
        // A larger one comes first and leaves all the room there might be; what the other does not take is added to it in the end.
        let larger = size + 1;
        let grows = replicas + surge > size + larger;
        let first = set(1, larger, maxed(if grows { "1000000" } else { "1" }));
        let deployment = web(2, replicas, both(both(paused(), rolling(surge, 1)), json!({"status": {"replicas": status}})));
        let did = sync(view(&deployment, [first, set(2, size, max.map_or(json!({}), maxed))]), &Api::yes());
        assert_eq!(did.size("web-2"), Some(i64::from(size + expected)), "{replicas} {status} {surge} {size} {max:?}");
    }
}

#[test]
fn a_single_active_one_takes_the_whole_size_and_the_newest_if_none_is_active() {
    for (sizes, expected) in [(vec![0, 3], vec![0, 8]), (vec![3, 0], vec![8, 0]), (vec![0, 0], vec![8, 0])] {
        let did = sync(view(&web(2, 8, paused()), sets(&sizes, 3, 0)), &Api::yes());
        assert_eq!(sizes_after(&did, &sizes), expected, "{sizes:?}");
    }
    let did = sync(view(&web(9, 8, paused()), sets(&[0, 0, 0], 3, 0)), &Api::yes());
    assert_eq!(did.actions, ["scale web-3 to 8"], "the newest old one, while there is no new one");
    let did = sync(view(&web(9, 8, paused()), []), &Api::yes());
    assert!(did.actions.is_empty());
}

#[test]
fn a_saturated_new_one_leaves_nothing_to_the_old_ones() {
    let old = || [set(1, 1, sized(3, 3)), set(2, 2, sized(3, 3))];
    let with = |new: Arc<ReplicaSet>| sync(view(&web(3, 3, paused()), old().into_iter().chain([new])), &Api::yes());
    assert_eq!(with(set(3, 3, sized(3, 3))).actions, ["scale web-1 to 0", "scale web-2 to 0"]);
    for (unsaturated, why) in [
        (set(3, 3, both(available(2), sized(3, 3))), "not all of its pods are available"),
        (set(3, 3, sized(4, 3)), "it is of a Deployment of another size"),
        (set(3, 3, json!({})), "it does not say of which"),
        (set(3, 2, both(available(3), sized(3, 3))), "it is smaller"),
    ] {
        assert!(!with(unsaturated).actions.contains(&"scale web-1 to 0".to_owned()), "{why}");
    }
}

#[test]
fn a_saturated_but_broken_new_one_does_not_cost_the_old_ones() {
    let change = both(paused(), rolling(1, 1));
    let did = sync(view(&web(2, 2, change), [set(2, 2, both(available(0), sized(2, 3))), set(1, 1, sized(2, 3))]), &Api::yes());
    assert!(did.actions.is_empty(), "{:?}", did.actions);
}

#[test]
fn only_a_note_of_another_size_makes_it_a_change_of_size() {
    let noted = |note: &str| json!({"metadata": {"annotations": {"deployment.kubernetes.io/desired-replicas": note}}});
    for (note, is_event) in [
        ("13", true),
        ("0", true),
        ("2147483647", true),
        ("3", false),
        ("invalid", false),
        ("-1", false),
        ("+13", false),
        ("", false),
        ("2147483648", false),
        ("4294967296", false),
    ] {
        // A change of size creates no ReplicaSet.
        let did = sync(view(&web(2, 3, json!({})), [set(1, 3, noted(note))]), &Api::yes());
        assert_eq!(!did.actions.iter().any(|action| action.starts_with("create")), is_event, "{note}: {:?}", did.actions);
    }
    let did = sync(view(&web(2, 3, json!({})), [set(1, 0, noted("13"))]), &Api::yes());
    assert!(did.actions[0].starts_with("create"), "one without pods does not say so");
}

#[test]
fn events_tell_changed_sizes_and_nothing_else() {
    let sets = [set(2, 8, sized(9, 9)), set(1, 1, sized(9, 9)), set(3, 0, sized(9, 9))];
    let did = sync(view(&web(3, 4, json!({})), sets), &Api::yes());
    let told = [("web-2", 8, 4), ("web-1", 1, 0)];
    assert_eq!(
        did.events,
        told.map(|(name, from, to)| format!("Normal ScalingReplicaSet: Scaled down replica set {name} from {from} to {to}"))
    );
    let did = sync(view(&web(2, 4, json!({})), [set(2, 3, sized(9, 9)), set(1, 1, sized(9, 9))]), &Api::yes());
    assert_eq!((did.sizes(), did.events.len()), (vec![("web-1", 1), ("web-2", 3)], 0), "noted, but of the same size");
}

#[test]
fn dep_15_notes_that_are_out_of_step_are_repaired() {
    // Upstream takes every sync for a change of size that has nothing to change, and no rollout ever begins.
    let single = [set(1, 3, sized(9, 9))];
    let did = sync(view(&web(2, 3, json!({})), single), &Api::yes());
    let repaired = json!({"metadata": {"annotations": {"deployment.kubernetes.io/desired-replicas": "3", "deployment.kubernetes.io/max-replicas": "3"}},
        "spec": {"replicas": 3}});
    assert_eq!(did.bodies("web-1"), [&repaired]);
    assert_eq!((did.events.len(), did.error()), (0, None));
    let did = sync(view(&web(2, 3, json!({})), [set(1, 3, sized(3, 3))]), &Api::yes());
    assert!(did.actions[0].starts_with("create"), "the next sync rolls: {:?}", did.actions);

    // The new one is saturated and an old one without a note is scaled away; what is written so needs no repair, the rest of it comes later.
    let several = || [set(1, 1, sized(9, 9)), set(2, 1, sized(9, 9)), set(3, 3, sized(3, 3))];
    let did = sync(view(&web(3, 3, recreate()), several()), &Api::yes());
    assert_eq!(did.sizes(), [("web-1", 0), ("web-2", 0)]);

    // Recreate shares nothing out, so that upstream has no way on at all here.
    let did = sync(view(&web(9, 3, recreate()), several()), &Api::yes());
    assert_eq!(did.sizes(), [("web-1", 1), ("web-2", 1)], "those that are out of step, at their sizes");
    let mended = [set(1, 1, sized(3, 3)), set(2, 1, sized(3, 3)), set(3, 3, sized(3, 3))];
    let did = sync(view(&web(9, 3, recreate()), mended), &Api::yes());
    assert_eq!(did.sizes(), [("web-1", 0), ("web-2", 0), ("web-3", 0)], "the rollout goes on");
}

#[test]
fn a_repair_that_fails_is_tried_again() {
    let did = sync(view(&web(2, 3, json!({})), [set(1, 3, sized(9, 9))]), &Api::yes().to("scale", refused(409, "Conflict")));
    assert_eq!(did.error(), Some("Conflict for a test"));
}

#[test]
fn dep_16_a_change_that_failed_half_way_ends_with_the_right_sum() {
    let before = [set(1, 6, sized(10, 10)), set(2, 4, sized(10, 10))];
    let did = sync(view(&web(2, 20, json!({})), before), &Api::yes().to("scale web-2", refused(500, "InternalError")));
    assert_eq!(did.actions, ["scale web-1 to 12", "scale web-2 to 8"]);
    assert_eq!(did.error(), Some("InternalError for a test"));
    assert_eq!(did.events.len(), 1, "only what was done is told");

    let half_way = [set(1, 12, sized(20, 20)), set(2, 4, sized(10, 10))];
    let did = sync(view(&web(2, 20, json!({})), half_way), &Api::yes());
    assert_eq!(did.sizes(), [("web-2", 8)], "the first one is of the new size already");
    let did = sync(view(&web(2, 20, json!({})), [set(1, 12, sized(20, 20)), set(2, 4, sized(10, 10))]), &Api::yes());
    assert_eq!(did.events, ["Normal ScalingReplicaSet: Scaled up replica set web-2 from 4 to 8"]);
}

#[test]
fn upstreams_update_that_failed_is_made_up_for() {
    let size = |template, replicas, of: i32| set(template, replicas, sized(of, of));
    let did = sync(view(&web(3, 5, json!({})), [size(3, 2, 5), size(2, 1, 3), size(1, 1, 5)]), &Api::yes());
    assert_eq!(did.sizes(), [("web-2", 2)]);
}

#[test]
fn after_a_failure_the_rest_is_not_sent() {
    let sets = [set(1, 6, sized(10, 10)), set(2, 4, sized(10, 10))];
    let did = sync(view(&web(2, 20, json!({})), sets), &Api::yes().to("scale web-1", refused(409, "Conflict")));
    assert_eq!(did.actions, ["scale web-1 to 12"]);
    assert!(did.conclusion.status.as_ref().is_none_or(|_| did.status().get("replicas").is_none()));
}

#[test]
fn dep_18_when_both_change_the_size_comes_first() {
    let did = sync(view(&web(2, 6, rolling(1, 1)), [set(1, 4, sized(4, 5))]), &Api::yes());
    assert_eq!(did.actions, ["scale web-1 to 6"]);
    let did = sync(view(&web(2, 6, rolling(1, 1)), [set(1, 6, sized(6, 7))]), &Api::yes());
    assert!(did.actions[0].starts_with("create"), "then it is rolled: {:?}", did.actions);
}

#[test]
fn dep_19_after_one_pass_every_active_one_carries_the_new_size() {
    let stacked = |sizes: [i32; 3], noted: Value| [1, 2, 3].map(|template| set(template, sizes[template as usize - 1], noted.clone()));
    for (now, surge) in [(12, 0), (9, 3), (4, 1)] {
        let did = sync(view(&web(3, now, rolling(surge, 0)), stacked([5, 3, 2], sized(10, 10))), &Api::yes());
        let mut after = [5, 3, 2];
        for (name, size) in did.sizes() {
            let patch = did.bodies(name)[0];
            assert_eq!(patch["metadata"]["annotations"]["deployment.kubernetes.io/desired-replicas"], json!(now.to_string()));
            after[name.strip_prefix("web-").unwrap().parse::<usize>().unwrap() - 1] = i32::try_from(size).unwrap();
        }
        assert_eq!(did.sizes().len(), 3, "{:?}", did.actions);
        assert_eq!(after.iter().sum::<i32>(), now + surge);
        let next = sync(view(&web(3, now, both(paused(), rolling(surge, 0))), stacked(after, sized(now, now + surge))), &Api::yes());
        assert!(next.actions.is_empty(), "no second pass: {:?}", next.actions);
    }
}

#[test]
fn dep_21_who_is_healthy_plays_no_part_when_a_rollout_is_scaled_down() {
    // Parity: parts are by size, what is left over goes from the largest, of equal ones from the oldest.
    let of = |size| sized(size, size);
    let sets = [set(1, 3, of(5)), set(2, 1, both(available(0), of(5))), set(3, 1, of(5))];
    let did = sync(view(&web(3, 4, rolling(0, 1)), sets), &Api::yes());
    assert_eq!(did.sizes(), [("web-1", 2), ("web-2", 1), ("web-3", 1)], "a healthy old one, although another is not");
    assert_eq!(did.said("Available")[0], "True", "4 are available before anything is gone");

    // Rolled back, so that the new one is the oldest: its healthy pod goes before the old one's unhealthy one.
    let newest = json!({"metadata": {"annotations": {"deployment.kubernetes.io/revision": "4"}}});
    let sets = [set(1, 1, both(newest, of(5))), set(2, 3, of(5)), set(3, 1, both(available(0), of(5)))];
    let did = sync(view(&web(1, 2, rolling(0, 1)), sets), &Api::yes());
    assert_eq!(did.sizes(), [("web-2", 1), ("web-1", 0), ("web-3", 1)]);
}

#[test]
fn dep_22_scaling_a_broken_rollout_keeps_upstreams_floor() {
    // 10, surge 25% = 3, one may be unavailable, the new image is broken: 9 old ones and 4 new ones, none of those available.
    let rollout = |replicas| web(2, replicas, rolling("25%", 1));
    let stuck = |old, new, size: i32, max| [set(1, old, sized(size, max)), set(2, new, both(available(0), sized(size, max)))];
    let did = sync(view(&rollout(10), stuck(9, 4, 10, 13)), &Api::yes());
    assert!(did.actions.is_empty(), "stuck before: {:?}", did.actions);
    // To 5 (and 2 of surge): 7 in all, in proportion 5 of the 9 and 2 of the 4.
    let did = sync(view(&rollout(5), stuck(9, 4, 10, 13)), &Api::yes());
    assert_eq!(did.sizes(), [("web-1", 5), ("web-2", 2)]);
    // No further down than to 4 available ones of 5.
    let did = sync(view(&rollout(5), stuck(5, 2, 5, 7)), &Api::yes());
    assert_eq!(did.sizes(), [("web-1", 4)]);
    let did = sync(view(&rollout(5), stuck(4, 2, 5, 7)), &Api::yes());
    assert_eq!(did.sizes(), [("web-2", 3)]);
    let did = sync(view(&rollout(5), stuck(4, 3, 5, 7)), &Api::yes());
    assert!(did.actions.is_empty());
}
