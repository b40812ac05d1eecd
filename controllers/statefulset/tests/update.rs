//! Pods of an outdated revision give way (upstream `updateStatefulSetAfterInvariantEstablished`, and the loop before it).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, and so do its helpers")]

mod support;

use std::sync::Arc;

use model::plan::Rule;
use model::pod::Claim;
use model::{Pod, StatefulSet};
use serde_json::{Value, json};
use statefulset::Gates;
use support::{
    Api, GATES, all_well, both, claim, claiming, db, max_unavailable, min_ready, parallel, partition, pod, ready_for, refused, start,
    strategy, sync, terminating, unready, view, well, with_claims, with_gates,
};

const ON: Gates = GATES;
const OFF: Gates = Gates { max_unavailable: false, ..GATES };

/// What goes for the update.
fn doomed(gates: Gates, set: &Arc<StatefulSet>, pods: impl IntoIterator<Item = Arc<Pod>>) -> Vec<String> {
    let did = sync(with_gates(view(set, pods), gates), &Api::yes());
    assert_eq!(did.error(), None);
    let outdated = did.steps.iter().filter(|step| step.reason == Rule::RevisionOutdated);
    outdated.map(|step| step.action.target().unwrap().key.name.to_string()).collect()
}

fn names(ordinals: &[i32]) -> Vec<String> {
    ordinals.iter().map(|ordinal| format!("db-{ordinal}")).collect()
}

/// Pods by a letter each: `o` old, `O` old and not ready, `n` new, `N` new and not ready, `t` old and terminating, `T` new and terminating,
/// `-` none.
fn pods(letters: &str) -> Vec<Arc<Pod>> {
    let pods = (0..).zip(letters.chars()).filter_map(|(ordinal, letter)| {
        Some(match letter {
            'o' => well(ordinal, 1),
            'O' => pod(ordinal, 1, unready),
            'n' => well(ordinal, 2),
            'N' => pod(ordinal, 2, unready),
            't' => pod(ordinal, 1, terminating),
            'T' => pod(ordinal, 2, terminating),
            _ => return None,
        })
    });
    pods.collect()
}

/// A row: what is there, what the set says besides, and which pods go.
fn check(gates: Gates, policy: &Value, rows: &[(&str, Value, &[i32])]) {
    for (letters, change, expected) in rows {
        let set = db(2, letters.len() as i32, both(policy.clone(), change.clone()));
        assert_eq!(doomed(gates, &set, pods(letters)), names(expected), "{letters} {change}");
    }
}

#[test]
fn without_the_gate_one_at_a_time_from_the_highest() {
    check(
        OFF,
        &json!({}),
        &[
            ("ooo", json!({}), &[2]),
            ("oon", json!({}), &[1]),
            ("nnn", json!({}), &[]),
            ("non", json!({}), &[1]),
            ("ooo", partition(1), &[2]),
            ("onn", partition(1), &[]),
            ("ooo", partition(3), &[]),
            ("ooo", partition(9), &[]),
            ("ooo", max_unavailable(3), &[2]),
            ("ooo", strategy("OnDelete"), &[]),
            ("ooo", strategy("RollingUpdate"), &[2]),
        ],
    );
    check(
        OFF,
        &parallel(),
        &[
            ("ooo", json!({}), &[2]),
            // What is above must be available, what is below need not.
            ("oot", json!({}), &[]),
            ("ooN", json!({}), &[]),
            ("oo-", json!({}), &[]),
            ("ooT", json!({}), &[]),
            ("oOn", json!({}), &[1]),
            ("Ooo", json!({}), &[2]),
            ("-oo", json!({}), &[2]),
            ("too", json!({}), &[2]),
            ("ooO", json!({}), &[2]),
            ("oNn", json!({}), &[]),
            ("oNn", partition(2), &[]),
        ],
    );
}

