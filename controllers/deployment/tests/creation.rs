//! The ReplicaSet of a template that none has: its body, its name, and a name that is taken.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking, and so do its helpers")]

mod support;

use std::sync::Arc;

use model::plan::{Answer, Outcome, Question, Rule};
use model::{Decode as _, Deployment, DeploymentDecoder};
use serde_json::{Value, json};
use support::{
    Api, Did, WEB_UID, api_error, both, condition, recreate, refused, rolling, set, sized, sync, template_of, view, web, web_json,
};

fn name_of(did: &Did) -> String {
    did.created()["metadata"]["name"].as_str().unwrap().to_owned()
}

fn deadline() -> Value {
    json!({"spec": {"progressDeadlineSeconds": 600}})
}

/// The JSON of something that already has the name.
fn holder(name: &str, owner: &str, template: u32) -> Value {
    json!({"metadata": {"name": name, "namespace": "shop", "uid": "6d9f8a3e-0000-4000-8000-000000000555", "resourceVersion": "500",
            "annotations": {"deployment.kubernetes.io/revision": "2"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": owner, "controller": true}]},
        "spec": {"replicas": 3, "template": template_of(template, &json!({"pod-template-hash": "x"}))}, "status": {"replicas": 0}})
}

fn already_exists() -> Outcome {
    refused(409, "AlreadyExists")
}

#[test]
fn a_new_replica_set_has_all_that_upstreams_has() {
    let change = json!({
        "metadata": {"annotations": {"note": "a", "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "deployment.kubernetes.io/revision-history": "1", "deployment.kubernetes.io/max-replicas": "77",
            "deployment.kubernetes.io/desired-replicas": "76", "deprecated.deployment.rollback.to": "no number"}},
        "spec": {"minReadySeconds": 7, "selector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
            "template": {"metadata": {"annotations": {"of": "the template"}, "labels": {"tier": "front"}}}},
    });
    let did = sync(view(&web(3, 10, both(change, rolling("25%", 0))), [set(2, 10, json!({}))]), &Api::yes());
    let created = did.created();
    let (name, hash) = (name_of(&did), created["metadata"]["labels"]["pod-template-hash"].as_str().unwrap());
    assert_eq!(name, format!("web-{hash}"));
    assert!(hash.bytes().all(|byte| b"bcdfghjklmnpqrstvwxz2456789".contains(&byte)) && hash.len() <= 10, "{hash}");
    let labels = json!({"app": "web", "tier": "front", "pod-template-hash": hash});
    let expected = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": name, "namespace": "shop", "labels": labels,
            "annotations": {"note": "a", "deployment.kubernetes.io/revision": "3", "deployment.kubernetes.io/desired-replicas": "10",
                "deployment.kubernetes.io/max-replicas": "13"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": WEB_UID.to_string(), "controller": true,
                "blockOwnerDeletion": true}],
        },
        "spec": {
            "replicas": 3, "minReadySeconds": 7,
            "selector": {"matchLabels": {"app": "web", "pod-template-hash": hash}, "matchExpressions": [{"key": "app", "operator": "Exists"}]},
            "template": {"metadata": {"labels": labels, "annotations": {"of": "the template"}},
                "spec": {"containers": [{"name": "c", "image": "web:v3"}]}},
        },
    });
    assert_eq!(created, expected);
    assert_eq!(did.steps[0].reason, Rule::NewTemplate);
    assert_eq!(did.events, [format!("Normal ScalingReplicaSet: Scaled up replica set {name} from 0 to 3")]);
}

