//! What is told of an object while its caches are behind, and while it is not known what became of a write.

use anyhow::{Result, ensure};
use e2e::proxy::{Fault, Loss, Match, Moment, Rule};
use e2e::wait;
use serde_json::{Value, json};

use crate::rig::{Rig, Shared};
use crate::support::PATIENCE;

impl Rig {
    /// Waits until the set `web` is told to wait for these rules; then what is told.
    async fn told(&self, rules: &[&str]) -> Result<Value> {
        wait::until(&format!("web to wait for {rules:?}"), PATIENCE, async || {
            let page = self.program()?.endpoint().text(&format!("/explain/replicasets/{}/web", self.namespace)).await?;
            let told: Value = serde_json::from_str(&page)?;
            let seen: Vec<_> = told["waits"].as_array().into_iter().flatten().filter_map(|wait| wait["rule"].as_str()).collect();
            ensure!(seen == rules, "{told:#}");
            Ok(told)
        })
        .await
    }
}

pub async fn what_waits_for_a_late_watch_is_told(planes: Shared) -> Result<()> {
    let rig = Rig::start(&planes).await?;
    rig.create_set("web", 2).await?;
    for pod in rig.settled("web", 2).await? {
        rig.make_ready(&crate::support::name_of(&pod), 100).await?;
    }
    assert_eq!(rig.told(&[]).await?["verdict"], "settled");
    let stall = rig.proxy.stall(Match::watches("pods"));
    rig.scale("web", 3).await?;
    stall.holds(1, PATIENCE).await?;
    let told = rig.told(&["caches-behind", "writes-not-seen"]).await?;
    assert_eq!((&told["verdict"], &told["waits"][0]["on"]), (&json!("waits"), &json!("pods")));
    let version = told["waits"][0]["detail"].as_str().unwrap_or_default();
    assert!(version.starts_with("until it shows version "), "{told:#}");
    assert_eq!(told["waits"][1]["figures"][0], json!({"name": "creations", "value": 1}));
    // The cache does not show the third pod, and it is not told that one would be made.
    assert_eq!((&told["nextSteps"], &told["writesStatus"]), (&json!([]), &json!(false)));
    stall.release();
    rig.told(&["pods-not-ready"]).await?;
    rig.end(&planes).await
}

pub async fn what_waits_for_a_lost_answer_is_told(planes: Shared) -> Result<()> {
    let rig = Rig::start(&planes).await?;
    let lost = rig.proxy.add(Rule::new(Match::creates("pods"), Fault::Lose(Moment::Before, Loss::Stream)));
    rig.create_set("web", 1).await?;
    let told = rig.told(&["answer-lost", "writes-not-seen"]).await?;
    let name = told["waits"][0]["on"].as_str().unwrap_or_default();
    assert!(name.starts_with("web-") && told["waits"][0]["since"].is_string(), "{told:#}");
    assert_eq!((&told["verdict"], &told["nextSteps"]), (&json!("waits"), &json!([])));
    // A sync may just be going on.
    wait::until("it to be looked up by itself", PATIENCE, async || {
        let told = rig.told(&["answer-lost", "writes-not-seen"]).await?;
        ensure!(told["queue"]["nextAt"].is_string(), "{told:#}");
        Ok(())
    })
    .await?;
    lost.release();
    rig.end(&planes).await
}
