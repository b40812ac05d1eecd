//! Pods: what runs them, what is told of them, and what holds them back.

use anyhow::{Result, ensure};
use e2e::ControlPlane;
use e2e::wait;
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use nodes::{Fleet, FleetOptions, SchedulerOptions};
use serde_json::json;

use super::{PATIENCE, Space, name_of, ready_status};

const HOLD: &str = "example.com/hold";

/// Nodes with a scheduler that run every pod of a control plane, unless the pod asks for another scheduler.
pub async fn fleet(plane: &ControlPlane) -> Result<Fleet> {
    let kubeconfig = Kubeconfig::read_from(plane.admin_kubeconfig())?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let scheduler = Some(SchedulerOptions::default());
    Fleet::start(&config, FleetOptions { count: 3, pods_per_node: 1000, scheduler, ..FleetOptions::default() }).await
}

impl Space {
    /// Waits for so many events about one object, and returns their messages.
    pub async fn messages(&self, kind: &str, name: &str, reason: &str, count: usize) -> Result<Vec<String>> {
        let params = ListParams::default().fields(&format!("reason={reason},involvedObject.kind={kind},involvedObject.name={name}"));
        wait::list(&self.events(), &params, &format!("{count} events {reason} of {name}"), PATIENCE, |events: &[Event]| {
            let messages: Vec<_> = events.iter().filter_map(|event| event.message.clone()).collect();
            ensure!(messages.len() >= count, "there are {messages:?}");
            Ok(messages)
        })
        .await
    }

    /// Makes a pod that runs unready.
    pub async fn make_sick(&self, pod: &str) -> Result<()> {
        let mut status = ready_status(0);
        if let Some(ready) = status.pointer_mut("/conditions/0/status") {
            *ready = json!("False");
        }
        self.patch_pod_status(pod, status).await.map(drop)
    }

    /// Keeps pods that are deleted from now on, until they are let go.
    pub async fn hold(&self, pods: &[String]) -> Result<()> {
        for pod in pods {
            self.patch_pod(pod, json!({"metadata": {"finalizers": [HOLD]}})).await?;
        }
        Ok(())
    }

    /// Lets a held pod go, and waits until it is gone.
    pub async fn let_go(&self, pod: &str) -> Result<()> {
        let uid = self.patch_pod(pod, json!({"metadata": {"finalizers": null}})).await?.metadata.uid;
        wait::until(&format!("{pod} to be gone"), PATIENCE, async || {
            let there = self.pods().get_opt(pod).await?;
            ensure!(there.is_none_or(|pod| pod.metadata.uid != uid), "it is there");
            Ok(())
        })
        .await
    }

    /// Waits until so many pods are on their way out, and returns their names.
    pub async fn terminating(&self, count: usize) -> Result<Vec<String>> {
        wait::until(&format!("{count} pods to terminate"), PATIENCE, async || {
            let mut pods = self.all_pods().await?;
            pods.retain(|pod| pod.metadata.deletion_timestamp.is_some());
            ensure!(pods.len() == count, "{} do", pods.len());
            Ok(pods.iter().map(name_of).collect())
        })
        .await
    }
}

pub fn controller_uid(metadata: &ObjectMeta) -> Option<String> {
    metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true)).map(|owner| owner.uid.clone())
}

pub fn image_of_pod(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.containers.first()?.image.as_deref()
}

pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
