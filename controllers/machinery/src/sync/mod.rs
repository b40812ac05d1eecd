//! From a key in the queue to a finished sync: rounds of deciding and carrying out, then the status.
//!
//! What is special to a controller comes in through [`Reconciler`]; this module knows none of them.

#[cfg(test)]
mod tests;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use model::plan::{Answer, Conclusion, Decision, Event, Lookup, ObjectRef, Outcome, Outcomes, Plan, Resource, Rule, Step, SyncError, Wait};
use model::{ObjectKey, ResourceVersion, Time};
use tokio::task::JoinSet;
use tracing::{Instrument, debug, error, info_span, warn};

use crate::clock::Clock;
use crate::executor::{Errand, Executor};
use crate::explain::{Record, Records, SyncMetrics};
use crate::guard::Guard;
use crate::queue::WorkQueue;

/// One controller, as the machinery drives it. Everything but `view`, `look` and `is_cached` is a pure function of its arguments.
pub trait Reconciler: Send + Sync + 'static {
    /// What one sync decides from.
    type View: Send + Sync;

    /// The resource whose objects are reconciled.
    fn resource(&self) -> &'static Resource;
    /// The resource of their children.
    fn children(&self) -> &'static Resource;
    /// Takes a snapshot of the object and all that concerns it; `None` if it is gone, whose bookkeeping is dropped then.
    fn view(&self, key: &ObjectKey) -> Option<Self::View>;
    /// The object the view is about.
    fn subject(&self, view: &Self::View) -> ObjectRef;
    /// Whether a child of that object and name is in the store.
    fn is_cached(&self, subject: &ObjectRef, child: &str) -> bool;
    /// The next round.
    fn decide(&self, view: &Self::View, now: Time) -> Decision;
    /// Lays what the stores know over the view.
    fn look(&self, view: &mut Self::View, lookup: Lookup);
    /// Lays an answer over the view.
    fn answer(&self, view: &mut Self::View, answer: Answer);
    /// Lays the outcomes of the last plan over the view.
    fn absorb(&self, view: &mut Self::View, plan: &Plan, outcomes: Outcomes);
    /// What the sync comes to.
    fn conclude(&self, view: &Self::View, now: Time) -> Conclusion;
    /// The children that would go first if there were to be fewer, with what ranks them; none where that is not the controller's choice.
    fn next_victims(&self, _: &mut Self::View, _: Time) -> Vec<(String, String)> {
        Vec::new()
    }
    /// What is told about a step.
    fn event(&self, subject: &ObjectRef, step: &Step, outcome: &Outcome) -> Option<Event>;
}

/// A controller with what it takes to run it.
#[derive(Debug)]
pub struct Controller<R> {
    /// What is decided.
    pub reconciler: R,
    /// How it is carried out.
    pub executor: Executor,
    /// What holds back a sync whose caches have not seen the last one; `None` if its gate is off.
    pub guard: Option<Guard>,
    /// What is to be looked at.
    pub queue: WorkQueue<ObjectKey>,
    /// What time it is.
    pub clock: Clock,
    /// What the last syncs came to.
    pub records: Arc<Records>,
    /// The same in numbers.
    pub metrics: SyncMetrics,
}

/// How a sync ended.
#[derive(Debug)]
enum Synced {
    Done { requeue_after: Option<Duration> },
    Failed(SyncError),
}

/// No sync takes more rounds than this: claims and their question, replicas and theirs, and some to spare. More is a fault in `decide`.
pub(crate) const MAX_ROUNDS: usize = 16;

// === impl Controller ===

impl<R: Reconciler> Controller<R> {
    /// Works with so many workers until the executor is told to stop and every worker has finished what it had in hand.
    pub async fn run(self: Arc<Self>, workers: usize) {
        let mut running = JoinSet::new();
        for _ in 0..workers {
            running.spawn(Arc::clone(&self).work());
        }
        let all = async {
            while let Some(ended) = running.join_next().await {
                if let Err(error) = ended {
                    // A fault outside the syncs, which catch their own. Whoever waits for us ends the process.
                    error!(%error, "A worker ended early");
                    return;
                }
            }
        };
        let stop = async {
            self.executor.stopped().await;
            // Wakes the workers that wait for a key.
            self.queue.shut_down();
        };
        tokio::pin!(all);
        tokio::select! {
            () = &mut all => return,
            () = stop => {}
        }
        all.await;
    }

    async fn work(self: Arc<Self>) {
        while let Some(taken) = self.queue.get().await {
            let key = taken.key();
            if let Some(guard) = &self.guard
                && let Some(behind) = guard.behind(key)
            {
                debug!(%key, resource = behind.resource.plural, version = %behind.version, "A sync waits for the cache to show our writes");
                guard.park(taken, self.clock.now());
                continue;
            }
            let span = info_span!("sync", kind = self.reconciler.resource().kind, namespace = &*key.namespace, name = &*key.name);
            self.process(key).instrument(span).await;
            taken.done();
            if self.executor.is_stopping() {
                return;
            }
        }
    }

