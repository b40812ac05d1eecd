//! StatefulSets, with their controller behind the proxy.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::proxy::{EventMatch, Fault, Match, Moment, Recording, Refusal, Rule, WatchFault, When};
use e2e::wait;
use http::Method;
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet, StatefulSetStatus};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::deployments::fleet;
use crate::rig::{Rig, Shared, Witness};
use crate::support::history::History;
use crate::support::pods::is_ready;
use crate::support::{PATIENCE, Space, patched, pod_spec};

const REVISION: &str = "controller-revision-hash";

/// The StatefulSets of a scenario's namespace.
impl Space {
    fn stateful_sets(&self) -> Api<StatefulSet> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    fn claims(&self) -> Api<PersistentVolumeClaim> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    fn revisions(&self) -> Api<ControllerRevision> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    async fn create_stateful_set(&self, replicas: i32, change: impl FnOnce(&mut Value)) -> Result<()> {
        let labels = json!({"app": "web"});
        let mut object = json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web"},
            "spec": {
                "replicas": replicas, "selector": {"matchLabels": labels}, "serviceName": "web",
                "template": {"metadata": {"labels": labels}, "spec": pod_spec()},
            },
        });
        change(&mut object);
        self.request(Method::POST, "/apis/apps/v1", "statefulsets", &object).await.map(drop)
    }

    async fn patch_stateful_set(&self, patch: Value) -> Result<()> {
        patched(&self.stateful_sets(), "web", &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// Begins a rollout.
    async fn set_template(&self, version: &str) -> Result<()> {
        self.patch_stateful_set(json!({"spec": {"template": {"metadata": {"annotations": {"version": version}}}}})).await
    }

    /// Waits until the newest generation's status is accepted.
    async fn shows(&self, what: &str, check: impl Fn(&StatefulSetStatus) -> bool) -> Result<StatefulSetStatus> {
        wait::object(&self.stateful_sets(), "web", what, PATIENCE * 2, |it: &StatefulSet| {
            let status = it.status.clone().unwrap_or_default();
            ensure!(status.observed_generation == it.metadata.generation && check(&status), "{}", json!(status));
            Ok(status)
        })
        .await
    }

    /// Waits until all pods are of the newest revision and available.
    async fn rolled_out(&self, replicas: i32) -> Result<StatefulSetStatus> {
        let all = Some(replicas);
        self.shows("all pods to be new and available", |status| {
            let counts = [status.ready_replicas, status.updated_replicas, status.available_replicas];
            status.replicas == replicas && counts == [all; 3] && status.current_revision == status.update_revision
        })
        .await
    }

    /// Waits until there is a pod of that name, of that revision if one is given, that is not on its way out, and makes it ready.
    async fn start_pod(&self, name: &str, revision: Option<&str>) -> Result<Pod> {
        let pod = wait::object(&self.pods(), name, &format!("{name} of {revision:?}"), PATIENCE, |pod: &Pod| {
            ensure!(pod.metadata.deletion_timestamp.is_none(), "it terminates");
            let its = pod.labels().get(REVISION).map(String::as_str);
            ensure!(revision.is_none() || its == revision, "it is of {its:?}");
            Ok(pod.clone())
        })
        .await?;
        self.make_ready(name, 10).await?;
        Ok(pod)
    }
}

/// Starts the program with the StatefulSet controller.
async fn run(rig: &mut Rig) -> Result<()> {
    let program = rig.launch().controllers(["statefulset-controller"]).start().await?;
    let log = rig.manager.insert(program).log().to_owned();
    wait::until("the controller to start", PATIENCE, async || {
        ensure!(std::fs::read_to_string(&log)?.contains("Controllers started"), "it has not");
        Ok(())
    })
    .await
}

async fn start(planes: &Shared) -> Result<Rig> {
    let mut rig = Rig::prepare(planes).await?;
    run(&mut rig).await?;
    Ok(rig)
}

/// As [`Rig::end`]; nobody who comes next is to find a StatefulSet.
async fn end(rig: Rig, planes: &Shared) -> Result<()> {
    rig.stateful_sets().delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    rig.proxy.clear();
    rig.end(planes).await
}

fn revision_creates() -> Match {
    Match::creates("controllerrevisions")
}

pub async fn sts_10_a_late_watch_of_revisions_makes_no_second_one(planes: Shared) -> Result<()> {
    let mut rig = Rig::prepare(&planes).await?;
    let past = Recording::new();
    let record = rig.proxy.add(Rule::new(Match::lists("controllerrevisions"), Fault::Record(past.clone())));
    run(&mut rig).await?;
    record.release();
    let late = rig.proxy.stall(Match::watches("controllerrevisions"));
    rig.create_stateful_set(1, |_| {}).await?;
    late.holds(1, PATIENCE).await?;
    for limit in 11..16 {
        rig.patch_stateful_set(json!({"spec": {"revisionHistoryLimit": limit}})).await?;
    }
    late.release();
    rig.start_pod("web-0", None).await?;
    let done = rig.rolled_out(1).await?;
    assert_eq!(rig.proxy.seen(&revision_creates()), 1);
    rig.kill9().await?;

    // A program that knows nothing of the revision finds it under the name that its own would have.
    let hidden = rig.proxy.add(Rule::new(Match::lists("controllerrevisions"), Fault::Replay(Moment::Before, past)));
    run(&mut rig).await?;
    rig.patch_stateful_set(json!({"spec": {"revisionHistoryLimit": 20}})).await?;
    let again = rig.rolled_out(1).await?;
    assert_eq!((again.update_revision, again.collision_count.unwrap_or(0)), (done.update_revision, 0));
    let tries: Vec<_> = rig.proxy.requests_of(&revision_creates()).iter().map(|create| create.status).collect();
    assert!(tries[1..].iter().all(|status| *status == Some(409)) && tries.len() > 1, "{tries:?}");
    hidden.release();
    assert_eq!(rig.revisions().list(&ListParams::default()).await?.items.len(), 1);
    assert_eq!(rig.deletes(), 0);
    end(rig, &planes).await
}

/// A set of two with partition 1, whose second pod is new.
async fn half_way(rig: &Rig) -> Result<StatefulSetStatus> {
    let partition = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 1}});
    rig.create_stateful_set(2, |object| object["spec"]["updateStrategy"] = partition).await?;
    rig.start_pod("web-0", None).await?;
    rig.start_pod("web-1", None).await?;
    rig.rolled_out(2).await?;
    rig.set_template("2").await?;
    let rolling = rig.shows("another revision", |status| status.current_revision != status.update_revision).await?;
    rig.start_pod("web-1", rolling.update_revision.as_deref()).await?;
    rig.shows("the second pod to be new", |status| (status.updated_replicas, status.ready_replicas) == (Some(1), Some(2))).await
}

