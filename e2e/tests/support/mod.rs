//! A control plane with the program on it, and the objects that tests put there.
#![allow(dead_code, unreachable_pub, reason = "each test program uses its own part")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "support of tests, which fail by panicking")]

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::controlplane::{Builder, ControlPlane};
use e2e::{Server, wait};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

/// How long anything may take on a busy machine of two cores.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A control plane, one namespace, and our ReplicaSet controller at work in it.
pub struct Cluster {
    pub plane: ControlPlane,
    pub manager: Server,
    pub namespace: String,
}

impl Cluster {
    pub async fn start(builder: Builder) -> Result<Self> {
        let plane = builder.start().await?;
        let namespace = plane.namespace("test").await?;
        let manager = plane.launch().controllers(["replicaset-controller"]).rate(1000, 1000).start().await?;
        Ok(Self { plane, manager, namespace })
    }

    pub fn sets(&self) -> Api<ReplicaSet> {
        Api::namespaced(self.plane.admin().clone(), &self.namespace)
    }

    pub fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.plane.admin().clone(), &self.namespace)
    }

    pub fn events(&self) -> Api<Event> {
        Api::namespaced(self.plane.admin().clone(), &self.namespace)
    }

    pub async fn create_set(&self, name: &str, replicas: i32) -> Result<ReplicaSet> {
        self.create_set_with(name, replicas, |_| {}).await
    }

    pub async fn create_set_with(&self, name: &str, replicas: i32, change: impl FnOnce(&mut Value)) -> Result<ReplicaSet> {
        let mut set = replica_set(name, replicas);
        change(&mut set);
        Ok(self.sets().create(&PostParams::default(), &serde_json::from_value(set)?).await?)
    }

    pub async fn scale(&self, name: &str, replicas: i32) -> Result<()> {
        self.patch_set(name, json!({"spec": {"replicas": replicas}})).await.map(drop)
    }

    pub async fn patch_set(&self, name: &str, patch: Value) -> Result<ReplicaSet> {
        Ok(self.sets().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?)
    }

    pub async fn patch_pod(&self, name: &str, patch: Value) -> Result<Pod> {
        Ok(self.pods().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?)
    }

    pub async fn patch_pod_status(&self, name: &str, status: Value) -> Result<Pod> {
        let patch = Patch::Merge(json!({"status": status}));
        Ok(self.pods().patch_status(name, &PatchParams::default(), &patch).await?)
    }

    /// Marks a pod as running and ready since so many seconds ago.
    pub async fn make_ready(&self, name: &str, seconds_ago: i64) -> Result<()> {
        let since = k8s_openapi::jiff::Timestamp::now() - k8s_openapi::jiff::SignedDuration::from_secs(seconds_ago);
        let since = since.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let condition = json!([{"type": "Ready", "status": "True", "lastTransitionTime": since}]);
        self.patch_pod_status(name, json!({"phase": "Running", "conditions": condition})).await.map(drop)
    }

    /// The active pods that a set controls, by name.
    pub async fn active_pods(&self, set: &str) -> Result<Vec<Pod>> {
        let mut pods = self.pods().list(&ListParams::default()).await?.items;
        pods.retain(|pod| is_active(pod) && controller_of(pod).as_deref() == Some(set));
        pods.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        Ok(pods)
    }

    /// Waits until the set has exactly so many active pods, and its status says so of this generation.
    pub async fn settled(&self, set: &str, replicas: usize) -> Result<Vec<Pod>> {
        wait::until(&format!("{set} to have {replicas} pods"), PATIENCE, async || {
            let pods = self.active_pods(set).await?;
            ensure!(pods.len() == replicas, "it has {} active pods", pods.len());
            let object = self.sets().get(set).await?;
            let status = object.status.context("it has no status")?;
            ensure!(status.replicas == i32::try_from(replicas)?, "its status says {} replicas", status.replicas);
            ensure!(status.observed_generation == object.metadata.generation, "its status is of another generation");
            Ok(pods)
        })
        .await
    }
}

/// A ReplicaSet whose pods a simulated kubelet runs.
pub fn replica_set(name: &str, replicas: i32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod_spec()},
        },
    })
}

pub fn pod_spec() -> Value {
    json!({"terminationGracePeriodSeconds": 0, "containers": [{"name": "main", "image": "registry.example/app:1"}]})
}

pub fn name_of(pod: &Pod) -> String {
    pod.metadata.name.clone().unwrap_or_default()
}

pub fn is_active(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    pod.metadata.deletion_timestamp.is_none() && !matches!(phase, Some("Failed" | "Succeeded"))
}

pub fn controller_of(pod: &Pod) -> Option<String> {
    let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
    owners.iter().find(|owner| owner.controller == Some(true)).map(|owner| owner.name.clone())
}
