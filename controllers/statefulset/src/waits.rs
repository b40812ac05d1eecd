//! Why a set is not as it should be although nothing more is done.

use std::sync::Arc;

use model::Pod;
use model::plan::{Rule, Wait};
use model::pod::available_by;
use model::statefulset::UpdateStrategyType;

use crate::slots::{Slots, is_running_and_ready};
use crate::sync::Sync;
use crate::update::{Update, partition};
use crate::view::Unavailable;

// === impl Sync ===

impl Sync<'_> {
    /// A pod that the next one must wait for.
    pub(crate) fn wait_for(&mut self, pod: &Arc<Pod>) {
        let seconds = self.set.spec.min_ready_seconds;
        let wait = if pod.deletion.is_some() {
            Wait::on(Rule::PodTerminating, &pod.name)
        } else if is_running_and_ready(pod) {
            let until = available_by([pod], seconds, self.view.now);
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
        // Every other pod is available, or it would be waited for first.
        let availability = self.availability();
        let others = slots.condemned.iter().skip(1).filter(|pod| availability.is_unavailable(pod));
        self.waits.push(Wait::on(Rule::ScaleDownHeld, &highest.name).saying(names(others)));
    }

    /// Where pods have no regard to each other.
    pub(crate) fn wait_for_burst(&mut self, slots: &Slots) {
        let (wanted, seconds) = (self.set.spec.replicas, self.set.spec.min_ready_seconds);
        let availability = self.availability();
        let [mut terminating, mut ready, mut available] = [0; 3];
        for pod in slots.replicas.values() {
            let is_ready = pod.deletion.is_none() && is_running_and_ready(pod);
            terminating += i32::from(pod.deletion.is_some());
            ready += i32::from(is_ready);
            available += i32::from(is_ready && availability.is_available(pod));
        }
        if let Some(first) = slots.replicas.values().find(|pod| terminating > 0 && pod.deletion.is_some()) {
            self.waits.push(Wait::on(Rule::PodTerminating, &first.name).counting(&[("terminating", terminating)]));
        }
        if ready + terminating < wanted {
            let unready = slots.replicas.values().filter(|pod| pod.deletion.is_none() && !is_running_and_ready(pod));
            let figures = [("desired", wanted), ("pods", whole(slots.replicas.len())), ("ready", ready)];
            self.waits.push(Wait::new(Rule::PodsNotReady).counting(&figures).saying(names(unready)));
        }
        if available < ready {
            let until = available_by(slots.replicas.values().filter(|pod| pod.deletion.is_none()), seconds, self.view.now);
            let figures = [("ready", ready), ("available", available), ("minReadySeconds", seconds)];
            self.waits.push(Wait::new(Rule::MinReadySeconds).counting(&figures).until(until));
        }
    }

    /// Outdated pods that are replaced by nobody here.
    pub(crate) fn wait_for_hands(&mut self, update: &Update<'_>) {
        let (above, below) = update.outdated_counts();
        if self.set.spec.update_strategy.r#type == UpdateStrategyType::OnDelete && above + below > 0 {
            self.waits.push(Wait::new(Rule::OnDelete).counting(&[("outdated", above + below)]));
        }
    }

    /// Outdated pods that are left as they are for now.
    pub(crate) fn wait_for_update(&mut self, update: &Update<'_>, goes_on: bool) {
        let (above, below) = update.outdated_counts();
        if above > 0 && !goes_on {
            let Unavailable { replicas, limit } =
                self.unavailable.unwrap_or_else(|| Unavailable { replicas: update.unavailable(), limit: 1 });
            let figures = [("outdated", above), ("unavailable", whole(replicas)), ("maxUnavailable", whole(limit))];
            self.waits.push(Wait::new(Rule::MaxUnavailable).counting(&figures));
        }
        if below > 0 {
            self.waits.push(Wait::new(Rule::Partition).counting(&[("partition", partition(self.set)), ("outdated", below)]));
        }
    }
}

/// So many names are enough to go on with.
const SHOWN: usize = 5;

fn names<'a>(pods: impl Iterator<Item = &'a Arc<Pod>>) -> String {
    pods.map(|pod| &*pod.name).take(SHOWN).collect::<Vec<_>>().join(", ")
}

fn whole(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
