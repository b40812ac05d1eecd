//! Who may scrape, and what comes of it.

use std::rc::Rc;

use anyhow::{Context as _, Result, ensure};
use e2e::wait;
use serde_json::Value;

use super::rig::Cluster;
use crate::support::{PATIENCE, text};

/// What Prometheus says of the target of a job, once it has tried to scrape it.
async fn target(cluster: &Cluster, job: &str, health: &str) -> Result<Value> {
    wait::until(&format!("the target of {job} to be {health}"), PATIENCE, async || {
        let targets: Value = cluster.prometheus.ask("/api/v1/targets").await?;
        let all = targets["activeTargets"].as_array().context("no targets")?;
        let target = all.iter().find(|target| target["scrapePool"] == job).with_context(|| format!("no {job}: {targets}"))?;
        ensure!(target["health"] == health, "{target}");
        Ok(target.clone())
    })
    .await
}

pub async fn prometheus_scrapes_with_a_service_accounts_token(cluster: Rc<Cluster>) -> Result<()> {
    for (job, metric) in [("workloads-controller-manager", "workqueue_depth"), ("slis", "kubernetes_healthcheck")] {
        let target = target(&cluster, job, "up").await?;
        assert!(text(&target, "/scrapeUrl")?.starts_with("https://127.0.0.1:"), "{target}");
        let found = wait::until(metric, PATIENCE, async || {
            let found = cluster.prometheus.query(metric).await?;
            ensure!(!found.is_empty(), "nothing");
            Ok(found)
        })
        .await?;
        assert!(found.iter().all(|(labels, _)| labels["job"] == "workloads-controller-manager"), "{found:?}");
    }
    Ok(())
}

pub async fn who_may_not_read_metrics_scrapes_nothing(cluster: Rc<Cluster>) -> Result<()> {
    for (job, answer) in [("nobody", "403 Forbidden"), ("stranger", "403 Forbidden"), ("nonsense", "401 Unauthorized")] {
        let target = target(&cluster, job, "down").await?;
        assert_eq!(text(&target, "/lastError")?, format!("server returned HTTP status {answer}"), "{job}");
        let found = cluster.prometheus.query(&format!("count by (__name__) ({{job=\"{job}\", __name__!~\"up|scrape_.*\"}})")).await?;
        assert!(found.is_empty(), "{job}: {found:?}");
    }
    Ok(())
}
