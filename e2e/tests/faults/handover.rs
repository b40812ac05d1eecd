//! From kube-controller-manager to us and back, in the middle of things.

use anyhow::{Result, ensure};
use e2e::controlplane::ControllerManager;
use e2e::proxy::Match;

use crate::rig::{Rig, Shared, Witness};

const SETS: usize = 20;

/// Every set has so many pods, and says so.
async fn all_settled(rig: &Rig, replicas: usize) -> Result<()> {
    for set in 0..SETS {
        rig.settled(&format!("set-{set}"), replicas).await?;
    }
    Ok(())
}

async fn scale_all(rig: &Rig, replicas: i32) -> Result<()> {
    for set in 0..SETS {
        rig.scale(&format!("set-{set}"), replicas).await?;
    }
    Ok(())
}

pub async fn ctl_28_a_change_of_hands_and_back_restarts_no_pod(planes: Shared) -> Result<()> {
    let upstream = ControllerManager::only(["replicaset-controller"]).unlimited();
    let mut rig = Rig::prepare(&planes).await?;
    let witness = Witness::start(&rig).await?;
    let mut theirs = rig.plane.run_controller_manager(&upstream).await?;
    for set in 0..SETS {
        rig.create_set(&format!("set-{set}"), 3).await?;
    }
    all_settled(&rig, 3).await?;
    // Stopped in the middle of growing; whoever comes next goes on.
    scale_all(&rig, 5).await?;
    witness.of(SETS * 3 + 10).await?;
    theirs.kill9()?;
    rig.run().await?;
    all_settled(&rig, 5).await?;
    let seen = witness.of(SETS * 5).await?;
    assert_eq!((seen.made(), seen.gone()), (SETS * 5, 0), "to us");
    // Growing again, and back.
    scale_all(&rig, 7).await?;
    witness.of(SETS * 5 + 10).await?;
    if let Some(mut ours) = rig.manager.take() {
        ensure!(ours.terminate().await?.success(), "the program ended badly");
    }
    let written = rig.proxy.seen(&Match::writes("replicasets"));
    let mut theirs = rig.plane.run_controller_manager(&upstream).await?;
    all_settled(&rig, 7).await?;
    let seen = witness.of(SETS * 7).await?;
    assert_eq!((seen.made(), seen.gone()), (SETS * 7, 0), "and back");
    assert_eq!(rig.proxy.seen(&Match::writes("replicasets")), written, "we are gone");
    theirs.kill9()?;
    rig.end(&planes).await
}
