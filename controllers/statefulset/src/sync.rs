//! One sync, from top to bottom (upstream `pkg/controller/statefulset/stateful_set.go` `sync`, `stateful_set_control.go`
//! `UpdateStatefulSet`).

use std::collections::HashMap;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use model::ownership::is_adoption;
use model::plan::{
    Action, Answer, ApiError, Conclusion, Decision, Event, IfRefused, Mode, ObjectRef, OnError, Outcome, Outcomes, Own, Ownership, Patch,
    Plan, Question, Rule, StatusUpdate, Step, SyncError, Wait,
};
use model::pod::next_availability_check;
use model::selector::Selector;
use model::statefulset::StatefulSetStatus;
use model::{ControllerRevision, Pod, ResourceVersion, StatefulSet, Uid};

use crate::revisions::Revisions;
use crate::status;
use crate::view::{Findings, Sameness, Unavailable, View};

/// The sync as far as it is known, and what it has come to.
pub(crate) struct Sync<'v> {
    pub(crate) view: &'v View,
    pub(crate) set: &'v StatefulSet,
    /// What became of the plans that are still to be asked for.
    outcomes: slice::Iter<'v, Outcomes>,
    answers: slice::Iter<'v, Answer>,
    may_adopt: Option<Result<(), String>>,
    /// What this sync has adopted is no longer at the version at which it was read.
    adopted: HashMap<Uid, ResourceVersion>,
    /// The set's revisions as they were read, oldest first.
    pub(crate) revisions: Vec<Arc<ControllerRevision>>,
    /// Its pods.
    pub(crate) pods: Vec<Arc<Pod>>,
    /// The current and the update revision, once that is decided.
    pub(crate) decided: Option<Revisions>,
    pub(crate) collision_count: i32,
    pub(crate) sameness: Option<Sameness>,
    pub(crate) unavailable: Option<Unavailable>,
    /// The status as it is going to be, once that is known.
    pub(crate) status: Option<StatefulSetStatus>,
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
}

/// The next round of the sync.
pub fn decide(view: &View) -> Decision {
    match Sync::run(view).1 {
        Err(Stop::Until(decision)) => decision,
        Ok(()) | Err(Stop::Failed(_)) => Decision::Conclude,
    }
}

/// What the sync comes to, and what it has found out.
pub fn conclude(view: &View) -> (Conclusion, Findings) {
    let (sync, ended) = Sync::run(view);
    let findings = Findings { sameness: sync.sameness, unavailable: sync.unavailable };
    (sync.conclusion(ended), findings)
}

// === impl Sync ===

impl<'v> Sync<'v> {
    pub(crate) fn run(view: &'v View) -> (Self, Result<(), Stop>) {
        let mut sync = Self {
            view,
            set: &view.set,
            outcomes: view.progress.outcomes.iter(),
            answers: view.progress.answers.iter(),
            may_adopt: None,
            adopted: HashMap::new(),
            revisions: Vec::new(),
            pods: Vec::new(),
            decided: None,
            collision_count: view.set.status.collision_count.unwrap_or(0),
            sameness: None,
            unavailable: None,
            status: None,
            late_error: None,
            events: Vec::new(),
            waits: Vec::new(),
        };
        let ended = sync.sync_stateful_set();
        (sync, ended)
    }

    fn sync_stateful_set(&mut self) -> Result<(), Stop> {
        let selector = match &self.set.spec.selector {
            Ok(selector) => selector,
            // No retry would mend it.
            Err(error) => {
                self.waits.push(Wait::new(Rule::InvalidSelector).saying(error.to_string()));
                return Ok(());
            }
        };
        self.list_revisions(selector);
        self.adopt_orphan_revisions()?;
        self.claim_pods(selector)?;
        match self.update_stateful_set() {
            Err(Stop::Failed(error)) => self.late_error = Some(error),
            other => other?,
        }
        self.truncate_history()
    }

