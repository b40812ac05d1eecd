//! A StatefulSet on its way out. Named after the row of the bug corpus.

use anyhow::{Result, ensure};
use e2e::controlplane::AuditedRequest;
use e2e::wait;
use kube::api::DeleteParams;
use serde_json::json;

use crate::history::History;
use crate::rig::Shared;
use crate::support::pods::controller_uid;
use crate::support::{PATIENCE, name_of, pod_spec};

/// Makes or changes something; a status does not count.
fn is_write(request: &AuditedRequest, resource: &str) -> bool {
    let kind = &request.kind;
    kind.resource == resource && kind.subresource.is_empty() && !matches!(kind.verb.as_str(), "get" | "list" | "watch")
}

pub(crate) async fn ctl_21_of_a_stateful_set_that_is_being_deleted_only_the_status_is_written(cluster: Shared) -> Result<()> {
    let space = cluster.space("foreground").await?;
    space.create_stateful_set("web", 2).await?;
    space.complete("web").await?;
    let pods: Vec<_> = space.pods_of("web").await?.iter().map(name_of).collect();
    // The garbage collector deletes them, and they cannot go.
    space.hold(&pods).await?;
    let history = History::start(space.pods()).await?;
    let written = || cluster.requests(&space, |it| is_write(it, "pods") || is_write(it, "statefulsets"));
    let before = written()?;
    space.delete_stateful_set("web", &DeleteParams::foreground()).await?;
    assert_eq!(space.terminating(2).await?.len(), 2);

    // To create, and to adopt.
    space.scale_stateful_set("web", 5).await?;
    let orphan = json!({"metadata": {"name": "web-4", "labels": {"app": "web"}}, "spec": pod_spec()});
    space.create("pods", &orphan).await?;
    let web = space.looked_at("web").await?;
    ensure!(web.metadata.deletion_timestamp.is_some(), "it is not being deleted");
    assert_eq!(controller_uid(&space.pods().get("web-4").await?.metadata), None);
    assert_eq!(history.added().await?.iter().map(name_of).collect::<Vec<_>>(), ["web-4"]);
    assert_eq!(written()?, before, "not even a try");

    for pod in &pods {
        space.let_go(pod).await?;
    }
    wait::until("the set to be gone", PATIENCE, async || {
        ensure!(space.stateful_sets().get_opt("web").await?.is_none(), "it is there");
        Ok(())
    })
    .await?;
    space.delete_pod("web-4").await
}
