//! What `kubectl` shows of Deployments and does to them, as far as it depends on the controller.

use anyhow::{Context as _, Result, ensure};
use nodes::{Behaviour, Fate};
use serde_json::{Value, json};

use crate::history::History;
use crate::looking::until_changed;
use crate::rig::{Cluster, IMAGE, Shared, deployment, image_of_deployment, image_of_pod, revision_of, set_name};
use crate::support::kubectl::Kubectl as _;
use crate::support::{Space, name_of};

const CAUSE: &str = "kubernetes.io/change-cause";
const SECOND: &str = "registry.example/app:2";
const THIRD: &str = "registry.example/app:3";

impl Cluster {
    /// `kubectl rollout status`, to its good end.
    async fn rolled_out(&self, space: &Space) -> Result<()> {
        let said = self.kubectl(space, &["rollout", "status", "deployment/web", "--timeout=60s"]).await?;
        ensure!(said.ends_with("deployment \"web\" successfully rolled out\n"), "{said}");
        Ok(())
    }

    /// The columns of `kubectl get deployment web`, but for the age.
    async fn columns(&self, space: &Space) -> Result<Vec<String>> {
        let table = self.kubectl(space, &["get", "deployment", "web"]).await?;
        let mut lines = table.lines().map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        let (head, mut row) = (lines.next().context("no head")?, lines.next().context("no row")?);
        ensure!(head == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"], "{head:?}");
        row.truncate(4);
        Ok(row)
    }

    /// Waits until [`Self::columns`] are these.
    async fn shows(&self, space: &Space, columns: [&str; 4]) -> Result<()> {
        until_changed(&space.deployments(), &format!("kubectl to show {columns:?}"), async || {
            let seen = self.columns(space).await?;
            ensure!(seen == columns, "{seen:?}");
            Ok(())
        })
        .await
    }

    /// Waits until `kubectl rollout history` lists these revisions with these causes.
    async fn history(&self, space: &Space, expected: &[(i64, &str)]) -> Result<()> {
        until_changed(&space.sets(), "the history", async || {
            let table = self.kubectl(space, &["rollout", "history", "deployment/web"]).await?;
            let rows =
                table.lines().filter_map(|line| line.split_once(char::is_whitespace)).map(|(revision, cause)| (revision, cause.trim()));
            let seen: Vec<_> = rows.filter_map(|(revision, cause)| Some((revision.parse::<i64>().ok()?, cause))).collect();
            ensure!(seen == expected, "{table}");
            Ok(())
        })
        .await
    }

    /// A run that must fail, with this in what it says.
    async fn refuses(&self, space: &Space, args: &[&str], why: &str) -> Result<()> {
        let printed = self.try_kubectl(space, args, None).await?;
        ensure!(!printed.success && printed.stderr.contains(why), "kubectl {}: {printed:?}", args.join(" "));
        Ok(())
    }
}

/// A manifest with a cause, as a user keeps it in a file.
fn manifest(image: &str, cause: &str) -> Value {
    let mut object = deployment("web", 3);
    object["metadata"]["annotations"] = json!({CAUSE: cause});
    object["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
    object
}

pub(crate) async fn kubectl_applies_waits_and_shows(cluster: Shared) -> Result<()> {
    let space = cluster.space("apply").await?;
    let said = cluster.apply(&space, &manifest(IMAGE, "first")).await?;
    assert_eq!(said, "deployment.apps/web created\n");
    cluster.rolled_out(&space).await?;
    assert_eq!(cluster.columns(&space).await?, ["web", "3/3", "3", "3"]);
    for condition in ["Available", "Progressing"] {
        let said = cluster.kubectl(&space, &["wait", &format!("--for=condition={condition}"), "--timeout=60s", "deployment/web"]).await?;
        assert_eq!(said, "deployment.apps/web condition met\n");
    }
    cluster.history(&space, &[(1, "first")]).await?;

    // What did not change begins nothing.
    assert_eq!(cluster.apply(&space, &manifest(IMAGE, "first")).await?, "deployment.apps/web unchanged\n");
    assert_eq!(cluster.apply(&space, &manifest(SECOND, "second")).await?, "deployment.apps/web configured\n");
    cluster.rolled_out(&space).await?;
    cluster.history(&space, &[(1, "first"), (2, "second")]).await?;

    let sets = space.sizes("web", &[0, 3]).await?;
    for set in &sets {
        let annotations = set.metadata.annotations.as_ref().context("no annotations")?;
        assert!(annotations.keys().all(|key| !key.contains("last-applied")), "the user's manifest is not copied: {annotations:?}");
    }
    let table = cluster.kubectl(&space, &["get", "replicasets", "--no-headers"]).await?;
    let mut rows: Vec<Vec<_>> = table.lines().map(|line| line.split_whitespace().take(4).collect()).collect();
    rows.sort_by_key(|row| row[1].to_owned());
    let (old, new) = (set_name(&sets[0]), set_name(&sets[1]));
    assert_eq!(rows, [[old.as_str(), "0", "0", "0"], [new.as_str(), "3", "3", "3"]]);
    Ok(())
}

pub(crate) async fn kubectl_rollout_history_and_undo(cluster: Shared) -> Result<()> {
    let space = cluster.space("undo").await?;
    for (image, cause) in [(IMAGE, "first"), (SECOND, "second"), (THIRD, "third")] {
        cluster.apply(&space, &manifest(image, cause)).await?;
        cluster.rolled_out(&space).await?;
    }
    cluster.history(&space, &[(1, "first"), (2, "second"), (3, "third")]).await?;
    let told = cluster.kubectl(&space, &["rollout", "history", "deployment/web", "--revision=2"]).await?;
    assert!(told.contains("with revision #2") && told.contains(&format!("Image:\t{SECOND}")), "{told}");
    let second = space.set_of_revision("web", 2).await?;

    // Back to the one before: its ReplicaSet is the new one again, and the youngest.
    let said = cluster.kubectl(&space, &["rollout", "undo", "deployment/web"]).await?;
    assert_eq!(said, "deployment.apps/web rolled back\n");
    cluster.rolled_out(&space).await?;
    let undone = space.complete("web").await?;
    assert_eq!((revision_of(&undone.metadata), image_of_deployment(&undone)), (Some(4), Some(SECOND)));
    let again = space.set_of_revision("web", 4).await?;
    assert_eq!(again.metadata.uid, second.metadata.uid);
    let annotations = again.metadata.annotations.clone().context("no annotations")?;
    assert_eq!(annotations["deployment.kubernetes.io/revision-history"], "2");
    cluster.history(&space, &[(1, "first"), (3, "third"), (4, "second")]).await?;

    cluster.kubectl(&space, &["rollout", "undo", "deployment/web", "--to-revision=1"]).await?;
    cluster.rolled_out(&space).await?;
    let undone = space.complete("web").await?;
    assert_eq!((revision_of(&undone.metadata), image_of_deployment(&undone)), (Some(5), Some(IMAGE)));
    cluster.history(&space, &[(3, "third"), (4, "second"), (5, "first")]).await?;
    assert_eq!(space.replica_sets_of("web").await?.len(), 3, "there never were more than three templates");

    cluster
        .refuses(&space, &["rollout", "undo", "deployment/web", "--to-revision=1"], "unable to find specified revision 1 in history")
        .await?;
    let said = cluster.kubectl(&space, &["rollout", "undo", "deployment/web", "--to-revision=5"]).await?;
    assert!(said.contains("skipped rollback (current template already matches revision 5)"), "{said}");
    Ok(())
}

pub(crate) async fn kubectl_rollout_pause_and_resume(cluster: Shared) -> Result<()> {
    let space = cluster.space("pause").await?;
    cluster.apply(&space, &manifest(IMAGE, "first")).await?;
    cluster.rolled_out(&space).await?;
    let said = cluster.kubectl(&space, &["rollout", "pause", "deployment/web"]).await?;
    assert_eq!(said, "deployment.apps/web paused\n");
    let paused = space.condition("web", "Progressing", "DeploymentPaused").await?;
    assert_eq!((paused.status.as_str(), paused.message.as_deref()), ("Unknown", Some("Deployment is paused")));

    let sets = History::start(space.sets()).await?;
    let said = cluster.kubectl(&space, &["set", "image", "deployment/web", &format!("main={SECOND}")]).await?;
    assert_eq!(said, "deployment.apps/web image updated\n");
    let paused = space.observed("web").await?;
    assert_eq!(paused.status.and_then(|status| status.updated_replicas).unwrap_or(0), 0, "none has the new template");
    // Its size is followed all the same, with the template it had.
    cluster.kubectl(&space, &["scale", "deployment/web", "--replicas=5"]).await?;
    let old = space.sizes("web", &[5]).await?;
    space.ready_pods(&set_name(&old[0]), 5).await?;
    assert!(sets.added().await?.is_empty(), "a paused Deployment makes no ReplicaSet");
    cluster.refuses(&space, &["rollout", "undo", "deployment/web", "--to-revision=1"], "cannot rollback a paused deployment").await?;
    cluster.history(&space, &[(1, "first")]).await?;

    let said = cluster.kubectl(&space, &["rollout", "resume", "deployment/web"]).await?;
    assert_eq!(said, "deployment.apps/web resumed\n");
    cluster.rolled_out(&space).await?;
    let done = space.complete("web").await?;
    assert_eq!((revision_of(&done.metadata), image_of_deployment(&done)), (Some(2), Some(SECOND)));
    space.sizes("web", &[0, 5]).await?;
    let resumed = space.condition("web", "Progressing", "NewReplicaSetAvailable").await?;
    assert_eq!(resumed.status, "True");
    Ok(())
}

pub(crate) async fn kubectl_rollout_restart_replaces_every_pod(cluster: Shared) -> Result<()> {
    let space = cluster.space("restart").await?;
    cluster.apply(&space, &manifest(IMAGE, "first")).await?;
    cluster.rolled_out(&space).await?;
    let before: Vec<_> = space.new_pods("web", 3).await?.iter().map(name_of).collect();
    let pods = History::start(space.pods()).await?;

    let said = cluster.kubectl(&space, &["rollout", "restart", "deployment/web"]).await?;
    assert_eq!(said, "deployment.apps/web restarted\n");
    cluster.rolled_out(&space).await?;
    let done = space.complete("web").await?;
    assert_eq!((revision_of(&done.metadata), image_of_deployment(&done)), (Some(2), Some(IMAGE)));
    for pod in space.new_pods("web", 3).await? {
        assert!(!before.contains(&name_of(&pod)), "{} was there before", name_of(&pod));
        let annotations = pod.metadata.annotations.as_ref().context("no annotations")?;
        assert!(annotations.contains_key("kubectl.kubernetes.io/restartedAt"), "{annotations:?}");
    }
    crate::rollouts::never_fewer_ready(&pods, 3).await
}

pub(crate) async fn kubectl_rollout_status_fails_past_the_progress_deadline(cluster: Shared) -> Result<()> {
    let space = cluster.space("deadline").await?;
    cluster.apply(&space, &manifest(IMAGE, "first")).await?;
    cluster.rolled_out(&space).await?;
    // Not from the start: a busy machine may miss it in earnest.
    let deadline = async |seconds: i32| space.patch_deployment("web", json!({"spec": {"progressDeadlineSeconds": seconds}})).await;
    deadline(2).await?;

    // From now on no image can be pulled; pods that run stay as they are.
    cluster.behave(&space, Some(Behaviour::of(Fate::NeverStart))).await;
    cluster.kubectl(&space, &["set", "image", "deployment/web", "main=registry.example/app:missing"]).await?;
    let status = ["rollout", "status", "deployment/web", "--timeout=60s"];
    cluster.refuses(&space, &status, "deployment \"web\" exceeded its progress deadline").await?;
    let late = space.condition("web", "Progressing", "ProgressDeadlineExceeded").await?;
    let bad = space.new_set("web").await?;
    assert_eq!(late.status, "False");
    assert_eq!(late.message, Some(format!("ReplicaSet \"{}\" has timed out progressing.", set_name(&bad))));
    cluster.kubectl(&space, &["wait", "--for=condition=Progressing=False", "--timeout=60s", "deployment/web"]).await?;
    // One more than three may be there, and none of the three may go.
    cluster.shows(&space, ["web", "3/3", "1", "3"]).await?;
    assert_eq!(
        space.active_pods(&set_name(&bad)).await?.iter().filter_map(image_of_pod).collect::<Vec<_>>(),
        ["registry.example/app:missing"]
    );

    deadline(600).await?;
    cluster.kubectl(&space, &["rollout", "undo", "deployment/web"]).await?;
    cluster.rolled_out(&space).await?;
    space.condition("web", "Progressing", "NewReplicaSetAvailable").await?;
    assert_eq!(cluster.columns(&space).await?, ["web", "3/3", "3", "3"]);
    cluster.history(&space, &[(2, "first"), (3, "first")]).await
}

pub(crate) async fn kubectl_scales(cluster: Shared) -> Result<()> {
    let space = cluster.space("scale").await?;
    cluster.apply(&space, &manifest(IMAGE, "first")).await?;
    cluster.rolled_out(&space).await?;
    let said = cluster.kubectl(&space, &["scale", "deployment/web", "--replicas=5", "--current-replicas=3"]).await?;
    assert_eq!(said, "deployment.apps/web scaled\n");
    cluster.rolled_out(&space).await?;
    assert_eq!(cluster.columns(&space).await?, ["web", "5/5", "5", "5"]);
    cluster
        .refuses(&space, &["scale", "deployment/web", "--replicas=1", "--current-replicas=3"], "Expected replicas to be 3, was 5")
        .await?;
    cluster.kubectl(&space, &["scale", "deployment/web", "--replicas=0"]).await?;
    // For kubectl a rollout is over while there are too many.
    cluster.shows(&space, ["web", "0/0", "0", "0"]).await?;
    cluster.history(&space, &[(1, "first")]).await?;

    let set = set_name(&space.new_set("web").await?);
    let expected = [("up", 0, 3), ("up", 3, 5), ("down", 5, 0)];
    let mut expected = expected.map(|(way, from, to)| format!("Scaled {way} replica set {set} from {from} to {to}"));
    let mut said = space.messages("Deployment", "web", "ScalingReplicaSet", 3).await?;
    expected.sort();
    said.sort();
    assert_eq!(said, expected);
    Ok(())
}
