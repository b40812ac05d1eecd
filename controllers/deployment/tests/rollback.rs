//! The annotation that asks for an earlier template, in all its outcomes.

mod support;

use std::sync::Arc;

use model::ReplicaSet;
use model::plan::{Answer, Outcome, Question, Rule};
use serde_json::{Value, json};
use support::{Api, Did, WEB_VERSION, api_error, both, condition, refused, rolling, set, sized, sync, template_of, view, web};

const ANNOTATIONS: &[&str] = &["metadata", "annotations"];
const TEMPLATE: &[&str] = &["spec", "template"];

fn to(revision: &str) -> Value {
    json!({"metadata": {"annotations": {"deprecated.deployment.rollback.to": revision, "note": "of the Deployment",
        "kubectl.kubernetes.io/last-applied-configuration": "{}", "deployment.kubernetes.io/desired-replicas": "odd"}}})
}

/// Three revisions, of which the third is rolled out.
fn history() -> [Arc<ReplicaSet>; 3] {
    let noted = |note: &str| json!({"metadata": {"annotations": {"note": note, "own": note}}});
    [set(1, 0, noted("of the first")), set(2, 0, noted("of the second")), set(3, 3, both(noted("of the Deployment"), sized(3, 3)))]
}

/// What a live read of a ReplicaSet with that template has.
fn live(template: u32) -> Value {
    json!({"metadata": {"name": format!("web-{template}"), "namespace": "shop", "uid": support::set_uid(template).to_string()},
        "spec": {"template": template_of(template, &json!({"pod-template-hash": "h"}))}})
}

fn roll_back(change: Value, api: &Api) -> Did {
    sync(view(&web(3, 3, change), history()), api)
}

/// The annotations without the one that asked.
fn cleared() -> Value {
    json!({"deployment.kubernetes.io/revision": "3", "note": "of the Deployment", "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "deployment.kubernetes.io/desired-replicas": "odd"})
}

#[test]
fn an_earlier_revision_gives_its_template_and_its_annotations_back() {
    for (revision, template, note) in [("1", 1, "of the first"), ("2", 2, "of the second"), ("0", 2, "of the second")] {
        let did = roll_back(to(revision), &Api::yes().finding(&live(template)));
        assert_eq!(did.actions, ["edit web"]);
        assert!(matches!(&did.asked[..], [Question::Live { key, .. }] if *key.name == *format!("web-{template}")), "{:?}", did.asked);
        assert_eq!(did.edited(TEMPLATE).unwrap(), template_of(template, &json!({})), "without the hash label");
        let mut annotations = cleared();
        annotations["note"] = json!(note);
        annotations["own"] = json!(note);
        assert_eq!(did.edited(ANNOTATIONS).unwrap(), annotations);
        assert_eq!(did.edit().target.resource_version, WEB_VERSION);
        assert_eq!(did.steps[0].reason, Rule::RollbackRequested);
        assert_eq!(did.events, [format!("Normal DeploymentRollback: Rolled back deployment \"web\" to revision {template}")]);
        assert!(did.conclusion.status.is_none() && did.error().is_none(), "the rest is left to the sync that sees it");
    }
}

#[test]
fn the_template_comes_back_byte_for_byte() {
    let spec = r#"{"newer":1.50,"text":"\u003c"}"#;
    let json = format!(
        r#"{{"metadata":{{}},"spec":{{"template":{{"metadata":{{"labels":{{"app":"web","pod-template-hash":"h"}}}},"spec":{spec}}}}}}}"#
    );
    let api = Api { live_object: Some(Answer::Object(Some(json))), ..Api::yes() };
    let did = roll_back(to("1"), &api);
    let (_, template) = did.edit().fields.iter().find(|(path, _)| *path == TEMPLATE).unwrap();
    assert_eq!(template.get(), format!(r#"{{"metadata":{{"labels":{{"app":"web"}}}},"spec":{spec}}}"#));
}

#[test]
fn a_revision_that_is_not_there_is_told_and_the_annotation_goes() {
    for revision in ["9", "-1"] {
        let did = roll_back(to(revision), &Api::yes());
        assert_eq!(did.events, ["Warning DeploymentRollbackRevisionNotFound: Unable to find the revision to rollback to."]);
        assert_eq!((did.edited(ANNOTATIONS), did.edited(TEMPLATE)), (Some(cleared()), None));
    }
}

#[test]
fn without_a_last_revision_that_is_told() {
    for sets in [vec![set(3, 3, json!({}))], vec![set(3, 3, json!({})), set(2, 0, json!({"metadata": {"annotations": null}}))]] {
        let did = sync(view(&web(3, 3, to("0")), sets.clone()), &Api::yes());
        let told = did.actions.last().unwrap();
        assert_eq!((told.as_str(), did.edited(TEMPLATE)), ("edit web", None));
        assert_eq!(did.events, ["Warning DeploymentRollbackRevisionNotFound: Unable to find last revision."], "{sets:?}");
    }
}

#[test]
fn the_template_that_it_has_already_is_told() {
    let did = roll_back(to("3"), &Api::yes());
    let message = "The rollback revision contains the same template as current deployment \"web\"";
    assert_eq!(did.events, [format!("Warning DeploymentRollbackTemplateUnchanged: {message}")]);
    assert_eq!((did.edited(ANNOTATIONS), did.edited(TEMPLATE)), (Some(cleared()), None));

    // Also if it is not the new one that has it, but a younger twin of it.
    let twin = set(9, 0, json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "web:v3"}]}}}}));
    let noted = json!({"metadata": {"annotations": {"note": "of the Deployment", "deployment.kubernetes.io/revision": "10"}}});
    let did = sync(view(&web(3, 3, to("9")), [set(3, 3, noted), twin]), &Api::yes());
    assert_eq!(did.events, [format!("Warning DeploymentRollbackTemplateUnchanged: {message}")]);
}

