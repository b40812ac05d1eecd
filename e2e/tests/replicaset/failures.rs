//! What is said when pods cannot be made, and when they can.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use e2e::wait;
use http::Method;
use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::Shared;
use crate::support::{PATIENCE, Space, name_of};

/// A quota of pods, once upstream's controller has made it effective.
async fn quota(space: &Space, pods: i32) -> Result<()> {
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": {"pods": pods.to_string()}},
    });
    space.create("resourcequotas", &quota).await?;
    quota_in_force(space, pods).await
}

async fn raise_quota(space: &Space, pods: i32) -> Result<()> {
    let patch = json!({"spec": {"hard": {"pods": pods.to_string()}}});
    space.request(Method::PATCH, "/api/v1", "resourcequotas/few", &patch).await.map(drop)
}

async fn quota_in_force(space: &Space, pods: i32) -> Result<()> {
    wait::until("the quota", PATIENCE, async || {
        let quota = space.request(Method::GET, "/api/v1", "resourcequotas/few", &Value::Null).await?;
        ensure!(quota["status"]["hard"]["pods"] == json!(pods.to_string()), "{}", quota["status"]);
        Ok(())
    })
    .await
}

fn failure(status: &Value) -> Option<&Value> {
    status["conditions"].as_array()?.iter().find(|condition| condition["type"] == "ReplicaFailure")
}

pub(crate) async fn a_quota_sets_replica_failure_until_it_is_raised(cluster: Shared) -> Result<()> {
    let space = cluster.space("quota").await?;
    quota(&space, 1).await?;
    space.create_set("web", 3).await?;
    let condition = space
        .status("a failure", |status| {
            ensure!(status["replicas"] == 1, "not all pods are counted");
            failure(status).cloned().ok_or_else(|| anyhow::anyhow!("no failure"))
        })
        .await?;
    assert_eq!((&condition["status"], &condition["reason"]), (&json!("True"), &json!("FailedCreate")));
    let message = condition["message"].as_str().unwrap();
    let exceeded = "is forbidden: exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1";
    assert_eq!(message, format!("pods \"web-\" {exceeded}"), "the name that was not given does not count");
    assert!(condition["lastTransitionTime"].is_string());

    let failed = event(&space, "FailedCreate").await?;
    let text = failed.message.clone().unwrap_or_default();
    assert!(text.starts_with("Error creating: pods \"web-") && text.ends_with(exceeded), "{text}");
    assert_eq!(failed.type_.as_deref(), Some("Warning"));

    raise_quota(&space, 5).await?;
    space.settled("web", 3).await?;
    space
        .status("no failure", |status| {
            ensure!(failure(status).is_none(), "it is there");
            Ok(())
        })
        .await
}

pub(crate) async fn rs_06_a_quota_ends_a_pass_at_the_first_refused_batch(cluster: Shared) -> Result<()> {
    let space = cluster.space("rs-06").await?;
    quota(&space, 5).await?;
    space.create_set("web", 500).await?;
    let passes = async || -> Result<usize> {
        let mark = format!("namespace=\"{}\"", space.namespace);
        let log = cluster.log()?;
        Ok(log.lines().filter(|line| line.contains(&mark) && line.contains("A sync failed")).count())
    };
    let refused = wait::until("six failed passes", PATIENCE, async || {
        let (passes, refused) = (passes().await?, space.pod_requests("create", 403)?);
        ensure!(passes >= 6 && refused == passes + 1, "{passes} passes with {refused} refused creates");
        Ok(refused)
    });
    // 1, 2, then 2 of 4: the fourth batch is never sent. Later passes end with their first create.
    assert!(refused.await? >= 7);
    assert_eq!(space.pod_requests("create", 201)?, 5);
    space
        .status("five pods and a failure", |status| {
            ensure!(status["replicas"] == 5 && failure(status).is_some(), "not yet");
            Ok(())
        })
        .await?;
    space.scale("web", 5).await?;
    space.settled("web", 5).await?;
    space
        .status("no failure", |status| {
            ensure!(failure(status).is_none(), "it is there");
            Ok(())
        })
        .await
}

/// Waits for an event about the set, and checks what all our events have in common.
async fn event(space: &Space, reason: &str) -> Result<Event> {
    let set = space.sets().get("web").await?;
    let mut found = events(space, reason, 1).await?;
    let event = found.remove(0);
    let object = &event.involved_object;
    assert_eq!((object.kind.as_deref(), object.name.as_deref()), (Some("ReplicaSet"), Some("web")));
    assert_eq!((object.api_version.as_deref(), &object.uid), (Some("apps/v1"), &set.metadata.uid));
    assert_eq!(object.namespace.as_deref(), Some(space.namespace.as_str()));
    assert_eq!(event.source.as_ref().and_then(|source| source.component.as_deref()), Some("replicaset-controller"));
    assert_eq!(event.reporting_component.as_deref(), Some("replicaset-controller"));
    assert!(event.metadata.name.as_deref().unwrap_or_default().starts_with("web."));
    assert!(event.first_timestamp.is_some() && event.last_timestamp.is_some() && event.count >= Some(1));
    Ok(event)
}

async fn events(space: &Space, reason: &str, count: usize) -> Result<Vec<Event>> {
    let params = ListParams::default().fields(&format!("reason={reason},involvedObject.name=web"));
    let what = format!("{count} events {reason}");
    wait::list(&space.events(), &params, &what, PATIENCE, |events| {
        ensure!(events.len() >= count, "{} events", events.len());
        Ok(events.to_vec())
    })
    .await
}

pub(crate) async fn creates_and_deletes_are_events(cluster: Shared) -> Result<()> {
    let space = cluster.space("events").await?;
    space.create_set("web", 3).await?;
    let pods: Vec<_> = space.settled("web", 3).await?.iter().map(name_of).collect();
    space.scale("web", 0).await?;
    space.settled("web", 0).await?;
    for (reason, verb) in [("SuccessfulCreate", "Created"), ("SuccessfulDelete", "Deleted")] {
        let messages: BTreeSet<_> = events(&space, reason, 3).await?.into_iter().filter_map(|event| event.message).collect();
        let expected: BTreeSet<_> = pods.iter().map(|pod| format!("{verb} pod: {pod}")).collect();
        assert_eq!(messages, expected);
        assert_eq!(event(&space, reason).await?.type_.as_deref(), Some("Normal"));
    }
    Ok(())
}
