//! Why something is done.

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
    /// No ReplicaSet, or no ControllerRevision, has the template.
    NewTemplate,
    /// The new ReplicaSet does not say what its Deployment says of it: annotations, revision, minReadySeconds.
    NotesOutOfDate,
    /// The new ReplicaSet may grow, within replicas + maxSurge, or has to shrink to the Deployment's size.
    NewReplicaSetSize,
    /// Old replicas that are not available cost no availability.
    UnhealthyOldReplicas,
    /// More replicas are available than maxUnavailable asks for.
    OldReplicasNotNeeded,
    /// Recreate: no new pod before the last old one is gone.
    RecreateStopsOld,
    /// The Deployment's size has changed: its ReplicaSets follow in proportion.
    DeploymentScaled,
    /// More old ReplicaSets, or ControllerRevisions, than `spec.revisionHistoryLimit`.
    RevisionHistoryLimit,
    /// The annotation `deprecated.deployment.rollback.to` asks for an earlier template.
    RollbackRequested,
    /// The template is one that an earlier ControllerRevision has.
    RolledBack,
    /// A pod of a StatefulSet needs a claim that is not there.
    ClaimMissing,
    /// A claim's owners are not those that `spec.persistentVolumeClaimRetentionPolicy` asks for.
    RetentionPolicy,
    /// A pod of a StatefulSet has failed or ended: another takes its place.
    PodFinished,
    /// A pod of a StatefulSet lacks the labels that its name calls for.
    IdentityLost,
    /// A pod's ordinal is not one that its StatefulSet wants.
    ScaledDown,
    /// A pod of a StatefulSet is not of the update revision, within partition and maxUnavailable.
    RevisionOutdated,
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
            Self::NewTemplate => "new-template",
            Self::NotesOutOfDate => "notes-out-of-date",
            Self::NewReplicaSetSize => "new-replicaset-size",
            Self::UnhealthyOldReplicas => "unhealthy-old-replicas",
            Self::OldReplicasNotNeeded => "old-replicas-not-needed",
            Self::RecreateStopsOld => "recreate-stops-old",
            Self::DeploymentScaled => "deployment-scaled",
            Self::RevisionHistoryLimit => "revision-history-limit",
            Self::RollbackRequested => "rollback-requested",
            Self::RolledBack => "rolled-back",
            Self::ClaimMissing => "claim-missing",
            Self::RetentionPolicy => "retention-policy",
            Self::PodFinished => "pod-finished",
            Self::IdentityLost => "identity-lost",
            Self::ScaledDown => "scaled-down",
            Self::RevisionOutdated => "revision-outdated",
        }
    }
}