#[test]
fn in_order_as_many_as_max_unavailable_says() {
    check(
        ON,
        &json!({}),
        &[
            ("ooooo", json!({}), &[4]),
            ("ooooo", max_unavailable(1), &[4]),
            ("ooooo", max_unavailable(3), &[4, 3, 2]),
            ("ooooo", max_unavailable(9), &[4, 3, 2, 1, 0]),
            ("ooooo", max_unavailable("50%"), &[4, 3]),
            ("ooooo", max_unavailable("10%"), &[4]),
            ("ooooo", max_unavailable(0), &[4]),
            ("onono", max_unavailable(2), &[4, 2]),
            ("ooooo", both(partition(3), max_unavailable(3)), &[4, 3]),
            ("ooooo", both(partition(5), max_unavailable(3)), &[]),
            ("ooooo", strategy("RollingUpdate"), &[4]),
            ("ooooo", strategy("OnDelete"), &[]),
            // All before it must be available first.
            ("oooOo", max_unavailable(3), &[]),
            ("ooooN", max_unavailable(3), &[]),
        ],
    );
}

#[test]
fn sts_03_sts_40_in_parallel_what_is_down_goes_first_and_counts() {
    check(
        ON,
        &parallel(),
        &[
            ("ooooo", json!({}), &[4]),
            ("ooooo", max_unavailable(2), &[4, 3]),
            // A pod that is down uses the budget, wherever it is.
            ("noo", json!({}), &[2]),
            ("Noo", json!({}), &[]),
            ("Too", json!({}), &[]),
            ("too", json!({}), &[]),
            ("-oo", json!({}), &[]),
            ("Noo", max_unavailable(2), &[2]),
            ("Noo", both(partition(1), max_unavailable(1)), &[]),
            ("Ooo", both(partition(1), max_unavailable(2)), &[2]),
            ("Ooo", both(partition(1), max_unavailable(1)), &[]),
            // Those that are down and outdated cost nothing.
            ("Ooo", json!({}), &[0]),
            ("OOO", json!({}), &[2, 1, 0]),
            ("OOo", json!({}), &[1, 0]),
            ("Ooo", max_unavailable(2), &[0, 2]),
            ("ooO", max_unavailable(2), &[2, 1]),
            ("tOo", json!({}), &[1]),
            ("OOO", partition(2), &[2]),
            ("oooo", both(partition(2), max_unavailable(9)), &[3, 2]),
        ],
    );
}

/// Upstream `TestStatefulSetControlRollingUpdateWithMaxUnavailableAndUnavailableStalePod`.
#[test]
fn broken_pods_of_the_old_revision() {
    let rows: [(&str, Value, &[i32]); 5] = [
        ("O", max_unavailable(1), &[0]),
        ("ooO", max_unavailable(1), &[2]),
        ("oooOO", max_unavailable(2), &[4, 3]),
        ("oot", max_unavailable(1), &[]),
        ("oooOt", max_unavailable(3), &[3, 2]),
    ];
    check(ON, &parallel(), &rows);
    let in_order = rows.map(|(letters, change, _)| (letters, change, &[][..]));
    check(ON, &json!({}), &in_order);
}

#[test]
fn sts_48_a_template_that_cannot_run_takes_no_more_than_the_budget() {
    let set = |change: Value| db(2, 4, both(parallel(), change));
    for (letters, expected) in [("oooo", &[3][..]), ("oooN", &[]), ("ooo-", &[]), ("oooT", &[])] {
        assert_eq!(doomed(ON, &set(json!({})), pods(letters)), names(expected));
        assert_eq!(doomed(OFF, &set(json!({})), pods(letters)), names(expected));
    }
    assert_eq!(doomed(ON, &set(max_unavailable(2)), pods("ooNN")), names(&[]));
}

#[test]
fn sts_41_what_was_deleted_before_counts_however_it_looks() {
    // The guard lets no sync run before the cache shows the delete; then the pod terminates, is gone, is made anew, all unavailable.
    for policy in [json!({}), parallel()] {
        for gates in [ON, OFF] {
            for letters in ["oot", "ooN", "ooT"] {
                let set = db(2, 3, both(policy.clone(), json!({})));
                assert_eq!(doomed(gates, &set, pods(letters)), names(&[]), "{letters}");
            }
            assert_eq!(doomed(gates, &db(2, 3, policy.clone()), pods("oo-")), names(&[]), "the missing one is made first");
        }
    }
}

