//! A Deployment's conditions (upstream `pkg/controller/deployment/util/deployment_util.go`).

use model::{Condition, Time};

/// The condition's `type`.
pub(crate) const AVAILABLE: &str = "Available";
/// The condition's `type`.
pub(crate) const PROGRESSING: &str = "Progressing";
/// The condition's `type`, here and in ReplicaSets.
pub(crate) const REPLICA_FAILURE: &str = "ReplicaFailure";

pub(crate) const FOUND_NEW_REPLICA_SET: &str = "FoundNewReplicaSet";
pub(crate) const NEW_REPLICA_SET_CREATED: &str = "NewReplicaSetCreated";
pub(crate) const REPLICA_SET_CREATE_ERROR: &str = "ReplicaSetCreateError";
pub(crate) const REPLICA_SET_UPDATED: &str = "ReplicaSetUpdated";
pub(crate) const NEW_REPLICA_SET_AVAILABLE: &str = "NewReplicaSetAvailable";
pub(crate) const PROGRESS_DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
pub(crate) const DEPLOYMENT_PAUSED: &str = "DeploymentPaused";
pub(crate) const DEPLOYMENT_RESUMED: &str = "DeploymentResumed";

/// A condition that begins now (upstream `NewDeploymentCondition`).
pub(crate) fn new(r#type: &str, status: &str, reason: &str, message: String, now: Time) -> Condition {
    let now = now.timestamp().map(|at| at.to_string());
    Condition {
        r#type: r#type.to_owned(),
        status: status.to_owned(),
        last_update_time: now.clone(),
        last_transition_time: now,
        reason: reason.to_owned(),
        message,
        ..Condition::default()
    }
}

/// Upstream `SetDeploymentCondition`: nothing changes while status and reason stay the same; otherwise the condition goes to the end.
pub(crate) fn set(conditions: &mut Vec<Condition>, mut condition: Condition) {
    if let Some(current) = model::condition::find(conditions, &condition.r#type)
        && current.status == condition.status
    {
        if current.reason == condition.reason {
            return;
        }
        condition.last_transition_time.clone_from(&current.last_transition_time);
    }
    remove(conditions, &condition.r#type);
    conditions.push(condition);
}

/// Upstream `RemoveDeploymentCondition`.
pub(crate) fn remove(conditions: &mut Vec<Condition>, r#type: &str) {
    conditions.retain(|condition| condition.r#type != r#type);
}

/// Upstream `ReplicaSetToDeploymentCondition`.
pub(crate) fn from_replica_set(condition: &Condition) -> Condition {
    Condition { last_update_time: condition.last_transition_time.clone(), other: std::collections::BTreeMap::new(), ..condition.clone() }
}
