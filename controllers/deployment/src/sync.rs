//! One sync, from top to bottom (upstream `pkg/controller/deployment/deployment_controller.go` `syncDeployment`).
//!
//! What upstream does in the middle of a sync to the Deployment's status and revision annotation is collected here and written once, at
//! the end, with the status: upstream's second write in a sync would conflict with its first.

use std::collections::HashSet;
use std::slice;
use std::time::Duration;

use model::deployment::{DeploymentStatus, Strategy};
use model::ownership::is_adoption;
use model::plan::{
    Answer, ApiError, Conclusion, Decision, Event, IfRefused, Lookup, Mode, OnError, Outcome, Plan, Question, Rule, StatusUpdate, Step,
    SyncError, Wait,
};
use model::selector::Selector;
use model::{Deployment, Uid, annotations, raw};

use crate::conditions::{self, DEPLOYMENT_PAUSED, DEPLOYMENT_RESUMED, PROGRESS_DEADLINE_EXCEEDED, PROGRESSING};
use crate::events::warning;
use crate::member::Member;
use crate::view::View;

/// The sync as far as it is known, and what it has come to.
pub(crate) struct Sync<'v> {
    pub(crate) view: &'v View,
    pub(crate) deployment: &'v Deployment,
    /// What became of the stages that are still to be asked for.
    outcomes: slice::Iter<'v, Vec<Outcome>>,
    answers: slice::Iter<'v, Answer>,
    /// The new ReplicaSet: the oldest that has the Deployment's template.
    pub(crate) new: Option<Member>,
    /// All others, oldest first.
    pub(crate) old: Vec<Member>,
    /// The Deployment's revision annotation as it is going to be.
    pub(crate) revision: Option<Box<str>>,
    /// Its status as it was read, with the conditions and the collision count of this sync.
    pub(crate) status: DeploymentStatus,
    /// Its status as it is going to be, once that is known.
    pub(crate) new_status: Option<DeploymentStatus>,
    /// When to look whether the rollout is stuck, if nothing is written.
    pub(crate) stuck_check: Option<Duration>,
    /// What went wrong without ending the sync.
    pub(crate) late_error: Option<SyncError>,
    pub(crate) events: Vec<Event>,
    /// Why it goes no further.
    pub(crate) waits: Vec<Wait>,
}

/// Why a sync does not go on.
pub(crate) enum Stop {
    /// Something must be done or found out first.
    Until(Decision),
    /// It has failed and is tried again.
    Failed(SyncError),
    /// There is no point in going on, nor in trying again.
    Quietly,
}

/// The next round of the sync.
pub fn decide(view: &View) -> Decision {
    match Sync::new(view).sync_deployment() {
        Err(Stop::Until(decision)) => decision,
        Ok(()) | Err(Stop::Failed(_) | Stop::Quietly) => Decision::Conclude,
    }
}

/// What the sync comes to.
pub fn conclude(view: &View) -> Conclusion {
    let mut sync = Sync::new(view);
    let ended = sync.sync_deployment();
    sync.conclusion(ended)
}

// === impl Sync ===

impl<'v> Sync<'v> {
    fn new(view: &'v View) -> Self {
        let deployment = &view.deployment;
        Self {
            view,
            deployment,
            outcomes: view.progress.outcomes.iter(),
            answers: view.progress.answers.iter(),
            new: None,
            old: Vec::new(),
            revision: deployment.revision.clone(),
            status: deployment.status.clone(),
            new_status: None,
            stuck_check: None,
            late_error: None,
            events: Vec::new(),
            waits: Vec::new(),
        }
    }

    fn sync_deployment(&mut self) -> Result<(), Stop> {
        let spec = &self.deployment.spec;
        let selector = spec.selector.as_ref().map_err(|error| {
            let key = &self.deployment.key;
            self.waits.push(Wait::new(Rule::InvalidSelector).saying(error.to_string()));
            failed(format!("deployment {key} has invalid label selector: {error}"))
        })?;
        if *selector != Selector::Nothing && selector.is_empty() {
            self.refuse_to_select_all();
            return Ok(());
        }
        self.claim_replica_sets(selector)?;
        if self.deployment.deletion.is_some() {
            self.waits.push(Wait::new(Rule::BeingDeleted));
            self.sync_revision()?;
            self.sync_status();
            return Ok(());
        }
        self.check_paused_conditions();
        if spec.paused {
            return self.sync_size();
        }
        if let Some(revision) = self.rollback_to() {
            return self.rollback(revision);
        }
        self.sync_revision()?;
        if self.is_scaling_event() {
            return self.sync_size();
        }
        match &spec.strategy {
            Strategy::RollingUpdate { .. } => self.rollout_rolling(),
            Strategy::Recreate => self.rollout_recreate(),
            Strategy::Unknown(strategy) => {
                self.waits.push(Wait::new(Rule::UnknownStrategy).saying(&**strategy));
                Err(failed(format!("unexpected deployment strategy type: {strategy}")))
            }
        }
    }

    fn refuse_to_select_all(&mut self) {
        let message = "This deployment is selecting all pods. A non-empty selector is required.";
        self.events.push(warning("SelectingAll", message.to_owned()));
        self.waits.push(Wait::new(Rule::SelectsAll));
        self.status.observed_generation = self.status.observed_generation.max(self.deployment.generation);
    }

