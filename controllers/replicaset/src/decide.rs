//! From a view to the next thing to do, and to the end of the sync (upstream `pkg/controller/replicaset/replica_set.go`
//! `syncReplicaSet` and `manageReplicas`).

use std::sync::Arc;
use std::time::Duration;

use model::labels::Labels;
use model::ownership::{Claimable as _, is_adoption};
use model::plan::{
    Action, ApiError, Conclusion, Create, Decision, Delete, Expect, Lookup, Mode, NewObject, OnError, Outcomes, PODS, Plan, Question, Rule,
    Stage, Step, SyncError, Wait,
};
use model::pod::next_availability_check;
use model::rank::{describe_rank, sort_for_deletion};
use model::template::pod_from_template;
use model::{OwnerRef, Pod, ReplicaSet, Time};

use crate::view::{Managed, View};
use crate::{claim, status, waits};

/// No sync creates or deletes more pods than this (upstream `BurstReplicas`).
pub const BURST_REPLICAS: usize = 500;

/// The next round of the sync.
pub fn decide(view: &View, now: Time) -> Decision {
    let Ok(selector) = &view.set.spec.selector else { return Decision::Conclude };
    let Some(claimed) = &view.progress.claimed else {
        let steps = claim::claimant(view, selector).steps(claim::active(view));
        if view.progress.may_adopt.is_none() && steps.iter().any(is_adoption) {
            return Decision::Ask(Question::MayAdopt(view.set.reference()));
        }
        return Decision::Act(claim::plan(view, steps));
    };
    let may_manage = view.expectations_satisfied && view.set.deletion.is_none();
    if view.progress.managed.is_some() || claimed.error.is_some() || !may_manage {
        return Decision::Conclude;
    }
    manage_replicas(view, &claimed.mine, now)
}

/// Upstream `manageReplicas`: too few are created by slow start, too many are deleted all at once.
fn manage_replicas(view: &View, active: &[Arc<Pod>], now: Time) -> Decision {
    let wanted = usize::try_from(view.set.spec.replicas).unwrap_or(0);
    if active.len() < wanted {
        return create(view, (wanted - active.len()).min(BURST_REPLICAS));
    }
    if active.len() == wanted {
        return Decision::Conclude;
    }
    let excess = (active.len() - wanted).min(BURST_REPLICAS);
    let mut doomed = active.to_vec();
    if excess < active.len() {
        let Some(related) = &view.progress.related else {
            return Decision::Look(Lookup::RelatedPods);
        };
        doomed = sort_for_deletion(active, related, view.gates.pod_deletion_cost, now);
        doomed.truncate(excess);
    }
    let steps = doomed
        .iter()
        .map(|pod| Step { action: Action::Delete(Delete { target: pod.reference(), at_version: true }), reason: Rule::TooManyReplicas });
    one_stage(steps.collect(), Mode::AllAtOnce, OnError::GoOn, Expect::Deletions)
}

/// How many pods [`next_victims`] names.
const VICTIMS: usize = 5;

/// The pods that would go first if the ReplicaSet were made smaller, in that order, with what ranks them; none until
/// [`Lookup::RelatedPods`] is answered.
pub fn next_victims(view: &View, now: Time) -> Vec<(String, String)> {
    let (Some(claimed), Some(related)) = (&view.progress.claimed, &view.progress.related) else { return Vec::new() };
    let sorted = sort_for_deletion(&claimed.mine, related, view.gates.pod_deletion_cost, now);
    sorted.iter().take(VICTIMS).map(|pod| (pod.name.to_string(), describe_rank(pod, related, now))).collect()
}

fn create(view: &View, count: usize) -> Decision {
    let owner = view.set.as_owner();
    // `conclude` says why.
    let Ok(body) = new_pod(&view.set, &owner) else { return Decision::Conclude };
    let body = Arc::new(body);
    let step = || Step {
        action: Action::Create(Create {
            resource: &PODS,
            namespace: view.set.key.namespace.clone(),
            owner: Some(owner.clone()),
            body: body.clone(),
            // Its name is not known yet.
            news: None,
        }),
        reason: Rule::TooFewReplicas,
    };
    one_stage((0..count).map(|_| step()).collect(), Mode::SlowStart, OnError::SkipRest, Expect::Creations)
}

