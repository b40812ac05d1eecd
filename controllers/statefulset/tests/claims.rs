//! The claims of a set's pods (upstream `createPersistentVolumeClaims`, `PodClaimIsStale`, `getPersistentVolumeClaims`).

mod support;

use model::plan::Rule;
use serde_json::{Value, json};
use support::{
    Api, both, claim, claim_of, claiming, db, owner, parallel, pending, pod, pod_owner, refused, retention, set_owner, start, sync, view,
    well, with_claims,
};

fn terminating(claim: &mut model::PersistentVolumeClaim) {
    claim.deletion = support::NOW.timestamp();
}

#[test]
fn sts_46_what_a_new_claim_is_made_of() {
    let template = json!({
        "apiVersion": "v1beta9", "kind": "Odd", "status": {"phase": "Pending"},
        "metadata": {"name": "data", "creationTimestamp": null, "labels": {"app": "of-the-template", "tier": "x"}, "annotations": {"a": "b"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "ofTheFuture": [1.5]},
    });
    let selector = json!({"matchLabels": {"app": "db"}, "matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]});
    let set = db(1, 5, both(start(4), json!({"spec": {"volumeClaimTemplates": [template], "selector": selector}})));
    let did = sync(view(&set, []), &Api::yes());
    assert_eq!(did.actions, ["create data-db-4", "create db-4"]);
    assert_eq!(did.steps[0].reason, Rule::ClaimMissing);
    assert_eq!(
        did.created("data-db-4"),
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data-db-4", "namespace": "shop", "creationTimestamp": null, "labels": {"app": "db", "tier": "x"},
                "annotations": {"a": "b"}},
            "spec": {"accessModes": ["ReadWriteOnce"], "ofTheFuture": [1.5]},
        })
    );
    assert_eq!(
        did.events,
        [
            "Normal SuccessfulCreate: Create Claim data-db-4 Pod db-4 in StatefulSet db success",
            "Normal SuccessfulCreate: Create Pod db-4 in StatefulSet db successful"
        ]
    );
}

#[test]
fn a_template_without_labels_gets_those_of_the_selector() {
    for labels in [Value::Null, json!({})] {
        let mut json = support::db_json(1, 1, claiming(&["data"]));
        json["spec"]["volumeClaimTemplates"][0]["metadata"]["labels"] = labels;
        let did = sync(view(&support::decode_db(&json), []), &Api::yes());
        assert_eq!(did.created("data-db-0")["metadata"]["labels"], json!({"app": "db"}));
    }
}

#[test]
fn sts_24_a_claim_that_goes_with_its_set_is_owned_from_the_start() {
    for (when_deleted, when_scaled, is_owned) in
        [("Retain", "Retain", false), ("Retain", "Delete", false), ("Delete", "Retain", true), ("Delete", "Delete", true)]
    {
        let did = sync(view(&db(1, 1, retention(when_deleted, when_scaled)), []), &Api::yes());
        let owner = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": support::DB_UID.to_string(),
            "controller": true, "blockOwnerDeletion": true}]);
        let owners = did.created("data-db-0")["metadata"].get("ownerReferences").cloned();
        assert_eq!(owners, is_owned.then_some(owner), "{when_deleted}/{when_scaled}");
    }
}

#[test]
fn claims_that_are_there_are_used_as_they_are() {
    let set = db(1, 1, claiming(&["data", "wal"]));
    let did = sync(with_claims(view(&set, []), [claim(0, [])]), &Api::yes());
    assert_eq!(did.actions, ["create wal-db-0", "create db-0"]);
    let did = sync(with_claims(view(&set, []), [claim(0, []), claim_of("wal", 0, |_| {})]), &Api::yes());
    assert_eq!(did.actions, ["create db-0"]);
}

#[test]
fn a_pod_and_its_claims_are_one_piece_of_work() {
    let set = db(1, 3, both(claiming(&["data", "wal"]), parallel()));
    let did = sync(with_claims(view(&set, []), [claim(1, [])]), &Api::yes());
    assert_eq!(
        did.batches,
        [
            vec!["create data-db-0", "create wal-db-0", "create db-0"],
            vec!["create wal-db-1", "create db-1", "create data-db-2", "create wal-db-2", "create db-2"]
        ]
    );
}

