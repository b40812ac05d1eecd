//! What a ReplicaSet waits for: each rule reached, and nothing said where nothing is waited for.
//!
//! A [`Wait`] is built here only to be compared: a test of the program takes the rules of this file for reached.

mod support;

use model::plan::{ApiError, Outcome, Rule, Wait};
use model::{Time, Timestamp};
use replicaset::View;
use serde_json::json;
use support::{GATES, NOW, api_error, done, pod, pods, set, sync, view};

const SECOND: i64 = 1_000_000_000;

/// What a sync waits for whose writes succeed.
fn waits(view: View) -> Vec<Wait> {
    sync(view, None, |_| done("x")).conclusion.waits
}

fn unready(number: u64) -> std::sync::Arc<model::Pod> {
    pod(number, |pod| pod.ready = false)
}

fn ready_for(number: u64, seconds: i64) -> std::sync::Arc<model::Pod> {
    pod(number, |pod| pod.ready_changed = Timestamp::from_seconds(NOW.0 / SECOND - seconds))
}

#[test]
fn what_is_as_it_should_be_waits_for_nothing() {
    assert_eq!(waits(view(&set(3, |_| {}), pods(0..3))), []);
    assert_eq!(waits(view(&set(0, |_| {}), Vec::new())), []);
    // Nor does what was made smaller: nothing follows when the pods are gone.
    assert_eq!(waits(view(&set(2, |_| {}), pods(0..3))), []);
}

#[test]
fn its_deletion() {
    let deleted = set(3, |json| json["metadata"]["deletionTimestamp"] = json!("2027-01-15T07:59:00Z"));
    assert_eq!(waits(view(&deleted, pods(0..2))), [Wait::new(Rule::BeingDeleted).counting(&[("pods", 2)])]);
}

#[test]
fn a_selector_that_can_be_read() {
    let broken = set(3, |json| json["spec"]["selector"] = json!({"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}));
    let did = sync(view(&broken, pods(0..1)), None, |_| done("x"));
    let [wait] = did.conclusion.waits.as_slice() else { panic!("{:?}", did.conclusion.waits) };
    assert!(wait.is_same(&Wait::new(Rule::InvalidSelector)), "{wait:?}");
    assert!(wait.detail.as_deref().is_some_and(|why| why.contains("Near")), "{wait:?}");
    assert_eq!(did.conclusion.error, None);
}

#[test]
fn its_own_writes() {
    let unseen = View::new(set(3, |_| {}), pods(0..1), false, GATES);
    assert_eq!(waits(unseen), [Wait::new(Rule::WritesNotSeen).counting(&[("desired", 3), ("pods", 1)])]);
}

#[test]
fn the_rest_of_a_large_change() {
    let large = |desired, there: u64| [Wait::new(Rule::BurstLimit).counting(&[("desired", desired), ("pods", there as i32)])];
    assert_eq!(waits(view(&set(501, |_| {}), Vec::new())), large(501, 0));
    assert_eq!(waits(view(&set(0, |_| {}), pods(0..501))), large(0, 501));
    assert_eq!(waits(view(&set(500, |_| {}), Vec::new())), []);
}

#[test]
fn pods_that_are_not_ready() {
    let mut all = pods(0..2);
    all.push(unready(2));
    let expected = [Wait::new(Rule::PodsNotReady).counting(&[("desired", 3), ("pods", 3), ("ready", 2)])];
    assert_eq!(waits(view(&set(3, |_| {}), all.clone())), expected);
    // Of those that are made in this sync nothing is known yet; those that are not wanted need not be ready.
    assert_eq!(waits(view(&set(2, |_| {}), all)), []);
}

#[test]
fn the_time_that_ready_pods_must_have_been_ready_for() {
    let slow = set(3, |json| json["spec"]["minReadySeconds"] = json!(60));
    let all = vec![ready_for(0, 3600), ready_for(1, 50), ready_for(2, 20)];
    // The next look is after 10 s, at the second pod; the wait ends with the third.
    let did = sync(view(&slow, all), None, |_| done("x"));
    let figures = [("ready", 3), ("available", 1), ("minReadySeconds", 60)];
    let expected = Wait::new(Rule::MinReadySeconds).counting(&figures).until(Some(Time(NOW.0 + 40 * SECOND)));
    assert_eq!(did.conclusion.waits, [expected]);
    assert_eq!(did.conclusion.requeue_after.map(|after| after.as_secs()), Some(10));
}

#[test]
fn the_end_of_its_namespace() {
    let terminating = ApiError { namespace_terminating: true, ..api_error(403, "Forbidden") };
    let did = sync(view(&set(3, |_| {}), pods(0..1)), None, |_| Outcome::Failed(terminating.clone()));
    assert_eq!(did.conclusion.waits, [Wait::new(Rule::NamespaceTerminating).counting(&[("desired", 3), ("pods", 1)])]);
    assert_eq!(did.conclusion.error, None);
}
