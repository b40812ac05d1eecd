//! The status of a Deployment (upstream `pkg/controller/deployment/sync.go` `calculateStatus`, `pkg/controller/deployment/progress.go`).

use std::time::Duration;

use model::deployment::DeploymentStatus;
use model::replicaset::ReplicaSetStatus;
use model::{Condition, Time, Timestamp};

use crate::conditions::{
    self, AVAILABLE, NEW_REPLICA_SET_AVAILABLE, PROGRESS_DEADLINE_EXCEEDED, PROGRESSING, REPLICA_FAILURE, REPLICA_SET_UPDATED,
};
use crate::fenceposts::Fenceposts;
use crate::member::Member;
use crate::sync::Sync;

const NANOS: i64 = 1_000_000_000;

// === impl Sync ===

impl Sync<'_> {
    /// Upstream `syncDeploymentStatus`: the counts, and whether enough is available.
    pub(crate) fn sync_status(&mut self) {
        self.new_status = Some(self.calculate_status());
    }

    /// Upstream `syncRolloutStatus`: how the rollout goes, besides.
    pub(crate) fn sync_rollout_status(&mut self) {
        let mut status = self.calculate_status();
        match self.deployment.spec.progress_deadline() {
            None => conditions::remove(&mut status.conditions, PROGRESSING),
            Some(deadline) => self.estimate_progress(&mut status, deadline),
        }
        match self.replica_failure() {
            Some(failure) => conditions::set(&mut status.conditions, conditions::from_replica_set(failure)),
            None => conditions::remove(&mut status.conditions, REPLICA_FAILURE),
        }
        self.stuck_check = self.stuck_check_after(&status);
        self.note_waits(&status);
        self.new_status = Some(status);
    }

    fn calculate_status(&self) -> DeploymentStatus {
        let spec = &self.deployment.spec;
        let sum = |of: fn(&ReplicaSetStatus) -> i32| self.all().filter_map(Member::status).map(of).sum::<i32>();
        let wanted: i32 = self.all().map(Member::replicas_read).sum();
        let available = sum(|status| status.available_replicas);
        let mut status = DeploymentStatus {
            observed_generation: self.deployment.generation,
            replicas: sum(|status| status.replicas),
            updated_replicas: self.new.as_ref().and_then(Member::status).map_or(0, |status| status.replicas),
            ready_replicas: sum(|status| status.ready_replicas),
            available_replicas: available,
            unavailable_replicas: (wanted - available).max(0),
            terminating_replicas: if self.view.gates.terminating_replicas { self.terminating() } else { None },
            ..self.status.clone()
        };
        let enough = available >= spec.replicas - Fenceposts::of(spec).max_unavailable;
        let (word, reason, message) = if enough {
            ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
        } else {
            ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
        };
        conditions::set(&mut status.conditions, conditions::new(AVAILABLE, word, reason, message.to_owned(), self.view.now));
        status
    }

    /// Upstream `GetTerminatingReplicaCountForReplicaSets`: one that was never synced has none; one that was and does not say makes the
    /// sum unknown.
    fn terminating(&self) -> Option<i32> {
        let known = |status: &ReplicaSetStatus| match (status.terminating_replicas, status.observed_generation) {
            (None, 0) => Some(0),
            (count, _) => count,
        };
        self.all().filter_map(Member::status).map(known).sum()
    }

    /// Whether all that is wanted is of the new template and available, and nothing else is left (upstream `DeploymentComplete`).
    pub(crate) fn is_complete(&self, status: &DeploymentStatus) -> bool {
        let wanted = self.deployment.spec.replicas;
        [status.updated_replicas, status.replicas, status.available_replicas].iter().all(|count| *count == wanted)
            && status.observed_generation >= self.deployment.generation
    }

    fn estimate_progress(&self, status: &mut DeploymentStatus, deadline: i32) {
        let current = self.status.condition(PROGRESSING);
        let was_complete = current.is_some_and(|condition| condition.reason == NEW_REPLICA_SET_AVAILABLE);
        if was_complete && status.replicas == status.updated_replicas {
            // No rollout is under way: this is a resync, or a change of size.
            return;
        }
        let who = match &self.new {
            Some(new) => format!("ReplicaSet {:?}", new.key.name),
            None => format!("Deployment {:?}", self.deployment.key.name),
        };
        let condition = |status, reason, what| conditions::new(PROGRESSING, status, reason, format!("{who} {what}"), self.view.now);
        if self.is_complete(status) {
            conditions::set(&mut status.conditions, condition("True", NEW_REPLICA_SET_AVAILABLE, "has successfully progressed."));
        } else if self.has_progressed(status) {
            // The one condition that is renewed although status and reason stay the same: its lastUpdateTime is what the deadline counts from.
            let mut progress = condition("True", REPLICA_SET_UPDATED, "is progressing.");
            if let Some(current) = current.filter(|current| current.status == "True") {
                progress.last_transition_time.clone_from(&current.last_transition_time);
            }
            conditions::remove(&mut status.conditions, PROGRESSING);
            status.conditions.push(progress);
        } else if status.condition(PROGRESSING).is_some_and(|condition| has_timed_out(condition, deadline, self.view.now)) {
            conditions::set(&mut status.conditions, condition("False", PROGRESS_DEADLINE_EXCEEDED, "has timed out progressing."));
        }
    }

    /// Upstream `DeploymentProgressing`.
    fn has_progressed(&self, status: &DeploymentStatus) -> bool {
        let old = |status: &DeploymentStatus| status.replicas - status.updated_replicas;
        let before = &self.status;
        status.updated_replicas > before.updated_replicas
            || old(status) < old(before)
            || status.ready_replicas > before.ready_replicas
            || status.available_replicas > before.available_replicas
    }

    /// Upstream `getReplicaFailures`: that of the new ReplicaSet, or the first.
    fn replica_failure(&self) -> Option<&Condition> {
        self.failing().map(|(_, failure)| failure)
    }

    /// The ReplicaSet that says so, and what it says.
    pub(crate) fn failing(&self) -> Option<(&Member, &Condition)> {
        self.new.iter().chain(self.all()).find_map(|member| Some((member, member.condition(REPLICA_FAILURE)?)))
    }

    /// Upstream `requeueStuckDeployment`: nothing else would bring a rollout back that does not move.
    fn stuck_check_after(&self, status: &DeploymentStatus) -> Option<Duration> {
        let deadline = self.deployment.spec.progress_deadline()?;
        let current = self.status.condition(PROGRESSING)?;
        if self.is_complete(status) || current.reason == PROGRESS_DEADLINE_EXCEEDED {
            return None;
        }
        let left = due(current, deadline).map_or(0, |due| due.nanos_since(self.view.now));
        // Times of conditions are cut to seconds.
        Some(Duration::from_nanos(u64::try_from(left).unwrap_or(0)) + Duration::from_secs(1))
    }
}

/// Upstream `DeploymentTimedOut`.
fn has_timed_out(condition: &Condition, deadline: i32, now: Time) -> bool {
    match condition.reason.as_str() {
        NEW_REPLICA_SET_AVAILABLE => false,
        PROGRESS_DEADLINE_EXCEEDED => true,
        _ => due(condition, deadline).is_none_or(|due| due < now),
    }
}

/// When the deadline ends; a condition without a time has none left.
pub(crate) fn due(condition: &Condition, deadline: i32) -> Option<Time> {
    let updated = condition.last_update_time.as_deref().and_then(Timestamp::parse)?;
    Some(Time(updated.time().0.saturating_add(i64::from(deadline).saturating_mul(NANOS))))
}
