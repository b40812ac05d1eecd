//! Rows of the bug corpus about rollouts.

use anyhow::Result;
use nodes::Fate;
use serde_json::{Value, json};

use crate::history::History;
use crate::rig::{
    BEHAVIOUR, IMAGE, NEXT, Shared, came_back, comings_and_goings, ensure_all_at, image_of_pod, names, parallel, partition, removed,
    revision_in, revision_of, revisions_in, uids,
};
use crate::support::minor_release;

/// Parity: the broken pod stays until somebody deletes it. Ours says which one that is.
pub(crate) async fn sts_01_a_broken_pod_holds_back_its_own_repair(cluster: Shared) -> Result<()> {
    let space = cluster.space("sts-01").await?;
    space.create_stateful_set("web", 3).await?;
    let good = revision_in(&space.complete("web").await?);
    let pods = History::start(space.pods()).await?;
    space.set_behaviour("web", Some("never-start")).await?;
    space.counts("web", "a new pod", |status| (status.replicas, status.updated_replicas) == (3, Some(1))).await?;
    let before = uids(&space.pods_are(&["web-0", "web-1", "web-2"]).await?);

    space.set_behaviour("web", None).await?;
    let (current, update) = revisions_in(&space.observed("web").await?);
    assert_eq!((current, update.clone()), (good.clone(), good.clone()), "it is a way back");
    space.looked_at("web").await?;
    assert_eq!(uids(&space.pods_of("web").await?), before);
    if cluster.is_ours() {
        let said = space.messages("StatefulSet", "web", "RolloutStalled", 1).await?;
        assert!(said[0].starts_with("Pod web-2 is not ready and of revision") && said[0].contains(&good), "{said:?}");
    }
    space.delete_pod("web-2").await?;
    space.complete("web").await?;
    ensure_all_at(&space, "web", IMAGE, &good).await?;
    assert_eq!(comings_and_goings(&pods).await?, ["-web-2", "+web-2", "-web-2", "+web-2"]);
    Ok(())
}

/// With pods that have no regard to each other the broken one goes first. Before 1.37 the highest one did, although it was ready.
pub(crate) async fn sts_03_a_parallel_update_begins_with_the_pod_that_is_not_ready(cluster: Shared) -> Result<()> {
    let space = cluster.space("sts-03").await?;
    space.create_stateful_set_with("web", 3, parallel).await?;
    space.complete("web").await?;
    cluster.pod_becomes(&space, "web-0", Some(Fate::Unready));
    space.counts("web", "two ready pods", |status| status.ready_replicas == Some(2)).await?;
    let pods = History::start(space.pods()).await?;
    space.set_image("web", NEXT).await?;
    let (first, last) = if minor_release() >= 37 { (1, ["web-0", "web-2", "web-1"]) } else { (3, ["web-2", "web-1", "web-0"]) };
    space.counts("web", "all pods, some new", |status| (status.replicas, status.updated_replicas) == (3, Some(first))).await?;
    space.looked_at("web").await?;
    // What is new and not ready uses up the one that may be unavailable.
    assert_eq!(names(&pods.deleted().await?).len(), usize::try_from(first)?);
    cluster.pod_becomes(&space, "web-0", None);
    space.complete("web").await?;
    assert_eq!(names(&pods.deleted().await?), last);
    Ok(())
}

