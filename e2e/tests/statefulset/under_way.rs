//! Rollouts and changes of size that have stopped half way, for whoever takes over.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::apps::v1::StatefulSetStatus;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use nodes::{Behaviour, Fate, Fleet, Matching};
use serde_json::{Value, json};

use crate::looking::until_changed;
use crate::rig::{IMAGE, ensure_all_at, max_unavailable, names, parallel, revision_in, revision_of, revisions_in, status_of};
use crate::support::{Space, minor_release, name_of};

/// What keeps a pod that is deleted.
const HELD: &str = "test.example/held";

/// A set whose newest template can't get further than that.
struct Rollout {
    name: &'static str,
    replicas: i32,
    change: fn(&mut Value),
    /// replicas, readyReplicas, updatedReplicas.
    stuck_at: [i32; 3],
}

/// By name: the pods with their UIDs, the revisions, and where each set is.
#[derive(PartialEq, Debug)]
pub(crate) struct Kept {
    pods: BTreeMap<String, Option<String>>,
    revisions: Vec<String>,
    sets: BTreeMap<&'static str, (String, String)>,
}

/// A namespace in which everything is under way.
pub(crate) struct UnderWay {
    space: Space,
}

fn rollouts() -> [Rollout; 3] {
    // Where several pods may be down, two go at once, and come back one by one.
    let several = if minor_release() >= 37 { [3, 2, 1] } else { [4, 3, 1] };
    [
        Rollout { name: "ordered", replicas: 3, change: |_| {}, stuck_at: [3, 2, 1] },
        Rollout { name: "parallel", replicas: 4, change: parallel, stuck_at: [4, 3, 1] },
        Rollout { name: "several", replicas: 4, change: |object| max_unavailable(object, 2), stuck_at: several },
    ]
}

fn counts(status: &StatefulSetStatus) -> [i32; 3] {
    [status.replicas, status.ready_replicas.unwrap_or(0), status.updated_replicas.unwrap_or(0)]
}

fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

const NAMES: [&str; 5] = ["ordered", "parallel", "several", "growing", "shrinking"];

// === impl UnderWay ===

impl UnderWay {
    /// Makes all sets, at rest.
    pub(crate) async fn make(space: Space) -> Result<Self> {
        for Rollout { name, replicas, change, .. } in rollouts() {
            space.create_stateful_set_with(name, replicas, change).await?;
        }
        space.create_stateful_set("growing", 1).await?;
        let held = |object: &mut Value| object["spec"]["template"]["metadata"]["finalizers"] = json!([HELD]);
        space.create_stateful_set_with("shrinking", 2, held).await?;
        let this = Self { space };
        this.complete().await?;
        Ok(this)
    }

    async fn complete(&self) -> Result<()> {
        for name in NAMES {
            self.space.complete(name).await.context(name)?;
        }
        Ok(())
    }

    /// Pods start, or not: those that run go on running.
    async fn start_pods(&self, fleet: &Fleet, start: bool) {
        let never = (!start).then(|| Behaviour::of(Fate::NeverStart));
        fleet.set_matching(Matching::namespace(&self.space.namespace), never).await;
    }

    /// Begins what stops half way.
    pub(crate) async fn set_out(&self, fleet: &Fleet, image: &str) -> Result<()> {
        let space = &self.space;
        space.scale_stateful_set("shrinking", 2).await?;
        space.complete("shrinking").await?;
        let size = status_of(&space.complete("growing").await?).replicas;
        self.start_pods(fleet, false).await;
        for Rollout { name, .. } in rollouts() {
            space.set_image(name, image).await?;
        }
        space.scale_stateful_set("growing", size + 2).await?;
        space.scale_stateful_set("shrinking", 1).await?;
        for Rollout { name, stuck_at, .. } in rollouts() {
            space.counts(name, &format!("{stuck_at:?} pods"), |status| counts(status) == stuck_at).await?;
        }
        space.counts("growing", "one more pod", |status| counts(status) == [size + 1, size, size + 1]).await?;
        until_changed(&space.pods(), "a pod to terminate", async || {
            let pods = space.pods_of("shrinking").await?;
            let ending: Vec<_> = pods.iter().filter(|pod| is_terminating(pod)).map(name_of).collect();
            ensure!(ending == ["shrinking-1"], "{ending:?} do");
            Ok(())
        })
        .await
    }

    /// How it is once whoever is at work now has looked at each set.
    pub(crate) async fn kept(&self) -> Result<Kept> {
        let mut sets = BTreeMap::new();
        for name in NAMES {
            sets.insert(name, revisions_in(&self.space.looked_at(name).await.context(name)?));
        }
        let pods = self.space.all_pods().await?;
        let revisions = self.space.revisions().list(&kube::api::ListParams::default()).await?.items;
        Ok(Kept { pods: pods.iter().map(|pod| (name_of(pod), pod.uid())).collect(), revisions: names(&revisions), sets })
    }

    /// Lets everything go on, and waits for its end: what was made before stays, and no revision is added.
    pub(crate) async fn arrive(&self, fleet: &Fleet, image: &str) -> Result<()> {
        let (space, before) = (&self.space, self.kept().await?);
        let mut begun = Vec::new();
        for pod in space.all_pods().await? {
            let newest = before.sets.iter().any(|(_, (_, update))| *update == revision_of(&pod));
            begun.extend((newest && !is_terminating(&pod)).then(|| (name_of(&pod), pod.uid())));
        }
        self.start_pods(fleet, true).await;
        space.patch_pod("shrinking-1", json!({"metadata": {"finalizers": null}})).await?;
        self.complete().await?;
        let after = self.kept().await?;
        ensure!(after.revisions == before.revisions, "revisions changed: {:?} to {:?}", before.revisions, after.revisions);
        for (name, uid) in &begun {
            ensure!(after.pods.get(name) == Some(uid), "{name} was replaced, though it was of the newest revision");
        }
        for name in NAMES {
            let expected = if rollouts().iter().any(|rollout| rollout.name == name) { image } else { IMAGE };
            ensure_all_at(space, name, expected, &revision_in(&space.complete(name).await?)).await?;
        }
        Ok(())
    }
}
