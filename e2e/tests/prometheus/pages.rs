//! The pages as promtool's linter sees them.

use std::rc::Rc;

use anyhow::{Result, ensure};

use super::rig::Cluster;

pub async fn the_pages_of_a_busy_process_pass_promtool(cluster: Rc<Cluster>) -> Result<()> {
    for (path, samples) in [
        (
            "/metrics",
            // All three controllers have been at work, one was refused, something waits.
            &[
                "workloads_controller_manager_writes_total{controller=\"deployment\",",
                "workloads_controller_manager_writes_total{controller=\"replicaset\",",
                "workloads_controller_manager_writes_total{controller=\"statefulset\",",
                "workloads_controller_manager_writes_refused_total{controller=\"replicaset\",reason=\"Forbidden\",resource=\"pods\"}",
                "workloads_controller_manager_waiting_objects{controller=\"replicaset\",rule=\"pods-not-ready\"}",
                "replicaset_controller_sorting_deletion_age_ratio_count",
            ] as &[_],
        ),
        ("/metrics/slis", &["kubernetes_healthcheck{name=\"leaderElection\",type=\"readyz\"}"]),
    ] {
        let page = cluster.page(path).await?;
        for sample in samples {
            let mut found = page.lines().filter(|line| line.starts_with(sample));
            ensure!(found.any(|line| !line.ends_with(" 0")), "{sample} is not, or 0, on the page:\n{page}");
        }
        let file = cluster.folder.path().join(path.replace('/', "-"));
        std::fs::write(&file, page)?;
        let said = cluster.programs.promtool(&["check", "metrics"], Some(&file)).await?;
        ensure!(said.trim().is_empty(), "{path}: {said}");
    }
    Ok(())
}
