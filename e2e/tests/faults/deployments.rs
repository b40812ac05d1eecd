//! Deployments, with both controllers behind the proxy.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::proxy::{EventMatch, Fault, Match, Moment, Recording, Refusal, Rule, WatchFault, When};
use e2e::wait;
use http::Method;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use kube::api::{Api, DeleteParams, ListParams, Patch};
use kube::config::{KubeConfigOptions, Kubeconfig};
use nodes::{Fleet, FleetOptions, SchedulerOptions};
use serde_json::{Value, json};

use crate::rig::{Rig, Shared, Witness};
use crate::support::{PATIENCE, Space, name_of, patched, pod_spec};

/// The Deployments of a scenario's namespace.
impl Space {
    pub fn deployments(&self) -> Api<Deployment> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// A Deployment with that surge, none of whose pods may be unavailable unless `unavailable` says so.
    pub async fn create_deployment(&self, name: &str, replicas: i32, surge: Value, unavailable: i32) -> Result<()> {
        let labels = json!({"app": name});
        let object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {
                "replicas": replicas, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod_spec()},
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}},
            },
        });
        self.request(Method::POST, "/apis/apps/v1", "deployments", &object).await.map(drop)
    }

    pub async fn patch_deployment(&self, name: &str, patch: Value) -> Result<()> {
        patched(&self.deployments(), name, &Patch::Merge(patch)).await?;
        Ok(())
    }

    pub async fn scale_deployment(&self, name: &str, replicas: i32) -> Result<()> {
        self.patch_deployment(name, json!({"spec": {"replicas": replicas}})).await
    }

    /// Begins a rollout.
    pub async fn set_version(&self, name: &str, version: i32) -> Result<()> {
        let annotations = json!({"version": version.to_string()});
        self.patch_deployment(name, json!({"spec": {"template": {"metadata": {"annotations": annotations}}}})).await
    }

    /// The ReplicaSets of a Deployment, those with the lowest revision first.
    pub async fn sets_of(&self, name: &str) -> Result<Vec<ReplicaSet>> {
        let mut sets = self.sets().list(&ListParams::default().labels(&format!("app={name}"))).await?.items;
        sets.sort_by_key(|set| note(set, "revision").parse::<i64>().ok());
        Ok(sets)
    }

    /// Waits until these are the sizes of a Deployment's ReplicaSets, and of their statuses.
    pub async fn sizes(&self, name: &str, sizes: &[i32]) -> Result<Vec<ReplicaSet>> {
        wait::until(&format!("the ReplicaSets of {name} to have the sizes {sizes:?}"), PATIENCE, async || {
            let sets = self.sets_of(name).await?;
            let seen: Vec<_> = sets.iter().map(|set| (size(set), set.status.as_ref().map_or(0, |status| status.replicas))).collect();
            ensure!(seen.iter().copied().eq(sizes.iter().map(|size| (*size, *size))), "they have {seen:?}");
            Ok(sets)
        })
        .await
    }

    /// Waits until a rollout is complete, and nothing old is left.
    pub async fn complete(&self, name: &str, within: Duration) -> Result<Deployment> {
        wait::object(&self.deployments(), name, &format!("{name} to be complete"), within, |it: &Deployment| {
            let status = it.status.clone().unwrap_or_default();
            ensure!(status.observed_generation == it.metadata.generation, "generation {:?}", status.observed_generation);
            let wanted = it.spec.as_ref().and_then(|spec| spec.replicas);
            let counts = [status.replicas, status.updated_replicas, status.available_replicas].map(Option::unwrap_or_default);
            ensure!(counts == [wanted.unwrap_or(1); 3], "{counts:?}");
            Ok(it.clone())
        })
        .await
    }
}

/// The program with both controllers.
pub async fn run_both(rig: &mut Rig) -> Result<()> {
    let program = rig.launch().controllers(["deployment-controller", "replicaset-controller"]).start().await?;
    let log = rig.manager.insert(program).log().to_owned();
    wait::until("the controllers to start", PATIENCE, async || {
        ensure!(std::fs::read_to_string(&log)?.contains("Controllers started"), "they have not");
        Ok(())
    })
    .await
}

pub async fn start(planes: &Shared) -> Result<Rig> {
    let mut rig = Rig::prepare(planes).await?;
    run_both(&mut rig).await?;
    Ok(rig)
}

