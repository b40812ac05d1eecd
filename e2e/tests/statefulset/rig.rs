//! What the scenarios share: a control plane with a subject at work on it, simulated nodes, and a namespace's StatefulSets.

use std::rc::Rc;

use anyhow::{Context as _, Result, ensure};
use e2e::controlplane::{AuditedRequest, ControlPlane, ControllerManager};
use http::Method;
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet, StatefulSetStatus};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch};
use nodes::{Behaviour, Fate, Fleet, Matching};
use serde_json::{Value, json};

use crate::history::{Change, History};
use crate::looking::until_changed;
use crate::support::kubectl::Kubectl;
pub(crate) use crate::support::pods::{controller_uid, fleet, image_of_pod, is_ready};
use crate::support::scenarios::Context;
pub(crate) use crate::support::subject::{Running, Subject};
use crate::support::{Space, minor_release, name_of, patched, pod_spec};

/// The container's image in templates that nobody has changed.
pub(crate) const IMAGE: &str = "registry.example/app:1";

/// Another one.
pub(crate) const NEXT: &str = "registry.example/app:2";

/// The label of a pod that names its revision.
pub(crate) const REVISION: &str = "controller-revision-hash";

/// The annotation that says how a pod behaves on a simulated node.
pub(crate) const BEHAVIOUR: &str = "nodes.wcm.dev/behaviour";

/// The controllers that the subject runs.
pub(crate) const CONTROLLERS: [&str; 1] = ["statefulset-controller"];

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

    /// Says what becomes of a namespace's pods, those to come included; `None` takes it back.
    pub(crate) async fn pods_become(&self, space: &Space, fate: Option<Fate>) {
        self.fleet.set_matching(Matching::namespace(&space.namespace), fate.map(Behaviour::of)).await;
    }

    /// Says what becomes of whichever pod has this name; `None` takes it back.
    pub(crate) fn pod_becomes(&self, space: &Space, pod: &str, fate: Option<Fate>) {
        self.fleet.set_pod(&space.namespace, pod, fate.map(Behaviour::of));
    }

    /// How many requests of the subject `which` accepts, in this namespace. The log is late by a moment: wait for a count.
    pub(crate) fn requests(&self, space: &Space, which: impl Fn(&AuditedRequest) -> bool) -> Result<usize> {
        self.subject.requests(&self.plane, &CONTROLLERS, space, which)
    }

    /// The scenario expects what our program does on purpose in another way than upstream.
    pub(crate) fn is_ours(&self) -> bool {
        self.subject == Subject::Ours
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
        let plane = control_plane().await?;
        let running = subject.start(&plane, &CONTROLLERS).await?;
        let fleet = fleet(&plane).await?;
        Ok(Self { running, fleet, plane, subject })
    }

    async fn stop(&mut self) -> Result<()> {
        self.running.stop().await
    }
}

/// A control plane for a subject.
pub(crate) async fn control_plane() -> Result<ControlPlane> {
    let beside = ControllerManager::default().with("resourcequota-controller").with("persistentvolumeclaim-protection-controller");
    let mut builder = ControlPlane::builder().controller_manager(beside.unlimited()).audit();
    // Fields that came with 1.37: one for the template's way, one for sets that nobody knows how to update.
    if minor_release() >= 37 {
        builder = builder.feature_gate("EmptyDirVolumeMode", true).feature_gate("StatefulSetRecreateStrategy", true);
    }
    builder.start().await
}

// === StatefulSets ===

/// A StatefulSet whose selector and template have the label `app`, its own name.
pub(crate) fn stateful_set(name: &str, replicas: i32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "serviceName": "service", "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod_spec()},
        },
    })
}

/// Keeps the simulated nodes off an object's pods: the test says how they are, with `make_ready` and the like.
pub(crate) fn by_hand(object: &mut Value) {
    object["spec"]["template"]["spec"]["schedulerName"] = json!("nobody");
}

pub(crate) fn parallel(object: &mut Value) {
    object["spec"]["podManagementPolicy"] = json!("Parallel");
}

/// Rolling updates with a partition.
pub(crate) fn partition(object: &mut Value, partition: i32) {
    object["spec"]["updateStrategy"] = partitioned(partition);
}

pub(crate) fn partitioned(partition: i32) -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"partition": partition}})
}

pub(crate) fn max_unavailable(object: &mut Value, max: impl Into<Value>) {
    object["spec"]["updateStrategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": max.into()}});
}

pub(crate) fn claim_template(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})
}

