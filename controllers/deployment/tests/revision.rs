//! Which ReplicaSet is the new one, what it is told of its Deployment, and the revisions.

mod support;

use serde_json::{Value, json};
use support::{Api, available, both, condition, recreate, refused, rolling, set, set_version, sized, sync, view, web};

const REVISION: &str = "deployment.kubernetes.io/revision";
const HISTORY: &str = "deployment.kubernetes.io/revision-history";

fn revision(text: &str) -> Value {
    json!({"metadata": {"annotations": {"deployment.kubernetes.io/revision": text}}})
}

fn noted(annotations: impl Into<Value>) -> Value {
    json!({"metadata": {"annotations": annotations.into()}})
}

#[test]
fn dep_01_of_equal_templates_the_oldest_is_the_new_one_and_the_other_goes_to_zero() {
    let of_template_1 = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "web:v1"}]}}}});
    let twins = [set(5, 3, of_template_1.clone()), set(4, 3, of_template_1), set(6, 0, json!({}))];
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let sets = order.map(|at| twins[at].clone());
        let did = sync(view(&web(1, 3, json!({})), sets), &Api::yes());
        assert_eq!(did.actions, ["patch web-4", "scale web-5 to 0"]);
        assert_eq!(did.bodies("web-4"), [&noted(json!({REVISION: "7", HISTORY: "4"}))]);
    }
}

#[test]
fn of_equally_old_ones_the_name_decides() {
    let twin = |template| {
        let made = json!({"metadata": {"creationTimestamp": "2026-05-20T00:00:00Z"}});
        set(template, 3, both(made, json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "web:v1"}]}}}})))
    };
    let did = sync(view(&web(1, 3, json!({})), [twin(3), twin(2)]), &Api::yes());
    assert_eq!(did.actions, ["patch web-2", "scale web-3 to 0"]);
}

#[test]
fn names_and_hashes_do_not_make_a_replica_set_the_new_one() {
    let spelt_otherwise = json!({
        "metadata": {"name": "whatever", "labels": {"pod-template-hash": "by-another"}},
        "spec": {"template": {"metadata": {"creationTimestamp": null, "annotations": {}, "labels": {"pod-template-hash": "and-another"}},
            "spec": {"volumes": [], "containers": [{"image": "web:v1", "name": "c"}]}}},
    });
    let did = sync(view(&web(1, 3, json!({})), [set(1, 3, spelt_otherwise)]), &Api::yes());
    assert!(did.actions.is_empty(), "{:?}", did.actions);
}

#[test]
fn going_back_raises_the_revision_and_keeps_the_earlier_ones() {
    for (history, expected) in [(json!(null), "1"), (json!(""), "1"), (json!("7"), "7,1"), (json!("7,9"), "7,9,1")] {
        let back = set(1, 3, noted(json!({HISTORY: history})));
        let did = sync(view(&web(1, 3, revision("5")), [back, set(5, 0, json!({})), set(3, 0, revision("no number"))]), &Api::yes());
        assert_eq!(did.bodies("web-1"), [&noted(json!({REVISION: "6", HISTORY: expected}))]);
        assert_eq!((did.revision(), did.error()), (json!("6"), None));
    }
}

#[test]
fn a_revision_history_that_is_full_loses_its_oldest_entries() {
    let full = vec!["1234"; 400].join(",");
    let back = set(1, 3, noted(json!({HISTORY: full})));
    let did = sync(view(&web(1, 3, json!({})), [back, set(5, 0, json!({}))]), &Api::yes());
    let history = did.bodies("web-1")[0]["metadata"]["annotations"][HISTORY].as_str().unwrap().to_owned();
    assert!(history.len() <= 2000 && history.ends_with(",1234,1") && history.starts_with("1234,"), "{history}");
}

#[test]
fn a_revision_is_never_lowered() {
    let did = sync(view(&web(4, 3, revision("9")), [set(4, 3, revision("9")), set(3, 0, json!({}))]), &Api::yes());
    assert!(did.actions.is_empty(), "older ones of higher revisions are gone since: {:?}", did.actions);
    assert_eq!(did.revision(), json!("9"));
}

#[test]
fn one_without_a_revision_gets_one_and_no_history() {
    for before in [json!(null), json!("")] {
        let did = sync(view(&web(4, 3, json!({})), [set(4, 3, noted(json!({REVISION: before}))), set(3, 0, json!({}))]), &Api::yes());
        let annotations = &did.bodies("web-4")[0]["metadata"]["annotations"];
        assert_eq!(annotations[REVISION], json!("4"));
        assert_eq!(annotations.get(HISTORY).map_or("", |history| history.as_str().unwrap()), "");
    }
}

#[test]
fn a_revision_that_is_no_number_is_left_alone_and_the_annotations_with_it() {
    let odd = set(4, 3, revision("x4"));
    let did = sync(view(&web(4, 3, noted(json!({"note": "a"}))), [odd.clone(), set(3, 0, json!({}))]), &Api::yes());
    assert!(did.actions.is_empty());
    assert_eq!(did.revision(), json!("x4"), "the Deployment takes it over as it is");

    // Upstream's one write of minReadySeconds carries the annotations along.
    let change = both(noted(json!({"note": "a"})), json!({"spec": {"minReadySeconds": 5}}));
    let did = sync(view(&web(4, 3, change), [odd, set(3, 0, json!({}))]), &Api::yes());
    assert_eq!(did.bodies("web-4"), [&json!({"metadata": {"annotations": {"note": "a"}}, "spec": {"minReadySeconds": 5}})]);
}