pub async fn sts_18_a_create_that_fails_does_not_end_the_rollout(planes: Shared) -> Result<()> {
    let rig = start(&planes).await?;
    let before = half_way(&rig).await?;
    rig.hold(&["web-0".to_owned()]).await?;
    rig.patch_pod_status("web-0", json!({"phase": "Failed", "conditions": []})).await?;
    assert_eq!(rig.terminating(1).await?, ["web-0"]);
    // The name is still taken, the server says, as it does while an object is being deleted.
    let taken = rig.proxy.add(Rule::new(Match::creates("pods"), Fault::Refuse(Moment::Before, Refusal::already_exists())));
    rig.let_go("web-0").await?;
    taken.takes(3, PATIENCE).await?;
    let waiting = rig.shows("one pod", |status| (status.replicas, status.updated_replicas) == (1, Some(1))).await?;
    assert_eq!((&waiting.current_revision, &waiting.update_revision), (&before.current_revision, &before.update_revision));
    taken.release();
    rig.start_pod("web-0", before.current_revision.as_deref()).await?;
    let after = rig.shows("both pods", |status| (status.updated_replicas, status.ready_replicas) == (Some(1), Some(2))).await?;
    assert_eq!((after.current_revision, after.update_revision), (before.current_revision, before.update_revision));
    end(rig, &planes).await
}

