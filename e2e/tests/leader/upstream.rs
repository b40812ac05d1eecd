//! One lease for kube-controller-manager and for us: either works, never both.

use anyhow::{Result, ensure};
use e2e::controlplane::ControllerManager;
use e2e::wait;

use crate::rig::{Rig, Shared};
use crate::support::PATIENCE;

const LEASE_NAME: &str = "kube-controller-manager";

pub async fn kube_controller_manager_and_we_wait_for_each_other(planes: Shared) -> Result<()> {
    let rig = Rig::new(&planes).await?;
    let upstream =
        ["--leader-elect=true", "--leader-elect-lease-duration=8s", "--leader-elect-renew-deadline=6s", "--leader-elect-retry-period=1s"]
            .into_iter()
            .fold(
                ControllerManager::only(["deployment-controller", "replicaset-controller", "statefulset-controller"]),
                ControllerManager::flag,
            );
    let mut theirs = rig.plane.run_controller_manager(&upstream).await?;
    let held = async |but: &str| {
        wait::until("somebody else to hold the lease", PATIENCE, async || {
            let holder = rig.holder(LEASE_NAME).await?;
            ensure!(!holder.is_empty() && holder != but, "{holder:?} does");
            Ok(holder)
        })
        .await
    };
    let first = held("").await?;
    let mut ours = rig.candidate_with(|launch| launch.flag("--leader-elect-resource-name=kube-controller-manager")).await?;
    ours.stands_by().await?;
    rig.create_set("web", 3).await?;
    rig.settled("web", 3).await?;
    assert_eq!((ours.all_writes(), ours.master(LEASE_NAME).await?), (0, Some(0.0)));
    // By default it does not give the lease up when it ends.
    theirs.kill9()?;
    ours.works().await?;
    let second = held(&first).await?;
    rig.scale("web", 5).await?;
    rig.settled("web", 5).await?;
    // The other way round.
    let mut theirs = rig.plane.run_controller_manager(&upstream).await?;
    rig.scale("web", 6).await?;
    rig.settled("web", 6).await?;
    assert_eq!(rig.holder(LEASE_NAME).await?, second);
    let creates = ours.proxy.seen(&e2e::proxy::Match::creates("pods"));
    assert_eq!(creates, 3);
    assert_eq!(ours.server.terminate().await?.code(), Some(0));
    held(&second).await?;
    rig.scale("web", 8).await?;
    rig.settled("web", 8).await?;
    theirs.kill9()?;
    rig.end(&planes).await
}
