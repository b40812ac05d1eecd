//! Which pods go first when there are too many (upstream `ActivePodsWithRanks`).

use anyhow::{Result, ensure};
use e2e::wait;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::Shared;
use crate::support::{PATIENCE, Space, ago, name_of, pod_spec, ready_status};

const DAY: i64 = 86_400;

/// A pod that a set will adopt. `change` gets its JSON.
async fn pod(space: &Space, name: &str, node: Option<&str>, change: impl FnOnce(&mut Value)) -> Result<()> {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}}, "spec": pod_spec(),
    });
    if let Some(node) = node {
        pod["spec"]["nodeName"] = json!(node);
    }
    change(&mut pod);
    space.create("pods", &pod).await.map(drop)
}

fn cost(cost: &str) -> impl FnOnce(&mut Value) {
    move |pod| pod["metadata"]["annotations"] = json!({"controller.kubernetes.io/pod-deletion-cost": cost})
}

fn with_sidecar(pod: &mut Value) {
    pod["spec"]["initContainers"] = json!([{"name": "side", "image": "registry.example/side:1", "restartPolicy": "Always"}]);
}

fn restarts(container: &str, count: i32) -> Value {
    json!([{"name": container, "restartCount": count, "ready": true, "image": "registry.example/app:1", "imageID": "", "state": {}}])
}

/// One pod for each rule, in the order in which they must go. All but the first are on nodes of their own: no rule but its own tells a
/// pod from those behind it, and the rules in front of its own would keep it longest.
async fn pods_for_each_rule(space: &Space) -> Result<Vec<&'static str>> {
    pod(space, "unassigned", None, cost("100")).await?;
    pod(space, "pending", Some("n1"), cost("100")).await?;
    pod(space, "unknown", Some("n2"), cost("100")).await?;
    pod(space, "unready", Some("n3"), cost("100")).await?;
    pod(space, "cheap", Some("n4"), cost("-5")).await?;
    pod(space, "just-ready", Some("n5"), |_| {}).await?;
    pod(space, "restarted", Some("n6"), with_sidecar).await?;
    pod(space, "sidecar-restarted", Some("n7"), with_sidecar).await?;
    pod(space, "last", Some("n8"), with_sidecar).await?;

    let mut ready = ready_status(DAY);
    space.patch_pod_status("unassigned", ready.clone()).await?;
    space.patch_pod_status("cheap", ready.clone()).await?;
    space.patch_pod_status("just-ready", ready_status(60)).await?;
    space.patch_pod_status("last", ready.clone()).await?;
    ready["initContainerStatuses"] = restarts("side", 2);
    space.patch_pod_status("sidecar-restarted", ready.clone()).await?;
    ready["initContainerStatuses"] = restarts("side", 0);
    ready["containerStatuses"] = restarts("main", 1);
    space.patch_pod_status("restarted", ready).await?;
    for (name, phase) in [("pending", "Pending"), ("unknown", "Unknown")] {
        let mut status = ready_status(DAY);
        status["phase"] = json!(phase);
        space.patch_pod_status(name, status).await?;
    }
    let unready = json!([{"type": "Ready", "status": "False", "lastTransitionTime": ago(DAY)}]);
    space.patch_pod_status("unready", json!({"phase": "Running", "conditions": unready})).await?;
    Ok(vec!["unassigned", "pending", "unknown", "unready", "cheap", "just-ready", "restarted", "sidecar-restarted", "last"])
}

pub(crate) async fn pods_go_in_upstreams_order(cluster: Shared) -> Result<()> {
    let space = cluster.space("order").await?;
    // The kubelet deletes pods that are bound to a node; here a grace period of zero does.
    let mut order = pods_for_each_rule(&space).await?;
    // The times of the last three are equal to the second, or else their UIDs would decide.
    let since = ago(DAY);
    for name in &order[6..] {
        let condition = json!([{"type": "Ready", "status": "True", "lastTransitionTime": since}]);
        space.patch_pod_status(name, json!({"conditions": condition})).await?;
    }
    space.create_set("web", i32::try_from(order.len())?).await?;
    space.settled("web", order.len()).await?;
    while order.len() > 1 {
        let victim = order.remove(0);
        space.scale("web", i32::try_from(order.len())?).await?;
        let mut left: Vec<_> = space.settled("web", order.len()).await?.iter().map(name_of).collect();
        left.sort();
        let mut expected = order.clone();
        expected.sort_unstable();
        assert_eq!(left, expected, "{victim} goes next");
    }
    Ok(())
}

pub(crate) async fn of_two_like_pods_the_younger_goes(cluster: Shared) -> Result<()> {
    let space = cluster.space("age").await?;
    let age = async |name: &str| -> Result<i64> {
        let pod = space.pods().get(name).await?;
        let created = pod.metadata.creation_timestamp.map_or(0, |time| time.0.as_second());
        Ok(Timestamp::now().as_second() - created)
    };
    pod(&space, "older", Some("n1"), |_| {}).await?;
    // Ages are compared by their power of two: this one is, for some seconds, more than twice the next one's.
    wait::until("the first pod to be older", PATIENCE, async || {
        let age = age("older").await?;
        ensure!(age >= 12, "it is {age} s old");
        Ok(())
    })
    .await?;
    pod(&space, "younger", Some("n2"), |_| {}).await?;
    space.create_set("web", 1).await?;
    let left = space.settled("web", 1).await?;
    let age = age("older").await?;
    assert!(name_of(&left[0]) == "older" || age > 22, "the younger is left, {age} s after the older was made");
    Ok(())
}

pub(crate) async fn the_fuller_node_loses_a_pod_first(cluster: Shared) -> Result<()> {
    let space = cluster.space("spread").await?;
    // Two sets under one owner: the pods of both make a node full.
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}});
    let owner = space.create("configmaps", &owner).await?;
    let reference = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"], "controller": true,
    }]);
    for (name, node) in [("alone", "n1"), ("crowded", "n2")] {
        pod(&space, name, Some(node), |_| {}).await?;
    }
    // Without the other set's pod on its node, this one would be the last to go.
    pod(&space, "neighbour", Some("n2"), |pod| pod["metadata"]["labels"]["app"] = json!("sibling")).await?;
    for (name, seconds) in [("alone", 60), ("crowded", DAY), ("neighbour", DAY)] {
        space.make_ready(name, seconds).await?;
    }
    space.create_set_with("sibling", 1, |set| set["metadata"]["ownerReferences"] = reference.clone()).await?;
    space.create_set_with("web", 2, |set| set["metadata"]["ownerReferences"] = reference).await?;
    space.settled("sibling", 1).await?;
    space.settled("web", 2).await?;

    space.scale("web", 1).await?;
    let left = space.settled("web", 1).await?;
    assert_eq!(name_of(&left[0]), "alone");
    Ok(())
}
