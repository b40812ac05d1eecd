//! What is reported (upstream `stateful_set_control.go` `updateStatus`, `stateful_set_utils.go` `completeUpdate`, `inconsistentStatus`).

use std::sync::Arc;

use model::statefulset::{StatefulSetStatus, UpdateStrategyType};
use model::{Condition, Pod, StatefulSet, Time};

use crate::recreate::{PROGRESSING, RECREATE_COMPLETED};
use crate::revisions::Revisions;
use crate::slots::{Availability, is_running_and_ready, revision_of};

/// A status without counts. Conditions, and fields we do not know, are those the set has.
pub(crate) fn begin(set: &StatefulSet, revisions: &Revisions, collision_count: i32) -> StatefulSetStatus {
    StatefulSetStatus {
        observed_generation: set.generation,
        current_revision: revisions.current.to_string(),
        update_revision: revisions.update.to_string(),
        collision_count: Some(collision_count),
        conditions: set.status.conditions.clone(),
        other: set.status.other.clone(),
        ..StatefulSetStatus::default()
    }
}

/// Counts pods: as they were read, so that one made or deleted by this sync is not counted otherwise.
pub(crate) fn count<'a>(
    status: &mut StatefulSetStatus,
    pods: impl Iterator<Item = &'a Arc<Pod>>,
    revisions: &Revisions,
    availability: Availability,
) {
    let [mut replicas, mut ready, mut available, mut current, mut updated] = [0; 5];
    for pod in pods {
        replicas += 1;
        if is_running_and_ready(pod) {
            ready += 1;
            available += i32::from(availability.is_available(pod));
        }
        if pod.deletion.is_none() {
            current += i32::from(revision_of(pod) == &*revisions.current);
            updated += i32::from(revision_of(pod) == &*revisions.update);
        }
    }
    status.replicas = replicas;
    status.ready_replicas = ready;
    status.available_replicas = available;
    status.current_replicas = current;
    status.updated_replicas = updated;
}

/// Where every pod is of the update revision and ready, that has become the current one.
pub(crate) fn complete(set: &StatefulSet, status: &mut StatefulSetStatus, recreate_gate: bool, now: Time) {
    // Pods of a third revision are taken off too where they give way, and no server takes a negative count.
    status.current_replicas = status.current_replicas.max(0);
    let wanted = set.spec.replicas;
    if [status.updated_replicas, status.ready_replicas, status.replicas] != [wanted; 3] {
        return;
    }
    status.current_replicas = status.updated_replicas;
    status.current_revision.clone_from(&status.update_revision);
    let recreates = recreate_gate && set.spec.update_strategy.r#type == UpdateStrategyType::Recreate;
    if recreates && status.condition(PROGRESSING).is_some() {
        set_condition(&mut status.conditions, PROGRESSING, "False", RECREATE_COMPLETED, "All pods recreated successfully", now);
    }
}

/// Whether a status is worth a write. A collision count alone is not.
pub(crate) fn is_inconsistent(old: &StatefulSetStatus, new: &StatefulSetStatus) -> bool {
    let counts = |status: &StatefulSetStatus| {
        [status.replicas, status.current_replicas, status.ready_replicas, status.updated_replicas, status.available_replicas]
    };
    new.observed_generation > old.observed_generation
        || counts(new) != counts(old)
        || new.current_revision != old.current_revision
        || new.update_revision != old.update_revision
        || new.conditions != old.conditions
}

/// Upstream `setStatefulSetCondition`: changed in place, and not at all while status, reason and message stay the same.
pub(crate) fn set_condition(conditions: &mut Vec<Condition>, r#type: &str, status: &str, reason: &str, message: &str, now: Time) {
    let now = now.timestamp().map(|at| at.to_string());
    let Some(condition) = conditions.iter_mut().find(|condition| condition.r#type == r#type) else {
        conditions.push(Condition {
            r#type: r#type.to_owned(),
            status: status.to_owned(),
            last_transition_time: now,
            reason: reason.to_owned(),
            message: message.to_owned(),
            ..Condition::default()
        });
        return;
    };
    if condition.status != status {
        condition.last_transition_time = now;
    }
    status.clone_into(&mut condition.status);
    reason.clone_into(&mut condition.reason);
    message.clone_into(&mut condition.message);
}
