//! Which revision the set is at and which it is on its way to (upstream `getStatefulSetRevisions`).

mod support;

use model::plan::{Answer, Outcome, Question, Rule};
use model::{ControllerRef, ObjectKey, OwnerKind, OwnerRef, Uid};
use serde_json::json;
use statefulset::{Gates, Sameness};
use support::{
    Api, GATES, all_well, api_error, claiming, data_of, db, hash_of, name_of, raw, refused, revision, revision_json, sync, template_of,
    view, well, with_gates, with_revisions,
};

fn asked_for(name: &str) -> Question {
    Question::Live { resource: &model::plan::CONTROLLERREVISIONS, key: ObjectKey::new("shop", name) }
}

#[test]
fn the_last_revision_is_found_by_its_bytes() {
    let did = sync(view(&db(2, 1, json!({})), [well(0, 2)]), &Api::yes());
    assert!(did.did_nothing() && did.asked.is_empty(), "{did:?}");
    // Of two with the same data, the later is the last.
    let twin = revision(2, 7, |revision| {
        revision.name = "db-twin".into();
        revision.uid = Uid(7);
    });
    let revisions = [twin, revision(2, 3, |_| {}), revision(1, 1, |_| {})];
    let did = sync(with_revisions(view(&db(2, 1, json!({})), all_well(0..1, 2)), revisions), &Api::yes());
    assert_eq!(did.actions, ["delete db-0"], "its revision is not the last");
    assert_eq!(did.status()["updateRevision"], "db-twin");
}

#[test]
fn revisions_are_ordered_by_number_then_age_then_name() {
    for (older, newer) in [((1, 5, "a"), (2, 1, "a")), ((1, 1, "b"), (1, 5, "a")), ((1, 1, "a"), (1, 1, "b"))] {
        let made = |version: u32, (number, created, name): (i64, i64, &str)| {
            revision(version, number, |revision| {
                revision.created = model::Timestamp::from_seconds(created);
                revision.name = name.into();
            })
        };
        // The template is the older one's, which becomes the last.
        let revisions = [made(2, newer), made(1, older)];
        let did = sync(with_revisions(view(&db(1, 0, json!({})), []), revisions), &Api::yes());
        assert_eq!(did.actions, [format!("raise {} to {}", older.2, newer.0 + 1)]);
    }
}

#[test]
fn a_template_of_before_raises_its_revision() {
    let revisions = || (1..=3).map(|version| revision(version, version.into(), |_| {}));
    let set = db(1, 2, json!({"status": {"currentRevision": name_of(3), "updateRevision": name_of(3)}}));
    let did = sync(with_revisions(view(&set, all_well(0..2, 3)), revisions()), &Api::yes());
    assert_eq!(did.actions, ["raise revision 1 to 4", "delete db-1"]);
    assert_eq!((did.steps[0].reason, did.asked.len()), (Rule::RolledBack, 0));
    assert_eq!(did.steps[0].action.target().unwrap().resource_version.0, 201, "if nobody has changed it meanwhile");
    assert_eq!(did.revisions(), ["revision 3", "revision 1"]);
    for outcome in [refused(409, "Conflict"), Outcome::Unknown(api_error(0, "Timeout"))] {
        let did = sync(with_revisions(view(&set, all_well(0..2, 3)), revisions()), &Api::yes().to("raise", outcome));
        assert_eq!(did.actions, ["raise revision 1 to 4"]);
        assert!(did.error().is_some() && did.conclusion.status.is_none());
    }
}

#[test]
fn there_is_no_number_after_the_last() {
    let revisions = [revision(1, i64::MAX, |_| {})];
    let did = sync(with_revisions(view(&db(2, 1, json!({})), [well(0, 1)]), revisions), &Api::yes());
    assert!(did.actions.is_empty() && did.error().unwrap().contains("no number after"), "{did:?}");
}

#[test]
fn the_first_revision() {
    let did = sync(with_revisions(view(&db(1, 1, json!({"status": {"currentRevision": ""}})), []), []), &Api::yes());
    assert_eq!(did.actions, ["create revision 1", "create db-0"]);
    assert_eq!(did.revisions(), ["revision 1", "revision 1"]);
    assert!(did.asked.is_empty());
    assert_eq!(did.created(&name_of(1))["revision"], 1);
}

