//! Why an object is as it is: what its controller would do now, what it waits for, and what its last syncs came to.
//!
//! Nothing here decides anything. The present is a sync that is not carried out ([`Preview`]), over the caches as they are; the past are
//! [`Records`].

mod metrics;
mod records;

use std::time::Duration;

use model::plan::{Decision, ObjectRef, Outcomes, Plan, Question, Resource, Step, SyncError, Wait};
use model::{ObjectKey, Time};
use tokio::time::Instant;

pub use self::metrics::SyncMetrics;
pub use self::records::{Record, Records, Verdict};
use crate::expectations::Pending;
use crate::guard::Behind;
use crate::queue::Whereabouts;
use crate::sync::{Controller, MAX_ROUNDS, Reconciler};

/// All that a controller knows of one of its objects.
#[derive(Debug)]
pub struct Explanation {
    /// The object.
    pub subject: ObjectRef,
    /// What a sync would do now.
    pub preview: Preview,
    /// Which cache it waits for, if it does.
    pub behind: Option<Behind>,
    /// Which of its writes have not been seen.
    pub pending: Option<Pending>,
    /// Where its key is.
    pub whereabouts: Whereabouts,
    /// What its last syncs came to, oldest first.
    pub records: Vec<Record>,
    /// The children that would go first if there were to be fewer, with what ranks them.
    pub next_victims: Vec<(String, String)>,
    /// When this was said: wall time and monotonic time of the same moment.
    pub clock: (Time, Instant),
}

/// A sync that is not carried out.
#[derive(Debug, Default)]
pub struct Preview {
    /// What it would do first; what comes behind depends on how that ends.
    pub steps: Vec<Step>,
    /// What it would ask the API server before anything else.
    pub question: Option<Question>,
    /// What it would wait for, if nothing is to be done.
    pub waits: Vec<Wait>,
    /// Whether it would write the status.
    pub writes_status: bool,
    /// What would make it a failed one.
    pub error: Option<SyncError>,
    /// When it would want to be looked at again though nothing may happen until then.
    pub requeue_after: Option<Duration>,
    /// Whether it got to its conclusion: what is not in here is not to be done.
    pub concluded: bool,
}

/// What one round of a preview comes to.
enum Round {
    Next,
    Ask(Question),
    Last,
}

/// A controller, to be asked about its objects.
pub trait Explain: Send + Sync {
    /// Whose objects it knows.
    fn resource(&self) -> &'static Resource;
    /// What there is to say about one of them; `None` if the cache has no such object.
    fn explain(&self, key: &ObjectKey) -> Option<Explanation>;
    /// The last record of every object whose last sync left something open.
    fn open(&self) -> Vec<(ObjectKey, Record)>;
}

// === impl Controller ===

impl<R: Reconciler> Controller<R> {
    /// What a sync would do now, decided from the caches and not carried out. `None` if there is no such object.
    pub fn preview(&self, key: &ObjectKey) -> Option<(ObjectRef, Preview, R::View)> {
        let mut view = self.reconciler.view(key)?;
        let subject = self.reconciler.subject(&view);
        let mut preview = Preview::default();
        for _ in 0..MAX_ROUNDS {
            match self.preview_round(&mut view, &mut preview) {
                Round::Next => {}
                Round::Ask(question) => {
                    preview.question = Some(question);
                    break;
                }
                Round::Last => break,
            }
        }
        Some((subject, preview, view))
    }

    /// [`Self::preview`], with the live reads that a sync would make: it knows more, and costs what they cost.
    pub async fn foresee(&self, key: &ObjectKey) -> Option<(ObjectRef, Preview)> {
        let mut view = self.reconciler.view(key)?;
        let subject = self.reconciler.subject(&view);
        let mut preview = Preview::default();
        for _ in 0..MAX_ROUNDS {
            match self.preview_round(&mut view, &mut preview) {
                Round::Next => {}
                Round::Ask(question) => self.reconciler.answer(&mut view, self.executor.ask(&question).await),
                Round::Last => break,
            }
        }
        Some((subject, preview))
    }

    fn preview_round(&self, view: &mut R::View, preview: &mut Preview) -> Round {
        let reconciler = &self.reconciler;
        match reconciler.decide(view, self.clock.wall()) {
            Decision::Look(lookup) => reconciler.look(view, lookup),
            Decision::Ask(question) => return Round::Ask(question),
            Decision::Act(plan) if is_empty(&plan) => {
                let outcomes = Outcomes(plan.stages.iter().map(|_| Vec::new()).collect());
                reconciler.absorb(view, &plan, outcomes);
            }
            Decision::Act(plan) => {
                preview.steps = plan.stages.into_iter().flat_map(|stage| stage.steps).collect();
                return Round::Last;
            }
            Decision::Conclude => {
                let conclusion = reconciler.conclude(view, self.clock.wall());
                *preview = Preview {
                    waits: conclusion.waits,
                    writes_status: conclusion.status.is_some(),
                    error: conclusion.error,
                    requeue_after: conclusion.requeue_after,
                    concluded: true,
                    ..Preview::default()
                };
                return Round::Last;
            }
        }
        Round::Next
    }
}

impl<R: Reconciler> Explain for Controller<R> {
    fn resource(&self) -> &'static Resource {
        self.reconciler.resource()
    }

    fn explain(&self, key: &ObjectKey) -> Option<Explanation> {
        let (subject, preview, mut view) = self.preview(key)?;
        Some(Explanation {
            preview,
            behind: self.guard.as_ref().and_then(|guard| guard.behind(key)),
            pending: self.executor.pending(&subject),
            whereabouts: self.queue.whereabouts(key),
            records: self.records.of(key, subject.uid),
            next_victims: self.reconciler.next_victims(&mut view, self.clock.wall()),
            clock: (self.clock.wall(), self.clock.now()),
            subject,
        })
    }

    fn open(&self) -> Vec<(ObjectKey, Record)> {
        self.records.open()
    }
}

// === impl Explanation ===

impl Explanation {
    /// The wall time of a moment on the monotonic clock.
    pub fn wall(&self, at: Instant) -> Time {
        let (wall, now) = self.clock;
        match at.checked_duration_since(now) {
            Some(ahead) => wall.after(ahead),
            None => Time(wall.0.saturating_sub(i64::try_from(now.duration_since(at).as_nanos()).unwrap_or(i64::MAX))),
        }
    }
}

fn is_empty(plan: &Plan) -> bool {
    plan.stages.iter().all(|stage| stage.steps.is_empty())
}
