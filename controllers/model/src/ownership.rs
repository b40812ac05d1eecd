//! Which children are an owner's: keep, adopt, release (upstream `pkg/controller/controller_ref_manager.go`).

use std::collections::HashSet;
use std::sync::Arc;

use crate::meta::{ControllerRef, OwnerRef, Uid};
use crate::object::Object;
use crate::plan::{Action, Answer, ObjectRef, Outcomes, Own, Ownership, Plan, Rule, Step, SyncError};
use crate::pod;
use crate::selector::Selector;

/// An object that is adopted and released by labels.
pub trait Claimable: Object {
    /// Whether it has a deletionTimestamp.
    fn is_deleting(&self) -> bool;
    /// The object as a plan names it.
    fn reference(&self) -> ObjectRef;
}

/// Who claims, and by what.
#[derive(Clone, Debug)]
pub struct Claimant<'a> {
    /// The owner.
    pub owner: ObjectRef,
    /// What its children name.
    pub owner_ref: Arc<OwnerRef>,
    /// Whether it has a deletionTimestamp.
    pub is_deleting: bool,
    /// What its children must match.
    pub selector: &'a Selector,
    /// The name that its children's names must begin with, before a hyphen and their ordinal, if there is such a rule.
    pub named_after: Option<&'a str>,
}

/// What the rules say about one child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    Keep,
    Adopt,
    Release,
    Ignore,
}

/// What became of the claims.
#[derive(Debug)]
pub struct Claimed<T> {
    /// The children that are the owner's now.
    pub mine: Vec<Arc<T>>,
    /// What ends the sync before it looks at them.
    pub error: Option<SyncError>,
}

// === impl Claimant ===

impl Claimant<'_> {
    /// What must be written before the children are the owner's.
    pub fn steps<'t, T: Claimable>(&self, children: impl Iterator<Item = &'t Arc<T>>) -> Vec<Step> {
        let steps = children.filter_map(|child| {
            let (change, reason) = match self.claim(&**child) {
                Claim::Adopt => (Ownership::Adopt, Rule::OrphanMatches),
                Claim::Release => (Ownership::Release, Rule::SelectorNoLongerMatches),
                Claim::Keep | Claim::Ignore => return None,
            };
            Some(Step { action: Action::Own(Own { target: child.reference(), owner: self.owner_ref.clone(), change }), reason })
        });
        steps.collect()
    }

    /// What an answer to [`crate::plan::Question::MayAdopt`] means: the owner as it is now, against the one the decision was made for.
    ///
    /// # Errors
    /// Why nothing may be adopted.
    pub fn may_adopt(&self, answer: &Answer) -> Result<(), String> {
        let ObjectRef { resource, key, uid, .. } = &self.owner;
        match answer {
            Answer::Owner { uid: live, .. } if live != uid => {
                Err(format!("original {} {key} is gone: got uid {live}, wanted {uid}", resource.kind))
            }
            Answer::Owner { deleting: true, .. } => Err(format!("{key} has just been deleted")),
            Answer::Owner { .. } => Ok(()),
            Answer::Failed(error) => Err(format!("can't recheck DeletionTimestamp: {error}")),
            Answer::Object(_) => Err("can't recheck DeletionTimestamp: the question was not asked".to_owned()),
        }
    }

    /// The children that are the owner's after the claims were carried out. `refusal` says why nothing was adopted.
    pub fn claimed<'t, T: Claimable>(
        &self,
        children: impl Iterator<Item = &'t Arc<T>>,
        refusal: Option<&str>,
        plan: &Plan,
        outcomes: &Outcomes,
    ) -> Claimed<T> {
        let (adopted, mut errors) = adopted(plan, outcomes);
        let mut mine = Vec::new();
        for child in children {
            match self.claim(&**child) {
                Claim::Keep => mine.push(child.clone()),
                Claim::Adopt if adopted.contains(&child.uid()) => mine.push(child.clone()),
                Claim::Adopt => {
                    if let Some(why) = refusal {
                        let ObjectRef { resource, key, uid, .. } = child.reference();
                        errors.push(format!("can't adopt {} {key} ({uid}): {why}", resource.kind));
                    }
                }
                Claim::Release | Claim::Ignore => {}
            }
        }
        Claimed { mine, error: aggregate(errors) }
    }

    /// Upstream `ClaimObject`.
    fn claim(&self, child: &impl Claimable) -> Claim {
        let is_member = self.named_after.is_none_or(|owner| pod::parent_and_ordinal(child.name()).0 == owner);
        let matches = is_member && self.selector.matches(child.labels());
        match child.controller() {
            ControllerRef::Foreign => Claim::Ignore,
            ControllerRef::Owner(owner) if owner.uid != self.owner.uid => Claim::Ignore,
            ControllerRef::Owner(_) if matches => Claim::Keep,
            ControllerRef::Owner(_) if self.is_deleting => Claim::Ignore,
            ControllerRef::Owner(_) => Claim::Release,
            ControllerRef::None if self.is_deleting || !matches || child.is_deleting() => Claim::Ignore,
            ControllerRef::None if *child.namespace() != self.owner.key.namespace => Claim::Ignore,
            ControllerRef::None => Claim::Adopt,
        }
    }
}

/// Whether the step adds an owner.
pub fn is_adoption(step: &Step) -> bool {
    matches!(&step.action, Action::Own(own) if own.change == Ownership::Adopt)
}

/// Who was adopted, and what failed.
fn adopted(plan: &Plan, outcomes: &Outcomes) -> (Vec<Uid>, Vec<String>) {
    let (mut adopted, mut errors) = (Vec::new(), Vec::new());
    for (step, outcome) in outcomes.of(plan) {
        let Action::Own(own) = &step.action else { continue };
        match outcome.error() {
            None if own.change == Ownership::Adopt && outcome.is_done() => adopted.push(own.target.uid),
            None => {}
            // The child is gone, or (on a release) is another one or has no owner any more.
            Some(error) if error.is_not_found() => {}
            Some(error) if own.change == Ownership::Release && error.is_invalid() => {}
            Some(error) => errors.push(error.to_string()),
        }
    }
    (adopted, errors)
}

/// Upstream `k8s.io/apimachinery/pkg/util/errors` `Aggregate`: one error stands alone, several are listed in brackets, each once.
fn aggregate(mut errors: Vec<String>) -> Option<SyncError> {
    let mut seen = HashSet::new();
    errors.retain(|error| seen.insert(error.clone()));
    match errors.as_slice() {
        [] => None,
        [one] => Some(SyncError(one.clone())),
        many => Some(SyncError(format!("[{}]", many.join(", ")))),
    }
}
