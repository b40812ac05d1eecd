//! From one template to the next, and back.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use nodes::Fate;
use serde_json::{Value, json};

use crate::history::History;
use crate::rig::{
    IMAGE, NEXT, Shared, came_back, comings_and_goings, ensure_all_at, ensure_never_fewer_ready, image_of_pod, names, partition,
    revision_in, revision_of, revisions_in, uids, with_claims,
};
use crate::support::{Space, name_of};

/// Rolls a set of three to another image, while `web-1` is not ready at first. Returns the revision that it was on its way to.
async fn roll(cluster: &Shared, space: &Space, image: &str) -> Result<String> {
    cluster.pod_becomes(space, "web-1", Some(Fate::Unready));
    space.counts("web", "two ready pods", |status| status.ready_replicas == Some(2)).await?;
    let pods = History::start(space.pods()).await?;
    space.set_image("web", image).await?;
    let rolling = space.observed("web").await?;
    let (current, update) = revisions_in(&rolling);
    assert_ne!(current, update);
    space.looked_at("web").await?;
    assert!(pods.deleted().await?.is_empty(), "a pod that is not ready holds back the rollout");

    cluster.pod_becomes(space, "web-1", None);
    assert_eq!(revision_in(&space.complete("web").await?), update);
    let steps = ["-web-2", "+web-2", "-web-1", "+web-1", "-web-0", "+web-0"];
    assert_eq!(comings_and_goings(&pods).await?, steps);
    ensure_never_fewer_ready(&pods, 2).await?;
    ensure_all_at(space, "web", image, &update).await?;
    Ok(update)
}

async fn roll_and_roll_back(cluster: &Shared, space: &Space, change: fn(&mut Value)) -> Result<()> {
    space.create_stateful_set_with("web", 3, change).await?;
    let first = revision_in(&space.complete("web").await?);
    ensure_all_at(space, "web", IMAGE, &first).await?;
    let second = roll(cluster, space, NEXT).await?;
    assert_ne!(second, first);
    assert_eq!(roll(cluster, space, IMAGE).await?, first, "it is a way back, not a third revision");
    let revisions = space.revisions_of("web").await?;
    assert_eq!(names(&revisions), [second, first]);
    assert_eq!(revisions.iter().map(|revision| revision.revision).collect::<Vec<_>>(), [2, 3]);
    Ok(())
}

pub(crate) async fn should_perform_rolling_updates_and_roll_backs_of_template_modifications(cluster: Shared) -> Result<()> {
    let space = cluster.space("rollback").await?;
    roll_and_roll_back(&cluster, &space, |_| {}).await
}

pub(crate) async fn should_perform_rolling_updates_and_roll_backs_of_template_modifications_with_pvcs(cluster: Shared) -> Result<()> {
    let space = cluster.space("rollback-claims").await?;
    roll_and_roll_back(&cluster, &space, with_claims).await?;
    let claims = space.claims_are(&["datadir-web-0", "datadir-web-1", "datadir-web-2"]).await?;
    let oldest = space.stateful_set("web").await?.metadata.creation_timestamp;
    assert!(claims.iter().all(|claim| claim.metadata.creation_timestamp >= oldest), "they were made once");
    for pod in space.pods_of("web").await? {
        assert_eq!(claim_of(&pod), Some(format!("datadir-{}", name_of(&pod))));
    }
    Ok(())
}

fn claim_of(pod: &Pod) -> Option<String> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.filter_map(|volume| volume.persistent_volume_claim.as_ref()).map(|claim| claim.claim_name.clone()).next()
}

/// Waits until the pods below the partition are of the old image and revision, the others of the new, and all ready.
async fn partitioned_at(space: &Space, partition: i32, old: &str, new: &str) -> Result<()> {
    space
        .counts("web", "three ready pods", |status| {
            status.updated_replicas.unwrap_or(0) == 3 - partition && status.ready_replicas == Some(3)
        })
        .await?;
    for (ordinal, pod) in (0..).zip(space.pods_of("web").await?) {
        let expected = if ordinal < partition { (Some(IMAGE), old) } else { (Some(NEXT), new) };
        ensure!((image_of_pod(&pod), &*revision_of(&pod)) == expected, "{} is of {}", name_of(&pod), revision_of(&pod));
    }
    Ok(())
}

