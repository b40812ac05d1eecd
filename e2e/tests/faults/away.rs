//! The API server goes away and comes back.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::proxy::{Match, Proxy};
use e2e::wait;
use tokio::time::{Instant, sleep_until};

use crate::rig::{Rig, Shared, Witness};
use crate::support::PATIENCE;

const ALL: [&str; 3] = ["deployment-controller", "replicaset-controller", "statefulset-controller"];

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

/// How long the API server is away: `AWAY=600` is the row's ten minutes.
fn away() -> Result<Duration> {
    let seconds = std::env::var("AWAY").unwrap_or_default();
    let seconds =
        if seconds.is_empty() { 20 } else { seconds.parse().with_context(|| format!("AWAY={seconds:?} is no number of seconds"))? };
    Ok(Duration::from_secs(seconds))
}

pub async fn ctl_22_a_server_that_is_away_costs_next_to_nothing(planes: Shared) -> Result<()> {
    let away = away()?;
    let mut rig = Rig::prepare(&planes).await?;
    let direct = rig.launch().controllers(ALL).kubeconfig(rig.plane.service_account_kubeconfig());
    rig.manager = Some(direct.start().await?);
    rig.create_set("web", 3).await?;
    rig.settled("web", 3).await?;
    rig.plane.kill9_api_server(0)?;
    // What is measured is how the time passes.
    let before = (rig.program()?.usage()?, lines(&rig)?);
    sleep_until(Instant::now() + away).await;
    let after = (rig.program()?.usage()?, lines(&rig)?);
    let (spent, lines) = (after.0.cpu.saturating_sub(before.0.cpu), after.1 - before.1);
    println!("{spent:?} of processor time and {lines} lines in {away:?}");
    // A hundredth of a processor at first, when it is tried most often; later a thousandth.
    assert!(spent < Duration::from_millis(300) + away / 1000, "{spent:?} of processor time in {away:?}");
    // Each of six caches says so when it begins, and then every minute at most.
    let minutes = usize::try_from(away.as_secs() / 60)?;
    assert!(lines <= 6 * (4 + minutes), "{lines} lines in {away:?}");
    rig.plane.start_api_server(0).await?;
    let back = Instant::now();
    rig.scale("web", 5).await?;
    // It is tried again after eight seconds at most.
    wait::until("the program to be back", PATIENCE, async || {
        let pods = rig.active_pods("web").await?.len();
        ensure!(pods == 5, "{pods} pods");
        Ok(())
    })
    .await?;
    println!("back after {:?}", back.elapsed());
    rig.end(&planes).await
}

/// When a replica has tried to come back to its pods, by whatever request it begins with.
fn tries(proxy: &Proxy, since: std::time::Instant) -> Vec<Duration> {
    let requests = proxy.requests_of(&Match::of("pods"));
    requests.iter().filter(|request| request.at > since).map(|request| request.at - since).collect()
}

pub async fn ctl_25_three_replicas_keep_trying_and_not_together(planes: Shared) -> Result<()> {
    const TRIES: usize = 4;
    let mut rig = Rig::prepare(&planes).await?;
    let mut replicas = Vec::new();
    for _ in 0..3 {
        let proxy = Proxy::start(rig.plane.service_account_kubeconfig()).await?;
        // The lease outlives the outage: who loses it ends.
        let times = ["--leader-elect-lease-duration=5m", "--leader-elect-renew-deadline=4m", "--leader-elect-retry-period=2s"];
        let launch = rig.launch().kubeconfig(proxy.kubeconfig()).leader_elect();
        let server = times.iter().fold(launch, |launch, flag| launch.flag(*flag)).start().await?;
        wait::until("its caches", PATIENCE, async || {
            ensure!(server.printed()?.contains("Caches synced"), "they are not full");
            Ok(())
        })
        .await?;
        replicas.push((server, proxy));
    }
    let since = std::time::Instant::now();
    rig.plane.kill9_api_server(0)?;
    let mut last = Vec::new();
    for (_, proxy) in &replicas {
        let tried = wait::until("tries to come back", 2 * PATIENCE, async || {
            let tries = tries(proxy, since);
            ensure!(tries.len() >= TRIES, "{tries:?}");
            Ok(tries)
        });
        last.push(tried.await?[TRIES - 1]);
    }
    last.sort_unstable();
    // The last pause is some seconds long, a random number of them.
    assert!(last[2].saturating_sub(last[0]) > Duration::from_millis(20), "all replicas came at {last:?}");
    rig.plane.start_api_server(0).await?;
    rig.create_set("web", 3).await?;
    rig.settled("web", 3).await?;
    for (server, proxy) in &mut replicas {
        wait::until("the watch again", PATIENCE, async || {
            let watches = proxy.in_flight(&Match::watches("pods"));
            ensure!(watches == 1, "{watches}");
            Ok(())
        })
        .await?;
        ensure!(server.terminate().await?.success(), "a replica ended badly");
    }
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
