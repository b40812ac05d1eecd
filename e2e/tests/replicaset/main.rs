//! The ReplicaSet controller against a real API server.

mod support;

use anyhow::Result;
use e2e::controlplane::ControlPlane;
use support::{Cluster, name_of};

#[tokio::test]
async fn pods_come_go_and_are_replaced() -> Result<()> {
    let mut cluster = Cluster::start(ControlPlane::builder()).await?;
    cluster.create_set("web", 5).await?;
    let pods = cluster.settled("web", 5).await?;
    assert!(pods.iter().all(|pod| pod.metadata.generate_name.as_deref() == Some("web-")));

    cluster.scale("web", 12).await?;
    cluster.settled("web", 12).await?;
    cluster.scale("web", 2).await?;
    let left = cluster.settled("web", 2).await?;

    let victim = name_of(&left[0]);
    cluster.pods().delete(&victim, &Default::default()).await?;
    let replaced = cluster.settled("web", 2).await?;
    assert!(replaced.iter().all(|pod| name_of(pod) != victim));
    assert!(cluster.manager.terminate().await?.success());
    Ok(())
}
