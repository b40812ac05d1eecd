//! Pods read from protobuf are the pods a plain reading of the same JSON gives.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test outside of test functions")]

#[path = "support/plain.rs"]
mod plain;
mod support;

use model::labels::Labels;
use model::pod::{OwnLabels, POD_INDEX_LABEL, POD_NAME_LABEL};
use model::protobuf::write::Writer;
use model::{Decode, DecodeError, PodDecoder, ResourceVersion, Uid};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use plain::compare;

const UIDS: [&str; 3] = ["0e1b4a9c-6a4e-4c53-9f0a-3f6f1f0f4a11", "11111111-2222-3333-4444-555555555555", "not-a-uuid"];

// --- all shapes of pods

fn time() -> impl Strategy<Value = Value> {
    prop_oneof![
        1 => Just(Value::Null),
        4 => (1_i64..4_000_000_000).prop_map(|seconds| json!(jiff::Timestamp::from_second(seconds).unwrap().to_string())),
    ]
}

fn list(item: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    prop_oneof![1 => Just(Value::Null), 3 => proptest::collection::vec(item, 0..4).prop_map(Value::Array)]
}

fn labels(name: &str) -> impl Strategy<Value = Value> + use<> {
    let index = name.rsplit('-').next().unwrap_or_default().to_owned();
    let pod_name = prop_oneof![Just(None), Just(Some(name.to_owned())), Just(Some("other-0".to_owned()))];
    let pod_index = prop_oneof![Just(None), Just(Some(index)), Just(Some("7".to_owned()))];
    let others = proptest::collection::btree_map("[a-z./-]{1,8}", "[a-zA-Z0-9._-]{0,6}", 0..6);
    (pod_name, pod_index, others).prop_map(|(pod_name, pod_index, mut labels)| {
        labels.extend(pod_name.map(|value| (POD_NAME_LABEL.to_owned(), value)));
        labels.extend(pod_index.map(|value| (POD_INDEX_LABEL.to_owned(), value)));
        json!(labels)
    })
}

fn annotations() -> impl Strategy<Value = Value> {
    let cost = prop_oneof![
        any::<i64>().prop_map(|cost| cost.to_string()),
        any::<i32>().prop_map(|cost| cost.to_string()),
        "[-+0]{0,2}[0-9]{0,4}",
        ".{0,4}",
    ];
    prop_oneof![
        Just(Value::Null),
        Just(json!({"example.com/large": "x".repeat(300), "e": ""})),
        cost.prop_map(|cost| json!({"a": "b", "controller.kubernetes.io/pod-deletion-cost": cost, "z": "0"})),
    ]
}

fn owner() -> impl Strategy<Value = Value> {
    let kind = select(vec!["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", ""]);
    (kind, "[a-z]{0,4}", select(UIDS.to_vec()), proptest::option::of(any::<bool>()))
        .prop_map(|(kind, name, uid, controller)| json!({"kind": kind, "name": name, "uid": uid, "controller": controller}))
}

fn volume(name: &str) -> impl Strategy<Value = Value> + use<> {
    let pod = name.to_owned();
    ("[a-c]{1,2}", 0..4).prop_map(move |(volume, kind)| match kind {
        0 => json!({"name": volume, "emptyDir": {}}),
        1 => json!({"name": volume, "persistentVolumeClaim": {"claimName": "shared"}}),
        2 => json!({"name": volume, "persistentVolumeClaim": {"claimName": ""}}),
        _ => json!({"name": volume, "persistentVolumeClaim": {"claimName": format!("{volume}-{pod}")}}),
    })
}

fn container() -> impl Strategy<Value = Value> {
    let policy = select(vec![Value::Null, json!("Always"), json!("Never"), json!("")]);
    ("[a-c]", policy).prop_map(|(name, policy)| json!({"name": name, "restartPolicy": policy}))
}

fn container_status() -> impl Strategy<Value = Value> {
    ("[a-c]", any::<i32>()).prop_map(|(name, restarts)| json!({"name": name, "restartCount": restarts}))
}

fn condition() -> impl Strategy<Value = Value> {
    (select(vec!["Ready", "Ready", "PodScheduled", "ContainersReady"]), select(vec!["True", "False", "Unknown", ""]), time())
        .prop_map(|(kind, status, changed)| json!({"type": kind, "status": status, "lastTransitionTime": changed}))
}