#[test]
fn sts_04_minimum_ready_time_counts() {
    let fresh = |ordinal, version| pod(ordinal, version, ready_for(200));
    let set = db(2, 5, both(parallel(), both(min_ready(300), max_unavailable(1))));
    for gates in [ON, OFF] {
        let pods = || all_well(0..4, 1).into_iter().chain([fresh(4, 2)]);
        assert_eq!(doomed(gates, &set, pods()), names(&[]));
        let did = sync(with_gates(view(&set, pods()), gates), &Api::yes());
        assert_eq!((did.counts(), did.requeue_after()), ([5, 5, 4, 4, 1], Some(100)));
        assert_eq!(doomed(gates, &set, all_well(0..4, 1).into_iter().chain([well(4, 2)])), names(&[3]));
    }
    // Not ready for long enough, and outdated: it goes first.
    assert_eq!(doomed(ON, &set, [well(0, 1), fresh(1, 1), well(2, 1), well(3, 1), well(4, 1)]), names(&[1]));
}

#[test]
fn the_partition_counts_from_the_first_ordinal() {
    let pods = || all_well(5..8, 1);
    for gates in [ON, OFF] {
        let set = |change: Value| db(2, 3, both(start(5), change));
        assert_eq!(doomed(gates, &set(partition(2)), pods()), names(&[7]));
        assert_eq!(doomed(gates, &set(partition(3)), pods()), names(&[]));
        assert_eq!(doomed(gates, &set(partition(5)), pods()), names(&[]), "it is no ordinal");
    }
    let many = db(2, 3, both(start(5), both(partition(1), max_unavailable(3))));
    assert_eq!(doomed(ON, &many, pods()), names(&[7, 6]));
}

#[test]
fn an_invalid_count_ends_the_sync_with_a_status() {
    let did = sync(view(&db(2, 2, max_unavailable("many")), all_well(0..2, 1)), &Api::yes());
    assert!(did.actions.is_empty());
    assert!(did.error().unwrap().starts_with("spec.updateStrategy.rollingUpdate.maxUnavailable: invalid value"));
    assert_eq!(did.counts(), [2, 2, 2, 2, 0]);
    // It is not looked at without the gate.
    assert_eq!(doomed(OFF, &db(2, 2, max_unavailable("many")), all_well(0..2, 1)), names(&[1]));
}

#[test]
fn deletes_are_one_by_one_and_each_takes_one_off_the_current_ones() {
    let set = db(2, 5, both(parallel(), max_unavailable(3)));
    let did = sync(view(&set, all_well(0..5, 1)), &Api::yes());
    assert_eq!(did.batches, [["delete db-4"], ["delete db-3"], ["delete db-2"]]);
    assert_eq!(did.counts(), [5, 5, 5, 2, 0]);
    assert_eq!(did.events[0], "Normal SuccessfulDelete: Delete Pod db-4 in StatefulSet db successful");
}

#[test]
fn sts_37_a_delete_that_fails_takes_nothing_off() {
    let set = db(2, 5, max_unavailable(3));
    let did = sync(view(&set, all_well(0..5, 1)), &Api::yes().to("delete db-3", refused(500, "InternalError")));
    assert_eq!(
        (did.actions.as_slice(), did.error()),
        (["delete db-4", "delete db-3"].map(str::to_owned).as_slice(), Some("InternalError for a test"))
    );
    assert_eq!(did.counts(), [5, 5, 5, 4, 0]);
    for gates in [ON, OFF] {
        let lost = model::plan::Outcome::Unknown(support::api_error(0, "Timeout"));
        for outcome in [refused(403, "Forbidden"), lost] {
            let did = sync(with_gates(view(&db(2, 2, json!({})), all_well(0..2, 1)), gates), &Api::yes().to("delete", outcome));
            assert_eq!((did.counts(), did.error().is_some()), ([2, 2, 2, 2, 0], true));
        }
        let did =
            sync(with_gates(view(&db(2, 2, json!({})), all_well(0..2, 1)), gates), &Api::yes().to("delete", model::plan::Outcome::NotSent));
        assert_eq!((did.counts(), did.error()), ([2, 2, 2, 2, 0], Some("not sent")));
        // It is not there any more.
        let did =
            sync(with_gates(view(&db(2, 2, json!({})), all_well(0..2, 1)), gates), &Api::yes().to("delete", refused(404, "NotFound")));
        assert_eq!((did.counts(), did.error()), ([2, 2, 2, 1, 0], None));
    }
}

