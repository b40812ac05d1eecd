//! Rollouts that get nowhere. Named after the rows of the bug corpus; what their rows say of metrics comes with the metrics.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use e2e::wait;
use serde_json::json;

use crate::rig::{Shared, behaving, by_hand, condition_of, rolling, set_name};
use crate::support::PATIENCE;

pub(crate) async fn dep_12_a_single_replica_that_never_starts_fails_although_it_need_not_be_there(cluster: Shared) -> Result<()> {
    let space = cluster.space("single").await?;
    let bad = |object: &mut serde_json::Value| {
        rolling(object, 1, 1);
        object["spec"]["progressDeadlineSeconds"] = json!(2);
        behaving(object, "never-start");
    };
    space.create_deployment_with("web", 1, bad).await?;
    let late = space.condition("web", "Progressing", "ProgressDeadlineExceeded").await?;
    let set = set_name(&space.new_set("web").await?);
    assert_eq!((late.status.as_str(), late.message), ("False", Some(format!("ReplicaSet \"{set}\" has timed out progressing."))));
    let enough = space.condition("web", "Available", "MinimumReplicasAvailable").await?;
    assert_eq!(enough.status, "True", "none of one is enough");
    Ok(())
}

/// Parity: a deadline is a rollout's, and a change of size is none.
pub(crate) async fn dep_13_scaling_up_from_zero_has_no_deadline(cluster: Shared) -> Result<()> {
    let space = cluster.space("zero").await?;
    let impatient = |object: &mut serde_json::Value| {
        by_hand(object);
        object["spec"]["progressDeadlineSeconds"] = json!(1);
    };
    space.create_deployment_with("web", 0, impatient).await?;
    space.complete("web").await?;
    let complete = space.condition("web", "Progressing", "NewReplicaSetAvailable").await?;

    space.scale_deployment("web", 1).await?;
    space.at_rest(&[1]).await?;
    let scaled = Instant::now();
    // The deadline, and the second by which upstream looks later.
    wait::until("the deadline to be over", PATIENCE, async || {
        ensure!(scaled.elapsed() > Duration::from_secs(3), "{:?}", scaled.elapsed());
        Ok(())
    })
    .await?;
    space.stays(&[1]).await?;
    let web = space.deployment("web").await?;
    assert_eq!(condition_of(&web, "Progressing").context("no condition")?, complete);
    assert_eq!(condition_of(&web, "Available").context("no condition")?.status, "False");
    Ok(())
}
