//! Whether the Deployment controller has anything left to do. See [`differential::settled`](crate::differential::settled) for what this is not.

use anyhow::{Result, ensure};
use serde_json::Value;

use super::newest::new_set;
use crate::differential::settled::{SOON, expect, is_paused, selects, up_to_date};
use crate::differential::snapshot::{
    Kind, REVISION, Snapshot, annotation, condition, controller, is_deleted, is_running, name, number, revision, text, uid,
};

/// Kept from ReplicaSets.
const OWN_ANNOTATIONS: [&str; 2] = ["deployment.kubernetes.io/", "deprecated.deployment.rollback.to"];

/// Fails with what is still to be done.
pub(in crate::differential) fn check(snapshot: &Snapshot, deployment: &Value) -> Result<()> {
    up_to_date(Kind::Deployment, deployment)?;
    let rollback = annotation(deployment, OWN_ANNOTATIONS[1]);
    // One that is paused, or no number, stays.
    let pending = !is_paused(deployment) && rollback.is_some_and(|revision| revision.parse::<i64>().is_ok());
    ensure!(!pending, "Deployment {} is to be rolled back", name(deployment));
    ownership(snapshot, deployment)?;
    counts(snapshot, deployment)?;
    if !is_deleted(deployment) {
        newest(snapshot, deployment)?;
        history(snapshot, deployment)?;
        progress(deployment)?;
    }
    Ok(())
}

fn ownership(snapshot: &Snapshot, deployment: &Value) -> Result<()> {
    for set in snapshot.of(Kind::ReplicaSet).filter(|_| !is_deleted(deployment)) {
        match controller(set) {
            None => ensure!(is_deleted(set) || !selects(deployment, set), "ReplicaSet {} is to be adopted", name(set)),
            Some(owner) => {
                let ours = text(owner, "/uid") == uid(deployment);
                ensure!(!ours || selects(deployment, set), "ReplicaSet {} is to be released", name(set));
            }
        }
    }
    Ok(())
}

fn counts(snapshot: &Snapshot, deployment: &Value) -> Result<()> {
    let sum = |pointer: &str| snapshot.controlled(Kind::ReplicaSet, deployment).map(|set| number(set, pointer)).sum::<i64>();
    for pointer in ["/status/replicas", "/status/readyReplicas", "/status/availableReplicas", "/status/terminatingReplicas"] {
        expect(deployment, pointer, sum(pointer))?;
    }
    expect(deployment, "/status/unavailableReplicas", (sum("/spec/replicas") - sum("/status/availableReplicas")).max(0))
}

/// The ReplicaSet of the template is there, and has the Deployment's annotations.
fn newest(snapshot: &Snapshot, deployment: &Value) -> Result<()> {
    let name = name(deployment);
    let Some(newest) = new_set(snapshot, deployment) else {
        let sets = snapshot.controlled(Kind::ReplicaSet, deployment);
        let waits = text(deployment, "/spec/strategy/type") == "Recreate"
            && sets.into_iter().any(|set| snapshot.controlled(Kind::Pod, set).any(is_running));
        ensure!(waits || is_paused(deployment), "Deployment {name} has no ReplicaSet of its template");
        return Ok(());
    };
    let [of_set, own] = [newest, deployment].map(|object| annotation(object, REVISION));
    ensure!(of_set.is_some() && own == of_set, "Deployment {name} is of revision {own:?}, its ReplicaSet of {of_set:?}");
    // One whose revision is no number gets none.
    let annotations = deployment.pointer("/metadata/annotations").filter(|_| revision(newest) > 0);
    for (key, value) in annotations.and_then(Value::as_object).into_iter().flatten() {
        let copied = OWN_ANNOTATIONS.iter().any(|own| key.starts_with(own)) || annotation(newest, key) == value.as_str();
        ensure!(copied, "Deployment {name}: its ReplicaSet lacks annotation {key}");
    }
    Ok(())
}

/// No ReplicaSet is left that the history has no room for.
fn history(snapshot: &Snapshot, deployment: &Value) -> Result<()> {
    let limit = number(deployment, "/spec/revisionHistoryLimit");
    let counts = ["replicas", "updatedReplicas", "availableReplicas"].map(|count| number(deployment, &format!("/status/{count}")));
    let complete = counts.into_iter().all(|count| count == number(deployment, "/spec/replicas"));
    // While it is paused, one that is to be rolled back loses nothing.
    let cleans = if is_paused(deployment) { annotation(deployment, OWN_ANNOTATIONS[1]).is_none() } else { complete };
    if limit == i64::from(i32::MAX) || !cleans {
        return Ok(());
    }
    let newest = new_set(snapshot, deployment).map(uid);
    let mut old: Vec<_> = snapshot.controlled(Kind::ReplicaSet, deployment).filter(|set| Some(uid(set)) != newest).collect();
    old.sort_by_key(|set| (revision(set), text(set, "/metadata/creationTimestamp")));
    let excess = old.len().saturating_sub(usize::try_from(limit).unwrap_or_default());
    // Those of some size stay, and no others go instead.
    for set in old.into_iter().take(excess) {
        let empty = number(set, "/spec/replicas") == 0 && number(set, "/status/replicas") == 0;
        ensure!(!empty, "ReplicaSet {} is to be cleaned up", name(set));
    }
    Ok(())
}

/// A short progress deadline has passed, or will not.
fn progress(deployment: &Value) -> Result<()> {
    let deadline = deployment.pointer("/spec/progressDeadlineSeconds").and_then(Value::as_i64).unwrap_or(i64::MAX);
    if deadline > SOON || is_paused(deployment) {
        return Ok(());
    }
    let reason = condition(deployment, "Progressing").map_or("", |condition| text(condition, "/reason"));
    let rests = matches!(reason, "ProgressDeadlineExceeded" | "NewReplicaSetAvailable");
    ensure!(rests, "Deployment {}: its progress ({reason}) has a deadline", name(deployment));
    Ok(())
}
