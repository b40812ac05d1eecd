//! Who owns a pod's claims (upstream `isClaimOwnerUpToDate`, `updateClaimOwnerRefForSetAndPod`, `hasUnexpectedController`).

mod support;

use model::Uid;
use model::claim::ClaimOwner;
use model::plan::{Action, Answer, Rule};
use serde_json::json;
use support::{
    Api, both, claim, claim_of, claiming, db, foreign_owner, owner, parallel, pending, pod, pod_owner, refused, retention, set_owner,
    start, sync, view, well, with_claims,
};

const POLICIES: [(&str, &str); 4] = [("Retain", "Retain"), ("Delete", "Retain"), ("Retain", "Delete"), ("Delete", "Delete")];

/// What becomes of the owners of the claim of a pod that is wanted, or of one that is condemned.
fn owners_of(policy: (&str, &str), is_condemned: bool, owners: Vec<ClaimOwner>) -> Option<String> {
    let set = db(1, i32::from(!is_condemned), retention(policy.0, policy.1));
    let pod = pod(0, 1, support::mounting(&["data"]));
    let did = sync(with_claims(view(&set, [pod]), [claim(0, owners)]), &Api::yes());
    assert_eq!(did.error(), None);
    assert_eq!(did.actions.last().is_some_and(|action| action == "delete db-0"), is_condemned, "{did:?}");
    did.actions.iter().find_map(|action| Some(action.strip_prefix("reown data-db-0 to ")?.to_owned()))
}

#[test]
fn every_policy_has_its_owners() {
    let none = Vec::new;
    let (set, pod) = (|| vec![set_owner()], || vec![pod_owner(0)]);
    let both = || vec![set_owner(), pod_owner(0)];
    let [nobody, to_set, to_pod] = ["nobody", "StatefulSet db", "Pod db-0"].map(Some);
    // Wanted: nobody, the set, the pod or both own it; condemned: likewise.
    for (policy, wanted, condemned) in [
        (POLICIES[0], [None, nobody, nobody, nobody], [None, nobody, nobody, nobody]),
        (POLICIES[1], [to_set, None, to_set, to_set], [to_set, None, to_set, to_set]),
        (POLICIES[2], [None, nobody, nobody, nobody], [to_pod, to_pod, None, to_pod]),
        (POLICIES[3], [to_set, None, to_set, to_set], [to_pod, to_pod, None, to_pod]),
    ] {
        for (is_condemned, expected) in [(false, wanted), (true, condemned)] {
            for (owners, expected) in [none(), set(), pod(), both()].into_iter().zip(expected) {
                let became = owners_of(policy, is_condemned, owners.clone());
                assert_eq!(became.as_deref(), expected, "{policy:?} {is_condemned} {owners:?}");
            }
        }
    }
}

#[test]
fn sts_15_a_set_that_is_gone_is_given_no_claims() {
    let set = db(1, 1, retention("Delete", "Retain"));
    let view = || with_claims(view(&set, [pod(0, 1, support::mounting(&["data"]))]), [claim(0, vec![])]);
    for gone in [Answer::Owner { uid: support::DB_UID, deleting: true }, Answer::Owner { uid: Uid(5), deleting: false }] {
        let did = sync(view(), &Api { live_owner: Some(gone), ..Api::yes() });
        assert!(did.actions.is_empty() && did.error().unwrap().starts_with("can't adopt PersistentVolumeClaims: "), "{did:?}");
    }
    assert_eq!(sync(view(), &Api::yes()).actions, ["reown data-db-0 to StatefulSet db"]);
}

#[test]
fn owners_of_other_kinds_are_not_counted() {
    let plain = ClaimOwner { controller: false, ..foreign_owner() };
    for policy in POLICIES {
        let owns = |owners: Vec<ClaimOwner>| owners_of(policy, false, owners);
        assert_eq!(owns(vec![plain.clone()]), owns(vec![]));
        assert_eq!(owns(vec![plain.clone(), set_owner()]), owns(vec![set_owner()]));
    }
}

#[test]
fn claims_of_an_earlier_set_or_pod_are_left_alone() {
    let earlier_set = owner("apps/v1", "StatefulSet", "db", Uid(5));
    let earlier_pod = owner("v1", "Pod", "db-0", Uid(5));
    for policy in POLICIES {
        for is_condemned in [false, true] {
            for owners in [
                vec![earlier_set.clone()],
                vec![earlier_pod.clone()],
                vec![earlier_pod.clone(), set_owner()],
                vec![earlier_set.clone(), pod_owner(0), set_owner()],
            ] {
                assert_eq!(owners_of(policy, is_condemned, owners.clone()), None, "{policy:?} {owners:?}");
            }
        }
    }
    // The first reference of that name counts.
    let became = owners_of(("Delete", "Retain"), false, vec![set_owner(), earlier_set]);
    assert_eq!(became.as_deref(), Some("nobody"), "a conflicting controller");
}

