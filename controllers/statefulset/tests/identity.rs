//! What makes a pod that of its ordinal, and what it is made from (upstream `newStatefulSetPod`, `newVersionedStatefulSetPod`).

mod support;

use model::plan::{Action, Answer, Decision, Rule};
use serde_json::{Value, json};
use statefulset::decide;
use support::did::describe;
use support::{
    Api, api_error, both, claiming, db, name_of, parallel, partition, pod, refused, revision_json, start, strategy, sync, view, well,
};

#[test]
fn what_a_new_pod_is_made_of() {
    let template = json!({
        "metadata": {"name": "not-taken", "labels": {"app": "db", "apps.kubernetes.io/pod-index": "77"}, "annotations": {"a": "b"}, "finalizers": ["e/f"]},
        "spec": {"hostname": "not-taken", "containers": [{"name": "c", "image": "db:v1", "ofTheFuture": [1.5]}]},
    });
    let set = db(1, 4, both(start(3), json!({"spec": {"template": template}})));
    let did = sync(view(&set, []), &Api::yes());
    let revision = did.status()["updateRevision"].clone();
    assert_eq!(did.steps[1].reason, Rule::TooFewReplicas);
    assert_eq!(
        did.created("db-3"),
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "db-3", "generateName": "db-", "annotations": {"a": "b"}, "finalizers": ["e/f"],
                "labels": {"app": "db", "statefulset.kubernetes.io/pod-name": "db-3", "apps.kubernetes.io/pod-index": "3",
                    "controller-revision-hash": revision},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": support::DB_UID.to_string(),
                    "controller": true, "blockOwnerDeletion": true}],
            },
            "spec": {"hostname": "db-3", "subdomain": "dbs", "containers": [{"name": "c", "image": "db:v1", "ofTheFuture": [1.5]}]},
        })
    );
    assert_eq!(did.events, ["Normal SuccessfulCreate: Create Pod db-3 in StatefulSet db successful"]);
}

