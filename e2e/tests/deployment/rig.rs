//! What the scenarios share: a control plane with a subject at work on it, simulated nodes, and a namespace's Deployments.
//!
//! [`Cluster`] is the context, [`Subject`] whom it is about. [`Space`] gains what is about Deployments here; [`crate::history`] follows
//! every change, [`crate::looking`] waits for one, [`crate::support::kubectl`] runs the command line client.

use std::rc::Rc;

use anyhow::{Context as _, Result, ensure};
use e2e::controlplane::{AuditedRequest, ControlPlane, ControllerManager};
use e2e::wait;
use http::Method;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, DeleteParams, ListParams, Patch};
use nodes::{Behaviour, Fleet, Matching};
use serde_json::{Value, json};

use crate::looking::until_changed;
use crate::support::kubectl::Kubectl;
pub(crate) use crate::support::pods::{controller_uid, fleet, image_of_pod, is_ready};
use crate::support::scenarios::Context;
pub(crate) use crate::support::subject::{Running, Subject};
use crate::support::{PATIENCE, Space, minor_release, name_of, patched, pod_spec};

/// The container's image in templates that nobody has changed.
pub(crate) const IMAGE: &str = "registry.example/app:1";

/// The revision of a Deployment, and of a ReplicaSet of one.
pub(crate) const REVISION: &str = "deployment.kubernetes.io/revision";

/// The label that tells the pods of a Deployment's ReplicaSets apart.
pub(crate) const HASH: &str = "pod-template-hash";

/// The controllers that the subject runs.
pub(crate) const CONTROLLERS: [&str; 2] = ["deployment-controller", "replicaset-controller"];

/// What all scenarios share.
pub(crate) struct Cluster {
    // Fields are dropped in this order: clients end before their servers.
    running: Running,
    fleet: Fleet,
    plane: ControlPlane,
    pub(crate) subject: Subject,
}

/// Shortens the scenarios' signatures.
pub(crate) type Shared = Rc<Cluster>;

// === impl Cluster ===

impl Cluster {
    /// A namespace.
    pub(crate) async fn space(&self, prefix: &str) -> Result<Space> {
        Space::new(&self.plane, prefix).await
    }

    /// Says how a namespace's pods behave, those to come included; `None` takes it back. [`Fate::NeverStart`](nodes::Fate::NeverStart)
    /// leaves pods alone that run already: it is how an image that cannot be pulled is played.
    pub(crate) async fn behave(&self, space: &Space, behaviour: Option<Behaviour>) {
        self.fleet.set_matching(Matching::namespace(&space.namespace), behaviour).await;
    }

    /// How many requests of the subject `which` accepts, in this namespace. The log is late by a moment: wait for a count.
    pub(crate) fn requests(&self, space: &Space, which: impl Fn(&AuditedRequest) -> bool) -> Result<usize> {
        self.subject.requests(&self.plane, &CONTROLLERS, space, which)
    }
}

impl Kubectl for Cluster {
    fn plane(&self) -> &ControlPlane {
        &self.plane
    }
}

impl Context for Cluster {
    async fn start() -> Result<Self> {
        let subject = Subject::chosen()?;
        let beside = ControllerManager::default().with("resourcequota-controller").unlimited();
        let plane = control_plane(beside).await?;
        let running = subject.start(&plane, &CONTROLLERS).await?;
        let fleet = fleet(&plane).await?;
        Ok(Self { running, fleet, plane, subject })
    }

    async fn stop(&mut self) -> Result<()> {
        self.running.stop().await
    }
}

/// A control plane for a subject, with these of upstream's controllers beside it.
pub(crate) async fn control_plane(beside: ControllerManager) -> Result<ControlPlane> {
    let mut builder = ControlPlane::builder().controller_manager(beside).audit();
    // A field of the pod that came with 1.37, for the template's way.
    if minor_release() >= 37 {
        builder = builder.feature_gate("EmptyDirVolumeMode", true);
    }
    builder.start().await
}

// === Deployments ===

/// A Deployment whose selector and template have the label `app`, its own name.
pub(crate) fn deployment(name: &str, replicas: i32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod_spec()},
        },
    })
}

/// Keeps the simulated nodes off an object's pods: the test says how they are, with `make_ready` and the like.
pub(crate) fn by_hand(object: &mut Value) {
    object["spec"]["template"]["spec"]["schedulerName"] = json!("nobody");
}

/// Says how the template's pods behave on simulated nodes, in the words of [`nodes::behaviour`]. It is a part of the template: changing it
/// is a rollout.
pub(crate) fn behaving(object: &mut Value, words: &str) {
    object["spec"]["template"]["metadata"]["annotations"]["nodes.wcm.dev/behaviour"] = json!(words);
}

/// Surge and unavailability, as numbers or as percentages.
pub(crate) fn rolling(object: &mut Value, surge: impl Into<Value>, unavailable: impl Into<Value>) {
    let rolling = json!({"maxSurge": surge.into(), "maxUnavailable": unavailable.into()});
    object["spec"]["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": rolling});
}

