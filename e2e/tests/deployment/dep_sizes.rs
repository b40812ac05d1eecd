//! Changes of size before, in and besides rollouts. Named after the rows of the bug corpus.

use anyhow::{Context as _, Result, ensure};
use e2e::wait;
use k8s_openapi::api::apps::v1::ReplicaSet;
use serde_json::json;

use crate::by_hand::path;
use crate::history::{Change, History};
use crate::rig::{Shared, Subject, rolling, set_name, size_of};
use crate::rollouts::{never_fewer_ready, never_larger};
use crate::support::{PATIENCE, Space, name_of};

const NEXT: &str = "registry.example/app:2";
const AFTER_NEXT: &str = "registry.example/app:3";
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const MOST: &str = "deployment.kubernetes.io/max-replicas";

/// The size, and the Deployment's notes about it.
fn notes(set: &ReplicaSet) -> [String; 3] {
    let note = |key: &str| set.metadata.annotations.as_ref().and_then(|all| all.get(key)).cloned().unwrap_or_default();
    [size_of(set).to_string(), note(DESIRED), note(MOST)]
}

/// A deliberate difference: upstream's controller stays frozen (kubernetes/kubernetes#138840).
pub(crate) async fn dep_15_a_wrong_note_of_the_size_is_repaired_and_stops_no_rollout(cluster: Shared) -> Result<()> {
    if cluster.subject == Subject::Upstream {
        println!("dep_15 is left out: kube-controller-manager never gets past it (kubernetes/kubernetes#138840)");
        return Ok(());
    }
    let space = cluster.space("notes").await?;
    space.create_deployment("web", 2).await?;
    space.complete("web").await?;
    let set = set_name(&space.new_set("web").await?);
    let wrong = json!({"metadata": {"annotations": {DESIRED: "5", MOST: "7"}}});
    space.patch_set(&set, wrong.clone()).await?;
    wait::object(&space.sets(), &set, "its notes to be repaired", PATIENCE, |set| {
        ensure!(notes(set) == ["2", "2", "3"], "{:?}", notes(set));
        Ok(())
    })
    .await?;
    space.patch_set(&set, wrong).await?;
    space.set_image("web", NEXT).await?;
    space.complete("web").await?;
    space.sizes("web", &[0, 2]).await.map(drop)
}

pub(crate) async fn dep_18_a_change_of_both_scales_first_and_then_rolls(cluster: Shared) -> Result<()> {
    let space = cluster.space("both").await?;
    space.create_deployment("web", 4).await?;
    space.complete("web").await?;
    let (pods, sets) = (History::start(space.pods()).await?, History::start(space.sets()).await?);
    let image = json!([{"name": "main", "image": NEXT}]);
    let both = json!({"spec": {"replicas": 6, "template": {"spec": {"containers": image}}}});
    space.patch_deployment("web", both).await?;
    space.complete("web").await?;
    let path = path(&sets).await?;
    assert_eq!(path[..2], [vec![4], vec![6]], "{path:?}");
    assert_eq!(path.last(), Some(&vec![0, 6]), "{path:?}");
    never_fewer_ready(&pods, 4).await?;
    never_larger(&sets, 8).await
}

/// A rollout of ten, at most 13 of which there are and eight available, that a bad template has stopped.
async fn stopped(space: &Space) -> Result<Vec<ReplicaSet>> {
    space.standing(10, |object| rolling(object, 3, 2)).await?;
    space.set_image("web", NEXT).await?;
    space.at_rest(&[8, 5]).await
}

pub(crate) async fn dep_19_three_revisions_with_pods_are_scaled_in_one_pass(cluster: Shared) -> Result<()> {
    let space = cluster.space("stacked").await?;
    let second = set_name(&stopped(&space).await?[1]);
    space.make_one_ready(&second).await?;
    space.make_one_ready(&second).await?;
    space.at_rest(&[6, 7]).await?;
    space.set_image("web", AFTER_NEXT).await?;
    space.at_rest(&[6, 2, 5]).await?;
    space.stays(&[6, 2, 5]).await?;

    let history = History::start(space.sets()).await?;
    space.scale_deployment("web", 20).await?;
    // Ten more: 6 and 5 times 23/13, rounded, and what is left for the smallest.
    let sets = space.at_rest(&[11, 3, 9]).await?;
    assert_eq!(sets.iter().map(notes).collect::<Vec<_>>(), [["11", "20", "23"], ["3", "20", "23"], ["9", "20", "23"]]);
    let writes = || {
        cluster.requests(&space, |request| {
            let kind = &request.kind;
            kind.resource == "replicasets" && kind.subresource.is_empty() && matches!(kind.verb.as_str(), "update" | "patch")
        })
    };
    let written = writes()?;
    space.stays(&[11, 3, 9]).await?;
    assert_eq!(writes()?, written, "nothing was left to do");
    // One write of each.
    let changes = history.so_far().await?;
    for set in &sets {
        let mut seen: Vec<_> =
            changes.iter().map(Change::object).filter(|other| other.metadata.uid == set.metadata.uid).map(notes).collect();
        seen.dedup();
        assert_eq!(seen.len(), 2, "{seen:?}");
    }
    Ok(())
}

