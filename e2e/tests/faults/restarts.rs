//! The program starts late, dies at once, and comes back into a world that is not what it seems.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::proxy::{Fault, Match, Moment, Recording, Refusal, Rule, When};
use e2e::wait;

use crate::rig::{Rig, Shared, Witness};
use crate::support::{PATIENCE, name_of};

pub async fn rs_21_nothing_is_done_before_a_late_list(planes: Shared) -> Result<()> {
    let mut rig = Rig::start(&planes).await?;
    let names: Vec<_> = (0..10).map(|n| format!("set-{n}")).collect();
    for name in &names {
        rig.create_set(name, 5).await?;
    }
    for name in &names {
        rig.settled(name, 5).await?;
    }
    rig.kill9().await?;
    let (creates, deletes) = (rig.creates(), rig.deletes());
    let late = rig.proxy.add(Rule::new(Match::lists("pods"), Fault::Delay(Duration::from_secs(5))).when(When::first(1)));
    rig.run().await?;
    assert_eq!(late.taken(), 1);
    // One more pod says that all keys before it have been looked at, or at least that the program works.
    rig.scale("set-9", 6).await?;
    rig.settled("set-9", 6).await?;
    for name in &names[..9] {
        rig.settled(name, 5).await?;
    }
    assert_eq!((rig.creates() - creates, rig.deletes() - deletes), (1, 0));
    rig.end(&planes).await
}

pub async fn kill_9_in_mid_scale_up_with_creates_in_flight(planes: Shared) -> Result<()> {
    const PODS: usize = 60;
    const IN_FLIGHT: usize = 11;
    let mut rig = Rig::start(&planes).await?;
    // They reach the server before the program is back, or only after it has counted.
    for (name, late) in [("early", false), ("late", true)] {
        let witness = Witness::start(&rig).await?;
        let already = witness.of(0).await?.made();
        // Slow start sends 1, 2, 4, 8 and 16: five of the last batch come through.
        let when = When { skip: 20, limit: IN_FLIGHT as u64, ..When::ALWAYS };
        let hold = rig.proxy.add(Rule::new(Match::creates("pods"), Fault::Hold).when(when));
        rig.create_set(name, i32::try_from(PODS)?).await?;
        hold.holds(IN_FLIGHT as u64, PATIENCE).await?;
        wait::until("the others to be answered", PATIENCE, async || {
            let open = rig.proxy.in_flight(&Match::creates("pods"));
            ensure!(open == IN_FLIGHT, "{open} in flight");
            Ok(())
        })
        .await?;
        rig.kill9().await?;
        if !late {
            hold.release();
            witness.of(already + 20 + IN_FLIGHT).await?;
        }
        rig.run().await?;
        if late {
            witness.of(already + PODS).await?;
            hold.release();
            witness.of(already + PODS + IN_FLIGHT).await?;
        }
        rig.settled(name, PODS).await?;
        let extra = if late { IN_FLIGHT } else { 0 };
        let seen = witness.of(already + PODS + extra).await?;
        assert_eq!((seen.made() - already, seen.gone()), (PODS + extra, extra), "{name}");
        assert!(seen.peak - already <= PODS + extra, "{name}: {} pods", seen.peak - already);
    }
    rig.end(&planes).await
}

pub async fn kill_9_with_nothing_in_flight_makes_no_pod_too_many(planes: Shared) -> Result<()> {
    const PODS: usize = 60;
    let mut rig = Rig::start(&planes).await?;
    let witness = Witness::start(&rig).await?;
    let when = When { skip: 15, ..When::ALWAYS };
    let full = rig.proxy.add(Rule::new(Match::creates("pods"), Fault::Refuse(Moment::Before, Refusal::forbidden())).when(when));
    rig.create_set("web", i32::try_from(PODS)?).await?;
    full.takes(1, PATIENCE).await?;
    witness.of(15).await?;
    // What is sent between this look and the kill is refused: it has no effect that could be too many.
    wait::until("no create to be in flight", PATIENCE, async || {
        ensure!(rig.proxy.in_flight(&Match::creates("pods")) == 0, "there are some");
        Ok(())
    })
    .await?;
    rig.kill9().await?;
    full.release();
    rig.run().await?;
    rig.settled("web", PODS).await?;
    let seen = witness.of(PODS).await?;
    assert_eq!((seen.made(), seen.peak, seen.gone()), (PODS, PODS, 0));
    rig.end(&planes).await
}

