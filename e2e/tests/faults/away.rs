//! The API server goes away and comes back.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::wait;
use tokio::time::{Instant, sleep_until};

use crate::rig::{Rig, Shared, Witness};

pub async fn an_api_server_killed_in_mid_scale_up(planes: Shared) -> Result<()> {
    const PODS: usize = 300;
    let mut rig = Rig::start(&planes).await?;
    let witness = Witness::start(&rig).await?;
    rig.create_set("web", i32::try_from(PODS)?).await?;
    witness.of(50).await?;
    rig.plane.kill9_api_server(0)?;
    rig.plane.start_api_server(0).await?;
    // Unknown outcomes may have to wait until no server can be working on them: 65 s.
    wait::until("all pods", Duration::from_mins(3), async || {
        let pods = rig.active_pods("web").await?.len();
        ensure!(pods == PODS, "{pods} pods");
        Ok(())
    })
    .await?;
    rig.settled("web", PODS).await?;
    let seen = witness.of(PODS).await?;
    assert_eq!((seen.made(), seen.peak, seen.gone(), rig.deletes()), (PODS, PODS, 0, 0));
    rig.end(&planes).await
}

pub async fn ctl_22_a_server_that_is_away_costs_next_to_nothing(planes: Shared) -> Result<()> {
    const AWAY: Duration = Duration::from_secs(20);
    let mut rig = Rig::prepare(&planes).await?;
    let direct = rig.launch().kubeconfig(rig.plane.service_account_kubeconfig());
    rig.manager = Some(direct.start().await?);
    rig.create_set("web", 3).await?;
    rig.settled("web", 3).await?;
    rig.plane.kill9_api_server(0)?;
    // What is measured is how the time passes.
    let before = (rig.program()?.usage()?, lines(&rig)?);
    sleep_until(Instant::now() + AWAY).await;
    let after = (rig.program()?.usage()?, lines(&rig)?);
    let spent = after.0.cpu.saturating_sub(before.0.cpu);
    assert!(spent < Duration::from_millis(300), "{spent:?} of processor time in {AWAY:?}");
    assert!(after.1 - before.1 <= 12, "{} lines in {AWAY:?}", after.1 - before.1);
    rig.plane.start_api_server(0).await?;
    rig.scale("web", 5).await?;
    // The reflector's back-off, upstream's, has grown to half a minute, and a minute with its jitter.
    wait::until("the program to be back", Duration::from_mins(2), async || {
        let pods = rig.active_pods("web").await?.len();
        ensure!(pods == 5, "{pods} pods");
        Ok(())
    })
    .await?;
    rig.end(&planes).await
}

fn lines(rig: &Rig) -> Result<usize> {
    Ok(rig.program()?.printed()?.lines().count())
}

pub async fn a_program_that_starts_before_its_server_waits_for_it(planes: Shared) -> Result<()> {
    let mut rig = Rig::prepare(&planes).await?;
    rig.plane.kill9_api_server(0)?;
    let direct = rig.launch().kubeconfig(rig.plane.service_account_kubeconfig());
    let mut impatient = direct.start().await?;
    ensure!(impatient.terminate().await?.success(), "it can be told to stop meanwhile");
    rig.manager = Some(direct.start().await?);
    rig.plane.start_api_server(0).await?;
    rig.create_set("web", 2).await?;
    rig.settled("web", 2).await?;
    rig.end(&planes).await
}
