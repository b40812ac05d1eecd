//! How many pods there are, and which of them count.

use anyhow::{Context as _, Result, ensure};
use e2e::wait;
use http::Method;
use k8s_openapi::jiff::Timestamp;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::Shared;
use crate::support::{PATIENCE, Space, minor_release, name_of};

fn number(status: &Value, field: &str) -> i64 {
    status[field].as_i64().unwrap_or(0)
}

pub(crate) async fn pods_come_go_and_are_replaced(cluster: Shared) -> Result<()> {
    let space = cluster.space("scale").await?;
    space.create_set("web", 5).await?;
    let pods = space.settled("web", 5).await?;
    assert!(pods.iter().all(|pod| pod.metadata.generate_name.as_deref() == Some("web-")));

    space.scale("web", 12).await?;
    space.settled("web", 12).await?;
    space.scale("web", 2).await?;
    let left = space.settled("web", 2).await?;

    let victim = name_of(&left[0]);
    space.delete_pod(&victim).await?;
    let replaced = space.settled("web", 2).await?;
    assert!(replaced.iter().all(|pod| name_of(pod) != victim));

    space.scale("web", 0).await?;
    space.settled("web", 0).await?;
    let created = wait::until("the audit log", PATIENCE, async || {
        let created = space.pod_requests("create", 201)?;
        ensure!(created == 13, "{created} creates");
        Ok(())
    });
    created.await?;

    // Without a change of the replicas: the generation is observed all the same.
    let labels = json!({"spec": {"template": {"metadata": {"annotations": {"note": "1"}}}}});
    let generation = space.patch_set("web", labels).await?.metadata.generation;
    space
        .status("an observed generation", |status| {
            ensure!(status["observedGeneration"].as_i64() == generation, "it should be {generation:?}");
            Ok(())
        })
        .await
}

pub(crate) async fn evicted_pods_are_replaced(cluster: Shared) -> Result<()> {
    let space = cluster.space("evict").await?;
    space.create_set("web", 3).await?;
    let pods = space.settled("web", 3).await?;
    let (through_api, by_kubelet) = (name_of(&pods[0]), name_of(&pods[1]));

    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": through_api}});
    space.create(&format!("pods/{through_api}/eviction"), &eviction).await?;
    space.patch_pod_status(&by_kubelet, json!({"phase": "Failed", "reason": "Evicted"})).await?;

    wait::until("both to be replaced", PATIENCE, async || {
        let now = space.settled("web", 3).await?;
        ensure!(now.iter().all(|pod| name_of(pod) != through_api && name_of(pod) != by_kubelet), "one still counts");
        Ok(())
    })
    .await?;
    let failed = space.pods().get(&by_kubelet).await?;
    assert_eq!(failed.metadata.deletion_timestamp, None, "a Failed pod is left alone");
    Ok(())
}

pub(crate) async fn availability_waits_for_min_ready_seconds(cluster: Shared) -> Result<()> {
    let space = cluster.space("min-ready").await?;
    space.create_set_with("web", 2, |set| set["spec"]["minReadySeconds"] = json!(8)).await?;
    let pods = space.settled("web", 2).await?;
    space.make_ready(&name_of(&pods[0]), 1000).await?;
    space
        .status("one available pod", |status| {
            ensure!((number(status, "readyReplicas"), number(status, "availableReplicas")) == (1, 1), "not yet");
            Ok(())
        })
        .await?;

    // Ready for five seconds when it is first seen to be: what counts is how long it has been ready, not when that was heard of.
    let since = Timestamp::now().as_second();
    space.make_ready(&name_of(&pods[1]), 5).await?;
    let mut waited = false;
    space
        .status("two available pods", |status| {
            waited |= (number(status, "readyReplicas"), number(status, "availableReplicas")) == (2, 1);
            ensure!(number(status, "availableReplicas") == 2, "not yet");
            Ok(())
        })
        .await?;
    let took = Timestamp::now().as_second() - since;
    assert!(waited, "the pod was ready before it was available");
    assert!((1..7).contains(&took), "available {took} s after it was seen to be ready");
    Ok(())
}

