//! `RollingUpdate` (upstream `pkg/controller/deployment/rolling.go`).

use model::plan::{Rule, Wait};

use crate::fenceposts::Fenceposts;
use crate::member::Member;
use crate::scale::{Scaled, Sizes, When};
use crate::sync::{Stop, Sync};

// === impl Sync ===

impl Sync<'_> {
    /// Upstream `rolloutRolling`: up if that is possible, else down, else the history is cleaned up once all is done.
    pub(crate) fn rollout_rolling(&mut self) -> Result<(), Stop> {
        if self.new.is_none() {
            self.sync_or_create()?;
        }
        if !self.reconcile_new_replica_set()? && !self.reconcile_old_replica_sets()? && self.is_complete(&self.status) {
            self.clean_up_history()?;
        }
        self.sync_rollout_status();
        Ok(())
    }

    fn reconcile_new_replica_set(&mut self) -> Result<bool, Stop> {
        let Some(new) = self.new.clone() else { return Ok(false) };
        let wanted = self.deployment.spec.replicas;
        let size = if new.replicas > wanted { wanted } else { self.new_replicas(new.replicas).map_err(crate::sync::failed)? };
        if size < wanted {
            let ceiling = wanted + Fenceposts::of(&self.deployment.spec).max_surge;
            let total = self.total() - new.replicas + size;
            let figures = [("desired", wanted), ("new", size), ("total", total), ("replicas+maxSurge", ceiling)];
            self.waits.push(Wait::on(Rule::SurgeCeiling, &new.key.name).counting(&figures));
        }
        let scaled = self.scale(vec![(new, size)], When::SizeDiffers, Rule::NewReplicaSetSize)?;
        scaled.error.map_or(Ok(scaled.any), |error| Err(Stop::Failed(error)))
    }

    /// What is unavailable goes first, since that costs nothing; then what is available beyond the minimum.
    fn reconcile_old_replica_sets(&mut self) -> Result<bool, Stop> {
        let Some(new) = &self.new else { return Ok(false) };
        if self.old.iter().all(|member| !member.is_active()) {
            return Ok(false);
        }
        let new_unavailable = new.replicas - new.available();
        let at_most = self.total() - self.min_available() - new_unavailable;
        if at_most <= 0 {
            self.wait_for_availability();
            return Ok(false);
        }
        let (sizes, behind) = self.without_unhealthy(at_most);
        let unhealthy = self.scale(sizes, When::SizeDiffers, Rule::UnhealthyOldReplicas)?;
        // A status that is behind a scale-down: nothing more is taken from the old ones before it has caught up.
        if !self.goes_on(&unhealthy) || behind.is_some() {
            self.waits.extend(behind);
            return Ok(false);
        }
        let sizes = self.without_surplus();
        let surplus = self.scale(sizes, When::SizeDiffers, Rule::OldReplicasNotNeeded)?;
        // What this sync has taken is still counted as available.
        if !unhealthy.any && !surplus.any && self.old.iter().any(Member::is_active) {
            self.wait_for_availability();
        }
        Ok(self.goes_on(&surplus) && (unhealthy.any || surplus.any))
    }

    fn wait_for_availability(&mut self) {
        let available: i32 = self.all().map(Member::available).sum();
        let old: i32 = self.old.iter().map(|member| member.replicas).sum();
        let figures = [
            ("desired", self.deployment.spec.replicas),
            ("old", old),
            ("available", available),
            ("replicas-maxUnavailable", self.min_available()),
        ];
        self.waits.push(Wait::new(Rule::AvailabilityFloor).counting(&figures));
    }

    fn total(&self) -> i32 {
        self.all().map(|member| member.replicas).sum()
    }

    /// Upstream takes a failure here for "not scaled" and leaves it to the next event; here the sync is tried again besides.
    fn goes_on(&mut self, scaled: &Scaled) -> bool {
        self.late_error = self.late_error.take().or_else(|| scaled.error.clone());
        scaled.error.is_none()
    }

    fn min_available(&self) -> i32 {
        self.deployment.spec.replicas - Fenceposts::of(&self.deployment.spec).max_unavailable
    }

    /// Upstream `cleanupUnhealthyReplicas`, oldest first, up to one that claims more available pods than it wants, for whose status there
    /// is a wait then.
    fn without_unhealthy(&self, at_most: i32) -> (Sizes, Option<Wait>) {
        let mut left = at_most;
        let mut sizes = Vec::new();
        for member in self.old.iter().filter(|member| member.is_active()) {
            if left <= 0 {
                break;
            }
            let unhealthy = member.replicas - member.available();
            if unhealthy < 0 {
                let figures = [("size", member.replicas), ("available", member.available())];
                return (sizes, Some(Wait::on(Rule::ReplicaSetStatusBehind, &member.key.name).counting(&figures)));
            }
            let fewer = unhealthy.min(left);
            left -= fewer;
            sizes.push((member.clone(), member.replicas - fewer));
        }
        (sizes, None)
    }

    /// Upstream `scaleDownOldReplicaSetsForRollingUpdate`, oldest first.
    fn without_surplus(&self) -> Sizes {
        let available: i32 = self.all().map(Member::available).sum();
        let mut left = available - self.min_available();
        let mut sizes = Vec::new();
        for member in self.old.iter().filter(|member| member.is_active()) {
            if left <= 0 {
                break;
            }
            let fewer = member.replicas.min(left);
            left -= fewer;
            sizes.push((member.clone(), member.replicas - fewer));
        }
        sizes
    }
}