#[test]
fn what_a_new_revision_is_made_of() {
    let change = json!({
        "metadata": {"annotations": {"note": "a < b"}, "labels": {"not": "taken"}},
        "spec": {"template": {"metadata": {"labels": {"app": "db", "tier": "x"}}, "spec": {"command": ["a && b"], "ofTheFuture": [1.5, null]}}},
    });
    let set = db(2, 1, change);
    let did = sync(with_revisions(view(&set, [well(0, 1)]), [revision(1, 4, |_| {})]), &Api::yes());
    let template: serde_json::Value = serde_json::from_str(set.spec.template.raw().get()).unwrap();
    let hash = model::revision::hash(data_of(&template).get(), Some(0));
    let name = format!("db-{hash}");
    assert_eq!(did.actions, [format!("create {name}"), "delete db-0".to_owned()]);
    assert_eq!(did.steps[0].reason, Rule::NewTemplate);
    let text = did.created_text(&name);
    assert!(text.contains(&format!(r#""data":{},"revision":5}}"#, data_of(&template).get())), "byte for byte: {text}");
    assert!(text.contains(r"a \u0026\u0026 b"));
    let mut created = did.created(&name);
    assert_eq!(created["data"]["spec"]["template"]["$patch"], "replace");
    created.as_object_mut().unwrap().remove("data");
    assert_eq!(
        created,
        json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 5,
            "metadata": {
                "name": name, "namespace": "shop", "annotations": {"note": "a < b"},
                "labels": {"app": "db", "tier": "x", "controller.kubernetes.io/hash": hash},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": support::DB_UID.to_string(),
                    "controller": true, "blockOwnerDeletion": true}],
            },
        })
    );
}

#[test]
fn a_long_name_is_cut() {
    let name = "x".repeat(240);
    let set = db(1, 0, json!({"metadata": {"name": name}}));
    let did = sync(with_revisions(view(&set, []), []), &Api::yes());
    assert_eq!(did.actions, [format!("create {}-{}", "x".repeat(223), hash_of(1))]);
}

