//! Carries out what decisions say: the only code that writes to the API for controllers.
//!
//! It owns batching, the order of stages, expectations and the announcement of outcomes. Creates and deletes can be repeated (see
//! `create`, `delete`), so an answer that was lost does not become a second child, nor one too few. A request that has not been sent when the process is told to stop never is.

mod create;
mod delete;
mod live;
mod request;
mod settle;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use http::Request;
use model::plan::{
    Action, Answer, ApiError, Edit, Event, Expect, IfRefused, MAX_BATCH_SIZE, Mode, ObjectRef, OnError, Outcome, Outcomes, Plan, Question,
    Reown, Resource, Stage, StatusUpdate, Step, Task,
};
use model::{ResourceVersion, Uid};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use self::request::AnswerMeta;
use crate::client::{Answer as Reply, ApiClient, CallError, Class, MAX_RETRIES, patience};
use crate::clock::Clock;
use crate::events::EventRecorder;
use crate::expectations::{Expectations, Pending};
use crate::fence::Fence;

/// What an executor is made of.
#[derive(Clone, Debug)]
pub struct Executor {
    client: ApiClient,
    events: EventRecorder,
    expectations: Arc<Expectations>,
    clock: Clock,
    /// For name suffixes. Seeded by the caller, so that a test can replay its names.
    random: Arc<Mutex<fastrand::Rng>>,
    fence: Fence,
    stopping: CancellationToken,
}

/// On whose behalf a plan is carried out.
#[derive(Clone, Copy)]
pub struct Errand<'a> {
    /// The object the plan is about: owner of the expectations, subject of the events.
    pub subject: &'a ObjectRef,
    /// What is told about a step's outcome.
    pub announce: &'a (dyn Fn(&Step, &Outcome) -> Option<Event> + Send + Sync),
    /// Whether the subject's child of that name is in the store.
    pub is_cached: &'a (dyn Fn(&str) -> bool + Send + Sync),
}

// === impl Executor ===

impl Executor {
    /// An executor over one controller's client. Once `stopping` is cancelled, nothing new is sent.
    pub fn new(
        client: ApiClient,
        events: EventRecorder,
        expectations: Arc<Expectations>,
        clock: Clock,
        seed: u64,
        fence: Fence,
        stopping: CancellationToken,
    ) -> Self {
        let random = Arc::new(Mutex::new(fastrand::Rng::with_seed(seed)));
        Self { client, events, expectations, clock, random, fence, stopping }
    }

    /// Whether nothing new is sent any more.
    pub fn is_stopping(&self) -> bool {
        self.stopping.is_cancelled()
    }

    /// Waits until nothing new is sent any more.
    pub async fn stopped(&self) {
        self.stopping.cancelled().await;
    }

    /// Which of the subject's counted writes have not been seen.
    pub fn pending(&self, subject: &ObjectRef) -> Option<Pending> {
        self.expectations.pending(&subject.key, subject.uid)
    }

    /// Carries out a plan, stage by stage; one outcome for each step, in the plan's order.
    pub async fn execute(&self, errand: Errand<'_>, plan: &Plan) -> Outcomes {
        let mut outcomes = Outcomes::default();
        let mut stopped = false;
        for stage in &plan.stages {
            if stopped {
                outcomes.0.push(vec![Outcome::NotSent; stage.steps.len()]);
                continue;
            }
            self.expect(errand, stage);
            let stage_outcomes = self.run_stage(errand, stage).await;
            let failed = stage.steps.iter().zip(&stage_outcomes).any(|(step, outcome)| is_failure(step, outcome));
            stopped = failed && stage.on_error == OnError::StopSync;
            outcomes.0.push(stage_outcomes);
        }
        outcomes
    }

