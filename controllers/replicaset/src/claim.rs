//! Which pods are ours: keep, adopt, release (upstream `pkg/controller/controller_ref_manager.go` `ClaimObject`).

use std::sync::Arc;

use model::plan::{Action, Expect, Mode, ObjectRef, OnError, Outcomes, Own, Ownership, PODS, Plan, Rule, Stage, Step, SyncError};
use model::selector::Selector;
use model::{ControllerRef, Pod, ReplicaSet, Uid};

use crate::view::View;

/// The outcome of the claims.
#[derive(Debug, Default)]
pub(crate) struct Claimed {
    /// Active pods that are ours and match.
    pub(crate) active: Vec<Arc<Pod>>,
    /// What ends the sync before it looks at the replicas.
    pub(crate) error: Option<SyncError>,
}

/// What the rules say about one pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    Keep,
    Adopt,
    Release,
    Ignore,
}

/// What must be written before the pods are ours. Inactive pods are neither adopted nor released.
pub(crate) fn claims(view: &View, selector: &Selector) -> Vec<Step> {
    let owner = view.set.as_owner();
    active(view)
        .filter_map(|pod| {
            let (change, reason) = match claim(&view.set, selector, pod) {
                Claim::Adopt => (Ownership::Adopt, Rule::OrphanMatches),
                Claim::Release => (Ownership::Release, Rule::SelectorNoLongerMatches),
                Claim::Keep | Claim::Ignore => return None,
            };
            Some(Step { action: Action::Own(Own { target: pod_ref(pod), owner: owner.clone(), change }), reason })
        })
        .collect()
}

/// The claims as a plan. After a failed recheck only the releases are left: upstream fails every adoption then, and still releases.
pub(crate) fn plan(view: &View, steps: Vec<Step>) -> Plan {
    let refused = matches!(view.progress.may_adopt, Some(Err(_)));
    let steps = steps.into_iter().filter(|step| !(refused && is_adoption(step))).collect();
    Plan { stages: vec![Stage { steps, mode: Mode::OneByOne, on_error: OnError::GoOn, expect: Expect::Nothing }] }
}

/// Whether the step adds us as owner.
pub(crate) fn is_adoption(step: &Step) -> bool {
    matches!(&step.action, Action::Own(own) if own.change == Ownership::Adopt)
}

/// The owner as it is now, against the one the decision was made for.
pub(crate) fn may_adopt(set: &ReplicaSet, uid: Uid, deleting: bool) -> Result<(), String> {
    if uid != set.uid {
        return Err(format!("original ReplicaSet {} is gone: got uid {uid}, wanted {}", set.key, set.uid));
    }
    if deleting {
        return Err(format!("{} has just been deleted", set.key));
    }
    Ok(())
}

/// The pods that are ours after the claims were carried out.
pub(crate) fn claimed(view: &View, plan: &Plan, outcomes: &Outcomes) -> Claimed {
    let mut errors = Vec::new();
    let mut adopted: Vec<Uid> = Vec::new();
    let stages = plan.stages.iter().zip(&outcomes.0);
    for (step, outcome) in stages.flat_map(|(stage, outcomes)| stage.steps.iter().zip(outcomes)) {
        let Action::Own(own) = &step.action else { continue };
        match outcome.error() {
            None if own.change == Ownership::Adopt && outcome.is_done() => adopted.push(own.target.uid),
            None => {}
            // The pod is gone, or (on a release) is another one or has no owner any more.
            Some(error) if error.is_not_found() => {}
            Some(error) if own.change == Ownership::Release && error.is_invalid() => {}
            Some(error) => errors.push(error.to_string()),
        }
    }
    let Ok(selector) = &view.set.spec.selector else { return Claimed::default() };
    let refusal = view.progress.may_adopt.as_ref().and_then(|answer| answer.as_ref().err());
    let mut mine = Vec::new();
    for pod in active(view) {
        match claim(&view.set, selector, pod) {
            Claim::Keep => mine.push(pod.clone()),
            Claim::Adopt if adopted.contains(&pod.uid) => mine.push(pod.clone()),
            Claim::Adopt => {
                if let Some(why) = refusal {
                    errors.push(format!("can't adopt Pod {}/{} ({}): {why}", pod.namespace, pod.name, pod.uid));
                }
            }
            Claim::Release | Claim::Ignore => {}
        }
    }
    Claimed { active: mine, error: aggregate(errors) }
}

/// Terminating pods that are ours: they are never claimed anew, only counted (upstream `FilterClaimedPods`).
pub(crate) fn terminating(view: &View) -> usize {
    let Ok(selector) = &view.set.spec.selector else { return 0 };
    view.pods.iter().filter(|pod| pod.is_terminating() && pod.controller.is(view.set.uid) && selector.matches(&***pod)).count()
}

/// A pod as a plan names it.
pub(crate) fn pod_ref(pod: &Pod) -> ObjectRef {
    ObjectRef {
        resource: &PODS,
        key: model::ObjectKey { namespace: pod.namespace.clone(), name: Arc::from(&*pod.name) },
        uid: pod.uid,
        resource_version: pod.resource_version,
    }
}

fn active(view: &View) -> impl Iterator<Item = &Arc<Pod>> {
    view.pods.iter().filter(|pod| pod.is_active())
}

fn claim(set: &ReplicaSet, selector: &Selector, pod: &Pod) -> Claim {
    let matches = selector.matches(pod);
    match &pod.controller {
        ControllerRef::Foreign => Claim::Ignore,
        ControllerRef::Owner(owner) if owner.uid != set.uid => Claim::Ignore,
        ControllerRef::Owner(_) if matches => Claim::Keep,
        ControllerRef::Owner(_) if set.deletion.is_some() => Claim::Ignore,
        ControllerRef::Owner(_) => Claim::Release,
        ControllerRef::None if set.deletion.is_some() || !matches || pod.deletion.is_some() => Claim::Ignore,
        ControllerRef::None if pod.namespace != set.key.namespace => Claim::Ignore,
        ControllerRef::None => Claim::Adopt,
    }
}

/// Upstream `k8s.io/apimachinery/pkg/util/errors` `Aggregate`: one error stands alone, several are listed in brackets, each once.
fn aggregate(mut errors: Vec<String>) -> Option<SyncError> {
    let mut seen = std::collections::HashSet::new();
    errors.retain(|error| seen.insert(error.clone()));
    match errors.as_slice() {
        [] => None,
        [one] => Some(SyncError(one.clone())),
        many => Some(SyncError(format!("[{}]", many.join(", ")))),
    }
}