/// A template with what the API server fills in, and the data of a revision of it as another release has written them.
fn of_another_release() -> (serde_json::Value, String) {
    let container = json!({"name": "c", "image": "x:1", "imagePullPolicy": "IfNotPresent", "resources": {},
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"});
    let template = json!({"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [container], "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst", "securityContext": {}, "schedulerName": "default-scheduler"}});
    let data = data_of(&template).get().replace(r#""metadata":{"#, r#""metadata":{"creationTimestamp":null,"#);
    (template, data)
}

#[test]
fn sts_07_a_revision_of_another_release_stays_the_templates() {
    let (template, data) = of_another_release();
    let set = db(1, 1, json!({"spec": {"template": template}, "status": {"currentRevision": "db-old"}}));
    let old = revision(1, 3, |revision| {
        revision.name = "db-old".into();
        revision.data = model::Fingerprint::of_bytes(data.as_bytes());
    });
    let pod = || support::pod(0, 1, |pod| pod.label_set = support::labels(&[("app", "db"), ("controller-revision-hash", "db-old")]).into());
    let view = || with_revisions(view(&set, [pod()]), [old.clone()]);
    let found = || Api::yes().finding("db-old", revision_json("db-old", &raw(&serde_json::from_str(&data).unwrap())));
    let did = sync(view(), &found());
    assert!(did.did_nothing(), "no new revision, no rollout: {did:?}");
    assert_eq!(did.asked, [asked_for("db-old")]);
    let sameness = Sameness { generation: 3, revision: old.resource_version };
    assert_eq!(did.sameness, Some(sameness));

    // Once is enough, as long as neither changes.
    for (known, asks) in
        [(sameness, 0), (Sameness { generation: 2, ..sameness }, 1), (Sameness { revision: model::ResourceVersion(1), ..sameness }, 1)]
    {
        let mut again = view();
        again.known_same = Some(known);
        let did = sync(again, &found());
        assert_eq!((did.asked.len(), did.sameness, did.did_nothing()), (asks, Some(sameness), true));
    }
    // The gate is off.
    let did = sync(with_gates(view(), Gates { semantic_comparison: false, ..GATES }), &found());
    assert!(did.asked.is_empty() && did.sameness.is_none());
    assert_eq!(did.actions.len(), 2, "a new revision, and the pod gives way: {:?}", did.actions);
    // It cannot be read.
    for answer in [Answer::Object(None), Answer::Failed(api_error(503, "ServiceUnavailable"))] {
        let did = sync(view(), &Api::yes().answering("db-old", answer));
        assert!(did.actions.is_empty() && did.error().is_some() && did.conclusion.status.is_none());
    }
}

#[test]
fn only_the_last_revision_is_compared_by_meaning() {
    let (template, data) = of_another_release();
    let set = db(1, 0, json!({"spec": {"template": template}}));
    let old = revision(1, 3, |revision| revision.data = model::Fingerprint::of_bytes(data.as_bytes()));
    let did = sync(with_revisions(view(&set, []), [old, revision(2, 4, |_| {})]), &Api::yes());
    assert_eq!(did.asked, [asked_for(&name_of(2))], "which means something else");
    assert_eq!(did.actions.len(), 1, "a new one: {:?}", did.actions);
    assert_eq!(did.sameness, None);
}

#[test]
fn sts_10_a_revision_that_is_there_already_is_used() {
    let set = db(2, 1, json!({}));
    let taken = || Api::yes().to("create revision 2", refused(409, "AlreadyExists"));
    let view = || with_revisions(view(&set, [well(0, 1)]), [revision(1, 1, |_| {})]);
    // Whoever owns it.
    let did = sync(view(), &taken());
    assert_eq!(did.actions, ["create revision 2", "delete db-0"]);
    assert_eq!(did.asked, [asked_for(&name_of(1)), asked_for(&name_of(2))]);
    assert_eq!((did.revisions(), &did.status()["collisionCount"]), (["revision 1", "revision 2"].map(str::to_owned), &json!(0)));
    // It is gone again, or cannot be read.
    for answer in [Answer::Object(None), Answer::Failed(api_error(500, "InternalError"))] {
        let did = sync(view(), &taken().answering(&name_of(2), answer));
        assert_eq!(did.actions, ["create revision 2"]);
        assert!(did.error().is_some() && did.conclusion.status.is_none());
    }
}

#[test]
fn sts_13_a_name_that_other_data_have_taken_is_passed_by() {
    let set = db(2, 1, json!({"status": {"collisionCount": 4}}));
    let data = data_of(&template_of(2));
    let [first, second, third] = [4, 5, 6].map(|count| model::revision::hash(data.get(), Some(count)));
    let names = [&first, &second, &third].map(|hash| format!("db-{hash}"));
    let other = revision_json("x", &data_of(&template_of(7)));
    let mut api = Api::yes();
    for name in &names[..2] {
        api = api.to(&format!("create {name}"), refused(409, "AlreadyExists")).finding(name, other.clone());
    }
    let did = sync(with_revisions(view(&set, [well(0, 1)]), [revision(1, 1, |_| {})]), &api);
    assert_eq!(did.actions[..3], names.clone().map(|name| format!("create {name}")));
    assert_eq!(did.actions[3..], ["delete db-0"]);
    let created = did.created(&names[2]);
    assert_eq!(created["metadata"]["labels"]["controller.kubernetes.io/hash"], first, "the label keeps the first hash");
    assert_eq!(did.status()["collisionCount"], 6);
    assert_eq!(did.status()["updateRevision"], *names[2]);
}

#[test]
fn a_collision_alone_is_not_written() {
    let status = json!({"observedGeneration": 3, "replicas": 1, "readyReplicas": 1, "availableReplicas": 1, "currentReplicas": 1, "updatedReplicas": 0});
    let set = db(2, 1, support::both(support::strategy("OnDelete"), json!({"status": status})));
    let api = Api::yes().to("create revision 2", refused(409, "AlreadyExists")).finding(&name_of(2), revision_json("x", &raw(&json!({}))));
    let hash = model::revision::hash(data_of(&template_of(2)).get(), Some(1));
    let set_with = |update: &str| {
        let mut json = support::db_json(2, 1, support::both(support::strategy("OnDelete"), json!({"status": status})));
        json["status"]["updateRevision"] = json!(update);
        support::decode_db(&json)
    };
    let did = sync(with_revisions(view(&set_with(&format!("db-{hash}")), [well(0, 1)]), [revision(1, 1, |_| {})]), &api);
    assert_eq!(did.actions.len(), 2);
    assert!(did.conclusion.status.is_none(), "{:?}", did.conclusion);
    let did = sync(with_revisions(view(&set, [well(0, 1)]), [revision(1, 1, |_| {})]), &api);
    assert_eq!(did.status()["collisionCount"], 1);
}

#[test]
fn a_revision_that_cannot_be_made_ends_the_sync_without_a_status() {
    for outcome in [refused(403, "Forbidden"), refused(409, "Conflict"), Outcome::Unknown(api_error(0, "Timeout")), Outcome::NotSent] {
        let view = with_revisions(view(&db(2, 1, json!({})), [well(0, 1)]), [revision(1, 1, |_| {})]);
        let did = sync(view, &Api::yes().to("create", outcome.clone()));
        assert!(did.error().is_some() && did.conclusion.status.is_none() && did.events.is_empty(), "{outcome:?}: {did:?}");
        assert!(did.actions.len() < 2);
    }
}

#[test]
fn a_current_revision_that_is_not_there_is_the_update_revision() {
    for current in ["", "db-gone"] {
        let set = db(2, 2, support::both(support::partition(1), json!({"status": {"currentRevision": current}})));
        let did = sync(view(&set, []), &Api::yes());
        assert_eq!(did.actions, ["create db-0"]);
        assert_eq!(did.revision_of("db-0"), "revision 2");
        assert_eq!(did.revisions(), ["revision 2", "revision 2"]);
    }
}

#[test]
fn revisions_of_others_do_not_count() {
    let foreign = |controller: ControllerRef| revision(2, 9, |revision| revision.controller = controller);
    let other = OwnerRef { kind: OwnerKind::StatefulSet, name: "db".into(), uid: Uid(99) };
    let unlabelled = revision(2, 9, |revision| revision.label_set = support::labels(&[("app", "other")]).into());
    for revision_of_others in [foreign(ControllerRef::Foreign), foreign(ControllerRef::Owner(other.into())), unlabelled] {
        let view = with_revisions(view(&db(2, 0, json!({})), []), [revision(1, 1, |_| {}), revision_of_others]);
        let did = sync(view, &Api::yes());
        assert_eq!(did.actions, ["create revision 2"]);
        assert_eq!(did.created(&name_of(2))["revision"], 2);
    }
}

#[test]
fn sts_15_orphan_revisions_are_adopted_after_a_live_look() {
    let orphan = |version: u32| revision(version, version.into(), |revision| revision.controller = ControllerRef::None);
    let set = db(2, 1, json!({}));
    let view = || with_revisions(view(&set, [well(0, 2)]), [orphan(1), orphan(2)]);
    let did = sync(view(), &Api::yes());
    assert_eq!((did.actions.as_slice(), did.error()), (["adopt revision 1".to_owned(), "adopt revision 2".to_owned()].as_slice(), None));
    assert_eq!(did.asked, [Question::MayAdopt(set.reference())]);
    assert!(did.steps.iter().all(|step| step.reason == Rule::OrphanMatches));
    for answer in [
        Answer::Owner { uid: support::DB_UID, deleting: true },
        Answer::Owner { uid: Uid(5), deleting: false },
        Answer::Failed(api_error(404, "NotFound")),
    ] {
        let did = sync(view(), &Api { live_owner: Some(answer), ..Api::yes() });
        assert!(did.actions.is_empty() && did.conclusion.status.is_none());
        assert!(did.error().unwrap().starts_with("can't adopt ControllerRevisions: "), "{did:?}");
    }
    // One that fails ends it.
    let did = sync(view(), &Api::yes().to("adopt revision 1", refused(404, "NotFound")));
    assert_eq!((did.actions.as_slice(), did.error()), (["adopt revision 1".to_owned()].as_slice(), Some("NotFound for a test")));
}

#[test]
fn one_look_serves_revisions_and_pods() {
    let orphan = revision(1, 1, |revision| revision.controller = ControllerRef::None);
    let lost = support::pod(0, 1, |pod| pod.controller = ControllerRef::None);
    let set = db(1, 1, json!({}));
    let did = sync(with_revisions(view(&set, [lost]), [orphan]), &Api::yes());
    assert_eq!(did.actions, ["adopt revision 1", "adopt db-0"]);
    assert_eq!(did.asked.len(), 1);
    assert_eq!(did.counts(), [1, 1, 1, 1, 1]);
}

#[test]
fn sts_49_a_set_made_anew_takes_over_what_it_left() {
    let orphan = revision(1, 1, |revision| revision.controller = ControllerRef::None);
    let lost = |ordinal| {
        support::pod(ordinal, 1, |pod| {
            pod.controller = ControllerRef::None;
            pod.claims = Some([model::pod::Claim::Conventional("data".into())].into());
        })
    };
    let size = json!({"spec": {"resources": {"requests": {"storage": "9Gi"}}}});
    let set = db(1, 2, support::both(claiming(&["data"]), json!({"status": {"currentRevision": "", "updateRevision": ""}})));
    let mut json = support::db_json(1, 2, claiming(&["data"]));
    support::merge(&mut json["spec"]["volumeClaimTemplates"][0], size);
    json["status"] = json!({"replicas": 0});
    let claims = || [support::claim(0, []), support::claim(1, [])];
    for set in [set, support::decode_db(&json)] {
        let view = support::with_claims(with_revisions(view(&set, [lost(0), lost(1)]), [orphan.clone()]), claims());
        let did = sync(view, &Api::yes());
        assert_eq!(did.actions, ["adopt revision 1", "adopt db-0", "adopt db-1"], "and no restart");
        assert_eq!(did.revisions(), ["revision 1", "revision 1"]);
    }
}

#[test]
fn pods_are_claimed_by_name_and_labels() {
    let controlled = |uid: u128| ControllerRef::Owner(OwnerRef { kind: OwnerKind::StatefulSet, name: "db".into(), uid: Uid(uid) }.into());
    let unlabelled = |pod: &mut model::Pod| pod.label_set = support::labels(&[("app", "other")]).into();
    let orphan = |name: &'static str| {
        move |pod: &mut model::Pod| {
            pod.name = name.into();
            pod.controller = ControllerRef::None;
        }
    };
    let pods = [
        support::pod(0, 1, |_| {}),
        support::pod(1, 1, unlabelled),
        support::pod(2, 1, |pod| pod.controller = controlled(99)),
        support::pod(3, 1, |pod| pod.controller = ControllerRef::Foreign),
        support::pod(4, 1, orphan("other-4")),
        support::pod(5, 1, orphan("db")),
        support::pod(6, 1, |pod| {
            orphan("db-6")(pod);
            support::terminating(pod);
        }),
        support::pod(7, 1, orphan("db-7")),
    ];
    let did = sync(view(&db(1, 1, json!({})), pods), &Api::yes());
    assert_eq!(did.actions, ["release db-1", "adopt db-7", "delete db-7"]);
    assert_eq!(did.counts()[0], 2);
    let lost = || [support::pod(0, 1, orphan("db-0")), support::pod(1, 1, unlabelled)];
    let refusing = Api { live_owner: Some(Answer::Owner { uid: support::DB_UID, deleting: true }), ..Api::yes() };
    let did = sync(view(&db(1, 1, json!({})), lost()), &refusing);
    assert_eq!(did.actions, ["release db-1"], "which needs no look");
    assert!(did.error().is_some() && did.conclusion.status.is_none());
    let did = sync(view(&db(1, 1, json!({})), lost()), &Api::yes().to("adopt", refused(500, "InternalError")));
    assert_eq!((did.actions.len(), did.error()), (2, Some("InternalError for a test")));
}

#[test]
fn a_set_without_a_selector_is_left_alone() {
    let selector = json!({"spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "Odd"}]}}});
    let did = sync(view(&db(1, 1, selector), [well(0, 1)]), &Api::yes());
    assert!(did.did_nothing() && did.conclusion.status.is_none());
}

#[test]
fn what_was_adopted_is_changed_at_the_version_that_it_has_now() {
    let orphan = revision(1, 1, |revision| revision.controller = ControllerRef::None);
    let nameless = |ordinal, controller: ControllerRef| {
        support::pod(ordinal, 1, |pod| {
            pod.controller = controller;
            pod.own_labels.name = false;
        })
    };
    let pods = [nameless(0, ControllerRef::None), nameless(1, support::owned())];
    let did = sync(with_revisions(view(&db(1, 2, json!({})), pods), [orphan, revision(2, 2, |_| {})]), &Api::yes());
    assert_eq!(did.actions, ["adopt revision 1", "adopt db-0", "raise revision 1 to 3", "label db-0", "label db-1"]);
    let versions: Vec<_> = did.steps.iter().map(|step| step.action.target().unwrap().resource_version.0).collect();
    assert_eq!(versions, [201, 100, 1000, 1001, 101]);
}