#[test]
fn sts_27_another_controllers_claim_is_left_alone() {
    for policy in POLICIES {
        for is_condemned in [false, true] {
            let became = |owners: Vec<ClaimOwner>| owners_of(policy, is_condemned, owners);
            assert_eq!(became(vec![foreign_owner()]), None, "{policy:?}");
            for ours in [set_owner(), pod_owner(0)] {
                assert_eq!(became(vec![foreign_owner(), ours]).as_deref(), Some("nobody"), "{policy:?}");
            }
        }
    }
}

#[test]
fn a_conflicting_controller_is_told_of_when_its_claim_is_visited() {
    let conflict = "Warning ConflictingController: PersistentVolumeClaim data-db-0 has a conflicting OwnerReference that acts as a manging \
                    controller, the retention policy is ignored for this claim";
    let told = |policy: (&str, &str), pod: std::sync::Arc<model::Pod>, owners: Vec<ClaimOwner>| {
        let did = sync(with_claims(view(&db(1, 1, retention(policy.0, policy.1)), [pod]), [claim(0, owners)]), &Api::yes());
        did.events.iter().any(|event| event == conflict)
    };
    let mounted = || pod(0, 1, support::mounting(&["data"]));
    for policy in &POLICIES[1..] {
        assert!(!told(*policy, mounted(), vec![foreign_owner()]), "nothing is to be written");
        assert!(told(*policy, mounted(), vec![foreign_owner(), set_owner()]));
        // Claims of a pending pod are visited in any case.
        assert!(told(*policy, pod(0, 1, pending), vec![foreign_owner()]));
    }
    assert!(!told(("Retain", "Retain"), pod(0, 1, pending), vec![foreign_owner(), set_owner()]));
}

#[test]
fn an_owner_that_does_not_control_is_rewritten() {
    let plain = |owner: ClaimOwner| ClaimOwner { controller: false, ..owner };
    assert_eq!(owners_of(("Delete", "Retain"), false, vec![plain(set_owner())]).as_deref(), Some("StatefulSet db"));
    assert_eq!(owners_of(("Retain", "Delete"), true, vec![plain(pod_owner(0))]).as_deref(), Some("Pod db-0"));
    assert_eq!(owners_of(("Retain", "Retain"), false, vec![plain(set_owner())]).as_deref(), Some("nobody"));
}

#[test]
fn what_is_written_to_a_claim() {
    let set = db(1, 0, retention("Delete", "Delete"));
    let did = sync(with_claims(view(&set, [well(0, 1)]), [claim(0, [set_owner()])]), &Api::yes());
    let Action::Reown(reown) = &did.steps[0].action else { panic!("{did:?}") };
    assert_eq!((did.steps[0].reason, reown.target.resource_version.0), (Rule::RetentionPolicy, 300));
    let names: Vec<_> = reown.remove.iter().map(|owner| (owner.resource.kind, &*owner.name)).collect();
    assert_eq!(names, [("StatefulSet", "db"), ("Pod", "db-0")]);
    let add = reown.add.as_ref().unwrap();
    assert_eq!((add.resource.kind, &*add.name, add.uid), ("Pod", "db-0", support::pod_uid(0)));
}

#[test]
fn a_fix_is_told_as_an_update_of_the_pod() {
    let set = db(1, 1, retention("Delete", "Retain"));
    let healthy = || pod(0, 1, support::mounting(&["data"]));
    let did = sync(with_claims(view(&set, [healthy()]), [claim(0, [])]), &Api::yes());
    assert_eq!(did.actions, ["reown data-db-0 to StatefulSet db"]);
    assert_eq!(did.events, ["Normal SuccessfulUpdate: Update Pod db-0 in StatefulSet db successful"]);
    let did = sync(with_claims(view(&set, [healthy()]), [claim(0, [])]), &Api::yes().to("reown", refused(409, "Conflict")));
    let error = "could not update claim data-db-0 for delete policy ownerRefs: Conflict for a test";
    assert_eq!(did.error(), Some(error));
    assert_eq!(did.events, [format!("Warning FailedUpdate: Update Pod db-0 in StatefulSet db failed error: {error}")]);
    // A pod that has lost its label too has an event of its own.
    let nameless = pod(0, 1, |pod| {
        support::mounting(&["data"])(pod);
        pod.own_labels.name = false;
    });
    let did = sync(with_claims(view(&set, [nameless]), [claim(0, [])]), &Api::yes());
    assert_eq!(did.actions, ["reown data-db-0 to StatefulSet db", "label db-0"]);
    assert_eq!(did.events, ["Normal SuccessfulUpdate: Update Pod db-0 in StatefulSet db successful"]);
}

