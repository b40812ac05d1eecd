//! Looking on: what a controller would do, noted and counted, and whether whoever does the work does it.
//!
//! Nothing is written. A sync is decided from the caches and the live reads it would make, up to its first write. What it would write is
//! *called for*; once it is not called for any more, somebody has done it; what is called for too long and done by nobody is a difference
//! between this controller and whoever does the work. Two ways to the same end are no difference.

mod ledger;
mod lines;
mod metrics;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use model::ObjectKey;
use model::plan::{Action, ObjectRef, Resource, Rule, Step, SyncError, Wait};
use prometheus::Registry;
use tokio::task::JoinSet;
use tracing::{debug, error, info, warn};

pub use self::ledger::{Cause, Difference};
use self::ledger::{Ledger, Seen, Want};
use self::lines::Lines;
use self::metrics::ObserverMetrics;
use crate::error::Error;
use crate::explain::{Preview, Record};
use crate::sync::{Controller, Reconciler, panic_text};

/// A controller that looks on.
#[derive(Debug)]
pub struct Observer<R> {
    controller: Arc<Controller<R>>,
    ledger: Arc<Ledger>,
    metrics: ObserverMetrics,
    lines: Lines,
    overdue_after: Duration,
}

/// What has been seen so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How often something began to be called for.
    pub would_act: u64,
    /// How often somebody did it.
    pub done_by_others: u64,
    /// How often it took too long.
    pub overdue: u64,
    /// How many objects call for something now.
    pub open: usize,
}

/// An observer, whatever it observes.
pub trait Observe: Send + Sync {
    /// Whose objects it looks at.
    fn resource(&self) -> &'static Resource;
    /// What is called for, and has been done by nobody for too long, oldest first.
    fn differences(&self) -> Vec<Difference>;
    /// What has been seen so far.
    fn tally(&self) -> Tally;
}

/// How often what has been seen is summed up in the log.
const SUMMARY: Duration = Duration::from_secs(60);

// === impl Observer ===

impl<R: Reconciler> Observer<R> {
    /// `name` is the metrics' label `controller`. What is called for that long is a difference.
    pub fn new(name: &str, controller: Arc<Controller<R>>, overdue_after: Duration, registry: &Registry) -> Result<Self, Error> {
        let ledger = Arc::new(Ledger::new(overdue_after));
        let metrics = ObserverMetrics::register(name, &ledger, registry)?;
        Ok(Self { controller, ledger, metrics, lines: Lines::default(), overdue_after })
    }

    /// Looks on with so many workers until the controller's executor is told to stop.
    pub async fn run(self: Arc<Self>, workers: usize) {
        let mut running = JoinSet::new();
        for _ in 0..workers {
            running.spawn(Arc::clone(&self).work());
        }
        let all = async {
            while let Some(ended) = running.join_next().await {
                if let Err(error) = ended {
                    error!(%error, "A worker ended early");
                    return;
                }
            }
        };
        let stop = async {
            self.controller.executor.stopped().await;
            self.controller.queue.shut_down();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = all => {}
            () = stop => {}
            () = self.sum_up() => {}
        }
    }

    async fn work(self: Arc<Self>) {
        while let Some(taken) = self.controller.queue.get().await {
            let key = taken.key().clone();
            if let Err(panic) = AssertUnwindSafe(self.look(&key)).catch_unwind().await {
                let text = panic_text(&*panic);
                error!(namespace = &*key.namespace, name = &*key.name, panic = text, "A look at an object panicked");
                self.controller.queue.add_rate_limited(key);
            }
            taken.done();
            if self.controller.executor.is_stopping() {
                return;
            }
        }
    }

    async fn look(&self, key: &ObjectKey) {
        let controller = &self.controller;
        let Some((subject, preview)) = controller.foresee(key).await else {
            self.ledger.forget(key);
            controller.records.forget(key);
            controller.queue.forget(key);
            return;
        };
        let wants = wants(&subject, &preview);
        let whole = preview.concluded && preview.error.is_none();
        let seen = self.ledger.see(key, subject.uid, &wants, whole, controller.clock.now());
        self.metrics.count(&seen);
        self.tell(&subject, &seen);
        let delays = [seen.look_again, preview.requeue_after].into_iter().flatten();
        if let Some(delay) = delays.min() {
            controller.queue.add_after(key.clone(), delay);
        }
        if let Some(SyncError(error)) = &preview.error {
            debug!(namespace = &*key.namespace, name = &*key.name, error, "What an object calls for cannot be told");
            controller.queue.add_rate_limited(key.clone());
        } else {
            controller.queue.forget(key);
        }
        self.record(&subject, preview, wants.is_empty());
    }

