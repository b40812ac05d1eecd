//! One Deployment and its ReplicaSets as one sync sees them, with what the sync has done so far laid over them.

use std::collections::HashSet;
use std::sync::Arc;

use model::ownership::{Claimant, Claimed};
use model::plan::{Answer, Outcome, Outcomes, Plan};
use model::selector::Selector;
use model::{Deployment, ReplicaSet, Time, Uid};

/// Feature gates the decisions depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gates {
    /// `DeploymentReplicaSetTerminatingReplicas`: the status counts terminating pods.
    pub terminating_replicas: bool,
}

/// What a sync decides from.
#[derive(Debug)]
pub struct View {
    /// The Deployment.
    pub deployment: Arc<Deployment>,
    /// The ReplicaSets it controls and the namespace's orphans.
    pub candidates: Vec<Arc<ReplicaSet>>,
    /// Feature gates.
    pub gates: Gates,
    /// The one clock reading of this sync: every round must come to the same.
    pub now: Time,
    pub(crate) progress: Progress,
}

/// How far this sync has come.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) may_adopt: Option<Result<(), String>>,
    pub(crate) claimed: Option<Claimed<ReplicaSet>>,
    /// What became of the stages since the claims, in their order.
    pub(crate) outcomes: Vec<Vec<Outcome>>,
    /// Answers since the claims, in their order.
    pub(crate) answers: Vec<Answer>,
    pub(crate) unfinished: Option<HashSet<Uid>>,
}

// === impl View ===

impl View {
    /// A view of which nothing has been done yet.
    pub fn new(deployment: Arc<Deployment>, candidates: Vec<Arc<ReplicaSet>>, gates: Gates, now: Time) -> Self {
        Self { deployment, candidates, gates, now, progress: Progress::default() }
    }

    /// Takes the answer to the question that [`crate::decide()`] asked last.
    pub fn answer(&mut self, answer: Answer) {
        if self.progress.claimed.is_some() {
            self.progress.answers.push(answer);
        } else if let Ok(selector) = &self.deployment.spec.selector {
            self.progress.may_adopt = Some(self.claimant(selector).may_adopt(&answer));
        }
    }

    /// Takes the UIDs of the ReplicaSets that have pods which have not finished.
    pub fn take_unfinished(&mut self, sets: HashSet<Uid>) {
        self.progress.unfinished = Some(sets);
    }

    /// Takes what became of the plan that [`crate::decide()`] handed out last.
    pub fn absorb(&mut self, plan: &Plan, outcomes: Outcomes) {
        if self.progress.claimed.is_some() {
            self.progress.outcomes.extend(outcomes.0);
        } else if let Ok(selector) = &self.deployment.spec.selector {
            let refusal = self.progress.may_adopt.as_ref().and_then(|answer| answer.as_ref().err()).map(String::as_str);
            self.progress.claimed = Some(self.claimant(selector).claimed(self.candidates.iter(), refusal, plan, &outcomes));
        }
    }

    /// The Deployment as a claimant of ReplicaSets.
    pub(crate) fn claimant<'a>(&self, selector: &'a Selector) -> Claimant<'a> {
        let deployment = &self.deployment;
        Claimant {
            owner: deployment.reference(),
            owner_ref: deployment.as_owner(),
            is_deleting: deployment.deletion.is_some(),
            selector,
            named_after: None,
        }
    }
}