impl Space {
    pub(crate) fn deployments(&self) -> Api<Deployment> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) async fn create_deployment(&self, name: &str, replicas: i32) -> Result<Deployment> {
        self.create_deployment_with(name, replicas, |_| {}).await
    }

    pub(crate) async fn create_deployment_with(&self, name: &str, replicas: i32, change: impl FnOnce(&mut Value)) -> Result<Deployment> {
        let mut object = deployment(name, replicas);
        change(&mut object);
        let made = self.apps(Method::POST, "deployments", &object).await?;
        Ok(serde_json::from_value(made)?)
    }

    pub(crate) async fn deployment(&self, name: &str) -> Result<Deployment> {
        Ok(self.deployments().get(name).await?)
    }

    /// A merge patch: lists are replaced as a whole.
    pub(crate) async fn patch_deployment(&self, name: &str, patch: Value) -> Result<Deployment> {
        patched(&self.deployments(), name, &Patch::Merge(patch)).await
    }

    pub(crate) async fn scale_deployment(&self, name: &str, replicas: i32) -> Result<Deployment> {
        self.patch_deployment(name, json!({"spec": {"replicas": replicas}})).await
    }

    pub(crate) async fn pause(&self, name: &str, paused: bool) -> Result<Deployment> {
        self.patch_deployment(name, json!({"spec": {"paused": paused}})).await
    }

    /// Another image for the container `main`.
    pub(crate) async fn set_image(&self, name: &str, image: &str) -> Result<Deployment> {
        let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}});
        patched(&self.deployments(), name, &Patch::Strategic(patch)).await
    }

    /// Annotates the template, which begins a rollout. The annotation `nodes.wcm.dev/behaviour` says how the new pods behave.
    pub(crate) async fn annotate_template(&self, name: &str, annotations: Value) -> Result<Deployment> {
        self.patch_deployment(name, json!({"spec": {"template": {"metadata": {"annotations": annotations}}}})).await
    }

    pub(crate) async fn delete_deployment(&self, name: &str, params: &DeleteParams) -> Result<()> {
        self.deployments().delete(name, params).await?;
        Ok(())
    }

    /// Waits until the Deployment satisfies `check`.
    pub(crate) async fn deployment_shows<T>(&self, name: &str, what: &str, mut check: impl FnMut(&Deployment) -> Result<T>) -> Result<T> {
        until_changed(&self.deployments(), what, async || check(&self.deployment(name).await?)).await
    }

    /// Waits until the status is of the newest generation.
    pub(crate) async fn observed(&self, name: &str) -> Result<Deployment> {
        self.deployment_shows(name, &format!("{name} to be observed"), |it| {
            ensure_observed(it)?;
            Ok(it.clone())
        })
        .await
    }

    /// Waits until the rollout is complete (upstream `DeploymentComplete`, and as many pods as asked for, no old ones among them) and the
    /// revision is the new ReplicaSet's.
    pub(crate) async fn complete(&self, name: &str) -> Result<Deployment> {
        until_changed(&self.deployments(), &format!("{name} to be complete"), async || {
            let it = self.deployment(name).await?;
            ensure_complete(&it)?;
            self.new_set(name).await?;
            Ok(it)
        })
        .await
    }

    /// Waits until the condition `kind` has this reason, and returns it.
    pub(crate) async fn condition(&self, name: &str, kind: &str, reason: &str) -> Result<DeploymentCondition> {
        self.deployment_shows(name, &format!("{kind} of {name} to be {reason}"), |it| {
            let found = condition_of(it, kind).context("no such condition")?;
            ensure!(found.reason.as_deref() == Some(reason), "{found:?}");
            Ok(found)
        })
        .await
    }

    /// The ReplicaSets that the Deployment controls, those with the lowest revision first.
    pub(crate) async fn replica_sets_of(&self, name: &str) -> Result<Vec<ReplicaSet>> {
        let uid = self.deployment(name).await?.metadata.uid;
        let mut sets = self.sets().list(&ListParams::default()).await?.items;
        sets.retain(|set| controller_uid(&set.metadata) == uid);
        sets.sort_by_key(|set| (revision_of(&set.metadata), set.metadata.name.clone()));
        Ok(sets)
    }

    /// The ReplicaSet with the Deployment's template: its newest one, which has the Deployment's image and revision.
    pub(crate) async fn new_set(&self, name: &str) -> Result<ReplicaSet> {
        let it = self.deployment(name).await?;
        let newest = self.replica_sets_of(name).await?.pop().context("no ReplicaSet")?;
        let (revision, its) = (revision_of(&it.metadata), revision_of(&newest.metadata));
        ensure!(its.is_some() && its == revision, "the Deployment is at revision {revision:?}, its newest ReplicaSet at {its:?}");
        let (image, its) = (image_of_deployment(&it), image_of_set(&newest));
        ensure!(its == image, "the Deployment has image {image:?}, its newest ReplicaSet {its:?}");
        Ok(newest)
    }

    /// Waits until the newest ReplicaSet has exactly so many pods, all of them ready, and returns them.
    pub(crate) async fn new_pods(&self, name: &str, count: usize) -> Result<Vec<Pod>> {
        let set = set_name(&self.new_set(name).await?);
        self.ready_pods(&set, count).await
    }

    /// Waits until there is a ReplicaSet of that revision.
    pub(crate) async fn set_of_revision(&self, name: &str, revision: i64) -> Result<ReplicaSet> {
        until_changed(&self.sets(), &format!("revision {revision} of {name}"), async || {
            let mut sets = self.replica_sets_of(name).await?;
            let seen: Vec<_> = sets.iter().map(|set| revision_of(&set.metadata)).collect();
            let found = seen.iter().position(|it| *it == Some(revision));
            Ok(sets.swap_remove(found.with_context(|| format!("there are {seen:?}"))?))
        })
        .await
    }

    /// Waits until the Deployment's ReplicaSets have exactly these sizes, those with the lowest revision first.
    pub(crate) async fn sizes(&self, name: &str, sizes: &[i32]) -> Result<Vec<ReplicaSet>> {
        until_changed(&self.sets(), &format!("the ReplicaSets of {name} to have the sizes {sizes:?}"), async || {
            let sets = self.replica_sets_of(name).await?;
            let seen: Vec<_> = sets.iter().map(size_of).collect();
            ensure!(seen == sizes, "they have {seen:?}");
            Ok(sets)
        })
        .await
    }

    /// Waits until the Deployment, its ReplicaSets and its pods are gone, none of them orphaned.
    pub(crate) async fn all_gone(&self) -> Result<()> {
        wait::until("everything to be gone", PATIENCE * 2, async || {
            let all = ListParams::default();
            let (deployments, sets) = (self.deployments().list(&all).await?.items.len(), self.sets().list(&all).await?.items.len());
            let pods = self.all_pods().await?.len();
            ensure!((deployments, sets, pods) == (0, 0, 0), "{deployments} Deployments, {sets} ReplicaSets, {pods} pods");
            Ok(())
        })
        .await
    }

    /// Waits until so many pods are active and ready, as their own status says.
    pub(crate) async fn ready_pods(&self, set: &str, count: usize) -> Result<Vec<Pod>> {
        until_changed(&self.pods(), &format!("{count} ready pods of {set}"), async || {
            let pods = self.active_pods(set).await?;
            let ready = pods.iter().filter(|pod| is_ready(pod)).count();
            ensure!((pods.len(), ready) == (count, count), "it has {} pods, {ready} of them ready", pods.len());
            Ok(pods)
        })
        .await
    }

    /// Marks all pods of a set ready, for Deployments that are run [`by_hand`].
    pub(crate) async fn make_all_ready(&self, set: &str) -> Result<()> {
        for pod in self.active_pods(set).await? {
            self.make_ready(&name_of(&pod), 100).await?;
        }
        Ok(())
    }
}

