//! What a StatefulSet waits for: each rule reached, and nothing said where nothing is waited for.
//!
//! A [`Wait`] is built here only to be compared: a test of the program takes the rules of this file for reached.

mod support;

use std::sync::Arc;

use model::plan::{Rule, Wait};
use model::{Pod, StatefulSet, Time};
use serde_json::{Value, json};
use statefulset::Gates;
use support::{
    Api, GATES, NOW, all_well, both, claim_of, claiming, db, deleting, failed, max_unavailable, min_ready, parallel, partition, pending,
    pod, pod_owner, ready_for, retention, strategy, sync, terminating, unready, view, well, with_claims, with_gates,
};

const SECOND: i64 = 1_000_000_000;

fn waits(set: &Arc<StatefulSet>, pods: impl IntoIterator<Item = Arc<Pod>>) -> Vec<Wait> {
    sync(view(set, pods), &Api::yes()).conclusion.waits
}

fn not_available(name: &str) -> Vec<Wait> {
    vec![Wait::on(Rule::PodNotAvailable, name)]
}

#[test]
fn a_set_that_is_as_it_should_be_waits_for_nothing() {
    for change in [json!({}), parallel(), strategy("OnDelete"), partition(2), min_ready(60), both(parallel(), max_unavailable(2))] {
        assert_eq!(waits(&db(1, 3, change.clone()), all_well(0..3, 1)), [], "{change}");
    }
    assert_eq!(waits(&db(1, 0, json!({})), []), []);
    // Pods that go have nobody behind them where all go at once.
    assert_eq!(waits(&db(1, 2, parallel()), all_well(0..4, 1)), []);
}

#[test]
fn the_pod_before_the_next_one() {
    let three = db(1, 3, json!({}));
    // Not there yet, not started, not ready, finished: what comes behind waits for it, and nothing else is said.
    assert_eq!(waits(&three, []), not_available("db-0"));
    assert_eq!(waits(&three, [pod(0, 1, pending)]), not_available("db-0"));
    assert_eq!(waits(&three, [well(0, 1), pod(1, 1, unready), well(2, 1)]), not_available("db-1"));
    assert_eq!(waits(&three, [well(0, 1), pod(1, 1, failed), well(2, 1)]), not_available("db-1"));
    assert_eq!(waits(&three, [pod(0, 1, terminating), well(1, 1)]), [Wait::on(Rule::PodTerminating, "db-0")]);
    assert_eq!(waits(&three, [pod(0, 1, support::failed_and_terminating), well(1, 1)]), [Wait::on(Rule::PodTerminating, "db-0")]);
    let slow = db(1, 3, min_ready(60));
    let expected = Wait::on(Rule::MinReadySeconds, "db-0").counting(&[("minReadySeconds", 60)]).until(Some(Time(NOW.0 + 40 * SECOND)));
    assert_eq!(waits(&slow, [pod(0, 1, ready_for(20)), well(1, 1)]), [expected]);
}

#[test]
fn a_pod_of_an_outdated_revision_that_holds_the_rollout_back() {
    let command = "kubectl delete pod db-1 --namespace shop";
    let expected = [Wait::on(Rule::RolloutStalled, "db-1").saying(command)];
    assert_eq!(waits(&db(2, 3, json!({})), [well(0, 1), pod(1, 1, unready), well(2, 2)]), expected);
    // Below the partition no rollout would replace it, nor where one is made by hand.
    assert_eq!(waits(&db(2, 3, partition(2)), [well(0, 1), pod(1, 1, unready), well(2, 2)]), not_available("db-1"));
    assert_eq!(waits(&db(2, 3, strategy("OnDelete")), [well(0, 1), pod(1, 1, unready), well(2, 2)]), not_available("db-1"));
    // On its way out it does not stall: it has been deleted already.
    let going = pod(1, 1, |pod| {
        unready(pod);
        terminating(pod);
    });
    assert_eq!(waits(&db(2, 3, json!({})), [well(0, 1), going, well(2, 2)]), [Wait::on(Rule::PodTerminating, "db-1")]);
}

#[test]
fn the_claim_of_an_earlier_pod() {
    let stale = claim_of("data", 0, |claim| claim.owners = Some([support::owner("v1", "Pod", "db-0", model::Uid(99))].into()));
    let set = db(1, 1, retention("Retain", "Delete"));
    let did = sync(with_claims(view(&set, []), [stale.clone()]), &Api::yes());
    assert_eq!(did.conclusion.waits, [Wait::on(Rule::ClaimTerminating, "data-db-0")]);
    assert_eq!(did.error(), None);
    // One that is on its way out fails the sync, and is named besides.
    let going = claim_of("data", 0, |claim| claim.deletion = NOW.timestamp());
    let did = sync(with_claims(view(&db(1, 1, claiming(&["data"])), []), [going]), &Api::yes());
    assert_eq!(did.conclusion.waits, [Wait::on(Rule::ClaimTerminating, "data-db-0")]);
    assert_eq!(did.error(), Some("pvc data-db-0 is being deleted"));
    // A claim of the pod that is there is nobody else's.
    let own = claim_of("data", 0, |claim| claim.owners = Some([pod_owner(0)].into()));
    let mounted = pod(0, 1, support::mounting(&["data"]));
    assert_eq!(sync(with_claims(view(&set, [mounted]), [own]), &Api::yes()).conclusion.waits, []);
}

