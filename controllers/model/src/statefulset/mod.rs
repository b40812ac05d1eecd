//! The StatefulSet as its controller reads it: templates, selector and metadata stay raw JSON besides what is read of them, so that fields
//! newer than this program survive every write.

mod decode;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub use self::decode::StatefulSetDecoder;
use crate::condition::{self, Condition};
use crate::int_or_percent::IntOrPercent;
use crate::json::null_is_default;
use crate::labels::{LabelSet, Labels, NoLabels};
use crate::meta::{ControllerRef, ObjectKey, OwnerKind, OwnerRef, ResourceVersion, Timestamp, Uid};
use crate::object::Object;
use crate::plan::{ObjectRef, STATEFULSETS};
use crate::selector::{Selector, SelectorError};
use crate::template::Template;

/// The label by which a pod says which revision it was made from (upstream `k8s.io/api/apps/v1` `ControllerRevisionHashLabelKey`).
pub const REVISION_LABEL: &str = "controller-revision-hash";

/// An `apps/v1` StatefulSet.
#[derive(Debug)]
pub struct StatefulSet {
    /// `metadata.namespace` and `metadata.name`.
    pub key: ObjectKey,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`.
    pub resource_version: ResourceVersion,
    /// `metadata.generation`.
    pub generation: i64,
    /// `metadata.deletionTimestamp`.
    pub deletion: Option<Timestamp>,
    /// The whole `metadata` but managedFields, as it was read.
    pub metadata: Arc<RawValue>,
    /// `spec`.
    pub spec: StatefulSetSpec,
    /// `status`.
    pub status: StatefulSetStatus,
}

/// `spec` of a StatefulSet.
#[derive(Debug)]
pub struct StatefulSetSpec {
    /// `replicas`; the API server always fills it in.
    pub replicas: i32,
    /// `selector`, or why it cannot be used.
    pub selector: Result<Selector, Box<SelectorError>>,
    /// `selector.matchLabels`: every claim has them.
    pub match_labels: Arc<LabelSet>,
    /// `template`.
    pub template: Arc<Template>,
    /// `volumeClaimTemplates`.
    pub claim_templates: Arc<[ClaimTemplate]>,
    /// `serviceName`.
    pub service_name: Arc<str>,
    /// `podManagementPolicy`.
    pub pod_management_policy: PodManagementPolicy,
    /// `updateStrategy`.
    pub update_strategy: UpdateStrategy,
    /// `revisionHistoryLimit`; absent keeps all.
    pub revision_history_limit: Option<i32>,
    /// `minReadySeconds`.
    pub min_ready_seconds: i32,
    /// `persistentVolumeClaimRetentionPolicy`.
    pub retention_policy: RetentionPolicy,
    /// `ordinals.start`.
    pub start: i32,
}

/// A volume that every pod has one of its own of.
#[derive(Debug)]
pub struct ClaimTemplate {
    /// `metadata.name`, which is the volume's name in the pod.
    pub name: Arc<str>,
    /// The template as it was read.
    pub raw: Box<RawValue>,
}

/// `spec.podManagementPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodManagementPolicy {
    /// `OrderedReady`, and whatever else is not [`Self::Parallel`]: a pod is made or deleted when all before it are available.
    OrderedReady,
    /// `Parallel`.
    Parallel,
}

/// `spec.updateStrategy`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateStrategy {
    /// `type`.
    pub r#type: UpdateStrategyType,
    /// `rollingUpdate`. Its partition decides what a pod is made from even where the type is another (upstream `newVersionedStatefulSetPod`).
    pub rolling_update: Option<RollingUpdate>,
}

/// `spec.updateStrategy.type`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpdateStrategyType {
    /// `RollingUpdate`.
    RollingUpdate,
    /// `OnDelete`.
    OnDelete,
    /// `Recreate`.
    Recreate,
    /// A type that we do not know.
    Unknown(Box<str>),
}

/// `spec.updateStrategy.rollingUpdate`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RollingUpdate {
    /// `partition`: so many pods, from the first on, stay at the current revision.
    pub partition: i32,
    /// `maxUnavailable`.
    pub max_unavailable: Option<IntOrPercent>,
}

