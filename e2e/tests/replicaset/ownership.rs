//! Whose pod is it: adoption, release, and what becomes of pods whose set is deleted.

use anyhow::{Context as _, Result, ensure};
use e2e::wait;
use http::Method;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};

use crate::Shared;
use crate::support::{PATIENCE, Space, controller_of, is_active, name_of, pod_spec};

fn orphan_delete() -> DeleteParams {
    DeleteParams { propagation_policy: Some(kube::api::PropagationPolicy::Orphan), ..DeleteParams::default() }
}

async fn orphan(space: &Space, name: &str, labels: Value) -> Result<()> {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": pod_spec()});
    space.create("pods", &pod).await.map(drop)
}

/// Waits until the audit log, which is late by a moment, has so many of our requests to pods.
async fn requested(space: &Space, verb: &str, code: u16, count: usize) -> Result<()> {
    wait::until(&format!("{count} times {verb} with {code}"), PATIENCE, async || {
        let seen = space.pod_requests(verb, code)?;
        ensure!(seen == count, "{seen} times");
        Ok(())
    })
    .await
}

pub(crate) async fn orphans_that_match_are_adopted(cluster: Shared) -> Result<()> {
    let space = cluster.space("adopt").await?;
    orphan(&space, "found", json!({"app": "web"})).await?;
    orphan(&space, "other", json!({"app": "other"})).await?;
    let set = space.create_set_with("web", 2, |set| set["spec"]["template"]["metadata"]["labels"]["tier"] = json!("front")).await?;
    let pods = space.settled("web", 2).await?;
    assert!(pods.iter().any(|pod| name_of(pod) == "found"), "it counts as one of the two");

    let found = space.request(Method::GET, "/api/v1", "pods/found", &Value::Null).await?;
    let reference = json!([{
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": set.metadata.uid,
        "controller": true, "blockOwnerDeletion": true,
    }]);
    assert_eq!(found["metadata"]["ownerReferences"], reference);
    assert_eq!(space.pods().get("other").await?.metadata.owner_references, None);
    // The found pod lacks a label of the template.
    space
        .status("one fully labelled pod", |status| {
            ensure!(status["fullyLabeledReplicas"] == 1 && status["replicas"] == 2, "not yet");
            Ok(())
        })
        .await?;
    let reads = space.our_requests(|request| request.kind.verb == "get" && request.kind.resource == "replicasets")?;
    assert!(reads >= 1, "the set is read from the server before it adopts");
    Ok(())
}

pub(crate) async fn a_relabelled_pod_is_released_and_comes_back(cluster: Shared) -> Result<()> {
    let space = cluster.space("release").await?;
    space.create_set("web", 2).await?;
    let pods = space.settled("web", 2).await?;
    let released = name_of(&pods[0]);

    space.patch_pod(&released, json!({"metadata": {"labels": {"app": "debug"}}})).await?;
    let replaced = wait::until("a replacement", PATIENCE, async || {
        let now = space.settled("web", 2).await?;
        ensure!(now.iter().all(|pod| name_of(pod) != released), "it is still owned");
        Ok(now)
    });
    replaced.await?;
    let alone = space.pods().get(&released).await?;
    assert_eq!((alone.metadata.owner_references, alone.metadata.deletion_timestamp), (None, None), "it lives on by itself");

    // With room for it it is adopted, not replaced by a new one. Both changes are seen in any order: what is left is the same.
    space.patch_pod(&released, json!({"metadata": {"labels": {"app": "web"}}})).await?;
    space.settled("web", 2).await?;
    wait::until("the third pod to go", PATIENCE, async || {
        let all = space.all_pods().await?;
        ensure!(all.len() == 2 && all.iter().all(|pod| controller_of(pod).as_deref() == Some("web")), "{} pods", all.len());
        Ok(())
    })
    .await?;
    // One release and one adoption.
    requested(&space, "patch", 200, 2).await?;
    requested(&space, "create", 201, 3).await?;
    requested(&space, "delete", 200, 1).await
}

pub(crate) async fn a_foreground_delete_takes_the_pods_first(cluster: Shared) -> Result<()> {
    let space = cluster.space("foreground").await?;
    space.create_set("web", 3).await?;
    let pods = space.settled("web", 3).await?;
    let held = name_of(&pods[0]);
    space.patch_pod(&held, json!({"metadata": {"finalizers": ["example.com/held"]}})).await?;

    space.delete_set("web", &DeleteParams::foreground()).await?;
    wait::until("all pods but the held one to go", PATIENCE * 2, async || {
        let all = space.all_pods().await?;
        ensure!(all.iter().all(|pod| name_of(pod) == held), "{} pods", all.len());
        Ok(())
    })
    .await?;
    let set = space.sets().get("web").await.context("the set waits for its last pod")?;
    assert!(set.metadata.deletion_timestamp.is_some());

    space.patch_pod(&held, json!({"metadata": {"finalizers": null}})).await?;
    space.set_gone("web").await?;
    assert_eq!(space.all_pods().await?.len(), 0);
    // None was made for those that the garbage collector took, and none of the deletes was ours.
    requested(&space, "create", 201, 3).await?;
    requested(&space, "delete", 200, 0).await
}