/// The pods' body, or why there can be none; the API server lets no such template through.
fn new_pod(set: &ReplicaSet, owner: &OwnerRef) -> Result<NewObject, ApiError> {
    let refuse = |message: String| ApiError { message, ..ApiError::default() };
    if set.spec.template_labels.is_empty() {
        return Err(refuse("unable to create pods, no labels".to_owned()));
    }
    // What is at zero wants no pods.
    let Some(template) = set.template() else { return Err(refuse("unable to create pods, the template is not kept".to_owned())) };
    pod_from_template(template, owner).map_err(|error| refuse(format!("unable to create pods, spec.template: {error}")))
}

fn one_stage(steps: Vec<Step>, mode: Mode, on_error: OnError, expect: Expect) -> Decision {
    Decision::Act(Plan { stages: vec![Stage { steps, tasks: Vec::new(), mode, on_error, expect }] })
}

/// What the sync comes to: the status from the pods as they were before the replicas were managed, and when to look again.
pub fn conclude(view: &View, now: Time) -> Conclusion {
    let set = &view.set;
    let claimed = match (&set.spec.selector, &view.progress.claimed) {
        (Ok(_), Some(claimed)) if claimed.error.is_none() => claimed,
        // A selector that cannot be parsed ends the sync without an error: no retry would mend it.
        (Err(error), _) => {
            let waits = vec![Wait::new(Rule::InvalidSelector).saying(error.to_string())];
            return Conclusion { waits, ..Conclusion::default() };
        }
        _ => return Conclusion { error: view.claim_error(), ..Conclusion::default() },
    };
    let managed = view.progress.managed.as_ref();
    let unmade = unmade_template(view, claimed.mine.len());
    let failure = managed.and_then(|managed| managed.error.as_ref()).or(unmade.as_ref());
    let new = status::calculate(view, &claimed.mine, failure, now);
    let requeue_after = (set.spec.min_ready_seconds > 0 && new.ready_replicas != new.available_replicas).then(|| {
        let fallback = Duration::from_secs(u64::try_from(set.spec.min_ready_seconds).unwrap_or(0));
        next_availability_check(&claimed.mine, set.spec.min_ready_seconds, now).unwrap_or(fallback)
    });
    let conflicts = managed.map_or(0, |managed| managed.conflicts);
    let error = match failure {
        Some(error) => Some(SyncError(error.to_string())),
        None if conflicts > 0 => Some(SyncError(format!("{conflicts} pods changed before they could be deleted"))),
        None => None,
    };
    let waits = waits::of(view, &claimed.mine, &new, now);
    Conclusion { status: status::update(set, new), requeue_after, error, events: Vec::new(), waits }
}

/// Why pods that are wanted were not even asked for.
fn unmade_template(view: &View, active: usize) -> Option<ApiError> {
    let wanted = view.expectations_satisfied && view.set.deletion.is_none() && (active as i64) < i64::from(view.set.spec.replicas);
    if wanted { new_pod(&view.set, &view.set.as_owner()).err() } else { None }
}

// === impl Managed ===

impl Managed {
    /// What counts as a failure, and what does not: a pod already gone, a pod that changed under a delete (rule 6), a create in a namespace that is being deleted.
    pub(crate) fn from_outcomes(plan: &Plan, outcomes: &Outcomes) -> Self {
        let mut managed = Self::default();
        for (step, outcome) in outcomes.of(plan) {
            let Some(error) = outcome.error() else { continue };
            match &step.action {
                Action::Create(_) if error.namespace_terminating => managed.is_unwelcome = true,
                Action::Delete(_) if error.is_not_found() => {}
                Action::Delete(_) if error.is_conflict() => managed.conflicts += 1,
                Action::Create(_) | Action::Own(_) | Action::Patch(_) | Action::Edit(_) | Action::Reown(_) => managed.fail(error.clone()),
                Action::Delete(_) => {
                    let message = format!("unable to delete pods: {error}");
                    managed.fail(ApiError { message, ..error.clone() });
                }
            }
        }
        managed
    }

    fn fail(&mut self, error: ApiError) {
        self.error.get_or_insert(error);
    }
}
