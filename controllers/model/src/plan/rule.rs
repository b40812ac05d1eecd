//! Why something is done, or waits.

/// Declares [`Rule`]: each with its stable name, what it means, and, for a wait, what ends it.
macro_rules! rules {
    ($($rule:ident $id:literal $meaning:literal $(ends $ends:literal)?;)*) => {
        /// The rules behind steps and waits. `explain` prints them; names and texts are part of the interface.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Rule {
            $(#[doc = $meaning] $rule,)*
        }

        impl Rule {
            /// All of them: those of steps first.
            pub const ALL: &[Self] = &[$(Self::$rule,)*];

            /// The rule's stable name.
            pub fn id(self) -> &'static str {
                match self { $(Self::$rule => $id,)* }
            }

            /// What it means, as a sentence.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$rule => $meaning,)* }
            }

            /// What ends the wait, as a sentence; `None` for the reason of a step.
            pub fn ends(self) -> Option<&'static str> {
                match self { $(Self::$rule => rules!(@ends $($ends)?),)* }
            }
        }
    };
    (@ends $ends:literal) => { Some($ends) };
    (@ends) => { None };
}

rules! {
    TooFewReplicas "too-few-replicas" "Fewer pods than `spec.replicas`.";
    TooManyReplicas "too-many-replicas" "More pods than `spec.replicas`.";
    OrphanMatches "orphan-matches" "A matching object has no controller.";
    SelectorNoLongerMatches "selector-no-longer-matches" "An object that we control no longer matches the selector.";
    NewTemplate "new-template" "No ReplicaSet, or no ControllerRevision, has the template.";
    NotesOutOfDate "notes-out-of-date"
        "The new ReplicaSet does not say what its Deployment says of it: annotations, revision, minReadySeconds.";
    NewReplicaSetSize "new-replicaset-size"
        "The new ReplicaSet may grow, within replicas + maxSurge, or has to shrink to the Deployment's size.";
    UnhealthyOldReplicas "unhealthy-old-replicas" "Old replicas that are not available cost no availability.";
    OldReplicasNotNeeded "old-replicas-not-needed" "More replicas are available than maxUnavailable asks for.";
    RecreateStopsOld "recreate-stops-old" "Recreate: no new pod before the last old one is gone.";
    DeploymentScaled "deployment-scaled" "The Deployment's size has changed: its ReplicaSets follow in proportion.";
    RevisionHistoryLimit "revision-history-limit" "More old ReplicaSets, or ControllerRevisions, than `spec.revisionHistoryLimit`.";
    RollbackRequested "rollback-requested" "The annotation `deprecated.deployment.rollback.to` asks for an earlier template.";
    RolledBack "rolled-back" "The template is one that an earlier ControllerRevision has.";
    ClaimMissing "claim-missing" "A pod of a StatefulSet needs a claim that is not there.";
    RetentionPolicy "retention-policy"
        "A claim's owners are not those that `spec.persistentVolumeClaimRetentionPolicy` asks for.";
    PodFinished "pod-finished" "A pod of a StatefulSet has failed or ended: another takes its place.";
    IdentityLost "identity-lost" "A pod of a StatefulSet lacks the labels that its name calls for.";
    ScaledDown "scaled-down" "A pod's ordinal is not one that its StatefulSet wants.";
    RevisionOutdated "revision-outdated" "A pod of a StatefulSet is not of the update revision, within partition and maxUnavailable.";

    BeingDeleted "being-deleted" "The object is being deleted: only its status is kept up."
        ends "Its finalizers are removed; the garbage collector takes its children.";
    InvalidSelector "invalid-selector" "`spec.selector` cannot be used: nothing is done."
        ends "The selector is corrected.";
    SelectsAll "selects-all" "`spec.selector` is empty and would select every pod: nothing is done."
        ends "The selector is corrected.";
    UnknownStrategy "unknown-strategy" "The update strategy is not known here, or its feature gate is off: no pod is touched."
        ends "The strategy is changed, or its gate switched on.";
    LeftToOthers "left-to-others" "Something is to be done, which a process that only observes leaves to others."
        ends "Somebody does it.";
    SyncFailed "sync-failed" "The last sync has failed."
        ends "A later try succeeds; each failure in a row doubles the pause, up to 1,000 s.";
    CachesBehind "caches-behind" "A cache has not shown the last write yet: deciding now would be deciding twice."
        ends "The watch brings it; after 30 s the cache is listed anew.";
    WritesNotSeen "writes-not-seen" "Pods that were created or deleted have not been seen to come or go."
        ends "The watch brings them, or five minutes pass.";
    AnswerLost "answer-lost" "The answer to a write was lost: it may have happened."
        ends "The object is seen, or a read after the server's request timeout says that it is not there.";
    BurstLimit "burst-limit" "No sync creates or deletes more than 500 pods."
        ends "These are seen, and the next sync goes on.";
    NamespaceTerminating "namespace-terminating" "The namespace is being deleted: nothing more can be made in it."
        ends "The namespace is gone, and the object with it.";
    PodsNotReady "pods-not-ready" "Pods that are wanted are not ready, or not there yet."
        ends "They become ready.";
    MinReadySeconds "min-ready-seconds" "Pods are ready, but not for `spec.minReadySeconds` yet."
        ends "The time has passed, if they stay ready.";
    Paused "paused" "The Deployment is paused: what is not rolled out yet is not going to be."
        ends "`spec.paused` is set to false (kubectl rollout resume).";
    SurgeCeiling "surge-ceiling" "The new ReplicaSet cannot grow: there are as many pods as replicas + maxSurge allow."
        ends "Old pods go.";
    AvailabilityFloor "availability-floor" "Old ReplicaSets cannot shrink: no more pods are available than replicas - maxUnavailable."
        ends "New pods become available.";
    ReplicaSetStatusBehind "replicaset-status-behind" "A ReplicaSet's status has not caught up with its size: until then it is not known how far the rollout is."
        ends "The ReplicaSet controller writes its status.";
    OldPodsRun "old-pods-run" "Recreate: pods of earlier revisions have not finished, and no new one is made before they have."
        ends "The last of them is gone.";
    ReplicaFailure "replica-failure" "A ReplicaSet cannot make or delete its pods."
        ends "What the API server's answer names is mended: a quota, an admission webhook, the template.";
    ProgressDeadline "progress-deadline" "The rollout has until then to progress."
        ends "It progresses; else the condition Progressing turns to False, and nothing else changes.";
    ProgressDeadlineExceeded "progress-deadline-exceeded" "The rollout has not progressed within `spec.progressDeadlineSeconds`. It goes on all the same."
        ends "Pods become available, or the template is changed (kubectl rollout undo).";
    PodTerminating "pod-terminating" "A pod of the set is on its way out: what is to follow waits until it is gone."
        ends "The kubelet has stopped it. On a node that is gone: the node's object is deleted, or the pod by force.";
    PodNotAvailable "pod-not-available" "A pod of the set is not ready, and the next must wait for it."
        ends "It becomes ready, and stays so for `spec.minReadySeconds`.";
    RolloutStalled "rollout-stalled"
        "A pod of an outdated revision is not ready, and the rollout that would replace it waits for it (kubernetes/kubernetes#67250)."
        ends "The pod becomes ready, or is deleted by hand: that is what the command does.";
    ClaimTerminating "claim-terminating" "A pod's claim is being deleted, or about to be since it is an earlier pod's."
        ends "The claim is gone: the pod then gets a new one.";
    ScaleDownHeld "scale-down-held" "A pod that is to go is not available, and a lower one that is to go is not either: they are waited for one after the other."
        ends "The pod, or those below it that are named, become available or are deleted by hand.";
    MaxUnavailable "max-unavailable" "As many pods are unavailable as maxUnavailable allows: no other is replaced."
        ends "Pods become available.";
    Partition "partition" "Pods below the partition keep the current revision."
        ends "`spec.updateStrategy.rollingUpdate.partition` is lowered.";
    OnDelete "on-delete" "`OnDelete`: outdated pods stay until someone deletes them."
        ends "The pods are deleted by hand.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_sentences_end() {
        let mut ids: Vec<_> = Rule::ALL.iter().map(|rule| rule.id()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), Rule::ALL.len());
        for rule in Rule::ALL {
            let sentences = std::iter::once(rule.meaning()).chain(rule.ends());
            assert!(sentences.into_iter().all(|text| text.ends_with('.') || text.ends_with(')')), "{rule:?}");
        }
    }
}