#[test]
fn every_claim_is_tried_and_without_one_there_is_no_pod() {
    let set = db(1, 2, claiming(&["a", "b", "c"]));
    let api = Api::yes().to("create a-", refused(403, "Forbidden")).to("create c-", refused(500, "InternalError"));
    let did = sync(view(&set, []), &api);
    assert_eq!(did.actions, ["create a-db-0", "create b-db-0", "create c-db-0"]);
    let error = "[failed to create PVC a-db-0: Forbidden for a test, failed to create PVC c-db-0: InternalError for a test]";
    assert_eq!(did.error(), Some(error));
    assert_eq!(
        did.events,
        [
            "Warning FailedCreate: Create Claim a-db-0 for Pod db-0 in StatefulSet db failed error: Forbidden for a test",
            "Normal SuccessfulCreate: Create Claim b-db-0 Pod db-0 in StatefulSet db success",
            "Warning FailedCreate: Create Claim c-db-0 for Pod db-0 in StatefulSet db failed error: InternalError for a test",
            &format!("Warning FailedCreate: Create Pod db-0 in StatefulSet db failed error: {error}")
        ]
    );
    assert_eq!(did.counts(), [0; 5], "the status is written");
}

#[test]
fn a_claim_that_somebody_else_was_faster_with_is_seen_by_the_next_sync() {
    let did = sync(view(&db(1, 1, claiming(&["data"])), []), &Api::yes().to("create data", refused(409, "AlreadyExists")));
    assert_eq!(did.actions, ["create data-db-0"]);
    assert_eq!(did.error(), Some("failed to create PVC data-db-0: AlreadyExists for a test"));
    assert_eq!(did.events.len(), 1, "the pod's alone: {:?}", did.events);
    assert!(did.events[0].starts_with("Warning FailedCreate: Create Pod db-0 in StatefulSet db failed error: failed to create PVC"));
}

#[test]
fn sts_22_a_claim_that_is_on_its_way_out_is_waited_for() {
    let set = db(1, 2, claiming(&["data", "wal"]));
    let did = sync(with_claims(view(&set, []), [claim_of("data", 0, terminating)]), &Api::yes());
    assert_eq!(did.actions, ["create wal-db-0"], "the others are made");
    assert_eq!(did.error(), Some("pvc data-db-0 is being deleted"));
    assert_eq!(
        did.events.last().unwrap(),
        "Warning FailedCreate: Create Pod db-0 in StatefulSet db failed error: pvc data-db-0 is being deleted"
    );
    let did = sync(with_claims(view(&set, []), ["data", "wal"].map(|name| claim_of(name, 0, terminating))), &Api::yes());
    assert!(did.actions.is_empty());
    assert_eq!(did.error(), Some("[pvc data-db-0 is being deleted, pvc wal-db-0 is being deleted]"));
    assert_eq!(did.events.len(), 1);
    // When it is gone, it is made anew, for a pod that waits for it too.
    let did = sync(with_claims(view(&set, [pod(0, 1, pending)]), [claim_of("wal", 0, |_| {})]), &Api::yes());
    assert_eq!((did.actions.as_slice(), did.error()), (["create data-db-0".to_owned()].as_slice(), None));
}

#[test]
fn in_parallel_others_go_on() {
    let set = db(1, 3, both(claiming(&["data"]), parallel()));
    let did = sync(with_claims(view(&set, []), [claim_of("data", 0, terminating)]), &Api::yes());
    assert_eq!(did.actions, ["create data-db-1", "create db-1", "create data-db-2", "create db-2"]);
    assert_eq!(did.error(), Some("pvc data-db-0 is being deleted"));
}

#[test]
fn only_a_pending_pod_gets_its_claims_anew() {
    for policy in [json!({}), parallel()] {
        let set = db(1, 1, both(claiming(&["data"]), policy));
        for (change, expected) in [
            (pending as fn(&mut model::Pod), &["create data-db-0"][..]),
            (|_| {}, &[]),
            (support::unready, &[]),
            (support::failed_and_terminating, &[]),
        ] {
            let mounting = |pod: &mut model::Pod| {
                support::mounting(&["data"])(pod);
                change(pod);
            };
            assert_eq!(sync(view(&set, [pod(0, 1, mounting)]), &Api::yes()).actions, expected);
        }
        let did = sync(with_claims(view(&set, [pod(0, 1, pending)]), [claim_of("data", 0, terminating)]), &Api::yes());
        assert_eq!((did.error(), did.events.len()), (Some("pvc data-db-0 is being deleted"), 0));
        let did = sync(view(&set, [pod(0, 1, pending)]), &Api::yes().to("create", refused(403, "Forbidden")));
        assert_eq!((did.error(), did.events.len()), (Some("failed to create PVC data-db-0: Forbidden for a test"), 1));
    }
}

