//! Recreate (upstream `pkg/controller/deployment/recreate.go`): no new pod before the last old one is gone.

use model::plan::{Rule, Wait};

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
    fn old_pods_run(&mut self) -> Result<bool, Stop> {
        let counted = self.old.iter().find(|member| member.status().is_some_and(|status| status.replicas > 0));
        let running = match counted {
            Some(member) => Some(member),
            None if self.old.is_empty() => None,
            None => {
                let unfinished = self.unfinished()?;
                self.old.iter().find(|member| unfinished.contains(&member.uid()))
            }
        };
        let Some(running) = running else { return Ok(false) };
        let status = running.status();
        let counted =
            [("pods", status.map(|status| status.replicas)), ("terminating", status.and_then(|status| status.terminating_replicas))];
        let figures: Vec<_> = counted.into_iter().filter_map(|(name, count)| Some((name, count.filter(|count| *count > 0)?))).collect();
        let wait = Wait::on(Rule::OldPodsRun, &running.key.name).counting(&figures);
        self.waits.push(wait);
        Ok(true)
    }
}
