//! Revisions beyond the history limit (upstream `stateful_set_control.go` `truncateHistory`).

use std::collections::HashSet;

use model::labels::Labels as _;
use model::plan::{Action, Delete, Mode, OnError, Plan, Rule, Step, SyncError};
use model::statefulset::REVISION_LABEL;

use crate::job::failure;
use crate::sync::{Stop, Sync};

// === impl Sync ===

impl Sync<'_> {
    /// Of the revisions that nothing names, the oldest beyond the limit are deleted; after a failed sync too.
    pub(crate) fn truncate_history(&mut self) -> Result<(), Stop> {
        let limit = self.set.spec.revision_history_limit.and_then(|limit| usize::try_from(limit).ok());
        let Some(limit) = limit else { return Ok(()) };
        let mut live: HashSet<&str> = self.pods.iter().filter_map(|pod| pod.get(REVISION_LABEL)).collect();
        // Upstream deletes what its status names if it could not decide on the revisions.
        let status = &self.set.status;
        live.extend(match &self.decided {
            Some(decided) => [&*decided.current, &*decided.update],
            None => [&*status.current_revision, &*status.update_revision],
        });
        let history: Vec<_> = self.revisions.iter().filter(|revision| !live.contains(&*revision.name)).collect();
        let excess = history.len().saturating_sub(limit);
        let steps = history.into_iter().take(excess).map(|revision| Step {
            action: Action::Delete(Delete { target: revision.reference(), at_version: false }),
            reason: Rule::RevisionHistoryLimit,
        });
        let (plan, outcomes) = self.act(Plan::one_stage(steps.collect(), Mode::OneByOne, OnError::SkipRest))?;
        let error = outcomes.of(&plan).find_map(|(step, outcome)| failure(step, outcome));
        error.map_or(Ok(()), |error| Err(Stop::Failed(SyncError(error))))
    }
}