#[test]
fn the_template_is_carried_byte_for_byte() {
    let spec = r#"{"newer" : {"number":1.50,"text":"\u003c\u0026 a"},"containers":[ {"b":1,"a":1e2} ],"big":18446744073709551616}"#;
    let annotations = r#"{ "x":"\u003e" }"#;
    let json = web_json(1, 1, json!({"spec": {"template": null}})).to_string();
    let template = format!(r#""spec":{{"template":{{"spec":{spec},"metadata":{{"annotations":{annotations},"labels":{{"app":"web"}}}}}},"#);
    let json = json.replacen(r#""spec":{"#, &template, 1);
    let deployment: Arc<Deployment> = Arc::new(DeploymentDecoder::new().decode(json.as_bytes()).unwrap());
    let text = sync(view(&deployment, []), &Api::yes()).created_text();
    assert!(text.contains(&format!(r#""spec":{spec}"#)) && text.contains(&format!(r#""annotations":{annotations}"#)), "{text}");
}

#[test]
fn its_size_is_what_the_strategy_leaves_room_for() {
    for (strategy, replicas, old, expected) in [
        (rolling(1, 1), 1, 5, 0),
        (rolling(10, 1), 6, 5, 6),
        (rolling(0, 1), 10, 10, 0),
        (rolling(2, 0), 10, 10, 2),
        (rolling(2, 0), 10, 5, 7),
        (rolling("30%", 0), 10, 10, 3),
        (rolling("1%", 0), 10, 10, 1),
        (rolling(3, 0), 0, 0, 0),
        (recreate(), 3, 0, 3),
    ] {
        let did = sync(view(&web(2, replicas, strategy.clone()), [set(1, old, json!({}))]), &Api::yes());
        assert_eq!(did.created()["spec"]["replicas"], expected, "{strategy} {replicas} {old}");
        let told = did.events.iter().filter(|event| event.contains("Scaled up")).count();
        assert_eq!(told, usize::from(expected > 0), "nothing is told of a ReplicaSet without pods: {:?}", did.events);
    }
}

#[test]
fn the_same_template_and_collision_count_always_give_the_same_name() {
    let name = |template, count: Value, noise: Value| {
        let deployment = web(template, 3, both(json!({"status": {"collisionCount": count}}), noise));
        name_of(&sync(view(&deployment, []), &Api::yes()))
    };
    let first = name(1, json!(null), json!({}));
    assert_eq!(
        first,
        name(1, json!(null), json!({"spec": {"replicas": 7, "minReadySeconds": 3}, "metadata": {"annotations": {"x": "y"}}}))
    );
    assert_eq!(first, name(1, json!(0), json!({})));
    let others = [name(2, json!(null), json!({})), name(1, json!(1), json!({})), name(1, json!(2), json!({}))];
    assert!(!others.contains(&first) && others[1] != others[2], "{first} {others:?}");
}

#[test]
fn a_long_name_is_cut_to_what_the_server_takes() {
    for length in [1, 241, 242, 243, 250, 253] {
        let deployment = web(1, 3, json!({"metadata": {"name": "a".repeat(length)}}));
        let name = name_of(&sync(view(&deployment, []), &Api::yes()));
        let (of_deployment, hash) = name.rsplit_once('-').unwrap();
        assert_eq!(of_deployment.len(), length.min(252 - hash.len()), "{name}");
    }
}

#[test]
fn what_was_created_is_told_and_its_revision_is_the_deployments() {
    let did = sync(view(&web(3, 2, deadline()), [set(2, 0, json!({}))]), &Api::yes());
    let message = format!("Created new replica set {:?}", name_of(&did));
    assert_eq!(did.said("Progressing"), json!(["True", "NewReplicaSetCreated", message]));
    assert_eq!(did.condition("Progressing")["lastUpdateTime"], "2027-01-15T08:00:00Z");
    let did = sync(view(&web(3, 2, json!({"metadata": {"annotations": null}})), [set(2, 0, json!({}))]), &Api::yes());
    assert_eq!((did.revision(), did.condition("Progressing")), (json!("3"), json!(null)), "without a deadline nothing is said of progress");
}

#[test]
fn the_sync_goes_on_with_what_it_has_created() {
    // Two pods may be unavailable: old ones go in the same sync, by a count that has the new ones in it.
    let did = sync(view(&web(2, 10, rolling(1, 2)), [set(1, 10, sized(10, 11))]), &Api::yes());
    assert_eq!(did.actions[1..], ["scale web-1 to 8"], "{:?}", did.actions);
    let status = did.status();
    assert_eq!((&status["replicas"], &status["unavailableReplicas"], status.get("updatedReplicas")), (&json!(10), &json!(1), None));
}

#[test]
fn dep_02_a_name_that_is_anothers_is_given_up_for_the_next_one() {
    let other_uid = "6d9f8a3e-0000-4000-8000-000000000099";
    for (count, next) in [(json!(null), 1), (json!(0), 1), (json!(4), 5)] {
        let deployment = web(1, 3, both(deadline(), json!({"status": {"collisionCount": count}})));
        let name = name_of(&sync(view(&deployment, []), &Api::yes()));
        let own = WEB_UID.to_string();
        for holder in [
            holder(&name, &own, 2),
            holder(&name, other_uid, 1),
            json!({"metadata": {"name": name, "namespace": "shop", "uid": other_uid}}),
        ] {
            let did = sync(view(&deployment, []), &Api::yes().to("create", already_exists()).finding(&holder));
            assert_eq!(did.actions, [format!("create {name}")], "the same on every try, and no more than one of them");
            assert!(matches!(did.asked.as_slice(), [Question::Live { key, .. }] if *key.name == *name), "{:?}", did.asked);
            assert_eq!(did.status()["collisionCount"], next);
            assert_eq!(did.condition("Progressing"), json!(null));
            assert_eq!(did.revision(), json!("1"), "no revision is taken over from it");
            assert_eq!((did.error(), did.events.len()), (Some("AlreadyExists for a test"), 0));
            let after = web(1, 3, json!({"status": {"collisionCount": next}}));
            assert_ne!(name_of(&sync(view(&after, []), &Api::yes())), name);
        }
    }
}

#[test]
fn dep_04_a_name_that_is_ours_already_is_no_collision() {
    let deployment = web(1, 3, both(deadline(), json!({"metadata": {"annotations": null}})));
    let name = name_of(&sync(view(&deployment, []), &Api::yes()));
    let ours = holder(&name, &WEB_UID.to_string(), 1);
    let did = sync(view(&deployment, []), &Api::yes().to("create", already_exists()).finding(&ours));
    assert_eq!((did.actions.len(), did.error(), did.events.len()), (1, None, 0));
    assert_eq!(did.status().get("collisionCount"), None);
    assert_eq!((did.condition("Progressing"), did.revision()), (json!(null), json!("1")), "that is told by the sync that sees it");

    let smaller = {
        let mut json = ours;
        json["spec"]["replicas"] = json!(1);
        json
    };
    let did = sync(view(&deployment, []), &Api::yes().to("create", already_exists()).finding(&smaller));
    assert_eq!(did.actions[1..], [format!("scale {name} to 3")], "and the sync goes on with it");
    assert_eq!(did.versions(&name)[0].0, 500);
}

#[test]
fn a_name_that_is_taken_by_nobody_we_can_see_is_tried_again() {
    let did = sync(view(&web(1, 3, deadline()), []), &Api::yes().to("create", already_exists()));
    assert_eq!((did.error(), did.conclusion.status.is_none()), (Some("AlreadyExists for a test"), true));
    let api = Api { live_object: Some(Answer::Failed(api_error(503, "ServiceUnavailable"))), ..Api::yes().to("create", already_exists()) };
    let did = sync(view(&web(1, 3, deadline()), []), &api);
    assert_eq!(did.error(), Some("ServiceUnavailable for a test"));
    assert!(did.conclusion.status.is_none());
}

#[test]
fn a_create_that_fails_is_told_in_the_condition_and_an_event() {
    for outcome in [refused(403, "Forbidden"), Outcome::Unknown(api_error(0, "Forbidden"))] {
        let api = Api::yes().to("create", outcome);
        let did = sync(view(&web(1, 3, both(deadline(), json!({"metadata": {"annotations": null}}))), []), &api);
        let name = name_of(&did);
        let message = format!("Failed to create new replica set {name:?}: Forbidden for a test");
        assert_eq!(did.said("Progressing"), json!(["False", "ReplicaSetCreateError", message]));
        assert_eq!(did.annotations(), json!(null), "it has no revision yet");
        assert_eq!(did.events, [format!("Warning ReplicaSetCreateError: {message}")]);
        assert_eq!(did.error(), Some("Forbidden for a test"));

        let did = sync(view(&web(1, 3, json!({})), []), &api);
        assert_eq!((did.conclusion.status.is_none(), did.events.len()), (true, 1), "without a deadline only the event tells it");
    }
}

#[test]
fn a_condition_that_says_so_already_is_not_written_again() {
    let failed = both(deadline(), json!({"status": {"conditions": [condition("Progressing", "False", "ReplicaSetCreateError", 50)]}}));
    let did = sync(view(&web(1, 3, failed), []), &Api::yes().to("create", refused(403, "Forbidden")));
    assert!(did.conclusion.status.is_none());
}

#[test]
fn a_namespace_that_is_being_deleted_ends_the_sync_quietly() {
    let mut terminating = api_error(403, "Forbidden");
    terminating.namespace_terminating = true;
    let api = Api::yes().to("create", Outcome::Failed(terminating));
    let did = sync(view(&web(1, 3, deadline()), []), &api);
    assert_eq!(did.actions.len(), 1);
    assert!(did.error().is_none() && did.events.is_empty() && did.conclusion.status.is_none(), "{did:?}");
}

#[test]
fn a_create_that_was_not_sent_is_tried_again() {
    let did = sync(view(&web(1, 3, deadline()), []), &Api::yes().to("create", Outcome::NotSent));
    assert!(did.error().is_some() && did.events.is_empty() && did.conclusion.status.is_none());
}

#[test]
fn a_surge_that_cannot_be_read_creates_nothing() {
    let did = sync(view(&web(1, 3, rolling("much", 1)), []), &Api::yes());
    assert!(did.actions.is_empty() && did.error().is_some_and(|error| error.contains("maxSurge")), "{did:?}");
}

#[test]
fn a_paused_deployment_creates_nothing() {
    let did = sync(view(&web(2, 3, json!({"spec": {"paused": true}})), [set(1, 3, json!({}))]), &Api::yes());
    assert!(did.actions.is_empty());
}