    /// One sync and what follows from how it ended. A panic in it is an error of that one key.
    async fn process(&self, key: &ObjectKey) {
        let synced = AssertUnwindSafe(self.sync(key)).catch_unwind().await.unwrap_or_else(|panic| {
            let text = panic_text(&*panic);
            error!(panic = text, "A sync panicked");
            Synced::Failed(SyncError(format!("panic: {text}")))
        });
        match synced {
            Synced::Done { requeue_after } => {
                self.queue.forget(key);
                if let Some(delay) = requeue_after {
                    self.queue.add_after(key.clone(), delay);
                }
            }
            Synced::Failed(error) => {
                warn!(%error, "A sync failed and will be tried again");
                self.queue.add_rate_limited(key.clone());
            }
        }
        // Behind the other timers, of which the earliest wins, and after each sync anew.
        if let Some(delay) = self.executor.settles_after(key, self.clock.now()) {
            self.queue.add_after(key.clone(), delay);
        }
    }

    async fn sync(&self, key: &ObjectKey) -> Synced {
        let reconciler = &self.reconciler;
        let Some(mut view) = reconciler.view(key) else {
            debug!("The object is gone");
            if let Some(guard) = &self.guard {
                guard.forget_absent(key);
            }
            self.records.forget(key);
            return Synced::Done { requeue_after: None };
        };
        let subject = reconciler.subject(&view);
        let announce = |step: &Step, outcome: &Outcome| reconciler.event(&subject, step, outcome);
        let is_cached = |child: &str| reconciler.is_cached(&subject, child);
        let errand = Errand { subject: &subject, announce: &announce, is_cached: &is_cached };
        if self.executor.settle_unknown(errand, reconciler.children()).await {
            let Some(newer) = reconciler.view(key) else { return Synced::Done { requeue_after: None } };
            view = newer;
        }
        let mut steps = Vec::new();
        for _ in 0..MAX_ROUNDS {
            match reconciler.decide(&view, self.clock.wall()) {
                Decision::Look(lookup) => reconciler.look(&mut view, lookup),
                Decision::Ask(question) => reconciler.answer(&mut view, self.executor.ask(&question).await),
                Decision::Act(plan) => {
                    let outcomes = self.executor.execute(errand, &plan).await;
                    self.remember(&subject, &plan, &outcomes);
                    count_done(&mut steps, &plan, &outcomes);
                    self.metrics.wrote(&plan, &outcomes);
                    reconciler.absorb(&mut view, &plan, outcomes);
                }
                Decision::Conclude => {
                    let mut conclusion = reconciler.conclude(&view, self.clock.wall());
                    let waits = std::mem::take(&mut conclusion.waits);
                    let synced = self.finish(&subject, conclusion).await;
                    self.record(&subject, waits, steps, &synced);
                    return synced;
                }
            }
        }
        Synced::Failed(SyncError(format!("no decision after {MAX_ROUNDS} rounds")))
    }

    fn record(&self, subject: &ObjectRef, waits: Vec<Wait>, steps: Vec<(Rule, u32)>, synced: &Synced) {
        let error = match synced {
            Synced::Failed(error) => Some(&*error.0),
            Synced::Done { .. } => None,
        };
        let record = Record::new(waits, steps, error, self.clock.wall());
        self.metrics.synced(record.verdict);
        self.records.push(&subject.key, subject.uid, record);
    }

    /// A status that could not be written is the sync's error before any other.
    async fn finish(&self, subject: &ObjectRef, conclusion: Conclusion) -> Synced {
        for event in conclusion.events {
            self.executor.tell(subject, event);
        }
        if let Some(update) = &conclusion.status {
            match self.executor.update_status(update).await {
                Ok(version) => self.wrote(subject, subject.resource, version),
                Err(error) => return Synced::Failed(SyncError(error.to_string())),
            }
        }
        match conclusion.error {
            Some(error) => Synced::Failed(error),
            None => Synced::Done { requeue_after: conclusion.requeue_after },
        }
    }
}

impl<R: Reconciler> Controller<R> {
    /// Every write that was answered must be seen before the next sync; those of deletes too.
    fn remember(&self, subject: &ObjectRef, plan: &Plan, outcomes: &Outcomes) {
        for (step, outcome) in outcomes.of(plan) {
            if let Outcome::Done { resource_version, .. } = outcome {
                self.wrote(subject, step.action.resource(), *resource_version);
            }
        }
    }

    fn wrote(&self, subject: &ObjectRef, resource: &Resource, version: ResourceVersion) {
        if let Some(guard) = &self.guard {
            guard.wrote(&subject.key, subject.uid, resource, version);
        }
    }
}

/// Adds up what was carried out, by rule.
fn count_done(done: &mut Vec<(Rule, u32)>, plan: &Plan, outcomes: &Outcomes) {
    for (step, _) in outcomes.of(plan).filter(|(_, outcome)| outcome.is_done()) {
        match done.iter_mut().find(|(rule, _)| *rule == step.reason) {
            Some((_, count)) => *count += 1,
            None => done.push((step.reason, 1)),
        }
    }
}

pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("not a text")
}