/// From 1.37 on the current revision moves with every strategy, before with rolling updates only. Ours does on every server what upstream
/// does now.
pub(crate) async fn sts_16_the_current_revision_moves_with_on_delete(cluster: Shared) -> Result<()> {
    let space = cluster.space("sts-16").await?;
    let on_delete = |object: &mut Value| object["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    space.create_stateful_set_with("web", 2, on_delete).await?;
    let old = revision_in(&space.complete("web").await?);
    space.set_image("web", NEXT).await?;
    let (_, new) = revisions_in(&space.observed("web").await?);
    let pods = History::start(space.pods()).await?;
    for pod in ["web-1", "web-0"] {
        space.delete_pod(pod).await?;
    }
    came_back(&space, &pods, 2).await?;
    let done = space.counts("web", "two new pods", |status| (status.updated_replicas, status.ready_replicas) == (Some(2), Some(2))).await?;
    let current = if cluster.is_ours() || minor_release() >= 37 { &new } else { &old };
    assert_eq!(revisions_in(&done), (current.clone(), new.clone()));
    Ok(())
}

/// Parity: a set without pods has nothing old, so what comes next is new, below the partition too.
pub(crate) async fn sts_19_scaling_to_zero_and_up_forgets_the_partition(cluster: Shared) -> Result<()> {
    let space = cluster.space("sts-19").await?;
    space.create_stateful_set_with("web", 4, |object| partition(object, 2)).await?;
    let old = revision_in(&space.complete("web").await?);
    space.set_image("web", NEXT).await?;
    space.counts("web", "two new pods", |status| (status.updated_replicas, status.ready_replicas) == (Some(2), Some(4))).await?;
    space.scale_stateful_set("web", 0).await?;
    let empty = revision_in(&space.complete("web").await?);
    assert_ne!(empty, old);
    space.scale_stateful_set("web", 2).await?;
    space.complete("web").await?;
    ensure_all_at(&space, "web", NEXT, &empty).await.map(drop)
}

pub(crate) async fn sts_21_a_pod_deleted_in_a_rollout_comes_back_as_its_ordinal_says(cluster: Shared) -> Result<()> {
    let space = cluster.space("sts-21").await?;
    space.create_stateful_set_with("web", 5, |object| partition(object, 1)).await?;
    let old = revision_in(&space.complete("web").await?);
    let pods = History::start(space.pods()).await?;
    space.set_image("web", NEXT).await?;
    // The rollout has begun, and is not over.
    removed(&space, &pods, 1).await?;
    space.delete_pod("web-0").await?;
    space.delete_pod("web-1").await?;
    let count = |status: &k8s_openapi::api::apps::v1::StatefulSetStatus| {
        (status.updated_replicas, status.ready_replicas, status.current_replicas) == (Some(4), Some(5), Some(1))
    };
    let done = space.counts("web", "four new pods", count).await?;
    let (current, new) = revisions_in(&done);
    assert_eq!(current, old);
    for (ordinal, pod) in space.pods_of("web").await?.iter().enumerate() {
        let expected = if ordinal == 0 { (Some(IMAGE), &old) } else { (Some(NEXT), &new) };
        assert_eq!((image_of_pod(pod), &revision_of(pod)), expected);
    }
    Ok(())
}

pub(crate) async fn sts_48_a_template_that_no_pod_can_be_made_of_costs_one_pod(cluster: Shared) -> Result<()> {
    let space = cluster.space("sts-48").await?;
    space.create_stateful_set_with("web", 3, parallel).await?;
    let old = revision_in(&space.complete("web").await?);
    let limit = json!({
        "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"},
        "spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}, "default": {"cpu": "1m"}, "defaultRequest": {"cpu": "1m"}}]},
    });
    space.create("limitranges", &limit).await?;
    let pods = History::start(space.pods()).await?;
    let container = |cpu: &str| json!([{"name": "main", "image": IMAGE, "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}}]);
    let template = |cpu: &str| json!({"spec": {"template": {"spec": {"containers": container(cpu)}}}});
    space.patch_stateful_set("web", template("2")).await?;
    let said = space.messages("StatefulSet", "web", "FailedCreate", 1).await?;
    assert!(said[0].contains("web-2") && said[0].contains("is forbidden"), "{said:?}");
    space.counts("web", "two pods", |status| (status.replicas, status.ready_replicas) == (2, Some(2))).await?;
    space.looked_at("web").await?;
    assert_eq!(names(&pods.deleted().await?), ["web-2"], "the others stay until there is another one");

    space.patch_stateful_set("web", template("1")).await?;
    let new = revision_in(&space.complete("web").await?);
    assert_ne!(new, old);
    ensure_all_at(&space, "web", IMAGE, &new).await.map(drop)
}

/// A strategy that the program does not know, or has switched off: no pod may be touched. Ours says so in the status, too.
pub(crate) async fn a_strategy_that_is_switched_off_touches_no_pod(cluster: Shared) -> Result<()> {
    if minor_release() < 37 {
        return Ok(());
    }
    let space = cluster.space("unknown").await?;
    space.create_stateful_set("web", 2).await?;
    space.complete("web").await?;
    let pods = History::start(space.pods()).await?;
    space.patch_stateful_set("web", json!({"spec": {"updateStrategy": {"type": "Recreate", "rollingUpdate": null}}})).await?;
    let annotations = json!({BEHAVIOUR: null, "version": "2"});
    space.patch_stateful_set("web", json!({"spec": {"replicas": 3, "template": {"metadata": {"annotations": annotations}}}})).await?;
    let said = space.messages("StatefulSet", "web", "UnknownStrategy", 1).await?;
    assert!(said[0].contains("feature gate StatefulSetRecreateStrategy is disabled"), "{said:?}");
    if cluster.is_ours() {
        space.observed("web").await?;
    }
    assert!(comings_and_goings(&pods).await?.is_empty());
    space.patch_stateful_set("web", json!({"spec": {"updateStrategy": {"type": "RollingUpdate"}}})).await?;
    space.complete("web").await.map(drop)
}
