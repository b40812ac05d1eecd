//! The objects whose controllers are verified, and how far they are.

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::options::ControllerName;

/// Where they are to get to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Their first pods run.
    Made,
    /// The pods of the changed template have taken their place.
    Changed,
}

/// What their pods are.
pub(super) struct Pods<'a> {
    pub(super) image: &'a str,
    pub(super) pull_policy: &'a str,
    pub(super) pull_secrets: &'a [String],
    pub(super) arguments: &'a [String],
}

/// How far one of them is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) done: bool,
    pub(super) text: String,
}

/// The label of their pods, with their name as its value.
pub(super) const LABEL: &str = "app.kubernetes.io/instance";
/// So many pods that a rollout takes more than one step.
const REPLICAS: u64 = 2;
/// Who must have written their status, as `managedFields` name it.
const WRITER: &str = "workloads-controller-manager";

/// The object. Its pods meet the Pod Security Standard "restricted", and ask for nearly nothing.
pub(super) fn wanted(controller: ControllerName, name: &str, pods: &Pods<'_>) -> Value {
    // None must select another's.
    let labels = json!({"app.kubernetes.io/name": format!("verify-{}", controller.resource().plural), LABEL: name});
    let secrets: Vec<_> = pods.pull_secrets.iter().map(|name| json!({"name": name})).collect();
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": controller.resource().kind, "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": REPLICAS, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {
                "automountServiceAccountToken": false, "enableServiceLinks": false, "terminationGracePeriodSeconds": 1,
                "imagePullSecrets": secrets,
                "securityContext": {
                    "runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532, "seccompProfile": {"type": "RuntimeDefault"},
                },
                // There may be no other node.
                "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}],
                "containers": [{
                    "name": "pause", "image": pods.image, "imagePullPolicy": pods.pull_policy, "args": pods.arguments,
                    "resources": {"requests": {"cpu": "1m", "memory": "8Mi"}},
                    "securityContext": {
                        "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
                    },
                }],
            }},
        },
    });
    if controller == ControllerName::StatefulSet
        && let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
    {
        spec.insert("serviceName".to_owned(), json!(name));
    }
    object
}

/// How far it is (kubectl `pkg/polymorphichelpers/rollout_status.go`).
///
/// # Errors
/// When its status is another controller's work.
pub(super) fn state(controller: ControllerName, stage: Stage, object: &Value) -> anyhow::Result<State> {
    let number = |path: &str| object.pointer(path).and_then(Value::as_u64).unwrap_or_default();
    if number("/status/observedGeneration") < number("/metadata/generation") {
        return Ok(State { done: false, text: "no controller has seen it yet".to_owned() });
    }
    written_by_us(object)?;
    let replicas = number("/status/replicas");
    // A ReplicaSet's pods are what they were made as: what is changed of its template is for those to come.
    let updated = if controller == ControllerName::ReplicaSet { replicas } else { number("/status/updatedReplicas") };
    let available = number("/status/availableReplicas");
    let revision = object.pointer("/metadata/annotations/deployment.kubernetes.io~1revision").and_then(Value::as_str);
    let as_wanted = match controller {
        ControllerName::Deployment => revision == Some(if stage == Stage::Made { "1" } else { "2" }),
        ControllerName::ReplicaSet => true,
        ControllerName::StatefulSet => object.pointer("/status/currentRevision") == object.pointer("/status/updateRevision"),
    };
    let done = as_wanted && [replicas, updated, available] == [REPLICAS; 3];
    let text = if done {
        format!("{updated} of {REPLICAS} pods updated and available, as wanted")
    } else {
        format!("{updated} of {REPLICAS} pods updated, {available} available, {replicas} in all")
    };
    Ok(State { done, text })
}

fn written_by_us(object: &Value) -> anyhow::Result<()> {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    let status = |entry: &&Value| entry.get("subresource").and_then(Value::as_str) == Some("status");
    let writers = entries.into_iter().flatten().filter(status).filter_map(|entry| entry.get("manager")?.as_str());
    let writers: Vec<_> = writers.collect();
    let other = writers.iter().find(|writer| **writer != WRITER);
    let other = other.or(writers.is_empty().then_some(&"nobody"));
    ensure!(other.is_none(), "its status was written by {}, not by {WRITER}: who runs this controller?", other.context("a writer")?);
    Ok(())
}

/// What keeps pods from being ready.
pub(super) fn of_pods(list: &Value) -> String {
    let pods = list.get("items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if pods.is_empty() {
        return "there are no pods".to_owned();
    }
    let text = |value: &Value, path: &str| value.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let told = pods.iter().map(|pod| {
        let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
        let unscheduled = conditions.into_iter().flatten().find(|it| text(it, "/type") == "PodScheduled" && text(it, "/status") == "False");
        let waiting = pod.pointer("/status/containerStatuses/0/state/waiting");
        let reason = waiting.or(unscheduled).map(|it| format!(" ({}: {})", text(it, "/reason"), text(it, "/message")));
        format!("pod {} is {}{}", text(pod, "/metadata/name"), text(pod, "/status/phase"), reason.unwrap_or_default())
    });
    told.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(status: &Value, manager: &str) -> Value {
        json!({
            "metadata": {
                "generation": 2, "annotations": {"deployment.kubernetes.io/revision": "2"},
                "managedFields": [{"manager": "kubectl"}, {"manager": manager, "subresource": "status"}],
            },
            "status": status,
        })
    }

    #[test]
    fn is_done_when_all_pods_are_of_the_last_template_and_available() {
        let whole = json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2, "currentRevision": "a", "updateRevision": "a"});
        for controller in ControllerName::all() {
            assert!(state(controller, Stage::Changed, &object(&whole, WRITER)).unwrap().done);
            for (field, value) in [("observedGeneration", 1), ("replicas", 3), ("updatedReplicas", 1), ("availableReplicas", 1)] {
                if (controller, field) == (ControllerName::ReplicaSet, "updatedReplicas") {
                    continue;
                }
                let mut status = whole.clone();
                status[field] = json!(value);
                let state = state(controller, Stage::Changed, &object(&status, WRITER)).unwrap();
                assert!(!state.done, "{controller:?} {field}: {state:?}");
            }
        }
        let mut rolling = whole.clone();
        rolling["updateRevision"] = json!("b");
        assert!(!state(ControllerName::StatefulSet, Stage::Changed, &object(&rolling, WRITER)).unwrap().done);
        assert!(!state(ControllerName::Deployment, Stage::Made, &object(&whole, WRITER)).unwrap().done, "a revision too many");
    }

    #[test]
    fn another_writer_is_named() {
        let status = json!({"observedGeneration": 2});
        let error = state(ControllerName::Deployment, Stage::Made, &object(&status, "kube-controller-manager")).unwrap_err().to_string();
        assert!(error.contains("written by kube-controller-manager"), "{error}");
    }

    #[test]
    fn pods_say_why_they_are_not_ready() {
        let pods = json!({"items": [
            {"metadata": {"name": "a"}, "status": {"phase": "Pending", "conditions":
                [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}]}},
            {"metadata": {"name": "b"}, "status": {"phase": "Pending", "containerStatuses":
                [{"state": {"waiting": {"reason": "ErrImagePull", "message": "not found"}}}]}},
        ]});
        assert_eq!(of_pods(&pods), "pod a is Pending (Unschedulable: 0/1 nodes); pod b is Pending (ErrImagePull: not found)");
        assert_eq!(of_pods(&json!({"items": []})), "there are no pods");
    }
}
