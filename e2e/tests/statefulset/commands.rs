//! What `kubectl` shows of StatefulSets and does to them, as far as it depends on the controller.

use anyhow::{Result, ensure};
use nodes::Fate;
use serde_json::{Value, json};

use crate::history::History;
use crate::looking::until_changed;
use crate::rig::{Cluster, IMAGE, NEXT, Shared, comings_and_goings, ensure_all_at, revision_in, stateful_set};
use crate::support::Space;
use crate::support::kubectl::Kubectl as _;

const CAUSE: &str = "kubernetes.io/change-cause";
const THIRD: &str = "registry.example/app:3";

impl Cluster {
    /// `kubectl rollout status`, to its good end.
    async fn rolled_out(&self, space: &Space, replicas: i32) -> Result<()> {
        let said = self.kubectl(space, &["rollout", "status", "sts/web", "--timeout=60s"]).await?;
        // The server sets a partition of zero where nobody asks for one, so that every rollout is a partitioned one to kubectl.
        let rolled = format!("partitioned roll out complete: {replicas} new pods have been updated...\n");
        ensure!(said.ends_with(&rolled), "{said}");
        Ok(())
    }

    /// Waits until `kubectl rollout history` lists these revisions with these causes.
    async fn history(&self, space: &Space, expected: &[(i64, &str)]) -> Result<()> {
        until_changed(&space.revisions(), "the history", async || {
            let table = self.kubectl(space, &["rollout", "history", "sts/web"]).await?;
            let rows =
                table.lines().filter_map(|line| line.split_once(char::is_whitespace)).map(|(revision, cause)| (revision, cause.trim()));
            let seen: Vec<_> = rows.filter_map(|(revision, cause)| Some((revision.parse::<i64>().ok()?, cause))).collect();
            ensure!(seen == expected, "{table}");
            Ok(())
        })
        .await
    }

    /// Waits until `kubectl get sts web` shows that.
    async fn shows(&self, space: &Space, ready: &str) -> Result<()> {
        until_changed(&space.stateful_sets(), &format!("kubectl to show {ready}"), async || {
            let table = self.kubectl(space, &["get", "sts", "web", "--no-headers"]).await?;
            ensure!(table.split_whitespace().nth(1) == Some(ready), "{table}");
            Ok(())
        })
        .await
    }
}

