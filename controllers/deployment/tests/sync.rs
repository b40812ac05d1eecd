//! A sync as a whole: which ReplicaSets are claimed, which way it takes, and what it writes to its Deployment.

mod support;

use model::Uid;
use model::plan::{Answer, IfRefused, Question};
use serde_json::{Value, json};
use support::{Api, WEB_UID, WEB_VERSION, api_error, available, both, condition, recreate, refused, rolling, set, sized, sync, view, web};

/// No owner, of the template that the Deployment has.
fn orphan() -> std::sync::Arc<model::ReplicaSet> {
    set(1, 3, json!({"metadata": {"ownerReferences": null}}))
}

/// Ours, with labels that the Deployment does not select.
fn strayed() -> std::sync::Arc<model::ReplicaSet> {
    set(2, 5, json!({"metadata": {"labels": {"app": "other"}}}))
}

fn deleting() -> Value {
    json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
}

#[test]
fn orphans_that_match_are_adopted_after_one_live_look_at_the_deployment() {
    let another = set(2, 0, json!({"metadata": {"ownerReferences": null}}));
    let did = sync(view(&web(1, 3, json!({})), [orphan(), another]), &Api::yes());
    assert_eq!(did.actions, ["adopt web-1", "adopt web-2", "patch web-1"], "the adopted is the new one, above the other's revision");
    assert!(matches!(did.asked.as_slice(), [Question::MayAdopt(owner)] if owner.uid == WEB_UID));
    assert_eq!(did.status()["replicas"], 3);
}

#[test]
fn what_is_ours_already_needs_no_live_look() {
    let did = sync(view(&web(1, 3, json!({})), [set(1, 3, json!({}))]), &Api::yes());
    assert!(did.asked.is_empty() && did.actions.is_empty());
}

#[test]
fn a_deployment_that_is_gone_or_going_adopts_nobody_and_the_sync_fails() {
    let live = [
        (Answer::Owner { uid: Uid(9), deleting: false }, "is gone"),
        (Answer::Owner { uid: WEB_UID, deleting: true }, "has just been deleted"),
        (Answer::Failed(api_error(500, "InternalError")), "can't recheck DeletionTimestamp"),
    ];
    for (answer, text) in live {
        let api = Api { live_owner: Some(answer), ..Api::yes() };
        let did = sync(view(&web(1, 3, json!({})), [orphan(), strayed()]), &api);
        assert_eq!(did.actions, ["release web-2"], "releases are still tried, nothing else is");
        assert!(did.error().is_some_and(|error| error.contains(text)), "{:?}", did.conclusion);
        assert!(did.conclusion.status.is_none());
    }
}

#[test]
fn what_no_longer_matches_is_released_and_not_counted() {
    let did = sync(view(&web(1, 3, json!({})), [set(1, 3, json!({})), strayed()]), &Api::yes());
    assert_eq!(did.actions, ["release web-2"]);
    assert_eq!(did.status()["replicas"], 3);
}

#[test]
fn replica_sets_of_others_are_left_alone() {
    let owner =
        |kind: &str, uid: &str| json!({"metadata": {"ownerReferences": [{"kind": kind, "name": "x", "uid": uid, "controller": true}]}});
    let others = [
        set(2, 2, owner("Deployment", "6d9f8a3e-0000-4000-8000-000000000077")),
        set(3, 2, owner("Rollout", "6d9f8a3e-0000-4000-8000-000000000078")),
        set(4, 2, json!({"metadata": {"ownerReferences": null, "labels": {"app": "db"}}})),
        set(5, 2, both(deleting(), json!({"metadata": {"ownerReferences": null}}))),
    ];
    let did = sync(view(&web(1, 3, json!({})), others.into_iter().chain([set(1, 3, json!({}))])), &Api::yes());
    assert!(did.actions.is_empty(), "{:?}", did.actions);
    assert_eq!(did.status()["replicas"], 3);
}

#[test]
fn lost_races_of_claims_are_no_failures() {
    let api = Api::yes().to("adopt", refused(404, "NotFound")).to("release", refused(422, "Invalid"));
    let did = sync(view(&web(1, 0, json!({})), [orphan(), strayed()]), &api);
    assert_eq!(did.error(), None);
    assert!(did.actions.iter().any(|action| action.starts_with("create")), "what could not be adopted is not there: {:?}", did.actions);
}

#[test]
fn a_claim_that_fails_ends_the_sync_before_anything_else() {
    let api = Api::yes().to("adopt", refused(500, "InternalError")).to("release", refused(500, "InternalError"));
    let did = sync(view(&web(1, 9, json!({})), [orphan(), strayed(), set(3, 4, json!({}))]), &api);
    assert_eq!(did.actions, ["adopt web-1", "release web-2"]);
    assert_eq!(did.error(), Some("InternalError for a test"), "equal errors are said once");
    assert!(did.conclusion.status.is_none());
}

#[test]
fn a_deployment_that_is_being_deleted_only_reports() {
    let gone = both(deleting(), json!({"metadata": {"annotations": {"deprecated.deployment.rollback.to": "1"}}, "spec": {"paused": true}}));
    let sets = [set(1, 2, sized(9, 9)), set(2, 5, available(4)), orphan(), strayed()];
    let did = sync(view(&web(2, 9, gone.clone()), sets), &Api::yes());
    assert!(did.actions.is_empty(), "{:?}", did.actions);
    assert_eq!((&did.status()["replicas"], &did.status()["unavailableReplicas"]), (&json!(7), &json!(1)));
    assert!(did.asked.is_empty());

    let did = sync(view(&web(3, 9, gone), [set(1, 2, json!({}))]), &Api::yes());
    assert!(did.actions.is_empty(), "nothing is created: {:?}", did.actions);
}

