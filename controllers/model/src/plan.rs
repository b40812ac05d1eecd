//! What a decision says: plain data that an executor carries out and `explain` can print.
//!
//! A sync is a few rounds over one snapshot. Each round asks for something ([`Decision::Ask`], [`Decision::Look`]) that becomes part
//! of the view, or hands out a [`Plan`] whose outcomes become part of the view, until there is nothing more to do
//! ([`Decision::Conclude`]). No call is ever made from inside a decision.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;

use crate::meta::{ObjectKey, OwnerRef, ResourceVersion, Uid};

/// A resource of the API, as paths and bodies name it.
#[derive(Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Resource {
    /// Empty for the core group.
    pub group: &'static str,
    /// `v1`.
    pub version: &'static str,
    /// `pods`.
    pub plural: &'static str,
    /// `Pod`.
    pub kind: &'static str,
}

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
}

/// What a decision may need of the stores besides its view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The pods of all ReplicaSets under the same owner. Needed only when some, not all, pods are to go
    /// (upstream `pkg/controller/replicaset` `getIndirectlyRelatedPods`).
    RelatedPods,
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
    /// In which order and how many at once.
    pub mode: Mode,
    /// What a failed step does to the rest.
    pub on_error: OnError,
    /// What the watch is going to show, noted before the first request.
    pub expect: Expect,
}

/// How the steps of a stage are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Each waits for the one before it.
    OneByOne,
    /// All at once.
    AllAtOnce,
    /// Batches of 1, 2, 4, …; a batch with a failure is the last (upstream `pkg/controller/replicaset` `slowStartBatch`).
    SlowStart,
}

/// What a failed step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// The remaining steps of the stage are not sent; later stages are.
    SkipRest,
    /// The remaining steps and stages are not sent.
    StopSync,
    /// Nothing: every step is tried.
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
#[derive(Debug)]
pub struct Step {
    /// What to do.
    pub action: Action,
    /// The rule that asks for it.
    pub reason: Rule,
}

/// The rules behind steps and waits. `explain` prints them; the text is part of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// Fewer pods than `spec.replicas`.
    TooFewReplicas,
    /// More pods than `spec.replicas`.
    TooManyReplicas,
    /// A matching object has no controller.
    OrphanMatches,
    /// An object that we control no longer matches the selector.
    SelectorNoLongerMatches,
}

/// A write.
#[derive(Debug)]
pub enum Action {
    /// Create a child.
    Create(Create),
    /// Delete a child.
    Delete(Delete),
    /// Change a child's owner references.
    Own(Own),
}

/// A child to be created. The name is chosen when the request is made, so that the same plan can be decided twice.
#[derive(Clone, Debug)]
pub struct Create {
    /// What it is.
    pub resource: &'static Resource,
    /// Where.
    pub namespace: Arc<str>,
    /// Who will control it: how a repeated create recognises its own work.
    pub owner: Arc<OwnerRef>,
    /// Its body.
    pub body: Arc<NewObject>,
}

/// The JSON of a child whose name is still open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewObject {
    /// `metadata.generateName`, already in the body.
    pub generate_name: Arc<str>,
    /// Everything up to where the name's JSON string goes.
    pub before_name: String,
    /// Everything behind it.
    pub after_name: String,
}

/// A child to be deleted, under preconditions.
#[derive(Clone, Debug)]
pub struct Delete {
    /// Which.
    pub target: ObjectRef,
    /// Whether the resourceVersion is a precondition besides the UID.
    pub at_version: bool,
}

/// A change of the controlling owner, by strategic merge patch (upstream `controller_ref_manager.go`).
#[derive(Clone, Debug)]
pub struct Own {
    /// The child.
    pub target: ObjectRef,
    /// The owner to add or to remove.
    pub owner: Arc<OwnerRef>,
    /// Which of the two.
    pub change: Ownership,
}

/// Whether an owner comes or goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// Add our controllerRef.
    Adopt,
    /// Remove our owner reference.
    Release,
}

/// What became of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Carried out.
    Done {
        /// The object's name: news for a create.
        name: Arc<str>,
        /// The version the answer carried, if it did.
        resource_version: ResourceVersion,
    },
    /// Not sent: an earlier step failed, or the process is stopping.
    NotSent,
    /// Refused: it has had no effect.
    Failed(ApiError),
    /// Sent, but the answer was lost: it may have had its effect.
    Unknown(ApiError),
}

