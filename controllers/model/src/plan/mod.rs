//! What a decision says: plain data that an executor carries out and `explain` can print.
//!
//! A sync is a few rounds over one snapshot. Each round asks for something ([`Decision::Ask`], [`Decision::Look`]) that becomes part
//! of the view, or hands out a [`Plan`] whose outcomes become part of the view, until there is nothing more to do
//! ([`Decision::Conclude`]). No call is ever made from inside a decision.

mod action;
mod outcome;
mod resource;
mod rule;
mod wait;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;

pub use action::{Action, Create, Delete, Edit, NewName, NewObject, Own, Owner, Ownership, Patch, Reown};
pub use outcome::{ApiError, Outcome, Outcomes};
pub use resource::{CONTROLLERREVISIONS, DEPLOYMENTS, PERSISTENTVOLUMECLAIMS, PODS, REPLICASETS, Resource, STATEFULSETS};
pub use rule::Rule;
pub use wait::Wait;

use crate::meta::{ObjectKey, ResourceVersion, Uid};

/// An object somewhere in the cluster, with what its events and preconditions need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRef {
    /// Its resource.
    pub resource: &'static Resource,
    /// Its namespace and name.
    pub key: ObjectKey,
    /// Its UID.
    pub uid: Uid,
    /// The version the decision was made from.
    pub resource_version: ResourceVersion,
}

/// What one round of a sync comes to.
#[derive(Debug)]
pub enum Decision {
    /// Something must be known first that only the API server knows.
    Ask(Question),
    /// Something must be known first that the stores know, but that is too dear to be part of every view.
    Look(Lookup),
    /// Do this, then decide again.
    Act(Plan),
    /// Nothing is left to be done.
    Conclude,
}

/// What a decision may need to know that no cache can say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// Is this owner, read live, still the same object and not being deleted? Asked once a sync, before its first adoption
    /// (upstream `pkg/controller/controller_ref_manager.go` `RecheckDeletionTimestamp`).
    MayAdopt(ObjectRef),
    /// What is there under this name?
    Live {
        /// Of which resource.
        resource: &'static Resource,
        /// Its namespace and name.
        key: ObjectKey,
    },
}

/// What a decision may need of the stores besides its view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The pods of all ReplicaSets under the same owner. Needed only when some, not all, pods are to go
    /// (upstream `pkg/controller/replicaset` `getIndirectlyRelatedPods`).
    RelatedPods,
    /// Which ReplicaSets of a Deployment have pods that have not finished, terminating ones included. Needed only before a Recreate
    /// rollout goes on (upstream `pkg/controller/deployment` `getPodMapForDeployment`).
    UnfinishedPods,
}

/// The answer to a [`Question`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// [`Question::MayAdopt`]: the live object.
    Owner {
        /// Its UID now.
        uid: Uid,
        /// Whether it has a deletionTimestamp.
        deleting: bool,
    },
    /// [`Question::Live`]: the object's JSON; `None` if there is none.
    Object(Option<String>),
    /// The question could not be answered.
    Failed(ApiError),
}

/// Stages, carried out in order.
#[derive(Debug, Default)]
pub struct Plan {
    /// The first ends before the second begins.
    pub stages: Vec<Stage>,
}

/// Steps that belong together.
#[derive(Debug)]
pub struct Stage {
    /// What to do.
    pub steps: Vec<Step>,
    /// Which of the steps make one piece of work, in their order; none if each stands for itself.
    pub tasks: Vec<Task>,
    /// In which order and how many at once.
    pub mode: Mode,
    /// What a failed step does to the rest.
    pub on_error: OnError,
    /// What the watch is going to show, noted before the first request.
    pub expect: Expect,
}

/// Steps that follow one another, whatever else is sent at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// So many steps are tried, whatever becomes of the ones before.
    pub tries: usize,
    /// So many more are sent if all of those were done, until one fails.
    pub then: usize,
}

