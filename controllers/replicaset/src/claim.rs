//! Which pods are ours (upstream `pkg/controller/replicaset` `claimPods`). Inactive pods are neither adopted nor released.

use std::sync::Arc;

use model::Pod;
use model::ownership::{Claimable as _, Claimant};
use model::plan::{Mode, OnError, Plan, Step};
use model::selector::Selector;

use crate::view::View;

/// The ReplicaSet as a claimant.
pub(crate) fn claimant<'a>(view: &View, selector: &'a Selector) -> Claimant<'a> {
    let set = &view.set;
    Claimant { owner: set.reference(), owner_ref: set.as_owner(), is_deleting: set.deletion.is_some(), selector, named_after: None }
}

/// The claims as a plan. After a failed recheck only the releases are left: upstream fails every adoption then, and still releases.
pub(crate) fn plan(view: &View, mut steps: Vec<Step>) -> Plan {
    if matches!(view.progress.may_adopt, Some(Err(_))) {
        steps.retain(|step| !model::ownership::is_adoption(step));
    }
    Plan::one_stage(steps, Mode::OneByOne, OnError::GoOn)
}

/// Terminating pods that are ours: they are never claimed anew, only counted (upstream `FilterClaimedPods`).
pub(crate) fn terminating(view: &View) -> usize {
    let Ok(selector) = &view.set.spec.selector else { return 0 };
    view.pods.iter().filter(|pod| pod.is_terminating() && pod.controller.is(view.set.uid) && selector.matches(&***pod)).count()
}

/// The pods that are neither finished nor terminating.
pub(crate) fn active(view: &View) -> impl Iterator<Item = &Arc<Pod>> {
    view.pods.iter().filter(|pod| pod.is_active())
}