/// A manifest with a cause, as a user keeps it in a file.
fn manifest(image: &str, cause: &str) -> Value {
    let mut object = stateful_set("web", 3);
    object["metadata"]["annotations"] = json!({CAUSE: cause});
    object["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
    object
}

pub(crate) async fn kubectl_applies_waits_and_shows(cluster: Shared) -> Result<()> {
    let space = cluster.space("apply").await?;
    assert_eq!(cluster.apply(&space, &manifest(IMAGE, "first")).await?, "statefulset.apps/web created\n");
    cluster.rolled_out(&space, 3).await?;
    cluster.shows(&space, "3/3").await?;
    cluster.history(&space, &[(1, "first")]).await?;
    assert_eq!(cluster.apply(&space, &manifest(IMAGE, "first")).await?, "statefulset.apps/web unchanged\n");
    assert_eq!(cluster.apply(&space, &manifest(NEXT, "second")).await?, "statefulset.apps/web configured\n");
    cluster.rolled_out(&space, 3).await?;
    cluster.history(&space, &[(1, "first"), (2, "second")]).await
}

pub(crate) async fn kubectl_rollout_history_and_undo(cluster: Shared) -> Result<()> {
    let space = cluster.space("undo").await?;
    let mut revisions = Vec::new();
    for (image, cause) in [(IMAGE, "first"), (NEXT, "second"), (THIRD, "third")] {
        cluster.apply(&space, &manifest(image, cause)).await?;
        cluster.rolled_out(&space, 3).await?;
        revisions.push(revision_in(&space.stateful_set("web").await?));
    }
    cluster.history(&space, &[(1, "first"), (2, "second"), (3, "third")]).await?;
    let told = cluster.kubectl(&space, &["rollout", "history", "sts/web", "--revision=2"]).await?;
    assert!(told.contains("with revision #2") && told.contains(&format!("Image:\t{NEXT}")), "{told}");

    let said = cluster.kubectl(&space, &["rollout", "undo", "sts/web"]).await?;
    assert_eq!(said, "statefulset.apps/web rolled back\n");
    cluster.rolled_out(&space, 3).await?;
    ensure_all_at(&space, "web", NEXT, &revisions[1]).await?;
    cluster.history(&space, &[(1, "first"), (3, "third"), (4, "second")]).await?;

    cluster.kubectl(&space, &["rollout", "undo", "sts/web", "--to-revision=1"]).await?;
    cluster.rolled_out(&space, 3).await?;
    ensure_all_at(&space, "web", IMAGE, &revisions[0]).await?;
    cluster.history(&space, &[(3, "third"), (4, "second"), (5, "first")]).await?;
    let said = cluster.kubectl(&space, &["rollout", "undo", "sts/web", "--to-revision=5"]).await?;
    assert!(said.contains("skipped rollback (current template already matches revision 5)"), "{said}");
    let gone = cluster.try_kubectl(&space, &["rollout", "undo", "sts/web", "--to-revision=1"], None).await?;
    assert!(!gone.success && gone.stderr.contains("unable to find specified revision 1 in history"), "{gone:?}");
    Ok(())
}

pub(crate) async fn kubectl_rollout_restart_replaces_every_pod_in_order(cluster: Shared) -> Result<()> {
    let space = cluster.space("restart").await?;
    cluster.apply(&space, &manifest(IMAGE, "first")).await?;
    cluster.rolled_out(&space, 3).await?;
    let pods = History::start(space.pods()).await?;
    assert_eq!(cluster.kubectl(&space, &["rollout", "restart", "sts/web"]).await?, "statefulset.apps/web restarted\n");
    cluster.rolled_out(&space, 3).await?;
    let steps = ["-web-2", "+web-2", "-web-1", "+web-1", "-web-0", "+web-0"];
    assert_eq!(comings_and_goings(&pods).await?, steps);
    for pod in space.pods_of("web").await? {
        let annotations = pod.metadata.annotations.unwrap_or_default();
        assert!(annotations.contains_key("kubectl.kubernetes.io/restartedAt"), "{annotations:?}");
    }
    Ok(())
}

pub(crate) async fn kubectl_rollout_status_waits_and_knows_partitions(cluster: Shared) -> Result<()> {
    let space = cluster.space("partition").await?;
    let mut partitioned = manifest(IMAGE, "first");
    crate::rig::partition(&mut partitioned, 1);
    cluster.apply(&space, &partitioned).await?;
    space.complete("web").await?;
    cluster.pods_become(&space, Some(Fate::NeverStart)).await;
    cluster.kubectl(&space, &["set", "image", "sts/web", &format!("main={NEXT}")]).await?;
    space.counts("web", "two ready pods", |status| (status.updated_replicas, status.ready_replicas) == (Some(1), Some(2))).await?;
    let waits = cluster.try_kubectl(&space, &["rollout", "status", "sts/web", "--timeout=1s"], None).await?;
    assert!(!waits.success && waits.stdout.contains("Waiting for 1 pods to be ready"), "{waits:?}");
    cluster.pods_become(&space, None).await;
    let said = cluster.kubectl(&space, &["rollout", "status", "sts/web", "--timeout=60s"]).await?;
    assert!(said.ends_with("partitioned roll out complete: 2 new pods have been updated...\n"), "{said}");
    Ok(())
}

pub(crate) async fn kubectl_scales(cluster: Shared) -> Result<()> {
    let space = cluster.space("scale").await?;
    cluster.apply(&space, &manifest(IMAGE, "first")).await?;
    cluster.rolled_out(&space, 3).await?;
    let said = cluster.kubectl(&space, &["scale", "sts/web", "--replicas=5", "--current-replicas=3"]).await?;
    assert_eq!(said, "statefulset.apps/web scaled\n");
    cluster.shows(&space, "5/5").await?;
    cluster.rolled_out(&space, 5).await?;
    let wrong = cluster.try_kubectl(&space, &["scale", "sts/web", "--replicas=1", "--current-replicas=3"], None).await?;
    assert!(!wrong.success && wrong.stderr.contains("Expected replicas to be 3, was 5"), "{wrong:?}");
    cluster.kubectl(&space, &["scale", "sts/web", "--replicas=0"]).await?;
    cluster.shows(&space, "0/0").await?;
    space.pods_are(&[]).await?;
    cluster.history(&space, &[(1, "first")]).await
}
