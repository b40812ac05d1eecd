//! Rolling updates of several pods at a time. Releases before 1.37 have that switched off.

use anyhow::Result;
use serde_json::Value;

use crate::history::History;
use crate::rig::{
    NEXT, Shared, comings_and_goings, ensure_all_at, ensure_never_fewer_ready, max_unavailable, names, parallel, revision_in,
};
use crate::support::minor_release;

pub(crate) async fn rolling_updates_with_max_unavailable_for_ordered_ready(cluster: Shared) -> Result<()> {
    if minor_release() < 37 {
        return Ok(());
    }
    let space = cluster.space("unavailable").await?;
    space.create_stateful_set_with("web", 5, |object| max_unavailable(object, 2)).await?;
    space.complete("web").await?;
    let pods = History::start(space.pods()).await?;
    space.set_image("web", NEXT).await?;
    let done = revision_in(&space.complete("web").await?);
    // Two go at once, and come back one by one.
    let steps = ["-web-4", "-web-3", "+web-3", "+web-4", "-web-2", "-web-1", "+web-1", "+web-2", "-web-0", "+web-0"];
    assert_eq!(comings_and_goings(&pods).await?, steps);
    ensure_never_fewer_ready(&pods, 3).await?;
    ensure_all_at(&space, "web", NEXT, &done).await.map(drop)
}

pub(crate) async fn rolling_updates_with_max_unavailable_for_parallel(cluster: Shared) -> Result<()> {
    if minor_release() < 37 {
        return Ok(());
    }
    let space = cluster.space("unavailable").await?;
    let create = |object: &mut Value| {
        parallel(object);
        // Rounded down to two.
        max_unavailable(object, "50%");
    };
    space.create_stateful_set_with("web", 5, create).await?;
    space.complete("web").await?;
    let pods = History::start(space.pods()).await?;
    space.set_image("web", NEXT).await?;
    let done = revision_in(&space.complete("web").await?);
    assert_eq!(names(&pods.deleted().await?), ["web-4", "web-3", "web-2", "web-1", "web-0"]);
    ensure_never_fewer_ready(&pods, 3).await?;
    ensure_all_at(&space, "web", NEXT, &done).await.map(drop)
}

/// Pods that are down already cost the others nothing (upstream's regression of 1.35).
pub(crate) async fn broken_pods_of_an_old_revision_do_not_count_against_max_unavailable(cluster: Shared) -> Result<()> {
    if minor_release() < 37 {
        return Ok(());
    }
    let space = cluster.space("unavailable").await?;
    space.create_stateful_set_with("web", 4, parallel).await?;
    space.complete("web").await?;
    // One is replaced by one that never starts, and no other one goes.
    space.set_behaviour("web", Some("never-start")).await?;
    space.counts("web", "a new pod", |status| (status.updated_replicas, status.ready_replicas) == (Some(1), Some(3))).await?;
    let pods = History::start(space.pods()).await?;
    space.looked_at("web").await?;
    assert!(pods.deleted().await?.is_empty());
    // A template that is right takes the place of both others, beginning with the broken one.
    space
        .patch_stateful_set(
            "web",
            serde_json::json!({"spec": {"template": {"metadata": {"annotations": {
                crate::rig::BEHAVIOUR: null, "version": "3",
            }}}}}),
        )
        .await?;
    space.complete("web").await?;
    assert_eq!(names(&pods.deleted().await?), ["web-3", "web-2", "web-1", "web-0"]);
    ensure_never_fewer_ready(&pods, 3).await
}