#[test]
fn pods_of_a_third_revision_leave_no_negative_count() {
    let set = db(3, 3, json!({"status": {"currentRevision": support::name_of(1)}}));
    let did = sync(view(&set, all_well(0..3, 2)), &Api::yes());
    assert_eq!(did.actions, ["delete db-2"]);
    assert_eq!(did.counts(), [3, 3, 3, 0, 0]);
}

/// A set with a claim template more than its pods have volumes.
#[test]
fn sts_25_a_pod_without_a_volume_of_its_set_is_replaced() {
    let set = |change: Value| db(2, 3, both(claiming(&["data", "wal"]), change));
    let pods = |versions: [u32; 3], volumes: [&'static [&'static str]; 3]| {
        (0..3).map(move |at| pod(at, versions[at as usize], support::mounting(volumes[at as usize])))
    };
    let both_volumes: &[&str] = &["data", "wal"];
    for gates in [ON, OFF] {
        // In the update's order, and never by an update of the pod.
        let did = sync(with_gates(view(&set(json!({})), pods([2; 3], [&["data"]; 3])), gates), &Api::yes());
        assert_eq!((did.actions.as_slice(), did.error()), (["delete db-2".to_owned()].as_slice(), None));
        assert_eq!(doomed(gates, &set(json!({})), pods([2; 3], [&["data"], &["wal"], both_volumes])), names(&[1]));
        assert_eq!(doomed(gates, &set(json!({})), pods([2; 3], [both_volumes; 3])), names(&[]));
        assert_eq!(doomed(gates, &set(partition(2)), pods([2; 3], [&[], &[], both_volumes])), names(&[]));
        assert_eq!(doomed(gates, &set(strategy("OnDelete")), pods([2; 3], [&[]; 3])), names(&[]));
        // A volume the set does not know makes no difference.
        assert_eq!(doomed(gates, &db(2, 3, claiming(&["wal"])), pods([2; 3], [both_volumes; 3])), names(&[]));
        assert_eq!(doomed(gates, &db(2, 3, json!({})), pods([2; 3], [both_volumes; 3])), names(&[]));
    }
}

#[test]
fn a_volume_is_told_by_its_claim() {
    let set = db(1, 1, claiming(&["data"]));
    let mounting = |volume: &str, claim: &str| {
        pod(0, 1, |pod| pod.claims = Some([Claim::Literal { volume: volume.into(), claim: claim.into() }].into()))
    };
    assert_eq!(doomed(ON, &set, [mounting("data", "data-db-0")]), names(&[]));
    for (volume, claim) in [("data", "data-db-1"), ("data", "other"), ("wal", "data-db-0")] {
        assert_eq!(doomed(ON, &set, [mounting(volume, claim)]), names(&[0]), "{volume} {claim}");
    }
    let did = sync(with_claims(view(&set, []), [claim(0, [])]), &Api::yes());
    assert_eq!(did.actions, ["create db-0"], "and it comes back with the one it should have");
}

#[test]
fn pods_made_in_the_same_sync_count_as_down() {
    let did = sync(view(&db(2, 3, both(parallel(), max_unavailable(2))), all_well(1..3, 1)), &Api::yes());
    assert_eq!(did.actions, ["create db-0", "delete db-2"]);
    let did = sync(view(&db(2, 3, parallel()), all_well(1..3, 1)), &Api::yes());
    assert_eq!(did.actions, ["create db-0"]);
}
