//! From one template to the next.

use anyhow::{Result, ensure};
use e2e::wait;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::history::History;
use crate::rig::{
    IMAGE, REVISION, Shared, behaving, controller_uid, image_of_deployment, image_of_pod, is_ready, revision_of, rolling, set_name, size_of,
};
use crate::support::{PATIENCE, Space, is_active, name_of};

const NEXT: &str = "registry.example/app:2";

/// A ReplicaSet without an owner that the selector of a Deployment `web` matches, with its pods ready.
async fn set_to_adopt(space: &Space, name: &str, replicas: i32, change: impl FnOnce(&mut Value)) -> Result<ReplicaSet> {
    let labels = json!({"app": "web", "pod": "httpd"});
    let set = space.create_set_with(name, replicas, |set| {
        set["spec"]["selector"]["matchLabels"] = labels.clone();
        set["spec"]["template"]["metadata"]["labels"] = labels.clone();
        set["metadata"]["labels"] = labels;
        change(set);
    });
    let set = set.await?;
    space.ready_pods(name, usize::try_from(replicas)?).await?;
    space.settled(name, usize::try_from(replicas)?).await?;
    Ok(set)
}

/// At no moment were there fewer pods to serve than that.
pub(crate) async fn never_fewer_ready(pods: &History<Pod>, least: usize) -> Result<()> {
    pods.always(|pods| {
        let ready = pods.values().filter(|pod| is_active(pod) && is_ready(pod)).count();
        ensure!(ready >= least, "{ready} ready pods, fewer than {least}");
        Ok(())
    })
    .await
}

/// At no moment were the ReplicaSets together larger than that.
pub(crate) async fn never_larger(sets: &History<ReplicaSet>, most: i32) -> Result<()> {
    sets.always(|sets| {
        let total: i32 = sets.values().map(size_of).sum();
        ensure!(total <= most, "{total} replicas, more than {most}");
        Ok(())
    })
    .await
}

pub(crate) async fn rolling_update_deployment_should_delete_old_pods_and_create_new_ones(cluster: Shared) -> Result<()> {
    let space = cluster.space("rolling").await?;
    let revision = 3_546_343_826_724_305_832_i64;
    let annotate = |set: &mut Value| set["metadata"]["annotations"] = json!({REVISION: revision.to_string()});
    let adopted = set_to_adopt(&space, "found", 3, annotate).await?;
    let (pods, sets) = (History::start(space.pods()).await?, History::start(space.sets()).await?);

    let made = space.create_deployment("web", 3).await?;
    let done = space.complete("web").await?;
    assert_eq!(revision_of(&done.metadata), Some(revision + 1), "the next one after the adopted set's");
    assert_eq!(image_of_deployment(&done), Some(IMAGE));

    let owned = space.replica_sets_of("web").await?;
    assert_eq!(owned.iter().map(size_of).collect::<Vec<_>>(), [0, 3]);
    assert_eq!((&owned[0].metadata.uid, &owned[0].metadata.name), (&adopted.metadata.uid, &adopted.metadata.name));
    let reference = &owned[0].metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!(
        (&reference.uid, reference.controller, reference.block_owner_deletion),
        (&made.metadata.uid.unwrap(), Some(true), Some(true))
    );
    let new = space.ready_pods(&set_name(&owned[1]), 3).await?;
    wait::until("the old pods to be gone", PATIENCE, async || {
        let all = space.all_pods().await?.len();
        ensure!(all == new.len(), "{all} pods");
        Ok(())
    })
    .await?;
    assert_eq!((pods.added().await?.len(), pods.deleted().await?.len()), (3, 3), "each was replaced once");
    // A quarter of three: one more, none less.
    never_fewer_ready(&pods, 3).await?;
    never_larger(&sets, 4).await
}