#[test]
fn a_deployment_that_selects_everything_is_told_so_and_left_alone() {
    let all = json!({"spec": {"selector": {"matchLabels": null}}, "metadata": {"generation": 4}});
    let did = sync(view(&web(1, 3, all), [orphan(), strayed()]), &Api::yes());
    assert_eq!(did.events, ["Warning SelectingAll: This deployment is selecting all pods. A non-empty selector is required."]);
    assert!(did.actions.is_empty() && did.error().is_none());
    assert_eq!(did.status(), json!({"observedGeneration": 4}));

    let did = sync(view(&web(1, 3, json!({"spec": {"selector": {"matchLabels": null}}})), []), &Api::yes());
    assert!(did.did_nothing() && did.events.len() == 1, "this generation was observed before");
}

#[test]
fn a_selector_that_cannot_be_read_is_an_error() {
    let odd = json!({"spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}});
    let did = sync(view(&web(1, 3, odd), [orphan(), strayed()]), &Api::yes());
    assert!(did.actions.is_empty() && did.conclusion.status.is_none());
    let error = did.error().unwrap();
    assert!(error.starts_with("deployment shop/web has invalid label selector: "), "{error}");
}

#[test]
fn a_strategy_that_we_do_not_know_is_an_error_but_its_replica_sets_are_scaled() {
    let later = json!({"spec": {"strategy": {"type": "Later", "rollingUpdate": null}}});
    let did = sync(view(&web(2, 3, later.clone()), [set(1, 3, sized(3, 3))]), &Api::yes());
    assert!(did.actions.is_empty());
    assert_eq!(did.error(), Some("unexpected deployment strategy type: Later"));

    let did = sync(view(&web(2, 5, later), [set(1, 3, sized(3, 3))]), &Api::yes());
    assert_eq!((did.actions, did.conclusion.error), (vec!["scale web-1 to 5".to_owned()], None));
}

#[test]
fn all_that_one_sync_has_for_its_deployment_is_one_write() {
    // Resumed, with a new template: upstream writes here up to three times, of which the second conflicts with the first.
    let resumed = json!({
        "metadata": {"annotations": {"deployment.kubernetes.io/revision": "1", "note": "kept"}, "finalizers": ["x/y"]},
        "spec": {"progressDeadlineSeconds": 600}, "status": {"replicas": 3, "readyReplicas": 3, "availableReplicas": 3,
            "conditions": [condition("Progressing", "Unknown", "DeploymentPaused", 9)]},
    });
    let did = sync(view(&web(2, 3, both(resumed, rolling(1, 0))), [set(1, 3, sized(3, 4))]), &Api::yes());
    assert!(did.actions[0].starts_with("create web-"), "{:?}", did.actions);
    let update = did.conclusion.status.as_ref().unwrap();
    assert_eq!((update.target.resource_version, update.target.uid, update.if_refused), (WEB_VERSION, WEB_UID, IfRefused::Fail));
    assert_eq!(did.annotations(), json!({"deployment.kubernetes.io/revision": "2", "note": "kept"}));
    assert!(update.metadata.as_ref().unwrap().get().contains(r#""finalizers":["x/y"]"#));
    assert_eq!(did.condition("Progressing")["reason"], "NewReplicaSetCreated");
    assert_eq!(did.status()["replicas"], 3);
}

#[test]
fn what_a_failed_sync_has_found_out_is_written_all_the_same() {
    let resumed = json!({"spec": {"progressDeadlineSeconds": 600},
        "status": {"conditions": [condition("Progressing", "Unknown", "DeploymentPaused", 9)]}});
    let api = Api::yes().to("scale", refused(409, "Conflict"));
    let did = sync(view(&web(1, 5, resumed), [set(1, 3, sized(3, 3))]), &api);
    assert_eq!(did.error(), Some("Conflict for a test"));
    assert_eq!(did.said("Progressing"), json!(["Unknown", "DeploymentResumed", "Deployment is resumed"]));
    assert_eq!(did.status().get("replicas"), None, "counts are of a sync that went through");
}

#[test]
fn a_settled_deployment_is_left_as_it_is() {
    let status = json!({"observedGeneration": 3, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3, "availableReplicas": 3,
        "terminatingReplicas": 0, "conditions": [condition("Available", "True", "MinimumReplicasAvailable", 90),
        condition("Progressing", "True", "NewReplicaSetAvailable", 80)], "fieldOfTheFuture": {"a": [1.50]}});
    let told = |version| set(version, if version == 2 { 3 } else { 0 }, both(sized(3, 3), json!({"status": {"terminatingReplicas": 0}})));
    for strategy in [json!({}), recreate()] {
        let settled = both(strategy, json!({"spec": {"progressDeadlineSeconds": 600}, "status": status}));
        let did = sync(view(&web(2, 3, settled), [told(1), told(2)]), &Api::yes());
        assert!(did.did_nothing() && did.events.is_empty(), "{did:?}");
        assert_eq!(did.conclusion.requeue_after, None);
    }
}

#[test]
fn a_failure_among_the_old_replica_sets_is_tried_again() {
    // Upstream takes it for "nothing was scaled" and waits for the next event.
    let broken = [set(1, 3, available(0)), set(2, 3, json!({}))];
    let did = sync(view(&web(2, 3, json!({})), broken.clone()), &Api::yes().to("scale web-1", refused(409, "Conflict")));
    assert_eq!(did.actions, ["scale web-1 to 0"]);
    assert_eq!(did.error(), Some("Conflict for a test"));
    assert_eq!(did.status()["replicas"], 6, "the status is written besides");

    let did = sync(view(&web(2, 3, json!({})), broken), &Api::yes());
    assert_eq!((did.actions, did.conclusion.error), (vec!["scale web-1 to 0".to_owned()], None));
}
