//! Back to earlier templates, and what is kept of them. Named after the rows of the bug corpus.

use anyhow::{Context as _, Result, ensure};
use e2e::controlplane::RequestKind;
use e2e::wait;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::history::History;
use crate::rig::{IMAGE, Shared, Subject, image_of_set, revision_of, rolling, set_name};
use crate::support::kubectl::Kubectl as _;
use crate::support::{PATIENCE, Space, name_of};

fn image(version: u32) -> String {
    format!("registry.example/app:{version}")
}

impl Space {
    /// Waits until the Deployment's ReplicaSets have exactly these revisions.
    async fn kept(&self, revisions: &[i64]) -> Result<()> {
        wait::until(&format!("the revisions {revisions:?}"), PATIENCE, async || {
            let seen: Vec<_> = self.replica_sets_of("web").await?.iter().filter_map(|set| revision_of(&set.metadata)).collect();
            ensure!(seen == revisions, "{seen:?}");
            Ok(())
        })
        .await
    }

    /// Rolls another image out, or one that was there before.
    async fn roll(&self, version: u32) -> Result<Deployment> {
        self.set_image("web", &image(version)).await?;
        self.complete("web").await
    }
}

pub(crate) async fn dep_24_undoing_a_bad_template_leaves_the_old_pod_alone(cluster: Shared) -> Result<()> {
    let space = cluster.space("undo").await?;
    space.create_deployment_with("web", 1, |object| rolling(object, "50%", "10%")).await?;
    space.complete("web").await?;
    let old = name_of(&space.ready_pods(&set_name(&space.new_set("web").await?), 1).await?[0]);
    let pods = History::start(space.pods()).await?;

    space.annotate_template("web", json!({"nodes.wcm.dev/behaviour": "unready"})).await?;
    let sets = space.at_rest(&[1, 1]).await?;
    let new = name_of(&space.settled(&set_name(&sets[1]), 1).await?[0]);
    cluster.kubectl(&space, &["rollout", "undo", "deployment/web"]).await?;
    let done = space.complete("web").await?;
    assert_eq!(revision_of(&done.metadata), Some(3));
    space.sizes("web", &[0, 1]).await?;
    wait::until("the new pod to be gone", PATIENCE, async || {
        let left: Vec<_> = space.all_pods().await?.iter().map(name_of).collect();
        ensure!(left == [old.clone()], "{left:?}");
        Ok(())
    })
    .await?;
    let gone: Vec<_> = pods.deleted().await?.iter().map(name_of).collect();
    assert_eq!((pods.added().await?.len(), gone), (1, vec![new]));
    crate::rollouts::never_fewer_ready(&pods, 1).await
}

pub(crate) async fn dep_27_a_revision_that_is_rolled_back_to_moves_up_and_keeps_its_old_numbers(cluster: Shared) -> Result<()> {
    let space = cluster.space("revisions").await?;
    space.create_deployment("web", 0).await?;
    let first = space.complete("web").await?;
    assert_eq!(revision_of(&first.metadata), Some(1));
    space.roll(2).await?;
    let undo = async || -> Result<Deployment> {
        cluster.kubectl(&space, &["rollout", "undo", "deployment/web"]).await?;
        space.complete("web").await
    };
    assert_eq!(revision_of(&undo().await?.metadata), Some(3));
    assert_eq!(revision_of(&space.roll(2).await?.metadata), Some(4));
    assert_eq!(revision_of(&undo().await?.metadata), Some(5));

    let seen: Vec<_> = space
        .replica_sets_of("web")
        .await?
        .iter()
        .map(|set| {
            let history = set.metadata.annotations.as_ref().and_then(|all| all.get("deployment.kubernetes.io/revision-history"));
            (revision_of(&set.metadata), image_of_set(set).map(str::to_owned), history.cloned())
        })
        .collect();
    let expected = [(Some(4), Some(image(2)), Some("2".to_owned())), (Some(5), Some(IMAGE.to_owned()), Some("1,3".to_owned()))];
    assert_eq!(seen, expected);
    // Found under its present number, and under no other.
    let told = cluster.kubectl(&space, &["rollout", "history", "deployment/web", "--revision=5"]).await?;
    assert!(told.contains(IMAGE), "{told}");
    let undone = cluster.try_kubectl(&space, &["rollout", "undo", "deployment/web", "--to-revision=3"], None).await?;
    assert!(!undone.success && undone.stderr.contains("unable to find specified revision 3"), "{undone:?}");
    Ok(())
}