/// How the tasks of a stage are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Each waits for the one before it.
    OneByOne,
    /// All at once.
    AllAtOnce,
    /// Batches of 1, 2, 4, … up to [`MAX_BATCH_SIZE`] (upstream `pkg/controller/replicaset`, `pkg/controller/statefulset` `slowStartBatch`).
    SlowStart,
}

/// No batch of [`Mode::SlowStart`] is larger (upstream `pkg/controller/statefulset` `MaxBatchSize`).
pub const MAX_BATCH_SIZE: usize = 500;

/// What a failed step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// The remaining tasks of the stage are not sent; later stages are.
    SkipRest,
    /// The remaining tasks and stages are not sent.
    StopSync,
    /// Nothing: every task is tried.
    GoOn,
}

/// What a controller that counts its own writes expects to see (upstream `ControllerExpectations`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// This stage is not counted.
    Nothing,
    /// As many new children as the stage has creates.
    Creations,
    /// The end of each child that the stage deletes.
    Deletions,
}

/// One request, and why it is made.
#[derive(Clone, Debug)]
pub struct Step {
    /// What to do.
    pub action: Action,
    /// The rule that asks for it.
    pub reason: Rule,
}

/// What a sync comes to, after its last plan.
#[derive(Debug, Default)]
pub struct Conclusion {
    /// The status to write, if it differs.
    pub status: Option<StatusUpdate>,
    /// When to look again although nothing may happen until then.
    pub requeue_after: Option<Duration>,
    /// What makes the sync a failed one: it is tried again with a back-off.
    pub error: Option<SyncError>,
    /// What there is to tell about the sync as a whole.
    pub events: Vec<Event>,
    /// Why there was nothing more to be done although not all is as it should be; empty if all is.
    pub waits: Vec<Wait>,
}

/// A status to be written by PUT.
#[derive(Debug)]
pub struct StatusUpdate {
    /// Whose.
    pub target: ObjectRef,
    /// The object's metadata as it was read: a status PUT takes annotations, labels, finalizers and owners from the request.
    /// `None` for an object that is not held whole: the request is then made of what a live read has, if that is still the version
    /// the decision was made from.
    pub metadata: Option<Arc<RawValue>>,
    /// The whole `status`.
    pub status: Box<RawValue>,
    /// What a refusal leads to.
    pub if_refused: IfRefused,
}

/// What is done about a status that the API server did not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfRefused {
    /// It is written once more over what a live read has (upstream `pkg/controller/replicaset` `updateReplicaSetStatus`).
    WriteOverLive,
    /// The sync fails, and the next one decides anew (upstream's Deployment controller).
    Fail,
}

/// Why a sync failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncError(pub String);

/// An event about an object, before correlation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// `Normal` or `Warning`.
    pub severity: Severity,
    /// `reason`.
    pub reason: &'static str,
    /// `message`.
    pub message: String,
}

/// An event's `type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// `Normal`
    Normal,
    /// `Warning`
    Warning,
}

// === impl Plan ===

impl Plan {
    /// A plan of one stage, none of whose effects is counted.
    pub fn one_stage(steps: Vec<Step>, mode: Mode, on_error: OnError) -> Self {
        Self { stages: vec![Stage { steps, tasks: Vec::new(), mode, on_error, expect: Expect::Nothing }] }
    }
}

// === impl Stage ===

impl Stage {
    /// Its tasks; a step that is in none is one.
    pub fn tasks(&self) -> impl Iterator<Item = Task> {
        let grouped: usize = self.tasks.iter().map(|task| task.tries + task.then).sum();
        let single = Task { tries: 1, then: 0 };
        self.tasks.iter().copied().chain(std::iter::repeat_n(single, self.steps.len().saturating_sub(grouped)))
    }
}

impl fmt::Display for SyncError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// === impl Severity ===

impl Severity {
    /// As an event's `type` spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}
