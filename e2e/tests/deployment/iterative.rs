//! Rollouts that are changed before they end, again and again.

use anyhow::{Result, ensure};
use e2e::wait;
use fastrand::Rng;
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::{Value, json};

use crate::looking::until_changed;
use crate::rig::{Shared, ensure_observed, revision_of, set_name, size_of};
use crate::support::{PATIENCE, Space, name_of};

const ITERATIONS: usize = 25;
const ROLLBACK: &str = "deprecated.deployment.rollback.to";

/// The environment's `SEED`, or a new one.
fn seed() -> Result<u64> {
    Ok(std::env::var("SEED").map_or_else(|_| Ok(fastrand::u64(..)), |seed| seed.parse())?)
}

pub(crate) async fn iterative_rollouts_should_eventually_progress(cluster: Shared) -> Result<()> {
    let seed = seed()?;
    println!("iterative_rollouts_should_eventually_progress: SEED={seed}");
    let mut random = Rng::with_seed(seed);
    let space = cluster.space("iterative").await?;
    space
        .create_deployment_with("web", 6, |object| {
            object["spec"]["progressDeadlineSeconds"] = json!(300);
            object["spec"]["revisionHistoryLimit"] = json!(2);
        })
        .await?;
    for iteration in 0..ITERATIONS {
        change(&space, &mut random, iteration).await?;
        // How far the controller gets before the next change. While it is paused nobody knows: perhaps there is no ReplicaSet yet.
        let paused = space.deployment("web").await?.spec.and_then(|spec| spec.paused) == Some(true);
        match random.u8(..4) {
            0 => {}
            1 => drop(space.observed("web").await?),
            _ if paused => {}
            2 => one_step(&space).await?,
            _ => partly_available(&space, &mut random).await?,
        }
    }
    space.pause("web", false).await?;
    // A rollback that is still to come is no change of the generation.
    space
        .deployment_shows("web", "no rollback to be asked for", |it| {
            let asked = it.metadata.annotations.iter().flatten().any(|(key, _)| key == ROLLBACK);
            ensure!(!asked, "one is");
            Ok(())
        })
        .await?;
    let done = space.complete("web").await?;
    space.condition("web", "Progressing", "NewReplicaSetAvailable").await?;
    settled(&space, &done).await
}

/// One random change by a user.
async fn change(space: &Space, random: &mut Rng, iteration: usize) -> Result<()> {
    let now = space.deployment("web").await?;
    let spec = now.spec.as_ref().unwrap();
    let (paused, replicas) = (spec.paused == Some(true), spec.replicas.unwrap_or(1));
    let scaled = match random.u8(..10) {
        0..3 => replicas + 1,
        3..6 => (replicas - 1).max(1),
        _ => replicas,
    };
    let mut patch = json!({"spec": {"replicas": scaled}});
    match random.u8(..5) {
        0 => patch["spec"]["template"] = json!({"metadata": {"annotations": {"iteration": iteration.to_string()}}}),
        1 => patch = json!({"metadata": {"annotations": {ROLLBACK: "0"}}}),
        2 => {}
        3 => patch["spec"]["paused"] = json!(!paused),
        _ => return delete_pods(space, random).await,
    }
    space.patch_deployment("web", patch).await.map(drop)
}

/// Deletes about half of the pods.
async fn delete_pods(space: &Space, random: &mut Rng) -> Result<()> {
    for pod in space.all_pods().await? {
        if random.bool() {
            // The controller may have been faster.
            drop(space.delete_pod(&name_of(&pod)).await);
        }
    }
    Ok(())
}

/// Waits until the status changes once more, if it has not come to rest.
async fn one_step(space: &Space) -> Result<()> {
    let before = space.observed("web").await?;
    until_changed(&space.deployments(), "another status", async || {
        let now = space.deployment("web").await?;
        let rests = available(&now) == Some(size(&now));
        ensure!(rests || now.status != before.status, "it is the same");
        Ok(())
    })
    .await
}

/// Waits until a random part of the pods is available.
async fn partly_available(space: &Space, random: &mut Rng) -> Result<()> {
    let part = random.i32(1..=4);
    space
        .deployment_shows("web", &format!("{part} quarters of it to be available"), |it| {
            ensure_observed(it)?;
            let available = available(it).unwrap_or(0);
            ensure!(available * 4 >= size(it) * part, "{available} are");
            Ok(())
        })
        .await
}

fn available(it: &Deployment) -> Option<i32> {
    it.status.as_ref()?.available_replicas
}

fn size(it: &Deployment) -> i32 {
    it.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

/// Everything is as one rollout, done in peace, would have left it.
async fn settled(space: &Space, done: &Deployment) -> Result<()> {
    let newest = space.new_set("web").await?;
    space.ready_pods(&set_name(&newest), usize::try_from(size(done))?).await?;
    wait::until("the old pods and all but two old ReplicaSets to go", PATIENCE, async || {
        let (pods, sets) = (space.all_pods().await?.len(), space.replica_sets_of("web").await?);
        let sizes: Vec<_> = sets.iter().map(size_of).collect();
        ensure!(pods == usize::try_from(size(done))?, "{pods} pods");
        ensure!(sets.len() <= 3 && sizes.iter().sum::<i32>() == size(done), "ReplicaSets of {sizes:?}");
        Ok(())
    })
    .await?;
    // No template twice, no revision twice.
    let sets = space.replica_sets_of("web").await?;
    let mut templates: Vec<Value> = Vec::new();
    for set in &sets {
        let mut template = json!(set.spec.as_ref().unwrap().template);
        template["metadata"]["labels"].as_object_mut().unwrap().remove(crate::rig::HASH);
        ensure!(!templates.contains(&template), "two ReplicaSets have the template {template}");
        templates.push(template);
    }
    let mut revisions: Vec<_> = sets.iter().map(|set| revision_of(&set.metadata)).collect();
    revisions.dedup();
    ensure!(revisions.len() == sets.len() && revisions.iter().all(Option::is_some), "revisions {revisions:?}");
    Ok(())
}
