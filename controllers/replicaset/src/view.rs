//! One ReplicaSet and its pods as one sync sees them, with what the sync has done so far laid over them.

use std::sync::Arc;

use model::ownership::Claimed;
use model::plan::{Answer, ApiError, Outcomes, Plan, SyncError};
use model::{Pod, ReplicaSet};

use crate::claim;

/// Feature gates the decisions depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gates {
    /// `PodDeletionCost`: the annotation ranks pods for deletion.
    pub pod_deletion_cost: bool,
    /// `DeploymentReplicaSetTerminatingReplicas`: the status counts terminating pods.
    pub terminating_replicas: bool,
}

/// What a sync decides from. Expectations are read before the pods, so that a pod that arrives in between is never counted twice.
#[derive(Debug)]
pub struct View {
    /// The ReplicaSet.
    pub set: Arc<ReplicaSet>,
    /// The pods it controls and the namespace's orphans.
    pub pods: Vec<Arc<Pod>>,
    /// Whether every write of earlier syncs has been seen.
    pub expectations_satisfied: bool,
    /// Feature gates.
    pub gates: Gates,
    pub(crate) progress: Progress,
}

/// How far this sync has come.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) may_adopt: Option<Result<(), String>>,
    pub(crate) related: Option<Vec<Arc<Pod>>>,
    pub(crate) claimed: Option<Claimed<Pod>>,
    pub(crate) managed: Option<Managed>,
}

/// What became of the creates or deletes.
#[derive(Debug, Default)]
pub(crate) struct Managed {
    /// The first failure: it becomes the condition and the sync's error.
    pub(crate) error: Option<ApiError>,
    /// Deletes that met a newer pod: no failure, but to be decided again.
    pub(crate) conflicts: usize,
    /// The namespace takes no more pods, which is no failure.
    pub(crate) is_unwelcome: bool,
}

// === impl View ===

impl View {
    /// A view of which nothing has been done yet.
    pub fn new(set: Arc<ReplicaSet>, pods: Vec<Arc<Pod>>, expectations_satisfied: bool, gates: Gates) -> Self {
        Self { set, pods, expectations_satisfied, gates, progress: Progress::default() }
    }

    /// Takes the answer to the question that [`crate::decide()`] asked.
    pub fn answer(&mut self, answer: &Answer) {
        let Ok(selector) = &self.set.spec.selector else { return };
        self.progress.may_adopt = Some(claim::claimant(self, selector).may_adopt(answer));
    }

    /// Takes the pods of all ReplicaSets under the same owner, each once.
    pub fn relate(&mut self, pods: Vec<Arc<Pod>>) {
        self.progress.related = Some(pods);
    }

    /// Takes what became of the plan that [`crate::decide()`] handed out last.
    pub fn absorb(&mut self, plan: &Plan, outcomes: &Outcomes) {
        if self.progress.claimed.is_some() {
            self.progress.managed = Some(Managed::from_outcomes(plan, outcomes));
        } else if let Ok(selector) = &self.set.spec.selector {
            let refusal = self.progress.may_adopt.as_ref().and_then(|answer| answer.as_ref().err()).map(String::as_str);
            self.progress.claimed = Some(claim::claimant(self, selector).claimed(claim::active(self), refusal, plan, outcomes));
        }
    }

    /// The error that keeps this sync from going on to the replicas, if the claims failed.
    pub(crate) fn claim_error(&self) -> Option<SyncError> {
        self.progress.claimed.as_ref().and_then(|claimed| claimed.error.clone())
    }
}
