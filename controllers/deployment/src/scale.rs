//! The sizes of the ReplicaSets when nothing is rolled out (upstream `pkg/controller/deployment/sync.go` `sync` and `scale`).

use model::annotations::{DESIRED_REPLICAS, MAX_REPLICAS};
use model::deployment::Strategy;
use model::plan::{Action, Patch, Rule, Step, SyncError};
use serde_json::json;

use crate::events::scaled;
use crate::member::Member;
use crate::proportions;
use crate::sync::{Stop, Sync, done};

/// Sizes that ReplicaSets are to have.
pub(crate) type Sizes = Vec<(Member, i32)>;

/// What became of a change of sizes.
#[derive(Debug, Default)]
pub(crate) struct Scaled {
    /// Whether a ReplicaSet has another size now.
    pub(crate) any: bool,
    /// Whether anything was written.
    pub(crate) wrote: bool,
    /// What ended it before its last ReplicaSet.
    pub(crate) error: Option<SyncError>,
}

/// When a ReplicaSet is written to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// If it has another size.
    SizeDiffers,
    /// If it has another size, or is noted to be part of a Deployment of another size.
    NotesDiffer,
}

// === impl Sync ===

impl Sync<'_> {
    /// The way of a Deployment that is paused or has another size than its ReplicaSets were made for.
    pub(crate) fn sync_size(&mut self) -> Result<(), Stop> {
        if self.deployment.spec.paused {
            self.sync_revision()?;
        }
        self.scale_all()?;
        if self.deployment.spec.paused && self.rollback_to().is_none() {
            self.clean_up_history()?;
        }
        self.note_paused();
        self.sync_status();
        Ok(())
    }

    /// Upstream `isScalingEvent`.
    pub(crate) fn is_scaling_event(&self) -> bool {
        self.all().any(|member| self.is_of_another_size(member))
    }

    fn is_of_another_size(&self, member: &Member) -> bool {
        member.is_active() && member.desired_replicas().is_some_and(|desired| desired != self.deployment.spec.replicas)
    }

    fn scale_all(&mut self) -> Result<(), Stop> {
        let (sizes, when) = self.sizes();
        let scaled = self.scale(sizes, when, Rule::DeploymentScaled)?;
        if let Some(error) = scaled.error {
            return Err(Stop::Failed(error));
        }
        if scaled.wrote || !self.is_scaling_event() {
            return Ok(());
        }
        // Upstream stops here, at every sync anew: the sizes are right, the notes are not, and no rollout begins while they differ
        // (kubernetes/kubernetes#138840).
        let stuck = self.all().filter(|member| self.is_of_another_size(member));
        let sizes = stuck.map(|member| (member.clone(), member.replicas)).collect();
        let noted = self.scale(sizes, When::NotesDiffer, Rule::DeploymentScaled)?;
        noted.error.map_or(Ok(()), |error| Err(Stop::Failed(error)))
    }

    /// Which ReplicaSets are to have which size.
    fn sizes(&self) -> (Sizes, When) {
        let wanted = self.deployment.spec.replicas;
        let active: Vec<&Member> = self.all().filter(|member| member.is_active()).collect();
        // Upstream `FindActiveOrLatest`.
        let single = match active.as_slice() {
            [] => self.new.as_ref().or(self.old.last()),
            [one] => Some(*one),
            _ => None,
        };
        if let Some(single) = single {
            return (vec![(single.clone(), wanted)], When::SizeDiffers);
        }
        if self.new.as_ref().is_some_and(|new| self.is_saturated(new)) {
            let old = self.old.iter().filter(|member| member.is_active());
            return (old.map(|member| (member.clone(), 0)).collect(), When::SizeDiffers);
        }
        match &self.deployment.spec.strategy {
            Strategy::RollingUpdate { .. } => {
                let sizes = proportions::sizes(self.deployment, active.into_iter().cloned().collect());
                (sizes, When::NotesDiffer)
            }
            Strategy::Recreate | Strategy::Unknown(_) => (Vec::new(), When::SizeDiffers),
        }
    }

    /// Upstream `IsSaturated`.
    fn is_saturated(&self, new: &Member) -> bool {
        let wanted = self.deployment.spec.replicas;
        let desired = new.rollout.desired_replicas.as_deref().and_then(|text| text.parse::<i64>().ok());
        new.replicas == wanted && desired == Some(wanted.into()) && new.available() == wanted
    }

    /// Gives ReplicaSets their sizes, one after the other until one fails (upstream `scaleReplicaSet`).
    pub(crate) fn scale(&mut self, sizes: Sizes, when: When, reason: Rule) -> Result<Scaled, Stop> {
        let notes = self.rollout("");
        let differs = |member: &Member| {
            member.rollout.desired_replicas != notes.desired_replicas || member.rollout.max_replicas != notes.max_replicas
        };
        let due: Sizes =
            sizes.into_iter().filter(|(member, size)| member.replicas != *size || when == When::NotesDiffer && differs(member)).collect();
        let annotations = json!({DESIRED_REPLICAS: &notes.desired_replicas, MAX_REPLICAS: &notes.max_replicas});
        let steps = due.iter().map(|(member, size)| {
            let body = json!({"metadata": {"annotations": annotations}, "spec": {"replicas": size}});
            let news = (member.replicas != *size).then(|| scaled(&member.key.name, member.replicas, *size));
            Step { action: Action::Patch(Patch { target: member.reference(), body, news }), reason }
        });
        let outcomes = self.act(steps.collect())?;
        let mut result = Scaled::default();
        for ((member, size), outcome) in due.into_iter().zip(outcomes) {
            match done(Some(outcome)) {
                Ok(version) => {
                    result.wrote = true;
                    result.any |= member.replicas != size;
                    self.update(&member, |member| {
                        (member.replicas, member.resource_version) = (size, version);
                        member.rollout.desired_replicas.clone_from(&notes.desired_replicas);
                        member.rollout.max_replicas.clone_from(&notes.max_replicas);
                    });
                }
                Err(error) => {
                    result.error.get_or_insert(error);
                }
            }
        }
        Ok(result)
    }

    fn update(&mut self, which: &Member, change: impl FnOnce(&mut Member)) {
        if let Some(member) = self.old.iter_mut().chain(&mut self.new).find(|member| member.key.name == which.key.name) {
            change(member);
        }
    }
}