/// `spec.persistentVolumeClaimRetentionPolicy`: whether claims go with their set, and with a pod that is scaled away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RetentionPolicy {
    /// `whenDeleted` is `Delete`.
    pub delete_with_set: bool,
    /// `whenScaled` is `Delete`.
    pub delete_when_scaled: bool,
}

/// `status` of a StatefulSet. Fields we do not know are carried along.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatefulSetStatus {
    /// The generation this status speaks of.
    pub observed_generation: i64,
    /// Pods that are there, terminating ones included.
    pub replicas: i32,
    /// Pods that run and are ready.
    pub ready_replicas: i32,
    /// Pods of the current revision that are not terminating.
    pub current_replicas: i32,
    /// Pods of the update revision that are not terminating.
    pub updated_replicas: i32,
    /// Name of the ControllerRevision that pods below the partition are made from.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_is_default")]
    pub current_revision: String,
    /// Name of the ControllerRevision that the set is on its way to.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_is_default")]
    pub update_revision: String,
    /// How often the name of a new ControllerRevision was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// Conditions, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_default")]
    pub conditions: Vec<Condition>,
    /// Pods ready for at least minReadySeconds.
    pub available_replicas: i32,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, serde_json::Value>,
}

// === impl StatefulSet ===

impl StatefulSet {
    /// This StatefulSet as a reference.
    pub fn reference(&self) -> ObjectRef {
        ObjectRef { resource: &STATEFULSETS, key: self.key.clone(), uid: self.uid, resource_version: self.resource_version }
    }

    /// The owner that its pods and revisions name.
    pub fn as_owner(&self) -> Arc<OwnerRef> {
        Arc::new(OwnerRef { kind: OwnerKind::StatefulSet, name: self.key.name.clone(), uid: self.uid })
    }

    /// The name of its pod with that ordinal.
    pub fn pod_name(&self, ordinal: i32) -> String {
        format!("{}-{ordinal}", self.key.name)
    }

    /// The name of the claim that stands behind a volume of its pod with that ordinal (upstream `getPersistentVolumeClaimName`).
    pub fn claim_name(&self, template: &ClaimTemplate, ordinal: i32) -> String {
        format!("{}-{}-{ordinal}", template.name, self.key.name)
    }
}

impl Object for StatefulSet {
    fn namespace(&self) -> &Arc<str> {
        &self.key.namespace
    }

    fn name(&self) -> &str {
        &self.key.name
    }

    fn uid(&self) -> Uid {
        self.uid
    }

    fn resource_version(&self) -> ResourceVersion {
        self.resource_version
    }

    /// Nobody asks who controls a StatefulSet.
    fn controller(&self) -> &ControllerRef {
        &ControllerRef::Foreign
    }

    /// Nobody selects StatefulSets.
    fn labels(&self) -> &dyn Labels {
        &NoLabels
    }
}

// === impl StatefulSetSpec ===

impl StatefulSetSpec {
    /// The ordinals that the set wants pods for.
    pub fn ordinals(&self) -> impl DoubleEndedIterator<Item = i32> + use<> {
        let start = self.start;
        (0..self.replicas.min(i32::MAX.saturating_sub(start))).map(move |slot| start + slot)
    }

    /// Whether an ordinal is one of those (upstream `podInOrdinalRange`).
    pub fn wants(&self, ordinal: i32) -> bool {
        (0..i64::from(self.replicas)).contains(&self.slot_of(ordinal))
    }

    /// How many ordinals are before this one: what partitions count.
    pub fn slot_of(&self, ordinal: i32) -> i64 {
        i64::from(ordinal) - i64::from(self.start)
    }

    /// Whether pods are made and deleted without regard to each other (upstream `allowsBurst`).
    pub fn allows_burst(&self) -> bool {
        self.pod_management_policy == PodManagementPolicy::Parallel
    }
}

// === impl StatefulSetStatus ===

impl StatefulSetStatus {
    /// The condition of that type.
    pub fn condition(&self, r#type: &str) -> Option<&Condition> {
        condition::find(&self.conditions, r#type)
    }
}
