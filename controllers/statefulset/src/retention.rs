//! Who owns a pod's claims, so that they go when they should (upstream `stateful_set_utils.go` `isClaimOwnerUpToDate`,
//! `updateClaimOwnerRefForSetAndPod`).

use std::sync::Arc;

use model::claim::ClaimOwner;
use model::plan::{Action, Owner, PODS, Reown, Rule, STATEFULSETS, Step};
use model::{PersistentVolumeClaim, StatefulSet, Uid};

use crate::events::warning;
use crate::job::Job;
use crate::sync::Sync;

/// Whose claims are looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holder<'a> {
    pub(crate) name: &'a str,
    /// [`Uid::NONE`] for a pod that is about to be made.
    pub(crate) uid: Uid,
    pub(crate) ordinal: i32,
}

/// A claim's owners against those that the policy wants.
struct Owners<'a> {
    claim: &'a PersistentVolumeClaim,
    set: Owner,
    pod: Owner,
    /// The policy wants the set as an owner.
    wants_set: bool,
    /// The policy wants the pod as an owner.
    wants_pod: bool,
    retains: bool,
}

// === impl Sync ===

impl Sync<'_> {
    /// Whether every claim that is there has the owners that the policy wants.
    pub(crate) fn claims_match_retention_policy(&self, holder: Holder<'_>) -> bool {
        self.owners(holder).all(|owners| owners.are_up_to_date())
    }

    /// Has the owners of a pod's claims put right, and tells of those that another controller owns.
    pub(crate) fn fix_retention(&mut self, job: &mut Job, holder: Holder<'_>) {
        let mut events = Vec::new();
        for owners in self.owners(holder) {
            if owners.have_unexpected_controller() {
                let message = format!(
                    "PersistentVolumeClaim {} has a conflicting OwnerReference that acts as a manging controller, the retention policy is \
                     ignored for this claim",
                    owners.claim.name
                );
                events.push(warning("ConflictingController", message));
            }
            if !owners.are_up_to_date() {
                job.then.push(Step { action: Action::Reown(owners.reown()), reason: Rule::RetentionPolicy });
            }
        }
        self.events.append(&mut events);
    }

    fn owners<'s>(&'s self, holder: Holder<'s>) -> impl Iterator<Item = Owners<'s>> {
        let set = self.set;
        set.spec.claim_templates.iter().filter_map(move |template| {
            let claim = self.view.claims.get(&set.claim_name(template, holder.ordinal))?;
            Some(Owners::of(set, claim, holder))
        })
    }
}

// === impl Owners ===

impl<'a> Owners<'a> {
    fn of(set: &StatefulSet, claim: &'a PersistentVolumeClaim, holder: Holder<'_>) -> Self {
        let policy = set.spec.retention_policy;
        let is_condemned = !set.spec.wants(holder.ordinal);
        Self {
            claim,
            set: Owner { resource: &STATEFULSETS, name: set.key.name.clone(), uid: set.uid },
            pod: Owner { resource: &PODS, name: Arc::from(holder.name), uid: holder.uid },
            wants_set: policy.delete_with_set && !(policy.delete_when_scaled && is_condemned),
            wants_pod: policy.delete_when_scaled && is_condemned,
            retains: !policy.delete_with_set && !policy.delete_when_scaled,
        }
    }

    fn are_up_to_date(&self) -> bool {
        if self.has_stale(&self.set) || self.has_stale(&self.pod) {
            // Those of an earlier set or pod, which take the claim with them.
            return true;
        }
        if self.have_unexpected_controller() {
            return !self.has(&self.set) && !self.has(&self.pod);
        }
        let has_plain_owner = self.claim.owners().iter().any(|owner| !owner.controller && (is(owner, &self.set) || is(owner, &self.pod)));
        !has_plain_owner && self.has(&self.set) == self.wants_set && self.has(&self.pod) == self.wants_pod
    }

    /// Upstream `hasUnexpectedController`.
    fn have_unexpected_controller(&self) -> bool {
        !self.retains
            && self.claim.owners().iter().any(|owner| match [&self.set, &self.pod].into_iter().find(|ours| names(owner, ours)) {
                Some(ours) => !is(owner, ours),
                None => owner.controller,
            })
    }

    /// Upstream `hasStaleOwnerRef`: the first reference of that name counts.
    fn has_stale(&self, owner: &Owner) -> bool {
        self.claim.owners().iter().find(|reference| names(reference, owner)).is_some_and(|reference| !is(reference, owner))
    }

    fn has(&self, owner: &Owner) -> bool {
        self.claim.owners().iter().any(|reference| is(reference, owner))
    }

    fn reown(&self) -> Reown {
        let wanted = [(&self.set, self.wants_set), (&self.pod, self.wants_pod)];
        let add = wanted.into_iter().find_map(|(owner, is_wanted)| is_wanted.then(|| owner.clone()));
        Reown {
            target: self.claim.reference(),
            remove: vec![self.set.clone(), self.pod.clone()],
            add: add.filter(|_| !self.have_unexpected_controller()),
        }
    }
}

/// Whether a reference is to something of that kind and name (upstream `matchesRef`).
pub(crate) fn names(reference: &ClaimOwner, owner: &Owner) -> bool {
    *reference.name == *owner.name && *reference.kind == *owner.resource.kind && *reference.api_version == *owner.resource.api_version()
}

fn is(reference: &ClaimOwner, owner: &Owner) -> bool {
    owner.uid != Uid::NONE && reference.uid == owner.uid
}
