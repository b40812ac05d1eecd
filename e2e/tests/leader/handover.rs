//! From one of ours to the other.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use e2e::proxy::Match;
use e2e::wait;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Patch, PatchParams, PostParams};
use rustix::process::Signal;
use serde_json::json;

use crate::rig::{LEASE, Rig, Shared};
use crate::support::{PATIENCE, pod_spec};

/// What a takeover may take beyond the lease's duration.
const TAKEOVER: Duration = Duration::from_secs(2);
const PODS: i32 = 40;

/// A Deployment whose pods count as available at once, since nobody makes them ready: it replaces all of them at once.
async fn deploy(rig: &Rig) -> Result<()> {
    let object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": PODS, "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "100%"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod_spec()},
        },
    });
    rig.deployments().create(&PostParams::default(), &serde_json::from_value::<Deployment>(object)?).await?;
    updated(rig).await
}

async fn roll(rig: &Rig, image: &str) -> Result<()> {
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}});
    rig.deployments().patch("web", &PatchParams::default(), &Patch::Strategic(patch)).await?;
    Ok(())
}

/// All pods are of the newest template, and there are no others.
async fn updated(rig: &Rig) -> Result<()> {
    wait::object(&rig.deployments(), "web", "the rollout to end", PATIENCE, |object| {
        let status = object.status.clone().unwrap_or_default();
        ensure!(status.observed_generation == object.metadata.generation, "the last change has not been seen");
        let counts = (status.replicas, status.updated_replicas);
        ensure!(counts == (Some(PODS), Some(PODS)), "{counts:?}");
        Ok(())
    })
    .await?;
    let pods = rig.all_pods().await?.iter().filter(|pod| crate::support::is_active(pod)).count();
    ensure!(pods == usize::try_from(PODS)?, "{pods} pods");
    Ok(())
}

/// Waits until that many pods of the new template have been made.
async fn under_way(rig: &Rig, image: &str) -> Result<()> {
    wait::until("the rollout to be under way", PATIENCE, async || {
        let has = |pod: &k8s_openapi::api::core::v1::Pod| {
            pod.spec.as_ref().is_some_and(|spec| spec.containers[0].image.as_deref() == Some(image))
        };
        let made = rig.all_pods().await?.iter().filter(|pod| has(pod)).count();
        ensure!(made >= 3, "{made} pods");
        Ok(())
    })
    .await
}

pub async fn kill_9_of_the_leader_in_a_rollout_costs_no_more_than_the_lease(planes: Shared) -> Result<()> {
    let rig = Rig::new(&planes).await?;
    let (mut leader, standby) = rig.pair().await?;
    deploy(&rig).await?;
    let before = leader.proxy.seen(&Match::creates("pods"));
    assert_eq!((before, standby.all_writes()), (usize::try_from(PODS)?, 0));
    // So slow that it is in the middle of it.
    let slow = e2e::proxy::Rule::new(Match::creates("pods"), e2e::proxy::Fault::Slow(Duration::from_millis(300)));
    leader.proxy.add(slow);
    roll(&rig, "registry.example/app:2").await?;
    under_way(&rig, "registry.example/app:2").await?;
    leader.server.kill9()?;
    let killed = Instant::now();
    let took = standby.first_write_after(killed).await?;
    println!("kill -9: the first write came after {took:.2?}, with a lease of {LEASE:?}");
    assert!(took < LEASE + TAKEOVER, "{took:?}");
    updated(&rig).await?;
    // No pod was made twice: what both have made is what was there in the beginning and what the rollout needed.
    let creates = leader.proxy.seen(&Match::creates("pods")) + standby.proxy.seen(&Match::creates("pods"));
    assert_eq!(creates, 2 * usize::try_from(PODS)?);
    assert_eq!(standby.master("workloads-controller-manager").await?, Some(1.0));
    let transitions = rig.leases().get("workloads-controller-manager").await?.spec.and_then(|spec| spec.lease_transitions);
    assert_eq!(transitions, Some(1));
    standby.server.endpoint().text("/healthz").await?;
    let holder = rig.holder("workloads-controller-manager").await?;
    assert!(!holder.is_empty(), "nobody holds the lease");
    rig.told(&format!("{holder} became leader")).await?;
    let mut standby = standby;
    assert_eq!(standby.server.terminate().await?.code(), Some(0));
    rig.end(&planes).await
}

pub async fn sigterm_hands_over_at_once_and_loses_no_work(planes: Shared) -> Result<()> {
    let rig = Rig::new(&planes).await?;
    let (mut leader, mut standby) = rig.pair().await?;
    deploy(&rig).await?;
    leader.proxy.add(e2e::proxy::Rule::new(Match::creates("pods"), e2e::proxy::Fault::Slow(Duration::from_millis(100))));
    roll(&rig, "registry.example/app:2").await?;
    under_way(&rig, "registry.example/app:2").await?;
    let holder = rig.holder("workloads-controller-manager").await?;
    assert_eq!(leader.server.terminate().await?.code(), Some(0));
    let ended = Instant::now();
    let took = standby.first_write_after(ended).await?;
    println!("SIGTERM: the first write came {took:.2?} after the end");
    assert!(took < TAKEOVER, "{took:?}");
    assert!(leader.log()?.contains("Released the lease"), "{}", leader.log()?);
    rig.told(&format!("{holder} stopped leading")).await?;
    updated(&rig).await?;
    let creates = leader.proxy.seen(&Match::creates("pods")) + standby.proxy.seen(&Match::creates("pods"));
    assert_eq!(creates, 2 * usize::try_from(PODS)?);
    // The last write of one came before the first of the other.
    let last = leader.writes().last().context("no write")?.at;
    let first = standby.writes().first().context("no write")?.at;
    assert!(last < first);
    assert_eq!(standby.server.terminate().await?.code(), Some(0));
    assert_eq!(rig.holder("workloads-controller-manager").await?, "");
    rig.end(&planes).await
}

pub async fn a_standby_ends_at_once(planes: Shared) -> Result<()> {
    let rig = Rig::new(&planes).await?;
    let (mut leader, mut standby) = rig.pair().await?;
    assert_eq!(
        (leader.master("workloads-controller-manager").await?, standby.master("workloads-controller-manager").await?),
        (Some(1.0), Some(0.0))
    );
    standby.server.endpoint().text("/healthz").await?;
    let holder = rig.holder("workloads-controller-manager").await?;
    assert_eq!(standby.server.terminate().await?.code(), Some(0));
    assert_eq!((standby.all_writes(), rig.holder("workloads-controller-manager").await?), (0, holder));
    assert_eq!(leader.server.terminate().await?.code(), Some(0));
    rig.end(&planes).await
}

pub async fn without_a_release_the_lease_is_waited_for(planes: Shared) -> Result<()> {
    let rig = Rig::new(&planes).await?;
    let mut leader = rig.candidate_with(|launch| launch.flag("--leader-elect-release-on-exit=false")).await?;
    leader.works().await?;
    let mut standby = rig.candidate().await?;
    standby.stands_by().await?;
    let holder = rig.holder("workloads-controller-manager").await?;
    leader.server.process_mut().signal(Signal::TERM)?;
    assert_eq!(leader.ended(PATIENCE).await?, Some(0));
    let ended = Instant::now();
    assert_eq!(rig.holder("workloads-controller-manager").await?, holder);
    standby.works().await?;
    let took = ended.elapsed();
    assert!(took + Duration::from_millis(1500) > LEASE && took < LEASE + TAKEOVER, "{took:?}");
    assert_eq!(standby.server.terminate().await?.code(), Some(0));
    rig.end(&planes).await
}
