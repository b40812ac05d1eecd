//! Pods beyond the wanted ordinals (upstream `stateful_set_control.go` `processCondemned`).

use std::sync::Arc;

use model::Pod;
use model::plan::Rule;
use model::pod::parent_and_ordinal;

use crate::job::Job;
use crate::replicas::delete;
use crate::retention::Holder;
use crate::slots::{Slots, is_running_and_ready};
use crate::sync::Sync;

// === impl Sync ===

impl Sync<'_> {
    /// Before a pod goes, its claims must know whether they go with it.
    pub(crate) fn condemned_claims(&mut self, slots: &Slots) -> Vec<Job> {
        let mut jobs = Vec::new();
        for pod in &slots.condemned {
            let Some(ordinal) = parent_and_ordinal(&pod.name).1 else { continue };
            let holder = Holder { name: &pod.name, uid: pod.uid, ordinal };
            if !self.claims_match_retention_policy(holder) {
                let mut job = Job::of(&*pod.name);
                self.fix_retention(&mut job, holder);
                jobs.push(job);
            }
        }
        jobs
    }

    /// In order, the highest goes once it is known that nothing before it needs waiting for; otherwise all go.
    pub(crate) fn condemned(&self, slots: &Slots) -> Vec<Job> {
        let scale_down = |pod: &Arc<Pod>| Job::step(&*pod.name, delete(pod, Rule::ScaledDown));
        if self.set.spec.allows_burst() {
            return slots.condemned.iter().filter(|pod| pod.deletion.is_none()).map(scale_down).collect();
        }
        let Some(highest) = slots.condemned.first() else { return Vec::new() };
        let availability = self.availability();
        let is_well = is_running_and_ready(highest) && availability.is_available(highest);
        // Nothing becomes of one that has finished; two of them would wait for each other.
        let is_over = highest.is_finished();
        let is_first_unavailable = slots.first_unavailable_condemned(self.set, availability) == Some(highest.uid);
        let may_go = highest.deletion.is_none() && (is_well || is_over || is_first_unavailable);
        if may_go { vec![scale_down(highest)] } else { Vec::new() }
    }
}
