//! Watches that break, and what is noticed of it.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use e2e::proxy::{Ending, Fault, Match, Moment, Refusal, Rule, When};
use e2e::wait;

use crate::rig::{Rig, Shared};
use crate::support::{PATIENCE, name_of};

pub async fn ctl_01_a_delete_in_the_gap_is_found_by_the_relist(planes: Shared) -> Result<()> {
    let rig = Rig::start(&planes).await?;
    rig.create_set("web", 3).await?;
    // The server says so in either way.
    for fault in [Fault::ErrorEvent(Refusal::expired()), Fault::Refuse(Moment::Before, Refusal::expired())] {
        let pods = rig.settled("web", 3).await?;
        rig.pod_watch_is_old().await?;
        let (lists, creates) = (rig.pod_lists().await?, rig.creates());
        let stall = rig.proxy.stall(Match::watches("pods"));
        rig.delete_pod(&name_of(&pods[0])).await?;
        stall.holds(1, PATIENCE).await?;
        let gone = rig.proxy.add(Rule::new(Match::rewatches("pods"), fault).when(When::first(1)));
        rig.proxy.cut(Match::watches("pods"), Ending::Close);
        stall.release();
        gone.takes(1, PATIENCE).await?;
        let since = Instant::now();
        wait::until("the replacement", PATIENCE, async || {
            ensure!(rig.creates() == creates + 1, "{} creates", rig.creates() - creates);
            Ok(())
        })
        .await?;
        // The second failure in two minutes is backed off for 1.6 to 3.2 s; then comes the second that the row allows.
        assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
        rig.settled("web", 3).await?;
        assert!((rig.pod_lists().await? - lists - 1.0).abs() < 0.1, "one relist");
    }
    assert_eq!((rig.creates(), rig.deletes()), (5, 0));
    rig.end(&planes).await
}

pub async fn ctl_03_a_watch_that_ends_in_order_replays_nothing(planes: Shared) -> Result<()> {
    let rig = Rig::start(&planes).await?;
    rig.create_set("web", 100).await?;
    rig.settled("web", 100).await?;
    let watches = || rig.proxy.seen(&Match::rewatches("pods"));
    // Idle watches end every five to ten minutes; here, three times in a row.
    for _ in 0..3 {
        rig.pod_watch_is_old().await?;
        let before = watches();
        rig.proxy.cut(Match::watches("pods"), Ending::Close);
        wait::until("the next watch", PATIENCE, async || {
            ensure!(watches() == before + 1 && rig.proxy.in_flight(&Match::watches("pods")) == 1, "{} so far", watches() - before);
            Ok(())
        })
        .await?;
    }
    // The end of one more event behind them shows that nothing else was on the way.
    let left = rig.settled("web", 100).await?;
    rig.delete_pod(&name_of(&left[0])).await?;
    wait::until("the replacement", PATIENCE, async || {
        ensure!(rig.creates() == 101, "{} creates", rig.creates());
        Ok(())
    })
    .await?;
    let rewatches = rig.proxy.requests_of(&Match::rewatches("pods"));
    assert!(rewatches.iter().all(|watch| watch.path.contains("resourceVersion=") && !watch.path.contains("resourceVersion=0")));
    assert!((rig.pod_lists().await? - 1.0).abs() < 0.1, "no list after the first");
    assert_eq!(rig.deletes(), 0);
    rig.end(&planes).await
}

pub async fn ctl_15_errors_to_a_watch_are_told_apart(planes: Shared) -> Result<()> {
    let rig = Rig::start(&planes).await?;
    rig.create_set("web", 2).await?;
    let refusals = [(Refusal::forbidden(), 0.0), (Refusal::too_many_requests().retry_after(1), 0.0), (Refusal::expired(), 1.0)];
    for (refusal, relists) in refusals {
        let pods = rig.settled("web", 2).await?;
        let (lists, lines) = (rig.pod_lists().await?, rig.logged("source has failed")?);
        // More would be backed off for half a minute.
        let times = if refusal.code == 403 { 2 } else { 1 };
        rig.pod_watch_is_old().await?;
        let refused = Fault::Refuse(Moment::Before, refusal.clone().pretty());
        let rule = rig.proxy.add(Rule::new(Match::rewatches("pods"), refused).when(When::first(times)));
        rig.proxy.cut(Match::watches("pods"), Ending::Close);
        rule.takes(times, PATIENCE).await?;
        rig.delete_pod(&name_of(&pods[0])).await?;
        wait::until("the replacement", PATIENCE, async || {
            let left = rig.active_pods("web").await?;
            ensure!(left.len() == 2 && left.iter().all(|pod| name_of(pod) != name_of(&pods[0])), "{} pods", left.len());
            Ok(())
        })
        .await?;
        assert!((rig.pod_lists().await? - lists - relists).abs() < 0.1, "relists after {}", refusal.code);
        assert_eq!(rig.logged("source has failed")? - lines, 1, "lines for {}", refusal.code);
        rule.release();
    }
    assert_eq!((rig.creates(), rig.deletes()), (5, 0));
    rig.end(&planes).await
}

pub async fn ctl_16_a_half_open_connection_is_noticed(planes: Shared) -> Result<()> {
    let rig = Rig::start(&planes).await?;
    rig.create_set("web", 2).await?;
    let pods = rig.settled("web", 2).await?;
    rig.proxy.freeze_connections();
    rig.delete_pod(&name_of(&pods[0])).await?;
    // Pinged after 30 s of silence, given up 15 s later.
    wait::until("the replacement", Duration::from_secs(90), async || {
        let left = rig.active_pods("web").await?;
        ensure!(left.len() == 2, "{} pods", left.len());
        Ok(())
    })
    .await?;
    rig.settled("web", 2).await?;
    assert!((rig.pod_lists().await? - 1.0).abs() < 0.1, "a broken connection is no reason to list");
    assert_eq!(rig.deletes(), 0);
    rig.end(&planes).await
}