    /// Upstream `getReplicaSetsForDeployment`, `FindNewReplicaSet` and `FindOldReplicaSets`.
    fn claim_replica_sets(&mut self, selector: &Selector) -> Result<(), Stop> {
        let progress = &self.view.progress;
        let Some(claimed) = &progress.claimed else {
            let mut steps = self.view.claimant(selector).steps(self.view.candidates.iter());
            match &progress.may_adopt {
                None if steps.iter().any(is_adoption) => {
                    return Err(Stop::Until(Decision::Ask(Question::MayAdopt(self.deployment.reference()))));
                }
                Some(Err(_)) => steps.retain(|step| !is_adoption(step)),
                _ => {}
            }
            return Err(Stop::Until(Decision::Act(Plan::one_stage(steps, Mode::OneByOne, OnError::GoOn))));
        };
        if let Some(error) = &claimed.error {
            return Err(Stop::Failed(error.clone()));
        }
        let Some(template) = self.deployment.spec.template.fingerprint() else {
            return Err(failed("spec.template cannot be compared with those of the ReplicaSets".to_owned()));
        };
        self.old = claimed.mine.iter().map(|set| Member::read(set.clone())).collect();
        self.old.sort_by(|one, other| one.age_order().cmp(&other.age_order()));
        let is_new = |member: &Member| member.set().and_then(|set| set.template_fingerprint()) == Some(template);
        self.new = self.old.iter().position(is_new).map(|at| self.old.remove(at));
        Ok(())
    }

    /// Upstream `checkPausedConditions`: a rollout that was paused for long must not be found stuck when it is resumed.
    fn check_paused_conditions(&mut self) {
        if self.deployment.spec.progress_deadline().is_none() {
            return;
        }
        let reason = self.status.condition(PROGRESSING).map(|condition| condition.reason.as_str());
        let (reason, message) = match (reason, self.deployment.spec.paused) {
            (Some(PROGRESS_DEADLINE_EXCEEDED), _) | (Some(DEPLOYMENT_PAUSED), true) => return,
            (_, true) => (DEPLOYMENT_PAUSED, "Deployment is paused"),
            (Some(DEPLOYMENT_PAUSED), false) => (DEPLOYMENT_RESUMED, "Deployment is resumed"),
            (_, false) => return,
        };
        self.note(PROGRESSING, "Unknown", reason, message.to_owned());
    }

    /// Sets a condition of the Deployment.
    pub(crate) fn note(&mut self, r#type: &str, status: &str, reason: &str, message: String) {
        conditions::set(&mut self.status.conditions, conditions::new(r#type, status, reason, message, self.view.now));
    }

    /// The new ReplicaSet and the old ones.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Member> {
        self.old.iter().chain(&self.new)
    }

    /// Has the steps carried out, in their order until one fails; what became of each.
    pub(crate) fn act(&mut self, steps: Vec<Step>) -> Result<&'v [Outcome], Stop> {
        if steps.is_empty() {
            return Ok(&[]);
        }
        let stage = Plan::one_stage(steps, Mode::OneByOne, OnError::SkipRest);
        self.outcomes.next().map(Vec::as_slice).ok_or(Stop::Until(Decision::Act(stage)))
    }

    /// Has a question answered.
    pub(crate) fn ask(&mut self, question: Question) -> Result<&'v Answer, Stop> {
        self.answers.next().ok_or(Stop::Until(Decision::Ask(question)))
    }

    /// The ReplicaSets that have pods which have not finished.
    pub(crate) fn unfinished(&self) -> Result<&'v HashSet<Uid>, Stop> {
        self.view.progress.unfinished.as_ref().ok_or(Stop::Until(Decision::Look(Lookup::UnfinishedPods)))
    }

    /// On every path, errors included: what was noted is written, and what was found out is told.
    fn conclusion(self, ended: Result<(), Stop>) -> Conclusion {
        let deployment = self.deployment;
        let status = self.new_status.unwrap_or(self.status);
        let update = (status != deployment.status || self.revision != deployment.revision)
            .then(|| status_update(deployment, &status, self.revision.as_deref()));
        let (update, unwritten) = match update.transpose() {
            Ok(update) => (update, None),
            Err(error) => (None, Some(SyncError(format!("writing the status: {error}")))),
        };
        let error = match ended {
            Ok(()) => self.late_error,
            Err(Stop::Failed(error)) => Some(error),
            Err(Stop::Quietly | Stop::Until(_)) => None,
        };
        Conclusion {
            requeue_after: self.stuck_check.filter(|_| update.is_none()),
            status: update,
            error: error.or(unwritten),
            events: self.events,
            waits: self.waits,
        }
    }
}

/// A status PUT takes the annotations from the request: the revision goes with it.
fn status_update(deployment: &Deployment, status: &DeploymentStatus, revision: Option<&str>) -> Result<StatusUpdate, serde_json::Error> {
    let metadata = match revision {
        Some(revision) if deployment.revision.as_deref() != Some(revision) => {
            raw::with_text(&deployment.metadata, &["annotations", annotations::REVISION], revision)?.into()
        }
        _ => deployment.metadata.clone(),
    };
    let status = serde_json::value::to_raw_value(status)?;
    Ok(StatusUpdate { target: deployment.reference(), metadata: Some(metadata), status, if_refused: IfRefused::Fail })
}

/// A sync that has failed for a reason of ours.
pub(crate) fn failed(why: String) -> Stop {
    Stop::Failed(SyncError(why))
}

/// What an outcome means to a sync that needs it done.
pub(crate) fn done(outcome: Option<&Outcome>) -> Result<model::ResourceVersion, SyncError> {
    match outcome {
        Some(Outcome::Done { resource_version, .. }) => Ok(*resource_version),
        Some(Outcome::Failed(error) | Outcome::Unknown(error)) => Err(SyncError(error.to_string())),
        Some(Outcome::NotSent) | None => Err(SyncError(not_sent().to_string())),
    }
}

fn not_sent() -> ApiError {
    ApiError { message: "not sent".to_owned(), ..ApiError::default() }
}
