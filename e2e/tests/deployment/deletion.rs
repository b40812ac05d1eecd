//! What becomes of ReplicaSets and pods when their Deployment goes.

use anyhow::{Result, ensure};
use e2e::wait;
use kube::api::{DeleteParams, ListParams, PropagationPolicy};
use serde_json::json;

use crate::history::History;
use crate::rig::{Shared, controller_uid, revision_of, set_name};
use crate::support::{PATIENCE, name_of};

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

pub(crate) async fn deployment_reaping_should_cascade_to_its_replica_sets_and_pods(cluster: Shared) -> Result<()> {
    let space = cluster.space("reaping").await?;
    let annotations = json!({"test": "should-copy", LAST_APPLIED: "should-not-copy"});
    space.create_deployment_with("web", 2, |object| object["metadata"]["annotations"] = annotations).await?;
    let done = space.complete("web").await?;
    assert_eq!(revision_of(&done.metadata), Some(1));
    let set = space.new_set("web").await?;
    let copied = set.metadata.annotations.clone().unwrap_or_default();
    assert_eq!(copied.get("test").map(String::as_str), Some("should-copy"));
    assert!(!copied.contains_key(LAST_APPLIED), "{copied:?}");

    let sets = History::start(space.sets()).await?;
    space.delete_deployment("web", &DeleteParams::foreground()).await?;
    space.all_gone().await?;
    assert!(sets.added().await?.is_empty(), "none is made for the one that goes");
    Ok(())
}

pub(crate) async fn should_delete_rs_created_by_deployment_when_not_orphaning(cluster: Shared) -> Result<()> {
    let space = cluster.space("cascade").await?;
    space.create_deployment("web", 2).await?;
    space.complete("web").await?;
    space.delete_deployment("web", &DeleteParams::background()).await?;
    space.all_gone().await
}

pub(crate) async fn should_orphan_rs_created_by_deployment_when_delete_options_propagation_policy_is_orphan(cluster: Shared) -> Result<()> {
    let space = cluster.space("orphan").await?;
    space.create_deployment("web", 2).await?;
    space.complete("web").await?;
    let set = space.new_set("web").await?;
    let before: Vec<_> = space.ready_pods(&set_name(&set), 2).await?.iter().map(name_of).collect();

    let orphan = DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    space.delete_deployment("web", &orphan).await?;
    wait::until("the Deployment to be gone", PATIENCE, async || {
        let found = space.deployments().get_opt("web").await?;
        ensure!(found.is_none(), "it is there");
        Ok(())
    })
    .await?;
    // The finalizer goes last: by now the references are gone.
    let left = space.sets().list(&ListParams::default()).await?.items;
    assert_eq!(left.len(), 1);
    assert_eq!((&left[0].metadata.uid, controller_uid(&left[0].metadata)), (&set.metadata.uid, None));

    // It lives on: a pod that goes is replaced.
    space.delete_pod(&before[0]).await?;
    let replaced = wait::until("a replacement", PATIENCE, async || {
        let pods = space.ready_pods(&set_name(&set), 2).await?;
        ensure!(pods.iter().all(|pod| name_of(pod) != before[0]), "it still counts");
        Ok(pods)
    });
    assert!(replaced.await?.iter().any(|pod| name_of(pod) == before[1]), "the other one is the same");
    Ok(())
}
