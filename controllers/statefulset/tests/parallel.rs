//! `Parallel`: pods are made and deleted without regard to each other (upstream `slowStartBatch`).

mod support;

use model::Pod;
use serde_json::{Value, json};
use support::{
    Api, all_well, both, claim, db, failed, failed_and_terminating, parallel, pending, pod, refused, retention, sync, terminating, unready,
    view, well, with_claims,
};

fn set(template: u32, replicas: i32, change: Value) -> std::sync::Arc<model::StatefulSet> {
    db(template, replicas, both(parallel(), change))
}

fn sizes(batches: &[Vec<String>]) -> Vec<usize> {
    batches.iter().map(Vec::len).collect()
}

#[test]
fn sts_30_pods_are_made_in_growing_batches() {
    let did = sync(view(&set(1, 20, json!({})), []), &Api::yes());
    assert_eq!(sizes(&did.batches), [1, 2, 4, 8, 5]);
    assert_eq!((did.actions[0].as_str(), did.actions[19].as_str()), ("create db-0", "create db-19"));
    let did = sync(view(&set(1, 1200, json!({})), []), &Api::yes());
    assert_eq!(sizes(&did.batches), [1, 2, 4, 8, 16, 32, 64, 128, 256, 500, 189]);
}

#[test]
fn a_refusal_ends_the_batches_and_all_that_was_wrong_is_said() {
    let api = Api::yes().to("create db-1", refused(403, "Forbidden")).to("create db-2", refused(500, "InternalError"));
    let did = sync(view(&set(1, 9, json!({})), []), &api);
    assert_eq!(did.actions, ["create db-0", "create db-1", "create db-2"]);
    assert_eq!(did.error(), Some("[Forbidden for a test, InternalError for a test]"));
    assert_eq!(did.events.len(), 3);
    assert_eq!(did.counts(), [0; 5]);
}

#[test]
fn sts_42_a_stuck_pod_stops_nobody() {
    for stuck in [failed_and_terminating as fn(&mut Pod), terminating, pending, unready] {
        let pods = [well(0, 1), pod(1, 1, stuck), well(2, 1), pod(3, 1, failed), well(4, 1)];
        let did = sync(view(&set(1, 7, json!({})), pods), &Api::yes());
        assert_eq!(did.batches, [vec!["delete db-3"], vec!["create db-5", "create db-6"]]);
        assert_eq!(did.error(), None);
    }
}

#[test]
fn pods_that_have_ended_are_all_replaced() {
    let pods = [pod(0, 1, failed), pod(1, 1, support::succeeded), pod(2, 1, failed)];
    let did = sync(view(&set(1, 3, json!({})), pods), &Api::yes());
    assert_eq!(did.actions, ["delete db-0", "delete db-1", "delete db-2"]);
    assert_eq!(did.events.iter().filter(|event| event.contains("Recreating")).count(), 3);
}

#[test]
fn all_condemned_pods_go_at_once() {
    let pods = [well(0, 1), pod(1, 1, unready), pod(2, 1, terminating), pod(3, 1, failed), well(4, 1), well(5, 1)];
    let did = sync(view(&set(1, 1, json!({})), pods), &Api::yes());
    assert_eq!(did.batches, [vec!["delete db-5"], vec!["delete db-4", "delete db-3"], vec!["delete db-1"]]);
    let did = sync(view(&set(1, 1, json!({})), all_well(0..6, 1)), &Api::yes().to("delete db-4", refused(500, "InternalError")));
    assert_eq!(did.actions, ["delete db-5", "delete db-4", "delete db-3"]);
    assert_eq!(did.error(), Some("InternalError for a test"));
}

#[test]
fn sts_28_condemned_pods_go_although_others_cannot_be_made() {
    // They are what fills the quota.
    let pods = (0..21).filter(|ordinal| *ordinal != 2).map(|ordinal| well(ordinal, 1));
    let did = sync(view(&set(1, 5, json!({})), pods), &Api::yes().to("create", refused(403, "Forbidden")));
    let deletes: Vec<_> = did.actions.iter().filter(|action| action.starts_with("delete")).collect();
    assert_eq!((did.actions[0].as_str(), deletes.len(), did.actions.len()), ("create db-2", 16, 17));
    assert_eq!(did.error(), Some("Forbidden for a test"), "and the missing one is tried again");
    assert_eq!(did.counts(), [20, 20, 20, 20, 20]);
    // Nothing is updated in the same sync.
    let did = sync(view(&set(2, 3, json!({})), all_well(0..2, 1)), &Api::yes().to("create", refused(403, "Forbidden")));
    assert_eq!(did.actions, ["create db-2"]);
}

#[test]
fn condemned_pods_do_not_go_before_their_claims_know() {
    let with = |api: Api| {
        let claims = (0..3).map(|ordinal| claim(ordinal, []));
        let pods = (0..3).map(|ordinal| pod(ordinal, 1, support::mounting(&["data"])));
        sync(with_claims(view(&set(1, 0, retention("Retain", "Delete")), pods), claims), &api)
    };
    let did = with(Api::yes());
    assert_eq!(
        did.batches,
        [
            vec!["reown data-db-2 to Pod db-2"],
            vec!["reown data-db-1 to Pod db-1", "reown data-db-0 to Pod db-0"],
            vec!["delete db-2"],
            vec!["delete db-1", "delete db-0"]
        ]
    );
    let did = with(Api::yes().to("reown data-db-1", refused(409, "Conflict")));
    assert_eq!(did.actions.len(), 3);
    assert!(did.error().is_some() && !did.actions.iter().any(|action| action.starts_with("delete")));
}

#[test]
fn a_broken_pod_of_an_old_revision_is_replaced_without_a_word() {
    let did = sync(view(&set(2, 3, json!({})), [well(0, 2), well(1, 2), pod(2, 1, unready)]), &Api::yes());
    assert_eq!(did.actions, ["delete db-2"]);
    assert!(!did.events.iter().any(|event| event.contains("RolloutStalled")));
}

#[test]
fn a_lost_answer_of_a_create_is_an_error() {
    let lost = model::plan::Outcome::Unknown(support::api_error(0, "Timeout"));
    let did = sync(view(&set(1, 1, json!({})), []), &Api::yes().to("create", lost));
    assert_eq!(did.error(), Some("Timeout for a test"));
    assert_eq!(did.events, ["Warning FailedCreate: Create Pod db-0 in StatefulSet db failed error: Timeout for a test"]);
}

#[test]
fn what_is_not_sent_is_not_told() {
    let did = sync(view(&set(1, 3, json!({})), []), &Api::yes().to("create", model::plan::Outcome::NotSent));
    assert!(did.actions.is_empty() && did.events.is_empty());
}