    /// Upstream `performUpdate`.
    fn update_stateful_set(&mut self) -> Result<(), Stop> {
        let revisions = self.decide_revisions()?;
        self.decided = Some(revisions.clone());
        self.process(&revisions)
    }

    /// Upstream `ListControllerRevisions`, `SortControllerRevisions`.
    fn list_revisions(&mut self, selector: &Selector) {
        let mine = |revision: &&Arc<ControllerRevision>| {
            let controller = &revision.controller;
            (controller.is_none() || controller.is(self.set.uid)) && selector.matches(&***revision)
        };
        self.revisions = self.view.revisions.iter().filter(mine).cloned().collect();
        self.revisions.sort_by(|one, other| order(one).cmp(&order(other)));
    }

    /// Upstream `adoptOrphanRevisions`: one that cannot be adopted ends the sync.
    fn adopt_orphan_revisions(&mut self) -> Result<(), Stop> {
        let orphans = self.revisions.iter().filter(|revision| revision.controller.is_none());
        let steps: Vec<_> = orphans.map(|revision| adopt(self.set, revision)).collect();
        if steps.is_empty() {
            return Ok(());
        }
        self.may_adopt()?.map_err(|why| failed(format!("can't adopt ControllerRevisions: {why}")))?;
        let (_, outcomes) = self.act(Plan::one_stage(steps, Mode::OneByOne, OnError::SkipRest))?;
        outcomes.0.iter().flatten().try_for_each(|outcome| done(outcome).map(drop).map_err(Stop::Failed))
    }

    /// Upstream `getPodsForStatefulSet`.
    fn claim_pods(&mut self, selector: &Selector) -> Result<(), Stop> {
        let view = self.view;
        let claimant = view.claimant(selector);
        let mut steps = claimant.steps(view.pods.iter());
        let refusal = if steps.iter().any(is_adoption) { self.may_adopt()?.err() } else { None };
        if refusal.is_some() {
            steps.retain(|step| !is_adoption(step));
        }
        let (plan, outcomes) = self.act(Plan::one_stage(steps, Mode::OneByOne, OnError::GoOn))?;
        let claimed = claimant.claimed(view.pods.iter(), refusal.as_deref(), &plan, outcomes);
        self.pods = claimed.mine;
        claimed.error.map_or(Ok(()), |error| Err(Stop::Failed(error)))
    }

    /// The one live look of a sync before its first adoption, and what it says against that.
    pub(crate) fn may_adopt(&mut self) -> Result<Result<(), String>, Stop> {
        if let Some(known) = &self.may_adopt {
            return Ok(known.clone());
        }
        let answer = self.ask(Question::MayAdopt(self.set.reference()))?;
        // What is selected makes no difference to the answer.
        let verdict = self.view.claimant(&Selector::Nothing).may_adopt(answer);
        self.may_adopt = Some(verdict.clone());
        Ok(verdict)
    }

    /// Has a plan carried out; the plan, and what became of it. One without steps is no round.
    pub(crate) fn act(&mut self, plan: Plan) -> Result<(Plan, &'v Outcomes), Stop> {
        static NOTHING: Outcomes = Outcomes(Vec::new());
        if plan.stages.iter().all(|stage| stage.steps.is_empty()) {
            return Ok((plan, &NOTHING));
        }
        match self.outcomes.next() {
            Some(outcomes) => {
                self.adopted.extend(outcomes.of(&plan).filter_map(|(step, outcome)| adopted(step, outcome)));
                Ok((plan, outcomes))
            }
            None => Err(Stop::Until(Decision::Act(plan))),
        }
    }

    /// Whether the next plan with steps is one whose outcomes are known: it will not be sent again.
    pub(crate) fn is_next_plan_carried_out(&self) -> bool {
        self.outcomes.len() > 0
    }

    /// A change of an object that was read, at the version that this sync has brought it to.
    pub(crate) fn patch(&self, mut target: ObjectRef, body: serde_json::Value) -> Action {
        target.resource_version = self.adopted.get(&target.uid).copied().unwrap_or(target.resource_version);
        Action::Patch(Patch { target, body, news: None })
    }

