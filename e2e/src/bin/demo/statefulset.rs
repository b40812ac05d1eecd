//! A rollout in order, a canary, and a revision that wedges the set.

use anyhow::Result;
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetStatus};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Client;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

use crate::show::{Look, Show};

const REPLICAS: i32 = 5;
const QUICK: &str = "ready-after=300ms";

/// The set and its pods, as an act looks at them.
struct Scene {
    status: StatefulSetStatus,
    pods: Vec<Option<Pod>>,
    /// Whether the controller tells of a pod that holds back the rollout.
    is_told: bool,
}

pub(crate) async fn play(show: &mut Show) -> Result<()> {
    show.apply(&manifest("db:1", QUICK, 0)).await?;
    act(show, "apply a StatefulSet of 5: db-0 first, each when the one before it is ready", complete).await?;
    show.apply(&manifest("db:2", QUICK, 0)).await?;
    act(show, "another image: a rolling update from db-4 down", complete).await?;
    show.apply(&manifest("db:3", QUICK, 4)).await?;
    act(show, "a canary: partition 4 lets db-4 go ahead", |scene| is_at(scene, "db:3", 1)).await?;
    show.apply(&manifest("db:broken", "never-start", 0)).await?;
    act(show, "an image that never starts, for all: the rollout waits for db-4", |scene| is_stuck(scene, "db:broken")).await?;
    show.apply(&manifest("db:3", QUICK, 0)).await?;
    act(show, "back to the image before: a pod that never gets ready still holds back what would replace it", |scene| scene.is_told)
        .await?;
    show.events("StatefulSet", "db", &["RolloutStalled"]).await?;
    show.kubectl(&["delete", "pod", "db-4"]).await?;
    act(show, "kubectl delete pod db-4, as the event says", complete).await
}

/// The nodes go by the annotation, as they would by the image.
fn manifest(image: &str, behaviour: &str, partition: i32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
        "spec": {
            "replicas": REPLICAS, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}},
            "template": {
                "metadata": {"labels": {"app": "db"}, "annotations": {"nodes.wcm.dev/behaviour": behaviour}},
                "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "db", "image": format!("registry.example/{image}")}]},
            },
        },
    })
}

async fn act(show: &mut Show, title: &str, is_over: fn(&Scene) -> bool) -> Result<()> {
    show.act(title, async |client| {
        let set = Api::<StatefulSet>::namespaced(client.clone(), "default").get("db").await?;
        let is_observed = set.status.as_ref().and_then(|status| status.observed_generation) == set.metadata.generation;
        let scene = Scene::of(client, set).await?;
        Ok(Look { picture: scene.picture(), words: scene.words(), is_over: is_observed && is_over(&scene) })
    })
    .await
}

// === impl Scene ===

impl Scene {
    async fn of(client: Client, set: StatefulSet) -> Result<Self> {
        let all = Api::<Pod>::namespaced(client.clone(), "default").list(&ListParams::default().labels("app=db")).await?.items;
        let named = |ordinal| all.iter().find(|pod| pod.metadata.name == Some(format!("db-{ordinal}"))).cloned();
        let stalls = ListParams::default().fields("involvedObject.name=db,reason=RolloutStalled");
        let is_told = !Api::<Event>::namespaced(client, "default").list(&stalls).await?.items.is_empty();
        Ok(Self { status: set.status.unwrap_or_default(), pods: (0..REPLICAS).map(named).collect(), is_told })
    }

    /// One cell a pod: its image, and whether it is ready.
    fn picture(&self) -> String {
        let cells = self.pods.iter().map(|pod| match pod {
            None => " · ".to_owned(),
            Some(pod) if is_ready(pod) => format!("[{}]", version(pod)),
            Some(pod) => format!("({})", version(pod)),
        });
        cells.collect()
    }

    fn words(&self) -> String {
        let count = |count: Option<i32>| count.unwrap_or(0);
        let (ready, updated) = (count(self.status.ready_replicas), count(self.status.updated_replicas));
        format!("pods {}, ready {ready}, updated {updated}", self.status.replicas)
    }
}

fn complete(scene: &Scene) -> bool {
    let status = &scene.status;
    [status.ready_replicas, status.updated_replicas] == [Some(REPLICAS); 2] && status.current_revision == status.update_revision
}

/// So many pods, the last ones, have that image, and all are ready.
fn is_at(scene: &Scene, image: &str, count: usize) -> bool {
    let (old, new) = scene.pods.split_at(scene.pods.len().saturating_sub(count));
    let has = |pod: &Option<Pod>| pod.as_ref().is_some_and(|pod| version(pod) == tag(image));
    scene.status.ready_replicas == Some(REPLICAS) && new.iter().all(has) && !old.iter().any(has)
}

/// The last pod has that image and is not ready.
fn is_stuck(scene: &Scene, image: &str) -> bool {
    scene.pods.last().and_then(Option::as_ref).is_some_and(|pod| version(pod) == tag(image) && !is_ready(pod))
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// The first letter of a pod's image's tag.
fn version(pod: &Pod) -> char {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers.into_iter().find_map(|container| container.image.as_deref()).map_or('?', tag)
}

fn tag(image: &str) -> char {
    image.rsplit_once(':').and_then(|(_, tag)| tag.chars().next()).unwrap_or('?')
}