/// The outcomes of a plan: one list a stage, one outcome a step.
#[derive(Debug, Default)]
pub struct Outcomes(pub Vec<Vec<Outcome>>);

/// What the API server, or the way to it, said instead of yes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ApiError {
    /// The HTTP status; zero if there was no answer.
    pub code: u16,
    /// `reason` of the Status, `AlreadyExists` for one.
    pub reason: String,
    /// `message` of the Status, or the best text there is.
    pub message: String,
    /// A cause of the Status says that the namespace is being deleted.
    pub namespace_terminating: bool,
    /// What the server asked us to wait.
    pub retry_after: Option<Duration>,
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

/// `v1` Pod.
pub static PODS: Resource = Resource { group: "", version: "v1", plural: "pods", kind: "Pod" };
/// `v1` PersistentVolumeClaim.
pub static PERSISTENTVOLUMECLAIMS: Resource =
    Resource { group: "", version: "v1", plural: "persistentvolumeclaims", kind: "PersistentVolumeClaim" };
/// `apps/v1` ControllerRevision.
pub static CONTROLLERREVISIONS: Resource =
    Resource { group: "apps", version: "v1", plural: "controllerrevisions", kind: "ControllerRevision" };
/// `apps/v1` ReplicaSet.
pub static REPLICASETS: Resource = Resource { group: "apps", version: "v1", plural: "replicasets", kind: "ReplicaSet" };

// === impl Resource ===

impl Resource {
    /// `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The collection's path, in one namespace or over all.
    pub fn path(&self, namespace: Option<&str>) -> String {
        let root = if self.group.is_empty() { format!("/api/{}", self.version) } else { format!("/apis/{}/{}", self.group, self.version) };
        match namespace {
            Some(namespace) => format!("{root}/namespaces/{namespace}/{}", self.plural),
            None => format!("{root}/{}", self.plural),
        }
    }
}

// === impl NewObject ===

impl NewObject {
    /// The body with its name in place. The name is made of characters that JSON need not escape.
    pub fn with_name(&self, name: &str) -> String {
        [&self.before_name, "\"", name, "\"", &self.after_name].concat()
    }
}

// === impl Action ===

impl Action {
    /// The resource it writes.
    pub fn resource(&self) -> &'static Resource {
        match self {
            Self::Create(create) => create.resource,
            Self::Delete(delete) => delete.target.resource,
            Self::Own(own) => own.target.resource,
        }
    }

    /// The child that is there already, if it is not a create.
    pub fn target(&self) -> Option<&ObjectRef> {
        match self {
            Self::Create(_) => None,
            Self::Delete(delete) => Some(&delete.target),
            Self::Own(own) => Some(&own.target),
        }
    }
}

// === impl Outcome ===

impl Outcome {
    /// Whether the step was carried out.
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done { .. })
    }

    /// What went wrong, whether or not there was an effect.
    pub fn error(&self) -> Option<&ApiError> {
        match self {
            Self::Failed(error) | Self::Unknown(error) => Some(error),
            Self::Done { .. } | Self::NotSent => None,
        }
    }
}

// === impl ApiError ===

impl ApiError {
    /// 404: there is no such object.
    pub fn is_not_found(&self) -> bool {
        self.code == 404
    }

    /// 409 with reason `AlreadyExists`: the name is taken.
    pub fn is_already_exists(&self) -> bool {
        self.code == 409 && self.reason == "AlreadyExists"
    }

    /// 409 otherwise: a precondition did not hold.
    pub fn is_conflict(&self) -> bool {
        self.code == 409 && self.reason != "AlreadyExists"
    }

    /// 422: the object is not valid as asked.
    pub fn is_invalid(&self) -> bool {
        self.code == 422
    }

    /// 410: the version is too old.
    pub fn is_gone(&self) -> bool {
        self.code == 410
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ApiError {}

impl fmt::Display for SyncError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// === impl Rule ===

impl Rule {
    /// The rule's stable name.
    pub fn id(self) -> &'static str {
        match self {
            Self::TooFewReplicas => "too-few-replicas",
            Self::TooManyReplicas => "too-many-replicas",
            Self::OrphanMatches => "orphan-matches",
            Self::SelectorNoLongerMatches => "selector-no-longer-matches",
        }
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
