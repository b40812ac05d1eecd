//! Which pod stands where: one slot for each ordinal that is wanted, and the rest condemned (upstream `stateful_set_control.go`
//! `updateStatefulSet`).

use std::collections::BTreeMap;
use std::sync::Arc;

use model::labels::Labels as _;
use model::pod::{Phase, parent_and_ordinal};
use model::statefulset::REVISION_LABEL;
use model::{Pod, StatefulSet, Time, Uid};

/// A set's pods by what is to become of them.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    /// The pods that are there, by their ordinal. An ordinal that is wanted and not here is an empty slot.
    pub(crate) replicas: BTreeMap<i32, Arc<Pod>>,
    /// The pods that are not wanted, highest ordinal first.
    pub(crate) condemned: Vec<Arc<Pod>>,
}

/// How to tell whether a pod is available.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Availability {
    pub(crate) min_ready_seconds: i32,
    pub(crate) now: Time,
}

// === impl Slots ===

impl Slots {
    pub(crate) fn of(set: &StatefulSet, pods: &[Arc<Pod>]) -> Self {
        let mut slots = Self::default();
        let mut condemned = Vec::new();
        for pod in pods {
            match parent_and_ordinal(&pod.name).1 {
                Some(ordinal) if set.spec.wants(ordinal) => slots.take(set, ordinal, pod),
                Some(ordinal) => condemned.push((ordinal, pod.clone())),
                None => {}
            }
        }
        condemned.sort_by_key(|(ordinal, _)| std::cmp::Reverse(*ordinal));
        slots.condemned = condemned.into_iter().map(|(_, pod)| pod).collect();
        slots
    }

    /// Of `web-1` and `web-01` the one that is named as it should be; upstream takes whichever its cache lists last.
    fn take(&mut self, set: &StatefulSet, ordinal: i32, pod: &Arc<Pod>) {
        let is_taken = self.replicas.contains_key(&ordinal);
        if !is_taken || *pod.name == *set.pod_name(ordinal) {
            self.replicas.insert(ordinal, pod.clone());
        }
    }

    /// All of them.
    pub(crate) fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.replicas.values().chain(&self.condemned)
    }

    /// The pod that a scale-down must not wait for: the lowest condemned one that is unavailable, if every slot has an available pod.
    pub(crate) fn first_unavailable_condemned(&self, set: &StatefulSet, availability: Availability) -> Option<Uid> {
        let wanted = usize::try_from(set.spec.replicas).unwrap_or(0);
        if self.replicas.len() < wanted || self.replicas.values().any(|pod| availability.is_unavailable(pod)) {
            return None;
        }
        self.condemned.iter().rfind(|pod| availability.is_unavailable(pod)).map(|pod| pod.uid)
    }
}

// === impl Availability ===

impl Availability {
    /// Upstream `isRunningAndAvailable`, which does not look at the phase.
    pub(crate) fn is_available(self, pod: &Pod) -> bool {
        pod.is_available(self.min_ready_seconds, self.now)
    }

    /// Upstream `isUnavailable`.
    pub(crate) fn is_unavailable(self, pod: &Pod) -> bool {
        !self.is_available(pod) || pod.deletion.is_some()
    }
}

/// Upstream `isRunningAndReady`.
pub(crate) fn is_running_and_ready(pod: &Pod) -> bool {
    pod.phase == Phase::Running && pod.ready
}

/// The name of the revision that a pod was made from; empty if it does not say (upstream `getPodRevision`).
pub(crate) fn revision_of(pod: &Pod) -> &str {
    pod.get(REVISION_LABEL).unwrap_or_default()
}
