//! Rollouts that go no further.

use anyhow::{Context as _, Result, ensure};
use e2e::wait;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::rig::{Shared, behaving, figures, object, wait_of};
use crate::support::{PATIENCE, Space};

fn condition<'a>(object: &'a Value, r#type: &str) -> Result<&'a Value> {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().find(|condition| condition["type"] == r#type).with_context(|| format!("no {type}"))
}

/// The name of the ReplicaSet of that revision.
async fn replica_set(space: &Space, revision: &str) -> Result<String> {
    let sets = space.read("replicasets").await?;
    let of = |set: &&Value| set["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == revision;
    let set = sets["items"].as_array().into_iter().flatten().find(of).context("no such ReplicaSet")?;
    Ok(set["metadata"]["name"].as_str().unwrap_or_default().to_owned())
}

pub(crate) async fn a_rollout_whose_new_pods_never_become_ready(cluster: Shared) -> Result<()> {
    let space = cluster.space("stuck").await?;
    let strategy = json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}});
    space.make("deployments", &object("Deployment", "web", 4, &strategy)).await?;
    let told = cluster.waits_for(&space, "deployments/web", &[]).await?;
    assert_eq!(told["queue"]["failures"], 0);

    space.change("deployments/web", &behaving("unready")).await?;
    let rules = ["surge-ceiling", "availability-floor", "pods-not-ready", "progress-deadline"];
    // Two of the new ones, which take the place of one that may be missing and one that may be too many.
    let floor = [("desired", 4), ("old", 3), ("available", 3), ("replicas-maxUnavailable", 3)];
    let told = wait::until("the rollout to be stuck", PATIENCE, async || {
        let told = cluster.waits_for(&space, "deployments/web", &rules).await?;
        let figures_of = |rule| wait_of(&told, rule).map(figures);
        let sizes = [("desired", 4), ("new", 2), ("total", 5), ("replicas+maxSurge", 5)];
        ensure!(figures_of("surge-ceiling")? == sizes && figures_of("availability-floor")? == floor, "{told:#}");
        // When the deadline is over; unless a sync is just going on.
        ensure!(told["queue"]["nextAt"].is_string(), "{told:#}");
        Ok(told)
    })
    .await?;
    let new = replica_set(&space, "2").await?;
    let unready = wait_of(&told, "pods-not-ready")?;
    assert_eq!((figures(unready), &unready["on"]), (vec![("new", 2), ("ready", 0), ("available", 0)], &json!(new)));
    assert_eq!(wait_of(&told, "surge-ceiling")?["on"], json!(new));
    let updated: Timestamp =
        condition(&space.read("deployments/web").await?, "Progressing")?["lastUpdateTime"].as_str().context("no time")?.parse()?;
    let until: Timestamp = wait_of(&told, "progress-deadline")?["until"].as_str().context("no end")?.parse()?;
    assert_eq!(until.duration_since(updated), SignedDuration::from_secs(600));
    // Its ReplicaSet says the same of its pods, and nothing of rollouts.
    let told = cluster.waits_for(&space, &format!("replicasets/{new}"), &["pods-not-ready"]).await?;
    assert_eq!(figures(wait_of(&told, "pods-not-ready")?), [("desired", 2), ("pods", 2), ("ready", 0)]);

    space.change("deployments/web", &behaving("ready-after=0s")).await?;
    let told = cluster.waits_for(&space, "deployments/web", &[]).await?;
    let history = told["history"].as_array().context("no history")?;
    assert!(history.iter().any(|record| record["verdict"] == "waits"), "what it waited for is known yet: {told:#}");
    Ok(())
}

pub(crate) async fn a_rollout_that_is_paused(cluster: Shared) -> Result<()> {
    let space = cluster.space("paused").await?;
    space.make("deployments", &object("Deployment", "web", 2, &json!({"paused": true}))).await?;
    let told = cluster.waits_for(&space, "deployments/web", &["paused"]).await?;
    assert_eq!(figures(wait_of(&told, "paused")?), [("new", 0), ("old", 0)]);
    space.change("deployments/web", &json!({"spec": {"paused": false}})).await?;
    cluster.waits_for(&space, "deployments/web", &[]).await?;
    // A pause that holds nothing back is none that is waited for.
    space.change("deployments/web", &json!({"spec": {"paused": true}})).await?;
    cluster.waits_for(&space, "deployments/web", &[]).await?;
    space.change("deployments/web", &behaving("ready-after=0s")).await?;
    let told = cluster.waits_for(&space, "deployments/web", &["paused"]).await?;
    assert_eq!(figures(wait_of(&told, "paused")?), [("new", 0), ("old", 2)]);
    Ok(())
}

pub(crate) async fn pods_that_a_quota_forbids(cluster: Shared) -> Result<()> {
    let space = cluster.space("quota").await?;
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": {"pods": "2"}}});
    space.create("resourcequotas", &quota).await?;
    wait::until("the quota to be counted", PATIENCE, async || {
        let quota = space.request(http::Method::GET, "/api/v1", "resourcequotas/few", &Value::Null).await?;
        quota["status"]["used"]["pods"].as_str().map(drop).context("it is not")
    })
    .await?;
    space.make("deployments", &object("Deployment", "web", 3, &json!({}))).await?;
    let rules = ["replica-failure", "pods-not-ready", "progress-deadline"];
    let told = cluster.waits_for(&space, "deployments/web", &rules).await?;
    let set = replica_set(&space, "1").await?;
    let failure = wait_of(&told, "replica-failure")?;
    let read = space.read(&format!("replicasets/{set}")).await?;
    let message = &condition(&read, "ReplicaFailure")?["message"];
    assert_eq!((&failure["detail"], &failure["on"]), (message, &json!(set)));
    assert!(message.as_str().is_some_and(|text| text.contains("exceeded quota: few")), "{message}");
    // What fails is the ReplicaSet's sync, and that is tried again.
    let told = cluster.told(&space, &format!("replicasets/{set}")).await?;
    let failed = wait_of(&told, "sync-failed")?;
    assert_eq!((&told["verdict"], &failed["detail"]), (&json!("failed"), message));
    assert!(figures(failed)[0].1 > 0, "{told:#}");

    space.request(http::Method::PATCH, "/api/v1", "resourcequotas/few", &json!({"spec": {"hard": {"pods": "9"}}})).await?;
    cluster.waits_for(&space, "deployments/web", &[]).await.map(drop)
}