pub(crate) async fn a_background_delete_takes_the_pods(cluster: Shared) -> Result<()> {
    let space = cluster.space("background").await?;
    space.create_set("web", 3).await?;
    space.settled("web", 3).await?;
    space.delete_set("web", &DeleteParams::background()).await?;
    space.set_gone("web").await?;
    wait::until("the pods to go", PATIENCE * 2, async || {
        let left = space.all_pods().await?.len();
        ensure!(left == 0, "{left} are left");
        Ok(())
    })
    .await?;
    requested(&space, "create", 201, 3).await?;
    requested(&space, "delete", 200, 0).await
}

pub(crate) async fn orphaned_pods_are_adopted_by_a_look_alike(cluster: Shared) -> Result<()> {
    let space = cluster.space("orphan").await?;
    space.create_set("web", 3).await?;
    let mut before: Vec<_> = space.settled("web", 3).await?.iter().map(name_of).collect();
    space.delete_set("web", &orphan_delete()).await?;
    space.set_gone("web").await?;
    let orphans = space.all_pods().await?;
    assert!(orphans.len() == 3 && orphans.iter().all(|pod| controller_of(pod).is_none()));

    space
        .create_set_with("again", 3, |set| {
            set["spec"]["selector"]["matchLabels"]["app"] = json!("web");
            set["spec"]["template"]["metadata"]["labels"]["app"] = json!("web");
        })
        .await?;
    let mut after: Vec<_> = space.settled("again", 3).await?.iter().map(name_of).collect();
    before.sort();
    after.sort();
    assert_eq!(before, after, "the same pods");
    requested(&space, "create", 201, 3).await?;
    requested(&space, "patch", 200, 3).await
}

pub(crate) async fn rs_12_orphans_of_a_dying_set_go_to_the_living_one(cluster: Shared) -> Result<()> {
    let space = cluster.space("rs-12").await?;
    for name in ["dying", "living"] {
        space
            .create_set_with(name, 2, |set| {
                set["spec"]["selector"]["matchLabels"]["app"] = json!("web");
                set["spec"]["template"]["metadata"]["labels"]["app"] = json!("web");
            })
            .await?;
    }
    space.settled("dying", 2).await?;
    space.settled("living", 2).await?;

    space.delete_set("dying", &orphan_delete()).await?;
    space.set_gone("dying").await?;
    wait::until("two pods in all", PATIENCE, async || {
        let all = space.all_pods().await?;
        ensure!(all.len() == 2, "{} pods", all.len());
        Ok(())
    })
    .await?;
    let left = space.settled("living", 2).await?;
    assert_eq!(left.len(), 2);
    // The living set adopted both orphans, once; had the dying one taken them back, there would be more.
    requested(&space, "patch", 200, 2).await?;
    requested(&space, "create", 201, 4).await?;
    requested(&space, "delete", 200, 2).await
}

fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": 3, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod_spec()},
        },
    })
}

/// Makes all pods ready, as a kubelet would, and returns the active ones.
async fn ready_pods(space: &Space) -> Result<Vec<Pod>> {
    let active: Vec<_> = space.all_pods().await?.into_iter().filter(is_active).collect();
    for pod in &active {
        let ready = pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
        if !ready {
            // It may have gone while we looked.
            drop(space.make_ready(&name_of(pod), 100).await);
        }
    }
    Ok(active)
}

pub(crate) async fn rs_13_the_survivor_of_two_look_alikes_never_falls_below_its_size(cluster: Shared) -> Result<()> {
    let space = cluster.space("rs-13").await?;
    for name in ["one", "two"] {
        space.request(Method::POST, "/apis/apps/v1", "deployments", &deployment(name)).await?;
    }
    let pods_of_both = async || {
        let active = ready_pods(&space).await?.len();
        ensure!(active == 6, "{active} pods");
        Ok(())
    };
    wait::until("the pods of both", PATIENCE, pods_of_both).await?;

    let delete = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Orphan"});
    space.request(Method::DELETE, "/apis/apps/v1", "deployments/one", &delete).await?;
    wait::until("the survivor to trim", PATIENCE * 2, async || {
        let active = ready_pods(&space).await?.len();
        let sets = space.sets().list(&ListParams::default()).await?.items;
        let owned =
            |set: &k8s_openapi::api::apps::v1::ReplicaSet| set.metadata.owner_references.iter().flatten().any(|owner| owner.name == "two");
        ensure!(active == 3 && sets.iter().all(owned), "{active} pods, {} sets", sets.len());
        Ok(())
    })
    .await?;
    // Six were made and three deleted: at no time were there fewer than three.
    requested(&space, "create", 201, 6).await?;
    requested(&space, "delete", 200, 3).await
}
