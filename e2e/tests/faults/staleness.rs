//! Decisions while the caches are behind.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::proxy::{Ending, EventMatch, Fault, Match, Rule, WatchFault, When};
use e2e::wait;
use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::api::DeleteParams;
use serde_json::json;

use crate::rig::{Rig, Shared, Witness};
use crate::support::{PATIENCE, name_of};

fn uid_of(set: &ReplicaSet) -> Result<String> {
    set.metadata.uid.clone().context("no UID")
}

fn lag(rig: &Rig, resource: &str, by: Duration) -> e2e::proxy::Handle {
    rig.proxy.add(Rule::new(Match::watches(resource), Fault::Watch(WatchFault::Lag(by))))
}

async fn owns(rig: &Rig, set: &ReplicaSet, pods: usize) -> Result<()> {
    let owner = uid_of(set)?;
    wait::until(&format!("the set of UID {owner} to have {pods} pods"), PATIENCE, async || {
        let there = rig.pods_of(&owner).await?;
        ensure!(there == pods, "it has {there}");
        Ok(())
    })
    .await
}

pub async fn rs_01_a_new_set_of_an_old_name_gets_its_pods_at_once(planes: Shared) -> Result<()> {
    let rig = Rig::start(&planes).await?;
    let stall = rig.proxy.stall(Match::watches("pods"));
    let first = rig.create_set("r", 3).await?;
    owns(&rig, &first, 3).await?;
    rig.delete_set("r", &DeleteParams::default()).await?;
    let second = rig.create_set("r", 3).await?;
    // The pod events of neither have arrived: only bookkeeping by UID lets the second one go on.
    owns(&rig, &second, 3).await?;
    assert!(stall.held() >= 6, "{} events are held back", stall.held());
    stall.release();
    wait::object(&rig.sets(), "r", "three replicas in the status", PATIENCE, |set| {
        ensure!(set.status.as_ref().is_some_and(|status| status.replicas == 3), "{:?}", set.status);
        Ok(())
    })
    .await?;
    assert_eq!((rig.pods_of(&uid_of(&second)?).await?, rig.creates(), rig.deletes()), (3, 6, 0));
    rig.end(&planes).await
}

/// Parity: the ranking reads the cache, here as upstream. A fresh read before each scale-down would cost one read for each pod of the set.
pub async fn rs_09_a_cost_that_the_watch_has_not_brought_does_not_count(planes: Shared) -> Result<()> {
    let rig = Rig::start(&planes).await?;
    rig.create_set("web", 1).await?;
    let older = name_of(&rig.settled("web", 1).await?[0]);
    // Creation times have whole seconds: the younger pod would go first, and must be younger by one.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    rig.scale("web", 2).await?;
    rig.settled("web", 2).await?;
    lag(&rig, "pods", Duration::from_secs(2));
    let cost = json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-1"}}});
    rig.patch_pod(&older, cost).await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    rig.scale("web", 1).await?;
    let left = rig.settled("web", 1).await?;
    assert_eq!(name_of(&left[0]), older, "the younger one went");
    rig.end(&planes).await
}

pub async fn rs_11_a_pod_released_behind_the_caches_back_survives(planes: Shared) -> Result<()> {
    let rig = Rig::start(&planes).await?;
    rig.create_set("web", 3).await?;
    let pods = rig.settled("web", 3).await?;
    // The one that is not ready would go.
    for pod in &pods[1..] {
        rig.make_ready(&name_of(pod), 100).await?;
    }
    rig.status("two ready", |status| {
        ensure!(status["readyReplicas"] == 2, "not yet");
        Ok(())
    })
    .await
    .context("web")?;
    let released = name_of(&pods[0]);
    let stall = rig.proxy.stall(Match::watches("pods"));
    rig.patch_pod(&released, json!({"metadata": {"ownerReferences": null, "labels": {"app": "nobody"}}})).await?;
    stall.holds(1, PATIENCE).await?;
    rig.scale("web", 2).await?;
    wait::until("its delete to be refused", PATIENCE, async || {
        let deletes = rig.proxy.requests_of(&Match::deletes("pods"));
        let conflicts = deletes.iter().filter(|delete| delete.status == Some(409)).count();
        ensure!(conflicts > 0, "{conflicts} of {} deletes", deletes.len());
        Ok(())
    })
    .await?;
    stall.release();
    let left = rig.settled("web", 2).await?;
    assert!(left.iter().all(|pod| name_of(pod) != released));
    assert_eq!(rig.all_pods().await?.len(), 3, "nothing was deleted");
    assert!(rig.deletes() < 20, "{} tries", rig.deletes());
    rig.end(&planes).await
}