    /// Answers a question by a live read.
    pub async fn ask(&self, question: &Question) -> Answer {
        let answer = match question {
            Question::MayAdopt(owner) => self.call(request::get_metadata(owner), Class::Get).await.map(|reply| {
                let meta = request::metadata(&reply.body);
                Answer::Owner { uid: Uid::parse(&meta.uid).unwrap_or(Uid::NONE), deleting: meta.deletion_timestamp.is_some() }
            }),
            Question::Live { resource, key } => {
                let reply = self.call(request::get_named(resource, key), Class::Get).await;
                reply.map(|reply| Answer::Object(Some(String::from_utf8_lossy(&reply.body).into_owned())))
            }
        };
        match answer.map_err(CallError::into_error) {
            Ok(answer) => answer,
            Err(error) if error.is_not_found() && matches!(question, Question::Live { .. }) => Answer::Object(None),
            Err(error) => Answer::Failed(error),
        }
    }

    /// Tells something about an object that no step stands for.
    pub fn tell(&self, subject: &ObjectRef, event: Event) {
        self.events.record(subject, event);
    }

    /// Writes a status; if that fails, once more over what a live read has, unless it is to be decided anew then. The new
    /// resourceVersion, or the read's error, which tells more than the write's.
    pub async fn update_status(&self, update: &StatusUpdate) -> Result<ResourceVersion, ApiError> {
        let Some(metadata) = &update.metadata else { return self.update_live_status(update).await };
        let first = match self.put_status(request::update_status(update, metadata)).await {
            Ok(version) => return Ok(version),
            Err(error) if update.if_refused == IfRefused::Fail => return Err(error),
            Err(error) => error,
        };
        let live = self.call(request::get(&update.target), Class::Get).await.map_err(CallError::into_error)?;
        let Some(metadata) = live::metadata(&live.body, update.target.uid) else { return Err(first) };
        self.put_status(request::update_status(update, &metadata)).await
    }

    /// Writes the status of an object that is not held whole into what a live read has. Nothing is written over a version that was not
    /// decided from: the sync is tried again when the watch has brought that.
    async fn update_live_status(&self, update: &StatusUpdate) -> Result<ResourceVersion, ApiError> {
        let live = self.call(request::get(&update.target), Class::Get).await.map_err(CallError::into_error)?;
        let body = live::with(&live.body, &update.target, &[(&["status"], &*update.status)])?;
        self.put_status(request::put_status(&update.target, body)).await
    }

    /// Exchanges fields of what a live read has.
    async fn edit(&self, edit: &Edit) -> Outcome {
        let fields: Vec<_> = edit.fields.iter().map(|(path, value)| (*path, &**value)).collect();
        self.rewrite(&edit.target, |live| live::with(live, &edit.target, &fields)).await
    }

    /// Exchanges owners of what a live read has.
    async fn reown(&self, reown: &Reown) -> Outcome {
        self.rewrite(&reown.target, |live| live::with_owners(live, reown)).await
    }

    async fn rewrite(&self, target: &ObjectRef, edited: impl FnOnce(&[u8]) -> Result<Bytes, ApiError>) -> Outcome {
        match self.call(request::get(target), Class::Get).await.map(|live| edited(&live.body)) {
            Ok(Ok(body)) => self.write(request::put(target, body), target).await,
            Ok(Err(error)) => Outcome::Failed(error),
            // Only read, so there was no effect.
            Err(error) => not_lost(outcome(error)),
        }
    }

    async fn put_status(&self, request: Result<Request<Bytes>, http::Error>) -> Result<ResourceVersion, ApiError> {
        let written = self.call(request, Class::Write).await.map_err(CallError::into_error)?;
        Ok(request::metadata(&written.body).version())
    }

    /// The child of that name, read live; `None` if there is none.
    async fn find(&self, resource: &Resource, namespace: &str, name: &str) -> Result<Option<AnswerMeta>, ApiError> {
        let reply = self.call(request::find(resource, namespace, name), Class::Get).await.map_err(CallError::into_error)?;
        request::only_item(&reply.body).map_err(|error| ApiError { message: error.to_string(), ..ApiError::default() })
    }

