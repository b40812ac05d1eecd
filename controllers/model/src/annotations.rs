//! The annotations that a Deployment hands on to its ReplicaSets, and those by which it keeps its own books.

use std::sync::Arc;

/// The revision of a rollout (upstream `pkg/controller/deployment/util` `RevisionAnnotation`).
pub const REVISION: &str = "deployment.kubernetes.io/revision";
/// Earlier revisions of a ReplicaSet, separated by commas (`RevisionHistoryAnnotation`).
pub const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// The Deployment's size when it last sized the ReplicaSet (`DesiredReplicasAnnotation`).
pub const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// The same plus maxSurge (`MaxReplicasAnnotation`).
pub const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
/// Asks for an earlier template (upstream `k8s.io/api/apps/v1` `DeprecatedRollbackTo`).
pub const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";
/// What `kubectl apply` applied last (upstream `k8s.io/api/core/v1` `LastAppliedConfigAnnotation`).
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Annotations in the order of their keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Annotations(Box<[(Arc<str>, Box<str>)]>);

/// Whether an annotation goes from a Deployment to its ReplicaSet and, on a rollback, back
/// (upstream `pkg/controller/deployment/util` `skipCopyAnnotation`).
pub fn is_copied(key: &str) -> bool {
    !matches!(key, LAST_APPLIED | REVISION | REVISION_HISTORY | DESIRED_REPLICAS | MAX_REPLICAS | ROLLBACK_TO)
}

// === impl Annotations ===

impl Annotations {
    /// Pairs in strictly ascending order of their keys.
    pub(crate) fn from_sorted(pairs: impl Iterator<Item = (Arc<str>, Box<str>)>) -> Self {
        Self(pairs.collect())
    }

    /// The value of one.
    pub fn get(&self, key: &str) -> Option<&str> {
        let at = self.0.binary_search_by(|(have, _)| (**have).cmp(key)).ok()?;
        self.0.get(at).map(|(_, value)| &**value)
    }

    /// All of them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }
}
