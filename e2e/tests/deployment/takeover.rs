//! From kube-controller-manager to the subject and back: no new ReplicaSet, no pod replaced, and what has begun goes on.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use e2e::controlplane::ControllerManager;
use e2e::{ControlPlane, wait};
use http::Method;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use nodes::{Behaviour, Fate, Fleet, Matching};
use serde_json::{Value, json};

use crate::history::History;
use crate::rig::{CONTROLLERS, Shared, Subject, control_plane, deployment, fleet, rolling, set_name, size_of};
use crate::support::templates::{
    Change, amounts, constrained, described, markup, newer_fields, nothing_further_inside, nothing_in_many_forms, numbers, of_late,
    quantities, quantities_respelled, sorted_oddly,
};
use crate::support::{PATIENCE, Space, name_of};

/// A Deployment of two replicas that is hard to take over.
struct Case {
    name: String,
    change: Change,
}

/// A control plane where the controllers change hands.
struct World {
    // Fields are dropped in this order: clients end before their server.
    fleet: Fleet,
    plane: ControlPlane,
    /// Deployments at rest.
    calm: Space,
    /// Rollouts under way.
    moving: Space,
}

/// What must not change when the hands do.
#[derive(PartialEq, Debug)]
struct Kept {
    sets: BTreeSet<String>,
    pods: BTreeSet<String>,
}

fn expressions(object: &mut Value) {
    let label = object["spec"]["selector"]["matchLabels"]["app"].take();
    object["spec"]["selector"] = json!({"matchExpressions": [
        {"key": "app", "operator": "In", "values": [label, "another"]}, {"key": "excluded", "operator": "DoesNotExist"},
    ]});
}

fn no_deadline(object: &mut Value) {
    object["spec"]["progressDeadlineSeconds"] = json!(i32::MAX);
    object["spec"]["minReadySeconds"] = json!(1);
    object["spec"]["revisionHistoryLimit"] = json!(i32::MAX);
    rolling(object, "100%", "0%");
}

fn recreate(object: &mut Value) {
    object["spec"]["strategy"] = json!({"type": "Recreate"});
}

fn long_name() -> String {
    "a".repeat(250)
}

fn cases() -> Vec<Case> {
    let plain = |_: &mut Value| {};
    let cases: [(&str, Change); 18] = [
        ("plain", plain),
        ("amounts", amounts),
        ("constrained", constrained),
        ("sorted-oddly", sorted_oddly),
        ("described", described),
        ("numbers", numbers),
        ("of-late", of_late),
        ("quantities", quantities),
        ("respelled", quantities_respelled),
        ("nothing", nothing_in_many_forms),
        ("nested", nothing_further_inside),
        ("markup", markup),
        ("newer", newer_fields),
        ("expressions", expressions),
        ("no-deadline", no_deadline),
        ("recreate", recreate),
        ("rolled-back", plain),
        ("collided", plain),
    ];
    let long = Case { name: long_name(), change: |object| object["metadata"]["name"] = json!(long_name()) };
    cases.into_iter().map(|(name, change)| Case { name: name.to_owned(), change }).chain([long]).collect()
}

impl World {
    async fn start() -> Result<Self> {
        let plane = control_plane(ControllerManager::default().unlimited()).await?;
        let (calm, moving) = (Space::new(&plane, "calm").await?, Space::new(&plane, "moving").await?);
        Ok(Self { fleet: fleet(&plane).await?, plane, calm, moving })
    }

    /// Pods in `moving` start, or not: those that run go on running.
    async fn start_pods(&self, start: bool) {
        let never = (!start).then(|| Behaviour::of(Fate::NeverStart));
        self.fleet.set_matching(Matching::namespace(&self.moving.namespace), never).await;
    }

