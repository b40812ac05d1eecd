//! Deployments that are rolled from image to image.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::wait;
use http::Method;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::Api;
use serde_json::json;

use crate::support::pods::image_of_pod;
use crate::support::{Space, is_active, replica_set};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const REPLICAS: i32 = 6;

/// All pods of all of them.
pub const PODS: usize = 24;
/// A rollout on a busy machine, with credentials that do not work for a while.
const ROLLOUT: Duration = Duration::from_mins(4);

/// The Deployments of a namespace.
pub struct Load<'a> {
    space: &'a Space,
    images: usize,
}

impl<'a> Load<'a> {
    /// Makes them and waits until all pods are available.
    pub async fn start(space: &'a Space) -> Result<Self> {
        let this = Self { space, images: 1 };
        for name in NAMES {
            let mut spec = replica_set(name, REPLICAS).get("spec").cloned().context("no spec")?;
            spec["template"]["spec"]["containers"][0]["image"] = json!(this.image());
            let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec});
            space.apps(Method::POST, "deployments", &object).await?;
        }
        this.complete().await?;
        Ok(this)
    }

    /// Begins to roll all of them at once.
    pub async fn roll(&mut self) -> Result<()> {
        self.images += 1;
        let container = json!([{"name": "main", "image": self.image()}]);
        for name in NAMES {
            let patch = json!({"spec": {"template": {"spec": {"containers": container}}}});
            self.space.apps(Method::PATCH, &format!("deployments/{name}"), &patch).await?;
        }
        Ok(())
    }

    /// How many pods there have been, if no write was lost and none was made twice.
    pub fn pods_so_far(&self) -> usize {
        self.images * PODS
    }

    /// Waits until some pods have the newest image.
    pub async fn under_way(&self, pods: usize) -> Result<()> {
        let image = self.image();
        wait::until("the rollout to be under way", ROLLOUT, async || {
            let new = self.space.all_pods().await?.iter().filter(|pod| image_of_pod(pod) == Some(&image)).count();
            ensure!(new >= pods, "{new} pods have {image}");
            Ok(())
        })
        .await
    }

    /// Waits until all rollouts have ended right.
    pub async fn complete(&self) -> Result<()> {
        let deployments: Api<Deployment> = Api::namespaced(self.space.client.clone(), &self.space.namespace);
        let image = self.image();
        for name in NAMES {
            wait::object(&deployments, name, "the rollout to end", ROLLOUT, complete).await?;
        }
        wait::until("the old pods to be gone", ROLLOUT, async || {
            let pods = self.space.all_pods().await?;
            let right = pods.iter().filter(|pod| is_active(pod) && image_of_pod(pod) == Some(&image)).count();
            ensure!((pods.len(), right) == (PODS, PODS), "{} pods, {right} of them active with {image}", pods.len());
            Ok(())
        })
        .await
    }

    /// Checks what is left: a ReplicaSet for each image, and all pods in the newest one of each Deployment.
    pub async fn ended_right(&self) -> Result<()> {
        let sets = self.space.sets().list(&kube::api::ListParams::default()).await?.items;
        let sizes: Vec<_> = sets.iter().map(|set| set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or_default()).collect();
        let full = sizes.iter().filter(|size| **size == REPLICAS).count();
        let empty = sizes.iter().filter(|size| **size == 0).count();
        assert_eq!((full, empty), (NAMES.len(), NAMES.len() * (self.images - 1)), "{sizes:?}");
        Ok(())
    }

    fn image(&self) -> String {
        format!("registry.example/app:{}", self.images)
    }
}

fn complete(deployment: &Deployment) -> Result<()> {
    let status = deployment.status.as_ref().context("no status")?;
    ensure!(status.observed_generation == deployment.metadata.generation, "the status is of another generation");
    let counts = [status.replicas, status.updated_replicas, status.available_replicas];
    ensure!(counts == [Some(REPLICAS); 3], "replicas, updated, available: {counts:?}");
    Ok(())
}
