//! A Deployment on its way out. Named after the row of the bug corpus.

use anyhow::{Context as _, Result, ensure};
use e2e::controlplane::AuditedRequest;
use e2e::wait;
use kube::api::DeleteParams;
use serde_json::json;

use crate::history::History;
use crate::rig::{Shared, controller_uid, set_name, size_of};
use crate::support::{PATIENCE, name_of};

const HOLD: &str = "example.com/hold";

/// Makes or changes something; a status does not count.
fn is_write(request: &AuditedRequest, resource: &str) -> bool {
    let kind = &request.kind;
    kind.resource == resource && kind.subresource.is_empty() && !matches!(kind.verb.as_str(), "get" | "list" | "watch")
}

pub(crate) async fn ctl_21_of_a_deployment_that_is_being_deleted_only_the_status_is_written(cluster: Shared) -> Result<()> {
    let space = cluster.space("foreground").await?;
    let set = space.standing(2, |_| {}).await?;
    let pods: Vec<_> = space.active_pods(&set).await?.iter().map(name_of).collect();
    // The garbage collector deletes them all, and none can go.
    space.hold(&pods).await?;
    space.patch_set(&set, json!({"metadata": {"finalizers": [HOLD]}})).await?;
    space.stays(&[2]).await?;
    let (sets, all_pods) = (History::start(space.sets()).await?, History::start(space.pods()).await?);
    let written = || {
        Ok::<_, anyhow::Error>((
            cluster.requests(&space, |it| is_write(it, "replicasets"))?,
            cluster.requests(&space, |it| is_write(it, "pods"))?,
        ))
    };
    let before = written()?;
    space.delete_deployment("web", &DeleteParams::foreground()).await?;
    space.terminating(2).await?;

    // To create, to scale, to adopt.
    space.set_image("web", "registry.example/app:2").await?;
    space.scale_deployment("web", 4).await?;
    let orphan = |set: &mut serde_json::Value| {
        let labels = json!({"app": "web", "by": "hand"});
        set["spec"]["selector"]["matchLabels"] = labels.clone();
        set["spec"]["template"]["metadata"]["labels"] = labels.clone();
        set["metadata"]["labels"] = labels;
    };
    space.create_set_with("orphan", 0, orphan).await?;
    space.settled("orphan", 0).await?;
    space.counts("web", "its pods to be counted out", |counts| counts[0] == 0).await?;
    space.stays(&[2]).await?;
    // The status is kept up all the same; the set's, too, which is on its way out itself.
    let web = space.observed("web").await?;
    ensure!(web.metadata.deletion_timestamp.is_some(), "it is not being deleted");
    let left = space.sets().get(&set).await?;
    assert_eq!((size_of(&left), left.metadata.deletion_timestamp.is_some()), (2, true));
    assert_eq!(controller_uid(&space.sets().get("orphan").await?.metadata), None);
    assert_eq!(sets.added().await?.iter().map(set_name).collect::<Vec<_>>(), ["orphan"]);
    assert!(all_pods.added().await?.is_empty());
    assert_eq!(written()?, before, "not even a try");

    space.delete_set("orphan", &DeleteParams::background()).await?;
    for pod in &pods {
        space.let_go(pod).await?;
    }
    space.patch_set(&set, json!({"metadata": {"finalizers": null}})).await.context("let the set go")?;
    wait::until("everything to be gone", PATIENCE * 2, async || {
        ensure!(space.deployments().get_opt("web").await?.is_none(), "it is there");
        Ok(())
    })
    .await?;
    space.all_gone().await
}
