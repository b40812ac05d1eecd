//! Why a set is not as it should be although nothing more is done.

use std::slice;
use std::sync::Arc;

use model::Pod;
use model::plan::{Rule, Wait};
use model::pod::next_availability_check;
use model::statefulset::UpdateStrategyType;

use crate::slots::{Slots, is_running_and_ready};
use crate::sync::Sync;
use crate::update::Update;

// === impl Sync ===

impl Sync<'_> {
    /// A pod that the next one must wait for.
    pub(crate) fn wait_for(&mut self, pod: &Arc<Pod>) {
        let seconds = self.set.spec.min_ready_seconds;
        let wait = if pod.deletion.is_some() {
            Wait::on(Rule::PodTerminating, &pod.name)
        } else if is_running_and_ready(pod) {
            let left = next_availability_check(slice::from_ref(pod), seconds, self.view.now);
            let until = left.map(|left| self.view.now.after(left));
            Wait::on(Rule::MinReadySeconds, &pod.name).counting(&[("minReadySeconds", seconds)]).until(until)
        } else {
            Wait::on(Rule::PodNotAvailable, &pod.name)
        };
        self.waits.push(wait);
    }

    /// Where pods go one after the other: the highest that is still there, and whether it may not even be deleted.
    pub(crate) fn wait_for_condemned(&mut self, slots: &Slots, goes: bool) {
        let Some(highest) = slots.condemned.first() else { return };
        if goes || highest.deletion.is_some() {
            self.waits.push(Wait::on(Rule::PodTerminating, &highest.name));
            return;
        }
        let availability = self.availability();
        let is_down = |pod: &&Arc<Pod>| availability.is_unavailable(pod) && pod.uid != highest.uid;
        let down: Vec<_> = slots.pods().filter(is_down).map(|pod| &*pod.name).take(SHOWN).collect();
        let empty = self.set.spec.ordinals().filter(|ordinal| !slots.replicas.contains_key(ordinal)).take(SHOWN);
        let missing: Vec<_> = empty.map(|ordinal| self.set.pod_name(ordinal)).collect();
        let others = down.into_iter().chain(missing.iter().map(String::as_str)).collect::<Vec<_>>().join(", ");
        self.waits.push(Wait::on(Rule::ScaleDownHeld, &highest.name).saying(others));
    }

    /// Where pods have no regard to each other.
    pub(crate) fn wait_for_burst(&mut self) {
        let Some(status) = &self.status else { return };
        let wanted = self.set.spec.replicas;
        let figures = [("desired", wanted), ("pods", status.replicas), ("ready", status.ready_replicas)];
        if status.ready_replicas < wanted {
            self.waits.push(Wait::new(Rule::PodsNotReady).counting(&figures));
        } else if status.available_replicas < status.ready_replicas {
            let seconds = self.set.spec.min_ready_seconds;
            let until = next_availability_check(&self.pods, seconds, self.view.now).map(|left| self.view.now.after(left));
            let figures = [("ready", status.ready_replicas), ("available", status.available_replicas), ("minReadySeconds", seconds)];
            self.waits.push(Wait::new(Rule::MinReadySeconds).counting(&figures).until(until));
        }
    }

    /// Outdated pods that are left as they are.
    pub(crate) fn wait_for_update(&mut self, update: &Update<'_>, doomed: usize) {
        let (above, below) = update.outdated_counts();
        if self.set.spec.update_strategy.r#type != UpdateStrategyType::RollingUpdate {
            if above + below > 0 {
                self.waits.push(Wait::new(Rule::OnDelete).counting(&[("outdated", above + below)]));
            }
            return;
        }
        if above > 0 && doomed == 0 {
            let unavailable = self.status.as_ref().map_or(0, |status| self.set.spec.replicas - status.available_replicas);
            self.waits.push(Wait::new(Rule::MaxUnavailable).counting(&[("outdated", above), ("unavailable", unavailable)]));
        }
        let partition = self.set.spec.update_strategy.rolling_update.as_ref().map_or(0, |rolling_update| rolling_update.partition);
        if below > 0 {
            self.waits.push(Wait::new(Rule::Partition).counting(&[("partition", partition), ("outdated", below)]));
        }
    }
}

/// So many names are enough to go on with.
const SHOWN: usize = 5;