#[test]
fn claims_of_an_earlier_pod_block_the_next_one() {
    let earlier = || claim(0, [owner("v1", "Pod", "db-0", model::Uid(5))]);
    for (when_deleted, when_scaled, blocks) in
        [("Retain", "Retain", false), ("Delete", "Retain", false), ("Retain", "Delete", true), ("Delete", "Delete", true)]
    {
        let set = db(1, 2, retention(when_deleted, when_scaled));
        let did = sync(with_claims(view(&set, []), [earlier()]), &Api::yes());
        let expected: &[&str] = if blocks { &[] } else { &["create db-0"] };
        assert_eq!(did.actions, expected, "{when_deleted}/{when_scaled}");
        assert_eq!(did.error(), None);
    }
    // Others go on where they may.
    let set = db(1, 2, both(retention("Retain", "Delete"), parallel()));
    let did = sync(with_claims(view(&set, []), [earlier(), claim(1, [])]), &Api::yes());
    assert_eq!((did.actions.as_slice(), did.error()), (["create db-1".to_owned()].as_slice(), None));
    assert_eq!(did.events.len(), 1);
    // Other owners block nothing.
    let set = db(1, 1, retention("Retain", "Delete"));
    for other in
        [owner("v1", "Pod", "db-1", model::Uid(5)), owner("v2", "Pod", "db-0", model::Uid(5)), owner("v1", "Job", "db-0", model::Uid(5))]
    {
        let did = sync(with_claims(view(&set, []), [claim(0, [other])]), &Api::yes());
        assert_eq!(did.actions, ["create db-0"]);
    }
}

#[test]
fn claims_that_were_kept_get_their_owner_after_the_pod() {
    let set = db(1, 1, retention("Delete", "Retain"));
    let did = sync(with_claims(view(&set, []), [claim(0, [])]), &Api::yes());
    assert_eq!(did.actions, ["create db-0", "reown data-db-0 to StatefulSet db"]);
    let did = sync(with_claims(view(&set, []), [claim(0, [])]), &Api::yes().to("create db-0", refused(403, "Forbidden")));
    assert_eq!(did.actions, ["create db-0"]);
    let did = sync(with_claims(view(&set, []), [claim(0, [])]), &Api::yes().to("reown", refused(409, "Conflict")));
    let error = "could not update claim data-db-0 for delete policy ownerRefs: Conflict for a test";
    assert_eq!(did.error(), Some(error));
    assert_eq!(did.events[1..], [format!("Warning FailedUpdate: Update Pod db-0 in StatefulSet db failed error: {error}")]);
    // Those that nobody is to own lose it.
    let did = sync(with_claims(view(&db(1, 1, claiming(&["data"])), []), [claim(0, [set_owner()])]), &Api::yes());
    assert_eq!(did.actions, ["create db-0", "reown data-db-0 to nobody"]);
    // Of the pod that is made nobody knows the UID.
    let did = sync(with_claims(view(&db(1, 1, retention("Retain", "Retain")), []), [claim(0, [pod_owner(0)])]), &Api::yes());
    assert_eq!(did.actions, ["create db-0"]);
}

#[test]
fn which_claims_a_sync_may_ask_for() {
    let names = |set: &model::StatefulSet, pods: &[_]| statefulset::wanted_claims(set, pods).collect::<Vec<_>>();
    let set = db(1, 2, both(claiming(&["a", "b"]), start(3)));
    assert_eq!(names(&set, &[well(9, 1)]), ["a-db-3", "b-db-3", "a-db-4", "b-db-4", "a-db-9", "b-db-9"]);
    assert_eq!(names(&set, &[well(3, 1), pod(0, 1, |pod| pod.name = "other-0".into())]), ["a-db-3", "b-db-3", "a-db-4", "b-db-4"]);
    assert!(names(&db(1, 2, json!({})), &[well(0, 1)]).is_empty());
    let many = db(1, 1_000_000, claiming(&["a"]));
    assert_eq!(names(&many, &[well(999_999, 1)]).len(), 10_001);
}
