//! A change of size in the middle of a rollout, in proportion to what each ReplicaSet has
//! (upstream `pkg/controller/deployment/sync.go` `scale`, `pkg/controller/deployment/util` `GetReplicaSetProportion`).

use std::cmp::Reverse;

use model::Deployment;

use crate::fenceposts::Fenceposts;
use crate::member::Member;
use crate::scale::Sizes;

/// The new sizes of the active ReplicaSets; the largest one bears what is left over.
pub(crate) fn sizes(deployment: &Deployment, mut active: Vec<Member>) -> Sizes {
    let wanted = deployment.spec.replicas;
    let most = wanted.saturating_add(Fenceposts::of(&deployment.spec).max_surge);
    let allowed = if wanted > 0 { most } else { 0 };
    let total: i32 = active.iter().map(|member| member.replicas).sum();
    let to_add = allowed - total;
    if to_add == 0 {
        return active.into_iter().map(|member| (member.replicas, member)).map(|(size, member)| (member, size)).collect();
    }
    // Of equal ones the youngest grow first, and the oldest shrink first: by age, since after a rollback the new one is not the youngest.
    // The sorts are stable.
    active.sort_by(|one, other| one.age_order().cmp(&other.age_order()));
    if to_add > 0 {
        active.reverse();
    }
    active.sort_by_key(|member| Reverse(member.replicas));
    let mut added = 0;
    let mut sizes: Sizes = active
        .into_iter()
        .map(|member| {
            let part = proportion(deployment, &member, most, to_add, added);
            added += part;
            let size = member.replicas + part;
            (member, size)
        })
        .collect();
    if let Some((_, size)) = sizes.first_mut() {
        *size = (*size + to_add - added).max(0);
    }
    sizes
}

/// By how much one ReplicaSet grows or shrinks: its fraction, within what is still to be added.
fn proportion(deployment: &Deployment, member: &Member, most: i32, to_add: i32, added: i32) -> i32 {
    let left = to_add - added;
    if left == 0 {
        return 0;
    }
    let fraction = fraction(deployment, member, most);
    if to_add > 0 { fraction.min(left) } else { fraction.max(left) }
}

/// Upstream `getReplicaSetFraction`, in 64 bits where upstream's product overflows 32.
fn fraction(deployment: &Deployment, member: &Member, most: i32) -> i32 {
    if deployment.spec.replicas == 0 {
        return -member.replicas;
    }
    // Without the note of how many there might be before, those there are now have to do.
    let before = member.max_replicas().filter(|most| *most != 0).unwrap_or(deployment.status.replicas);
    if before == 0 {
        return 0;
    }
    let size = f64::from(member.replicas) * f64::from(most) / f64::from(before);
    size.round() as i32 - member.replicas
}
