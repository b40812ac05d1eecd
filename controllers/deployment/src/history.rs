//! Old ReplicaSets beyond the history limit (upstream `pkg/controller/deployment/sync.go` `cleanupDeployment`).

use std::cmp::Ordering;

use model::plan::{Action, Delete, Outcome, Rule, Step, SyncError};

use crate::member::Member;
use crate::sync::{Stop, Sync};

// === impl Sync ===

impl Sync<'_> {
    /// Of the first so many by revision as are too many, those are deleted that are at rest at zero. The others are not made up for by later ones.
    pub(crate) fn clean_up_history(&mut self) -> Result<(), Stop> {
        let Some(limit) = self.deployment.spec.history_limit() else { return Ok(()) };
        let mut old: Vec<&Member> = self.old.iter().filter(|member| member.set().is_some_and(|set| set.deletion.is_none())).collect();
        let excess = old.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        if excess == 0 {
            return Ok(());
        }
        old.sort_by(|one, other| by_revision(one, other));
        let doomed = old.into_iter().take(excess).filter(|member| is_at_rest(member));
        let steps = doomed.map(|member| Step {
            // At the version that was found at rest: someone may be scaling it up again.
            action: Action::Delete(Delete { target: member.reference(), at_version: true }),
            reason: Rule::RevisionHistoryLimit,
        });
        for outcome in self.act(steps.collect())? {
            match outcome {
                Outcome::Failed(error) | Outcome::Unknown(error) if !error.is_not_found() => {
                    return Err(Stop::Failed(SyncError(error.to_string())));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Upstream `ReplicaSetsByRevision`.
fn by_revision(one: &Member, other: &Member) -> Ordering {
    match (one.revision(), other.revision()) {
        (Some(one), Some(other)) if one != other => one.cmp(&other),
        _ => one.age_order().cmp(&other.age_order()),
    }
}

fn is_at_rest(member: &Member) -> bool {
    let Some(set) = member.set() else { return false };
    member.replicas == 0 && set.spec.replicas == 0 && set.status.replicas == 0 && set.generation <= set.status.observed_generation
}
