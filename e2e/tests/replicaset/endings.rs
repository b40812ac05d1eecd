//! What ends: namespaces, sets that wait for their pods, pods that fail for ever.

use anyhow::{Result, ensure};
use e2e::wait;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, PropagationPolicy};
use serde_json::{Value, json};

use crate::Shared;
use crate::support::{PATIENCE, Space, name_of};

/// Puts a finalizer on each pod, so that it stays when it is deleted.
fn held(set: &mut Value) {
    set["spec"]["template"]["metadata"]["finalizers"] = json!(["test.example/held"]);
}

async fn release(space: &Space) -> Result<()> {
    for pod in space.all_pods().await? {
        space.patch_pod(&name_of(&pod), json!({"metadata": {"finalizers": null}})).await?;
    }
    Ok(())
}

async fn all_terminating(space: &Space, count: usize) -> Result<()> {
    wait::until("all pods to be terminating", PATIENCE, async || {
        let pods = space.all_pods().await?;
        let active = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).count();
        ensure!(pods.len() == count && active == 0, "{} pods, {active} of them not terminating", pods.len());
        Ok(())
    })
    .await
}

pub(crate) async fn a_namespace_being_deleted_gets_no_more_pods(cluster: Shared) -> Result<()> {
    let space = cluster.space("ending").await?;
    space.create_set_with("web", 3, held).await?;
    space.settled("web", 3).await?;
    let namespaces: Api<Namespace> = Api::all(space.client.clone());
    namespaces.delete(&space.namespace, &DeleteParams::default()).await?;
    // The namespace controller deletes sets and pods; the finalizers keep the pods. No replacement is made, and none is asked for without end.
    all_terminating(&space, 3).await?;
    let refused = |space: &Space| space.pod_requests("create", 403);
    let asked = refused(&space)?;
    release(&space).await?;
    wait::until("the namespace to be gone", PATIENCE, async || {
        ensure!(namespaces.get_opt(&space.namespace).await?.is_none(), "it is there");
        Ok(())
    })
    .await?;
    assert!(refused(&space)? <= asked + 3 && asked <= 9, "{asked} and then {} refused creates", refused(&space)?);
    Ok(())
}

pub(crate) async fn ctl_21_a_set_in_foreground_deletion_makes_nothing_and_tells_its_status(cluster: Shared) -> Result<()> {
    let space = cluster.space("foreground").await?;
    space.create_set_with("web", 3, held).await?;
    space.settled("web", 3).await?;
    let foreground = DeleteParams { propagation_policy: Some(PropagationPolicy::Foreground), ..DeleteParams::default() };
    space.delete_set("web", &foreground).await?;
    all_terminating(&space, 3).await?;
    space
        .status("no replicas", |status| {
            ensure!(status["replicas"] == 0, "not yet");
            Ok(())
        })
        .await?;
    assert_eq!(space.all_pods().await?.len(), 3, "none was replaced");
    release(&space).await?;
    space.set_gone("web").await
}

/// Parity: there is no ceiling, here as upstream. Each pod that fails at once is replaced at once.
pub(crate) async fn rs_04_pods_that_fail_at_once_are_replaced_without_a_ceiling(cluster: Shared) -> Result<()> {
    const FAILURES: usize = 15;
    let space = cluster.space("failing").await?;
    space.create_set("web", 1).await?;
    for failures in 0..FAILURES {
        let pods = space.settled("web", 1).await?;
        assert_eq!(space.all_pods().await?.len(), failures + 1);
        space.patch_pod_status(&name_of(&pods[0]), json!({"phase": "Failed", "reason": "SysctlForbidden"})).await?;
        wait::until("its replacement", PATIENCE, async || {
            let all = space.all_pods().await?.len();
            ensure!(all == failures + 2, "{all} pods in all");
            Ok(())
        })
        .await?;
    }
    Ok(())
}