#[test]
fn which_pods_have_their_claims_fixed() {
    let set = db(1, 1, retention("Delete", "Retain"));
    for (change, in_order, in_parallel) in [
        (support::pending as fn(&mut model::Pod), true, true),
        (support::unready, false, true),
        (support::terminating, false, true),
        (support::failed_and_terminating, false, false),
        (|_| {}, true, true),
    ] {
        let is_fixed = |set: &std::sync::Arc<model::StatefulSet>| {
            let did = sync(with_claims(view(set, [pod(0, 1, change)]), [claim(0, [])]), &Api::yes());
            did.actions.iter().any(|action| action.starts_with("reown"))
        };
        assert_eq!(is_fixed(&set), in_order);
        assert_eq!(is_fixed(&db(1, 1, both(retention("Delete", "Retain"), parallel()))), in_parallel);
    }
}

#[test]
fn claims_that_are_not_there_are_skipped() {
    let set = db(1, 1, both(claiming(&["a", "b"]), json!({"spec": {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}}})));
    let mounted = || pod(0, 1, support::mounting(&["a", "b"]));
    let did = sync(with_claims(view(&set, [mounted()]), [claim_of("b", 0, |_| {})]), &Api::yes());
    assert_eq!(did.actions, ["reown b-db-0 to StatefulSet db"]);
    assert!(sync(view(&set, [mounted()]), &Api::yes()).did_nothing());
}

#[test]
fn before_a_pod_is_scaled_away_the_claims_of_all_condemned_ones_are_fixed() {
    let set = db(1, 1, retention("Retain", "Delete"));
    let claims = || (0..4).map(|ordinal| claim(ordinal, []));
    let pods = || (0..4).map(|ordinal| pod(ordinal, 1, support::mounting(&["data"])));
    let did = sync(with_claims(view(&set, pods()), claims()), &Api::yes());
    let fixes = ["reown data-db-3 to Pod db-3", "reown data-db-2 to Pod db-2", "reown data-db-1 to Pod db-1"];
    assert_eq!((&did.actions[..3], &did.actions[3..]), (fixes.map(str::to_owned).as_slice(), ["delete db-3".to_owned()].as_slice()));
    let did = sync(with_claims(view(&set, pods()), claims()), &Api::yes().to("reown data-db-2", refused(409, "Conflict")));
    assert_eq!(did.actions, fixes[..2], "no pod goes");
    assert_eq!(did.error(), Some("could not update claim data-db-2 for delete policy ownerRefs: Conflict for a test"));
    // Those that terminate as well; and none while something before it must be waited for.
    let pods = || [well(0, 1), pod(1, 1, support::terminating)];
    let did = sync(with_claims(view(&set, pods()), claims()), &Api::yes());
    assert_eq!(did.actions, ["reown data-db-1 to Pod db-1"]);
    let did = sync(with_claims(view(&set, [pod(0, 1, support::unready), well(1, 1)]), claims()), &Api::yes());
    assert!(did.actions.is_empty());
}

#[test]
fn sts_45_claims_follow_the_window_of_ordinals() {
    let set = db(1, 3, both(retention("Retain", "Delete"), start(2)));
    let pods = (0..3).map(|ordinal| pod(ordinal, 1, support::mounting(&["data"])));
    let claims = (0..3).map(|ordinal| claim(ordinal, []));
    let did = sync(with_claims(view(&set, pods), claims.clone()), &Api::yes());
    assert_eq!(did.actions, ["create data-db-3", "create db-3"], "what is missing comes first");
    let pods = (0..5).map(|ordinal| pod(ordinal, 1, support::mounting(&["data"])));
    let did = sync(with_claims(view(&set, pods), claims), &Api::yes());
    assert_eq!(did.actions, ["reown data-db-1 to Pod db-1", "reown data-db-0 to Pod db-0", "delete db-1"]);
}
