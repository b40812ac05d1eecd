//! Who would go.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use e2e::wait;
use serde_json::{Value, json};

use super::rig::Shared;
use crate::support::{PATIENCE, name_of};

fn victims(told: &Value) -> Vec<String> {
    told["nextVictims"].as_array().into_iter().flatten().filter_map(|victim| victim["name"].as_str().map(str::to_owned)).collect()
}

pub(crate) async fn the_pods_that_would_go_first_do(cluster: Shared) -> Result<()> {
    let space = cluster.space("victims").await?;
    space.create_set("web", 5).await?;
    let pods: Vec<_> = space.settled("web", 5).await?.iter().map(name_of).collect();
    cluster.waits_for(&space, "replicasets/web", &[]).await?;
    let cheap = pods.last().context("no pods")?;
    space.patch_pod(cheap, json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5"}}})).await?;
    let named = wait::until("the cheapest to be the first", PATIENCE, async || {
        let named = victims(&cluster.told(&space, "replicasets/web").await?);
        ensure!(named.first() == Some(cheap), "{named:?}");
        Ok(named)
    })
    .await?;
    assert_eq!(named.len(), 5);
    let mut left: BTreeSet<_> = pods.iter().cloned().collect();
    for (size, victim) in [(4, 0), (3, 1)] {
        space.scale("web", size).await?;
        left.remove(&named[victim]);
        let there: BTreeSet<_> = space.settled("web", left.len()).await?.iter().map(name_of).collect();
        assert_eq!(there, left, "of {named:?}");
    }
    Ok(())
}