#[test]
fn numbers_of_the_template_keep_their_spelling() {
    let mut json = support::db_json(1, 1, json!({}));
    json["spec"]["template"]["spec"]["ofTheFuture"] = json!("PLACE");
    let text = json.to_string().replace("\"PLACE\"", "[1.50,1e2]");
    let set = std::sync::Arc::new(model::Decode::decode(&mut model::StatefulSetDecoder::new(), text.as_bytes()).unwrap());
    let did = sync(view(&set, []), &Api::yes());
    assert!(did.created_text("db-0").contains(r#""ofTheFuture":[1.50,1e2]"#), "{}", did.created_text("db-0"));
}

#[test]
fn without_a_service_there_is_no_subdomain() {
    for service in [json!(""), Value::Null] {
        let change = json!({"spec": {"serviceName": service, "template": {"spec": {"subdomain": "of-the-template"}}}});
        let did = sync(view(&db(1, 1, change), []), &Api::yes());
        assert_eq!(did.created("db-0")["spec"].get("subdomain"), None);
    }
}

#[test]
fn a_template_without_metadata_still_makes_a_pod() {
    for metadata in [Value::Null, json!({}), json!({"labels": null})] {
        let mut json = support::db_json(1, 1, json!({}));
        json["spec"]["template"]["metadata"] = metadata;
        let did = sync(view(&support::decode_db(&json), []), &Api::yes());
        assert_eq!(did.created("db-0")["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"], "db-0");
    }
}

#[test]
fn volumes_of_claims_replace_those_of_their_name() {
    let volumes = json!([{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {"ofTheFuture": 1}}, {"name": "log"}]);
    let change = both(claiming(&["data", "wal"]), json!({"spec": {"template": {"spec": {"volumes": volumes}}}}));
    let did = sync(view(&db(1, 1, change), []), &Api::yes());
    let claim = |name: &str| json!({"name": name, "persistentVolumeClaim": {"claimName": format!("{name}-db-0")}});
    assert_eq!(
        did.created("db-0")["spec"]["volumes"],
        json!([claim("data"), claim("wal"), {"name": "tmp", "emptyDir": {"ofTheFuture": 1}}, {"name": "log"}])
    );
    // Without claims they stay as they are.
    let did = sync(view(&db(1, 1, json!({"spec": {"template": {"spec": {"volumes": volumes}}}})), []), &Api::yes());
    assert_eq!(did.created("db-0")["spec"]["volumes"], volumes);
    let did = sync(view(&db(1, 1, claiming(&["data"])), []), &Api::yes());
    assert_eq!(did.created("db-0")["spec"]["volumes"], json!([claim("data")]));
}

#[test]
fn sts_21_a_pod_below_the_partition_is_made_from_the_current_revision() {
    let set = db(2, 4, both(parallel(), partition(2)));
    let did = sync(view(&set, []), &Api::yes());
    let made: Vec<_> = (0..4).map(|ordinal| did.revision_of(&format!("db-{ordinal}"))).collect();
    assert_eq!(made, ["revision 1", "revision 1", "revision 2", "revision 2"]);
    assert_eq!(did.asked.len(), 1, "its data are read once");
    let old = did.created("db-0");
    assert_eq!(old["spec"]["containers"][0]["image"], "db:v1");
    assert_eq!((&old["spec"]["hostname"], &old["spec"]["subdomain"]), (&json!("db-0"), &json!("dbs")));
    assert!(!did.created_text("db-0").contains("$patch"));
    assert_eq!(did.created("db-2")["spec"]["containers"][0]["image"], "db:v2");
    // One that is lost in the middle of it.
    let pods = [well(1, 1), well(2, 2), well(3, 2)];
    let did = sync(view(&db(2, 4, partition(2)), pods), &Api::yes());
    assert_eq!((did.actions.as_slice(), did.revision_of("db-0").as_str()), (["create db-0".to_owned()].as_slice(), "revision 1"));
}

#[test]
fn which_revision_a_pod_is_made_from() {
    let with_current_replicas = |count: i32| json!({"status": {"currentReplicas": count}});
    for (change, expected) in [
        (partition(0), "222"),
        (partition(1), "122"),
        (partition(7), "111"),
        (both(partition(1), start(5)), "122"),
        // Whatever the type.
        (both(partition(1), json!({"spec": {"updateStrategy": {"type": "OnDelete"}}})), "122"),
        (strategy("OnDelete"), "222"),
        (both(strategy("OnDelete"), with_current_replicas(2)), "222"),
        // Without a partition the pods that are to be current count.
        (both(strategy("RollingUpdate"), with_current_replicas(2)), "112"),
        (both(both(strategy("RollingUpdate"), with_current_replicas(2)), start(5)), "112"),
        (both(partition(0), with_current_replicas(2)), "222"),
    ] {
        let set = db(2, 3, both(parallel(), change.clone()));
        let did = sync(view(&set, []), &Api::yes());
        let made: Vec<_> = set.spec.ordinals().map(|ordinal| did.revision_of(&set.pod_name(ordinal))).collect();
        let expected: Vec<_> = expected.chars().map(|version| format!("revision {version}")).collect();
        assert_eq!(made, expected, "{change}");
    }
}

#[test]
fn a_current_revision_that_cannot_be_read_ends_the_sync() {
    let data = |json: &str| Answer::Object(Some(format!(r#"{{"metadata":{{}},"data":{json}}}"#)));
    for answer in [
        Answer::Object(None),
        Answer::Failed(api_error(503, "ServiceUnavailable")),
        Answer::Object(Some("{".to_owned())),
        Answer::Object(Some("{}".to_owned())),
        data("null"),
        data("[]"),
        data(r#"{"spec":{}}"#),
        data(r#"{"spec":{"template":7}}"#),
        data(r#"{"spec":{"template":{"metadata":[]}}}"#),
    ] {
        let did = sync(view(&db(2, 1, partition(1)), []), &Api::yes().answering(&name_of(1), answer.clone()));
        assert!(did.actions.is_empty() && did.error().is_some(), "{answer:?}: {did:?}");
        assert_eq!(did.revisions(), ["revision 1", "revision 2"], "the status is written");
    }
    let odd = revision_json("x", &support::raw(&json!({"spec": {"template": {"spec": {"containers": []}}}})));
    let did = sync(view(&db(2, 1, partition(1)), []), &Api::yes().finding(&name_of(1), odd));
    assert_eq!(did.created("db-0")["spec"]["containers"], json!([]));
}

#[test]
fn a_pod_without_its_name_label_is_mended() {
    let unnamed = |pod: &mut model::Pod| pod.own_labels.name = false;
    let did = sync(view(&db(1, 2, json!({})), [pod(0, 1, unnamed), pod(1, 1, unnamed)]), &Api::yes());
    assert_eq!(did.actions, ["label db-0", "label db-1"]);
    let Action::Patch(patch) = &did.steps[0].action else { panic!("{did:?}") };
    let labels = json!({"statefulset.kubernetes.io/pod-name": "db-0", "apps.kubernetes.io/pod-index": "0"});
    assert_eq!(patch.body, json!({"metadata": {"labels": labels}}));
    assert_eq!((patch.target.uid, patch.target.resource_version.0, did.steps[0].reason), (support::pod_uid(0), 100, Rule::IdentityLost));
    assert_eq!(did.events[0], "Normal SuccessfulUpdate: Update Pod db-0 in StatefulSet db successful");
    assert_eq!(did.events.len(), 2);

    for (code, reason, told) in [
        (403, "Forbidden", &["Warning FailedUpdate: Update Pod db-0 in StatefulSet db failed error: Forbidden for a test"][..]),
        // Somebody was faster.
        (409, "Conflict", &[]),
    ] {
        let api = Api::yes().to("label", refused(code, reason));
        let did = sync(view(&db(1, 2, json!({})), [pod(0, 1, unnamed), pod(1, 1, unnamed)]), &api);
        assert_eq!((did.actions.len(), did.error()), (1, Some(&*format!("{reason} for a test"))));
        assert_eq!(did.events, told);
        assert_eq!(did.counts(), [2, 2, 2, 2, 2], "the status is written");
    }
}

#[test]
fn neither_index_nor_revision_label_make_an_identity() {
    let set = db(1, 2, strategy("OnDelete"));
    let bare = |pod: &mut model::Pod| {
        pod.own_labels.index = false;
        pod.label_set = support::labels(&[("app", "db")]).into();
    };
    let did = sync(view(&set, [pod(0, 1, bare), well(1, 1)]), &Api::yes());
    assert!(did.did_nothing(), "{did:?}");
    assert_eq!(did.counts(), [2, 2, 2, 1, 1]);
}

#[test]
fn of_two_pods_of_one_ordinal_the_one_that_is_named_as_it_should_be_counts() {
    let twin = || pod(7, 1, |pod| pod.name = "db-01".into());
    let set = db(1, 2, json!({}));
    for pods in [vec![well(0, 1), well(1, 1), twin()], vec![twin(), well(1, 1), well(0, 1)]] {
        let did = sync(view(&set, pods), &Api::yes());
        assert!(did.did_nothing(), "{did:?}");
        assert_eq!(did.counts()[0], 2);
    }
    // Alone it holds the slot, and cannot be called otherwise: the server says so.
    let did = sync(view(&set, [well(0, 1), twin()]), &Api::yes().to("label", refused(404, "NotFound")));
    assert_eq!((did.actions.as_slice(), did.error()), (["label db-1".to_owned()].as_slice(), Some("NotFound for a test")));
    assert!(did.events[0].starts_with("Warning FailedUpdate: Update Pod db-1 "));
}

#[test]
fn an_ordinal_that_is_no_number_is_ignored() {
    let odd = pod(7, 1, |pod| pod.name = "db-99999999999".into());
    let did = sync(view(&db(1, 1, json!({})), [well(0, 1), odd]), &Api::yes());
    assert!(did.did_nothing(), "{did:?}");
    assert_eq!(did.counts()[0], 1);
}

#[test]
fn the_last_ordinals_that_there_are() {
    let set = db(1, 5, both(parallel(), start(i32::MAX - 2)));
    let did = sync(view(&set, []), &Api::yes());
    assert_eq!(did.actions, ["create db-2147483645", "create db-2147483646"]);
}

#[test]
fn a_sync_makes_no_more_than_ten_thousand_pods() {
    let set = db(1, 30_000, parallel());
    let there = [well(3, 1), pod(25_000, 1, support::failed), well(29_999, 1)];
    let Decision::Act(plan) = decide(&view(&set, there)) else { panic!("a plan") };
    let actions: Vec<_> = plan.stages.iter().flat_map(|stage| &stage.steps).map(|step| describe(&step.action)).collect();
    assert_eq!(actions.iter().filter(|action| action.starts_with("create")).count(), 10_000);
    assert!(actions.contains(&"create db-10000".to_owned()) && !actions.contains(&"create db-10001".to_owned()));
    assert_eq!(actions.last().unwrap(), "delete db-25000", "what is there is looked at");
}
