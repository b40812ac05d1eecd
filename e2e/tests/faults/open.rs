//! Writes whose outcome nobody tells, for as long as that may take; and the storage that goes back in time.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::proxy::{Fault, Loss, Match, Moment, Rule, When};
use e2e::wait;
use http::Method;
use kube::ResourceExt as _;
use serde_json::json;

use crate::rig::{Rig, Shared, Witness};
use crate::support::PATIENCE;

/// A write without an answer is sent four times.
const TRIES: u64 = 4;
/// How long the server could still be working on it, and a little more.
const SETTLED: Duration = Duration::from_secs(120);

fn lose(when: Moment, what: Match) -> Rule {
    Rule::new(what, Fault::Lose(when, Loss::Stream)).when(When::first(TRIES))
}

pub async fn a_create_that_never_happened_is_made_up_for(planes: Shared) -> Result<()> {
    let rig = Rig::start(&planes).await?;
    let witness = Witness::start(&rig).await?;
    let lost = rig.proxy.add(lose(Moment::Before, Match::creates("pods")));
    rig.create_set("web", 1).await?;
    lost.takes(TRIES, PATIENCE).await?;
    wait::until("the pod", SETTLED, async || {
        ensure!(rig.active_pods("web").await?.len() == 1, "none yet");
        Ok(())
    })
    .await?;
    assert_eq!((rig.creates(), witness.of(1).await?.made()), (5, 1));
    rig.end(&planes).await
}

pub async fn a_delete_without_an_answer_takes_one_pod(planes: Shared) -> Result<()> {
    let rig = Rig::start(&planes).await?;
    let witness = Witness::start(&rig).await?;
    rig.create_set("web", 6).await?;
    rig.settled("web", 6).await?;
    // Once with its effect, once without: the next try tells.
    for (when, left) in [(Moment::After, 5), (Moment::Before, 4)] {
        rig.proxy.add(Rule::new(Match::deletes("pods"), Fault::Lose(when, Loss::Stream)).when(When::first(1)));
        rig.scale("web", left).await?;
        rig.settled("web", usize::try_from(left)?).await?;
    }
    assert_eq!(witness.of(6).await?.gone(), 2);
    // Without any answer for long enough: a live read tells that it did not happen.
    let lost = rig.proxy.add(lose(Moment::Before, Match::deletes("pods")));
    rig.scale("web", 3).await?;
    lost.takes(TRIES, PATIENCE).await?;
    wait::until("the pod to go", SETTLED, async || {
        ensure!(rig.active_pods("web").await?.len() == 3, "it has not");
        Ok(())
    })
    .await?;
    rig.settled("web", 3).await?;
    assert_eq!((witness.of(6).await?.made(), witness.of(6).await?.gone()), (6, 3));
    rig.end(&planes).await
}

pub async fn etcd_restored_from_an_older_snapshot(planes: Shared) -> Result<()> {
    let mut rig = Rig::start(&planes).await?;
    rig.create_set("web", 3).await?;
    rig.settled("web", 3).await?;
    let backup = rig.plane.back_up_etcd().await?;
    rig.scale("web", 8).await?;
    rig.settled("web", 8).await?;
    rig.create_set("later", 4).await?;
    rig.settled("later", 4).await?;
    // How far it went is all that tells the one past from the other: every cache must have seen more of it than a server writes as it
    // starts.
    let pod = rig.settled("web", 8).await?.remove(0).name_any();
    annotate(&rig, "/api/v1", &format!("pods/{pod}"), 300).await?;
    annotate(&rig, "/apis/apps/v1", "replicasets/web", 300).await?;
    let (creates, deletes) = (rig.creates(), rig.deletes());
    rig.plane.restore_etcd(&backup).await?;
    // The world is as it was: three pods, wanted and there, and no other set. Whatever is asked of it from now on is done.
    rig.settled("web", 3).await?;
    rig.scale("web", 5).await?;
    rig.settled("web", 5).await?;
    assert_eq!((rig.creates() - creates, rig.deletes() - deletes), (2, 0), "nothing was done about what does not exist any more");
    rig.scale("web", 1).await?;
    rig.settled("web", 1).await?;
    rig.end(&planes).await
}

/// Changes an object so many times in a way that asks for nothing.
async fn annotate(rig: &Rig, group: &str, object: &str, times: usize) -> Result<()> {
    for time in 0..times {
        let change = json!({ "metadata": { "annotations": { "example.com/time": time.to_string() } } });
        rig.request(Method::PATCH, group, object, &change).await?;
    }
    Ok(())
}

pub async fn a_set_of_ten_thousand(planes: Shared) -> Result<()> {
    const PODS: i32 = 10_000;
    let long = Duration::from_mins(4);
    let rig = Rig::start(&planes).await?;
    rig.create_set("web", PODS).await?;
    let has = async |replicas: i32| {
        wait::object(&rig.sets(), "web", &format!("{replicas} replicas"), long, |set| {
            let status = set.status.clone().unwrap_or_default();
            ensure!(status.replicas == replicas && status.observed_generation == set.metadata.generation, "{}", status.replicas);
            Ok(())
        })
        .await
    };
    has(PODS).await?;
    rig.scale("web", PODS - 1200).await?;
    has(PODS - 1200).await?;
    // Names collide at this size: a create that met one was sent again under another, and that is all there is too many.
    let taken = rig.proxy.requests_of(&Match::creates("pods")).iter().filter(|create| create.status == Some(409)).count();
    assert_eq!((rig.creates() - taken, rig.deletes()), (10_000, 1200));
    rig.end(&planes).await
}