    fn expect(&self, errand: Errand<'_>, stage: &Stage) {
        let ObjectRef { key, uid, .. } = errand.subject;
        match stage.expect {
            Expect::Nothing => {}
            Expect::Creations => {
                let count = u32::try_from(stage.steps.len()).unwrap_or(u32::MAX);
                self.expectations.expect_creations(key, *uid, count, self.clock.now());
            }
            Expect::Deletions => {
                let doomed = stage.steps.iter().filter_map(|step| step.action.target()).map(|target| target.uid);
                self.expectations.expect_deletions(key, *uid, doomed, self.clock.now());
            }
        }
    }

    async fn run_stage(&self, errand: Errand<'_>, stage: &Stage) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(stage.steps.len());
        let mut batch = match stage.mode {
            Mode::OneByOne | Mode::SlowStart => 1,
            Mode::AllAtOnce => stage.steps.len(),
        };
        let mut rest = stage.steps.as_slice();
        let mut tasks = stage.tasks().map(|task| {
            let (steps, later) = rest.split_at((task.tries + task.then).min(rest.len()));
            rest = later;
            (task, steps)
        });
        loop {
            let now: Vec<_> = tasks.by_ref().take(batch).collect();
            if now.is_empty() {
                return outcomes;
            }
            let done = join_all(now.iter().map(|(task, steps)| self.run_task(errand, stage.expect, *task, steps))).await;
            let mut results = now.iter().flat_map(|(_, steps)| *steps).zip(done.iter().flatten());
            let failed = results.any(|(step, outcome)| is_failure(step, outcome));
            outcomes.extend(done.into_iter().flatten());
            if failed && stage.on_error != OnError::GoOn {
                break;
            }
            if stage.mode == Mode::SlowStart {
                batch = (batch * 2).min(MAX_BATCH_SIZE);
            }
        }
        outcomes.extend(tasks.flat_map(|(_, steps)| steps).map(|step| self.leave(errand, stage.expect, step)));
        outcomes
    }

    /// One outcome for each step.
    async fn run_task(&self, errand: Errand<'_>, expect: Expect, task: Task, steps: &[Step]) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(steps.len());
        let mut failed = false;
        for (at, step) in steps.iter().enumerate() {
            let outcome =
                if failed && at >= task.tries { self.leave(errand, expect, step) } else { self.run_step(errand, expect, step).await };
            failed |= is_failure(step, &outcome);
            outcomes.push(outcome);
        }
        outcomes
    }

    /// What becomes of a step that is not sent.
    fn leave(&self, errand: Errand<'_>, expect: Expect, step: &Step) -> Outcome {
        self.lower(errand, expect, step, &Outcome::NotSent);
        Outcome::NotSent
    }

    async fn run_step(&self, errand: Errand<'_>, expect: Expect, step: &Step) -> Outcome {
        let outcome = match &step.action {
            Action::Create(create) => self.create(errand, create).await,
            Action::Delete(delete) => self.delete(errand, delete).await,
            Action::Own(own) => self.write(request::own(own), &own.target).await,
            Action::Patch(patch) => self.write(request::patch(patch), &patch.target).await,
            Action::Edit(edit) => self.edit(edit).await,
            Action::Reown(reown) => self.reown(reown).await,
        };
        self.lower(errand, expect, step, &outcome);
        debug!(reason = step.reason.id(), ?outcome, "A step ended");
        // Whoever may not write has nothing to tell either.
        if outcome.error().is_none_or(|error| error.reason != FENCED)
            && let Some(event) = (errand.announce)(step, &outcome)
        {
            self.events.record(errand.subject, event);
        }
        outcome
    }