pub async fn sts_24_a_claim_goes_with_its_set_from_the_start(planes: Shared) -> Result<()> {
    let rig = start(&planes).await?;
    let late = rig.proxy.stall(Match::watches("persistentvolumeclaims"));
    let equipped = |object: &mut Value| {
        object["spec"]["persistentVolumeClaimRetentionPolicy"] = json!({"whenDeleted": "Delete"});
        object["spec"]["volumeClaimTemplates"] = json!([
            {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
        ]);
    };
    rig.create_stateful_set(1, equipped).await?;
    let set = rig.stateful_sets().get("web").await?.uid().context("no UID")?;
    let owners = wait::object(&rig.claims(), "data-web-0", "the claim", PATIENCE, |claim: &PersistentVolumeClaim| {
        Ok(claim.metadata.owner_references.clone().unwrap_or_default())
    })
    .await?;
    assert_eq!(owners.iter().map(|owner| (&owner.uid, owner.controller)).collect::<Vec<_>>(), [(&set, Some(true))]);
    // Nobody needed to see it for that.
    let puts = Match::of("persistentvolumeclaims").method(Method::PUT);
    assert_eq!(rig.proxy.seen(&puts), 0);
    late.release();
    rig.start_pod("web-0", None).await?;
    rig.rolled_out(1).await?;
    assert_eq!(rig.proxy.seen(&puts), 0);
    rig.claims().delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    end(rig, &planes).await
}

pub async fn sts_37_the_status_is_true_when_a_delete_fails(planes: Shared) -> Result<()> {
    let rig = start(&planes).await?;
    rig.create_stateful_set(2, |_| {}).await?;
    rig.start_pod("web-0", None).await?;
    rig.start_pod("web-1", None).await?;
    let before = rig.rolled_out(2).await?;
    let refused = rig.proxy.add(Rule::new(Match::deletes("pods"), Fault::Refuse(Moment::Before, Refusal::internal())));
    rig.set_template("2").await?;
    refused.takes(2, PATIENCE).await?;
    let rolling = rig.shows("another revision", |status| status.update_revision != before.update_revision).await?;
    let counts = [Some(rolling.replicas), rolling.current_replicas, rolling.ready_replicas, rolling.updated_replicas];
    assert_eq!(counts.map(Option::unwrap_or_default), [2, 2, 2, 0], "nothing has happened yet");
    rig.messages("StatefulSet", "web", "FailedDelete", 1).await?;
    refused.release();
    for pod in ["web-1", "web-0"] {
        rig.start_pod(pod, rolling.update_revision.as_deref()).await?;
    }
    rig.rolled_out(2).await?;
    end(rig, &planes).await
}

pub async fn sts_41_a_late_watch_takes_down_no_second_pod(planes: Shared) -> Result<()> {
    let rig = start(&planes).await?;
    let fleet = fleet(&rig, 1).await?;
    rig.create_stateful_set(3, |object| object["spec"]["podManagementPolicy"] = json!("Parallel")).await?;
    rig.rolled_out(3).await?;
    rig.proxy.add(Rule::new(Match::watches("pods"), Fault::Watch(WatchFault::Lag(Duration::from_secs(2)))));
    let pods = History::start(rig.pods()).await?;
    rig.set_template("2").await?;
    rig.rolled_out(3).await?;
    pods.always(|pods| {
        let ready = pods.values().filter(|pod| pod.metadata.deletion_timestamp.is_none() && is_ready(pod)).count();
        ensure!(ready >= 2, "{ready} ready pods");
        Ok(())
    })
    .await?;
    assert_eq!((pods.added().await?.len(), pods.deleted().await?.len()), (3, 3));
    fleet.shutdown().await?;
    end(rig, &planes).await
}

/// A create whose answer was lost, and a delete: one pod of each identity, whatever the program has heard of it.
pub async fn an_identity_has_one_pod_whatever_answers_are_lost(planes: Shared) -> Result<()> {
    let rig = start(&planes).await?;
    let fleet = fleet(&rig, 1).await?;
    let pods = History::start(rig.pods()).await?;
    let lost = Fault::Lose(Moment::After, e2e::proxy::Loss::Stream);
    let creates = rig.proxy.add(Rule::new(Match::creates("pods"), lost.clone()).when(When::first(2)));
    let deletes = rig.proxy.add(Rule::new(Match::deletes("pods"), lost).when(When::first(2)));
    rig.create_stateful_set(3, |_| {}).await?;
    rig.rolled_out(3).await?;
    creates.takes(2, PATIENCE).await?;
    rig.set_template("2").await?;
    rig.rolled_out(3).await?;
    deletes.takes(2, PATIENCE).await?;
    let made: Vec<_> = pods.added().await?.iter().map(ResourceExt::name_any).collect();
    assert_eq!(made, ["web-0", "web-1", "web-2", "web-2", "web-1", "web-0"]);
    assert_eq!(pods.deleted().await?.len(), 3);
    fleet.shutdown().await?;
    end(rig, &planes).await
}

pub async fn sts_15_a_set_that_goes_adopts_nothing_behind_the_caches_back(planes: Shared) -> Result<()> {
    let rig = start(&planes).await?;
    rig.create_stateful_set(1, |object| object["metadata"]["finalizers"] = json!(["example.com/hold"])).await?;
    rig.start_pod("web-0", None).await?;
    let revision = rig.rolled_out(1).await?.update_revision.context("no revision")?;
    // The cache never hears that the set is being deleted, and hears that its revision and its pod are free.
    let late = rig.proxy.stall(Match::watches("statefulsets"));
    rig.stateful_sets().delete("web", &DeleteParams::default()).await?;
    late.holds(1, PATIENCE).await?;
    let before = rig.proxy.seen(&adoption_checks());
    let free = Patch::Merge(json!({"metadata": {"ownerReferences": null}}));
    rig.revisions().patch(&revision, &PatchParams::default(), &free).await?;
    rig.patch_pod("web-0", json!({"metadata": {"ownerReferences": null}})).await?;
    wait::until("the program to ask whether it may adopt", PATIENCE, async || {
        let asked = rig.proxy.seen(&adoption_checks());
        ensure!(asked >= before + 2, "{asked} times, {before} before");
        Ok(())
    })
    .await?;
    let owners = |owners: Option<Vec<_>>| owners.unwrap_or_default().len();
    assert_eq!(owners(rig.revisions().get(&revision).await?.metadata.owner_references), 0);
    assert_eq!(owners(rig.pods().get("web-0").await?.metadata.owner_references), 0);
    let adoptions = Match::of("controllerrevisions").method(Method::PATCH);
    assert_eq!((rig.proxy.seen(&adoptions), rig.proxy.seen(&Match::of("pods").method(Method::PATCH))), (0, 0));
    late.release();
    rig.patch_stateful_set(json!({"metadata": {"finalizers": null}})).await?;
    end(rig, &planes).await
}

fn adoption_checks() -> Match {
    Match { watch: Some(false), list: Some(false), ..Match::of("statefulsets").method(Method::GET) }
}

/// A pod is deleted only as the one that it was when that was decided.
pub async fn a_pod_that_has_taken_a_condemned_ones_name_survives(planes: Shared) -> Result<()> {
    let rig = start(&planes).await?;
    rig.create_stateful_set(2, |_| {}).await?;
    rig.start_pod("web-0", None).await?;
    rig.start_pod("web-1", None).await?;
    rig.rolled_out(2).await?;
    let late = rig.proxy.stall(Match::watches("pods"));
    rig.pods().delete("web-1", &DeleteParams::default().grace_period(0)).await?;
    let stranger = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-1"}, "spec": pod_spec()});
    let stranger = rig.create("pods", &stranger).await?;
    late.holds(2, PATIENCE).await?;
    rig.patch_stateful_set(json!({"spec": {"replicas": 1}})).await?;
    wait::until("the delete", PATIENCE, async || {
        let deletes: Vec<_> = rig.proxy.requests_of(&Match::deletes("pods")).iter().map(|delete| delete.status).collect();
        ensure!(deletes.first() == Some(&Some(409)), "{deletes:?}");
        Ok(())
    })
    .await?;
    late.release();
    rig.rolled_out(1).await?;
    let there = rig.pods().get("web-1").await?;
    assert_eq!(there.uid().as_deref(), stranger["metadata"]["uid"].as_str());
    assert!(there.metadata.deletion_timestamp.is_none());
    end(rig, &planes).await
}

pub async fn ctl_04_a_late_watch_changes_no_stateful_set_in_the_end(planes: Shared) -> Result<()> {
    let rig = start(&planes).await?;
    let fleet = fleet(&rig, 1).await?;
    let witness = Witness::start(&rig).await?;
    for resource in ["pods", "statefulsets", "controllerrevisions"] {
        rig.proxy.add(Rule::new(Match::watches(resource), Fault::Watch(WatchFault::Lag(Duration::from_secs(1)))));
    }
    rig.create_stateful_set(2, |_| {}).await?;
    rig.rolled_out(2).await?;
    rig.set_template("2").await?;
    rig.rolled_out(2).await?;
    rig.patch_stateful_set(json!({"spec": {"replicas": 3}})).await?;
    rig.rolled_out(3).await?;
    rig.patch_stateful_set(json!({"spec": {"replicas": 1}})).await?;
    rig.rolled_out(1).await?;
    let seen = witness.of(5).await?;
    assert_eq!((rig.creates(), rig.deletes(), seen.made(), seen.peak), (5, 4, 5, 3));
    assert_eq!(rig.proxy.seen(&revision_creates()), 2);
    fleet.shutdown().await?;
    end(rig, &planes).await
}

/// Deletes the set and makes it again at once; waits until it has pods of its own.
async fn made_again(rig: &Rig) -> Result<()> {
    let old = rig.stateful_sets().get("web").await?.uid().context("no UID")?;
    rig.stateful_sets().delete("web", &DeleteParams::default()).await?;
    rig.create_stateful_set(2, |_| {}).await?;
    let new = rig.stateful_sets().get("web").await?.uid().context("no UID")?;
    // Nobody else collects garbage here.
    for pod in rig.all_pods().await? {
        rig.delete_pod(&pod.name_any()).await?;
    }
    wait::until("the new set's own pods", PATIENCE, async || {
        let (pods, old) = (rig.pods_of(&new).await?, rig.pods_of(&old).await?);
        ensure!((pods, old) == (2, 0), "{pods} of the new one, {old} of the old one");
        Ok(())
    })
    .await?;
    rig.rolled_out(2).await.map(drop)
}

pub async fn ctl_27_a_stateful_set_made_again_at_once_is_a_new_one(planes: Shared) -> Result<()> {
    let rig = start(&planes).await?;
    let fleet = fleet(&rig, 1).await?;
    rig.create_stateful_set(2, |_| {}).await?;
    rig.rolled_out(2).await?;
    made_again(&rig).await?;
    // A watch may show only the new one, with an event that says ADDED: the old one's end was compacted.
    let swallow = Fault::Watch(WatchFault::Swallow(EventMatch::of("DELETED").name("web")));
    let rule = rig.proxy.add(Rule::new(Match::watches("statefulsets"), swallow));
    made_again(&rig).await?;
    rule.takes(1, PATIENCE).await?;
    // A create that comes before the old pod has left its name is refused, and tried again.
    ensure!(rig.creates() >= 6 && rig.deletes() == 0, "{} creates, {} deletes", rig.creates(), rig.deletes());
    fleet.shutdown().await?;
    end(rig, &planes).await
}