#[test]
fn the_deployments_revision_is_written_with_its_status_and_nothing_else_changes() {
    let change = noted(json!({REVISION: "1", "note": "a", "kubectl.kubernetes.io/last-applied-configuration": "{}"}));
    let did = sync(view(&web(2, 3, change), [set(2, 3, noted(json!({"note": "a"}))), set(1, 0, json!({}))]), &Api::yes());
    assert!(did.actions.is_empty());
    assert_eq!(did.annotations(), json!({REVISION: "2", "note": "a", "kubectl.kubernetes.io/last-applied-configuration": "{}"}));
}

#[test]
fn annotations_are_handed_on_but_not_taken_back() {
    let own = json!({
        "new": "1", "changed": "2", "same": "3", "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "deployment.kubernetes.io/revision-history": "1", "deployment.kubernetes.io/max-replicas": "77",
        "deployment.kubernetes.io/desired-replicas": "76", "deprecated.deployment.rollback.to": "no number",
    });
    let theirs = json!({"changed": "before", "same": "3", "removed": "4"});
    for strategy in [json!({}), recreate()] {
        let deployment = web(2, 3, both(noted(own.clone()), strategy));
        let did = sync(view(&deployment, [set(2, 3, noted(theirs.clone())), set(1, 0, json!({}))]), &Api::yes());
        assert_eq!(did.bodies("web-2"), [&noted(json!({"new": "1", "changed": "2"}))], "in one patch");
    }
}

#[test]
fn all_that_is_new_to_it_goes_in_one_patch_and_the_next_one_builds_on_it() {
    let change = json!({"metadata": {"annotations": {"note": "a"}}, "spec": {"minReadySeconds": 5}});
    let did = sync(view(&web(1, 5, both(change.clone(), rolling(1, 0))), [set(1, 3, json!({})), set(2, 2, json!({}))]), &Api::yes());
    assert_eq!(did.actions, ["patch web-1", "scale web-1 to 4"]);
    let expected = json!({"metadata": {"annotations": {"note": "a", REVISION: "3", HISTORY: "1"}}, "spec": {"minReadySeconds": 5}});
    assert_eq!(did.bodies("web-1")[0], &expected);
    assert_eq!(did.versions("web-1").iter().map(|version| version.0).collect::<Vec<_>>(), [set_version(1), 1000]);

    // The other ways of a sync: a change of size, paused, being deleted, Recreate.
    let rest = [set(1, 3, sized(5, 5)), set(2, 0, json!({}))];
    let gone = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    for (way, replicas, scaled) in
        [(json!({}), 7, true), (json!({"spec": {"paused": true}}), 7, true), (gone, 7, false), (recreate(), 5, true)]
    {
        let did = sync(view(&web(1, replicas, both(change.clone(), way)), rest.clone()), &Api::yes());
        let mut expected = vec!["patch web-1".to_owned()];
        expected.extend(scaled.then(|| format!("scale web-1 to {replicas}")));
        assert_eq!(did.actions, expected);
    }
}

#[test]
fn a_patch_that_fails_ends_the_sync() {
    let api = Api::yes().to("patch", refused(409, "Conflict"));
    let did = sync(view(&web(1, 5, json!({"spec": {"minReadySeconds": 5}})), [set(1, 3, sized(3, 3))]), &api);
    assert_eq!(did.actions, ["patch web-1"]);
    assert_eq!(did.error(), Some("Conflict for a test"));
    assert!(did.conclusion.status.is_none(), "the revision is taken over by the sync that has written it");
}

#[test]
fn a_new_replica_set_that_was_there_already_begins_the_progress() {
    let deadline = json!({"spec": {"progressDeadlineSeconds": 600}});
    let found = json!(["True", "FoundNewReplicaSet", "Found new replica set \"web-2\""]);
    let did = sync(view(&web(2, 3, deadline.clone()), [set(2, 3, available(0)), set(1, 0, json!({}))]), &Api::yes());
    assert_eq!(did.condition("Progressing")["reason"], json!("ReplicaSetUpdated"), "the counts say more by the end of the sync");
    let paused = json!({"spec": {"paused": true}, "status": {"conditions": [condition("Progressing", "True", "NewReplicaSetCreated", 9)]}});
    let did = sync(view(&web(2, 3, both(deadline.clone(), paused)), [set(2, 3, json!({}))]), &Api::yes());
    assert_eq!(did.condition("Progressing")["reason"], json!("DeploymentPaused"));
    let did = sync(view(&web(2, 4, deadline), [set(2, 3, sized(3, 3))]), &Api::yes());
    assert_eq!((did.said("Progressing"), did.actions.len()), (found, 1), "a change of size says nothing else of progress");
    let did = sync(view(&web(2, 4, json!({})), [set(2, 3, sized(3, 3))]), &Api::yes());
    assert_eq!(did.condition("Progressing"), json!(null));
}

#[test]
fn dep_27_every_way_back_raises_the_revision_and_keeps_the_numbers_it_had() {
    // v1, v2, undo, v2, undo: what each ReplicaSet is told on the way.
    let mut notes = [json!({REVISION: "1"}), json!({REVISION: "2"})];
    for (new, expected) in [(0, "3"), (1, "4"), (0, "5")] {
        let sets = [1, 2].map(|template| set(template, 3, noted(notes[template as usize - 1].clone())));
        let did = sync(view(&web(new as u32 + 1, 3, json!({})), sets), &Api::yes());
        support::merge(&mut notes[new], did.bodies(&format!("web-{}", new + 1))[0]["metadata"]["annotations"].clone());
        assert_eq!((notes[new][REVISION].as_str(), did.revision()), (Some(expected), json!(expected)));
    }
    assert_eq!(notes, [json!({REVISION: "5", HISTORY: "1,3"}), json!({REVISION: "4", HISTORY: "2"})]);
}