    /// Makes all Deployments, and brings each where it is to be.
    async fn make(&self) -> Result<()> {
        let space = &self.calm;
        // The Deployment `respelled` finds its ReplicaSet made by somebody who spells otherwise.
        space.create_set_with("by-hand", 2, respelled_by_hand).await?;
        for case in cases() {
            // A long name is no label.
            let label = &case.name[..case.name.len().min(63)];
            let mut object = deployment(label, 2);
            (case.change)(&mut object);
            space.apps(Method::POST, "deployments", &object).await.with_context(|| case.name.clone())?;
        }
        for case in cases() {
            space.complete(&case.name).await?;
        }
        assert_eq!(set_name(&space.new_set("respelled").await?), "by-hand", "upstream takes it for the same template");
        roll_back(space).await?;
        collide(space).await?;
        space.create_deployment_with("untouched", 2, markup).await?;
        space.create_deployment("paused", 2).await?;
        space.complete("untouched").await?;
        space.complete("paused").await?;
        space.condition("untouched", "Progressing", "NewReplicaSetAvailable").await?;
        space.pause("paused", true).await?;
        space.set_image("paused", "registry.example/app:2").await?;
        space.observed("paused").await?;

        let space = &self.moving;
        space.create_deployment_with("rolling", 10, |object| rolling(object, 3, 2)).await?;
        let held = |object: &mut Value| {
            recreate(object);
            object["spec"]["template"]["metadata"]["finalizers"] = json!(["test.example/held"]);
        };
        space.create_deployment_with("recreated", 2, held).await?;
        space.complete("rolling").await?;
        space.complete("recreated").await?;
        Ok(())
    }

    /// Begins rollouts that stop half way.
    async fn set_out(&self, revision: usize) -> Result<()> {
        let space = &self.moving;
        self.start_pods(false).await;
        let image = format!("registry.example/app:{revision}");
        let first = |count: usize| vec![0; count - 2];
        space.set_image("rolling", &image).await?;
        space.sizes("rolling", &[first(revision), vec![8, 5]].concat()).await?;
        // The old pods do not go, and the new ones wait for that.
        space.set_image("recreated", &image).await?;
        space.sizes("recreated", &vec![0; revision - 1]).await?;
        wait::until("the old pods to terminate", PATIENCE, async || {
            let pods = space.all_pods().await?;
            let held = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_some()).count();
            ensure!(held == 2, "{held} do");
            Ok(())
        })
        .await
    }

    /// Lets the rollouts go on, and waits for their end.
    async fn arrive(&self, revision: usize) -> Result<()> {
        let space = &self.moving;
        let newest = set_name(&space.new_set("rolling").await?);
        let begun = names(&space.active_pods(&newest).await?);
        self.start_pods(true).await;
        self.release().await?;
        for (name, size) in [("rolling", 10), ("recreated", 2)] {
            space.complete(name).await?;
            space.sizes(name, &[vec![0; revision - 1], vec![size]].concat()).await?;
            let pods = names(&space.new_pods(name, usize::try_from(size)?).await?);
            ensure!(name != "rolling" || begun.is_subset(&pods), "of the pods {begun:?} that were made before only {pods:?} are left");
        }
        Ok(())
    }

    /// Lets the pods go that terminate.
    async fn release(&self) -> Result<()> {
        for pod in self.moving.all_pods().await?.iter().filter(|pod| pod.metadata.deletion_timestamp.is_some()) {
            self.moving.patch_pod(&name_of(pod), json!({"metadata": {"finalizers": null}})).await?;
        }
        Ok(())
    }

    /// Asks for one more pod of each Deployment at rest, so that nobody can overlook one: that pod is all that changes.
    async fn grow(&self, replicas: i32) -> Result<()> {
        let space = &self.calm;
        let (sets, pods) = (History::start(space.sets()).await?, History::start(space.pods()).await?);
        let names: Vec<_> = cases().into_iter().map(|case| case.name).chain(["paused".to_owned()]).collect();
        for name in &names {
            space.scale_deployment(name, replicas).await?;
        }
        for name in &names {
            grown(space, name, replicas).await.with_context(|| format!("{name} after a change of hands"))?;
        }
        let (added, deleted) = (sets.added().await?, sets.deleted().await?);
        ensure!(added.is_empty(), "new ReplicaSets: {:?}", added.iter().map(set_name).collect::<Vec<_>>());
        ensure!(deleted.is_empty(), "lost ReplicaSets: {:?}", deleted.iter().map(set_name).collect::<Vec<_>>());
        let (added, deleted) = (pods.added().await?.len(), pods.deleted().await?.len());
        ensure!((added, deleted) == (names.len(), 0), "{added} new pods for {} Deployments, {deleted} lost ones", names.len());
        Ok(())
    }

    /// Another template for each Deployment at rest, so that its newest ReplicaSet is made by whoever is at work now.
    async fn renew(&self) -> Result<()> {
        for case in cases() {
            self.calm.set_image(&case.name, "registry.example/app:9").await?;
        }
        for case in cases() {
            self.calm.complete(&case.name).await.with_context(|| case.name)?;
        }
        Ok(())
    }

    /// The ReplicaSets and the pods of the rollouts under way.
    async fn under_way(&self) -> Result<Kept> {
        let sets = self.moving.sets().list(&ListParams::default()).await?.items;
        let pods = self.moving.all_pods().await?;
        Ok(Kept { sets: sets.iter().map(set_name).collect(), pods: names(&pods) })
    }

    /// The versions of a Deployment that nobody asks anything of, and of its ReplicaSet.
    async fn untouched(&self) -> Result<[Option<String>; 2]> {
        let set = self.calm.new_set("untouched").await?;
        Ok([self.calm.deployment("untouched").await?.metadata.resource_version, set.metadata.resource_version])
    }
}