#[test]
fn what_is_no_number_asks_for_nothing() {
    for odd in ["", "x", "1.5", "99999999999999999999"] {
        let did = roll_back(to(odd), &Api::yes());
        assert!(did.actions.is_empty() && did.asked.is_empty(), "{odd}: {:?}", did.actions);
    }
}

#[test]
fn it_comes_before_a_change_of_size_and_before_any_strategy() {
    for change in [json!({"spec": {"replicas": 7}}), support::recreate(), json!({"spec": {"strategy": {"type": "Later"}}})] {
        let did = roll_back(both(to("1"), change), &Api::yes().finding(&live(1)));
        assert_eq!(did.actions, ["edit web"]);
    }
}

#[test]
fn a_template_that_none_has_is_created_first() {
    let did = sync(view(&web(4, 3, both(to("0"), rolling(1, 0))), history()), &Api::yes().finding(&live(3)));
    assert!(did.actions[0].starts_with("create web-"), "{:?}", did.actions);
    assert_eq!(did.created()["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "4");
    assert_eq!(did.edited(TEMPLATE).unwrap(), template_of(3, &json!({})), "the last one is the one before it");
}

#[test]
fn the_new_ones_notes_are_brought_up_to_date_first() {
    let newest = json!({"metadata": {"annotations": {"note": "of the Deployment"}}});
    let did = sync(view(&web(1, 3, to("2")), [set(1, 3, newest), set(2, 0, json!({}))]), &Api::yes().finding(&live(2)));
    assert_eq!(did.actions, ["patch web-1", "edit web"]);
    let did =
        sync(view(&web(1, 3, to("2")), [set(1, 3, json!({})), set(2, 0, json!({}))]), &Api::yes().to("patch", refused(409, "Conflict")));
    assert_eq!(
        (did.actions, did.conclusion.error.map(|error| error.0)),
        (vec!["patch web-1".to_owned()], Some("Conflict for a test".to_owned()))
    );
}

#[test]
fn an_edit_that_fails_is_tried_again() {
    for outcome in [refused(409, "Conflict"), Outcome::Unknown(api_error(0, "Conflict")), Outcome::NotSent] {
        for (revision, warned) in [("1", 0), ("9", 1)] {
            let did = roll_back(to(revision), &Api::yes().finding(&live(1)).to("edit", outcome.clone()));
            assert!(did.error().is_some());
            assert_eq!(did.events.len(), warned, "what was not done is not told: {:?}", did.events);
        }
    }
}

#[test]
fn a_template_that_cannot_be_read_fails_the_sync() {
    for answer in [Answer::Object(None), Answer::Failed(api_error(500, "InternalError")), Answer::Object(Some("[]".to_owned()))] {
        let did = roll_back(to("1"), &Api { live_object: Some(answer), ..Api::yes() });
        assert!(did.actions.is_empty() && did.error().is_some(), "{did:?}");
    }
}

#[test]
fn a_paused_deployment_is_not_rolled_back() {
    let did = roll_back(both(to("1"), json!({"spec": {"paused": true}})), &Api::yes());
    assert!(did.actions.is_empty());
    let resumed = both(
        json!({"spec": {"progressDeadlineSeconds": 60}}),
        json!({"status": {"conditions": [condition("Progressing", "Unknown", "DeploymentPaused", 9)]}}),
    );
    let did = roll_back(both(to("1"), resumed), &Api::yes().finding(&live(1)));
    assert_eq!((did.actions.len(), did.conclusion.status.is_none()), (1, true), "one write of the Deployment; the other would conflict");
}