pub async fn rs_22_touching_a_set_does_not_make_a_pod_too_many(planes: Shared) -> Result<()> {
    let rig = Rig::start(&planes).await?;
    let witness = Witness::start(&rig).await?;
    lag(&rig, "pods", Duration::from_secs(2));
    rig.create_set("web", 3).await?;
    for touch in 0..5 {
        rig.patch_set("web", json!({"metadata": {"annotations": {"touched": touch.to_string()}}})).await?;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    rig.settled("web", 3).await?;
    let seen = witness.of(3).await?;
    assert_eq!((rig.creates(), rig.deletes(), seen.made(), seen.peak), (3, 0, 3, 3));
    rig.end(&planes).await
}

pub async fn ctl_04_a_late_watch_changes_nothing_in_the_end(planes: Shared) -> Result<()> {
    let rig = Rig::start(&planes).await?;
    let witness = Witness::start(&rig).await?;
    for resource in ["pods", "replicasets"] {
        lag(&rig, resource, Duration::from_secs(3));
    }
    rig.create_set("web", 5).await?;
    rig.create_set("other", 4).await?;
    rig.settled("web", 5).await?;
    rig.settled("other", 4).await?;
    // Each change comes while the last one's events are still on their way.
    rig.scale("web", 8).await?;
    rig.scale("other", 1).await?;
    let pods = rig.settled("web", 8).await?;
    rig.settled("other", 1).await?;
    rig.scale("web", 3).await?;
    let left = rig.settled("web", 3).await?;
    assert_eq!(pods.iter().filter(|pod| left.iter().any(|other| name_of(other) == name_of(pod))).count(), 3);
    rig.delete_pod(&name_of(&left[0])).await?;
    rig.settled("web", 3).await?;
    wait::until("the replacement", PATIENCE, async || {
        ensure!(rig.creates() == 13, "{} creates", rig.creates());
        Ok(())
    })
    .await?;
    rig.settled("web", 3).await?;
    let seen = witness.of(13).await?;
    assert_eq!((rig.creates(), rig.deletes(), seen.made(), seen.gone()), (13, 8, 13, 9));
    rig.end(&planes).await
}

pub async fn ctl_27_a_set_made_again_at_once_is_a_new_one(planes: Shared) -> Result<()> {
    let rig = Rig::start(&planes).await?;
    let first = rig.create_set("r", 2).await?;
    owns(&rig, &first, 2).await?;
    rig.delete_set("r", &DeleteParams::default()).await?;
    let second = rig.create_set("r", 2).await?;
    owns(&rig, &second, 2).await?;
    // A watch may show only the new one, with an event that says ADDED: the old one's end was compacted.
    let swallow = Fault::Watch(WatchFault::Swallow(EventMatch::of("DELETED").name("r")));
    let rule = rig.proxy.add(Rule::new(Match::watches("replicasets"), swallow));
    rig.delete_set("r", &DeleteParams::default()).await?;
    let third = rig.create_set("r", 2).await?;
    owns(&rig, &third, 2).await?;
    rule.takes(1, PATIENCE).await?;
    assert_eq!((rig.creates(), rig.deletes()), (6, 0));
    rig.end(&planes).await
}

pub async fn a_silent_pod_watch_is_listed_again_once(planes: Shared) -> Result<()> {
    let rig = Rig::start(&planes).await?;
    let witness = Witness::start(&rig).await?;
    rig.create_set("web", 3).await?;
    rig.settled("web", 3).await?;
    let lists = rig.pod_lists().await?;
    let silence = Fault::Watch(WatchFault::Cut(Ending::Silence, e2e::proxy::Point::Now));
    rig.proxy.add(Rule::new(Match::watches("pods"), silence).when(When::first(1))).takes(1, PATIENCE).await?;
    rig.scale("web", 6).await?;
    wait::until("the status to count six", Duration::from_mins(2), async || {
        let set = rig.sets().get("web").await?;
        ensure!(set.status.as_ref().is_some_and(|status| status.replicas == 6), "{:?}", set.status);
        Ok(())
    })
    .await?;
    let seen = witness.of(6).await?;
    assert_eq!((rig.creates(), rig.deletes(), seen.made(), seen.peak), (6, 0, 6, 6));
    assert!((rig.pod_lists().await? - lists - 1.0).abs() < 0.1, "one relist");
    rig.end(&planes).await
}
