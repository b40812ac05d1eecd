//! What a plain reading of a pod's JSON gives, and the comparison with our pod. The end-to-end tests include this file too, for pods that an
//! API server has written.

use std::collections::{BTreeMap, BTreeSet};

use model::labels::Labels;
use model::pod::{Claim, POD_NAME_LABEL, Phase};
use model::{ControllerRef, Pod, ResourceVersion, Timestamp, Uid};
use serde_json::Value;

fn expected_labels(pod: &Value) -> BTreeMap<String, String> {
    let labels = pod["metadata"]["labels"].as_object().into_iter().flatten();
    labels.map(|(key, value)| (key.clone(), value.as_str().unwrap().to_owned())).collect()
}

fn expected_claims(pod: &Value) -> Option<Vec<Claim>> {
    let mut claims = BTreeMap::new();
    for volume in pod["spec"]["volumes"].as_array().into_iter().flatten() {
        if let Some(claim) = volume["persistentVolumeClaim"]["claimName"].as_str() {
            claims.insert(volume["name"].as_str().unwrap(), claim);
        }
    }
    let name = pod["metadata"]["name"].as_str().unwrap();
    let claims: Vec<_> = claims
        .into_iter()
        .map(|(volume, claim)| {
            if claim == format!("{volume}-{name}") {
                Claim::Conventional(volume.into())
            } else {
                Claim::Literal { volume: volume.into(), claim: claim.into() }
            }
        })
        .collect();
    (!claims.is_empty()).then_some(claims)
}

fn highest_restarts(statuses: &Value, counts: impl Fn(&str) -> bool) -> i32 {
    let statuses = statuses.as_array().into_iter().flatten().filter(|status| counts(status["name"].as_str().unwrap()));
    statuses.map(|status| status["restartCount"].as_i64().unwrap() as i32).max().unwrap_or(0).max(0)
}

fn expected_init_restarts(pod: &Value) -> i32 {
    let containers = pod["spec"]["initContainers"].as_array().into_iter().flatten();
    let sidecars: BTreeSet<_> = containers
        .filter(|container| container["restartPolicy"] == "Always")
        .map(|container| container["name"].as_str().unwrap())
        .collect();
    highest_restarts(&pod["status"]["initContainerStatuses"], |name| sidecars.contains(name))
}

fn expected_phase(pod: &Value) -> Phase {
    match pod["status"]["phase"].as_str() {
        Some("Pending") => Phase::Pending,
        Some("Running") => Phase::Running,
        Some("Succeeded") => Phase::Succeeded,
        Some("Failed") => Phase::Failed,
        Some("Unknown") => Phase::Unknown,
        _ => Phase::Other,
    }
}

/// The cost as an integer whose canonical spelling, or that with zeros behind a minus, is the text.
pub(crate) fn expected_cost(pod: &Value) -> i32 {
    let text = pod["metadata"]["annotations"]["controller.kubernetes.io/pod-deletion-cost"].as_str().unwrap_or("0");
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let digits_only = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !digits_only || sign == 1 && digits != "0" && digits.starts_with('0') {
        return 0;
    }
    digits.parse::<i64>().ok().and_then(|value| i32::try_from(sign * value).ok()).unwrap_or(0)
}

fn time_of(value: &Value) -> Option<Timestamp> {
    Timestamp::parse(value.as_str()?)
}

fn controlling_owner(pod: &Value) -> Option<&Value> {
    pod["metadata"]["ownerReferences"].as_array()?.iter().find(|owner| owner["controller"] == true)
}

fn is_ours(owner: &Value) -> bool {
    owner["kind"].as_str().is_some_and(|kind| ["Deployment", "ReplicaSet", "StatefulSet"].contains(&kind))
}

/// Fails unless the pod says what the JSON says.
pub(crate) fn compare(pod: &Pod, json: &Value) {
    let meta = &json["metadata"];
    assert_eq!(&*pod.name, meta["name"].as_str().unwrap());
    assert_eq!(&*pod.namespace, meta["namespace"].as_str().unwrap());
    assert_eq!(pod.uid.to_string(), meta["uid"].as_str().unwrap());
    assert_eq!(pod.resource_version, ResourceVersion::parse(meta["resourceVersion"].as_str().unwrap_or_default()));
    assert_eq!(pod.deletion, time_of(&meta["deletionTimestamp"]));
    assert_eq!(pod.node.as_deref(), json["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()));
    assert_eq!(pod.phase, expected_phase(json));

    let labels = expected_labels(json);
    assert_eq!(pod.len(), labels.len());
    for (key, value) in &labels {
        assert_eq!(pod.get(key), Some(value.as_str()), "{key}");
    }
    assert_eq!(pod.get("absent"), None);
    assert_eq!(pod.own_labels.name, labels.get(POD_NAME_LABEL).is_some_and(|value| **value == *pod.name));
    assert_eq!(pod.label_set.get(POD_NAME_LABEL).is_some(), labels.contains_key(POD_NAME_LABEL) && !pod.own_labels.name);

    let owner = controlling_owner(json);
    match (&pod.controller, owner) {
        (ControllerRef::None, None) => {}
        (ControllerRef::Foreign, Some(owner)) => assert!(!is_ours(owner)),
        (ControllerRef::Owner(have), Some(owner)) => {
            assert_eq!(have.kind.as_str(), owner["kind"]);
            assert_eq!(&*have.name, owner["name"].as_str().unwrap());
            assert_eq!(have.uid, Uid::parse(owner["uid"].as_str().unwrap()).unwrap_or(Uid::NONE));
        }
        (have, want) => panic!("{have:?} for {want:?}"),
    }
    compare_details(pod, json, owner.is_some_and(|owner| !is_ours(owner)));
}

/// What is kept only of pods that may concern us.
fn compare_details(pod: &Pod, json: &Value, foreign: bool) {
    if foreign {
        assert_eq!((pod.created, pod.ready, pod.ready_changed, pod.claims.as_deref()), (None, false, None, None));
        assert_eq!((pod.restarts, pod.init_restarts, pod.deletion_cost), (0, 0, 0));
        return;
    }
    assert_eq!(pod.created, time_of(&json["metadata"]["creationTimestamp"]));
    let ready = json["status"]["conditions"].as_array().and_then(|conditions| conditions.iter().find(|one| one["type"] == "Ready"));
    assert_eq!(pod.ready, ready.is_some_and(|ready| ready["status"] == "True"));
    assert_eq!(pod.ready_changed, ready.and_then(|ready| time_of(&ready["lastTransitionTime"])));
    assert_eq!(pod.claims.as_deref(), expected_claims(json).as_deref());
    assert_eq!(pod.restarts, highest_restarts(&json["status"]["containerStatuses"], |_| true));
    assert_eq!(pod.init_restarts, expected_init_restarts(json));
    assert_eq!(pod.deletion_cost, expected_cost(json));
}
