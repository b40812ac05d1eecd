//! Nobody acts on what the leader before has changed since.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use e2e::proxy::{Ending, Match};
use e2e::wait;

use crate::rig::{LEASE, Rig, Shared};
use crate::support::PATIENCE;

/// The server's bookmark of a watch that lasts 3 s comes this much later at most.
const BOOKMARK: Duration = Duration::from_millis(2500);

pub async fn a_takeover_with_a_late_watch_makes_no_pod_twice(planes: Shared) -> Result<()> {
    let rig = Rig::new(&planes).await?;
    let (mut leader, mut standby) = rig.pair().await?;
    // The watches that go on where the first lists ended say nothing from now on.
    for resource in ["pods", "replicasets"] {
        standby.proxy.stall(Match::rewatches(resource));
        wait::until("the watches to be old enough to be opened again at once", PATIENCE, async || {
            let watches = standby.proxy.requests_of(&Match::watches(resource));
            let open = watches.iter().find(|watch| watch.ended.is_none()).context("there is none")?;
            ensure!(open.at.elapsed() > Duration::from_millis(1200), "it is {:?} old", open.at.elapsed());
            Ok(())
        })
        .await?;
        standby.proxy.cut(Match::watches(resource), Ending::Close);
        wait::until("the watch that says nothing", PATIENCE, async || {
            ensure!(standby.proxy.in_flight(&Match::rewatches(resource)) == 1, "it is not there yet");
            Ok(())
        })
        .await?;
    }
    rig.create_set("web", 5).await?;
    rig.settled("web", 5).await?;
    rig.scale("web", 50).await?;
    rig.settled("web", 50).await?;
    leader.server.kill9()?;
    let killed = Instant::now();
    standby.works().await?;
    println!("it worked {:.2?} after kill -9", killed.elapsed());
    standby.logs("Caches have caught up").await?;
    standby.proxy.clear();
    rig.scale("web", 51).await?;
    rig.settled("web", 51).await?;
    assert_eq!((standby.proxy.seen(&Match::creates("pods")), standby.proxy.seen(&Match::deletes("pods"))), (1, 0));
    assert_eq!(standby.server.terminate().await?.code(), Some(0));
    rig.end(&planes).await
}

pub async fn a_large_cache_catches_up_without_a_list(planes: Shared) -> Result<()> {
    // More than are listed again.
    const PODS: usize = 2100;
    let rig = Rig::new(&planes).await?;
    let (mut leader, mut standby) = rig.pair().await?;
    rig.create_set("web", i32::try_from(PODS)?).await?;
    wait::object(&rig.sets(), "web", "all pods", 4 * PATIENCE, |set| {
        let replicas = set.status.as_ref().map_or(0, |status| status.replicas);
        ensure!(usize::try_from(replicas)? == PODS, "{replicas}");
        Ok(())
    })
    .await?;
    leader.server.kill9()?;
    let killed = Instant::now();
    // Work that is there already when it takes over.
    rig.scale("web", i32::try_from(PODS)? + 1).await?;
    let took = standby.first_write_after(killed).await?;
    println!("kill -9 with {PODS} pods: the first write came after {took:.2?}");
    assert!(took < LEASE + BOOKMARK, "{took:?}");
    rig.settled("web", PODS + 1).await?;
    let lists = |resource: &str| standby.proxy.seen(&Match { watch: Some(true), ..Match::lists(resource) });
    assert_eq!((lists("pods"), lists("replicasets")), (1, 2));
    assert_eq!((standby.proxy.seen(&Match::creates("pods")), standby.proxy.seen(&Match::deletes("pods"))), (1, 0));
    assert_eq!(standby.server.terminate().await?.code(), Some(0));
    rig.end(&planes).await
}