pub(crate) async fn dep_28_the_lowest_revisions_go_first_and_none_with_pods(cluster: Shared) -> Result<()> {
    let space = cluster.space("limit").await?;
    space.create_deployment_with("web", 1, |object| object["spec"]["revisionHistoryLimit"] = json!(2)).await?;
    space.complete("web").await?;
    space.roll(2).await?;
    space.roll(3).await?;
    space.kept(&[1, 2, 3]).await?;
    cluster.kubectl(&space, &["rollout", "undo", "deployment/web", "--to-revision=1"]).await?;
    space.complete("web").await?;
    space.kept(&[2, 3, 4]).await?;
    space.roll(4).await?;
    space.kept(&[3, 4, 5]).await?;
    space.roll(5).await?;
    space.kept(&[4, 5, 6]).await?;
    let images: Vec<_> = space.replica_sets_of("web").await?.iter().map(|set| image_of_set(set).map(str::to_owned)).collect();
    assert_eq!(images, [Some(image(1)), Some(image(4)), Some(image(5))]);

    // Paused, so that what has pods keeps them: the others go, whatever their revision.
    let space = cluster.space("pods").await?;
    space.standing(4, |object| rolling(object, 1, 1)).await?;
    space.set_image("web", &image(2)).await?;
    space.at_rest(&[3, 2]).await?;
    space.pause("web", true).await?;
    let no_history =
        json!({"spec": {"revisionHistoryLimit": 0, "template": {"spec": {"containers": [{"name": "main", "image": image(3)}]}}}});
    let params = PatchParams::default();
    space.deployments().patch("web", &params, &Patch::Strategic(no_history)).await?;
    space.stays(&[3, 2]).await?;
    assert_eq!(space.all_pods().await?.len(), 5);
    Ok(())
}

pub(crate) async fn dep_30_a_deployment_at_zero_trims_its_history(cluster: Shared) -> Result<()> {
    let space = cluster.space("zero").await?;
    space.create_deployment_with("web", 1, |object| object["spec"]["revisionHistoryLimit"] = json!(2)).await?;
    space.complete("web").await?;
    space.scale_deployment("web", 0).await?;
    space.at_rest(&[0]).await?;
    for version in 2..=6 {
        space.roll(version).await?;
    }
    space.kept(&[4, 5, 6]).await
}

/// Memory is left to the tests at scale: here it is the requests that must not grow with what has been.
pub(crate) async fn dep_31_six_hundred_templates_leave_the_last_ones(cluster: Shared) -> Result<()> {
    const CHANGES: usize = 600;
    let space = cluster.space("restless").await?;
    space.create_deployment("web", 0).await?;
    space.complete("web").await?;
    for change in 0..CHANGES {
        space.annotate_template("web", json!({"change": change.to_string()})).await?;
    }
    let done = space.complete("web").await?;
    let last = revision_of(&done.metadata).context("no revision")?;
    // A template that is gone before anyone looks is never seen; of those that are, the new one and ten before it stay. Upstream may give a
    // number twice: it makes a set while its cache does not show the one before.
    let exact = cluster.subject == Subject::Ours;
    wait::until("the last eleven to be left", PATIENCE, async || {
        let seen: Vec<_> = space.replica_sets_of("web").await?.iter().filter_map(|set| revision_of(&set.metadata)).collect();
        ensure!(seen.len() == 11 && seen.iter().all(|revision| (last - 10..=last).contains(revision)), "{seen:?} of {last}");
        ensure!(!exact || seen.iter().copied().eq(last - 10..=last), "{seen:?} of {last}");
        Ok(())
    })
    .await?;
    let change = |set: &ReplicaSet| set.spec.clone()?.template?.metadata?.annotations?.get("change").cloned();
    let left: Vec<_> = space.replica_sets_of("web").await?.iter().filter_map(change).collect();
    assert!(left.contains(&(CHANGES - 1).to_string()), "{left:?}");

    let done = |verb: &'static str| {
        let is = move |kind: &RequestKind| kind.verb == verb && kind.resource == "replicasets" && kind.code < 300;
        cluster.requests(&space, move |request| is(&request.kind))
    };
    let made = wait::until("the log to show all creates and deletes", PATIENCE, async || {
        let (creates, deletes) = (done("create")?, done("delete")?);
        ensure!(creates == deletes + 11, "{creates} creates, {deletes} deletes");
        Ok(creates)
    })
    .await?;
    let revisions = usize::try_from(last)?;
    assert!(if exact { made == revisions } else { made >= revisions }, "{made} ReplicaSets, {last} revisions");
    let all = cluster.requests(&space, |request| matches!(request.kind.resource.as_str(), "deployments" | "replicasets"))?;
    println!("dep_31: {made} of {CHANGES} templates seen, {all} requests");
    assert!(all < 8 * made, "{all} requests for {made} ReplicaSets");
    Ok(())
}
