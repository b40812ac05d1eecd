//! What a sync does for one pod, as a task of its plan, and what is said of it as a whole.

use model::plan::{Action, Event, Expect, Mode, OnError, Outcome, PERSISTENTVOLUMECLAIMS, Stage, Step, Task};

use crate::events::{Verb, failed_pod, successful_pod};

/// Steps for one pod.
#[derive(Debug, Default)]
pub(crate) struct Job {
    /// The pod's name.
    pub(crate) pod: String,
    /// Steps that are all tried: the claims it lacks.
    pub(crate) tries: Vec<Step>,
    /// Steps that follow if those were done and nothing is wrong.
    pub(crate) then: Vec<Step>,
    /// What is wrong before anything is done.
    pub(crate) errors: Vec<String>,
    /// What the pod's event speaks of if it comes to nothing for want of claims.
    pub(crate) wants_claims_to: Option<Verb>,
    /// There is an event about the pod when all is done.
    pub(crate) is_repair: bool,
}

/// What became of jobs.
#[derive(Debug, Default)]
pub(crate) struct Results {
    pub(crate) errors: Vec<String>,
    pub(crate) events: Vec<Event>,
}

// === impl Job ===

impl Job {
    pub(crate) fn of(pod: impl Into<String>) -> Self {
        Self { pod: pod.into(), ..Self::default() }
    }

    /// A job of one step.
    pub(crate) fn step(pod: impl Into<String>, step: Step) -> Self {
        Self { then: vec![step], ..Self::of(pod) }
    }

    /// What can be sent of it.
    fn then(&self) -> &[Step] {
        if self.errors.is_empty() { &self.then } else { &[] }
    }
}

/// The jobs as a stage: in their order, or, where pods have no regard to each other, by slow start.
pub(crate) fn stage(jobs: &[Job], burst: bool, on_error: OnError) -> Stage {
    let tasks = jobs.iter().map(|job| Task { tries: job.tries.len(), then: job.then().len() });
    Stage {
        steps: jobs.iter().flat_map(|job| job.tries.iter().chain(job.then())).cloned().collect(),
        tasks: tasks.filter(|task| task.tries + task.then > 0).collect(),
        mode: if burst { Mode::SlowStart } else { Mode::OneByOne },
        on_error,
        expect: Expect::Nothing,
    }
}

// === impl Results ===

impl Results {
    /// Takes what became of a stage of jobs; nothing became of one that was not sent.
    pub(crate) fn take(&mut self, set: &str, jobs: &[Job], outcomes: &[Outcome]) {
        let mut rest = outcomes;
        for job in jobs {
            let (tried, later) = rest.split_at(job.tries.len().min(rest.len()));
            let (followed, later) = later.split_at(job.then().len().min(later.len()));
            rest = later;
            self.take_job(set, job, tried, followed);
        }
    }

    fn take_job(&mut self, set: &str, job: &Job, tried: &[Outcome], followed: &[Outcome]) {
        let mut lacking = job.errors.clone();
        let mut is_told = !lacking.is_empty();
        for (step, outcome) in job.tries.iter().zip(tried) {
            if let Some(error) = outcome.error() {
                lacking.push(format!("failed to create PVC {}: {error}", name_of(step)));
                is_told |= is_an_answer(outcome);
            }
        }
        if let Some(verb) = job.wants_claims_to.filter(|_| is_told) {
            self.events.push(failed_pod(verb, &job.pod, set, &aggregate(&lacking)));
        }
        self.errors.extend(lacking);
        for (step, outcome) in job.then().iter().zip(followed) {
            let Some(error) = failure(step, outcome) else { continue };
            let about_claim = format!("could not update claim {} for delete policy ownerRefs: {error}", name_of(step));
            let is_claim = step.action.resource() == &PERSISTENTVOLUMECLAIMS;
            if is_claim && is_an_answer(outcome) {
                self.events.push(failed_pod(Verb::Update, &job.pod, set, &about_claim));
            }
            self.errors.push(if is_claim { about_claim } else { error });
        }
        let has_own_event = job.then.iter().any(|step| step.action.resource() != &PERSISTENTVOLUMECLAIMS);
        let all_done = !followed.is_empty() && followed.iter().all(Outcome::is_done);
        if job.is_repair && all_done && !has_own_event {
            self.events.push(successful_pod(Verb::Update, &job.pod, set));
        }
    }
}

/// What went wrong with a step, if it counts: what is to go and is not there is as good as deleted.
pub(crate) fn failure(step: &Step, outcome: &Outcome) -> Option<String> {
    let error = outcome.error()?;
    match &step.action {
        Action::Delete(delete) if delete.found_gone(error) => None,
        _ => Some(error.to_string()),
    }
}

/// Whether the server has said so: there is nothing to tell of what was never sent.
fn is_an_answer(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Failed(error) => error.code != 0,
        Outcome::Unknown(_) => true,
        Outcome::Done { .. } | Outcome::NotSent => false,
    }
}

fn name_of(step: &Step) -> &str {
    match &step.action {
        Action::Create(create) => create.body.name.as_str(),
        action => action.target().map_or("", |target| &target.key.name),
    }
}

/// Upstream `k8s.io/apimachinery/pkg/util/errors` `Aggregate`.
pub(crate) fn aggregate(errors: &[String]) -> String {
    match errors {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}