pub(crate) async fn should_perform_canary_updates_and_phased_rolling_updates_of_template_modifications(cluster: Shared) -> Result<()> {
    let space = cluster.space("canary").await?;
    space.create_stateful_set_with("web", 3, |object| partition(object, 3)).await?;
    let before = space.complete("web").await?;
    let pods = History::start(space.pods()).await?;

    // A partition as large as the set holds everything back.
    space.set_image("web", NEXT).await?;
    let (old, new) = revisions_in(&space.observed("web").await?);
    assert_eq!(old, revision_in(&before));
    assert_ne!(old, new);
    space.looked_at("web").await?;
    assert!(pods.deleted().await?.is_empty());

    space.set_partition("web", 2).await?;
    partitioned_at(&space, 2, &old, &new).await?;
    assert_eq!(names(&pods.deleted().await?), ["web-2"]);

    // Each comes back as what it was.
    let before = uids(&space.pods_of("web").await?);
    space.delete_pod("web-0").await?;
    space.delete_pod("web-2").await?;
    came_back(&space, &pods, 3).await?;
    partitioned_at(&space, 2, &old, &new).await?;
    let after = uids(&space.pods_of("web").await?);
    assert_eq!(before.iter().zip(&after).map(|(before, after)| before == after).collect::<Vec<_>>(), [false, true, false]);

    for partition in [1, 0] {
        space.set_partition("web", partition).await?;
        partitioned_at(&space, partition, &old, &new).await?;
    }
    assert_eq!(revision_in(&space.complete("web").await?), new);
    assert_eq!(names(&pods.deleted().await?)[3..], ["web-1", "web-0"]);
    Ok(())
}

/// A pod below the partition that ends in that phase comes back on the old revision.
async fn delete_pod_below_partition(space: &Space, phase: &str) -> Result<()> {
    space.create_stateful_set_with("web", 3, |object| partition(object, 1)).await?;
    space.complete("web").await?;
    space.set_image("web", NEXT).await?;
    let (old, new) = revisions_in(&space.observed("web").await?);
    partitioned_at(space, 1, &old, &new).await?;
    let before = uids(&space.pods_of("web").await?);

    let held = ["web-0".to_owned()];
    space.hold(&held).await?;
    space.delete_pod("web-0").await?;
    space.patch_pod_status("web-0", json!({"phase": phase, "conditions": []})).await?;
    space.counts("web", "two ready pods", |status| status.ready_replicas == Some(2)).await?;
    let waiting = space.looked_at("web").await?;
    assert_eq!(revisions_in(&waiting), (old.clone(), new.clone()), "the end of a pod is not the end of the rollout");
    assert_eq!(uids(&space.pods_of("web").await?), before);
    space.let_go("web-0").await?;
    partitioned_at(space, 1, &old, &new).await?;
    assert_eq!(revisions_in(&space.looked_at("web").await?), (old, new));
    assert_eq!(uids(&space.pods_of("web").await?)[1..], before[1..]);
    Ok(())
}

pub(crate) async fn canary_updates_for_partition_1_and_delete_pod_0_without_failing_container(cluster: Shared) -> Result<()> {
    let space = cluster.space("partition-1").await?;
    delete_pod_below_partition(&space, "Succeeded").await
}

pub(crate) async fn canary_updates_for_partition_1_and_delete_pod_0_with_failing_container(cluster: Shared) -> Result<()> {
    let space = cluster.space("partition-1-failing").await?;
    delete_pod_below_partition(&space, "Failed").await
}

pub(crate) async fn should_implement_legacy_replacement_when_the_update_strategy_is_on_delete(cluster: Shared) -> Result<()> {
    let space = cluster.space("on-delete").await?;
    let on_delete = |object: &mut Value| object["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    space.create_stateful_set_with("web", 3, on_delete).await?;
    let old = revision_in(&space.complete("web").await?);
    let pods = History::start(space.pods()).await?;
    replace_all(&space).await?;
    came_back(&space, &pods, 3).await?;
    space.complete("web").await?;
    ensure_all_at(&space, "web", IMAGE, &old).await?;

    space.set_image("web", NEXT).await?;
    let (current, new) = revisions_in(&space.observed("web").await?);
    assert!(current == old && new != old);
    space.looked_at("web").await?;
    assert_eq!(pods.deleted().await?.len(), 3, "no pod goes by itself");
    replace_all(&space).await?;
    came_back(&space, &pods, 6).await?;
    space.counts("web", "three new pods", |status| status.updated_replicas == Some(3) && status.ready_replicas == Some(3)).await?;
    ensure_all_at(&space, "web", NEXT, &new).await?;
    Ok(())
}

/// Removes all three pods, each of which comes back by itself.
async fn replace_all(space: &Space) -> Result<()> {
    for pod in space.pods_of("web").await? {
        space.pods().delete(&name_of(&pod), &DeleteParams::default()).await?;
    }
    Ok(())
}