    /// What the watch is not going to show must not be waited for. An unknown outcome stays expected.
    fn lower(&self, errand: Errand<'_>, expect: Expect, step: &Step, outcome: &Outcome) {
        let ObjectRef { key, uid, .. } = errand.subject;
        let without_effect = match outcome {
            Outcome::Done { .. } | Outcome::Unknown(_) => false,
            Outcome::NotSent => true,
            // Upstream counts a create in a namespace that is being deleted as done, and lets the expectation run out.
            Outcome::Failed(error) => !(expect == Expect::Creations && error.namespace_terminating),
        };
        match (expect, step.action.target()) {
            (Expect::Creations, _) if without_effect => self.expectations.creations_failed(key, *uid, 1),
            (Expect::Deletions, Some(target)) if without_effect => self.expectations.deletion_observed(key, *uid, target.uid),
            _ => {}
        }
    }

    async fn write(&self, request: Result<Request<Bytes>, http::Error>, target: &ObjectRef) -> Outcome {
        match self.call(request, Class::Write).await {
            Ok(reply) => Outcome::Done { name: target.key.name.clone(), resource_version: request::metadata(&reply.body).version() },
            Err(error) => outcome(error),
        }
    }

    /// Waits between two tries, unless the process is stopping.
    async fn pause(&self, delay: Duration) {
        if !delay.is_zero() {
            let _: Option<()> = self.stopping.run_until_cancelled(tokio::time::sleep(delay)).await;
        }
    }

    /// Sends a request; a write that the server refuses for now is sent again after as long as it asks, since a refusal had no effect
    /// (upstream client-go `rest/with_retry.go`).
    async fn call(&self, request: Result<Request<Bytes>, http::Error>, class: Class) -> Result<Reply, CallError> {
        let request = request.map_err(|error| CallError::NotSent(ApiError { message: error.to_string(), ..ApiError::default() }))?;
        for _ in 0..MAX_RETRIES {
            let answer = self.call_once(request.clone(), class).await;
            let delay = match &answer {
                Err(CallError::Refused(error)) if class == Class::Write => patience(error),
                _ => None,
            };
            let Some(delay) = delay else { return answer };
            self.pause(delay).await;
        }
        self.call_once(request, class).await
    }

    /// Sends a request unless the process is stopping by the time its turn comes; one that is under way is waited for.
    async fn call_once(&self, request: Request<Bytes>, class: Class) -> Result<Reply, CallError> {
        tokio::select! {
            biased;
            () = self.stopping.cancelled() => Err(not_sent(STOPPING, "the process is stopping")),
            turn = self.client.turn(request.method()) => {
                // Only now: the wait for a turn can outlast a lease.
                if class == Class::Write && !self.fence.may_write() {
                    return Err(not_sent(FENCED, "the lease is not held, or not for long enough"));
                }
                turn.send(request, class).await
            }
        }
    }
}

const STOPPING: &str = "Stopping";
const FENCED: &str = "Fenced";

fn not_sent(reason: &str, message: &str) -> CallError {
    CallError::NotSent(ApiError { reason: reason.to_owned(), message: message.to_owned(), ..ApiError::default() })
}

fn outcome(error: CallError) -> Outcome {
    match error {
        CallError::NotSent(error) if error.reason == STOPPING => Outcome::NotSent,
        CallError::NotSent(error) | CallError::Refused(error) => Outcome::Failed(error),
        CallError::Lost(error) => Outcome::Unknown(error),
    }
}

/// The outcome of a request that can have no effect.
fn not_lost(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Unknown(error) => Outcome::Failed(error),
        other => other,
    }
}

/// Whether a step's outcome ends its batch. What a namespace that is being deleted refuses counts as done (upstream `manageReplicas`), and
/// so does a delete that comes too late.
fn is_failure(step: &Step, outcome: &Outcome) -> bool {
    match (&step.action, outcome) {
        (_, Outcome::Done { .. }) => false,
        (Action::Create(_), Outcome::Failed(error)) => !error.namespace_terminating,
        (Action::Delete(delete), Outcome::Failed(error)) => !delete.found_gone(error),
        _ => true,
    }
}

/// After what waits a write is sent for as long as its answer is lost; then its outcome is left open.
const WRITE_TRIES: [Duration; 4] = [Duration::ZERO, Duration::from_millis(200), Duration::from_secs(1), Duration::from_secs(3)];