#[test]
fn pods_that_are_to_go_one_after_the_other() {
    let one = db(1, 1, json!({}));
    // The highest is sent away, then waited for.
    assert_eq!(waits(&one, all_well(0..3, 1)), [Wait::on(Rule::PodTerminating, "db-2")]);
    let going = [well(0, 1), well(1, 1), pod(2, 1, terminating)];
    assert_eq!(waits(&one, going), [Wait::on(Rule::PodTerminating, "db-2")]);
    // Two that are down: the upper one waits for the lower one.
    let held = [Wait::on(Rule::ScaleDownHeld, "db-2").saying("db-1")];
    assert_eq!(waits(&one, [well(0, 1), pod(1, 1, unready), pod(2, 1, unready)]), held);
    // One that is wanted and down is waited for itself.
    assert_eq!(waits(&one, [pod(0, 1, unready), well(1, 1), well(2, 1)]), not_available("db-0"));
}

#[test]
fn pods_of_a_parallel_set() {
    let three = db(1, 3, parallel());
    let unready_of = |pods, ready, names: &str| {
        vec![Wait::new(Rule::PodsNotReady).counting(&[("desired", 3), ("pods", pods), ("ready", ready)]).saying(names)]
    };
    assert_eq!(waits(&three, []), unready_of(0, 0, ""));
    assert_eq!(waits(&three, [well(0, 1), pod(1, 1, unready), pod(2, 1, pending)]), unready_of(3, 1, "db-1, db-2"));
    assert_eq!(waits(&three, [well(0, 1), well(1, 1), pod(2, 1, failed)]), unready_of(3, 2, "db-2"));
    // What is to go does not stand in for it.
    assert_eq!(waits(&three, [well(0, 1), well(1, 1), pod(2, 1, unready), well(3, 1)]), unready_of(3, 2, "db-2"));
    // Its replacement waits for one that goes, however ready that says it is.
    let going = [Wait::on(Rule::PodTerminating, "db-1").counting(&[("terminating", 2)])];
    assert_eq!(waits(&three, [well(0, 1), pod(1, 1, terminating), pod(2, 1, terminating)]), going);
    let slow = db(1, 3, both(parallel(), min_ready(60)));
    let figures = [("ready", 3), ("available", 1), ("minReadySeconds", 60)];
    let expected = Wait::new(Rule::MinReadySeconds).counting(&figures).until(Some(Time(NOW.0 + 50 * SECOND)));
    assert_eq!(waits(&slow, [well(0, 1), pod(1, 1, ready_for(30)), pod(2, 1, ready_for(10))]), [expected]);
}

#[test]
fn pods_that_may_not_be_replaced_yet() {
    let limited = |unavailable, limit| {
        Wait::new(Rule::MaxUnavailable).counting(&[("outdated", 2), ("unavailable", unavailable), ("maxUnavailable", limit)])
    };
    let pods = || [well(0, 1), well(1, 1), pod(2, 2, unready)];
    let unready_one = Wait::new(Rule::PodsNotReady).counting(&[("desired", 3), ("pods", 3), ("ready", 2)]).saying("db-2");
    assert_eq!(waits(&db(2, 3, both(parallel(), max_unavailable(1))), pods()), [unready_one.clone(), limited(1, 1)]);
    // Without the gate it is one, whatever is asked for.
    let gates = Gates { max_unavailable: false, ..GATES };
    let did = sync(with_gates(view(&db(2, 3, both(parallel(), max_unavailable(3))), pods()), gates), &Api::yes());
    assert_eq!(did.conclusion.waits, [unready_one, limited(1, 1)]);
}

#[test]
fn pods_that_a_partition_or_a_hand_keeps() {
    let canary = [well(0, 1), well(1, 1), well(2, 2)];
    let expected = [Wait::new(Rule::Partition).counting(&[("partition", 2), ("outdated", 2)])];
    assert_eq!(waits(&db(2, 3, partition(2)), canary.clone()), expected);
    assert_eq!(waits(&db(2, 3, both(parallel(), partition(2))), canary.clone()), expected);
    let by_hand = [Wait::new(Rule::OnDelete).counting(&[("outdated", 2)])];
    assert_eq!(waits(&db(2, 3, strategy("OnDelete")), canary), by_hand);
}

#[test]
fn old_pods_that_a_recreation_waits_for() {
    let gates = Gates { recreate: true, ..GATES };
    let pods = [well(0, 2), pod(1, 1, terminating), well(2, 1)];
    let did = sync(with_gates(view(&db(2, 3, strategy("Recreate")), pods), gates), &Api::yes());
    assert_eq!(did.conclusion.waits, [Wait::on(Rule::OldPodsRun, "db-1").counting(&[("old", 2)])]);
    // Then it is as any other set.
    let done = sync(with_gates(view(&db(2, 3, strategy("Recreate")), all_well(0..3, 2)), gates), &Api::yes());
    assert_eq!(done.conclusion.waits, []);
}

#[test]
fn a_strategy_that_is_known() {
    for (strategy_type, why) in [
        ("Recreate", "statefulset shop/db uses Recreate strategy but feature gate StatefulSetRecreateStrategy is disabled"),
        ("Sideways", "statefulset shop/db uses unknown strategy \"Sideways\""),
    ] {
        let did = sync(view(&db(2, 3, strategy(strategy_type)), all_well(0..3, 1)), &Api::yes());
        assert_eq!(did.conclusion.waits, [Wait::new(Rule::UnknownStrategy).saying(why)]);
    }
}

#[test]
fn its_deletion() {
    assert_eq!(waits(&db(1, 3, deleting()), [pod(0, 1, unready)]), [Wait::new(Rule::BeingDeleted)]);
}

#[test]
fn a_selector_that_can_be_read() {
    let broken: Value = json!({"spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}}});
    let waits = waits(&db(1, 3, broken), []);
    let [wait] = waits.as_slice() else { panic!("{waits:?}") };
    assert!(wait.is_same(&Wait::new(Rule::InvalidSelector)), "{wait:?}");
    assert!(wait.detail.as_deref().is_some_and(|why| why.contains("Near")), "{wait:?}");
}