pub(crate) async fn recreate_deployment_should_delete_old_pods_and_create_new_ones(cluster: Shared) -> Result<()> {
    let space = cluster.space("recreate").await?;
    let recreate = |object: &mut Value| {
        object["spec"]["strategy"] = json!({"type": "Recreate"});
        // They take their time to end, and new ones are not to meet them.
        object["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = json!(30);
        behaving(object, "stop-after=1s");
    };
    space.create_deployment_with("web", 3, recreate).await?;
    let first = space.complete("web").await?;
    assert_eq!(revision_of(&first.metadata), Some(1));

    let (pods, deployments) = (History::start(space.pods()).await?, History::start(space.deployments()).await?);
    space.set_image("web", NEXT).await?;
    let second = space.complete("web").await?;
    assert_eq!(revision_of(&second.metadata), Some(2));
    space.new_pods("web", 3).await?;

    let finished = |pod: &Pod| matches!(pod.status.as_ref().and_then(|status| status.phase.as_deref()), Some("Failed" | "Succeeded"));
    pods.always(|pods| {
        let images: Vec<_> = pods.values().filter(|pod| !finished(pod)).map(image_of_pod).collect();
        ensure!(images.iter().all(|image| image == &images[0]), "new pods run beside old ones: {images:?}");
        Ok(())
    })
    .await?;
    assert_eq!(pods.deleted().await?.len(), 3);
    deployments
        .always(|all| {
            let status = all.get("web").and_then(|it| it.status.clone()).unwrap_or_default();
            let (replicas, updated) = (status.replicas.unwrap_or(0), status.updated_replicas.unwrap_or(0));
            ensure!(updated == 0 || updated == replicas, "{updated} of {replicas} are new");
            Ok(())
        })
        .await
}

pub(crate) async fn deployment_should_delete_old_replica_sets(cluster: Shared) -> Result<()> {
    let space = cluster.space("cleanup").await?;
    set_to_adopt(&space, "found", 1, |_| {}).await?;
    let pods = History::start(space.pods()).await?;
    space.create_deployment_with("web", 1, |object| object["spec"]["revisionHistoryLimit"] = json!(0)).await?;
    space.complete("web").await?;
    revisions(&space, "web", &[1]).await?;
    space.set_gone("found").await?;
    assert_eq!(pods.added().await?.len(), 1, "the adopted set makes no pod");

    // The last two are kept.
    space.create_deployment_with("kept", 1, |object| object["spec"]["revisionHistoryLimit"] = json!(2)).await?;
    for revision in 2..=5 {
        space.complete("kept").await?;
        space.set_image("kept", &format!("registry.example/app:{revision}")).await?;
    }
    space.complete("kept").await?;
    revisions(&space, "kept", &[3, 4, 5]).await
}

/// Waits until the ReplicaSets of a Deployment have exactly these revisions.
async fn revisions(space: &Space, name: &str, revisions: &[i64]) -> Result<()> {
    wait::until(&format!("{name} to have the revisions {revisions:?}"), PATIENCE, async || {
        let seen: Vec<_> = space.replica_sets_of(name).await?.iter().filter_map(|set| revision_of(&set.metadata)).collect();
        ensure!(seen == revisions, "it has {seen:?}");
        Ok(())
    })
    .await
}

pub(crate) async fn deployment_should_support_rollover(cluster: Shared) -> Result<()> {
    let space = cluster.space("rollover").await?;
    set_to_adopt(&space, "found", 1, |_| {}).await?;
    let (pods, sets) = (History::start(space.pods()).await?, History::start(space.sets()).await?);
    space
        .create_deployment_with("web", 1, |object| {
            rolling(object, 1, 0);
            object["spec"]["minReadySeconds"] = json!(2);
            behaving(object, "never-start");
        })
        .await?;
    // It gets no further: the old pod may not go before the new one is ready.
    let stuck = space.sizes("web", &[1, 1]).await?;
    for set in &stuck {
        space.settled(&set_name(set), 1).await?;
    }
    let updated = space.deployment_shows("web", "a new pod", |it| {
        let updated = it.status.as_ref().and_then(|status| status.updated_replicas);
        ensure!(updated == Some(1), "{updated:?}");
        Ok(it.clone())
    });
    assert_eq!(revision_of(&updated.await?.metadata), Some(1));
    assert_eq!(revision_of(&stuck[1].metadata), Some(1));

    space.annotate_template("web", json!({"nodes.wcm.dev/behaviour": null, "version": "2"})).await?;
    space.observed("web").await?;
    let done = space.complete("web").await?;
    assert_eq!(revision_of(&done.metadata), Some(2));
    let sizes = space.sizes("web", &[0, 0, 1]).await?;
    for (set, before) in sizes.iter().zip(&stuck) {
        assert_eq!(set.metadata.uid, before.metadata.uid);
        space.settled(&set_name(set), 0).await?;
    }
    never_fewer_ready(&pods, 1).await?;
    never_larger(&sets, 2).await
}

pub(crate) async fn test_deployment_replica_set_orphaning_and_adoption_regarding_controller_ref(cluster: Shared) -> Result<()> {
    let space = cluster.space("orphaning").await?;
    let web = |object: &mut Value| {
        object["spec"]["selector"]["matchLabels"]["app"] = json!("web");
        object["spec"]["template"]["metadata"]["labels"]["app"] = json!("web");
    };
    let first = space.create_deployment_with("first", 2, web).await?;
    space.complete("first").await?;
    let set = space.new_set("first").await?;
    assert_eq!(controller_uid(&set.metadata), first.metadata.uid);
    let before: Vec<_> = space.ready_pods(&set_name(&set), 2).await?.iter().map(name_of).collect();

    let orphan = kube::api::DeleteParams { propagation_policy: Some(kube::api::PropagationPolicy::Orphan), ..Default::default() };
    space.delete_deployment("first", &orphan).await?;
    wait::object(&space.sets(), &set_name(&set), "it to be an orphan", PATIENCE, |set| {
        ensure!(controller_uid(&set.metadata).is_none(), "it is owned");
        Ok(())
    })
    .await?;

    let second = space.create_deployment_with("second", 2, web).await?;
    space.complete("second").await?;
    let adopted = space.replica_sets_of("second").await?;
    assert_eq!(adopted.len(), 1, "its template is the Deployment's: no other set is needed");
    assert_eq!(adopted[0].metadata.uid, set.metadata.uid);
    assert_eq!(controller_uid(&adopted[0].metadata), second.metadata.uid);
    let after: Vec<_> = space.ready_pods(&set_name(&set), 2).await?.iter().map(name_of).collect();
    assert_eq!(before, after, "no pod was replaced");
    Ok(())
}
