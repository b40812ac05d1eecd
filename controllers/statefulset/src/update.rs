//! Pods of an outdated revision give way (upstream `stateful_set_control.go` `updateStatefulSetAfterInvariantEstablished`).

use std::sync::Arc;

use model::int_or_percent::Round;
use model::plan::{Mode, OnError, Outcome, Plan, Rule, SyncError};
use model::pod::parent_and_ordinal;
use model::statefulset::UpdateStrategyType;
use model::{Pod, StatefulSet};

use crate::identity::storage_matches;
use crate::job::failure;
use crate::replicas::delete;
use crate::revisions::Revisions;
use crate::slots::{Availability, Slots, revision_of};
use crate::sync::{Stop, Sync, failed};
use crate::view::Unavailable;

/// What an update looks at.
pub(crate) struct Update<'a> {
    set: &'a StatefulSet,
    slots: &'a Slots,
    target: &'a str,
    availability: Availability,
}

// === impl Sync ===

impl Sync<'_> {
    /// Deletes outdated pods, highest ordinal first; the next sync makes them anew.
    pub(crate) fn update_pods(&mut self, slots: &Slots, revisions: &Revisions) -> Result<(), Stop> {
        let update = Update { set: self.set, slots, target: &revisions.update, availability: self.availability() };
        if self.set.spec.update_strategy.r#type != UpdateStrategyType::RollingUpdate {
            self.wait_for_hands(&update);
            return Ok(());
        }
        let doomed = if self.view.gates.max_unavailable {
            let limit = max_unavailable(self.set).map_err(failed)?;
            let replicas = update.unavailable();
            self.unavailable = Some(Unavailable { replicas, limit });
            update.several(limit.saturating_sub(replicas))
        } else {
            update.next().into_iter().collect()
        };
        self.wait_for_update(&update, !doomed.is_empty());
        let steps = doomed.into_iter().map(|pod| delete(pod, Rule::RevisionOutdated)).collect();
        let (plan, outcomes) = self.act(Plan::one_stage(steps, Mode::OneByOne, OnError::SkipRest))?;
        for (step, outcome) in outcomes.of(&plan) {
            match failure(step, outcome) {
                Some(error) => return Err(Stop::Failed(SyncError(error))),
                None if matches!(outcome, Outcome::NotSent) => return Err(failed("not sent".to_owned())),
                None => {
                    if let Some(status) = &mut self.status {
                        status.current_replicas -= 1;
                    }
                }
            }
        }
        Ok(())
    }
}

// === impl Update ===

impl<'a> Update<'a> {
    /// The pods at or above the partition, highest first.
    fn targets(&self) -> impl Iterator<Item = &'a Arc<Pod>> {
        let set = self.set;
        self.slots.replicas.iter().rev().take_while(|(ordinal, _)| is_above_partition(set, **ordinal)).map(|(_, pod)| pod)
    }

    /// How many pods are outdated: at or above the partition, and below it.
    pub(crate) fn outdated_counts(&self) -> (i32, i32) {
        let outdated = self.slots.replicas.iter().filter(|(_, pod)| pod.deletion.is_none() && self.is_outdated(pod));
        outdated.fold(
            (0, 0),
            |(above, below), (ordinal, _)| {
                if is_above_partition(self.set, *ordinal) { (above + 1, below) } else { (above, below + 1) }
            },
        )
    }

    /// Of another revision, or without a volume that the set's pods have: neither can be changed in place.
    fn is_outdated(&self, pod: &Pod) -> bool {
        let ordinal = parent_and_ordinal(&pod.name).1;
        revision_of(pod) != self.target || ordinal.is_some_and(|ordinal| !storage_matches(self.set, pod, ordinal))
    }

    /// One at a time, when all above it are available (upstream, with the gate `MaxUnavailableStatefulSet` off).
    fn next(&self) -> Option<&'a Arc<Pod>> {
        for ordinal in self.set.spec.ordinals().rev().take_while(|ordinal| is_above_partition(self.set, *ordinal)) {
            // One that was only just made, or is about to be.
            let pod = self.slots.replicas.get(&ordinal)?;
            if self.is_outdated(pod) && pod.deletion.is_none() {
                return Some(pod);
            }
            if self.availability.is_unavailable(pod) {
                return None;
            }
        }
        None
    }

    /// Replicas that are missing, or not available.
    pub(crate) fn unavailable(&self) -> usize {
        let wanted = usize::try_from(self.set.spec.replicas).unwrap_or(0);
        let down = self.slots.replicas.values().filter(|pod| self.availability.is_unavailable(pod)).count();
        down + wanted.saturating_sub(self.slots.replicas.len())
    }

    /// As many as there is room for under maxUnavailable.
    fn several(&self, room: usize) -> Vec<&'a Arc<Pod>> {
        let outdated = || self.targets().filter(|pod| pod.deletion.is_none() && self.is_outdated(pod));
        if !self.set.spec.allows_burst() {
            return outdated().take(room).collect();
        }
        // Those that are down already cost nothing, so they go first, whatever the limit; then as many of the others as it leaves room for.
        let (well, down): (Vec<_>, Vec<_>) = outdated().partition(|pod| self.availability.is_available(pod));
        down.into_iter().chain(well.into_iter().take(room)).collect()
    }
}

/// Upstream `getStatefulSetMaxUnavailable`: one, unless more is asked for.
fn max_unavailable(set: &StatefulSet) -> Result<usize, String> {
    let rolling_update = set.spec.update_strategy.rolling_update.as_ref();
    let limit = match rolling_update.and_then(|rolling_update| rolling_update.max_unavailable.as_ref()) {
        None => 1,
        Some(limit) => limit
            .of(set.spec.replicas, Round::Down)
            .ok_or_else(|| format!("spec.updateStrategy.rollingUpdate.maxUnavailable: invalid value {limit:?}"))?,
    };
    Ok(usize::try_from(limit.max(1)).unwrap_or(1))
}

/// Whether an update concerns that ordinal.
pub(crate) fn is_above_partition(set: &StatefulSet, ordinal: i32) -> bool {
    set.spec.slot_of(ordinal) >= i64::from(partition(set))
}

/// The first slot that an update concerns.
pub(crate) fn partition(set: &StatefulSet) -> i32 {
    set.spec.update_strategy.rolling_update.as_ref().map_or(0, |rolling_update| rolling_update.partition)
}
