//! The compact pod: what decisions read, and nothing else.

use std::sync::Arc;
use std::time::Duration;

use crate::labels::{LabelSet, Labels};
use crate::meta::{ControllerRef, ObjectKey, ResourceVersion, Time, Timestamp, Uid};
use crate::object::Object;
use crate::ownership::Claimable;
use crate::plan::{ObjectRef, PODS};

pub mod decode;
mod ordinal;

pub use ordinal::parent_and_ordinal;

/// Set by the `StatefulSet` controller on each pod: the pod's own name.
pub const POD_NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
/// Set by the `StatefulSet` controller on each pod: its ordinal.
pub const POD_INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";

/// `status.phase`. An empty or unknown one reads as [`Phase::Other`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Phase {
    /// No phase, or one we do not know.
    #[default]
    Other,
    /// `Pending`.
    Pending,
    /// `Running`.
    Running,
    /// `Succeeded`.
    Succeeded,
    /// `Failed`.
    Failed,
    /// `Unknown`.
    Unknown,
}

/// The claims a pod mounts, as the `StatefulSet` controller asks about them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Claim {
    /// A volume of this name whose claim is `<volume>-<pod>`: shared by all pods of a set.
    Conventional(Arc<str>),
    /// A volume and the claim it names, where that is anything else.
    Literal {
        /// The volume's name.
        volume: Arc<str>,
        /// `persistentVolumeClaim.claimName`.
        claim: Arc<str>,
    },
}

/// A pod in its compact form.
#[derive(Clone, PartialEq, Debug)]
pub struct Pod {
    /// `metadata.name`.
    pub name: Box<str>,
    /// `metadata.namespace`.
    pub namespace: Arc<str>,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`.
    pub resource_version: ResourceVersion,
    /// `metadata.labels`; a `StatefulSet`'s two per-pod labels are in [`Pod::own_labels`] where they follow from the name.
    pub label_set: Arc<LabelSet>,
    /// The controlling owner.
    pub controller: ControllerRef,
    /// `spec.nodeName`; `None` while unassigned.
    pub node: Option<Arc<str>>,
    /// `metadata.creationTimestamp`.
    pub created: Option<Timestamp>,
    /// `metadata.deletionTimestamp`: the pod is terminating.
    pub deletion: Option<Timestamp>,
    /// `lastTransitionTime` of the condition `Ready`, whatever its status.
    pub ready_changed: Option<Timestamp>,
    /// `PersistentVolumeClaim`s by ascending volume name, for pods that no foreign kind controls; interned, `None` if there are none.
    pub claims: Option<Arc<[Claim]>>,
    /// Highest `restartCount` among the regular containers.
    pub restarts: i32,
    /// Highest `restartCount` among restartable init containers (`restartPolicy: Always`).
    pub init_restarts: i32,
    /// Annotation `controller.kubernetes.io/pod-deletion-cost`; zero if absent or invalid.
    pub deletion_cost: i32,
    /// `status.phase`.
    pub phase: Phase,
    /// The condition `Ready` is `True`.
    pub ready: bool,
    /// Which labels follow from the name and are not in [`Pod::label_set`].
    pub own_labels: OwnLabels,
}

/// Labels that are derived from the pod's name and so cost nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct OwnLabels {
    /// [`POD_NAME_LABEL`] is there and equals the pod's name.
    pub name: bool,
    /// [`POD_INDEX_LABEL`] is there and equals the digits behind the name's last hyphen.
    pub index: bool,
}

// === impl Pod ===

impl Pod {
    /// Neither finished nor terminating (upstream `pkg/controller/controller_utils.go` `IsPodActive`).
    pub fn is_active(&self) -> bool {
        !self.is_finished() && self.deletion.is_none()
    }

    /// Terminating but not finished (upstream `IsPodTerminating`).
    pub fn is_terminating(&self) -> bool {
        !self.is_finished() && self.deletion.is_some()
    }

    /// `Succeeded` or `Failed`.
    pub fn is_finished(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    /// Ready for at least `min_ready_seconds` (upstream `pkg/api/v1/pod` `IsPodAvailable`). The phase is not looked at.
    pub fn is_available(&self, min_ready_seconds: i32, now: Time) -> bool {
        if !self.ready {
            return false;
        }
        min_ready_seconds == 0 || self.ready_changed.is_some_and(|since| since.time().plus_seconds(min_ready_seconds.into()) <= now)
    }
}

/// The shortest wait until a ready pod has been ready for `min_ready_seconds` (upstream `pkg/controller/controller_utils.go`
/// `findMinNextPodAvailabilitySimpleCheck`); a ready time in the future counts as well, so that clock skew does not hide a pod.
pub fn next_availability_check(pods: &[Arc<Pod>], min_ready_seconds: i32, now: Time) -> Option<Duration> {
    pods.iter()
        .filter(|pod| pod.ready)
        .filter_map(|pod| {
            let due = pod.ready_changed?.time().plus_seconds(min_ready_seconds.into());
            u64::try_from(due.nanos_since(now)).ok().filter(|nanos| *nanos > 0)
        })
        .min()
        .map(Duration::from_nanos)
}

/// When the last of the pods that are ready will have been ready for `min_ready_seconds`; `None` if all have.
pub fn available_by<'a>(pods: impl IntoIterator<Item = &'a Arc<Pod>>, min_ready_seconds: i32, now: Time) -> Option<Time> {
    let ready = pods.into_iter().filter(|pod| pod.ready);
    let due = ready.filter_map(|pod| Some(pod.ready_changed?.time().plus_seconds(min_ready_seconds.into())));
    due.max().filter(|due| *due > now)
}

/// The digits behind a name's last hyphen, as the pod-index label spells them.
fn index_of(name: &str) -> Option<&str> {
    let (_, index) = name.rsplit_once('-')?;
    (!index.is_empty() && index.bytes().all(|b| b.is_ascii_digit())).then_some(index)
}

impl Labels for Pod {
    fn get(&self, key: &str) -> Option<&str> {
        match key {
            POD_NAME_LABEL if self.own_labels.name => Some(&self.name),
            POD_INDEX_LABEL if self.own_labels.index => index_of(&self.name),
            _ => self.label_set.get(key),
        }
    }

    fn len(&self) -> usize {
        self.label_set.len() + usize::from(self.own_labels.name) + usize::from(self.own_labels.index)
    }
}

impl Claimable for Pod {
    fn is_deleting(&self) -> bool {
        self.deletion.is_some()
    }

    fn reference(&self) -> ObjectRef {
        let key = ObjectKey { namespace: self.namespace.clone(), name: Arc::from(&*self.name) };
        ObjectRef { resource: &PODS, key, uid: self.uid, resource_version: self.resource_version }
    }
}

impl Object for Pod {
    fn namespace(&self) -> &Arc<str> {
        &self.namespace
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn uid(&self) -> Uid {
        self.uid
    }

    fn resource_version(&self) -> ResourceVersion {
        self.resource_version
    }

    fn controller(&self) -> &ControllerRef {
        &self.controller
    }

    fn labels(&self) -> &dyn Labels {
        self
    }
}
