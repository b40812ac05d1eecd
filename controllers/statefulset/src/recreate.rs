//! The update strategy `Recreate`: no pod of the new revision before the last old one is gone (upstream `stateful_set_control.go`
//! `recreateDeleteAndWait`).

use model::plan::{Mode, OnError, Plan, Rule, SyncError, Wait};

use crate::job::{aggregate, failure};
use crate::replicas::delete;
use crate::revisions::Revisions;
use crate::slots::{Slots, revision_of};
use crate::status;
use crate::sync::{Stop, Sync};

/// The condition's `type`.
pub(crate) const PROGRESSING: &str = "Progressing";
pub(crate) const RECREATE_IN_PROGRESS: &str = "RecreateInProgress";
pub(crate) const RECREATE_COMPLETED: &str = "RecreateCompleted";

// === impl Sync ===

impl Sync<'_> {
    /// Deletes all pods of other revisions, condemned ones too; whether they are gone.
    pub(crate) fn recreate(&mut self, slots: &Slots, revisions: &Revisions) -> Result<bool, Stop> {
        let old: Vec<_> = slots.pods().filter(|pod| revision_of(pod) != &*revisions.update).collect();
        if old.is_empty() {
            if revisions.current != revisions.update {
                self.note_progress("Waiting for new-revision pods to be created");
            }
            return Ok(true);
        }
        let count = i32::try_from(old.len()).unwrap_or(i32::MAX);
        self.waits.extend(old.first().map(|pod| Wait::on(Rule::OldPodsRun, &pod.name).counting(&[("old", count)])));
        let steps = old.into_iter().filter(|pod| pod.deletion.is_none()).map(|pod| delete(pod, Rule::RecreateStopsOld));
        let (plan, outcomes) = self.act(Plan::one_stage(steps.collect(), Mode::SlowStart, OnError::SkipRest))?;
        let availability = self.availability();
        if let Some(status) = &mut self.status {
            status::count(status, slots.pods(), revisions, availability);
        }
        let errors: Vec<_> = outcomes.of(&plan).filter_map(|(step, outcome)| failure(step, outcome)).collect();
        if !errors.is_empty() {
            return Err(Stop::Failed(SyncError(aggregate(&errors))));
        }
        self.note_progress("Deleting old revision pods");
        Ok(false)
    }

    fn note_progress(&mut self, message: &str) {
        let now = self.view.now;
        if let Some(status) = &mut self.status {
            status::set_condition(&mut status.conditions, PROGRESSING, "True", RECREATE_IN_PROGRESS, message, now);
        }
    }
}