    /// Has one step carried out.
    pub(crate) fn act_once(&mut self, step: Step) -> Result<&'v Outcome, Stop> {
        let (_, outcomes) = self.act(Plan::one_stage(vec![step], Mode::OneByOne, OnError::SkipRest))?;
        outcomes.0.iter().flatten().next().ok_or_else(|| failed("a step had no outcome".to_owned()))
    }

    /// Has a question answered.
    pub(crate) fn ask(&mut self, question: Question) -> Result<&'v Answer, Stop> {
        self.answers.next().ok_or(Stop::Until(Decision::Ask(question)))
    }

    /// On every path, errors included: a status that was computed is written, and what was found out is told.
    fn conclusion(self, ended: Result<(), Stop>) -> Conclusion {
        let error = match ended {
            Err(Stop::Failed(error)) => Some(self.late_error.unwrap_or(error)),
            Ok(()) | Err(Stop::Until(_)) => self.late_error,
        };
        let Some(mut status) = self.status else {
            return Conclusion { error, events: self.events, waits: self.waits, ..Conclusion::default() };
        };
        let min_ready_seconds = self.set.spec.min_ready_seconds;
        let waits = error.is_none() && min_ready_seconds > 0 && status.ready_replicas != status.available_replicas;
        let requeue_after = waits.then(|| {
            let fallback = Duration::from_secs(u64::try_from(min_ready_seconds).unwrap_or(0));
            next_availability_check(&self.pods, min_ready_seconds, self.view.now).unwrap_or(fallback)
        });
        status::complete(self.set, &mut status, self.view.gates.recreate, self.view.now);
        let update = status::is_inconsistent(&self.set.status, &status).then(|| status_update(self.set, &status)).transpose();
        let (status, unwritten) = match update {
            Ok(update) => (update, None),
            Err(error) => (None, Some(SyncError(format!("writing the status: {error}")))),
        };
        Conclusion { status, requeue_after, error: error.or(unwritten), events: self.events, waits: self.waits }
    }
}

fn status_update(set: &StatefulSet, status: &StatefulSetStatus) -> Result<StatusUpdate, serde_json::Error> {
    Ok(StatusUpdate {
        target: set.reference(),
        metadata: Some(set.metadata.clone()),
        status: serde_json::value::to_raw_value(status)?,
        if_refused: IfRefused::Fail,
    })
}

/// Upstream `pkg/controller/history` `byRevision`.
fn order(revision: &ControllerRevision) -> (i64, Option<i64>, &str) {
    (revision.revision, revision.created.map(model::Timestamp::seconds), &revision.name)
}

fn adopt(set: &StatefulSet, revision: &ControllerRevision) -> Step {
    let own = Own { target: revision.reference(), owner: set.as_owner(), change: Ownership::Adopt };
    Step { action: Action::Own(own), reason: Rule::OrphanMatches }
}

/// Which object has been adopted, and its version since then.
fn adopted(step: &Step, outcome: &Outcome) -> Option<(Uid, ResourceVersion)> {
    match (&step.action, outcome) {
        (Action::Own(own), Outcome::Done { resource_version, .. }) if *resource_version > own.target.resource_version => {
            Some((own.target.uid, *resource_version))
        }
        _ => None,
    }
}

/// A sync that has failed for a reason of ours.
pub(crate) fn failed(why: String) -> Stop {
    Stop::Failed(SyncError(why))
}

/// What an outcome means to a sync that needs it done.
pub(crate) fn done(outcome: &Outcome) -> Result<(), SyncError> {
    match outcome {
        Outcome::Done { .. } => Ok(()),
        Outcome::Failed(error) | Outcome::Unknown(error) => Err(SyncError(error.to_string())),
        Outcome::NotSent => Err(SyncError(ApiError { message: "not sent".to_owned(), ..ApiError::default() }.to_string())),
    }
}