/// Parity: proportions know nothing of health, so that a healthy pod goes while a sick one stays.
pub(crate) async fn dep_21_scaling_down_takes_a_healthy_pod_beside_a_sick_one(cluster: Shared) -> Result<()> {
    let space = cluster.space("sick").await?;
    space.standing(5, |object| rolling(object, 0, 1)).await?;
    space.set_image("web", NEXT).await?;
    let second = set_name(&space.at_rest(&[4, 1]).await?[1]);
    space.make_one_ready(&second).await?;
    space.at_rest(&[3, 2]).await?;
    space.set_image("web", AFTER_NEXT).await?;
    let third = set_name(&space.at_rest(&[3, 1, 1]).await?[2]);
    // Else the rollout would go on, and the sick one first.
    space.pause("web", true).await?;
    space.observed("web").await?;
    space.make_sick(&name_of(&space.active_pods(&second).await?[0])).await?;
    space.make_one_ready(&third).await?;
    available(&space, &second, 0).await?;
    available(&space, &third, 1).await?;
    space.counts("web", "four available", |counts| counts == [5, 1, 4, 1]).await?;

    space.scale_deployment("web", 4).await?;
    space.at_rest(&[2, 1, 1]).await?;
    space.counts("web", "three available", |counts| counts == [4, 1, 3, 1]).await?;
    space.stays(&[2, 1, 1]).await?;
    // The rollout takes the sick one.
    space.pause("web", false).await?;
    space.at_rest(&[2, 0, 2]).await?;
    space.counts("web", "three available", |counts| counts == [4, 2, 3, 1]).await?;
    space.stays(&[2, 0, 2]).await
}

async fn available(space: &Space, set: &str, count: i32) -> Result<()> {
    wait::object(&space.sets(), set, &format!("{count} available pods"), PATIENCE, |set: &ReplicaSet| {
        let available = set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0);
        ensure!(available == count, "{available}");
        Ok(())
    })
    .await
}

pub(crate) async fn dep_22_scaling_down_a_broken_rollout_keeps_upstreams_floor(cluster: Shared) -> Result<()> {
    let space = cluster.space("floor").await?;
    space.standing(10, |object| rolling(object, "25%", 1)).await?;
    space.set_image("web", NEXT).await?;
    space.at_rest(&[9, 4]).await?;
    let (pods, sets) = (History::start(space.pods()).await?, History::start(space.sets()).await?);
    space.scale_deployment("web", 5).await?;
    space.at_rest(&[4, 3]).await?;
    space.counts("web", "four available", |counts| counts == [7, 3, 4, 3]).await?;
    space.stays(&[4, 3]).await?;
    // In proportion, 9 and 4 times 7/13, and then on with the rollout as far as it goes.
    assert_eq!(path(&sets).await?, [[9, 4], [5, 4], [5, 2], [4, 2], [4, 3]]);
    never_fewer_ready(&pods, 4).await
}

pub(crate) async fn dep_25_a_paused_deployment_scales_what_there_is_and_makes_nothing_new(cluster: Shared) -> Result<()> {
    let space = cluster.space("paused").await?;
    let set = space.standing(3, |_| {}).await?;
    let made = History::start(space.sets()).await?;
    space.pause("web", true).await?;
    space.set_image("web", NEXT).await?;
    space.scale_deployment("web", 5).await?;
    assert_eq!(set_name(&space.at_rest(&[5]).await?[0]), set);
    space.stays(&[5]).await?;
    assert!(made.added().await?.is_empty());

    // In the middle of a rollout, too: what is new stays at what it has, in proportion.
    let space = cluster.space("paused").await?;
    space.standing(4, |object| rolling(object, 1, 1)).await?;
    space.set_image("web", NEXT).await?;
    space.at_rest(&[3, 2]).await?;
    let made = History::start(space.sets()).await?;
    space.pause("web", true).await?;
    space.set_image("web", AFTER_NEXT).await?;
    space.scale_deployment("web", 6).await?;
    space.at_rest(&[4, 3]).await?;
    space.stays(&[4, 3]).await?;
    assert!(made.added().await?.is_empty());
    assert_eq!(space.all_pods().await?.len(), 7);
    Ok(())
}

pub(crate) async fn dep_33_the_status_counts_the_surge_as_upstream_does(cluster: Shared) -> Result<()> {
    let space = cluster.space("autoscaler").await?;
    space.standing(4, |object| rolling(object, "25%", "25%")).await?;
    space.set_image("web", NEXT).await?;
    // At rest only: in between, the sum of what the ReplicaSets last said can count a pod that has gone with the one that has come.
    // The sizes, and then replicas, updated, available and unavailable; then one more new pod is ready.
    let steps = [([3, 2], [5, 2, 3, 2]), ([2, 3], [5, 3, 3, 2]), ([1, 4], [5, 4, 3, 2]), ([0, 4], [4, 4, 3, 1]), ([0, 4], [4, 4, 4, 0])];
    for (sizes, counts) in steps {
        let sets = space.at_rest(&sizes).await?;
        let shown = space.counts("web", &format!("{counts:?}"), |seen| seen == counts).await;
        shown.with_context(|| format!("with the sizes {sizes:?}"))?;
        if counts[3] > 0 {
            space.make_one_ready(&set_name(&sets[1])).await?;
        }
    }
    space.complete("web").await.map(drop)
}

pub(crate) async fn dep_34_a_rollout_that_is_scaled_down_meanwhile_completes(cluster: Shared) -> Result<()> {
    let space = cluster.space("meanwhile").await?;
    space.create_deployment("web", 10).await?;
    space.complete("web").await?;
    space.annotate_template("web", json!({"nodes.wcm.dev/behaviour": "ready-after=2s"})).await?;
    let new = set_name(&space.set_of_revision("web", 2).await?);
    wait::until("new pods", PATIENCE, async || {
        let pods = space.active_pods(&new).await?.len();
        ensure!(pods > 0, "none yet");
        Ok(())
    })
    .await?;
    space.scale_deployment("web", 1).await?;
    space.complete("web").await?;
    space.condition("web", "Progressing", "NewReplicaSetAvailable").await?;
    space.sizes("web", &[0, 1]).await.map(drop)
}
