//! Recreate, and pods that take long to end. Named after the rows of the bug corpus.

use anyhow::{Result, ensure};
use e2e::wait;
use serde_json::{Value, json};

use crate::rig::{Shared, behaving, rolling, set_name};
use crate::support::{PATIENCE, Space, is_active, name_of};

const NEXT: &str = "registry.example/app:2";

fn recreate(object: &mut Value) {
    object["spec"]["strategy"] = json!({"type": "Recreate"});
}

/// The active pods of a set, by name.
async fn names_of(space: &Space, set: &str) -> Result<Vec<String>> {
    Ok(space.active_pods(set).await?.iter().map(name_of).collect())
}

/// Waits for the ReplicaSet of the next image, makes its pods ready, and sees the rollout end.
async fn ends_with_the_next(space: &Space, replicas: i32) -> Result<()> {
    let sets = space.at_rest(&[0, replicas]).await?;
    space.make_all_ready(&set_name(&sets[1])).await?;
    space.complete("web").await.map(drop)
}

pub(crate) async fn dep_06_no_new_pod_before_the_last_old_one_is_gone(cluster: Shared) -> Result<()> {
    let space = cluster.space("recreate").await?;
    let old = space.standing(2, recreate).await?;
    let held = names_of(&space, &old).await?;
    space.hold(&held).await?;
    space.set_image("web", NEXT).await?;
    space.terminating(2).await?;
    // By its status the old set has none left.
    space.at_rest(&[0]).await?;
    space.stays(&[0]).await?;
    space.let_go(&held[0]).await?;
    space.stays(&[0]).await?;
    space.let_go(&held[1]).await?;
    ends_with_the_next(&space, 2).await
}

/// A complete Deployment of one replica whose ReplicaSet owns a pod that was evicted, besides. Returns that pod and the one that lives.
async fn evicted(space: &Space) -> Result<[String; 2]> {
    let set = space.standing(1, recreate).await?;
    let evicted = names_of(space, &set).await?.remove(0);
    space.patch_pod_status(&evicted, json!({"phase": "Failed", "reason": "Evicted"})).await?;
    let lives = wait::until("a pod instead", PATIENCE, async || {
        let pods = names_of(space, &set).await?;
        ensure!(pods.len() == 1 && pods[0] != evicted, "{pods:?}");
        Ok(pods[0].clone())
    });
    let lives = lives.await?;
    space.make_ready(&lives, 100).await?;
    space.complete("web").await?;
    Ok([evicted, lives])
}

pub(crate) async fn dep_07_a_pod_that_has_ended_keeps_nobody_waiting(cluster: Shared) -> Result<()> {
    let space = cluster.space("evicted").await?;
    let [evicted, _] = evicted(&space).await?;
    space.set_image("web", NEXT).await?;
    ends_with_the_next(&space, 1).await?;
    let left = space.pods().get(&evicted).await?;
    assert_eq!(left.metadata.deletion_timestamp, None, "it is nobody's business");
    Ok(())
}

/// Within a second on an idle machine; what would bring the Deployment back otherwise comes after 10 minutes.
pub(crate) async fn dep_08_the_end_of_the_last_live_pod_lets_the_rollout_go_on(cluster: Shared) -> Result<()> {
    let space = cluster.space("last").await?;
    let [_, lives] = evicted(&space).await?;
    space.hold(std::slice::from_ref(&lives)).await?;
    space.set_image("web", NEXT).await?;
    space.terminating(1).await?;
    space.at_rest(&[0]).await?;
    space.stays(&[0]).await?;
    space.let_go(&lives).await?;
    ends_with_the_next(&space, 1).await
}

/// Parity: one at a time is a promise about templates, not about a pod that somebody deletes.
pub(crate) async fn dep_09_a_deleted_pod_is_replaced_while_it_ends(cluster: Shared) -> Result<()> {
    let space = cluster.space("replaced").await?;
    let set = space.standing(1, recreate).await?;
    let deleted = names_of(&space, &set).await?;
    space.hold(&deleted).await?;
    space.delete_pod(&deleted[0]).await?;
    let instead = space.at_rest(&[1]).await?;
    assert_ne!(names_of(&space, &set_name(&instead[0])).await?, deleted);
    assert_eq!(space.terminating(1).await?, deleted, "it is still there");
    space.make_all_ready(&set).await?;
    space.complete("web").await?;
    space.let_go(&deleted[0]).await
}

/// Parity: 15 + 4 counts no pod that terminates, so that there are 22. The policy `TerminationComplete`, which would count them, does not
/// exist in 1.37.2.
pub(crate) async fn dep_10_pods_that_terminate_do_not_count_for_the_surge(cluster: Shared) -> Result<()> {
    let space = cluster.space("surge").await?;
    let slow = |object: &mut Value| {
        rolling(object, "25%", "25%");
        object["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = json!(30);
        behaving(object, "stuck-terminating");
    };
    space.create_deployment_with("web", 15, slow).await?;
    space.complete("web").await?;
    space.annotate_template("web", json!({"nodes.wcm.dev/behaviour": "never-start"})).await?;
    space.at_rest(&[12, 7]).await?;
    space.terminating(3).await?;
    space.stays(&[12, 7]).await?;
    let pods = space.all_pods().await?;
    assert_eq!((pods.len(), pods.iter().filter(|pod| is_active(pod)).count()), (22, 19));
    Ok(())
}