fn names(pods: &[Pod]) -> BTreeSet<String> {
    pods.iter().map(name_of).collect()
}

/// The ReplicaSet that the Deployment `respelled` finds.
fn respelled_by_hand(set: &mut Value) {
    let mut object = deployment("respelled", 2);
    quantities(&mut object);
    set["metadata"]["labels"] = json!({"app": "respelled"});
    for field in ["selector", "template"] {
        set["spec"][field] = object["spec"][field].take();
    }
}

/// Two more templates, and back to the first one: the newest ReplicaSet is the oldest.
async fn roll_back(space: &Space) -> Result<()> {
    for image in ["registry.example/app:2", "registry.example/app:3", "registry.example/app:1"] {
        space.set_image("rolled-back", image).await?;
        space.complete("rolled-back").await?;
    }
    space.sizes("rolled-back", &[0, 0, 2]).await.map(drop)
}

/// Changes the template under a ReplicaSet. The next one would have the same name, and gets another.
async fn collide(space: &Space) -> Result<()> {
    let set = set_name(&space.new_set("collided").await?);
    space.patch_set(&set, json!({"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 1}}}})).await?;
    space
        .deployment_shows("collided", "a collision", |it| {
            let count = it.status.as_ref().and_then(|status| status.collision_count);
            ensure!(count == Some(1), "{count:?}");
            Ok(())
        })
        .await?;
    space.complete("collided").await?;
    space.sizes("collided", &[0, 2]).await.map(drop)
}

/// Waits until the Deployment has that many pods, and says so.
async fn grown(space: &Space, name: &str, replicas: i32) -> Result<()> {
    space
        .deployment_shows(name, &format!("it to have {replicas} replicas"), |it| {
            crate::rig::ensure_observed(it)?;
            let status = it.status.clone().unwrap_or_default();
            let counts = [status.replicas, status.available_replicas];
            ensure!(counts == [Some(replicas); 2], "{}", json!(status));
            Ok(())
        })
        .await?;
    let total: i32 = space.replica_sets_of(name).await?.iter().map(size_of).sum();
    ensure!(total == replicas, "its ReplicaSets have {total}");
    Ok(())
}

pub(crate) async fn a_change_of_hands_and_back_makes_no_replica_set_and_replaces_no_pod(cluster: Shared) -> Result<()> {
    let world = World::start().await?;
    let mut theirs = Subject::Upstream.start(&world.plane, &CONTROLLERS).await?;
    world.make().await?;
    world.set_out(2).await?;
    let (before, untouched) = (world.under_way().await?, world.untouched().await?);
    theirs.stop().await?;

    let mut subject = cluster.subject.start(&world.plane, &CONTROLLERS).await?;
    world.grow(3).await?;
    ensure!(world.under_way().await? == before, "the rollouts went on before they could");
    ensure!(world.untouched().await? == untouched, "what nobody had changed was written");
    world.arrive(2).await?;

    world.renew().await?;
    world.set_out(3).await?;
    let before = world.under_way().await?;
    subject.stop().await?;
    let mut theirs = Subject::Upstream.start(&world.plane, &CONTROLLERS).await?;
    world.grow(4).await?;
    ensure!(world.under_way().await? == before, "the rollouts went on before they could");
    ensure!(world.untouched().await? == untouched, "what nobody had changed was written");
    world.arrive(3).await?;
    theirs.stop().await
}