/// The status is of the newest generation.
pub(crate) fn ensure_observed(it: &Deployment) -> Result<()> {
    let observed = it.status.as_ref().and_then(|status| status.observed_generation);
    ensure!(observed >= it.metadata.generation, "generation {observed:?} of {:?} is observed", it.metadata.generation);
    Ok(())
}

/// The rollout is complete, as the status has it.
pub(crate) fn ensure_complete(it: &Deployment) -> Result<()> {
    ensure_observed(it)?;
    let status = it.status.as_ref().context("no status")?;
    let wanted = it.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let counts = [status.replicas, status.updated_replicas, status.available_replicas].map(Option::unwrap_or_default);
    ensure!(counts == [wanted; 3], "replicas, updated and available are {counts:?}, not {wanted}: {}", json!(status));
    Ok(())
}

pub(crate) fn condition_of(it: &Deployment, kind: &str) -> Option<DeploymentCondition> {
    it.status.as_ref()?.conditions.iter().flatten().find(|condition| condition.type_ == kind).cloned()
}

/// The revision of a Deployment or of a ReplicaSet.
pub(crate) fn revision_of(metadata: &ObjectMeta) -> Option<i64> {
    metadata.annotations.as_ref()?.get(REVISION)?.parse().ok()
}

pub(crate) fn set_name(set: &ReplicaSet) -> String {
    set.metadata.name.clone().unwrap_or_default()
}

/// How many replicas a ReplicaSet is to have.
pub(crate) fn size_of(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

pub(crate) fn image_of_set(set: &ReplicaSet) -> Option<&str> {
    set.spec.as_ref()?.template.as_ref()?.spec.as_ref()?.containers.first()?.image.as_deref()
}

pub(crate) fn image_of_deployment(it: &Deployment) -> Option<&str> {
    it.spec.as_ref()?.template.spec.as_ref()?.containers.first()?.image.as_deref()
}
