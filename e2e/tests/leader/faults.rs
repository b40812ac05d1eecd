//! The lease is lost, or nearly.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use e2e::proxy::{Fault, Match, Moment, Refusal, Rule, When};
use e2e::wait;
use http::Method;
use kube::api::DeleteParams;

use crate::rig::{DEADLINE, LEASE, Rig, Shared};
use crate::support::PATIENCE;

/// What a busy machine adds.
const SLACK: Duration = Duration::from_secs(2);
const LEASE_NAME: &str = "workloads-controller-manager";

fn renewals() -> Match {
    Match::of("leases").method(Method::PUT)
}

pub async fn ctl_06_a_leader_that_was_frozen_beyond_its_lease_writes_nothing(planes: Shared) -> Result<()> {
    let rig = Rig::new(&planes).await?;
    let (mut leader, mut standby) = rig.pair().await?;
    // In the middle of a sync, with answers on their way and more to be sent.
    leader.proxy.add(Rule::new(Match::creates("pods"), Fault::Slow(Duration::from_millis(200))));
    rig.create_set("web", 200).await?;
    wait::until("creates to be under way", PATIENCE, async || {
        ensure!(leader.proxy.seen(&Match::creates("pods")) >= 10, "too few");
        Ok(())
    })
    .await?;
    leader.server.process_mut().freeze()?;
    let frozen = Instant::now();
    let took = standby.first_write_after(frozen).await?;
    println!("SIGSTOP: the first write came after {took:.2?}");
    assert!(took < LEASE + SLACK, "{took:?}");
    rig.settled("web", 200).await?;
    let (written, thawed) = (leader.all_writes(), Instant::now());
    leader.server.process_mut().thaw()?;
    assert_eq!(leader.ended(PATIENCE).await?, Some(1), "{}", leader.log()?);
    println!("SIGCONT: it ended after {:.2?}", thawed.elapsed());
    assert_eq!(leader.all_writes(), written, "events and the lease included");
    assert!(leader.log()?.contains("Lost the lease"), "{}", leader.log()?);
    rig.settled("web", 200).await?;
    let creates = leader.proxy.seen(&Match::creates("pods")) + standby.proxy.seen(&Match::creates("pods"));
    assert_eq!(creates, 200);
    assert_eq!(standby.server.terminate().await?.code(), Some(0));
    rig.end(&planes).await
}

pub async fn ctl_07_one_error_is_survived_and_silence_is_not(planes: Shared) -> Result<()> {
    let rig = Rig::new(&planes).await?;
    let mut leader = rig.candidate().await?;
    leader.works().await?;
    let one = leader
        .proxy
        .add(Rule::new(renewals(), Fault::Refuse(Moment::Before, Refusal::new(500, "InternalError", "no"))).when(When::first(1)));
    one.takes(1, PATIENCE).await?;
    let slow_path = "leader_election_slowpath_total{name=\"workloads-controller-manager\"}";
    wait::until("the renewal by another way", PATIENCE, async || {
        let times = leader.server.endpoint().metric(slow_path).await?.context("no such metric")?;
        ensure!(times >= 1.0, "{times}");
        Ok(())
    })
    .await?;
    rig.create_set("web", 3).await?;
    rig.settled("web", 3).await?;
    // From now on nothing about the lease is answered; pods could still be made.
    leader.proxy.add(Rule::new(Match::of("leases"), Fault::Hold));
    let silent = Instant::now();
    assert_eq!(leader.ended(PATIENCE).await?, Some(1));
    let took = silent.elapsed();
    assert!(took < LEASE, "it ended after {took:?}, before anybody could take the lease");
    assert!(leader.log()?.contains("Lost the lease: it could not be renewed in time"), "{}", leader.log()?);
    rig.end(&planes).await
}

pub async fn a_lease_that_is_deleted_stays_with_its_leader(planes: Shared) -> Result<()> {
    let rig = Rig::new(&planes).await?;
    let (mut leader, mut standby) = rig.pair().await?;
    for _ in 0..3 {
        let holder = rig.holder(LEASE_NAME).await?;
        rig.leases().delete(LEASE_NAME, &DeleteParams::default()).await?;
        wait::until("the lease to be there again", PATIENCE, async || {
            let now = rig.holder(LEASE_NAME).await?;
            ensure!(!now.is_empty(), "it is not");
            assert_eq!(now, holder);
            Ok(())
        })
        .await?;
    }
    assert_eq!((leader.master(LEASE_NAME).await?, standby.master(LEASE_NAME).await?), (Some(1.0), Some(0.0)));
    assert_eq!(leader.server.terminate().await?.code(), Some(0));
    standby.works().await?;
    assert_eq!(standby.server.terminate().await?.code(), Some(0));
    rig.end(&planes).await
}

pub async fn a_server_that_is_away_for_longer_than_the_deadline_ends_the_leader(planes: Shared) -> Result<()> {
    let rig = Rig::new(&planes).await?;
    let (mut leader, mut standby) = rig.pair().await?;
    leader.proxy.partition();
    standby.proxy.partition();
    let away = Instant::now();
    assert_eq!(leader.ended(PATIENCE).await?, Some(1));
    assert!(away.elapsed() < DEADLINE + SLACK, "{:?}", away.elapsed());
    // Whoever only stands by has nothing to lose.
    standby.server.process_mut().ensure_running()?;
    standby.proxy.heal();
    standby.works().await?;
    rig.create_set("web", 3).await?;
    rig.settled("web", 3).await?;
    assert_eq!(standby.server.terminate().await?.code(), Some(0));
    rig.end(&planes).await
}

pub async fn without_the_right_to_the_lease_the_log_says_so(planes: Shared) -> Result<()> {
    let rig = Rig::new(&planes).await?;
    // What the server says to whoever has no right.
    let refusal = Refusal::new(403, "Forbidden", "leases.coordination.k8s.io is forbidden");
    let proxy = e2e::proxy::Proxy::start(rig.plane.service_account_kubeconfig()).await?;
    let forbidden = proxy.add(Rule::new(Match::of("leases"), Fault::Refuse(Moment::Before, refusal)));
    let mut candidate = rig.candidate_with(|launch| launch.kubeconfig(proxy.kubeconfig())).await?;
    candidate.logs("leader election needs the rights to get, create and update it").await?;
    forbidden.takes(4, PATIENCE).await?;
    let complaints = candidate.log()?.matches("needs the rights").count();
    assert_eq!(complaints, 1, "{}", candidate.log()?);
    rig.create_set("web", 1).await?;
    forbidden.release();
    // Once it may, it works, without having been started again.
    rig.settled("web", 1).await?;
    assert_eq!(candidate.server.terminate().await?.code(), Some(0));
    rig.end(&planes).await
}
