//! Why a ReplicaSet is not as it should be although nothing more is done.

use std::sync::Arc;

use model::plan::{Rule, Wait};
use model::pod::available_by;
use model::replicaset::ReplicaSetStatus;
use model::{Pod, Time};

use crate::decide::BURST_REPLICAS;
use crate::view::View;

/// What the sync leaves open. `active` are the pods as they were before this sync made or deleted any.
pub(crate) fn of(view: &View, active: &[Arc<Pod>], status: &ReplicaSetStatus, now: Time) -> Vec<Wait> {
    let wanted = view.set.spec.replicas;
    let there = i32::try_from(active.len()).unwrap_or(i32::MAX);
    if view.set.deletion.is_some() {
        return vec![Wait::new(Rule::BeingDeleted).counting(&[("pods", there)])];
    }
    let mut waits = Vec::new();
    let count = |rule| Wait::new(rule).counting(&[("desired", wanted), ("pods", there)]);
    if !view.expectations_satisfied {
        waits.push(count(Rule::WritesNotSeen));
    } else if view.progress.managed.as_ref().is_some_and(|managed| managed.is_unwelcome) {
        waits.push(count(Rule::NamespaceTerminating));
    } else if usize::try_from(wanted.abs_diff(there)).unwrap_or(usize::MAX) > BURST_REPLICAS {
        waits.push(count(Rule::BurstLimit));
    }
    let ready = status.ready_replicas;
    if ready < there.min(wanted) {
        waits.push(count(Rule::PodsNotReady).counting(&[("ready", ready)]));
    }
    if status.available_replicas < ready {
        let seconds = view.set.spec.min_ready_seconds;
        let until = available_by(active, seconds, now);
        let figures = [("ready", ready), ("available", status.available_replicas), ("minReadySeconds", seconds)];
        waits.push(Wait::new(Rule::MinReadySeconds).counting(&figures).until(until));
    }
    waits
}