    /// What is left to others is waited for, as everything else is.
    fn record(&self, subject: &ObjectRef, preview: Preview, is_settled: bool) {
        let mut waits = preview.waits;
        if !is_settled {
            let count = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
            let figures = [("steps", count(preview.steps.len())), ("statuses", i32::from(preview.writes_status))];
            waits.insert(0, Wait::new(Rule::LeftToOthers).counting(&figures));
        }
        let error = preview.error.as_ref().map(|error| &*error.0);
        let record = Record::new(waits, Vec::new(), error, self.controller.clock.wall());
        self.controller.metrics.synced(record.verdict);
        self.controller.records.push(&subject.key, subject.uid, record);
    }

    fn tell(&self, subject: &ObjectRef, seen: &Seen) {
        let (kind, key) = (subject.resource.kind, &subject.key);
        if !seen.begun.is_empty() {
            debug!(kind, namespace = &*key.namespace, name = &*key.name, rules = ids(&seen.begun), "Something is called for");
        }
        if !seen.done.is_empty() {
            debug!(kind, namespace = &*key.namespace, name = &*key.name, rules = ids(&seen.done), "Somebody has done what was called for");
        }
        if !seen.overdue.is_empty() && self.lines.may_print(self.controller.clock.now()) {
            let (rules, after) = (ids(&seen.overdue), self.overdue_after);
            warn!(kind, namespace = &*key.namespace, name = &*key.name, rules, ?after, "Nobody has done what is called for");
        }
    }

    async fn sum_up(&self) {
        let kind = self.controller.reconciler.resource().kind;
        let mut before = Tally::default();
        loop {
            tokio::time::sleep(SUMMARY).await;
            let Tally { would_act, done_by_others, overdue, open } = self.tally();
            let (differences, silent) = (self.ledger.differences().len(), self.lines.take_silent());
            if before != self.tally() || silent > 0 {
                info!(kind, would_act, done_by_others, overdue, open, differences, lines_left_out = silent, "What has been observed");
            }
            before = self.tally();
        }
    }
}

impl<R: Reconciler> Observe for Observer<R> {
    fn resource(&self) -> &'static Resource {
        self.controller.reconciler.resource()
    }

    fn differences(&self) -> Vec<Difference> {
        self.ledger.differences()
    }

    fn tally(&self) -> Tally {
        let (would_act, done_by_others, overdue) = self.metrics.sums();
        Tally { would_act, done_by_others, overdue, open: self.ledger.len() }
    }
}

/// One for each rule: its steps, all together, are what is called for.
fn wants(subject: &ObjectRef, preview: &Preview) -> Vec<Want> {
    let mut hashers: Vec<(Cause, DefaultHasher)> = Vec::new();
    for step in &preview.steps {
        let cause = Cause::Step(step.reason);
        let at = hashers.iter().position(|(known, _)| *known == cause).unwrap_or_else(|| {
            hashers.push((cause, DefaultHasher::new()));
            hashers.len() - 1
        });
        if let Some((_, hasher)) = hashers.get_mut(at) {
            content(step, hasher);
        }
    }
    if preview.writes_status {
        // Somebody who writes it, though otherwise, goes on with it.
        let mut hasher = DefaultHasher::new();
        subject.resource_version.hash(&mut hasher);
        hashers.push((Cause::Status, hasher));
    }
    hashers.into_iter().map(|(cause, hasher)| Want { cause, content: hasher.finish() }).collect()
}

/// What is to be done to what; not at which version, which changes for other reasons.
fn content(step: &Step, hasher: &mut DefaultHasher) {
    std::mem::discriminant(&step.action).hash(hasher);
    step.action.resource().hash(hasher);
    match &step.action {
        Action::Create(create) => create.body.name.as_str().hash(hasher),
        action => action.target().map(|target| target.uid).hash(hasher),
    }
    if let Action::Patch(patch) = &step.action {
        patch.body.to_string().hash(hasher);
    }
}

fn ids(causes: &[Cause]) -> String {
    causes.iter().map(|cause| cause.id()).collect::<Vec<_>>().join(",")
}
