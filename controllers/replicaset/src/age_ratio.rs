//! How old the pods are that the ranking picks, against the youngest.

use model::plan::{Expect, Plan};
use model::{Time, Uid};

use crate::view::View;

/// For each ready pod that the plan deletes, the whole quotient of its age and that of the youngest ready pod (upstream
/// `pkg/controller/replicaset` `reportSortingDeletionAgeRatioMetric`). Empty where there was nothing to choose.
///
/// Upstream divides by zero, and dies of it, when that pod is less than a millisecond old; such pods are left out here.
pub fn deletion_age_ratios(view: &View, plan: &Plan, now: Time) -> Vec<f64> {
    let (Some(_), Some(claimed)) = (&view.progress.related, &view.progress.claimed) else { return Vec::new() };
    let millis = |created: Option<model::Timestamp>| created.map_or(0, |created| now.nanos_since(created.time()) / 1_000_000);
    let ready = || claimed.mine.iter().filter(|pod| pod.ready && pod.created.is_some());
    let Some(youngest) = ready().map(|pod| millis(pod.created)).min().filter(|age| *age != 0) else { return Vec::new() };
    let deletions = plan.stages.iter().filter(|stage| stage.expect == Expect::Deletions);
    let doomed: std::collections::HashSet<Uid> =
        deletions.flat_map(|stage| &stage.steps).filter_map(|step| step.action.target()).map(|target| target.uid).collect();
    ready().filter(|pod| doomed.contains(&pod.uid)).map(|pod| (millis(pod.created) / youngest) as f64).collect()
}
