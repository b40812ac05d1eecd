//! Sets that rest at zero are not held whole: what is written to them is made of a live read, and they come back as they were.

use anyhow::{Result, ensure};
use e2e::wait;
use serde_json::json;

use crate::Shared;
use crate::support::{PATIENCE, pod_spec};

pub(crate) async fn a_set_at_zero_is_written_through_a_live_read_and_comes_back(cluster: Shared) -> Result<()> {
    let space = cluster.space("zero").await?;
    let created = space
        .create_set_with("web", 0, |set| {
            set["metadata"]["annotations"] = json!({"note": "a < b"});
            set["spec"]["template"]["metadata"]["annotations"] = json!({"note": "kept"});
        })
        .await?;
    space.settled("web", 0).await?;

    // Adopting a stray pod, deleting it, and the status between the two: the cache has neither the metadata nor the template for it.
    let stray = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stray", "labels": {"app": "web"}}, "spec": pod_spec()});
    space.create("pods", &stray).await?;
    wait::until("the stray pod to go", PATIENCE, async || {
        let all = space.all_pods().await?;
        ensure!(all.is_empty(), "{} pods", all.len());
        Ok(())
    })
    .await?;
    space.settled("web", 0).await?;
    wait::until("the audit log", PATIENCE, async || {
        let reads = space.our_requests(|request| request.kind.verb == "get" && request.kind.resource == "replicasets")?;
        ensure!(reads >= 2, "one live read before the adoption, one for the status: {reads}");
        let writes = space.our_requests(|request| request.kind.subresource == "status" && request.kind.code == 200)?;
        ensure!(writes >= 3, "the generation, one pod and no pod are written: {writes}");
        Ok(())
    })
    .await?;

    space.scale("web", 2).await?;
    let pods = space.settled("web", 2).await?;
    let note = |pod: &k8s_openapi::api::core::v1::Pod| pod.metadata.annotations.as_ref().and_then(|all| all.get("note")).cloned();
    assert!(pods.iter().all(|pod| note(pod).as_deref() == Some("kept")), "the template is there again");
    let set = space.sets().get("web").await?;
    assert_eq!((&set.metadata.annotations, &set.metadata.uid), (&created.metadata.annotations, &created.metadata.uid));
    Ok(())
}
