//! A ReplicaSet of the Deployment, as far as this sync has changed it.

use std::sync::Arc;

use model::plan::{ObjectRef, REPLICASETS};
use model::replicaset::{ReplicaSetStatus, Rollout};
use model::{Condition, ObjectKey, ReplicaSet, ResourceVersion, Uid};

/// A ReplicaSet with the changes of this sync.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// As it was read; `None` if this sync has made it.
    set: Option<Arc<ReplicaSet>>,
    pub(crate) key: ObjectKey,
    pub(crate) resource_version: ResourceVersion,
    /// `spec.replicas` now.
    pub(crate) replicas: i32,
    /// The Deployment's notes on it now.
    pub(crate) rollout: Rollout,
}

// === impl Member ===

impl Member {
    pub(crate) fn read(set: Arc<ReplicaSet>) -> Self {
        Self {
            key: set.key.clone(),
            resource_version: set.resource_version,
            replicas: set.spec.replicas,
            rollout: (*set.rollout).clone(),
            set: Some(set),
        }
    }

    pub(crate) fn made(key: ObjectKey, resource_version: ResourceVersion, replicas: i32, rollout: Rollout) -> Self {
        Self { set: None, key, resource_version, replicas, rollout }
    }

    pub(crate) fn set(&self) -> Option<&Arc<ReplicaSet>> {
        self.set.as_ref()
    }

    /// What tells it from another; one that was just made has no UID that we know, and is like no other.
    pub(crate) fn uid(&self) -> Uid {
        self.set().map_or(Uid::NONE, |set| set.uid)
    }

    pub(crate) fn reference(&self) -> ObjectRef {
        ObjectRef { resource: &REPLICASETS, key: self.key.clone(), uid: self.uid(), resource_version: self.resource_version }
    }

    pub(crate) fn is_active(&self) -> bool {
        self.replicas > 0
    }

    /// `spec.replicas` when it was read (or made): upstream computes the status from what it has read before it scales.
    pub(crate) fn replicas_read(&self) -> i32 {
        self.set().map_or(self.replicas, |set| set.spec.replicas)
    }

    pub(crate) fn status(&self) -> Option<&ReplicaSetStatus> {
        self.set().map(|set| &set.status)
    }

    pub(crate) fn available(&self) -> i32 {
        self.status().map_or(0, |status| status.available_replicas)
    }

    pub(crate) fn condition(&self, r#type: &str) -> Option<&Condition> {
        self.status().and_then(|status| status.condition(r#type))
    }

    /// Upstream `ReplicaSetsByCreationTimestamp`: what was made by this sync is the youngest.
    pub(crate) fn age_order(&self) -> (bool, Option<i64>, &str) {
        (self.set.is_none(), self.set().and_then(|set| set.created).map(model::Timestamp::seconds), &self.key.name)
    }

    /// `deployment.kubernetes.io/revision` as a number: absent is zero, nonsense is none (upstream `Revision`).
    pub(crate) fn revision(&self) -> Option<i64> {
        self.rollout.revision.as_deref().map_or(Some(0), |text| text.parse().ok())
    }

    /// `deployment.kubernetes.io/desired-replicas`, if it is a count (upstream `GetDesiredReplicasAnnotation`).
    pub(crate) fn desired_replicas(&self) -> Option<i32> {
        self.rollout.desired_replicas.as_deref().and_then(count)
    }

    /// `deployment.kubernetes.io/max-replicas`, if it is a count (upstream `getMaxReplicasAnnotation`).
    pub(crate) fn max_replicas(&self) -> Option<i32> {
        self.rollout.max_replicas.as_deref().and_then(count)
    }
}

/// Upstream `getNonNegativeInt32FromAnnotation`; Go's `ParseUint` takes no sign.
fn count(text: &str) -> Option<i32> {
    if text.starts_with('+') {
        return None;
    }
    text.parse().ok().filter(|count| *count >= 0)
}
