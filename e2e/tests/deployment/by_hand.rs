//! Deployments whose pods no node runs: the test says which of them are ready, and so how far a rollout gets.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use serde_json::{Value, json};

use crate::history::History;
use crate::rig::{by_hand, is_ready, revision_of, set_name, size_of};
use crate::support::{Space, name_of};

impl Space {
    /// A Deployment `web`, complete. Returns its ReplicaSet's name.
    pub(crate) async fn standing(&self, replicas: i32, change: impl FnOnce(&mut Value)) -> Result<String> {
        let web = |object: &mut Value| {
            by_hand(object);
            change(object);
        };
        self.create_deployment_with("web", replicas, web).await?;
        let set = set_name(&self.at_rest(&[replicas]).await?[0]);
        self.make_all_ready(&set).await?;
        self.complete("web").await?;
        Ok(set)
    }

    /// Waits until the ReplicaSets of `web` have these sizes, those with the lowest revision first, and all that follows from it: the pods and
    /// both statuses.
    pub(crate) async fn at_rest(&self, sizes: &[i32]) -> Result<Vec<ReplicaSet>> {
        let sets = self.sizes("web", sizes).await?;
        for (set, size) in sets.iter().zip(sizes) {
            self.settled(&set_name(set), usize::try_from(*size)?).await?;
        }
        let total: i32 = sizes.iter().sum();
        self.counts("web", &format!("{total} replicas"), |[replicas, ..]| replicas == total).await?;
        self.sizes("web", sizes).await
    }

    /// Has the controller look at `web` once more, and makes sure that it left the sizes of its ReplicaSets at that.
    pub(crate) async fn stays(&self, sizes: &[i32]) -> Result<()> {
        let spec = self.deployment("web").await?.spec.context("no spec")?;
        // A generation of its own, which the next status must show.
        let deadline = spec.progress_deadline_seconds.unwrap_or(600) + 1;
        self.patch_deployment("web", json!({"spec": {"progressDeadlineSeconds": deadline}})).await?;
        self.observed("web").await?;
        let seen: Vec<_> = self.replica_sets_of("web").await?.iter().map(size_of).collect();
        ensure!(seen == sizes, "the ReplicaSets of web have the sizes {seen:?}, not {sizes:?}");
        Ok(())
    }

    /// Waits until the counts of the newest generation's status, see [`counts_of`], are accepted.
    pub(crate) async fn counts(&self, name: &str, what: &str, check: impl Fn([i32; 4]) -> bool) -> Result<Deployment> {
        self.deployment_shows(name, what, |it| {
            crate::rig::ensure_observed(it)?;
            let counts = counts_of(it);
            ensure!(check(counts), "replicas, updated, available and unavailable are {counts:?}");
            Ok(it.clone())
        })
        .await
    }

    /// Makes one more pod of a ReplicaSet ready.
    pub(crate) async fn make_one_ready(&self, set: &str) -> Result<()> {
        let pods = self.active_pods(set).await?;
        let next = pods.iter().find(|pod| !is_ready(pod)).with_context(|| format!("all pods of {set} are ready"))?;
        self.make_ready(&name_of(next), 100).await
    }
}

/// The status in numbers: replicas, updated, available, unavailable.
pub(crate) fn counts_of(it: &Deployment) -> [i32; 4] {
    let status = it.status.clone().unwrap_or_default();
    [status.replicas, status.updated_replicas, status.available_replicas, status.unavailable_replicas].map(Option::unwrap_or_default)
}

/// The sizes of a namespace's ReplicaSets after each change of one, those with the lowest revision first.
pub(crate) async fn path(sets: &History<ReplicaSet>) -> Result<Vec<Vec<i32>>> {
    let mut path: Vec<Vec<i32>> = Vec::new();
    sets.always(|sets| {
        let mut sets: Vec<_> = sets.values().collect();
        sets.sort_by_key(|set| revision_of(&set.metadata));
        path.push(sets.into_iter().map(size_of).collect());
        Ok(())
    })
    .await?;
    path.dedup();
    Ok(path)
}
