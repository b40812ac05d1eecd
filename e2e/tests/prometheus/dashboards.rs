//! The queries of dashboards have answers.

use std::path::Path;
use std::rc::Rc;

use anyhow::{Context as _, Result, ensure};
use e2e::wait;
use serde_json::Value;

use super::rig::Cluster;
use crate::support::{PATIENCE, text};

/// The queries of kubernetes-mixin's dashboard "Kubernetes / Controller Manager", with its variables for our job.
const MIXIN: [&str; 14] = [
    r"sum(up{SELECTED})",
    r"sum(rate(workqueue_adds_total{SELECTED}[5m])) by (cluster, instance, name)",
    r"sum(rate(workqueue_depth{SELECTED}[5m])) by (cluster, instance, name)",
    r"histogram_quantile(0.99, sum(rate(workqueue_queue_duration_seconds_bucket{SELECTED}[5m])) by (cluster, instance, name, le))",
    r#"sum(rate(rest_client_requests_total{SELECTED, code=~"2.."}[5m]))"#,
    r#"sum(rate(rest_client_requests_total{SELECTED, code=~"3.."}[5m]))"#,
    r#"sum(rate(rest_client_requests_total{SELECTED, code=~"4.."}[5m]))"#,
    r#"sum(rate(rest_client_requests_total{SELECTED, code=~"5.."}[5m]))"#,
    r#"histogram_quantile(0.99, sum(rate(rest_client_request_duration_seconds_bucket{SELECTED, verb="POST"}[5m])) by (verb, url, le))"#,
    r#"histogram_quantile(0.99, sum(rate(rest_client_request_duration_seconds_bucket{SELECTED, verb="GET"}[5m])) by (verb, url, le))"#,
    r"process_resident_memory_bytes{SELECTED}",
    r"rate(process_cpu_seconds_total{SELECTED}[5m])",
    r"go_goroutines{SELECTED}",
    // The variables cluster and instance.
    r#"group by (instance) (up{job="workloads-controller-manager"})"#,
];
const SELECTED: &str = r#"cluster="", job="workloads-controller-manager", instance=~".+""#;

/// What has no answer, and why.
const WITHOUT_ANSWER: [(&str, &str); 3] = [
    (r#"code=~"3..""#, "the API server redirects nobody"),
    (r#"code=~"5..""#, "the API server is well"),
    ("go_goroutines", "nothing here is Go"),
];

/// Waits until an expression has an answer that is a number: a quantile of nothing is none.
async fn answered(cluster: &Cluster, expression: &str) -> Result<()> {
    wait::until(expression, PATIENCE, async || {
        let found = cluster.prometheus.query(expression).await?;
        ensure!(found.iter().any(|(_, value)| value.is_finite()), "{found:?}");
        Ok(())
    })
    .await
}

pub async fn the_queries_of_kubernetes_mixin_have_answers(cluster: Rc<Cluster>) -> Result<()> {
    for expression in MIXIN {
        let asked = expression.replace("SELECTED", SELECTED);
        // Asked all the same: an answer is no fault, but nothing can be expected.
        match WITHOUT_ANSWER.iter().find(|(part, _)| expression.contains(part)) {
            Some(_) => drop(cluster.prometheus.query(&asked).await?),
            None => answered(&cluster, &asked).await?,
        }
    }
    Ok(())
}

pub async fn the_queries_of_our_dashboard_have_answers(cluster: Rc<Cluster>) -> Result<()> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/dashboards/workloads-controller-manager.json");
    let dashboard: Value = serde_json::from_str(&std::fs::read_to_string(file)?)?;
    let mut count = 0;
    for panel in dashboard["panels"].as_array().context("no panels")? {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let mut asked = text(target, "/expr")?.replace("$__rate_interval", "30s");
            for variable in ["$cluster", "$job", "$instance"] {
                asked = asked.replace(variable, ".*");
            }
            answered(&cluster, &asked).await.with_context(|| panel["title"].to_string())?;
            count += 1;
        }
    }
    ensure!(count > 20, "only {count} queries");
    Ok(())
}
