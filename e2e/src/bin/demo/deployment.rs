//! A rolling update, an image that never starts, and the way back.

use anyhow::Result;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus};
use kube::api::Api;
use serde_json::{Value, json};

use crate::show::{Look, Show};

/// Cells of the bar: one a pod, those of the surge included.
const WIDTH: usize = 26;
const REPLICAS: i32 = 20;

pub(crate) async fn play(show: &mut Show) -> Result<()> {
    show.apply(&manifest("web:1", "ready-after=500ms")).await?;
    act(show, "apply a Deployment of 20", complete).await?;
    show.apply(&manifest("web:2", "ready-after=500ms")).await?;
    act(show, "another image: a rolling update, 25 % surge and 25 % unavailable", complete).await?;
    show.apply(&manifest("web:broken", "never-start")).await?;
    act(show, "an image that never starts: the rollout stops, and gives up after its deadline of 10 s", deadline_exceeded).await?;
    show.events("Deployment", "web", &[]).await?;
    show.kubectl(&["rollout", "undo", "deployment/web"]).await?;
    act(show, "kubectl rollout undo: only the broken pods go", complete).await
}

/// The nodes go by the annotation, as they would by the image.
fn manifest(image: &str, behaviour: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": REPLICAS, "progressDeadlineSeconds": 10, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}, "annotations": {"nodes.wcm.dev/behaviour": behaviour}},
                "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "web", "image": format!("registry.example/{image}")}]},
            },
        },
    })
}

/// Watches the Deployment until its status, of its present generation, says so.
async fn act(show: &mut Show, title: &str, is_over: fn(&DeploymentStatus) -> bool) -> Result<()> {
    show.act(title, async |client| {
        let deployment = Api::<Deployment>::namespaced(client, "default").get("web").await?;
        let status = deployment.status.unwrap_or_default();
        let is_over = status.observed_generation == deployment.metadata.generation && is_over(&status);
        Ok(Look { picture: bar(&status), words: counts(&status), is_over })
    })
    .await
}

fn bar(status: &DeploymentStatus) -> String {
    let count = |count: Option<i32>| usize::try_from(count.unwrap_or(0)).unwrap_or(0);
    let (all, new, available) = (count(status.replicas), count(status.updated_replicas), count(status.available_replicas));
    let old = all.saturating_sub(new);
    // Old pods are available as a rule: what is missing is missing among the new ones.
    let ready = available.saturating_sub(old).min(new);
    let bar = format!("{}{}{}", "▒".repeat(old), "█".repeat(ready), "░".repeat(new - ready));
    format!("{bar:<WIDTH$}")
}

fn complete(status: &DeploymentStatus) -> bool {
    [status.replicas, status.updated_replicas, status.available_replicas].iter().all(|count| *count == Some(REPLICAS))
}

fn deadline_exceeded(status: &DeploymentStatus) -> bool {
    let reasons = status.conditions.iter().flatten().filter_map(|condition| condition.reason.as_deref());
    reasons.into_iter().any(|reason| reason == "ProgressDeadlineExceeded")
}

fn counts(status: &DeploymentStatus) -> String {
    let count = |count: Option<i32>| count.unwrap_or(0);
    let (all, new, available) = (count(status.replicas), count(status.updated_replicas), count(status.available_replicas));
    format!("pods {all:>2}, new {new:>2}, available {available:>2}")
}