fn pod_named(name: &str) -> impl Strategy<Value = Value> + use<> {
    let fixed = name.to_owned();
    let version = select(vec!["1", "184467", "0", "", "007", "x", "99999999999999999999"]);
    let meta = ("[a-z]{1,5}", select(UIDS[..2].to_vec()), version, labels(name), annotations(), list(owner()), time(), time());
    let spec = (select(vec![Value::Null, json!(""), json!("node-1")]), list(volume(name)), list(container()), list(container()));
    let phase = select(vec!["", "Pending", "Running", "Succeeded", "Failed", "Unknown", "Odd"]);
    let status = (phase, list(condition()), list(container_status()), list(container_status()));
    (meta, spec, status).prop_map(move |(meta, spec, status)| {
        let (namespace, uid, version, labels, annotations, owners, created, deletion) = meta;
        json!({
            "metadata": {
                "name": fixed, "generateName": "gen-", "namespace": namespace, "uid": uid, "resourceVersion": version, "labels": labels,
                "annotations": annotations, "ownerReferences": owners, "creationTimestamp": created, "deletionTimestamp": deletion,
            },
            "spec": {"nodeName": spec.0, "volumes": spec.1, "initContainers": spec.2, "containers": spec.3},
            "status": {"phase": status.0, "conditions": status.1, "containerStatuses": status.2, "initContainerStatuses": status.3},
        })
    })
}

fn pod() -> impl Strategy<Value = Value> {
    prop_oneof!["[a-z]{1,4}-[0-9]{1,2}", "[a-z0-9.-]{1,6}", "[a-z]{1,3}-"].prop_flat_map(|name| pod_named(&name))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_decoded_pod_says_what_its_json_says(pods in proptest::collection::vec(pod(), 1..4)) {
        let mut decoder = PodDecoder::new();
        for json in pods {
            compare(&decoder.decode(&support::encode(&json)).unwrap(), &json);
        }
    }

    #[test]
    fn the_order_of_sections_means_nothing(json in pod(), order in Just([0, 1, 2]).prop_shuffle()) {
        let sections = support::sections(&json);
        let message = order.iter().fold(Writer::new(), |message, at| message.message(*at as u32 + 1, &sections[*at]));
        compare(&PodDecoder::new().decode(&message.into_bytes()).unwrap(), &json);
    }

    #[test]
    fn cut_messages_are_borne(json in pod(), at in any::<prop::sample::Index>()) {
        let whole = support::encode(&json);
        let cut = &whole[..at.index(whole.len())];
        let _ = PodDecoder::new().decode(cut);
    }

    #[test]
    fn damaged_messages_are_borne(json in pod(), damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let mut bytes = support::encode(&json);
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = PodDecoder::new().decode(&bytes);
    }

    #[test]
    fn arbitrary_bytes_are_borne(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = PodDecoder::new().decode(&bytes);
    }
}

fn identity_error(meta: &Value) -> &'static str {
    match PodDecoder::new().decode(&support::encode(&json!({"metadata": meta}))) {
        Err(DecodeError::Identity { field, .. }) => field,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_pod_without_identity_is_refused() {
    assert_eq!(identity_error(&json!({"name": "", "namespace": "a", "uid": UIDS[0]})), "name");
    assert_eq!(identity_error(&json!({"name": "a", "namespace": "", "uid": UIDS[0]})), "namespace");
    assert_eq!(identity_error(&json!({"name": "a", "namespace": "a", "uid": "b"})), "uid");
    assert_eq!(identity_error(&json!({"name": "a", "namespace": "a", "uid": Uid::NONE.to_string()})), "uid");
}

#[test]
fn the_last_of_a_repeated_field_wins() {
    let meta = Writer::new().text(1, "template").text(3, "ns").text(5, UIDS[0]).text(1, "web-1").entry(11, "a", "1").entry(11, "a", "2");
    let message = Writer::new().message(1, &meta).message(1, &Writer::new().text(6, "5")).into_bytes();
    let pod = PodDecoder::new().decode(&message).unwrap();
    assert_eq!((&*pod.name, pod.resource_version, pod.get("a")), ("web-1", ResourceVersion(5), Some("2")));
}

#[test]
fn pods_of_a_stateful_set_share_their_labels_and_claims() {
    let mut decoder = PodDecoder::new();
    let mut pod = |ordinal: &str| {
        let name = format!("db-{ordinal}");
        let json = json!({
            "metadata": {
                "name": name, "namespace": "ns", "uid": UIDS[0],
                "labels": {"app": "db", POD_NAME_LABEL: name, POD_INDEX_LABEL: ordinal},
            },
            "spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": format!("data-{name}")}}]},
        });
        decoder.decode(&support::encode(&json)).unwrap()
    };
    let (one, two) = (pod("1"), pod("20"));
    assert!(std::sync::Arc::ptr_eq(&one.label_set, &two.label_set));
    assert!(std::sync::Arc::ptr_eq(one.claims.as_ref().unwrap(), two.claims.as_ref().unwrap()));
    assert_eq!(two.own_labels, OwnLabels { name: true, index: true });
    assert_eq!((two.get(POD_NAME_LABEL), two.get(POD_INDEX_LABEL), two.len()), (Some("db-20"), Some("20"), 3));
}