pub(crate) async fn rs_24_terminating_pods_are_replaced_at_once_and_counted_apart(cluster: Shared) -> Result<()> {
    let space = cluster.space("rs-24").await?;
    space.create_set("web", 2).await?;
    let pods = space.settled("web", 2).await?;
    let held = name_of(&pods[0]);
    space.patch_pod(&held, json!({"metadata": {"finalizers": ["example.com/held"]}})).await?;
    space.delete_pod(&held).await?;

    let replaced = wait::until("a replacement", PATIENCE, async || {
        let now = space.settled("web", 2).await?;
        ensure!(now.iter().all(|pod| name_of(pod) != held), "it still counts");
        Ok(now)
    });
    assert_eq!(replaced.await?.len(), 2);
    // The gate is on by default since 1.35; without it the field is absent.
    let counted = |count: i64| if minor_release() >= 35 { json!(count) } else { Value::Null };
    space
        .status("a terminating pod", |status| {
            ensure!(status["terminatingReplicas"] == counted(1) && number(status, "replicas") == 2, "not yet");
            Ok(())
        })
        .await?;
    assert_eq!(space.all_pods().await?.len(), 3);

    space.patch_pod(&held, json!({"metadata": {"finalizers": null}})).await?;
    space
        .status("no terminating pod", |status| {
            ensure!(status["terminatingReplicas"] == counted(0) && number(status, "replicas") == 2, "not yet");
            Ok(())
        })
        .await
}

pub(crate) async fn rs_25_pods_that_are_not_available_yet_are_scaled_down_at_once(cluster: Shared) -> Result<()> {
    let space = cluster.space("rs-25").await?;
    space.create_set_with("web", 5, |set| set["spec"]["minReadySeconds"] = json!(99999)).await?;
    for pod in space.settled("web", 5).await? {
        space.make_ready(&name_of(&pod), 10).await?;
    }
    space
        .status("five ready pods", |status| {
            ensure!(number(status, "readyReplicas") == 5 && number(status, "availableReplicas") == 0, "not yet");
            Ok(())
        })
        .await?;
    space.scale("web", 3).await?;
    space.settled("web", 3).await?;
    Ok(())
}

pub(crate) async fn rs_27_failed_pods_stay_and_are_not_counted(cluster: Shared) -> Result<()> {
    let space = cluster.space("rs-27").await?;
    space.create_set("web", 23).await?;
    let mut failed: Vec<_> = space.settled("web", 23).await?.iter().map(name_of).collect();
    failed.truncate(20);
    for pod in &failed {
        space.patch_pod_status(pod, json!({"phase": "Failed"})).await?;
    }
    space.scale("web", 3).await?;
    let active = space.settled("web", 3).await?;
    space.delete_pod(&name_of(&active[0])).await?;
    wait::until("a replacement", PATIENCE, async || {
        let now = space.settled("web", 3).await?;
        ensure!(now.iter().all(|pod| name_of(pod) != name_of(&active[0])), "it still counts");
        Ok(())
    })
    .await?;
    space.scale("web", 0).await?;
    space.settled("web", 0).await?;

    let mut left: Vec<_> = space.all_pods().await?.iter().map(name_of).collect();
    left.sort();
    assert_eq!(left, failed, "exactly the Failed pods are left");
    assert_owned(&space, &failed).await?;
    // With its set a Failed pod goes.
    space.delete_set("web", &DeleteParams::background()).await?;
    wait::until("the Failed pods to go", PATIENCE * 2, async || {
        let left = space.all_pods().await?.len();
        ensure!(left == 0, "{left} are left");
        Ok(())
    })
    .await
}

async fn assert_owned(space: &Space, pods: &[String]) -> Result<()> {
    let uid = space.sets().get("web").await?.metadata.uid.context("no uid")?;
    for pod in pods {
        let pod = space.request(Method::GET, "/api/v1", &format!("pods/{pod}"), &Value::Null).await?;
        assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], json!(uid));
    }
    Ok(())
}
