//! Writes whose answers are lost, late or wrong.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::proxy::{Ending, Fault, Loss, Match, Moment, Refusal, Rule, When};
use e2e::wait;

use crate::rig::{Rig, Shared, Witness};
use crate::support::PATIENCE;

pub async fn rs_03_an_answer_lost_after_the_effect_makes_no_second_pod(planes: Shared) -> Result<()> {
    let rig = Rig::start(&planes).await?;
    let witness = Witness::start(&rig).await?;
    let faults = [
        ("timeout", Fault::Refuse(Moment::After, Refusal::timeout())),
        ("internal", Fault::Refuse(Moment::After, Refusal::internal())),
        ("stream", Fault::Lose(Moment::After, Loss::Stream)),
        ("connection", Fault::Lose(Moment::After, Loss::Connection)),
        ("half", Fault::Truncate(Ending::Reset)),
        ("half-in-order", Fault::Truncate(Ending::Close)),
    ];
    for (n, (name, fault)) in faults.into_iter().enumerate() {
        let rule = rig.proxy.add(Rule::new(Match::creates("pods"), fault).when(When::first(1)));
        rig.create_set(name, 1).await?;
        rule.takes(1, PATIENCE).await?;
        rig.settled(name, 1).await?;
        let seen = witness.of(n + 1).await?;
        assert_eq!((seen.made(), seen.gone(), rig.deletes()), (n + 1, 0, 0), "{name}");
        rule.release();
    }
    rig.end(&planes).await
}

pub async fn lost_answers_of_five_percent_make_no_pod_too_many(planes: Shared) -> Result<()> {
    const PODS: usize = 400;
    let rig = Rig::start(&planes).await?;
    let witness = Witness::start(&rig).await?;
    let some = |fault| rig.proxy.add(Rule::new(Match::creates("pods"), fault).when(When::chance(0.025)));
    let lost = [some(Fault::Lose(Moment::After, Loss::Stream)), some(Fault::Refuse(Moment::After, Refusal::timeout()))];
    rig.create_set("web", i32::try_from(PODS)?).await?;
    rig.settled("web", PODS).await?;
    let seen = witness.of(PODS).await?;
    assert!(lost.iter().all(|rule| rule.taken() > 0), "seed {}", rig.proxy.seed());
    assert_eq!((seen.made(), seen.peak, seen.gone(), rig.deletes()), (PODS, PODS, 0, 0), "seed {}", rig.proxy.seed());
    rig.end(&planes).await
}

pub async fn ctl_13_no_try_before_the_time_that_the_server_asks_for(planes: Shared) -> Result<()> {
    let rig = Rig::start(&planes).await?;
    let busy = Fault::Refuse(Moment::Before, Refusal::too_many_requests().retry_after(2));
    let rule = rig.proxy.add(Rule::new(Match::creates("pods"), busy).when(When::first(3)));
    rig.create_set("web", 1).await?;
    rule.takes(3, PATIENCE).await?;
    rig.settled("web", 1).await?;
    let tries = rig.proxy.requests_of(&Match::creates("pods"));
    let waits: Vec<_> = tries.windows(2).map(|two| two[1].at - two[0].at).collect();
    assert_eq!(waits.len(), 3, "no burst: {waits:?}");
    assert!(waits.iter().all(|wait| *wait >= Duration::from_millis(1900)), "{waits:?}");
    rig.end(&planes).await
}

pub async fn ctl_19_a_live_read_tells_whose_the_taken_name_is(planes: Shared) -> Result<()> {
    let rig = Rig::start(&planes).await?;
    let witness = Witness::start(&rig).await?;
    // Ours: the first answer is lost, and the cache does not show the pod when the second try finds the name taken.
    let stall = rig.proxy.stall(Match::watches("pods"));
    rig.proxy.add(Rule::new(Match::creates("pods"), Fault::Lose(Moment::After, Loss::Stream)).when(When::first(1)));
    rig.create_set("ours", 1).await?;
    wait::until("the second try to be refused", PATIENCE, async || {
        let tries = rig.proxy.requests_of(&Match::creates("pods"));
        ensure!(tries.len() == 2 && tries[1].status == Some(409), "{:?}", tries.iter().map(|one| one.status).collect::<Vec<_>>());
        Ok(())
    })
    .await?;
    stall.release();
    rig.settled("ours", 1).await?;
    assert_eq!((rig.creates(), witness.of(1).await?.made()), (2, 1));
    // Another's: the first try is told that the name is taken.
    let taken = Fault::Refuse(Moment::Before, Refusal::already_exists());
    rig.proxy.add(Rule::new(Match::creates("pods"), taken).when(When::first(1)));
    rig.create_set("others", 1).await?;
    rig.settled("others", 1).await?;
    assert_eq!((rig.creates(), witness.of(2).await?.made()), (4, 2));
    rig.end(&planes).await
}