/// A claim for each pod, mounted as `datadir`.
pub(crate) fn with_claims(object: &mut Value) {
    object["spec"]["volumeClaimTemplates"] = json!([claim_template("datadir")]);
    object["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "datadir", "mountPath": "/data"}]);
}

/// A claim for each pod, and whether it goes with the set or with its pod's ordinal.
pub(crate) fn with_policy(object: &mut Value, when_deleted: &str, when_scaled: &str) {
    with_claims(object);
    object["spec"]["persistentVolumeClaimRetentionPolicy"] = json!({"whenDeleted": when_deleted, "whenScaled": when_scaled});
}

impl Space {
    pub(crate) fn stateful_sets(&self) -> Api<StatefulSet> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) fn claims(&self) -> Api<PersistentVolumeClaim> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) fn revisions(&self) -> Api<ControllerRevision> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) async fn create_stateful_set(&self, name: &str, replicas: i32) -> Result<StatefulSet> {
        self.create_stateful_set_with(name, replicas, |_| {}).await
    }

    pub(crate) async fn create_stateful_set_with(&self, name: &str, replicas: i32, change: impl FnOnce(&mut Value)) -> Result<StatefulSet> {
        let mut object = stateful_set(name, replicas);
        change(&mut object);
        Ok(serde_json::from_value(self.apps(Method::POST, "statefulsets", &object).await?)?)
    }

    pub(crate) async fn stateful_set(&self, name: &str) -> Result<StatefulSet> {
        Ok(self.stateful_sets().get(name).await?)
    }

    /// A merge patch: lists are replaced as a whole.
    pub(crate) async fn patch_stateful_set(&self, name: &str, patch: Value) -> Result<StatefulSet> {
        patched(&self.stateful_sets(), name, &Patch::Merge(patch)).await
    }

    pub(crate) async fn scale_stateful_set(&self, name: &str, replicas: i32) -> Result<StatefulSet> {
        self.patch_stateful_set(name, json!({"spec": {"replicas": replicas}})).await
    }

    pub(crate) async fn set_partition(&self, name: &str, partition: i32) -> Result<StatefulSet> {
        self.patch_stateful_set(name, json!({"spec": {"updateStrategy": partitioned(partition)}})).await
    }

    /// Another image for the container `main`.
    pub(crate) async fn set_image(&self, name: &str, image: &str) -> Result<StatefulSet> {
        let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}});
        patched(&self.stateful_sets(), name, &Patch::Strategic(patch)).await
    }

    /// Says in the template how new pods behave, which begins a rollout. `None` takes it back.
    pub(crate) async fn set_behaviour(&self, name: &str, words: Option<&str>) -> Result<StatefulSet> {
        self.patch_stateful_set(name, json!({"spec": {"template": {"metadata": {"annotations": {BEHAVIOUR: words}}}}})).await
    }

    pub(crate) async fn delete_stateful_set(&self, name: &str, params: &DeleteParams) -> Result<()> {
        self.stateful_sets().delete(name, params).await?;
        Ok(())
    }

    /// Waits until the set satisfies `check`.
    pub(crate) async fn stateful_set_shows<T>(
        &self,
        name: &str,
        what: &str,
        mut check: impl FnMut(&StatefulSet) -> Result<T>,
    ) -> Result<T> {
        until_changed(&self.stateful_sets(), what, async || check(&self.stateful_set(name).await?)).await
    }

    /// Waits until the status is of the newest generation.
    pub(crate) async fn observed(&self, name: &str) -> Result<StatefulSet> {
        self.stateful_set_shows(name, &format!("{name} to be observed"), |it| {
            ensure_observed(it)?;
            Ok(it.clone())
        })
        .await
    }

    /// Has the controller look at the set once more, and waits until it has.
    pub(crate) async fn looked_at(&self, name: &str) -> Result<StatefulSet> {
        let limit = self.stateful_set(name).await?.spec.and_then(|spec| spec.revision_history_limit).unwrap_or(10);
        // A generation of its own, which the next status must show.
        self.patch_stateful_set(name, json!({"spec": {"revisionHistoryLimit": limit + 1}})).await?;
        self.observed(name).await
    }

    /// Waits until these counts are in the status of the newest generation.
    pub(crate) async fn counts(&self, name: &str, what: &str, check: impl Fn(&StatefulSetStatus) -> bool) -> Result<StatefulSet> {
        self.stateful_set_shows(name, &format!("{name} to have {what}"), |it| {
            ensure_observed(it)?;
            ensure!(check(&status_of(it)), "{}", json!(it.status));
            Ok(it.clone())
        })
        .await
    }

    /// Waits until all pods are of the newest revision and available, and the status says so.
    pub(crate) async fn complete(&self, name: &str) -> Result<StatefulSet> {
        self.stateful_set_shows(name, &format!("{name} to be complete"), |it| {
            ensure_complete(it)?;
            Ok(it.clone())
        })
        .await
    }

    /// The pods that the set controls, those on their way out too, by ordinal.
    pub(crate) async fn pods_of(&self, name: &str) -> Result<Vec<Pod>> {
        let uid = self.stateful_set(name).await?.metadata.uid;
        let mut pods = self.all_pods().await?;
        pods.retain(|pod| controller_uid(&pod.metadata) == uid);
        pods.sort_by_key(ordinal_of);
        Ok(pods)
    }

    /// Waits until exactly these pods are there, whoever controls them, and returns them in that order.
    pub(crate) async fn pods_are(&self, expected: &[&str]) -> Result<Vec<Pod>> {
        until_changed(&self.pods(), &format!("the pods {expected:?}"), async || {
            let mut pods = self.all_pods().await?;
            pods.sort_by_key(ordinal_of);
            ensure!(names(&pods) == expected, "there are {:?}", names(&pods));
            Ok(pods)
        })
        .await
    }

    /// Waits until exactly these claims are there and none is on its way out.
    pub(crate) async fn claims_are(&self, expected: &[&str]) -> Result<Vec<PersistentVolumeClaim>> {
        until_changed(&self.claims(), &format!("the claims {expected:?}"), async || {
            let mut claims = self.claims().list(&ListParams::default()).await?.items;
            claims.sort_by_key(ResourceExt::name_any);
            ensure!(names(&claims) == expected, "there are {:?}", names(&claims));
            ensure!(claims.iter().all(|claim| claim.metadata.deletion_timestamp.is_none()), "some are on their way out");
            Ok(claims)
        })
        .await
    }

    /// Waits until a claim satisfies `check`.
    pub(crate) async fn claim_shows(&self, name: &str, what: &str, check: impl Fn(&PersistentVolumeClaim) -> bool) -> Result<()> {
        until_changed(&self.claims(), what, async || {
            let claim = self.claims().get(name).await?;
            ensure!(check(&claim), "{:?}", claim.metadata);
            Ok(())
        })
        .await
    }

    pub(crate) async fn patch_claim(&self, name: &str, patch: Value) -> Result<()> {
        patched(&self.claims(), name, &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// The revisions that the set controls, the lowest first.
    pub(crate) async fn revisions_of(&self, name: &str) -> Result<Vec<ControllerRevision>> {
        let uid = self.stateful_set(name).await?.metadata.uid;
        let mut revisions = self.revisions().list(&ListParams::default()).await?.items;
        revisions.retain(|revision| controller_uid(&revision.metadata) == uid);
        revisions.sort_by_key(|revision| revision.revision);
        Ok(revisions)
    }

    /// Keeps a namespace from having more pods than that.
    pub(crate) async fn limit_pods(&self, most: u32) -> Result<()> {
        let quota =
            json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": {"pods": most.to_string()}}});
        if self.request(Method::PATCH, "/api/v1", "resourcequotas/few", &json!({"spec": quota["spec"]})).await.is_err() {
            self.create("resourcequotas", &quota).await?;
        }
        e2e::wait::until("the quota to be known", crate::support::PATIENCE, async || {
            let quota = self.request(Method::GET, "/api/v1", "resourcequotas/few", &Value::Null).await?;
            ensure!(quota["status"]["hard"]["pods"].as_str() == Some(&*most.to_string()), "{}", quota["status"]);
            Ok(())
        })
        .await
    }
}

pub(crate) fn status_of(it: &StatefulSet) -> StatefulSetStatus {
    it.status.clone().unwrap_or_default()
}

/// The names of the current and of the update revision.
pub(crate) fn revisions_in(it: &StatefulSet) -> (String, String) {
    let status = status_of(it);
    (status.current_revision.unwrap_or_default(), status.update_revision.unwrap_or_default())
}

/// The only revision of a set that is complete.
pub(crate) fn revision_in(it: &StatefulSet) -> String {
    let (current, update) = revisions_in(it);
    assert_eq!(current, update);
    update
}

/// The status is of the newest generation.
pub(crate) fn ensure_observed(it: &StatefulSet) -> Result<()> {
    let observed = status_of(it).observed_generation;
    ensure!(observed >= it.metadata.generation, "generation {observed:?} of {:?} is observed", it.metadata.generation);
    Ok(())
}

pub(crate) fn ensure_complete(it: &StatefulSet) -> Result<()> {
    ensure_observed(it)?;
    let status = status_of(it);
    let wanted = it.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let counts = [status.ready_replicas, status.updated_replicas, status.available_replicas].map(Option::unwrap_or_default);
    ensure!(status.replicas == wanted && counts == [wanted; 3], "{}", json!(status));
    let (current, update) = revisions_in(it);
    ensure!(current == update, "it is at {current}, on its way to {update}");
    Ok(())
}

pub(crate) fn ordinal_of(pod: &Pod) -> i32 {
    name_of(pod).rsplit_once('-').and_then(|(_, ordinal)| ordinal.parse().ok()).unwrap_or(-1)
}

/// The revision that a pod was made from.
pub(crate) fn revision_of(pod: &Pod) -> String {
    pod.labels().get(REVISION).cloned().unwrap_or_default()
}

pub(crate) fn uids(pods: &[Pod]) -> Vec<Option<String>> {
    pods.iter().map(|pod| pod.metadata.uid.clone()).collect()
}

pub(crate) fn names<K: ResourceExt>(objects: &[K]) -> Vec<String> {
    objects.iter().map(ResourceExt::name_any).collect()
}

/// All pods of the set have that image and that revision.
pub(crate) async fn ensure_all_at(space: &Space, name: &str, image: &str, revision: &str) -> Result<Vec<Pod>> {
    let pods = space.pods_of(name).await?;
    for pod in &pods {
        let (its_image, its_revision) = (image_of_pod(pod), revision_of(pod));
        ensure!((its_image, &*its_revision) == (Some(image), revision), "{} has {its_image:?} of {its_revision}", name_of(pod));
    }
    Ok(pods)
}

/// Each pod was made when all of lower ordinals were there and ready.
pub(crate) async fn ensure_made_in_order(pods: &History<Pod>) -> Result<()> {
    let mut ready = std::collections::BTreeMap::new();
    for change in pods.so_far().await? {
        let pod = change.object();
        if let Change::Added(pod) = &change {
            let before: Vec<_> = (0..ordinal_of(pod)).filter(|ordinal| ready.get(ordinal) != Some(&true)).collect();
            ensure!(before.is_empty(), "{} was made while {before:?} were not ready", name_of(pod));
        }
        let is_gone = matches!(change, Change::Deleted(_)) || pod.metadata.deletion_timestamp.is_some();
        ready.insert(ordinal_of(pod), !is_gone && is_ready(pod));
    }
    Ok(())
}

/// At no moment were there fewer pods to serve than that.
pub(crate) async fn ensure_never_fewer_ready(pods: &History<Pod>, least: usize) -> Result<()> {
    pods.always(|pods| {
        let ready = pods.values().filter(|pod| pod.metadata.deletion_timestamp.is_none() && is_ready(pod)).count();
        ensure!(ready >= least, "{ready} ready pods, fewer than {least}");
        Ok(())
    })
    .await
}

/// What was made and removed, in that order: `+web-0`, `-web-2`.
pub(crate) async fn comings_and_goings(pods: &History<Pod>) -> Result<Vec<String>> {
    let sign = |change| match change {
        Change::Added(pod) => Some(format!("+{}", name_of(&pod))),
        Change::Deleted(pod) => Some(format!("-{}", name_of(&pod))),
        Change::Found(_) | Change::Modified(_) => None,
    };
    Ok(pods.so_far().await?.into_iter().filter_map(sign).collect())
}

/// Waits until so many pods were removed.
pub(crate) async fn removed(space: &Space, pods: &History<Pod>, count: usize) -> Result<Vec<Pod>> {
    until_changed(&space.pods(), &format!("{count} pods to be removed"), async || {
        let gone = pods.deleted().await?;
        ensure!(gone.len() >= count, "{:?} are", names(&gone));
        Ok(gone)
    })
    .await
}

/// Waits until so many pods were removed, as many were made since, and all that are there are ready.
pub(crate) async fn came_back(space: &Space, pods: &History<Pod>, count: usize) -> Result<()> {
    until_changed(&space.pods(), &format!("{count} pods to be removed and to come back"), async || {
        let (gone, made) = (pods.deleted().await?, pods.added().await?);
        ensure!((gone.len(), made.len()) == (count, count), "{:?} are gone, {:?} were made", names(&gone), names(&made));
        ensure!(space.all_pods().await?.iter().all(is_ready), "some are not ready");
        Ok(())
    })
    .await
}

/// The owner references of a claim, as `kind/name`, with whether they are controllers.
pub(crate) fn owners_of(claim: &PersistentVolumeClaim) -> Vec<(String, bool)> {
    let owners = claim.metadata.owner_references.iter().flatten();
    owners.map(|owner| (format!("{}/{}", owner.kind, owner.name), owner.controller == Some(true))).collect()
}

/// The UID that a set, a pod or anything else has.
pub(crate) fn uid_of(it: &impl ResourceExt) -> Result<String> {
    it.uid().context("no UID")
}
