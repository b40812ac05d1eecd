//! The status of a ReplicaSet (upstream `pkg/controller/replicaset/replica_set_utils.go`).

use std::sync::Arc;

use model::labels::Labels;
use model::ownership::Claimable as _;
use model::plan::{ApiError, IfRefused, StatusUpdate};
use model::replicaset::ReplicaSetStatus;
use model::{Condition, Pod, ReplicaSet, Time};
use serde_json::value::RawValue;

use crate::claim;
use crate::view::View;

const REPLICA_FAILURE: &str = "ReplicaFailure";

/// Upstream `calculateStatus`.
pub(crate) fn calculate(view: &View, active: &[Arc<Pod>], failure: Option<&ApiError>, now: Time) -> ReplicaSetStatus {
    let spec = &view.set.spec;
    let count = |test: &dyn Fn(&Pod) -> bool| active.iter().filter(|pod| test(pod)).count() as i32;
    let fully_labeled = |pod: &Pod| spec.template_labels.iter().all(|(key, value)| pod.get(key) == Some(value));
    ReplicaSetStatus {
        replicas: active.len() as i32,
        fully_labeled_replicas: count(&fully_labeled),
        ready_replicas: count(&|pod| pod.ready),
        available_replicas: count(&|pod| pod.is_available(spec.min_ready_seconds, now)),
        terminating_replicas: view.gates.terminating_replicas.then(|| claim::terminating(view) as i32),
        observed_generation: view.set.status.observed_generation,
        conditions: conditions(&view.set, active.len(), failure, now),
        other: view.set.status.other.clone(),
    }
}

/// A failure sets the condition once and leaves it as it is; its absence removes it, also when pending expectations kept the replicas unmanaged.
fn conditions(set: &ReplicaSet, active: usize, failure: Option<&ApiError>, now: Time) -> Vec<Condition> {
    let mut conditions = set.status.conditions.clone();
    match failure {
        Some(_) if set.status.condition(REPLICA_FAILURE).is_some() => {}
        Some(error) => conditions.push(Condition {
            r#type: REPLICA_FAILURE.to_owned(),
            status: "True".to_owned(),
            last_transition_time: now.timestamp().map(|at| at.to_string()),
            reason: if (active as i64) < i64::from(set.spec.replicas) { "FailedCreate" } else { "FailedDelete" }.to_owned(),
            message: error.to_string(),
            ..Condition::default()
        }),
        None => conditions.retain(|condition| condition.r#type != REPLICA_FAILURE),
    }
    conditions
}

/// Upstream `updateReplicaSetStatus`: nothing is written when nothing has changed and this generation was observed before.
pub(crate) fn update(set: &ReplicaSet, mut new: ReplicaSetStatus) -> Option<StatusUpdate> {
    if new == set.status && set.generation == set.status.observed_generation {
        return None;
    }
    new.observed_generation = set.generation;
    let status = serde_json::to_string(&new).and_then(RawValue::from_string).ok()?;
    Some(StatusUpdate { target: set.reference(), metadata: set.metadata().cloned(), status, if_refused: IfRefused::WriteOverLive })
}