/// As [`Rig::end`]; nobody who comes next is to find a Deployment.
pub async fn end(rig: Rig, planes: &Shared) -> Result<()> {
    rig.deployments().delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    rig.end(planes).await
}

/// Nodes that run every pod; they see past the proxy.
pub async fn fleet(rig: &Rig, count: u32) -> Result<Fleet> {
    let kubeconfig = Kubeconfig::read_from(rig.plane.admin_kubeconfig())?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let scheduler = Some(SchedulerOptions::default());
    Fleet::start(&config, FleetOptions { count, pods_per_node: 1000, scheduler, ..FleetOptions::default() }).await
}

fn size(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

/// What a Deployment notes on its ReplicaSet.
fn note(set: &ReplicaSet, what: &str) -> String {
    let key = format!("deployment.kubernetes.io/{what}");
    set.metadata.annotations.as_ref().and_then(|all| all.get(&key)).cloned().unwrap_or_default()
}

fn notes(sets: &[ReplicaSet]) -> Vec<(i32, String, String)> {
    sets.iter().map(|set| (size(set), note(set, "desired-replicas"), note(set, "max-replicas"))).collect()
}

fn set_name(set: &ReplicaSet) -> Result<String> {
    set.metadata.name.clone().context("no name")
}

fn scalings() -> Match {
    Match::of("replicasets").method(Method::PATCH).subresource("")
}

fn statuses() -> Match {
    Match::of("deployments").method(Method::PUT).subresource("status")
}

/// Takes a Deployment away, with all its sets: nobody collects garbage here.
async fn take_away(rig: &Rig, name: &str) -> Result<()> {
    rig.deployments().delete(name, &DeleteParams::default()).await?;
    let of_it = ListParams::default().labels(&format!("app={name}"));
    rig.sets().delete_collection(&DeleteParams::default(), &of_it).await?;
    wait::list(&rig.sets(), &of_it, "its sets to be gone", PATIENCE, |sets| {
        ensure!(sets.is_empty(), "{} are there", sets.len());
        Ok(())
    })
    .await
}

/// Waits until the Deployment `web` is complete, and returns its only set's name.
async fn only_set(rig: &Rig, collisions: Option<i32>) -> Result<String> {
    let done = rig.complete("web", PATIENCE).await?;
    assert_eq!(done.status.and_then(|status| status.collision_count), collisions);
    let sets = rig.sets_of("web").await?;
    ensure!(sets.len() == 1, "{} sets", sets.len());
    set_name(&sets[0])
}

pub async fn dep_03_a_name_that_is_taken_is_tried_once_for_each_status_that_is_written(planes: Shared) -> Result<()> {
    const CONFLICTS: u64 = 3;
    let mut rig = start(&planes).await?;
    rig.create_deployment("web", 0, json!(1), 0).await?;
    let taken = only_set(&rig, None).await?;
    take_away(&rig, "web").await?;
    rig.create_set(&taken, 0).await?;

    let before = rig.proxy.requests().len();
    let conflict = Fault::Refuse(Moment::Before, Refusal::conflict());
    let conflicts = rig.proxy.add(Rule::new(statuses(), conflict).when(When::first(CONFLICTS)));
    rig.create_deployment("web", 0, json!(1), 0).await?;
    conflicts.takes(CONFLICTS, PATIENCE).await?;
    let found = only_set(&rig, Some(1)).await?;
    assert_ne!(found, taken);
    let (creates, statuses) = (Match::creates("replicasets"), statuses());
    let mut written = true;
    let mut tries = Vec::new();
    for request in &rig.proxy.requests()[before..] {
        if creates.accepts(&request.target) {
            assert!(written, "no status was written between two tries: {tries:?}");
            written = false;
            tries.push(request.status);
        }
        written |= statuses.accepts(&request.target);
    }
    assert_eq!(tries, [Some(409), Some(409), Some(409), Some(409), Some(201)]);

    // The next name is the same for a program that knows of nothing.
    rig.kill9().await?;
    take_away(&rig, "web").await?;
    run_both(&mut rig).await?;
    rig.create_deployment("web", 0, json!(1), 0).await?;
    assert_eq!(only_set(&rig, Some(1)).await?, found);
    end(rig, &planes).await
}

pub async fn dep_04_its_own_set_behind_the_caches_back_is_no_collision(planes: Shared) -> Result<()> {
    let mut rig = Rig::prepare(&planes).await?;
    let past = Recording::new();
    let record = rig.proxy.add(Rule::new(Match::lists("replicasets"), Fault::Record(past.clone())));
    run_both(&mut rig).await?;
    assert_eq!(past.len(), 1);
    record.release();
    rig.create_deployment("web", 1, json!(1), 0).await?;
    let set = set_name(&rig.sizes("web", &[1]).await?[0])?;
    rig.kill9().await?;

    // Without the set, and with something to be done about it.
    rig.scale_deployment("web", 2).await?;
    let hidden = rig.proxy.add(Rule::new(Match::lists("replicasets"), Fault::Replay(Moment::Before, past)));
    let before = rig.proxy.seen(&Match::creates("replicasets"));
    run_both(&mut rig).await?;
    wait::object(&rig.sets(), &set, "it to be scaled", PATIENCE, |set: &ReplicaSet| {
        ensure!(size(set) == 2, "{}", size(set));
        Ok(())
    })
    .await?;
    let tries: Vec<_> = rig.proxy.requests_of(&Match::creates("replicasets"))[before..].iter().map(|create| create.status).collect();
    assert_eq!(tries, [Some(409)]);
    hidden.release();
    rig.sizes("web", &[2]).await?;
    rig.settled(&set, 2).await?;
    let web = wait::object(&rig.deployments(), "web", "two replicas", PATIENCE, |web: &Deployment| {
        let status = web.status.clone().unwrap_or_default();
        ensure!(status.replicas == Some(2), "{:?}", status.replicas);
        Ok(status)
    })
    .await?;
    assert_eq!(web.collision_count, None);
    assert_eq!(rig.proxy.seen(&Match::creates("replicasets")), before + 1, "one try was enough");
    end(rig, &planes).await
}

/// A rollout of ten, at most 13 of which there are and eight available, that a bad template has stopped.
async fn stopped(rig: &Rig, name: &str) -> Result<[String; 2]> {
    rig.create_deployment(name, 10, json!(3), 2).await?;
    let old = set_name(&rig.sizes(name, &[10]).await?[0])?;
    for pod in rig.settled(&old, 10).await? {
        rig.make_ready(&name_of(&pod), 100).await?;
    }
    rig.complete(name, PATIENCE).await?;
    rig.set_version(name, 2).await?;
    let sets = rig.sizes(name, &[8, 5]).await?;
    wait::object(&rig.deployments(), name, "13 replicas", PATIENCE, |it: &Deployment| {
        let status = it.status.clone().unwrap_or_default();
        ensure!((status.replicas, status.available_replicas) == (Some(13), Some(8)), "{status:?}");
        Ok(())
    })
    .await?;
    Ok([old, set_name(&sets[1])?])
}

/// 8 and 5 times 23/13, rounded.
const SCALED: [i32; 2] = [14, 9];

fn scaled_notes() -> Vec<(i32, String, String)> {
    SCALED.map(|size| (size, "20".to_owned(), "23".to_owned())).to_vec()
}

pub async fn dep_16_a_change_of_size_that_was_interrupted_ends_in_proportion(planes: Shared) -> Result<()> {
    let mut rig = start(&planes).await?;
    stopped(&rig, "web").await?;
    // The first one of them comes through.
    let second = When { skip: 1, ..When::ALWAYS };
    let lost = rig.proxy.add(Rule::new(scalings(), Fault::Refuse(Moment::Before, Refusal::internal())).when(second));
    rig.scale_deployment("web", 20).await?;
    lost.takes(1, PATIENCE).await?;
    rig.kill9().await?;
    lost.release();
    assert_eq!(rig.sets_of("web").await?.iter().map(size).collect::<Vec<_>>(), [SCALED[0], 5]);
    run_both(&mut rig).await?;
    assert_eq!(notes(&rig.sizes("web", &SCALED).await?), scaled_notes());
    end(rig, &planes).await
}

pub async fn dep_37_a_conflict_is_decided_again_from_what_is_there(planes: Shared) -> Result<()> {
    let rig = start(&planes).await?;
    stopped(&rig, "calm").await?;
    rig.scale_deployment("calm", 20).await?;
    assert_eq!(notes(&rig.sizes("calm", &SCALED).await?), scaled_notes());

    let sets = stopped(&rig, "web").await?;
    let before = rig.proxy.seen(&scalings());
    let stall = rig.proxy.stall(Match::watches("replicasets"));
    for set in &sets {
        rig.patch_set(set, json!({"metadata": {"annotations": {"touched": "yes"}}})).await?;
    }
    stall.holds(2, PATIENCE).await?;
    rig.scale_deployment("web", 20).await?;
    wait::until("a conflict", PATIENCE, async || {
        let seen = &rig.proxy.requests_of(&scalings())[before..];
        ensure!(seen.iter().any(|scaling| scaling.status == Some(409)), "{} scalings", seen.len());
        Ok(())
    })
    .await?;
    stall.release();
    let ended = rig.sizes("web", &SCALED).await?;
    assert_eq!(notes(&ended), scaled_notes());
    assert!(ended.iter().all(|set| set.metadata.annotations.as_ref().is_some_and(|all| all["touched"] == "yes")), "it was left alone");
    let scalings = &rig.proxy.requests_of(&scalings())[before..];
    let done = scalings.iter().filter(|scaling| scaling.status == Some(200)).count();
    assert_eq!(done, 2, "of {}", scalings.len());
    assert!(scalings.len() < 20, "{} tries", scalings.len());
    end(rig, &planes).await
}

pub async fn ctl_04_a_late_watch_changes_no_rollout_in_the_end(planes: Shared) -> Result<()> {
    let rig = start(&planes).await?;
    let fleet = fleet(&rig, 1).await?;
    let witness = Witness::start(&rig).await?;
    for resource in ["pods", "replicasets", "deployments"] {
        let lag = WatchFault::Lag(Duration::from_secs(2));
        rig.proxy.add(Rule::new(Match::watches(resource), Fault::Watch(lag)));
    }
    rig.create_deployment("web", 3, json!("100%"), 0).await?;
    rig.complete("web", PATIENCE * 2).await?;
    rig.set_version("web", 2).await?;
    rig.complete("web", PATIENCE * 2).await?;
    rig.scale_deployment("web", 5).await?;
    rig.complete("web", PATIENCE * 2).await?;
    rig.set_version("web", 3).await?;
    let done = rig.complete("web", PATIENCE * 2).await?;
    assert_eq!(done.status.and_then(|status| status.collision_count), None);
    rig.sizes("web", &[0, 0, 5]).await?;
    let seen = witness.of(13).await?;
    assert_eq!((rig.creates(), rig.deletes(), seen.made()), (13, 8, 13));
    assert_eq!(rig.proxy.seen(&Match::creates("replicasets")), 3);
    fleet.shutdown().await?;
    end(rig, &planes).await
}

pub async fn ctl_27_a_deployment_made_again_at_once_is_a_new_one(planes: Shared) -> Result<()> {
    let rig = start(&planes).await?;
    let fleet = fleet(&rig, 1).await?;
    let make = || rig.create_deployment("web", 2, json!(1), 0);
    make().await?;
    rig.complete("web", PATIENCE).await?;
    let again = async || -> Result<()> {
        rig.deployments().delete("web", &DeleteParams::default()).await?;
        make().await?;
        let new = rig.complete("web", PATIENCE).await?;
        // Its template is the old one's, and the name of that one's ReplicaSet is taken: nobody collects garbage here.
        let uid = new.metadata.uid.context("no UID")?;
        let is_its = |set: &ReplicaSet| set.metadata.owner_references.iter().flatten().any(|owner| owner.uid == uid);
        let sets = rig.sets().list(&ListParams::default()).await?.items;
        let its: Vec<_> = sets.iter().filter(|set| is_its(set)).map(size).collect();
        ensure!(its == [2], "its ReplicaSets have the sizes {its:?}, of {} in all", sets.len());
        Ok(())
    };
    again().await?;
    // A watch may show only the new one, with an event that says ADDED: the old one's end was compacted.
    let swallow = WatchFault::Swallow(EventMatch::of("DELETED").name("web"));
    let rule = rig.proxy.add(Rule::new(Match::watches("deployments"), Fault::Watch(swallow)));
    again().await?;
    rule.takes(1, PATIENCE).await?;
    assert_eq!((rig.creates(), rig.deletes()), (6, 0));
    fleet.shutdown().await?;
    end(rig, &planes).await
}
