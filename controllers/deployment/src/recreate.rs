//! Recreate (upstream `pkg/controller/deployment/recreate.go`): no new pod before the last old one is gone.

use model::plan::Rule;

use crate::member::Member;
use crate::scale::When;
use crate::sync::{Stop, Sync};

// === impl Sync ===

impl Sync<'_> {
    /// Upstream `rolloutRecreate`.
    pub(crate) fn rollout_recreate(&mut self) -> Result<(), Stop> {
        if self.stop_old()? || self.old_pods_run()? {
            self.sync_rollout_status();
            return Ok(());
        }
        if self.new.is_none() {
            self.sync_or_create()?;
        }
        if let Some(new) = self.new.clone() {
            let scaled = self.scale(vec![(new, self.deployment.spec.replicas)], When::SizeDiffers, Rule::NewReplicaSetSize)?;
            if let Some(error) = scaled.error {
                return Err(Stop::Failed(error));
            }
        }
        if self.is_complete(&self.status) {
            self.clean_up_history()?;
        }
        self.sync_rollout_status();
        Ok(())
    }

    fn stop_old(&mut self) -> Result<bool, Stop> {
        let active = self.old.iter().filter(|member| member.is_active());
        let sizes = active.map(|member| (member.clone(), 0)).collect();
        let scaled = self.scale(sizes, When::SizeDiffers, Rule::RecreateStopsOld)?;
        scaled.error.map_or(Ok(scaled.any), |error| Err(Stop::Failed(error)))
    }

    /// Upstream `oldPodsRunning`: a ReplicaSet's status no longer counts pods that terminate; they count here.
    fn old_pods_run(&self) -> Result<bool, Stop> {
        if self.old.iter().any(|member| member.status().is_some_and(|status| status.replicas > 0)) {
            return Ok(true);
        }
        if self.old.is_empty() {
            return Ok(false);
        }
        let unfinished = self.unfinished()?;
        Ok(self.old.iter().map(Member::uid).any(|uid| unfinished.contains(&uid)))
    }
}