pub async fn ctl_23_a_server_in_the_past_deletes_nothing(planes: Shared) -> Result<()> {
    let mut rig = Rig::start(&planes).await?;
    rig.create_set("web", 5).await?;
    rig.settled("web", 5).await?;
    rig.kill9().await?;
    // The past: three are wanted, and five are there. Nobody acts on it.
    rig.scale("web", 3).await?;
    let past = [Recording::new(), Recording::new()];
    let resources = ["pods", "replicasets"];
    for (resource, recording) in resources.into_iter().zip(&past) {
        rig.proxy.add(Rule::new(Match::lists(resource), Fault::Record(recording.clone())));
    }
    let hold = rig.proxy.hold_requests(Match::deletes("pods"));
    rig.run().await?;
    hold.holds(1, PATIENCE).await?;
    rig.kill9().await?;
    hold.discard();
    rig.proxy.clear();
    assert!(past.iter().all(|recording| recording.len() == 1));
    // The present: five are wanted, and all have changed.
    rig.scale("web", 5).await?;
    for pod in rig.all_pods().await? {
        rig.make_ready(&name_of(&pod), 10).await?;
    }
    let frozen = resources
        .into_iter()
        .zip(past)
        .map(|(resource, recording)| rig.proxy.add(Rule::new(Match::lists(resource), Fault::Replay(Moment::Before, recording))));
    let frozen: Vec<_> = frozen.collect();
    let before = rig.deletes();
    rig.run().await?;
    wait::until("deletes to be refused", PATIENCE, async || {
        ensure!(rig.deletes() > before, "none was sent");
        Ok(())
    })
    .await?;
    // The server catches up.
    frozen.iter().for_each(e2e::proxy::Handle::release);
    wait::object(&rig.sets(), "web", "five ready", PATIENCE, |set| {
        let status = set.status.clone().unwrap_or_default();
        ensure!(status.ready_replicas == Some(5) && status.observed_generation == set.metadata.generation, "{status:?}");
        Ok(())
    })
    .await?;
    let deletes = &rig.proxy.requests_of(&Match::deletes("pods"))[before..];
    let answers: Vec<_> = deletes.iter().map(|delete| delete.status).collect();
    assert!(answers.iter().all(|status| *status == Some(409)), "{answers:?}");
    assert_eq!(rig.settled("web", 5).await?.len(), 5);
    rig.end(&planes).await
}

pub async fn ctl_24_all_pages_are_known_before_the_first_sync(planes: Shared) -> Result<()> {
    const PODS: usize = 1200;
    let mut rig = Rig::start(&planes).await?;
    rig.create_set("web", i32::try_from(PODS)?).await?;
    let pods = rig.settled("web", PODS).await?;
    rig.kill9().await?;
    let (creates, deletes) = (rig.creates(), rig.deletes());
    let streams = Match { watch: Some(true), ..Match::lists("pods") };
    let unknown = Refusal::new(400, "BadRequest", "sendInitialEvents is forbidden for watch");
    rig.proxy.add(Rule::new(streams, Fault::Refuse(Moment::Before, unknown)));
    rig.run().await?;
    let pages = rig.proxy.requests_of(&Match { watch: Some(false), ..Match::lists("pods") });
    assert!(pages.iter().filter(|page| page.path.contains("continue=")).count() >= 2, "{} pages", pages.len());
    assert_eq!((rig.creates() - creates, rig.deletes() - deletes), (0, 0));
    for at in [100, 600, 1100] {
        rig.delete_pod(&name_of(&pods[at])).await?;
    }
    wait::until("three replacements", PATIENCE, async || {
        ensure!(rig.creates() - creates >= 3, "{}", rig.creates() - creates);
        Ok(())
    })
    .await?;
    rig.settled("web", PODS).await?;
    assert_eq!((rig.creates() - creates, rig.deletes() - deletes), (3, 0));
    rig.end(&planes).await
}
